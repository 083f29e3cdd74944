#include "trainer/data/staging.h"

#include <fcntl.h>
#include <sys/file.h>

#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "trainer/data/dataset_format.h"

namespace regatta::trainer::data {
namespace {

using base::Code;
using base::Error;
using base::Path;

// OUTPUT.partial-01234567 and OUTPUT.old-01234567: the dataset that is being made, and the one that
// it is about to replace.
constexpr const char* kPartial = ".partial-";
constexpr const char* kOld = ".old-";

// As long as its process lives, which others can see by that. Nothing where that cannot be, or
// where another one holds it.
[[nodiscard]] base::UniqueFd hold(const Path& directory) {
  base::UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (fd.valid() && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) fd.reset();
  return fd;
}

}  // namespace

const char* manifest_name(DatasetKind kind) {
  return kind == DatasetKind::Text ? kManifestName : kTaskManifestName;
}

Staging::Staging(base::FileSystem& files, const Path& output, bool force, PartialDataset& partial,
                 DatasetKind kind)
    : files_(files),
      output_(output),
      parent_(output.has_parent_path() ? output.parent_path() : Path(".")),
      path_(output.string() + kPartial + base::random_hex(4)),
      force_(force),
      partial_(partial),
      kind_(kind) {
  take_over();
  check_output();
  partial_.begin(path_);
  files_.create_directory(path_);
  held_ = hold(path_);
}

Staging::~Staging() {
  if (published_) return;
  try {
    files_.remove_tree(path_);
  } catch (const Error&) {  // the failure that led here is the one to report
  }
}

void Staging::publish() {
  files_.sync_directory(path_);
  Path old;
  partial_.publish([&] {
    check_output();  // another one may have made it meanwhile
    const bool replaces = is_of_kind(output_, kind_);
    if (replaces) {
      old = output_.string() + kOld + base::random_hex(4);
      files_.rename(output_, old);
    }
    try {
      files_.rename(path_, output_);
    } catch (...) {
      if (replaces) files_.rename(old, output_);
      throw;
    }
    published_ = true;
    return old;
  });
  files_.sync_directory(parent_);
  if (!old.empty()) files_.remove_tree(old);
}

void Staging::check_output() const {
  if (!files_.exists(output_)) return;
  const bool is_same_kind = is_of_kind(output_, kind_);
  if (is_same_kind && force_) return;
  throw Error(
      Code::Conflict,
      base::printable(output_.string()) + " exists already" +
          (is_same_kind          ? "; choose another output, or replace it with --force"
           : is_dataset(output_) ? " and is a dataset of another kind; choose another output"
                                 : " and is not a dataset; choose another output"));
}

bool Staging::is_of_kind(const Path& directory, DatasetKind kind) const {
  return files_.exists(directory / manifest_name(kind));
}

bool Staging::is_dataset(const Path& directory) const {
  return is_of_kind(directory, DatasetKind::Text) || is_of_kind(directory, DatasetKind::Task);
}

// What killed preparations of the same output have left; a dataset that was set aside only while
// no other one is at work, which may be about to replace it.
void Staging::take_over() {
  std::error_code unknown;
  if (!std::filesystem::is_directory(parent_, unknown)) return;
  std::vector<Path> partial, old;
  for (const std::string& name : files_.list(parent_)) {
    if (is_left(name, kPartial)) partial.push_back(parent_ / name);
    if (is_left(name, kOld)) old.push_back(parent_ / name);
  }
  bool is_alone = true;
  for (const Path& path : partial) {
    const base::UniqueFd held = hold(path);
    if (held.valid()) drop(path);
    is_alone = is_alone && held.valid();
  }
  if (!is_alone) return;
  for (const Path& path : old) {
    if (!files_.exists(output_) && is_dataset(path)) {
      files_.rename(path, output_);
      base::log(base::LogLevel::Info, "restored " + base::printable(output_.string()) +
                                          ", which an interrupted prepare was replacing");
    } else {
      drop(path);
    }
  }
}

void Staging::drop(const Path& path) {
  files_.remove_tree(path);
  base::log(base::LogLevel::Info,
            "removed " + base::printable(path.string()) + ", left by an interrupted prepare");
}

bool Staging::is_left(const std::string& name, const std::string& kind) const {
  constexpr std::size_t kDigits = 8;
  const std::string prefix = output_.filename().string() + kind;
  return name.size() == prefix.size() + kDigits && name.rfind(prefix, 0) == 0 &&
         name.find_first_not_of("0123456789abcdef", prefix.size()) == std::string::npos;
}

PartialDataset::End PartialDataset::end() {
  mutex_.lock();  // for good
  if (folder_.empty()) return End::NothingWasBegun;
  const base::Path& left = is_made_ ? former_ : folder_;
  constexpr int kTries = 1000;  // other threads may still write into it
  std::error_code error;
  for (int i = 0; i < kTries && !left.empty() && std::filesystem::exists(left, error); ++i) {
    std::filesystem::remove_all(left, error);
  }
  return is_made_ ? End::WasMade : End::Removed;
}

base::Path PartialDataset::folder() const {
  const std::scoped_lock lock(mutex_);
  return folder_;
}

void PartialDataset::begin(const base::Path& folder) {
  const std::scoped_lock lock(mutex_);
  folder_ = folder;
}

void PartialDataset::publish(const std::function<base::Path()>& take_place) {
  const std::scoped_lock lock(mutex_);
  former_ = take_place();
  is_made_ = true;
}

}  // namespace regatta::trainer::data
