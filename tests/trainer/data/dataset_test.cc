#include "trainer/data/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/error.h"
#include "tests/base/faulty_file_system.h"
#include "tests/trainer/data/prepared.h"

namespace regatta::trainer {
namespace {

using base::Code;
using base::Error;
using base::Path;
using testing::HasSubstr;
using tests::read_file;
using tests::TemporaryDirectory;
using tests::write_file;

Path make_dataset(const Path& directory) {
  write_file(directory / "corpus.txt", tests::documents_text(0, 60));
  data::PrepareOptions options = tests::small_options(directory);
  options.shard_tokens = 300;
  options.held_out = 0.3;
  (void)data::prepare(options, base::posix_file_system());
  return options.output;
}

TEST(Dataset, DocumentsLieInSeveralShards) {
  const TemporaryDirectory directory;
  const data::Dataset dataset = data::Dataset::open(make_dataset(directory.path()));
  const data::SplitManifest& training =
      dataset.manifest().splits[data::index_of(data::Split::Training)];
  ASSERT_GT(training.shard_tokens.size(), 2U);
  std::int64_t tokens = 0;
  std::int64_t sentences = 0;
  for (std::int64_t d = 0; d < dataset.documents(data::Split::Training); ++d) {
    const auto document = dataset.document(data::Split::Training, d);
    EXPECT_EQ(dataset.vocabulary().piece(document[0]), "the");
    EXPECT_EQ(dataset.vocabulary().piece(document.back()), ".");
    tokens += static_cast<std::int64_t>(document.size());
    sentences += dataset.sentences(data::Split::Training, d);
    const auto last =
        dataset.sentence(data::Split::Training, d, dataset.sentences(data::Split::Training, d) - 1);
    EXPECT_EQ(last.data() + last.size(), document.data() + document.size());
  }
  EXPECT_EQ(tokens, dataset.tokens(data::Split::Training));
  EXPECT_EQ(sentences, dataset.sentences(data::Split::Training));
}

TEST(Dataset, StaysValidWhenMoved) {
  const TemporaryDirectory directory;
  data::Dataset first = data::Dataset::open(make_dataset(directory.path()));
  const auto span = first.document(data::Split::HeldOut, 0);
  const data::Dataset second = std::move(first);
  EXPECT_EQ(second.document(data::Split::HeldOut, 0).data(), span.data());
}

std::string failure(const Path& path) {
  try {
    const data::Dataset dataset = data::Dataset::open(path);
    return "";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(path.string()));
    EXPECT_THAT(error.what(), testing::Not(HasSubstr("\n")));
    EXPECT_EQ(error.code(), Code::User);
    return error.what();
  }
}

TEST(Dataset, EveryDamageOfEveryFileIsNoticed) {
  const TemporaryDirectory directory;
  const Path path = make_dataset(directory.path());
  ASSERT_EQ(failure(path), "");
  for (const std::string& name : tests::names_in(path)) {
    if (name == "lengths.json") continue;  // of people, not of the program
    const std::string whole = read_file(path / name);
    const auto damaged = [&](const std::string& bytes) {
      write_file(path / name, bytes);
      return failure(path);
    };
    for (const std::size_t length : {std::size_t{0}, std::size_t{7}, std::size_t{16},
                                     whole.size() / 2, whole.size() - 4, whole.size() - 2}) {
      EXPECT_THAT(damaged(whole.substr(0, length)), HasSubstr("run prepare again"))
          << name << " " << length;
    }
    if (name != data::kManifestName) {  // JSON may end with white space
      EXPECT_THAT(damaged(whole + std::string(8, '\1')), HasSubstr("run prepare again")) << name;
    }
    std::string changed = whole;
    changed[whole.size() / 2] = static_cast<char>(changed[whole.size() / 2] ^ 1);
    EXPECT_NE(damaged(changed), "") << name;
    if (name != data::kManifestName) {
      std::filesystem::remove(path / name);
      EXPECT_NE(failure(path), "") << name;
    }
    write_file(path / name, whole);
    ASSERT_EQ(failure(path), "") << name;
  }
}

TEST(Dataset, VerifyReadsTheRest) {
  const TemporaryDirectory directory;
  const Path path = make_dataset(directory.path());
  data::Dataset::open(path).verify();
  write_file(path / data::kLengthsName, "{}");
  const data::Dataset dataset = data::Dataset::open(path);
  EXPECT_THROW(dataset.verify(), Error);
}

// "" where nothing is found.
std::string verify_failure(const Path& path) {
  try {
    data::Dataset::open(path).verify();
    return "";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(path.string()));
    EXPECT_THAT(error.what(), testing::Not(HasSubstr("\n")));
    EXPECT_EQ(error.code(), Code::User) << error.what();
    return error.what();
  }
}

