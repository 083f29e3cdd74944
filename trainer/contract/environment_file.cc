#include "trainer/contract/environment_file.h"

#include <nlohmann/json.hpp>

#include "base/digest.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

namespace regatta::trainer::contract {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostDepth = 16;
constexpr const char* kDigest = "digest";

// A discarded value where it is no JSON, or nests deeper than any of ours.
Json tree_of(std::string_view text) {
  if (!base::json_depth_at_most(text, kMostDepth)) return Json(Json::value_t::discarded);
  return base::parse_json<Json>(text);
}

[[noreturn]] void damaged(const std::string& source, const std::string& what) {
  throw base::Error(base::Code::Operator, base::printable(source) + " is damaged: " + what +
                                              "; the attempt itself is not, and the next one "
                                              "writes its own");
}

void check_section(const Json& environment, std::string_view name, const std::string& source) {
  const auto section = environment.find(name);
  const std::string what = "section '" + std::string(name) + "'";
  if (section == environment.end()) damaged(source, what + " is missing");
  if (!section->is_object()) damaged(source, what + " is not an object");
  const auto digest = section->find(kDigest);
  if (digest == section->end() || !digest->is_string()) damaged(source, what + " has no digest");
  if (*digest != section_digest(*section)) damaged(source, what + " is not what its digest says");
}

}  // namespace

std::string section_digest(const Json& section) {
  Json facts = section;
  if (facts.is_object()) facts.erase(kDigest);
  return base::digest_of(base::json_text(facts));
}

std::string environment_fingerprint(const Json& environment) {
  std::string lines;
  for (const std::string_view name : kEnvironmentSections) {
    lines += std::string(name) + " " + environment.at(name).at(kDigest).get<std::string>() + "\n";
  }
  return base::digest_of(lines);
}

Json sealed_environment(const Json& sections) {
  Json environment;
  environment["format"] = kEnvironmentFormat;
  environment["fingerprint"] = "";
  for (const std::string_view name : kEnvironmentSections) {
    const Json& facts = sections.at(name);
    Json& section = environment[std::string(name)];
    section[kDigest] = section_digest(facts);
    for (const auto& [key, value] : facts.items()) section[key] = value;
  }
  environment["fingerprint"] = environment_fingerprint(environment);
  return environment;
}

Json parse_environment(std::string_view text, const std::string& source) {
  if (text.size() > kMostEnvironmentBytes) {
    damaged(source, "it is larger than " + base::human_bytes(kMostEnvironmentBytes));
  }
  Json environment = tree_of(text);
  if (!environment.is_object()) damaged(source, "it is cut off, or no JSON object");
  if (!environment.contains("format") && environment.contains("version")) {
    throw base::Error(base::Code::NotFound,
                      base::printable(source) +
                          " is of a Regatta that wrote no sections; look at a newer attempt");
  }
  if (!environment.contains("format") || environment["format"] != kEnvironmentFormat) {
    damaged(source, "its format is not " + std::to_string(kEnvironmentFormat));
  }
  for (const std::string_view name : kEnvironmentSections) {
    check_section(environment, name, source);
  }
  if (!environment.contains("fingerprint") ||
      environment["fingerprint"] != environment_fingerprint(environment)) {
    damaged(source, "its fingerprint is not that of its sections");
  }
  for (const char* const name : {"attempt", "training"}) {
    const auto part = environment.find(name);
    if (part != environment.end() && !part->is_object()) {
      damaged(source, std::string("'") + name + "' is not an object");
    }
  }
  return environment;
}

std::string slurm_job_of_environment(std::string_view text) {
  if (text.size() > kMostEnvironmentBytes) return "";
  const Json environment = tree_of(text);
  if (!environment.is_object()) return "";
  const auto attempt = environment.find("attempt");  // format 1 has it at the top
  const Json& place = attempt != environment.end() && attempt->is_object() ? *attempt : environment;
  const auto job = place.find("slurm_job");
  return job != place.end() && job->is_string() ? job->get<std::string>() : "";
}

}  // namespace regatta::trainer::contract
