#include "trainer/data/corpus_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tests/base/faulty_file_system.h"
#include "tests/trainer/data/prepared.h"
#include "trainer/data/prepare.h"

namespace regatta::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using tests::TemporaryDirectory;

// The smallest length that this many hundredths reach, from the sorted list.
std::int64_t percentile(std::vector<std::int64_t> lengths, std::size_t percent) {
  std::sort(lengths.begin(), lengths.end());
  return lengths[(lengths.size() * percent + 99) / 100 - 1];
}

TEST(DocumentLengths, AreThoseOfASortedList) {
  std::mt19937 random(51);
  for (int round = 0; round < 200; ++round) {
    data::DocumentLengths lengths;
    std::vector<std::int64_t> tokens, sentences;
    std::array<std::int64_t, data::CorpusShape::kBins> bins{};
    for (unsigned i = 0; i <= random() % 60U; ++i) {
      tokens.push_back(1 + static_cast<std::int64_t>(random() % (1U << (random() % 14U))));
      sentences.push_back(1 + static_cast<std::int64_t>(random() % 9U));
      lengths.add(tokens.back(), sentences.back());
      const std::int64_t ends[] = {16, 32, 64, 128, 256, 512, 1024, 2048, 4096};
      ++bins[static_cast<std::size_t>(std::upper_bound(ends, ends + 9, tokens.back()) - ends)];
    }
    const data::CorpusShape shape = lengths.shape();
    std::int64_t sum = 0;
    for (const std::int64_t each : tokens) sum += each;
    EXPECT_DOUBLE_EQ(shape.mean_tokens,
                     static_cast<double>(sum) / static_cast<double>(tokens.size()));
    EXPECT_EQ(shape.median_tokens, percentile(tokens, 50));
    EXPECT_EQ(shape.long_tokens, percentile(tokens, 95));
    EXPECT_EQ(shape.median_sentences, percentile(sentences, 50));
    EXPECT_EQ(shape.documents_by_tokens, bins);
  }
  EXPECT_EQ(data::DocumentLengths().shape().mean_tokens, 0);
}

// A file of text with so many documents, lines and blank lines.
data::ReadShape text_of(std::int64_t documents, std::int64_t lines, std::int64_t blank,
                        std::uint64_t bytes) {
  data::ReadShape read;
  read.files = read.text_files = 1;
  read.text_documents = documents;
  read.text_bytes = bytes;
  read.text = {lines, blank, 0};
  return read;
}

data::CorpusShape of_sentences(std::int64_t median) {
  data::CorpusShape shape;
  shape.median_sentences = median;
  return shape;
}

