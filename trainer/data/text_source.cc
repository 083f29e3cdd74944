#include "trainer/data/text_source.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/unique_fd.h"

namespace regatta::trainer::data {
namespace {

using base::Code;
using base::Error;
using base::Path;
namespace fs = std::filesystem;

constexpr std::size_t kReadBlock = std::size_t{256} << 10U;
constexpr std::string_view kGzipMagic = "\x1f\x8b";
constexpr std::string_view kZstandardMagic = "\x28\xb5\x2f\xfd";
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

[[nodiscard]] bool is_standard_input(const Path& path) { return path == "-"; }

void add_directory(const Path& directory, std::vector<Path>& files) {
  std::vector<Path> found;
  std::error_code error;
  fs::recursive_directory_iterator it(directory, error);
  for (const fs::recursive_directory_iterator end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().starts_with('.')) {
      it.disable_recursion_pending();
    } else if (it->is_regular_file(error) && !error) {
      found.push_back(it->path());
    }
  }
  if (error) base::throw_errno(error.value(), "cannot list " + directory.string());
  if (found.empty()) {
    throw Error(Code::User, directory.string() + " has no files; name a directory with text files");
  }
  std::sort(found.begin(), found.end());
  files.insert(files.end(), found.begin(), found.end());
}

}  // namespace

std::vector<Path> list_inputs(const std::vector<Path>& inputs) {
  std::vector<Path> files;
  for (const Path& input : inputs) {
    if (is_standard_input(input)) {
      files.push_back(input);
      continue;
    }
    std::error_code error;
    const fs::file_status status = fs::status(input, error);
    if (error) base::throw_errno(error.value(), "cannot read " + input.string());
    if (fs::is_directory(status)) {
      add_directory(input, files);
    } else if (fs::is_regular_file(status) || fs::is_fifo(status)) {
      files.push_back(input);
    } else {
      throw Error(Code::User, input.string() + " is neither a file nor a directory; name text");
    }
  }
  if (std::count_if(files.begin(), files.end(), is_standard_input) > 1) {
    throw Error(Code::User, "standard input (-) is named twice; it can be read once");
  }
  // A pipe may have no canonical name (/dev/fd/63 of a shell's <(…)): then it is itself.
  const auto identity = [](const Path& file) {
    std::error_code error;
    const Path canonical = fs::canonical(file, error);
    return error ? file : canonical;
  };
  std::set<Path> seen;
  const auto again = std::remove_if(files.begin(), files.end(), [&](const Path& file) {
    return !is_standard_input(file) && !seen.insert(identity(file)).second;
  });
  files.erase(again, files.end());
  return files;
}

std::uint64_t stored_bytes(const std::vector<Path>& files) {
  std::uint64_t total = 0;
  for (const Path& file : files) {
    std::error_code error;
    const auto size = is_standard_input(file) ? 0 : fs::file_size(file, error);
    if (!error) total += size;
  }
  return total;
}

// The stored bytes, with a look at the first few.
class TextSource::File {
 public:
  File(const Path& path, int standard_input)
      : name_(is_standard_input(path) ? "standard input" : path.string()), fd_(standard_input) {
    if (!is_standard_input(path)) {
      owned_ = base::UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
      fd_ = owned_.get();
      if (!owned_.valid()) base::throw_errno(errno, "cannot open " + name_);
    }
  }

  // Whether the bytes ahead begin with `prefix`.
  [[nodiscard]] bool begins_with(std::string_view prefix) {
    while (ahead().size() < prefix.size()) {
      if (!fill()) return false;
    }
    return ahead().starts_with(prefix);
  }
  // The bytes read but not yet taken; reads if there are none. Empty: the file is over.
  [[nodiscard]] std::string_view available() {
    if (ahead().empty()) fill();
    return ahead();
  }
  void take(std::size_t bytes) { taken_ += bytes; }

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::uint64_t consumed() const { return read_ - ahead().size(); }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(Code::User, name_ + " " + what);
  }

 private:
  [[nodiscard]] std::string_view ahead() const { return std::string_view(buffer_).substr(taken_); }

  bool fill() {
    buffer_.erase(0, taken_);
    taken_ = 0;
    const std::size_t before = buffer_.size();
    buffer_.resize(before + kReadBlock);
    ssize_t got = 0;
    do {
      got = ::read(fd_, buffer_.data() + before, kReadBlock);
    } while (got < 0 && errno == EINTR);
    if (got < 0) base::throw_errno(errno, "cannot read " + name_);
    buffer_.resize(before + static_cast<std::size_t>(got));
    read_ += static_cast<std::uint64_t>(got);
    return got > 0;
  }

  std::string name_;
  base::UniqueFd owned_;
  int fd_;
  std::string buffer_;
  std::size_t taken_ = 0;
  std::uint64_t read_ = 0;
};

class TextSource::Stream {
 public:
  virtual ~Stream() = default;
  // Writes 1 to `size` bytes to `out` and returns how many, or 0 at the end.
  virtual std::size_t read(char* out, std::size_t size) = 0;
};

