#include "orchestrator/compare/bench_comparison.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/statistics.h"
#include "base/wording.h"

namespace regatta::orchestrator::compare {
namespace {

using trainer::contract::BenchFigure;
using trainer::contract::PlatformBench;

// Of a rate; what takes less time has more of it.
double log_rate(const BenchFigure& figure) {
  const double log = std::log(figure.value);
  return figure.higher_is_better ? log : -log;
}

using FiguresByName = std::map<std::string, std::vector<double>>;

FiguresByName log_rates_of(const std::vector<const PlatformBench*>& benches) {
  FiguresByName rates;
  for (const PlatformBench* const bench : benches) {
    for (const BenchFigure& figure : bench->figures) {
      rates[figure.name].push_back(log_rate(figure));
    }
  }
  return rates;
}

// A machine that does something else for a quarter of its threads, or of half a thread.
bool had_other_work(const PlatformBench& bench) {
  return bench.load_average > std::max(0.5, 0.25 * bench.threads);
}

std::string slower_parts(const std::vector<PartChange>& changes, const std::string& than) {
  std::vector<const PartChange*> slower;
  for (const PartChange& change : changes) {
    if (change.is_slower) slower.push_back(&change);
  }
  std::stable_sort(slower.begin(), slower.end(),
                   [](const PartChange* a, const PartChange* b) { return a->change < b->change; });
  std::string text;
  for (const PartChange* const change : slower) {
    const std::string share = std::to_string(std::lround(-100 * change->change)) + " %";
    text += text.empty() ? share + " slower than " + than + " in " + change->part
                         : ", " + share + " in " + change->part;
  }
  return text;
}

bool any_slower(const std::vector<PartChange>& changes) {
  return std::any_of(changes.begin(), changes.end(),
                     [](const PartChange& change) { return change.is_slower; });
}

}  // namespace

std::vector<PartChange> changes_by_part(const PlatformBench& newest,
                                        const std::vector<const PlatformBench*>& others) {
  const FiguresByName rates = log_rates_of(others);
  struct Part {
    std::string name;
    std::vector<double> changes, noises;  // of logarithms
  };
  std::vector<Part> parts;
  for (const BenchFigure& figure : newest.figures) {
    const auto there = rates.find(figure.name);
    if (there == rates.end()) continue;
    const std::string name(trainer::contract::part_of(figure));
    auto part = std::find_if(parts.begin(), parts.end(),
                             [&](const Part& each) { return each.name == name; });
    if (part == parts.end()) part = parts.insert(parts.end(), {name, {}, {}});
    part->changes.push_back(log_rate(figure) - base::median(there->second));
    part->noises.push_back(
        std::max(base::robust_deviation(there->second), figure.spread / figure.value));
  }
  std::vector<PartChange> changes;
  for (const Part& part : parts) {
    PartChange change;
    change.part = part.name;
    change.change = std::expm1(base::median(part.changes));
    change.noise = base::median(part.noises);
    change.figures = part.changes.size();
    change.is_slower = -change.change > std::max(kLeastSlowdown, kNoiseFactor * change.noise);
    changes.push_back(std::move(change));
  }
  return changes;
}

bool is_comparable(const PlatformBench& one, const PlatformBench& other) {
  return one.workload == other.workload &&
         trainer::contract::machine_kind(one) == trainer::contract::machine_kind(other);
}

BenchReport report_of(const std::vector<PlatformBench>& benches,
                      const std::vector<const PlatformBench*>& fleet) {
  base::check(!benches.empty(), "a report is of at least one bench");
  const PlatformBench& newest = benches.front();
  BenchReport report;
  report.utc = newest.utc;
  report.kind = trainer::contract::machine_kind(newest);
  report.load_average = newest.load_average;
  report.is_disturbed = had_other_work(newest);
  std::vector<const PlatformBench*> alike;
  for (const PlatformBench* const each : fleet) {
    if (is_comparable(newest, *each)) alike.push_back(each);
  }
  report.fleet = alike.size();
  std::vector<const PlatformBench*> earlier;
  for (std::size_t i = 1; i < benches.size(); ++i) {
    if (is_comparable(newest, benches[i])) earlier.push_back(&benches[i]);
  }
  report.earlier = earlier.size();
  if (report.fleet >= kLeastFleet) report.against_fleet = changes_by_part(newest, alike);
  if (report.earlier >= kLeastEarlier) report.drift = changes_by_part(newest, earlier);
  return report;
}

bool is_slow(const BenchReport& report) {
  return !report.is_disturbed && (any_slower(report.against_fleet) || any_slower(report.drift));
}

std::string slow_text(const BenchReport& report) {
  if (report.is_disturbed) return "";
  std::string text = slower_parts(
      report.against_fleet, "the median of " + base::plural(report.fleet, "node") + " of its kind");
  const std::string drift =
      slower_parts(report.drift, "its own " + base::plural(report.earlier, "earlier bench"));
  if (!text.empty() && !drift.empty()) text += "; ";
  return text + drift;
}

}  // namespace regatta::orchestrator::compare
