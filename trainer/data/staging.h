// Where a dataset is built: a folder beside the output, which takes its place once it is whole.
#pragma once

#include <functional>
#include <mutex>
#include <string>

#include "base/file_system.h"
#include "base/unique_fd.h"

namespace regatta::trainer::data {

// What a preparation has made so far beside its output, for a thread that ends the process: either
// that removes it, or it becomes the dataset, whole and with nothing left of the one before.
class PartialDataset {
 public:
  enum class End { NothingWasBegun, Removed, WasMade };
  // From then on the preparation stands still where it would touch the output. Once; throws
  // nothing.
  End end();

  // For the preparation: the folder, then the swap of folders by `take_place`, which returns the
  // former dataset's folder, or an empty path.
  void begin(const base::Path& folder);
  void publish(const std::function<base::Path()>& take_place);
  [[nodiscard]] base::Path folder() const;  // empty: not begun

 private:
  mutable std::mutex mutex_;
  base::Path folder_, former_;
  bool is_made_ = false;
};

// Of text (dataset.json), or of a task (task.json): what `force` may replace by one of its kind.
enum class DatasetKind { Text, Task };
[[nodiscard]] const char* manifest_name(DatasetKind kind);

// The directory that becomes the dataset; removed unless published.
class Staging {
 public:
  // Makes OUTPUT.partial-XXXXXXXX, and removes or puts back what killed preparations of the same
  // output have left. Code::Conflict if `output` exists (and is no dataset of this kind, with
  // `force`). The borrowed arguments must outlive it.
  Staging(base::FileSystem& files, const base::Path& output, bool force, PartialDataset& partial,
          DatasetKind kind = DatasetKind::Text);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  [[nodiscard]] const base::Path& path() const { return path_; }

  // Syncs and swaps; Code::Conflict if another one has made `output` meanwhile.
  void publish();

 private:
  void check_output() const;
  void take_over();
  void drop(const base::Path& path);
  [[nodiscard]] bool is_of_kind(const base::Path& directory, DatasetKind kind) const;
  [[nodiscard]] bool is_dataset(const base::Path& directory) const;  // of any kind
  [[nodiscard]] bool is_left(const std::string& name, const std::string& kind) const;

  base::FileSystem& files_;
  base::Path output_, parent_, path_;
  bool force_;
  PartialDataset& partial_;
  DatasetKind kind_;
  base::UniqueFd held_;
  bool published_ = false;
};

}  // namespace regatta::trainer::data
