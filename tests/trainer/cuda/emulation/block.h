// Runs a kernel's blocks on the CPU, one after another; every thread of a block is a fiber. What
// threads do together (barriers, shuffles) is a meeting: a thread that arrives lets others run
// until all have arrived. A meeting that cannot happen, because a thread has ended or waits
// elsewhere, aborts the process and says where.
//
// One launch runs at a time in the process: launches from several host threads take turns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>

#include "tests/sanitizers.h"
#include "tests/trainer/cuda/emulation/vectors.h"

// As CUDA has them, for the thread that runs.
extern uint3 threadIdx;
extern uint3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;
constexpr int warpSize = 32;

namespace regatta::emulation {

// A place in a kernel's source. As a default argument Place::here() is the caller's.
struct Place {
  const char* file = "";
  int line = 0;
};

struct LaunchShape {
  dim3 grid, block;
  std::size_t shared_bytes = 0;
};

// Calls body(context) once for each thread of the grid.
void run_grid(const LaunchShape& shape, void (*body)(void* context), void* context);

// The order in which a block's threads, and a grid's blocks, get their turns. CUDA promises none,
// so results must not depend on it. From REGATTA_EMULATION_ORDER at first use, else forward.
struct Order {
  enum class Kind { Forward, Reverse, Random } kind = Kind::Forward;
  std::uint64_t seed = 0;
};
// "forward", "reverse" or "random:SEED"; anything else aborts.
[[nodiscard]] Order parse_order(const char* text);
// REGATTA_EMULATION_ORDER, if it is set and not empty.
[[nodiscard]] std::optional<Order> order_from_environment();
void set_order(const Order& order);
[[nodiscard]] Order order();

// The running block's dynamic shared memory, aligned to 1024 bytes and full of 0xFF (NaN) when the
// block starts.
[[nodiscard]] unsigned char* dynamic_shared();

// Index of the running thread in its block, x fastest; and a number that no other block of the
// process has had.
[[nodiscard]] int thread_rank();
[[nodiscard]] std::uint64_t block_serial();

// What the running warp's lanes did to memory so far happened before what they do now: called in a
// meeting (see race_check.h).
void warp_is_ordered();

// Tells the race check of accesses that the compiler does not: those inside of library functions.
#if defined(REGATTA_THREAD_SANITIZER)
extern "C" void __tsan_read_range(void* from, std::size_t bytes);
extern "C" void __tsan_write_range(void* to, std::size_t bytes);
inline void touch_read(const void* from, std::size_t bytes) {
  __tsan_read_range(const_cast<void*>(from), bytes);
}
inline void touch_write(void* to, std::size_t bytes) { __tsan_write_range(to, bytes); }
#else
inline void touch_read(const void*, std::size_t) {}
inline void touch_write(void*, std::size_t) {}
#endif

// Aborts after printing the message with the running block and thread.
[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

// All threads of the block meet. Barriers of different places do not match.
void block_barrier(Place place);
// As barrier.sync id, threads: `threads` of the block (whole warps) meet; 0: all.
void named_barrier(int id, int threads, Place place);
// Lets other threads run. For loops that wait until another thread changes memory; a block in which
// nobody does anything else aborts.
void let_others_run(Place place);

namespace detail {
struct Warp;
// Adds the running thread to its warp's meeting. nullptr: the meeting is over and `out` is written.
// Otherwise the caller came last: it calls in_of and out_of for each lane, then end_meeting.
[[nodiscard]] Warp* arrive(const void* kind, const char* what, Place place, const void* in,
                           void* out);
[[nodiscard]] const void* in_of(const Warp* warp, int lane);
[[nodiscard]] void* out_of(const Warp* warp, int lane);
void end_meeting(Warp* warp);
template <typename In, typename Out, typename F>
inline constexpr char kind_of_meeting = 0;
}  // namespace detail

// The 32 lanes of a warp meet; the last to arrive runs f(const In (&in)[32], Out (&out)[32]) once,
// and every lane gets its element of out. All lanes must come with the same f from the same place.
// In and Out are trivially copyable. `what` names the operation in messages.
template <class In, class Out, class F>
Out warp_collective(const In& in, F f, const char* what = "a warp's collective",
                    const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  static_assert(std::is_trivially_copyable_v<In> && std::is_trivially_copyable_v<Out>);
  Out out;
  if (detail::Warp* warp =
          detail::arrive(&detail::kind_of_meeting<In, Out, F>, what, {file, line}, &in, &out)) {
    In ins[32];
    Out outs[32];
    for (int lane = 0; lane < 32; ++lane) {
      std::memcpy(static_cast<void*>(&ins[lane]), detail::in_of(warp, lane), sizeof(In));
    }
    f(static_cast<const In(&)[32]>(ins), outs);
    for (int lane = 0; lane < 32; ++lane) {
      std::memcpy(detail::out_of(warp, lane), static_cast<const void*>(&outs[lane]), sizeof(Out));
    }
    detail::end_meeting(warp);
  }
  return out;
}

}  // namespace regatta::emulation

namespace emulation = regatta::emulation;
