#include "trainer/nccl/session.h"

#include <chrono>
#include <exception>
#include <string>
#include <utility>

#include "base/text.h"

namespace regatta::trainer::nccl {
namespace {

// Enqueueing takes NCCL some tens of microseconds, connecting to other ranks seconds.
constexpr int kLooksWithoutPause = 200;
constexpr auto kPause = std::chrono::microseconds(100);

constexpr const char* kRanksLost = "; a rank or the network was lost";

std::string seconds_text(double seconds) {
  std::string text = std::to_string(seconds);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text + " s";
}

}  // namespace

Session::Session(const Table& table, ranks::HostCollectives& host, const base::Clock& clock,
                 const NcclOptions& options)
    : table_(table), clock_(clock), options_(options) {
  try {
    all_.world = all_.node = join(host);
    const int rank = host.rank();
    all_.peers = split(all_.world, "splitting off sends and receives", 0, rank);
    if (options.ranks_per_node > 0) {
      const int number = rank / options.ranks_per_node, place = rank % options.ranks_per_node;
      all_.node = split(all_.world, "splitting into nodes", number, place);
      all_.cross = split(all_.world, "splitting across nodes", place, number);
    }
  } catch (...) {
    const std::scoped_lock lock(mutex_);
    abort_all();
    throw;
  }
  watcher_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

Session::~Session() {
  if (std::uncaught_exceptions() > 0) give_up();
  watcher_.request_stop();
  watcher_.join();
  try {
    say_farewell();
  } catch (const base::Error&) {  // the others are gone, and so is what they could be told
  }
}

Comm Session::join(ranks::HostCollectives& host) {
  struct Invitation {
    Result result = Result::Success;
    UniqueId id = {};
  } invitation;
  if (host.rank() == 0) invitation.result = table_.get_unique_id(&invitation.id);
  host.broadcast(&invitation, sizeof invitation, 0);
  if (invitation.result != Result::Success) {
    throw error_of(nullptr, "making an id for the ranks", invitation.result);
  }
  comms_.push_back(nullptr);
  Comm& world = comms_.back();
  const char* what = "joining the other ranks";
  const Result result =
      table_.comm_init_rank_config(&world, host.ranks(), invitation.id, host.rank());
  if (is_error(result)) fail(world, what, result);
  settle(world, what, options_.init_seconds);
  return world;
}

CommSet Session::open_group(Comm of, int color, int key) {
  CommSet group;
  group.world = group.node = split(of, "splitting into groups", color, key);
  group.peers = split(of, "splitting off a group's sends and receives", color, key);
  return group;
}

// The new one is nobody else's to look at before NCCL is through with it.
Comm Session::split(Comm of, const char* what, int color, int key) {
  Comm* place = nullptr;
  run(of, what, [&] {
    place = &splitting_.emplace_back(nullptr);
    return table_.comm_split(of, color, key, place);
  });
  {
    const std::scoped_lock lock(mutex_);
    throw_if_lost();
    if (*place == nullptr) {
      splitting_.clear();
      return nullptr;
    }
    comms_.splice(comms_.end(), splitting_);
  }
  settle(*place, what, options_.init_seconds);
  return *place;
}

void Session::run(Comm comm, const char* what, const std::function<Result()>& calls) {
  {
    const std::scoped_lock lock(mutex_);
    throw_if_lost();
    const Result result = calls();
    if (is_error(result)) fail(comm, what, result);
  }
  settle(comm, what, options_.init_seconds);
}

void Session::run_group(Comm comm, const char* what, const std::function<Result()>& calls) {
  run(comm, what, [&] {
    const Result started = table_.group_start();
    if (is_error(started)) return started;
    const Result called = calls();
    const Result ended = table_.group_end();
    return is_error(called) ? called : ended;
  });
}

// Nothing enqueued behind a call is behind it on the stream before NCCL is through with it.
void Session::settle(Comm comm, const char* what, double seconds) {
  const double deadline = clock_.monotonic_seconds() + seconds;
  for (int looks = 0;; ++looks) {
    {
      const std::scoped_lock lock(mutex_);
      throw_if_lost();
      Result state = Result::Success;
      const Result looked = table_.comm_get_async_error(comm, &state);
      if (is_error(looked)) state = looked;
      if (is_error(state)) fail(comm, what, state);
      if (state == Result::Success) return;
      if (clock_.monotonic_seconds() > deadline) {
        fail(base::Error(base::Code::Retry, std::string("NCCL was not through with ") + what +
                                                " after " + seconds_text(seconds) + kRanksLost +
                                                " or never came"));
      }
    }
    if (looks < kLooksWithoutPause) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kPause);
    }
  }
}

