// The API under load, over HTTP and through the real `regatta serve`: a store of 100,000 runs of
// history, 1,000 running runs whose journals grow by 1,000 records of 10 series a second, 10,000
// nodes of a Slurm whose commands are scripts. The load comes from this process, on the same
// machine, so both share its cores.
//   api_bench [--all] [--only ingest] [--seconds N] [--runs N] [--running N] [--nodes N]
//             [--directory DIR] [--fill DIR]
// JSON on stdout. --all: 30 s of each load instead of 5, and 5 minutes of ingest instead of 20 s.
// --only ingest: of all loads the journals at 10,000 points a second. Exit code 1 where a request
// failed, a record was not stored or the controller is not well; never for a time.
// --fill DIR: makes the store of --runs in DIR, for measurements of others, and ends.
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "tests/bench/lists.h"
#include "tests/bench/load.h"
#include "tests/bench/served_controller.h"
#include "tests/orchestrator/store/filled_store.h"
#include "trainer/contract/journal.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/run_directory.h"

namespace regatta::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSeriesOfARecord = 10;
constexpr int kLongRunSteps = 1'000'000;
constexpr int kViewers = 200;
constexpr double kSubmissionsMeanwhile = 100;  // at least

struct Sizes {
  int runs = 100'000, running = 1000, nodes = 10'000;
  double seconds = 5, ingest_seconds = 20, burst_seconds = 10;
  bool only_ingest = false;
  base::Path directory = std::filesystem::temp_directory_path();
  base::Path fill{};  // empty: measure
};

// The journals of runs that are trained elsewhere, and what grows them.
class Journals {
 public:
  Journals(const base::Path& runs, int count) : journals_(static_cast<std::size_t>(count)) {
    const std::string config = trainer::contract::to_json(trainer::contract::parse_run_config(
        "{name: bench, steps: 1000000, data: {path: /nowhere}}", "run.yaml"));
    for (std::size_t i = 0; i < journals_.size(); ++i) {
      Journal& journal = journals_[i];
      journal.run = "live-" + std::to_string(i);
      auto directory = trainer::contract::RunDirectory::create(base::posix_file_system(),
                                                               runs / journal.run, config);
      const auto attempt = directory.create_attempt();
      trainer::contract::StartRecord start;
      start.attempt = attempt.number;
      start.execution = attempt.execution;
      start.process = 1;
      start.host = "elsewhere";
      start.steps = 1'000'000;
      start.batch_size = 1;
      start.ranks = 2;
      start.metric = "mlm_accuracy";
      journal.out.open(directory.journal_path(attempt), std::ios::app);
      append(&journal, start);
    }
  }

