#include "trainer/cli/interchange_commands.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/text.h"

namespace regatta::trainer::cli {
namespace {

using interchange::HuggingFaceClass;

struct NamedClass {
  const char* name;
  HuggingFaceClass model;
};
constexpr NamedClass kClasses[] = {
    {"encoder", HuggingFaceClass::Encoder},
    {"pretraining", HuggingFaceClass::ForPreTraining},
    {"question-answering", HuggingFaceClass::ForQuestionAnswering},
    {"sequence-classification", HuggingFaceClass::ForSequenceClassification},
};

std::vector<std::string> class_names() {
  std::vector<std::string> names;
  for (const NamedClass& one : kClasses) names.emplace_back(one.name);
  return names;
}

// Nothing: by the run's task.
std::optional<HuggingFaceClass> class_named(const std::string& name) {
  for (const NamedClass& one : kClasses) {
    if (name == one.name) return one.model;
  }
  return std::nullopt;
}

}  // namespace

CLI::App* ExportCommand::add(CLI::App& program) {
  CLI::App* app = program.add_subcommand(
      "export", "a checkpoint to a directory that Hugging Face's transformers load");
  app->add_option("--checkpoint", checkpoint_,
                  "a checkpoint (RUN/checkpoints/step-…), or a run directory for its newest")
      ->required();
  app->add_option("--output,-o", output_, "directory to make")->required();
  app->add_option("--for", model_,
                  "encoder: BertModel; pretraining: BertForPreTraining, with both heads; "
                  "question-answering: BertForQuestionAnswering; sequence-classification: "
                  "BertForSequenceClassification (default: the one of the run's task)")
      ->check(CLI::IsMember(class_names()));
  app->add_option("--qa-head", question_head_,
                  "for question-answering of a pre-training run: a .safetensors file with "
                  "qa_outputs.{weight,bias}; "
                  "without it they are newly initialised");
  app->add_flag("--with-optimizer", options_.with_optimizer, "the optimizer's moments, too");
  app->add_option("--vocab", vocabulary_, "the model's vocab.txt, where the dataset is gone");
  app->add_flag("--cased", options_.cased, "--vocab is of a model that keeps case and accents");
  app->add_flag("--force", options_.force, "replace an earlier export");
  return app;
}

int ExportCommand::run() {
  options_.checkpoint = checkpoint_;
  options_.output = output_;
  options_.vocabulary = vocabulary_;
  options_.question_head = question_head_;
  options_.model = class_named(model_);
  const interchange::ExportReport report =
      interchange::export_model(base::posix_file_system(), options_);
  for (const std::string& note : report.notes) std::printf("%s\n", note.c_str());
  std::printf("%s: %s, %lld tensors, %s -> %s\n", report.checkpoint.c_str(),
              interchange::name_of(report.model), static_cast<long long>(report.tensors),
              base::human_bytes(report.bytes).c_str(), base::printable(output_).c_str());
  return 0;
}

CLI::App* ImportCommand::add(CLI::App& program) {
  CLI::App* app =
      program.add_subcommand("import", "a run directory that starts from weights made elsewhere");
  app->add_option("--from", from_,
                  "directory of a Hugging Face BERT, prefix of a TensorFlow 1 checkpoint, another "
                  "run's directory or one of its checkpoints")
      ->required();
  app->add_option("--run", run_file_, "run file; its model and data must be the weights'")
      ->required();
  app->add_option("--directory", run_directory_, "run directory to make")->required();
  app->add_option("--vocab", vocabulary_, "the model's vocab.txt, if it lies elsewhere");
  app->add_flag("--with-optimizer", options_.with_optimizer,
                "the optimizer's moments, too: the run goes on at their step");
  return app;
}

int ImportCommand::run() {
  options_.from = from_;
  options_.run_file = run_file_;
  options_.run_directory = run_directory_;
  options_.vocabulary = vocabulary_;
  const interchange::ImportReport report =
      interchange::import_model(base::posix_file_system(), base::system_clock(), options_);
  for (const std::string& note : report.notes) std::printf("%s\n", note.c_str());
  std::printf("%s -> %s; go on with: regatta-train run --directory %s\n", report.checkpoint.c_str(),
              base::printable(run_directory_).c_str(), base::printable(run_directory_).c_str());
  return 0;
}

}  // namespace regatta::trainer::cli
