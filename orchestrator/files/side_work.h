// Work of the controller's loop that may take long (shared file systems): done by somebody else's
// threads, its outcome taken by the loop.
#pragma once

#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/file_system.h"

namespace regatta::orchestrator::files {

// What a piece of work came to: its value, or the error that it threw.
template <class Value>
struct Outcome {
  std::optional<Value> value;
  std::optional<base::Error> error;
};

// Called by one thread, the loop's.
class SideWork {
 public:
  // Has `work`, which touches `directory`, done in a thread; false: not now.
  using Start = std::function<bool(const base::Path& directory, std::function<void()> work)>;

  // start: nothing has each work done before begin() returns, and its outcome taken. landed: called
  // from any thread when there is something to take.
  SideWork(Start start, std::function<void()> landed)
      : start_(std::move(start)), inbox_(std::make_shared<Inbox>()) {
    inbox_->landed = std::move(landed);
  }
  // What is under way goes on; nobody is told of its outcome.
  ~SideWork() {
    const std::scoped_lock lock(inbox_->mutex);
    inbox_->landed = nullptr;
  }
  SideWork(const SideWork&) = delete;
  SideWork& operator=(const SideWork&) = delete;

  // work: owns or outlives all that it uses, since it may outlive this object. False: it was not
  // begun, and `then` is never called.
  template <class Value>
  bool begin(const base::Path& directory, std::function<Value()> work,
             std::function<void(Outcome<Value>)> then) {
    if (!start_) {
      then(outcome_of(work));
      return true;
    }
    return start_(directory, [inbox = inbox_, work = std::move(work), then = std::move(then)] {
      auto outcome = std::make_shared<Outcome<Value>>(outcome_of(work));
      const std::scoped_lock lock(inbox->mutex);
      if (!inbox->landed) return;
      inbox->outcomes.push_back([outcome, then] { then(std::move(*outcome)); });
      inbox->landed();
    });
  }

  // Calls the `then` of one that has landed; false: there is none.
  bool take() {
    std::function<void()> next;
    {
      const std::scoped_lock lock(inbox_->mutex);
      if (inbox_->outcomes.empty()) return false;
      next = std::move(inbox_->outcomes.front());
      inbox_->outcomes.pop_front();
    }
    next();
    return true;
  }

 private:
  struct Inbox {  // shared, since work that hangs may end after the controller has
    std::mutex mutex;
    std::deque<std::function<void()>> outcomes;  // at most one for each work that was begun
    std::function<void()> landed;                // nothing: the controller has gone
  };

  template <class Value>
  static Outcome<Value> outcome_of(const std::function<Value()>& work) {
    try {
      return {work(), std::nullopt};
    } catch (const base::Error& error) {
      return {std::nullopt, error};
    } catch (const std::exception& error) {  // no memory; the thread is not ours to end
      return {std::nullopt, base::Error(base::Code::Developer, error.what())};
    }
  }

  Start start_;
  std::shared_ptr<Inbox> inbox_;
};

}  // namespace regatta::orchestrator::files
