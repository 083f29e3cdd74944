#include "trainer/data/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

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

TEST(Dataset, AFileIsTheInputsFaultAndSaysWhatToDo) {
  const TemporaryDirectory directory;
  const Path path = directory.path() / "table.csv";
  write_file(path, "a,b\n1,2\n");
  EXPECT_THAT(failure(path), testing::AllOf(HasSubstr("is a file, and a dataset is a folder"),
                                            HasSubstr("prepare")));
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
        Edit{"\"sentences\": ", "\"sentences\": 9"}, Edit{"\"tokens\": ", "\"tokens\": 9"},
        Edit{"\"pieces\": ", "\"pieces\": 1"},
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
