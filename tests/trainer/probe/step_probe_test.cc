#include "trainer/probe/step_probe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/digest.h"
#include "base/philox.h"
#include "base/text.h"
#include "checkpoint/joined_reader.h"
#include "checkpoint/shards.h"
#include "tests/trainer/probe/probed_run.h"
#include "trainer/contract/model_shape.h"
#include "trainer/contract/random_site.h"
#include "trainer/samples/mixture.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using nlohmann::ordered_json;

class StepProbe : public ProbedRun {
 protected:
  // The first part of two probes that differs, and of its tensors the first.
  static std::string first_difference(const ordered_json& a, const ordered_json& b) {
    for (std::size_t i = 0; i < a.at("parts").size(); ++i) {
      const ordered_json& of_a = a["parts"][i];
      const ordered_json& of_b = b["parts"][i];
      if (of_a == of_b) continue;
      const std::string part = of_a["part"];
      if (!of_a.contains("tensors")) return part;
      for (std::size_t t = 0; t < of_a["tensors"].size(); ++t) {
        if (of_a["tensors"][t] == of_b["tensors"][t]) continue;
        return part + ": " + of_a["tensors"][t]["name"].get<std::string>();
      }
      return part;
    }
    return "nothing";
  }
  // The sums of a tensor's elements as its sketch has them.
  static std::array<double, 32> sketch_of(const ordered_json& tensor) {
    return tensor.at("sketch").get<std::array<double, 32>>();
  }
};

TEST_F(StepProbe, HasTheBitsOfARunOfOneRank) {
  const contract::RunDirectory run = train(config_of(8));
  const auto steps = steps_of(run);
  const struct {
    std::int64_t step, from;
  } kCases[] = {{1, 0}, {3, 0}, {4, 3}, {6, 3}, {7, 6}, {8, 6}};
  for (const auto& each : kCases) {
    const ordered_json found = probe(run, each.step);
    EXPECT_EQ(found.at("format"), 1);
    EXPECT_EQ(found.at("step"), each.step);
    EXPECT_EQ(found.at("replayed_steps"), each.step - 1 - each.from);
    if (each.from == 0) {
      EXPECT_EQ(found.at("from").dump(), R"({"kind":"new weights"})");
    } else {
      EXPECT_EQ(found.at("from").at("step"), each.from);
      EXPECT_EQ(found.at("from").at("name"), checkpoint_of(run, each.from).filename().string());
    }
    const contract::StepRecord& record = steps.at(each.step);
    EXPECT_EQ(found.at("loss").get<double>(), record.loss) << each.step;
    EXPECT_EQ(found.at("journal_loss").get<double>(), record.loss) << each.step;
    EXPECT_EQ(part(found, "loss").at("value").get<double>(), record.loss);
    EXPECT_EQ(part(found, "update").at("learning_rate").get<double>(), record.learning_rate);
    EXPECT_NEAR(part(found, "gradients").at("norm").get<double>(), record.gradient_norm,
                1e-5 * record.gradient_norm);
    EXPECT_EQ(part(found, "samples").at("count"), record.samples);
    std::int64_t tokens = 0;
    for (const auto& one : part(found, "samples").at("each")) {
      tokens += one.at("length").get<std::int64_t>();
    }
    EXPECT_EQ(tokens, record.tokens);
  }
}

