#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "base/error.h"
#include "base/philox.h"
#include "base/statistics.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "trainer/bench/bench_seed.h"
#include "trainer/bench/platform_parts.h"
#include "trainer/data/tokenizer.h"
#include "trainer/samples/random_samples.h"

namespace regatta::trainer::bench {
namespace {

constexpr std::uint32_t kTextSite = 1002;
constexpr std::uint32_t kWords = 4096;   // of which every second is a piece
constexpr std::size_t kChunk = 8 << 20;  // bytes of one write or read
constexpr int kSyncs = 10;               // of one repeat

// A file that is gone in the end.
class ScratchFile {
 public:
  ScratchFile(base::FileSystem& files, const base::Path& directory)
      : files_(files),
        path_(directory /
              ("regatta-platform-bench-" + std::to_string(getpid()) + "-" + base::random_hex(4))) {}
  ~ScratchFile() {
    try {
      files_.remove_file(path_);
    } catch (const base::Error&) {  // a figure that was measured is worth more than a tidy disk
    }
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  [[nodiscard]] const base::Path& path() const { return path_; }

 private:
  base::FileSystem& files_;
  base::Path path_;
};

// What no disk can make light of.
std::vector<std::byte> random_bytes(std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::uint64_t state = 88172645463325252ULL;  // Marsaglia's xorshift64
  for (std::byte& byte : bytes) {
    state ^= state << 13U;
    state ^= state >> 7U;
    state ^= state << 17U;
    byte = static_cast<std::byte>(state >> 40U);
  }
  return bytes;
}

void write_file(base::FileSystem& files, const base::Path& path, std::span<const std::byte> chunk,
                std::int64_t bytes) {
  const auto file = files.open(path, base::FileSystem::Open::Truncate);
  for (std::int64_t left = bytes; left > 0;) {
    const auto size = std::min<std::int64_t>(left, std::ssize(chunk));
    file->append(chunk.first(static_cast<std::size_t>(size)));
    left -= size;
  }
  file->sync();
}

// Out of the page cache, as far as the file system does so: its pages are synced before.
void drop_from_cache(const base::Path& path) {
  const base::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) base::throw_errno(errno, "cannot open " + path.string());
  if (const int error = ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED); error != 0) {
    base::throw_errno(error, "cannot drop " + path.string() + " from the page cache");
  }
}

void read_file(base::FileSystem& files, const base::Path& path, std::span<std::byte> chunk,
               std::int64_t bytes) {
  std::int64_t at = 0;
  while (at < bytes) {
    const std::size_t got = files.read_into(path, static_cast<std::uint64_t>(at), chunk);
    if (got == 0) {
      throw base::Error(base::Code::Operator, path.string() + " ended before what was written");
    }
    at += static_cast<std::int64_t>(got);
  }
}

// "kelora", "tisu": words by number, of two to four syllables.
std::string word_of(std::uint32_t number) {
  constexpr std::string_view kConsonants = "bdfgklmnprstvz";
  constexpr std::string_view kVowels = "aeiou";
  base::PhiloxStream random(kSeed, number, 0, kTextSite);
  std::string word;
  for (std::uint32_t i = 2 + random.below(3); i > 0; --i) {
    word += kConsonants[random.below(static_cast<std::uint32_t>(kConsonants.size()))];
    word += kVowels[random.below(static_cast<std::uint32_t>(kVowels.size()))];
  }
  return word;
}

// Special pieces, punctuation, letters within and at the begin of a word, and every second word.
std::string text_vocabulary() {
  std::vector<std::string> pieces = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ","};
  for (char letter = 'a'; letter <= 'z'; ++letter) {
    pieces.emplace_back(1, letter);
    pieces.push_back(std::string(data::kContinuation) + letter);
  }
  std::vector<std::string> words;
  for (std::uint32_t number = 0; number < kWords; number += 2) words.push_back(word_of(number));
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  pieces.insert(pieces.end(), words.begin(), words.end());
  return base::join(pieces, "\n") + "\n";
}

// The r-th word about as often as 1/r (Zipf), in sentences.
std::string prose(std::int64_t bytes) {
  base::PhiloxStream random(kSeed, 0, 1, kTextSite);
  std::string text;
  std::uint32_t left = 0;
  while (std::ssize(text) < bytes) {
    const double u = random.uniform();
    std::string word = word_of(static_cast<std::uint32_t>(std::pow(kWords, u)) - 1);
    if (left == 0) {
      if (!text.empty()) text += ". ";
      word[0] = static_cast<char>(word[0] - 'a' + 'A');
      left = 6 + random.below(20);
    } else {
      text += random.below(12) == 0 ? ", " : " ";
      --left;
    }
    text += word;
  }
  text.resize(static_cast<std::size_t>(bytes));
  return text;
}

}  // namespace

void measure_host_copy(PlatformPart& part) {
  const auto bytes = static_cast<std::size_t>(part.options().workload.transfer_bytes);
  const std::vector<std::byte> from = random_bytes(bytes);
  std::vector<std::byte> to(bytes);
  const base::Clock& clock = part.tools().clock;
  const std::vector<double> seconds = part.repeated(part.seconds(), [&] {
    const double start = clock.monotonic_seconds();
    std::memcpy(to.data(), from.data(), bytes);
    return clock.monotonic_seconds() - start;
  });
  if (to != from)
    throw base::Error(base::Code::Operator, "a copy in memory is not like its source");
  const double moved = 2.0 * static_cast<double>(bytes);
  part.add_rate("transfer.host.copy", "B/s", moved, seconds,
                std::to_string(std::llround(moved)) + " B, one thread");
}

