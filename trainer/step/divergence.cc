#include "trainer/step/divergence.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"
#include "trainer/device/half_types.h"
#include "trainer/ranks/rank_agreement.h"

namespace regatta::trainer::step {
namespace {

using model::kCompute;

constexpr std::int64_t kChunk = std::int64_t{1} << 20;  // elements on the host at a time

// Looks at device memory through a piece of host memory.
class Looker {
 public:
  explicit Looker(device::Device& device) : device_(device), memory_(device, 4 * kChunk) {}

  // The first element that is not finite.
  [[nodiscard]] std::optional<std::int64_t> first_bad(const device::View& view) {
    for (std::int64_t begin = 0; begin < view.size; begin += kChunk) {
      const std::int64_t count = fetch(view, begin);
      for (std::int64_t i = 0; i < count; ++i) {
        if (!std::isfinite(at(view.dtype, i))) return begin + i;
      }
    }
    return std::nullopt;
  }
  [[nodiscard]] double sum_of_squares(const device::View& view) {
    double sum = 0;
    for (std::int64_t begin = 0; begin < view.size; begin += kChunk) {
      const std::int64_t count = fetch(view, begin);
      for (std::int64_t i = 0; i < count; ++i) {
        const auto value = static_cast<double>(at(view.dtype, i));
        sum += value * value;
      }
    }
    return sum;
  }

 private:
  std::int64_t fetch(const device::View& view, std::int64_t begin) {
    const std::int64_t count = std::min(kChunk, view.size - begin);
    device_.copy_to_host(kCompute, memory_.floats(), view.slice(begin, count));
    device_.wait_host(device_.record(kCompute));
    return count;
  }
  [[nodiscard]] float at(device::Dtype dtype, std::int64_t i) const {
    if (dtype == device::Dtype::Float32) return memory_.floats()[i];
    const std::uint16_t bits = reinterpret_cast<const std::uint16_t*>(memory_.ints())[i];
    return dtype == device::Dtype::BFloat16 ? device::float_from_bf16(bits)
                                            : device::float_from_fp16(bits);
  }

  device::Device& device_;
  device::HostMemory memory_;
};

struct Found {
  std::int64_t place = std::numeric_limits<std::int64_t>::max();  // in the order of the search
  NotFinite what;
};

std::int64_t rows_of(const samples::PackedBatch& batch, ForwardBuffer::Rows rows) {
  if (rows == ForwardBuffer::Rows::Tokens) return batch.tokens();
  return rows == ForwardBuffer::Rows::Masked ? batch.masked() : batch.samples();
}

Found bad_weight(device::Device& device, const model::Bert& model) {
  Looker looker(device);
  const std::vector<contract::TensorEntry>& tensors = model.table().tensors;
  for (std::size_t i = tensors.size(); i-- > 0;) {  // forward goes through the table backwards
    const contract::TensorEntry& entry = tensors[i];
    if (looker.first_bad(model.parameters().slice(entry.offset, entry.size))) {
      return {static_cast<std::int64_t>(tensors.size() - i), {entry.name, "weight", 0}};
    }
  }
  return {};
}

Found bad_buffer(device::Device& device, model::Bert& model, const StepTaken& taken) {
  Looker looker(device);
  Found found;
  for (const samples::PackedBatch& batch : taken.batches) {
    model.upload(batch, static_cast<std::int32_t>(taken.step), taken.scale);
    model.forward(model::Mode::Training);
    const std::vector<ForwardBuffer> buffers = forward_buffers(model.shape(), model.layout());
    const std::int64_t all = std::min<std::int64_t>(std::ssize(buffers), found.place);
    for (std::int64_t place = 0; place < all; ++place) {
      const ForwardBuffer& buffer = buffers[static_cast<std::size_t>(place)];
      device::View filled = model.view_of(buffer.buffer);
      if (buffer.rows != ForwardBuffer::Rows::All) {
        filled = filled.slice(0, rows_of(batch, buffer.rows) * buffer.columns);
      }
      const auto bad = looker.first_bad(filled);
      if (!bad) continue;
      const std::int64_t width = buffer.columns / std::ssize(buffer.tensors);
      const auto beside = static_cast<std::size_t>(*bad % buffer.columns / width);
      found = {place, {buffer.tensors[beside], buffer.quantity, 0}};
      break;
    }
  }
  return found;
}

Found bad_gradient(device::Device& device, const model::Bert& model, const StepTaken& taken) {
  Looker looker(device);
  const std::vector<contract::TensorEntry>& tensors = model.table().tensors;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const contract::TensorEntry& entry = tensors[i];
    double squares = 0;
    for (const StatePiece& piece : taken.pieces) {
      const std::int64_t begin = std::max(entry.offset, piece.arena_begin);
      const std::int64_t end = std::min(entry.offset + entry.size, piece.arena_begin + piece.size);
      if (begin < end) {
        squares += looker.sum_of_squares(model.gradients().slice(begin, end - begin));
      }
    }
    // Not a number, or infinite where float32 has it.
    if (!(squares <= static_cast<double>(std::numeric_limits<float>::max()))) {
      return {static_cast<std::int64_t>(i), {entry.name, "gradient", 0}};
    }
  }
  return {};
}

// What the first rank of those has that found the first thing. A rank that cannot look (memory)
// finds nothing, rather than leave the others waiting.
template <typename Search>
NotFinite first_of_all(ranks::HostCollectives& host, const Search& search) {
  Found mine;
  try {
    mine = search();
  } catch (const base::Error&) {
    mine = {};
  }
  std::vector<std::int64_t> places(static_cast<std::size_t>(host.ranks()));
  host.all_gather(&mine.place, sizeof mine.place, places.data());
  const auto tensors = ranks::texts_of_ranks(host, mine.what.tensor);
  const auto quantities = ranks::texts_of_ranks(host, mine.what.quantity);
  const auto first = std::min_element(places.begin(), places.end()) - places.begin();
  const auto rank = static_cast<std::size_t>(first);
  return {tensors[rank], quantities[rank], static_cast<int>(first)};
}

void add_layer(const contract::ModelShape& shape, int layer, const model::LayerBuffers& kept,
               std::vector<ForwardBuffer>* buffers) {
  using Rows = ForwardBuffer::Rows;
  const std::string prefix = "bert.encoder.layer." + std::to_string(layer) + ".";
  const auto add = [&](const char* quantity, const std::vector<std::string>& names,
                       const model::Buffer& buffer, std::int64_t columns) {
    std::vector<std::string> tensors;
    for (const std::string& name : names) tensors.push_back(prefix + name + ".weight");
    buffers->push_back({quantity, tensors, buffer, Rows::Tokens, columns});
  };
  const std::int64_t h = shape.hidden;
  add("output", {"attention.self.query", "attention.self.key", "attention.self.value"}, kept.qkv,
      3 * h);
  // A score that overflows shows in log Σ exp; what comes of it depends on the device.
  buffers->push_back({"input", {prefix + "attention.output.dense.weight"}, kept.lse, Rows::All, 1});
  add("input", {"attention.output.dense"}, kept.attention, h);
  add("output", {"attention.output.dense"}, kept.attention_norm.z, h);
  add("output", {"attention.output.LayerNorm"}, kept.attention_norm.y, h);
  add("output", {"intermediate.dense"}, kept.inner, shape.feed_forward);
  add("input", {"output.dense"}, kept.activated, shape.feed_forward);
  add("output", {"output.dense"}, kept.output_norm.z, h);
  add("output", {"output.LayerNorm"}, kept.output_norm.y, h);
}

}  // namespace

