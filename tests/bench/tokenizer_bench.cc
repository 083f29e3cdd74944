// The tokenizer's speed on a text:
//   tokenizer_bench TEXT VOCAB [THREADS [BYTES]]
// One line of JSON per number of threads (default: 1, then 2) on stdout. MB are 10^6 bytes; `cpu`
// is the time that all threads together spent. The first eighth of the text is tokenized once
// before the clock starts, in each thread, as a long run would have done.
#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/file_system.h"
#include "base/text.h"
#include "trainer/data/tokenizer.h"

namespace regatta::trainer {
namespace {

constexpr std::uint64_t kDefaultBytes = 6'000'000;
constexpr std::uint64_t kLargestText = std::uint64_t{4} << 30U;
constexpr std::size_t kLinesPerTask = 256;

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    if (!line.empty()) lines.push_back(line);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

class Run {
 public:
  Run(const std::vector<std::string_view>& lines, const data::WordPiece& pieces, int threads)
      : lines_(lines), ids_(lines.size()), tokenizers_() {
    for (int i = 0; i < threads; ++i) tokenizers_.emplace_back(pieces);
  }

  // Tokenizes the first `count` lines.
  void tokenize(std::size_t count, bool all_by_each) {
    next_ = 0;
    std::vector<std::jthread> workers;
    for (data::Tokenizer& tokenizer : tokenizers_) {
      workers.emplace_back([this, count, all_by_each, &tokenizer] {
        if (all_by_each) {
          warm_up(tokenizer, count);
        } else {
          work(tokenizer, count);
        }
      });
    }
  }

  [[nodiscard]] std::size_t tokens() const {
    std::size_t total = 0;
    for (const std::vector<data::TokenId>& ids : ids_) total += ids.size();
    return total;
  }

 private:
  void warm_up(data::Tokenizer& tokenizer, std::size_t count) {
    std::vector<data::TokenId> ids;
    for (std::size_t i = 0; i < count; ++i) {
      ids.clear();
      tokenizer.tokenize(lines_[i], ids);
    }
  }
  void work(data::Tokenizer& tokenizer, std::size_t count) {
    for (std::size_t begin = 0; (begin = next_.fetch_add(kLinesPerTask)) < count;) {
      const std::size_t end = std::min(count, begin + kLinesPerTask);
      for (std::size_t i = begin; i < end; ++i) tokenizer.tokenize(lines_[i], ids_[i]);
    }
  }

  const std::vector<std::string_view>& lines_;
  std::vector<std::vector<data::TokenId>> ids_;
  std::vector<data::Tokenizer> tokenizers_;
  std::atomic<std::size_t> next_{0};
};

void measure(const std::vector<std::string_view>& lines, const data::WordPiece& pieces,
             int threads) {
  Run run(lines, pieces, threads);
  run.tokenize(lines.size() / 8, true);
  std::size_t bytes = 0;
  for (const std::string_view line : lines) bytes += line.size();
  const auto start = std::chrono::steady_clock::now();
  const double cpu_start = cpu_seconds();
  run.tokenize(lines.size(), false);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const double cpu = cpu_seconds() - cpu_start;
  std::printf(
      "{\"threads\": %d, \"bytes\": %zu, \"tokens\": %zu, \"seconds\": %.6f, "
      "\"cpu_seconds\": %.6f, \"mb_per_second\": %.3f, \"mb_per_cpu_second\": %.3f}\n",
      threads, bytes, run.tokens(), seconds.count(), cpu,
      static_cast<double>(bytes) / seconds.count() * 1e-6, static_cast<double>(bytes) / cpu * 1e-6);
}

int main_of(const std::vector<std::string>& arguments) {
  if (arguments.size() < 2 || arguments.size() > 4) {
    throw base::Error(base::Code::User, "usage: tokenizer_bench TEXT VOCAB [THREADS [BYTES]]");
  }
  const auto number = [&](std::size_t i) {
    const auto value = base::parse_integer(arguments[i]);
    if (!value || *value < 1) {
      throw base::Error(base::Code::User, "'" + arguments[i] + "' is not a number above 0");
    }
    return *value;
  };
  const std::uint64_t limit =
      arguments.size() > 3 ? static_cast<std::uint64_t>(number(3)) : kDefaultBytes;
  base::FileSystem& files = base::posix_file_system();
  const std::string text = files.read_at(arguments[0], 0, std::min(limit, kLargestText));
  const data::Vocabulary vocabulary = data::Vocabulary::load(arguments[1], files);
  const data::WordPiece pieces(vocabulary, {});
  const std::vector<std::string_view> lines = lines_of(text);
  if (lines.empty()) throw base::Error(base::Code::User, arguments[0] + " has no text");
  if (arguments.size() > 2) {
    measure(lines, pieces, static_cast<int>(std::min<std::int64_t>(number(2), 1024)));
    return 0;
  }
  for (const int threads : {1, 2}) measure(lines, pieces, threads);
  return 0;
}

}  // namespace
}  // namespace regatta::trainer

int main(int count, char** values) {
  try {
    return regatta::trainer::main_of({values + 1, values + count});
  } catch (const regatta::base::Error& error) {
    std::fprintf(stderr, "tokenizer_bench: %s\n", error.what());
    return regatta::base::meaning(error.code()).exit_code;
  }
}
