#include "trainer/cuda/nccl_library.h"

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <nccl.h>

#include <cstring>
#include <string>

#include "base/error.h"
#include "base/text.h"
#include "trainer/cuda/check.h"

namespace regatta::trainer::cuda {
namespace {

using nccl::Comm;
using nccl::NativeEvent;
using nccl::NativeStream;
using nccl::Result;
using nccl::UniqueId;

static_assert(static_cast<int>(Result::InvalidArgument) == ncclInvalidArgument);
static_assert(static_cast<int>(Result::InvalidUsage) == ncclInvalidUsage);
static_assert(static_cast<int>(Result::RemoteError) == ncclRemoteError);
static_assert(static_cast<int>(Result::InProgress) == ncclInProgress);
static_assert(nccl::kNoColor == NCCL_SPLIT_NOCOLOR);
static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId));

// The table's handles are NCCL's and CUDA's under names that need none of their headers.
ncclComm_t raw(Comm comm) { return reinterpret_cast<ncclComm_t>(comm); }
cudaStream_t raw(NativeStream stream) { return reinterpret_cast<cudaStream_t>(stream); }
cudaEvent_t raw(NativeEvent event) { return reinterpret_cast<cudaEvent_t>(event); }
ncclComm_t* raw(Comm* comm) { return reinterpret_cast<ncclComm_t*>(comm); }

Result result_of(ncclResult_t result) { return static_cast<Result>(result); }
std::size_t unsigned_count(std::int64_t count) { return static_cast<std::size_t>(count); }

class Library {
 public:
  Library() : handle_(dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) {
    if (handle_ == nullptr) {
      const char* reason = dlerror();
      throw base::Error(
          base::Code::Operator,
          "cannot load NCCL: " + base::printable(reason == nullptr ? "no reason given" : reason) +
              "; install it (libnccl2), name its directory in LD_LIBRARY_PATH, or "
              "train on one GPU");
    }
    find<decltype(ncclGetVersion)>("ncclGetVersion")(&version_);
    if (version_ < kOldestNccl) {
      throw base::Error(base::Code::Operator, "NCCL " + std::to_string(version_) +
                                                  " is too old; install 2.18 (" +
                                                  std::to_string(kOldestNccl) + ") or newer");
    }
  }
  template <typename Function>
  [[nodiscard]] Function* find(const char* name) const {
    void* address = dlsym(handle_, name);
    if (address == nullptr) {
      throw base::Error(base::Code::Operator, std::string("this libnccl.so.2 has no ") + name +
                                                  "; install NCCL 2.18 or newer");
    }
    Function* function = nullptr;
    static_assert(sizeof function == sizeof address);
    std::memcpy(&function, &address, sizeof function);
    return function;
  }

  [[nodiscard]] int version() const { return version_; }

 private:
  void* handle_;
  int version_ = 0;
};

void add_communicators(const Library& library, nccl::Table* table) {
  table->get_unique_id =
      [f = library.find<decltype(ncclGetUniqueId)>("ncclGetUniqueId")](UniqueId* id) {
        ncclUniqueId raw_id;
        const Result result = result_of(f(&raw_id));
        std::memcpy(id->data(), &raw_id, sizeof raw_id);
        return result;
      };
  table->comm_init_rank_config =
      [f = library.find<decltype(ncclCommInitRankConfig)>("ncclCommInitRankConfig")](
          Comm* comm, int ranks, const UniqueId& id, int rank) {
        ncclUniqueId raw_id;
        std::memcpy(&raw_id, id.data(), sizeof raw_id);
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        return result_of(f(raw(comm), ranks, raw_id, rank, &config));
      };
  // Without a configuration it is the parent's.
  table->comm_split = [f = library.find<decltype(ncclCommSplit)>("ncclCommSplit")](
                          Comm comm, int color, int key, Comm* child) {
    return result_of(f(raw(comm), color, key, raw(child), nullptr));
  };
  table->comm_get_async_error = [f = library.find<decltype(ncclCommGetAsyncError)>(
                                     "ncclCommGetAsyncError")](Comm comm, Result* state) {
    ncclResult_t raw_state = ncclSuccess;
    const Result result = result_of(f(raw(comm), &raw_state));
    *state = result_of(raw_state);
    return result;
  };
  table->comm_finalize = [f = library.find<decltype(ncclCommFinalize)>("ncclCommFinalize")](
                             Comm comm) { return result_of(f(raw(comm))); };
  table->comm_destroy = [f = library.find<decltype(ncclCommDestroy)>("ncclCommDestroy")](
                            Comm comm) { return result_of(f(raw(comm))); };
  table->comm_abort = [f = library.find<decltype(ncclCommAbort)>("ncclCommAbort")](Comm comm) {
    return result_of(f(raw(comm)));
  };
  table->get_error_string = [text =
                                 library.find<decltype(ncclGetErrorString)>("ncclGetErrorString"),
                             last = library.find<decltype(ncclGetLastError)>("ncclGetLastError")](
                                Comm comm, Result result) {
    std::string message = text(static_cast<ncclResult_t>(result));
    const char* more = comm == nullptr ? nullptr : last(raw(comm));
    if (more != nullptr && *more != '\0') message += std::string(": ") + more;
    return message;
  };
}

