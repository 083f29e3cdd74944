// Any bytes are a manifest: parsed, or one clear error; and what was read is written and read again
// with the same fields. Random bytes never have the right digest, so every input gets it here too.
#include "checkpoint/manifest.h"

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/digest.h"
#include "base/error.h"
#include "base/text.h"

using regatta::base::check;
using namespace regatta::checkpoint;

namespace {

std::optional<Manifest> parsed(const std::string& text) {
  try {
    return parse_manifest(text, "f");
  } catch (const regatta::base::Error& error) {
    check(error.code() == regatta::base::Code::User, "a bad file is the user's to change");
    check(std::string_view(error.what()).find('\n') == std::string_view::npos, "one line");
    return std::nullopt;
  }
}

// With the digest that its other fields call for.
std::optional<std::string> sealed(const std::string& text) {
  constexpr int kDepth = 16;  // deeper than any manifest, and no danger to a stack
  if (!regatta::base::json_depth_at_most(text, kDepth)) return std::nullopt;
  auto json = nlohmann::ordered_json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  json.erase("digest");
  const auto dumped = [&] {
    return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  };
  json["digest"] = regatta::base::digest_of(dumped());
  return dumped();
}

void check_round_trip(const Manifest& manifest) {
  const std::string text = to_json(manifest);
  const auto again = parsed(text);
  check(again.has_value(), "what was written is a manifest");
  check(again->run == manifest.run && again->execution == manifest.execution, "same run");
  check(again->epoch == manifest.epoch && again->step == manifest.step, "same step");
  check(again->samples == manifest.samples, "same samples");
  check(again->model_fingerprint == manifest.model_fingerprint, "same model");
  check(again->data_fingerprint == manifest.data_fingerprint, "same data");
  check(again->metric == manifest.metric && again->value == manifest.value, "same metric");
  check(again->plan == manifest.plan && again->utc_seconds == manifest.utc_seconds, "same plan");
  check(again->versions == manifest.versions, "same versions");
  check(again->files.size() == manifest.files.size(), "same files");
  for (const auto& [name, file] : manifest.files) {
    const auto it = again->files.find(name);
    check(it != again->files.end(), "same names of files");
    check(it->second.bytes == file.bytes && it->second.digest == file.digest, "same digests");
  }
  check(to_json(*again) == text, "canonical text is stable");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto manifest = parsed(text)) check_round_trip(*manifest);
  if (const auto whole = sealed(text)) {
    if (const auto manifest = parsed(*whole)) check_round_trip(*manifest);
  }
  return 0;
}
