// Bad input and faults: one line that says what to do, and nothing left behind.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/unique_fd.h"
#include "tests/base/faulty_file_system.h"
#include "tests/trainer/data/compressed.h"
#include "tests/trainer/data/prepared.h"
#include "trainer/data/dataset.h"
#include "trainer/data/prepare.h"

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

struct BadCase {
  const char* name;
  std::function<void(data::PrepareOptions&, const Path&)> change;
  Code code;
  const char* message;
};

void set_corpus(const Path& directory, std::string_view text) {
  write_file(directory / "corpus.txt", text);
}

const BadCase kBadOptions[] = {
    {"no input", [](auto& o, auto&) { o.inputs.clear(); }, Code::User, "no input"},
    {"no output", [](auto& o, auto&) { o.output.clear(); }, Code::User, "no output"},
    {"no vocabulary", [](auto& o, auto&) { o.vocabulary.clear(); }, Code::User, "no vocabulary"},
    {"two vocabularies", [](auto& o, auto&) { o.train_vocabulary = 100; }, Code::User,
     "choose one"},
    {"held-out 0", [](auto& o, auto&) { o.held_out = 0; }, Code::User, "0.05 is usual"},
    {"held-out 1", [](auto& o, auto&) { o.held_out = 1; }, Code::User, "0.05 is usual"},
    {"held-out NaN", [](auto& o, auto&) { o.held_out = 0.0 / 0.0; }, Code::User, "0.05 is usual"},
    {"threads", [](auto& o, auto&) { o.threads = -1; }, Code::User, "-1 threads"},
    {"word limit", [](auto& o, auto&) { o.word_limit = 0; }, Code::User, "word limit 0"},
    {"vocabulary too small",
     [](auto& o, auto&) {
       o.vocabulary.clear();
       o.train_vocabulary = 3;
     },
     Code::User, "vocabulary of 3 pieces"},
    {"output in an absent directory", [](auto& o, auto& d) { o.output = d / "no" / "such"; },
     Code::NotFound, "no/such"},
    {"output is a file", [](auto& o, auto& d) { o.output = d / "corpus.txt"; }, Code::Conflict,
     "corpus.txt exists already"},
    {"force does not remove other things",
     [](auto& o, auto& d) {
       o.output = d / "precious";
       o.force = true;
       std::filesystem::create_directory(o.output);
       write_file(o.output / "thesis.txt", "x");
     },
     Code::Conflict, "is not a dataset; choose another output"},
};

const BadCase kBadInputs[] = {
    {"absent input", [](auto& o, auto& d) { o.inputs = {d / "absent.txt"}; }, Code::NotFound,
     "absent.txt"},
    {"absent vocabulary", [](auto& o, auto& d) { o.vocabulary = d / "absent"; }, Code::NotFound,
     "absent"},
    {"vocabulary without [MASK]",
     [](auto& o, auto&) { write_file(o.vocabulary, "[PAD]\n[UNK]\n[CLS]\n[SEP]\n"); }, Code::User,
     "no piece [MASK]"},
    {"empty vocabulary", [](auto& o, auto&) { write_file(o.vocabulary, ""); }, Code::User,
     "has no pieces"},
    {"empty corpus", [](auto&, auto& d) { set_corpus(d, ""); }, Code::User, "corpus is empty"},
    {"blank corpus", [](auto&, auto& d) { set_corpus(d, " \n\n\t\n"); }, Code::User,
     "corpus is empty"},
    {"one document", [](auto&, auto& d) { set_corpus(d, "the boat\nthe wind\n"); }, Code::User,
     "found 1 document"},
    {"one document many times", [](auto&, auto& d) { set_corpus(d, "a\n\na\n\na\n"); }, Code::User,
     "found 1 document"},
    {"nothing but control characters", [](auto&, auto& d) { set_corpus(d, "\x01\n\n\x02\n"); },
     Code::User, "has a token"},
    {"binary",
     [](auto&, auto& d) {
       set_corpus(d, std::string("\x7F"
                                 "ELF\0\0",
                                 6));
     },
     Code::User, "corpus.txt has NUL bytes"},
    {"truncated gzip",
     [](auto&, auto& d) { set_corpus(d, tests::gzip(documents_text(0, 9)).substr(0, 40)); },
     Code::User, "ends inside its gzip data"},
    {"directory without files",
     [](auto& o, auto& d) {
       o.inputs = {d / "empty"};
       std::filesystem::create_directory(d / "empty");
     },
     Code::User, "has no files"},
};

