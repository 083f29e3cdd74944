// Files under the digest of their bytes, each once: STORE/objects/AB/CDEF…, read-only. Trees are
// made of hard links to them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/unique_fd.h"
#include "orchestrator/frozen/frozen_job.h"

namespace regatta::orchestrator::frozen {

class ObjectStore {
 public:
  // store: a folder of this user's, which others cannot write; made (0700) when absent.
  // Code::Operator otherwise.
  explicit ObjectStore(const base::Path& store);

  // Keeps the bytes of a regular file, and says what it is; `path` is relative to the folder
  // `from`. It is read once, and read again (three times at most) where it was written to
  // meanwhile; Code::Retry when it still is. Code::Operator names a file that cannot be read.
  [[nodiscard]] FrozenFile keep(int from, const std::string& path);

  // Makes `path` below the folder `tree` that file: a link, or a copy where the file system links
  // no more.
  void place(const FrozenFile& file, int tree, const std::string& path) const;

 private:
  // False where the bytes are no longer those of the digest.
  bool write(int source, const FrozenFile& file, const std::string& object, std::int64_t seconds);

  base::Path store_;
  base::UniqueFd objects_;
  std::vector<char> buffer_;
};

// Of an open regular file's bytes from its beginning.
[[nodiscard]] std::string digest_of_descriptor(int file, std::vector<char>* buffer);

}  // namespace regatta::orchestrator::frozen
