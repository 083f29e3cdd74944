// Rank 1 of 3 is lost in the middle of a collective: it abandons the others, throws, or is killed.
// The collective is one of all ranks, or of the group of ranks 2 and 1, whose other member is in it
// while rank 0 waits for both. A second thread of each rank is in a channel meanwhile. The program
// must end, and with an error; mpirun takes the other ranks down.
#include <csignal>
#include <cstdio>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "trainer/plugins/mpi_plugin.h"

namespace {

using namespace regatta;  // this file only

void work(const std::string& way, bool in_group) {
  std::vector<float> values(1 << 20, 1.0F);  // lives longer than what reads it
  const auto ranks =
      trainer::plugins::load_mpi_communicator({"", REGATTA_BINARY_DIR "/trainer"}, {});
  const bool is_member = in_group && ranks->rank() > 0;
  const auto group = ranks->open_group(is_member ? std::vector<int>{2, 1} : std::vector<int>{});
  trainer::ranks::Communicator& used = is_member ? *group : *ranks;
  const trainer::device::View view{values.data(), static_cast<std::int64_t>(values.size()),
                                   trainer::device::Dtype::Float32};
  const auto channel = ranks->open_channel();
  const std::jthread beside([&channel](const std::stop_token& stop) {
    try {
      while (!stop.stop_requested()) channel->barrier();
    } catch (const base::Error& error) {
      std::fprintf(stderr, "beside: %s\n", error.what());
    }
  });
  for (int step = 0; step < 100; ++step) {
    const bool sums = is_member || !in_group;
    const trainer::ranks::Pending sum = sums ? used.all_reduce_sum(0, view) : 0;
    if (step == 5 && ranks->rank() == 1) {
      if (way == "killed") std::raise(SIGKILL);
      if (way == "abandons") {
        used.abandon();
        values = {};
      }
      throw base::Error(base::Code::User, "this rank cannot go on");
    }
    used.finish(0, sum);
    ranks->host().barrier();
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    work(argc > 1 ? argv[1] : "throws", argc > 2 && argv[2] == std::string("group"));
  } catch (const base::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
