#include "topology/plan/bucket_programme.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "topology/plan/bucket_choice.h"

namespace regatta::topology {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// Tensors of so many bytes each, without gaps.
plan::StepInputs step_of(const std::vector<std::pair<std::int64_t, double>>& bytes_and_ready) {
  plan::StepInputs inputs;
  std::int64_t end = 0;
  for (const auto& [bytes, ready] : bytes_and_ready) {
    inputs.tensors.push_back({end, end + bytes, ready});
    end += bytes;
    inputs.compute_seconds = ready;
  }
  return inputs;
}

std::vector<int> ends_of(const std::vector<plan::Bucket>& buckets) {
  std::vector<int> ends;
  for (const plan::Bucket& bucket : buckets) ends.push_back(bucket.end_tensor);
  return ends;
}

// The end of the last sum, told from the rules and not from run_step().
double end_of(const plan::StepInputs& inputs, const std::vector<int>& ends,
              const nccl::CommunicationCurve& curve) {
  double free = 0;
  std::size_t begin = 0;
  for (const int end : ends) {
    const plan::StepTensor& last = inputs.tensors[static_cast<std::size_t>(end) - 1];
    free = std::max(free, last.ready_seconds) +
           curve.seconds(static_cast<double>(last.end_byte - inputs.tensors[begin].begin_byte));
    begin = static_cast<std::size_t>(end);
  }
  return free;
}

// All 2^(L-1) ways to cut.
void each_cut(std::size_t tensors, const std::function<void(const std::vector<int>&)>& visit) {
  for (std::uint32_t mask = 0; mask < (1U << (tensors - 1)); ++mask) {
    std::vector<int> ends;
    for (std::size_t i = 1; i < tensors; ++i) {
      if ((mask >> (i - 1) & 1U) != 0) ends.push_back(static_cast<int>(i));
    }
    ends.push_back(static_cast<int>(tensors));
    visit(ends);
  }
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  double between(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(engine_);
  }
  int whole(int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine_); }

  plan::StepInputs step(int tensors) {
    plan::StepInputs inputs;
    std::int64_t end = 0;
    double ready = between(0, 1);
    for (int i = 0; i < tensors; ++i) {
      const std::int64_t begin = end + (whole(0, 3) == 0 ? whole(0, 100) : 0);
      end = begin + whole(1, 1000);
      if (whole(0, 2) > 0) ready += between(0, 2);  // else together with the one before
      inputs.tensors.push_back({begin, end, ready});
    }
    inputs.compute_seconds = ready + (whole(0, 1) == 0 ? between(0, 1) : 0);
    inputs.tail_seconds = between(0, 1);
    return inputs;
  }
  // A line, or any figures whatever: also where more bytes take less time, or two halves less than
  // the whole.
  nccl::CommunicationCurve curve() {
    if (whole(0, 1) == 0) {
      return nccl::CommunicationCurve({{0, between(0, 1)}, {8000, between(1, 20)}});
    }
    std::vector<nccl::CommunicationCurve::Point> points;
    double bytes = 0;
    for (int i = 0; i < 8; ++i) points.push_back({bytes += between(1, 2000), between(0, 5)});
    return nccl::CommunicationCurve(points);
  }

 private:
  std::mt19937_64 engine_;
};

TEST(BucketProgramme, EqualsTheBestOfAllCuts) {
  int with_fewer = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const plan::StepInputs inputs = random.step(random.whole(1, 16));
    const nccl::CommunicationCurve curve = random.curve();
    const double tolerance = seed % 3 == 0 ? random.between(0, 2) : 0;
    double best = std::numeric_limits<double>::infinity();
    std::vector<double> best_of_count(inputs.tensors.size() + 1, best);
    each_cut(inputs.tensors.size(), [&](const std::vector<int>& ends) {
      const double end = end_of(inputs, ends, curve);
      best = std::min(best, end);
      best_of_count[ends.size()] = std::min(best_of_count[ends.size()], end);
    });
    const std::vector<int> found = ends_of(plan::best_buckets(inputs, curve, tolerance));
    const double deadline = std::max(best, inputs.compute_seconds) + tolerance;
    EXPECT_LE(end_of(inputs, found, curve), deadline);
    EXPECT_DOUBLE_EQ(end_of(inputs, found, curve), best_of_count[found.size()]);
    for (std::size_t count = 1; count < found.size(); ++count) {
      EXPECT_GT(best_of_count[count], deadline);
    }
    with_fewer += found.size() < inputs.tensors.size() && found.size() > 1 ? 1 : 0;
    if (HasFailure()) break;
  }
  EXPECT_GT(with_fewer, 300);  // or the instances show nothing
}

