#include "trainer/cli/debug_commands.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json.h"
#include "trainer/cli/option_checks.h"
#include "trainer/probe/numerics.h"
#include "trainer/probe/step_probe.h"

namespace regatta::trainer::cli {

CLI::App* DebugCommands::add(CLI::App& program) {
  CLI::App* app = program.add_subcommand("debug", "take a step of a run again, and look at it");
  app->require_subcommand(1);
  probe_ = app->add_subcommand(
      "probe",
      "what a step was made of, as JSON: weights, samples, activations, gradients, update");
  add_replay(probe_);
  probe_->get_option("--step")->required();
  probe_->add_option("--out", out_, "file to write it to, instead of stdout")->check(not_empty());
  numerics_ = app->add_subcommand(
      "numerics",
      "a step beside float64: the error of each layer's activations and gradients; 1: too large");
  add_replay(numerics_);
  tokens_ = probe::NumericsOptions().tokens;
  numerics_
      ->add_option("--tokens", tokens_,
                   "at most so many of the step, from its first sample on; float64 needs minutes "
                   "for 512 of a base model, on one thread")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20))
      ->capture_default_str();
  numerics_->add_flag("--all", all_, "every tensor, not only the worst of each layer");
  return app;
}

void DebugCommands::add_replay(CLI::App* app) {
  app->add_option("directory", run_, "run directory; nothing in it is changed")
      ->required()
      ->check(not_empty());
  app->add_option("--step", options_.step, "optimizer step; 1 is the first")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000}));
  app->add_option("--set", changes_,
                  "KEY=VALUE: take the steps as if the run file said so, as in seed=2; repeatable")
      ->allow_extra_args(false);
  app->add_option("--data", data_, "dataset directory, instead of the run file's")
      ->check(not_empty());
  app->add_option("--threads", options_.threads, "threads, instead of the run file's")
      ->check(CLI::Range(1, 1024));
}

int DebugCommands::run() {
  options_.run = run_;
  options_.data = data_;
  options_.changes.clear();
  for (const std::string& change : changes_) {
    options_.changes.push_back(probe::parse_key_value(change));
  }
  return numerics_->parsed() ? numerics() : probe();
}

int DebugCommands::probe() const {
  base::FileSystem& files = base::posix_file_system();
  const std::string text =
      base::json_text(probe::probe_step(files, base::system_clock(), options_), 1) + "\n";
  if (out_.empty()) {
    std::fputs(text.c_str(), stdout);
  } else {
    base::replace_file(files, out_, text);
  }
  return 0;
}

int DebugCommands::numerics() const {
  const probe::NumericsReport report = probe::compare_with_reference(
      base::posix_file_system(), base::system_clock(), {options_, tokens_});
  std::fputs(probe::to_text(report, all_).c_str(), stdout);
  return probe::far_off(report).empty() ? 0 : 1;
}

void print_numerics_of_next_step(const base::Path& run, const plugins::DevicePlace& place,
                                 int threads) {
  base::FileSystem& files = base::posix_file_system();
  probe::NumericsOptions options;
  options.replay.run = run;
  options.replay.place = place;
  options.replay.threads = threads;
  const std::optional<std::int64_t> step = probe::next_step(files, run);
  if (!step) {
    std::puts("The run has no step left to compare with float64; name one to `debug numerics`.");
    return;
  }
  options.replay.step = *step;
  std::fputs(
      probe::to_text(probe::compare_with_reference(files, base::system_clock(), options), false)
          .c_str(),
      stdout);
  std::fflush(stdout);
}

}  // namespace regatta::trainer::cli
