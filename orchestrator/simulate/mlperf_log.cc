#include "orchestrator/simulate/mlperf_log.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/ascii.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

namespace regatta::orchestrator::simulate {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kMark = ":::MLLOG";
constexpr double kBertTarget = 0.72;  // masked-LM accuracy, by the benchmark's rules
constexpr std::size_t kMostLine = std::size_t{1} << 20U;  // bytes of a line of MLPerf's
constexpr int kDepth = 32;
constexpr std::size_t kMostName = 100;

class LogReader {
 public:
  explicit LogReader(const std::string& source) : source_(source) {}

  void line(std::string_view text) {
    ++line_;
    const std::size_t mark = text.find(kMark);
    if (mark == std::string_view::npos) return;
    if (text.size() > kMostLine) refuse("a line of MLPerf's is longer than 1 MiB");
    const std::string_view json_text = text.substr(mark + kMark.size());
    const Json json =
        base::json_depth_at_most(json_text, kDepth) ? base::parse_json<Json>(json_text) : Json();
    const bool good = json.is_object() && json.contains("key") && json["key"].is_string() &&
                      json.contains("time_ms") && json["time_ms"].is_number();
    if (!good) refuse("a damaged line of MLPerf's");
    ++lines_;
    const Json value = json.value("value", Json());
    const Json metadata = json.value("metadata", Json());
    take(json["key"].get<std::string>(), json["time_ms"].get<double>(), value,
         metadata.is_object() ? metadata : Json::object());
  }

