#include "trainer/interchange/starting_weights.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "trainer/interchange/tokenizer_comparison.h"
#include "trainer/model/initial_weights.h"

namespace regatta::trainer::interchange {
namespace {

using base::Code;
using base::Error;
using contract::TensorEntry;

// The parts that a model may lack as a whole.
constexpr const char* kOptionalParts[] = {"bert.pooler.", "cls.predictions.",
                                          "cls.seq_relationship.", "qa_outputs.", "classifier."};
constexpr char kClassifierPart[] = "classifier.";
constexpr char kPositions[] = "bert.embeddings.position_embeddings.weight";

void check_finite(const std::string& name, std::span<const float> values,
                  const std::string& source) {
  const auto bad =
      std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
  if (bad == values.end()) return;
  throw Error(Code::User, source + ": tensor '" + name + "' has a value that is not finite at " +
                              "element " + std::to_string(bad - values.begin()) +
                              "; such a model cannot be trained on");
}

bool is_of_part(const std::string& name, const std::string& part) {
  return name.rfind(part, 0) == 0;
}

bool same_head(const contract::ModelShape& ours, const ModelFacts& theirs) {
  return theirs.has_head && ours.task == theirs.shape.task && ours.labels == theirs.shape.labels;
}

// LABEL_0, … as `transformers` write where nobody has named them, or the numbers themselves, which
// stand for the places of the classes in GLUE's tables.
bool are_numbered(const std::vector<std::string>& labels) {
  const auto all = [&](const std::string& prefix) {
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] != prefix + std::to_string(i)) return false;
    }
    return true;
  };
  return all("LABEL_") || all("");
}

std::string shown_labels(const std::vector<std::string>& labels) {
  return base::printable(base::join(labels, ", ")).substr(0, 400);
}

// How the head of the source becomes that of what is started.
struct HeadMatch {
  bool taken = false;  // it is of the same task and size, and its labels are no other ones
  std::vector<std::size_t> rows{};  // of each label ours the row there; empty: in their order
  std::string other_labels{};       // what differs, where names alone do
  std::string note{};               // empty: nothing to tell
};

std::string label_differences(const std::vector<std::string>& ours,
                              const std::vector<std::string>& theirs) {
  const auto only = [](const std::vector<std::string>& in, const std::vector<std::string>& other) {
    std::vector<std::string> found;
    std::copy_if(in.begin(), in.end(), std::back_inserter(found), [&](const std::string& label) {
      return std::find(other.begin(), other.end(), label) == other.end();
    });
    return found.empty() ? std::string("none of its own") : shown_labels(found);
  };
  return "the labels differ: only the model has " + only(theirs, ours) + ", only the dataset has " +
         only(ours, theirs);
}

HeadMatch match_head(const contract::ModelShape& shape, const std::vector<std::string>& ours,
                     const ModelFacts& facts) {
  HeadMatch match;
  match.taken = same_head(shape, facts);
  if (!match.taken || shape.task != contract::Task::Classification) return match;
  const std::vector<std::string>& theirs = facts.labels;
  if (ours.empty() || ours == theirs) {
    match.note = "the classifier's labels are, in their order: " + shown_labels(theirs);
  } else if (std::is_permutation(ours.begin(), ours.end(), theirs.begin(), theirs.end())) {
    for (const std::string& label : ours) {
      const auto at = std::find(theirs.begin(), theirs.end(), label);
      match.rows.push_back(static_cast<std::size_t>(at - theirs.begin()));
    }
    match.note = "the classifier's labels, there in the order " + shown_labels(theirs) +
                 ", were put in the dataset's: " + shown_labels(ours);
  } else if (are_numbered(theirs) || are_numbered(ours)) {
    match.note =
        "the classifier's labels have no names on one side and are taken in their order: " +
        shown_labels(theirs) + " for " + shown_labels(ours);
  } else {
    match.taken = false;
    match.other_labels = label_differences(ours, theirs);
  }
  return match;
}

// Puts the rows of the classifier in the order of our labels.
void order_rows(const contract::TensorTable& table, const HeadMatch& head,
                std::vector<float>* arena) {
  if (head.rows.empty()) return;
  for (const TensorEntry& entry : table.tensors) {
    if (!is_of_part(entry.name, kClassifierPart)) continue;
    const auto begin = arena->begin() + entry.offset;
    const std::vector<float> theirs(begin, begin + entry.size);
    const std::size_t width = theirs.size() / head.rows.size();
    for (std::size_t i = 0; i < head.rows.size(); ++i) {
      std::copy_n(theirs.begin() + static_cast<std::ptrdiff_t>(head.rows[i] * width), width,
                  begin + static_cast<std::ptrdiff_t>(i * width));
    }
  }
}

