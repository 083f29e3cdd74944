// libnccl-tuner-regatta.so: answers NCCL by the ranges of plan.tuner. It links libc alone, so that
// it loads into any program that loads NCCL, whatever C++ library that has; hence no exceptions,
// no RTTI and nothing of libstdc++ but headers.
//
// Everything is read when a communicator is made; a call is a search in memory that nobody writes.
// Whatever is wrong, the answer is "NCCL's own choice" and success: in NCCL 2.28 any other result
// fails the collective.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "topology/tuner/nccl_tuner.h"
#include "topology/tuner/plan_file.h"

using namespace regatta::topology::tuner;  // this file only

namespace {

constexpr const char* kName = "regatta";
constexpr int kLogWarning = 2, kLogInfo = 3;
constexpr unsigned long kLogInit = 1, kLogTuning = 0x40;

// Of algorithms and protocols, by NCCL's numbers.
constexpr int kNvls = 4, kNvlsTree = 5, kCollNetDirect = 2, kCollNetChain = 3;
constexpr int kLl = 0, kSimple = 2;
constexpr int kAllReduce = 4;

// Of one communicator.
struct Context {
  std::uint32_t first[kFileCollectives + 1];  // range of each collective; the last: all ranges
  std::uint32_t nodes;
  FileRange ranges[1];  // of that many
};

template <typename... Values>
void say(NcclLogger log, int level, const char* format, Values... values) {
  if (log != nullptr) log(level, kLogInit | kLogTuning, "tuner", __LINE__, format, values...);
}

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

bool is_of_trainer() {
  char path[4096];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
  if (size <= 0) return false;
  path[size] = '\0';
  const char* slash = std::strrchr(path, '/');
  const char* name = slash == nullptr ? path : slash + 1;
  // " (deleted)" follows where the file was replaced while it runs.
  constexpr char kProgram[] = "regatta-train";
  constexpr std::size_t kLength = sizeof kProgram - 1;
  return std::strncmp(name, kProgram, kLength) == 0 &&
         (name[kLength] == '\0' || name[kLength] == ' ');
}

// The words why this process takes NCCL's own choices; null: it does not.
const char* standing_down() {
  const char* wish = std::getenv("REGATTA_TUNER");
  if (wish != nullptr && std::strcmp(wish, "off") == 0) return "REGATTA_TUNER is off";
  const bool asked = wish != nullptr && std::strcmp(wish, "on") == 0;
  if (!asked && !is_of_trainer()) return "not regatta-train, and REGATTA_TUNER is not on";
  if (is_set("NCCL_ALGO")) return "NCCL_ALGO is set";
  if (is_set("NCCL_PROTO")) return "NCCL_PROTO is set";
  if (!is_set("REGATTA_TUNER_FILE")) return "REGATTA_TUNER_FILE is not set";
  return nullptr;
}

// Null, with *why in words, unless `path` is a regular file of at most kMostFileBytes. The caller
// frees it.
char* read_file(const char* path, std::size_t* size, const char** why) {
  // A fifo would let open() wait, but for O_NONBLOCK.
  const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  *why = "cannot be opened";
  if (file < 0) return nullptr;
  struct stat status = {};
  char* bytes = nullptr;
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    *why = "is not a file";
  } else if (status.st_size > static_cast<off_t>(kMostFileBytes)) {
    *why = "is too long";
  } else {
    *why = "cannot be read";
    const auto expected = static_cast<std::size_t>(status.st_size);
    bytes = static_cast<char*>(std::malloc(expected + 1));
    *size = 0;
    ssize_t got = bytes == nullptr ? 0 : 1;
    while (got > 0 && *size < expected) {
      got = read(file, bytes + *size, expected - *size);
      if (got > 0) *size += static_cast<std::size_t>(got);
    }
    if (bytes != nullptr && *size < expected) {
      std::free(bytes);
      bytes = nullptr;
    }
  }
  close(file);
  return bytes;
}

// Null where the file is for other communicators, or memory is short.
Context* make_context(const char* file, std::size_t ranks, std::size_t nodes, NcclLogger log) {
  FileHead head;
  std::memcpy(&head, file, sizeof head);
  if (head.ranks != ranks || head.nodes != nodes) {
    say(log, kLogInfo,
        "regatta: plan.tuner is for %u ranks on %u nodes, not %zu on %zu: NCCL chooses", head.ranks,
        head.nodes, ranks, nodes);
    return nullptr;
  }
  const std::size_t bytes = sizeof(Context) + head.ranges * sizeof(FileRange);
  auto* context = static_cast<Context*>(std::malloc(bytes));
  if (context == nullptr) return nullptr;
  std::memset(context, 0, sizeof(Context));
  context->nodes = head.nodes;
  for (std::uint32_t i = 0; i < head.ranges; ++i) {
    context->ranges[i] = range_at(file, i);
    for (int after = context->ranges[i].collective + 1; after <= kFileCollectives; ++after) {
      context->first[after] = i + 1;
    }
  }
  say(log, kLogInfo, "regatta: %u ranges for %zu ranks on %zu nodes", head.ranges, ranks, nodes);
  return context;
}

