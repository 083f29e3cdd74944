#include "trainer/bench/bench_ablation.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/statistics.h"
#include "trainer/samples/random_samples.h"
#include "trainer/step/buckets.h"

namespace regatta::trainer::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMebi = std::int64_t{1} << 20;
constexpr std::int64_t kCpuBucketBytes = 2 * kMebi;
constexpr std::int64_t kGpuBucketBytes = 25 * kMebi;
constexpr const char* kEverything = "everything";

struct Switches {
  bool unpadded = true, fused = true, balanced = true, overlap = true, sharded = true,
       graphs = true;
  contract::ClipMode clip = contract::ClipMode::Bucket;
  friend bool operator==(const Switches&, const Switches&) = default;
};

Switches nothing() {
  return {false, false, false, false, false, false, contract::ClipMode::Global};
}

enum class Needs { Nothing, Ranks, Gpu };

struct Idea {
  const char* name;
  Needs needs;
  void (*set)(Switches* switches, bool on);
};

// In the order in which they are added.
constexpr Idea kIdeas[] = {
    {"unpadding", Needs::Nothing, [](Switches* s, bool on) { s->unpadded = on; }},
    {"fused kernels", Needs::Nothing, [](Switches* s, bool on) { s->fused = on; }},
    {"graphs", Needs::Gpu, [](Switches* s, bool on) { s->graphs = on; }},
    {"balance", Needs::Ranks, [](Switches* s, bool on) { s->balanced = on; }},
    {"overlap", Needs::Ranks, [](Switches* s, bool on) { s->overlap = on; }},
    {"bucket clipping", Needs::Nothing,
     [](Switches* s, bool on) {
       s->clip = on ? contract::ClipMode::Bucket : contract::ClipMode::Global;
     }},
    {"sharding", Needs::Ranks, [](Switches* s, bool on) { s->sharded = on; }}};

constexpr std::pair<const char*, contract::ClipMode> kClipModes[] = {
    {"none", contract::ClipMode::None},
    {"global", contract::ClipMode::Global},
    {"bucket", contract::ClipMode::Bucket},
    {"rank", contract::ClipMode::Rank},
};

struct Row {
  std::string group, name;
  Switches switches{};
  std::string skipped{};  // why, if so
  std::vector<BenchFigures> rounds{};
};

std::string missing(Needs needs, int ranks, bool on_host) {
  if (needs == Needs::Gpu && on_host) return "GPU only";
  if (needs == Needs::Ranks && ranks == 1) return "needs several ranks";
  return "";
}

std::vector<Row> rows_of(int ranks, bool on_host) {
  Switches all;
  all.balanced = all.overlap = all.sharded = ranks > 1;
  all.graphs = !on_host;
  std::vector<Row> rows{{kEverything, kEverything, all}};
  for (const Idea& idea : kIdeas) {
    Row row{"off", idea.name, all, missing(idea.needs, ranks, on_host)};
    idea.set(&row.switches, false);
    rows.push_back(std::move(row));
  }
  for (const auto& [name, mode] : kClipModes) {
    Row row{"clip", name, all};
    row.switches.clip = mode;
    rows.push_back(std::move(row));
  }
  Switches added = nothing();
  rows.push_back({"added", "nothing", added});
  for (const Idea& idea : kIdeas) {
    Row row{"added", idea.name, added, missing(idea.needs, ranks, on_host)};
    if (row.skipped.empty()) idea.set(&added, true);
    row.switches = added;
    rows.push_back(std::move(row));
  }
  return rows;
}

class Ablation {
 public:
  Ablation(RankBench& bench, const contract::LengthTable& lengths,
           const BenchAblationOptions& options)
      : bench_(bench),
        options_(options),
        table_(contract::make_tensor_table(options.shape)),
        longest_(static_cast<std::int32_t>(
            std::min<std::int64_t>(lengths.longest(), options.shape.max_positions))),
        samples_(samples::random_samples(lengths, options.shape,
                                         std::int64_t{options.samples} * options.steps)) {}

