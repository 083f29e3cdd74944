#include "orchestrator/simulate/mlperf_study.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "orchestrator/plan/cluster_machines.h"
#include "tests/shared_data.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

const std::string kSource = REGATTA_SOURCE_DIR;

const simulate::MlperfStudy& study() {
  static const simulate::MlperfStudy made = simulate::study_mlperf(simulate::mlperf_rows());
  return made;
}

TEST(MlperfStudy, IsFittedToSmallRowsOnly) {
  std::vector<simulate::MlperfRow> rows = simulate::mlperf_rows();
  for (simulate::MlperfRow& row : rows) {
    if (row.gpus != 8 && row.gpus != 64) row.minutes *= 3;
  }
  const simulate::MlperfStudy other = simulate::study_mlperf(rows);
  EXPECT_EQ(other.efficiencies, study().efficiencies);
  EXPECT_EQ(other.overhead_seconds, study().overhead_seconds);
  ASSERT_EQ(other.predictions.size(), study().predictions.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(other.predictions[i].is_fitted, rows[i].gpus == 8 || rows[i].gpus == 64);
  }
  EXPECT_GT(other.large_error, study().large_error) << "or the errors are of something else";
  // A small row does change it.
  rows = simulate::mlperf_rows();
  ASSERT_EQ(rows.front().gpus, 8);
  rows.front().minutes *= 1.2;
  EXPECT_NE(simulate::study_mlperf(rows).efficiencies, study().efficiencies);
}

TEST(MlperfStudy, LargeRowsAreAsFarOffAsTheResultsFileSays) {
  const Json results =
      Json::parse(tests::file_text(kSource + "/tests/bench/results/simulate-mlperf.json"));
  EXPECT_LE(study().large_error, results.at("median_error").at("larger").get<double>() + 1e-6);
  EXPECT_LE(study().large_error, 0.2);
  EXPECT_NEAR(study().overhead_seconds, results.at("fitted").at("overhead_seconds").get<double>(),
              1e-6);
  EXPECT_EQ(results.at("rows").size(), study().predictions.size());
  int large = 0;
  for (const simulate::MlperfPrediction& each : study().predictions)
    large += each.row.gpus > 64 ? 1 : 0;
  EXPECT_EQ(study().large_rows, large);
}

TEST(MlperfStudy, WhatIsFittedIsPossible) {
  for (const auto& [group, efficiency] : study().efficiencies) {
    SCOPED_TRACE(group);
    EXPECT_GT(efficiency, 0.3);
    EXPECT_LT(efficiency, 0.8);
  }
  EXPECT_GT(study().overhead_seconds, 0);
  EXPECT_LT(study().overhead_seconds, 0.03);
  EXPECT_LT(study().fitted_error, 0.05);
  EXPECT_THROW((void)simulate::study_mlperf({}), base::Error);
}

// What is assumed is taken up by what is fitted, or else would have to be known better.
TEST(MlperfStudy, DoesNotHangOnWhatIsAssumed) {
  struct Row {
    const char* name;
    simulate::MlperfAssumptions assumptions;
  };
  const Row rows[] = {{"as assumed", {}},
                      {"kernels of 2 us", {2e-6}},
                      {"kernels of 8 us", {8e-6}},
                      {"memory at 0.5", {plan::kKernelSeconds, 0.5}},
                      {"memory at 1", {plan::kKernelSeconds, 1}},
                      {"sums half as long", {plan::kKernelSeconds, plan::kMemoryShare, 0.5}},
                      {"sums twice as long", {plan::kKernelSeconds, plan::kMemoryShare, 2}}};
  std::printf("%-20s %12s %14s %14s\n", "", "overhead, ms", "A100 v2.1, %", "large rows, %");
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const simulate::MlperfStudy other =
        simulate::study_mlperf(simulate::mlperf_rows(), row.assumptions);
    std::printf("%-20s %12.2f %14.1f %14.1f\n", row.name, 1e3 * other.overhead_seconds,
                100 * other.efficiencies.at("A100 v2.1"), 100 * other.large_error);
    EXPECT_LE(other.large_error, 0.3);
  }
}

