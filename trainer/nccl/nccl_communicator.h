// Collectives over NCCL for ranks that train on GPUs, one GPU a rank.
#pragma once

#include <memory>

#include "trainer/nccl/nccl_options.h"
#include "trainer/nccl/nccl_table.h"
#include "trainer/ranks/communicator.h"

namespace regatta::trainer::nccl {

// A collective runs on a stream of the communicator's own, from when the caller's stream has done
// what it had so far; finish() lets the caller's stream wait, and blocks no thread. Whatever is
// enqueued comes in one order on all ranks.
//
// Sends and receives are only noted, and launched together when the first of them is finished, on
// a stream and a communicator of their own: so their order does not matter. A rank that has begun
// some finishes one before it waits for other ranks in any other way.
//
// A thread looks for asynchronous errors. After one, or after abandon(), which any thread may call
// at any time, everything under way is aborted, whatever waits on a stream goes on with undefined
// contents, and every later call throws Code::Retry, host collectives included: so no rank acts on
// those contents together with others. open_channel() gives the host's own channels, which know
// nothing of this.
//
// Groups are split off by NCCL, in init_seconds at most, when what was begun here is over on the
// GPU. Their collectives are on the same stream as all others, so ranks that are in several groups
// begin collectives in one order; their messages have a stream and a communicator of their own.
// They are watched, given up and ended together with this one.
//
// done_at: by time stamps of the GPU, compared with this host's clock once a second (done_times.h).
//
// Destruction while an exception is under way is as after abandon(); otherwise all ranks destroy
// theirs, and wait for one another for farewell_seconds at most.
//
// Collective. Throws Code::Retry when the ranks do not get together in time, Code::Operator for
// settings of NCCL that it refuses, Code::User when ranks_per_node does not divide the ranks.
[[nodiscard]] std::unique_ptr<ranks::Communicator> make_nccl_communicator(
    nccl::Table table, NcclHost host, const NcclOptions& options);

}  // namespace regatta::trainer::nccl
