// environment.json of an attempt: what may explain a difference in speed or in results between it
// and another one (docs/formats/environment.md).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file_system.h"
#include "trainer/contract/run_config.h"
#include "trainer/device/device.h"
#include "trainer/plugins/machine_files.h"

namespace regatta::trainer::plugins {

// What training and evaluation read, apart: two datasets of one vocabulary have equal digests of
// it. Digests are XXH3-128; empty: there is none.
struct DatasetIdentity {
  std::string fingerprint;
  std::int64_t vocabulary_size = 0;  // pieces
  std::string vocabulary_digest;
  bool lower_case = true;
  int word_limit = 0;           // of the tokenizer, code points
  std::string corpus_digest;    // of a dataset of text
  std::string training_digest;  // of a task's files
  std::string evaluation_digest;
};

// What an attempt knows of itself.
struct AttemptFacts {
  std::string commit;            // that the program was built from; empty: not known
  base::Path program;            // of the running trainer
  contract::RunConfig config;    // complete
  device::DeviceProfile device;  // this and the description: of rank 0
  std::string device_description;
  std::string communicator;  // Communicator::library_version()
  int hosts = 1;
  std::optional<std::string> plan;     // text of the run's plan.json
  std::string topology;                // fingerprint that the plan was made for
  std::vector<std::string> variables;  // "NAME=value", of the process
  std::string data_fingerprint;        // of all datasets
  std::vector<DatasetIdentity> datasets;
  std::int64_t parameters = 0;
  // Not of the sections: what differs between equal attempts.
  int number = 1;
  std::string execution;
  std::string resumed_from;  // a checkpoint's name; empty: none
  std::string host, slurm_job;
};

// XXH3-128 of a file; empty when it cannot be read.
[[nodiscard]] std::string digest_of_file(base::FileSystem& files, const base::Path& path);

// The run file after defaults, with null for each value of slurm.environment, which may be a
// password.
[[nodiscard]] nlohmann::ordered_json shown_configuration(const contract::RunConfig& config);

// The file's JSON but for `training`. `files`: where the program is read; `machine`: what this
// machine is.
[[nodiscard]] nlohmann::ordered_json environment_of(base::FileSystem& files,
                                                    const MachineFiles& machine,
                                                    const base::Clock& clock,
                                                    const AttemptFacts& facts);

// Writes it. Throws what base::replace_file throws.
void write_environment(base::FileSystem& files, const base::Path& path,
                       const nlohmann::ordered_json& environment);

// Adds `training` to a written file, at once or not at all: clocks and limits at the end of the
// attempt, and what was throttled since its begin. Code::Operator where the file is none.
void add_training(base::FileSystem& files, const base::Path& path, const MachineFiles& machine,
                  const base::Clock& clock);

}  // namespace regatta::trainer::plugins
