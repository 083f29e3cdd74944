// Everything that the NCCL communicator calls of NCCL and CUDA, as one table of functions. The
// plug-in fills it with the real ones (trainer/cuda/nccl_library.h), tests with an emulation on the
// host, and nothing else of this folder needs a header of either.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "trainer/device/device.h"

namespace regatta::trainer::nccl {

// NCCL's own numbers.
enum class Result : int {
  Success = 0,
  UnhandledCudaError = 1,
  SystemError = 2,
  InternalError = 3,
  InvalidArgument = 4,
  InvalidUsage = 5,
  RemoteError = 6,
  InProgress = 7,
};

struct OpaqueComm;
struct OpaqueStream;
struct OpaqueEvent;
using Comm = OpaqueComm*;
using NativeStream = OpaqueStream*;
using NativeEvent = OpaqueEvent*;
using UniqueId = std::array<char, 128>;
constexpr int kNoColor = -1;  // of ranks that a split leaves out: NCCL_SPLIT_NOCOLOR

// NCCL's half gives results; every communicator is non-blocking, so calls may leave it InProgress,
// and it takes nothing else before comm_get_async_error says Success. CUDA's half throws
// base::Error, but for what destroys, which ignores errors: by then they have been reported.
struct Table {
  int version = 0;  // of NCCL: 22809 for 2.28.9
  // The thread's calls after it are for this rank's GPU.
  std::function<void()> enter;
  // The stream behind a number of the device's.
  std::function<NativeStream(device::Stream)> native_stream;

  std::function<Result(UniqueId*)> get_unique_id;
  // The address stays valid until the communicator is no longer InProgress: what splits may be
  // stored only then.
  std::function<Result(Comm*, int ranks, const UniqueId&, int rank)> comm_init_rank_config;
  // In the order of keys. What is split has nothing under way; kNoColor gets null.
  std::function<Result(Comm, int color, int key, Comm*)> comm_split;
  std::function<Result(Comm, Result*)> comm_get_async_error;
  std::function<Result(Comm)> comm_finalize;
  std::function<Result(Comm)> comm_destroy;
  std::function<Result(Comm)> comm_abort;
  std::function<std::string(Comm, Result)> get_error_string;

  // float32, sums, in place where there is one pointer. Counts are per rank where parts differ:
  // reduce_scatter and all_gather move `count` elements of each rank.
  std::function<Result()> group_start, group_end;
  std::function<Result(float*, std::int64_t, Comm, NativeStream)> all_reduce;
  std::function<Result(const float*from, float*to, std::int64_t count, Comm, NativeStream)>
      reduce_scatter, all_gather;
  std::function<Result(float*, std::int64_t, int root, Comm, NativeStream)> broadcast, reduce;
  std::function<Result(const float*, std::int64_t, int to, Comm, NativeStream)> send;
  std::function<Result(float*, std::int64_t, int from, Comm, NativeStream)> receive;

  std::function<NativeStream()> stream_create;
  std::function<void(NativeStream)> stream_destroy;
  std::function<void(NativeStream, NativeEvent)> stream_wait_event;
  std::function<NativeEvent()> event_create;  // with time stamps
  std::function<void(NativeEvent)> event_destroy;
  std::function<void(NativeEvent, NativeStream)> event_record;
  std::function<bool(NativeEvent)> event_is_done;
  std::function<double(NativeEvent from, NativeEvent to)> event_elapsed_seconds;
};

// Owners of streams and events; the table outlives them.
class TableStream {
 public:
  explicit TableStream(const Table& table) : table_(table), stream_(table.stream_create()) {}
  TableStream(const TableStream&) = delete;
  TableStream& operator=(const TableStream&) = delete;
  ~TableStream() { table_.stream_destroy(stream_); }
  [[nodiscard]] NativeStream get() const { return stream_; }

 private:
  const Table& table_;
  NativeStream stream_;
};

class TableEvent {
 public:
  explicit TableEvent(const Table& table) : table_(&table), event_(table.event_create()) {}
  TableEvent(TableEvent&& other) noexcept : table_(other.table_), event_(other.event_) {
    other.event_ = nullptr;
  }
  TableEvent& operator=(TableEvent&& other) noexcept {
    std::swap(table_, other.table_);
    std::swap(event_, other.event_);
    return *this;
  }
  ~TableEvent() {
    if (event_ != nullptr) table_->event_destroy(event_);
  }
  [[nodiscard]] NativeEvent get() const { return event_; }

 private:
  const Table* table_;
  NativeEvent event_;
};

}  // namespace regatta::trainer::nccl
