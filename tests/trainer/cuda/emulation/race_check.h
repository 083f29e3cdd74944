// Finds accesses that nothing orders, in kernels compiled with -fsanitize=thread: that flag makes
// the compiler call a function before every access, and race_check.cc defines those functions (the
// program is not linked with ThreadSanitizer). Two accesses race if one of them writes, two threads
// of one launch made them, and neither lies between them:
//   * a barrier of the block, for threads of one block,
//   * __syncwarp, for lanes of one warp; shuffles and products exchange registers, not memory.
// Device and shared memory are watched, in units of 2 bytes; accesses of single bytes are not. What
// a collective does for its warp counts as done by the lane that came last. A race aborts with both
// lines.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

namespace regatta::emulation {

// When an access happens: numbers that grow during the process. Kept by the block runner.
struct Moment {
  std::uint32_t now = 1;  // changes at every barrier of the block
  std::uint32_t block_start = 1;
  std::uint32_t launch_start = 1;
  std::array<std::uint16_t, 32> warp_syncs{};  // of each warp
};
[[nodiscard]] const Moment& moment();

// The bytes of the running block's dynamic shared memory, or of the program's __shared__ variables.
[[nodiscard]] bool is_shared(const void* address);

class RaceCheck {
 public:
  void access(std::uintptr_t address, std::size_t bytes, bool write, const void* code);

 private:
  // The last write and the last reads of 2 bytes. Readers of one moment merge: to a warp, or to
  // all.
  struct Cell {
    std::uint32_t written = 0, read = 0;          // Moment::now
    std::uint32_t write_code = 0, read_code = 0;  // offsets in the program
    std::uint16_t writer = 0, reader = 0;
    std::uint16_t write_sync = 0, read_sync = 0;  // of the thread's warp
  };
  static constexpr std::uintptr_t kPage = 4096;
  using Page = std::array<Cell, kPage / 2>;
  struct Known {
    std::uintptr_t page = 0;  // 2·number + 1 for shared variables
    Page* cells = nullptr;    // null: a page of no interest
  };

  [[nodiscard]] Page* cells_of(std::uintptr_t address, bool shared);
  void write(Cell& cell, std::uint32_t code);
  void read(Cell& cell, std::uint32_t code);
  [[noreturn]] void report(const char* first, int thread, std::uint32_t first_code,
                           const char* second, std::uint32_t second_code) const;

  std::unordered_map<std::uintptr_t, std::unique_ptr<Page>> pages_;
  std::array<Known, 256> recent_{};
  std::uint32_t recent_launch_ = 0;  // memory may become something else between launches
};

}  // namespace regatta::emulation
