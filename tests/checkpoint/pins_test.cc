#include "checkpoint/pins.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "checkpoint/retention.h"
#include "checkpoint/tombstones.h"
#include "tests/base/faulty_file_system.h"
#include "tests/checkpoint/samples.h"

namespace regatta::checkpoint {
namespace {

using tests::always;
using tests::SampleCheckpoint;

constexpr double kNow = 1.7e9;

class PinsTest : public testing::Test {
 protected:
  std::string write(std::int64_t step) {
    const SampleCheckpoint sample(step, "aaaa");
    return store_.write(sample.contents, always).name;
  }
  base::Code code_of(const std::function<void()>& call) {
    try {
      call();
    } catch (const base::Error& error) {
      return error.code();
    }
    ADD_FAILURE() << "nothing was thrown";
    return base::Code::Developer;
  }
  void put(const base::Path& path, const std::string& text) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }

  base::FileSystem& files_ = base::posix_file_system();
  tests::TemporaryDirectory directory_;
  CheckpointStore store_{files_, directory_.path() / "checkpoints"};
  const base::Path& path_ = store_.directory();
};

const char* const kBadNames[] = {"",
                                 ".",
                                 "..",
                                 "../..",
                                 "/etc/passwd",
                                 "step-1",
                                 "pins",
                                 "step-0000000001-",
                                 "step-0000000001-a/../../x",
                                 "step-0000000001-..",
                                 "step-0000000001-a\nb",
                                 "step-0000000001-\x1b[1m",
                                 "removing-step-0000000001-aaaa-00"};

TEST_F(PinsTest, PinsAndUnpins) {
  const std::string name = write(1);
  EXPECT_TRUE(read_pins(files_, path_).empty());
  pin(files_, path_, name, {"the \"best\"\n\x1b[1m one", kNow});
  auto pins = read_pins(files_, path_);
  ASSERT_EQ(pins.size(), 1U);
  EXPECT_EQ(pins[name].reason, "the \"best\"\n\x1b[1m one");
  EXPECT_EQ(pins[name].utc_seconds, kNow);
  pin(files_, path_, name, {"another reason", kNow + 1});
  EXPECT_EQ(read_pins(files_, path_)[name].reason, "another reason");
  EXPECT_TRUE(unpin(files_, path_, name));
  EXPECT_FALSE(unpin(files_, path_, name));
  EXPECT_TRUE(read_pins(files_, path_).empty());
  EXPECT_EQ(store_.list().size(), 1U) << "pins are no checkpoints";
}

TEST_F(PinsTest, RefusesWhatIsNoCheckpoint) {
  const std::string name = write(1);
  for (const char* bad : kBadNames) {
    EXPECT_EQ(code_of([&] { pin(files_, path_, bad, {}); }), base::Code::User) << bad;
    EXPECT_EQ(code_of([&] { (void)unpin(files_, path_, bad); }), base::Code::User) << bad;
    EXPECT_EQ(code_of([&] { const ReadingMark mark(files_, path_, bad, "test", kNow); }),
              base::Code::User)
        << bad;
  }
  const std::string absent = CheckpointName{2, "aaaa"}.text();
  EXPECT_EQ(code_of([&] { pin(files_, path_, absent, {}); }), base::Code::NotFound);
  EXPECT_EQ(code_of([&] { const ReadingMark mark(files_, path_, absent, "test", kNow); }),
            base::Code::NotFound);
  EXPECT_EQ(code_of([&] {
              pin(files_, path_, name, {std::string(kLongestReason + 1, 'x'), 0});
            }),
            base::Code::User);
  pin(files_, path_, name, {std::string(kLongestReason, 'x'), 0});
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path_),
                          std::filesystem::directory_iterator()),
            2);
}

TEST_F(PinsTest, RefusesACheckpointThatIsBeingRemoved) {
  const std::string name = write(1);
  add_tombstones(files_, path_, {{name, 1, kNow, "test", false}});
  EXPECT_EQ(code_of([&] { pin(files_, path_, name, {}); }), base::Code::NotFound);
  EXPECT_EQ(code_of([&] { const ReadingMark mark(files_, path_, name, "test", kNow); }),
            base::Code::NotFound);
  EXPECT_TRUE(read_pins(files_, path_).empty());
  EXPECT_TRUE(read_marks(files_, path_, kNow).empty());
  add_tombstones(files_, path_, {{name, 1, kNow, "called off", true}});
  EXPECT_NO_THROW(pin(files_, path_, name, {}));
}

