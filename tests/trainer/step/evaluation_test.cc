// What an evaluation scores, and the figures that it makes of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <set>

#include "tests/trainer/model/random_model.h"
#include "tests/trainer/ranks/thread_ranks.h"
#include "tests/trainer/samples/numbered_suite.h"
#include "tests/trainer/samples/small_dataset.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/device/forwarding_device.h"
#include "trainer/samples/sampler.h"
#include "trainer/step/buckets.h"
#include "trainer/step/train_loop.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

// What went into a device's losses.
class WatchedLosses final : public device::ForwardingDevice {
 public:
  using device::ForwardingDevice::ForwardingDevice;

  void cross_entropy(device::Stream stream, const device::CrossEntropy& op) override {
    EXPECT_TRUE(op.evaluate);
    std::vector<std::int32_t>& labels = op.classes == 2 ? next_sentence_ : masked_;
    labels.insert(labels.end(), op.labels.ints(), op.labels.ints() + op.labels.size);
    device::ForwardingDevice::cross_entropy(stream, op);
  }
  [[nodiscard]] const std::vector<std::int32_t>& masked() const { return masked_; }
  [[nodiscard]] const std::vector<std::int32_t>& next_sentence() const { return next_sentence_; }

 private:
  std::vector<std::int32_t> masked_, next_sentence_;
};

contract::RunConfig config_of(const data::Dataset& dataset, int ranks) {
  contract::RunConfig config = small_run_config(dataset);
  config.batch_size = 8;
  config.steps = 1;
  config.ranks = ranks;
  config.ranks_per_node = 1;
  return config;
}

// Calls `body` on every rank, with a loop that has these weights.
using Body = std::function<void(ranks::Communicator& ranks, step::TrainLoop& loop)>;
void on_ranks(const data::Dataset& dataset, const contract::RunConfig& config,
              const std::vector<float>& weights, const Body& body,
              const std::function<device::Device&(int rank, device::Device&)>& around = nullptr) {
  ThreadRanks(config.ranks).run([&](ranks::Communicator& ranks) {
    const auto real = cpu::make_cpu_device(1);
    device::Device& device = around ? around(ranks.rank(), *real) : *real;
    const samples::SampleSource source(dataset, data::Split::Training, config.data, config.seed);
    topology::plan::Plan plan;
    plan.ranks = config.ranks;
    plan.buckets = step::buckets_per_layer(contract::make_tensor_table(config.model));
    step::TrainLoop loop(device, ranks, base::system_clock(), config, plan,
                         samples::stream_of(source));
    loop.load({weights, {}, {}});
    body(ranks, loop);
  });
}

class HeldOut : public NumberedSuite {
 protected:
  // The labels, ascending, and the number of samples that all ranks together score when there are
  // at most `count` samples to evaluate.
  static std::vector<std::int32_t> scored(int ranks, int count, std::size_t* samples);
};

std::vector<std::int32_t> HeldOut::scored(int ranks, int count, std::size_t* samples) {
  const contract::RunConfig config = config_of(*dataset_, ranks);
  const std::vector<float> weights = random_weights(contract::make_tensor_table(config.model), 5);
  std::mutex mutex;
  std::vector<std::int32_t> labels;
  std::vector<std::unique_ptr<WatchedLosses>> watched(static_cast<std::size_t>(ranks));
  *samples = 0;
  on_ranks(
      *dataset_, config, weights,
      [&](ranks::Communicator& communicator, step::TrainLoop& loop) {
        const auto set = samples::evaluation_samples(*dataset_, config.data, count);
        const contract::EvalRecord record = loop.evaluate(set, 0);
        EXPECT_EQ(record.samples, std::ssize(set));
        const std::scoped_lock lock(mutex);
        const WatchedLosses& mine = *watched[static_cast<std::size_t>(communicator.rank())];
        labels.insert(labels.end(), mine.masked().begin(), mine.masked().end());
        *samples += mine.next_sentence().size();
      },
      [&](int rank, device::Device& device) -> device::Device& {
        const std::scoped_lock lock(mutex);
        auto& mine = watched[static_cast<std::size_t>(rank)];
        mine = std::make_unique<WatchedLosses>(device);
        return *mine;
      });
  std::sort(labels.begin(), labels.end());
  return labels;
}