// Of what tokenizer.json declares; the limit of words is not compared, in which all of Hugging
// Face's differ from Google's (docs/interchange.md).
TokenizerComparison compare_declared(const StartedModel& started,
                                     const DeclaredTokenizer& declared) {
  data::TokenizerOptions rules{.lower_case = started.lower_case};
  rules.word_limit =
      std::clamp(declared.word_limit.value_or(rules.word_limit), 1, data::kLargestWordLimit);
  return compare_tokenizers({started.vocabulary, rules}, declared);
}

constexpr char kOwnVocabulary[] = "put the model's own vocab.txt there";

// What is wrong where the vocabulary has pieces that the model has no row for.
std::optional<std::string> missing_rows(const ModelFacts& facts) {
  if (facts.shape.vocabulary >= facts.vocabulary.size()) return std::nullopt;
  return "the model has " + std::to_string(facts.shape.vocabulary) + " pieces, " +
         facts.vocabulary_file + " names " + std::to_string(facts.vocabulary.size());
}

// As the source has it: a model with more positions is cut.
TensorEntry stored_entry(TensorEntry entry, const ModelFacts& facts) {
  if (entry.name != kPositions || facts.described_in.empty()) return entry;
  const std::int64_t columns = entry.shape.back();
  entry.shape.front() = std::max<std::int64_t>(entry.shape.front(), facts.shape.max_positions);
  entry.size = entry.shape.front() * columns;
  return entry;
}

// Fills the entry's part of the arena by `read`, which gets the entry as it is stored.
template <typename Read>
void fill_entry(const TensorEntry& entry, const ModelFacts& facts, const std::string& shown_name,
                std::vector<float>* arena, const Read& read) {
  const std::span<float> values(arena->data() + entry.offset, static_cast<std::size_t>(entry.size));
  const TensorEntry stored = stored_entry(entry, facts);
  if (stored.size == entry.size) {
    read(entry, values);
  } else {
    std::vector<float> all(static_cast<std::size_t>(stored.size));
    read(stored, std::span<float>(all));
    std::copy_n(all.begin(), values.size(), values.begin());
  }
  check_finite(shown_name, values, facts.place);
}

// The names that the source lacks, without those of the optional parts that it lacks as a whole.
struct Missing {
  std::vector<std::string> names;
  std::vector<std::string> parts;
};

Missing missing_in(ModelSource& source, const contract::TensorTable& table, bool has_classifier) {
  Missing missing;
  for (const TensorEntry& entry : table.tensors) {
    const bool other = !has_classifier && is_of_part(entry.name, kClassifierPart);
    if (other || !source.has(stored_entry(entry, source.facts()))) {
      missing.names.push_back(entry.name);
    }
  }
  for (const char* part : kOptionalParts) {
    const auto in_part = [&](const std::string& name) { return is_of_part(name, part); };
    const auto lost = std::count_if(missing.names.begin(), missing.names.end(), in_part);
    const auto all =
        std::count_if(table.tensors.begin(), table.tensors.end(),
                      [&](const TensorEntry& entry) { return is_of_part(entry.name, part); });
    if (lost != all || all == 0) continue;
    missing.parts.emplace_back(part);
    std::erase_if(missing.names, in_part);
  }
  return missing;
}

// Fills the tensors of the parts as for a new run: an element depends on its tensor's number alone,
// so the others need not be drawn (which takes BERT-large 15 s).
void initialise_parts(const contract::TensorTable& table, std::uint64_t seed, int threads,
                      const std::vector<std::string>& parts, std::vector<float>* arena) {
  if (parts.empty()) return;
  contract::TensorTable drawn = table;
  drawn.arena_size = 0;
  for (TensorEntry& entry : drawn.tensors) {
    const bool wanted = std::any_of(parts.begin(), parts.end(), [&](const std::string& part) {
      return is_of_part(entry.name, part);
    });
    if (!wanted) entry.size = 0;
    entry.offset = drawn.arena_size;
    drawn.arena_size += entry.size;
  }
  const std::vector<float> initial = model::initial_weights(drawn, seed, std::max(threads, 1));
  for (std::size_t i = 0; i < table.tensors.size(); ++i) {
    const TensorEntry& from = drawn.tensors[i];
    std::copy_n(initial.begin() + from.offset, from.size, arena->begin() + table.tensors[i].offset);
  }
}

