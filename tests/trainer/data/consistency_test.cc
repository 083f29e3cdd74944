// The same text gives the same bytes, whatever the machine, the locale and the order of files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/digest.h"
#include "tests/trainer/data/compressed.h"
#include "tests/trainer/data/conditions.h"
#include "trainer/data/dataset.h"
#include "trainer/data/prepare.h"

namespace regatta::tests {
namespace {

using base::Path;
using trainer::data::PrepareOptions;
using Files = std::map<std::string, std::string>;

constexpr int kDocuments = 60;

// With a vocabulary of its own where `trains`, which is made of the counts of words.
PrepareOptions options_of(const Path& directory, bool trains) {
  PrepareOptions options = small_options(directory);
  options.shard_tokens = 500;
  options.held_out = 0.35;  // a number with a fraction, which goes through JSON
  options.read_block_bytes = 300;
  options.batch_bytes = 2000;
  options.spill_bytes = 128;
  if (!trains) return options;
  options.vocabulary.clear();
  options.train_vocabulary = 300;
  return options;
}

Files prepared(const PrepareOptions& options) {
  const auto report = trainer::data::prepare(options, base::posix_file_system());
  const auto dataset = trainer::data::Dataset::open(options.output);
  dataset.verify();
  EXPECT_EQ(dataset.fingerprint(), report.fingerprint);
  Files files = files_of(options.output);
  EXPECT_GT(files.size(), 8U);  // several shards
  std::filesystem::remove_all(options.output);
  return files;
}

class ConsistentText : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    write_file(path() / "corpus.txt", travelling_text(kDocuments));
    expected_ = prepared(options());
  }
  [[nodiscard]] Path path() const { return directory_.path(); }
  [[nodiscard]] PrepareOptions options() const { return options_of(path(), GetParam()); }
  // The documents, one or more a file.
  [[nodiscard]] static std::vector<std::string> parts(std::size_t count) {
    std::vector<std::string> parts(count);
    std::string text = travelling_text(kDocuments);
    for (std::size_t i = 0; !text.empty(); i = (i + 1) % count) {
      const std::size_t end = text.find("\n\n") + 2;
      parts[i] += text.substr(0, end);
      text.erase(0, end);
    }
    return parts;
  }
  Files expected_;

 private:
  TemporaryDirectory directory_;
};
INSTANTIATE_TEST_SUITE_P(VocabularyGivenOrTrained, ConsistentText, testing::Bool());

TEST_P(ConsistentText, InAnyLocaleTimeZoneAndUmask) {
  for_each_condition(
      [&](const std::string& name) { EXPECT_EQ(prepared(options()), expected_) << name; });
}

TEST_P(ConsistentText, WithAnyNumberOfThreads) {
  for (const int threads : {1, 2, 7, 0}) {
    PrepareOptions changed = options();
    changed.threads = threads;
    EXPECT_EQ(prepared(changed), expected_) << threads;
  }
}

// Names that a locale, a file system without case and bytes each sort otherwise.
TEST_P(ConsistentText, WhateverFilesAreCalledAndInWhicheverOrderTheyWereMade) {
  const std::vector<std::vector<std::string>> names = {
      {"0", "1", "2", "3", "4", "5", "6", "7"},
      {"Z.txt", "a.txt", "_b.txt", "\u00E9.txt", "B.txt", "I.txt", "\u0131.txt", "i.txt"},
      {"10.txt", "9.txt", "9/1.txt", "a b.txt", "a-b.txt", "A.TXT", "\u4E2D.txt", "z/z/z.txt"},
  };
  const std::vector<std::string> texts = parts(8);
  std::vector<std::size_t> order(8);
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(7);
  for (const auto& each : names) {
    for (int round = 0; round < 3; ++round) {
      std::filesystem::remove_all(path() / "in");
      for (const std::size_t i : order) {
        const Path file = path() / "in" / each[i];
        std::filesystem::create_directories(file.parent_path());
        write_file(file, texts[i]);
      }
      PrepareOptions changed = options();
      changed.inputs = {path() / "in"};
      EXPECT_EQ(prepared(changed), expected_) << each[0] << ", round " << round;
      std::shuffle(order.begin(), order.end(), random);
    }
  }
}

