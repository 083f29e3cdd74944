// Which checkpoint somebody gets who names a run or a checkpoint, and why not another.
#include "trainer/run/checkpoint_choice.h"

#include <gmock/gmock.h>

#include <fstream>

#include "base/error.h"
#include "checkpoint/pins.h"
#include "tests/base/faulty_file_system.h"
#include "tests/checkpoint/samples.h"
#include "tests/shared_data.h"
#include "trainer/contract/run_directory.h"

namespace regatta::trainer::run {
namespace {

using base::Code;
using testing::ElementsAre;
using testing::HasSubstr;

class CheckpointChoice : public testing::Test {
 protected:
  CheckpointChoice()
      : run_(contract::RunDirectory::create(files_, folder_.path() / "run", "{}")),
        store_(files_, run_.checkpoints_path()) {}

  std::string write(std::int64_t step) {
    const tests::SampleCheckpoint sample(step);
    return store_.write(sample.contents, [] { return true; }).name;
  }
  // A byte in the middle of its tensors.
  void damage(const std::string& name) const {
    const base::Path file = store_.directory() / name / "model.safetensors";
    std::string bytes = tests::file_text(file);
    bytes[bytes.size() / 2] ^= 1;
    std::ofstream(file, std::ios::binary) << bytes;
  }
  ChosenCheckpoint choose(const std::string& name) {
    return choose_checkpoint(files_, base::system_clock(), store_, name, "a test", fits_);
  }
  base::Error refusal(const std::string& name) {
    try {
      (void)choose(name);
    } catch (const base::Error& error) {
      return error;
    }
    return {Code::Developer, "chosen"};
  }

  base::FileSystem& files_ = base::posix_file_system();
  tests::TemporaryDirectory folder_;
  contract::RunDirectory run_;
  checkpoint::CheckpointStore store_;
  std::function<void(const checkpoint::Entry&)> fits_ = [](const checkpoint::Entry&) {};
};

TEST_F(CheckpointChoice, PlacesAreRunsAndCheckpointsInThem) {
  const std::string name = write(10);
  EXPECT_EQ(checkpoint_place(files_, run_.path()).run, run_.path());
  EXPECT_EQ(checkpoint_place(files_, run_.path()).name, "");
  EXPECT_EQ(checkpoint_place(files_, run_.path() / "").run, run_.path()) << "with a slash behind";
  const CheckpointPlace one = checkpoint_place(files_, store_.directory() / name / "");
  EXPECT_EQ(one.run, run_.path());
  EXPECT_EQ(one.name, name);
  const auto code_of = [&](const base::Path& path) {
    try {
      (void)checkpoint_place(files_, path);
    } catch (const base::Error& error) {
      return error.code();
    }
    return Code::Developer;
  };
  EXPECT_EQ(code_of(run_.path() / "none"), Code::NotFound);
  EXPECT_EQ(code_of(store_.directory()), Code::User) << "the folder of all is neither";
  std::filesystem::rename(run_.path() / "run.json", run_.path() / "other.json");
  EXPECT_EQ(code_of(store_.directory() / name), Code::User) << "no run is around it";
}

TEST_F(CheckpointChoice, TheNewestThatIsWholeAndFitsIsTaken) {
  const std::string first = write(10);
  const std::string second = write(20);
  const std::string third = write(30);
  EXPECT_EQ(choose("").manifest.step, 30);
  EXPECT_THAT(choose("").skipped, testing::IsEmpty());
  damage(third);
  const ChosenCheckpoint chosen = choose("");
  EXPECT_EQ(chosen.path, store_.directory() / second);
  ASSERT_EQ(chosen.skipped.size(), 1U);
  EXPECT_THAT(chosen.skipped[0], HasSubstr("skipped: " + third + " is damaged: "));
  fits_ = [&](const checkpoint::Entry& entry) {
    if (entry.name == second) throw base::Error(Code::User, "it has another vocabulary");
  };
  EXPECT_EQ(choose("").manifest.step, 10);
  EXPECT_EQ(choose("").skipped.at(1), "skipped: it has another vocabulary");
  std::filesystem::remove(store_.directory() / first / "manifest.json");
  EXPECT_THAT(refusal("").what(), HasSubstr(third + " is damaged")) << "why the newest is none";
}

TEST_F(CheckpointChoice, ANamedOneIsTakenOrRefused) {
  const std::string first = write(10);
  const std::string second = write(20);
  EXPECT_EQ(choose(first).manifest.step, 10);
  damage(first);
  EXPECT_THAT(refusal(first).what(), HasSubstr(first + " is damaged")) << "and no other instead";
  EXPECT_EQ(refusal(first).code(), Code::User);
  EXPECT_EQ(refusal("step-0000000099").code(), Code::NotFound);
  std::filesystem::remove(store_.directory() / second / "manifest.json");
  EXPECT_THAT(refusal(second).what(), HasSubstr(second + " is not whole"));
}

// Nobody removes it meanwhile.
TEST_F(CheckpointChoice, WhatIsChosenIsMarkedAsLongAsItIsHeld) {
  const std::string name = write(10);
  const auto readers = [&] {
    return checkpoint::read_marks(files_, store_.directory(), base::system_clock().utc_seconds());
  };
  {
    const ChosenCheckpoint chosen = choose("");
    ASSERT_NE(chosen.mark, nullptr);
    EXPECT_EQ(readers().count(name), 1U);
  }
  EXPECT_EQ(readers().count(name), 0U);
  damage(name);
  (void)refusal("");
  EXPECT_EQ(readers().count(name), 0U) << "what was skipped is not held";
}

}  // namespace
}  // namespace regatta::trainer::run
