// A model of open_any_model() on a device, to be asked; and how it is used where no run says it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "trainer/contract/run_config.h"
#include "trainer/device/device.h"
#include "trainer/interchange/any_model.h"
#include "trainer/model/bert.h"
#include "trainer/plugins/make_device.h"
#include "trainer/samples/batch.h"
#include "trainer/tasks/question.h"
#include "trainer/tasks/task_samples.h"

namespace regatta::trainer::interchange {

struct ModelUse {
  contract::DeviceKind device = contract::DeviceKind::Cpu;
  int threads = 0;  // 0: all cores that this process may use
  plugins::DevicePlace place;
};
[[nodiscard]] int threads_of(const ModelUse& use);

// Computes in float32. One thread at a time.
class ModelOnDevice {
 public:
  // Throws as plugins::make_device.
  ModelOnDevice(const AnyModel& model, const ModelUse& use);

  [[nodiscard]] std::string device() const { return device_->description(); }
  // Of a task other than Pretraining: what a JudgedSet of these samples takes.
  [[nodiscard]] tasks::JudgedSet::Logits logits(const std::vector<samples::Sample>& samples);
  // Of Pretraining: at each of the sample's masked positions (at least one) a logit for each piece,
  // [masked][vocabulary]. Code::User when one is not finite.
  [[nodiscard]] std::vector<std::vector<float>> masked_logits(const samples::Sample& sample);

 private:
  std::unique_ptr<device::Device> device_;
  model::Bert model_;
};

// What is not set is as the model's run has it, else as Google's run_squad.
struct QuestionChoices {
  std::optional<int> max_length;  // tokens of a window
  std::optional<int> doc_stride, max_question, max_answer;
  std::optional<double> null_threshold;
  // Every question has an answer in its text, as all of SQuAD 1.1 have; whatever a file says.
  bool always_answered = false;
};
// How the model reads texts; it outlives the result. Where nobody has set them, a limit of
// questions that leaves no room for text and a stride that would leave text out are lowered, told
// in `notes`. Code::User for more tokens than the model has positions.
[[nodiscard]] tasks::TaskText text_for(const AnyModel& model, const QuestionChoices& choices,
                                       int threads, std::vector<std::string>* notes);

// Adds a note where a question has more pieces than are read of it.
void tell_cut_questions(const tasks::QuestionSet& questions, const tasks::TaskText& text,
                        std::vector<std::string>* notes);

// Throws Code::User, beginning with `what` ("--question"), for a text that is blank, or no UTF-8.
void check_text(const std::string& text, const std::string& what);

}  // namespace regatta::trainer::interchange