TEST(BucketProgramme, WhatHelpsNeverHurts) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const plan::StepInputs inputs = random.step(random.whole(2, 40));
    const double latency = random.between(0, 1), rate = random.between(1e-7, 1e-6);
    const auto best = [&](const plan::StepInputs& step, double more_latency, double more_rate) {
      const nccl::CommunicationCurve curve =
          nccl::CommunicationCurve::of_line(latency + more_latency, rate * more_rate);
      return plan::run_step(step, plan::best_buckets(step, curve), curve).step_seconds;
    };
    const double now = best(inputs, 0, 1);
    EXPECT_LE(now, best(inputs, 0.2, 1) + 1e-12);
    EXPECT_GE(now, best(inputs, 0, 1.5) - 1e-12);
    plan::StepInputs later = inputs;
    for (std::size_t i = 1; i < later.tensors.size(); ++i) later.tensors[i].ready_seconds += 0.5;
    later.compute_seconds += 0.5;
    EXPECT_LE(now, best(later, 0, 1) + 1e-12);
    EXPECT_GE(now + 0.5, best(later, 0, 1) - 1e-12);
    const nccl::CommunicationCurve curve = nccl::CommunicationCurve::of_line(latency, rate);
    // Between one bucket, and the last tensor alone.
    const plan::StepTensor& first = inputs.tensors.front();
    const plan::StepTensor& last = inputs.tensors.back();
    const auto all_bytes = static_cast<double>(last.end_byte - first.begin_byte);
    const double one = last.ready_seconds + curve.seconds(all_bytes);
    EXPECT_LE(now, std::max(inputs.compute_seconds, one) + inputs.tail_seconds + 1e-12);
    EXPECT_GE(now + 1e-12, last.ready_seconds + inputs.tail_seconds +
                               curve.seconds(static_cast<double>(last.end_byte - last.begin_byte)));
    std::size_t count = inputs.tensors.size() + 1;
    for (const double tolerance : {0.0, 0.1, 1.0, 1e9}) {
      const std::size_t next = plan::best_buckets(inputs, curve, tolerance).size();
      EXPECT_LE(next, count);
      count = next;
    }
    EXPECT_EQ(count, 1U);
    if (HasFailure()) break;
  }
}

