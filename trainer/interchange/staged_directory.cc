#include "trainer/interchange/staged_directory.h"

#include "base/error.h"
#include "base/text.h"

namespace regatta::trainer::interchange {
namespace {

base::Path without_trailing_slash(const base::Path& path) {
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace

StagedDirectory::StagedDirectory(base::FileSystem& files, const base::Path& output,
                                 Existing existing, const std::string& taken)
    : files_(files),
      output_(without_trailing_slash(output)),
      path_(output_.string() + ".partial-" + base::random_hex(4)),
      existing_(existing) {
  if (existing == Existing::Refuse && files_.exists(output_)) {
    throw base::Error(base::Code::Conflict,
                      base::printable(output_.string()) + " exists already; " + taken);
  }
  files_.create_directory(path_);
}

StagedDirectory::~StagedDirectory() {
  if (published_) return;
  try {
    files_.remove_tree(path_);
  } catch (const base::Error&) {  // the failure that led here is the one to report
  }
}

void StagedDirectory::write(const char* name, const std::string& text) {
  const auto file = files_.open(path_ / name, base::FileSystem::Open::CreateNew);
  file->append(text);
  file->sync();
}

void StagedDirectory::publish() {
  files_.sync_directory(path_);
  move_into_place(path_);
  published_ = true;
}

void StagedDirectory::publish_inner(const base::Path& inner) {
  files_.sync_directory(inner);
  move_into_place(inner);
}

void StagedDirectory::move_into_place(const base::Path& from) {
  const base::Path old = output_.string() + ".replaced-" + base::random_hex(4);
  const bool replaces = existing_ == Existing::Replace && files_.exists(output_);
  if (replaces) files_.rename(output_, old);
  try {
    files_.rename(from, output_);
  } catch (const base::Error&) {
    if (replaces) files_.rename(old, output_);
    throw;
  }
  files_.sync_directory(output_.has_parent_path() ? output_.parent_path() : base::Path("."));
  if (replaces) files_.remove_tree(old);
}

}  // namespace regatta::trainer::interchange
