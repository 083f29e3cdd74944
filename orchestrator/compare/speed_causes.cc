#include "orchestrator/compare/speed_causes.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <utility>

namespace regatta::orchestrator::compare {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kLeastShare = 0.1;    // of the whole difference
constexpr double kOtherPressure = 10;  // percent of time in which something waited for a processor
constexpr double kPressureSeconds = 10;
constexpr double kOtherClock = 0.05;  // of the larger clock
constexpr double kOtherWaiting = 5;   // percent of their time in which threads waited to run
constexpr double kOtherRate = 1.5;  // of disks and links; what they differ by for no reason is less

// Facts of environment.json in which attempts may differ, the likeliest cause first.
struct Fact {
  Part part;
  const char* key;   // JSON pointer
  const char* what;  // differs, for people
};
constexpr Fact kFacts[] = {
    {Part::Compute, "/numerics/activations", "another type of activations and products"},
    {Part::Compute, "/numerics/tf32", "float32 products with rounded factors"},
    {Part::Compute, "/devices/of_rank_0/model", "another GPU"},
    {Part::Compute, "/devices/of_rank_0/kind", "another kind of device"},
    {Part::Compute, "/fabric/ranks", "another number of ranks"},
    {Part::Compute, "/numerics/instruction_set", "another instruction set"},
    {Part::Compute, "/numerics/threads", "another number of threads"},
    {Part::Compute, "/machine/limits/processors", "another limit on processors"},
    {Part::Compute, "/machine/usable_threads", "other processors to run on"},
    {Part::Compute, "/build/type", "another type of build"},
    {Part::Compute, "/build/flags", "other flags of the compiler"},
    {Part::Compute, "/numerics/determinism", "another level of determinism"},
    {Part::Compute, "/numerics/shards", "another number of shards"},
    {Part::Compute, "/numerics/products", "another library for products"},
    {Part::Compute, "/numerics/attention", "another kernel of attention"},
    {Part::Compute, "/machine/processor/name", "another processor"},
    {Part::Compute, "/machine/frequency", "other settings of the processor's clock"},
    {Part::Compute, "/machine/caches", "other caches"},
    {Part::Compute, "/machine/huge_pages", "other settings of huge pages"},
    {Part::Compute, "/configuration/batch/micro", "another micro-batch"},
    {Part::Compute, "/configuration/batch/size", "another batch, and products of another size"},
    {Part::Compute, "/configuration/model/dropout", "another dropout"},
    {Part::Compute, "/configuration/model/attention_dropout", "another dropout of attention"},
    {Part::Compute, "/numerics/gelu", "another GELU"},
    {Part::Compute, "/build/compiler", "another compiler"},
    {Part::Compute, "/build/libraries", "other versions of libraries"},
    {Part::Compute, "/build/program_xxh3_128", "another build of the trainer"},
    {Part::Optimizer, "/configuration/optimizer/name", "another optimizer"},
    {Part::Optimizer, "/configuration/batch/size", "another batch: fewer samples share an update"},
    {Part::Optimizer, "/model/parameters", "another number of parameters"},
    {Part::Optimizer, "/configuration/clip/mode", "another way of clipping"},
    {Part::Optimizer, "/configuration/sharding/optimizer", "sharded state in one of them"},
    {Part::Imbalance, "/configuration/balance/strategy", "another way of balancing"},
    {Part::Imbalance, "/configuration/batch/size", "another batch"},
    {Part::Bubble, "/configuration/parallel", "another layout"},
    {Part::Bubble, "/configuration/batch/micro", "another micro-batch"},
    {Part::Communication, "/fabric/ranks", "another number of ranks"},
    {Part::Communication, "/fabric/ranks_per_node", "other nodes for its ranks"},
    {Part::Communication, "/fabric/hosts", "another number of nodes"},
    {Part::Communication, "/fabric/transport", "another transport"},
    {Part::Communication, "/fabric/hierarchical", "sums that go through nodes first, or not"},
    {Part::Communication, "/configuration/batch/size", "another batch: fewer samples share a sum"},
    {Part::Communication, "/configuration/buckets", "other buckets"},
    {Part::Communication, "/fabric/plan_xxh3_128", "another plan"},
    {Part::Communication, "/configuration/clip/mode", "clipping that lets sums overlap, or not"},
    {Part::Communication, "/configuration/sharding", "another way of sharding"},
    {Part::Communication, "/model/parameters", "another number of parameters"},
    {Part::Input, "/data/fingerprint", "another dataset"},
    {Part::Input, "/configuration/data", "other settings of data"},
    {Part::Input, "/configuration/input", "other threads for samples, or steps ahead"},
    {Part::Input, "/configuration/batch/size", "another batch: less to do while samples are made"},
    {Part::Input, "/fabric/ranks", "another number of ranks, which deal samples to one another"},
    {Part::Statistics, "/configuration/statistics", "other looks at the gradient's noise"},
    {Part::Evaluation, "/configuration/evaluate", "other evaluations"},
    {Part::Checkpoints, "/configuration/checkpoint", "other checkpoints"},
    {Part::Other, "/fabric/ranks", "another number of ranks, which tell one another of each step"},
};

struct Sides {
  const SpeedAccount& a;
  const SpeedAccount& b;
  const Json& environment_a;
  const Json& environment_b;
};

// What the machine did while they trained, where it differs enough to matter.
void add_state(const Sides& sides, LikelyCause* cause) {
  const auto both = [&](const char* pointer) {
    return std::pair(fact_at(sides.environment_a, pointer), fact_at(sides.environment_b, pointer));
  };
  const auto add = [&](const char* pointer, const char* what) {
    const auto [a, b] = both(pointer);
    if (cause->what.empty()) cause->what = what;
    cause->evidence.push_back(evidence_of(key_of(pointer), a, b));
  };
  const auto differ_by = [&](const char* pointer, const auto& enough) {
    const auto [a, b] = both(pointer);
    return a.is_number() && b.is_number() && enough(a.get<double>(), b.get<double>());
  };
  for (const char* const pointer :
       {"/training/throttled/core_throttle_count", "/training/throttled/package_throttle_count"}) {
    if (differ_by(pointer, [](double a, double b) { return a != b; })) {
      add(pointer, "a processor that was throttled");
    }
  }
  constexpr const char* kWaited = "/training/waited_percent";
  if (differ_by(kWaited, [](double a, double b) { return std::abs(a - b) > kOtherWaiting; })) {
    add(kWaited, "others that used the same processors");
  }
  // A mean over seconds, which of a shorter attempt tells what was before it.
  const bool is_own = std::min(sides.a.seconds, sides.b.seconds) >= kPressureSeconds;
  constexpr const char* kPressure = "/training/clocks/processor_pressure";
  if (is_own &&
      differ_by(kPressure, [](double a, double b) { return std::abs(a - b) > kOtherPressure; })) {
    add(kPressure, "others that used the same processors");
  }
  constexpr const char* kClock = "/training/clocks/mean_mhz";
  if (differ_by(kClock, [](double a, double b) {
        return std::abs(a - b) > kOtherClock * std::max(a, b);
      })) {
    add(kClock, "another clock of the processors");
  }
}

void add_facts(const Sides& sides, LikelyCause* cause) {
  for (const Fact& fact : kFacts) {
    if (fact.part != cause->part) continue;
    const Json a = fact_at(sides.environment_a, fact.key);
    const Json b = fact_at(sides.environment_b, fact.key);
    if (a == b) continue;
    if (cause->what.empty()) cause->what = fact.what;
    add_differences(key_of(fact.key), a, b, &cause->evidence);
  }
}

// Of a disk or a link, by the journals: where nothing else differs, one that is slower is the
// cause.
void add_rate(const char* key, double rate_a, double rate_b, const std::string& what,
              LikelyCause* cause) {
  if (!(rate_a > 0 && rate_b > 0)) return;
  cause->evidence.push_back(evidence_of(key, Json(rate_a), Json(rate_b)));
  const bool differ = std::max(rate_a, rate_b) >= kOtherRate * std::min(rate_a, rate_b);
  if (cause->what.empty() && differ)
    cause->what = (rate_b < rate_a ? "a slower " : "a faster ") + what;
}

void add_rates(const Sides& sides, LikelyCause* cause) {
  const auto rate = [](double amount, double seconds) {
    return seconds > 0 ? amount / seconds : 0;
  };
  if (cause->part == Part::Checkpoints) {
    add_rate("bytes of checkpoints written in a second",
             rate(sides.a.checkpoint_bytes, sides.a.checkpoint_writing_seconds),
             rate(sides.b.checkpoint_bytes, sides.b.checkpoint_writing_seconds),
             "disk for checkpoints", cause);
  }
  if (cause->part == Part::Communication) {
    const auto bytes = [](const SpeedAccount& account, const Json& environment) {
      const Json parameters = fact_at(environment, "/model/parameters");
      return parameters.is_number()
                 ? 4 * parameters.get<double>() * static_cast<double>(account.summed_steps)
                 : 0;  // float32
    };
    add_rate("bytes of gradients summed in a second",
             rate(bytes(sides.a, sides.environment_a), sides.a.sum_seconds),
             rate(bytes(sides.b, sides.environment_b), sides.b.sum_seconds), "link between ranks",
             cause);
  }
}

// Of a rank: what one thread makes, and what steps would take that do not wait for it.
Json made_in_a_second(const SpeedAccount& of) {
  if (!(of.making_seconds > 0)) return {};
  return static_cast<double>(of.samples) / of.ranks / of.making_seconds;
}
Json taken_in_a_second(const SpeedAccount& of) {
  const double seconds = of.seconds - of.of(Part::Input);
  if (!(seconds > 0)) return {};
  return static_cast<double>(of.samples) / of.ranks / seconds;
}

// What the journals say of the part themselves.
void add_figures(const Sides& sides, LikelyCause* cause) {
  const auto add = [&](const char* key, const Json& a, const Json& b) {
    if (a != b) cause->evidence.push_back(evidence_of(key, a, b));
  };
  const auto each = [](double seconds, std::int64_t count) {
    return count > 0 ? Json(seconds / static_cast<double>(count)) : Json();
  };
  const auto add_each = [&](Part part, const char* counted, std::int64_t count_a,
                            std::int64_t count_b, const char* seconds) {
    add(counted, each(static_cast<double>(count_a), sides.a.steps),
        each(static_cast<double>(count_b), sides.b.steps));
    add(seconds, each(sides.a.of(part), count_a), each(sides.b.of(part), count_b));
  };
  switch (cause->part) {
    case Part::Input:
      add("share of steps that waited for samples",
          each(static_cast<double>(sides.a.stalled), sides.a.steps),
          each(static_cast<double>(sides.b.stalled), sides.b.steps));
      add("samples that a thread of a rank makes in a second", made_in_a_second(sides.a),
          made_in_a_second(sides.b));
      add("samples that a rank would take in a second", taken_in_a_second(sides.a),
          taken_in_a_second(sides.b));
      break;
    case Part::Evaluation:
      add_each(Part::Evaluation, "evaluations per step", sides.a.evaluations, sides.b.evaluations,
               "seconds of an evaluation");
      break;
    case Part::Checkpoints:
      add_each(Part::Checkpoints, "checkpoints per step", sides.a.checkpoints, sides.b.checkpoints,
               "seconds that a checkpoint stops training");
      break;
    default:
      break;
  }
}

LikelyCause cause_of(Part part, double seconds, const Sides& sides) {
  LikelyCause cause{part, seconds, "", {}};
  const bool known = sides.environment_a.is_object() && sides.environment_b.is_object();
  if (known) add_facts(sides, &cause);
  const bool computes = part == Part::Compute || part == Part::Imbalance;
  if (known && computes) add_state(sides, &cause);
  add_rates(sides, &cause);
  if (known && !computes && cause.what.empty()) add_state(sides, &cause);  // slow like the rest
  if (cause.what.empty()) {
    cause.what = known ? "nothing that their environments tell"
                       : "not known: not both have a fingerprint of what they ran on";
  }
  add_figures(sides, &cause);
  return cause;
}

LikelyCause work_of(double seconds, const Sides& sides) {
  LikelyCause cause{Part::Compute, seconds, "more work in a sample", {}};
  if (seconds < 0) cause.what = "less work in a sample";
  const auto per_sample = [](const SpeedAccount& of, double all) { return of.per_sample(all); };
  cause.evidence.push_back(evidence_of("tokens of a sample",
                                       per_sample(sides.a, static_cast<double>(sides.a.tokens)),
                                       per_sample(sides.b, static_cast<double>(sides.b.tokens))));
  cause.evidence.push_back(evidence_of("FLOPs of a sample", per_sample(sides.a, sides.a.flops),
                                       per_sample(sides.b, sides.b.flops)));
  for (const char* const key :
       {"/model/fingerprint", "/data/fingerprint", "/configuration/data/max_length"}) {
    const Json a = fact_at(sides.environment_a, key), b = fact_at(sides.environment_b, key);
    if (a != b) cause.evidence.push_back(evidence_of(key_of(key), a, b));
  }
  return cause;
}

}  // namespace

std::vector<LikelyCause> causes_of(const SpeedDifference& difference, const SpeedAccount& a,
                                   const SpeedAccount& b, const Json& environment_a,
                                   const Json& environment_b) {
  std::vector<LikelyCause> causes;
  if (difference.is_noise()) return causes;
  const Sides sides{a, b, environment_a, environment_b};
  const double least = kLeastShare * std::abs(difference.whole());
  const auto counts = [least](double seconds) { return std::abs(seconds) >= least; };
  if (counts(difference.more_work)) causes.push_back(work_of(difference.more_work, sides));
  for (std::size_t i = 0; i < kParts; ++i) {
    const auto part = static_cast<Part>(i);
    const double seconds = part == Part::Compute ? difference.slower : difference.parts[i];
    if (counts(seconds)) causes.push_back(cause_of(part, seconds, sides));
  }
  std::stable_sort(causes.begin(), causes.end(),
                   [](const LikelyCause& one, const LikelyCause& other) {
                     return std::abs(one.seconds) > std::abs(other.seconds);
                   });
  return causes;
}

}  // namespace regatta::orchestrator::compare