TEST(ShapeWarnings, NamedCases) {
  data::ReadShape rows;
  rows.files = 1;
  data::ReadShape braces = text_of(500, 4000, 500, 9000);
  braces.json_like_files = 1;
  braces.json_like = "in/a.txt";
  data::ReadShape two_braces = braces;
  two_braces.json_like_files = 3;
  data::ReadShape hundred = text_of(5000, 9000, 5000, 90000);
  hundred.files = hundred.text_files = 100;
  struct Case {
    const char* name;
    data::ReadShape read;
    std::int64_t median_sentences;
    std::int64_t documents;
    std::int64_t unknown;  // of 1000
    std::vector<std::string> warnings;
  };
  const std::uint64_t mebibyte = std::uint64_t{1} << 20U;
  const Case cases[] = {
      {"all is well", text_of(5000, 90000, 5000, 90 * mebibyte), 12, 5000, 9, {}},
      {"three sentences", text_of(5000, 15000, 5000, mebibyte), 3, 5000, 0, {}},
      {"two sentences", text_of(5000, 10000, 5000, mebibyte), 2, 5000, 0, {"their lines"}},
      {"a blank line behind every line",
       text_of(5000, 5000, 5000, mebibyte),
       1,
       5000,
       0,
       {"nearly every line is followed by a blank one"}},
      {"few short documents", text_of(999, 999, 999, mebibyte), 1, 999, 0, {}},
      {"short documents of JSON", rows, 1, 5000, 0, {"put lines of one text together"}},
      {"short documents in many files", hundred, 1, 5000, 0, {}},
      {"a small text", text_of(1, 9000, 0, mebibyte - 1), 9000, 1, 0, {}},
      {"a large text", text_of(1, 9000, 0, mebibyte), 9000, 1, 0, {"no blank line separates"}},
      {"a large text with two", text_of(2, 9000, 1, 9 * mebibyte), 4500, 2, 0, {}},
      {"no text", rows, 20, 2, 0, {}},
      {"299 of 1000 unknown", rows, 9, 50, 299, {}},
      {"300 of 1000 unknown", rows, 9, 50, 300, {"30 % of the pieces are [UNK]"}},
      {"braces", braces, 8, 500, 0, {"in/a.txt looks like JSONL"}},
      {"braces in three", two_braces, 8, 500, 0, {"in/a.txt and 2 more look like JSONL"}},
  };
  for (const Case& c : cases) {
    const std::vector<std::string> warnings = data::shape_warnings(
        of_sentences(c.median_sentences), c.read, c.documents, 1000, c.unknown);
    ASSERT_EQ(warnings.size(), c.warnings.size()) << c.name;
    for (std::size_t i = 0; i < warnings.size(); ++i) {
      EXPECT_THAT(warnings[i], HasSubstr(c.warnings[i])) << c.name;
      EXPECT_THAT(warnings[i], testing::Not(HasSubstr("\n"))) << c.name;
    }
  }
}

// What prepare says of a corpus.txt with this text.
std::vector<std::string> warnings_of(const std::string& text) {
  const TemporaryDirectory directory;
  tests::write_file(directory.path() / "corpus.txt", text);
  return data::prepare(tests::small_options(directory.path()), base::posix_file_system()).warnings;
}

TEST(ShapeWarnings, AreThoseOfTheTextThatWasRead) {
  EXPECT_THAT(warnings_of(tests::documents_text(0, 300)), IsEmpty());
  std::string lines, braces;
  for (int i = 0; i < 1200; ++i) {
    lines += "the boat " + std::to_string(i) + ".\n\n";
    braces += "{\"text\": \"the boat " + std::to_string(i) + "\"}\n" + (i % 9 == 0 ? "\n" : "");
  }
  EXPECT_THAT(warnings_of(lines), ElementsAre(HasSubstr("nearly every line is followed")));
  EXPECT_THAT(warnings_of(braces), ElementsAre(HasSubstr("corpus.txt looks like JSONL"),
                                               HasSubstr("the vocabulary does not fit")));
  EXPECT_THAT(warnings_of("xyz xyz\n\nthe qqq\n"), ElementsAre(HasSubstr("75 % of the pieces")));
}

TEST(ShapeWarnings, ALargeTextWithoutBlankLinesIsNamed) {
  std::string text;
  while (text.size() < (std::size_t{1} << 20U)) text += "the boat rows with the wind.\n";
  try {
    (void)warnings_of(text);
    ADD_FAILURE();
  } catch (const base::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("found 1 document"));
    EXPECT_THAT(error.what(), HasSubstr("no blank line separates documents"));
  }
}