  [[nodiscard]] const std::string& run(int number) const {
    return journals_[static_cast<std::size_t>(number) % journals_.size()].run;
  }
  // So many records a second, all journals in turn, until told to stop.
  void grow(double records_per_second, const std::stop_token& stop) {
    const auto begin = Clock::now();
    std::int64_t written = 0;
    while (!stop.stop_requested()) {
      const auto due = static_cast<std::int64_t>(since(begin) * records_per_second);
      for (; written < due; ++written) {
        add_step(&journals_[next_]);
        next_ = (next_ + 1) % journals_.size();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  [[nodiscard]] std::int64_t records() const { return records_; }

 private:
  struct Journal {
    std::string run;
    std::ofstream out;
    std::int64_t sequence = 0, step = 0;
  };

  template <typename Body>
  void append(Journal* journal, const Body& body) {
    trainer::contract::JournalRecord record;
    record.sequence = journal->sequence++;
    record.seconds = since(begin_);
    record.utc_seconds = base::system_clock().utc_seconds();
    record.body = body;
    journal->out << trainer::contract::to_line(record) << std::flush;
  }
  void add_step(Journal* journal) {
    trainer::contract::StepRecord step;
    step.step = ++journal->step;
    step.loss = step.mlm_loss = 6.0 - 1e-6 * static_cast<double>(step.step);
    step.samples = 8;
    step.tokens = 800;
    step.seconds = 0.5;
    step.exposed_seconds = 0.05;
    step.imbalance = 1.25;
    step.moved_bytes = 1000;
    step.noise_scale = 600;
    step.efficiency = 0.75;
    step.goodput = 12;
    step.mfu = 0.25;
    step.utilisation = 0.875;
    append(journal, step);
    ++records_;
  }

  Clock::time_point begin_ = Clock::now();
  std::vector<Journal> journals_;
  std::size_t next_ = 0;
  std::atomic<std::int64_t> records_ = 0;
};

Json figures(const Latencies& latencies, double per_second, double limit_ms) {
  Json json{{"per_second", per_second},           {"requests", latencies.seconds.size()},
            {"failed", latencies.failed},         {"median_ms", 1e3 * latencies.at(0.5)},
            {"p99_ms", 1e3 * latencies.at(0.99)}, {"longest_ms", 1e3 * latencies.at(1)},
            {"to_reach_p99_ms", limit_ms}};
  if (latencies.failed > 0) json["first_failure"] = latencies.failure;
  return json;
}

// Runs of the history by their numbers, as filled_store.cc names them.
std::string old_run(int number) {
  std::array<char, 32> id{};
  std::snprintf(id.data(), id.size(), "run%02d-%06x", number % 50,
                static_cast<unsigned>((static_cast<std::int64_t>(number) * 10368889) & 16777215));
  return id.data();
}

Call submission(int number, const std::string& after) {
  return {"POST", "/runs?after=" + after,
          "{\"name\": \"new\", \"steps\": 10, \"data\": {\"path\": \"/nowhere\"}, \"slurm\": "
          "{\"nodes\": 1, \"ranks_per_node\": 1, \"time_limit\": 10}}",
          "Idempotency-Key: bench-" + std::to_string(number) + "-" + after + "\r\n"};
}

class Bench {
 public:
  explicit Bench(const Sizes& sizes)
      : sizes_(sizes),
        work_(sizes.directory / ("regatta-api-bench-" + base::random_hex(4))),
        data_(work_ / "data"),
        runs_(work_ / "runs") {
    std::filesystem::create_directories(runs_);
    std::filesystem::permissions(work_, std::filesystem::perms::owner_all);
    make_slurm(work_ / "bin", sizes.nodes);
    write(work_ / "trainer", "#!/bin/sh\nexit 1\n");
    ::chmod((work_ / "trainer").c_str(), 0700);
    tests::fill_store(data_, {sizes.runs, 0, sizes.only_ingest ? 10 : kLongRunSteps});
    journals_ = std::make_unique<Journals>(runs_, sizes.running);
  }
  ~Bench() { std::filesystem::remove_all(work_); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  Json measure() {
    Json json{{"benchmark", "api"},
              {"cores", std::thread::hardware_concurrency()},
              {"load", "from a process on the same machine"},
              {"runs", sizes_.runs},
              {"running", sizes_.running},
              {"nodes", sizes_.nodes},
              {"seconds_of_each_load", sizes_.seconds}};
    {
      Served first(work_, data_, runs_);
      first.wait_until_adopted();
    }
    if (!sizes_.only_ingest) json["cold_start_seconds"] = cold_starts();
    serve_ = std::make_unique<Served>(work_, data_, runs_);
    serve_->wait_until_adopted();
    if (!sizes_.only_ingest) {
      // As in a cluster at work: everything beside 1,000 growing journals.
      std::jthread growing(
          [this](const std::stop_token& stop) { journals_->grow(sizes_.running, stop); });
      requests(&json);
    }
    json["ingest"] = ingest(10'000, sizes_.ingest_seconds);
    if (!sizes_.only_ingest) json["ingest_burst"] = ingest(50'000, sizes_.burst_seconds);
    json["resident_megabytes"] = {
        {"now", serve_->memory("VmRSS")}, {"peak", serve_->memory("VmHWM")}, {"to_reach", 512}};
    const Json health = serve_->get("/health");
    json["health"] = health["status"];
    if (health["status"] != "ok") faults_.push_back("the controller is not well: " + health.dump());
    return json;
  }
  // What must not be, whatever the machine's speed.
  [[nodiscard]] const std::vector<std::string>& faults() const { return faults_; }

 private:
  Json cold_starts() {
    Json seconds = Json::array();
    for (int i = 0; i < 3; ++i) {
      seconds.push_back(Served(work_, data_, runs_).first_answer_seconds());
    }
    return {{"of_three", seconds}, {"to_reach", 2}};
  }

  Json judged(const Latencies& latencies, double per_second, double limit_ms,
              const std::string& what) {
    if (latencies.failed > 0) {
      faults_.push_back(std::to_string(latencies.failed) + " of " +
                        std::to_string(latencies.seconds.size()) + " requests such as " + what +
                        " failed, the first with " + latencies.failure);
    }
    return figures(latencies, per_second, limit_ms);
  }

  // With what it costs the controller, all of its work in that time: figures that other programs of
  // the machine change little.
  Json load(double per_second, double limit_ms, const std::function<Call(int)>& call) {
    const double processor = serve_->processor_seconds();
    const auto begin = Clock::now();
    Json json = judged(put_load(serve_->place(), {per_second, sizes_.seconds}, call), per_second,
                       limit_ms, call(0).target);
    json["processors"] = (serve_->processor_seconds() - processor) / since(begin);
    json["resident_megabytes"] = serve_->memory("VmRSS");
    return json;
  }

  void requests(Json* json) {
    (*json)["nothing_but_journals"] = load(1, 0, [](int) { return Call{"GET", "/version"}; });
    (*json)["list"] = lists();
    for (const std::string& list : kLists) (*json)["list_alone"][list] = alone(list, 50);
    for (const std::string& list : kLargestLists) (*json)["list_alone"][list] = alone(list, 5);
    (*json)["text_search"] = load(10, 300, [](int i) {
      return Call{"GET", i % 2 == 0 ? "/runs?text=no-such-text&total=true" : "/runs?text=7f"};
    });
    (*json)["object"] = load(100, 20, [&](int i) {
      return Call{"GET", "/runs/" + old_run(1 + i * 97 % sizes_.runs)};
    });
    (*json)["chart"] = load(20, 50, [&](int i) {
      const std::string run = i % 4 == 0 ? old_run(1) : journals_->run(i * 7);
      return Call{"GET", "/runs/" + run + "/metrics"};
    });
    // Of a million steps: all of them, a part, and two series of several runs.
    (*json)["chart_of_buckets"] = load(20, 50, [&](int i) {
      static constexpr std::array kAsked = {
          "&series=loss", "&series=loss&from=1000&to=250000&x=step", "&series=loss&buckets=2000",
          "&series=loss,tokens_per_second,mlm_accuracy&x=wall"};
      const std::string others = i % 4 == 3 ? "," + journals_->run(i) + "," + old_run(7) : "";
      return Call{"GET", "/metrics?runs=" + old_run(1) + others +
                             kAsked[static_cast<std::size_t>(i) % kAsked.size()]};
    });
    (*json)["submit"] = load(20, 50, [&](int i) { return submission(i, journals_->run(0)); });
    (*json)["viewers"] = viewers();
    nodes(json);
  }

  // While runs are submitted, each of which changes what a total counts.
  Json lists() {
    constexpr double kSubmissions = 1;
    Latencies submissions;
    Json json;
    {
      const std::jthread submitting([&] {
        submissions = put_load(serve_->place(), {kSubmissions, sizes_.seconds},
                               [&](int i) { return submission(i, journals_->run(2)); });
      });
      json = load(200, 50, [](int i) {
        return Call{"GET", kLists[static_cast<std::size_t>(i) % kLists.size()]};
      });
    }
    json["submissions_meanwhile"] = judged(submissions, kSubmissions, 50, "submissions");
    return json;
  }

  Json alone(const std::string& list, double per_second) {
    const double seconds = std::min(sizes_.seconds / 2, 4.0);
    const Latencies one = put_load(serve_->place(), {per_second, seconds}, [&](int) {
      return Call{"GET", list};
    });
    const Json all = judged(one, per_second, 50, list);
    return {{"median_ms", all["median_ms"]}, {"p99_ms", all["p99_ms"]}};
  }

  // A page, by itself, filtered, and as large and full as it may be.
  void nodes(Json* json) {
    const std::vector<std::pair<std::string, std::string>> lists = {
        {"nodes_list", "/nodes"},
        {"nodes_filtered", "/nodes?state=drained&text=FAN&partition=main"},
        {"nodes_large", "/nodes?limit=1000&full=true"}};
    for (const auto& list : lists) {
      const std::string& path = list.second;
      Json& measured = (*json)[list.first];
      measured = load(10, list.first == "nodes_large" ? 0 : 10, [&path](int) {
        return Call{"GET", path};
      });
      const Json answer = serve_->get(path);
      measured["answered"] = answer["nodes"].size();
      measured["total"] = answer["total"];
    }
  }

  // Each is connected all the time and asks for the list or for one run once in two seconds, as an
  // open page does; meanwhile others submit.
  Json viewers() {
    Viewed views;
    Latencies submissions;
    const Viewers asked{kViewers, 2, std::max(sizes_.seconds, 4.0)};
    const double per_second = std::max(20.0, kSubmissionsMeanwhile / asked.seconds);
    {
      const std::jthread viewing([&] {
        views = put_viewers(serve_->place(), asked, [&](int viewer) {
          return viewer % 2 == 0 ? Call{"GET", "/runs?limit=50", "", "Accept-Encoding: gzip\r\n"}
                                 : Call{"GET", "/runs/" + journals_->run(viewer)};
        });
      });
      // From few connections: with those of the viewers they are fewer than one peer may have.
      submissions = put_load(serve_->place(), {per_second, asked.seconds, 16},
                             [&](int i) { return submission(i, journals_->run(1)); });
    }
    if (views.most_open < kViewers) {
      faults_.push_back("only " + std::to_string(views.most_open) + " viewers were connected");
    }
    return {{"viewers", kViewers},
            {"connected_at_once", {{"most", views.most_open}, {"least", views.least_open}}},
            {"views", judged(views.latencies, kViewers / asked.period_seconds, 50, "views")},
            {"submissions_meanwhile", judged(submissions, per_second, 50, "submissions")}};
  }

  // Records that the store has, by the newest step of each run.
  std::int64_t stored() {
    std::int64_t steps = 0;
    const Json answer = serve_->get("/runs?name=bench&limit=1000");
    for (const Json& run : answer["runs"]) steps += run["step"].get<std::int64_t>();
    return steps;
  }

  Json ingest(double points_per_second, double seconds) {
    const double records_per_second = points_per_second / kSeriesOfARecord;
    const std::int64_t before = journals_->records();
    const double processor = serve_->processor_seconds();
    std::int64_t most_behind = 0;
    const auto begin = Clock::now();
    {
      std::jthread growing(
          [&](const std::stop_token& stop) { journals_->grow(records_per_second, stop); });
      while (since(begin) < seconds) {
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
        const std::int64_t written = journals_->records();
        most_behind = std::max(most_behind, written - stored());
      }
    }
    const std::int64_t written = journals_->records() - before;
    const double growing_seconds = since(begin);
    const auto end = Clock::now();
    while (stored() < journals_->records() && since(end) < kStartSeconds) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    const bool all_stored = stored() == journals_->records();
    if (!all_stored) {
      faults_.push_back("of " + std::to_string(journals_->records()) + " records " +
                        std::to_string(stored()) + " are stored " +
                        std::to_string(static_cast<int>(since(end))) + " s after the last");
    }
    return {
        {"points_per_second", static_cast<double>(written) * kSeriesOfARecord / growing_seconds},
        {"to_reach_points_per_second", points_per_second},
        {"points_of_a_record", kSeriesOfARecord},
        {"seconds", growing_seconds},
        {"records", written},
        {"all_stored", all_stored},
        {"all_stored_after_seconds", since(end)},
        {"most_seconds_behind", static_cast<double>(most_behind) / records_per_second},
        {"processors", (serve_->processor_seconds() - processor) / since(begin)}};
  }

  Sizes sizes_;
  base::Path work_, data_, runs_;
  std::unique_ptr<Journals> journals_;
  std::unique_ptr<Served> serve_;
  std::vector<std::string> faults_;
};

Sizes parse(int count, char** words) {
  Sizes sizes;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--all") {
      sizes.seconds = 30;
      sizes.ingest_seconds = 300;
      continue;
    }
    if (i + 1 == count) throw base::Error(base::Code::User, word + " needs a value");
    const std::string value = words[++i];
    const auto number = static_cast<int>(base::parse_integer(value).value_or(0));
    if (word == "--only") {
      if (value != "ingest") throw base::Error(base::Code::User, "--only takes ingest");
      sizes.only_ingest = true;
    } else if (word == "--directory") {
      sizes.directory = value;
    } else if (word == "--fill") {
      sizes.fill = value;
    } else if (number <= 0) {
      throw base::Error(base::Code::User, word + " is '" + value + "'; give a number above 0");
    } else if (word == "--seconds") {
      sizes.seconds = sizes.ingest_seconds = sizes.burst_seconds = number;
    } else if (word == "--runs") {
      sizes.runs = number;
    } else if (word == "--running") {
      sizes.running = number;
    } else if (word == "--nodes") {
      sizes.nodes = number;
    } else {
      throw base::Error(base::Code::User, "unknown option " + word);
    }
  }
  return sizes;
}

// A journal is a descriptor.
void allow_descriptors() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace
}  // namespace regatta::bench

int main(int count, char** words) {
  try {
    regatta::bench::allow_descriptors();
    const regatta::bench::Sizes sizes = regatta::bench::parse(count, words);
    if (!sizes.fill.empty()) {
      regatta::tests::fill_store(sizes.fill, {sizes.runs, 0});
      return 0;
    }
    regatta::bench::Bench bench(sizes);
    std::printf("%s\n", bench.measure().dump(2).c_str());
    std::fflush(stdout);
    for (const std::string& fault : bench.faults()) {
      std::fprintf(stderr, "api_bench: %s\n", fault.c_str());
    }
    return bench.faults().empty() ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "api_bench: %s\n", error.what());
    return 1;
  }
}
