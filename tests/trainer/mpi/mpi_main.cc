// main() of tests on several ranks: the plug-in's communicator, and output of rank 0 only, unless
// another rank fails.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/error.h"
#include "tests/trainer/mpi/ranks.h"
#include "trainer/mpi_plugin.h"

namespace regatta::tests {
namespace {
std::unique_ptr<trainer::Communicator>& owned() {
  static std::unique_ptr<trainer::Communicator> communicator;
  return communicator;
}
}  // namespace

trainer::Communicator& ranks() { return *owned(); }

}  // namespace regatta::tests

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  auto& communicator = regatta::tests::owned();
  try {
    communicator = regatta::trainer::load_mpi_communicator({"", REGATTA_BINARY_DIR "/trainer"});
  } catch (const regatta::base::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  if (communicator->rank() != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
  }
  const int failed = RUN_ALL_TESTS();
  double failures = failed;
  communicator->all_reduce_sum_host(&failures, 1);
  if (failures > 0)
    std::printf("rank %d: %s\n", communicator->rank(), failed ? "failed" : "passed");
  communicator.reset();
  return failures > 0 ? 1 : 0;
}
