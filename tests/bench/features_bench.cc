// Questions and their texts to labelled windows, as a run makes them when it begins:
//   features_bench FILE VOCAB [THREADS]
// FILE is in SQuAD's format. One line of JSON on stdout: what was made, and the seconds that it
// took without reading the file (which are beside it) and the vocabulary.
//   features_bench lengths FILE VOCAB SEED COUNT
// prints the tokens of the first COUNT samples that a run with this seed trains on, in its order.
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file_system.h"
#include "base/text.h"
#include "trainer/data/vocabulary.h"
#include "trainer/data/word_piece.h"
#include "trainer/tasks/question_file.h"
#include "trainer/tasks/question_windows.h"
#include "trainer/tasks/task_samples.h"

namespace regatta::trainer {
namespace {

constexpr const char* kUsage =
    "usage: features_bench FILE VOCAB [THREADS], or features_bench lengths FILE VOCAB SEED COUNT";

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::int64_t number(const std::string& text) {
  const auto value = base::parse_integer(text);
  if (!value || *value < 1) {
    throw base::Error(base::Code::User, "'" + text + "' is not a number above 0");
  }
  return *value;
}

void measure(const tasks::QuestionSet& set, const data::Vocabulary& vocabulary, int threads,
             double read_seconds) {
  const data::WordPiece pieces(vocabulary, {});
  tasks::WindowOptions options;
  options.threads = threads;
  const auto start = std::chrono::steady_clock::now();
  const double cpu_start = cpu_seconds();
  const tasks::QuestionWindows made =
      tasks::make_question_windows(set, vocabulary, pieces, options);
  const double seconds = seconds_since(start);
  const double cpu = cpu_seconds() - cpu_start;
  std::size_t tokens = 0;
  std::size_t answers = 0;
  for (const tasks::QuestionWindow& window : made.windows) {
    tokens += window.tokens.size();
    if (window.end > 0) ++answers;
  }
  const std::size_t questions = set.questions.size();
  std::printf(
      "{\"threads\": %d, \"questions\": %zu, \"contexts\": %zu, \"windows\": %zu, "
      "\"windows_with_answer\": %zu, \"questions_left_out\": %zu, \"tokens\": %zu, "
      "\"seconds\": %.6f, \"cpu_seconds\": %.6f, \"read_seconds\": %.6f, "
      "\"questions_per_second\": %.1f}\n",
      threads, questions, set.contexts.size(), made.windows.size(), answers, made.left_out.size(),
      tokens, seconds, cpu, read_seconds, static_cast<double>(questions) / seconds);
}

void print_lengths(const tasks::QuestionSet& set, const data::Vocabulary& vocabulary,
                   std::uint64_t seed, std::int64_t count) {
  const tasks::TrainingSet training(tasks::question_samples(set, {.vocabulary = vocabulary}), seed);
  std::string text = "[";
  for (std::int64_t i = 0; i < count; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(training.stream().length(i));
  }
  std::printf("%s]\n", text.c_str());
}

int main_of(std::vector<std::string> arguments) {
  const bool lengths = !arguments.empty() && arguments.front() == "lengths";
  if (lengths) arguments.erase(arguments.begin());
  if (lengths ? arguments.size() != 4 : arguments.size() < 2 || arguments.size() > 3) {
    throw base::Error(base::Code::User, kUsage);
  }
  base::FileSystem& files = base::posix_file_system();
  const auto start = std::chrono::steady_clock::now();
  const tasks::QuestionSet set =
      tasks::read_question_file(arguments[0], tasks::QuestionUse::Training, files);
  const double read_seconds = seconds_since(start);
  const data::Vocabulary vocabulary = data::Vocabulary::load(arguments[1], files);
  if (lengths) {
    print_lengths(set, vocabulary, static_cast<std::uint64_t>(number(arguments[2])),
                  number(arguments[3]));
    return 0;
  }
  const std::int64_t threads = arguments.size() > 2 ? number(arguments[2]) : 2;
  measure(set, vocabulary, static_cast<int>(std::min<std::int64_t>(threads, 1024)), read_seconds);
  return 0;
}

}  // namespace
}  // namespace regatta::trainer

int main(int count, char** values) {
  try {
    return regatta::trainer::main_of({values + 1, values + count});
  } catch (const regatta::base::Error& error) {
    std::fprintf(stderr, "features_bench: %s\n", error.what());
    return regatta::base::meaning(error.code()).exit_code;
  }
}
