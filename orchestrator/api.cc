#include "orchestrator/api.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "orchestrator/answers.h"
#include "orchestrator/explain.h"
#include "orchestrator/journal_pulse.h"
#include "orchestrator/node_json.h"
#include "orchestrator/page.h"
#include "orchestrator/run_json.h"
#include "orchestrator/run_records.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kBase = "/api/v1/";
constexpr int kMostRuns = 1000;
constexpr int kDefaultRuns = 100;
constexpr int kMostStepRows = 2000;
constexpr std::uint64_t kMostLogBytes = 256 * 1024;

// Thrown for a query that cannot be read: 400.
struct BadQuery {
  std::string message;
};

std::int64_t query_integer(const Request& request, const std::string& name, std::int64_t absent,
                           std::int64_t low, std::int64_t high) {
  const auto it = request.query.find(name);
  if (it == request.query.end()) return absent;
  const auto value = base::parse_integer(it->second);
  if (!value || *value < low || *value > high) {
    throw BadQuery{name + " is '" + base::printable(it->second.substr(0, 50)) +
                   "'; use a whole number from " + std::to_string(low) + " to " +
                   std::to_string(high)};
  }
  return *value;
}

// Whole UTF-8 sequences only, so that a character cut by the limit comes with the next call. Bytes
// that are not UTF-8 at all are passed on (and replaced in the JSON).
std::size_t whole_characters(const std::string& text) {
  std::size_t end = text.size();
  for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if (byte < 0x80) break;
    if (byte >= 0xC0) {
      const std::size_t wanted = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
      if (wanted > back) end = text.size() - back;
      break;
    }
  }
  return end;
}

}  // namespace

Response Api::handle(const Request& request) {
  try {
    if (request.path.rfind(kBase, 0) != 0) {
      if (request.path == "/api" || request.path.rfind("/api/", 0) == 0) {
        return error_response(404, "not_found", "no such address; the API is under /api/v1");
      }
      if (request.method != "GET") return wrong_method("GET");
      return serve_page(request, page_directory_);
    }
    return route(
        request,
        base::split(std::string_view(request.path).substr(std::string(kBase).size()), '/'));
  } catch (const BadQuery& error) {
    return error_response(400, "user", error.message);
  } catch (const base::Error& error) {
    const base::CodeMeaning meaning = base::meaning(error.code());
    if (meaning.http_status >= 500) base::log(base::LogLevel::Error, error.what());
    return error_response(meaning.http_status, meaning.name, error.what());
  }
}

Response Api::route(const Request& request, const std::vector<std::string>& parts) {
  const bool get = request.method == "GET";
  const bool post = request.method == "POST";
  if (parts.size() == 1 && parts[0] == "version") {
    if (!get) return wrong_method("GET");
    return json_response(200, {{"version", REGATTA_VERSION},
                               {"scheduler", controller_.scheduler_name()},
                               {"runs_directory", controller_.runs_directory().string()}});
  }
  if (parts.size() == 1 && parts[0] == "nodes") return get ? nodes() : wrong_method("GET");
  if (parts.size() == 1 && parts[0] == "runs") {
    if (get) return list_runs(request);
    if (post) return submit(request);
    return wrong_method("GET, POST");
  }
  if (parts.size() == 3 && parts[0] == "runs" && parts[2] == "cancel") {
    if (!post) return wrong_method("POST");
    return cancel(parts[1]);
  }
  if (parts.size() > 3 && parts[0] == "runs" && parts[2] == "checkpoints") {
    return checkpoint_api_.handle(request, controller_.find(parts[1]),
                                  {parts.begin() + 3, parts.end()});
  }
  const std::vector<std::string> views{"metrics", "logs", "checkpoints", "explain", "plan"};
  const bool view =
      parts.size() == 3 && std::find(views.begin(), views.end(), parts[2]) != views.end();
  if (parts[0] != "runs" || !(parts.size() == 2 || view)) {
    return error_response(404, "not_found", "no such address below /api/v1");
  }
  if (!get) return wrong_method("GET");
  const Run run = controller_.find(parts[1]);
  if (!view) {
    return json_response(
        200, run_json(run, read_parts(controller_.store(), run.number), clock_.utc_seconds()));
  }
  if (parts[2] == "metrics") return metrics(request, run);
  if (parts[2] == "explain") return explain(run);
  if (parts[2] == "plan") return plan(run);
  if (parts[2] == "logs") return logs(request, run);
  return json_response(200, checkpoint_api_.list(run, checkpoints_json(controller_.store(), run)));
}