// By what the device is given: every position once, whatever the ranks, and all of documents whose
// hash is below the share.
TEST_F(HeldOut, EveryPositionIsScoredOnceAndIsOfAHeldOutDocument) {
  for (const int count : {1 << 20, 7, 2}) {
    std::vector<std::int32_t> expected;
    const auto set = samples::evaluation_samples(*dataset_, config_of(*dataset_, 1).data, count);
    for (const samples::Sample& sample : set) {
      expected.insert(expected.end(), sample.masked_labels.begin(), sample.masked_labels.end());
    }
    std::sort(expected.begin(), expected.end());
    for (const int ranks : {1, 2, 3, 5}) {
      std::size_t samples = 0;
      const std::vector<std::int32_t> labels = scored(ranks, count, &samples);
      EXPECT_EQ(labels, expected) << ranks << " ranks";
      EXPECT_EQ(samples, set.size()) << ranks << " ranks";
      for (const std::int32_t label : labels) {
        ASSERT_TRUE(numbers_->is_held_out(numbers_->document_of(label))) << label;
      }
    }
  }
}

TEST_F(HeldOut, EveryHeldOutDocumentIsScored) {
  const auto set = samples::evaluation_samples(*dataset_, config_of(*dataset_, 1).data, 1 << 20);
  std::set<std::int32_t> first;  // pieces of A, each of another sample
  std::set<std::size_t> seen, held_out;
  for (const samples::Sample& sample : set) {
    const bool is_masked = sample.masked_positions[0] == 1;
    const std::int32_t piece = is_masked ? sample.masked_labels[0] : sample.ids[1];
    first.insert(piece);
    seen.insert(numbers_->document_of(piece));
  }
  EXPECT_EQ(first.size(), set.size()) << "no sample twice";
  for (std::size_t d = 0; d < numbers_->documents().size(); ++d) {
    if (numbers_->is_held_out(d)) held_out.insert(d);
  }
  EXPECT_EQ(seen, held_out);
}

class KnownAnswers : public OnSmallDataset<60> {
 protected:
  // Held-out samples of which the model is right about every third position and about every second
  // pair, beside what it happens to be right about.
  static std::vector<samples::Sample> half_known(const contract::ModelShape& shape,
                                                 const ReferenceWeights& weights, int count) {
    contract::DataConfig data = config_of(*dataset_, 1).data;
    std::vector<samples::Sample> samples = samples::evaluation_samples(*dataset_, data, count);
    const ReferenceScores predicted = reference_scores(shape, weights, samples);
    std::size_t position = 0;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      samples[i].sample_label = (predicted.nsp[i].best + (i % 2 == 0 ? 0 : 1)) % 2;
      for (std::int32_t& label : samples[i].masked_labels) {
        if (position % 3 == 0) label = predicted.mlm[position].best;
        ++position;
      }
    }
    return samples;
  }
};

std::int64_t correct(const std::vector<ReferencePrediction>& predictions,
                     const std::vector<std::int32_t>& labels) {
  EXPECT_EQ(predictions.size(), labels.size());
  std::int64_t count = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    EXPECT_GT(predictions[i].margin, 1e-4) << "float32 might see another one as the largest";
    count += predictions[i].best == labels[i] ? 1 : 0;
  }
  return count;
}

