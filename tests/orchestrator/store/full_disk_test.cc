// The store on a disk that is really full: a small tmpfs of its own.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "orchestrator/api/api.h"
#include "tests/checkpoint/samples.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using tests::TemporaryDirectory;
using Json = nlohmann::ordered_json;

class FullDisk : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(disk());
    if (::mount("regatta-test", disk().c_str(), "tmpfs", 0, "size=12m") != 0) {
      const std::string why = "cannot mount a tmpfs: " + std::string(std::strerror(errno));
      GTEST_SKIP() << "SKIPPED, the full disk is not tested: " << why;
    }
    mounted_ = true;
    open();
  }
  void TearDown() override {
    close();
    if (mounted_) ::umount2(disk().c_str(), MNT_DETACH);
  }

  base::Path disk() const { return folder_.path() / "disk"; }
  base::Path reserve() const { return disk() / "state" / "reserve"; }
  void open() {
    store::StoreOptions kept;
    kept.clock = &clock_;
    store_ = std::make_unique<store::Store>(disk() / "state", kept);
    control::ControllerOptions options;
    options.runs_directory = folder_.path() / "runs";
    controller_ = std::make_unique<control::Controller>(base::posix_file_system(), clock_, *store_,
                                                        scheduler_, options);
    api_ = std::make_unique<api::Api>(*controller_, base::posix_file_system(), clock_,
                                      api::ApiOptions{folder_.path()});
  }
  void close() {
    api_.reset();
    controller_.reset();
    store_.reset();
  }
  api::Response post(const std::string& path, const std::string& body = "") {
    api::Request request;
    request.method = "POST";
    request.path = "/api/v1/" + path;
    request.body = body;
    return api_->handle(request);
  }
  api::Response get(const std::string& path) {
    api::Request request;
    request.method = "GET";
    request.path = "/api/v1/" + path;
    return api_->handle(request);
  }
  std::string submit() { return Json::parse(post("runs", tests::run_file()).body).value("id", ""); }
  // To the last byte.
  void fill() {
    const int fd = ::open((disk() / "filler").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ASSERT_GE(fd, 0);
    const std::string block(1 << 16, 'x');
    for (std::size_t size = block.size(); size > 0; size /= 2) {
      while (::write(fd, block.data(), size) > 0) {
      }
    }
    ::close(fd);
  }
  bool reserve_is_allocated() const {
    struct stat status {};
    return ::stat(reserve().c_str(), &status) == 0 && status.st_blocks * 512 >= (4 << 20);
  }

  TemporaryDirectory folder_;
  tests::SimulatedClock clock_;
  tests::ScriptedScheduler scheduler_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<control::Controller> controller_;
  std::unique_ptr<api::Api> api_;
  bool mounted_ = false;
};

TEST_F(FullDisk, CancelWorksAndSubmitSaysSo) {
  const std::string first = submit();
  const std::string second = submit();
  const std::string third = submit();
  ASSERT_TRUE(reserve_is_allocated());
  fill();
  // What the log of writes still has room for.
  api::Response response = post("runs", tests::run_file());
  for (int i = 0; i < 1000 && response.status == 201; ++i) {
    response = post("runs", tests::run_file());
  }
  EXPECT_GE(response.status, 500);
  EXPECT_THAT(response.body, HasSubstr("the disk is full"));
  EXPECT_TRUE(reserve_is_allocated()) << "a submission has no right to it";
  response = get("health");
  EXPECT_THAT(response.body, HasSubstr("degraded"));
  EXPECT_THAT(response.body, HasSubstr("cannot write its store: its disk is full"));
  EXPECT_THAT(get("runs").headers[api::kTroubleHeader], HasSubstr("its disk is full"))
      << "a list that stands still must not look as if nothing happened";
  for (const std::string& id : {first, second, third}) {
    response = post("runs/" + id + "/cancel");
    EXPECT_EQ(response.status, 202) << response.body;
    EXPECT_EQ(store_->run(id)->wanted, runs::Wanted::Cancel);
    fill();  // what the reserve was, the run that filled the disk may take, too
  }
  close();
  open();
  EXPECT_EQ(store_->run(first)->wanted, runs::Wanted::Cancel) << "it is written down";
  // What was refused is not there.
  EXPECT_EQ(post("runs/" + first + "/cancel").status, 200);
}

TEST_F(FullDisk, IsNoTroubleWhereThereIsRoom) {
  EXPECT_NE(submit(), "");
  for (const char* const path : {"runs", "health", "no-such-address"}) {
    EXPECT_EQ(get(path).headers.count(api::kTroubleHeader), 0U) << path;
  }
  EXPECT_EQ(store_->trouble(), std::nullopt);
}

// It is how the run that filled it is stopped.
TEST_F(FullDisk, ACancelledRunIsStoppedWhileTheDiskIsFull) {
  const std::string id = submit();
  for (int i = 0; i < 4; ++i) {
    controller_->tick();
    clock_.now += 0.25;
  }
  ASSERT_EQ(scheduler_.launches.size(), 1U);
  fill();
  EXPECT_EQ(post("runs/" + id + "/cancel").status, 202);
  fill();
  for (int i = 0; i < 20 && scheduler_.stopped.empty(); ++i) {
    controller_->tick();
    clock_.now += 1;
  }
  EXPECT_THAT(scheduler_.stopped, testing::ElementsAre("h1"));
}

