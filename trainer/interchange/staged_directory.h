// A directory that appears under its name whole or not at all.
#pragma once

#include <string>

#include "base/file_system.h"

namespace regatta::trainer::interchange {

class StagedDirectory {
 public:
  // Makes an empty directory beside `output`. Code::Conflict with `taken` when `output` exists and
  // is not to be replaced.
  enum class Existing { Refuse, Replace };
  StagedDirectory(base::FileSystem& files, const base::Path& output, Existing existing,
                  const std::string& taken);
  // Removes it, unless published.
  ~StagedDirectory();
  StagedDirectory(const StagedDirectory&) = delete;
  StagedDirectory& operator=(const StagedDirectory&) = delete;

  [[nodiscard]] const base::Path& path() const { return path_; }
  [[nodiscard]] const base::Path& output() const { return output_; }
  // Writes and syncs one file.
  void write(const char* name, const std::string& text);
  // Syncs the directory and gives it its name.
  void publish();
  // The same for a directory inside; the rest goes.
  void publish_inner(const base::Path& inner);

 private:
  void move_into_place(const base::Path& from);

  base::FileSystem& files_;
  base::Path output_, path_;
  Existing existing_;
  bool published_ = false;
};

}  // namespace regatta::trainer::interchange