TEST_F(PinsTest, AFileThatCannotBeUnderstoodPins) {
  for (const char* text : {"", "{", "[]", "null", "{\"reason\": 5}", "\xff\xfe"}) {
    const std::string name = CheckpointName{7, "aaaa"}.text();
    put(path_ / "pins" / name, text);
    EXPECT_EQ(read_pins(files_, path_).count(name), 1U) << text;
  }
  put(path_ / "pins" / "step-0000000007-aaaa.tmp-01020304", "{}");
  put(path_ / "pins" / "notes", "{}");
  put(path_ / "pins" / CheckpointName{8, "aaaa"}.text(), std::string(1 << 20, ' '));
  put(path_ / "pins" / CheckpointName{9, "aaaa"}.text(), std::string(10000, '['));
  EXPECT_EQ(read_pins(files_, path_).size(), 3U);
}

TEST_F(PinsTest, NothingIsWrittenThroughALink) {
  const std::string name = write(1);
  const base::Path outside = directory_.path() / "outside";
  std::filesystem::create_directory(outside);
  std::filesystem::create_directory_symlink(outside, path_ / "pins");
  std::filesystem::create_directory_symlink(outside, path_ / "reading");
  put(outside / name, "{}");
  EXPECT_EQ(code_of([&] { pin(files_, path_, name, {}); }), base::Code::Operator);
  EXPECT_EQ(code_of([&] { (void)unpin(files_, path_, name); }), base::Code::Operator);
  EXPECT_EQ(code_of([&] { const ReadingMark mark(files_, path_, name, "test", kNow); }),
            base::Code::Operator);
  EXPECT_EQ(code_of([&] { remove_ended_marks(files_, path_, kNow); }), base::Code::Operator);
  const base::Path link = directory_.path() / "link";
  std::filesystem::create_directory_symlink(path_, link);
  EXPECT_EQ(code_of([&] { pin(files_, link, name, {}); }), base::Code::Operator);
  EXPECT_EQ(files_.list(outside).size(), 1U);
}

TEST_F(PinsTest, AMarkHoldsUntilItEnds) {
  const std::string name = write(1);
  const std::set<std::string> marked{name};
  {
    ReadingMark mark(files_, path_, name, "test", kNow);
    const ReadingMark another(files_, path_, name, "test", kNow);
    EXPECT_EQ(read_marks(files_, path_, kNow), marked);
    EXPECT_EQ(read_marks(files_, path_, kNow + kLongestMark - 1), marked);
    EXPECT_TRUE(read_marks(files_, path_, kNow + kLongestMark).empty()) << "its reader has died";
    mark.renew(kNow + 3000);
    EXPECT_EQ(read_marks(files_, path_, kNow + 3000 + kLongestMark - 1), marked);
    remove_ended_marks(files_, path_, kNow + 3000);
    EXPECT_EQ(files_.list(path_ / "reading").size(), 2U);
    remove_ended_marks(files_, path_, kNow + kLongestMark);
    EXPECT_EQ(files_.list(path_ / "reading").size(), 1U) << "only the one that was renewed";
  }
  EXPECT_TRUE(files_.list(path_ / "reading").empty());
}

// Clocks of two machines differ; a mark from far ahead would hold for years.
TEST_F(PinsTest, AMarkOfAClockThatIsAheadHolds) {
  const std::string name = write(1);
  {
    const ReadingMark mark(files_, path_, name, "test", kNow + kClockTolerance);
    EXPECT_EQ(read_marks(files_, path_, kNow).count(name), 1U);
  }
  const ReadingMark mark(files_, path_, name, "test", kNow + kClockTolerance + 1);
  EXPECT_EQ(read_marks(files_, path_, kNow).count(name), 0U);
}

TEST_F(PinsTest, ARoundTakesAwayTheMarksOfDeadReaders) {
  const std::string name = write(1);
  const ReadingMark living(files_, path_, name, "test", kNow + 200);
  put(path_ / "reading" / (name + ".0123"), "{\"until_utc_seconds\": 1700000100}");
  apply_retention(files_, store_, {1}, {"bbbb", kNow});
  EXPECT_EQ(files_.list(path_ / "reading").size(), 2U) << "both hold";
  apply_retention(files_, store_, {1}, {"bbbb", kNow + 200});
  EXPECT_EQ(files_.list(path_ / "reading").size(), 1U);
  EXPECT_EQ(read_marks(files_, path_, kNow + 200).count(name), 1U);
}

