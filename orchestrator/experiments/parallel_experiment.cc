#include "orchestrator/experiments/parallel_experiment.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/document.h"
#include "base/error.h"
#include "base/text.h"
#include "orchestrator/experiments/run_order.h"
#include "trainer/contract/read_range.h"

namespace regatta::orchestrator::experiments {
namespace {

using base::Table;
using trainer::contract::read_range;
using trainer::contract::RunConfig;
using trainer::contract::text_of;

constexpr std::size_t kLongestRunName = 64;
constexpr std::size_t kLongestId = 32;
constexpr std::size_t kMostShown = 4;  // differences, in a message

bool is_plain(std::string_view text, std::size_t most) {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !text.empty() && text.size() <= most && std::all_of(text.begin(), text.end(), good);
}

template <typename Number>
std::optional<Number> whole(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Layout read_layout(Table& table) {
  Layout layout;
  if (!table.has("data") && !table.has("pipeline")) {
    table.fail("data", "missing, and so is pipeline; say how many replicas there are, or stages");
  }
  read_range(table, "data", &layout.data, 1, kMostRanks);
  read_range(table, "pipeline", &layout.pipeline, 1, trainer::contract::kMostLayers);
  table.read_enum("schedule", trainer::contract::pipeline_order_names(), &layout.schedule);
  if (table.has("schedule") && layout.pipeline == 1) {
    table.fail("schedule", "is of stages, and this layout has none; leave it out, or set pipeline");
  }
  if (layout.data > kMostRanks / layout.pipeline) {
    table.fail("data", "comes to more than " + text_of(kMostRanks) + " ranks; use fewer");
  }
  layout.name = default_name(layout);
  table.read("name", &layout.name);
  if (!is_plain(layout.name, kLongestName)) {
    table.fail("name", "is '" + base::printable(layout.name.substr(0, 80)) + "'; use 1 to " +
                           text_of(kLongestName) + " of A-Z a-z 0-9 . _ -");
  }
  table.finish();
  return layout;
}

// items: the tables of the layouts, for what is found later.
std::vector<Layout> read_layouts(Table& section, std::vector<Table>* items) {
  *items = section.tables("layouts");
  if (items->empty()) {
    section.fail("layouts", "no layouts; list at least one, such as {data: 4} or {pipeline: 4}");
  }
  if (items->size() > kMostLayouts) {
    section.fail("layouts", "has " + text_of(items->size()) + " layouts; use at most " +
                                text_of(kMostLayouts));
  }
  std::vector<Layout> layouts;
  for (Table& item : *items) {
    Layout layout = read_layout(item);
    for (std::size_t other = 0; other < layouts.size(); ++other) {
      const std::string there = "[" + text_of(other) + "]";
      if (is_same(layouts[other], layout)) {
        item.fail(item.has("data") ? "data" : "pipeline",
                  "is the layout of " + there + " once more; remove one of them");
      }
      if (layouts[other].name == layout.name) {
        item.fail("name", "is '" + layout.name + "', as that of " + there + "; use another");
      }
    }
    layouts.push_back(std::move(layout));
  }
  return layouts;
}

std::vector<std::uint64_t> read_seeds(Table& section) {
  std::vector<std::string> texts;
  section.read("seeds", &texts);
  if (texts.empty()) section.fail("seeds", "no seeds; list at least one, and three for deviations");
  if (texts.size() > kMostSeeds) {
    section.fail("seeds",
                 "has " + text_of(texts.size()) + " seeds; use at most " + text_of(kMostSeeds));
  }
  std::vector<std::uint64_t> seeds;
  for (const std::string& text : texts) {
    const auto seed = whole<std::uint64_t>(text);
    if (!seed) {
      section.fail("seeds", "has '" + base::printable(text.substr(0, 80)) +
                                "'; use whole numbers from 0 to 18446744073709551615");
    }
    if (std::find(seeds.begin(), seeds.end(), *seed) != seeds.end()) {
      section.fail("seeds", "has " + text + " twice; name each seed once");
    }
    seeds.push_back(*seed);
  }
  return seeds;
}

void set_layout(const Layout& layout, RunConfig* run) {
  run->ranks = layout.ranks();
  run->parallel = {layout.data, layout.pipeline, layout.schedule};
  if (!run->slurm) return;
  // As many nodes as these ranks fill.
  const int per_node = std::min(run->slurm->ranks_per_node, run->ranks);
  if (per_node == 0 || run->ranks % per_node != 0) return;  // refused
  run->slurm->ranks_per_node = per_node;
  run->slurm->max_nodes = run->ranks / per_node;
  run->slurm->min_nodes = std::min(run->slurm->min_nodes, run->slurm->max_nodes);
}

// What the run cannot have of a layout, at the layout's line.
void check_layout(const RunConfig& common, const Layout& layout, const Table& item) {
  RunConfig run = common;
  set_layout(layout, &run);
  const std::string at = item.has("data") ? "data" : "pipeline";
  if (const auto refusal = trainer::contract::refuse_parallel(run)) {
    const bool ours = refusal->key == "parallel.data" || refusal->key == "parallel.pipeline";
    if (ours) item.fail(refusal->key.substr(refusal->key.find('.') + 1), refusal->message);
    item.fail("pipeline", "does not go: " + refusal->key + " " + refusal->message);
  }
  const auto divides = [&](int per_node, const std::string& key) {
    if (per_node == 0 || run.ranks % per_node == 0) return;
    item.fail(at, "comes to " + text_of(run.ranks) + " ranks, and " + key + " is " +
                      text_of(per_node) + "; use a multiple of it, or change " + key);
  };
  divides(run.ranks_per_node, "ranks_per_node");
  if (run.slurm) divides(run.slurm->ranks_per_node, "slurm.ranks_per_node");
}

std::vector<std::string> parts_after(std::string_view text, std::string_view prefix,
                                     std::size_t most) {
  if (text.substr(0, prefix.size()) != prefix) return {};
  text.remove_prefix(prefix.size());
  std::vector<std::string> parts;
  while (parts.size() + 1 < most && text.find('-') != std::string_view::npos) {
    parts.emplace_back(text.substr(0, text.find('-')));
    text.remove_prefix(text.find('-') + 1);
  }
  parts.emplace_back(text);
  return parts;
}

}  // namespace

const std::vector<std::string>& run_order_names() {
  static const std::vector<std::string> names{"balanced", "listed"};
  return names;
}

ParallelExperiment parse_parallel_experiment(std::string_view text, const std::string& source) {
  ParallelExperiment experiment;
  std::vector<Table> items;
  std::optional<Table> batch;
  experiment.run = trainer::contract::parse_run_config(text, source, [&](Table& root) {
    if (!root.has("experiment")) {
      root.fail("experiment", "missing; add it with layouts and seeds, or use `regatta submit`");
    }
    for (const char* const key : {"parallel", "sweep"}) {
      if (!root.has(key)) continue;
      root.fail(key, std::string(key) == "parallel"
                         ? "stands beside experiment.layouts, which say it; remove it"
                         : "stands beside experiment; use a file for each");
    }
    Table section = root.table("experiment");
    experiment.layouts = read_layouts(section, &items);
    experiment.seeds = read_seeds(section);
    section.read_enum("order", run_order_names(), &experiment.order);
    section.finish();
    batch.emplace(root.table("batch"));
  });
  if (trainer::contract::grows(experiment.run)) {
    batch->fail("growth", "layouts are compared at one batch size; leave it out");
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    check_layout(experiment.run, experiment.layouts[i], items[i]);
  }
  // Whatever else the reader of run files would refuse.
  for (std::size_t i = 0; i < experiment.layouts.size(); ++i) {
    const RunConfig run = config_of(experiment, {i, experiment.seeds.front()});
    (void)trainer::contract::parse_run_config(trainer::contract::to_json(run),
                                              source + ": layout " + experiment.layouts[i].name);
  }
  return experiment;
}

std::vector<PlannedRun> planned_runs(const ParallelExperiment& experiment) {
  const OrderSize size{experiment.layouts.size(), experiment.seeds.size()};
  const auto order = balanced_order(size, experiment.run.seed);
  std::vector<PlannedRun> planned;
  for (std::size_t row = 0; row < size.seeds; ++row) {
    for (std::size_t place = 0; place < size.layouts; ++place) {
      const bool balanced = experiment.order == RunOrder::Balanced;
      planned.push_back({balanced ? order[row][place] : place, experiment.seeds[row]});
    }
  }
  return planned;
}

RunConfig config_of(const ParallelExperiment& experiment, const PlannedRun& planned) {
  const Layout& layout = experiment.layouts.at(planned.layout);
  RunConfig run = experiment.run;
  set_layout(layout, &run);
  run.seed = planned.seed;
  const std::string end = "-" + layout.name + "-s" + text_of(planned.seed);
  run.name = run.name.substr(0, kLongestRunName - end.size()) + end;
  return run;
}

std::optional<std::string> refuse_earlier(const ParallelExperiment& experiment,
                                          const EarlierRuns& earlier) {
  std::vector<std::string> what;
  for (const Layout& layout : earlier.layouts) {
    const auto find = [&](const auto& fits) {
      return std::find_if(experiment.layouts.begin(), experiment.layouts.end(), fits);
    };
    const auto named = find([&](const Layout& each) { return each.name == layout.name; });
    const auto same = find([&](const Layout& each) { return is_same(each, layout); });
    const bool found = named != experiment.layouts.end();
    if (found && is_same(*named, layout)) continue;
    const std::string name = "layout " + base::printable(layout.name);
    if (found) {
      what.push_back(name + " was " + default_name(layout) + " and is " + default_name(*named) +
                     " here");
    } else if (same != experiment.layouts.end()) {
      what.push_back(name + " is called " + same->name + " here");
    } else {
      what.push_back(name + " is not here");
    }
  }
  for (const std::uint64_t seed : earlier.seeds) {
    const auto& seeds = experiment.seeds;
    if (std::find(seeds.begin(), seeds.end(), seed) != seeds.end()) continue;
    what.push_back("seed " + text_of(seed) + " is not here");
  }
  if (what.empty()) return std::nullopt;
  if (what.size() > kMostShown) {
    const std::string more = text_of(what.size() - kMostShown) + " more";
    what.resize(kMostShown);
    what.push_back(more);
  }
  return base::join(what, ", ");
}

std::string experiment_tag(const std::string& id) { return "experiment-" + id; }

std::vector<std::string> tags_of(const RunTags& tags) {
  return {experiment_tag(tags.experiment),
          "layout-" + text_of(tags.layout) + "-" + tags.layout_name,
          "run-" + text_of(tags.place) + "-of-" + text_of(tags.runs)};
}

RunTags read_tags(const std::vector<std::string>& tags) {
  RunTags read;
  for (const std::string& tag : tags) {
    if (const auto id = parts_after(tag, "experiment-", 1); !id.empty()) read.experiment = id[0];
    const auto layout = parts_after(tag, "layout-", 2);
    if (layout.size() == 2 && whole<int>(layout[0])) {
      read.layout = *whole<int>(layout[0]);
      read.layout_name = layout[1];
    }
    const auto run = parts_after(tag, "run-", 3);
    if (run.size() == 3 && run[1] == "of" && whole<int>(run[0]) && whole<int>(run[2])) {
      read.place = *whole<int>(run[0]);
      read.runs = *whole<int>(run[2]);
    }
  }
  return read;
}

// Clients take "." and ".." for steps in a path, so no table could be had of them.
bool is_experiment_id(std::string_view id) {
  return is_plain(id, kLongestId) && id.find_first_not_of('.') != std::string_view::npos;
}

}  // namespace regatta::orchestrator::experiments
