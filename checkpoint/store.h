// The checkpoints of one run: a directory of directories. docs/formats/checkpoint.md gives layout
// and order of writes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "base/file_system.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"

namespace regatta::checkpoint {

// Files of a checkpoint, and the names of a parameter's moments in the second.
constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr const char* kManifestFile = "manifest.json";
constexpr const char* kFirstMoment = "exp_avg.";      // + the parameter's name
constexpr const char* kSecondMoment = "exp_avg_sq.";  // + the parameter's name

// "step-0000001200-0123456789abcdef"
struct CheckpointName {
  std::int64_t step = 0;
  std::string execution;  // 1 to 64 letters and digits

  [[nodiscard]] std::string text() const;
};
[[nodiscard]] std::optional<CheckpointName> parse_checkpoint_name(const std::string& text);
// How often a run had gone back before an attempt wrote under this name: of
// "0123456789abcdefr2", 2.
[[nodiscard]] std::int64_t rollbacks_of(const std::string& execution);

// Of two checkpoints of a run the newer one has the greater age: rollbacks before, step, epoch of
// the attempt, name.
using Age = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::string>;
// `rollbacks`, `epoch`: of its manifest; empty and 0 where it has none.
[[nodiscard]] Age age_of(const std::string& name, std::int64_t step, const std::string& execution,
                         const std::vector<Rollback>& rollbacks, std::int64_t epoch);

// What to write. Tensors borrow their bytes until write() returns.
struct Contents {
  Manifest manifest;  // `files` is filled in
  std::vector<NamedTensor> model;
  std::vector<NamedTensor> optimizer;
};

struct Written {
  std::string name;
  std::uint64_t bytes = 0;   // of all files, sidecars included
  double write_seconds = 0;  // of the slowest shard
  double sync_seconds = 0;   // of the slowest shard, and of the manifest
};

enum class Status {
  Valid,       // the manifest is there and readable; verify() also reads the data
  Unfinished,  // no manifest: being written, or its writer died
  Damaged,     // what can be read of the manifest is wrong
  Unreadable,  // the file system failed while reading it
};

struct Entry {
  std::string name;
  std::int64_t step = 0;
  std::string execution;
  Status status = Status::Unfinished;
  std::string reason;                // one line, when not valid
  std::optional<Manifest> manifest;  // when valid

  [[nodiscard]] Age age() const;
};

struct Skipped {
  std::string name;
  std::string reason;
  bool is_damaged = false;  // when it was read: its manifest said that it is whole
};

// Where load_latest puts a tensor: as many bytes as dtype and shape say.
struct TensorPlace {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::span<std::byte> bytes;
  bool may_be_absent = false;
};

struct Loaded {
  std::string name;
  Manifest manifest;
  std::vector<std::string> absent;  // of the tensors that may be
};

struct LatestLoaded {
  std::optional<Loaded> checkpoint;  // nothing: the run starts from scratch
  std::vector<Skipped> skipped;      // newer than it and not usable, newest first
};

// One object per run directory and thread; `files` must outlive it. Another process may write and
// remove at the same time.
class CheckpointStore {
 public:
  // The directory need not exist yet.
  CheckpointStore(base::FileSystem& files, base::Path directory);

  [[nodiscard]] const base::Path& directory() const { return directory_; }

  // Writes a whole checkpoint or none: on any error its directory is removed again and the others
  // are untouched. `allowed` is asked right before the checkpoint becomes visible; if it says no,
  // throws Code::Conflict "fenced". A full disk is Code::Operator, noticed before writing if
  // possible. Code::Conflict also when this execution has written this step already.
  Written write(const Contents& contents, const std::function<bool()>& allowed,
                const base::Clock& clock = base::system_clock());

  // The same in parts, for shards from several writers. Each writes its own, in any order and from
  // any machine that shares the file system: the directory, where nobody has made it yet, the file
  // and its sidecar, all synced. What an earlier try of this name left is replaced, a checkpoint
  // with a manifest is not (Code::Conflict). A full disk is Code::Operator, noticed before writing
  // when fewer than `needed` bytes are free (its own when 0). On an error the own file is removed.
  WrittenShard write_shard(const CheckpointName& name, const std::string& file,
                           const std::vector<NamedTensor>& tensors, const base::Clock& clock,
                           std::uint64_t needed = 0);
  // Once all `shards` are written: reads their sidecars, and makes the checkpoint visible as
  // write() does. Code::User when a shard or sidecar is missing or of another size than it says. On
  // any error nothing is visible; call remove() then, when no writer is at work any more.
  Written commit(const Manifest& manifest, const std::vector<std::string>& shards,
                 const std::function<bool()>& allowed, const base::Clock& clock);

  // Every checkpoint directory, the newest first: what a run has saved after more rollbacks comes
  // before what it saved before them, whatever their steps. Reads manifests only.
  [[nodiscard]] std::vector<Entry> list() const;

  // Reads every byte; why the checkpoint is not usable, or nothing when it is. What the file system
  // throws (other than for absence) passes through.
  [[nodiscard]] std::optional<std::string> verify(const std::string& name) const;

  // The newest checkpoint that is whole and fits, read in one pass with its digests: every tensor
  // of `model` and `optimizer` goes to its place, from one file or several, whole or in ranges. One
  // with a tensor that is missing, of another type or shape, in two shards, or not among the places
  // is damaged. Code::User when there are good ones, all of another model or data set; the file
  // system's error when none is left and one could not be read. After a return without a
  // checkpoint, and after an error, the places hold anything.
  [[nodiscard]] LatestLoaded load_latest(const std::string& model_fingerprint,
                                         const std::string& data_fingerprint,
                                         const std::vector<TensorPlace>& model,
                                         const std::vector<TensorPlace>& optimizer) const;

  // The same of the named ones, in the order given.
  [[nodiscard]] LatestLoaded load_first(const std::vector<std::string>& names,
                                        const std::string& model_fingerprint,
                                        const std::string& data_fingerprint,
                                        const std::vector<TensorPlace>& model,
                                        const std::vector<TensorPlace>& optimizer) const;

  // Removes one checkpoint, its manifest first, so that a half-removed one counts as unfinished.
  // Absent is fine; Code::User for a name that is not a checkpoint's.
  void remove(const std::string& name);

 private:
  [[nodiscard]] Entry inspect(const CheckpointName& name) const;
  [[nodiscard]] LatestLoaded load_one_of(const std::vector<Entry>& entries,
                                         const std::string& model_fingerprint,
                                         const std::string& data_fingerprint,
                                         const std::vector<TensorPlace>& model,
                                         const std::vector<TensorPlace>& optimizer) const;
  [[nodiscard]] base::Path path_of(const CheckpointName& name) const;
  // Code::Conflict when it has a manifest.
  void refuse_whole(const CheckpointName& name) const;
  void check_room(const CheckpointName& name, std::uint64_t bytes) const;
  void write_synced(const base::Path& path, const std::string& text);
  // The entries and size of every shard, or why it cannot be part of a checkpoint.
  void collect(const base::Path& path, const std::vector<std::string>& shards, Manifest* manifest,
               Written* written) const;
  base::FileSystem* files_;
  base::Path directory_;
};

}  // namespace regatta::checkpoint
