// Files as they are sent: streams with ranges, of one file or of several as one archive.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "orchestrator/api/http.h"
#include "orchestrator/files/shared_files.h"

namespace regatta::orchestrator::api {

// What is sent in one go: bytes that are at hand, or else a file from its start.
struct Segment {
  std::string bytes{};
  base::Path file{};
  std::uint64_t size = 0;  // of the file
};

struct Download {
  base::Path directory;  // a run's, in whose turn files are read (SharedFiles)
  std::vector<Segment> segments;
  std::string name;  // that a browser saves it under
  std::string type = "application/octet-stream";
  std::string digest{};          // XXH3-128 of all bytes, in hexadecimal; empty: not known
  std::string version{};         // changes whenever the bytes do; empty: the digest is it
  bool grows = false;            // bytes are only added, of which the version does not tell
  std::shared_ptr<void> held{};  // kept until all is sent
};

// 200, 206 for a range of bytes (one; RFC 9110 section 14), 416 for one that it does not have, 412
// where If-Match names other bytes. A range counts for nothing where If-None-Match names these. A
// file that is shorter meanwhile breaks the answer off before the length that was promised. One
// that grows has another tag with each size, and If-Range takes those that it had. `files` and
// `shared` outlive the answer.
[[nodiscard]] Response send(const Request& request, base::FileSystem& files,
                            files::SharedFiles* shared, Download download);

// Code::Conflict where a file of it is shorter than it is to be, or no file: what send() would find
// out when the head is gone. Waits for the file system.
void check_sizes(base::FileSystem& files, const Download& download);

struct ArchivedFile {
  std::string name;  // in the archive
  base::Path path;
  std::uint64_t size = 0;
};
// A tar archive (POSIX ustar, GNU's sizes above 8 GiB) of these files, mode 0600. Code::User for a
// name of more than 100 bytes.
[[nodiscard]] std::vector<Segment> tar_archive(const std::vector<ArchivedFile>& files,
                                               double modified_utc);

}  // namespace regatta::orchestrator::api
