#include "trainer/bench/bench_overlap.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/statistics.h"
#include "trainer/samples/random_samples.h"
#include "trainer/step/buckets.h"
#include "trainer/step/gradient_reducer.h"

namespace regatta::trainer::bench {
namespace {

using Json = nlohmann::ordered_json;

// Of what is computed: the time in which the link carries all gradients.
constexpr double kCommunicationShare = 0.5;

double embedding_share(const contract::TensorTable& table) {
  std::int64_t embeddings = 0;
  for (const contract::TensorEntry& tensor : table.tensors) {
    if (tensor.name.rfind("bert.embeddings.", 0) == 0) embeddings += tensor.size;
  }
  return static_cast<double>(embeddings) / static_cast<double>(table.parameter_count);
}

struct Round {
  double computed = 0, real_exposed = 0;  // without a link
  double overlap = 0, no_overlap = 0, first_ready = 0;
  double last_bucket = 0, communication = 0, bytes_per_second = 0;

  [[nodiscard]] double ratio() const { return overlap / (computed + last_bucket); }
  [[nodiscard]] double bound() const {
    return std::max(computed + last_bucket, first_ready + communication);
  }
};

Round measure(RankBench& bench, const OverlapCase& tried, const BenchWay& way,
              const std::vector<step::ArenaSlice>& slices) {
  double bytes = 0;
  for (const step::ArenaSlice& slice : slices) bytes += 4.0 * static_cast<double>(slice.size);
  BenchWay overlapping = way, plain = way;
  plain.config.buckets.overlap = false;
  Round round;
  const BenchFigures alone = bench.run(plain, tried.steps);
  round.computed = alone.computed_seconds;
  round.real_exposed = alone.exposed_seconds;
  // Every rank has the same figures, so all make the same link.
  round.bytes_per_second = bytes / (kCommunicationShare * round.computed);
  overlapping.link = plain.link = ranks::LinkModel{0, round.bytes_per_second};
  const BenchFigures hidden = bench.run(overlapping, tried.steps);
  round.overlap = hidden.seconds;
  round.first_ready = hidden.first_ready_seconds;
  round.no_overlap = bench.run(plain, tried.steps).seconds;
  round.communication = plain.link->seconds(bytes);
  round.last_bucket = plain.link->seconds(4.0 * static_cast<double>(slices.back().size));
  return round;
}

Json to_json(const OverlapCase& tried, const contract::TensorTable& table,
             const std::vector<step::ArenaSlice>& slices, const std::vector<Round>& rounds) {
  const auto median = [&](auto&& of_round) {
    std::vector<double> values;
    for (const Round& round : rounds) values.push_back(of_round(round));
    return base::median(std::move(values));
  };
  const auto of = [&](double Round::*value) {
    return median([value](const Round& round) { return round.*value; });
  };
  Json json;
  json["model"] = tried.model;
  json["parameters"] = table.parameter_count;
  json["embedding_share"] = embedding_share(table);
  json["buckets"] = slices.size();
  json["bucket_bytes"] = tried.bucket_bytes;
  json["samples"] = tried.samples;
  json["steps"] = tried.steps;
  json["rounds"] = tried.rounds;
  json["link_gigabits_per_second"] = 8e-9 * of(&Round::bytes_per_second);
  json["compute_seconds"] = of(&Round::computed);
  json["real_exposed_seconds"] = of(&Round::real_exposed);
  json["communication_seconds"] = of(&Round::communication);
  json["last_bucket_seconds"] = of(&Round::last_bucket);
  json["first_ready_seconds"] = of(&Round::first_ready);
  json["overlap_seconds"] = of(&Round::overlap);
  json["no_overlap_seconds"] = of(&Round::no_overlap);
  json["bound_seconds"] = median([](const Round& round) { return round.bound(); });
  json["ratio"] = median([](const Round& round) { return round.ratio(); });
  json["ratio_to_bound"] = median([](const Round& r) { return r.overlap / r.bound(); });
  json["no_overlap_to_overlap"] = median([](const Round& r) { return r.no_overlap / r.overlap; });
  for (const Round& round : rounds) json["ratio_of_rounds"].push_back(round.ratio());
  return json;
}

}  // namespace

std::vector<OverlapCase> default_overlap_cases() {
  return {overlap_case(kSmallEmbedding), overlap_case("base")};
}

OverlapCase overlap_case(const std::string& model) {
  constexpr std::int64_t kMebi = std::int64_t{1} << 20;
  if (model == kSmallEmbedding) return {model, 16, 4, 5, 2 * kMebi};
  (void)bench_shape(model);  // throws for a model that is not one
  if (model == "base" || model == "large") return {model, 4, 2, 1, 25 * kMebi};
  return {model, 16, 3, 3, 2 * kMebi};
}

std::string bench_overlap(RankBench& bench, const contract::LengthTable& lengths,
                          const std::vector<OverlapCase>& cases) {
  if (bench.group().ranks() == 1 || !bench.device().is_on_host()) {
    throw base::Error(base::Code::User,
                      "overlap is shown on two or more ranks of the CPU, where a link can be "
                      "imitated; ask for --ranks 2");
  }
  Json json;
  json["benchmark"] = "overlap";
  bench.describe(&json);
  for (const OverlapCase& tried : cases) {
    const contract::ModelShape shape = bench_shape(tried.model);
    const contract::TensorTable table = contract::make_tensor_table(shape);
    BenchWay way;
    way.config = bench.config(shape, tried.samples);
    way.buckets = step::buckets_of_bytes(table, tried.bucket_bytes);
    way.samples =
        samples::random_samples(lengths, shape, std::int64_t{tried.samples} * tried.steps);
    const std::vector<step::ArenaSlice> slices = step::slices_of(table, way.buckets);
    std::vector<Round> rounds;
    (void)bench.run(way, 1);  // the process's first steps are slower
    for (int i = 0; i < tried.rounds; ++i) rounds.push_back(measure(bench, tried, way, slices));
    json["cases"].push_back(to_json(tried, table, slices, rounds));
  }
  return base::json_text(json, 2) + "\n";
}

std::string bench_overlap_table(const std::string& json) {
  const Json parsed = base::parse_json<Json>(json);
  std::string table =
      "times in ms           emb.  buckets  computed  link    last  t_first       T   T off  "
      "T/(C+last)   bound  T/bound\n";
  for (const Json& row : parsed["cases"]) {
    const auto ms = [&](const char* key) { return 1000 * row[key].get<double>(); };
    char line[256];
    std::snprintf(line, sizeof line,
                  "%-20s %4.1f %%  %7d  %8.1f %5.0f %7.1f %8.1f %7.1f %7.1f  %10.3f %7.1f %8.3f\n",
                  row["model"].get<std::string>().c_str(),
                  100 * row["embedding_share"].get<double>(), row["buckets"].get<int>(),
                  ms("compute_seconds"), ms("communication_seconds"), ms("last_bucket_seconds"),
                  ms("first_ready_seconds"), ms("overlap_seconds"), ms("no_overlap_seconds"),
                  row["ratio"].get<double>(), ms("bound_seconds"),
                  row["ratio_to_bound"].get<double>());
    table += line;
  }
  return table;
}

}  // namespace regatta::trainer::bench
