// The thread that owns MPI. Open MPI makes little progress by itself, so this thread begins
// operations and tests them with short sleeps while other threads compute or wait. It never waits
// inside MPI: what one thread of this rank waits for never keeps another's work from going on.
#pragma once

#include <mpi.h>

#include <array>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "trainer/mpi/mpi_library.h"

namespace regatta::trainer::mpi {

// One operation of MPI and what follows it. Both calls come from the progress thread and may throw.
class MpiStage {
 public:
  virtual ~MpiStage() = default;
  // Begins a non-blocking operation, or none and leaves MPI_REQUEST_NULL. What it reads and writes
  // must live until over().
  virtual void post(MPI_Request* request) = 0;
  virtual void over() {}
};

// A stage of up to two functions: post(MPI_Request*) and over().
template <typename Post, typename Over>
class MpiFunctionStage final : public MpiStage {
 public:
  MpiFunctionStage(Post post, Over over) : post_(std::move(post)), over_(std::move(over)) {}
  void post(MPI_Request* request) override { post_(request); }
  void over() override { over_(); }

 private:
  Post post_;
  Over over_;
};
template <typename Post>
[[nodiscard]] std::unique_ptr<MpiStage> mpi_stage(Post post) {
  const auto nothing = [] {};
  return std::make_unique<MpiFunctionStage<Post, decltype(nothing)>>(std::move(post), nothing);
}

// Stages that come one after the other.
using MpiJob = std::vector<std::unique_ptr<MpiStage>>;

// Jobs come in lanes. In a lane, stage s of a job is posted after stage s of the job before it, so
// collectives of one communicator begin in one order on all ranks if each stage of each lane has a
// communicator of its own, whatever other lanes do. All calls are thread-safe, but for stop().
class MpiProgress {
 public:
  explicit MpiProgress(MpiLibrary& library);
  MpiProgress(const MpiProgress&) = delete;
  MpiProgress& operator=(const MpiProgress&) = delete;
  ~MpiProgress() { stop(); }

  [[nodiscard]] int open_lane();
  // Numbers count 1, 2, 3, …; a number is done when the job's last stage is over.
  [[nodiscard]] std::int64_t begin(int lane, MpiJob job);
  void wait(std::int64_t number);
  // Waits for the job, which has no number.
  void run(int lane, MpiJob job);
  // When the job was done, in monotonic seconds; 0 if it is not, or too long ago.
  [[nodiscard]] double done_at(std::int64_t number) const;
  static constexpr int kTimesKept = 4096;
  static constexpr std::size_t kMostUnderWay = 4096;

  // Ends the thread, after everything begun is done; or at once, when the library is lost: no stage
  // is touched afterwards, and whoever waits gets Code::Retry. From one thread, or in turn.
  void stop() noexcept;

 private:
  struct Submitted {
    int lane = 0;
    std::int64_t number = 0;
    MpiJob job;
  };
  struct Running {
    std::int64_t number = 0;
    MpiJob job;
    std::size_t stage = 0;
    bool posted = false;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  using Lane = std::vector<Running>;

  void submit(Submitted submitted);
  void serve(const std::stop_token& stop);
  bool take_submitted(const std::stop_token& stop, int still, std::vector<Lane>* lanes);
  static bool advance(Running* running, std::size_t allowed);
  bool advance(Lane* lane);
  void wait_for(std::unique_lock<std::mutex>* lock, std::int64_t number);
  void fail(const std::exception_ptr& failure);

  MpiLibrary& library_;
  mutable std::mutex mutex_;
  std::condition_variable wake_, done_changed_;
  std::vector<Submitted> submitted_;
  std::set<std::int64_t> under_way_;  // with those of run(), which count −1, −2, …
  std::int64_t last_ = 0;
  std::int64_t last_unnumbered_ = 0;
  int lanes_ = 0;
  struct Done {
    std::int64_t number = 0;
    double seconds = 0;
  };
  std::array<Done, kTimesKept> done_{};
  std::exception_ptr failure_;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace regatta::trainer::mpi