Context* open_context(std::size_t ranks, std::size_t nodes, NcclLogger log) {
  if (const char* why = standing_down()) {
    say(log, kLogInfo, "regatta: %s: NCCL chooses", why);
    return nullptr;
  }
  const char* const path = std::getenv("REGATTA_TUNER_FILE");
  std::size_t size = 0;
  const char* why = nullptr;
  char* const file = read_file(path, &size, &why);
  if (file != nullptr) why = complaint_of(file, size);
  Context* context = nullptr;
  if (why == nullptr) {
    context = make_context(file, ranks, nodes, log);
  } else {
    static std::atomic<bool> said = false;  // once, whatever the number of communicators
    if (!said.exchange(true)) {
      say(log, kLogWarning, "regatta: plan.tuner %s: NCCL chooses (REGATTA_TUNER_FILE=%s)", why,
          path);
    }
  }
  std::free(file);
  return context;
}

// The range of a call; null: NCCL's own choice.
const FileRange* find(const void* opaque, int function, std::size_t bytes) {
  const auto* context = static_cast<const Context*>(opaque);
  if (context == nullptr || function < 0 || function >= kFileCollectives) return nullptr;
  std::uint32_t low = context->first[function], high = context->first[function + 1];
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    const FileRange& range = context->ranges[middle];
    if (bytes < range.from_bytes) {
      high = middle;
    } else if (bytes >= range.to_bytes && range.to_bytes != kNoEnd) {
      low = middle + 1;
    } else {
      return &range;
    }
  }
  return nullptr;
}

int init_v2(std::size_t ranks, std::size_t nodes, NcclLogger log, void** context) {
  *context = open_context(ranks, nodes, log);
  return 0;
}

int init_v5(void** context, std::uint64_t, std::size_t ranks, std::size_t nodes, NcclLogger log,
            NcclNvlDomainInfoV5*, NcclTunerConstantsV5*) {
  *context = open_context(ranks, nodes, log);
  return 0;
}

int end(void* context) {
  std::free(context);
  return 0;
}

int choose_v4(void* context, int function, std::size_t bytes, int, float** costs, int algorithms,
              int protocols, int, int* channels) {
  const FileRange* const range = find(context, function, bytes);
  if (range == nullptr || range->algorithm >= algorithms || range->protocol >= protocols) return 0;
  float* const cost =
      reinterpret_cast<float*>(costs) + range->algorithm * protocols + range->protocol;
  // A way that NCCL does not have for this call is negative, and stays so.
  if (!(*cost >= 0)) return 0;
  *cost = 0;
  if (range->channels > 0) *channels = range->channels;
  return 0;
}

int choose_v3(void* context, int function, std::size_t bytes, int pipelined, float** costs,
              int algorithms, int protocols, int* channels) {
  return choose_v4(context, function, bytes, pipelined, costs, algorithms, protocols, 0, channels);
}

// Version 2 shows no costs, and where NCCL itself spoke it nothing keeps a way that this
// communicator lacks from being taken. So only what is there for certain: never LL128, which may
// corrupt data where NCCL has it off, and no PAT.
bool is_certain(const FileRange& range, bool one_node, bool collnet, bool nvls) {
  if (range.protocol != kLl && range.protocol != kSimple) return false;
  if (range.algorithm == kRing) return true;
  if (range.collective != kAllReduce) return false;
  if (range.algorithm == kTree) return true;
  if (range.protocol != kSimple) return false;
  if (range.algorithm == kNvls) return nvls && (one_node || collnet);
  if (range.algorithm == kNvlsTree) return nvls && !one_node;
  return collnet && (range.algorithm == kCollNetDirect || range.algorithm == kCollNetChain);
}

int choose_v2(void* context, int function, std::size_t bytes, int collnet, int nvls, int,
              int* algorithm, int* protocol, int* channels) {
  const FileRange* const range = find(context, function, bytes);
  if (range == nullptr) return 0;
  const bool one_node = static_cast<const Context*>(context)->nodes == 1;
  if (!is_certain(*range, one_node, collnet != 0, nvls != 0)) return 0;
  *algorithm = range->algorithm;
  *protocol = range->protocol;
  if (range->channels > 0) *channels = range->channels;
  return 0;
}

}  // namespace

extern "C" {
const NcclTunerV2 ncclTunerPlugin_v2 = {kName, init_v2, choose_v2, end};
const NcclTunerV3 ncclTunerPlugin_v3 = {kName, init_v2, choose_v3, end};
const NcclTunerV4 ncclTunerPlugin_v4 = {kName, init_v2, choose_v4, end};
const NcclTunerV5 ncclTunerPlugin_v5 = {kName, init_v5, choose_v4, end};

const char* regatta_tuner_version() { return "regatta-tuner 1 of " REGATTA_VERSION; }

const char* regatta_tuner_complaint(const void* file, std::size_t size, int* ranks,
                                    int* nccl_version) {
  const char* const complaint = complaint_of(file, size);
  if (complaint != nullptr) return complaint;
  FileHead head;
  std::memcpy(&head, file, sizeof head);
  *ranks = static_cast<int>(head.ranks);
  *nccl_version = static_cast<int>(head.nccl_version);
  return nullptr;
}
}
