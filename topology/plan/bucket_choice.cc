#include "topology/plan/bucket_choice.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>

#include "base/wording.h"
#include "topology/plan/bucket_programme.h"

namespace regatta::topology::plan {
namespace {

constexpr std::int64_t kDefaultBytes = std::int64_t{25} << 20;
constexpr std::size_t kSampleCandidates = 8;  // beside those for the step as it was taken for
const char* const kProgramme = "programme";

struct Sample {
  StepInputs inputs;
  nccl::CommunicationCurve curve;
  bool is_curve_right;
};

// The standard's distributions differ between libraries, and plans should not.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  // From -1 to 1.
  double either_way() { return 2 * (static_cast<double>(engine_() >> 11U) * 0x1p-53) - 1; }

 private:
  std::mt19937_64 engine_;
};

// Alike: the rank is slower or faster altogether. Else what gets ready together moves on its own,
// and later groups wait for earlier ones.
StepInputs jittered(const StepInputs& inputs, double jitter, bool is_alike, Random* random) {
  StepInputs sample = inputs;
  double factor = 1 + jitter * random->either_way();
  double group_ready = -1, latest = 0;
  for (StepTensor& tensor : sample.tensors) {
    if (!is_alike && tensor.ready_seconds > group_ready) factor = 1 + jitter * random->either_way();
    group_ready = tensor.ready_seconds;
    latest = std::max(latest, tensor.ready_seconds * factor);
    tensor.ready_seconds = latest;
  }
  sample.compute_seconds = std::max(latest, inputs.compute_seconds * factor);
  return sample;
}

std::vector<Sample> samples_of(const StepInputs& inputs, const nccl::CommunicationCurve& curve,
                               const ChoiceOptions& options) {
  Random random(options.seed);
  const auto factor = [&] { return std::pow(1 + options.curve_error, random.either_way()); };
  std::vector<Sample> samples;
  for (int i = 0; i < options.samples; ++i) {
    const bool is_right = i % 2 == 0;
    StepInputs step = jittered(inputs, options.jitter, i % 4 < 2, &random);
    const double latency = factor(), rest = factor();
    samples.push_back({std::move(step), is_right ? curve : curve.scaled(latency, rest), is_right});
  }
  return samples;
}

struct Candidate {
  std::string name;
  std::vector<Bucket> buckets{};
  double step_seconds = 0, mean_seconds = 0;
  double worst_ratio = 0;  // to 25 MB buckets, over samples with the right curve
};

// 25 MB buckets come first.
std::vector<Candidate> candidates_of(const StepInputs& inputs,
                                     const nccl::CommunicationCurve& curve, int ranks,
                                     const std::vector<Sample>& samples) {
  std::vector<Candidate> all;
  all.push_back({"25 MB", buckets_of_at_most(inputs, kDefaultBytes)});
  all.push_back({"one bucket", one_bucket(inputs)});
  all.push_back({"Megatron-Core's rule", megatron_buckets(inputs, ranks)});
  all.push_back({"as ready", buckets_as_ready(inputs)});
  // The optimum is flat: a thousandth of the step is worth less than a bucket that is not there.
  const double tolerance = 1e-3 * (inputs.compute_seconds + inputs.tail_seconds);
  all.push_back({kProgramme, best_buckets_under_contention(inputs, curve)});
  all.push_back({kProgramme, best_buckets_under_contention(inputs, curve, tolerance)});
  for (std::size_t i = 0; i < std::min(samples.size(), kSampleCandidates); ++i) {
    const Sample& sample = samples[i];
    all.push_back(
        {kProgramme, best_buckets_under_contention(sample.inputs, sample.curve, tolerance)});
  }
  return all;
}

// `standard`: the seconds of 25 MB buckets in each sample; filled by the first call.
void judge(Candidate* candidate, const std::vector<Sample>& samples,
           std::vector<double>* standard) {
  const bool is_standard = standard->empty();
  double sum = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const double seconds =
        run_step(samples[i].inputs, candidate->buckets, samples[i].curve).step_seconds;
    if (is_standard) standard->push_back(seconds);
    sum += seconds;
    if (samples[i].is_curve_right && (*standard)[i] > 0) {
      candidate->worst_ratio = std::max(candidate->worst_ratio, seconds / (*standard)[i]);
    }
  }
  candidate->mean_seconds =
      samples.empty() ? candidate->step_seconds : sum / static_cast<double>(samples.size());
}