// What journals say meanwhile is read when there is room again, every record of it once.
TEST_F(FullDisk, WhatCannotBeTakenInIsTakenInLater) {
  const std::string id = submit();
  for (int i = 0; i < 4; ++i) {
    controller_->tick();
    clock_.now += 0.25;
  }
  tests::JournalAuthor journal(
      trainer::contract::RunDirectory::open(base::posix_file_system(), store_->run(id)->directory),
      clock_.utc_seconds());
  journal.start(0.1);
  fill();
  constexpr std::int64_t kSteps = 8000;  // more than the log of writes still has room for
  for (std::int64_t step = 1; step <= kSteps; ++step) {
    journal.step(static_cast<double>(step), step);
  }
  for (int i = 0; i < 8; ++i) {
    controller_->tick();
    clock_.now += 5;
  }
  EXPECT_LT(store_->newest_steps(store_->run(id)->number, 1).size(), 1U);
  EXPECT_EQ(store_->run(id)->state, runs::RunState::Starting);
  EXPECT_THAT(get("health").body, HasSubstr("degraded")) << "nobody has asked for anything";
  EXPECT_EQ(get("runs/" + id).headers.count(api::kTroubleHeader), 1U);
  std::filesystem::remove(disk() / "filler");
  const auto count = [&] {
    return static_cast<std::int64_t>(
        store_->steps_after(store_->run(id)->number, 0, 2 * kSteps).size());
  };
  for (int i = 0; i < 100 && count() < kSteps; ++i) {
    controller_->tick();
    clock_.now += 5;
  }
  const auto rows = store_->steps_after(store_->run(id)->number, 0, 2 * kSteps);
  ASSERT_EQ(rows.size(), static_cast<std::size_t>(kSteps));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ASSERT_EQ(rows[i].step, static_cast<std::int64_t>(i) + 1);
  }
  EXPECT_EQ(store_->run(id)->summary.step, kSteps);
  clock_.now += store::DiskTrouble::kSeconds + 1;
  EXPECT_EQ(get("runs/" + id).headers.count(api::kTroubleHeader), 0U) << "it follows again";
}

// The runs lie on another disk.
TEST_F(FullDisk, WhatWasDoneToACheckpointIsAnsweredSo) {
  const std::string id = submit();
  const base::Path checkpoints = base::Path(store_->run(id)->directory) / "checkpoints";
  const tests::SampleCheckpoint sample(7);
  (void)checkpoint::CheckpointStore(base::posix_file_system(), checkpoints)
      .write(sample.contents, tests::always);
  fill();
  const auto has_room = [&] {
    store::Event event;
    event.kind = "controller.started";
    try {
      store_->note(event);
    } catch (const base::Error&) {
      return false;
    }
    return true;
  };
  for (int i = 0; i < 100'000 && has_room(); ++i) {
  }
  const std::string address = "runs/" + id + "/checkpoints/7/";
  testing::internal::CaptureStdout();
  const api::Response pinned = post(address + "pin");
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              testing::AllOf(HasSubstr(id), HasSubstr("checkpoint.pinned")));
  EXPECT_EQ(pinned.status, 200) << pinned.body;
  EXPECT_FALSE(Json::parse(pinned.body)["pinned"].is_null());
  std::filesystem::remove(disk() / "filler");
  EXPECT_EQ(post(address + "unpin").status, 200);
  const auto told = [&](const char* kind) {
    return store_->events_after({{kind}, id, {}, {}}, 0, 10).events.size();
  };
  EXPECT_EQ(told("checkpoint.pinned"), 0U);
  EXPECT_EQ(told("checkpoint.unpinned"), 1U) << "with room they are events again";
}

TEST_F(FullDisk, OpensOnAFullDisk) {
  const std::string id = submit();
  close();
  fill();
  open();
  EXPECT_TRUE(store_->run(id));
  EXPECT_EQ(post("runs/" + id + "/cancel").status, 202);
}

TEST_F(FullDisk, TheReserveIsTakenAgainByTheLoop) {
  const std::string id = submit();
  fill();
  EXPECT_EQ(post("runs/" + id + "/cancel").status, 202);
  ASSERT_FALSE(reserve_is_allocated());
  std::filesystem::remove(disk() / "filler");
  for (int i = 0; i < 4; ++i) {
    controller_->tick();
    clock_.now += files::DiskReserve::kRetrySeconds;
  }
  EXPECT_TRUE(reserve_is_allocated());
}

TEST_F(FullDisk, TakesTheReserveAgainWhenThereIsRoom) {
  const base::Path path = disk() / "r";
  files::DiskReserve reserve(path);
  ASSERT_TRUE(reserve.held());
  EXPECT_TRUE(reserve.release());
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_FALSE(reserve.release()) << "there is none";
  fill();
  reserve.restore(100);
  reserve.restore(100 + files::DiskReserve::kRetrySeconds + 1);
  EXPECT_FALSE(reserve.held()) << "the disk is full";
  EXPECT_FALSE(std::filesystem::exists(path));
  std::filesystem::remove(disk() / "filler");
  std::filesystem::remove_all(disk() / "state");
  reserve.restore(100 + files::DiskReserve::kRetrySeconds + 2);
  EXPECT_FALSE(reserve.held()) << "it has just looked";
  reserve.restore(100 + 2 * files::DiskReserve::kRetrySeconds + 2);
  EXPECT_TRUE(reserve.held());
  EXPECT_EQ(std::filesystem::file_size(path),
            static_cast<std::uintmax_t>(files::DiskReserve::kBytes));
}

}  // namespace
}  // namespace regatta::orchestrator
