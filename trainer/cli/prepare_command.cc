#include "trainer/cli/prepare_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/file_system.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "trainer/cli/option_checks.h"

namespace regatta::trainer::cli {
namespace {

constexpr double kLeastHeldOut = 1e-9;

// Nothing when stderr is no terminal.
void show_progress(const data::PrepareProgress& progress) {
  if (isatty(2) != 0) std::fputs(data::progress_line(progress).c_str(), stderr);
}

// What `prepare` returns, unless a signal ends the process meanwhile.
template <typename Prepare>
[[nodiscard]] auto unless_ended(const run::EndOnSignal& ending, Prepare prepare) {
  try {
    auto made = prepare();
    ending.pass();
    return made;
  } catch (const std::exception&) {
    ending.pass();  // its folder was removed below it
    throw;
  }
}

void show(const std::string& summary, const std::vector<std::string>& warnings) {
  std::fputs(summary.c_str(), stdout);
  for (const std::string& warning : warnings) {
    std::fprintf(stderr, "regatta-train: warning: %s\n", warning.c_str());
  }
}

}  // namespace

CLI::App* PrepareCommand::add(CLI::App& program) {
  CLI::App* app = program.add_subcommand(
      "prepare",
      "text, JSON Lines, CSV and TSV (files or directories, .gz, .zst, - for stdin) to a dataset "
      "directory; in text a blank line separates documents; --task: a dataset to fine-tune on");
  options_.threads = base::usable_cores();
  app->add_option("inputs", inputs_, "files, directories or -")->required();
  app->add_option("--output,-o", output_, "dataset directory to make")->required();
  app->add_option("--format", format_,
                  "format of all inputs, instead of what their names end with: .jsonl, .ndjson and "
                  ".json, .csv, .tsv, and text for all others")
      ->check(CLI::IsMember(
          std::set<std::string>(data::kInputFormats.begin(), data::kInputFormats.end())));
  CLI::Option* file = app->add_option("--vocab,--vocabulary", vocabulary_,
                                      "vocab.txt to use; with --task also a directory that has it");
  task_.add(*app, add_text_options(*app, file));
  app->add_flag("--cased", cased_,
                "keep case and accents (default with --task: as the --vocabulary directory says)");
  app->add_flag("--force", options_.force, "replace the output directory");
  return app;
}

// Those that text has and a task has not.
std::vector<CLI::Option*> PrepareCommand::add_text_options(CLI::App& app, CLI::Option* vocabulary) {
  std::vector<CLI::Option*> options;
  options.push_back(app.add_option("--field", options_.field,
                                   "field of JSON Lines that has the text (default: text)")
                        ->check(not_empty()));
  options.push_back(app.add_option("--column", options_.column,
                                   "column of CSV and TSV that has the text, by name or number "
                                   "from 1 (default: text)")
                        ->check(not_empty()));
  options.push_back(app.add_flag(
      "--strict", options_.strict,
      "fail at the first line of JSON that cannot be read, instead of leaving it out"));
  options.push_back(app.add_option("--train-vocab", options_.train_vocabulary,
                                   "train a vocabulary of this many pieces")
                        ->excludes(vocabulary)
                        ->check(CLI::Range(256, 1 << 20)));
  options.push_back(
      app.add_option("--word-limit", options_.word_limit,
                     "longer words (characters) become [UNK]: 200 as Google, 100 as Hugging Face")
          ->check(CLI::IsMember({100, 200})));
  options.push_back(
      app.add_option("--held-out", options_.held_out, "share of documents kept for evaluation")
          ->check(between(kLeastHeldOut, 0.9)));
  options.push_back(
      app.add_option("--threads", options_.threads, "threads")->check(CLI::Range(1, 1024)));
  return options;
}

int PrepareCommand::run() {
  if (task_.is_asked()) return run_task();
  if (vocabulary_.empty() && options_.train_vocabulary == 0) {
    throw base::Error(base::Code::User, "name a vocabulary with --vocab, or --train-vocab N");
  }
  options_.inputs.assign(inputs_.begin(), inputs_.end());
  options_.output = output_;
  options_.vocabulary = vocabulary_;
  options_.format = data::input_format_named(format_);
  options_.lower_case = !cased_;
  options_.partial = &partial_;
  const run::EndOnSignal ending([this] { end(); });
  const data::PrepareReport report = unless_ended(
      ending, [this] { return data::prepare(options_, base::posix_file_system(), show_progress); });
  show(data::summary_text(report, output_), report.warnings);
  return 0;
}

int PrepareCommand::run_task() {
  const run::EndOnSignal ending([this] { end(); });
  const tasks::TaskPrepareReport report = unless_ended(ending, [this] {
    return task_.prepared({inputs_, output_, vocabulary_, format_, cased_, options_.force},
                          partial_);
  });
  show(tasks::summary_text(report, output_), report.warnings);
  return 0;
}

void PrepareCommand::end() {
  const bool is_made = partial_.end() == data::PartialDataset::End::WasMade;
  std::error_code error;
  const bool stays = !is_made && std::filesystem::exists(output_, error);
  std::fprintf(stderr, "%sregatta-train: prepare was ended; %s %s%s\n", isatty(2) != 0 ? "\n" : "",
               is_made ? "it had just made" : "nothing was made at",
               base::printable(output_).c_str(), stays ? ", and what is there stays" : "");
}

}  // namespace regatta::trainer::cli
