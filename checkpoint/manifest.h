// manifest.json: the last file of a checkpoint to be written; a checkpoint without one is
// unfinished. And the sidecars, in which the writers of shards say what they wrote.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace regatta::checkpoint {

constexpr int kManifestFormat = 1;

struct ManifestFile {
  std::uint64_t bytes = 0;
  std::string digest;  // XXH3-128, 32 hexadecimal digits
};

// The run diverged at one step, and went back to the state after another, which is less.
struct Rollback {
  std::int64_t from_step = 0;
  std::int64_t to_step = 0;

  bool operator==(const Rollback&) const = default;
};

// From a step on (1 is the first), steps have this many samples.
struct BatchChange {
  std::int64_t step = 1;
  std::int64_t size = 0;

  bool operator==(const BatchChange&) const = default;
};

// Of a run whose batch grows: all changes that were decided, those that are to come included, the
// first one of step 1, steps and sizes ascending; and how many steps of the first size its steps
// are worth.
struct BatchGrowthState {
  std::vector<BatchChange> batches;
  double progress = 0;

  bool operator==(const BatchGrowthState&) const = default;
};

// Whether a run that has gone back as `rollbacks` say came through a state of `step` that had gone
// back as `known` say: it knew of the first of them, and none of the later ones went beyond it.
[[nodiscard]] bool came_through(std::int64_t step, const std::vector<Rollback>& known,
                                const std::vector<Rollback>& rollbacks);

struct Manifest {
  std::string run;                // name of the run
  std::string execution;          // of the attempt that wrote it: letters and digits
  std::int64_t epoch = 0;         // fencing epoch of that attempt
  std::int64_t step = 0;          // optimizer steps done
  std::int64_t samples = 0;       // samples seen
  std::string model_fingerprint;  // trainer::model_fingerprint
  std::string data_fingerprint;   // of the dataset directory
  std::string metric;             // name of the target's metric; empty when never evaluated
  std::optional<double> value;    // its latest value at this step
  std::string plan;  // what the run found of it (topology/plan/plan_store.h); may be empty
  std::vector<Rollback> rollbacks;         // of the run before it had this state, in their order
  std::optional<BatchGrowthState> growth;  // nothing: all steps have as many samples
  double utc_seconds = 0;                  // when it was written
  std::map<std::string, std::string> versions;  // library, hardware, compiler, …: for people
  std::map<std::string, ManifestFile> files;    // by file name; filled in by CheckpointStore::write
};

[[nodiscard]] std::string to_json(const Manifest& manifest);

// Throws Code::User naming `source`: not JSON, a field missing or of the wrong kind, a file name
// that is not a plain name, a newer format, or a digest that does not fit the rest. Unknown fields
// are ignored.
[[nodiscard]] Manifest parse_manifest(const std::string& text, const std::string& source);

// A shard that is on the disk, with its sidecar.
struct WrittenShard {
  ManifestFile file;
  double write_seconds = 0;  // bytes to the file system, digest included
  double sync_seconds = 0;
};

// The text of a sidecar. Durations that are no numbers become 0.
[[nodiscard]] std::string to_json(const WrittenShard& shard);

// Throws Code::User naming `source` for any text that to_json does not give.
[[nodiscard]] WrittenShard parse_sidecar(const std::string& text, const std::string& source);

}  // namespace regatta::checkpoint