TEST(BucketProgramme, KnownAnswers) {
  struct Row {
    const char* name;
    plan::StepInputs inputs;
    nccl::CommunicationCurve curve;
    std::vector<int> ends;
  };
  const auto line = [](double latency, double bytes_per_s) {
    return nccl::CommunicationCurve::of_line(latency, bytes_per_s * 1e-9);
  };
  const Row rows[] = {
      {"a single tensor", step_of({{8, 1}}), line(1, 1), {1}},
      {"latency only", step_of({{8, 1}, {8, 2}, {8, 3}}), line(5, 1e12), {3}},
      {"all hidden but the last", step_of({{8, 1}, {19, 20}, {8, 40}}), line(0.5, 1), {1, 2, 3}},
      {"fewest where both are hidden", step_of({{4, 1}, {4, 2}, {4, 40}}), line(1, 1), {2, 3}},
      {"all ready together", step_of({{4, 3}, {4, 3}, {4, 3}}), line(1, 1), {3}},
      // One: 4 + 1+30 = 35. {1}{2}: 0 + 1+20 = 21, + 1+10 = 32.
      {"two by hand", step_of({{20, 0}, {10, 4}}), line(1, 1), {1, 2}},
      {"bandwidth that falls with size",
       step_of({{10, 0}, {10, 0}}),
       nccl::CommunicationCurve({{0, 0}, {10, 1}, {20, 9}}),
       {1, 2}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    EXPECT_EQ(ends_of(plan::best_buckets(row.inputs, row.curve)), row.ends);
  }
}

TEST(BucketProgramme, ManyTensorsAreCutBetweenGroups) {
  std::vector<std::pair<std::int64_t, double>> tensors;
  for (int i = 0; i < 3000; ++i) tensors.emplace_back(1000, 1.0 + i / 3);
  const plan::StepInputs inputs = step_of(tensors);
  const auto buckets = plan::best_buckets(inputs, nccl::CommunicationCurve::of_line(1e-3, 1));
  EXPECT_EQ(buckets.back().end_tensor, 3000);
  for (const plan::Bucket& bucket : buckets) EXPECT_EQ(bucket.begin_tensor % 3, 0);
  for (int i = 0; i < 3000; ++i) {
    tensors[static_cast<std::size_t>(i)].second = i;
  }
  const plan::StepInputs apart = step_of(tensors);
  EXPECT_EQ(plan::best_buckets(apart, nccl::CommunicationCurve::of_line(1e-3, 1)).back().end_tensor,
            3000);
  // One more than every third of them.
  tensors.emplace_back(1000, 3000);
  const plan::StepInputs odd = step_of(tensors);
  EXPECT_EQ(plan::best_buckets(odd, nccl::CommunicationCurve::of_line(1e-3, 1)).back().end_tensor,
            3001);
}

TEST(BucketProgramme, RulesOfOthers) {
  const plan::StepInputs inputs = step_of({{10, 1}, {10, 1}, {50, 2}, {10, 3}, {20, 3}});
  EXPECT_THAT(ends_of(plan::one_bucket(inputs)), ElementsAre(5));
  EXPECT_THAT(ends_of(plan::buckets_of_at_most(inputs, 30)), ElementsAre(2, 3, 5));
  EXPECT_THAT(ends_of(plan::buckets_of_at_most(inputs, 1)), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(ends_of(plan::buckets_as_ready(inputs)), ElementsAre(2, 3, 5));
  const std::int64_t forty = 4 * 40'000'000;
  const plan::StepInputs large = step_of({{forty - 1, 1}, {1, 2}, {forty, 3}, {1, 4}});
  EXPECT_THAT(ends_of(plan::megatron_buckets(large, 8)), ElementsAre(2, 3, 4));
  EXPECT_THAT(ends_of(plan::megatron_buckets(large, 40)), ElementsAre(2, 3, 4));
  EXPECT_THAT(ends_of(plan::megatron_buckets(large, 41)), ElementsAre(3, 4));
}

// How far the rounds are from the best of all cuts, for slowdowns up to `most`.
struct Rounds {
  int better = 0;     // than without rounds, of 200
  double worst = 0;   // share above the best cut
  double gained = 0;  // share on average over planning without contention
};
Rounds rounds_under(double most) {
  Rounds result;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    plan::StepInputs inputs = random.step(random.whole(2, 10));
    inputs.slowdown = random.between(0.05, most);
    const nccl::CommunicationCurve curve =
        nccl::CommunicationCurve::of_line(random.between(0, 1), random.between(5e-7, 5e-6));
    const auto seconds = [&](const std::vector<plan::Bucket>& buckets) {
      return plan::run_step(inputs, buckets, curve).step_seconds;
    };
    const double without = seconds(plan::best_buckets(inputs, curve));
    const double with = seconds(plan::best_buckets_under_contention(inputs, curve));
    EXPECT_LE(with, without) << seed;
    double best = with;
    each_cut(inputs.tensors.size(), [&](const std::vector<int>& ends) {
      std::vector<plan::Bucket> buckets;
      for (const int end : ends) {
        buckets.push_back({buckets.empty() ? 0 : buckets.back().end_tensor, end});
      }
      best = std::min(best, seconds(buckets));
    });
    result.worst = std::max(result.worst, with / best - 1);
    result.gained += (1 - with / without) / 200;
    result.better += with < without ? 1 : 0;
  }
  std::printf(
      "slowdown up to %.0f %%: rounds better in %d of 200 (%.2f %% of a step on average), at worst "
      "%.2f %% above the best cut\n",
      100 * most, result.better, 100 * result.gained, 100 * result.worst);
  return result;
}

TEST(BucketProgramme, ContentionIsTakenInRounds) {
  const Rounds usual = rounds_under(0.2);  // 16 to 24 of 132 SMs
  EXPECT_GT(usual.better, 0);
  EXPECT_LT(usual.worst, 0.04);
  const Rounds heavy = rounds_under(0.5);
  EXPECT_GT(heavy.better, 0);
  EXPECT_LT(heavy.worst, 0.08);
}

TEST(PlanBuckets, OneRankReducesNothing) {
  const plan::Plan plan =
      plan::plan_buckets(step_of({{8, 1}, {8, 2}}), nccl::CommunicationCurve::of_line(1, 1), 1);
  EXPECT_THAT(ends_of(plan.buckets), ElementsAre(2));
  EXPECT_FALSE(plan.timeline.has_value());
}

// 40 gradients of 10 MB, one each millisecond.
plan::StepInputs forty() {
  std::vector<std::pair<std::int64_t, double>> tensors;
  for (int i = 0; i < 40; ++i) tensors.emplace_back(10'000'000, 0.02 + 1e-3 * (i + 1));
  plan::StepInputs inputs = step_of(tensors);
  inputs.forward_seconds = 0.02;
  inputs.tail_seconds = 0.004;
  return inputs;
}

TEST(PlanBuckets, SaysWhatItChoseAndWhy) {
  const plan::Plan plan =
      plan::plan_buckets(forty(), nccl::CommunicationCurve::of_line(2e-3, 20), 16);
  EXPECT_EQ(plan.ranks, 16);
  EXPECT_EQ(plan.buckets.back().end_tensor, 40);
  EXPECT_FALSE(plan.measured);
  EXPECT_THAT(plan.why, StartsWith("programme ("));
  EXPECT_THAT(plan.why, HasSubstr("on average over 25 MB (20 buckets, "));
  std::vector<std::string> names;
  for (const plan::Alternative& alternative : plan.alternatives) names.push_back(alternative.name);
  EXPECT_THAT(names,
              ElementsAre("25 MB", "one bucket", "Megatron-Core's rule", "as ready", "programme"));
  ASSERT_TRUE(plan.timeline.has_value());
  EXPECT_EQ(plan.timeline->buckets.size(), plan.buckets.size());
  EXPECT_DOUBLE_EQ(plan.alternatives.back().step_seconds, plan.timeline->step_seconds);
  EXPECT_LT(plan.alternatives.back().mean_step_seconds,
            0.99 * plan.alternatives.front().mean_step_seconds);
  const std::string text = plan::to_json(plan);
  EXPECT_EQ(plan::to_json(plan::parse_plan(text, "plan.json", 40)), text);
}

// Where nothing is uncertain every sample is the step.
TEST(PlanBuckets, WithoutJitterTheMeanIsTheStep) {
  plan::ChoiceOptions options;
  options.jitter = 0;
  options.curve_error = 0;
  const plan::Plan plan =
      plan::plan_buckets(forty(), nccl::CommunicationCurve::of_line(2e-3, 20), 16, options);
  for (const plan::Alternative& alternative : plan.alternatives) {
    EXPECT_NEAR(alternative.mean_step_seconds, alternative.step_seconds,
                1e-12 * alternative.step_seconds)
        << alternative.name;
  }
}

TEST(PlanBuckets, KeepsTheDefaultBelowNoise) {
  const plan::Plan plan =
      plan::plan_buckets(forty(), nccl::CommunicationCurve::of_line(1e-5, 400), 8);
  EXPECT_EQ(ends_of(plan.buckets), ends_of(plan::buckets_of_at_most(forty(), 25 << 20)));
  EXPECT_THAT(plan.why, StartsWith("25 MB (20 buckets, 64.1 ms a step) is kept: "));
  EXPECT_THAT(plan.why, HasSubstr("less than 1 % is noise"));
  // What is noise is the caller's to say.
  plan::ChoiceOptions options;
  options.least_gain = 0;
  const plan::Plan other =
      plan::plan_buckets(forty(), nccl::CommunicationCurve::of_line(1e-5, 400), 8, options);
  EXPECT_NE(ends_of(other.buckets), ends_of(plan.buckets));
}

TEST(PlanBuckets, KeepsTheDefaultWhereTheOtherMayLose) {
  plan::ChoiceOptions options;
  options.jitter = 0.4;
  options.least_gain = 1e-4;
  int kept = 0;
  for (double latency = 1e-4; latency < 3e-3; latency *= 1.1) {
    const nccl::CommunicationCurve curve = nccl::CommunicationCurve::of_line(latency, 15);
    const plan::Plan plan = plan::plan_buckets(forty(), curve, 8, options);
    if (plan.why.find("but loses up to ") == std::string::npos) continue;
    ++kept;
    EXPECT_EQ(ends_of(plan.buckets), ends_of(plan::buckets_of_at_most(forty(), 25 << 20)));
    EXPECT_THAT(plan.why, HasSubstr("% where gradients are ready 40 % earlier or later"));
    options.most_loss = 1;
    EXPECT_NE(ends_of(plan::plan_buckets(forty(), curve, 8, options).buckets),
              ends_of(plan.buckets));
    options.most_loss = plan::ChoiceOptions().most_loss;
  }
  EXPECT_GT(kept, 0);
}

TEST(PlanBuckets, IsTheSameEveryTime) {
  const nccl::CommunicationCurve curve = nccl::CommunicationCurve::of_line(1e-3, 15);
  EXPECT_EQ(plan::to_json(plan::plan_buckets(forty(), curve, 64)),
            plan::to_json(plan::plan_buckets(forty(), curve, 64)));
}

}  // namespace
}  // namespace regatta::topology
