// One rank of a run whose gradients go over an artificial link: slow_link_run DIRECTORY RANKS
// LATENCY_SECONDS BYTES_PER_SECOND [SUMS], started by mpirun. After so many sums rank 1 kills
// itself.
#include <signal.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "trainer/ranks/borrowed_communicator.h"
#include "trainer/ranks/delayed_communicator.h"
#include "trainer/run/launcher.h"
#include "trainer/run/stop_signals.h"
#include "trainer/run/training_run.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

class Mortal final : public ranks::BorrowedCommunicator {
 public:
  Mortal(ranks::Communicator& real, std::int64_t sums)
      : ranks::BorrowedCommunicator(real), sums_left_(sums) {}
  [[nodiscard]] ranks::Pending all_reduce_sum(device::Stream stream, device::View x) override {
    if (--sums_left_ == 0 && rank() == 1) ::raise(SIGKILL);
    return ranks::BorrowedCommunicator::all_reduce_sum(stream, x);
  }

 private:
  std::int64_t sums_left_;
};

int run(const std::vector<std::string>& arguments) {
  ranks::LinkModel link;
  link.latency_seconds = base::parse_number(arguments.at(3)).value();
  link.bytes_per_second = base::parse_number(arguments.at(4)).value();
  const std::int64_t sums =
      arguments.size() > 5 ? base::parse_integer(arguments[5]).value() : std::int64_t{0};
  std::unique_ptr<ranks::Communicator> around;
  run::TrainingRunOptions options;
  options.ranks = static_cast<int>(base::parse_integer(arguments.at(2)).value());
  options.place.program = std::filesystem::read_symlink("/proc/self/exe").string();
  options.place.plugin_directory = REGATTA_BINARY_DIR "/trainer";
  options.variables = ranks::process_variables();
  options.rank_place = ranks::rank_place(options.variables);
  options.around = [&](ranks::Communicator& real) -> ranks::Communicator& {
    around = ranks::make_delayed_communicator(std::make_unique<Mortal>(real, sums),
                                              base::system_clock(), link);
    return *around;
  };
  run::catch_stop_signals();
  base::FileSystem& files = base::posix_file_system();
  return static_cast<int>(run::train(files, base::system_clock(),
                                     contract::RunDirectory::open(files, arguments.at(1)), options)
                              .code);
}

}  // namespace
}  // namespace regatta::tests

int main(int argc, char** argv) {
  regatta::base::start_log("slow_link_run", regatta::base::LogLevel::Info);
  try {
    return regatta::tests::run({argv, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 70;
  }
}
