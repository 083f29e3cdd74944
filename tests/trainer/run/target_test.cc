// Whole attempts at runs, in this process: their evaluations by the float64 reference, and at which
// one a run has met its target.
#include "trainer/run/target.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <span>

#include "base/clock.h"
#include "base/error.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/store.h"
#include "tests/trainer/model/random_model.h"
#include "tests/trainer/samples/small_dataset.h"
#include "trainer/contract/journal.h"
#include "trainer/contract/retention_policy.h"
#include "trainer/run/training_run.h"
#include "trainer/samples/sampler.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

constexpr int kSteps = 12;
constexpr std::uint64_t kLimit = std::uint64_t{1} << 30U;

base::FileSystem& disk() { return base::posix_file_system(); }

// A number that is read back as it is.
std::string exactly(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

class Target : public OnSmallDataset<60> {
 protected:
  static void SetUpTestSuite() {
    OnSmallDataset<60>::SetUpTestSuite();
    curve_ =
        new std::vector<contract::EvalRecord>(of<contract::EvalRecord>(train_run("curve", "")));
  }
  static void TearDownTestSuite() {
    delete curve_;
    OnSmallDataset<60>::TearDownTestSuite();
  }
  static std::string run_text(const std::string& more) {
    return "model: {layers: 2, hidden: 32, heads: 2, feed_forward: 64, max_positions: 48}\n"
           "data: {path: " +
           dataset_->directory().string() +
           ", max_length: 48}\nbatch: {size: 8}\noptimizer: {learning_rate: 0.01}\n"
           "evaluate: {every: 1, samples: 20}\ncheckpoint: {every: 3, keep_last: 99}\n"
           "statistics: {peak_tflops: 1}\nthreads: 1\nsteps: " +
           std::to_string(kSteps) + "\n" + more;
  }
  // Trains a run of that name to its end, and returns its journal.
  static std::vector<contract::JournalRecord> train_run(const std::string& name,
                                                        const std::string& more) {
    return train_run(name, contract::parse_run_config(run_text(more), name));
  }
  static std::vector<contract::JournalRecord> train_run(const std::string& name,
                                                        const contract::RunConfig& config) {
    const base::Path path = directory_->path() / name;
    contract::RunDirectory run =
        contract::RunDirectory::create(disk(), path, contract::to_json(config));
    run::TrainingRunOptions options;
    options.variables = [](const char*) -> const char* { return nullptr; };
    EXPECT_EQ(run::train(disk(), base::system_clock(), run, options).code,
              contract::ExitCode::Finished);
    const std::vector<contract::AttemptName> attempts = run.attempts();
    EXPECT_EQ(attempts.size(), 1U);
    return contract::parse_journal(disk().read(run.journal_path(attempts.at(0)), kLimit)).records;
  }
  template <typename Record>
  static std::vector<Record> of(const std::vector<contract::JournalRecord>& journal) {
    std::vector<Record> found;
    for (const contract::JournalRecord& record : journal) {
      if (const auto* body = std::get_if<Record>(&record.body)) found.push_back(*body);
    }
    return found;
  }

  static inline std::vector<contract::EvalRecord>* curve_ = nullptr;  // of a run without a target
};

// The weights of a checkpoint, as its file has them.
ReferenceWeights weights_of(const base::Path& checkpoint) {
  const auto reader = checkpoint::SafetensorsReader::open(disk(), checkpoint / "model.safetensors");
  ReferenceWeights weights;
  for (const checkpoint::TensorInfo& info : reader.tensors()) {
    std::vector<float> values((info.end - info.begin) / sizeof(float));
    reader.read(info.name, info.dtype, info.shape, std::as_writable_bytes(std::span(values)));
    ReferenceWeight& weight = weights[info.name];
    weight.columns = static_cast<std::size_t>(info.shape.back());
    weight.rows = values.size() / weight.columns;
    weight.values.assign(values.begin(), values.end());
  }
  return weights;
}

// Of the model that its last checkpoint holds, on the held-out samples.
TEST_F(Target, TheLastEvaluationIsThatOfTheReference) {
  const base::Path checkpoints = directory_->path() / "curve" / "checkpoints";
  std::optional<checkpoint::CheckpointName> last;
  for (const std::string& name : disk().list(checkpoints)) {
    const auto parsed = checkpoint::parse_checkpoint_name(name);
    if (parsed && (!last || parsed->step > last->step)) last = parsed;
  }
  ASSERT_TRUE(last && last->step == kSteps);
  contract::RunConfig config = contract::parse_run_config(run_text(""), "run");
  config.model.vocabulary = static_cast<int>(dataset_->vocabulary().size());
  const auto samples = samples::evaluation_samples(*dataset_, config.data, 20);
  const ReferenceScores scores =
      reference_scores(config.model, weights_of(checkpoints / last->text()), samples);
  std::vector<std::int32_t> labels;
  for (const samples::Sample& sample : samples) {
    labels.insert(labels.end(), sample.masked_labels.begin(), sample.masked_labels.end());
  }
  // Where two logits are nearly the same, float32 may prefer either: its errors are of some 10⁻⁶.
  double right = 0, doubtful = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    (scores.mlm.at(i).margin < 1e-4 ? doubtful : right) += scores.mlm[i].best == labels[i] ? 1 : 0;
  }
  double next_right = 0, next_doubtful = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const bool hit = scores.nsp.at(i).best == samples[i].sample_label;
    (scores.nsp[i].margin < 1e-4 ? next_doubtful : next_right) += hit ? 1 : 0;
  }
  const contract::EvalRecord& record = curve_->back();
  const auto masked = static_cast<double>(labels.size());
  const auto count = static_cast<double>(samples.size());
  EXPECT_EQ(record.step, kSteps);
  EXPECT_EQ(record.samples, 20);
  EXPECT_NEAR(record.mlm_loss, scores.mlm_loss / masked, scores.mlm_error / masked);
  EXPECT_GT(right, 0);
  EXPECT_GE(record.mlm_accuracy, right / masked);
  EXPECT_LE(record.mlm_accuracy, (right + doubtful) / masked);
  EXPECT_GE(record.nsp_accuracy, next_right / count);
  EXPECT_LE(record.nsp_accuracy, (next_right + next_doubtful) / count);
}

