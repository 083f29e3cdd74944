#include "trainer/data/prepare_report.h"

#include <algorithm>
#include <cstdio>

#include "base/text.h"
#include "base/wording.h"

namespace regatta::trainer::data {
namespace {

constexpr std::int64_t kBarCharacters = 30;

[[nodiscard]] std::string number(std::int64_t n) { return std::to_string(n); }

// "16-31".
[[nodiscard]] std::string bin_name(std::size_t bin) {
  const std::int64_t begin = CorpusShape::kFirstBin << (bin == 0 ? 0 : bin - 1);
  if (bin == 0) return "1-" + number(begin - 1);
  if (bin + 1 == CorpusShape::kBins) return number(begin) + "+";
  return number(begin) + "-" + number(2 * begin - 1);
}

// A row for each length from the first to the last that occurs.
[[nodiscard]] std::string histogram(const CorpusShape& shape) {
  const auto& counts = shape.documents_by_tokens;
  const std::int64_t most = *std::max_element(counts.begin(), counts.end());
  std::size_t first = 0, end = counts.size();
  while (first < end && counts[first] == 0) ++first;
  while (end > first && counts[end - 1] == 0) --end;
  std::string text;
  for (std::size_t bin = first; bin < end; ++bin) {
    // A document is seen, however few they are.
    const std::int64_t filled = (counts[bin] * kBarCharacters + most - 1) / most;
    char row[64];
    std::snprintf(row, sizeof row, "  %10s tokens %10lld", bin_name(bin).c_str(),
                  static_cast<long long>(counts[bin]));
    text +=
        row + (filled > 0 ? " " + std::string(static_cast<std::size_t>(filled), '#') : "") + "\n";
  }
  return text;
}

}  // namespace

std::string progress_line(const data::PrepareProgress& progress) {
  constexpr const char* kClearRest = "\033[K";  // the line before may have been longer
  const std::string done = base::human_bytes(progress.done);
  if (!progress.share) {  // standard input: no end in sight
    return "\r" + std::string(progress.phase) + " " + done + " " + kClearRest;
  }
  const auto filled = static_cast<std::int64_t>(*progress.share * kBarCharacters);
  const bool is_over = *progress.share >= 1;
  // Only what is over is 100 %.
  const int percent = std::min(static_cast<int>(*progress.share * 100), is_over ? 100 : 99);
  std::string line = "\r[" + std::string(static_cast<std::size_t>(filled), '#') +
                     std::string(static_cast<std::size_t>(kBarCharacters - filled), '.') + "] " +
                     std::to_string(percent) + " %, " + progress.phase + " " + done;
  if (progress.total != 0) line += " of " + base::human_bytes(progress.total);
  return line + " " + kClearRest + (is_over ? "\n" : "");
}

std::string summary_text(const PrepareReport& report, const std::string& output) {
  using base::plural;
  std::string text = plural(report.documents, "document") + ", " +
                     plural(report.sentences, "sentence") + ", " + plural(report.tokens, "token") +
                     ", " + base::human_bytes(report.bytes) + " of text in " +
                     base::human_seconds(report.seconds) + " -> " + base::printable(output) + "\n";
  text += "training: " + plural(report.documents - report.held_out_documents, "document") + ", " +
          plural(report.tokens - report.held_out_tokens, "token") +
          "; held out: " + plural(report.held_out_documents, "document") + ", " +
          plural(report.held_out_tokens, "token") + "\n";
  char mean[32];
  std::snprintf(mean, sizeof mean, "%.1f", report.shape.mean_tokens);
  text += "tokens per document: mean " + std::string(mean) + ", median " +
          number(report.shape.median_tokens) + ", 95 % at most " +
          number(report.shape.long_tokens) + "\n" + histogram(report.shape);
  const auto tell = [&](std::int64_t count, const char* noun, const std::string& what) {
    if (count > 0) text += plural(count, noun) + (count == 1 ? " was " : " were ") + what + "\n";
  };
  tell(report.duplicate_documents, "duplicate document", "left out");
  tell(report.empty_documents, "document", "without text and left out");
  tell(report.broken_records, "broken line",
       "left out; the first: " + base::printable(report.first_broken));
  tell(report.invalid_sequences, "invalid UTF-8 sequence", "replaced by U+FFFD");
  return text;
}

}  // namespace regatta::trainer::data