  runs::ReferenceCurve curve() && {
    if (lines_ == 0) refuse_file("there is no line of MLPerf's (:::MLLOG) in it");
    if (!start_) refuse_file("there is no run_start in it");
    if (curve_.seconds.empty()) refuse_file("there is no eval_accuracy in it");
    if (!counts_samples()) curve_.samples.clear();
    if (nodes_ > 0 && of_node_ > 0) curve_.about.chips = nodes_ * of_node_;
    return std::move(curve_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw base::Error(base::Code::User, source_ + ":" + std::to_string(line_) + ": " + what);
  }
  [[noreturn]] void refuse_file(const std::string& what) const {
    throw base::Error(base::Code::User, source_ + ": " + what);
  }

  void take(const std::string& key, double ms, const Json& value, const Json& metadata) {
    runs::Reference& about = curve_.about;
    if (key == "run_start") {
      if (start_) refuse("a second run_start; a file is to hold one run");
      start_ = ms;
    } else if (key == "run_stop") {
      if (!start_) refuse("run_stop comes before run_start");
      if (about.run_seconds) refuse("a second run_stop; a file is to hold one run");
      about.run_seconds = seconds_at(ms);
      about.status = text_of(metadata.value("status", Json()));
    } else if (key == "eval_accuracy") {
      evaluation(ms, value, metadata);
    } else if (key == "submission_benchmark") {
      if (text_of(value) != "bert") {
        refuse("a log of " + base::printable(text_of(value).substr(0, kMostName)) +
               "; only those of bert can be read");
      }
    } else if (key == "submission_org") {
      about.submitter = text_of(value);
    } else if (key == "submission_platform") {
      about.system = text_of(value);
    } else if (key == "submission_division") {
      about.division = text_of(value);
    } else if (key == "target_accuracy" && value.is_number()) {
      about.threshold = value.get<double>();
    } else if (key == "global_batch_size") {
      about.global_batch = count_of(value);
    } else if (key == "number_of_ranks") {
      about.chips = count_of(value);
    } else if (key == "number_of_nodes") {
      nodes_ = count_of(value).value_or(0);
    } else if (key == "accelerators_per_node") {
      of_node_ = count_of(value).value_or(0);
    }
  }

  void evaluation(double ms, const Json& value, const Json& metadata) {
    if (!start_) refuse("eval_accuracy comes before run_start");
    if (curve_.about.run_seconds) refuse("eval_accuracy comes after run_stop");
    if (!value.is_number() || !(value.get<double>() >= 0 && value.get<double>() <= 1)) {
      refuse("the value of eval_accuracy is no number between 0 and 1");
    }
    const double seconds = seconds_at(ms);
    if (!curve_.seconds.empty() && seconds < curve_.seconds.back()) {
      refuse("eval_accuracy is earlier than the one before it");
    }
    if (curve_.seconds.size() == runs::kMostReferencePoints) {
      refuse("more than 10000 evaluations");
    }
    curve_.seconds.push_back(seconds);
    curve_.values.push_back(value.get<double>());
    const auto count =
        count_of(metadata.contains("samples_count") ? metadata["samples_count"]
                                                    : metadata.value("epoch_num", Json()));
    curve_.samples.push_back(count ? static_cast<double>(*count) : -1);
  }

  [[nodiscard]] double seconds_at(double ms) const {
    const double seconds = (ms - *start_) / 1e3;
    if (!(seconds >= 0 && seconds <= 1e9))
      refuse("its time is before run_start, or 30 years after");
    return seconds;
  }
  // epoch_num counts samples since round v2.0; before, it was the number of the only epoch.
  [[nodiscard]] bool counts_samples() const {
    const auto batch = static_cast<double>(curve_.about.global_batch.value_or(1000));
    for (const double samples : curve_.samples) {
      if (samples < 0) return false;
    }
    return curve_.samples.back() >= batch || curve_.samples.back() == 0;
  }
  static std::string text_of(const Json& value) {
    return value.is_string() ? value.get<std::string>() : "";
  }
  static std::optional<std::int64_t> count_of(const Json& value) {
    if (!value.is_number()) return std::nullopt;
    const auto number = value.get<double>();
    if (!(number >= 0 && number <= 1e15)) return std::nullopt;
    return std::llround(number);
  }

  const std::string& source_;
  std::size_t line_ = 0, lines_ = 0;
  std::optional<double> start_;
  std::int64_t nodes_ = 0, of_node_ = 0;
  runs::ReferenceCurve curve_ = [] {
    runs::ReferenceCurve curve;
    curve.about.threshold = kBertTarget;
    return curve;
  }();
};

// As a name of a reference may be.
std::string as_name(const std::string& text) {
  std::string name;
  for (const char c : text) {
    const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '.' || c == '_' || c == '-';
    if (good) {
      name += c;
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  name.erase(0, std::min(name.find_first_not_of(".-"), name.size()));
  return name.substr(0, kMostName);
}

constexpr std::string_view kResults = "training_results_";

std::vector<std::string> parts_between(const std::string& text, std::string_view separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0;;) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    if (end == text.size()) return parts;
    begin = end + separator.size();
  }
}

// "v4.1"
bool is_round(const std::string& text) {
  const std::size_t dot = text.find('.');
  return text.size() > 3 && text.front() == 'v' && dot != std::string::npos && dot > 1 &&
         base::is_digits(text.substr(1, dot - 1)) && base::is_digits(text.substr(dot + 1));
}

}  // namespace

runs::ReferenceCurve read_mlperf_log(std::string_view text, const std::string& source) {
  LogReader reader(source);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    reader.line(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return std::move(reader).curve();
}

MlperfPlace mlperf_place(const std::string& path) {
  const std::filesystem::path file = std::filesystem::absolute(path).lexically_normal();
  const std::string stem = file.stem().string();
  MlperfPlace place;
  std::string result = stem;
  // v4.1__SUBMITTER__SYSTEM__result_0
  const std::vector<std::string> parts_of_name = parts_between(stem, "__");
  if (parts_of_name.size() == 4 && is_round(parts_of_name[0])) {
    place = {"", parts_of_name[0], parts_of_name[1], parts_of_name[2]};
    result = parts_of_name[3];
  } else {
    // …/SUBMITTER/results/SYSTEM/bert/result_0.txt
    const std::filesystem::path system = file.parent_path().parent_path();
    const std::filesystem::path results = system.parent_path();
    if (file.parent_path().filename() == "bert" && results.filename() == "results") {
      place.system = system.filename();
      place.submitter = results.parent_path().filename();
      const std::string above = results.parent_path().parent_path().filename();
      if (above.rfind(kResults, 0) == 0 && is_round(above.substr(kResults.size()))) {
        place.round = above.substr(kResults.size());
      }
    }
  }
  std::vector<std::string> parts;
  for (const std::string* part : {&place.round, &place.submitter, &place.system, &result}) {
    if (!part->empty()) parts.push_back(*part);
  }
  place.name = as_name(base::join(parts, "-"));
  return place;
}

}  // namespace regatta::orchestrator::simulate