// keep_best compares checkpoints by it: one that was evaluated some steps before has none.
TEST_F(Target, ACheckpointHasTheValueOfItsOwnStepOrNone) {
  contract::RunConfig config = contract::parse_run_config(run_text(""), "run");
  config.evaluate_every = 4;
  const auto journal = train_run("own_step", config);  // checkpoints after every third
  const base::Path checkpoints = directory_->path() / "own_step" / "checkpoints";
  std::map<std::int64_t, std::optional<double>> values;
  for (const checkpoint::Entry& entry : checkpoint::CheckpointStore(disk(), checkpoints).list()) {
    ASSERT_TRUE(entry.manifest) << entry.reason;
    values[entry.step] = entry.manifest->value;
    EXPECT_EQ(entry.manifest->metric, entry.manifest->value ? "mlm_accuracy" : "");
  }
  const std::map<std::int64_t, std::optional<double>> expected{
      {3, {}}, {6, {}}, {9, {}}, {kSteps, of<contract::EvalRecord>(journal).back().mlm_accuracy}};
  EXPECT_EQ(values, expected);
}

struct Edge {
  const char* name;
  bool is_loss;
  int harder;  // than a value that the curve reaches: 1; as hard: 0; easier: −1
  friend void PrintTo(const Edge& each, std::ostream* out) { *out << each.name; }
};

