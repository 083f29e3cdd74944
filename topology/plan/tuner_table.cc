#include "topology/plan/tuner_table.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "base/error.h"
#include "base/text.h"
#include "topology/tuner/plan_file.h"

namespace regatta::topology::plan {
namespace {

static_assert(tuner::kFileCollectives == nccl::kCollectives &&
              tuner::kFileAlgorithms == nccl::kAlgorithms &&
              tuner::kFileProtocols == nccl::kProtocols);
static_assert(tuner::kTree == static_cast<int>(nccl::Algorithm::Tree) &&
              tuner::kRing == static_cast<int>(nccl::Algorithm::Ring));
static_assert(tuner::kNoEnd == TunedRange::kNoEnd);

constexpr int kScopedSince = 22400;  // NCCL_ALGO=allreduce:…
// For collectives that NCCL_ALGO does not name. NCCL 2.31 and later strike all algorithms once the
// variable is set, and a NCCL_PROTO without a collective (the user's own, say) then leaves those
// without any (vllm-project/vllm issue 58179). Every collective has ring.
constexpr const char* kOtherCollectives = "ring,tree;";

tuner::FileRange in_file(const TunedRange& range) {
  tuner::FileRange entry = {};
  entry.from_bytes = range.from_bytes;
  entry.to_bytes = range.to_bytes;
  entry.us = range.us;
  entry.default_us = range.default_us;
  entry.collective = static_cast<std::uint8_t>(range.collective);
  entry.algorithm = static_cast<std::uint8_t>(range.way.algorithm);
  entry.protocol = static_cast<std::uint8_t>(range.way.protocol);
  entry.measured = range.measured ? 1 : 0;
  // Out of range stays so, for the judge to see.
  entry.channels = static_cast<std::uint16_t>(std::clamp(range.way.channels, -1, 0xffff));
  return entry;
}

TunedRange of_file(const tuner::FileRange& entry) {
  TunedRange range;
  range.collective = static_cast<nccl::Collective>(entry.collective);
  range.from_bytes = entry.from_bytes;
  range.to_bytes = entry.to_bytes;
  range.way = {static_cast<nccl::Algorithm>(entry.algorithm),
               static_cast<nccl::Protocol>(entry.protocol), entry.channels};
  range.us = entry.us;
  range.default_us = entry.default_us;
  range.measured = entry.measured != 0;
  return range;
}

std::string small_letters(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return text;
}

bool same_way(const nccl::Way& a, const nccl::Way& b) {
  return a.algorithm == b.algorithm && a.protocol == b.protocol && a.channels == b.channels;
}

// The one way of all calls between the two sizes, if it may be said by variables.
const nccl::Way* one_way(const std::vector<TunedRange>& sorted, nccl::Collective collective,
                         std::uint64_t least_bytes, std::uint64_t most_bytes) {
  const nccl::Way* way = nullptr;
  std::uint64_t covered = least_bytes;  // up to here
  for (const TunedRange& range : sorted) {
    if (range.collective != collective || range.to_bytes <= least_bytes) continue;
    if (range.from_bytes > covered) break;
    if (way != nullptr && !same_way(*way, range.way)) return nullptr;
    way = &range.way;
    covered = range.to_bytes;
    if (covered > most_bytes) break;
  }
  if (way == nullptr || (covered <= most_bytes && covered != TunedRange::kNoEnd)) return nullptr;
  const bool always =
      way->algorithm == nccl::Algorithm::Ring ||
      (way->algorithm == nccl::Algorithm::Tree && collective == nccl::Collective::AllReduce);
  return always && way->protocol != nccl::Protocol::Ll128 && way->channels == 0 ? way : nullptr;
}

std::vector<TunedRange> sorted(std::vector<TunedRange> ranges) {
  std::stable_sort(ranges.begin(), ranges.end(), [](const TunedRange& a, const TunedRange& b) {
    return std::tie(a.collective, a.from_bytes) < std::tie(b.collective, b.from_bytes);
  });
  return ranges;
}

}  // namespace

std::string to_tuner_file(const TunerTable& table) {
  tuner::FileHead head = {};
  std::memcpy(head.magic, tuner::kMagic, sizeof head.magic);
  head.version = tuner::kVersion;
  head.ranges = static_cast<std::uint32_t>(table.ranges.size());
  head.ranks = static_cast<std::uint32_t>(std::max(table.ranks, 0));
  head.nodes = static_cast<std::uint32_t>(std::max(table.nodes, 0));
  head.nccl_version = static_cast<std::uint32_t>(std::max(table.nccl_version, 0));
  std::string file(reinterpret_cast<const char*>(&head), sizeof head);
  for (const TunedRange& range : sorted(table.ranges)) {
    const tuner::FileRange entry = in_file(range);
    file.append(reinterpret_cast<const char*>(&entry), sizeof entry);
  }
  head.checksum = tuner::checksum_of(file.data(), file.size());
  std::memcpy(file.data(), &head, sizeof head);
  if (const char* complaint = tuner::complaint_of(file.data(), file.size())) {
    throw base::Error(base::Code::User, std::string("this table for NCCL cannot be written: it ") +
                                            complaint + "; plan again for one allocation");
  }
  return file;
}

TunerTable parse_tuner_file(std::string_view file, const std::string& source) {
  if (const char* complaint = tuner::complaint_of(file.data(), file.size())) {
    throw base::Error(base::Code::User,
                      base::printable(source) + ": plan.tuner " + complaint + "; plan again");
  }
  tuner::FileHead head;
  std::memcpy(&head, file.data(), sizeof head);
  TunerTable table;
  table.ranks = static_cast<int>(head.ranks);
  table.nodes = static_cast<int>(head.nodes);
  table.nccl_version = static_cast<int>(head.nccl_version);
  for (std::uint32_t i = 0; i < head.ranges; ++i) {
    table.ranges.push_back(of_file(tuner::range_at(file.data(), i)));
  }
  return table;
}

std::map<std::string, std::string> nccl_variables(const TunerTable& table,
                                                  std::uint64_t least_bytes,
                                                  std::uint64_t most_bytes) {
  if (table.nccl_version != 0 && table.nccl_version < kScopedSince) return {};
  const std::vector<TunedRange> ranges = sorted(table.ranges);
  std::vector<std::string> algorithms, protocols;
  for (int i = 0; i < nccl::kCollectives; ++i) {
    const auto collective = static_cast<nccl::Collective>(i);
    const nccl::Way* way = one_way(ranges, collective, least_bytes, most_bytes);
    if (way == nullptr) continue;
    const std::string name = small_letters(nccl::name_of(collective)) + ":";
    algorithms.push_back(name + small_letters(nccl::name_of(way->algorithm)));
    protocols.push_back(name + small_letters(nccl::name_of(way->protocol)));
  }
  if (algorithms.empty()) return {};
  return {{"NCCL_ALGO", kOtherCollectives + base::join(algorithms, ";")},
          {"NCCL_PROTO", base::join(protocols, ";")}};
}

}  // namespace regatta::topology::plan
