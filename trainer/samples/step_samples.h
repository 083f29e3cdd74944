// This rank's share of every step: which samples, by which way of balancing.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/contract/run_config.h"
#include "trainer/ranks/host_collectives.h"
#include "trainer/samples/sample_stream.h"
#include "trainer/samples/step_place.h"

namespace regatta::trainer::samples {

struct StepShare {
  std::vector<std::int32_t> ordinals;  // places in the step's batch, ascending
  std::vector<Sample> samples;         // in that order
  std::int64_t moved_bytes = 0;        // of samples that this rank sent to others
};

// A share, before its samples are read.
struct SharePlaces {
  std::vector<std::int32_t> ordinals;  // as StepShare's
  std::vector<std::int64_t> numbers;   // of these samples in the stream
};

class StepSamples {
 public:
  // config: batch_size, ranks, ranks_per_node (resolved, at least 1), balance, data.max_length.
  // `channel` carries lengths and samples of `exchange`; others do not touch it, nor need it have
  // as many ranks. Both outlive this.
  StepSamples(const contract::RunConfig& config, SampleStream samples,
              ranks::HostCollectives& channel);
  ~StepSamples();
  StepSamples(const StepSamples&) = delete;
  StepSamples& operator=(const StepSamples&) = delete;

  // One thread at a time, any thread. With `exchange` every rank asks for the same steps in the
  // same order. `stratified` takes steps of one batch only, each behind those before it.
  [[nodiscard]] StepShare share(const StepPlace& place);
  // share() in two parts, the second for any number of threads at once. Not where samples move()
  // between ranks.
  [[nodiscard]] SharePlaces places(const StepPlace& place);
  [[nodiscard]] StepShare read(SharePlaces places) const;
  [[nodiscard]] bool moves() const;
  // places() of the ranks [first, first + count), whichever rank this is; not with `exchange`.
  [[nodiscard]] std::vector<SharePlaces> places(const StepPlace& place, int first, int count);
  // Of steps of config.batch_size, the first of which begins the stream.
  [[nodiscard]] StepShare share(std::int64_t step);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace regatta::trainer::samples
