// A run of a few steps on a small dataset, made within this process, to be looked at.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tests/trainer/samples/small_dataset.h"
#include "trainer/contract/journal.h"
#include "trainer/contract/run_directory.h"
#include "trainer/probe/replay.h"

namespace regatta::tests {

// Checkpoints after every third step.
class ProbedRun : public OnSmallDataset<60> {
 protected:
  static base::FileSystem& disk() { return base::posix_file_system(); }
  static trainer::contract::RunConfig config_of(std::int64_t steps);
  trainer::contract::RunDirectory train(const trainer::contract::RunConfig& config,
                                        const std::string& name = "run");
  static std::map<std::int64_t, trainer::contract::StepRecord> steps_of(
      const trainer::contract::RunDirectory& run);
  static base::Path checkpoint_of(const trainer::contract::RunDirectory& run, std::int64_t step);
  static trainer::probe::ReplayOptions options_of(const trainer::contract::RunDirectory& run,
                                                  std::int64_t step,
                                                  const std::vector<std::string>& changes = {});
  static nlohmann::ordered_json probe(const trainer::contract::RunDirectory& run, std::int64_t step,
                                      const std::vector<std::string>& changes = {});
  static const nlohmann::ordered_json& part(const nlohmann::ordered_json& probe,
                                            const std::string& name);

  TemporaryDirectory folder_;
};

}  // namespace regatta::tests
