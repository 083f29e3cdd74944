#include "tests/trainer/cuda/emulation/race_check.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "base/error.h"
#include "base/process.h"
#include "tests/trainer/cuda/emulation/block.h"
#include "tests/trainer/cuda/emulation/machine.h"

namespace regatta::emulation {
namespace {

constexpr std::uint16_t kWarp = 0x8000;  // + number: several lanes of that warp
constexpr std::uint16_t kAll = 0xFFFF;   // threads of several warps

std::uintptr_t program_start() {
  static const std::uintptr_t start = [] {
    Dl_info info{};
    static_cast<void>(dladdr(reinterpret_cast<const void*>(&program_start), &info));
    return reinterpret_cast<std::uintptr_t>(info.dli_fbase);
  }();
  return start;
}

int me() { return thread_rank(); }
std::uint16_t my_syncs() { return moment().warp_syncs[static_cast<std::size_t>(me() / 32)]; }

// Whether a __syncwarp lies between the running thread and `who` at its warp's `sync`.
bool same_warp_before(std::uint16_t who, std::uint16_t sync) {
  if (who == kAll) return false;
  const int warp = (who & kWarp) != 0 ? who & ~kWarp : who / 32;
  return warp == me() / 32 && sync != my_syncs();
}

// Function, file and line of an address, innermost first.
std::string source_line(std::uint32_t code) {
  char address[32];
  std::snprintf(address, sizeof address, "0x%x", code - 1);
  const std::string program = "/proc/" + std::to_string(getpid()) + "/exe";
  try {
    base::Command command;
    command.arguments = {"addr2line", "-Cipe", program, address};
    const base::Output output = base::run(command, 60);
    if (!output.text.empty()) return output.text;
  } catch (const base::Error&) {  // no addr2line here
  }
  return std::string("code at ") + address + "\n";
}

}  // namespace

RaceCheck::Page* RaceCheck::cells_of(std::uintptr_t address, bool shared) {
  if (recent_launch_ != moment().launch_start) {
    recent_launch_ = moment().launch_start;
    recent_.fill({});
  }
  // A page may hold shared variables and others, which are not watched: it has two entries.
  const std::uintptr_t page = address / kPage * 2 + (shared ? 1 : 0);
  Known& known = recent_[page % recent_.size()];
  if (known.page == page) return known.cells;
  known = {page, nullptr};
  const auto* pointer = reinterpret_cast<const void*>(address);
  bool watched = shared;
  if (!watched) {
    Machine& all = machine();
    const std::lock_guard lock(all.mutex);
    watched = all.device_memory.find(pointer, 1) == Memory::Where::Inside;
  }
  if (watched) {
    auto& cells = pages_[page];
    if (cells == nullptr) cells = std::make_unique<Page>();
    known.cells = cells.get();
  }
  return known.cells;
}

void RaceCheck::report(const char* first, int thread, std::uint32_t first_code, const char* second,
                       std::uint32_t second_code) const {
  std::fprintf(stderr, "emulation: %s at\n%sand %s at\n%s", first, source_line(first_code).c_str(),
               second, source_line(second_code).c_str());
  if (thread == kAll) fail("race: several threads and this one, with no barrier between them");
  if ((thread & kWarp) != 0) {
    fail("race: lanes of warp %d and this one, with no barrier between them", thread & ~kWarp);
  }
  fail(
      "race: thread %d (of the block's, or of another block) and this one, with no barrier between "
      "them",
      thread);
}

void RaceCheck::write(Cell& cell, std::uint32_t code) {
  const Moment& at = moment();
  const auto self = static_cast<std::uint16_t>(me());
  if (cell.written >= at.launch_start && cell.written < at.block_start) {
    report("another block's write", cell.writer, cell.write_code, "a write", code);
  }
  if (cell.read >= at.launch_start && cell.read < at.block_start) {
    report("another block's read", cell.reader, cell.read_code, "a write", code);
  }
  if (cell.written == at.now && cell.writer != self &&
      !same_warp_before(cell.writer, cell.write_sync)) {
    report("a write", cell.writer, cell.write_code, "a write", code);
  }
  if (cell.read == at.now && cell.reader != self &&
      !same_warp_before(cell.reader, cell.read_sync)) {
    report("a read", cell.reader, cell.read_code, "a write", code);
  }
  cell.written = at.now;
  cell.writer = self;
  cell.write_sync = my_syncs();
  cell.write_code = code;
}

void RaceCheck::read(Cell& cell, std::uint32_t code) {
  const Moment& at = moment();
  const auto self = static_cast<std::uint16_t>(me());
  if (cell.written >= at.launch_start && cell.written < at.block_start) {
    report("another block's write", cell.writer, cell.write_code, "a read", code);
  }
  if (cell.written == at.now && cell.writer != self &&
      !same_warp_before(cell.writer, cell.write_sync)) {
    report("a write", cell.writer, cell.write_code, "a read", code);
  }
  if (cell.read != at.now) {
    cell.reader = self;
  } else if (cell.reader != self && cell.reader != kAll) {
    const int warp = (cell.reader & kWarp) != 0 ? cell.reader & ~kWarp : cell.reader / 32;
    cell.reader = warp == self / 32 ? static_cast<std::uint16_t>(kWarp | warp) : kAll;
  }
  cell.read = at.now;
  cell.read_sync = my_syncs();
  cell.read_code = code;
}

void RaceCheck::access(std::uintptr_t address, std::size_t bytes, bool write_access,
                       const void* code) {
  if (me() < 0) return;
  const bool shared = is_shared(reinterpret_cast<const void*>(address));
  const auto offset =
      static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(code) - program_start());
  for (std::uintptr_t at = address; at < address + bytes; at += 2) {
    Page* const cells = cells_of(at, shared);
    if (cells == nullptr) return;
    Cell& cell = (*cells)[at % kPage / 2];
    if (shared && cell.written < moment().block_start) cell.written = 0;  // of an earlier block
    if (shared && cell.read < moment().block_start) cell.read = 0;
    if (write_access) {
      write(cell, offset);
    } else {
      read(cell, offset);
    }
  }
}

