// plan.tuner: in which calls NCCL is to take another way than its own. Written by tuner_table.cc,
// read by the tuner plug-in, which has no C++ library; so this header needs none either.
//
// A head of 40 bytes, then 40 bytes for each range, little-endian, without padding: what lies in
// the file is what the plug-in searches, so that it parses nothing. Ranges are sorted by collective
// and by bytes, and do not overlap. The checksum is FNV-1a (64 bits) over the whole file with the
// checksum itself taken as 0: each of its steps is one to one, so that no change of a single byte
// keeps it. It finds damage, not tampering.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace regatta::topology::tuner {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "plan.tuner is little-endian");

inline constexpr char kMagic[8] = {'R', 'G', 'T', 'T', 'U', 'N', 'E', 'R'};
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::uint32_t kMostRanges = 4096;
inline constexpr std::uint16_t kMostChannels = 64;  // NCCL's MAXCHANNELS
inline constexpr std::uint32_t kMostRanks = 1U << 20;
inline constexpr std::uint32_t kNewestNccl = 999999;  // 99.99.99
inline constexpr std::uint64_t kNoEnd = ~std::uint64_t{0};

// Collectives, algorithms and protocols by NCCL's own numbers, which are those of nccl_tables.h.
inline constexpr int kFileCollectives = 5, kFileAlgorithms = 7, kFileProtocols = 3;
inline constexpr int kTree = 0, kRing = 1;

struct FileHead {
  char magic[8];
  std::uint32_t version;
  std::uint32_t ranges;
  std::uint64_t checksum;
  std::uint32_t ranks, nodes;  // of the communicators that it is for
  std::uint32_t nccl_version;  // 22809 for 2.28.9; 0: any
  std::uint32_t zero;
};
static_assert(sizeof(FileHead) == 40);

struct FileRange {
  std::uint64_t from_bytes, to_bytes;  // to_bytes is not of it; kNoEnd: no end
  double us, default_us;  // of a call of from_bytes, and by NCCL's own way; 0: not known
  std::uint8_t collective, algorithm, protocol;
  std::uint8_t measured;   // 1, or 0 for modelled
  std::uint16_t channels;  // 0: as many as NCCL takes
  std::uint16_t zero;
};
static_assert(sizeof(FileRange) == 40);

inline constexpr std::size_t kMostFileBytes = sizeof(FileHead) + kMostRanges * sizeof(FileRange);

[[nodiscard]] inline std::uint64_t checksum_of(const void* file, std::size_t size) {
  constexpr std::size_t kAt = offsetof(FileHead, checksum);
  const auto* bytes = static_cast<const unsigned char*>(file);
  std::uint64_t sum = 0xcbf29ce484222325U;
  for (std::size_t i = 0; i < size; ++i) {
    const bool itself = i >= kAt && i < kAt + sizeof(std::uint64_t);
    sum = (sum ^ (itself ? 0U : bytes[i])) * 0x100000001b3U;
  }
  return sum;
}

[[nodiscard]] inline bool is_time(double us) { return us >= 0 && us < 1e15; }  // not of a NaN

[[nodiscard]] inline bool is_range(const FileRange& range) {
  const bool known = range.collective < kFileCollectives && range.algorithm < kFileAlgorithms &&
                     range.protocol < kFileProtocols && range.measured <= 1 && range.zero == 0;
  // More channels than a communicator has are harmless for these two: NCCL takes what there is. For
  // NVLS and CollNet it takes the number as it comes.
  const bool channels =
      range.channels == 0 ||
      (range.channels <= kMostChannels && (range.algorithm == kTree || range.algorithm == kRing));
  return known && channels && range.from_bytes < range.to_bytes && is_time(range.us) &&
         is_time(range.default_us);
}

[[nodiscard]] inline FileRange range_at(const void* file, std::size_t index) {
  FileRange range;
  const auto* bytes = static_cast<const unsigned char*>(file);
  std::memcpy(&range, bytes + sizeof(FileHead) + index * sizeof range, sizeof range);
  return range;
}

// Null for a file that may be used; else what is wrong with it, to complete "plan.tuner …".
[[nodiscard]] inline const char* complaint_of(const void* file, std::size_t size) {
  FileHead head;
  if (size < sizeof head) return "is cut off";
  std::memcpy(&head, file, sizeof head);
  if (std::memcmp(head.magic, kMagic, sizeof kMagic) != 0) return "is not a plan for the tuner";
  if (head.version != kVersion) return "is of another version";
  if (head.ranges > kMostRanges) return "has too many ranges";
  if (size != sizeof head + head.ranges * sizeof(FileRange)) return "is cut off or too long";
  if (head.checksum != checksum_of(file, size)) return "is damaged (its checksum differs)";
  const bool possible = head.nodes >= 1 && head.ranks >= head.nodes && head.ranks <= kMostRanks &&
                        head.nccl_version <= kNewestNccl && head.zero == 0;
  if (!possible) return "is for no communicator";
  FileRange before = {};
  for (std::uint32_t i = 0; i < head.ranges; ++i) {
    const FileRange range = range_at(file, i);
    if (!is_range(range)) return "has a range that cannot be";
    const bool follows =
        i == 0 || range.collective > before.collective ||
        (range.collective == before.collective && range.from_bytes >= before.to_bytes);
    if (!follows) return "has ranges out of order";
    before = range;
  }
  return nullptr;
}

}  // namespace regatta::topology::tuner
