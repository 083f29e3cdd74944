// What requests about runs cost with 100, 10,000 and 100,000 runs in the store, from the request's
// struct to the answer's bytes: processor time of lists, single runs and unknown ids, and how long
// a single run takes beside 16 threads that ask for lists.
//   store_bench [RUNS…]      one JSON on stdout
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <exception>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "orchestrator/api/api.h"
#include "tests/bench/lists.h"
#include "tests/orchestrator/store/filled_store.h"
#include "tests/orchestrator/support.h"

namespace {

using namespace regatta;
using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr int kRepeats = 40;
constexpr int kListers = 16;
constexpr std::chrono::seconds kBesideLists{3};
constexpr std::chrono::milliseconds kBetweenSingles{2};
constexpr int kOpen = 50;
constexpr int kLongRunSteps = 1'000'000;

double processor_milliseconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

double at(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

// A store with so many runs, and the API on it.
class Stack {
 public:
  explicit Stack(int runs)
      : runs_(runs),
        store_(filled(folder_.path() / "state", runs)),
        controller_(base::posix_file_system(), clock_, store_, scheduler_, options()),
        api_(controller_, base::posix_file_system(), clock_, {folder_.path()}) {}

  [[nodiscard]] int runs() const { return runs_; }
  // The path of a run by its number.
  std::string run(int number) {
    return "runs/" + store_.run(orchestrator::runs::RunNumber{number})->id;
  }
  orchestrator::api::Response get(const std::string& path,
                                  const std::map<std::string, std::string>& query = {}) {
    orchestrator::api::Request request;
    request.method = "GET";
    request.path = "/api/v1/" + path;
    request.query = query;
    return api_.handle(request);
  }

 private:
  static base::Path filled(const base::Path& directory, int runs) {
    tests::fill_store(directory, {runs, std::min(runs / 2, kOpen), kLongRunSteps,
                                  directory.parent_path() / "runs"});
    return directory;
  }
  [[nodiscard]] orchestrator::control::ControllerOptions options() const {
    orchestrator::control::ControllerOptions options;
    options.runs_directory = folder_.path() / "runs";
    return options;
  }

  int runs_;
  tests::TemporaryDirectory folder_;
  tests::SimulatedClock clock_;
  tests::ScriptedScheduler scheduler_;
  orchestrator::store::Store store_;
  orchestrator::control::Controller controller_;
  orchestrator::api::Api api_;
};
using Stacks = std::vector<std::unique_ptr<Stack>>;
using Query = std::map<std::string, std::string>;
using Ask = std::function<orchestrator::api::Response(Stack&)>;

// Puts the median of processor time, milliseconds, of each store into `sizes`; they take turns.
void measure(const Stacks& stacks, const std::string& name, int status, const Ask& ask,
             Json* sizes) {
  std::vector<std::vector<double>> times(stacks.size());
  for (int i = 0; i < kRepeats; ++i) {
    for (std::size_t which = 0; which < stacks.size(); ++which) {
      const double start = processor_milliseconds();
      const orchestrator::api::Response response = ask(*stacks[which]);
      times[which].push_back(processor_milliseconds() - start);
      if (response.status != status) {
        throw base::Error(base::Code::Developer, name + ": " + response.body);
      }
    }
  }
  for (std::size_t i = 0; i < stacks.size(); ++i) (*sizes)[i][name] = at(times[i], 0.5);
}

// Of "/runs?tag=first&total=true".
Query query_of(const std::string& list) {
  Query query;
  for (const std::string& part : base::split(list.substr(list.find('?') + 1), '&')) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos) continue;
    std::string value = part.substr(equals + 1);
    if (const std::size_t space = value.find("%20"); space != std::string::npos) {
      value.replace(space, 3, " ");
    }
    query[part.substr(0, equals)] = value;
  }
  return query;
}

