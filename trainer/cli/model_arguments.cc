#include "trainer/cli/model_arguments.h"

#include <CLI/CLI.hpp>

#include "trainer/cli/option_checks.h"
#include "trainer/contract/run_config.h"

namespace regatta::trainer::cli {

void ModelArguments::add(CLI::App& app) {
  app.add_option("model", model_,
                 "a run directory, RUN/checkpoints/step-…, the directory of a Hugging Face model, "
                 "or the prefix of a TensorFlow checkpoint")
      ->required()
      ->check(not_empty());
  app.add_option("--vocab", vocabulary_, "the model's vocab.txt, if it lies elsewhere")
      ->check(not_empty());
  app.add_option("--device", device_, "where to compute: cpu, cuda, or auto (default: cpu)")
      ->check(CLI::IsMember({"cpu", "cuda", "auto"}));
  app.add_option("--threads", use_.threads, "threads (default: all cores)")
      ->check(CLI::Range(1, 1024));
}

void ModelArguments::add_question_choices(CLI::App& app) {
  const CLI::Range pieces(1, contract::kMostPositions);
  app.add_option("--max-length", choices_.max_length,
                 "tokens that the model reads at once (default: the model's)")
      ->check(CLI::Range(8, contract::kMostPositions));
  app.add_option("--doc-stride", choices_.doc_stride,
                 "pieces from one window of a text to the next (default: the run's, else 128)")
      ->check(pieces);
  app.add_option("--max-question", choices_.max_question,
                 "pieces read of a question (default: the run's, else 64)")
      ->check(pieces);
  app.add_option("--max-answer", choices_.max_answer,
                 "pieces of an answer at most (default: the run's, else 30)")
      ->check(pieces);
  CLI::Option* const threshold =
      app.add_option("--null-threshold", choices_.null_threshold,
                     "no answer is given where its odds are above this (default: the run's, "
                     "else 0)")
          ->check(between(-1e9, 1e9));
  app.add_flag("--answerable", choices_.always_answered,
               "every question has an answer in its text, as in SQuAD 1.1")
      ->excludes(threshold);
}

interchange::ModelUse ModelArguments::use() const {
  interchange::ModelUse use = use_;
  if (device_ == "cuda") use.device = contract::DeviceKind::Cuda;
  if (device_ == "auto") use.device = contract::DeviceKind::Auto;
  return use;
}

}  // namespace regatta::trainer::cli