std::string described(const Candidate& candidate) {
  return candidate.name + " (" + base::plural(candidate.buckets.size(), "bucket") + ", " +
         base::short_number(1e3 * candidate.step_seconds, 3) + " ms a step)";
}

std::string why_of(const Candidate& chosen, const Candidate& standard, const Candidate& best,
                   const Plan& plan, const ChoiceOptions& options) {
  const auto gain = [&](const Candidate& candidate) {
    return 1 - candidate.mean_seconds / standard.mean_seconds;
  };
  if (&chosen != &standard) {
    return described(chosen) + " saves " + base::short_number(100 * gain(chosen), 3) +
           " % of the step on average over " + described(standard) + "; " +
           base::short_number(1e3 * plan.timeline->exposed_seconds, 3) +
           " ms wait for communication";
  }
  const std::string stays =
      described(standard) + " is kept: the best alternative, " + described(best);
  if (gain(best) <= 0) return stays + ", saves nothing on average";
  const std::string saves =
      stays + ", would save " + base::short_number(100 * gain(best), 3) + " % on average, ";
  if (gain(best) < options.least_gain) {
    return saves + "and less than " + base::short_number(100 * options.least_gain, 3) +
           " % is noise";
  }
  return saves + "but loses up to " + base::short_number(100 * (best.worst_ratio - 1), 3) +
         " % where gradients are ready " + base::short_number(100 * options.jitter, 3) +
         " % earlier or later";
}

// One of each name: of the programme's cuts the chosen or else the best one.
std::vector<Alternative> alternatives_of(const std::vector<Candidate>& candidates,
                                         const Candidate& chosen) {
  std::vector<const Candidate*> shown;
  for (const Candidate& candidate : candidates) {
    if (shown.empty() || shown.back()->name != candidate.name) {
      shown.push_back(&candidate);
    } else if (shown.back() != &chosen &&
               (&candidate == &chosen || candidate.mean_seconds < shown.back()->mean_seconds)) {
      shown.back() = &candidate;
    }
  }
  std::vector<Alternative> alternatives;
  for (const Candidate* candidate : shown) {
    alternatives.push_back({candidate->name, static_cast<int>(candidate->buckets.size()),
                            candidate->step_seconds, candidate->mean_seconds});
  }
  return alternatives;
}

}  // namespace

Plan plan_buckets(const StepInputs& inputs, const nccl::CommunicationCurve& curve, int ranks,
                  const ChoiceOptions& options) {
  if (ranks <= 1) return default_plan(static_cast<int>(inputs.tensors.size()));
  const std::vector<Sample> samples = samples_of(inputs, curve, options);
  std::vector<Candidate> candidates = candidates_of(inputs, curve, ranks, samples);
  std::vector<double> standard_seconds;
  for (Candidate& candidate : candidates) {
    candidate.step_seconds = run_step(inputs, candidate.buckets, curve).step_seconds;
    judge(&candidate, samples, &standard_seconds);
  }
  const Candidate& standard = candidates.front();
  const Candidate* best = &candidates[1];
  const Candidate* safe = &standard;
  for (auto candidate = candidates.begin() + 1; candidate != candidates.end(); ++candidate) {
    if (candidate->mean_seconds < best->mean_seconds) best = &*candidate;
    const bool never_loses = candidate->worst_ratio <= 1 + options.most_loss;
    if (never_loses && candidate->mean_seconds < safe->mean_seconds) safe = &*candidate;
  }
  const bool gains = safe->mean_seconds <= (1 - options.least_gain) * standard.mean_seconds;
  const Candidate& chosen = gains ? *safe : standard;

  Plan plan;
  plan.ranks = ranks;
  plan.buckets = chosen.buckets;
  plan.timeline = run_step(inputs, chosen.buckets, curve);
  plan.cut = chosen.name;
  plan.why = why_of(chosen, standard, *best, plan, options);
  plan.alternatives = alternatives_of(candidates, chosen);
  return plan;
}

}  // namespace regatta::topology::plan
