// main() of tests on several ranks: the plug-in's communicator, and output of rank 0 only, unless
// another rank fails.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "base/error.h"
#include "tests/trainer/mpi/ranks.h"
#include "trainer/plugins/mpi_plugin.h"

namespace regatta::tests {
namespace {
std::unique_ptr<trainer::ranks::Communicator>& owned() {
  static std::unique_ptr<trainer::ranks::Communicator> communicator;
  return communicator;
}

// Of the ranks that print nothing else.
class FailurePrinter final : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::printf("rank %d, %s:%d: %s\n", owned()->rank(), result.file_name(), result.line_number(),
                result.message());
  }
};
}  // namespace

trainer::ranks::Communicator& ranks() { return *owned(); }

int ranks_per_node() {
  const char* text = std::getenv("REGATTA_TEST_RANKS_PER_NODE");
  return text == nullptr ? 0 : std::atoi(text);
}

}  // namespace regatta::tests

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  auto& communicator = regatta::tests::owned();
  try {
    communicator = regatta::trainer::plugins::load_mpi_communicator(
        {"", REGATTA_BINARY_DIR "/trainer"}, {regatta::tests::ranks_per_node()});
  } catch (const regatta::base::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  if (communicator->rank() != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new regatta::tests::FailurePrinter);  // gtest owns it
  }
  const int failed = RUN_ALL_TESTS();
  double failures = failed;
  communicator->host().all_reduce_sum(&failures, 1);
  if (failures > 0)
    std::printf("rank %d: %s\n", communicator->rank(), failed ? "failed" : "passed");
  communicator.reset();
  return failures > 0 ? 1 : 0;
}
