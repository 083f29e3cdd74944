// Reading the bytes of a corpus: files, directories, standard input; plain, gzip or Zstandard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"

namespace regatta::trainer::data {

// The files that `inputs` stand for, in a fixed order: a directory stands for every regular file
// below it whose path has no component that begins with '.', sorted; "-" for standard input. A file
// that is reached twice is listed once.
// Code::NotFound for an absent input; Code::User for "-" twice, a directory without files, or an
// input that is neither file, directory, pipe nor "-".
[[nodiscard]] std::vector<base::Path> list_inputs(const std::vector<base::Path>& inputs);
// Bytes of the regular files in the list, as stored.
[[nodiscard]] std::uint64_t stored_bytes(const std::vector<base::Path>& files);

// One input, decompressed as its first bytes (not its name) demand. A leading byte order mark is
// dropped.
class TextSource {
 public:
  // "-" reads `standard_input`, which stays open. Throws base::Error if the file cannot be opened.
  TextSource(const base::Path& path, int standard_input);
  ~TextSource();
  TextSource(const TextSource&) = delete;
  TextSource& operator=(const TextSource&) = delete;

  // Appends at most `limit` (> 0) bytes of text; nothing appended means that the text is over.
  // Code::User, naming the file, for damaged or truncated compressed data and for NUL bytes, which
  // no text has.
  void read(std::size_t limit, std::string& text);
  // The first bytes of the text (at most kHeadBytes, without a byte order mark), whatever they are:
  // for a look at what the file is. Before the first read(), which begins with them all the same.
  [[nodiscard]] std::string_view head();
  static constexpr std::size_t kHeadBytes = 512;  // where the mark of a tar archive is, too
  // Bytes read from the file so far, as stored.
  [[nodiscard]] std::uint64_t consumed() const;
  [[nodiscard]] const std::string& name() const;

 private:
  class Stream;
  class Plain;
  class Gzip;
  class Zstandard;
  class File;

  // From `head_`, then the stream; 0 at the end.
  [[nodiscard]] std::size_t read_some(char* out, std::size_t size);

  std::unique_ptr<File> file_;
  std::unique_ptr<Stream> stream_;
  std::string head_;  // looked at, not yet read
  bool at_start_ = true;
};

}  // namespace regatta::trainer::data
