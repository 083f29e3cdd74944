// Questions about texts, and where in the text their answers stand: what a SQuAD file holds
// (Rajpurkar et al., arXiv 1606.05250 and 1806.03822).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace regatta::trainer::tasks {

struct GoldAnswer {
  std::string text;
  std::size_t begin = 0;  // byte of the context at which `text` stands
};
struct Question {
  std::string id;
  std::string text;
  std::size_t context = 0;          // index into QuestionSet::contexts
  std::vector<GoldAnswer> answers;  // none: it has no answer, or none is known
  bool impossible = false;          // the text has no answer (SQuAD 2.0)
};
// In the order of the file.
struct QuestionSet {
  std::string version;  // "1.1", "v2.0", whatever the file says; may be empty
  std::vector<std::string> contexts;
  std::vector<Question> questions;
};

}  // namespace regatta::trainer::tasks
