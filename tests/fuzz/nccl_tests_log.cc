// Any bytes may stand where nccl-tests' output should: one clear error, or measurements that a
// curve can be fitted to.
#include "topology/nccl/nccl_tests_log.h"

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "topology/nccl/measured_curve.h"

using regatta::base::check;
using namespace regatta::topology;

namespace {

// A machine of so many GPUs, on as few nodes as the log lets it have.
nccl::Allocation machine_of(const nccl::NcclTestLog& log) {
  nccl::Allocation allocation;
  const bool even = log.nodes > 0 && log.ranks % log.nodes == 0;
  allocation.nodes = even ? log.nodes : 1;
  allocation.ranks_per_node = log.ranks / allocation.nodes;
  allocation.compute_capability = 90;
  allocation.gb_per_s_within = 370.8;
  allocation.nvswitch = true;
  allocation.nics = 8;
  allocation.gb_per_s_a_nic = 50;
  return allocation;
}

void check_predictions(const nccl::NcclTestLog& log) {
  if (!log.collective || log.ranks < 2) return;
  const nccl::CostModel model(machine_of(log));
  (void)nccl::misfit(model, log);
  const auto curve = nccl::MeasuredCurve::fit(model, {*log.collective, {}}, nccl::samples_of(log));
  for (std::uint64_t bytes = 1; bytes < std::uint64_t{1} << 62; bytes *= 8) {
    const nccl::Prediction predicted = curve.predict(model, bytes);
    check(std::isfinite(predicted.us) && predicted.us > 0, "a time is predicted");
    check(predicted.low_us <= predicted.us && predicted.us <= predicted.high_us, "in its interval");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const nccl::NcclTestLog log =
        nccl::parse_nccl_tests_log({reinterpret_cast<const char*>(data), size}, "fuzz");
    check(!log.rows.empty() && log.rows.size() <= nccl::kMostLogRows, "it has rows");
    for (std::size_t i = 0; i < log.rows.size(); ++i) {
      check(log.rows[i].us() > 0, "every row has a time");
      check(i == 0 || log.rows[i - 1].bytes < log.rows[i].bytes, "rows grow");
    }
    check(!nccl::samples_of(log).empty(), "not all of them are disturbed");
    check_predictions(log);
  } catch (const regatta::base::Error& error) {
    check(error.code() == regatta::base::Code::User, "bad text is the user's to change");
    check(std::string_view(error.what()).find('\n') == std::string_view::npos, "one line");
  }
  return 0;
}
