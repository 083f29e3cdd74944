// Which way forward attention goes (kernels.h, ForwardWay). Both give the same bits, and which is
// faster depends on GPU and lengths; so the first use of a shape times both and keeps the faster.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "trainer/cuda/kernels/kernels.h"

namespace regatta::trainer::cuda {

class ForwardChoice {
 public:
  // `tune` false: always streamed, which is the faster by arithmetic
  // (trainer/cuda/attention/README.md, "Attention forward: ladder").
  explicit ForwardChoice(bool tune) : tune_(tune) {}

  // Enqueues the operation; at a shape's first use outside of a capture several times, and waits.
  void run(const KernelLaunch& at, const device::AttentionForward& op, bool capturing);

  // "resident for 3 of 5 shapes", or nothing before the first choice.
  [[nodiscard]] std::string description() const;

 private:
  // Type, head size, heads, whether there is dropout, tokens, samples, stages of the longest.
  using Shape =
      std::tuple<device::Dtype, std::int64_t, int, bool, std::int64_t, std::int64_t, std::int64_t>;

  bool tune_;
  std::map<Shape, ForwardWay> chosen_;
};

}  // namespace regatta::trainer::cuda
