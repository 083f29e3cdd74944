#include "trainer/interchange/try_model.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "base/wording.h"
#include "trainer/data/tokenizer.h"
#include "trainer/tasks/softmax.h"
#include "trainer/tasks/task_samples.h"

namespace regatta::trainer::interchange {
namespace {

using base::Code;
using base::Error;
using contract::Task;

constexpr std::string_view kMask = "[MASK]";
constexpr std::size_t kMostQuestionBytes = std::size_t{64} << 10U;  // as question_file.h
constexpr std::size_t kMostContextBytes = std::size_t{1} << 20U;

// --- masked words ---

// [CLS] and what follows; without [SEP].
samples::Sample masked_tokens(const std::string& text, const AnyModel& model) {
  const data::WordPiece pieces(model.vocabulary, {.lower_case = model.lower_case});
  data::Tokenizer tokenizer(pieces);
  const data::SpecialTokens& special = model.vocabulary.special();
  samples::Sample sample;
  sample.ids.push_back(special.classify);
  const std::string_view whole = text;
  for (std::size_t from = 0;;) {
    const std::size_t mask = whole.find(kMask, from);
    tokenizer.tokenize(whole.substr(from, mask - from), sample.ids);
    if (mask == std::string_view::npos) return sample;
    sample.masked_positions.push_back(static_cast<std::int32_t>(sample.ids.size()));
    sample.ids.push_back(special.mask);
    from = mask + kMask.size();
  }
}

samples::Sample masked_sample(const std::string& text, const AnyModel& model,
                              std::vector<std::string>* notes) {
  samples::Sample sample = masked_tokens(text, model);
  if (sample.masked_positions.empty()) {
    throw Error(Code::User, "the text has no [MASK]; write [MASK] for each word to fill in");
  }
  const auto room = static_cast<std::size_t>(model.max_length) - 1;
  if (sample.ids.size() > room) {
    const std::size_t cut = sample.ids.size() - room;
    const std::string what = "the text has " + std::to_string(sample.ids.size() + 1) +
                             " tokens with [CLS] and [SEP], and " + model.name + " takes " +
                             std::to_string(model.max_length);
    const auto late = std::find_if(
        sample.masked_positions.begin(), sample.masked_positions.end(),
        [room](std::int32_t position) { return static_cast<std::size_t>(position) >= room; });
    if (late != sample.masked_positions.end()) {
      throw Error(Code::User, what + ": mask " +
                                  std::to_string(late - sample.masked_positions.begin() + 1) +
                                  " is beyond them; shorten the text before it");
    }
    notes->push_back(what + ": the last " + std::to_string(cut) + " before [SEP] are cut off");
    sample.ids.resize(room);
  }
  const data::SpecialTokens& special = model.vocabulary.special();
  sample.ids.push_back(special.separator);
  sample.types.assign(sample.ids.size(), 0);
  sample.masked_labels.assign(sample.masked_positions.size(), special.mask);  // not looked at
  return sample;
}

std::vector<MaskGuess> best_pieces(const std::vector<float>& logits,
                                   const data::Vocabulary& vocabulary, int best) {
  std::vector<data::TokenId> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto kept = ids.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(
                                      static_cast<std::size_t>(std::max(best, 1)), ids.size()));
  const auto logit = [&](data::TokenId id) { return logits[static_cast<std::size_t>(id)]; };
  std::partial_sort(ids.begin(), kept, ids.end(), [&](data::TokenId a, data::TokenId b) {
    return logit(a) != logit(b) ? logit(a) > logit(b) : a < b;
  });
  const tasks::Softmax softmax(logits);
  std::vector<MaskGuess> guesses;
  for (auto id = ids.begin(); id != kept; ++id) {
    guesses.push_back({*id, vocabulary.piece(*id), softmax.probability(logit(*id))});
  }
  return guesses;
}

// --- questions ---

void check_size(const std::string& text, const std::string& what, std::size_t most) {
  check_text(text, what);
  if (text.size() > most) {
    throw Error(Code::User, what + " has " + std::to_string(text.size()) + " bytes; at most " +
                                std::to_string(most) + " are read, shorten it");
  }
}

std::size_t characters_before(const std::string& text, std::size_t byte) {
  const auto end = text.begin() + static_cast<std::ptrdiff_t>(byte);
  return static_cast<std::size_t>(std::count_if(
      text.begin(), end, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80; }));
}

AskedAnswer told(const tasks::Answer& answer, const std::string& context) {
  AskedAnswer asked{answer.text, answer.probability};
  if (answer.range) {
    asked.begin = characters_before(context, answer.range->begin);
    asked.end = characters_before(context, answer.range->end);
  }
  return asked;
}

// --- how they are told ---

constexpr int kNameWidth = -16;

std::string tried_line(const char* name, const std::string& value) {
  return base::formatted("%*s", kNameWidth, name) + base::printable(value) + "\n";
}

std::string tried_notes(const std::vector<std::string>& notes) {
  std::string text;
  for (const std::string& note : notes) text += base::printable(note) + "\n";
  return text;
}

}  // namespace

