// What `regatta-train bench platform` measured of a machine (docs/formats/platform_bench.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace regatta::trainer::contract {

inline constexpr int kPlatformBenchFormat = 1;
// What is measured: figures of two benches with one number mean the same work.
inline constexpr int kPlatformWorkload = 1;
inline constexpr std::size_t kMostBenchBytes = std::size_t{256} << 10U;
inline constexpr std::size_t kMostBenchFigures = 500;

struct BenchFigure {
  std::string name;   // "product.cpu.float32.fc1": its part of the machine first
  std::string unit;   // "FLOP/s", "B/s", "samples/s", "s", "1"
  double value = 0;   // median over the repeats; above 0
  double spread = 0;  // base::robust_deviation() of the repeats, in the unit
  int repeats = 1;
  bool higher_is_better = true;
  std::string work;  // of a repeat, for people: "2·512·3072·768 FLOP"

  bool operator==(const BenchFigure&) const = default;
};

// A figure, or all that begin so, which the machine does not have.
struct MissingFigure {
  std::string name;
  std::string why;

  bool operator==(const MissingFigure&) const = default;
};

struct PlatformBench {
  int workload = kPlatformWorkload;
  std::string host;
  double utc = 0;      // when it began, in seconds since 1970
  double seconds = 0;  // that it took
  std::string version, commit;
  std::string processor;  // as the kernel calls it; empty: it does not
  int threads = 1;        // that it could use
  std::int64_t memory_bytes = 0;
  std::string gpu;              // empty: none that could be used
  std::string instruction_set;  // of the CPU's kernels
  std::string products;         // who multiplied on the CPU
  std::string file_system;      // of the directory that was written to
  double load_average = 0;      // of the minute before
  std::vector<BenchFigure> figures;
  std::vector<MissingFigure> absent;

  bool operator==(const PlatformBench&) const = default;
};

// "product" of "product.cpu.float32.fc1".
[[nodiscard]] std::string_view part_of(const BenchFigure& figure);
// Machines whose benches are compared: equal processor, threads and GPU.
[[nodiscard]] std::string machine_kind(const PlatformBench& bench);

[[nodiscard]] nlohmann::ordered_json to_json(const PlatformBench& bench);
// Throws Code::User, naming `source` and the key, for anything that to_json() would not write: an
// unknown key, a value that is not finite or out of range, a figure twice, more than
// kMostBenchFigures.
[[nodiscard]] PlatformBench parse_platform_bench(const nlohmann::ordered_json& json,
                                                 const std::string& source);
// The same of a file's text, at most kMostBenchBytes.
[[nodiscard]] PlatformBench parse_platform_bench(std::string_view text, const std::string& source);

}  // namespace regatta::trainer::contract
