#include "orchestrator/api/api.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "orchestrator/api/answers.h"
#include "orchestrator/api/explain.h"
#include "orchestrator/api/node_json.h"
#include "orchestrator/api/page.h"
#include "orchestrator/api/removal_api.h"
#include "orchestrator/api/run_json.h"
#include "orchestrator/api/shown_config.h"
#include "orchestrator/control/journal_pulse.h"
#include "orchestrator/control/reconcile.h"
#include "orchestrator/control/run_lookup.h"
#include "orchestrator/files/shared_files.h"
#include "orchestrator/runs/run_records.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kBase = "/api/v1/";
constexpr int kMostRuns = 1000;
constexpr int kDefaultRuns = 100;
constexpr int kMostStepRows = 2000;
constexpr std::uint64_t kMostLogBytes = 256 * 1024;
constexpr double kReadSeconds = 3;  // then 503: the run's file system does not answer

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

// The place in the list of runs as a client gets it: nothing that it should read.
std::string place_text(const store::ListPlace& place) {
  char text[40];
  std::snprintf(text, sizeof text, "%016" PRIx64 "-%" PRIx64,
                std::bit_cast<std::uint64_t>(place.created_utc),
                static_cast<std::uint64_t>(place.number));
  return text;
}

// Only what place_text() makes.
std::optional<store::ListPlace> parse_place(const std::string& text) {
  std::uint64_t bits = 0, number = 0;
  if (text.size() < 18 || text.size() > 33 || text[16] != '-') return std::nullopt;
  const char* const middle = text.data() + 16;
  const char* const end = text.data() + text.size();
  if (std::from_chars(text.data(), middle, bits, 16).ptr != middle) return std::nullopt;
  if (std::from_chars(middle + 1, end, number, 16).ptr != end) return std::nullopt;
  const store::ListPlace place{std::bit_cast<double>(bits), static_cast<std::int64_t>(number)};
  if (place_text(place) != text || !std::isfinite(place.created_utc)) return std::nullopt;
  return place;
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
    const auto found = find_route(
        routes(), request,
        base::split(std::string_view(request.path).substr(std::string(kBase).size()), '/'));
    if (const auto* refused = std::get_if<Response>(&found)) return *refused;
    const auto& match = std::get<RouteMatch>(found);
    return (this->*match.route->handle)({request, match.names});
  } catch (const BadQuery& error) {
    return error_response(400, "user", error.message);
  } catch (const base::Error& error) {
    const base::CodeMeaning meaning = base::meaning(error.code());
    if (meaning.http_status >= 500) base::log(base::LogLevel::Error, error.what());
    return error_response(meaning.http_status, meaning.name, error.what());
  }
}

Response Api::version(const Call&) {
  const control::Adoption adoption = controller_.adoption();
  return json_response(
      200, {{"version", REGATTA_VERSION},
            {"scheduler", controller_.scheduler_name()},
            {"runs_directory", controller_.runs_directory().string()},
            {"adoption",
             {{"done", adoption.done}, {"found", adoption.found}, {"read", adoption.read}}}});
}

runs::Run Api::find(const Call& call) {
  store::Snapshot store = controller_.store().snapshot();
  return control::find_run(store, call.names.at(0));
}

Response Api::show(const Call& call) {
  if (auto refused = refuse_secrets(call.request)) return *refused;
  return answer_with(call.names.at(0),
                     wants_secrets(call.request) ? Secrets::Shown : Secrets::Hidden);
}

Response Api::answer_with(const std::string& name, Secrets secrets) {
  store::Snapshot store = controller_.store().snapshot();
  const runs::Run run = control::find_run(store, name);
  const RunParts parts = read_parts(store, run.number);
  const double now = clock_.utc_seconds();
  Json json = run_json(run, parts, now);
  json["slurm"] = runs::is_over(run.state) ? Json() : contact_json(contact_of(parts.launches), now);
  if (secrets == Secrets::Shown) json["config"] = whole_config(run.config);
  return json_response(200, json);
}

Response Api::remove(const Call& call) {
  return remove_run(controller_, call.request, call.names.at(0));
}
Response Api::archive(const Call& call) {
  return archive_run(controller_, call.request, call.names.at(0));
}

