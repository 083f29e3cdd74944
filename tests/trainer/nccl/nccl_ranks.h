// Ranks as threads, each with an NCCL communicator over the emulated NCCL.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/trainer/nccl/emulated_nccl.h"
#include "trainer/nccl/nccl_communicator.h"

namespace regatta::tests {

// Memory of a rank's GPU with sentinels around it, and only itself lent to collectives.
class LentMemory {
 public:
  LentMemory(EmulatedNccl& nccl, int rank, std::vector<float> values);
  [[nodiscard]] trainer::device::View view();
  [[nodiscard]] std::vector<float> values() const;
  [[nodiscard]] bool is_intact() const;  // what lies around it

 private:
  static constexpr std::size_t kMargin = 256;
  std::vector<float> all_;
};

struct NcclRank {
  EmulatedNccl& nccl;
  int rank;
  trainer::nccl::NcclHost host;
  trainer::nccl::NcclOptions options;
  std::unique_ptr<trainer::ranks::Communicator> ranks;

  void make() {
    ranks = trainer::nccl::make_nccl_communicator(nccl.table(rank), std::move(host), options);
  }
  // finish() on the stream, and the host waits until it is there.
  void finish(trainer::device::Stream stream, trainer::ranks::Pending pending) {
    ranks->finish(stream, pending);
    nccl.synchronize(rank, stream);
  }
};

struct NcclSetup {
  int ranks = 2;
  trainer::nccl::NcclOptions options;
  EmulatedDelays delays;
};

// Runs `body` for each rank on a thread of its own; the communicator is made before, unless
// `made` is false, and destroyed after. What a rank throws fails the test. At the end there are no
// violations, and every handle is closed.
void on_ranks(const NcclSetup& setup, const std::function<void(NcclRank&)>& body, bool made = true);

// The code that `call` throws, with its message in *message, if it throws.
std::string thrown_message(const std::function<void()>& call, base::Code code);

}  // namespace regatta::tests
