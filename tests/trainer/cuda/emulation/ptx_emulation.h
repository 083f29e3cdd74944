// trainer/cuda/kernels/ptx.cuh on the CPU: the same names, with the fragments laid out as the PTX
// ISA says.
//
// Asynchronous copies are as late as they may be: the destination holds NaN (0xFF bytes) from the
// copy's issue until the issuing thread waits for its group, and only then is the source read. So a
// missing wait, or a buffer refilled while others still read it, shows. A thread must have waited
// for all its copies before it ends. Products are summed in float64 and rounded once: hardware
// rounds otherwise, but no worse than float32.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "tests/trainer/cuda/emulation/block.h"
#include "tests/trainer/cuda/emulation/proxy_check.h"
#include "trainer/cuda/kernels/numeric.cuh"

namespace regatta::trainer::cuda::ptx {

using SharedAddress = unsigned char*;
inline SharedAddress shared_address(const void* pointer) {
  return const_cast<SharedAddress>(static_cast<const unsigned char*>(pointer));
}
inline SharedAddress flip(SharedAddress address, std::uint32_t bits) {
  return reinterpret_cast<SharedAddress>(reinterpret_cast<std::uintptr_t>(address) ^ bits);
}

namespace detail {

template <typename T>
double element(std::uint32_t word, int half) {
  const auto bits = static_cast<std::uint16_t>(word >> (16 * half));
  T value;
  static_assert(sizeof(value) == sizeof(bits));
  std::memcpy(static_cast<void*>(&value), &bits, sizeof(bits));
  return static_cast<double>(to_float(value));
}

inline void check_alignment(const void* pointer, const char* what, const char* file, int line) {
  if (reinterpret_cast<std::uintptr_t>(pointer) % 16 != 0) {
    emulation::fail("%s:%d: %s is not aligned to 16 bytes", file, line, what);
  }
}

struct Words {
  std::uint32_t word[4];
};
// The ldmatrix of kCount matrices.
template <int kCount, bool kTransposed>
Words load_matrices(SharedAddress row, const char* file, int line) {
  check_alignment(row, "a row of ldmatrix", file, line);
  return emulation::warp_collective<SharedAddress, Words>(
      row,
      [](const SharedAddress(&rows)[32], Words(&words)[32]) {
        for (int lane = 0; lane < 32; ++lane) {
          for (int i = 0; i < kCount; ++i) {
            std::uint32_t word = 0;
            for (int half = 0; half < 2; ++half) {
              const int group = lane / 4;
              const int pair = lane % 4 * 2 + half;
              const SharedAddress from =
                  rows[8 * i + (kTransposed ? pair : group)] + 2 * (kTransposed ? group : pair);
              std::uint16_t bits = 0;
              std::memcpy(&bits, from, sizeof(bits));
              word |= static_cast<std::uint32_t>(bits) << (16 * half);
            }
            words[lane].word[i] = word;
          }
        }
      },
      kTransposed ? "ldmatrix.trans" : "ldmatrix", file, line);
}

struct PendingCopy {
  SharedAddress to;
  const void* from;  // nullptr: zeros
};
// One thread's copies: those of closed groups, oldest first, and of the open one.
struct CopyQueue {
  std::uint64_t block = 0;
  std::vector<std::vector<PendingCopy>> groups;
  std::vector<PendingCopy> open;
};
// Of the thread that runs.
inline CopyQueue& copy_queue() {
  static std::array<CopyQueue, 1024> queues;
  CopyQueue& queue = queues[static_cast<std::size_t>(emulation::thread_rank())];
  if (queue.block != emulation::block_serial()) {
    for (const auto& group : queue.groups) {
      if (!group.empty())
        emulation::fail("a thread of an earlier block did not wait for its copies");
    }
    if (!queue.open.empty()) {
      emulation::fail("a thread of an earlier block did not commit its copies");
    }
    queue.groups.clear();
    queue.block = emulation::block_serial();
  }
  return queue;
}
inline void copy_16(SharedAddress to, const void* from, bool valid, const char* file, int line) {
  check_alignment(to, "the destination of a copy", file, line);
  check_alignment(from, "the source of a copy", file, line);
  std::memset(to, 0xFF, 16);
  emulation::touch_write(to, 16);
  copy_queue().open.push_back({to, valid ? from : nullptr});
}

struct MmaIn {
  std::uint32_t a[4], b[2];
  float c[4];
};
struct MmaOut {
  float c[4];
};
template <typename T>
void multiply(const MmaIn (&in)[32], MmaOut (&out)[32]) {
  double a[16][16];
  double b[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    const int group = lane / 4;
    const int quad = lane % 4;
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < 4; ++i) {
        a[group + i % 2 * 8][2 * quad + half + i / 2 * 8] = element<T>(in[lane].a[i], half);
      }
      for (int i = 0; i < 2; ++i)
        b[2 * quad + half + i * 8][group] = element<T>(in[lane].b[i], half);
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i / 2 * 8;
      const int column = lane % 4 * 2 + i % 2;
      double sum = static_cast<double>(in[lane].c[i]);
      for (int k = 0; k < 16; ++k) sum += a[row][k] * b[k][column];
      out[lane].c[i] = static_cast<float>(sum);
    }
  }
}

}  // namespace detail

