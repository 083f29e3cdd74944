#pragma once

namespace regatta::topology::plan {

// A bucket is a slice of the gradient arena in tensor-table order: entries [begin, end).
struct Bucket {
  int begin_tensor = 0;
  int end_tensor = 0;
  bool operator==(const Bucket&) const = default;
};

}  // namespace regatta::topology::plan
