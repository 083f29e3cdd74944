// An exported model computes the same logits in an implementation that shares nothing with ours:
// as nearly as float32 can, by what rounding does to this very model (Tape::rounding). That limit
// is derived in float64 from the weights and the samples, so it goes with the model wherever its
// training leads, and no program's own errors are the yardstick.
#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <span>

#include "base/process.h"
#include "checkpoint/store.h"
#include "tests/shared_data.h"
#include "tests/trainer/interchange/trained_run.h"
#include "tests/trainer/model/reference_bert.h"
#include "tests/trainer/model/rounding.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/model/activation_layout.h"
#include "trainer/model/bert.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using nlohmann::json;

constexpr double kDeadline = 200;  // seconds of Python, on any machine

samples::Sample random_sample(int length, const std::vector<std::int32_t>& masked, int vocabulary,
                              std::mt19937* random) {
  samples::Sample sample;
  for (int i = 0; i < length; ++i) {
    sample.ids.push_back(
        static_cast<std::int32_t>((*random)() % static_cast<unsigned>(vocabulary)));
    sample.types.push_back(i > length / 2 ? 1 : 0);
  }
  sample.masked_positions = masked;
  sample.masked_labels.assign(masked.size(), 0);
  return sample;
}

std::vector<samples::Sample> samples_for(const contract::ModelShape& shape) {
  std::mt19937 random(4);
  return {
      random_sample(2, {0, 1}, shape.vocabulary, &random),
      random_sample(13, {2, 3, 12}, shape.vocabulary, &random),
      random_sample(shape.max_positions, {7, shape.max_positions - 1}, shape.vocabulary, &random)};
}

// Of a checkpoint, by tensor.
ReferenceWeights weights_of(const base::Path& checkpoint, const contract::TensorTable& table) {
  const auto reader = checkpoint::SafetensorsReader::open(base::posix_file_system(),
                                                          checkpoint / "model.safetensors");
  ReferenceWeights weights;
  for (const contract::TensorEntry& entry : table.tensors) {
    std::vector<float> values(static_cast<std::size_t>(entry.size));
    reader.read(entry.name, "F32", entry.shape, std::as_writable_bytes(std::span(values)));
    const auto columns = static_cast<std::size_t>(entry.shape.back());
    weights[entry.name] = {values.size() / columns, columns, {values.begin(), values.end()}};
  }
  return weights;
}

// MLM logits position by position, and the NSP logits after each sample, of the trainer.
std::vector<double> our_logits(const ReferenceWeights& weights, const contract::ModelShape& shape,
                               const std::vector<samples::Sample>& samples) {
  const auto device = cpu::make_cpu_device(1);
  model::Bert model(*device, shape, {{}, device::Dtype::Float32, {1}});
  std::vector<float> arena(static_cast<std::size_t>(model.table().arena_size), 0.0F);
  for (const contract::TensorEntry& entry : model.table().tensors) {
    std::transform(weights.at(entry.name).values.begin(), weights.at(entry.name).values.end(),
                   arena.begin() + entry.offset,
                   [](double value) { return static_cast<float>(value); });
  }
  device->copy_to_device(0, model.parameters(), arena.data());
  std::vector<double> logits;
  for (const samples::Sample& sample : samples) {  // one at a time: a batch of its own exact room
    const samples::PackedBatch batch = samples::collate({sample}, {0});
    model.reset_statistics();
    model.upload(batch, 1, {batch.masked(), 1});
    model.forward(model::Mode::Evaluation);
    const model::ActivationLayout layout =
        model::activation_layout(shape, model::room_for(batch, {1}), device::Dtype::Float32);
    const auto take = [&](const model::Buffer& buffer, std::int64_t rows, std::int64_t stride,
                          std::int64_t columns) {
      std::vector<float> all(static_cast<std::size_t>(rows * stride));
      device->copy_to_host(0, all.data(),
                           model.activation_memory().slice(buffer.offset, 4 * rows * stride));
      device->synchronize();
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t column = 0; column < columns; ++column) {
          logits.push_back(
              static_cast<double>(all[static_cast<std::size_t>(row * stride + column)]));
        }
      }
    };
    take(layout.logits, batch.masked(), contract::vocabulary_rows(shape), shape.vocabulary);
    take(layout.sample_logits, 1, 2, 2);
  }
  return logits;
}