// Any one submitter's pair of rows may be left out of the fit.
TEST(MlperfStudy, DoesNotHangOnOneSubmitter) {
  for (const char* left_out : {"v1.0", "v1.1", "v2.0", "Paddle", "HPE", "Hazy"}) {
    SCOPED_TRACE(left_out);
    std::vector<simulate::MlperfRow> rows = simulate::mlperf_rows();
    std::erase_if(rows, [&](const simulate::MlperfRow& row) {
      return simulate::is_small(row) && row.gpu == simulate::MlperfGpu::A100 &&
             row.software == std::string(left_out);
    });
    const simulate::MlperfStudy other = simulate::study_mlperf(rows);
    std::printf("without %-8s overhead %5.2f ms, large rows %4.1f %%\n", left_out,
                1e3 * other.overhead_seconds, 100 * other.large_error);
    EXPECT_LE(other.large_error, 0.2);
  }
}

TEST(MlperfStudy, RowsAreThoseOfTheLogs) {
  // samples/s of a few entries, as computed from the logs run by run.
  struct Row {
    const char* round;
    const char* submitter;
    int gpus;
    double samples_per_second;
  };
  const Row rows[] = {{"v1.1", "NVIDIA", 1024, 84722},  {"v1.1", "NVIDIA", 4320, 339959},
                      {"v2.0", "NVIDIA", 4096, 442765}, {"v2.0", "Samsung", 1024, 131389},
                      {"v3.0", "NVIDIA", 768, 191015},  {"v3.1", "NVIDIA Eos", 3472, 760044},
                      {"v4.1", "Supermicro", 8, 8230},  {"v4.1", "NVIDIA", 8, 10779},
                      {"v5.0", "Lenovo", 8, 11545},     {"v5.0", "Supermicro 5", 16, 21544},
                      {"v5.0", "Dell", 4, 6411},        {"v5.0", "Dell", 32, 44552},
                      {"v5.0", "NVIDIA", 64, 83839},    {"v5.0", "NVIDIA", 512, 216993}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.submitter + std::to_string(row.gpus));
    int found = 0;
    for (const simulate::MlperfRow& each : simulate::mlperf_rows()) {
      if (each.round != std::string(row.round) || each.gpus != row.gpus ||
          each.submitter != std::string(row.submitter)) {
        continue;
      }
      ++found;
      EXPECT_NEAR(simulate::samples_per_second(each) / row.samples_per_second, 1, 0.01);
    }
    EXPECT_EQ(found, 1);
  }
}

TEST(MlperfStudy, MachinesAreThoseOfTheExamples) {
  for (const simulate::MlperfGpu gpu : {simulate::MlperfGpu::A100, simulate::MlperfGpu::H100}) {
    SCOPED_TRACE(simulate::name_of(gpu));
    const std::string file = gpu == simulate::MlperfGpu::A100 ? "dgx-a100.yaml" : "dgx-h100.yaml";
    const plan::Cluster cluster =
        plan::Cluster::read(tests::file_text(kSource + "/topology/examples/" + file), file);
    const topology::nccl::Allocation example = cluster.machines(16, 0).allocation;
    const topology::nccl::Allocation ours = simulate::mlperf_allocation(gpu, 128);
    for (const double bytes : {1e6, 30e6, 700e6}) {
      EXPECT_NEAR(plan::network_of(ours, nullptr, false).sum.seconds(bytes),
                  plan::network_of(example, nullptr, false).sum.seconds(bytes), 1e-9);
    }
    EXPECT_EQ(simulate::mlperf_allocation(gpu, 4).nodes, 1);
    EXPECT_EQ(simulate::mlperf_allocation(gpu, 4).ranks_per_node, 4);
  }
  const plan::Cluster rack = plan::Cluster::read(
      tests::file_text(kSource + "/topology/examples/gb200-nvl72.yaml"), "gb200-nvl72.yaml");
  for (const int gpus : {8, 72}) {
    const topology::nccl::Allocation example = rack.machines(gpus / 4, 0).allocation;
    const topology::nccl::Allocation ours =
        simulate::mlperf_allocation(simulate::MlperfGpu::Gb200, gpus);
    EXPECT_EQ(ours.nodes, 1) << "to NCCL";
    EXPECT_EQ(ours.ranks_per_node, gpus);
    if (gpus < 72) continue;  // NCCL takes a part of a rack for several nodes
    EXPECT_NEAR(plan::network_of(ours, nullptr, false).sum.seconds(700e6) /
                    plan::network_of(example, nullptr, false).sum.seconds(700e6),
                1, 0.05);
  }
  EXPECT_EQ(simulate::mlperf_allocation(simulate::MlperfGpu::Gb200, 512).nodes, 8);
  EXPECT_EQ(simulate::mlperf_allocation(simulate::MlperfGpu::Gb200, 512).ranks_per_node, 64);
}

