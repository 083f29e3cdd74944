#include "orchestrator/compare/learning_causes.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"

namespace regatta::orchestrator::compare {
namespace {

using Json = nlohmann::ordered_json;

// Parts of a step in which a difference can begin with a fact, as bits.
constexpr unsigned bit(ProbePart part) { return 1U << static_cast<unsigned>(part); }
constexpr unsigned kWeights = bit(ProbePart::Weights), kSamples = bit(ProbePart::Samples),
                   kMasks = bit(ProbePart::Masks), kDropout = bit(ProbePart::Dropout),
                   kUpdate = bit(ProbePart::Update),
                   kTexts = kSamples | bit(ProbePart::Tokens) | kMasks,
                   kKernels = bit(ProbePart::Activations) | bit(ProbePart::Loss) |
                              bit(ProbePart::Gradients) | kUpdate;

// Facts that stand for one cause, which is one where any of them differs.
struct FactGroup {
  const char* kind;
  const char* what;
  Reach reach;
  const char* facts;  // JSON pointers, with blanks between
  ReplayWay way;
  const char* keys;  // of the run file, with blanks between
  unsigned parts;
};

// The likeliest first. Of datasets only the first is looked into: of a mixture the fingerprint of
// all tells.
constexpr FactGroup kFactGroups[] = {
    {"tokenisation", "another vocabulary", Reach::Anything, "/data/datasets/0/vocabulary",
     ReplayWay::Keys, "data.path model.vocabulary", kWeights | kTexts},
    {"tokenisation", "another tokenizer", Reach::Anything, "/data/datasets/0/tokenizer",
     ReplayWay::Keys, "data.path", kTexts},
    {"model", "another model", Reach::Anything,
     "/configuration/model/layers /configuration/model/hidden /configuration/model/heads "
     "/configuration/model/feed_forward /configuration/model/max_positions "
     "/configuration/model/vocabulary /configuration/task",
     ReplayWay::Keys, "", kWeights},
    {"initial weights", "other weights to begin with", Reach::Anything,
     "/model/begins_with /model/optimizer_state_too", ReplayWay::Keys, "from", kWeights | kUpdate},
    {"random numbers", "another seed", Reach::Anything, "/randomness/seed", ReplayWay::Keys, "seed",
     kWeights | kTexts | kDropout},
    {"data order", "other settings of samples", Reach::Anything,
     "/configuration/data/max_length /configuration/data/short_fraction /configuration/questions",
     ReplayWay::Keys, "", kTexts},
    {"data order", "another batch", Reach::Anything,
     "/configuration/batch/size /configuration/batch/growth /configuration/batch/max_size",
     ReplayWay::Keys, "", kTexts},
    {"masks", "other masks", Reach::Anything,
     "/configuration/data/mask_fraction /configuration/shuffle_labels", ReplayWay::Keys, "",
     kMasks},
    {"dropout", "another dropout", Reach::Anything,
     "/configuration/model/dropout /configuration/model/attention_dropout", ReplayWay::Keys, "",
     kDropout},
    {"precision", "another precision", Reach::Anything,
     "/numerics/activations /numerics/tf32 /numerics/sums /numerics/weights "
     "/numerics/optimizer_state /numerics/gradients_between_ranks",
     ReplayWay::Keys, "dtype", kKernels},
    {"data", "other texts", Reach::Later,
     "/data/fingerprint /data/datasets/0/corpus_xxh3_128 /data/datasets/0/training_xxh3_128 "
     "/data/datasets/0/evaluation_xxh3_128",
     ReplayWay::Keys, "data.path", kTexts},
    {"optimizer", "another optimizer", Reach::Later, "/configuration/optimizer", ReplayWay::Keys,
     "", kUpdate},
    {"optimizer", "another clipping", Reach::Later, "/configuration/clip", ReplayWay::Keys, "",
     kUpdate},
    {"optimizer", "other settings of fine-tuning", Reach::Later, "/configuration/fine_tuning",
     ReplayWay::Keys, "", kKernels},
    {"kernels", "another GELU", Reach::Rounding, "/numerics/gelu", ReplayWay::Keys, "model.gelu",
     kKernels},
    {"kernels", "another kind of device", Reach::Rounding, "/devices/of_rank_0/kind",
     ReplayWay::Keys, "device dtype", kKernels},
    {"kernels", "another instruction set", Reach::Rounding, "/numerics/instruction_set",
     ReplayWay::InstructionSet, "", kKernels},
    {"kernels", "another kernel of attention", Reach::Rounding, "/numerics/attention",
     ReplayWay::Keys, "attention", kKernels},
    {kWorldSize, "another number of ranks", Reach::Rounding, "/fabric/ranks", ReplayWay::Keys,
     "ranks", kKernels},
    {kWorldSize, "another way to sum over ranks", Reach::Rounding,
     "/fabric/transport /fabric/hierarchical /configuration/parallel /configuration/buckets "
     "/configuration/sharding /configuration/balance /fabric/plan_xxh3_128",
     ReplayWay::Keys, "", kKernels},
    {"kernels", "another micro-batch", Reach::Rounding, "/configuration/batch/micro",
     ReplayWay::Keys, "", kKernels},
    {"kernels", "another number of threads", Reach::Rounding, "/numerics/threads",
     ReplayWay::Threads, "", kKernels},
    {"kernels", "another level of determinism", Reach::Rounding,
     "/numerics/determinism /numerics/shards /numerics/deterministic", ReplayWay::Keys,
     "determinism", kKernels},
    {"library", "another library for products", Reach::Rounding,
     "/numerics/products /build/libraries", ReplayWay::Program, "", kKernels},
    {"version", "another build of the trainer", Reach::Rounding,
     "/build/program_xxh3_128 /build/version /build/commit /build/compiler /build/type "
     "/build/flags",
     ReplayWay::Program, "", kKernels},
    {"kernels", "another GPU", Reach::Rounding, "/devices/of_rank_0/model", ReplayWay::None, "", 0},
    {"kernels", "another processor", Reach::Rounding, "/machine/processor/name", ReplayWay::None,
     "", 0},
};

std::vector<std::string> words_of(const char* text) {
  std::vector<std::string> words = base::split(text, ' ');
  std::erase(words, "");
  return words;
}

std::vector<ProbePart> parts_of(unsigned bits) {
  std::vector<ProbePart> parts;
  for (std::size_t i = 0; i < kProbePartNames.size(); ++i) {
    const auto part = static_cast<ProbePart>(i);
    if ((bits & bit(part)) != 0) parts.push_back(part);
  }
  return parts;
}

// Variables that libraries choose their kernels by; those of Regatta are told as what they do.
LearningCause other_variables(const Json& a, const Json& b) {
  LearningCause cause{"library",
                      "another setting of a library",
                      Reach::Rounding,
                      {},
                      ReplayWay::Variables,
                      {},
                      parts_of(kKernels)};
  const auto chosen = [](const Json& environment) {
    Json all = fact_at(environment, "/variables");
    if (!all.is_object()) return Json::object();
    all.erase("digest");
    for (auto each = all.begin(); each != all.end();) {
      each = each.key().rfind("REGATTA_", 0) == 0 ? all.erase(each) : std::next(each);
    }
    return all;
  };
  add_differences("variables", chosen(a), chosen(b), &cause.evidence);
  return cause;
}

// Of a schedule that ends with the run.
LearningCause other_steps(const Json& a, const Json& b) {
  LearningCause cause{"optimizer",      "another end of the learning rate's schedule",
                      Reach::Later,     {},
                      ReplayWay::Keys,  {},
                      parts_of(kUpdate)};
  const auto ends_with_run = [](const Json& environment) {
    const Json schedule = fact_at(environment, "/configuration/optimizer/schedule");
    const Json steps = fact_at(environment, "/configuration/optimizer/decay_steps");
    return schedule != Json("constant") && (steps.is_null() || steps == Json(0));
  };
  if (ends_with_run(a) || ends_with_run(b)) {
    constexpr const char* kSteps = "/configuration/steps";
    add_differences(key_of(kSteps), fact_at(a, kSteps), fact_at(b, kSteps), &cause.evidence);
  }
  return cause;
}

LearningCause of_group(const FactGroup& group, const Json& a, const Json& b) {
  LearningCause cause{group.kind, group.what, group.reach, {}, group.way, {}, {}};
  for (const std::string& fact : words_of(group.facts)) {
    add_differences(key_of(fact), fact_at(a, fact), fact_at(b, fact), &cause.evidence);
  }
  cause.keys = words_of(group.keys);
  cause.parts = parts_of(group.parts);
  return cause;
}

}  // namespace

std::vector<LearningCause> learning_facts(const Json& environment_a, const Json& environment_b) {
  std::vector<LearningCause> causes;
  if (!environment_a.is_object() || !environment_b.is_object()) return causes;
  const auto add = [&](LearningCause cause) {
    if (!cause.evidence.empty()) causes.push_back(std::move(cause));
  };
  for (const FactGroup& group : kFactGroups) add(of_group(group, environment_a, environment_b));
  add(other_variables(environment_a, environment_b));
  add(other_steps(environment_a, environment_b));
  // Another vocabulary or tokenizer is another dataset, too: the fact in front says it.
  const auto is_tokenisation = [](const LearningCause& c) { return c.kind == "tokenisation"; };
  if (std::any_of(causes.begin(), causes.end(), is_tokenisation)) {
    std::erase_if(causes, [](const LearningCause& cause) { return cause.kind == "data"; });
  }
  return causes;
}

std::vector<LearningCause> likely_causes(const LearningDifference& difference,
                                         std::vector<LearningCause> facts) {
  if (!difference.other_bits) return {};
  const bool later = difference.began_alike(), rounding = difference.began_with_rounding();
  const auto rank = [&](const LearningCause& cause) {
    if (later) return cause.reach == Reach::Later ? 0 : 1;
    if (rounding) return cause.reach == Reach::Rounding ? 0 : 1;
    return cause.reach == Reach::Rounding ? 1 : 0;
  };
  std::stable_sort(facts.begin(), facts.end(),
                   [&](const LearningCause& one, const LearningCause& other) {
                     return rank(one) < rank(other);
                   });
  return facts;
}

}  // namespace regatta::orchestrator::compare