std::vector<double> flat(const json& samples) {
  std::vector<double> logits;
  for (const json& sample : samples) {
    for (const json& position : sample.at("mlm")) {
      for (const json& logit : position) logits.push_back(logit.get<double>());
    }
    for (const json& logit : sample.at("nsp")) logits.push_back(logit.get<double>());
  }
  return logits;
}

// What the model computes, and how far from it float32 may be: of each group of logits, the norm.
struct Exact {
  std::vector<ReferenceLogits> groups;
  std::vector<double> limits;
};
Exact exact_logits(const contract::ModelShape& shape, const ReferenceWeights& weights,
                   const std::vector<samples::Sample>& samples) {
  Exact exact;
  std::size_t count = 0;
  for (const samples::Sample& sample : samples) {
    for (ReferenceLogits& group : reference_logits(shape, weights, sample)) {
      count += group.values.size();
      exact.groups.push_back(std::move(group));
    }
  }
  for (const ReferenceLogits& group : exact.groups) {
    exact.limits.push_back(float32_error(group.rounding, count));
  }
  return exact;
}

// The largest error of a group of logits, in units of its limit.
double largest_error(const std::vector<double>& logits, const Exact& exact) {
  double largest = 0;
  std::size_t at = 0;
  for (std::size_t g = 0; g < exact.groups.size(); ++g) {
    double squares = 0;
    for (const double value : exact.groups[g].values) squares += square(logits.at(at++) - value);
    largest = std::max(largest, std::sqrt(squares) / exact.limits[g]);
  }
  EXPECT_EQ(at, logits.size());
  return largest;
}

std::vector<double> values_of(const Exact& exact) {
  std::vector<double> values;
  for (const ReferenceLogits& group : exact.groups) {
    values.insert(values.end(), group.values.begin(), group.values.end());
  }
  return values;
}

// Logits of one of the other implementations.
struct Answer {
  std::vector<double> exact;  // in float64
  std::vector<double> naive;  // in float32
};
Answer ask(const std::string& python, const std::string& script, const base::Path& model,
           const base::Path& samples) {
  base::Command command;
  command.arguments = {python, "-B",
                       std::string(REGATTA_SOURCE_DIR) + "/tests/trainer/interchange/" + script,
                       model.string(), samples.string()};
  const base::Output output = base::run(command, kDeadline);
  if (output.exit.code != 0) {
    ADD_FAILURE() << script << ": " << output.errors;
    return {};
  }
  const json answer = json::parse(output.text);
  return {flat(answer.at("double")), flat(answer.at("single"))};
}

// Debian's own Python has Debian's packages, and need not be the first in PATH.
std::optional<std::string> python_with_torch() {
  for (const char* python : {"python3", "/usr/bin/python3"}) {
    if (std::string(python).front() == '/' && !std::filesystem::exists(python)) continue;
    base::Command command;
    command.arguments = {python, "-c", "import torch"};
    if (base::run(command, kDeadline).exit.code == 0) return python;
  }
  return std::nullopt;
}

// Two programs in float64 differ by no more than what is allowed to each of them, 2⁻²⁹ of
// float32's.
constexpr double kFloat64 = 2 * 0x1p-29;

void expect_near(const char* where, const std::vector<double>& ours, const Answer& theirs,
                 const Exact& exact) {
  const double found = largest_error(ours, exact);
  const double naive = largest_error(theirs.naive, exact);
  const double apart = largest_error(theirs.exact, exact);
  std::printf(
      "%s, %zu logits: largest error %.3g of its limit (its own float32 %.3g, float64 %.3g)\n",
      where, ours.size(), found, naive, apart / kFloat64);
  EXPECT_LE(apart, kFloat64) << where << ": both computed in float64";
  EXPECT_LE(naive, 1) << where << ": the limit is of float32";
  EXPECT_LE(found, 1) << where;
}