FilledText fill_masks(base::FileSystem& files, const base::Clock& clock,
                      const FillOptions& options) {
  check_text(options.text, "the text");
  const AnyModel model =
      open_any_model(files, clock, {options.model, options.vocabulary, Task::Pretraining});
  FilledText filled;
  // Pooler and the head for next sentences may be new: masked words do not go through them.
  std::copy_if(model.notes.begin(), model.notes.end(), std::back_inserter(filled.notes),
               [](const std::string& note) {
                 return !note.starts_with("no bert.pooler.") &&
                        !note.starts_with("no cls.seq_relationship.");
               });
  const samples::Sample sample = masked_sample(options.text, model, &filled.notes);
  ModelOnDevice asked(model, options.use);
  filled.model = model.name;
  filled.device = asked.device();
  filled.text = options.text;
  const std::vector<std::vector<float>> logits = asked.masked_logits(sample);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    filled.masks.push_back(
        {sample.masked_positions[i], best_pieces(logits[i], model.vocabulary, options.best)});
  }
  return filled;
}

AskedQuestion ask(base::FileSystem& files, const base::Clock& clock, const AskOptions& options) {
  check_size(options.question, "the question", kMostQuestionBytes);
  check_size(options.context, "the context", kMostContextBytes);
  const AnyModel model =
      open_any_model(files, clock, {options.model, options.vocabulary, Task::QuestionAnswering});
  AskedQuestion asked;
  asked.notes = model.notes;
  const tasks::TaskText text =
      text_for(model, options.choices, threads_of(options.use), &asked.notes);
  tasks::QuestionSet questions;
  questions.contexts.push_back(options.context);
  questions.questions.push_back({"question", options.question, 0, {}, false});
  tell_cut_questions(questions, text, &asked.notes);
  asked.may_be_null = !options.choices.always_answered;
  const auto set = tasks::judged_questions(std::move(questions), text, asked.may_be_null);
  ModelOnDevice answering(model, options.use);
  const tasks::QuestionAnswers answers = set->answers(answering.logits(set->samples())).front();
  asked.model = model.name;
  asked.device = answering.device();
  asked.question = options.question;
  asked.windows = set->samples().size();
  asked.answer = answers.prediction;
  asked.null_odds = answers.null_odds;
  asked.null_threshold = text.questions.null_threshold;
  const auto count =
      std::min(answers.answers.size(), static_cast<std::size_t>(std::max(options.best, 1)));
  for (std::size_t i = 0; i < count; ++i) {
    asked.best.push_back(told(answers.answers[i], options.context));
  }
  return asked;
}

std::string to_text(const FilledText& filled) {
  std::string text = tried_notes(filled.notes);
  text += tried_line("model", filled.model) + tried_line("device", filled.device) +
          tried_line("text", filled.text);
  for (std::size_t i = 0; i < filled.masks.size(); ++i) {
    text += "mask " + std::to_string(i + 1) + " of " + std::to_string(filled.masks.size()) + "\n";
    for (const MaskGuess& guess : filled.masks[i].best) {
      text += base::formatted("  %.6f  ", guess.probability) + base::printable(guess.piece) + "\n";
    }
  }
  return text;
}

std::string to_json(const FilledText& filled) {
  nlohmann::ordered_json json{
      {"model", filled.model}, {"device", filled.device}, {"text", filled.text}};
  json["masks"] = nlohmann::ordered_json::array();
  for (const FilledMask& mask : filled.masks) {
    nlohmann::ordered_json best = nlohmann::ordered_json::array();
    for (const MaskGuess& guess : mask.best) {
      best.push_back(nlohmann::ordered_json{
          {"piece", guess.piece}, {"id", guess.id}, {"probability", guess.probability}});
    }
    json["masks"].push_back(
        nlohmann::ordered_json{{"token", mask.token}, {"best", std::move(best)}});
  }
  json["notes"] = filled.notes;
  return base::json_text(json) + "\n";
}

std::string to_text(const AskedQuestion& asked) {
  std::string text = tried_notes(asked.notes);
  text += tried_line("model", asked.model) + tried_line("device", asked.device) +
          tried_line("question", asked.question) +
          tried_line("windows", std::to_string(asked.windows)) +
          tried_line("answer", asked.answer.empty() ? "(no answer)" : asked.answer);
  if (asked.may_be_null) {
    text +=
        tried_line("null odds", base::formatted("%.6f (no answer above %s)", asked.null_odds,
                                                base::short_number(asked.null_threshold).c_str()));
  }
  text += "probability  characters  answer\n";
  for (const AskedAnswer& one : asked.best) {
    const std::string place =
        one.text.empty() ? "-" : std::to_string(one.begin) + "-" + std::to_string(one.end);
    text += base::formatted("%11.6f  %-10s  ", one.probability, place.c_str()) +
            (one.text.empty() ? "(no answer)" : base::printable(one.text)) + "\n";
  }
  return text;
}

std::string to_json(const AskedQuestion& asked) {
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
  };
  nlohmann::ordered_json json{{"model", asked.model},
                              {"device", asked.device},
                              {"question", asked.question},
                              {"windows", asked.windows},
                              {"answer", text_or_null(asked.answer)}};
  if (asked.may_be_null) {
    json["null_odds"] = asked.null_odds;
    json["null_threshold"] = asked.null_threshold;
  }
  json["best"] = nlohmann::ordered_json::array();
  for (const AskedAnswer& one : asked.best) {
    nlohmann::ordered_json each{{"text", text_or_null(one.text)}, {"probability", one.probability}};
    if (!one.text.empty()) {
      each["begin"] = one.begin;
      each["end"] = one.end;
    }
    json["best"].push_back(std::move(each));
  }
  json["notes"] = asked.notes;
  return base::json_text(json) + "\n";
}

}  // namespace regatta::trainer::interchange
