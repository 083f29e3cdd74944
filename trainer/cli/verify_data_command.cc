#include "trainer/cli/verify_data_command.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file_system.h"
#include "base/json.h"
#include "base/text.h"
#include "base/wording.h"
#include "trainer/cli/option_checks.h"
#include "trainer/contract/model_shape.h"
#include "trainer/data/dataset.h"
#include "trainer/tasks/task_dataset.h"

namespace regatta::trainer::cli {
namespace {

using VerifiedJson = nlohmann::ordered_json;

[[nodiscard]] VerifiedJson verified_text(const base::Path& directory) {
  const data::Dataset dataset = data::Dataset::open(directory);
  dataset.verify();
  VerifiedJson json = {{"ok", true},
                       {"directory", directory.string()},
                       {"task", contract::name_of(contract::Task::Pretraining)},
                       {"fingerprint", dataset.fingerprint()},
                       {"vocabulary", dataset.vocabulary().size()}};
  for (const data::Split split : data::kSplits) {
    const data::SplitManifest& counts = dataset.manifest().splits[data::index_of(split)];
    json[std::string(data::name_of(split))] = {{"documents", counts.documents},
                                               {"sentences", counts.sentences},
                                               {"tokens", counts.tokens},
                                               {"unknown_tokens", counts.unknown_tokens}};
  }
  return json;
}

[[nodiscard]] std::int64_t samples_in(const tasks::TaskDataset& dataset, tasks::Part part) {
  if (dataset.task() == contract::Task::QuestionAnswering) {
    return static_cast<std::int64_t>(dataset.questions(part).questions.size());
  }
  return static_cast<std::int64_t>(dataset.examples(part).texts.size());
}

// Its files are also read: the digests fit, but another version of the program may read other
// samples.
[[nodiscard]] VerifiedJson verified_task(const base::Path& directory) {
  const tasks::TaskDataset dataset = tasks::TaskDataset::open(directory, base::posix_file_system());
  VerifiedJson json = {{"ok", true},
                       {"directory", directory.string()},
                       {"task", contract::name_of(dataset.task())},
                       {"fingerprint", dataset.fingerprint()},
                       {"vocabulary", dataset.vocabulary().size()}};
  if (dataset.task() == contract::Task::Classification) json["labels"] = dataset.labels();
  for (const auto& [part, name] : {std::pair(tasks::Part::Training, "training"),
                                   std::pair(tasks::Part::Evaluation, "evaluation")}) {
    const std::int64_t samples = samples_in(dataset, part);
    if (samples != dataset.samples(part)) {
      throw base::Error(base::Code::User,
                        "dataset " + base::printable(directory.string()) + " is damaged: its " +
                            name + " file has " + base::plural(samples, "sample") + " instead of " +
                            std::to_string(dataset.samples(part)) + "; prepare it again");
    }
    json[name] = {{"samples", samples}};
  }
  return json;
}

[[nodiscard]] VerifiedJson verified(const base::Path& directory) {
  const bool is_task = tasks::TaskDataset::is_there(directory, base::posix_file_system());
  return is_task ? verified_task(directory) : verified_text(directory);
}

// "training  5 documents, 10 sentences, 80 tokens, 0 unknown tokens".
[[nodiscard]] std::string part_line(const std::string& name, const VerifiedJson& counts) {
  std::vector<std::string> figures;
  for (const auto& [noun, count] : counts.items()) {
    std::string spaced = noun;
    for (char& c : spaced) c = c == '_' ? ' ' : c;
    spaced.pop_back();  // plural() adds it where it belongs
    figures.push_back(base::plural(count.get<std::int64_t>(), spaced));
  }
  return base::formatted("%-12s", name.c_str()) + base::join(figures, ", ") + "\n";
}

[[nodiscard]] std::string verified_lines(const VerifiedJson& json) {
  std::string text =
      "ok\n" + base::formatted("%-12s", "task") + json.at("task").get<std::string>() + "\n";
  for (const auto& [key, title] :
       {std::pair("training", "training"), std::pair("held_out", "held out"),
        std::pair("evaluation", "evaluation")}) {
    if (json.contains(key)) text += part_line(title, json.at(key));
  }
  text += base::formatted("%-12s", "vocabulary") +
          base::plural(json.at("vocabulary").get<std::int64_t>(), "piece") + "\n";
  if (json.contains("labels")) {
    text += base::formatted("%-12s", "labels") +
            base::printable(base::join(json.at("labels").get<std::vector<std::string>>(), ", ")) +
            "\n";
  }
  return text + base::formatted("%-12s", "fingerprint") +
         json.at("fingerprint").get<std::string>() + "\n";
}

}  // namespace

CLI::App* VerifyDataCommand::add(CLI::App& program) {
  CLI::App* app = program.add_subcommand(
      "verify-data", "read a whole dataset and compare it with its digests and fingerprint");
  app->add_option("dataset", directory_, "dataset directory, of text or of a task")
      ->required()
      ->check(not_empty());
  app->add_flag("--json", json_, "one JSON object, also of a dataset that is damaged");
  return app;
}

int VerifyDataCommand::run() const {
  try {
    const VerifiedJson json = verified(directory_);
    std::fputs((json_ ? base::json_text(json) + "\n" : verified_lines(json)).c_str(), stdout);
    return 0;
  } catch (const base::Error& error) {
    if (json_) {
      const VerifiedJson json = {{"ok", false}, {"directory", directory_}, {"error", error.what()}};
      std::fputs((base::json_text(json) + "\n").c_str(), stdout);
    }
    throw;  // main knows the exit code
  }
}

}  // namespace regatta::trainer::cli