  [[nodiscard]] BenchWay way(const Switches& switches) const {
    BenchWay way;
    way.config = bench_.config(options_.shape, options_.samples);
    way.config.data.max_length = longest_;
    way.config.balance.strategy =
        switches.balanced ? contract::Balance::GlobalPresort : contract::Balance::None;
    way.config.buckets.overlap = switches.overlap;
    way.config.sharding = {switches.sharded, switches.overlap};
    way.config.clip = switches.clip;
    way.config.graphs = switches.graphs;
    way.buckets = step::buckets_of_bytes(table_, bucket_bytes());
    way.samples = switches.unpadded ? samples_ : samples::padded_samples(samples_, longest_);
    way.fused = switches.fused;
    if (options_.link_gigabits > 0) {
      way.link =
          ranks::LinkModel{1e-6 * options_.link_microseconds, 1e9 / 8 * options_.link_gigabits};
    }
    return way;
  }
  // Of a step, before any padding.
  [[nodiscard]] double useful_tokens() const {
    double tokens = 0;
    for (std::int64_t i = 0; i < std::int64_t{options_.samples} * options_.steps; ++i) {
      tokens += samples_.length(i);
    }
    return tokens / options_.steps;
  }
  [[nodiscard]] std::int64_t bucket_bytes() const {
    return bench_.device().is_on_host() ? kCpuBucketBytes : kGpuBucketBytes;
  }
  void describe(Json* json) const {
    (*json)["model"] = options_.model_name;
    (*json)["parameters"] = table_.parameter_count;
    (*json)["lengths"] = options_.lengths_name;
    (*json)["longest"] = longest_;
    (*json)["buckets"] = step::buckets_of_bytes(table_, bucket_bytes()).size();
    (*json)["bucket_bytes"] = bucket_bytes();
    (*json)["samples"] = options_.samples;
    (*json)["useful_tokens"] = useful_tokens();
    (*json)["steps"] = options_.steps;
    (*json)["rounds"] = options_.rounds;
    (*json)["link_gigabits_per_second"] = options_.link_gigabits;
    (*json)["link_latency_microseconds"] = options_.link_microseconds;
  }

 private:
  RankBench& bench_;
  const BenchAblationOptions& options_;
  contract::TensorTable table_;
  std::int32_t longest_;
  samples::SampleStream samples_;
};

Json to_json(const Row& row, const Row& everything, double useful_tokens, bool on_host) {
  Json json;
  json["group"] = row.group;
  json["name"] = row.name;
  if (!row.skipped.empty()) {
    json["skipped"] = row.skipped;
    return json;
  }
  const auto median = [&](auto&& of_round) {
    std::vector<double> values;
    for (std::size_t i = 0; i < row.rounds.size(); ++i) values.push_back(of_round(i));
    return base::median(std::move(values));
  };
  const auto of = [&](double BenchFigures::*value) {
    return median([&row, value](std::size_t i) { return row.rounds[i].*value; });
  };
  const double seconds = of(&BenchFigures::seconds);
  json["step_ms"] = 1000 * seconds;
  json["useful_tokens_per_second"] = useful_tokens / seconds;
  // The host does not wait for a GPU's communication.
  json["exposed_ms"] = on_host ? Json(1000 * of(&BenchFigures::exposed_seconds)) : Json();
  json["imbalance"] = of(&BenchFigures::imbalance);
  json["utilisation"] = on_host ? Json(of(&BenchFigures::utilisation)) : Json();
  json["ratio"] =
      median([&](std::size_t i) { return row.rounds[i].seconds / everything.rounds[i].seconds; });
  if (on_host) {
    json["phases_ms"] = {{"data", 1000 * of(&BenchFigures::data)},
                         {"forward", 1000 * of(&BenchFigures::forward)},
                         {"backward", 1000 * of(&BenchFigures::backward)},
                         {"reduce", 1000 * of(&BenchFigures::reduce)},
                         {"optimizer", 1000 * of(&BenchFigures::optimizer)}};
  }
  return json;
}

