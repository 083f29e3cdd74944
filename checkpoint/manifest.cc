#include "checkpoint/manifest.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace regatta::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxDepth = 8;

class FieldReader {
 public:
  FieldReader(const Json& json, std::string source) : json_(json), source_(std::move(source)) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw base::Error(base::Code::User, source_ + ": " + what + "; the manifest is damaged");
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

bool is_digest(const std::string& text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

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
  json["utc_seconds"] = std::isfinite(manifest.utc_seconds) ? manifest.utc_seconds : 0.0;
  json["versions"] = Json::object();
  for (const auto& [name, version] : manifest.versions) json["versions"][name] = version;
  json["files"] = Json::object();
  for (const auto& [name, file] : manifest.files) {
    json["files"][name] = {{"bytes", file.bytes}, {"digest", file.digest}};
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Manifest parse_manifest(const std::string& text, const std::string& source) {
  // The parser takes a NUL byte for the end of its input.
  const bool sound =
      text.find('\0') == std::string::npos && base::json_depth_at_most(text, kMaxDepth);
  const Json json = sound ? Json::parse(text, nullptr, false) : Json(nullptr);
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
  const Json& utc = reader.field("utc_seconds");
  if (!utc.is_number()) reader.fail("utc_seconds is not a number");
  manifest.utc_seconds = utc.get<double>();
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
    const FieldReader entry(file, source);
    ManifestFile& found = manifest.files[name];
    found.bytes = static_cast<std::uint64_t>(entry.count("bytes"));
    found.digest = entry.text("digest");
    if (!is_digest(found.digest)) reader.fail("a digest is not 32 hexadecimal digits");
  }
  return manifest;
}

}  // namespace regatta::checkpoint
