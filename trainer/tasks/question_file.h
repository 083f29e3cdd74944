// Files of questions as SQuAD 1.1 and 2.0 have them (rajpurkar.github.io/SQuAD-explorer):
//
//   {"version": "v2.0", "data": [{"paragraphs": [{"context": "…", "qas": [{"id": "…",
//     "question": "…", "is_impossible": false, "answers": [{"text": "…", "answer_start":
//     159}]}]}]}]}
//
// `answer_start` counts code points of the context. What else a file holds is passed over, as are
// the plausible_answers of a question without one.
#pragma once

#include <string>
#include <string_view>

#include "base/file_system.h"
#include "trainer/tasks/question.h"

namespace regatta::trainer::tasks {

// Training needs an answer to each question that is not marked `is_impossible`; for Prediction
// `answers` and `is_impossible` may be absent.
enum class QuestionUse { Training, Prediction };

// Throws one Code::User that names `source`, the place ("data[3].paragraphs[0].qas[7]") and the
// question's id, for what is not a text of this format: no JSON or too deep, fields that are absent
// or of another type, no question at all, a blank context, question or answer, a context above
// 1 MiB or a question above 64 KiB of UTF-8, a duplicate id, an answer whose text is not at its
// answer_start, an impossible question with answers. A byte order mark at the start is dropped.
// Every begin is a byte, and every answer's text is in its context there.
[[nodiscard]] QuestionSet parse_questions(std::string_view text, const std::string& source,
                                          QuestionUse use);

// The same of a file of at most 2 GiB.
[[nodiscard]] QuestionSet read_question_file(const base::Path& path, QuestionUse use,
                                             base::FileSystem& files);

}  // namespace regatta::trainer::tasks