void Session::check_alive() {
  const std::scoped_lock lock(mutex_);
  throw_if_lost();
  for (const Comm comm : comms_) {
    Result state = Result::Success;
    const Result looked = table_.comm_get_async_error(comm, &state);
    if (is_error(looked)) state = looked;
    if (is_error(state)) fail(comm, "a collective under way", state);
  }
}

void Session::watch(const std::stop_token& stop) {
  const auto pause = std::chrono::duration<double>(options_.poll_seconds);
  try {
    table_.enter();
    while (!stop.stop_requested()) {
      check_alive();
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, stop, pause, [&] { return failure_.has_value(); });
    }
  } catch (const base::Error&) {  // the training thread's next call throws it
  }
}

void Session::give_up() noexcept {
  const std::scoped_lock lock(mutex_);
  try {
    lose(base::Error(base::Code::Retry, "this rank has given up its collectives"));
  } catch (...) {  // no memory for a message: what counts is the abort
    abort_all();
  }
  wake_.notify_all();
}

// Children go before what they were split off.
void Session::say_farewell() {
  while (!comms_.empty()) {
    const Comm comm = comms_.back();
    const char* what = "waiting for the other ranks' farewell";
    {
      const std::scoped_lock lock(mutex_);
      throw_if_lost();
      table_.enter();
      const Result result = table_.comm_finalize(comm);
      if (is_error(result)) fail(comm, what, result);
    }
    settle(comm, what, options_.farewell_seconds);
    comms_.pop_back();
    static_cast<void>(table_.comm_destroy(comm));
  }
}

base::Error Session::error_of(Comm comm, const char* what, Result result) const {
  base::Code code = base::Code::Retry;
  const char* advice = kRanksLost;
  if (result == Result::InvalidUsage) {
    code = base::Code::Operator;
    advice = "; check the NCCL_ variables of the environment, and run with NCCL_DEBUG=WARN";
  } else if (result == Result::InvalidArgument) {
    code = base::Code::Developer;
    advice = "; this is a defect of the program: please report it";
  }
  return {code, std::string("NCCL failed at ") + what + " (" +
                    base::printable(table_.get_error_string(comm, result)) + ")" + advice};
}

void Session::throw_if_lost() const {
  if (failure_) throw base::Error(*failure_);
}

void Session::lose(const base::Error& why) {
  if (failure_) return;
  failure_ = why;  // before streams move on, so that who sees them move sees this, too
  abort_all();
}

// Aborting what others are being split off from waits for that, so the places of new ones stay to
// the end, and those that were stored meanwhile go last.
void Session::abort_all() noexcept {
  const auto abort = [this](Comm comm) {
    try {
      if (comm != nullptr) static_cast<void>(table_.comm_abort(comm));
    } catch (...) {  // nothing is left to try
    }
  };
  for (auto comm = comms_.rbegin(); comm != comms_.rend(); ++comm) abort(*comm);
  comms_.clear();
  for (Comm& comm : splitting_) abort(std::exchange(comm, nullptr));
}

void Session::fail(Comm comm, const char* what, Result result) {
  fail(error_of(comm, what, result));
}

void Session::fail(const base::Error& why) {
  lose(why);
  throw base::Error(why);
}

}  // namespace regatta::trainer::nccl