class TargetEdges : public Target, public testing::WithParamInterface<Edge> {
 protected:
  static double value_of(const contract::EvalRecord& record) {
    return GetParam().is_loss ? record.mlm_loss : record.mlm_accuracy;
  }
  static bool is_as_good(double value, double target) {
    return GetParam().is_loss ? !(value > target) : !(value < target);
  }
  // The last evaluation that is better than all before it.
  static std::size_t last_record() {
    std::size_t last = 0;
    for (std::size_t i = 1; i < curve_->size(); ++i) {
      const double value = value_of((*curve_)[i]), best = value_of((*curve_)[last]);
      if (GetParam().is_loss ? value < best : value > best) last = i;
    }
    return last;
  }
  static double target() {
    const double value = value_of((*curve_)[last_record()]);
    if (GetParam().harder == 0) return value;
    const bool up = (GetParam().harder > 0) != GetParam().is_loss;
    return std::nextafter(value, up ? HUGE_VAL : -HUGE_VAL);
  }
  static std::string target_text(bool stop) {
    return std::string("target: {metric: ") + (GetParam().is_loss ? "mlm_loss" : "mlm_accuracy") +
           ", value: " + exactly(target()) + ", stop: " + (stop ? "true" : "false") + "}\n";
  }
};

// The run ends with the first evaluation that is as good as the target, to the last bit.
TEST_P(TargetEdges, EndTheRun) {
  ASSERT_EQ(curve_->size(), kSteps + 1U);
  const std::size_t reached = last_record();
  ASSERT_GT(reached, 0U) << "the run learns";
  const auto journal = train_run(std::string("stop_") + GetParam().name, target_text(true));
  const auto start = of<contract::StartRecord>(journal).at(0);
  EXPECT_EQ(start.target, target());
  EXPECT_EQ(start.metric, GetParam().is_loss ? "mlm_loss" : "mlm_accuracy");
  const bool is_met = GetParam().harder <= 0;
  const auto end = of<contract::EndRecord>(journal).at(0);
  EXPECT_EQ(end.reason, is_met ? "target" : "steps");
  EXPECT_EQ(end.step, is_met ? static_cast<std::int64_t>(reached) : kSteps);
  const auto evaluations = of<contract::EvalRecord>(journal);
  ASSERT_EQ(evaluations.size(), is_met ? reached + 1 : curve_->size());
  for (std::size_t i = 0; i < evaluations.size(); ++i) {
    EXPECT_EQ(value_of(evaluations[i]), value_of((*curve_)[i])) << "a target changes no figure";
    EXPECT_EQ(evaluations[i].target_met, is_met && i == reached) << i;
  }
}

TEST_P(TargetEdges, AreToldWhereTheRunGoesOn) {
  const auto journal = train_run(std::string("go_") + GetParam().name, target_text(false));
  EXPECT_EQ(of<contract::EndRecord>(journal).at(0).reason, "steps");
  const auto evaluations = of<contract::EvalRecord>(journal);
  ASSERT_EQ(evaluations.size(), curve_->size());
  int met = 0;
  for (std::size_t i = 0; i < evaluations.size(); ++i) {
    EXPECT_EQ(evaluations[i].target_met, is_as_good(value_of((*curve_)[i]), target())) << i;
    met += evaluations[i].target_met ? 1 : 0;
  }
  EXPECT_EQ(met > 0, GetParam().harder <= 0);
  // Checkpoints are judged by the same figure.
  const base::Path run = directory_->path() / (std::string("go_") + GetParam().name);
  int judged = 0;
  for (const std::string& name : disk().list(run / "checkpoints")) {
    const auto parsed = checkpoint::parse_checkpoint_name(name);
    if (!parsed) continue;
    const checkpoint::Manifest manifest = checkpoint::parse_manifest(
        disk().read(run / "checkpoints" / name / checkpoint::kManifestFile, kLimit), name);
    EXPECT_EQ(manifest.metric, GetParam().is_loss ? "mlm_loss" : "mlm_accuracy");
    EXPECT_EQ(manifest.value, value_of((*curve_).at(static_cast<std::size_t>(parsed->step))));
    ++judged;
  }
  EXPECT_EQ(judged, kSteps / 3);
}

