// How fresh the page is: 1,000 runs that write a step a second each, beside 10,000 old ones; the
// list is asked once a second, as the page does. Prints JSON; seconds from a record's write to its
// arrival at the reader.
//   controller_bench [RUNNING OLD SECONDS]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/clock.h"
#include "base/confined_file_system.h"
#include "base/log.h"
#include "base/text.h"
#include "orchestrator/api/api.h"
#include "orchestrator/control/controller.h"
#include "orchestrator/files/shared_files.h"
#include "trainer/contract/journal.h"
#include "trainer/contract/run_directory.h"

namespace regatta::orchestrator {
namespace {

using Json = nlohmann::json;

// What it is asked about runs.
class Running final : public runs::Scheduler {
 public:
  [[nodiscard]] std::string name() const override { return "local"; }
  [[nodiscard]] std::string submit(const runs::LaunchRequest& request) override {
    return request.token;
  }
  [[nodiscard]] runs::SchedulerFinding find(const std::string& token, double) override {
    return {true, token};
  }
  [[nodiscard]] std::optional<std::string> adopt(std::int64_t, const base::Path&) override {
    return std::nullopt;
  }
  [[nodiscard]] runs::ProcessReport poll(const std::string&) override {
    return {runs::ProcessState::Running, std::nullopt, std::nullopt};
  }
  void stop(const std::string&) override {}
  void kill(const std::string&) override {}
};

struct Sizes {
  int running = 1000;
  int old = 10000;
  int seconds = 60;
};

std::string line(std::int64_t sequence, double seconds, auto body) {
  trainer::contract::JournalRecord record;
  record.sequence = sequence;
  record.seconds = seconds;
  record.utc_seconds = base::system_clock().utc_seconds();
  record.body = body;
  return trainer::contract::to_line(record);
}

struct Journal {
  std::string run;
  base::Path path;
  std::int64_t step = 0;
  std::vector<double> written;  // by step - 1, monotonic
  std::int64_t seen = 0;
};

Journal make_run(store::Store& store, const base::Path& runs, int number) {
  Journal journal;
  journal.run = "run-" + std::to_string(number);
  store::NewRun row;
  row.id = row.name = journal.run;
  row.config = "{}";
  row.directory = (runs / row.id).string();
  row.created_utc = number;
  row.state = runs::RunState::Running;
  runs::Launch launch;
  launch.number = 1;
  launch.token = launch.handle = row.id;
  store.put_launch(store.add_run(row), launch);
  const base::Path attempt = base::Path(row.directory) / "attempts" / "1-0123456789abcdef";
  std::filesystem::create_directories(attempt);
  std::ofstream(base::Path(row.directory) / "run.json") << "{}";
  journal.path = attempt / "journal.jsonl";
  trainer::contract::StartRecord start;
  start.steps = 1000000;
  start.batch_size = 1;
  std::ofstream(journal.path) << line(0, 0, start);
  return journal;
}

void make_old(store::Store& store, int number) {
  store::NewRun row;
  row.id = row.name = "old-" + std::to_string(number);
  row.config = std::string(2000, ' ');
  row.directory = "/nowhere/" + row.id;
  row.created_utc = -number;
  row.state = runs::RunState::Succeeded;
  row.drained = row.settled = true;
  store.add_run(row);
}

double at(const std::vector<double>& sorted, double share) {
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<std::size_t>(share * last)];
}

int measure(const Sizes& sizes) {
  base::start_log("controller_bench", base::LogLevel::Error);
  const base::Path folder =
      std::filesystem::temp_directory_path() / ("regatta-bench-" + base::random_hex(4));
  const base::Path runs = folder / "runs";
  std::filesystem::create_directories(runs);
  std::vector<double> delays;
  double busy = 0;
  std::size_t answer_bytes = 0;
  {
    base::Clock& clock = base::system_clock();
    store::Store store(folder / "state");
    std::vector<Journal> journals;
    for (int i = 0; i < sizes.running; ++i) journals.push_back(make_run(store, runs, i));
    for (int i = 0; i < sizes.old; ++i) make_old(store, i);
    Running scheduler;
    static base::ConfinedFileSystem files(runs);
    files::SharedFiles shared;
    control::ControllerOptions options;
    options.runs_directory = runs;
    options.parallel = 2 * sizes.running;
    options.beside = [&shared](const base::Path& directory, std::function<void()> work) {
      return shared.start(directory, std::move(work));
    };
    control::Controller controller(files, clock, store, scheduler, options);
    api::Api api(controller, files, clock, {});
    controller.start();
    const double begin = clock.monotonic_seconds();
    const std::clock_t processor = std::clock();
    double next_list = begin + 2;
    std::size_t next = 0;  // journal to write
    while (clock.monotonic_seconds() < begin + sizes.seconds) {
      const double now = clock.monotonic_seconds();
      const auto due = static_cast<std::size_t>((now - begin) * sizes.running);
      for (; next < due; ++next) {
        Journal& journal = journals[next % journals.size()];
        trainer::contract::StepRecord step;
        step.step = ++journal.step;
        step.seconds = 1;
        step.loss = 1;
        std::ofstream(journal.path, std::ios::app) << line(step.step, now - begin, step);
        journal.written.push_back(clock.monotonic_seconds());
      }
      if (now >= next_list) {
        next_list = now + 1;
        api::Request request;
        request.method = "GET";
        request.path = "/api/v1/runs";
        request.query["limit"] = std::to_string(std::min(1000, sizes.running));
        const api::Response response = api.handle(request);
        answer_bytes = response.body.size();
        const double arrived = clock.monotonic_seconds();
        std::map<std::string, std::int64_t> steps;
        const Json answer = Json::parse(response.body);
        for (const Json& run : answer["runs"]) {
          steps[run["id"]] = run["step"].get<std::int64_t>();
        }
        for (Journal& journal : journals) {
          for (; journal.seen < steps[journal.run]; ++journal.seen) {
            delays.push_back(arrived - journal.written[static_cast<std::size_t>(journal.seen)]);
          }
        }
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    busy = static_cast<double>(std::clock() - processor) / CLOCKS_PER_SEC / sizes.seconds;
  }
  std::filesystem::remove_all(folder);
  if (delays.empty()) {
    std::fprintf(stderr, "controller_bench: nothing arrived\n");
    return 1;
  }
  std::sort(delays.begin(), delays.end());
  std::printf(
      "%s\n",
      Json({{"benchmark", "controller"},
            {"running", sizes.running},
            {"old", sizes.old},
            {"seconds", sizes.seconds},
            {"records", delays.size()},
            {"freshness_seconds",
             {{"median", at(delays, 0.5)}, {"p99", at(delays, 0.99)}, {"worst", delays.back()}}},
            {"processors", busy},
            {"answer_bytes", answer_bytes}})
          .dump(2)
          .c_str());
  return at(delays, 0.99) <= 3 ? 0 : 1;
}

}  // namespace
}  // namespace regatta::orchestrator

int main(int count, char** words) {
  regatta::orchestrator::Sizes sizes;
  if (count == 4) sizes = {std::atoi(words[1]), std::atoi(words[2]), std::atoi(words[3])};
  return regatta::orchestrator::measure(sizes);
}
