// A dataset of made-up prose in a temporary directory, for tests of sampling and training.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <string>

#include "base/file_system.h"
#include "tests/base/faulty_file_system.h"
#include "trainer/contract/run_config.h"
#include "trainer/data/dataset.h"
#include "trainer/data/prepare.h"

namespace regatta::tests {

// `documents` texts, of 3 to 2 + `lengths` sentences, in which words follow one another by fixed
// habits, so that there is something to learn. Returns the dataset directory.
[[nodiscard]] inline base::Path make_small_dataset(const base::Path& directory, int documents,
                                                   unsigned lengths = 9) {
  const std::vector<std::string> words = {"boat", "river", "wind",  "sail", "oar",  "crew", "race",
                                          "lake", "shore", "storm", "rope", "mast", "tide", "deck"};
  std::mt19937 random(1);
  std::ofstream text(directory / "corpus.txt");
  for (int document = 0; document < documents; ++document) {
    const int sentences = 3 + static_cast<int>(random() % lengths);
    for (int sentence = 0; sentence < sentences; ++sentence) {
      std::size_t word = random() % words.size();
      text << "The";
      for (unsigned i = 0; i < 4 + random() % 8U; ++i) {
        text << ' ' << words[word];
        word = random() % 4U == 0 ? random() % words.size() : (word * 5 + 3) % words.size();
      }
      text << " number " << random() % 50U << ".\n";
    }
    text << '\n';
  }
  text.close();
  trainer::data::PrepareOptions options;
  options.inputs = {directory / "corpus.txt"};
  options.output = directory / "dataset";
  options.train_vocabulary = 256;
  options.threads = 1;
  options.held_out = 0.2;
  (void)trainer::data::prepare(options, base::posix_file_system(), {});
  return options.output;
}

// A run of a model small enough for hundreds of steps a second on such a dataset.
[[nodiscard]] inline trainer::contract::RunConfig small_run_config(
    const trainer::data::Dataset& dataset) {
  trainer::contract::RunConfig config;
  config.model = trainer::contract::preset_shape("tiny");
  config.model.hidden = 32;
  config.model.heads = 2;
  config.model.feed_forward = 64;
  config.model.max_positions = 64;
  config.model.vocabulary = static_cast<int>(dataset.vocabulary().size());
  config.data.max_length = 48;
  config.optimizer.warmup_steps = 5;
  return config;
}

// One such dataset for all tests of a suite.
template <int documents>
class OnSmallDataset : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = new TemporaryDirectory;
    dataset_ = new trainer::data::Dataset(
        trainer::data::Dataset::open(make_small_dataset(directory_->path(), documents)));
  }
  static void TearDownTestSuite() {
    delete dataset_;
    delete directory_;
  }
  static inline TemporaryDirectory* directory_ = nullptr;
  static inline trainer::data::Dataset* dataset_ = nullptr;
};

}  // namespace regatta::tests
