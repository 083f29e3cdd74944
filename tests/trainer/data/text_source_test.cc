#include "trainer/data/text_source.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <string>
#include <thread>

#include "base/error.h"
#include "base/unique_fd.h"
#include "tests/base/faulty_file_system.h"
#include "tests/trainer/data/compressed.h"
#include "tests/trainer/data/prepared.h"

namespace regatta::trainer {
namespace {

using testing::HasSubstr;
using tests::TemporaryDirectory;

std::string read_all(data::TextSource& source, std::size_t limit) {
  std::string text;
  for (;;) {
    const std::size_t before = text.size();
    source.read(limit, text);
    if (text.size() == before) return text;
  }
}

std::string long_text() {
  std::string text;
  for (int i = 0; i < 60000; ++i) text += "line " + std::to_string(i * 7919 % 10007) + "\n";
  return text;
}

TEST(TextSource, ReadsEveryForm) {
  const TemporaryDirectory directory;
  const std::string text = long_text();
  const std::string half = text.substr(0, text.size() / 2);
  const std::string rest = text.substr(text.size() / 2);
  struct Form {
    const char* name;
    std::string bytes;
  };
  const Form forms[] = {
      {"plain", text},
      {"byte order mark", "\xEF\xBB\xBF" + text},
      {"gzip", tests::gzip(text)},
      {"two gzip members", tests::gzip(half) + tests::gzip(rest)},
      {"zstd", tests::zstandard(text)},
      {"two zstd frames", tests::zstandard(half) + tests::zstandard(rest)},
      {"gzip with byte order mark", tests::gzip("\xEF\xBB\xBF" + text)},
  };
  for (const Form& form : forms) {
    const base::Path path = directory.path() / "file";  // the name says nothing
    tests::write_file(path, form.bytes);
    for (const std::size_t limit : {std::size_t{4096}, std::size_t{1} << 22U}) {
      data::TextSource source(path, -1);
      EXPECT_EQ(read_all(source, limit), text) << form.name;
      EXPECT_EQ(source.consumed(), form.bytes.size()) << form.name;
    }
  }
}

// A look at the first bytes takes nothing away, and finds no fault with what is no text.
TEST(TextSource, HeadIsReadAgain) {
  const TemporaryDirectory directory;
  const base::Path path = directory.path() / "file";
  const std::string text = long_text();
  const std::string first = text.substr(0, data::TextSource::kHeadBytes);
  for (const std::string& bytes : {text, "\xEF\xBB\xBF" + text, tests::gzip(text)}) {
    tests::write_file(path, bytes);
    for (const std::size_t limit : {std::size_t{1}, std::size_t{500}, std::size_t{1} << 22U}) {
      data::TextSource source(path, -1);
      EXPECT_EQ(source.head(), first);
      EXPECT_EQ(source.head(), first);
      EXPECT_EQ(read_all(source, limit), text) << limit;
      EXPECT_EQ(source.consumed(), bytes.size());
    }
  }
  tests::write_file(path, std::string("PK\0", 3));
  data::TextSource source(path, -1);
  EXPECT_EQ(source.head(), std::string("PK\0", 3));
  EXPECT_THROW((void)read_all(source, 100), base::Error);
}

TEST(TextSource, EmptyFiles) {
  const TemporaryDirectory directory;
  for (const std::string& bytes : {std::string(), tests::gzip(""), tests::zstandard("")}) {
    tests::write_file(directory.path() / "file", bytes);
    data::TextSource source(directory.path() / "file", -1);
    EXPECT_EQ(read_all(source, 100), "");
  }
}

TEST(TextSource, StandardInputInSmallPieces) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const base::UniqueFd in(ends[0]);
  base::UniqueFd out(ends[1]);
  const std::string bytes = tests::gzip(long_text());
  std::jthread writer([&] {
    for (std::size_t i = 0; i < bytes.size(); i += 1000) {
      const std::string_view part = std::string_view(bytes).substr(i, 1000);
      ASSERT_EQ(::write(out.get(), part.data(), part.size()), static_cast<ssize_t>(part.size()));
    }
    out.reset();
  });
  data::TextSource source("-", in.get());
  EXPECT_EQ(source.name(), "standard input");
  EXPECT_EQ(read_all(source, 10'000), long_text());
}

TEST(TextSource, PipesOfTheShell) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const base::UniqueFd in(ends[0]);
  base::UniqueFd out(ends[1]);
  const std::string text = "from a pipe\n";
  ASSERT_EQ(::write(out.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  out.reset();
  const base::Path path = "/dev/fd/" + std::to_string(in.get());
  ASSERT_THAT(data::list_inputs({path}), testing::ElementsAre(path));
  data::TextSource source(path, -1);
  EXPECT_EQ(read_all(source, 100), text);
}

TEST(TextSource, EveryTruncationAndDamageIsNoticed) {
  const TemporaryDirectory directory;
  const base::Path path = directory.path() / "file";
  const auto outcome = [&](const std::string& bytes) -> std::string {
    tests::write_file(path, bytes);
    try {
      data::TextSource source(path, -1);
      return "text: " + read_all(source, 1000);
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      EXPECT_THAT(error.what(), HasSubstr(path.string()));
      return "error";
    }
  };
  const std::string text = "some text that compresses, compresses, compresses\n";
  for (const std::string& whole : {tests::gzip(text), tests::zstandard(text)}) {
    ASSERT_EQ(outcome(whole), "text: " + text);
    for (std::size_t length = 4; length < whole.size(); ++length) {
      EXPECT_EQ(outcome(whole.substr(0, length)), "error") << length;
    }
    std::string changed = whole;
    changed[whole.size() / 2] = static_cast<char>(changed[whole.size() / 2] ^ 0x55);
    EXPECT_EQ(outcome(changed), "error");
    EXPECT_EQ(outcome(whole + "rubbish behind it"), "error");
  }
}

TEST(TextSource, NulBytesAreNoText) {
  const TemporaryDirectory directory;
  const base::Path path = directory.path() / "picture";
  for (const std::string& bytes : {std::string("a\0b", 3), std::string("h\0e\0l\0l\0o\0", 10),
                                   tests::gzip(std::string(9, '\0'))}) {
    tests::write_file(path, bytes);
    data::TextSource source(path, -1);
    try {
      (void)read_all(source, 100);
      ADD_FAILURE();
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      EXPECT_THAT(error.what(), HasSubstr("picture has NUL bytes"));
    }
  }
}

TEST(ListInputs, WalksDirectoriesInOrder) {
  const TemporaryDirectory directory;
  const base::Path root = directory.path();
  std::filesystem::create_directories(root / "b" / "deep");
  std::filesystem::create_directories(root / ".git");
  for (const char* name : {"z.txt", "a.txt", "b/deep/c.txt", ".hidden", ".git/config"}) {
    tests::write_file(root / name, "x");
  }
  EXPECT_THAT(data::list_inputs({root}),
              testing::ElementsAre(root / "a.txt", root / "b/deep/c.txt", root / "z.txt"));
  // Named twice, read once; a hidden file that is named is read.
  EXPECT_THAT(data::list_inputs({root / "z.txt", root, root / ".hidden", "-"}),
              testing::ElementsAre(root / "z.txt", root / "a.txt", root / "b/deep/c.txt",
                                   root / ".hidden", "-"));
  EXPECT_EQ(data::stored_bytes(data::list_inputs({root, "-"})), 3U);
}

TEST(ListInputs, SaysWhatIsWrong) {
  const TemporaryDirectory directory;
  struct BadCase {
    std::vector<base::Path> inputs;
    base::Code code;
    std::string message;
  };
  const BadCase cases[] = {
      {{directory.path() / "absent"}, base::Code::NotFound, "absent"},
      {{directory.path()}, base::Code::User, "has no files"},
      {{"-", "-"}, base::Code::User, "named twice"},
      {{"/dev/null"}, base::Code::User, "/dev/null is neither a file nor a directory"},
  };
  for (const BadCase& c : cases) {
    try {
      (void)data::list_inputs(c.inputs);
      ADD_FAILURE() << c.message;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), c.code) << c.message;
      EXPECT_THAT(error.what(), HasSubstr(c.message));
    }
  }
}

}  // namespace
}  // namespace regatta::trainer