#define REGATTA_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

template <typename T>
void mma(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
         REGATTA_HERE) {
  const detail::MmaIn in{{a[0], a[1], a[2], a[3]}, {b0, b1}, {c[0], c[1], c[2], c[3]}};
  const auto out = emulation::warp_collective<detail::MmaIn, detail::MmaOut>(
      in,
      [](const detail::MmaIn(&ins)[32], detail::MmaOut(&outs)[32]) {
        detail::multiply<T>(ins, outs);
      },
      "mma", file, line);
  for (int i = 0; i < 4; ++i) c[i] = out.c[i];
}

template <int kCount>
void load_matrix(std::uint32_t (&r)[kCount], SharedAddress row, REGATTA_HERE) {
  static_assert(kCount == 1 || kCount == 2 || kCount == 4);
  const detail::Words words = detail::load_matrices<kCount, false>(row, file, line);
  for (int i = 0; i < kCount; ++i) r[i] = words.word[i];
}
template <int kCount>
void load_matrix_transposed(std::uint32_t (&r)[kCount], SharedAddress row, REGATTA_HERE) {
  static_assert(kCount == 1 || kCount == 2 || kCount == 4);
  const detail::Words words = detail::load_matrices<kCount, true>(row, file, line);
  for (int i = 0; i < kCount; ++i) r[i] = words.word[i];
}

inline void copy16(SharedAddress to, const void* from, REGATTA_HERE) {
  detail::copy_16(to, from, true, file, line);
}
inline void copy16(SharedAddress to, const void* from, bool valid, REGATTA_HERE) {
  detail::copy_16(to, from, valid, file, line);
}
#undef REGATTA_HERE

inline void copy_commit() {
  detail::CopyQueue& queue = detail::copy_queue();
  queue.groups.push_back(std::exchange(queue.open, {}));
}
template <int kOpenGroups>
void copy_wait() {
  auto& groups = detail::copy_queue().groups;
  while (groups.size() > kOpenGroups) {
    for (const detail::PendingCopy& copy : groups.front()) {
      emulation::touch_write(copy.to, 16);
      if (copy.from != nullptr) {
        emulation::touch_read(copy.from, 16);
        std::memcpy(copy.to, copy.from, 16);
      } else {
        std::memset(copy.to, 0, 16);
      }
      emulation::proxy_check().wrote(copy.to);
    }
    groups.erase(groups.begin());
  }
}

inline float exp2_fast(float x) {
  const float y = std::exp2(x);
  return y < 1.17549435e-38F ? 0.0F : y;  // .ftz
}

template <typename T>
std::uint32_t pack(float low, float high) {
  const T values[2] = {from_float<T>(low), from_float<T>(high)};
  std::uint32_t both = 0;
  static_assert(sizeof(values) == sizeof(both));
  std::memcpy(&both, static_cast<const void*>(values), sizeof(both));
  return both;
}

}  // namespace regatta::trainer::cuda::ptx
