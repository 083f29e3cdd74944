#include "trainer/cli/interchange_commands.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/clock.h"
#include "base/text.h"

namespace regatta::trainer::cli {

CLI::App* ExportCommand::add(CLI::App& program) {
  CLI::App* app = program.add_subcommand(
      "export", "a checkpoint to a directory that Hugging Face's transformers load");
  app->add_option("--checkpoint", checkpoint_,
                  "a checkpoint (RUN/checkpoints/step-…), or a run directory for its newest")
      ->required();
  app->add_option("--output,-o", output_, "directory to make")->required();
  app->add_option("--for", model_,
                  "pretraining: BertForPreTraining, with both heads; encoder: BertModel; "
                  "question-answering: BertForQuestionAnswering")
      ->check(CLI::IsMember({"pretraining", "encoder", "question-answering"}));
  app->add_option("--qa-head", question_head_,
                  "for question-answering: a .safetensors file with qa_outputs.{weight,bias}; "
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
  if (model_ == "encoder") options_.model = interchange::HuggingFaceClass::Encoder;
  if (model_ == "question-answering")
    options_.model = interchange::HuggingFaceClass::ForQuestionAnswering;
  const interchange::ExportReport report =
      interchange::export_model(base::posix_file_system(), options_);
  for (const std::string& note : report.notes) std::printf("%s\n", note.c_str());
  std::printf("%s: %s, %lld tensors, %s -> %s\n", report.checkpoint.c_str(),
              interchange::name_of(options_.model), static_cast<long long>(report.tensors),
              base::human_bytes(report.bytes).c_str(), base::printable(output_).c_str());
  return 0;
}

CLI::App* ImportCommand::add(CLI::App& program) {
  CLI::App* app =
      program.add_subcommand("import", "a run directory that starts from weights made elsewhere");
  app->add_option("--from", from_,
                  "directory of a Hugging Face BERT, or prefix of a TensorFlow 1 checkpoint")
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