std::string to_text(const NotFinite& found, int ranks) {
  if (found.tensor.empty()) return "";
  const bool differs = found.quantity == "input" || found.quantity == "output";
  return found.quantity + " of " + found.tensor + ", in " + contract::layer_of(found.tensor) +
         (differs && ranks > 1 ? " on rank " + std::to_string(found.rank) : "");
}

// The loss turns logits into their gradient in place, which is no number where they are none.
std::vector<ForwardBuffer> forward_buffers(const contract::ModelShape& shape,
                                           const model::ActivationLayout& layout) {
  using Rows = ForwardBuffer::Rows;
  const std::int64_t h = shape.hidden;
  const std::string embeddings = "bert.embeddings.";
  const std::string transform = "cls.predictions.transform.";
  std::vector<ForwardBuffer> buffers{
      {"input", {embeddings + "LayerNorm.weight"}, layout.embedding.z, Rows::Tokens, h},
      {"output", {embeddings + "LayerNorm.weight"}, layout.embedding.y, Rows::Tokens, h}};
  for (int layer = 0; layer < shape.layers; ++layer) {
    add_layer(shape, layer, layout.layers[static_cast<std::size_t>(layer)], &buffers);
  }
  const auto add = [&](const std::string& tensor, const model::Buffer& buffer, Rows rows,
                       std::int64_t columns) {
    buffers.push_back({"output", {tensor}, buffer, rows, columns});
  };
  const std::int64_t outputs = contract::outputs_of(shape);
  if (shape.task == contract::Task::QuestionAnswering) {
    add("qa_outputs.weight", layout.sample_logits, Rows::Tokens, outputs);
    return buffers;
  }
  add("bert.pooler.dense.weight", layout.pooled, Rows::Samples, h);
  if (shape.task != contract::Task::Pretraining) {
    add("classifier.weight", layout.sample_logits, Rows::Samples, outputs);
    return buffers;
  }
  add("cls.seq_relationship.weight", layout.sample_logits, Rows::Samples, outputs);
  add(transform + "dense.weight", layout.masked_inner, Rows::Masked, h);
  add(transform + "LayerNorm.weight", layout.masked_norm.y, Rows::Masked, h);
  add(embeddings + "word_embeddings.weight", layout.logits, Rows::Masked,
      contract::vocabulary_rows(shape));
  return buffers;
}

NotFinite first_not_finite(device::Device& device, ranks::HostCollectives& host, model::Bert& model,
                           const StepTaken& taken) {
  NotFinite found = first_of_all(host, [&] { return bad_weight(device, model); });
  if (!found.tensor.empty()) return found;
  if (taken.looks_forward) {
    found = first_of_all(host, [&] { return bad_buffer(device, model, taken); });
    if (!found.tensor.empty()) return found;
  }
  return first_of_all(host, [&] { return bad_gradient(device, model, taken); });
}

}  // namespace regatta::trainer::step
