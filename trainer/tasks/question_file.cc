#include "trainer/tasks/question_file.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "trainer/data/unicode.h"

namespace regatta::trainer::tasks {
namespace {

namespace unicode = data::unicode;

// Code points of one text to its bytes.
class CodePointIndex {
 public:
  explicit CodePointIndex(std::string_view text) : size_(text.size()) {
    if (unicode::is_ascii(text)) return;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const bool begins = (static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U;
      if (begins) bytes_.push_back(static_cast<std::uint32_t>(i));
    }
  }
  [[nodiscard]] std::size_t size() const { return bytes_.empty() ? size_ : bytes_.size(); }
  // `code_point` below size().
  [[nodiscard]] std::size_t byte(std::size_t code_point) const {
    return bytes_.empty() ? code_point : bytes_[code_point];
  }

 private:
  std::size_t size_;
  std::vector<std::uint32_t> bytes_;  // where each code point begins; none: ASCII
};

class SquadReader {
 public:
  static constexpr std::uint64_t kMostFileBytes = std::uint64_t{2} << 30U;

  SquadReader(const std::string& source, QuestionUse use) : source_(source), use_(use) {}

  [[nodiscard]] QuestionSet read(std::string_view text);

 private:
  using Json = nlohmann::json;
  static constexpr int kMostDepth = 32;  // the format itself needs 9
  static constexpr std::size_t kMostContextBytes = std::size_t{1} << 20U;
  static constexpr std::size_t kMostQuestionBytes = std::size_t{64} << 10U;
  static constexpr std::size_t kMostIdBytes = 1024;
  static constexpr std::size_t kNoLimit = static_cast<std::size_t>(kMostFileBytes);

  struct Step {
    const char* list;
    std::size_t index;
  };
  using QuestionPlace = std::array<std::size_t, 3>;  // in data, paragraphs and qas

  // The beginning of `text`, quoted, on one line.
  [[nodiscard]] static std::string excerpt(std::string_view text);
  // Whether the tokenizer sees nothing in it.
  [[nodiscard]] static bool is_blank(std::string_view text);
  [[noreturn]] void fail(const std::string& what) const {
    throw base::Error(base::Code::User, source_ + ": " + what);
  }
  // `key` of the object that is being read; "": the object itself.
  [[noreturn]] void fail_at(const std::string& key, const std::string& what) const;
  [[nodiscard]] Json parse(std::string_view text) const;
  [[nodiscard]] const Json& list(const Json& object, const char* key) const;
  [[nodiscard]] const std::string& text(const Json& object, const char* key,
                                        std::size_t most_bytes) const;
  [[nodiscard]] bool flag(const Json& object, const char* key) const;
  // Calls read_one(object) for each object of a list of the object that is being read.
  template <typename ReadOne>
  void for_each(const Json& list, const char* name, ReadOne read_one);

  void read_paragraph(const Json& paragraph);
  void read_question(const Json& object, const CodePointIndex& code_points);
  void read_id(const Json& object);
  [[nodiscard]] GoldAnswer read_answer(const Json& object, const CodePointIndex& code_points) const;

