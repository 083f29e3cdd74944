#include "trainer/probe/activation_reader.h"

#include <algorithm>

#include "trainer/contract/model_shape.h"
#include "trainer/device/half_types.h"
#include "trainer/step/divergence.h"

namespace regatta::trainer::probe {
namespace {

using model::kCompute;
using Rows = step::ForwardBuffer::Rows;

std::int64_t rows_in(const samples::PackedBatch& batch, Rows rows) {
  if (rows == Rows::Tokens) return batch.tokens();
  return rows == Rows::Masked ? batch.masked() : batch.samples();
}

// The decoder's logits have columns for no piece, and the loss has made all into gradients.
struct Read {
  std::int64_t columns = 0;  // of those that a tensor of the buffer has
  bool is_gradient = false;
};
Read read_of(const step::ForwardBuffer& buffer, const model::Bert& model) {
  const model::ActivationLayout& layout = model.layout();
  const bool decoder = model.shape().task == contract::Task::Pretraining &&
                       buffer.buffer.offset == layout.logits.offset;
  const bool logits = decoder || buffer.buffer.offset == layout.sample_logits.offset;
  return {decoder ? model.shape().vocabulary : buffer.columns / std::ssize(buffer.tensors), logits};
}

// Columns [begin, begin + count) of rows of `width`.
std::vector<float> columns_of(const std::vector<float>& all, std::int64_t width, std::int64_t begin,
                              std::int64_t count) {
  std::vector<float> part;
  part.reserve(all.size() / static_cast<std::size_t>(width) * static_cast<std::size_t>(count));
  for (auto row = all.begin(); row != all.end(); row += width) {
    part.insert(part.end(), row + begin, row + begin + count);
  }
  return part;
}

}  // namespace

std::vector<float> read_floats(device::Device& device, const device::View& view) {
  std::vector<float> values(static_cast<std::size_t>(view.size));
  if (view.size == 0) return values;
  if (view.dtype == device::Dtype::Float32) {
    device.copy_to_host(kCompute, values.data(), view);
    device.wait_host(device.record(kCompute));
    return values;
  }
  std::vector<std::uint16_t> bits(values.size());
  device.copy_to_host(kCompute, bits.data(), view);
  device.wait_host(device.record(kCompute));
  const bool is_bf16 = view.dtype == device::Dtype::BFloat16;
  std::transform(bits.begin(), bits.end(), values.begin(), [is_bf16](std::uint16_t each) {
    return is_bf16 ? device::float_from_bf16(each) : device::float_from_fp16(each);
  });
  return values;
}

std::vector<ActivationTensor> read_activations(device::Device& device, const step::StepSeen& seen,
                                               const TakeRows& take) {
  std::vector<ActivationTensor> tensors;
  const auto unscaled = static_cast<float>(1 / seen.scale.factor);  // a power of two
  for (const samples::PackedBatch& batch : seen.batches.batches) {
    tensors.clear();
    seen.model.upload(batch, static_cast<std::int32_t>(seen.step), seen.scale);
    seen.model.forward(model::Mode::Training);
    for (const step::ForwardBuffer& buffer :
         step::forward_buffers(seen.model.shape(), seen.model.layout())) {
      if (buffer.rows == Rows::All) continue;
      const Read read = read_of(buffer, seen.model);
      std::vector<float> all = read_floats(
          device,
          seen.model.view_of(buffer.buffer).slice(0, rows_in(batch, buffer.rows) * buffer.columns));
      if (read.is_gradient) {
        for (float& value : all) value *= unscaled;
      }
      for (std::size_t i = 0; i < buffer.tensors.size(); ++i) {
        const std::int64_t begin =
            static_cast<std::int64_t>(i) * (buffer.columns / std::ssize(buffer.tensors));
        take(tensors.size(), columns_of(all, buffer.columns, begin, read.columns));
        tensors.push_back({(read.is_gradient ? "gradient of the output of "
                                             : std::string(buffer.quantity) + " of ") +
                               buffer.tensors[i],
                           read.columns});
      }
    }
  }
  return tensors;
}

}  // namespace regatta::trainer::probe
