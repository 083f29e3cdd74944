#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/text.h"
#include "orchestrator/api/explain.h"
#include "orchestrator/cli/client.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/plan/run_plan.h"
#include "orchestrator/site/data_directory.h"
#include "orchestrator/text/terminal.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMaxRunFile = std::uint64_t{1} << 20U;
constexpr auto kLogPause = std::chrono::milliseconds(500);
constexpr auto kAnswerPause = std::chrono::milliseconds(200);
constexpr std::size_t kMostCounted = 1000;

void print_json(const Json& json) {
  std::cout << text::json_text(json, 2, text::reader_of_stdout()) << "\n" << std::flush;
}

std::string read_run_file(const std::string& file) {
  if (file == "-") {
    std::string text{std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
    return text.substr(0, kMaxRunFile + 1);  // the parser refuses what is larger
  }
  return base::posix_file_system().read(file, kMaxRunFile);
}

// Line by line, so that line breaks stay and everything else is escaped.
void print_log(const std::string& text) {
  std::size_t start = 0;
  while (start < text.size()) {
    const std::size_t end = text.find('\n', start);
    std::cout << base::printable(text.substr(start, end - start));
    if (end == std::string::npos) break;
    std::cout << "\n";
    start = end + 1;
  }
  std::cout << std::flush;
}

// Slurm refuses most of what it refuses at once.
constexpr double kAnswerSeconds = 5;

// Waits until Slurm has taken the run, or has said that it does not; says what came of it.
int tell_answer(const Client& client, const std::string& id) {
  using Timer = std::chrono::steady_clock;
  const auto deadline = Timer::now() + std::chrono::duration<double>(kAnswerSeconds);
  const std::string path = "/runs/" + path_part(id);
  for (;;) {
    const Json told = client.get(path + "/explain");
    const std::string state = told.value("state", "");
    const Json launches = told.value("launches", Json::array());
    const Json job = launches.empty() ? Json() : launches.back().value("job", Json());
    if (state == "failed") {
      const Json error = client.get(path).value("error", Json());
      std::cerr << "regatta: " << base::printable(id)
                << " failed: " << base::printable(error.is_string() ? error.get<std::string>() : "")
                << "\n";
      return base::meaning(base::Code::User).exit_code;
    }
    if (job.is_string()) {
      std::cerr << "submitted as job " << base::printable(job.get<std::string>());
    } else if (state == "queued" && told.value("waiting", Json()).is_object() &&
               !told["waiting"].value("sentence", "").empty()) {
      std::cerr << "queued: " << base::printable(told["waiting"].value("sentence", ""));
    } else if (state == "queued" || state == "starting") {
      if (Timer::now() < deadline) {
        std::this_thread::sleep_for(kAnswerPause);
        continue;
      }
      std::cerr << "submitted; Slurm has not answered yet";
    } else {
      std::cerr << "submitted";
    }
    std::cerr << "; 'regatta watch " << base::printable(id) << "' shows it\n";
    return 0;
  }
}

// "no run is running; there are others: 2 failed, 10 succeeded".
std::string none_of(const std::string& state, const Json& runs) {
  std::map<std::string, int> counts;
  for (const Json& run : runs) ++counts[run.value("state", "")];
  std::string others;
  for (const auto& [name, count] : counts) {
    others += (others.empty() ? "" : ", ") + std::to_string(count) + " " + base::printable(name);
  }
  if (others.empty()) return "no runs; 'regatta submit FILE' makes one";
  return "no run is " + base::printable(state) + "; " +
         (runs.size() < kMostCounted ? "others" : "of the newest " + std::to_string(runs.size())) +
         ": " + others;
}

}  // namespace

ControllerAddress controller_address(const site::ProgramEnvironment& environment) {
  return {environment.server.value_or(""), environment.token_file.value_or(""),
          site::default_data_directory(environment)};
}