class TextSource::Plain final : public Stream {
 public:
  explicit Plain(File& file) : file_(file) {}
  std::size_t read(char* out, std::size_t size) override {
    const std::string_view bytes = file_.available().substr(0, size);
    std::copy(bytes.begin(), bytes.end(), out);
    file_.take(bytes.size());
    return bytes.size();
  }

 private:
  File& file_;
};

class TextSource::Gzip final : public Stream {
 public:
  explicit Gzip(File& file) : file_(file) {
    constexpr int kGzipWrapper = 16;
    if (inflateInit2(&state_, MAX_WBITS + kGzipWrapper) != Z_OK) throw std::bad_alloc();
  }
  ~Gzip() override { inflateEnd(&state_); }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  std::size_t read(char* out, std::size_t size) override {
    state_.next_out = reinterpret_cast<Bytef*>(out);
    state_.avail_out = static_cast<uInt>(std::min(size, kReadBlock));
    const uInt wanted = state_.avail_out;
    while (state_.avail_out == wanted) {
      const std::string_view bytes = file_.available();
      if (bytes.empty() && !in_member_) break;
      if (bytes.empty()) file_.fail("ends inside its gzip data; copy it again");
      // zlib's interface is not const-correct; it only reads.
      state_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
      state_.avail_in = static_cast<uInt>(bytes.size());
      in_member_ = true;
      const int result = inflate(&state_, Z_NO_FLUSH);
      file_.take(bytes.size() - state_.avail_in);
      if (result == Z_STREAM_END) {  // another member may follow
        in_member_ = false;
        inflateReset(&state_);
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        file_.fail("has damaged gzip data; copy it again");
      }
    }
    return wanted - state_.avail_out;
  }

 private:
  File& file_;
  z_stream state_{};
  bool in_member_ = false;
};

class TextSource::Zstandard final : public Stream {
 public:
  explicit Zstandard(File& file) : file_(file), state_(ZSTD_createDStream()) {
    if (state_ == nullptr) throw std::bad_alloc();
  }
  ~Zstandard() override { ZSTD_freeDStream(state_); }
  Zstandard(const Zstandard&) = delete;
  Zstandard& operator=(const Zstandard&) = delete;

  std::size_t read(char* out, std::size_t size) override {
    ZSTD_outBuffer output{out, size, 0};
    while (output.pos == 0) {
      const std::string_view bytes = file_.available();
      // Output may still be held back when the input is over, so decompress once more then.
      if (bytes.empty() && !in_frame_) break;
      ZSTD_inBuffer input{bytes.data(), bytes.size(), 0};
      const std::size_t result = ZSTD_decompressStream(state_, &output, &input);
      file_.take(input.pos);
      if (ZSTD_isError(result) != 0U) {
        file_.fail("has damaged zstd data (" + std::string(ZSTD_getErrorName(result)) +
                   "); copy it again");
      }
      in_frame_ = result != 0;
      if (bytes.empty() && output.pos == 0) file_.fail("ends inside its zstd data; copy it again");
    }
    return output.pos;
  }

 private:
  File& file_;
  ZSTD_DStream* state_;
  bool in_frame_ = false;
};

TextSource::TextSource(const Path& path, int standard_input)
    : file_(std::make_unique<File>(path, standard_input)) {
  if (file_->begins_with(kGzipMagic)) {
    stream_ = std::make_unique<Gzip>(*file_);
  } else if (file_->begins_with(kZstandardMagic)) {
    stream_ = std::make_unique<Zstandard>(*file_);
  } else {
    stream_ = std::make_unique<Plain>(*file_);
  }
}

TextSource::~TextSource() = default;

std::string_view TextSource::head() {
  const std::size_t wanted = kHeadBytes + kByteOrderMark.size();
  std::size_t filled = head_.size();
  head_.resize(wanted);
  while (filled < wanted) {
    const std::size_t got = stream_->read(head_.data() + filled, wanted - filled);
    if (got == 0) break;
    filled += got;
  }
  head_.resize(filled);
  std::string_view text = head_;
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return text.substr(0, kHeadBytes);
}

std::size_t TextSource::read_some(char* out, std::size_t size) {
  if (head_.empty()) return stream_->read(out, size);
  const std::size_t taken = head_.copy(out, size);
  head_.erase(0, taken);
  return taken;
}

void TextSource::read(std::size_t limit, std::string& text) {
  const std::size_t before = text.size();
  const std::size_t mark = at_start_ ? kByteOrderMark.size() : 0;
  limit += mark;
  text.resize(before + limit);
  std::size_t filled = 0;
  while (filled < limit) {
    const std::size_t got = read_some(text.data() + before + filled, limit - filled);
    if (got == 0) break;
    filled += got;
  }
  text.resize(before + filled);
  const std::string_view added = std::string_view(text).substr(before);
  if (added.find('\0') != std::string_view::npos) {
    file_->fail("has NUL bytes, so it is not UTF-8 text; convert it or leave it out");
  }
  if (at_start_ && added.starts_with(kByteOrderMark)) text.erase(before, kByteOrderMark.size());
  at_start_ = false;
}

std::uint64_t TextSource::consumed() const { return file_->consumed(); }
const std::string& TextSource::name() const { return file_->name(); }

}  // namespace regatta::trainer::data
