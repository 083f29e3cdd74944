// The table of NVIDIA's example plug-in, in and out.
#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/ascii.h"
#include "base/error.h"
#include "base/text.h"
#include "topology/plan/tuner_table.h"
#include "topology/tuner/plan_file.h"

namespace regatta::topology::plan {
namespace {

// By our numbers.
constexpr std::array<const char*, nccl::kCollectives> kCollectiveNames = {
    "broadcast", "reduce", "allgather", "reducescatter", "allreduce"};
constexpr std::array<const char*, nccl::kAlgorithms> kAlgorithmNames = {
    "tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"};
constexpr std::array<const char*, nccl::kProtocols> kProtocolNames = {"ll", "ll128", "simple"};

constexpr std::size_t kLeastColumns = 8, kMostColumns = 10;
constexpr std::size_t kMostLineBytes = 255;  // what the plug-in reads at once

std::string any_or(int number) { return number == 0 ? "-1" : std::to_string(number); }

class Line {
 public:
  Line(std::string_view text, std::string place) : place_(std::move(place)) {
    for (const std::string& field : base::split(text, ',')) {
      fields_.emplace_back(base::trimmed(field));
    }
    if (text.size() > kMostLineBytes) fail("a line of more than 255 bytes; the plug-in cuts it");
    if (fields_.size() < kLeastColumns || fields_.size() > kMostColumns) {
      fail(std::to_string(fields_.size()) +
           " columns; use 8 to 10: collective,least bytes,most "
           "bytes,algorithm,protocol,channels,nodes,ranks[,operations[,registered]]");
    }
    for (std::size_t i = kLeastColumns; i < fields_.size(); ++i) {
      if (fields_[i] != "-1") fail("a choice by operations or registered buffers; use -1 for any");
    }
  }

  template <std::size_t Count>
  [[nodiscard]] int name(std::size_t column, const std::array<const char*, Count>& names) const {
    const auto found = std::find(names.begin(), names.end(), fields_[column]);
    if (found == names.end()) {
      fail("'" + base::printable(fields_[column].substr(0, 40)) + "' is not a name; use one of " +
           base::join(std::vector<std::string>(names.begin(), names.end()), ", "));
    }
    return static_cast<int>(found - names.begin());
  }
  [[nodiscard]] std::uint64_t bytes(std::size_t column) const {
    const std::string& text = fields_[column];
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) {
      fail("'" + base::printable(text.substr(0, 40)) + "' is not a number of bytes");
    }
    return value;
  }
  // 0 for -1.
  [[nodiscard]] int number(std::size_t column, int most) const {
    const auto value = base::parse_integer(fields_[column]);
    if (!value || *value < -1 || *value > most) {
      fail("'" + base::printable(fields_[column].substr(0, 40)) + "' where -1 to " +
           std::to_string(most) + " may stand");
    }
    return static_cast<int>(std::max<std::int64_t>(*value, 0));
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw base::Error(base::Code::User, place_ + ": " + what);
  }

 private:
  std::string place_;
  std::vector<std::string> fields_;
};

TunedRange range_of(const Line& line) {
  TunedRange range;
  range.collective = static_cast<nccl::Collective>(line.name(0, kCollectiveNames));
  range.from_bytes = line.bytes(1);
  const std::uint64_t most = line.bytes(2);
  if (most < range.from_bytes) line.fail("most bytes are less than least bytes");
  range.to_bytes = most == TunedRange::kNoEnd ? most : most + 1;
  range.way.algorithm = static_cast<nccl::Algorithm>(line.name(3, kAlgorithmNames));
  range.way.protocol = static_cast<nccl::Protocol>(line.name(4, kProtocolNames));
  range.way.channels = line.number(5, tuner::kMostChannels);
  return range;
}

}  // namespace

std::string to_example_csv(const TunerTable& table) {
  std::string text =
      "# collective,least bytes,most bytes,algorithm,protocol,channels,nodes,ranks\n";
  const std::string machine = any_or(table.nodes) + "," + any_or(table.ranks);
  for (const TunedRange& range : table.ranges) {
    const std::uint64_t most =
        range.to_bytes == TunedRange::kNoEnd ? range.to_bytes : range.to_bytes - 1;
    text += std::string(kCollectiveNames[static_cast<std::size_t>(range.collective)]) + "," +
            std::to_string(range.from_bytes) + "," + std::to_string(most) + "," +
            kAlgorithmNames[static_cast<std::size_t>(range.way.algorithm)] + "," +
            kProtocolNames[static_cast<std::size_t>(range.way.protocol)] + "," +
            std::to_string(range.way.channels) + "," + machine + "\n";
  }
  return text;
}

TunerTable parse_example_csv(std::string_view text, const std::string& source) {
  TunerTable table;
  int number = 0;
  for (const std::string& raw : base::split(text, '\n')) {
    ++number;
    if (base::trimmed(raw).empty() || raw.front() == '#') continue;
    const Line line(raw, base::printable(source) + ":" + std::to_string(number));
    const TunedRange range = range_of(line);
    const int nodes = line.number(6, nccl::CostModel::kMostRanks);
    const int ranks = line.number(7, nccl::CostModel::kMostRanks);
    if (table.ranges.empty()) {
      table.nodes = nodes;
      table.ranks = ranks;
    } else if (table.nodes != nodes || table.ranks != ranks) {
      line.fail("another number of nodes or ranks than before; keep a file for each");
    }
    if (table.ranges.size() == tuner::kMostRanges) line.fail("more than 4096 lines");
    table.ranges.push_back(range);
  }
  std::stable_sort(
      table.ranges.begin(), table.ranges.end(), [](const TunedRange& a, const TunedRange& b) {
        return std::pair(a.collective, a.from_bytes) < std::pair(b.collective, b.from_bytes);
      });
  for (std::size_t i = 1; i < table.ranges.size(); ++i) {
    const TunedRange &before = table.ranges[i - 1], &range = table.ranges[i];
    if (before.collective != range.collective || before.to_bytes <= range.from_bytes) continue;
    throw base::Error(base::Code::User,
                      base::printable(source) + ": two lines for " +
                          kCollectiveNames[static_cast<std::size_t>(range.collective)] + " of " +
                          std::to_string(range.from_bytes) +
                          " bytes; keep one (the plug-in takes the first)");
  }
  return table;
}

}  // namespace regatta::topology::plan
