#include "tests/trainer/cuda/emulation/block.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "tests/trainer/cuda/emulation/fiber_stack.h"
#include "tests/trainer/cuda/emulation/race_check.h"
#include "tests/trainer/cuda/emulation/sanitizer.h"
#include "tests/trainer/cuda/emulation/shared_memory.h"

uint3 threadIdx{};
uint3 blockIdx{};
dim3 blockDim;
dim3 gridDim;

namespace regatta::emulation {

namespace context = boost::context;

namespace detail {
// 32 neighbouring threads and what they are doing; bit i is lane i.
struct Warp {
  std::uint32_t ready = 0;    // may run, or runs
  std::uint32_t meeting = 0;  // arrived at the warp's meeting
  std::uint32_t waiting = 0;  // at a barrier of the block
  std::uint32_t ended = 0;
  std::uint32_t present = 0;
  const void* kind = nullptr;  // of the meeting
  const char* what = nullptr;
  Place place;
  std::array<const void*, 32> in{};
  std::array<void*, 32> out{};
};
}  // namespace detail

namespace {

using detail::Warp;
constexpr int kMaxThreads = 1024;
constexpr int kMaxWarps = kMaxThreads / 32;
constexpr int kBarriers = 16;

// A barrier of the block that some threads wait at. Number 0 is __syncthreads.
struct Barrier {
  int arrived = 0;
  int expected = 0;
  Place place;
};

bool same(const Place& a, const Place& b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

// A fiber that is not running, and its stack.
struct Strand {
  context::fiber fiber;
  StackBounds stack;
};

// The blocks of one launch after another. A thread of a block starts only when its turn comes, on
// the fiber of a thread that has ended if there is one: a block without meetings needs one fiber.
class Runner {
 public:
  void run(const LaunchShape& shape, void (*body)(void*), void* argument);

  Warp* arrive(const void* kind, const char* what, Place place, const void* in, void* out);
  void end_meeting(Warp* warp);
  void wait_at_barrier(int id, int threads, Place place);
  void let_others_run(Place place);

  [[nodiscard]] int rank() const { return current_; }
  [[nodiscard]] std::uint64_t serial() const { return serial_; }
  [[nodiscard]] SharedMemory& shared() { return shared_; }
  [[nodiscard]] bool running() const { return current_ >= 0; }

  Order order = order_from_environment().value_or(Order{});
  std::mutex mutex;  // held during a launch
  Moment moment;

 private:
  void prepare(const LaunchShape& shape);
  void run_block();
  void work(context::fiber from);
  void end_thread();
  void block_thread();
  void go_to(int thread, Strand* save_here);
  void resume(Strand target, Strand* save_here);
  void make_current(int thread);
  [[nodiscard]] int pick();
  [[nodiscard]] int pick_bit(std::uint32_t mask);
  [[nodiscard]] std::uint32_t random();
  [[nodiscard]] Strand idle_strand();
  void set_ready(Warp& warp, std::uint32_t lanes);
  [[noreturn]] void report_standstill();
  [[nodiscard]] Warp& current_warp() { return warps_[static_cast<std::size_t>(current_ / 32)]; }
  [[nodiscard]] std::uint32_t current_bit() const { return 1U << (current_ % 32); }

  void (*body_)(void*) = nullptr;
  void* argument_ = nullptr;
  int threads_ = 0;
  int ended_ = 0;
  int current_ = -1;
  int fruitless_turns_ = 0;  // of let_others_run in a row
  std::uint64_t serial_ = 0;
  std::uint64_t random_state_ = 1;
  std::uint32_t ready_warps_ = 0;
  std::array<Warp, kMaxWarps> warps_{};
  std::array<Barrier, kBarriers> barriers_{};
  std::array<int, kMaxThreads> barrier_of_{};  // that a waiting thread waits at
  std::array<uint3, kMaxThreads> index_{};     // threadIdx of each thread
  std::array<Strand, kMaxThreads> strands_;    // of threads that wait
  std::vector<FiberStack> stacks_;
  std::vector<Strand> idle_;  // kMaxThreads + 1 places
  std::size_t idle_count_ = 0;
  Strand host_;             // whoever launched
  Strand* save_ = nullptr;  // where the fiber that is being left belongs
  SharedMemory shared_;
};

// Never destroyed: its fibers must not be unwound when the process ends.
Runner& runner() {
  static Runner& instance = *new Runner;
  return instance;
}

std::uint32_t Runner::random() {  // xorshift64*
  random_state_ ^= random_state_ >> 12U;
  random_state_ ^= random_state_ << 25U;
  random_state_ ^= random_state_ >> 27U;
  return static_cast<std::uint32_t>(random_state_ * 0x2545F4914F6CDD1DU >> 32U);
}

int Runner::pick_bit(std::uint32_t mask) {
  switch (order.kind) {
    case Order::Kind::Forward:
      return std::countr_zero(mask);
    case Order::Kind::Reverse:
      return 31 - std::countl_zero(mask);
    case Order::Kind::Random:
      break;
  }
  const int turn = static_cast<int>(random() % 32);
  return (std::countr_zero(std::rotr(mask, turn)) + turn) % 32;
}

// The next thread: of the same warp if one is ready, so that warps drift apart as far as barriers
// let them; in random order another warp may come at any time. −1: none.
int Runner::pick() {
  if (ready_warps_ == 0) return -1;
  int warp = current_ / 32;
  const bool stay = warps_[static_cast<std::size_t>(warp)].ready != 0 &&
                    (order.kind != Order::Kind::Random || random() % 4 != 0);
  if (!stay) warp = pick_bit(ready_warps_);
  return 32 * warp + pick_bit(warps_[static_cast<std::size_t>(warp)].ready);
}

void Runner::set_ready(Warp& warp, std::uint32_t lanes) {
  warp.ready |= lanes;
  ready_warps_ |= 1U << (&warp - warps_.data());
}

void Runner::make_current(int thread) {
  current_ = thread;
  threadIdx = index_[static_cast<std::size_t>(thread)];
}

Strand Runner::idle_strand() {
  if (idle_count_ > 0) return std::move(idle_[--idle_count_]);
  stacks_.emplace_back(static_cast<int>(stacks_.size()));
  return {context::fiber{std::allocator_arg, stacks_.back().place(), KeepStack{},
                         [this](context::fiber&& from) {
                           work(std::move(from));
                           return context::fiber{};
                         }},
          stacks_.back().bounds()};
}

// Leaves the running fiber, which goes to *save_here, until somebody resumes it.
void Runner::resume(Strand target, Strand* save_here) {
  save_ = save_here;
  void* own_stack = nullptr;
  leave_stack(&own_stack, target.stack);
  context::fiber from = std::move(target.fiber).resume();
  const StackBounds left = enter_stack(own_stack);
  *save_ = {std::move(from), left};
}

// To the thread's own fiber or, if it has not started, to one that has nothing to do.
void Runner::go_to(int thread, Strand* save_here) {
  make_current(thread);
  Strand& own = strands_[static_cast<std::size_t>(thread)];
  resume(own.fiber ? std::move(own) : idle_strand(), save_here);
}

// The life of a fiber: one thread after another, with pauses in which it is idle.
void Runner::work(context::fiber from) {
  const StackBounds left = enter_stack(nullptr);
  *save_ = {std::move(from), left};
  for (;;) {
    body_(argument_);
    end_thread();
    const int next = pick();
    if (next < 0) {
      if (ended_ < threads_) report_standstill();
      resume(std::move(host_), &idle_[idle_count_++]);
    } else if (strands_[static_cast<std::size_t>(next)].fiber) {
      go_to(next, &idle_[idle_count_++]);
    } else {
      make_current(next);
    }
  }
}

void Runner::end_thread() {
  fruitless_turns_ = 0;
  Warp& warp = current_warp();
  warp.ended |= current_bit();
  warp.ready &= ~current_bit();
  if (warp.ready == 0) ready_warps_ &= ~(1U << (current_ / 32));
  ++ended_;
  if (warp.meeting != 0) {
    fail("the thread ends while lanes of its warp wait for it in %s at %s:%d", warp.what,
         warp.place.file, warp.place.line);
  }
  if (barriers_[0].arrived > 0) {
    fail("the thread ends while %d threads of its block wait for it in __syncthreads at %s:%d",
         barriers_[0].arrived, barriers_[0].place.file, barriers_[0].place.line);
  }
}

// The running thread, no longer ready, waits until somebody makes it ready.
void Runner::block_thread() {
  const int self = current_;
  const int next = pick();
  if (next < 0) report_standstill();
  if (next == self) return;
  go_to(next, &strands_[static_cast<std::size_t>(self)]);
}

Warp* Runner::arrive(const void* kind, const char* what, Place place, const void* in, void* out) {
  if (current_ < 0) fail("%s outside of a kernel", what);
  fruitless_turns_ = 0;
  Warp& warp = current_warp();
  const std::uint32_t bit = current_bit();
  if (warp.present != 0xFFFFFFFFU) {
    fail("%s at %s:%d in a warp of fewer than 32 lanes", what, place.file, place.line);
  }
  if (warp.ended != 0) {
    fail("%s at %s:%d, but lane %d of the warp has ended", what, place.file, place.line,
         std::countr_zero(warp.ended));
  }
  if (warp.waiting != 0) {
    fail("%s at %s:%d, but lane %d of the warp waits at a barrier of the block", what, place.file,
         place.line, std::countr_zero(warp.waiting));
  }
  if (warp.meeting == 0) {
    warp.kind = kind;
    warp.what = what;
    warp.place = place;
  } else if (warp.kind != kind || !same(warp.place, place)) {
    fail("%s at %s:%d, but lane %d of the warp waits in %s at %s:%d", what, place.file, place.line,
         std::countr_zero(warp.meeting), warp.what, warp.place.file, warp.place.line);
  }
  const auto lane = static_cast<std::size_t>(current_ % 32);
  warp.in[lane] = in;
  warp.out[lane] = out;
  warp.meeting |= bit;
  if (warp.meeting == 0xFFFFFFFFU) return &warp;
  warp.ready &= ~bit;
  if (warp.ready == 0) ready_warps_ &= ~(1U << (current_ / 32));
  block_thread();
  return nullptr;
}

// The last lane goes on at once, but for random order, where it waits for its turn.
void Runner::end_meeting(Warp* warp) {
  warp->meeting = 0;
  set_ready(*warp, 0xFFFFFFFFU);
  if (order.kind == Order::Kind::Random) block_thread();
}

void Runner::wait_at_barrier(int id, int threads, Place place) {
  if (current_ < 0) fail("a barrier outside of a kernel");
  fruitless_turns_ = 0;
  if (id < 0 || id >= kBarriers) fail("barrier %d does not exist", id);
  const int expected = threads == 0 ? threads_ : threads;
  if (expected % 32 != 0 && expected != threads_) {
    fail("barrier %d for %d threads: a barrier takes whole warps", id, expected);
  }
  Barrier& barrier = barriers_[static_cast<std::size_t>(id)];
  Warp& warp = current_warp();
  if (expected == threads_ && ended_ > 0) {
    fail("a barrier of the block at %s:%d, but %d of its threads have ended", place.file,
         place.line, ended_);
  }
  if (warp.meeting != 0) {
    fail("a barrier of the block at %s:%d, but lane %d of the warp waits in %s at %s:%d",
         place.file, place.line, std::countr_zero(warp.meeting), warp.what, warp.place.file,
         warp.place.line);
  }
  if (barrier.arrived == 0) {
    barrier.place = place;
    barrier.expected = expected;
  } else if (barrier.expected != expected || (id == 0 && !same(barrier.place, place))) {
    fail("a barrier of the block at %s:%d, but %d threads wait at another one, %s:%d", place.file,
         place.line, barrier.arrived, barrier.place.file, barrier.place.line);
  }
  warp.waiting |= current_bit();
  warp.ready &= ~current_bit();
  if (warp.ready == 0) ready_warps_ &= ~(1U << (current_ / 32));
  barrier_of_[static_cast<std::size_t>(current_)] = id;
  if (++barrier.arrived == expected) {
    barrier.arrived = 0;
    ++moment.now;
    for (int w = 0; 32 * w < threads_; ++w) {
      Warp& other = warps_[static_cast<std::size_t>(w)];
      std::uint32_t freed = other.waiting;
      if (expected != threads_) {
        for (int lane = 0; lane < 32; ++lane) {
          if (barrier_of_[static_cast<std::size_t>(32 * w + lane)] != id) freed &= ~(1U << lane);
        }
      }
      if (freed == 0) continue;
      other.waiting &= ~freed;
      set_ready(other, freed);
    }
  }
  block_thread();
}

void Runner::let_others_run(Place place) {
  constexpr int kPatience = 1 << 20;
  if (++fruitless_turns_ > kPatience) {
    fail("a loop at %s:%d waits for something that no thread does", place.file, place.line);
  }
  Warp& warp = current_warp();
  const std::uint32_t others_here = warp.ready & ~current_bit();
  const std::uint32_t other_warps = ready_warps_ & ~(1U << (current_ / 32));
  int next = current_;
  if (other_warps != 0 && (others_here == 0 || fruitless_turns_ % 32 == 0)) {
    const int past = (current_ / 32 + 1) % 32;  // round robin, or two pollers could starve a third
    const int w = (std::countr_zero(std::rotr(other_warps, past)) + past) % 32;
    next = 32 * w + pick_bit(warps_[static_cast<std::size_t>(w)].ready);
  } else if (others_here != 0) {
    const int past = (current_ + 1) % 32;
    next = current_ / 32 * 32 + (std::countr_zero(std::rotr(others_here, past)) + past) % 32;
  }
  if (next != current_) go_to(next, &strands_[static_cast<std::size_t>(current_)]);
}

void Runner::report_standstill() {
  int meeting = 0;
  int waiting = 0;
  const Warp* stuck = nullptr;
  for (const Warp& warp : warps_) {
    meeting += std::popcount(warp.meeting);
    waiting += std::popcount(warp.waiting);
    if (warp.meeting != 0) stuck = &warp;
  }
  const char* place = "";
  for (const Barrier& barrier : barriers_) {
    if (barrier.arrived > 0) place = barrier.place.file;
  }
  fail(
      "no thread of the block can go on: %d wait at barriers (%s), %d for their warp (%s), %d have "
      "ended",
      waiting, place, meeting, stuck != nullptr ? stuck->what : "", ended_);
}

void Runner::run_block() {
  ++serial_;
  moment.block_start = ++moment.now;
  ended_ = 0;
  fruitless_turns_ = 0;
  ready_warps_ = 0;
  for (int first = 0; first < threads_; first += 32) {
    Warp& warp = warps_[static_cast<std::size_t>(first / 32)];
    const int lanes = std::min(32, threads_ - first);
    warp.present = lanes == 32 ? 0xFFFFFFFFU : (1U << lanes) - 1;
    warp.ended = 0;
    set_ready(warp, warp.present);
  }
  shared_.begin_block();
  current_ = 0;
  go_to(pick(), &host_);
  current_ = -1;
  if (const char* problem = shared_.end_block()) fail("%s", problem);
}

void Runner::prepare(const LaunchShape& shape) {
  blockDim = shape.block;
  gridDim = shape.grid;
  threads_ = static_cast<int>(shape.block.x * shape.block.y * shape.block.z);
  std::size_t rank = 0;
  for (unsigned z = 0; z < shape.block.z; ++z) {
    for (unsigned y = 0; y < shape.block.y; ++y) {
      for (unsigned x = 0; x < shape.block.x; ++x) index_[rank++] = {x, y, z};
    }
  }
  if (idle_.empty()) {
    idle_.resize(kMaxThreads + 1);
    stacks_.reserve(kMaxThreads + 1);
  }
  shared_.resize(shape.shared_bytes);
}

void Runner::run(const LaunchShape& shape, void (*body)(void*), void* argument) {
  const std::lock_guard lock(mutex);
  prepare(shape);
  moment.launch_start = ++moment.now;
  body_ = body;
  argument_ = argument;
  const std::uint64_t blocks =
      std::uint64_t{shape.grid.x} * shape.grid.y * std::uint64_t{shape.grid.z};
  // Random: a stride that shares no factor with the number of blocks visits each block once.
  std::uint64_t stride = 1;
  std::uint64_t block = 0;
  if (order.kind == Order::Kind::Random) {
    random_state_ = (order.seed + 1) * 0x9E3779B97F4A7C15U | 1U;
    stride = random() % blocks | 1U;
    while (std::gcd(stride, blocks) != 1) stride += 2;
    block = random() % blocks;
  } else if (order.kind == Order::Kind::Reverse) {
    stride = blocks - 1;
    block = blocks - 1;
  }
  for (std::uint64_t i = 0; i < blocks; ++i) {
    blockIdx = {static_cast<unsigned>(block % shape.grid.x),
                static_cast<unsigned>(block / shape.grid.x % shape.grid.y),
                static_cast<unsigned>(block / shape.grid.x / shape.grid.y)};
    run_block();
    block = (block + stride) % blocks;
  }
}

}  // namespace

void run_grid(const LaunchShape& shape, void (*body)(void*), void* argument) {
  runner().run(shape, body, argument);
}

Order parse_order(const char* text) {
  const std::string word = text;
  if (word == "forward") return {};
  if (word == "reverse") return {Order::Kind::Reverse, 0};
  if (word.starts_with("random:") && word.size() > 7 && word.size() < 26 &&
      word.find_first_not_of("0123456789", 7) == std::string::npos) {
    return {Order::Kind::Random, std::stoull(word.substr(7))};
  }
  fail("REGATTA_EMULATION_ORDER=%s: use forward, reverse or random:SEED", word.c_str());
}
std::optional<Order> order_from_environment() {
  const char* text = std::getenv("REGATTA_EMULATION_ORDER");
  if (text == nullptr || *text == 0) return std::nullopt;
  return parse_order(text);
}
void set_order(const Order& order) {
  const std::lock_guard lock(runner().mutex);
  runner().order = order;
}
Order order() { return runner().order; }

const Moment& moment() { return runner().moment; }
bool is_shared(const void* address) { return runner().shared().holds(address); }
void warp_is_ordered() {
  Runner& all = runner();
  ++all.moment.warp_syncs[static_cast<std::size_t>(all.rank() / 32)];
}

unsigned char* dynamic_shared() { return runner().shared().dynamic(); }
int thread_rank() { return runner().rank(); }
std::uint64_t block_serial() { return runner().serial(); }

void fail(const char* format, ...) {
  char message[512];
  std::va_list values;
  va_start(values, format);
  std::vsnprintf(message, sizeof message, format, values);
  va_end(values);
  std::fprintf(stderr, "emulation: block (%u, %u, %u), thread (%u, %u, %u): %s\n", blockIdx.x,
               blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z, message);
  std::abort();
}

// Flattened, all that lets others run: a return behind a change of stacks is mispredicted, so there
// should be one.
[[gnu::flatten]] void block_barrier(Place place) { runner().wait_at_barrier(0, 0, place); }
[[gnu::flatten]] void named_barrier(int id, int threads, Place place) {
  runner().wait_at_barrier(id, threads, place);
}
[[gnu::flatten]] void let_others_run(Place place) { runner().let_others_run(place); }

namespace detail {
[[gnu::flatten]] Warp* arrive(const void* kind, const char* what, Place place, const void* in,
                              void* out) {
  return runner().arrive(kind, what, place, in, out);
}
const void* in_of(const Warp* warp, int lane) { return warp->in[static_cast<std::size_t>(lane)]; }
void* out_of(const Warp* warp, int lane) { return warp->out[static_cast<std::size_t>(lane)]; }
void end_meeting(Warp* warp) { runner().end_meeting(warp); }
}  // namespace detail

}  // namespace regatta::emulation
