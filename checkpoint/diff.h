// How two checkpoints differ, tensor by tensor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"

namespace regatta::checkpoint {

// A tensor that both have with the same shape ([elements] where both have it in ranges). Norms are
// Euclidean, in float64, over the elements that are finite on both sides.
struct TensorDifference {
  std::string name;
  std::string dtype_a;
  std::string dtype_b;
  std::vector<std::int64_t> shape;
  double norm_a = 0;
  double norm_b = 0;
  double norm = 0;      // ‖a − b‖
  double relative = 0;  // ‖a − b‖ over the larger of ‖a‖, ‖b‖; 0 when all three are 0
  double largest = 0;   // |aᵢ − bᵢ|
  std::vector<std::int64_t> at;  // index of the first element where it is that large; empty: none
  std::int64_t not_finite_a = 0;
  std::int64_t not_finite_b = 0;
  bool same_bits = false;
};

struct TensorMisfit {
  std::string name;
  std::string what;  // "only in a", "shape [2, 3] in a, [3, 2] in b", …
};

struct CheckpointDifference {
  std::vector<TensorMisfit> misfits;      // by name
  std::vector<TensorDifference> tensors;  // those with other counts of non-finite elements first,
                                          // then by falling relative difference, then by name
};

// a, b: directories that hold the tensors of `kind` (kModel, kOptimizer) as JoinedReader reads
// them: how they are split makes no difference. Holds two tensors in memory at a time. Code::User
// for files that break the format, Code::NotFound for absent ones. Tensors of a type without a
// number (F8_…) are misfits.
[[nodiscard]] CheckpointDifference compare_checkpoints(base::FileSystem& files, const base::Path& a,
                                                       const base::Path& b, std::string_view kind);

// Reads all files of `kind`: why one is not what the manifest in the directory says, or nothing,
// also where there is no manifest to compare them with.
[[nodiscard]] std::optional<std::string> damage_of_kind(base::FileSystem& files,
                                                        const base::Path& directory,
                                                        std::string_view kind);

}  // namespace regatta::checkpoint
