// The loader with real files and the real dlopen: every way in which a plug-in can be wrong, and
// one that works.
#include "trainer/plugins/cuda_plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "trainer/cuda/plugin.h"

namespace regatta::trainer {
namespace {

using testing::HasSubstr;
using testing::Not;

const base::Path kPlugins = PLUGINS;

class CudaPlugin : public testing::Test {
 protected:
  CudaPlugin() {
    std::string name = testing::TempDir() + "regatta-plugin-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  ~CudaPlugin() override { std::filesystem::remove_all(directory_); }

  static void expect_refusal(const plugins::PluginPlace& place, base::Code code,
                             const std::vector<std::string>& words) {
    cuda::CudaOptions options;
    options.index = 5;
    try {
      static_cast<void>(plugins::load_cuda_device(place, options));
      ADD_FAILURE() << "loaded from " << place.directory << place.program;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      for (const std::string& word : words) EXPECT_THAT(error.what(), HasSubstr(word));
      EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
    }
  }

  base::Path directory_;
};

TEST_F(CudaPlugin, SaysWhereItLooked) {
  const std::string here = directory_.string();
  expect_refusal({directory_ / "bin" / "regatta-train", {}}, base::Code::Operator,
                 {"libregatta-cuda.so is not in " + here + "/bin, " + here + "/lib",
                  "CMake preset cuda", "REGATTA_PLUGIN_DIR", "device cpu"});
  expect_refusal({directory_ / "bin" / "regatta-train", directory_ / "elsewhere"},
                 base::Code::Operator, {"is not in " + here + "/elsewhere;"});
}

TEST_F(CudaPlugin, RefusesWhatIsNoLibrary) {
  const base::Path path = directory_ / cuda::kCudaPluginFile;
  std::ofstream(path) << "";
  expect_refusal({{}, directory_}, base::Code::Operator, {"cannot load " + path.string()});
  std::ofstream(path) << "#!/bin/sh\necho hello\n";
  expect_refusal({{}, directory_}, base::Code::Operator, {"cannot load", "LD_LIBRARY_PATH"});
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  expect_refusal({{}, directory_}, base::Code::Operator, {"cannot load"});
  std::filesystem::remove(path);
  std::filesystem::create_symlink("nowhere", path);
  expect_refusal({{}, directory_}, base::Code::Operator, {"is not in"});
}

TEST_F(CudaPlugin, RefusesWhatIsNotThisProgramsPlugin) {
  const struct {
    const char* directory;
    base::Code code;
    std::vector<std::string> words;
  } cases[] = {
      {"stranger", base::Code::Operator, {"is not a plug-in", cuda::kCudaVersionFunction}},
      {"older",
       base::Code::Operator,
       {"\"regatta-cuda 0 of 0.0.9\"", cuda::kCudaPluginVersion, "one build"}},
      {"halved", base::Code::Operator, {"is not a plug-in", cuda::kCudaMakeFunction}},
      {"incomplete", base::Code::Operator, {"cannot load", "a_function_of_another_cublas"}},
      {"refusing", base::Code::Retry, {"no GPU 5 today"}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.directory);
    expect_refusal({{}, kPlugins / c.directory}, c.code, c.words);
  }
}

// Names from outside reach a terminal.
TEST_F(CudaPlugin, EscapesNames) {
  expect_refusal({{}, directory_ / "a\x1b[2Jb\n"}, base::Code::Operator, {"a\\x1b[2Jb\\n"});
}

TEST_F(CudaPlugin, IsFoundBesideTheProgramAndInLib) {
  for (const char* place : {"bin", "lib"}) {
    const base::Path root = directory_ / ("found-in-" + std::string(place));
    std::filesystem::create_directories(root / "bin");
    std::filesystem::create_directories(root / place);
    std::filesystem::copy_file(kPlugins / "refusing" / cuda::kCudaPluginFile,
                               root / place / cuda::kCudaPluginFile);
    expect_refusal({root / "bin" / "regatta-train", {}}, base::Code::Retry, {"no GPU 5 today"});
  }
}

#if defined(EMULATED_PLUGIN)
TEST_F(CudaPlugin, GivesADeviceThatWorks) {
  cuda::CudaOptions options;
  options.tune_products = false;
  const std::unique_ptr<device::Device> device =
      plugins::load_cuda_device({{}, kPlugins / "emulated"}, options);
  EXPECT_THAT(device->description(), HasSubstr("compute capability 9.0"));
  const std::vector<float> a = {1, 2, 3, 4}, b = {5, 6, 7, 8};
  const device::DeviceMemory memory(*device, 192, device::Dtype::Float32);
  device::Gemm op;
  op.m = op.n = op.k = 2;
  op.a = memory.view().slice(0, 4);
  op.b = memory.view().slice(64, 4);
  op.c = memory.view().slice(128, 4);
  device->copy_to_device(0, op.a, a.data());
  device->copy_to_device(0, op.b, b.data());
  device->gemm(0, op);
  std::vector<float> c(4);
  device->copy_to_host(0, c.data(), op.c);
  device->synchronize();
  EXPECT_EQ(c, (std::vector<float>{19, 22, 43, 50}));
  // Its errors are ours, too, across the border of the library.
  EXPECT_THROW(static_cast<void>(device->allocate(std::int64_t{1} << 60)), base::Error);
  cuda::CudaOptions beyond;
  beyond.index = 9;
  try {
    static_cast<void>(plugins::load_cuda_device({{}, kPlugins / "emulated"}, beyond));
    FAIL() << "there is no tenth GPU";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::User);
    EXPECT_THAT(error.what(), HasSubstr("GPU 9 was asked for"));
  }
}
#endif

#if defined(REAL_PLUGIN)
// With a GPU it is one; without, the reason is among those that have words of their own. Either way
// it loads, which a library linked with the driver would not.
TEST_F(CudaPlugin, TheRealOneLoads) {
  try {
    const std::unique_ptr<Device> device =
        load_cuda_device({{}, base::Path(REAL_PLUGIN).parent_path()}, {});
    EXPECT_THAT(device->description(), HasSubstr("compute capability"));
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::Operator);
    EXPECT_THAT(error.what(),
                testing::AnyOf(HasSubstr("no NVIDIA driver"), HasSubstr("driver is too old"),
                               HasSubstr("no NVIDIA GPU"), HasSubstr("compute capability")));
  }
}
#endif

}  // namespace
}  // namespace regatta::trainer
