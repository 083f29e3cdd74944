#include "trainer/interchange/any_model.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "trainer/interchange/hugging_face.h"
#include "trainer/interchange/model_source.h"
#include "trainer/interchange/starting_weights.h"

namespace regatta::trainer::interchange {
namespace {

using base::Code;
using base::Error;

constexpr std::uint64_t kHeadSeed = 1;  // of heads that a model lacks: a run file's standard one
constexpr char kReader[] = "regatta-train";
constexpr char kWithoutMoments[] = "leave from.optimizer out";
constexpr char kRunFile[] = "the run file";

std::unique_ptr<ModelSource> open_start(base::FileSystem& files, const base::Clock& clock,
                                        const contract::StartConfig& from) {
  return open_model_source(files, clock,
                           {from.path,
                            {},
                            from.optimizer,
                            kReader,
                            "export it with --vocab, and name the exported directory"});
}

std::string head_of(const ModelFacts& facts) {
  if (facts.has_head) return "it has one for " + contract::name_of(facts.shape.task);
  return facts.kind.empty() ? "it is an encoder" : "it is a " + base::printable(facts.kind);
}

const char* command_of(contract::Task task) {
  switch (task) {
    case contract::Task::Pretraining:
      return "fill";
    case contract::Task::QuestionAnswering:
      return "answer";
    case contract::Task::Classification:
    case contract::Task::Regression:
      break;
  }
  return "predict";
}

void check_head(const ModelFacts& facts, const std::optional<contract::Task>& wanted) {
  if (!wanted || (facts.has_head && facts.shape.task == *wanted)) return;
  const std::string& task = contract::name_of(*wanted);
  const std::string other =
      facts.has_head
          ? "try it with `regatta-train " + std::string(command_of(facts.shape.task)) + "`, or "
          : "";
  throw Error(Code::User, facts.place + ": has no head for " + task + " (" + head_of(facts) +
                              "); " + other + "train one: a run file with task " + task +
                              " and from: this model");
}

// Of a vocabulary that does not tell its case: one of lower case has no capitals but in [UNK] and
// its like.
bool is_lower_case(const data::Vocabulary& vocabulary) {
  const auto has_capital = [](const std::string& piece) {
    if (piece.front() == '[' && piece.back() == ']') return false;
    return std::any_of(piece.begin(), piece.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  };
  return std::none_of(vocabulary.pieces().begin(), vocabulary.pieces().end(), has_capital);
}

}  // namespace

AnyModel open_any_model(base::FileSystem& files, const base::Clock& clock,
                        const AnyModelOptions& options) {
  const auto source = open_model_source(files, clock,
                                        {options.path, options.vocabulary, false, kReader,
                                         "name the model's vocab.txt with --vocab"});
  const ModelFacts& facts = source->facts();
  check_head(facts, options.task);
  if (facts.described_in.empty()) {
    throw Error(Code::NotFound,
                facts.place + ": has no bert_config.json beside it, which tells the number of " +
                    "heads; put it there");
  }
  contract::ModelShape shape = facts.shape;
  shape.vocabulary = facts.vocabulary.size();
  FilledArena filled = fill_arena(*source, shape, kHeadSeed, 1);
  AnyModel model{facts.name,
                 shape,
                 facts.vocabulary,
                 facts.lower_case.value_or(is_lower_case(facts.vocabulary)),
                 facts.labels,
                 facts.max_length > 0 ? facts.max_length : shape.max_positions,
                 std::move(filled.parameters),
                 facts.notes,
                 facts.questions,
                 facts.dataset};
  const bool encoder = facts.kind.empty() || facts.kind == name_of(HuggingFaceClass::Encoder);
  if (!facts.has_head && !encoder) {
    model.notes.push_back("the head of a " + base::printable(facts.kind) + " is for no task here");
  }
  if (!facts.gelu_known) {
    model.notes.push_back(std::string("TensorFlow checkpoints do not tell which gelu they are ") +
                          "for; " + (shape.gelu == contract::Gelu::Erf ? "erf" : "tanh") +
                          " is taken, as bert_config.json reads");
  }
  model.notes.insert(model.notes.end(), filled.notes.begin(), filled.notes.end());
  return model;
}

StartingState starting_state(base::FileSystem& files, const base::Clock& clock,
                             const contract::StartConfig& from, const contract::ModelShape& shape,
                             const StartData& data, std::uint64_t seed, int threads) {
  const auto source = open_start(files, clock, from);
  return start_from(*source,
                    {shape, data.vocabulary, data.lower_case, data.labels, seed, threads, kRunFile},
                    from.optimizer ? kWithoutMoments : "");
}

std::vector<std::string> check_start(base::FileSystem& files, const base::Clock& clock,
                                     const contract::StartConfig& from,
                                     const contract::ModelShape& shape, const StartData& data) {
  const auto source = open_start(files, clock, from);
  return check_start_from(
      *source, {shape, data.vocabulary, data.lower_case, data.labels, kHeadSeed, 1, kRunFile},
      from.optimizer ? kWithoutMoments : "");
}

}  // namespace regatta::trainer::interchange
