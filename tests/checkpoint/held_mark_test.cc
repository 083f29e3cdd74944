#include "checkpoint/held_mark.h"

#include <gtest/gtest.h>

#include <atomic>

#include "base/error.h"
#include "checkpoint/store.h"
#include "checkpoint/tombstones.h"
#include "tests/base/faulty_file_system.h"
#include "tests/checkpoint/samples.h"

namespace regatta::checkpoint {
namespace {

class SetClock final : public base::Clock {
 public:
  [[nodiscard]] double monotonic_seconds() const override { return now; }
  [[nodiscard]] double utc_seconds() const override { return now; }
  void sleep(std::chrono::duration<double>) override {}
  std::atomic<double> now = 60;
};

class HeldMarkTest : public testing::Test {
 protected:
  HeldMarkTest() {
    const tests::SampleCheckpoint sample(3);
    CheckpointStore store(files_, directory_.path());
    name_ = store.write(sample.contents, tests::always).name;
  }
  [[nodiscard]] base::Path path() const { return directory_.path() / name_; }
  [[nodiscard]] bool marked(double utc_seconds) {
    return read_marks(files_, directory_.path(), utc_seconds).count(name_) != 0;
  }

  base::FileSystem& files_ = base::posix_file_system();
  tests::TemporaryDirectory directory_;
  SetClock clock_;
  std::string name_;
};

TEST_F(HeldMarkTest, IsRenewedAsLongAsItIsHeld) {
  const double later = 2 * kLongestMark + 600;  // after two lifetimes of a mark
  {
    const HeldMark mark(files_, clock_, path(), "test", 1e-3);
    EXPECT_TRUE(marked(60));
    EXPECT_FALSE(marked(later));
    clock_.now = later;
    bool renewed = false;
    for (int tries = 0; tries < 60'000 && !renewed; ++tries) {
      renewed = marked(later);
      if (!renewed) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_TRUE(renewed);
  }
  EXPECT_TRUE(files_.list(directory_.path() / "reading").empty()) << "and taken away";
}

TEST_F(HeldMarkTest, EndsAtOnceHoweverSeldomItIsRenewed) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) HeldMark(files_, clock_, path(), "test");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(300));
}

TEST_F(HeldMarkTest, WhereNoneCanBeWrittenReadingGoesOn) {
  EXPECT_NE(hold_mark(files_, clock_, path(), "test"), nullptr);
  EXPECT_EQ(hold_mark(files_, clock_, directory_.path(), "test"), nullptr) << "no checkpoint";
  tests::FaultyFileSystem faulty;
  faulty.fail_at(1, tests::Fault::ForEver);
  EXPECT_EQ(hold_mark(faulty, clock_, path(), "test"), nullptr);
}

TEST_F(HeldMarkTest, WhatIsGoneOrGoingIsNotHeld) {
  const auto refused = [&](const base::Path& checkpoint) {
    try {
      (void)hold_mark(files_, clock_, checkpoint, "test");
    } catch (const base::Error& error) {
      return error.code() == base::Code::NotFound;
    }
    return false;
  };
  EXPECT_TRUE(refused(directory_.path() / "step-0000000004-00c0ffee00c0ffee"));
  add_tombstones(files_, directory_.path(), {{name_, 3, 60, "old"}});
  EXPECT_TRUE(refused(path()));
}

}  // namespace
}  // namespace regatta::checkpoint
