#include "checkpoint/manifest.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/digest.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

namespace regatta::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxDepth = 8;

class FieldReader {
 public:
  FieldReader(const Json& json, std::string source) : json_(json), source_(std::move(source)) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw base::Error(base::Code::User, source_ + ": " + what + "; the file is damaged");
  }
  const Json& field(const char* name) const {
    const auto it = json_.find(name);
    if (it == json_.end()) fail(std::string(name) + " is missing");
    return *it;
  }
  std::string text(const char* name) const {
    const Json& value = field(name);
    if (!value.is_string()) fail(std::string(name) + " is not text");
    return value.get<std::string>();
  }
  std::int64_t count(const char* name) const {
    const Json& value = field(name);
    if (!value.is_number_unsigned() || !std::in_range<std::int64_t>(value.get<std::uint64_t>())) {
      fail(std::string(name) + " is not a whole number of at least 0");
    }
    return value.get<std::int64_t>();
  }
  double number(const char* name) const {
    const Json& value = field(name);
    if (!value.is_number()) fail(std::string(name) + " is not a number");
    return value.get<double>();
  }
  // The entry of one file, below its name.
  ManifestFile file() const {
    ManifestFile found;
    found.bytes = static_cast<std::uint64_t>(count("bytes"));
    found.digest = text("digest");
    const bool digits = found.digest.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (found.digest.size() != 32 || !digits) fail("a digest is not 32 hexadecimal digits");
    return found;
  }
  // Absent where there were none.
  std::vector<Rollback> rollbacks() const {
    std::vector<Rollback> found;
    const auto list = json_.find("rollbacks");
    if (list == json_.end()) return found;
    if (!list->is_array()) fail("rollbacks is not a list");
    for (const Json& each : *list) {
      if (!each.is_object()) fail("rollbacks holds something that is not an object");
      const FieldReader reader(each, source_);
      found.push_back({reader.count("from_step"), reader.count("to_step")});
      if (found.back().from_step <= found.back().to_step) fail("a rollback goes forward");
    }
    return found;
  }
  // Absent where all steps have one batch.
  std::optional<BatchGrowthState> growth() const {
    if (!json_.contains("batches")) return std::nullopt;
    BatchGrowthState found;
    const Json& list = field("batches");
    if (!list.is_array() || list.empty()) fail("batches is not a list of sizes");
    for (const Json& each : list) {
      if (!each.is_object()) fail("batches holds something that is not an object");
      const FieldReader reader(each, source_);
      const BatchChange change{reader.count("step"), reader.count("size")};
      const bool follows =
          found.batches.empty() ? change.step == 1 : change.step > found.batches.back().step;
      if (!follows || change.size < 1) fail("batches do not follow one another");
      found.batches.push_back(change);
    }
    found.progress = number("progress");
    if (!(found.progress >= 0)) fail("progress is below 0");
    return found;
  }
  const Json& object(const char* name) const {
    const Json& value = field(name);
    if (!value.is_object()) fail(std::string(name) + " is not an object");
    return value;
  }

 private:
  const Json& json_;
  std::string source_;
};

// Only a name inside the checkpoint's own directory: no path, nothing hidden.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name.size() <= 255 && name.front() != '.' &&
         name.find('/') == std::string::npos && name.find('\0') == std::string::npos &&
         name != "manifest.json";
}

// The parser takes a NUL byte for the end of its input. Null for what is not JSON.
Json parse(const std::string& text) {
  const bool sound =
      text.find('\0') == std::string::npos && base::json_depth_at_most(text, kMaxDepth);
  return sound ? base::parse_json<Json>(text) : Json(nullptr);
}

std::string dumped(const Json& json, int indent) { return base::json_text(json, indent); }

// Of everything that stands beside it, known here or not, however it is spaced.
std::string digest_beside(Json manifest) {
  manifest.erase("digest");
  return base::digest_of(dumped(manifest, -1));
}

double finite_or_zero(double value) { return std::isfinite(value) ? value : 0.0; }

}  // namespace

bool came_through(std::int64_t step, const std::vector<Rollback>& known,
                  const std::vector<Rollback>& rollbacks) {
  if (known.size() > rollbacks.size()) return false;
  if (!std::equal(known.begin(), known.end(), rollbacks.begin())) return false;
  return std::all_of(rollbacks.begin() + std::ssize(known), rollbacks.end(),
                     [&](const Rollback& later) { return step <= later.to_step; });
}