void expect_failure(const BadCase& c) {
  const TemporaryDirectory directory;
  set_corpus(directory.path(), documents_text(0, 20));
  data::PrepareOptions options = small_options(directory.path());
  c.change(options, directory.path());
  const auto before = files_of(directory.path());
  const auto names_before = tests::names_in(directory.path());
  try {
    (void)data::prepare(options, base::posix_file_system());
    ADD_FAILURE() << c.name;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), c.code) << c.name << ": " << error.what();
    EXPECT_THAT(error.what(), HasSubstr(c.message)) << c.name;
    EXPECT_THAT(error.what(), testing::Not(HasSubstr("\n"))) << c.name;
  }
  EXPECT_EQ(files_of(directory.path()), before) << c.name;
  EXPECT_EQ(tests::names_in(directory.path()), names_before) << c.name;
}

TEST(PrepareFailure, Options) {
  for (const BadCase& c : kBadOptions) expect_failure(c);
}
TEST(PrepareFailure, Inputs) {
  for (const BadCase& c : kBadInputs) expect_failure(c);
}

TEST(PrepareFailure, ExistingDatasetIsKeptUnlessForced) {
  const TemporaryDirectory directory;
  set_corpus(directory.path(), documents_text(0, 20));
  data::PrepareOptions options = small_options(directory.path());
  (void)data::prepare(options, base::posix_file_system());
  const auto before = files_of(options.output);
  set_corpus(directory.path(), documents_text(0, 30));
  try {
    (void)data::prepare(options, base::posix_file_system());
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::Conflict);
    EXPECT_THAT(error.what(), HasSubstr("--force"));
  }
  EXPECT_EQ(files_of(options.output), before);
  options.force = true;
  options.output = directory.path() / "dataset/";  // as the shell completes it
  EXPECT_EQ(data::prepare(options, base::posix_file_system()).documents, 30);
  EXPECT_NE(files_of(options.output), before);
  EXPECT_THAT(tests::names_in(directory.path()),
              testing::ElementsAre("corpus.txt", "dataset", "vocab.txt"));
}

TEST(PrepareFailure, AnExceptionOfTheCallbackLeavesNothing) {
  const TemporaryDirectory directory;
  set_corpus(directory.path(), documents_text(0, 200));
  data::PrepareOptions options = small_options(directory.path());
  options.batch_bytes = 1000;
  for (const int stop_at : {1, 2, 5}) {
    int calls = 0;
    EXPECT_THROW((void)data::prepare(options, base::posix_file_system(),
                                     [&](const data::PrepareProgress&) {
                                       if (++calls == stop_at) throw std::runtime_error("stop");
                                     }),
                 std::runtime_error);
    EXPECT_THAT(tests::names_in(directory.path()), testing::ElementsAre("corpus.txt", "vocab.txt"));
  }
}

TEST(PrepareFailure, WhatAKilledOneLeftIsRemovedByTheNext) {
  const TemporaryDirectory directory;
  set_corpus(directory.path(), documents_text(0, 200));
  const data::PrepareOptions options = small_options(directory.path());
  const std::string name = options.output.filename().string();
  const Path left = directory.path() / (name + ".partial-01234567");
  const Path at_work = directory.path() / (name + ".partial-89abcdef");
  const Path of_another = directory.path() / (name + "2.partial-01234567");
  for (const Path& path : {left, at_work, of_another}) {
    std::filesystem::create_directories(path / "spill");
    write_file(path / "spill" / "0", "text");
  }
  const base::UniqueFd held(::open(at_work.c_str(), O_RDONLY | O_DIRECTORY));
  ASSERT_EQ(::flock(held.get(), LOCK_EX | LOCK_NB), 0);
  (void)data::prepare(options, base::posix_file_system());
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_TRUE(std::filesystem::exists(at_work / "spill" / "0")) << "its process lives";
  EXPECT_TRUE(std::filesystem::exists(of_another / "spill" / "0"));
}