TEST_F(PinsTest, NoMarkHoldsForEver) {
  const std::string name = write(1);
  for (const char* text :
       {"", "{", "[]", "{}", "{\"until_utc_seconds\": \"later\"}", "{\"until_utc_seconds\": -1}",
        "{\"until_utc_seconds\": 1e300}", "{\"until_utc_seconds\": 1e999}",
        "{\"until_utc_seconds\": 1700007200}", "{\"until_utc_seconds\": null}"}) {
    put(path_ / "reading" / (name + ".0123"), text);
    EXPECT_TRUE(read_marks(files_, path_, kNow).empty()) << text;
  }
  put(path_ / "reading" / "..0123", "{\"until_utc_seconds\": 1700000100}");
  EXPECT_TRUE(read_marks(files_, path_, kNow).empty());
  put(path_ / "reading" / (name + ".0123"), "{\"until_utc_seconds\": 1700000100}");
  EXPECT_EQ(read_marks(files_, path_, kNow).size(), 1U);
}

TEST_F(PinsTest, EveryFailureLeavesThePinOrNone) {
  const std::string name = write(1);
  for (int n = 1;; ++n) {
    ASSERT_LT(n, 100);
    tests::FaultyFileSystem faulty;
    faulty.fail_at(n, tests::Fault::Once);
    bool failed = false;
    try {
      pin(faulty, path_, name, {"mine", kNow});
    } catch (const base::Error&) {
      failed = true;
    }
    const auto pins = read_pins(files_, path_);
    ASSERT_LE(pins.size(), 1U);
    if (!pins.empty()) {
      EXPECT_EQ(pins.at(name).reason, "mine") << n;
    }
    if (!failed) {
      ASSERT_EQ(pins.size(), 1U);
      break;
    }
    (void)unpin(files_, path_, name);
  }
}

TEST_F(PinsTest, TombstonesSurviveTornAndForeignLines) {
  const std::string one = CheckpointName{1, "aaaa"}.text();
  const std::string two = CheckpointName{2, "aaaa"}.text();
  write(3);
  add_tombstones(files_, path_, {{one, 1, kNow, "why \"not\"\n", false}});
  {
    std::ofstream out(path_ / "removed.jsonl", std::ios::binary | std::ios::app);
    out << "[]\n5\n{\"name\": \"../x\"}\n{\"name\": 5}\n" << std::string(2000, '[') << "\n";
    out << "{\"name\": \"" << two << "\", \"why\"";  // torn
  }
  EXPECT_EQ(read_tombstones(files_, path_).size(), 1U);
  add_tombstones(files_, path_, {{two, 2, kNow, "again", false}});
  auto found = read_tombstones(files_, path_);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[one].why, "why \"not\"\n");
  EXPECT_EQ(found[one].step, 1);
  EXPECT_EQ(found[two].why, "again");
  add_tombstones(files_, path_, {{two, 2, kNow, "called off", true}});
  EXPECT_EQ(read_tombstones(files_, path_).size(), 1U);
}

TEST_F(PinsTest, ARoundCallsOffItsOwnRemovalOnly) {
  const std::string name = write(1);
  add_tombstones(files_, path_, {{name, 1, kNow, "one", false, "aa"}});
  add_tombstones(files_, path_, {{name, 1, kNow, "two", false, "bb"}});
  add_tombstones(files_, path_, {{name, 1, kNow, "two", true, "bb"}});
  EXPECT_EQ(read_tombstones(files_, path_).at(name).why, "one");
  EXPECT_EQ(code_of([&] { pin(files_, path_, name, {}); }), base::Code::NotFound);
  add_tombstones(files_, path_, {{name, 1, kNow, "one", true, "aa"}});
  EXPECT_NO_THROW(pin(files_, path_, name, {}));
}

TEST_F(PinsTest, TombstonesStayBounded) {
  write(1);
  std::vector<Tombstone> many;
  for (std::size_t i = 0; i < kMostTombstones + 10; ++i) {
    const auto step = static_cast<std::int64_t>(i);
    many.push_back({CheckpointName{step, "aaaa"}.text(), step, kNow, "old", false});
  }
  add_tombstones(files_, path_, many);
  const std::string last = CheckpointName{99999, "aaaa"}.text();
  add_tombstones(files_, path_, {{last, 99999, kNow, "new", false}});
  const auto found = read_tombstones(files_, path_);
  EXPECT_EQ(found.count(last), 1U);
  EXPECT_EQ(found.count(many.back().name), 1U);
  EXPECT_EQ(found.count(many.front().name), 0U);
  EXPECT_LE(found.size(), kMostTombstones / 2 + 1);
}

}  // namespace
}  // namespace regatta::checkpoint