int submit(const ClientOptions& options, const SubmitOptions& submission) {
  const std::string source = submission.file == "-" ? "stdin" : submission.file;
  trainer::contract::RunConfig config =
      trainer::contract::parse_run_config(read_run_file(submission.file), source);
  // Relative to the file, as written by its author; the controller has no such place.
  const base::Path folder =
      submission.file == "-" ? base::Path(".") : base::Path(submission.file).parent_path();
  config.data.path =
      std::filesystem::absolute(folder / config.data.path).lexically_normal().string();
  std::map<std::string, std::string> headers;
  if (submission.idempotency_key) {
    const std::string& key = *submission.idempotency_key;
    if (key.empty() || base::printable(key) != key) {
      throw base::Error(base::Code::User,
                        "the idempotency key is not usable; use 1 to 200 printable characters");
    }
    headers["Idempotency-Key"] = key;
  }
  const Client client(options.server, options.timeout_seconds);
  plan::SubmittedRun asked{config, {}};
  if (!submission.plan.empty()) {
    asked.plan =
        topology::plan::parse_plan(read_run_file(submission.plan), submission.plan, std::nullopt);
  }
  std::string path = "/runs";
  for (const std::string& name : submission.after) {
    path += (path.size() > 5 ? "," : "?after=") + path_part(name);
  }
  const Json run = client.post(path, plan::submitted_body(asked), headers);
  const std::string id = run.value("id", "");
  if (options.format == Format::Json && !submission.wait) {
    print_json(run);
  } else if (options.format == Format::Text) {
    std::cout << base::printable(id) << "\n" << std::flush;
  }
  if (submission.wait) return watch(options, id, WatchResult::RunExitCode);
  if (options.format != Format::Text) return 0;
  if (run.value("scheduler", Json()) == "slurm") {
    try {
      return tell_answer(client, id);
    } catch (const base::Error&) {  // the controller went away: the run is submitted all the same
    }
  }
  std::cerr << "submitted; 'regatta watch " << base::printable(id) << "' shows it\n";
  return 0;
}

int list(const ClientOptions& options, const ListOptions& listing) {
  const Client client(options.server, options.timeout_seconds);
  std::string path = "/runs?limit=" + std::to_string(listing.limit);
  if (listing.all || listing.archived) {
    path += std::string("&archived=") + (listing.all ? "all" : "true");
  }
  if (!listing.state.empty()) path += "&state=" + path_part(listing.state);
  const Json answer = client.get(path);
  if (options.format == Format::Json) {
    print_json(answer);
  } else if (!answer.contains("runs") || answer["runs"].empty()) {
    const Json all =
        listing.state.empty() ? answer : client.get("/runs?limit=" + std::to_string(kMostCounted));
    std::cerr << none_of(listing.state, all.value("runs", Json::array())) << "\n";
  } else {
    std::cout << text::run_table(answer["runs"], text::terminal_width(STDOUT_FILENO));
  }
  return 0;
}

int show(const ClientOptions& options, const std::string& name, Secrets secrets) {
  const Client client(options.server, options.timeout_seconds);
  const bool shown = secrets == Secrets::Shown;
  const Json run = client.get("/runs/" + path_part(name) + (shown ? "?secrets=true" : ""));
  if (options.format == Format::Json) {
    print_json(run);
    return 0;
  }
  std::cout << text::run_details(run);
  const Json::json_pointer environment("/config/slurm/environment");
  if (shown && run.contains(environment) && run.at(environment).is_object()) {
    std::vector<std::vector<std::string>> rows;
    for (const auto& [variable, value] : run.at(environment).items()) {
      rows.push_back({variable, value.is_string() ? value.get<std::string>() : ""});
    }
    std::cout << text::table(rows);
  }
  return 0;
}

int explain(const ClientOptions& options, const std::string& name) {
  const Client client(options.server, options.timeout_seconds);
  const Json explanation = client.get("/runs/" + path_part(name) + "/explain");
  if (options.format == Format::Json) {
    print_json(explanation);
  } else {
    std::cout << api::explain_text(explanation);
  }
  return 0;
}

int cancel(const ClientOptions& options, const std::string& name) {
  const Client client(options.server, options.timeout_seconds);
  const Json run = client.post("/runs/" + path_part(name) + "/cancel", "", {});
  if (options.format == Format::Json) {
    print_json(run);
  } else {
    const std::string state = text::is_over(run) ? run.value("state", "") : "stopping";
    std::cout << base::printable(run.value("id", "") + " " + state) << "\n";
  }
  return 0;
}