// Blackwell's entries: 49 % too fast with the share of A100s.
TEST(MlperfStudy, BlackwellHasSharesOfItsOwn) {
  EXPECT_LT(study().efficiencies.at("B200 v5"), 0.5);
  EXPECT_LT(study().efficiencies.at("GB200 v5"), 0.5);
  std::map<std::string, int> rows;
  for (const simulate::MlperfPrediction& each : study().predictions) {
    if (each.row.gpu != simulate::MlperfGpu::B200 && each.row.gpu != simulate::MlperfGpu::Gb200)
      continue;
    ++rows[simulate::name_of(each.row.gpu)];
    SCOPED_TRACE(each.row.submitter + std::to_string(each.row.gpus));
    EXPECT_LT(std::abs(each.error), each.is_fitted ? 0.05 : each.row.gpus <= 64 ? 0.25 : 1.0);
  }
  EXPECT_EQ(rows["B200"], 12);
  EXPECT_EQ(rows["GB200"], 7);
}

// The table of peak_share.cc says what the study fits.
TEST(PeakShare, IsWhatTheStudyFits) {
  std::map<std::string, std::pair<double, double>> ranges;
  for (const simulate::MlperfPrediction& each : study().predictions) {
    if (!each.is_fitted) continue;
    auto [found, is_new] =
        ranges.try_emplace(simulate::name_of(each.row.gpu), each.efficiency, each.efficiency);
    found->second.first = std::min(found->second.first, each.efficiency);
    found->second.second = std::max(found->second.second, each.efficiency);
  }
  const std::map<std::string, const char*> models = {{"A100", "NVIDIA A100-SXM4-80GB"},
                                                     {"H100", "NVIDIA H100 80GB HBM3"},
                                                     {"H200", "NVIDIA H200"},
                                                     {"B200", "NVIDIA B200"},
                                                     {"GB200", "NVIDIA GB200"}};
  ASSERT_EQ(ranges.size(), models.size());
  for (const auto& [gpu, model] : models) {
    SCOPED_TRACE(gpu);
    const plan::PeakShare share =
        plan::peak_share_of(plan::device_figures(model), trainer::contract::Precision::BFloat16);
    EXPECT_TRUE(share.fitted);
    EXPECT_NEAR(share.low, ranges.at(gpu).first, 0.006);
    EXPECT_NEAR(share.high, ranges.at(gpu).second, 0.006);
    EXPECT_EQ(share.value, std::min(plan::kUsualEfficiency, share.high));
  }
}

TEST(PeakShare, IsWideWhereNothingIsPublished) {
  const plan::DeviceFigures* const b200 = plan::device_figures("NVIDIA B200");
  for (const plan::PeakShare& share :
       {plan::peak_share_of(nullptr, trainer::contract::Precision::BFloat16),
        plan::peak_share_of(plan::device_figures("NVIDIA L40S"),
                            trainer::contract::Precision::BFloat16),
        plan::peak_share_of(b200, trainer::contract::Precision::Tf32)}) {
    EXPECT_FALSE(share.fitted);
    EXPECT_LT(share.low, share.value);
    EXPECT_GT(share.high, share.value);
    EXPECT_GT(share.high / share.low, 1.6);
    EXPECT_THAT(share.basis, HasSubstr("no published result"));
    // It would have held B200's.
    EXPECT_LE(share.low, plan::peak_share_of(b200, trainer::contract::Precision::BFloat16).value);
  }
}

TEST(MlperfStudy, TextSaysWhatIsFittedAndWhatIsNot) {
  const std::string text = simulate::mlperf_text(study());
  EXPECT_THAT(text, HasSubstr("A100 v1.1"));
  EXPECT_THAT(text, HasSubstr("fitted"));
  EXPECT_THAT(text, HasSubstr("predicted"));
  EXPECT_THAT(text, HasSubstr("median error"));
  const Json json = Json::parse(simulate::mlperf_json(study()));
  EXPECT_EQ(json.at("rows").size(), simulate::mlperf_rows().size());
}

}  // namespace
}  // namespace regatta::orchestrator