std::string number_of(const Json& value, const char* format) {
  if (value.is_null()) return "-";
  char text[32];
  std::snprintf(text, sizeof text, format, value.get<double>());
  return text;
}

std::string line_of(const Json& row) {
  const auto group = row["group"].get<std::string>();
  const std::string prefix = group == "off"                                 ? "without "
                             : group == "clip"                              ? "clip: "
                             : group == "added" && row["name"] != "nothing" ? "+ "
                                                                            : "";
  const std::string name = prefix + row["name"].get<std::string>();
  char line[256];
  if (row.contains("skipped")) {
    std::snprintf(line, sizeof line, "%-24s %s\n", name.c_str(),
                  row["skipped"].get<std::string>().c_str());
    return line;
  }
  const auto phase = [&](const char* key) {
    return row.contains("phases_ms") ? number_of(row["phases_ms"][key], "%.1f") : "-";
  };
  std::snprintf(line, sizeof line, "%-24s %8s %10s %8s %6s %6s %6s  %8s %8s %8s %8s\n",
                name.c_str(), number_of(row["step_ms"], "%.1f").c_str(),
                number_of(row["useful_tokens_per_second"], "%.0f").c_str(),
                number_of(row["exposed_ms"], "%.1f").c_str(),
                number_of(row["imbalance"], "%.3f").c_str(),
                number_of(row["utilisation"], "%.2f").c_str(),
                number_of(row["ratio"], "%.3f").c_str(), phase("forward").c_str(),
                phase("backward").c_str(), phase("reduce").c_str(), phase("optimizer").c_str());
  return line;
}

}  // namespace

std::string bench_ablation(RankBench& bench, const contract::LengthTable& lengths,
                           const BenchAblationOptions& options) {
  const int ranks = bench.group().ranks();
  const bool on_host = bench.device().is_on_host();
  if (options.link_gigabits > 0 && !on_host) {
    throw base::Error(base::Code::User,
                      "an artificial link is for the CPU only; leave out --link-gbps");
  }
  if (options.samples < ranks) {
    throw base::Error(base::Code::User, std::to_string(ranks) + " ranks are more than the " +
                                            std::to_string(options.samples) +
                                            " samples of a step; raise --samples");
  }
  const Ablation ablation(bench, lengths, options);
  std::vector<Row> rows = rows_of(ranks, on_host);
  Json json;
  json["benchmark"] = "ablation";
  bench.describe(&json);
  ablation.describe(&json);
  (void)bench.run(ablation.way(rows.front().switches), 1);  // a process's first steps are slower
  for (int round = 0; round < options.rounds; ++round) {
    for (auto row = rows.begin(); row != rows.end(); ++row) {
      if (!row->skipped.empty()) continue;
      const auto same = std::find_if(rows.begin(), row, [&](const Row& before) {
        return before.skipped.empty() && before.switches == row->switches;
      });
      row->rounds.push_back(same != row ? same->rounds.back()
                                        : bench.run(ablation.way(row->switches), options.steps));
    }
  }
  for (const Row& row : rows) {
    json["rows"].push_back(to_json(row, rows.front(), ablation.useful_tokens(), on_host));
  }
  return base::json_text(json, 2) + "\n";
}

std::string bench_ablation_table(const std::string& json) {
  const Json parsed = base::parse_json<Json>(json);
  std::string table =
      "                          step ms  tokens/s  exposed  imbal. utilis.  ratio   forward "
      "backward   reduce optimizer\n";
  std::string group;
  for (const Json& row : parsed["rows"]) {
    if (!group.empty() && row["group"] != group) table += "\n";
    group = row["group"];
    table += line_of(row);
  }
  return table;
}

}  // namespace regatta::trainer::bench
