// An exported model computes the same logits in an implementation that shares nothing with ours.
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "base/process.h"
#include "checkpoint/store.h"
#include "tests/shared_data.h"
#include "tests/trainer/interchange/trained_run.h"
#include "trainer/activation_layout.h"
#include "trainer/bert.h"
#include "trainer/cpu/cpu_device.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using nlohmann::json;

constexpr double kDeadline = 200;  // seconds of Python, on any machine

class Logits : public TrainedRun, public testing::WithParamInterface<const char*> {};

Sample random_sample(int length, const std::vector<std::int32_t>& masked, int vocabulary,
                     std::mt19937* random) {
  Sample sample;
  for (int i = 0; i < length; ++i) {
    sample.ids.push_back(
        static_cast<std::int32_t>((*random)() % static_cast<unsigned>(vocabulary)));
    sample.types.push_back(i > length / 2 ? 1 : 0);
  }
  sample.masked_positions = masked;
  sample.masked_labels.assign(masked.size(), 0);
  return sample;
}

std::vector<Sample> samples_for(const ModelShape& shape) {
  std::mt19937 random(4);
  return {
      random_sample(2, {0, 1}, shape.vocabulary, &random),
      random_sample(13, {2, 3, 12}, shape.vocabulary, &random),
      random_sample(shape.max_positions, {7, shape.max_positions - 1}, shape.vocabulary, &random)};
}

// MLM logits position by position, and the NSP logits after each sample, of the trainer.
std::vector<double> our_logits(const base::Path& checkpoint, const ModelShape& shape,
                               const std::vector<Sample>& samples) {
  const auto device = make_cpu_device(1);
  Bert model(*device, shape, {{}, Dtype::Float32, {1}, true});
  std::vector<float> weights(static_cast<std::size_t>(model.table().arena_size), 0.0F);
  const auto reader = checkpoint::SafetensorsReader::open(base::posix_file_system(),
                                                          checkpoint / "model.safetensors");
  for (const TensorEntry& entry : model.table().tensors) {
    const std::span<float> values(weights.data() + entry.offset,
                                  static_cast<std::size_t>(entry.size));
    reader.read(entry.name, "F32", entry.shape, std::as_writable_bytes(values));
  }
  device->copy_to_device(0, model.parameters(), weights.data());
  std::vector<double> logits;
  for (const Sample& sample : samples) {  // one at a time: a batch of its own exact room
    const PackedBatch batch = collate({sample}, {0});
    model.reset_statistics();
    model.upload(batch, 1, {batch.masked(), 1});
    model.forward(Mode::Evaluation);
    const ActivationLayout layout = activation_layout(shape, room_for(batch, {1}), Dtype::Float32);
    const auto take = [&](const Buffer& buffer, std::int64_t rows, std::int64_t stride,
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
    take(layout.logits, batch.masked(), vocabulary_rows(shape), shape.vocabulary);
    take(layout.next_logits, 1, 2, 2);
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

struct Distance {
  double largest = 0;
  double mean_square = 0;
};
Distance distance(const std::vector<double>& a, const std::vector<double>& b) {
  Distance distance;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double error = std::abs(a[i] - b[i]);
    distance.largest = std::max(distance.largest, error);
    distance.mean_square += error * error / static_cast<double>(a.size());
  }
  return distance;
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
Distance distance(const Answer& answer) { return distance(answer.naive, answer.exact); }

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

// Within twice the error of float32 elsewhere.
void expect_near(const char* where, const std::vector<double>& ours, const Answer& theirs) {
  ASSERT_EQ(ours.size(), theirs.exact.size());
  ASSERT_EQ(ours.size(), theirs.naive.size());
  const Distance allowed = distance(theirs);
  const Distance found = distance(ours, theirs.exact);
  std::printf("%s, %zu logits: largest error %.3g (its own float32 %.3g), mean %.3g (%.3g)\n",
              where, ours.size(), found.largest, allowed.largest, std::sqrt(found.mean_square),
              std::sqrt(allowed.mean_square));
  EXPECT_GT(allowed.largest, 0);
  EXPECT_LE(found.largest, 2 * allowed.largest) << where;
  EXPECT_LE(found.mean_square, 4 * allowed.mean_square) << where;
}

TEST_P(Logits, AreThoseOfAnotherImplementation) {
  const base::Path file = path() / "run.yaml";
  write_text(file, run_text(dataset(), {GetParam(), 40, 40, ""}));
  train_run(file, path() / "run");
  ExportOptions options;
  options.checkpoint = path() / "run";
  options.output = path() / "model";
  const ExportReport report = export_model(base::posix_file_system(), options);
  ASSERT_EQ(report.step, 40);

  ModelShape shape = parse_run_config(run_text(dataset(), {GetParam(), 40, 40, ""}), "run").model;
  shape.vocabulary = static_cast<int>(Dataset::open(dataset()).vocabulary().size());
  const std::vector<Sample> samples = samples_for(shape);
  json asked;
  for (const Sample& sample : samples) {
    asked.push_back({{"ids", sample.ids},
                     {"types", sample.types},
                     {"masked_positions", sample.masked_positions}});
  }
  write_text(path() / "samples.json", asked.dump());
  const std::vector<double> ours =
      our_logits(path() / "run" / "checkpoints" / report.checkpoint, shape, samples);
  const Answer plain = ask("python3", "bert.py", options.output, path() / "samples.json");
  expect_near("plain Python", ours, plain);
  if (const auto python = python_with_torch()) {
    const Answer torch = ask(*python, "bert_torch.py", options.output, path() / "samples.json");
    expect_near("PyTorch", ours, torch);
    ASSERT_EQ(torch.exact.size(), plain.exact.size());
    EXPECT_LT(distance(torch.exact, plain.exact).largest, 1e-3 * distance(plain).largest)
        << "both computed in float64";
  } else {
    ASSERT_FALSE(required("torch")) << "REQUIRE=torch, but no python3 here has it";
    std::printf(
        "NOT COMPARED WITH PYTORCH: no python3 here has torch (Debian: python3-torch); "
        "compared with plain Python alone\n");
  }
  // The two activations differ by far more than rounding, so the check can tell them apart.
  change_config(options.output, [](json& config) {
    config["hidden_act"] = config["hidden_act"] == "gelu" ? "gelu_new" : "gelu";
  });
  const Answer other = ask("python3", "bert.py", options.output, path() / "samples.json");
  EXPECT_GT(distance(other.exact, plain.exact).largest, 10 * distance(plain).largest);
}

INSTANTIATE_TEST_SUITE_P(Activations, Logits, testing::Values("erf", "tanh"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
}  // namespace regatta::tests
