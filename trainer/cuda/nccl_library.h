// NCCL itself, and CUDA's streams and events, as the NCCL communicator wants them.
#pragma once

#include "trainer/cuda/native_streams.h"
#include "trainer/nccl/nccl_table.h"

namespace regatta::trainer::cuda {

// The oldest NCCL that splits communicators and takes them non-blocking: 2.18.
constexpr int kOldestNccl = 21800;

// Of the GPU and the streams of `device`, which outlives the table. Opens libnccl.so.2, which stays
// loaded: runs on one GPU need not have it. Throws Code::Operator where it is not found, or too
// old.
[[nodiscard]] nccl::Table make_nccl_table(NativeStreams& device);

}  // namespace regatta::trainer::cuda
