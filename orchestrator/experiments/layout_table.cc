#include "orchestrator/experiments/layout_table.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.h"
#include "base/wording.h"
#include "orchestrator/experiments/published.h"

namespace regatta::orchestrator::experiments {
namespace {

using Json = nlohmann::ordered_json;
using Runs = std::vector<ExperimentRun>;

Json number(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

constexpr double kEndless = std::numeric_limits<double>::infinity();

std::string shown(double value) { return base::short_number(value, 4); }

struct Group {
  Layout layout;
  int number = 0;  // in the file, 0: not known
  std::vector<const ExperimentRun*> runs;

  [[nodiscard]] std::vector<const ExperimentRun*> succeeded() const {
    std::vector<const ExperimentRun*> good;
    std::copy_if(runs.begin(), runs.end(), std::back_inserter(good),
                 [](const ExperimentRun* run) { return run->succeeded(); });
    return good;
  }
};

// A column of each name: the same layout under two names was asked for twice.
std::vector<Group> groups_of(const Runs& runs) {
  std::vector<Group> groups;
  for (const ExperimentRun& run : runs) {
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& each) {
      return each.layout.name == run.layout.name && is_same(each.layout, run.layout);
    });
    if (group == groups.end()) {
      groups.push_back({run.layout, run.tags.layout, {}});
      group = std::prev(groups.end());
    }
    group->runs.push_back(&run);
  }
  const auto rank = [](const Group& group) {
    return group.number > 0 ? group.number : std::numeric_limits<int>::max();
  };
  std::stable_sort(groups.begin(), groups.end(),
                   [&](const Group& a, const Group& b) { return rank(a) < rank(b); });
  return groups;
}

// The last step at which all runs that succeeded were evaluated.
std::optional<std::int64_t> common_step(const Runs& runs) {
  std::optional<std::set<std::int64_t>> steps;
  for (const ExperimentRun& run : runs) {
    if (!run.succeeded()) continue;
    std::set<std::int64_t> both;
    for (const auto& [step, loss] : run.losses) {
      if (!steps || steps->count(step) > 0) both.insert(step);
    }
    steps = std::move(both);
  }
  if (!steps || steps->empty()) return std::nullopt;
  return *steps->rbegin();
}

Json mean_json(const std::vector<double>& values) {
  if (values.empty()) return nullptr;
  const auto count = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  const double mean = sum / count;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {{"mean", mean},
          {"deviation", values.size() > 1 ? Json(std::sqrt(squares / (count - 1))) : Json()},
          {"runs", values.size()}};
}

Json layout_json(const Group& group) {
  const Layout& layout = group.layout;
  Json json{{"name", layout.name},
            {"ranks", layout.ranks()},
            {"data", layout.data},
            {"pipeline", layout.pipeline},
            {"schedule", layout.pipeline > 1 ? Json(schedule_name(layout)) : Json()}};
  const auto good = group.succeeded();
  json["succeeded"] = good.size();
  json["failed"] = Json::array();
  for (const ExperimentRun* run : group.runs) {
    if (run->is_over() && !run->succeeded()) json["failed"].push_back(run->id);
  }
  for (const FigureText& text : figure_texts()) {
    std::vector<double> values;
    for (const ExperimentRun* run : good) {
      if (const auto& value = of(run->figures, text.figure)) values.push_back(*value);
    }
    json["figures"][text.key] = mean_json(values);
  }
  return json;
}

Json run_json(const ExperimentRun& run) {
  Json json{{"id", run.id},
            {"state", run.state},
            {"layout", run.layout.name},
            {"seed", run.seed},
            {"place", run.tags.place > 0 ? Json(run.tags.place) : Json()},
            {"noise_scale_low", number(run.noise_low)},
            {"noise_scale_high", number(run.noise_high)},
            {"error", run.error.empty() ? Json() : Json(run.error)}};
  for (const FigureText& text : figure_texts()) {
    json["figures"][text.key] = number(of(run.figures, text.figure));
  }
  return json;
}

// Runs of one seed, each of another layout, that succeeded.
std::map<std::uint64_t, std::vector<const ExperimentRun*>> by_seed(const Runs& runs) {
  std::map<std::uint64_t, std::vector<const ExperimentRun*>> seeds;
  for (const ExperimentRun& run : runs) {
    if (run.succeeded()) seeds[run.seed].push_back(&run);
  }
  return seeds;
}

std::string interval_text(const ExperimentRun& run) {
  return run.layout.name + " " + shown(*run.noise_low) + " to " +
         (run.noise_high ? shown(*run.noise_high) : "endless");
}

// Intervals on a line have a common part if each two of them have one.
void judge_noise(const Runs& runs, Json* agreement) {
  int compared = 0;
  std::vector<std::string> apart;
  for (auto [seed, members] : by_seed(runs)) {
    members.erase(std::remove_if(members.begin(), members.end(),
                                 [](const ExperimentRun* run) { return !run->noise_low; }),
                  members.end());
    if (members.size() < 2) continue;
    ++compared;
    const auto highest = *std::max_element(
        members.begin(), members.end(),
        [](const auto* a, const auto* b) { return *a->noise_low < *b->noise_low; });
    const auto lowest =
        *std::min_element(members.begin(), members.end(), [](const auto* a, const auto* b) {
          return a->noise_high.value_or(kEndless) < b->noise_high.value_or(kEndless);
        });
    if (*highest->noise_low <= lowest->noise_high.value_or(kEndless)) continue;
    apart.push_back("seed " + std::to_string(seed) + ": " + interval_text(*lowest) + ", " +
                    interval_text(*highest));
  }
  Json& sentences = (*agreement)["sentences"];
  if (compared == 0) {
    (*agreement)["noise_scale"] = nullptr;
    sentences.push_back(
        "Whether noise scale and statistical efficiency agree is not known: no seed has them of "
        "two "
        "layouts. A run tells them after ten looks at the noise (statistics.every), with clip.mode "
        "global or none.");
    return;
  }
  (*agreement)["noise_scale"] = apart.empty();
  sentences.push_back(
      apart.empty()
          ? "Noise scale and statistical efficiency agree between layouts, as they must: the 95 % "
            "intervals of each seed's runs have a common part (" +
                base::plural(compared, "seed") + ")."
          : "Noise scale and statistical efficiency DO NOT AGREE between layouts, though a layout "
            "changes no gradient. Their 95 % intervals, in samples, are apart: " +
                base::join(apart, "; ") +
                ". Look for a divergence, another precision, or a fault of the trainer.");
}

void judge_losses(const Runs& runs, const std::optional<std::int64_t>& samples, Json* agreement) {
  std::optional<double> widest;
  for (const auto& [seed, members] : by_seed(runs)) {
    std::vector<double> losses;
    for (const ExperimentRun* run : members) {
      if (const auto& loss = of(run->figures, Figure::ValidationLoss)) losses.push_back(*loss);
    }
    if (losses.size() < 2) continue;
    const auto [low, high] = std::minmax_element(losses.begin(), losses.end());
    widest = std::max(widest.value_or(0), *high - *low);
  }
  (*agreement)["loss_difference"] = number(widest);
  if (!widest || !samples) return;
  (*agreement)["sentences"].push_back(
      "Validation losses of one seed, after " + std::to_string(*samples) +
      " samples, differ between layouts by " + base::short_number(*widest, 2) + " at most.");
}

// What a reader must know of the figures.
Json notes_of(const Runs& runs, const std::vector<Group>& groups) {
  Json notes = Json::array();
  std::set<int> ranks;
  for (const Group& group : groups) ranks.insert(group.layout.ranks());
  if (ranks.size() > 1) {
    std::vector<std::string> counts;
    for (const int count : ranks) counts.push_back(std::to_string(count));
    notes.push_back("Layouts have different numbers of ranks (" + base::join(counts, ", ") +
                    "): their rates and times are not of the same hardware.");
  }
  std::set<std::vector<std::string>> hosts;
  std::set<std::string> devices;
  for (const ExperimentRun& run : runs) {
    if (run.succeeded() && !run.hosts.empty()) hosts.insert(run.hosts);
    if (!run.device.empty()) devices.insert(run.device);
    if (run.is_over() && !run.succeeded()) {
      notes.push_back("Left out: " + run.id + " (" + run.layout.name + ", seed " +
                      std::to_string(run.seed) + ") " + run.state +
                      (run.error.empty() ? "" : ": " + run.error) + ".");
    }
    if (run.is_thinned) {
      notes.push_back(
          "Of " + run.id +
          " only means over stretches of steps are kept, so its figures are less exact.");
    }
    if (run.common != runs.front().common) {
      notes.push_back("The run file of " + run.id + " differs from that of " + runs.front().id +
                      " in more than layout and seed; `regatta compare` shows in what.");
    }
  }
  if (hosts.size() > 1)
    notes.push_back("Runs ran on different nodes; that makes a difference, too.");
  if (devices.size() > 1) {
    notes.push_back("Runs ran on different devices: " +
                    base::join({devices.begin(), devices.end()}, ", ") + ".");
  }
  return notes;
}

// The nodes of the runs whose figures count; of the others, as long as there is none.
std::vector<std::string> hosts_of(const Runs& runs) {
  std::vector<std::string> hosts;
  for (const bool counted : {true, false}) {
    for (const ExperimentRun& run : runs) {
      if (run.succeeded() != counted) continue;
      for (const std::string& host : run.hosts) {
        if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
      }
    }
    if (!hosts.empty()) break;
  }
  return hosts;
}

// Of the first run that tells it: one that was cancelled before it began does not.
Json device_of(const Runs& runs) {
  for (const ExperimentRun& run : runs) {
    if (!run.device.empty()) return run.device;
  }
  return nullptr;
}

void add_progress(const Runs& runs, Json* table) {
  int planned = 0;
  std::size_t over = 0;
  for (const ExperimentRun& run : runs) {
    planned = std::max(planned, run.tags.runs);
    if (run.is_over()) ++over;
  }
  (*table)["runs_planned"] = planned > 0 ? Json(planned) : Json();
  const std::size_t all = std::max<std::size_t>(static_cast<std::size_t>(planned), runs.size());
  if (over == all) return;
  (*table)["notes"].push_back(std::to_string(over) + " of " + std::to_string(all) +
                              " runs are over; the others are not in the table.");
}

}  // namespace

