#include "orchestrator/sweeps/read_sweep.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/text.h"
#include "orchestrator/sweeps/grid.h"
#include "trainer/contract/read_range.h"

namespace regatta::orchestrator::sweeps {
namespace {

using base::Table;
using trainer::contract::read_range;
using trainer::contract::text_of;

std::vector<SweepValue> read_values(Table& table, const std::string& key) {
  std::vector<std::string> texts;
  table.read(key, &texts);
  std::vector<SweepValue> values;
  for (const std::string& text : texts) values.push_back(value_of(text));
  return values;
}

void require(const Table& table, const std::string& key, const std::string& what) {
  if (!table.has(key)) table.fail(key, "missing; " + what);
}

void read_end(Table& table, const std::string& key, ParameterKind kind, double* end) {
  require(table, key, "set both low and high, which are included");
  if (kind == ParameterKind::Integer) {
    std::int64_t whole = 0;
    table.read(key, &whole);
    *end = static_cast<double>(whole);
  } else {
    table.read(key, end);
  }
}

SweepParameter read_parameter(Table& table, const std::string& key) {
  SweepParameter parameter;
  parameter.key = key;
  require(table, "kind", "use " + base::join(kind_names(), ", "));
  table.read_enum("kind", kind_names(), &parameter.kind);
  if (parameter.kind == ParameterKind::Choice) {
    parameter.choices = read_values(table, "values");
  } else {
    read_end(table, "low", parameter.kind, &parameter.low);
    read_end(table, "high", parameter.kind, &parameter.high);
    parameter.logarithmic = parameter.kind == ParameterKind::LogUniform;
    if (parameter.kind == ParameterKind::Integer) table.read("log", &parameter.logarithmic);
    if (table.has("points")) {
      read_range(table, "points", &parameter.points, 2, kMostTrials);
    } else {
      table.read("points", &parameter.points);
    }
  }
  Table when = table.table("when");
  for (const std::string& other : when.keys()) {
    parameter.when.push_back({other, read_values(when, other)});
  }
  table.finish();
  return parameter;
}

void check_key(const Table& parameters, const std::string& key,
               const std::vector<std::string>& known_keys) {
  if (std::find(known_keys.begin(), known_keys.end(), key) != known_keys.end()) return;
  const auto meant = base::closest(key, known_keys);
  parameters.fail(key, "not a key of the run file that a sweep can set; " +
                           (meant ? "did you mean '" + *meant + "'?" : "remove it"));
}

Space read_space(Table& sweep, const SweepSettings& settings,
                 const std::vector<std::string>& known_keys) {
  Table table = sweep.table("parameters");
  std::vector<SweepParameter> parameters;
  std::map<std::string, Table> tables;
  for (const std::string& key : table.keys()) {
    check_key(table, key, known_keys);
    Table each = table.table(key);
    if (!table.is_table(key)) {
      table.fail(key, "expected a mapping: kind, with low and high or values");
    }
    parameters.push_back(read_parameter(each, key));
    tables.emplace(key, std::move(each));
  }
  if (parameters.empty()) sweep.fail("parameters", "no parameters; name at least one");
  if (const auto fault = fault_of(parameters)) {
    Table& at = tables.at(fault->parameter);
    if (fault->condition.empty()) at.fail(fault->field, fault->message);
    at.table("when").fail(fault->condition, fault->message);
  }
  for (const SweepParameter& each : parameters) {
    const bool continuous =
        each.kind == ParameterKind::Uniform || each.kind == ParameterKind::LogUniform;
    if (settings.method == SweepMethod::Grid && continuous && each.points == 0) {
      tables.at(each.key).fail("points",
                               "missing; a grid needs the number of points of a continuous range");
    }
  }
  return Space(std::move(parameters));
}

void read_objective(Table& sweep, SweepSettings* settings) {
  Table table = sweep.table("objective");
  table.read_enum("kind", objective_names(), &settings->objective);
  const bool metric = settings->objective == ObjectiveKind::Metric;
  const bool higher = settings->objective == ObjectiveKind::Goodput;
  settings->better = higher ? runs::Better::Higher : runs::Better::Lower;
  table.read_enum("direction", direction_names(), &settings->better);
  if (metric) {
    // Where there is no section, its own place in the file is unknown.
    require(sweep, "objective", "set its direction: minimize for a loss, maximize for a share");
    require(table, "direction", "use minimize for a loss, maximize for a share");
  }
  if (!metric && (settings->better == runs::Better::Higher) != higher) {
    table.fail("direction",
               "is wrong for " +
                   objective_names().at(static_cast<std::size_t>(settings->objective)) +
                   (higher ? ", of which more" : ", of which less") + " is better; remove it");
  }
  table.finish();
}

// The rungs end at the maximum, and there are trials enough for one to get there.
void check_rungs(const Table& sweep, const Table& budget, const SweepSettings& settings) {
  const std::int64_t min = settings.min_budget, max = settings.max_budget;
  const std::string by = text_of(min) + " by " + text_of(settings.factor);
  if (min >= max) {
    budget.fail("min", "is " + text_of(min) + ", and max is " + text_of(max) + "; use less");
  }
  const std::vector<std::int64_t> rungs = rung_budgets(settings);
  if (rungs.back() != max) {
    budget.fail("max", "is " + text_of(max) + ", which is not a rung from " + by + "; use " +
                           (rungs.size() > 1 ? text_of(rungs.back()) + " or " : "") +
                           text_of(rungs.back() * settings.factor));
  }
  const std::int64_t needed = max / min;  // factor to the power of the rungs above the first
  if (settings.trials < needed) {
    sweep.fail("trials", "is " + text_of(settings.trials) + "; for one of them to get from " + by +
                             " to " + text_of(max) + ", use at least " + text_of(needed));
  }
}

void read_budget(Table& sweep, SweepSettings* settings) {
  Table table = sweep.table("budget");
  table.read_enum("unit", unit_names(), &settings->unit);
  const bool asha = settings->method == SweepMethod::Asha;
  if (asha) {
    require(sweep, "budget", "asha needs the budgets of its first and last rung, min and max");
    require(table, "max", "asha needs the budget of its last rung");
  }
  if (table.has("max")) read_range(table, "max", &settings->max_budget, 1, kMostBudget);
  if (asha) {
    require(table, "min", "asha needs the budget of its first rung");
    read_range(table, "min", &settings->min_budget, 1, kMostBudget);
    read_range(table, "factor", &settings->factor, 2, kMostFactor);
    check_rungs(sweep, table, *settings);
  }
  for (const char* const key : {"min", "factor"}) {
    if (!asha && table.has(key)) table.fail(key, "only for method asha; remove it");
  }
  table.finish();
}

void check_grid(const Table& sweep, const Space& space, SweepSettings* settings) {
  const std::size_t size = grid_size(space, kMostTrials + 1);
  if (size > kMostTrials) {
    sweep.fail("parameters", "the grid has more than " + text_of(kMostTrials) +
                                 " points; use fewer values, or method random");
  }
  const int points = static_cast<int>(size);
  if (settings->trials != 0 && settings->trials != points) {
    sweep.fail("trials", "is " + text_of(settings->trials) + ", and the grid has " +
                             text_of(points) + " points; leave trials out");
  }
  settings->trials = points;
}

}  // namespace

const std::vector<std::string>& direction_names() {
  static const std::vector<std::string> names{"maximize", "minimize"};
  return names;
}

const std::vector<std::string>& unit_names() {
  static const std::vector<std::string> names{"steps", "samples"};
  return names;
}

Sweep read_sweep(Table& root, const std::vector<std::string>& known_keys) {
  if (!root.has("sweep")) {
    root.fail("sweep", "missing; add it with method, trials, objective and parameters");
  }
  Table table = root.table("sweep");
  Sweep sweep;
  SweepSettings& settings = sweep.settings;
  require(table, "method", "use " + base::join(method_names(), ", "));
  table.read_enum("method", method_names(), &settings.method);
  const bool grid = settings.method == SweepMethod::Grid;
  if (!grid) require(table, "trials", "set how many are tried in all");
  if (table.has("trials")) read_range(table, "trials", &settings.trials, 1, kMostTrials);
  table.read("trials", &settings.trials);
  read_range(table, "concurrency", &settings.concurrency, 1, kMostConcurrency);
  table.read("seed", &settings.seed);
  read_objective(table, &settings);
  read_budget(table, &settings);
  sweep.space = read_space(table, settings, known_keys);
  if (grid) check_grid(table, sweep.space, &settings);
  table.finish();
  return sweep;
}

Sweep parse_sweep(std::string_view text, const std::string& source,
                  const std::vector<std::string>& known_keys) {
  Table root = Table::parse(text, source);
  return read_sweep(root, known_keys);
}

}  // namespace regatta::orchestrator::sweeps
