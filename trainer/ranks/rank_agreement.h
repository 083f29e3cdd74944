// What ranks find out about each other before the first step.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "trainer/ranks/host_collectives.h"

namespace regatta::trainer::ranks {

// What all ranks of a run throw together: none is lost, and none waits for another.
struct AgreedError : base::Error {
  using base::Error::Error;
};

// Runs `body` on every rank. Where one throws, all ranks throw: the error of the lowest rank that
// failed, named, as AgreedError. Collective; `body` must not be.
void run_on_all_ranks(HostCollectives& host, const std::function<void()>& body);

// Throws AgreedError of Code::Operator on all ranks unless `value` is the same on all: "what
// differs: …".
void same_everywhere(HostCollectives& host, const std::string& what, const std::string& value);

// Every rank's text, in rank order; of each, 255 bytes at most.
[[nodiscard]] std::vector<std::string> texts_of_ranks(HostCollectives& host,
                                                      const std::string& text);

// Rank 0's text, everywhere.
[[nodiscard]] std::string text_of_rank_0(HostCollectives& host, const std::string& text);

}  // namespace regatta::trainer::ranks
