// tuner_host PLUGIN RANKS NODES CALLS: a program that loads the tuner plug-in as NCCL does, makes a
// communicator, and asks so many times. Prints what the plug-in logs, whether it acts, and what a
// call costs: `acts 1`, `calls 1000000 allocations 0 nanoseconds 5.1`.
#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/sanitizers.h"
#include "topology/tuner/nccl_tuner.h"

namespace {

std::atomic<long> allocations = 0;

}  // namespace

// A sanitizer has an allocator of its own.
#if !defined(REGATTA_ADDRESS_SANITIZER) && !defined(REGATTA_THREAD_SANITIZER)
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* block, std::size_t size);
void* malloc(std::size_t size) {
  ++allocations;
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  ++allocations;
  return __libc_calloc(count, size);
}
void* realloc(void* block, std::size_t size) {
  ++allocations;
  return __libc_realloc(block, size);
}
}
#endif

namespace {

void print_log(int level, unsigned long, const char*, int, const char* format, ...) {
  std::printf("log %d ", level);
  va_list values;
  va_start(values, format);
  std::vprintf(format, values);
  va_end(values);
  std::printf("\n");
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) return 2;
  void* const library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::printf("%s\n", dlerror());
    return 1;
  }
  const auto* tuner = static_cast<const NcclTunerV5*>(dlsym(library, "ncclTunerPlugin_v5"));
  if (tuner == nullptr) return 1;
  const auto ranks = std::strtoul(arguments[2], nullptr, 10);
  const auto nodes = std::strtoul(arguments[3], nullptr, 10);
  void* context = nullptr;
  const long before_init = allocations;
  if (tuner->init(&context, 7, ranks, nodes, print_log, nullptr, nullptr) != 0) return 1;
  std::printf("acts %d\n", context != nullptr ? 1 : 0);
  std::printf("allocations of init %ld\n", allocations - before_init);

  const int calls = std::atoi(arguments[4]);
  const long before = allocations;
  const auto start = std::chrono::steady_clock::now();
  long changed = 0;
  for (int i = 0; i < calls; ++i) {
    float costs[7][3] = {{5, 5, 5}, {4, 4, 4}, {-1, -1, -1}};
    int channels = 0;
    const std::size_t bytes = std::size_t{256} << (i % 24);
    if (tuner->get_coll_info(context, 4, bytes, 1, reinterpret_cast<float**>(costs), 7, 3, 0,
                             &channels) != 0) {
      return 1;
    }
    if (costs[1][0] == 0 || costs[0][2] == 0) ++changed;  // ring LL, tree Simple
  }
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
  const long after = allocations;
  std::printf("calls %d changed %ld allocations %ld nanoseconds %.1f\n", calls, changed,
              after - before, took.count() / calls);
  return tuner->finalize(context);
}