Json layout_table(const std::string& experiment, Runs runs) {
  std::stable_sort(runs.begin(), runs.end(), [](const ExperimentRun& a, const ExperimentRun& b) {
    return a.tags.place < b.tags.place;
  });
  const auto step = common_step(runs);
  std::optional<std::int64_t> samples;
  for (ExperimentRun& run : runs) {
    if (!step || !run.succeeded()) continue;
    of(run.figures, Figure::ValidationLoss) = run.losses.at(*step);
    samples = *step * run.batch_size;
  }
  const std::vector<Group> groups = groups_of(runs);
  Json table{{"experiment", experiment}, {"runs_planned", nullptr}};
  table["batch_size"] = runs.empty() ? Json() : Json(runs.front().batch_size);
  table["device"] = device_of(runs);
  table["hosts"] = hosts_of(runs);
  table["loss_samples"] = samples ? Json(*samples) : Json();
  table["layouts"] = Json::array();
  for (const Group& group : groups) table["layouts"].push_back(layout_json(group));
  table["runs"] = Json::array();
  for (const ExperimentRun& run : runs) table["runs"].push_back(run_json(run));
  Json& agreement = table["agreement"];
  agreement = {
      {"noise_scale", nullptr}, {"loss_difference", nullptr}, {"sentences", Json::array()}};
  if (groups.size() > 1) {
    judge_noise(runs, &agreement);
    judge_losses(runs, samples, &agreement);
  }
  table["notes"] = notes_of(runs, groups);
  add_progress(runs, &table);
  table["published"] = published_json();
  return table;
}

}  // namespace regatta::orchestrator::experiments