// Inputs that are named are read in their order, so this is any order of a directory, too.
TEST_P(ConsistentText, InWhicheverOrderFilesAreRead) {
  std::vector<Path> files;
  for (const std::string& text : parts(6)) {
    files.push_back(path() / ("part" + std::to_string(files.size())));
    write_file(files.back(), text);
  }
  std::mt19937 random(11);
  for (int round = 0; round < 6; ++round) {
    PrepareOptions changed = options();
    changed.inputs = files;
    changed.threads = 1 + round % 3;
    EXPECT_EQ(prepared(changed), expected_) << "round " << round;
    std::shuffle(files.begin(), files.end(), random);
  }
}

TEST_P(ConsistentText, FromAnyPathAndCompressedOrNot) {
  const std::string text = travelling_text(kDocuments);
  const Path other = path() / "a folder" / "\u00FCber";
  std::filesystem::create_directories(other);
  write_file(other / "c.txt", text);
  write_file(other / "c.gz", gzip(text));
  write_file(other / "c.zst", zstandard(text));
  write_file(other / "c.txt.gz", gzip(text));
  write_file(other / "mislabelled.gz", text);  // its first bytes say what it is
  std::filesystem::create_symlink(other / "c.txt", path() / "link");
  std::filesystem::create_symlink(other, path() / "linked folder");
  const Path here = std::filesystem::current_path();
  std::filesystem::current_path(other);
  for (const Path& input :
       {other / "c.txt", other / "c.gz", other / "c.zst", other / "c.txt.gz",
        other / "mislabelled.gz", path() / "link", path() / "linked folder" / "c.zst",
        Path("c.txt"), Path("./c.gz"), Path("../\u00FCber/c.zst")}) {
    PrepareOptions changed = options();
    changed.inputs = {input};
    EXPECT_EQ(prepared(changed), expected_) << input;
  }
  std::filesystem::current_path(here);
}

// The manifest also counts the bytes that were read, which is all that differs.
TEST_P(ConsistentText, WithAnyLineEndsAndAByteOrderMark) {
  const auto files_but_bytes = [&] {
    (void)trainer::data::prepare(options(), base::posix_file_system());
    Files files = files_but_text_bytes(options().output);
    std::filesystem::remove_all(options().output);
    return files;
  };
  const std::string text = travelling_text(kDocuments);
  const Files expected = files_but_bytes();
  std::string windows;
  for (const char c : text) windows += c == '\n' ? std::string("\r\n") : std::string(1, c);
  for (const std::string& other :
       {windows, "\xEF\xBB\xBF" + text, "\xEF\xBB\xBF" + windows, "\n\n \t\n" + text + "\n\n\n"}) {
    ASSERT_NE(other, text);
    write_file(path() / "corpus.txt", other);
    EXPECT_EQ(files_but_bytes(), expected) << other.substr(0, 20);
  }
}

TEST_P(ConsistentText, WhatStandsInTheManifestIsNoPlaceAndNoTime) {
  const std::string manifest = expected_.at("dataset.json");
  EXPECT_EQ(manifest.find(path().string()), std::string::npos);
  EXPECT_EQ(manifest.find("corpus.txt"), std::string::npos);
  EXPECT_NE(manifest.find("\"held_out\": 0.35,"), std::string::npos) << manifest;
}

// XXH3-128 over names and bytes of all files.
std::string digest_of(const Files& files) {
  std::string all;
  for (const auto& [name, bytes] : files) {
    all += name + " " + std::to_string(bytes.size()) + "\n" + bytes;
  }
  return base::digest_of(all);
}

// The promise of this folder as numbers: of the same text they are the same on every machine, by
// every compiler and whether a char has a sign or not. Whoever changes them changes all datasets,
// and kRulesVersion with them.
TEST(ConsistentDatasets, BytesAreThoseOfEveryMachine) {
  const TemporaryDirectory directory;
  write_file(directory.path() / "corpus.txt", travelling_text(kDocuments));
  const Files given = prepared(options_of(directory.path(), false));
  const Files trained = prepared(options_of(directory.path(), true));
  EXPECT_EQ(digest_of(given), "9c1adbde6cb226c489ff974ac7d5ac63");
  EXPECT_EQ(digest_of(trained), "512b541cec0f7670af80acd7faa0a1d3");
  EXPECT_THAT(given.at("dataset.json"),
              testing::HasSubstr("\"fingerprint\": \"2c3f38addbb79f34352a66864ccd7800\""));
  EXPECT_THAT(trained.at("dataset.json"),
              testing::HasSubstr("\"fingerprint\": \"2300f1d85359931f45f0be77edd151ad\""));
}

}  // namespace
}  // namespace regatta::tests