// What the checkpoint behind a step holds is what was there before it and what the step added.
TEST_F(StepProbe, WeightsAndUpdatesAreThoseOfTheCheckpoints) {
  const contract::RunDirectory run = train(config_of(6));
  const ordered_json before = probe(run, 3), behind = probe(run, 4);
  const auto reader =
      checkpoint::JoinedReader::open(disk(), checkpoint_of(run, 3), checkpoint::kModel);
  const contract::TensorTable table = contract::make_tensor_table(config_of(6).model);
  const ordered_json& weights = part(behind, "weights").at("tensors");
  ASSERT_EQ(weights.size(), table.tensors.size());
  for (std::size_t i = 0; i < table.tensors.size(); ++i) {
    const contract::TensorEntry& entry = table.tensors[i];
    std::vector<float> values(static_cast<std::size_t>(entry.size));
    reader.read(entry.name, "F32", entry.shape, std::as_writable_bytes(std::span(values)));
    base::Digest digest;
    digest.update(std::as_bytes(std::span(values)));
    double squares = 0;
    for (const float value : values) squares += static_cast<double>(value) * value;
    EXPECT_EQ(weights[i].at("name"), entry.name);
    EXPECT_EQ(weights[i].at("xxh3_128"), digest.hex()) << entry.name;
    EXPECT_NEAR(weights[i].at("norm").get<double>(), std::sqrt(squares), 1e-12 + 1e-12 * squares);
    // Sketches are linear.
    const auto old = sketch_of(part(before, "weights").at("tensors")[i]);
    const auto added = sketch_of(part(before, "update").at("tensors")[i]);
    const auto now = sketch_of(weights[i]);
    double most = 0;
    for (std::size_t lane = 0; lane < now.size(); ++lane) {
      EXPECT_NEAR(old[lane] + added[lane], now[lane], 1e-5) << entry.name;
      most = std::max(most, std::abs(added[lane]));
    }
    if (entry.name.find("LayerNorm.weight") == std::string::npos) continue;
    EXPECT_GT(most, 0) << entry.name;
  }
}

TEST_F(StepProbe, TheFirstDifferenceIsWhereAChangeActs) {
  const contract::RunDirectory run = train(config_of(6));
  const ordered_json as_it_was = probe(run, 4);
  EXPECT_EQ(first_difference(as_it_was, probe(run, 4)), "nothing") << "twice the same";
  EXPECT_EQ(first_difference(as_it_was, probe(run, 4, {"threads=2"})), "nothing");
  const std::string layer = "bert.encoder.layer.0.";
  const struct {
    std::int64_t step;
    std::string change, first;
  } kCases[] = {
      {4, "seed=2", "samples"},
      {1, "seed=2", "weights: cls.seq_relationship.weight"},
      {1, "model.dropout=0.2", "dropout"},
      {4, "model.attention_dropout=0.2", "dropout"},
      {1, "data.mask_fraction=0.3", "samples"},
      {1, "model.gelu=tanh", "activations: input of " + layer + "output.dense.weight"},
      {4, "optimizer.beta2=0.9", "update: cls.seq_relationship.bias"},
      {4, "optimizer.learning_rate=0.01", "update: cls.seq_relationship.bias"},
  };
  for (const auto& each : kCases) {
    const ordered_json changed = probe(run, each.step, {each.change});
    const ordered_json before = each.step == 4 ? as_it_was : probe(run, each.step);
    EXPECT_EQ(first_difference(before, changed), each.first) << each.change;
    EXPECT_EQ(changed.at("changed").size(), 1U);
    EXPECT_NE(changed.at("configuration_xxh3_128"), before.at("configuration_xxh3_128"));
  }
}

// By the documented formulas from the dataset itself.
TEST_F(StepProbe, SamplesAreTheRunsAndKnowWhereTheyAreFrom) {
  const contract::RunConfig config = config_of(5);
  const contract::RunDirectory run = train(config);
  const ordered_json found = probe(run, 5);
  const samples::Datasets datasets = samples::Datasets::open(config.data);
  const samples::SampleSource source(datasets.first(), data::Split::Training, config.data,
                                     config.seed);
  const ordered_json& each = part(found, "samples").at("each");
  ASSERT_EQ(each.size(), 8U);
  for (std::size_t i = 0; i < 8; ++i) {
    const samples::Sample sample = source.at(4 * 8 + static_cast<std::int64_t>(i));
    EXPECT_EQ(each[i].at("length"), sample.ids.size());
    const std::vector<std::string> id = base::split(each[i].at("id").get<std::string>(), ':');
    ASSERT_EQ(id.size(), 4U);
    EXPECT_EQ(id[0], "0");
    // The sentence that the id names begins the sample, where nothing is masked and nothing was cut
    // from its front.
    const std::int64_t document = std::stoll(id[2]);
    std::vector<std::int32_t> before = sample.ids;
    for (std::size_t m = 0; m < sample.masked_positions.size(); ++m) {
      before[static_cast<std::size_t>(sample.masked_positions[m])] = sample.masked_labels[m];
    }
    std::vector<std::int32_t> text;
    for (std::int64_t s = std::stoll(id[3]);
         s < datasets.first().sentences(data::Split::Training, document); ++s) {
      const auto sentence = datasets.first().sentence(data::Split::Training, document, s);
      text.insert(text.end(), sentence.begin(), sentence.end());
    }
    const auto place =
        std::search(text.begin(), text.end(), before.begin() + 1, before.begin() + 4);
    EXPECT_NE(place, text.end()) << "sample " << i;
    std::vector<std::int32_t> tokens{static_cast<std::int32_t>(before.size())};
    tokens.insert(tokens.end(), before.begin(), before.end());
    tokens.insert(tokens.end(), sample.types.begin(), sample.types.end());
    base::Digest digest;
    digest.update(std::as_bytes(std::span(tokens)));
    EXPECT_EQ(each[i].at("tokens_xxh3_128"), digest.hex());
  }
}

