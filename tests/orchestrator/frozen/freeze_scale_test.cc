#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "orchestrator/frozen/changes.h"
#include "orchestrator/frozen/freeze.h"
#include "tests/orchestrator/frozen/work_tree.h"

namespace regatta::orchestrator::frozen {
namespace {

using Timer = std::chrono::steady_clock;

double seconds_since(Timer::time_point begin) {
  return std::chrono::duration<double>(Timer::now() - begin).count();
}

// Nobody waits for a submission: 10,000 files, of 8 kB on the average, in 2 s.
TEST(FreezeScale, TenThousandFilesInTwoSeconds) {
  const TestTree tree;
  const auto written = Timer::now();
  for (int i = 0; i < 10'000; ++i) {
    const std::string path = "pkg" + std::to_string(i % 97) + "/mod" + std::to_string(i % 13) +
                             "/file" + std::to_string(i) + ".py";
    tree.write(path, path + std::string(static_cast<std::size_t>(i % 160) * 100, 'x'));
  }
  const double plain = seconds_since(written);
  tree.commit_all();
  double first = 1e9;
  double again = 1e9;
  double compared = 1e9;
  for (int repeat = 0; repeat < 3; ++repeat) {
    FreezeRequest request;
    request.store = tree.store() / std::to_string(repeat);
    request.directory = tree.root();
    auto begin = Timer::now();
    ASSERT_EQ(freeze(request).job.files.size(), 10'000u);
    first = std::min(first, seconds_since(begin));
    begin = Timer::now();
    const Frozen frozen = freeze(request);
    again = std::min(again, seconds_since(begin));
    begin = Timer::now();
    EXPECT_TRUE(changes_since(frozen.job, frozen.folder).changes.empty());
    compared = std::min(compared, seconds_since(begin));
  }
  std::printf(
      "10,000 files: written in %.2f s, frozen in %.2f s, again in %.2f s, compared in %.2f s\n",
      plain, first, again, compared);
  // A disk that takes long to write them at all is not what is measured.
  EXPECT_LE(first, std::max(2.0, 3 * plain));
  EXPECT_LE(again, std::max(2.0, 3 * plain));
}

}  // namespace
}  // namespace regatta::orchestrator::frozen