Response Api::collect_checkpoints(const Call& call) {
  return checkpoint_api_.collect(call.request, find(call));
}
Response Api::show_checkpoint(const Call& call) {
  return checkpoint_api_.show(find(call), call.names.at(1));
}
Response Api::verify_checkpoint(const Call& call) {
  return checkpoint_api_.verify(find(call), call.names.at(1));
}
Response Api::pin_checkpoint(const Call& call) {
  return checkpoint_api_.pin(call.request, find(call), call.names.at(1));
}
Response Api::unpin_checkpoint(const Call& call) {
  return checkpoint_api_.unpin(find(call), call.names.at(1));
}
Response Api::show_export(const Call& call) {
  return checkpoint_api_.show_export(find(call), call.names.at(1));
}
Response Api::export_checkpoint(const Call& call) {
  return checkpoint_api_.begin_export(call.request, find(call), call.names.at(1));
}

Response Api::checkpoints(const Call& call) {
  std::optional<runs::Run> run;
  Json rows;
  {
    store::Snapshot store = controller_.store().snapshot();
    run = control::find_run(store, call.names.at(0));
    rows = checkpoints_json(store, *run);
  }
  return json_response(200, checkpoint_api_.list(*run, std::move(rows)));
}

Response Api::nodes(const Call&) {
  NodesAnswer answer;
  answer.scheduler = controller_.scheduler_name();
  answer.now_utc = clock_.utc_seconds();
  if (nodes_ != nullptr) {
    nodes_->want(clock_.monotonic_seconds());
    answer.nodes = nodes_->snapshot();
    const auto contact = controller_.contact("");
    if (contact && answer.nodes.trouble.empty()) answer.nodes.trouble = contact->trouble;
  } else {
    answer.nodes.rows = {slurm::this_machine()};
    answer.nodes.taken_utc = answer.now_utc;
  }
  store::Snapshot store = controller_.store().snapshot();
  answer.events = store.node_events();
  for (const auto& [run, launch] : store.open_launches()) {
    if (launch.over || launch.handle.empty()) continue;
    answer.run_by_token[launch.token] = run;
    if (nodes_ != nullptr || launch.handle == control::kByJournal) continue;
    answer.nodes.jobs[launch.token] = answer.nodes.rows.front().name;
    answer.nodes.rows.front().state = slurm::parse_node_state("MIXED");
  }
  return json_response(200, nodes_json(answer));
}

Response Api::plan(const Call& call) {
  const runs::Run run = find(call);
  const base::Path path = base::Path(run.directory) / "plan.json";
  const auto text = files::call_if(shared_, run.directory, kReadSeconds, [files = &files_, path] {
    return files->exists(path) ? std::optional(files->read(path, topology::plan::kMostPlanBytes))
                               : std::nullopt;
  });
  if (!text) return error_response(404, "not_found", "run " + run.id + " has no plan");
  const topology::plan::Plan plan = topology::plan::parse_plan(*text, path.string(), std::nullopt);
  return json_response(200,
                       base::parse_json<nlohmann::ordered_json>(topology::plan::to_json(plan)));
}

Response Api::explain(const Call& call) {
  store::Snapshot store = controller_.store().snapshot();
  runs::Run run = control::find_run(store, call.names.at(0));
  if (run.state == runs::RunState::Queued && run.reason == control::kNoFreeSlot) {
    run.reason = place_in_line(run, store.unfinished_runs());
  }
  const trainer::contract::SlurmResources wanted = trainer::contract::slurm_resources_of(
      trainer::contract::parse_run_config(run.config, "run.json"));
  std::optional<std::vector<std::string>> usable;
  if (nodes_ != nullptr && nodes_->snapshot().taken_utc) {
    usable = slurm::usable_nodes(nodes_->snapshot(), wanted);
  }
  std::vector<slurm::Avoided> avoided;
  if (!usable || !usable->empty()) {
    avoided = slurm::nodes_to_avoid(store.node_events(), clock_.utc_seconds(), {},
                                    usable.value_or(std::vector<std::string>()),
                                    static_cast<std::size_t>(wanted.min_nodes));
  }
  controller_.somebody_looks();
  const RunParts parts = read_parts(store, run.number);
  return json_response(
      200, explain_json(run, parts, avoided, contact_of(parts.launches), clock_.utc_seconds()));
}

std::optional<runs::Contact> Api::contact_of(const std::vector<runs::Launch>& launches) const {
  const bool open = !launches.empty() && !launches.back().over;
  return controller_.contact(open ? launches.back().handle : "");
}

