// What the commands that try a model have in common: which model, where it runs, how it reads.
#pragma once

#include <string>

#include "base/file_system.h"
#include "trainer/interchange/model_on_device.h"

namespace CLI {
class App;
}

namespace regatta::trainer::cli {

// Options are members, filled by the parser behind add().
class ModelArguments {
 public:
  explicit ModelArguments(const plugins::DevicePlace& place) { use_.place = place; }
  // MODEL, --vocab, --device, --threads.
  void add(CLI::App& app);
  // --max-length and what is about questions; call it behind add().
  void add_question_choices(CLI::App& app);

  [[nodiscard]] base::Path model() const { return model_; }
  [[nodiscard]] base::Path vocabulary() const { return vocabulary_; }
  [[nodiscard]] interchange::ModelUse use() const;
  [[nodiscard]] const interchange::QuestionChoices& choices() const { return choices_; }

 private:
  interchange::ModelUse use_;
  interchange::QuestionChoices choices_;
  std::string model_, vocabulary_, device_ = "cpu";
};

}  // namespace regatta::trainer::cli