// Losses and accuracies by the float64 reference, of one rank and several, and of so many samples
// that they are scored in several batches.
TEST_F(KnownAnswers, AreThoseOfTheReference) {
  const contract::ModelShape shape = config_of(*dataset_, 1).model;
  const contract::TensorTable table = contract::make_tensor_table(shape);
  const std::vector<float> weights = random_weights(table, 5);
  const std::vector<samples::Sample> once =
      half_known(shape, reference_weights(table, weights), 14);
  ASSERT_EQ(once.size(), 14U);
  const ReferenceScores scores = reference_scores(shape, reference_weights(table, weights), once);
  std::vector<std::int32_t> labels, next_labels;
  std::int64_t tokens = 0;
  for (const samples::Sample& sample : once) {
    labels.insert(labels.end(), sample.masked_labels.begin(), sample.masked_labels.end());
    next_labels.push_back(sample.sample_label);
    tokens += std::ssize(sample.ids);
  }
  const auto masked = static_cast<double>(labels.size());
  const std::int64_t hits = correct(scores.mlm, labels);
  ASSERT_GE(hits, std::ssize(labels) / 3);
  ASSERT_LT(hits, std::ssize(labels) / 2);
  ASSERT_EQ(correct(scores.nsp, next_labels), 7);

  for (const std::int64_t times : {std::int64_t{1}, 3 * step::kEvaluationTokens / tokens}) {
    std::vector<samples::Sample> samples;
    for (std::int64_t i = 0; i < times; ++i)
      samples.insert(samples.end(), once.begin(), once.end());
    for (const int ranks : {1, 2, 3}) {
      const contract::RunConfig config = config_of(*dataset_, ranks);
      on_ranks(*dataset_, config, weights, [&](ranks::Communicator&, step::TrainLoop& loop) {
        const contract::EvalRecord record = loop.evaluate(samples, 77);
        EXPECT_EQ(record.step, 77);
        EXPECT_EQ(record.samples, std::ssize(samples));
        EXPECT_EQ(record.mlm_accuracy, static_cast<double>(hits) / masked) << ranks << " ranks";
        EXPECT_EQ(record.nsp_accuracy, 0.5) << ranks << " ranks";
        EXPECT_NEAR(record.mlm_loss, scores.mlm_loss / masked, scores.mlm_error / masked)
            << ranks << " ranks, " << times << " times";
      });
    }
  }
}

// A batch holds its samples as they are, one after another.
TEST_F(KnownAnswers, ABatchIsItsSamples) {
  const std::vector<samples::Sample> samples =
      samples::evaluation_samples(*dataset_, config_of(*dataset_, 1).data, 9);
  std::vector<std::int32_t> ordinals;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    ordinals.push_back(static_cast<std::int32_t>(100 - 7 * i));
  }
  const samples::PackedBatch batch = samples::collate(samples, ordinals);
  ASSERT_EQ(batch.samples(), 9);
  std::size_t token = 0, label = 0, longest = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const samples::Sample& sample = samples[i];
    EXPECT_EQ(batch.cumulative[i], static_cast<std::int32_t>(token));
    EXPECT_EQ(batch.first_rows[i], static_cast<std::int32_t>(token));
    EXPECT_EQ(batch.sample_labels[i], sample.sample_label);
    longest = std::max(longest, sample.ids.size());
    std::size_t masked = 0;
    for (std::size_t position = 0; position < sample.ids.size(); ++position, ++token) {
      EXPECT_EQ(batch.ids.at(token), sample.ids[position]);
      EXPECT_EQ(batch.types.at(token), sample.types[position]);
      EXPECT_EQ(batch.ordinals.at(token), ordinals[i]);
      EXPECT_EQ(batch.positions.at(token), static_cast<std::int32_t>(position));
      const bool is_masked = masked < sample.masked_positions.size() &&
                             sample.masked_positions[masked] == static_cast<std::int32_t>(position);
      if (!is_masked) continue;  // and has no label
      EXPECT_EQ(batch.masked_rows.at(label), static_cast<std::int32_t>(token));
      EXPECT_EQ(batch.masked_labels.at(label), sample.masked_labels[masked]);
      ++masked;
      ++label;
    }
  }
  EXPECT_EQ(batch.cumulative.back(), static_cast<std::int32_t>(token));
  EXPECT_EQ(batch.tokens(), static_cast<std::int64_t>(token));
  EXPECT_EQ(batch.types.size(), token);
  EXPECT_EQ(batch.masked_rows.size(), label);
  EXPECT_EQ(batch.masked(), static_cast<std::int64_t>(label));
  EXPECT_EQ(batch.max_length, static_cast<std::int64_t>(longest));
  for (std::size_t i = 1; i < batch.sorted.size(); ++i) {
    const auto key = [&](std::size_t at) {
      return std::pair(batch.ids[static_cast<std::size_t>(batch.sorted[at])], batch.sorted[at]);
    };
    EXPECT_LT(key(i - 1), key(i)) << "by piece, then by place";
  }
}

}  // namespace
}  // namespace regatta::tests