class Logits : public TrainedRun, public testing::WithParamInterface<const char*> {
 protected:
  [[nodiscard]] static contract::ModelShape shape() {
    contract::ModelShape shape =
        contract::parse_run_config(run_text(dataset(), {GetParam(), 40, 40, ""}), "run").model;
    shape.vocabulary = static_cast<int>(data::Dataset::open(dataset()).vocabulary().size());
    return shape;
  }
  // Of a run of 40 steps, exported to path() / "model": its checkpoint's weights.
  ReferenceWeights export_trained() {
    const base::Path file = path() / "run.yaml";
    write_text(file, run_text(dataset(), {GetParam(), 40, 40, ""}));
    train_run(file, path() / "run");
    interchange::ExportOptions options;
    options.checkpoint = path() / "run";
    options.output = path() / "model";
    const interchange::ExportReport report =
        interchange::export_model(base::posix_file_system(), options);
    EXPECT_EQ(report.step, 40);
    return weights_of(path() / "run" / "checkpoints" / report.checkpoint,
                      contract::make_tensor_table(shape()));
  }
};

TEST_P(Logits, AreThoseOfAnotherImplementation) {
  const ReferenceWeights weights = export_trained();
  const std::vector<samples::Sample> samples = samples_for(shape());
  const std::vector<double> ours = our_logits(weights, shape(), samples);
  const Exact exact = exact_logits(shape(), weights, samples);
  json asked;
  for (const samples::Sample& sample : samples) {
    asked.push_back({{"ids", sample.ids},
                     {"types", sample.types},
                     {"masked_positions", sample.masked_positions}});
  }
  write_text(path() / "samples.json", asked.dump());
  const base::Path model = path() / "model";
  const Answer plain = ask("python3", "bert.py", model, path() / "samples.json");
  expect_near("plain Python", ours, plain, exact);
  if (const auto python = python_with_torch()) {
    expect_near("PyTorch", ours, ask(*python, "bert_torch.py", model, path() / "samples.json"),
                exact);
  } else {
    ASSERT_FALSE(required("torch")) << "REQUIRE=torch, but no python3 here has it";
    std::printf(
        "NOT COMPARED WITH PYTORCH: no python3 here has torch (Debian: python3-torch); "
        "compared with plain Python alone\n");
  }
}

// What a wrong export or a wrong kernel would be off by is beyond the limit, by a multiple.
TEST_P(Logits, AreFarFromThoseOfAnotherModel) {
  const ReferenceWeights weights = export_trained();
  const std::vector<samples::Sample> samples = samples_for(shape());
  const Exact exact = exact_logits(shape(), weights, samples);
  using Change = std::function<void(contract::ModelShape*, ReferenceWeights*)>;
  const std::pair<const char*, Change> faults[] = {
      {"the other GELU",
       [](contract::ModelShape* other, ReferenceWeights*) {
         other->gelu =
             other->gelu == contract::Gelu::Erf ? contract::Gelu::Tanh : contract::Gelu::Erf;
       }},
      {"epsilon 1e-5",
       [](contract::ModelShape* other, ReferenceWeights*) { other->layer_norm_epsilon = 1e-5F; }},
      {"a transposed weight",
       [](contract::ModelShape*, ReferenceWeights* other) {
         ReferenceWeight& weight = other->at("bert.encoder.layer.1.attention.self.query.weight");
         for (std::size_t r = 0; r < weight.rows; ++r) {
           for (std::size_t c = 0; c < r; ++c) {
             std::swap(weight.values[r * weight.columns + c],
                       weight.values[c * weight.columns + r]);
           }
         }
       }},
      {"weights in bfloat16", [](contract::ModelShape*, ReferenceWeights* other) {
         for (auto& [name, weight] : *other) {
           for (double& value : weight.values) {
             int exponent = 0;
             const double mantissa = std::frexp(value, &exponent);
             value = std::ldexp(std::nearbyint(std::ldexp(mantissa, 8)), exponent - 8);
           }
         }
       }}};
  for (const auto& [name, change] : faults) {
    contract::ModelShape other_shape = shape();
    ReferenceWeights other_weights = weights;
    change(&other_shape, &other_weights);
    const double off =
        largest_error(values_of(exact_logits(other_shape, other_weights, samples)), exact);
    std::printf("%s: off by %.3g limits\n", name, off);
    EXPECT_GT(off, 4) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Activations, Logits, testing::Values("erf", "tanh"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
}  // namespace regatta::tests