Response Api::nodes() {
  NodesAnswer answer;
  answer.scheduler = controller_.scheduler_name();
  answer.now_utc = clock_.utc_seconds();
  if (nodes_ != nullptr) {
    nodes_->want(clock_.monotonic_seconds());
    answer.nodes = nodes_->snapshot();
  } else {
    answer.nodes.rows = {this_machine()};
    answer.nodes.taken_utc = answer.now_utc;
  }
  Store& store = controller_.store();
  answer.events = store.node_events();
  for (const Run& run : store.unfinished_runs()) {
    const std::vector<Launch> launches = store.launches(run.number);
    if (launches.empty() || launches.back().over || launches.back().handle.empty()) continue;
    answer.run_by_token[launches.back().token] = run.id;
    if (nodes_ != nullptr || launches.back().handle == kByJournal) continue;
    answer.nodes.jobs[launches.back().token] = answer.nodes.rows.front().name;
    answer.nodes.rows.front().state = parse_node_state("MIXED");
  }
  return json_response(200, nodes_json(answer));
}

Response Api::plan(const Run& run) {
  const base::Path path = base::Path(run.directory) / "plan.json";
  if (!files_.exists(path)) {
    return error_response(404, "not_found", "run " + run.id + " has no plan");
  }
  const topology::Plan plan = topology::parse_plan(files_.read(path, topology::kMostPlanBytes),
                                                   path.string(), std::nullopt);
  return json_response(200, nlohmann::ordered_json::parse(topology::to_json(plan)));
}

Response Api::explain(const Run& run) {
  const trainer::SlurmResources wanted =
      trainer::slurm_resources_of(trainer::parse_run_config(run.config, "run.json"));
  std::optional<std::vector<std::string>> usable;
  if (nodes_ != nullptr && nodes_->snapshot().taken_utc) {
    usable = usable_nodes(nodes_->snapshot(), wanted);
  }
  std::vector<Avoided> avoided;
  if (!usable || !usable->empty()) {
    avoided = nodes_to_avoid(controller_.store().node_events(), clock_.utc_seconds(), {},
                             usable.value_or(std::vector<std::string>()),
                             static_cast<std::size_t>(wanted.min_nodes));
  }
  return json_response(200,
                       explain_json(run, read_parts(controller_.store(), run.number), avoided));
}

Response Api::list_runs(const Request& request) {
  RunFilter filter;
  filter.limit = static_cast<int>(query_integer(request, "limit", kDefaultRuns, 1, kMostRuns));
  const auto state = request.query.find("state");
  if (state != request.query.end()) {
    filter.state = parse_run_state(state->second);
    if (!filter.state) {
      throw BadQuery{"state is '" + base::printable(state->second.substr(0, 50)) +
                     "'; use one of " + base::join(run_state_names(), ", ")};
    }
  }
  Json list = Json::array();
  for (const Run& run : controller_.store().runs(filter)) {
    list.push_back(
        run_json(run, read_parts(controller_.store(), run.number), clock_.utc_seconds()));
  }
  return json_response(200, {{"runs", list}});
}

Response Api::submit(const Request& request) {
  std::optional<std::string> key;
  const auto header = request.headers.find("idempotency-key");
  if (header != request.headers.end()) key = header->second;
  const Controller::Accepted accepted = controller_.submit(request.body, key);
  const RunParts parts = read_parts(controller_.store(), accepted.run.number);
  Response response = json_response(accepted.created ? 201 : 200,
                                    run_json(accepted.run, parts, clock_.utc_seconds()));
  response.headers["Location"] = std::string(kBase) + "runs/" + accepted.run.id;
  return response;
}

Response Api::cancel(const std::string& name) {
  const bool changed = controller_.cancel(name);
  const Run run = controller_.find(name);
  return json_response(
      changed ? 202 : 200,
      run_json(run, read_parts(controller_.store(), run.number), clock_.utc_seconds()));
}

Response Api::metrics(const Request& request, const Run& run) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62U;
  const std::int64_t since = query_integer(request, "since", 0, 0, kMost);
  return json_response(200, metrics_json(controller_.store(), run, since, kMostStepRows));
}

Response Api::logs(const Request& request, const Run& run) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62U;
  const std::int64_t offset = query_integer(request, "offset", 0, 0, kMost);
  const std::vector<Launch> launches = controller_.store().launches(run.number);
  const std::vector<base::Path> logs = launch_logs(files_, run.directory, launches);
  std::string text;
  if (!logs.empty()) {
    try {
      text = files_.read_at(logs.back(), static_cast<std::uint64_t>(offset), kMostLogBytes);
    } catch (const base::Error& error) {
      if (error.code() != base::Code::NotFound) throw;
    }
  }
  text.resize(whole_characters(text));
  return json_response(200, {{"text", text},
                             {"next", offset + static_cast<std::int64_t>(text.size())},
                             {"launch", logs.size()}});
}

}  // namespace regatta::orchestrator