namespace {

// {"slurm": {…}} of "slurm.KEY=VALUE"; empty without any. A value is JSON, or else a text.
std::string slurm_changes(const std::vector<std::string>& words) {
  constexpr std::string_view kSection = "slurm.";
  Json json;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    if (word.rfind(kSection, 0) != 0 || equals == std::string::npos || equals == kSection.size()) {
      throw base::Error(base::Code::User, "--set '" + base::printable(word) +
                                              "' is not slurm.KEY=VALUE, and nothing else of a "
                                              "run can change when it is resumed");
    }
    const std::string value = word.substr(equals + 1);
    Json parsed = Json::parse(value, nullptr, false);
    json["slurm"][word.substr(kSection.size(), equals - kSection.size())] =
        parsed.is_discarded() ? Json(value) : std::move(parsed);
  }
  if (json.is_null()) return "";
  try {
    return json.dump();
  } catch (const Json::exception&) {
    throw base::Error(base::Code::User, "--set has a value that is not UTF-8");
  }
}

}  // namespace

int resume(const ClientOptions& options, const std::string& name,
           const std::vector<std::string>& changes) {
  const Client client(options.server, options.timeout_seconds);
  const Json run = client.post("/runs/" + path_part(name) + "/resume", slurm_changes(changes), {});
  if (options.format == Format::Json) {
    print_json(run);
  } else {
    std::cout << base::printable(run.value("id", "") + " " + run.value("state", "")) << "\n";
  }
  return 0;
}

int logs(const ClientOptions& options, const std::string& name, Follow follow) {
  const Client client(options.server, options.timeout_seconds);
  const std::string path = "/runs/" + path_part(name);
  std::int64_t offset = 0;
  std::int64_t launch = 0;
  for (;;) {
    const bool over =
        text::is_over(client.get(path));  // before the log, so that its end is not missed
    const Json part = client.get(path + "/logs?offset=" + std::to_string(offset));
    const std::int64_t newest = part.value("launch", std::int64_t{0});
    if (launch != 0 && newest != launch && offset > 0) {  // another attempt, another file
      launch = newest;
      offset = 0;
      continue;
    }
    launch = newest;
    const std::string text = part.value("text", "");
    if (options.format == Format::Json) {
      if (!text.empty() || follow == Follow::No) {
        std::cout << text::json_text(part, -1, text::reader_of_stdout()) << "\n" << std::flush;
      }
    } else {
      print_log(text);
    }
    offset = part.value("next", offset);
    if (!text.empty()) continue;
    if (follow == Follow::No || over) return 0;
    std::this_thread::sleep_for(kLogPause);
  }
}

namespace {

// null while the controller starts.
std::string scheduler_of(const Json& version) {
  const Json scheduler = version.value("scheduler", Json());
  return scheduler.is_string() ? base::printable(scheduler.get<std::string>()) : "not chosen yet";
}

}  // namespace

int version(const ClientOptions& options, const std::string& commit) {
  Json json{{"version", REGATTA_VERSION}, {"commit", nullptr}, {"controller", nullptr}};
  if (!commit.empty()) json["commit"] = commit;
  try {
    const Client client(options.server, std::min(options.timeout_seconds, 2.0));
    json["controller"] = client.get("/version");
    json["controller"]["url"] = client.name();
  } catch (const base::Error&) {  // none runs: the program's own version is still an answer
  }
  if (options.format == Format::Json) {
    print_json(json);
    return 0;
  }
  std::cout << "regatta " REGATTA_VERSION << (commit.empty() ? "" : " (commit " + commit + ")")
            << "\n";
  if (json["controller"].is_object()) {
    std::cout << "controller " << base::printable(json["controller"].value("version", "")) << " at "
              << base::printable(json["controller"].value("url", "")) << ", scheduler "
              << scheduler_of(json["controller"]) << ", runs in "
              << base::printable(json["controller"].value("runs_directory", "")) << "\n";
  }
  return 0;
}

}  // namespace regatta::orchestrator::cli
