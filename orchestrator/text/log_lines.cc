#include "orchestrator/text/log_lines.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "base/wording.h"
#include "orchestrator/text/terminal.h"

namespace regatta::orchestrator::text {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kColumns = 80;

std::string digits(const char* form, double value) {
  char text[64];
  std::snprintf(text, sizeof text, form, value);
  return text;
}

// " word 0.1234", or nothing where the JSON has no number.
std::string figure(const Json& value, const std::string& word, const char* form) {
  if (!value.is_number()) return "";
  return ", " + word + digits(form, value.get<double>());
}

Json field(const Json& json, const char* key) { return json.value(key, Json(nullptr)); }

}  // namespace

std::string log_text(const std::string& log) {
  std::string out;
  std::size_t start = 0;
  while (start < log.size()) {
    const std::size_t end = log.find('\n', start);
    out += base::printable(log.substr(start, end - start));
    if (end == std::string::npos) break;
    out += "\n";
    start = end + 1;
  }
  return out;
}

std::string step_line(const Json& run) {
  const Json step = field(run, "step");
  if (!step.is_number_integer() || step.get<std::int64_t>() <= 0) return "";
  std::string begin = "-- step " + base::json_text(step);
  const Json steps = field(run, "steps");
  const bool grows = field(run, "progress").is_number();  // then steps count another way
  if (steps.is_number_integer() && !grows) begin += "/" + base::json_text(steps);
  begin += figure(field(run, "loss"), "loss ", "%.4g");
  const std::string rate = figure(field(run, "samples_per_second"), "", "%.4g") + " samples/s";
  std::string metric;
  if (field(run, "value").is_number()) {
    const auto value = run["value"].get<double>();
    const bool has_target = field(run, "target").is_number();
    const double target = has_target ? run["target"].get<double>() : value;
    const int decimals = decimals_apart(value, target);
    metric = ", " + base::printable(run.value("metric", "")) +
             base::formatted(" %.*f", decimals, value) +
             (has_target ? base::formatted(" of %.*f", decimals, target) : "");
  }
  std::string end;
  if (field(run, "predicted_seconds_to_target").is_number()) {
    end = ", target in " + base::human_seconds(run["predicted_seconds_to_target"].get<double>());
  }
  const bool has_rate = rate.front() == ',';
  std::string line = begin + (has_rate ? rate : "") + metric + end;
  if (line.size() > kColumns) line = begin + (has_rate ? rate : "") + end;
  if (line.size() > kColumns) line = begin + end;
  return line + "\n";
}

std::string event_lines(const Json& metrics) {
  std::vector<std::pair<double, std::string>> lines;
  const auto add = [&](const Json& row, std::string text) {
    const double at = row[1].is_number() ? row[1].get<double>() : 0;
    lines.emplace_back(at, "-- step " + base::json_text(row[0]) + ": " + std::move(text) + "\n");
  };
  for (const Json& row : field(metrics, "evaluations")) {
    std::string figures =
        figure(row[2], "mlm_accuracy ", "%.4f") + figure(row[3], "mlm_loss ", "%.4f");
    if (row.size() > 6 && row[6].is_object()) {  // not of an older controller
      for (const auto& [name, value] : row[6].items()) {
        figures += figure(value, base::printable(name) + " ", "%.4f");
      }
    }
    add(row, "evaluation" + figures);
  }
  for (const Json& row : field(metrics, "checkpoints")) {
    add(row, "checkpoint " + base::printable(row[2].get<std::string>()) + " " +
                 base::printable(row[3].get<std::string>()));
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string out;
  for (const auto& line : lines) out += line.second;
  return out;
}

std::string found_lines(const Json& lines, bool with_context, long long* last_line) {
  std::string out;
  for (const Json& line : lines) {
    const auto number = line.value("line", 0LL);
    if (with_context && *last_line > 0 && number > *last_line + 1) out += "--\n";
    *last_line = number;
    out += std::to_string(number) + (line.value("match", false) ? ":" : "-") +
           base::printable(line.value("text", "")) + "\n";
  }
  return out;
}

}  // namespace regatta::orchestrator::text