std::string head_text(const contract::ModelShape& shape) {
  const std::string task = contract::name_of(shape.task);
  if (shape.task != contract::Task::Classification) return task;
  return task + " with " + std::to_string(shape.labels) + " labels";
}

std::string initialised_note(const std::string& part, const ModelFacts& facts,
                             const HeadMatch& head) {
  const std::string initialised = "*: initialised as for a new run";
  if (part == kClassifierPart && !head.other_labels.empty()) {
    return part + initialised + " (" + head.other_labels + ")";
  }
  if (part != kClassifierPart || !facts.has_head) return "no " + part + initialised;
  return "no " + part + initialised + " (the head there is for " + head_text(facts.shape) + ")";
}

// Lines of what must agree, and what to do about them.
class Differences {
 public:
  Differences(const StartedModel& started, const ModelFacts& facts)
      : started_(started), facts_(facts) {
    if (!facts.described_in.empty()) compare_sizes();
    compare_vocabulary();
    compare_case();
    if (facts.tokenizer) compare_pieces(*facts.tokenizer);
  }
  void compare_moments(const HeadMatch& head) {
    if (head.taken) return;
    const std::string theirs =
        facts_.has_head ? "of " + head_text(facts_.shape) : std::string("of no task here");
    lines_.push_back(!head.other_labels.empty() ? head.other_labels
                                                : "the moments are " + theirs + ", the task is " +
                                                      head_text(started_.shape));
    advise("take the weights without the optimizer");
  }
  void check() const {
    if (lines_.empty()) return;
    const std::string source =
        facts_.described_in.empty() ? facts_.vocabulary_file : facts_.described_in;
    throw Error(Code::User, started_.described_in + " describes another model than " + source +
                                ": " + base::join(lines_, "; ") + "; " +
                                base::join(advice_, ", and "));
  }

 private:
  template <typename Value>
  void compare(const std::string& key, const Value& ours, const char* their_key,
               const Value& theirs) {
    if (ours == theirs) return;
    lines_.push_back(key + " is " + std::to_string(ours) + ", " + their_key + " is " +
                     std::to_string(theirs));
  }
  void compare_sizes() {
    const contract::ModelShape& ours = started_.shape;
    const contract::ModelShape& theirs = facts_.shape;
    const SizeNames& names = facts_.names;
    compare("layers", ours.layers, names.layers, theirs.layers);
    compare("hidden", ours.hidden, names.hidden, theirs.hidden);
    compare("heads", ours.heads, names.heads, theirs.heads);
    compare("feed_forward", ours.feed_forward, names.feed_forward, theirs.feed_forward);
    if (ours.max_positions > theirs.max_positions) {
      compare("max_positions", ours.max_positions, names.positions, theirs.max_positions);
    }
    compare("token_types", ours.token_types, names.token_types, theirs.token_types);
    if (facts_.gelu_known && ours.gelu != theirs.gelu) {
      lines_.push_back(std::string("gelu is ") + name_of_gelu(ours.gelu) + ", " + names.gelu +
                       " means " + name_of_gelu(theirs.gelu));
    }
    if (ours.layer_norm_epsilon != theirs.layer_norm_epsilon) {
      lines_.push_back(std::string("LayerNorm adds 1e-12 here, ") + names.epsilon + " differs");
    }
    if (!lines_.empty()) advise("change the run file");
  }
  void compare_vocabulary() {
    const data::Vocabulary& ours = started_.vocabulary;
    const data::Vocabulary& theirs = facts_.vocabulary;
    const std::string& file = facts_.vocabulary_file;
    const std::string advice = "prepare the data with --vocab " + file;
    for (data::TokenId id = 0; id < std::min(theirs.size(), ours.size()); ++id) {
      if (theirs.piece(id) == ours.piece(id)) continue;
      lines_.push_back(file + ": line " + std::to_string(id + 1) + " is '" +
                       base::printable(theirs.piece(id)) + "', in the dataset it is '" +
                       base::printable(ours.piece(id)) + "'");
      advise(advice);
      return;
    }
    if (theirs.size() == ours.size()) {
      const auto missing = missing_rows(facts_);
      if (!missing) return;
      lines_.push_back(*missing);
      advise(kOwnVocabulary);
      return;
    }
    lines_.push_back(file + " has " + std::to_string(theirs.size()) + " pieces, the dataset " +
                     std::to_string(ours.size()));
    advise(advice);
  }
  void compare_case() {
    if (!facts_.lower_case || *facts_.lower_case == started_.lower_case) return;
    const auto text = [](bool lower) { return std::string(lower ? "lower" : "mixed") + " case"; };
    lines_.push_back(facts_.case_file + ": the model's text is " + text(*facts_.lower_case) +
                     ", the dataset's is " + text(started_.lower_case));
    advise(std::string("prepare the data ") + (*facts_.lower_case ? "without" : "with") +
           " --cased");
  }
  // Where vocab.txt is the dataset's, and tokenizer.json names other pieces. More of them are no
  // fault: whoever adds tokens to a model leaves its vocab.txt as it is.
  void compare_pieces(const DeclaredTokenizer& declared) {
    const std::vector<std::string>& ours = started_.vocabulary.pieces();
    if (ours != facts_.vocabulary.pieces()) return;  // told
    for (std::size_t id = 0; id < std::min(ours.size(), declared.pieces.size()); ++id) {
      if (declared.pieces[id] == ours[id]) continue;
      lines_.push_back(declared.file + ": id " + std::to_string(id) + " is '" +
                       base::printable(declared.pieces[id]) + "', in vocab.txt and the dataset '" +
                       base::printable(ours[id]) + "'");
      return advise("remove the file of the two that is not the model's");
    }
  }
  static const char* name_of_gelu(contract::Gelu gelu) {
    return gelu == contract::Gelu::Erf ? "erf" : "tanh";
  }
  void advise(const std::string& advice) { advice_.push_back(advice); }

