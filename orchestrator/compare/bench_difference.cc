#include "orchestrator/compare/bench_difference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/text.h"
#include "base/wording.h"
#include "orchestrator/compare/bench_comparison.h"
#include "orchestrator/text/terminal.h"

namespace regatta::orchestrator::compare {
namespace {

using Json = nlohmann::ordered_json;
using trainer::contract::BenchFigure;
using trainer::contract::PlatformBench;

const BenchFigure* figure_in(const PlatformBench& bench, const std::string& name) {
  const auto found = std::find_if(bench.figures.begin(), bench.figures.end(),
                                  [&](const BenchFigure& each) { return each.name == name; });
  return found == bench.figures.end() ? nullptr : &*found;
}

Json head_of(const PlatformBench& bench) {
  return {{"host", bench.host},
          {"utc", bench.utc},
          {"kind", trainer::contract::machine_kind(bench)},
          {"version", bench.version},
          {"workload", bench.workload},
          {"load_average", bench.load_average}};
}

Json row_of(const BenchFigure* a, const BenchFigure* b, bool same_work) {
  const BenchFigure& known = a != nullptr ? *a : *b;
  Json row = {
      {"name", known.name},
      {"unit", known.unit},
      {"values", {a != nullptr ? Json(a->value) : Json(), b != nullptr ? Json(b->value) : Json()}},
      {"change", nullptr},
      {"noise", nullptr}};
  if (a == nullptr || b == nullptr || !same_work || a->unit != b->unit) return row;
  row["change"] = (known.higher_is_better ? b->value / a->value : a->value / b->value) - 1;
  row["noise"] = std::hypot(a->spread / a->value, b->spread / b->value);
  return row;
}

std::string noise_text(const Json& share) {
  return share.is_number() ? base::percent(share.get<double>()) : "";
}

std::string change_text(const Json& share) {
  if (!share.is_number()) return "";
  const double value = 100 * share.get<double>();
  return (value > 0 ? "+" : "") + base::short_number(value, 3) + " %";
}

std::string value_text(const Json& value, const std::string& unit) {
  if (!value.is_number()) return "none";
  static constexpr std::array<const char*, 5> kPrefixes = {"", "k", "M", "G", "T"};
  double number = value.get<double>();
  if (unit == "s") {
    if (number < 1e-3) return base::short_number(number * 1e6, 3) + " µs";
    return number < 1 ? base::short_number(number * 1e3, 3) + " ms"
                      : base::short_number(number, 3) + " s";
  }
  std::size_t prefix = 0;
  for (; number >= 1000 && prefix + 1 < kPrefixes.size(); ++prefix) number /= 1000;
  return base::short_number(number, 3) + " " + kPrefixes[prefix] + (unit == "1" ? "" : unit);
}

}  // namespace

Json bench_difference(const PlatformBench& a, const PlatformBench& b) {
  const bool same_work = a.workload == b.workload;
  Json parts = Json::array(), figures = Json::array();
  if (same_work) {
    for (const PartChange& change : changes_by_part(b, {&a})) {
      parts.push_back({{"part", change.part},
                       {"change", change.change},
                       {"noise", change.noise},
                       {"figures", change.figures}});
    }
  }
  for (const BenchFigure& figure : a.figures) {
    figures.push_back(row_of(&figure, figure_in(b, figure.name), same_work));
  }
  for (const BenchFigure& figure : b.figures) {
    if (figure_in(a, figure.name) == nullptr)
      figures.push_back(row_of(nullptr, &figure, same_work));
  }
  return {{"benches", {head_of(a), head_of(b)}},
          {"same_work", same_work},
          {"same_kind", trainer::contract::machine_kind(a) == trainer::contract::machine_kind(b)},
          {"parts", std::move(parts)},
          {"figures", std::move(figures)}};
}

std::string bench_difference_text(const Json& difference) {
  std::string text;
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const Json& bench = difference.at("benches").at(i);
    text += std::string(i == 0 ? "A" : "B") + ": " +
            base::printable(bench.at("host").get<std::string>()) + ", " +
            base::printable(bench.at("kind").get<std::string>()) + ", load " +
            base::short_number(bench.at("load_average").get<double>(), 2) + " before, of version " +
            base::printable(bench.at("version").get<std::string>()) + "\n";
  }
  if (!difference.at("same_work")) {
    text +=
        "they measured other work: figures of one name are not the same; measure both with one "
        "version\n";
  }
  if (!difference.at("parts").empty()) {
    std::vector<std::vector<std::string>> parts = {{"PART", "B TO A", "NOISE", "FIGURES"}};
    for (const Json& part : difference.at("parts")) {
      parts.push_back({base::printable(part.at("part").get<std::string>()),
                       change_text(part.at("change")), noise_text(part.at("noise")),
                       std::to_string(part.at("figures").get<int>())});
    }
    text += "\n" + text::table(parts);
  }
  std::vector<std::vector<std::string>> rows = {{"FIGURE", "A", "B", "B TO A", "NOISE"}};
  for (const Json& figure : difference.at("figures")) {
    const std::string unit = figure.at("unit");
    rows.push_back({base::printable(figure.at("name").get<std::string>()),
                    value_text(figure.at("values").at(0), base::printable(unit)),
                    value_text(figure.at("values").at(1), base::printable(unit)),
                    change_text(figure.at("change")), noise_text(figure.at("noise"))});
  }
  return text + "\n" + text::table(rows);
}

}  // namespace regatta::orchestrator::compare
