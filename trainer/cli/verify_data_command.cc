#include "trainer/cli/verify_data_command.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
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
#include "trainer/interchange/declared_tokenizer.h"
#include "trainer/interchange/tokenizer_comparison.h"
#include "trainer/tasks/task_dataset.h"

namespace regatta::trainer::cli {
namespace {

using VerifiedJson = nlohmann::ordered_json;
using interchange::TokenizerComparison;
using interchange::TokenizerVerdict;

// What is told of a dataset that is whole.
struct Verified {
  VerifiedJson json;
  data::Vocabulary vocabulary;
  data::TokenizerOptions tokenizer;
};

[[nodiscard]] Verified verified_text(const base::Path& directory) {
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
  return {std::move(json), dataset.vocabulary(), dataset.manifest().tokenizer};
}

[[nodiscard]] std::int64_t samples_in(const tasks::TaskDataset& dataset, tasks::Part part) {
  if (dataset.task() == contract::Task::QuestionAnswering) {
    return static_cast<std::int64_t>(dataset.questions(part).questions.size());
  }
  return static_cast<std::int64_t>(dataset.examples(part).texts.size());
}

// Its files are also read: the digests fit, but another version of the program may read other
// samples.
[[nodiscard]] Verified verified_task(const base::Path& directory) {
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
  return {std::move(json), dataset.vocabulary(), dataset.manifest().tokenizer};
}

[[nodiscard]] Verified verified(const base::Path& directory) {
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

// A tokenizer that cannot be read is bad input, whatever keeps it from being read.
[[nodiscard]] interchange::DeclaredTokenizer declared_tokenizer(const std::string& path) {
  try {
    return interchange::read_tokenizer(base::posix_file_system(), path);
  } catch (const base::Error& error) {
    if (error.code() != base::Code::Operator) throw;
    throw base::Error(base::Code::User, error.what());
  }
}

[[nodiscard]] VerifiedJson comparison_json(const TokenizerComparison& comparison) {
  VerifiedJson json = {{"file", comparison.file},
                       {"verdict", interchange::name_of(comparison.verdict())},
                       {"same", comparison.verdict() == TokenizerVerdict::Same},
                       {"differences", VerifiedJson::array()},
                       {"not_followed", comparison.not_followed},
                       {"not_declared", comparison.not_declared},
                       {"probes", comparison.probes},
                       {"first_difference", nullptr},
                       {"advice", comparison.advice}};
  for (const interchange::RuleDifference& each : comparison.differences) {
    json["differences"].push_back(
        {{"rule", each.rule}, {"dataset", each.dataset}, {"tokenizer", each.tokenizer}});
  }
  if (comparison.first) {
    json["first_difference"] = {{"about", comparison.first->about},
                                {"text", comparison.first->text},
                                {"dataset", comparison.first->dataset},
                                {"tokenizer", comparison.first->tokenizer}};
  }
  return json;
}

}  // namespace

CLI::App* VerifyDataCommand::add(CLI::App& program) {
  CLI::App* app = program.add_subcommand(
      "verify-data", "read a whole dataset and compare it with its digests and fingerprint");
  app->add_option("dataset", directory_, "dataset directory, of text or of a task")
      ->required()
      ->check(not_empty());
  app->add_option(
         "--tokenizer", tokenizer_,
         "also tell whether this tokenizer would give other tokens than the dataset has: a "
         "tokenizer.json of Hugging Face, a vocab.txt, or a directory with one of them; "
         "exit code 1 if it would, or if nobody knows")
      ->check(not_empty());
  app->add_flag("--json", json_, "one JSON object, also of a dataset that is damaged");
  app->footer(
      "exit codes: 0 whole (and the same tokens), 1 other tokens, 3 no such file, 7 damaged");
  return app;
}

int VerifyDataCommand::run() const {
  try {
    std::optional<interchange::DeclaredTokenizer> declared;  // before hours of reading
    if (!tokenizer_.empty()) declared = declared_tokenizer(tokenizer_);
    Verified made = verified(directory_);
    std::string text = verified_lines(made.json);
    bool is_same = true;
    if (declared) {
      const TokenizerComparison comparison =
          interchange::compare_tokenizers({made.vocabulary, made.tokenizer}, *declared);
      is_same = comparison.verdict() == TokenizerVerdict::Same;
      made.json["tokenizer"] = comparison_json(comparison);
      text += base::formatted("%-12s", "tokenizer") + interchange::to_text(comparison);
    }
    if (json_) text = base::json_text(made.json) + "\n";
    std::fputs(text.c_str(), stdout);
    return is_same ? 0 : 1;
  } catch (const base::Error& error) {
    if (json_) {
      const VerifiedJson json = {{"ok", false}, {"directory", directory_}, {"error", error.what()}};
      std::fputs((base::json_text(json) + "\n").c_str(), stdout);
    }
    throw;  // main knows the exit code
  }
}

}  // namespace regatta::trainer::cli
