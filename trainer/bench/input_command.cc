#include "trainer/bench/input_command.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <utility>

#include "trainer/contract/input_config.h"
#include "trainer/data/dataset.h"
#include "trainer/samples/random_samples.h"
#include "trainer/samples/sampler.h"

namespace regatta::trainer::bench {
namespace {

constexpr std::int64_t kPeriod = 10000;

}  // namespace

InputCommand::InputCommand(base::Path program, int cores)
    : program_(std::move(program)), cores_(cores) {}

CLI::App* InputCommand::add(CLI::App& bench) {
  CLI::App* app = bench.add_subcommand(
      "input", "make samples with few and many threads; a table on stderr, JSON on stdout");
  app->add_option("--data", data_, "a prepared dataset; left out: random pieces")
      ->check(CLI::ExistingDirectory);
  lengths_.add(app);
  app->add_option("--max-length", options_.max_length, "tokens of a sample at most")
      ->check(CLI::Range(8, contract::kMostLength));
  app->add_option("--batch", options_.batch, "samples of a step")->check(CLI::Range(1, 1 << 16));
  app->add_option("--workers", options_.workers,
                  "threads that make them, several; left out: 1, 2, … to 4 × the cores")
      ->delimiter(',')
      ->check(CLI::Range(1, contract::kMostInputWorkers));
  app->add_option("--rounds", options_.rounds, "rounds")->check(CLI::Range(1, 1000));
  app->add_option("--seconds", options_.seconds, "of each row in a round, twice")
      ->check(CLI::Range(0.01, 3600.0));
  app->add_option("--demand", options_.demand, "samples/s that a run takes: how many are enough")
      ->check(CLI::PositiveNumber);
  return app;
}
int InputCommand::run() {
  options_.cores = cores_;
  const bool is_given = !options_.workers.empty();
  for (int workers = 1; !is_given && workers <= 4 * cores_; workers *= 2) {
    options_.workers.push_back(workers);
  }
  const std::string json = data_.empty() ? of_lengths() : of_dataset();
  std::fputs(bench_input_table(json).c_str(), stderr);
  std::fputs(json.c_str(), stdout);
  return 0;
}

std::string InputCommand::of_lengths() {
  options_.source = lengths_.name();
  contract::ModelShape shape = contract::preset_shape("base");
  shape.vocabulary = 30522;
  shape.max_positions = options_.max_length;
  return bench_input(samples::random_samples(lengths_.table(program_), shape, kPeriod),
                     base::system_clock(), options_);
}
std::string InputCommand::of_dataset() {
  options_.source = data_;
  contract::DataConfig config;
  config.path = data_;
  config.max_length = options_.max_length;
  const data::Dataset dataset = data::Dataset::open(data_);
  const samples::SampleSource source(dataset, data::Split::Training, config, 1);
  return bench_input(samples::stream_of(source), base::system_clock(), options_);
}

}  // namespace regatta::trainer::bench