TEST(PrepareFailure, ForeignFoldersOfSuchNamesStay) {
  const TemporaryDirectory directory;
  set_corpus(directory.path(), documents_text(0, 200));
  const data::PrepareOptions options = small_options(directory.path());
  const std::string name = options.output.filename().string();
  for (const char* ending : {".partial-experiment-2", ".partial-0123456", ".partial-012345678",
                             ".partial-0123456g", ".partial-01234567.bak", ".old-times"}) {
    std::filesystem::create_directories(directory.path() / (name + ending) / "thesis");
  }
  (void)data::prepare(options, base::posix_file_system());
  EXPECT_EQ(tests::names_in(directory.path()).size(), 9U) << "these, corpus, vocabulary, dataset";
}

// A first dataset, which others then replace, or do not: its fingerprint.
std::string made_with(const data::PrepareOptions& options) {
  set_corpus(options.output.parent_path(), documents_text(0, 200));
  (void)data::prepare(options, base::posix_file_system());
  return data::Dataset::open(options.output).fingerprint();
}

// Killed between the two renames of --force.
TEST(PrepareFailure, ADatasetThatWasSetAsideIsPutBack) {
  const TemporaryDirectory directory;
  data::PrepareOptions options = small_options(directory.path());
  const std::string before = made_with(options);
  const Path old = options.output.string() + ".old-01234567";
  std::filesystem::rename(options.output, old);
  std::filesystem::create_directories(options.output.string() + ".partial-89abcdef");
  EXPECT_THROW((void)data::prepare(options, base::posix_file_system()), Error) << "it exists again";
  EXPECT_EQ(data::Dataset::open(options.output).fingerprint(), before);
  EXPECT_FALSE(std::filesystem::exists(old));
  std::filesystem::create_directories(old);
  options.force = true;
  (void)data::prepare(options, base::posix_file_system());
  EXPECT_THAT(tests::names_in(directory.path()),
              testing::ElementsAre("corpus.txt", options.output.filename().string(), "vocab.txt"));
}

TEST(PrepareFailure, WhoIsLaterReplacesNothingWithoutForce) {
  const TemporaryDirectory directory;
  set_corpus(directory.path(), documents_text(0, 200));
  const data::PrepareOptions first = small_options(directory.path());
  bool is_second = true;
  std::string made;
  try {
    (void)data::prepare(first, base::posix_file_system(), [&](const data::PrepareProgress&) {
      if (!std::exchange(is_second, false)) return;
      (void)data::prepare(first, base::posix_file_system());
      made = data::Dataset::open(first.output).fingerprint();
    });
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::Conflict);
    EXPECT_THAT(error.what(), HasSubstr("exists already"));
  }
  EXPECT_EQ(data::Dataset::open(first.output).fingerprint(), made);
  EXPECT_THAT(tests::names_in(directory.path()),
              testing::ElementsAre("corpus.txt", first.output.filename().string(), "vocab.txt"));
}

