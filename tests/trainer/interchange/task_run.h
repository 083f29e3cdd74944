// Runs of every task whose one checkpoint has random weights and moments: what is read from runs
// and what leaves them does not depend on what was learned.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/base/faulty_file_system.h"
#include "trainer/contract/run_config.h"
#include "trainer/data/vocabulary.h"
#include "trainer/step/snapshot.h"

namespace regatta::tests {

struct TaskRun {
  base::Path run, dataset;
  base::Path checkpoint;                // its only one, of kTaskRunStep steps
  trainer::contract::RunConfig config;  // its model has vocabulary and labels
  trainer::contract::TensorTable table;
  trainer::step::TrainingState state;
};
inline constexpr std::int64_t kTaskRunStep = 7;

// directory/dataset and directory/run; the directory is made. Two layers of 32, 48 positions, of a
// vocabulary in lower case that is the same for all fine-tuning tasks (a run of pre-training has
// that of make_small_dataset()). Labels: "no", "so so", "yes".
[[nodiscard]] TaskRun make_task_run(const base::Path& directory, trainer::contract::Task task);

// Its text, with other keys of `model` ("layers: 3").
[[nodiscard]] std::string task_run_text(trainer::contract::Task task, const base::Path& dataset,
                                        const std::string& more_of_model = "");

[[nodiscard]] trainer::data::Vocabulary vocabulary_of(const TaskRun& run);

// The tensors of two arenas of one table have the same bits.
[[nodiscard]] bool same_tensors(const trainer::contract::TensorTable& table,
                                const std::vector<float>& a, const std::vector<float>& b);

// The names of tensors whose bits differ, of those that both tables have in one shape.
[[nodiscard]] std::vector<std::string> other_tensors(const trainer::contract::TensorTable& a,
                                                     const std::vector<float>& of_a,
                                                     const trainer::contract::TensorTable& b,
                                                     const std::vector<float>& of_b);

}  // namespace regatta::tests