TEST_F(StepProbe, DropoutMasksAreThoseOfTheFormula) {
  contract::RunConfig config = config_of(2);
  config.model.hidden = 24;
  config.model.heads = 3;
  config.dropout = 0.3;
  config.seed = 77;
  const contract::RunDirectory run = train(config);
  const ordered_json found = probe(run, 2);
  std::string bits;
  const ordered_json& each = part(found, "samples").at("each");
  const auto threshold = static_cast<unsigned>(std::lround(65536 * 0.3));
  double dropped = 0, all = 0;
  for (std::uint32_t ordinal = 0; ordinal < each.size(); ++ordinal) {
    for (std::uint32_t token = 0; token < each[ordinal].at("length").get<unsigned>(); ++token) {
      for (std::uint32_t block = 0; block < 3; ++block) {
        unsigned byte = 0;
        for (unsigned e = 0; e < 8U; ++e) {
          // Site 65: the first layer's output of attention.
          const auto words = base::philox(77, {token * 3 + block, ordinal, 2, 65});
          const bool kept = (words[e / 2] >> (16 * (e % 2)) & 0xFFFFU) >= threshold;
          byte |= (kept ? 1U : 0U) << e;
          dropped += kept ? 0 : 1;
          all += 1;
        }
        bits += static_cast<char>(byte);
      }
    }
  }
  EXPECT_EQ(part(found, "dropout").at("xxh3_128"), base::digest_of(bits));
  EXPECT_EQ(part(found, "dropout").at("hidden"), 0.3);
  EXPECT_EQ(part(found, "dropout").at("seed"), 77);
  EXPECT_NEAR(dropped / all, 0.3, 0.05);
}

TEST_F(StepProbe, MicroBatchesGiveTheSameRowsInTheSameOrder) {
  const contract::RunDirectory run = train(config_of(3));
  const ordered_json whole = probe(run, 3), cut = probe(run, 3, {"batch.micro=3"});
  for (const char* const name : {"samples", "tokens", "masks", "dropout"}) {
    EXPECT_EQ(part(whole, name), part(cut, name)) << name;
  }
  // Losses, and so what they do, are added up in another order.
  for (const char* const name : {"activations", "gradients"}) {
    const ordered_json& a = part(whole, name).at("tensors");
    const ordered_json& b = part(cut, name).at("tensors");
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].at("name"), b[i].at("name"));
      const auto norm = a[i].at("norm").get<double>();
      const auto of_a = sketch_of(a[i]), of_b = sketch_of(b[i]);
      double apart = 0;
      for (std::size_t lane = 0; lane < of_a.size(); ++lane) {
        apart += (of_a[lane] - of_b[lane]) * (of_a[lane] - of_b[lane]);
      }
      EXPECT_LT(std::sqrt(apart), 1e-4 * norm + 1e-7) << name << ": " << a[i].at("name");
    }
  }
}

}  // namespace
}  // namespace regatta::tests
