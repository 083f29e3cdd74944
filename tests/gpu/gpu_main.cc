// main() of the tests on a GPU. A kernel that faults makes CUDA's context unusable for as long as
// its process lives: every later call fails, and so would every later test. So the GPU is waited
// for after each test, which also makes a fault that test's in whose work it was; where that fails
// the process ends at once, with CUDA's words and an exit code of its own (gpu.h).
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>

#include "tests/gpu/gpu.h"

namespace regatta::tests {
namespace {

[[noreturn]] void end(const char* what, const std::exception& error, int code) {
  std::printf("%s: %s\n", what, error.what());
  std::fflush(stdout);
  std::_Exit(code);  // nothing of CUDA's may run any more
}

class EndOnFault final : public testing::EmptyTestEventListener {
 public:
  void OnTestProgramStart(const testing::UnitTest&) override {
    try {
      device_ = make_gpu({});
    } catch (const std::exception& error) {
      end("no GPU to test on", error, 2);
    }
  }
  // Listeners are called last to first here, so this line comes before the test's result, which
  // is then never printed.
  void OnTestEnd(const testing::TestInfo&) override {
    try {
      device_->synchronize();
    } catch (const std::exception& error) {
      end("GPU fault", error, kGpuFaultExit);
    }
  }
  void OnTestProgramEnd(const testing::UnitTest&) override { device_.reset(); }

 private:
  std::unique_ptr<trainer::device::Device> device_;  // of the context that all tests share
};

}  // namespace
}  // namespace regatta::tests

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  testing::UnitTest::GetInstance()->listeners().Append(new regatta::tests::EndOnFault);
  return RUN_ALL_TESTS();
}
