#include "trainer/bench/bench_input.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/json.h"
#include "base/statistics.h"
#include "base/wording.h"
#include "trainer/ranks/host_collectives.h"
#include "trainer/samples/batch_prefetcher.h"
#include "trainer/samples/step_samples.h"

namespace regatta::trainer::bench {
namespace {

using Json = nlohmann::ordered_json;

double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// A loop on each core that only computes, for as long as this lives.
class Computing {
 public:
  explicit Computing(int cores) {
    for (int i = 0; i < cores; ++i) {
      threads_.emplace_back([this](const std::stop_token& stop) {
        volatile double sum = 1;
        while (!stop.stop_requested()) {
          for (int each = 0; each < kEach; ++each) sum = sum * 1.0000001 + 1e-9;
          done_ += kEach;
        }
      });
    }
  }
  [[nodiscard]] double done() const { return static_cast<double>(done_); }

 private:
  static constexpr int kEach = 10000;
  std::atomic<std::int64_t> done_ = 0;
  std::vector<std::jthread> threads_;
};

struct Rates {
  std::vector<double> samples, tokens, processors, computing;
};

class Maker {
 public:
  Maker(const samples::SampleStream& samples, const base::Clock& clock,
        const BenchInputOptions& options)
      : clock_(clock), options_(options), samples_(config_of(options), samples, host_) {}

  // Steps with so many workers, for the time of a row.
  void measure(int workers, Rates* rates) {
    const double processors = processor_seconds();
    const auto [samples, tokens, seconds] = make(workers);
    rates->samples.push_back(samples / seconds);
    rates->tokens.push_back(tokens / seconds);
    rates->processors.push_back((processor_seconds() - processors) / seconds);
    rates->computing.push_back(beside(workers) / alone());
  }

 private:
  struct Taken {
    double samples = 0, tokens = 0, seconds = 0;
  };

  static contract::RunConfig config_of(const BenchInputOptions& options) {
    contract::RunConfig config;
    config.batch_size = options.batch;
    config.ranks_per_node = 1;
    config.data.max_length = options.max_length;
    return config;
  }

  // What loops on all cores do in a second while so many workers make steps.
  double beside(int workers) {
    const Computing computing(options_.cores);
    const double before = computing.done();
    const double seconds = make(workers).seconds;
    return (computing.done() - before) / seconds;
  }
  // The same with nothing beside them.
  double alone() {
    const Computing computing(options_.cores);
    const double before = computing.done(), mark = clock_.monotonic_seconds();
    std::this_thread::sleep_for(std::chrono::duration<double>(options_.seconds / 2));
    return (computing.done() - before) / (clock_.monotonic_seconds() - mark);
  }

  Taken make(int workers) {
    samples::BatchPrefetcher prefetcher(clock_, [this](const samples::StepPlace& place) {
      return [this, places = samples_.places(place)] {
        const samples::StepShare share = samples_.read(places);
        samples::StepBatches step;
        step.batches.push_back(samples::collate(share.samples, share.ordinals));
        return step;
      };
    });
    prefetcher.set_workers(workers);
    const auto place = [&](std::int64_t step) {
      return samples::StepPlace{step, options_.batch, (step - 1) * options_.batch};
    };
    Taken taken;
    const double begin = clock_.monotonic_seconds();
    while (clock_.monotonic_seconds() - begin < options_.seconds) {
      std::vector<samples::StepPlace> next;
      for (int i = 1; i <= 2 * workers; ++i) next.push_back(place(step_ + i));
      const samples::StepBatches step = prefetcher.take(place(step_), next).step;
      ++step_;
      taken.samples += static_cast<double>(step.batches[0].samples());
      taken.tokens += static_cast<double>(step.batches[0].tokens());
    }
    taken.seconds = clock_.monotonic_seconds() - begin;
    step_ += 2 * workers;
    return taken;
  }

  const base::Clock& clock_;
  BenchInputOptions options_;
  ranks::SingleHost host_;
  samples::StepSamples samples_;
  std::int64_t step_ = 1;
};

}  // namespace

std::string bench_input(const samples::SampleStream& samples, const base::Clock& clock,
                        const BenchInputOptions& options) {
  Maker maker(samples, clock, options);
  std::vector<Rates> rates(options.workers.size());
  for (int round = 0; round < options.rounds; ++round) {
    for (std::size_t i = 0; i < rates.size(); ++i) maker.measure(options.workers[i], &rates[i]);
  }
  Json rows = Json::array(), enough;
  const double first = base::median(rates.front().samples);
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const double rate = base::median(rates[i].samples);
    rows.push_back({{"workers", options.workers[i]},
                    {"samples_per_second", rate},
                    {"tokens_per_second", base::median(rates[i].tokens)},
                    {"processors", base::median(rates[i].processors)},
                    {"ratio", rate / first},
                    {"computing", base::median(rates[i].computing)}});
    const bool is_less = enough.is_null() || options.workers[i] < enough.get<int>();
    if (rate >= options.demand && is_less) enough = options.workers[i];
  }
  Json json = {{"benchmark", "input"},       {"samples", options.source},
               {"batch", options.batch},     {"max_length", options.max_length},
               {"cores", options.cores},     {"rounds", options.rounds},
               {"seconds", options.seconds}, {"rows", std::move(rows)}};
  if (options.demand > 0) {
    json["demand"] = options.demand;
    json["enough"] = std::move(enough);
  }
  return base::json_text(json, 2) + "\n";
}

std::string bench_input_table(const std::string& json) {
  const auto found = base::parse_json<Json>(json);
  std::string text = base::formatted("%8s %12s %12s %11s %7s %10s\n", "workers", "samples/s",
                                     "tokens/s", "processors", "ratio", "computing");
  for (const Json& row : found.at("rows")) {
    text += base::formatted("%8d %12.0f %12.0f %11.2f %7.2f %10.2f\n", row.at("workers").get<int>(),
                            row.at("samples_per_second").get<double>(),
                            row.at("tokens_per_second").get<double>(),
                            row.at("processors").get<double>(), row.at("ratio").get<double>(),
                            row.at("computing").get<double>());
  }
  if (!found.contains("demand")) return text;
  const Json& enough = found.at("enough");
  return text + base::formatted("%.0f samples/s need ", found.at("demand").get<double>()) +
         (enough.is_null() ? "more than any of these\n"
                           : base::plural(enough.get<int>(), "worker") + "\n");
}

}  // namespace regatta::trainer::bench
