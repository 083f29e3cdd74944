#include "checkpoint/tensorflow_names.h"

#include <algorithm>

namespace regatta::checkpoint {
namespace {

enum class Part : std::uint8_t { Dense, LayerNorm };

// A pair of tensors below a scope.
struct Scope {
  std::string_view theirs;
  std::string_view ours;
  Part part;
};

constexpr Scope kLayer[] = {
    {"attention/self/query", "attention.self.query", Part::Dense},
    {"attention/self/key", "attention.self.key", Part::Dense},
    {"attention/self/value", "attention.self.value", Part::Dense},
    {"attention/output/dense", "attention.output.dense", Part::Dense},
    {"attention/output/LayerNorm", "attention.output.LayerNorm", Part::LayerNorm},
    {"intermediate/dense", "intermediate.dense", Part::Dense},
    {"output/dense", "output.dense", Part::Dense},
    {"output/LayerNorm", "output.LayerNorm", Part::LayerNorm},
};

constexpr Scope kOutside[] = {
    {"bert/embeddings/LayerNorm", "bert.embeddings.LayerNorm", Part::LayerNorm},
    {"bert/pooler/dense", "bert.pooler.dense", Part::Dense},
    {"cls/predictions/transform/dense", "cls.predictions.transform.dense", Part::Dense},
    {"cls/predictions/transform/LayerNorm", "cls.predictions.transform.LayerNorm", Part::LayerNorm},
};

// Single tensors. The heads' weights are [outputs, inputs] on both sides: Google multiplies with
// their transpose.
struct Single {
  std::string_view theirs;
  std::string_view ours;
};
constexpr Single kSingles[] = {
    {"bert/embeddings/word_embeddings", "bert.embeddings.word_embeddings.weight"},
    {"bert/embeddings/position_embeddings", "bert.embeddings.position_embeddings.weight"},
    {"bert/embeddings/token_type_embeddings", "bert.embeddings.token_type_embeddings.weight"},
    {"cls/predictions/output_bias", "cls.predictions.bias"},
    {"cls/seq_relationship/output_weights", "cls.seq_relationship.weight"},
    {"cls/seq_relationship/output_bias", "cls.seq_relationship.bias"},
    {"cls/squad/output_weights", "qa_outputs.weight"},
    {"cls/squad/output_bias", "qa_outputs.bias"},
};

struct Suffix {
  std::string_view text;
  TensorflowKind kind;
};
constexpr Suffix kMoments[] = {
    {"/adam_m", TensorflowKind::First},
    {"/adam_v", TensorflowKind::Second},
    {"/LAMB", TensorflowKind::First},
    {"/LAMB_1", TensorflowKind::Second},
};

bool take_prefix(std::string_view prefix, std::string_view* text) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

std::optional<TensorflowName> map_scopes(const Scope* begin, const Scope* end,
                                         std::string_view name, const std::string& prefix) {
  for (const Scope* scope = begin; scope != end; ++scope) {
    std::string_view rest = name;
    if (!take_prefix(scope->theirs, &rest)) continue;
    const bool dense = scope->part == Part::Dense;
    const std::string ours = prefix + std::string(scope->ours);
    if (rest == (dense ? "/kernel" : "/gamma")) return TensorflowName{ours + ".weight", dense, {}};
    if (rest == (dense ? "/bias" : "/beta")) return TensorflowName{ours + ".bias", false, {}};
  }
  return std::nullopt;
}

std::optional<TensorflowName> map_parameter(std::string_view name) {
  for (const Single& single : kSingles) {
    if (name == single.theirs) return TensorflowName{std::string(single.ours), false, {}};
  }
  std::string_view rest = name;
  if (!take_prefix("bert/encoder/layer_", &rest)) {
    return map_scopes(std::begin(kOutside), std::end(kOutside), name, "");
  }
  const std::size_t slash = rest.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::string_view number = rest.substr(0, slash);
  const bool digits =
      !number.empty() && number.size() <= 4 &&
      std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
  // "layer_01" beside "layer_1" would be two tensors of one name.
  if (!digits || (number.size() > 1 && number.front() == '0')) return std::nullopt;
  return map_scopes(std::begin(kLayer), std::end(kLayer), rest.substr(slash + 1),
                    "bert.encoder.layer." + std::string(number) + ".");
}

}  // namespace

std::optional<TensorflowName> map_tensorflow_name(std::string_view name) {
  if (name == "global_step") return TensorflowName{"global_step", false, TensorflowKind::Step};
  TensorflowKind kind = TensorflowKind::Parameter;
  for (const Suffix& suffix : kMoments) {
    if (!name.ends_with(suffix.text)) continue;
    kind = suffix.kind;
    name.remove_suffix(suffix.text.size());
    break;
  }
  auto mapped = map_parameter(name);
  if (mapped) mapped->kind = kind;
  return mapped;
}

}  // namespace regatta::checkpoint