INSTANTIATE_TEST_SUITE_P(
    Metrics, TargetEdges,
    testing::Values(Edge{"accuracy_reached", false, 0}, Edge{"accuracy_just_missed", false, 1},
                    Edge{"accuracy_just_passed", false, -1}, Edge{"loss_reached", true, 0},
                    Edge{"loss_just_missed", true, 1}, Edge{"loss_just_passed", true, -1}),
    [](const auto& tested) { return std::string(tested.param.name); });

// The best constant guess: the share of the labels that are the most frequent one.
TEST_F(Target, TimesTheBaseline) {
  const contract::RunConfig config = contract::parse_run_config(run_text(""), "run");
  std::map<std::int32_t, int> labels;
  double total = 0, most = 0;
  for (const samples::Sample& sample : samples::evaluation_samples(*dataset_, config.data, 20)) {
    for (const std::int32_t label : sample.masked_labels) {
      total += 1;
      most = std::max<double>(most, ++labels[label]);
    }
  }
  const auto start =
      of<contract::StartRecord>(train_run("times", "target: {times_baseline: 0.75, stop: false}\n"))
          .at(0);
  EXPECT_EQ(start.baseline, most / total);
  EXPECT_EQ(start.target, 0.75 * (most / total));
}

TEST(TargetValue, IsWhatARunMayReach) {
  const auto config = [](const std::string& target) {
    return contract::parse_run_config("data: {path: /d}\ntarget: " + target, "run");
  };
  EXPECT_EQ(run::target_value(contract::RunConfig{}, 0.25), std::nullopt);
  EXPECT_EQ(run::target_value(config("{value: 0.3}"), std::nullopt), 0.3);
  EXPECT_EQ(run::target_value(config("{times_baseline: 4}"), 0.25), 1.0);
  const std::pair<std::optional<double>, const char*> refused[] = {
      {0.3,
       "target.times_baseline: 4 times the best constant guess, whose mlm_accuracy is 0.3, is "
       "more than 1; use less than 3.333, or target.value"},
      {0.0,
       "target.times_baseline: the best constant guess has no mlm_accuracy on this data; say "
       "with target.value what the run is to reach"},
      {std::nullopt, "target.times_baseline: the best constant guess has no mlm_accuracy"},
  };
  for (const auto& [baseline, why] : refused) {
    try {
      (void)run::target_value(config("{times_baseline: 4}"), baseline);
      ADD_FAILURE() << why;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      EXPECT_EQ(std::string(error.what()).substr(0, std::string(why).size()), why);
    }
  }
}

// `samples: 0` means all that are held out; a plain number, so many of them.
TEST_F(Target, ZeroSamplesAreAllThatAreHeldOut) {
  const contract::RunConfig config = contract::parse_run_config(run_text(""), "run");
  const auto all = samples::evaluation_samples(*dataset_, config.data, 1 << 20);
  ASSERT_GT(all.size(), 20U);
  contract::RunConfig whole = config;
  whole.evaluate_samples = 0;
  whole.steps = 1;
  EXPECT_EQ(of<contract::EvalRecord>(train_run("whole", whole)).back().samples, std::ssize(all));
  EXPECT_EQ(curve_->back().samples, 20);
}

// What a run keeps as its best checkpoints.
TEST(TargetMetrics, BestIsHighestAccuracyAndLowestLoss) {
  contract::RunConfig config;
  EXPECT_EQ(contract::retention_policy(config).better, checkpoint::Better::Highest);
  EXPECT_EQ(contract::retention_policy(config).metric, "mlm_accuracy");
  config.target = contract::TargetConfig{};
  config.target->metric = contract::TargetMetric::MlmAccuracy;
  EXPECT_EQ(contract::retention_policy(config).better, checkpoint::Better::Highest);
  EXPECT_EQ(contract::retention_policy(config).metric, "mlm_accuracy");
  config.target->metric = contract::TargetMetric::MlmLoss;
  EXPECT_EQ(contract::retention_policy(config).better, checkpoint::Better::Lowest);
  EXPECT_EQ(contract::retention_policy(config).metric, "mlm_loss");
}

}  // namespace
}  // namespace regatta::tests