std::string to_json(const Manifest& manifest) {
  Json json;
  json["format"] = kManifestFormat;
  json["run"] = manifest.run;
  json["execution"] = manifest.execution;
  json["epoch"] = manifest.epoch;
  json["step"] = manifest.step;
  json["samples"] = manifest.samples;
  json["model_fingerprint"] = manifest.model_fingerprint;
  json["data_fingerprint"] = manifest.data_fingerprint;
  json["metric"] = manifest.metric;
  json["value"] = manifest.value ? Json(*manifest.value) : Json(nullptr);
  json["plan"] = manifest.plan;
  for (const Rollback& each : manifest.rollbacks) {
    json["rollbacks"].push_back({{"from_step", each.from_step}, {"to_step", each.to_step}});
  }
  if (manifest.growth) {
    for (const BatchChange& each : manifest.growth->batches) {
      json["batches"].push_back({{"step", each.step}, {"size", each.size}});
    }
    json["progress"] = manifest.growth->progress;
  }
  json["utc_seconds"] = finite_or_zero(manifest.utc_seconds);
  json["versions"] = Json::object();
  for (const auto& [name, version] : manifest.versions) json["versions"][name] = version;
  json["files"] = Json::object();
  for (const auto& [name, file] : manifest.files) {
    json["files"][name] = {{"bytes", file.bytes}, {"digest", file.digest}};
  }
  json["digest"] = digest_beside(json);
  return dumped(json, 2) + "\n";
}

Manifest parse_manifest(const std::string& text, const std::string& source) {
  const Json json = parse(text);
  const FieldReader reader(json, source);
  if (!json.is_object()) reader.fail("not a JSON object");
  const std::int64_t format = reader.count("format");
  if (format != kManifestFormat) {
    throw base::Error(base::Code::User, source + ": format " + std::to_string(format) +
                                            " is not known here; use the version that wrote it");
  }
  Manifest manifest;
  manifest.run = reader.text("run");
  manifest.execution = reader.text("execution");
  manifest.epoch = reader.count("epoch");
  manifest.step = reader.count("step");
  manifest.samples = reader.count("samples");
  manifest.model_fingerprint = reader.text("model_fingerprint");
  manifest.data_fingerprint = reader.text("data_fingerprint");
  manifest.metric = reader.text("metric");
  const Json& value = reader.field("value");
  if (value.is_number()) {
    manifest.value = value.get<double>();
  } else if (!value.is_null()) {
    reader.fail("value is neither a number nor null");
  }
  manifest.plan = reader.text("plan");
  manifest.rollbacks = reader.rollbacks();
  manifest.growth = reader.growth();
  manifest.utc_seconds = reader.number("utc_seconds");
  for (const auto& [name, version] : reader.object("versions").items()) {
    if (!version.is_string()) reader.fail("versions holds something that is not text");
    manifest.versions[name] = version.get<std::string>();
  }
  for (const auto& [name, file] : reader.object("files").items()) {
    if (!is_plain_name(name)) {
      reader.fail("files names '" + base::printable(name.substr(0, 80)) +
                  "', which is not a plain file name");
    }
    if (!file.is_object()) reader.fail("files holds something that is not an object");
    manifest.files[name] = FieldReader(file, source).file();
  }
  if (reader.text("digest") != digest_beside(json)) reader.fail("its digest differs");
  return manifest;
}

std::string to_json(const WrittenShard& shard) {
  Json json;
  json["bytes"] = shard.file.bytes;
  json["digest"] = shard.file.digest;
  json["write_seconds"] = finite_or_zero(shard.write_seconds);
  json["sync_seconds"] = finite_or_zero(shard.sync_seconds);
  return dumped(json, -1) + "\n";
}

WrittenShard parse_sidecar(const std::string& text, const std::string& source) {
  const Json json = parse(text);
  const FieldReader reader(json, source);
  if (!json.is_object()) reader.fail("not a JSON object");
  WrittenShard shard;
  shard.file = reader.file();
  shard.write_seconds = reader.number("write_seconds");
  shard.sync_seconds = reader.number("sync_seconds");
  if (to_json(shard) != text) reader.fail("says more than, or other than, a writer would");
  return shard;
}

}  // namespace regatta::checkpoint