// The line that `text[at]` is in.
std::string line_of(const std::string& text, std::size_t at) {
  const std::size_t begin = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
  return text.substr(begin, text.find('\n', at) - begin);
}

TEST(Dataset, VerifyFindsAFlippedBitInEveryFile) {
  const TemporaryDirectory directory;
  write_file(directory.path() / "corpus.txt", tests::documents_text(0, 12));
  data::PrepareOptions options = tests::small_options(directory.path());
  options.shard_tokens = 60;
  options.held_out = 0.3;
  (void)data::prepare(options, base::posix_file_system());
  const Path& path = options.output;
  ASSERT_EQ(verify_failure(path), "");
  // Of the text that was read, of which nothing is left to compare with.
  const auto is_believed = [](const std::string& line) {
    for (const char* key : {"text_bytes", "duplicate_documents", "invalid_sequences"}) {
      if (line.find(key) != std::string::npos) return true;
    }
    return false;
  };
  std::size_t tried = 0;
  for (const std::string& name : tests::names_in(path)) {
    const std::string whole = read_file(path / name);
    const bool is_manifest = name == data::kManifestName;
    for (std::size_t at = 0; at < whole.size(); at += is_manifest ? 1 : 5) {
      if (is_manifest && is_believed(line_of(whole, at))) continue;
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ 1);
      write_file(path / name, changed);
      EXPECT_NE(verify_failure(path), "") << name << ", byte " << at << ": " << line_of(whole, at);
      ++tried;
    }
    write_file(path / name, whole);
    ASSERT_EQ(verify_failure(path), "") << name;
  }
  EXPECT_GT(tried, 2000U);
}

// Whoever changed the file also wrote its new size and digest into the manifest.
TEST(Dataset, VerifyComparesFiguresWithTheTokens) {
  const TemporaryDirectory directory;
  const Path path = make_dataset(directory.path());
  const std::string manifest_text = read_file(path / data::kManifestName);
  const data::Manifest manifest = data::parse_manifest(manifest_text);
  using Change = void (*)(std::string&);
  struct Case {
    const char* name;
    const char* file;
    Change change;
    const char* found;
  };
  for (const Case& each : {
           Case{"lengths", "lengths.json",
                [](std::string& bytes) { bytes.replace(bytes.find("[0,"), 3, "[1,"); },
                "lengths.json does not fit the tokens"},
           Case{"lengths cut", "lengths.json", [](std::string& bytes) { bytes = "{}"; },
                "lengths.json does not fit the tokens"},
           Case{"id outside", "training.tokens-00001",
                [](std::string& bytes) { bytes[19] = '\x70'; },
                "a token of training is not in the vocabulary"},
           Case{"id below 0", "held_out.tokens-00000",
                [](std::string& bytes) { bytes[19] = '\xFF'; },
                "a token of held_out is not in the vocabulary"},
           Case{"unknown piece", "training.tokens-00000",
                [](std::string& bytes) { bytes[16] = '\1'; },
                "training has 1 unknown tokens instead of 0"},
           Case{"sentence moved", "training.sentences", [](std::string& bytes) { ++bytes[16 + 8]; },
                "lengths.json does not fit"},
           Case{"sentence empty", "held_out.sentences",
                [](std::string& bytes) { bytes[16 + 8] = 0; },
                "the index of held_out is not in order"},
           Case{"document moved", "training.documents",
                [](std::string& bytes) { bytes.replace(16 + 8, 8, bytes, 16 + 16, 8); },
                "the index of training is not in order"},
           Case{"line end", "vocab.txt",
                [](std::string& bytes) { bytes.insert(bytes.find('\n'), "\r"); }, ""},
       }) {
    SCOPED_TRACE(each.name);
    const std::string whole = read_file(path / each.file);
    std::string changed = whole;
    each.change(changed);
    ASSERT_NE(changed, whole);
    write_file(path / each.file, changed);
    EXPECT_THAT(verify_failure(path), HasSubstr(std::string(each.file) + " has "));
    data::Manifest mended = manifest;
    for (data::FileManifest& file : mended.files) {
      if (file.name != each.file) continue;
      file.bytes = static_cast<std::int64_t>(changed.size());
      file.digest = base::digest_of(changed);
    }
    write_file(path / data::kManifestName, data::to_json(mended));
    EXPECT_THAT(verify_failure(path), HasSubstr(each.found));
    write_file(path / each.file, whole);
    write_file(path / data::kManifestName, manifest_text);
    ASSERT_EQ(verify_failure(path), "");
  }
}