Response Api::list_runs(const Call& call) {
  const Request& request = call.request;
  store::RunFilter filter;
  filter.limit = static_cast<int>(query_integer(request, "limit", kDefaultRuns, 1, kMostRuns));
  const auto state = request.query.find("state");
  if (state != request.query.end()) {
    filter.state = runs::parse_run_state(state->second);
    if (!filter.state) {
      throw BadQuery{"state is '" + base::printable(state->second.substr(0, 50)) +
                     "'; use one of " + base::join(runs::run_state_names(), ", ")};
    }
  }
  const auto archived = request.query.find("archived");
  if (archived != request.query.end()) {
    const std::map<std::string, store::Archived> words{{"false", store::Archived::Hidden},
                                                       {"true", store::Archived::Only},
                                                       {"all", store::Archived::Also}};
    const auto word = words.find(archived->second);
    if (word == words.end()) {
      throw BadQuery{"archived is '" + base::printable(archived->second.substr(0, 50)) +
                     "'; use false, true or all"};
    }
    filter.archived = word->second;
  }
  const auto before = request.query.find("before");
  if (before != request.query.end()) {
    const auto place = parse_place(before->second);
    if (!place) {
      throw BadQuery{"before is '" + base::printable(before->second.substr(0, 50)) +
                     "'; use the `next` of an answer"};
    }
    filter.after = *place;
  }
  const store::RunList list = controller_.store().snapshot().list(filter);
  const double now = clock_.utc_seconds();
  Json rows = Json::array();
  for (const store::RunRow& row : list.rows) rows.push_back(row_json(row, now));
  return json_response(200, {{"runs", std::move(rows)},
                             {"next", list.next ? Json(place_text(*list.next)) : Json()}});
}

Response Api::submit(const Call& call) {
  const Request& request = call.request;
  std::optional<std::string> key;
  const auto header = request.headers.find("idempotency-key");
  if (header != request.headers.end()) key = header->second;
  std::vector<std::string> after;
  const auto query = request.query.find("after");
  if (query != request.query.end()) {
    after = base::split(query->second, ',');
    if (std::find(after.begin(), after.end(), "") != after.end()) {
      throw BadQuery{"after has an empty id; use ids or names of runs with commas between them"};
    }
  }
  const control::Controller::Accepted accepted = controller_.submit(request.body, key, after);
  controller_.somebody_looks();
  store::Snapshot store = controller_.store().snapshot();
  const RunParts parts = read_parts(store, accepted.run.number);
  Response response = json_response(accepted.created ? 201 : 200,
                                    run_json(accepted.run, parts, clock_.utc_seconds()));
  response.headers["Location"] = std::string(kBase) + "runs/" + accepted.run.id;
  return response;
}

Response Api::cancel(const Call& call) {
  const bool changed = controller_.cancel(call.names.at(0));
  controller_.somebody_looks();
  Response response = answer_with(call.names.at(0), Secrets::Hidden);
  if (changed) response.status = 202;
  return response;
}

Response Api::resume(const Call& call) {
  const bool changed = controller_.resume(call.names.at(0), call.request.body);
  Response response = answer_with(call.names.at(0), Secrets::Hidden);
  if (changed) response.status = 202;
  return response;
}

Response Api::metrics(const Call& call) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62U;
  const std::int64_t since = query_integer(call.request, "since", 0, 0, kMost);
  store::Snapshot store = controller_.store().snapshot();
  return json_response(
      200, metrics_json(store, control::find_run(store, call.names.at(0)), since, kMostStepRows));
}

Response Api::logs(const Call& call) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62U;
  const std::int64_t offset = query_integer(call.request, "offset", 0, 0, kMost);
  base::Path directory;
  std::vector<runs::Launch> launches;
  {
    store::Snapshot store = controller_.store().snapshot();
    const runs::Run run = control::find_run(store, call.names.at(0));
    directory = run.directory;
    launches = store.launches(run.number);
  }
  struct Read {
    std::string text;
    std::size_t logs = 0;
  };
  Read read = files::call_if(
      shared_, directory, kReadSeconds, [files = &files_, directory, launches, offset] {
        const std::vector<base::Path> logs = runs::launch_logs(*files, directory, launches);
        Read found{"", logs.size()};
        if (logs.empty()) return found;
        try {
          found.text =
              files->read_at(logs.back(), static_cast<std::uint64_t>(offset), kMostLogBytes);
        } catch (const base::Error& error) {
          if (error.code() != base::Code::NotFound) throw;
        }
        return found;
      });
  read.text.resize(whole_characters(read.text));
  return json_response(200, {{"text", read.text},
                             {"next", offset + static_cast<std::int64_t>(read.text.size())},
                             {"launch", read.logs}});
}

}  // namespace regatta::orchestrator::api
