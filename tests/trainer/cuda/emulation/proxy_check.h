// What the generic proxy wrote to shared memory and the async proxy (wgmma) may not yet see. The
// thread that wrote must say fence.proxy.async before anybody's wgmma reads it. Known are the
// writes of cp.async, as of the wait for them, and of stmatrix; plain stores are not.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/trainer/cuda/emulation/block.h"

namespace regatta::emulation {

class ProxyCheck {
 public:
  // The running thread wrote the 16 bytes at `to`; elsewhere than in shared memory it is ignored.
  void wrote(const unsigned char* to) {
    begin();
    const std::ptrdiff_t piece = piece_of(to);
    if (piece < 0 || piece >= kPieces) return;
    writer_[static_cast<std::size_t>(piece)] = static_cast<std::uint16_t>(thread_rank() + 1);
    pieces_[static_cast<std::size_t>(thread_rank())].push_back(static_cast<std::uint16_t>(piece));
  }
  // The running thread's fence.
  void fence() {
    begin();
    forget(thread_rank());
  }
  [[nodiscard]] bool is_shared(const unsigned char* from) {
    begin();
    return writer_[static_cast<std::size_t>(piece_of(from))] == 0;
  }

 private:
  static constexpr std::ptrdiff_t kPieces = 256 * 1024 / 16;
  static constexpr int kThreads = 1024;

  static std::ptrdiff_t piece_of(const unsigned char* at) {
    return (reinterpret_cast<std::intptr_t>(at) -
            reinterpret_cast<std::intptr_t>(dynamic_shared())) >>
           4;
  }
  void begin() {
    if (block_ == block_serial()) return;
    block_ = block_serial();
    for (int thread = 0; thread < kThreads; ++thread) forget(thread);
  }
  void forget(int thread) {
    std::vector<std::uint16_t>& mine = pieces_[static_cast<std::size_t>(thread)];
    for (const std::uint16_t piece : mine) {
      if (writer_[piece] == thread + 1) writer_[piece] = 0;
    }
    mine.clear();
  }

  std::uint64_t block_ = 0;
  std::array<std::uint16_t, kPieces> writer_{};  // thread + 1; 0: everybody sees it
  std::array<std::vector<std::uint16_t>, kThreads> pieces_;
};

inline ProxyCheck& proxy_check() {
  static ProxyCheck check;
  return check;
}

}  // namespace regatta::emulation