TEST(PrepareReport, SaysCountsSplitsLengthsAndAHistogram) {
  data::PrepareReport report;
  report.documents = 10;
  report.held_out_documents = 1;
  report.sentences = 30;
  report.tokens = 4000;
  report.held_out_tokens = 300;
  report.bytes = 20000;
  report.seconds = 1.5;
  report.shape.mean_tokens = 400;
  report.shape.median_tokens = 250;
  report.shape.long_tokens = 5000;
  report.shape.documents_by_tokens = {0, 1, 0, 0, 6, 0, 0, 0, 0, 3};
  EXPECT_EQ(data::summary_text(report, "data"),
            "10 documents, 30 sentences, 4000 tokens, 20.0 kB of text in 1.5 s -> data\n"
            "training: 9 documents, 3700 tokens; held out: 1 document, 300 tokens\n"
            "tokens per document: mean 400.0, median 250, 95 % at most 5000\n"
            "       16-31 tokens          1 #####\n"
            "       32-63 tokens          0\n"
            "      64-127 tokens          0\n"
            "     128-255 tokens          6 ##############################\n"
            "     256-511 tokens          0\n"
            "    512-1023 tokens          0\n"
            "   1024-2047 tokens          0\n"
            "   2048-4095 tokens          0\n"
            "       4096+ tokens          3 ###############\n");
  report.duplicate_documents = 2;
  report.invalid_sequences = 3;
  report.broken_records = 4;
  report.first_broken = "a\x1B[m.jsonl:3:1: not JSON";
  EXPECT_THAT(data::summary_text(report, "data"),
              testing::EndsWith("2 duplicate documents were left out\n"
                                "4 broken lines were left out; the first: a\\x1b[m.jsonl:3:1: not "
                                "JSON\n"
                                "3 invalid UTF-8 sequences were replaced by U+FFFD\n"));
}

TEST(PrepareReport, CountsAddUpAfterAPreparation) {
  const TemporaryDirectory directory;
  tests::write_file(directory.path() / "corpus.txt", tests::documents_text(0, 200));
  const data::PrepareReport report =
      data::prepare(tests::small_options(directory.path()), base::posix_file_system());
  std::int64_t documents = 0;
  for (const std::int64_t count : report.shape.documents_by_tokens) documents += count;
  EXPECT_EQ(documents, 200);
  EXPECT_DOUBLE_EQ(report.shape.mean_tokens, static_cast<double>(report.tokens) / 200);
  EXPECT_EQ(report.shape.median_sentences, 2);
  EXPECT_GT(report.held_out_tokens, 0);
  EXPECT_LT(report.held_out_tokens, report.tokens / 2);
}

// One bar for the whole: it never falls, each phase goes on where the last one ended, and it is
// full at the end only.
TEST(PrepareReport, ProgressCountsTheWholeWorkOnce) {
  for (const bool trains : {false, true}) {
    const TemporaryDirectory directory;
    tests::write_file(directory.path() / "corpus.txt", tests::documents_text(0, 500));
    data::PrepareOptions options = tests::small_options(directory.path());
    if (trains) {
      options.vocabulary.clear();
      options.train_vocabulary = 60;
    }
    options.read_block_bytes = options.batch_bytes = 1000;
    double last = 0;
    std::vector<double> ends;
    std::string terminal;
    (void)data::prepare(options, base::posix_file_system(), [&](const data::PrepareProgress& p) {
      ASSERT_TRUE(p.share);
      EXPECT_GE(*p.share, last);
      EXPECT_LE(*p.share, 1);
      last = *p.share;
      if (p.is_end) ends.push_back(last);
      terminal += data::progress_line(p);
    });
    EXPECT_EQ(ends.size(), trains ? 3U : 2U);
    EXPECT_DOUBLE_EQ(ends.front(), trains ? 1.0 / 9 : 1.0 / 5);
    EXPECT_EQ(ends.back(), 1);
    EXPECT_EQ(std::count(terminal.begin(), terminal.end(), '\n'), 1);  // one line of a terminal
    EXPECT_TRUE(terminal.ends_with('\n'));
  }
}

TEST(PrepareReport, ProgressLineNamesThePhase) {
  EXPECT_EQ(data::progress_line({"tokenizing", 500, 1000, false, 0.5}),
            "\r[###############...............] 50 %, tokenizing 500 B of 1.0 kB \033[K");
  EXPECT_EQ(data::progress_line({"tokenizing", 999, 1000, false, 0.9999}),
            "\r[#############################.] 99 %, tokenizing 999 B of 1.0 kB \033[K");
  EXPECT_EQ(data::progress_line({"tokenizing", 1000, 1000, true, 1}),
            "\r[##############################] 100 %, tokenizing 1.0 kB of 1.0 kB \033[K\n");
  EXPECT_EQ(data::progress_line({"reading", 500, 0, false, {}}), "\rreading 500 B \033[K");
}

}  // namespace
}  // namespace regatta::trainer
