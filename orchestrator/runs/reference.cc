#include "orchestrator/runs/reference.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace regatta::orchestrator::runs {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kEvaluations = "evaluations";
constexpr std::size_t kMostName = 100, kMostText = 200;
constexpr double kMostSeconds = 1e9, kMostSamples = 1e15;

// key: of the body.
[[noreturn]] void refuse(const std::string& what, const std::string& key = {}) {
  throw base::Error(base::Code::User, what, key);
}

void check_name(const std::string& name) {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  const bool starts_well = !name.empty() && name.front() != '.' && name.front() != '-';
  if (starts_well && name.size() <= kMostName && std::all_of(name.begin(), name.end(), good)) {
    return;
  }
  refuse("'" + base::printable(name.substr(0, kMostName)) +
             "' cannot be the name of a reference; use at most 100 letters, digits and . _ -, not "
             "beginning with . or -",
         "name");
}

void check_point(const ReferenceCurve& curve, std::size_t i) {
  const std::string which = "evaluation " + std::to_string(i + 1);
  const std::string key = std::string(kEvaluations) + "[" + std::to_string(i) + "]";
  const double seconds = curve.seconds[i];
  if (!(seconds >= 0 && seconds <= kMostSeconds)) {
    refuse(which + ": its seconds are not between 0 and 1e9", key);
  }
  if (i > 0 && seconds < curve.seconds[i - 1]) {
    refuse(which + " is earlier than the one before it; sort them by time", key);
  }
  if (!(curve.values[i] >= 0 && curve.values[i] <= 1)) {
    refuse(which + ": an accuracy is between 0 and 1", key);
  }
  if (curve.samples.empty()) return;
  const double samples = curve.samples[i];
  if (!(samples >= 0 && samples <= kMostSamples && samples == std::floor(samples))) {
    refuse(which + ": its samples are not a whole number between 0 and 1e15", key);
  }
}

void check_figure(const char* key, const std::optional<double>& value, double low, double high) {
  if (value && !(*value >= low && *value <= high)) {
    refuse(std::string(key) + " is out of range", key);
  }
}
std::optional<double> as_number(const std::optional<std::int64_t>& value) {
  return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
}

// null: nothing to say.
Json as_json(const std::string& text) { return text.empty() ? Json() : Json(text); }
Json as_json(double number) { return number; }
template <typename Value>
Json as_json(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}

// A value of the body; nothing where it is null.
void read(const Json& value, const std::string& key, std::string* text) {
  if (!value.is_string()) refuse(key + " is not a text", key);
  *text = value.get<std::string>();
}
void read(const Json& value, const std::string& key, double* number) {
  if (!value.is_number()) refuse(key + " is not a number", key);
  *number = value.get<double>();
}
void read(const Json& value, const std::string& key, std::int64_t* number) {
  if (!value.is_number_integer()) refuse(key + " is not a whole number", key);
  *number = value.get<std::int64_t>();
}
template <typename Value>
void read(const Json& value, const std::string& key, std::optional<Value>* into) {
  Value read_value{};
  read(value, key, &read_value);
  *into = read_value;
}

// What a body says beside the evaluations.
template <typename About, typename Visit>
void each_key(About& about, const Visit& visit) {
  visit("name", about.name);
  visit("submitter", about.submitter);
  visit("system", about.system);
  visit("round", about.round);
  visit("division", about.division);
  visit("status", about.status);
  visit("chips", about.chips);
  visit("global_batch", about.global_batch);
  visit("threshold", about.threshold);
  visit("run_seconds", about.run_seconds);
}

void read_points(const Json& points, ReferenceCurve* curve) {
  if (!points.is_array()) refuse("evaluations is not a list", kEvaluations);
  if (points.size() > kMostReferencePoints) {
    refuse("a reference has at most 10000 evaluations; thin them", kEvaluations);
  }
  for (const Json& point : points) {
    const bool good = point.is_array() && point.size() == 3 && point[0].is_number() &&
                      (point[1].is_number() || point[1].is_null()) && point[2].is_number();
    if (!good) refuse("an evaluation is not [seconds, samples or null, accuracy]", kEvaluations);
    curve->seconds.push_back(point[0].get<double>());
    curve->values.push_back(point[2].get<double>());
    if (point[1].is_number()) curve->samples.push_back(point[1].get<double>());
  }
}

}  // namespace

void complete(ReferenceCurve* curve) {
  Reference& about = curve->about;
  check_name(about.name);
  each_key(about, [](const char* key, const auto& value) {
    if constexpr (std::is_same_v<decltype(value), const std::string&>) {
      if (value.size() > kMostText) refuse(std::string(key) + " is longer than 200 bytes", key);
    }
  });
  check_figure("threshold", about.threshold, 0, 1);
  check_figure("run_seconds", about.run_seconds, 0, kMostSeconds);
  check_figure("chips", as_number(about.chips), 1, 1e7);
  check_figure("global_batch", as_number(about.global_batch), 1, 1e9);
  if (curve->seconds.empty()) refuse("a reference has at least one evaluation", kEvaluations);
  if (curve->seconds.size() > kMostReferencePoints) {
    refuse("a reference has at most 10000 evaluations; thin them", kEvaluations);
  }
  if (curve->values.size() != curve->seconds.size() ||
      (!curve->samples.empty() && curve->samples.size() != curve->seconds.size())) {
    refuse("samples are known of some evaluations only; leave them out, or give all", kEvaluations);
  }
  about.evaluations = static_cast<std::int64_t>(curve->seconds.size());
  about.time_to_accuracy_seconds.reset();
  for (std::size_t i = 0; i < curve->seconds.size(); ++i) {
    check_point(*curve, i);
    if (!about.time_to_accuracy_seconds && curve->values[i] >= about.threshold) {
      about.time_to_accuracy_seconds = curve->seconds[i];
    }
  }
}

Json points_json(const ReferenceCurve& curve) {
  Json points = Json::array();
  for (std::size_t i = 0; i < curve.seconds.size(); ++i) {
    const Json samples =
        curve.samples.empty() ? Json() : Json(static_cast<std::int64_t>(curve.samples[i]));
    points.push_back({curve.seconds[i], samples, curve.values[i]});
  }
  return points;
}

Json reference_body(const ReferenceCurve& curve) {
  Json body;
  each_key(curve.about, [&body](const char* key, const auto& value) {
    const Json json = as_json(value);
    if (!json.is_null()) body[key] = json;
  });
  body[kEvaluations] = points_json(curve);
  return body;
}

ReferenceCurve parse_reference(const Json& body) {
  if (!body.is_object()) refuse("a reference is a JSON object");
  ReferenceCurve curve;
  std::vector<std::string> known{kEvaluations};
  each_key(curve.about, [&](const char* key, auto& value) {
    known.emplace_back(key);
    const auto given = body.find(key);
    if (given != body.end() && !given->is_null()) read(*given, key, &value);
  });
  for (const auto& given : body.items()) {
    if (std::find(known.begin(), known.end(), given.key()) != known.end()) continue;
    const std::string unknown = base::printable(given.key().substr(0, kMostName));
    refuse("a reference has no key '" + unknown + "'", unknown);
  }
  const auto points = body.find(kEvaluations);
  if (points != body.end() && !points->is_null()) read_points(*points, &curve);
  if (!body.contains("threshold")) refuse("threshold is missing", "threshold");
  complete(&curve);
  return curve;
}

}  // namespace regatta::orchestrator::runs
