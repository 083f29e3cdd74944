// The weights of a model elsewhere as those of a model here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/interchange/any_model.h"
#include "trainer/interchange/model_source.h"

namespace regatta::trainer::interchange {

// What is to be started.
struct StartedModel {
  const contract::ModelShape& shape;  // with vocabulary and labels
  const data::Vocabulary& vocabulary;
  bool lower_case;
  const std::vector<std::string>& labels;  // of Classification; empty: not known
  std::uint64_t seed;                      // of what is new
  int threads;
  std::string described_in;  // the run file, as messages have it
};

struct FilledArena {
  std::vector<float> parameters;  // [arena of the table]
  std::vector<std::string> notes;
};
// Every tensor of `shape`, of a model that is only tried. For pre-training, pooler and heads that
// it lacks as a whole are drawn from `seed` as for a new run; another task goes through all of
// them, so that drawn ones would be answers by chance: Code::User. Positions beyond the shape's are
// cut. Throws Code::User for a tensor that is missing otherwise, has another shape or is not
// finite; names and shapes come first, so that a wrong file costs neither the time nor the memory
// of a model.
[[nodiscard]] FilledArena fill_arena(ModelSource& source, const contract::ModelShape& shape,
                                     std::uint64_t seed, int threads);

// What starting_state() says, of an open source; the moments, too, where `without` is not empty: it
// says what to do where there are none.
[[nodiscard]] StartingState start_from(ModelSource& source, const StartedModel& started,
                                       const std::string& without);
// What check_start() says, of an open source.
[[nodiscard]] std::vector<std::string> check_start_from(ModelSource& source,
                                                        const StartedModel& started,
                                                        const std::string& without);

}  // namespace regatta::trainer::interchange
