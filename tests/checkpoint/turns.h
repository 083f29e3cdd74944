// Threads that go one at a time, in an order that follows from a seed alone.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <thread>

namespace regatta::tests {

// Every thread joins with its number, calls pass() before each step and leaves at its end. A step
// begins when all threads that have not left wait for theirs: then the seed picks one of them.
class Turns {
 public:
  Turns(int threads, std::uint64_t seed)
      : threads_(static_cast<std::size_t>(threads)), random_(seed) {}

  class Member {
   public:
    Member(Turns& turns, int number) : turns_(turns) { turns_.join(number); }
    ~Member() { turns_.leave(); }
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

   private:
    Turns& turns_;
  };

  // Returns when it is the calling thread's turn; at once for one that has not joined.
  void pass() {
    std::unique_lock lock(mutex_);
    const auto found = numbers_.find(std::this_thread::get_id());
    if (found == numbers_.end()) return;
    const int number = found->second;
    waiting_.insert(number);
    choose();
    changed_.wait(lock, [&] { return chosen_ == number; });
    waiting_.erase(number);
    chosen_.reset();
  }

 private:
  void join(int number) {
    const std::lock_guard lock(mutex_);
    numbers_[std::this_thread::get_id()] = number;
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    numbers_.erase(std::this_thread::get_id());
    --threads_;
    choose();
  }
  void choose() {
    if (chosen_ || waiting_.empty() || waiting_.size() < threads_) return;
    chosen_ = *std::next(waiting_.begin(), static_cast<std::ptrdiff_t>(random_() % threads_));
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::thread::id, int> numbers_;
  std::set<int> waiting_;
  std::optional<int> chosen_;
  std::size_t threads_;  // that have not left
  std::mt19937_64 random_;
};

}  // namespace regatta::tests