  const StartedModel& started_;
  const ModelFacts& facts_;
  std::vector<std::string> lines_;
  std::vector<std::string> advice_;
};

// Throws where the model does not fit what is started.
void check_fit(const StartedModel& started, const ModelFacts& facts, const HeadMatch& head,
               bool moments) {
  Differences differences(started, facts);
  if (moments) differences.compare_moments(head);
  differences.check();
}

void note_description(const StartedModel& started, const ModelFacts& facts,
                      std::vector<std::string>* notes) {
  if (facts.described_in.empty()) {
    notes->emplace_back("no bert_config.json: the number of heads is the run file's");
  }
  if (facts.gelu_known) return;
  notes->push_back(std::string("TensorFlow checkpoints do not tell which gelu they are for; ") +
                   "the run file says " +
                   (started.shape.gelu == contract::Gelu::Erf ? "erf" : "tanh"));
}

// Tokens that the model was made with and the dataset has not, in one line.
void note_tokenizer(const StartedModel& started, const ModelFacts& facts,
                    std::vector<std::string>* notes) {
  if (!facts.tokenizer) return;
  const TokenizerComparison found = compare_declared(started, *facts.tokenizer);
  if (found.verdict() == TokenizerVerdict::Same) return;
  notes->push_back(found.file +
                   (found.verdict() == TokenizerVerdict::Differs
                        ? " gives other tokens than the dataset has: "
                        : ": whether it gives the dataset's tokens is unknown: ") +
                   differences_line(found));
}

void note_leftovers(const StartedModel& started, ModelSource& source, const HeadMatch& head,
                    std::vector<std::string>* notes) {
  const contract::ModelShape& theirs = source.facts().shape;
  if (theirs.vocabulary > started.shape.vocabulary) {
    notes->push_back(std::to_string(theirs.vocabulary - started.shape.vocabulary) +
                     " rows beyond the vocabulary were cut");
  }
  if (!source.facts().described_in.empty() && theirs.max_positions > started.shape.max_positions) {
    notes->push_back("the model has " + std::to_string(theirs.max_positions) +
                     " positions; those beyond " + std::to_string(started.shape.max_positions) +
                     " were cut");
  }
  if (!head.note.empty()) notes->push_back(head.note);
  const std::vector<std::string> unused = source.unused();
  if (unused.empty()) return;
  notes->push_back(std::to_string(unused.size()) + " tensors were not used, the first is '" +
                   base::printable(unused.front()) + "'");
}

// Of all tensors but those of the parts, which are zero.
void read_moments(ModelSource& source, const contract::TensorTable& table,
                  const std::vector<std::string>& new_parts, const std::string& without,
                  StartingState* state) {
  state->step = source.moments_step(without);
  for (const auto& [moment, values] :
       {std::pair(Moment::First, &state->first_moment), {Moment::Second, &state->second_moment}}) {
    values->assign(static_cast<std::size_t>(table.arena_size), 0.0F);
    for (const TensorEntry& entry : table.tensors) {
      const auto in = [&](const std::string& part) { return is_of_part(entry.name, part); };
      if (std::any_of(new_parts.begin(), new_parts.end(), in)) continue;
      const Moment which = moment;
      fill_entry(entry, source.facts(), "moment of " + entry.name, values,
                 [&](const TensorEntry& stored, std::span<float> out) {
                   source.read_moment(stored, which, out, without);
                 });
    }
  }
}