namespace {
RaceCheck& race_check() {
  static RaceCheck& instance = *new RaceCheck;
  return instance;
}
}  // namespace
}  // namespace regatta::emulation

// What the compiler calls. The return address is in the line that accesses.
#define REGATTA_ACCESS(bytes)                                                                   \
  void __tsan_read##bytes(void* at) {                                                           \
    regatta::emulation::race_check().access(reinterpret_cast<std::uintptr_t>(at), bytes, false, \
                                            __builtin_return_address(0));                       \
  }                                                                                             \
  void __tsan_write##bytes(void* at) {                                                          \
    regatta::emulation::race_check().access(reinterpret_cast<std::uintptr_t>(at), bytes, true,  \
                                            __builtin_return_address(0));                       \
  }                                                                                             \
  void __tsan_unaligned_read##bytes(void* at) {                                                 \
    regatta::emulation::race_check().access(reinterpret_cast<std::uintptr_t>(at), bytes, false, \
                                            __builtin_return_address(0));                       \
  }                                                                                             \
  void __tsan_unaligned_write##bytes(void* at) {                                                \
    regatta::emulation::race_check().access(reinterpret_cast<std::uintptr_t>(at), bytes, true,  \
                                            __builtin_return_address(0));                       \
  }
extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_read(void*) {}
void __tsan_vptr_update(void*, void*) {}
void __tsan_read1(void*) {}
void __tsan_write1(void*) {}
REGATTA_ACCESS(2)
REGATTA_ACCESS(4)
REGATTA_ACCESS(8)
REGATTA_ACCESS(16)
void __tsan_read_range(void* at, std::size_t bytes) {
  regatta::emulation::race_check().access(reinterpret_cast<std::uintptr_t>(at), bytes, false,
                                          __builtin_return_address(0));
}
void __tsan_write_range(void* at, std::size_t bytes) {
  regatta::emulation::race_check().access(reinterpret_cast<std::uintptr_t>(at), bytes, true,
                                          __builtin_return_address(0));
}
// Guards of static variables.
std::uint8_t __tsan_atomic8_load(const volatile std::uint8_t* at, int) {
  return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}
}
#undef REGATTA_ACCESS
