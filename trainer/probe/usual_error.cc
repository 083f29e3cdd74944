#include "trainer/probe/usual_error.h"

#include <algorithm>
#include <cmath>

namespace regatta::trainer::probe {
namespace {

constexpr double kFloat32 = 0x1p-24;  // unit roundoff

double unit_roundoff(contract::Precision precision) {
  switch (precision) {
    case contract::Precision::Float32:
      return kFloat32;
    case contract::Precision::Tf32:
    case contract::Precision::Float16:
      return 0x1p-11;
    case contract::Precision::BFloat16:
      return 0x1p-8;
  }
  return kFloat32;
}

}  // namespace

UsualError::UsualError(const contract::ModelShape& shape, contract::Precision precision,
                       std::int64_t tokens, std::int64_t samples)
    : shape_(shape),
      stored_(std::pow(unit_roundoff(precision), 2)),
      tokens_(static_cast<double>(tokens)),
      lengths_(static_cast<double>(tokens) /
               static_cast<double>(std::max<std::int64_t>(1, samples))) {}

double UsualError::part(int layer) const {
  const double hidden = shape_.hidden;
  double stores = 0, terms = 0;
  if (layer < 0) {
    stores = 2;  // the sum of three embeddings, and its norm
    terms = 3 + hidden;
  } else if (layer < shape_.layers) {
    stores = 8;  // query, attention, the sum, its norm, inner, its GELU, the sum, its norm
    terms = hidden + shape_.head_size() + lengths_ + hidden + hidden + hidden + 1 +
            shape_.feed_forward + hidden;
  } else {
    stores = 3;
    terms = 3 * hidden;
  }
  return stores * stored_ + terms * kFloat32 * kFloat32;
}

double UsualError::forward(int layer) const {
  double squares = 0;
  for (int each = -1; each <= layer; ++each) squares += part(each);
  return std::sqrt(squares);
}

// Through all of the model, back to the layer, and then a sum over tokens.
double UsualError::backward(int layer) const {
  double squares = tokens_ * kFloat32 * kFloat32;
  for (int each = -1; each <= shape_.layers; ++each) squares += part(each);
  for (int each = layer; each <= shape_.layers; ++each) squares += part(each);
  return std::sqrt(squares);
}

}  // namespace regatta::trainer::probe
