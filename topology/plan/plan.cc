#include "topology/plan/plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/document.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "topology/plan/step_timeline_json.h"

namespace regatta::topology::plan {
namespace {

constexpr int kMostSegmentNodes = 65536;
constexpr std::size_t kMostVariables = 256;
constexpr std::size_t kMostValueBytes = 4096;
constexpr std::size_t kMostExcluded = 4096;
constexpr std::size_t kMostHostlistBytes = 1024;
constexpr std::size_t kMostAlternatives = 256;
constexpr int kMostGpus = 1024;  // of a node

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_capital(char c) { return c >= 'A' && c <= 'Z'; }
bool is_small(char c) { return c >= 'a' && c <= 'z'; }

std::string shown(const std::string& text) { return base::printable(text.substr(0, 80)); }

// The planner sets the libraries that move gradients; whatever else a variable may reach is the
// user's.
void read_environment(base::Table& table, std::map<std::string, std::string>* environment) {
  base::Table section = table.table("environment");
  for (const std::string& name : section.keys()) {
    std::string value;
    section.read(name, &value);
    const bool prefixed = name.rfind("NCCL_", 0) == 0 || name.rfind("CUDA_", 0) == 0;
    const bool plain = std::all_of(name.begin(), name.end(),
                                   [](char c) { return is_capital(c) || is_digit(c) || c == '_'; });
    if (!prefixed || !plain || name.size() > 128) {
      section.fail(name,
                   "is not a variable of a plan; use NCCL_... and CUDA_..., in A-Z 0-9 _, and "
                   "put others into slurm.environment of the run file");
    }
    if (value.size() > kMostValueBytes || value.find('\0') != std::string::npos) {
      section.fail(name, "use at most " + std::to_string(kMostValueBytes) + " bytes and no NUL");
    }
    (*environment)[name] = value;
  }
  section.finish();
  if (environment->size() > kMostVariables) {
    table.fail("environment", "has " + std::to_string(environment->size()) +
                                  " variables; use at most " + std::to_string(kMostVariables));
  }
}

// A number, and a longest wait in Slurm's notation of times: the sort of a time is Slurm's to
// judge.
bool is_switches(std::string_view text) {
  const std::size_t at = text.find('@');
  const std::string_view count = text.substr(0, at);
  const std::string_view wait = at == std::string_view::npos ? "0" : text.substr(at + 1);
  const auto is_time = [](char c) { return is_digit(c) || c == ':' || c == '-'; };
  return !count.empty() && count.size() <= 6 && count.front() != '0' &&
         std::all_of(count.begin(), count.end(), is_digit) && !wait.empty() && wait.size() <= 32 &&
         is_digit(wait.front()) && std::all_of(wait.begin(), wait.end(), is_time);
}

bool is_hostlist(const std::string& text) {
  return !text.empty() && text.size() <= kMostHostlistBytes && text.front() != '-' &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return is_small(c) || is_capital(c) || is_digit(c) ||
                  std::string_view("._-,[]").find(c) != std::string_view::npos;
         });
}

Placement read_placement(base::Table& table) {
  Placement placement;
  read_environment(table, &placement.environment);
  table.read("switches", &placement.switches);
  if (!placement.switches.empty() && !is_switches(placement.switches)) {
    table.fail("switches", "is '" + shown(placement.switches) +
                               "'; use a number such as 1, or one with the longest wait such as "
                               "1@30 (minutes)");
  }
  table.read("segment", &placement.segment);
  if (placement.segment < 0 || placement.segment > kMostSegmentNodes) {
    table.fail("segment", "is " + std::to_string(placement.segment) + "; use 0 (none) to " +
                              std::to_string(kMostSegmentNodes) + " nodes");
  }
  table.read("exclude", &placement.exclude);
  if (placement.exclude.size() > kMostExcluded) {
    table.fail("exclude", "has " + std::to_string(placement.exclude.size()) +
                              " items; use at most " + std::to_string(kMostExcluded));
  }
  for (const std::string& nodes : placement.exclude) {
    if (is_hostlist(nodes)) continue;
    table.fail("exclude", "has '" + shown(nodes) +
                              "'; use names of nodes or lists such as node[01-04], of A-Z a-z 0-9 "
                              "._-,[]");
  }
  return placement;
}

bool is_fingerprint(const std::string& text) {
  return text.empty() ||
         (text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string::npos);
}

double read_seconds(base::Table& row, const std::string& key) {
  double seconds = 0;
  row.read(key, &seconds);
  if (!std::isfinite(seconds) || seconds < 0) row.fail(key, "use seconds of at least 0");
  return seconds;
}

