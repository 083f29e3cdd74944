// What a run trains on and is judged by, whatever its task.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "trainer/contract/journal.h"
#include "trainer/contract/run_config.h"
#include "trainer/data/vocabulary.h"
#include "trainer/plugins/environment.h"
#include "trainer/samples/sample_stream.h"
#include "trainer/step/train_loop.h"
#include "trainer/tasks/answer_score.h"

namespace regatta::trainer::run {

struct WholeEvaluation {
  contract::EvalRecord record;
  std::optional<tasks::BestThresholds> best;  // JudgedSet::best_thresholds
};

// Immutable.
class RunData {
 public:
  virtual ~RunData() = default;

  [[nodiscard]] virtual const data::Vocabulary& vocabulary() const = 0;
  [[nodiscard]] virtual bool lower_case() const = 0;
  [[nodiscard]] virtual const std::string& fingerprint() const = 0;
  [[nodiscard]] virtual std::vector<plugins::DatasetIdentity> facts() const = 0;  // of each dataset
  [[nodiscard]] virtual const std::vector<std::string>& labels() const = 0;  // of Classification

  // Valid as long as this. Pure functions of the sample's number.
  [[nodiscard]] virtual samples::SampleStream training() const = 0;
  [[nodiscard]] virtual std::int64_t training_samples() const = 0;  // of one pass over all datasets
  [[nodiscard]] virtual std::int64_t evaluation_samples() const = 0;
  [[nodiscard]] virtual const std::vector<std::string>& warnings() const = 0;

  // What the best constant guess has of the run's metric (judged_by); nothing where that is a loss.
  [[nodiscard]] virtual std::optional<double> baseline() const = 0;
  // Of the model as it is after `step`. Collective.
  [[nodiscard]] virtual contract::EvalRecord evaluate(step::TrainLoop& loop,
                                                      std::int64_t step) const = 0;
  // The same in one process, in as many shares as a run of so many ranks has, added up in their
  // order: on a CPU the figures have the same bits.
  [[nodiscard]] virtual WholeEvaluation evaluate(device::Device& device, model::Bert& model,
                                                 int ranks, std::int64_t step) const = 0;
};

// Opens the datasets that the run file names, and checks that they are for its task; reads what is
// evaluated, and all of a task's texts. Throws Code::User or NotFound, with what to do.
// threads: 0: all cores.
[[nodiscard]] std::unique_ptr<RunData> open_run_data(base::FileSystem& files,
                                                     const contract::RunConfig& config,
                                                     int threads);

// Fills in what a run file leaves to its dataset: the vocabulary's size and the number of labels.
// Code::User, naming `source` (the run file), where it says something else than that.
void complete_model(const std::string& source, const data::Vocabulary& vocabulary,
                    const std::vector<std::string>& labels, contract::RunConfig* config);
// The same, of a dataset that is opened for nothing else.
void complete_model(base::FileSystem& files, const std::string& source,
                    contract::RunConfig* config);

}  // namespace regatta::trainer::run
