// What runs found out about the cut of their gradient, kept for later runs on the like: one small
// file for each key in RUNS/.plans (docs/formats/topology.md). Checkpoints carry the same text.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "topology/plan/plan.h"

namespace regatta::topology::plan {

constexpr const char* kPlansFolder = ".plans";  // beside the runs

// What has to be alike for a measured cut to be worth a try.
struct PlanKey {
  std::string topology;      // of plan.json; empty: there was none, or it does not know
  std::string communicator;  // library with version, "NCCL 2.28.9"; and how it sums, if not flat
  std::string device;        // of rank 0, as the journal describes it
  std::string model;         // fingerprint of the model's shape
  int ranks = 1;
  int ranks_per_node = 1;
  bool operator==(const PlanKey&) const = default;
};

struct StoredPlan {
  PlanKey key;
  Plan plan;                    // measured; its alternatives are what was tried
  std::vector<Bucket> planned;  // the cut of plan.json that was tried, too; empty: there was none
  double utc_seconds = 0;       // when it was found
};

// "<32 hexadecimal digits>.json"
[[nodiscard]] std::string plan_file_name(const PlanKey& key);

// parse throws Code::User naming `source` and what is wrong; the plan's buckets as parse_plan
// checks them.
[[nodiscard]] std::string to_json(const StoredPlan& stored);
[[nodiscard]] StoredPlan parse_stored_plan(const std::string& text, const std::string& source,
                                           std::optional<int> tensor_count);

// The plan of exactly this key in `folder`; nothing when there is none. A file that cannot be read,
// is damaged or of another key is passed over with a warning in the log.
[[nodiscard]] std::optional<StoredPlan> read_stored_plan(base::FileSystem& files,
                                                         const base::Path& folder,
                                                         const PlanKey& key,
                                                         std::optional<int> tensor_count);
// All that can be read there, in the order of their names, for who knows only a part of a key.
[[nodiscard]] std::vector<StoredPlan> list_stored_plans(base::FileSystem& files,
                                                        const base::Path& folder);

// Makes the folder if need be (its parent exists) and puts the file there, in place of what was
// there before. Throws what the file system throws.
void write_stored_plan(base::FileSystem& files, const base::Path& folder, const StoredPlan& stored);

}  // namespace regatta::topology::plan
