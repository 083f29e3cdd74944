#include "topology/plan/plan_store.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/digest.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"

namespace regatta::topology::plan {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 20U;
constexpr int kMaxDepth = 8;
constexpr std::size_t kMaxListed = 4096;  // files of a folder

class Fields {
 public:
  Fields(const std::string& text, std::string source) : source_(std::move(source)) {
    // The parser takes a NUL byte for the end of its input.
    const bool sound = text.size() <= kMaxBytes && text.find('\0') == std::string::npos &&
                       base::json_depth_at_most(text, kMaxDepth);
    if (sound) json_ = base::parse_json<Json>(text);
    if (!json_.is_object()) fail("is no JSON object of at most 1 MiB");
  }
  [[nodiscard]] std::string text(const char* name) const {
    const Json& value = at(name);
    if (!value.is_string()) fail(std::string(name) + " is not a string");
    return value.get<std::string>();
  }
  [[nodiscard]] int count(const char* name) const {
    const Json& value = at(name);
    const double number = value.is_number_integer() ? value.get<double>() : 0;
    if (number < 1 || number > 1 << 30) fail(std::string(name) + " is not a number from 1");
    return value.get<int>();
  }
  [[nodiscard]] double seconds(const char* name) const {
    const Json& value = at(name);
    if (!value.is_number() || !std::isfinite(value.get<double>())) {
      fail(std::string(name) + " is not a number");
    }
    return value.get<double>();
  }
  [[nodiscard]] std::vector<Bucket> buckets(const char* name, int last) const {
    const Json& value = at(name);
    if (!value.is_array()) fail(std::string(name) + " is not a list");
    std::vector<Bucket> buckets;
    int begin = 0;
    for (const Json& end : value) {
      const double number = end.is_number_integer() ? end.get<double>() : 0;
      if (number <= begin || number > last) fail(std::string(name) + " does not grow");
      buckets.push_back({begin, end.get<int>()});
      begin = buckets.back().end_tensor;
    }
    if (!buckets.empty() && begin != last) fail(std::string(name) + " does not end with the plan");
    return buckets;
  }
  [[nodiscard]] const Json& at(const char* name) const {
    const auto found = json_.find(name);
    if (found == json_.end()) fail(std::string(name) + " is missing");
    return *found;
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw base::Error(base::Code::User, base::printable(source_) + ": " + what +
                                            "; remove the file, the next run writes it again");
  }

 private:
  std::string source_;
  Json json_;
};

// Nothing for a file that is not there, or cannot be used; then the log says why.
std::optional<StoredPlan> read_file(base::FileSystem& files, const base::Path& path,
                                    std::optional<int> tensor_count) {
  try {
    if (!files.exists(path)) return std::nullopt;
    return parse_stored_plan(files.read(path, kMaxBytes), path.string(), tensor_count);
  } catch (const base::Error& error) {
    base::log(base::LogLevel::Warning, std::string("a stored plan is not used: ") + error.what());
    return std::nullopt;
  }
}

}  // namespace

std::string plan_file_name(const PlanKey& key) {
  // A list, so that no text can pass for two.
  const Json parts{key.topology, key.communicator, key.device,
                   key.model,    key.ranks,        key.ranks_per_node};
  return base::digest_of(base::json_text(parts)) + ".json";
}

std::string to_json(const StoredPlan& stored) {
  Json json;
  json["regatta_stored_plan"] = kFormat;
  json["topology"] = stored.key.topology;
  json["communicator"] = stored.key.communicator;
  json["device"] = stored.key.device;
  json["model"] = stored.key.model;
  json["ranks"] = stored.key.ranks;
  json["ranks_per_node"] = stored.key.ranks_per_node;
  json["utc_seconds"] = stored.utc_seconds;
  json["planned_ends"] = Json::array();
  for (const Bucket& bucket : stored.planned) json["planned_ends"].push_back(bucket.end_tensor);
  json["plan"] = base::parse_json<Json>(to_json(stored.plan));
  return base::json_text(json, 1) + "\n";
}

StoredPlan parse_stored_plan(const std::string& text, const std::string& source,
                             std::optional<int> tensor_count) {
  const Fields fields(text, source);
  if (fields.count("regatta_stored_plan") != kFormat) fields.fail("is of another version");
  StoredPlan stored;
  stored.key.topology = fields.text("topology");
  stored.key.communicator = fields.text("communicator");
  stored.key.device = fields.text("device");
  stored.key.model = fields.text("model");
  stored.key.ranks = fields.count("ranks");
  stored.key.ranks_per_node = fields.count("ranks_per_node");
  stored.utc_seconds = fields.seconds("utc_seconds");
  const std::string plan = base::json_text(fields.at("plan"));
  stored.plan = parse_plan(plan, source, tensor_count);
  if (stored.plan.buckets.empty()) fields.fail("has no buckets");
  if (stored.plan.ranks != stored.key.ranks) fields.fail("is for two numbers of ranks");
  stored.planned = fields.buckets("planned_ends", stored.plan.buckets.back().end_tensor);
  return stored;
}

std::optional<StoredPlan> read_stored_plan(base::FileSystem& files, const base::Path& folder,
                                           const PlanKey& key, std::optional<int> tensor_count) {
  const base::Path path = folder / plan_file_name(key);
  std::optional<StoredPlan> stored = read_file(files, path, tensor_count);
  if (!stored || stored->key == key) return stored;
  base::log(base::LogLevel::Warning, "a stored plan is not used: " + path.string() +
                                         " is of another machine or model; remove it");
  return std::nullopt;
}

std::vector<StoredPlan> list_stored_plans(base::FileSystem& files, const base::Path& folder) {
  std::vector<StoredPlan> all;
  for (const std::string& name : files.list(folder)) {
    if (base::Path(name).extension() != ".json" || all.size() == kMaxListed) continue;
    auto stored = read_file(files, folder / name, std::nullopt);
    if (stored && plan_file_name(stored->key) == name) all.push_back(std::move(*stored));
  }
  return all;
}

void write_stored_plan(base::FileSystem& files, const base::Path& folder,
                       const StoredPlan& stored) {
  files.create_directory(folder);
  base::replace_file(files, folder / plan_file_name(stored.key), to_json(stored));
}

}  // namespace regatta::topology::plan
