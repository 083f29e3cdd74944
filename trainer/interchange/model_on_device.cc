#include "trainer/interchange/model_on_device.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "base/wording.h"
#include "trainer/data/tokenizer.h"
#include "trainer/step/evaluation.h"
#include "trainer/step/train_loop.h"

namespace regatta::trainer::interchange {
namespace {

constexpr int kWindowSpecials = 3;  // [CLS] and two [SEP]

model::BertOptions use_options(const AnyModel& model, const device::Device& device) {
  contract::RunConfig config;
  config.model = model.shape;
  config.data.max_length = model.max_length;
  model::BertOptions options = step::bert_options(config, device);
  options.keep_masked_logits = model.shape.task == contract::Task::Pretraining;
  return options;
}

}  // namespace

int threads_of(const ModelUse& use) { return use.threads > 0 ? use.threads : base::usable_cores(); }

ModelOnDevice::ModelOnDevice(const AnyModel& model, const ModelUse& use)
    : device_(plugins::make_device({use.device, contract::Precision::Float32,
                                    contract::AttentionKind::Automatic, threads_of(use), 0},
                                   use.place)),
      model_(*device_, model.shape, use_options(model, *device_)) {
  device_->copy_to_device(model::kCompute, model_.parameters(), model.parameters.data());
  model_.renew_compute_copy();
  device_->synchronize();
}

tasks::JudgedSet::Logits ModelOnDevice::logits(const std::vector<samples::Sample>& samples) {
  return step::logits_share(*device_, model_, samples, 0, 1);
}

std::vector<std::vector<float>> ModelOnDevice::masked_logits(const samples::Sample& sample) {
  const contract::ModelShape& shape = model_.shape();
  base::check(shape.task == contract::Task::Pretraining && !sample.masked_positions.empty(),
              "there are masked positions, and a head for them");
  const std::int64_t stride = contract::vocabulary_rows(shape);
  const samples::PackedBatch batch = samples::collate({sample}, {0});
  const device::HostMemory results(*device_, 4 * batch.masked() * stride);
  model_.upload(batch, 0, {});
  model_.forward(model::Mode::Evaluation);
  model_.read_logits(results.floats());
  device_->wait_host(device_->record(model::kCompute));
  std::vector<std::vector<float>> logits;
  for (std::int64_t row = 0; row < batch.masked(); ++row) {
    const float* const first = results.floats() + row * stride;
    logits.emplace_back(first, first + shape.vocabulary);
    const bool finite = std::all_of(logits.back().begin(), logits.back().end(),
                                    [](float logit) { return std::isfinite(logit); });
    if (finite) continue;
    throw base::Error(base::Code::User,
                      "a logit of mask " + std::to_string(row + 1) +
                          " is not a finite number; name a checkpoint from before training "
                          "diverged");
  }
  return logits;
}

tasks::TaskText text_for(const AnyModel& model, const QuestionChoices& choices, int threads,
                         std::vector<std::string>* notes) {
  tasks::TaskText text{model.vocabulary, model.lower_case,
                       choices.max_length.value_or(model.max_length),
                       model.questions.value_or(contract::QuestionConfig{}), threads};
  if (text.max_length > model.shape.max_positions) {
    throw base::Error(base::Code::User, "--max-length is " + std::to_string(text.max_length) +
                                            ", and " + model.name + " has " +
                                            std::to_string(model.shape.max_positions) +
                                            " positions; lower it");
  }
  contract::QuestionConfig& questions = text.questions;
  questions.max_question = choices.max_question.value_or(questions.max_question);
  questions.doc_stride = choices.doc_stride.value_or(questions.doc_stride);
  questions.max_answer = choices.max_answer.value_or(questions.max_answer);
  questions.null_threshold = choices.null_threshold.value_or(questions.null_threshold);
  if (model.shape.task != contract::Task::QuestionAnswering) return text;
  const int room = text.max_length - kWindowSpecials;
  if (questions.max_question < room) return text;
  const std::string windows = "windows of " + std::to_string(text.max_length) + " tokens";
  if (choices.max_question) {
    throw base::Error(base::Code::User, "--max-question " + std::to_string(*choices.max_question) +
                                            " leaves no room for text in " + windows +
                                            "; lower it");
  }
  questions.max_question = std::max(1, room / 2);
  notes->push_back(windows + ": questions are cut at " + std::to_string(questions.max_question) +
                   " pieces (--max-question)");
  return text;
}

void tell_cut_questions(const tasks::QuestionSet& questions, const tasks::TaskText& text,
                        std::vector<std::string>* notes) {
  const data::WordPiece pieces(text.vocabulary, {.lower_case = text.lower_case});
  data::Tokenizer tokenizer(pieces);
  std::vector<data::TokenId> ids;
  const auto most = static_cast<std::size_t>(text.questions.max_question);
  const auto cut = std::count_if(questions.questions.begin(), questions.questions.end(),
                                 [&](const tasks::Question& question) {
                                   ids.clear();
                                   tokenizer.tokenize(question.text, ids);
                                   return ids.size() > most;
                                 });
  if (cut == 0) return;
  notes->push_back(base::plural(cut, "question") + " of more than " + std::to_string(most) +
                   " pieces: what is beyond is cut off (--max-question)");
}

void check_text(const std::string& text, const std::string& what) {
  if (text.find_first_not_of(" \t\r\n\f\v") == std::string::npos) {
    throw base::Error(base::Code::User, what + " is empty; give it a text");
  }
  if (!base::is_utf8(text)) {
    throw base::Error(base::Code::User, what + " is not UTF-8; convert it with iconv -t UTF-8");
  }
}

}  // namespace regatta::trainer::interchange