void add_collectives(const Library& library, nccl::Table* table) {
  table->group_start = [f = library.find<decltype(ncclGroupStart)>("ncclGroupStart")] {
    return result_of(f());
  };
  table->group_end = [f = library.find<decltype(ncclGroupEnd)>("ncclGroupEnd")] {
    return result_of(f());
  };
  table->all_reduce = [f = library.find<decltype(ncclAllReduce)>("ncclAllReduce")](
                          float* x, std::int64_t count, Comm comm, NativeStream stream) {
    return result_of(f(x, x, unsigned_count(count), ncclFloat32, ncclSum, raw(comm), raw(stream)));
  };
  table->reduce_scatter = [f = library.find<decltype(ncclReduceScatter)>("ncclReduceScatter")](
                              const float* from, float* to, std::int64_t count, Comm comm,
                              NativeStream stream) {
    return result_of(
        f(from, to, unsigned_count(count), ncclFloat32, ncclSum, raw(comm), raw(stream)));
  };
  table->all_gather = [f = library.find<decltype(ncclAllGather)>("ncclAllGather")](
                          const float* from, float* to, std::int64_t count, Comm comm,
                          NativeStream stream) {
    return result_of(f(from, to, unsigned_count(count), ncclFloat32, raw(comm), raw(stream)));
  };
  table->broadcast = [f = library.find<decltype(ncclBroadcast)>("ncclBroadcast")](
                         float* x, std::int64_t count, int root, Comm comm, NativeStream stream) {
    return result_of(f(x, x, unsigned_count(count), ncclFloat32, root, raw(comm), raw(stream)));
  };
  // Only the root's x is written.
  table->reduce = [f = library.find<decltype(ncclReduce)>("ncclReduce")](
                      float* x, std::int64_t count, int root, Comm comm, NativeStream stream) {
    return result_of(
        f(x, x, unsigned_count(count), ncclFloat32, ncclSum, root, raw(comm), raw(stream)));
  };
  table->send = [f = library.find<decltype(ncclSend)>("ncclSend")](
                    const float* x, std::int64_t count, int to, Comm comm, NativeStream stream) {
    return result_of(f(x, unsigned_count(count), ncclFloat32, to, raw(comm), raw(stream)));
  };
  table->receive = [f = library.find<decltype(ncclRecv)>("ncclRecv")](
                       float* x, std::int64_t count, int from, Comm comm, NativeStream stream) {
    return result_of(f(x, unsigned_count(count), ncclFloat32, from, raw(comm), raw(stream)));
  };
}

void add_streams(NativeStreams& device, nccl::Table* table) {
  table->enter = [gpu = device.gpu()] { check(cudaSetDevice(gpu), "choosing the GPU"); };
  table->native_stream = [&device](device::Stream stream) {
    return reinterpret_cast<NativeStream>(device.native(stream));
  };
  // First in line: what other ranks wait for takes the multiprocessors that fall free next.
  table->stream_create = [] {
    int least = 0, greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for priorities");
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest),
          "making a stream");
    return reinterpret_cast<NativeStream>(stream);
  };
  table->stream_destroy = [](NativeStream stream) {
    static_cast<void>(cudaStreamDestroy(raw(stream)));
  };
  table->stream_wait_event = [](NativeStream stream, NativeEvent event) {
    check(cudaStreamWaitEvent(raw(stream), raw(event), 0), "waiting for an event");
  };
  table->event_create = [] {
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDefault), "making an event");
    return reinterpret_cast<NativeEvent>(event);
  };
  table->event_destroy = [](NativeEvent event) { static_cast<void>(cudaEventDestroy(raw(event))); };
  table->event_record = [](NativeEvent event, NativeStream stream) {
    check(cudaEventRecord(raw(event), raw(stream)), "recording an event");
  };
  table->event_is_done = [](NativeEvent event) {
    const cudaError_t status = cudaEventQuery(raw(event));
    if (status == cudaErrorNotReady) return false;
    check(status, "asking for an event");
    return true;
  };
  table->event_elapsed_seconds = [](NativeEvent from, NativeEvent to) {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, raw(from), raw(to)), "reading a time stamp");
    return static_cast<double>(milliseconds) * 1e-3;
  };
}

}  // namespace

nccl::Table make_nccl_table(NativeStreams& device) {
  const Library library;
  nccl::Table table;
  table.version = library.version();
  add_communicators(library, &table);
  add_collectives(library, &table);
  add_streams(device, &table);
  return table;
}

}  // namespace regatta::trainer::cuda
