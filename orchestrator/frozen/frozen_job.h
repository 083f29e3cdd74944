// What was frozen for one submission, as it lies on disk (README.md, "Formats"): plain data and its
// two files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"

namespace regatta::orchestrator::frozen {

struct FrozenFile {
  std::string path;    // relative to the tree
  std::string digest;  // XXH3-128 of its bytes; of a link, of what it said
  std::uint64_t bytes = 0;
  enum class Kind { Plain, Program, Link } kind = Kind::Plain;
  bool operator==(const FrozenFile&) const = default;
};

struct FrozenJob {
  std::string name;                   // of its folder: when it was made, and 8 random digits
  std::string made;                   // ISO 8601, UTC
  base::Path root;                    // what was frozen
  std::string directory;              // where sbatch was called, relative to it; may be empty
  std::optional<std::string> commit;  // HEAD, or the commit that was asked for
  bool at_commit = false;             // the files are the commit's, not the working tree's
  std::string tree;                   // digest of all files: equal trees have equal ones
  std::vector<FrozenFile> files;
  std::vector<std::string> linked;   // what git ignores: links to where it lies, not frozen
  std::optional<base::Path> script;  // absolute; nothing for --wrap and stdin
  std::string script_digest;         // of a script that lies elsewhere; its copy is `script`
  std::vector<std::string> command;  // sbatch's words, for people
};

// One digest of paths, kinds and digests.
[[nodiscard]] std::string tree_digest(const std::vector<FrozenFile>& files);

// Writes frozen.json and files into `folder`. Code::User where a path of the job cannot stand in
// JSON (not UTF-8).
void write_frozen_job(base::FileSystem& files, const base::Path& folder, const FrozenJob& job);

// Code::NotFound when the folder holds none; Code::Operator, with what is wrong, when it is
// damaged.
[[nodiscard]] FrozenJob read_frozen_job(base::FileSystem& files, const base::Path& folder);

}  // namespace regatta::orchestrator::frozen