Json beside_lists(Stack& stack) {
  const std::string run = stack.run(stack.runs() / 2);
  std::atomic<bool> done = false;
  std::atomic<int> lists = 0;
  std::vector<std::jthread> listers;
  for (int i = 0; i < kListers; ++i) {
    listers.emplace_back([&] {
      while (!done) {
        (void)stack.get("runs");
        ++lists;
      }
    });
  }
  std::vector<double> waits;
  const auto end = Clock::now() + kBesideLists;
  while (Clock::now() < end) {
    std::this_thread::sleep_for(kBetweenSingles);
    const auto start = Clock::now();
    (void)stack.get(run);
    waits.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  done = true;
  listers.clear();
  return {{"listers", kListers},
          {"lists", lists.load()},
          {"singles", waits.size()},
          {"median_wall_ms", at(waits, 0.5)},
          {"p99_wall_ms", at(waits, 0.99)},
          {"longest_wall_ms", at(waits, 1)}};
}

Json measure_all(const Stacks& stacks) {
  Json sizes = Json::array();
  for (const auto& stack : stacks) sizes.push_back({{"runs", stack->runs()}});
  measure(
      stacks, "list_of_100_ms", 200, [](Stack& s) { return s.get("runs"); }, &sizes);
  measure(
      stacks, "list_of_15_failed_ms", 200,
      [](Stack& s) {
        return s.get("runs", {{"state", "failed"}, {"limit", "15"}});
      },
      &sizes);
  const auto listed = [&](const std::string& name, const Query& query) {
    measure(
        stacks, name, 200, [query](Stack& s) { return s.get("runs", query); }, &sizes);
  };
  for (const std::string& list : bench::kLists) listed(list, query_of(list));
  for (const std::string& list : bench::kLargestLists) listed(list, query_of(list));
  listed("search_of_text_ms", {{"text", "no such text"}, {"total", "true"}});
  measure(
      stacks, "run_ms", 200, [](Stack& s) { return s.get(s.run(s.runs() / 2)); }, &sizes);
  measure(
      stacks, "name_of_several_ms", 404, [](Stack& s) { return s.get("runs/run07"); }, &sizes);
  measure(
      stacks, "unknown_id_ms", 404, [](Stack& s) { return s.get("runs/run07-nobody"); }, &sizes);
  measure(
      stacks, "metrics_of_1000000_steps_ms", 200,
      [](Stack& s) { return s.get(s.run(1) + "/metrics"); }, &sizes);
  measure(
      stacks, "metrics_of_5_steps_ms", 200, [](Stack& s) { return s.get(s.run(2) + "/metrics"); },
      &sizes);
  const auto chart = [&](const std::string& name, int run) {
    measure(
        stacks, name, 200,
        [run](Stack& s) {
          return s.get("metrics", {{"runs", s.run(run).substr(5)}, {"series", "loss"}});
        },
        &sizes);
  };
  chart("chart_of_1000000_steps_ms", 1);
  chart("chart_of_5_steps_ms", 2);
  for (std::size_t i = 0; i < stacks.size(); ++i) {
    sizes[i]["run_beside_lists"] = beside_lists(*stacks[i]);
  }
  return sizes;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::vector<int> sizes;
    for (int i = 1; i < argc; ++i) {
      const auto size = base::parse_integer(argv[i]);
      if (!size || *size < 100 || *size > 1'000'000) {
        throw base::Error(base::Code::User, "runs are 100 to 1000000 each");
      }
      sizes.push_back(static_cast<int>(*size));
    }
    if (sizes.empty()) sizes = {100, 10'000, 100'000};
    Stacks stacks;
    for (const int size : sizes) stacks.push_back(std::make_unique<Stack>(size));
    Json json{{"benchmark", "store"},
              {"cores", std::thread::hardware_concurrency()},
              {"sizes", measure_all(stacks)}};
    for (const char* key : {"list_of_100_ms", "list_of_15_failed_ms", "run_ms", "unknown_id_ms"}) {
      json["ratio_of_last_to_first"][key] =
          json["sizes"].back()[key].get<double>() / json["sizes"].front()[key].get<double>();
    }
    std::printf("%s\n", json.dump(2).c_str());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "store_bench: %s\n", error.what());
    return 1;
  }
}