void measure_storage(PlatformPart& part) {
  const PlatformWorkload& work = part.options().workload;
  const std::string file_system = file_system_of(part.tools().machine, part.options().directory);
  if (file_system == "tmpfs" || file_system == "ramfs") {
    throw base::Error(base::Code::Operator, part.options().directory.string() + " is in memory (" +
                                                file_system + "); name a directory of a disk");
  }
  base::FileSystem& files = part.tools().files;
  const base::Clock& clock = part.tools().clock;
  const auto timed = [&clock](const std::function<void()>& body) {
    const double start = clock.monotonic_seconds();
    body();
    return clock.monotonic_seconds() - start;
  };
  const ScratchFile scratch(files, part.options().directory);
  std::vector<std::byte> chunk =
      random_bytes(static_cast<std::size_t>(std::min<std::int64_t>(kChunk, work.file_bytes)));
  const double bytes = static_cast<double>(work.file_bytes);
  const std::string text = std::to_string(work.file_bytes) + " B";
  part.add_rate("storage.write", "B/s", bytes,
                part.repeated(part.seconds() / 2,
                              [&] {
                                return timed([&] {
                                  write_file(files, scratch.path(), chunk, work.file_bytes);
                                });
                              }),
                text + ", with fsync");
  part.add_rate("storage.read", "B/s", bytes,
                part.repeated(part.seconds() / 4,
                              [&] {
                                part.stop_if_asked();
                                drop_from_cache(scratch.path());
                                return timed([&] {
                                  read_file(files, scratch.path(), chunk, work.file_bytes);
                                });
                              }),
                text + ", dropped from the page cache before");
  const auto file = files.open(scratch.path(), base::FileSystem::Open::Append);
  const auto little = std::span<const std::byte>(chunk).first(
      static_cast<std::size_t>(std::min<std::int64_t>(work.sync_bytes, std::ssize(chunk))));
  part.add_seconds("storage.fsync",
                   part.repeated(part.seconds() / 4,
                                 [&] {
                                   return timed([&] {
                                            for (int i = 0; i < kSyncs; ++i) {
                                              file->append(little);
                                              file->sync();
                                            }
                                          }) /
                                          kSyncs;
                                 }),
                   std::to_string(little.size()) + " B appended, then fsync");
}

void measure_input(PlatformPart& part) {
  const PlatformWorkload& work = part.options().workload;
  const base::Clock& clock = part.tools().clock;
  const auto vocabulary = data::Vocabulary::parse(text_vocabulary(), "the bench's vocabulary");
  const data::WordPiece pieces(vocabulary, {});
  data::Tokenizer tokenizer(pieces);
  const std::string text = prose(work.text_bytes);
  std::vector<data::TokenId> ids;
  part.add_rate("input.tokenizer", "B/s", static_cast<double>(text.size()),
                part.repeated(part.seconds() / 2,
                              [&] {
                                ids.clear();
                                const double start = clock.monotonic_seconds();
                                tokenizer.tokenize(text, ids);
                                return clock.monotonic_seconds() - start;
                              }),
                std::to_string(text.size()) + " B of words, one thread");
  contract::ModelShape shape = work.step_shape;
  shape.vocabulary = work.vocabulary;
  const samples::SampleStream stream =
      samples::random_samples(part.options().lengths, shape, work.collated_samples);
  std::vector<samples::Sample> batch;
  std::vector<std::int32_t> ordinals;
  for (int i = 0; i < work.collated_samples; ++i) {
    batch.push_back(stream.at(i));
    ordinals.push_back(i);
  }
  constexpr int kBatches = 10;
  part.add_rate("input.collator", "samples/s", kBatches * static_cast<double>(batch.size()),
                part.repeated(part.seconds() / 2,
                              [&] {
                                const double start = clock.monotonic_seconds();
                                for (int i = 0; i < kBatches; ++i) {
                                  (void)samples::collate(batch, ordinals);
                                }
                                return clock.monotonic_seconds() - start;
                              }),
                std::to_string(kBatches) + " batches of " + std::to_string(batch.size()) +
                    " samples, one thread");
}

void measure_all_reduce(PlatformPart& part) {
  for (const CommRow& row : part.tools().all_reduce()) {
    part.add_rate("all_reduce.2_ranks." + std::to_string(row.bytes), "B/s",
                  static_cast<double>(row.bytes), row.seconds,
                  std::to_string(row.bytes) + " B of each of 2 ranks of this machine");
  }
}

std::string file_system_of(const plugins::MachineFiles& machine, const base::Path& directory) {
  struct stat place {};
  if (::stat(directory.c_str(), &place) != 0) {
    base::throw_errno(errno, "cannot look at " + directory.string());
  }
  const std::string device =
      std::to_string(major(place.st_dev)) + ":" + std::to_string(minor(place.st_dev));
  std::string name;
  for (const std::string& line : machine.lines("/proc/self/mountinfo")) {
    // 36 35 98:0 /root /mount rw,noatime master:1 - ext3 /dev/root rw
    const std::vector<std::string> fields = base::split(line, ' ');
    if (fields.size() < 3 || fields[2] != device) continue;
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (dash != fields.end() && std::next(dash) != fields.end()) name = *std::next(dash);
  }
  return name;
}

}  // namespace regatta::trainer::bench
