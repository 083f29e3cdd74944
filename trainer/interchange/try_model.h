// A model tried on one text: masked words filled in (`regatta-train fill`), a question answered
// (`regatta-train answer`).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file_system.h"
#include "trainer/data/vocabulary.h"
#include "trainer/interchange/model_on_device.h"
#include "trainer/tasks/answers.h"

namespace regatta::trainer::interchange {

struct FillOptions {
  base::Path model;
  base::Path vocabulary;  // vocab.txt; empty: the model's own
  std::string text;       // UTF-8, with at least one [MASK]
  int best = 5;           // pieces told of each mask
  ModelUse use;
};

struct MaskGuess {
  data::TokenId id = 0;
  std::string piece;
  double probability = 0;  // softmax of the MLM head's logits over the whole vocabulary
};
struct FilledMask {
  std::int32_t token = 0;       // its place among the model's tokens; [CLS] is 0
  std::vector<MaskGuess> best;  // the most probable first, of equal ones the first of vocab.txt
};
struct FilledText {
  std::string model, device, text;
  std::vector<FilledMask> masks;   // in the order of the text
  std::vector<std::string> notes;  // one line each: what was cut, …
};

// [CLS] text [SEP] of segment 0, tokenized as the model's vocabulary is, with each "[MASK]" (in
// these letters, wherever it stands) kept as that token. Each mask is guessed with the others in
// place. Of a text beyond the model's length the end is cut, which is told. Throws what
// open_any_model does; Code::User for a text without a mask, with one in what is cut, blank, or no
// UTF-8.
[[nodiscard]] FilledText fill_masks(base::FileSystem& files, const base::Clock& clock,
                                    const FillOptions& options);

struct AskOptions {
  base::Path model;
  base::Path vocabulary;  // vocab.txt; empty: the model's own
  std::string question;   // UTF-8
  std::string context;    // UTF-8: the text that has the answer
  int best = 3;           // answers told
  QuestionChoices choices;
  ModelUse use;
};

struct AskedAnswer {
  std::string text;  // empty: no answer
  double probability = 0;
  // Characters of the context (code points, as SQuAD's answer_start counts), end not included; both
  // 0 without a text.
  std::size_t begin = 0, end = 0;
};
struct AskedQuestion {
  std::string model, device, question;
  std::size_t windows = 0;  // in which the text was read
  std::string answer;       // empty: no answer, by the null rule (answers.h)
  // Where a question may have no answer: it has none if null_odds is above null_threshold.
  bool may_be_null = true;
  double null_odds = 0, null_threshold = 0;
  std::vector<AskedAnswer> best;   // the most probable first
  std::vector<std::string> notes;  // one line each
};

// As JudgedSet has it of a file with this question alone: probabilities are over the n-best
// answers. Of a long question the end is cut, which is told; a long text is read in windows. Throws
// what open_any_model and judged_questions do; Code::User for a question or text that is blank, too
// long (64 KiB and 1 MiB, as in files) or no UTF-8.
[[nodiscard]] AskedQuestion ask(base::FileSystem& files, const base::Clock& clock,
                                const AskOptions& options);

// For people; and one JSON object, one line.
[[nodiscard]] std::string to_text(const FilledText& filled);
[[nodiscard]] std::string to_json(const FilledText& filled);
[[nodiscard]] std::string to_text(const AskedQuestion& asked);
[[nodiscard]] std::string to_json(const AskedQuestion& asked);

}  // namespace regatta::trainer::interchange