  const std::string& source_;
  QuestionUse use_;
  QuestionSet set_;
  std::vector<Step> place_;
  std::string id_;  // of the question that is being read, once known
  std::unordered_map<std::string, QuestionPlace> ids_;
};

std::string SquadReader::excerpt(std::string_view text) {
  constexpr std::size_t kMostBytes = 40;
  const bool is_cut = text.size() > kMostBytes;
  std::size_t end = std::min(text.size(), kMostBytes);
  while (is_cut && end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return "'" + base::printable(text.substr(0, end)) + (is_cut ? "..." : "") + "'";
}

bool SquadReader::is_blank(std::string_view text) {
  const unicode::Characters& characters = unicode::Characters::instance();
  while (!text.empty()) {
    const unicode::Decoded next = unicode::decode(text);
    if (!characters.space(next.code_point) && !characters.removed(next.code_point)) return false;
    text.remove_prefix(next.length);
  }
  return true;
}

void SquadReader::fail_at(const std::string& key, const std::string& what) const {
  std::string place;
  for (const Step& step : place_) {
    place += (place.empty() ? "" : ".") + std::string(step.list) + "[" +
             std::to_string(step.index) + "]";
  }
  if (!key.empty()) place += (place.empty() ? "" : ".") + key;
  if (!id_.empty()) place += " (id " + excerpt(id_) + ")";
  fail(place + " " + what);
}

SquadReader::Json SquadReader::parse(std::string_view text) const {
  if (!base::json_depth_at_most(text, kMostDepth)) {
    fail("nests deeper than " + std::to_string(kMostDepth) +
         " levels, which no SQuAD file does; choose another file");
  }
  // The parser takes a NUL byte for the end of its input.
  const bool has_nul = text.find('\0') != std::string_view::npos;
  Json root = has_nul ? Json() : base::parse_json<Json>(text);
  if (!has_nul && !root.is_discarded()) return root;
  for (std::size_t i = 0; i < text.size();) {
    const unicode::Decoded next = unicode::decode(text.substr(i));
    if (!next.valid) {
      fail("not UTF-8 at byte " + std::to_string(i) + "; convert the file to UTF-8");
    }
    i += next.length;
  }
  fail("not JSON, or cut short (" + std::to_string(text.size()) + " bytes); copy the file again");
}

const SquadReader::Json& SquadReader::list(const Json& object, const char* key) const {
  const auto found = object.find(key);
  if (found == object.end()) {
    fail_at(key, "is missing; a SQuAD file has a list there");
  }
  if (!found->is_array()) fail_at(key, "is " + excerpt(base::json_text(*found)) + ", not a list");
  return *found;
}

const std::string& SquadReader::text(const Json& object, const char* key,
                                     std::size_t most_bytes) const {
  const auto found = object.find(key);
  if (found == object.end()) fail_at(key, "is missing; a SQuAD file has a text there");
  if (!found->is_string()) fail_at(key, "is " + excerpt(base::json_text(*found)) + ", not a text");
  const auto& text = found->get_ref<const std::string&>();
  if (text.size() > most_bytes) {
    fail_at(key, "has " + std::to_string(text.size()) + " bytes of UTF-8; at most " +
                     std::to_string(most_bytes) + " are taken: shorten it");
  }
  if (is_blank(text)) {
    fail_at(key, text.empty() ? "is empty; give it a text" : "is blank; give it a text");
  }
  return text;
}

bool SquadReader::flag(const Json& object, const char* key) const {
  const auto found = object.find(key);
  if (found == object.end()) return false;
  if (!found->is_boolean()) {
    fail_at(key, "is " + excerpt(base::json_text(*found)) + ", not true or false");
  }
  return found->get<bool>();
}

template <typename ReadOne>
void SquadReader::for_each(const Json& list, const char* name, ReadOne read_one) {
  place_.push_back({name, 0});
  for (const Json& object : list) {
    if (!object.is_object()) {
      fail_at("", "is " + excerpt(base::json_text(object)) + ", not an object");
    }
    read_one(object);
    ++place_.back().index;
  }
  place_.pop_back();
}

QuestionSet SquadReader::read(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const Json root = parse(text);
  if (!root.is_object()) {
    fail("is " + excerpt(base::json_text(root)) + ", not an object with `data`; name a SQuAD file");
  }
  const auto version = root.find("version");
  if (version != root.end()) {
    if (!version->is_string()) {
      fail_at("version", "is " + excerpt(base::json_text(*version)) + ", not a text");
    }
    set_.version = version->get<std::string>();
  }
  for_each(list(root, "data"), "data", [this](const Json& article) {
    for_each(list(article, "paragraphs"), "paragraphs",
             [this](const Json& paragraph) { read_paragraph(paragraph); });
  });
  if (set_.questions.empty()) fail("has no question; name a file with questions");
  return std::move(set_);
}

void SquadReader::read_paragraph(const Json& paragraph) {
  set_.contexts.push_back(text(paragraph, "context", kMostContextBytes));
  const CodePointIndex code_points(set_.contexts.back());
  for_each(list(paragraph, "qas"), "qas",
           [&](const Json& object) { read_question(object, code_points); });
}

void SquadReader::read_question(const Json& object, const CodePointIndex& code_points) {
  read_id(object);
  Question question;
  question.id = id_;
  question.text = text(object, "question", kMostQuestionBytes);
  question.context = set_.contexts.size() - 1;
  question.impossible = flag(object, "is_impossible");
  const bool needs_answer = use_ == QuestionUse::Training && !question.impossible;
  if (needs_answer || object.contains("answers")) {
    const Json& answers = list(object, "answers");
    if (question.impossible && !answers.empty()) {
      fail_at("answers", "is not empty, but is_impossible is true; drop one of the two");
    }
    for_each(answers, "answers", [&](const Json& answer) {
      question.answers.push_back(read_answer(answer, code_points));
    });
    if (needs_answer && answers.empty()) {
      fail_at("answers", "is empty, and training needs one; add it, or set is_impossible to true");
    }
  }
  set_.questions.push_back(std::move(question));
  id_.clear();
}

void SquadReader::read_id(const Json& object) {
  id_ = text(object, "id", kMostIdBytes);
  const QuestionPlace here{place_[0].index, place_[1].index, place_[2].index};
  const auto [known, is_new] = ids_.emplace(id_, here);
  if (is_new) return;
  const QuestionPlace& first = known->second;
  fail_at("id", "is a duplicate, of data[" + std::to_string(first[0]) + "].paragraphs[" +
                    std::to_string(first[1]) + "].qas[" + std::to_string(first[2]) +
                    "]; give every question an id of its own");
}

GoldAnswer SquadReader::read_answer(const Json& object, const CodePointIndex& code_points) const {
  const std::string& context = set_.contexts.back();
  GoldAnswer answer;
  answer.text = text(object, "text", kNoLimit);
  const auto found = object.find("answer_start");
  if (found == object.end()) fail_at("answer_start", "is missing; it is where the answer begins");
  const auto fail_start = [&](const std::string& what) {
    fail_at("answer_start", "is " + excerpt(base::json_text(*found)) + what);
  };
  if (!found->is_number_unsigned()) fail_start(", not a whole number of at least 0");
  const auto start = found->get<std::uint64_t>();
  if (start >= code_points.size()) {
    fail_start(", beyond the context of " + std::to_string(code_points.size()) +
               " characters; count its code points from 0");
  }
  answer.begin = code_points.byte(static_cast<std::size_t>(start));
  const std::string_view there = std::string_view(context).substr(answer.begin);
  if (!there.starts_with(answer.text)) {
    fail_start(", where " + excerpt(there) + " begins, not the answer " + excerpt(answer.text) +
               "; count code points of the context from 0");
  }
  return answer;
}

}  // namespace

QuestionSet parse_questions(std::string_view text, const std::string& source, QuestionUse use) {
  return SquadReader(source, use).read(text);
}

QuestionSet read_question_file(const base::Path& path, QuestionUse use, base::FileSystem& files) {
  const std::string source = base::printable(path.string());
  if (files.size(path) > SquadReader::kMostFileBytes) {
    throw base::Error(base::Code::User, source + ": larger than 2 GiB; split the file");
  }
  return parse_questions(files.read(path, SquadReader::kMostFileBytes), source, use);
}

}  // namespace regatta::trainer::tasks
