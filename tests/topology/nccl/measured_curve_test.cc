#include "topology/nccl/measured_curve.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "tests/shared_data.h"
#include "tests/topology/nccl/allocations.h"

namespace regatta::topology {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;

nccl::NcclTestLog shared_log(const std::string& name) {
  const std::string file = name + ".log";
  std::ifstream stream(tests::shared_path("topologies/nccl-tests") / file, std::ios::binary);
  std::stringstream text;
  text << stream.rdbuf();
  return nccl::parse_nccl_tests_log(text.str(), file);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// How far predictions are off, over calls of 1 MiB and more.
struct Errors {
  std::vector<double> shares;  // |predicted − measured| ÷ measured
  int within = 0;              // of the interval
  void add(const nccl::Prediction& predicted, const nccl::Sample& sample) {
    shares.push_back(std::abs(predicted.us / sample.us - 1));
    if (sample.us >= predicted.low_us && sample.us <= predicted.high_us) ++within;
  }
  [[nodiscard]] double middle() const { return 100 * median(shares); }
  [[nodiscard]] double worst() const {
    return 100 * *std::max_element(shares.begin(), shares.end());
  }
};

Errors errors_of_model(const nccl::CostModel& model, const nccl::NcclTestLog& log) {
  Errors errors;
  for (const nccl::Sample& sample : nccl::samples_of(log)) {
    if (sample.bytes < kMib) continue;
    errors.add(nccl::predict_by_model(model, {*log.collective, {}}, sample.bytes), sample);
  }
  return errors;
}

// Every call predicted from the half that it is not of: every other size.
Errors errors_of_halves(const nccl::CostModel& model, const nccl::NcclTestLog& log) {
  const std::vector<nccl::Sample> samples = nccl::samples_of(log);
  Errors errors;
  for (const std::size_t half : {std::size_t{0}, std::size_t{1}}) {
    std::vector<nccl::Sample> known;
    for (std::size_t i = half; i < samples.size(); i += 2) known.push_back(samples[i]);
    const auto curve = nccl::MeasuredCurve::fit(model, {*log.collective, {}}, known);
    for (std::size_t i = 1 - half; i < samples.size(); i += 2) {
      if (samples[i].bytes >= kMib) errors.add(curve.predict(model, samples[i].bytes), samples[i]);
    }
  }
  return errors;
}

struct Log {
  const char* name;
  nccl::Allocation allocation;
};
const Log kLogs[] = {
    {"a100x8-1node-superbench-allreduce", a100_nodes(1, 8)},
    {"a100x8-1node-superbench-allgather", a100_nodes(1, 8)},
    {"a100x8-1node-superbench-reducescatter", a100_nodes(1, 8)},
    {"a100x4-1node-sheffield-stanage", a100_nodes(1, 4)},
    {"a100x32-4node-deepops-dgxa100", a100_nodes(4, 8)},
    {"v100pciex4-1node-sheffield-bessemer", v100_pcie()},
    {"h100x8-1node-mlperf-v4.0-smc-bert-a", h100_nodes(1)},
    {"h100x8-1node-mlperf-v4.0-smc-bert-b", h100_nodes(1)},
    {"h100x64-8node-coreweave-sharp", with_sharp(h100_nodes(12))},
    {"gh200x8-2node-cscs-slingshot-good", gh200_nodes(2)},
    {"b200x16-2node-dstack-lambda", b200_nodes(2)},
    {"b200x16-2node-dstack-gcp-a4-roce", b200_nodes(2)},
    {"gb200x72-1rack-coreweave", gb200_racks(1)},
    {"gb200x1440-20rack-coreweave", gb200_racks(20)},
};

TEST(PublicLogs, HalfOfALogPredictsTheOther) {
  REGATTA_NEED_SHARED("topologies/nccl-tests");
  std::printf("%-44s %5s %18s %18s %8s\n", "log (calls of 1 MiB and more)", "calls",
              "model: median/worst", "half: median/worst", "inside");
  int within = 0, within_model = 0, calls = 0;
  for (const Log& row : kLogs) {
    SCOPED_TRACE(row.name);
    const nccl::NcclTestLog log = shared_log(row.name);
    const nccl::CostModel model(row.allocation);
    ASSERT_EQ(log.ranks, model.ranks());
    const Errors alone = errors_of_model(model, log);
    const Errors halves = errors_of_halves(model, log);
    std::printf("%-44s %5zu %7.1f %% %7.1f %% %7.1f %% %7.1f %% %4d/%zu\n", row.name,
                alone.shares.size(), alone.middle(), alone.worst(), halves.middle(), halves.worst(),
                halves.within, halves.shares.size());
    EXPECT_LE(halves.middle(), 10);
    EXPECT_LE(halves.shares.size() - static_cast<std::size_t>(halves.within), 1U)
        << "of each log one call at most lies outside its interval";
    within += halves.within;
    within_model += alone.within;
    calls += static_cast<int>(halves.shares.size());
  }
  std::printf("inside the interval: %d of %d calls (%.1f %%), %d by the model alone\n", within,
              calls, 100.0 * within / calls, within_model);
  EXPECT_GE(within, 0.9 * calls);
  EXPECT_GE(within_model, 0.9 * calls);
}

// A line of 8 A100 over NVLink: whatever NCCL chooses, 1.5 times as long at 1 MiB, 1.1 times at
// 64 MiB. Between them the factor's logarithm is a line over that of the bytes: at 8 MiB, half of
// the way, √(1.5·1.1) = 1.2845; at 2 MiB, a sixth of it, 1.5·(1.1/1.5)^(1/6) = 1.4244.
TEST(MeasuredCurve, IsALineBetweenLogarithms) {
  const nccl::CostModel model(a100_nodes(1, 8));
  const nccl::CurveKey key;
  const auto modelled = [&](std::uint64_t bytes) {
    return model.choice({nccl::Collective::AllReduce, bytes}).us;
  };
  const auto curve = nccl::MeasuredCurve::fit(
      model, key, {{64 * kMib, 1.1 * modelled(64 * kMib)}, {kMib, 1.5 * modelled(kMib)}});
  struct Row {
    std::uint64_t bytes;
    double factor;
  };
  for (const Row& row : {Row{kMib, 1.5}, Row{2 * kMib, 1.4244}, Row{8 * kMib, 1.2845},
                         Row{64 * kMib, 1.1}, Row{4096 * kMib, 1.1}, Row{1024, 1.5}}) {
    const nccl::Prediction predicted = curve.predict(model, row.bytes);
    EXPECT_NEAR(predicted.us / modelled(row.bytes), row.factor, 1e-4) << row.bytes;
    EXPECT_LT(predicted.low_us, predicted.us);
    EXPECT_GT(predicted.high_us, predicted.us);
  }
  EXPECT_EQ(curve.least_bytes(), kMib);
  EXPECT_EQ(curve.most_bytes(), 64 * kMib);
}

double width(const nccl::Prediction& predicted) { return predicted.high_us / predicted.low_us; }

TEST(MeasuredCurve, IsLessSureWhereItKnowsLess) {
  const nccl::CostModel model(a100_nodes(1, 8));
  std::vector<nccl::Sample> smooth, rough;
  for (int i = 0; i <= 6; ++i) {
    const std::uint64_t bytes = kMib << i;
    const double us = model.choice({nccl::Collective::AllReduce, bytes}).us;
    smooth.push_back({bytes, 1.2 * us});
    rough.push_back({bytes, (i % 2 == 0 ? 1.2 : 1.5) * us});
  }
  const auto line = nccl::MeasuredCurve::fit(model, {}, smooth);
  const auto zigzag = nccl::MeasuredCurve::fit(model, {}, rough);
  const std::uint64_t between = 3 * kMib;
  EXPECT_GT(width(zigzag.predict(model, between)), 1.2 * width(line.predict(model, between)));
  EXPECT_GT(width(zigzag.predict(model, between)), 1.2 * width(zigzag.predict(model, 4 * kMib)));
  EXPECT_GT(width(line.predict(model, 1024 * kMib)), width(line.predict(model, 128 * kMib)));
  EXPECT_GT(width(line.predict(model, 128 * kMib)), width(line.predict(model, 64 * kMib)));
  EXPECT_GT(width(line.predict(model, between, nccl::Basis::OtherMachine)),
            1.2 * width(line.predict(model, between)));
  EXPECT_GT(width(nccl::predict_by_model(model, {}, between)),
            width(line.predict(model, between, nccl::Basis::OtherMachine)));
}

// As on networks with congestion: a curve that is rough over half of its sizes may have a step at
// its others, too, where the known sizes happen to be smooth.
TEST(MeasuredCurve, IsRoughEverywhereWhereHalfOfItIs) {
  const nccl::CostModel model(a100_nodes(2, 8));
  std::vector<nccl::Sample> smooth, rough;
  for (int i = 0; i <= 12; ++i) {
    const std::uint64_t bytes = kMib << i;
    const double us = model.choice({nccl::Collective::AllReduce, bytes}).us;
    smooth.push_back({bytes, us});
    rough.push_back({bytes, (i % 2 == 1 && i < 8 ? 1.3 : 1.0) * us});
  }
  const auto line = nccl::MeasuredCurve::fit(model, {}, smooth);
  const auto uneven = nccl::MeasuredCurve::fit(model, {}, rough);
  EXPECT_GT(width(uneven.predict(model, 1536 * kMib)),
            1.2 * width(line.predict(model, 1536 * kMib)));
  EXPECT_NEAR(width(uneven.predict(model, 1024 * kMib)), width(line.predict(model, 1024 * kMib)),
              1e-9)
      << "a size that was measured";
}

TEST(MeasuredCurve, TakesTheMedianOfASize) {
  const nccl::CostModel model(a100_nodes(1, 8));
  const auto curve = nccl::MeasuredCurve::fit(
      model, {}, {{kMib, 80}, {kMib, 500}, {kMib, 82}, {0, 30}, {kMib, 0}});
  EXPECT_NEAR(curve.predict(model, kMib).us, 82, 1e-9);
}

TEST(MeasuredCurve, RefusesWhatItCannotFit) {
  struct Row {
    const char* says;
    nccl::Allocation allocation;
    nccl::CurveKey key;
    std::vector<nccl::Sample> samples;
  };
  const nccl::Way nvls = {nccl::Algorithm::Nvls, nccl::Protocol::Simple};
  const Row rows[] = {
      {"no measurement of AllReduce", a100_nodes(1, 8), {}, {}},
      {"no measurement of AllGather",
       a100_nodes(1, 8),
       {nccl::Collective::AllGather, {}},
       {{0, 35}}},
      {"no measurement", a100_nodes(1, 8), {}, {{kMib, -1}}},
      {"no NVLS with Simple for AllReduce over 8 ranks",
       a100_nodes(1, 8),
       {nccl::Collective::AllReduce, nvls},
       {{kMib, 80}}},
      {"no way for AllReduce over 1 ranks", a100_nodes(1, 1), {}, {{kMib, 80}}},
  };
  for (const Row& row : rows) {
    try {
      (void)nccl::MeasuredCurve::fit(nccl::CostModel(row.allocation), row.key, row.samples);
      ADD_FAILURE() << row.says;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      EXPECT_THAT(error.what(), HasSubstr(row.says));
    }
  }
}

TEST(CalibratedModel, KeepsACurveForEachWay) {
  const nccl::CostModel model(a100_nodes(1, 8));
  const nccl::CurveKey by_nccl,
      ring = {nccl::Collective::AllReduce,
              nccl::Way{nccl::Algorithm::Ring, nccl::Protocol::Simple}},
      few = {nccl::Collective::AllReduce,
             nccl::Way{nccl::Algorithm::Ring, nccl::Protocol::Simple, 8}};
  nccl::CalibratedModel calibrated(model);
  EXPECT_EQ(calibrated.predict(by_nccl, kMib).basis, nccl::Basis::Model);
  calibrated.add(nccl::MeasuredCurve::fit(model, ring, {{kMib, 90}}));
  calibrated.add(nccl::MeasuredCurve::fit(model, by_nccl, {{kMib, 500}}));
  calibrated.add(nccl::MeasuredCurve::fit(model, by_nccl, {{kMib, 75}}));
  EXPECT_NEAR(calibrated.predict(ring, kMib).us, 90, 1e-9);
  EXPECT_NEAR(calibrated.predict(by_nccl, kMib).us, 75, 1e-9) << "the later one";
  EXPECT_EQ(calibrated.predict(by_nccl, kMib).basis, nccl::Basis::Measured);
  EXPECT_EQ(calibrated.predict(few, kMib).basis, nccl::Basis::Model)
      << "nobody measured 8 channels";
  EXPECT_EQ(calibrated.predict({nccl::Collective::AllGather, {}}, kMib).basis, nccl::Basis::Model);
  EXPECT_EQ(
      calibrated.predict({nccl::Collective::AllReduce, {}, nccl::ReduceOp::PreMulSum}, kMib).basis,
      nccl::Basis::Model)
      << "a sum says nothing of an average";
}

TEST(PublicLogs, FitTheirMachineOrTellWhyNot) {
  REGATTA_NEED_SHARED("topologies/nccl-tests");
  for (const Log& row : kLogs) {
    EXPECT_EQ(nccl::misfit(nccl::CostModel(row.allocation), shared_log(row.name)), std::nullopt)
        << row.name;
  }
  struct Row {
    const char* name;
    nccl::Allocation allocation;
    const char* says;
  };
  nccl::Allocation slow = h100_nodes(1);
  slow.gb_per_s_within = 24;
  slow.within = graph::PathType::Phb;
  slow.nvswitch = false;
  const Row rows[] = {
      {"gh200x8-2node-cscs-slingshot-BAD-no-ofi-plugin", gh200_nodes(2),
       "times as long as NCCL reckons; NCCL may have gone over TCP (its network plugin missing)"},
      {"gh200x8-2node-cscs-slingshot-good", gh200_nodes(4), "of 8 ranks, the machine has 16"},
      {"h100x64-8node-coreweave-sharp", h100_nodes(8), "of 96 ranks, the machine has 64"},
      {"v100pciex4-1node-sheffield-bessemer", a100_nodes(1, 4),
       "look for GPUs that do not reach each other"},
      {"h100x8-1node-mlperf-v4.0-smc-bert-a", slow, "it is of another machine"},
  };
  for (const Row& row : rows) {
    const auto why = nccl::misfit(nccl::CostModel(row.allocation), shared_log(row.name));
    ASSERT_TRUE(why) << row.name;
    EXPECT_THAT(*why, HasSubstr(row.says));
  }
}

// The reason for a log that is too slow is what its own lines allow, and no more.
TEST(Misfit, NamesTheNetworkThatTheLogNames) {
  const nccl::CostModel model(a100_nodes(2, 8));
  nccl::NcclTestLog log;
  log.collective = nccl::Collective::AllReduce;
  log.ranks = 16;
  for (std::uint64_t bytes = 4 * kMib; bytes <= 256 * kMib; bytes *= 2) {
    log.rows.push_back(
        {bytes, std::nullopt, 6 * model.choice({nccl::Collective::AllReduce, bytes}).us});
  }
  struct Row {
    const char* network;
    bool gpu_direct;
    const char* says;
    const char* says_not;
  };
  const Row rows[] = {
      {"AWS Libfabric", true, "used AWS Libfabric with GPUDirect, so this network is slower",
       "TCP"},
      {"IB", false, "used IB: look for GPUDirect", "TCP"},
      {"Socket", false, "used sockets (TCP)", "may have"},
      {"", false, "may have gone over TCP", "probably"},
  };
  for (const Row& row : rows) {
    log.network = row.network;
    log.gpu_direct = row.gpu_direct;
    const auto why = nccl::misfit(model, log);
    ASSERT_TRUE(why) << row.network;
    EXPECT_THAT(*why, HasSubstr(row.says));
    EXPECT_THAT(*why, testing::Not(HasSubstr(row.says_not)));
  }
}

struct Pair {
  const char* known;
  nccl::Allocation known_allocation;
  const char* predicted;
  nccl::Allocation allocation;
  double most_percent;  // median; 0: known not to hold
};
const Pair kPairs[] = {
    // The same machines and collective.
    {"h100x8-1node-mlperf-v4.0-smc-bert-a", h100_nodes(1), "h100x8-1node-mlperf-v4.0-smc-bert-b",
     h100_nodes(1), 25},
    {"h100x8-1node-mlperf-v4.0-smc-bert-a", h100_nodes(1), "h100x8-1node-mlperf-v4.0-oracle-51.2M",
     h100_nodes(1), 25},
    {"b200x16-2node-dstack-lambda", b200_nodes(2), "b200x16-2node-dstack-gcp-a4-roce",
     b200_nodes(2), 25},
    {"b200x16-2node-dstack-gcp-a4-roce", b200_nodes(2), "b200x16-2node-dstack-lambda",
     b200_nodes(2), 25},
    // The same GPUs, another number of them.
    {"a100x4-1node-sheffield-stanage", a100_nodes(1, 4), "a100x8-1node-superbench-allreduce",
     a100_nodes(1, 8), 25},
    {"a100x8-1node-superbench-allreduce", a100_nodes(1, 8), "a100x4-1node-sheffield-stanage",
     a100_nodes(1, 4), 25},
    {"a100x8-1node-superbench-allreduce", a100_nodes(1, 8), "a100x32-4node-deepops-dgxa100",
     a100_nodes(4, 8), 25},
    // A rack on one NVLink says nothing of twenty on a network: another class of machine.
    {"gb200x72-1rack-coreweave", gb200_racks(1), "gb200x1440-20rack-coreweave", gb200_racks(20), 0},
};

TEST(PublicLogs, OneMachinePredictsAnotherOfItsClass) {
  REGATTA_NEED_SHARED("topologies/nccl-tests");
  std::printf("%-40s → %-40s %s\n", "known", "predicted",
              "model, then curve: median/worst, within");
  for (const Pair& row : kPairs) {
    SCOPED_TRACE(std::string(row.known) + " " + row.predicted);
    const nccl::NcclTestLog known = shared_log(row.known), predicted = shared_log(row.predicted);
    const nccl::CostModel model(row.allocation);
    const auto curve = nccl::MeasuredCurve::fit(nccl::CostModel(row.known_allocation),
                                                {*known.collective, {}}, nccl::samples_of(known));
    Errors errors;
    for (const nccl::Sample& sample : nccl::samples_of(predicted)) {
      if (sample.bytes < kMib) continue;
      errors.add(curve.predict(model, sample.bytes, nccl::Basis::OtherMachine), sample);
    }
    const Errors alone = errors_of_model(model, predicted);
    std::printf("%-40s → %-40s %6.1f %% %6.1f %% %6.1f %% %6.1f %% %d/%zu\n", row.known,
                row.predicted, alone.middle(), alone.worst(), errors.middle(), errors.worst(),
                errors.within, errors.shares.size());
    if (row.most_percent > 0) {
      EXPECT_LE(errors.middle(), row.most_percent);
      EXPECT_GE(errors.within, 0.8 * static_cast<double>(errors.shares.size()));
    } else {
      EXPECT_GT(errors.middle(), 25) << "it holds now: give it its limit";
    }
  }
}

}  // namespace
}  // namespace regatta::topology