TEST(Dataset, VerifyTakesTheFilesOfADatasetOnly) {
  const TemporaryDirectory directory;
  const Path path = make_dataset(directory.path());
  const data::Manifest manifest = data::parse_manifest(read_file(path / data::kManifestName));
  using Change = void (*)(data::Manifest&);
  struct Case {
    const char* name;
    Change change;
    const char* found;
  };
  for (const Case& each : {
           Case{"one more",
                [](data::Manifest& m) {
                  m.files.push_back({"/etc/passwd", 1, "0"});
                },
                "its manifest lists "},
           Case{"one twice", [](data::Manifest& m) { m.files.push_back(m.files.front()); },
                "its manifest lists "},
           Case{"no lengths",
                [](data::Manifest& m) {
                  std::erase_if(m.files, [](const auto& f) { return f.name == "lengths.json"; });
                },
                "its manifest does not list lengths.json"},
           Case{"no vocabulary",
                [](data::Manifest& m) {
                  std::erase_if(m.files, [](const auto& f) { return f.name == "vocab.txt"; });
                },
                "its manifest does not list vocab.txt"},
           Case{"size of lengths",
                [](data::Manifest& m) {
                  for (auto& f : m.files) f.bytes += f.name == "lengths.json";
                },
                "its manifest has a wrong size of lengths.json"},
           Case{"fingerprint", [](data::Manifest& m) { m.fingerprint = std::string(32, '0'); },
                "the fingerprint does not fit"},
           Case{"corpus", [](data::Manifest& m) { m.corpus_digest = std::string(32, '0'); },
                "the fingerprint does not fit"},
           Case{"share", [](data::Manifest& m) { m.held_out = 0.25; },
                "the fingerprint does not fit"},
           Case{"unknown pieces", [](data::Manifest& m) { m.splits[1].unknown_tokens = 1; },
                "held_out has 0 unknown tokens instead of 1"},
       }) {
    SCOPED_TRACE(each.name);
    data::Manifest changed = manifest;
    each.change(changed);
    write_file(path / data::kManifestName, data::to_json(changed));
    EXPECT_THAT(verify_failure(path), HasSubstr(each.found));
  }
  write_file(path / data::kManifestName, data::to_json(manifest));
  ASSERT_EQ(verify_failure(path), "");
  std::filesystem::remove(path / "lengths.json");
  EXPECT_THAT(verify_failure(path), HasSubstr("lengths.json is missing"));
}

TEST(Dataset, AFileIsTheInputsFaultAndSaysWhatToDo) {
  const TemporaryDirectory directory;
  const Path path = directory.path() / "table.csv";
  write_file(path, "a,b\n1,2\n");
  EXPECT_THAT(failure(path), testing::AllOf(HasSubstr("is a file, and a dataset is a folder"),
                                            HasSubstr("prepare")));
}

TEST(Dataset, AManifestThatIsNoFileIsBadInput) {
  const TemporaryDirectory directory;
  std::filesystem::create_directory(directory.path() / data::kManifestName);
  EXPECT_THAT(failure(directory.path()), HasSubstr("dataset.json is a directory"));
}

TEST(Dataset, AbsentAndOtherDirectories) {
  const TemporaryDirectory directory;
  for (const Path& path : {directory.path(), directory.path() / "absent"}) {
    try {
      (void)data::Dataset::open(path);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::NotFound);
      EXPECT_THAT(error.what(), HasSubstr("is not a dataset"));
      EXPECT_THAT(error.what(), HasSubstr("prepare"));
    }
  }
  for (const char* text :
       {"{}", "[]", "{\"format\":\"other\"}", "{\"format\":7}", "{\"format\":\"regatta-dataset\"}",
        "{\"format\":\"regatta-dataset\",\"version\":2}",
        "{\"format\":\"regatta-dataset\",\"version\":1,\"files\":5}"}) {
    write_file(directory.path() / data::kManifestName, text);
    EXPECT_THAT(failure(directory.path()), HasSubstr("dataset.json")) << text;
  }
}