std::vector<Alternative> read_alternatives(base::Table& table) {
  std::vector<Alternative> alternatives;
  for (base::Table& row : table.tables("alternatives")) {
    Alternative alternative;
    row.read("name", &alternative.name);
    row.read("buckets", &alternative.buckets);
    if (alternative.buckets < 1) row.fail("buckets", "use at least 1");
    alternative.step_seconds = read_seconds(row, "step_seconds");
    alternative.mean_step_seconds = read_seconds(row, "mean_step_seconds");
    row.finish();
    alternatives.push_back(alternative);
  }
  if (alternatives.size() > kMostAlternatives) {
    table.fail("alternatives", "has " + std::to_string(alternatives.size()) +
                                   " items; use at most " + std::to_string(kMostAlternatives));
  }
  return alternatives;
}

// Rank by rank, but a node's name once: {"node": "node01", "gpus": ["0", "1"], "nics": [...]}.
std::vector<Seat> read_seats(base::Table& table, int ranks) {
  std::vector<Seat> seats;
  for (base::Table& row : table.tables("seats")) {
    std::string node;
    std::vector<std::string> gpus, nics;
    row.read("node", &node);
    row.read("gpus", &gpus);
    row.read("nics", &nics);
    row.finish();
    if (node.empty() || gpus.size() != nics.size()) {
      row.fail("node", "give a node with as many NICs as GPUs; \"\" for a NIC that is not known");
    }
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      const auto gpu = base::parse_integer(gpus[i]);
      if (!gpu || *gpu < 0 || *gpu > kMostGpus) row.fail("gpus", "use numbers from 0");
      seats.push_back({node, static_cast<int>(*gpu), nics[i]});
    }
  }
  if (!seats.empty() && seats.size() != static_cast<std::size_t>(ranks)) {
    table.fail("seats",
               "are " + std::to_string(seats.size()) + " for " + std::to_string(ranks) + " ranks");
  }
  return seats;
}

nlohmann::ordered_json json_of(const std::vector<Seat>& seats) {
  auto rows = nlohmann::ordered_json::array();
  for (const Seat& seat : seats) {
    if (rows.empty() || rows.back()["node"] != seat.node) {
      rows.push_back({{"node", seat.node},
                      {"gpus", nlohmann::ordered_json::array()},
                      {"nics", nlohmann::ordered_json::array()}});
    }
    rows.back()["gpus"].push_back(seat.gpu);
    rows.back()["nics"].push_back(seat.nic);
  }
  return rows;
}

std::vector<PlanDecision> read_decisions(base::Table& table) {
  std::vector<PlanDecision> decisions;
  for (base::Table& row : table.tables("decisions")) {
    PlanDecision decision;
    row.read("key", &decision.key);
    row.read("choice", &decision.choice);
    row.read("run_file", &decision.run_file);
    row.read("why", &decision.why);
    for (base::Table& option : row.tables("options")) {
      std::string value;
      option.read("value", &value);
      decision.options.push_back({value, read_seconds(option, "step_seconds")});
      option.finish();
    }
    row.finish();
    decisions.push_back(std::move(decision));
  }
  return decisions;
}

nlohmann::ordered_json json_of(const PlanDecision& decision) {
  auto options = nlohmann::ordered_json::array();
  for (const PlanDecision::Option& option : decision.options) {
    options.push_back({{"value", option.value}, {"step_seconds", option.step_seconds}});
  }
  return {{"key", decision.key},
          {"choice", decision.choice},
          {"run_file", decision.run_file},
          {"why", decision.why},
          {"options", options}};
}

// Names of NCCL's, one after the other from 0.
template <typename Enum>
std::vector<std::string> names_of(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.emplace_back(nccl::name_of(static_cast<Enum>(i)));
  return names;
}

TunedRange read_range(base::Table& row) {
  TunedRange range;
  row.read_enum("collective", names_of<nccl::Collective>(nccl::kCollectives), &range.collective);
  row.read_enum("algorithm", names_of<nccl::Algorithm>(nccl::kAlgorithms), &range.way.algorithm);
  row.read_enum("protocol", names_of<nccl::Protocol>(nccl::kProtocols), &range.way.protocol);
  row.read("channels", &range.way.channels);
  row.read("from_bytes", &range.from_bytes);
  row.read("to_bytes", &range.to_bytes);
  row.read("us", &range.us);
  row.read("default_us", &range.default_us);
  row.read("measured", &range.measured);
  row.finish();
  return range;
}

TunerTable read_tuner(base::Table& table) {
  TunerTable tuner;
  if (!table.has("nccl")) return tuner;
  base::Table section = table.table("nccl");
  section.read("ranks", &tuner.ranks);
  section.read("nodes", &tuner.nodes);
  section.read("version", &tuner.nccl_version);
  for (base::Table& row : section.tables("ranges")) tuner.ranges.push_back(read_range(row));
  section.finish();
  try {
    (void)to_tuner_file(tuner);
  } catch (const base::Error& error) {
    table.fail("nccl", error.what());
  }
  return tuner;
}

