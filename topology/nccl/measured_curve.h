// What a collective takes by measurement: NCCL's model, corrected by a curve over the bytes of what
// nccl-tests or a probe measured. Every prediction has an interval.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "topology/nccl/cost_model.h"
#include "topology/nccl/nccl_tests_log.h"

namespace regatta::topology::nccl {

// What was measured. Without a way: whatever NCCL chose, as in nccl-tests.
struct CurveKey {
  Collective collective = Collective::AllReduce;
  std::optional<Way> way{};
  ReduceOp op = ReduceOp::Sum;  // NVLS is for sums only
};

struct Sample {
  std::uint64_t bytes = 0;
  double us = 0;
};

enum class Basis : std::uint8_t { Model, OtherMachine, Measured };

struct Prediction {
  double us = 0;
  double low_us = 0, high_us = 0;  // nine of ten measurements lie between, by the public logs
  Basis basis = Basis::Model;
};

// Measured time by modelled time, its logarithm piecewise linear over the logarithm of the bytes.
class MeasuredCurve {
 public:
  // Samples of one size become their median; those of 0 bytes or time are left out. Throws
  // Code::User when nothing is left, or when NCCL does not offer the key's way on this allocation.
  static MeasuredCurve fit(const CostModel& model, const CurveKey& key,
                           const std::vector<Sample>& samples);

  // `model` of the machine that the prediction is for. Beyond the sizes that were measured the
  // nearest correction holds, and the interval widens by each doubling.
  [[nodiscard]] Prediction predict(const CostModel& model, std::uint64_t bytes,
                                   Basis basis = Basis::Measured) const;
  [[nodiscard]] const CurveKey& key() const { return key_; }
  [[nodiscard]] std::uint64_t least_bytes() const;
  [[nodiscard]] std::uint64_t most_bytes() const;

 private:
  struct Knot {
    double log2_bytes;
    double correction;  // natural logarithm of measured ÷ modelled
    double error;       // how far the neighbours' line misses it
  };
  CurveKey key_;
  std::vector<Knot> knots_;  // by growing bytes, at least one
  double roughness_ = 0;     // error that may lie between any two knots
};

// The model alone. The interval is what the public logs show: they took from 0.7 to 3 times as
// long.
[[nodiscard]] Prediction predict_by_model(const CostModel& model, const CurveKey& key,
                                          std::uint64_t bytes);

// A machine's model with the curves that were measured on it.
class CalibratedModel {
 public:
  explicit CalibratedModel(const CostModel& model) : model_(model) {}
  // In place of an earlier one with the same key.
  void add(MeasuredCurve curve);
  // By the curve of exactly this way; else, for what NCCL chooses itself, by the model.
  [[nodiscard]] Prediction predict(const CurveKey& key, std::uint64_t bytes) const;
  [[nodiscard]] const CostModel& model() const { return model_; }

 private:
  CostModel model_;
  std::vector<MeasuredCurve> curves_;
};

// The rows of a log that were not disturbed.
[[nodiscard]] std::vector<Sample> samples_of(const NcclTestLog& log);

// Why a log must not be taken for this machine: it is of another number of ranks or nodes, or its
// large calls took several times what NCCL's model reckons, or a fraction of it. Nothing when it
// fits.
[[nodiscard]] std::optional<std::string> misfit(const CostModel& model, const NcclTestLog& log);

}  // namespace regatta::topology::nccl
