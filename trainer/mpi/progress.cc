#include "trainer/mpi/progress.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <stop_token>

#include "base/clock.h"
#include "base/error.h"

namespace regatta::trainer::mpi {
namespace {

// Between two looks at what is under way: short beside the milliseconds that a bucket takes, and
// long enough to leave the core to whoever computes on it. Open MPI 4.1 moves nothing by itself (it
// says "OMPI progress: no"), and a thread that waits without a pause takes half of a shared core:
// with 32 MiB under way beside 100 ms of computing, this pause left nothing to wait for afterwards.
constexpr auto kPollPause = std::chrono::microseconds(50);
// Looks without a pause after something has happened: host values on one machine take microseconds.
constexpr int kEagerLooks = 32;

}  // namespace

MpiProgress::MpiProgress(MpiLibrary& library)
    : library_(library), thread_([this](const std::stop_token& stop) { serve(stop); }) {}

int MpiProgress::open_lane() {
  const std::scoped_lock lock(mutex_);
  return lanes_++;
}

std::int64_t MpiProgress::begin(int lane, MpiJob job) {
  const std::scoped_lock lock(mutex_);
  submit({lane, last_ + 1, std::move(job)});
  return ++last_;
}

void MpiProgress::run(int lane, MpiJob job) {
  std::unique_lock lock(mutex_);
  const std::int64_t number = --last_unnumbered_;
  submit({lane, number, std::move(job)});
  wait_for(&lock, number);
}

void MpiProgress::submit(Submitted submitted) {
  if (failure_ != nullptr) std::rethrow_exception(failure_);
  base::check(submitted.lane < lanes_, "the lane is open");
  base::check(under_way_.size() < kMostUnderWay, "collectives under way are few");
  under_way_.insert(submitted.number);
  submitted_.push_back(std::move(submitted));
  wake_.notify_all();
}

void MpiProgress::wait(std::int64_t number) {
  std::unique_lock lock(mutex_);
  base::check(number >= 0 && number <= last_, "what is waited for was begun");
  wait_for(&lock, number);
}

void MpiProgress::wait_for(std::unique_lock<std::mutex>* lock, std::int64_t number) {
  done_changed_.wait(*lock, [&] { return failure_ != nullptr || !under_way_.contains(number); });
  if (failure_ != nullptr) std::rethrow_exception(failure_);
}

double MpiProgress::done_at(std::int64_t number) const {
  base::check(number >= 0, "collectives count up");
  const std::scoped_lock lock(mutex_);
  const Done& done = done_[static_cast<std::size_t>(number % kTimesKept)];
  return done.number == number ? done.seconds : 0;
}

void MpiProgress::stop() noexcept {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);  // not between the thread's look and its sleep
    thread_.request_stop();
  }
  wake_.notify_all();
  thread_.join();
  fail(std::make_exception_ptr(
      base::Error(base::Code::Retry, "this rank has left the others; start the run again")));
}

void MpiProgress::fail(const std::exception_ptr& failure) {
  const std::scoped_lock lock(mutex_);
  if (failure_ == nullptr) failure_ = failure;
  done_changed_.notify_all();
}

void MpiProgress::serve(const std::stop_token& stop) {
  std::vector<Lane> lanes;
  try {
    int still = 0;  // looks since something happened
    while (take_submitted(stop, still, &lanes)) {
      bool moved = false;
      for (Lane& lane : lanes) moved = advance(&lane) || moved;
      still = moved ? 0 : std::min(still + 1, kEagerLooks);
    }
  } catch (...) {
    library_.lose();
    fail(std::current_exception());
  }
}

// Sleeps while there is nothing to do; false when the thread is to end.
bool MpiProgress::take_submitted(const std::stop_token& stop, int still, std::vector<Lane>* lanes) {
  const bool idle =
      std::all_of(lanes->begin(), lanes->end(), [](const Lane& lane) { return lane.empty(); });
  if (still < kEagerLooks && still > 0) std::this_thread::yield();
  std::unique_lock lock(mutex_);
  const auto ends = [&] {
    return stop.stop_requested() && (library_.is_lost() || (idle && submitted_.empty()));
  };
  const auto has_work = [&] { return !submitted_.empty() || ends(); };
  if (idle) {
    wake_.wait(lock, has_work);
  } else if (still >= kEagerLooks) {
    wake_.wait_for(lock, kPollPause, has_work);
  }
  if (ends()) return false;
  lanes->resize(static_cast<std::size_t>(lanes_));
  for (Submitted& one : submitted_) {
    (*lanes)[static_cast<std::size_t>(one.lane)].push_back({one.number, std::move(one.job)});
  }
  submitted_.clear();
  return true;
}

// Whether anything happened. Stages [0, allowed) may be posted.
bool MpiProgress::advance(Running* running, std::size_t allowed) {
  bool moved = false;
  while (running->stage < running->job.size()) {
    MpiStage& stage = *running->job[running->stage];
    if (!running->posted) {
      if (running->stage >= allowed) return moved;
      stage.post(&running->request);
      running->posted = true;
      moved = true;
    }
    int over = 0;
    check(MPI_Test(&running->request, &over, MPI_STATUS_IGNORE), "a collective");
    if (over == 0) return moved;
    stage.over();
    running->posted = false;
    ++running->stage;
    moved = true;
  }
  return moved;
}

bool MpiProgress::advance(Lane* lane) {
  bool moved = false;
  std::size_t allowed = SIZE_MAX;
  for (Running& running : *lane) {
    moved = advance(&running, allowed) || moved;
    allowed = running.stage + (running.posted ? 1 : 0);
  }
  const auto is_done = [](const Running& one) { return one.stage == one.job.size(); };
  if (std::none_of(lane->begin(), lane->end(), is_done)) return moved;
  const double now = base::system_clock().monotonic_seconds();
  const std::scoped_lock lock(mutex_);
  for (const Running& one : *lane) {
    if (!is_done(one)) continue;
    under_way_.erase(one.number);
    if (one.number > 0)
      done_[static_cast<std::size_t>(one.number % kTimesKept)] = {one.number, now};
  }
  std::erase_if(*lane, is_done);
  done_changed_.notify_all();
  return true;
}

}  // namespace regatta::trainer::mpi