// The parts that the source lacks as a whole; throws where it lacks another tensor.
std::vector<std::string> new_parts_of(ModelSource& source, const contract::TensorTable& table,
                                      const HeadMatch& head) {
  const ModelFacts& facts = source.facts();
  Missing missing = missing_in(source, table, head.taken);
  if (missing.names.empty()) return std::move(missing.parts);
  const std::size_t others = missing.names.size() - 1;
  const std::string more = others > 0 ? " and lacks " + std::to_string(others) + " more" : "";
  throw Error(Code::User, facts.place + ": has no tensor '" + missing.names.front() + "'" + more +
                              "; name a whole BERT model");
}

// The parts that were drawn.
std::vector<std::string> fill(ModelSource& source, const contract::TensorTable& table,
                              const HeadMatch& head, std::uint64_t seed, int threads,
                              FilledArena* filled) {
  const ModelFacts& facts = source.facts();
  std::vector<std::string> parts = new_parts_of(source, table, head);
  filled->parameters.assign(static_cast<std::size_t>(table.arena_size), 0.0F);
  for (const TensorEntry& entry : table.tensors) {
    const auto in = [&](const std::string& part) { return is_of_part(entry.name, part); };
    if (std::any_of(parts.begin(), parts.end(), in)) continue;
    fill_entry(entry, facts, entry.name, &filled->parameters,
               [&](const TensorEntry& stored, std::span<float> out) { source.read(stored, out); });
  }
  order_rows(table, head, &filled->parameters);
  initialise_parts(table, seed, threads, parts, &filled->parameters);
  for (const std::string& part : parts) {
    filled->notes.push_back(initialised_note(part, facts, head));
  }
  return parts;
}

}  // namespace

FilledArena fill_arena(ModelSource& source, const contract::ModelShape& shape, std::uint64_t seed,
                       int threads) {
  FilledArena filled;
  if (const auto missing = missing_rows(source.facts())) {
    throw Error(Code::User, *missing + "; " + kOwnVocabulary);
  }
  const HeadMatch head = match_head(shape, {}, source.facts());
  const contract::TensorTable table = contract::make_tensor_table(shape);
  if (shape.task != contract::Task::Pretraining) {
    const std::vector<std::string> missing = new_parts_of(source, table, head);
    if (!missing.empty()) {
      throw Error(Code::User,
                  source.facts().place + ": has no " + missing.front() +
                      "*, without which a model for " + contract::name_of(shape.task) +
                      " answers at random; name a whole model, or train this one first: a "
                      "run file with from: this model");
    }
  }
  (void)fill(source, table, head, seed, threads, &filled);
  return filled;
}

std::vector<std::string> check_start_from(ModelSource& source, const StartedModel& started,
                                          const std::string& without) {
  const ModelFacts& facts = source.facts();
  const HeadMatch head = match_head(started.shape, started.labels, facts);
  check_fit(started, facts, head, !without.empty());
  std::vector<std::string> notes = facts.notes;
  note_description(started, facts, &notes);
  note_tokenizer(started, facts, &notes);
  const contract::TensorTable table = contract::make_tensor_table(started.shape);
  for (const std::string& part : new_parts_of(source, table, head)) {
    notes.push_back(initialised_note(part, facts, head));
  }
  if (!head.note.empty()) notes.push_back(head.note);
  if (!without.empty()) (void)source.moments_step(without);
  return notes;
}

StartingState start_from(ModelSource& source, const StartedModel& started,
                         const std::string& without) {
  const ModelFacts& facts = source.facts();
  const bool moments = !without.empty();
  const HeadMatch head = match_head(started.shape, started.labels, facts);
  check_fit(started, facts, head, moments);
  StartingState state;
  state.notes = facts.notes;
  note_description(started, facts, &state.notes);
  note_tokenizer(started, facts, &state.notes);
  const contract::TensorTable table = contract::make_tensor_table(started.shape);
  FilledArena filled;
  const std::vector<std::string> new_parts =
      fill(source, table, head, started.seed, started.threads, &filled);
  state.parameters = std::move(filled.parameters);
  state.notes.insert(state.notes.end(), filled.notes.begin(), filled.notes.end());
  note_leftovers(started, source, head, &state.notes);
  if (moments) {
    read_moments(source, table, new_parts, without, &state);
    order_rows(table, head, &state.first_moment);
    order_rows(table, head, &state.second_moment);
  }
  return state;
}

}  // namespace regatta::trainer::interchange
