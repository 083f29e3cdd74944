#include "trainer/bench/bench_lengths.h"

#include <CLI/CLI.hpp>
#include <vector>

#include "base/error.h"

namespace regatta::trainer::bench {
namespace {

constexpr std::uint64_t kMaxTableBytes = 1U << 20U;
constexpr const char* kDefaultTable = "lengths_wikipedia_512.csv";

base::Path default_table(base::FileSystem& files, const base::Path& program) {
  const base::Path folder = program.parent_path();
  const base::Path installed = folder / ".." / REGATTA_DATA_DIRECTORY / "regatta" / "lengths";
  // PREFIX/bin/regatta-train; SOURCE/build/PRESET/trainer/regatta-train; or started in SOURCE.
  for (const base::Path& place :
       {installed, folder / ".." / ".." / ".." / "tests" / "data", base::Path("tests") / "data"}) {
    if (files.exists(place / kDefaultTable)) return place / kDefaultTable;
  }
  throw base::Error(base::Code::NotFound,
                    std::string(kDefaultTable) + " is not in " +
                        installed.lexically_normal().string() +
                        "; install regatta-train with cmake --install, which puts it there");
}

}  // namespace

void BenchLengths::add(CLI::App* app) {
  app->add_option("--lengths", path_,
                  "length table (low,high,fraction lines); left out: English Wikipedia's, to 512 "
                  "tokens");
}

contract::LengthTable BenchLengths::table(const base::Path& program) const {
  base::FileSystem& files = base::posix_file_system();
  const base::Path path = path_.empty() ? default_table(files, program) : base::Path(path_);
  return contract::LengthTable::parse(files.read(path, kMaxTableBytes), path.string());
}

std::string BenchLengths::name() const {
  return path_.empty() ? kDefaultTable : base::Path(path_).filename().string();
}

}  // namespace regatta::trainer::bench
