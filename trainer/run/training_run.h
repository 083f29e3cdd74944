#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file_system.h"
#include "trainer/contract/exit_code.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/run_directory.h"
#include "trainer/plugins/make_device.h"
#include "trainer/ranks/communicator.h"
#include "trainer/ranks/rendezvous.h"
#include "trainer/run/run_data.h"

namespace regatta::trainer::run {

// What a run with `from` begins with; arena order. No moments: they are zero, and the step is 0.
struct FirstState {
  std::vector<float> parameters, first_moment, second_moment;
  std::int64_t step = 0;  // behind the moments
  std::vector<std::string> notes;
};

struct TrainingRunOptions {
  int threads = 0;  // these two override the run file's; 0: as it says
  int ranks = 0;
  std::optional<double> deadline_utc;  // when it has to have saved and ended
  std::string mllog;                   // a file, instead of the run file's; empty: as it says
  plugins::DevicePlace place;
  std::string commit;          // that the program was built from; may be empty
  ranks::Variables variables;  // of the environment
  std::function<std::vector<std::string>()> all_variables;  // "NAME=value"; empty: none is told
  std::optional<ranks::RankPlace> rank_place;               // of this process; nothing: alone
  // Finds it, on rank 0 (trainer/interchange/any_model.h); throws base::Error. Empty: no run file
  // has `from`.
  std::function<FirstState(const contract::RunConfig& complete, const RunData& data)> first_state;
  // Empty, but in tests: what gradients are summed with instead. It outlives the run.
  std::function<ranks::Communicator&(ranks::Communicator& real)> around;
};

struct TrainingEnd {
  contract::ExitCode code = contract::ExitCode::Finished;
  bool agreed = true;  // all ranks return the same, and none was lost
};

// With the options' number of ranks in it. Code::User when that is more than the batch has samples.
[[nodiscard]] contract::RunConfig with_ranks(contract::RunConfig config,
                                             const TrainingRunOptions& options);
// The run file of a directory, with_ranks.
[[nodiscard]] contract::RunConfig config_of(const contract::RunDirectory& directory,
                                            const TrainingRunOptions& options);

// One attempt at a run, from its directory: takes the next attempt and epoch, resumes from the
// newest good checkpoint, trains until the target, the last step or a stop signal, and journals
// everything. Collective among the ranks of the run. What goes wrong is written as the journal's
// end record and to the log, and comes back as exit code; only what happens before there is a
// journal is thrown.
[[nodiscard]] TrainingEnd train(base::FileSystem& files, base::Clock& clock,
                                const contract::RunDirectory& directory,
                                const TrainingRunOptions& options);

}  // namespace regatta::trainer::run
