// A NumberedDataset for all tests of a suite, prepared once.
#pragma once

#include <gtest/gtest.h>

#include "tests/base/faulty_file_system.h"
#include "tests/trainer/samples/numbered_dataset.h"
#include "trainer/data/dataset.h"

namespace regatta::tests {

class NumberedSuite : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = new TemporaryDirectory;
    numbers_ = new NumberedDataset(directory_->path());
    dataset_ = new trainer::data::Dataset(trainer::data::Dataset::open(numbers_->path()));
  }
  static void TearDownTestSuite() {
    delete dataset_;
    delete numbers_;
    delete directory_;
  }

  static inline TemporaryDirectory* directory_ = nullptr;
  static inline NumberedDataset* numbers_ = nullptr;
  static inline trainer::data::Dataset* dataset_ = nullptr;
};

}  // namespace regatta::tests