nlohmann::ordered_json json_of(const TunerTable& tuner) {
  auto ranges = nlohmann::ordered_json::array();
  for (const TunedRange& range : tuner.ranges) {
    nlohmann::ordered_json row = {{"collective", nccl::name_of(range.collective)},
                                  {"from_bytes", range.from_bytes}};
    if (range.to_bytes != TunedRange::kNoEnd) row["to_bytes"] = range.to_bytes;
    row["algorithm"] = nccl::name_of(range.way.algorithm);
    row["protocol"] = nccl::name_of(range.way.protocol);
    row["channels"] = range.way.channels;
    row["us"] = range.us;
    row["default_us"] = range.default_us;
    row["measured"] = range.measured;
    ranges.push_back(row);
  }
  return {{"ranks", tuner.ranks},
          {"nodes", tuner.nodes},
          {"version", tuner.nccl_version},
          {"ranges", ranges}};
}

std::optional<StepTimeline> read_plan_timeline(base::Table& table, std::size_t buckets) {
  if (!table.has("timeline")) return std::nullopt;
  base::Table section = table.table("timeline");
  StepTimeline timeline = read_timeline(section);
  if (timeline.buckets.size() != buckets) {
    table.fail("timeline", "has " + std::to_string(timeline.buckets.size()) +
                               " buckets where bucket_ends has " + std::to_string(buckets));
  }
  return timeline;
}

}  // namespace

Plan default_plan(int tensor_count) {
  Plan plan;
  plan.buckets = {{0, tensor_count}};
  plan.why = "one rank reduces nothing, so one bucket holds every gradient";
  return plan;
}

std::string to_json(const Plan& plan) {
  nlohmann::ordered_json json;
  json["ranks"] = plan.ranks;
  if (!plan.topology.empty()) json["topology"] = plan.topology;
  auto ends = nlohmann::ordered_json::array();
  for (const Bucket& bucket : plan.buckets) ends.push_back(bucket.end_tensor);
  json["bucket_ends"] = ends;
  if (!plan.cut.empty()) json["cut"] = plan.cut;
  json["why"] = plan.why;
  json["measured"] = plan.measured;
  const Placement& placement = plan.placement;
  if (!placement.environment.empty()) json["environment"] = placement.environment;
  if (!placement.switches.empty()) json["switches"] = placement.switches;
  if (placement.segment > 0) json["segment"] = placement.segment;
  if (!placement.exclude.empty()) json["exclude"] = placement.exclude;
  for (const Alternative& alternative : plan.alternatives) {
    json["alternatives"].push_back({{"name", alternative.name},
                                    {"buckets", alternative.buckets},
                                    {"step_seconds", alternative.step_seconds},
                                    {"mean_step_seconds", alternative.mean_step_seconds}});
  }
  if (plan.timeline) json["timeline"] = json_of(*plan.timeline);
  for (const PlanDecision& decision : plan.decisions)
    json["decisions"].push_back(json_of(decision));
  if (!plan.tuner.ranges.empty()) json["nccl"] = json_of(plan.tuner);
  if (!plan.seats.empty()) json["seats"] = json_of(plan.seats);
  return base::json_text(json, 2) + "\n";
}

Plan parse_plan(const std::string& text, const std::string& source,
                std::optional<int> tensor_count) {
  base::Table table = base::Table::parse(text, source);
  Plan plan;
  table.read("ranks", &plan.ranks);
  if (plan.ranks < 1) table.fail("ranks", "use at least 1");
  table.read("topology", &plan.topology);
  if (!is_fingerprint(plan.topology)) {
    table.fail("topology", "use the 32 hexadecimal digits of a fingerprint");
  }
  std::vector<std::string> ends;
  table.read("bucket_ends", &ends);
  table.read("cut", &plan.cut);
  table.read("why", &plan.why);
  table.read("measured", &plan.measured);
  plan.placement = read_placement(table);
  plan.alternatives = read_alternatives(table);
  plan.timeline = read_plan_timeline(table, ends.size());
  plan.decisions = read_decisions(table);
  plan.seats = read_seats(table, plan.ranks);
  plan.tuner = read_tuner(table);
  table.finish();
  const int count = tensor_count.value_or(std::numeric_limits<int>::max());
  int begin = 0;
  for (const std::string& text_end : ends) {
    const auto end = base::parse_integer(text_end);
    if (!end) {
      table.fail("bucket_ends",
                 "expected whole numbers, found '" + base::printable(text_end.substr(0, 80)) + "'");
    }
    if (*end <= begin || *end > count) {
      table.fail("bucket_ends", "must grow from 1 to the number of tensors, " +
                                    std::to_string(count) + "; found " + text_end);
    }
    plan.buckets.push_back({begin, static_cast<int>(*end)});
    begin = static_cast<int>(*end);
  }
  if (tensor_count && begin != count) {
    table.fail("bucket_ends", "must end at the number of tensors, " + std::to_string(count));
  }
  return plan;
}

}  // namespace regatta::topology::plan