// At any moment of the swap: ended before, the former dataset is whole; after, the new one is.
TEST(PrepareFailure, EndedAtTheSwapOneDatasetIsWhole) {
  const TemporaryDirectory directory;
  data::PrepareOptions options = small_options(directory.path());
  const std::string before = made_with(options);
  options.force = true;
  options.held_out = 0.5;
  int made = 0, removed = 0;
  for (int i = 0; i < 60; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {  // no test framework here
      data::PartialDataset partial;
      options.partial = &partial;
      std::atomic<bool> is_over{false};
      std::thread ender([&] {
        while (!is_over && (partial.folder().empty() ||
                            !std::filesystem::exists(partial.folder() / data::kLengthsName))) {
          std::this_thread::yield();
        }
        std::this_thread::sleep_for(std::chrono::microseconds(100 * (i % 30)));
        ::_exit(partial.end() == data::PartialDataset::End::WasMade ? 1 : 0);
      });
      try {
        (void)data::prepare(options, base::posix_file_system());
      } catch (...) {
      }
      is_over = true;
      ender.join();
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    const std::string now = data::Dataset::open(options.output).fingerprint();
    (WEXITSTATUS(status) == 1 ? made : removed)++;
    if (removed > 0 && made == 0) {
      EXPECT_EQ(now, before);
    }
    EXPECT_THAT(
        tests::names_in(directory.path()),
        testing::ElementsAre("corpus.txt", options.output.filename().string(), "vocab.txt"));
  }
  std::printf("%d were ended before the swap, %d after\n", removed, made);
}

TEST(PrepareFailure, ItsOwnFolderIsHeldWhileItWorks) {
  const TemporaryDirectory directory;
  set_corpus(directory.path(), documents_text(0, 200));
  data::PrepareOptions options = small_options(directory.path());
  data::PartialDataset partial;
  options.partial = &partial;
  bool is_held = false;
  (void)data::prepare(options, base::posix_file_system(), [&](const data::PrepareProgress&) {
    const base::UniqueFd other(::open(partial.folder().c_str(), O_RDONLY | O_DIRECTORY));
    is_held = other.valid() && ::flock(other.get(), LOCK_EX | LOCK_NB) != 0;
  });
  EXPECT_TRUE(is_held);
}

data::PrepareOptions spilling_options(const Path& directory) {
  set_corpus(directory, documents_text(0, 12));
  data::PrepareOptions options = small_options(directory);
  options.spill_bytes = 1;
  options.shard_tokens = 60;
  return options;
}

// The n-th operation fails, for every n: as on a disk that is full or broken.
TEST(PrepareFailure, EveryFileOperationMayFail) {
  const TemporaryDirectory directory;
  data::PrepareOptions options = spilling_options(directory.path());
  tests::FaultyFileSystem files;
  (void)data::prepare(options, files);
  const std::int64_t operations = files.operations();
  const auto expected = files_of(options.output);
  std::filesystem::remove_all(options.output);
  ASSERT_GT(operations, 60);
  int completed = 0;
  for (std::int64_t n = 1; n <= operations; ++n) {
    files.fail_at(n, tests::Fault::Once);
    try {
      (void)data::prepare(options, files);
      ++completed;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::Operator) << n;
      EXPECT_THAT(error.what(), testing::Not(HasSubstr("\n")));
    }
    files.heal();
    // There is a dataset and it is whole, or there is none; and no litter.
    for (const std::string& name : tests::names_in(directory.path())) {
      EXPECT_THAT(name, testing::AnyOf("corpus.txt", "vocab.txt", "dataset")) << n;
    }
    if (files.exists(options.output)) {
      EXPECT_EQ(files_of(options.output), expected) << n;
      std::filesystem::remove_all(options.output);
    }
  }
  EXPECT_EQ(completed, 0);
}

TEST(PrepareFailure, ReplacingIsAllOrNothing) {
  const TemporaryDirectory directory;
  data::PrepareOptions options = spilling_options(directory.path());
  options.force = true;
  tests::FaultyFileSystem files;
  (void)data::prepare(options, files);
  const auto old_files = files_of(options.output);
  set_corpus(directory.path(), documents_text(0, 13));
  const std::int64_t before = files.operations();
  (void)data::prepare(options, files);
  const std::int64_t operations = files.operations() - before;
  const auto new_files = files_of(options.output);
  ASSERT_NE(old_files, new_files);
  constexpr std::int64_t kLast = 20;  // from the manifest on; the test above has the others
  for (std::int64_t n = operations - kLast; n <= operations; ++n) {
    set_corpus(directory.path(), documents_text(0, 12));
    (void)data::prepare(options, files);
    ASSERT_EQ(files_of(options.output), old_files);
    set_corpus(directory.path(), documents_text(0, 13));
    files.fail_at(n, tests::Fault::Once);
    EXPECT_THROW((void)data::prepare(options, files), Error) << n;
    files.heal();
    const auto now = files_of(options.output);
    EXPECT_TRUE(now == old_files || now == new_files) << n;
    for (const std::string& name : tests::names_in(directory.path())) {
      if (name.find(".old-") != std::string::npos)
        std::filesystem::remove_all(directory.path() / name);
    }
  }
}

// What is published was synced: a crash of the machine loses nothing of it.
TEST(PrepareFailure, SurvivesACrashOfTheMachine) {
  for (const auto crash : {tests::Crash::LoseBytes, tests::Crash::LoseEverything}) {
    const TemporaryDirectory directory;
    data::PrepareOptions options = spilling_options(directory.path());
    options.spill_bytes = std::size_t{1} << 20U;
    tests::FaultyFileSystem files;
    (void)data::prepare(options, files);
    const auto before = files_of(options.output);
    files.crash(crash);
    EXPECT_EQ(files_of(options.output), before);
    data::Dataset::open(options.output).verify();
  }
}

}  // namespace
}  // namespace regatta::trainer