// The field that someone has changed is named; of a rule of the tokenizer also what it was, which
// is the value with which the fingerprint fits.
TEST(Dataset, TheFieldThatChangedIsNamed) {
  const TemporaryDirectory directory;
  const Path path = make_dataset(directory.path());
  const std::string whole = read_file(path / data::kManifestName);
  struct Edit {
    const char* from;
    const char* to;
    const char* says;
  };
  for (const Edit& edit :
       {Edit{"\"lower_case\": true", "\"lower_case\": false",
             "tokenizer.lower_case is false, and was true"},
        Edit{"\"word_limit\": 200", "\"word_limit\": 201",
             "tokenizer.word_limit is 201, and was 200"},
        Edit{"\"word_limit\": 200", "\"word_limit\": 0", "tokenizer.word_limit is 0, and was 200"},
        Edit{"\"unicode\": \"14.0.0\"", "\"unicode\": \"13.0.0\"",
             "tokenizer.unicode is '13.0.0', and this program has the tables of Unicode 14.0.0"},
        Edit{"\"unicode\"", "\"vnicode\"", "a field too few"},
        Edit{"\"pieces\": 39", "\"pieces\": 38", "vocabulary.pieces is 38, and vocab.txt has 39"},
        Edit{"\"held_out\": 0.3,", "\"held_out\": 0.4,", "it, held_out or corpus.digest"},
        Edit{"\"fingerprint\": \"", "\"fingerprint\": \"0", "it, held_out or corpus.digest"},
        Edit{"\"corpus\": {\n    \"digest\": \"", "\"corpus\": {\n    \"digest\": \"0",
             "it, held_out or corpus.digest"},
        Edit{"\"pieces\": 39,\n    \"digest\": \"", "\"pieces\": 39,\n    \"digest\": \"0",
             "vocabulary.digest is not that of vocab.txt"},
        Edit{"\"tokens\": ", "\"tokens\": 9", "splits.training.tokens of dataset.json is 9"},
        Edit{"\"unknown_tokens\": 0", "\"unknown_tokens\": 5",
             "training has 0 unknown tokens instead of 5"},
        Edit{"\"documents\": ", "\"documents\": 1", "training.documents has "},
        Edit{"\"sentences\": ", "\"sentences\": 1", "training.sentences has "},
        Edit{"\"documents\": ", "\"documents\": 9223372036854775807, \"was\": ",
             "documents is 9223372036854775807; a count is a whole number from 0 to 2^53"},
        Edit{"\"documents\": ", "\"documents\": 9223372036854775808, \"was\": ",
             "documents is 9223372036854775808; a count"},
        Edit{"\"text_bytes\": ", "\"text_bytes\": -", "text_bytes is -"},
        Edit{"\"tokens\": ", "\"tokens\": 1e3, \"was\": ", "tokens is 1000.0; a count"},
        Edit{"\"shard_tokens\": [\n        ", "\"shard_tokens\": [\n        1",
             "training.tokens-00000 has "}}) {
    std::string text = whole;
    const std::size_t at = text.find(edit.from);
    ASSERT_NE(at, std::string::npos) << edit.from;
    text.replace(at, std::string(edit.from).size(), edit.to);
    write_file(path / data::kManifestName, text);
    EXPECT_THAT(verify_failure(path), HasSubstr(edit.says)) << edit.to;
    EXPECT_THAT(verify_failure(path), HasSubstr("run prepare again"));
  }
}

// An edited manifest does not fit its fingerprint, or its files.
TEST(Dataset, EditedManifest) {
  const TemporaryDirectory directory;
  const Path path = make_dataset(directory.path());
  const std::string whole = read_file(path / data::kManifestName);
  struct Edit {
    const char* from;
    const char* to;
  };
  for (const Edit& edit :
       {Edit{"\"lower_case\": true", "\"lower_case\": false"},
        Edit{"\"word_limit\": 200", "\"word_limit\": 100"},
        Edit{"\"documents\": ", "\"documents\": 1"}, Edit{"\"documents\": ", "\"documents\": -"},
        Edit{"\"text_bytes\": ", "\"text_bytes\": -"}, Edit{"\"sentences\": ", "\"sentences\": 9"},
        Edit{"\"tokens\": ", "\"tokens\": 9"}, Edit{"\"pieces\": ", "\"pieces\": 1"},
        Edit{"training.tokens-00000", "../../../../etc/passwd"}}) {
    std::string text = whole;
    const std::size_t at = text.find(edit.from);
    ASSERT_NE(at, std::string::npos) << edit.from;
    text.replace(at, std::string(edit.from).size(), edit.to);
    write_file(path / data::kManifestName, text);
    EXPECT_NE(failure(path), "") << edit.from;
  }
}

}  // namespace
}  // namespace regatta::trainer
