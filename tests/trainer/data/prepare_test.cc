#include "trainer/data/prepare.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"
#include "tests/base/faulty_file_system.h"
#include "tests/trainer/data/compressed.h"
#include "tests/trainer/data/prepared.h"
#include "trainer/data/dataset.h"
#include "trainer/data/unicode.h"

namespace regatta::trainer {
namespace {

using base::Code;
using base::Error;
using base::Path;
using testing::HasSubstr;
using tests::documents_text;
using tests::files_of;
using tests::small_options;
using tests::TemporaryDirectory;
using tests::write_file;

data::PrepareReport run(const data::PrepareOptions& options) {
  return data::prepare(options, base::posix_file_system());
}

TEST(Prepare, KeepsEveryDocumentAndItsIds) {
  const TemporaryDirectory directory;
  write_file(directory.path() / "corpus.txt", documents_text(0, 200));
  const data::PrepareOptions options = small_options(directory.path());
  const data::PrepareReport report = run(options);
  EXPECT_EQ(report.documents, 200);
  EXPECT_EQ(report.sentences, 67 * 1 + 67 * 2 + 66 * 3);
  EXPECT_EQ(report.bytes, documents_text(0, 200).size());
  EXPECT_EQ(report.duplicate_documents, 0);
  EXPECT_EQ(report.invalid_sequences, 0);
  EXPECT_EQ(report.unknown_tokens, 0);

  const data::Dataset dataset = data::Dataset::open(options.output);
  dataset.verify();
  EXPECT_EQ(dataset.fingerprint(), report.fingerprint);
  EXPECT_EQ(dataset.documents(data::Split::HeldOut), report.held_out_documents);
  std::set<std::string> found;
  std::int64_t tokens = 0;
  for (const data::Split split : data::kSplits) {
    for (std::int64_t d = 0; d < dataset.documents(split); ++d) {
      std::string first;
      for (const data::TokenId id : dataset.sentence(split, d, 0)) {
        first += dataset.vocabulary().piece(id) + " ";
      }
      const auto number = static_cast<int>(found.size());
      EXPECT_TRUE(found.insert(first).second) << number << first;
      std::size_t together = 0;
      for (std::int64_t s = 0; s < dataset.sentences(split, d); ++s) {
        together += dataset.sentence(split, d, s).size();
      }
      EXPECT_EQ(dataset.document(split, d).size(), together);
      tokens += static_cast<std::int64_t>(together);
    }
  }
  EXPECT_EQ(tokens, report.tokens);
  EXPECT_EQ(found.size(), 200U);
  EXPECT_EQ(found.count("the boat row ##s 1 ##3 ##7 wind ##s ##s . "), 1U);
}

TEST(Prepare, BytesDoNotDependOnThreadsOrderNamesOrCompression) {
  const TemporaryDirectory directory;
  const std::string one = documents_text(0, 500);
  const std::string two = documents_text(500, 300);
  struct Variant {
    const char* name;
    std::vector<std::pair<std::string, std::string>> files;
    int threads;
    bool small_blocks;
  };
  const Variant variants[] = {
      {"one file", {{"a", one + two}}, 1, false},
      {"three threads", {{"a", one + two}}, 3, false},
      {"small blocks", {{"a", one + two}}, 1, true},
      {"small blocks, four threads", {{"a", one + two}}, 4, true},
      {"two files", {{"a", one}, {"b", two}}, 2, true},
      {"other order", {{"a", two}, {"b", one}}, 2, true},
      {"other names, compressed",
       {{"x.gz", tests::gzip(two)}, {"y", tests::zstandard(one)}},
       2,
       true},
  };
  for (const bool train : {false, true}) {
    std::map<std::string, std::string> expected;
    for (const Variant& variant : variants) {
      const Path root = directory.path() / (std::string(variant.name) + (train ? " t" : ""));
      std::filesystem::create_directories(root / "in");
      for (const auto& [name, text] : variant.files) write_file(root / "in" / name, text);
      data::PrepareOptions options = small_options(root);
      options.inputs = {root / "in"};
      options.threads = variant.threads;
      options.shard_tokens = 1000;
      if (train) {
        options.vocabulary.clear();
        options.train_vocabulary = 60;
      }
      if (variant.small_blocks) {
        options.read_block_bytes = 100;
        options.spill_bytes = 64;
        options.batch_bytes = 500;
      }
      const data::PrepareReport report = run(options);
      EXPECT_EQ(report.documents, 800);
      const auto files = files_of(options.output);
      if (expected.empty()) expected = files;
      EXPECT_GT(files.size(), 8U);  // several shards
      EXPECT_EQ(files, expected) << variant.name;
      data::Dataset::open(options.output).verify();
    }
  }
}

TEST(Prepare, ReadsStandardInput) {
  const TemporaryDirectory directory;
  write_file(directory.path() / "corpus.txt", documents_text(0, 50));
  data::PrepareOptions options = small_options(directory.path());
  const std::string fingerprint = run(options).fingerprint;
  const base::UniqueFd file(::open((directory.path() / "corpus.txt").c_str(), O_RDONLY));
  options.inputs = {"-"};
  options.standard_input = file.get();
  options.output = directory.path() / "other";
  EXPECT_EQ(run(options).fingerprint, fingerprint);
  EXPECT_EQ(files_of(options.output), files_of(directory.path() / "dataset"));
}

TEST(Prepare, KeepsEqualDocumentsOnce) {
  const TemporaryDirectory directory;
  write_file(directory.path() / "corpus.txt",
             "the boat\n\nthe wind\n\nthe boat\r\n\n  the boat  \n\nthe boat\nthe wind\n");
  const data::PrepareReport report = run(small_options(directory.path()));
  EXPECT_EQ(report.documents, 3);
  EXPECT_EQ(report.duplicate_documents, 2);
}

TEST(Prepare, ReplacesAndCountsIllFormedUtf8) {
  const TemporaryDirectory directory;
  write_file(directory.path() / "corpus.txt",
             "the bo\xFF"
             "at\n\nthe wind \xE2\x82\n");
  const data::PrepareOptions options = small_options(directory.path());
  const data::PrepareReport report = run(options);
  EXPECT_EQ(report.invalid_sequences, 2);
  EXPECT_EQ(report.tokens, 4);
  EXPECT_EQ(report.unknown_tokens, 0);
  EXPECT_EQ(data::Dataset::open(options.output).manifest().invalid_sequences, 2);
}

TEST(Prepare, CountsUnknownTokensAndEmptyDocuments) {
  const TemporaryDirectory directory;
  write_file(directory.path() / "corpus.txt",
             "the xyz boat\n\n\u200B\u200D\n\nthe wind\n\nthe rowing boats\n");
  const data::PrepareReport report = run(small_options(directory.path()));
  EXPECT_EQ(report.unknown_tokens, 1);
  EXPECT_EQ(report.documents + report.empty_documents, 4);
  EXPECT_EQ(report.empty_documents, 1);
}

TEST(Prepare, HoldsOutAboutTheShareAndAtLeastOne) {
  const TemporaryDirectory directory;
  write_file(directory.path() / "corpus.txt", documents_text(0, 3000));
  data::PrepareOptions options = small_options(directory.path());
  options.held_out = 0.2;
  EXPECT_NEAR(static_cast<double>(run(options).held_out_documents), 600, 110);  // 5 deviations

  for (const double share : {1e-9, 0.05, 0.999999}) {
    write_file(directory.path() / "corpus.txt", "the boat\n\nthe wind\n");
    options.held_out = share;
    options.output = directory.path() / std::to_string(share);
    const data::PrepareReport report = run(options);
    EXPECT_EQ(report.documents, 2);
    EXPECT_EQ(report.held_out_documents, 1);
  }
}

// A document's side never changes when others join the corpus.
TEST(Prepare, DocumentsKeepTheirSide) {
  const TemporaryDirectory directory;
  const auto held_out = [&](const std::string& name, int count) {
    write_file(directory.path() / "corpus.txt", documents_text(0, count));
    data::PrepareOptions options = small_options(directory.path());
    options.held_out = 0.1;
    options.output = directory.path() / name;
    (void)run(options);
    const data::Dataset dataset = data::Dataset::open(options.output);
    std::set<std::vector<data::TokenId>> documents;
    for (std::int64_t d = 0; d < dataset.documents(data::Split::HeldOut); ++d) {
      const auto ids = dataset.document(data::Split::HeldOut, d);
      documents.emplace(ids.begin(), ids.end());
    }
    return documents;
  };
  const auto small = held_out("small", 500);
  const auto large = held_out("large", 1000);
  EXPECT_TRUE(std::includes(large.begin(), large.end(), small.begin(), small.end()));
  EXPECT_GT(large.size(), small.size());
}

TEST(Prepare, LengthHistogramAddsUp) {
  const TemporaryDirectory directory;
  write_file(directory.path() / "corpus.txt", documents_text(0, 100));
  const data::PrepareOptions options = small_options(directory.path());
  const data::PrepareReport report = run(options);
  const auto lengths = nlohmann::json::parse(tests::read_file(options.output / "lengths.json"));
  std::int64_t sentences = 0;
  std::int64_t tokens = 0;
  std::int64_t documents = 0;
  for (const char* split : {"training", "held_out"}) {
    const auto& counts = lengths.at(split).at("sentences_by_tokens");
    for (std::size_t n = 0; n < counts.size(); ++n) {
      sentences += counts[n].get<std::int64_t>();
      tokens += counts[n].get<std::int64_t>() * static_cast<std::int64_t>(n);
    }
    for (const auto& count : lengths.at(split).at("documents_by_bin")) {
      documents += count.get<std::int64_t>();
    }
  }
  EXPECT_EQ(sentences, report.sentences);
  EXPECT_EQ(tokens, report.tokens);
  EXPECT_EQ(documents, report.documents);
}

TEST(Prepare, TrainsAVocabularyFromTrainingDocumentsOnly) {
  const TemporaryDirectory directory;
  std::string text;
  for (int i = 0; i < 40; ++i) {
    std::string letter;  // each document has its own
    data::unicode::append_utf8(0x4E00 + static_cast<char32_t>(i), letter);
    text += letter + letter + letter + "\n\n";
  }
  write_file(directory.path() / "corpus.txt", text);
  data::PrepareOptions options = small_options(directory.path());
  options.vocabulary.clear();
  options.train_vocabulary = 300;
  options.held_out = 0.3;
  (void)run(options);
  const data::Dataset dataset = data::Dataset::open(options.output);
  const auto unknown = dataset.vocabulary().special().unknown;
  for (const data::Split split : data::kSplits) {
    for (std::int64_t d = 0; d < dataset.documents(split); ++d) {
      EXPECT_EQ(dataset.document(split, d)[0] == unknown, split == data::Split::HeldOut);
    }
  }
}

TEST(Prepare, FingerprintCoversWhatMatters) {
  const TemporaryDirectory directory;
  write_file(directory.path() / "corpus.txt", documents_text(0, 60));
  std::set<std::string> fingerprints;
  int made = 0;
  const auto add = [&](auto change) {
    data::PrepareOptions options = small_options(directory.path());
    options.output = directory.path() / ("d" + std::to_string(made++));
    change(options);
    fingerprints.insert(run(options).fingerprint);
  };
  add([](data::PrepareOptions&) {});
  add([](data::PrepareOptions& o) { o.lower_case = false; });
  add([](data::PrepareOptions& o) { o.word_limit = 100; });
  add([](data::PrepareOptions& o) { o.held_out = 0.1; });
  add([](data::PrepareOptions& o) {
    write_file(o.vocabulary, std::string(tests::kSmallVocabulary) + "z\n");
  });
  add([&](data::PrepareOptions&) {
    write_file(directory.path() / "corpus.txt", documents_text(0, 61));
  });
  EXPECT_EQ(fingerprints.size(), 6U);
  add([](data::PrepareOptions& o) { o.threads = 2; });
  EXPECT_EQ(fingerprints.size(), 6U);
}

TEST(Prepare, ReportsProgressToTheEnd) {
  const TemporaryDirectory directory;
  write_file(directory.path() / "corpus.txt", documents_text(0, 500));
  data::PrepareOptions options = small_options(directory.path());
  options.vocabulary.clear();
  options.train_vocabulary = 60;
  options.read_block_bytes = 1000;
  options.batch_bytes = 1000;
  const std::uint64_t size = std::filesystem::file_size(directory.path() / "corpus.txt");
  std::vector<std::string> phases;
  std::uint64_t last = 0;
  int calls = 0, ends = 0;
  const data::PrepareReport report =
      data::prepare(options, base::posix_file_system(), [&](const data::PrepareProgress& progress) {
        if (phases.empty() || phases.back() != progress.phase) {
          phases.emplace_back(progress.phase);
          last = 0;
        }
        EXPECT_LE(progress.done, progress.total);
        EXPECT_GE(progress.done, last);
        if (progress.is_end) {
          EXPECT_EQ(progress.done, progress.total);
          ++ends;
        }
        last = progress.done;
        ++calls;
        // The corpus once, not once for each phase: it was 3 times its bytes.
        EXPECT_LE(progress.total, size);
      });
  EXPECT_THAT(phases, testing::ElementsAre("reading", "counting words", "tokenizing"));
  EXPECT_EQ(ends, 3);
  EXPECT_GT(report.bytes, 0U);
  EXPECT_GT(calls, 20);
}

}  // namespace
}  // namespace regatta::trainer
