// The plan of a run: what the planner decided and the trainer obeys. Without a planner the trainer
// runs with default_plan().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace regatta::topology {

// A bucket is a slice of the gradient arena in tensor-table order: entries [begin, end).
struct Bucket {
  int begin_tensor = 0;
  int end_tensor = 0;
};

struct Plan {
  int ranks = 1;
  std::vector<Bucket> buckets;  // in the order of reduction, covering the tensor table
  std::string why;              // one sentence
  bool measured = false;        // else modelled
};

// One bucket over `tensor_count` tensors: right for one rank, where nothing is reduced.
[[nodiscard]] Plan default_plan(int tensor_count);

// plan.json in and out. parse throws Code::User naming `source` and what is wrong: buckets must
// cover [0, tensor_count) without gap or overlap.
[[nodiscard]] std::string to_json(const Plan& plan);
[[nodiscard]] Plan parse_plan(const std::string& text, const std::string& source, int tensor_count);

}  // namespace regatta::topology
