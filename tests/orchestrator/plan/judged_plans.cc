#include "tests/orchestrator/plan/judged_plans.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "orchestrator/plan/planner.h"
#include "tests/shared_data.h"
#include "tests/topology/nccl/allocations.h"
#include "topology/nccl/allocation.h"
#include "topology/plan/bucket_programme.h"
#include "topology/sources/cluster_file.h"

namespace regatta::tests {
namespace {

using orchestrator::plan::PlanReport;
using orchestrator::plan::PlanRequest;
using topology::nccl::Allocation;
using topology::nccl::CommunicationCurve;
using topology::plan::StepInputs;

constexpr int kSamples = 64;
constexpr double kJitter = 0.1;
constexpr int kSamplesPerRank = 16;
constexpr std::int64_t kStandardBytes = std::int64_t{25} << 20;

struct Judge {
  const char* log;
  Allocation allocation;  // of the log
};

struct Cluster {
  const char* name;
  std::vector<int> nodes;
  std::vector<Judge> judges;
};

std::vector<Cluster> clusters() {
  using namespace topology;
  const std::vector<int> usual = {2, 4, 8, 16, 32, 64, 128};
  const std::vector<Judge> hopper = {{"h100x8-1node-mlperf-v4.0-smc-bert-a", h100_nodes(1)},
                                     {"h100x8-1node-mlperf-v4.0-smc-bert-b", h100_nodes(1)},
                                     {"h100x64-8node-coreweave-sharp", with_sharp(h100_nodes(12))},
                                     {"b200x16-2node-dstack-lambda", b200_nodes(2)}};
  return {{"pcie-100gbe",
           usual,
           {{"v100pciex4-1node-sheffield-bessemer", v100_pcie()},
            {"gh200x8-2node-cscs-slingshot-good", gh200_nodes(2)},
            {"b200x16-2node-dstack-gcp-a4-roce", b200_nodes(2)}}},
          {"dgx-a100",
           usual,
           {{"a100x8-1node-superbench-allreduce", a100_nodes(1, 8)},
            {"a100x4-1node-sheffield-stanage", a100_nodes(1, 4)},
            {"a100x32-4node-deepops-dgxa100", a100_nodes(4, 8)}}},
          {"dgx-h100", usual, hopper},
          {"hgx-h200", usual, hopper},
          // Whole NVLink domains are of 18 nodes.
          {"gb200-nvl72",
           {2, 4, 8, 16, 18, 36, 72, 126},
           {{"gb200x72-1rack-coreweave", gb200_racks(1)},
            {"gb200x1440-20rack-coreweave", gb200_racks(20)}}}};
}

PlanRequest request_of(const std::string& source, const topology::graph::Graph& machines,
                       int ranks) {
  PlanRequest request;
  request.config.model = trainer::contract::preset_shape("large");
  request.config.model.vocabulary = 30522;
  request.config.data.max_length = 512;
  request.config.dtype = trainer::contract::Precision::BFloat16;
  request.config.device = trainer::contract::DeviceKind::Cuda;
  request.config.ranks = ranks;
  request.config.batch_size = ranks * kSamplesPerRank;
  request.config.optimizer.kind = trainer::contract::OptimizerKind::Lamb;
  request.machines = machines;
  const std::string lengths = source + "/tests/data/lengths_wikipedia_512.csv";
  request.lengths = trainer::contract::LengthTable::parse(file_text(lengths), lengths);
  return request;
}

// Every group of tensors earlier or later by its own share, none before the one before it.
StepInputs jittered(const StepInputs& inputs, std::mt19937_64* engine) {
  const auto factor = [&] {
    return 1 + kJitter * (2 * (static_cast<double>((*engine)() >> 11U) * 0x1p-53) - 1);
  };
  StepInputs sample = inputs;
  double ready = -1, scale = 1, latest = 0;
  for (topology::plan::StepTensor& tensor : sample.tensors) {
    if (tensor.ready_seconds != ready) scale = factor();
    ready = tensor.ready_seconds;
    latest = std::max(latest, ready * scale);
    tensor.ready_seconds = latest;
  }
  sample.compute_seconds = std::max(latest, inputs.compute_seconds);
  return sample;
}

void judge(const StepInputs& inputs, const topology::plan::Plan& plan,
           const CommunicationCurve& curve, JudgedPlan* row) {
  const auto standard = topology::plan::buckets_of_at_most(inputs, kStandardBytes);
  std::mt19937_64 engine(11);
  for (int i = 0; i < kSamples; ++i) {
    const StepInputs sample = jittered(inputs, &engine);
    const double planned = topology::plan::run_step(sample, plan.buckets, curve).step_seconds;
    const double usual = topology::plan::run_step(sample, standard, curve).step_seconds;
    row->planned_seconds += planned / kSamples;
    row->standard_seconds += usual / kSamples;
    row->worst_ratio = std::max(row->worst_ratio, planned / usual);
  }
}

}  // namespace

std::vector<JudgedPlan> judge_plans(const std::string& source, const std::string& logs) {
  std::vector<JudgedPlan> rows;
  for (const Cluster& cluster : clusters()) {
    const std::string file = source + "/topology/examples/" + cluster.name + ".yaml";
    const auto description = topology::sources::parse_cluster(file_text(file), file);
    for (const int nodes : cluster.nodes) {
      const topology::graph::Graph machines = topology::sources::generate(description, nodes);
      const int gpus = description.kinds.front().gpus;
      const PlanRequest request = request_of(source, machines, nodes * gpus);
      const PlanReport report = orchestrator::plan::plan_run(request);
      const auto choice = orchestrator::plan::choose_nodes(machines, request.config);
      const topology::nccl::CostModel model(
          topology::nccl::allocation_of(machines, choice.nodes, gpus));
      const StepInputs inputs = report.inputs;
      JudgedPlan row;
      row.cluster = cluster.name;
      row.nodes = nodes;
      row.ranks = nodes * gpus;
      row.buckets = static_cast<int>(report.plan.buckets.size());
      row.cut = report.plan.why.substr(0, report.plan.why.find(" ("));
      const double most = 1.5e9;
      const auto add = [&](const std::string& name, const CommunicationCurve& curve) {
        JudgedPlan judged = row;
        judged.judge = name;
        judge(inputs, report.plan, curve, &judged);
        rows.push_back(judged);
      };
      add("the model", orchestrator::plan::curve_of(topology::nccl::CalibratedModel(model),
                                                    topology::nccl::Collective::AllReduce, most));
      for (const Judge& other : cluster.judges) {
        const std::string name = std::string(other.log) + ".log";
        const auto log = topology::nccl::parse_nccl_tests_log(file_text(logs + "/" + name), name);
        const auto measured = topology::nccl::MeasuredCurve::fit(
            topology::nccl::CostModel(other.allocation), {*log.collective, {}},
            topology::nccl::samples_of(log));
        add(other.log, CommunicationCurve::sampled(
                           [&](double bytes) {
                             return 1e-6 * measured
                                               .predict(model, static_cast<std::uint64_t>(bytes),
                                                        topology::nccl::Basis::OtherMachine)
                                               .us;
                           },
                           most));
      }
    }
  }
  return rows;
}

}  // namespace regatta::tests
