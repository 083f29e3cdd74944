#include "trainer/interchange/declared_tokenizer.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "trainer/data/dataset_format.h"
#include "trainer/data/vocabulary.h"
#include "trainer/interchange/hugging_face.h"

namespace regatta::trainer::interchange {
namespace {

using base::Code;
using base::Error;
using base::Path;
using TokenizerJson =
    nlohmann::json;  // a vocabulary in an ordered one takes the square of its pieces

constexpr std::uint64_t kLargestFile = std::uint64_t{64} << 20U;
constexpr std::uint64_t kLargestConfig = std::uint64_t{16} << 20U;
constexpr int kDeepest = 32;
constexpr std::size_t kMostPieces = std::size_t{1} << 20U;  // as of a vocab.txt
constexpr std::size_t kShownText = 40;                      // bytes of a value in a message
constexpr const char* kBertPieces[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
// Keys of tokenizer_config.json.
constexpr std::pair<const char*, const char*> kRoles[] = {{"unk_token", "unknown"},
                                                          {"cls_token", "classify"},
                                                          {"sep_token", "separator"},
                                                          {"pad_token", "pad"},
                                                          {"mask_token", "mask"}};

[[nodiscard]] std::string in_quotes(std::string_view text) {
  const bool is_cut = text.size() > kShownText;
  return "'" + base::printable(text.substr(0, kShownText)) + (is_cut ? "…'" : "'");
}

// One file of JSON, of which every fault names file and key.
class Reader {
 public:
  Reader(base::FileSystem& files, const Path& path, std::uint64_t limit)
      : source_(base::printable(path.string())), text_(read(files, path, limit)) {
    // The parser takes a NUL byte for the end of its input.
    const bool sound =
        text_.find('\0') == std::string::npos && base::json_depth_at_most(text_, kDeepest);
    if (!sound) fail("nests deeper than 32 levels, or has NUL bytes; no tokenizer does");
    json_ = base::parse_json<TokenizerJson>(text_);
    if (!json_.is_object()) fail("is not a JSON object; copy the file again");
    text_.clear();
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(Code::User, source_ + ": " + what);
  }
  [[nodiscard]] const TokenizerJson& json() const { return json_; }
  [[nodiscard]] const std::string& source() const { return source_; }

  // Null is as good as absent, as in Python's files.
  [[nodiscard]] static const TokenizerJson* find(const TokenizerJson& object, const char* key) {
    const auto it = object.find(key);
    return it == object.end() || it->is_null() ? nullptr : &*it;
  }
  [[nodiscard]] std::optional<bool> flag(const TokenizerJson& object, const char* key) const {
    const TokenizerJson* const value = find(object, key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_boolean()) fail_kind(key, *value, "true or false");
    return value->get<bool>();
  }
  [[nodiscard]] std::optional<std::string> text(const TokenizerJson& object,
                                                const char* key) const {
    const TokenizerJson* const value = find(object, key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_string()) fail_kind(key, *value, "text");
    return value->get<std::string>();
  }
  [[noreturn]] void fail_kind(const std::string& key, const TokenizerJson& value,
                              const std::string& wanted) const {
    fail(key + " is " + in_quotes(base::json_text(value)) + ", not " + wanted);
  }

 private:
  [[nodiscard]] static std::string read(base::FileSystem& files, const Path& path,
                                        std::uint64_t limit) {
    // Its size first: a file of any size is not read to find that out.
    if (files.size(path) > limit) {
      throw Error(Code::User, base::printable(path.string()) + " is larger than " +
                                  base::human_bytes(limit) + ", and no tokenizer is");
    }
    return files.read(path, limit);
  }

  std::string source_, text_;
  TokenizerJson json_;
};

void note_unknown_keys(const TokenizerJson& object, const std::string& place,
                       std::initializer_list<std::string_view> known, DeclaredTokenizer* declared) {
  for (const auto& item : object.items()) {
    if (std::find(known.begin(), known.end(), item.key()) != known.end()) continue;
    declared->not_followed.push_back(place + " has a key " + in_quotes(item.key()));
    return;  // one is enough
  }
}

// --- tokenizer.json ---

class TokenizerReader {
 public:
  TokenizerReader(base::FileSystem& files, const Path& path) : file_(files, path, kLargestFile) {
    declared_.file = file_.source();
    const TokenizerJson& json = file_.json();
    read_model(object(json, "model"));
    read_normalizer(json);
    read_pre_tokenizer(json);
    read_added(json);
    read_post_processor(json);
    // Lengths and how tokens become text again are no matter of the tokens of a text.
    note_unknown_keys(json, "the file",
                      {"version", "truncation", "padding", "added_tokens", "normalizer",
                       "pre_tokenizer", "post_processor", "decoder", "model"},
                      &declared_);
  }
  [[nodiscard]] DeclaredTokenizer take() { return std::move(declared_); }

 private:
  void not_followed(const std::string& what) { declared_.not_followed.push_back(what); }

  [[nodiscard]] const TokenizerJson& object(const TokenizerJson& json, const char* key) const {
    const TokenizerJson* const value = Reader::find(json, key);
    if (value == nullptr) {
      file_.fail(std::string("has no ") + key + "; a tokenizer.json of Hugging Face has one");
    }
    if (!value->is_object()) file_.fail_kind(key, *value, "an object");
    return *value;
  }
  [[nodiscard]] std::string type_of(const TokenizerJson& json, const char* key) const {
    const auto type = file_.text(json, "type");
    if (!type) file_.fail(std::string(key) + " has no type; copy the file again");
    return *type;
  }

  // Older files do not tell the type of their model: then the keys do.
  void read_model(const TokenizerJson& model) {
    const auto type = file_.text(model, "type");
    const bool is_word_piece =
        type ? *type == "WordPiece"
             : model.contains("max_input_chars_per_word") && !model.contains("merges");
    if (!is_word_piece) {
      not_followed(type ? "a model of type " + in_quotes(*type) +
                              ", where the dataset's is WordPiece"
                        : "a model that does not tell its type");
      return;
    }
    note_unknown_keys(
        model, "model",
        {"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"},
        &declared_);
    declared_.continuing_prefix = file_.text(model, "continuing_subword_prefix").value_or("##");
    declared_.special.emplace_back("unknown", file_.text(model, "unk_token").value_or("[UNK]"));
    declared_.word_limit = 100;
    if (const TokenizerJson* const limit = Reader::find(model, "max_input_chars_per_word")) {
      if (!limit->is_number_unsigned()) {
        file_.fail_kind("max_input_chars_per_word", *limit, "a whole number");
      }
      constexpr std::uint64_t kMost = 1U << 30U;  // of any word
      declared_.word_limit = static_cast<int>(std::min(limit->get<std::uint64_t>(), kMost));
    }
    const TokenizerJson& vocabulary = object(model, "vocab");
    for (const auto& item : vocabulary.items()) add_piece(item.key(), item.value());
  }

  void add_piece(const std::string& piece, const TokenizerJson& id) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= kMostPieces) {
      file_.fail("piece " + in_quotes(piece) + " has the id " + in_quotes(base::json_text(id)) +
                 "; ids go from 0 to " + std::to_string(kMostPieces - 1));
    }
    const auto at = id.get<std::size_t>();
    if (declared_.pieces.size() <= at) declared_.pieces.resize(at + 1);
    std::string& there = declared_.pieces[at];
    if (!there.empty() && there != piece) {
      file_.fail("id " + std::to_string(at) + " is of two pieces, " + in_quotes(there) + " and " +
                 in_quotes(piece));
    }
    there = piece;
  }

  // The one element of a Sequence of one.
  [[nodiscard]] static const TokenizerJson* only_of(const TokenizerJson& json, const char* list) {
    const auto found = json.find(list);
    if (found == json.end() || !found->is_array() || found->size() != 1) return nullptr;
    return found->front().is_object() ? &found->front() : nullptr;
  }

  void read_normalizer(const TokenizerJson& json) {
    if (Reader::find(json, "normalizer") == nullptr) {  // text stays as it is
      declared_.clean_text = declared_.handle_chinese_chars = false;
      declared_.lowercase = declared_.strip_accents = false;
      return;
    }
    const TokenizerJson* normalizer = &object(json, "normalizer");
    std::string type = type_of(*normalizer, "normalizer");
    if (type == "Sequence") {
      if (const TokenizerJson* const only = only_of(*normalizer, "normalizers")) {
        normalizer = only;
        type = type_of(*only, "normalizer");
      }
    }
    if (type != "BertNormalizer") return not_followed("a normalizer of type " + in_quotes(type));
    note_unknown_keys(*normalizer, "normalizer",
                      {"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"},
                      &declared_);
    declared_.clean_text = file_.flag(*normalizer, "clean_text").value_or(true);
    declared_.handle_chinese_chars = file_.flag(*normalizer, "handle_chinese_chars").value_or(true);
    declared_.lowercase = file_.flag(*normalizer, "lowercase").value_or(true);
    declared_.strip_accents =
        file_.flag(*normalizer, "strip_accents").value_or(*declared_.lowercase);
  }

  void read_pre_tokenizer(const TokenizerJson& json) {
    if (Reader::find(json, "pre_tokenizer") == nullptr) {
      return not_followed("no pre_tokenizer, where the dataset's splits at punctuation");
    }
    const TokenizerJson* splitter = &object(json, "pre_tokenizer");
    std::string type = type_of(*splitter, "pre_tokenizer");
    if (type == "Sequence") {
      if (const TokenizerJson* const only = only_of(*splitter, "pretokenizers")) {
        splitter = only;
        type = type_of(*only, "pre_tokenizer");
      }
    }
    if (type != "BertPreTokenizer")
      return not_followed("a pre_tokenizer of type " + in_quotes(type));
    note_unknown_keys(*splitter, "pre_tokenizer", {"type"}, &declared_);
  }

  // They are in the vocabulary, too, if the model has them.
  void read_added(const TokenizerJson& json) {
    const TokenizerJson* const list = Reader::find(json, "added_tokens");
    if (list == nullptr) return;
    if (!list->is_array()) file_.fail_kind("added_tokens", *list, "a list");
    for (const TokenizerJson& token : *list) {
      if (!token.is_object()) file_.fail_kind("added_tokens", token, "a list of objects");
      const auto content = file_.text(token, "content");
      const TokenizerJson* const id = Reader::find(token, "id");
      if (!content || id == nullptr) file_.fail("an added token has no content, or no id");
      const bool has_pieces = declared_.continuing_prefix.has_value();
      if (has_pieces) add_piece(*content, *id);
      if (std::find(std::begin(kBertPieces), std::end(kBertPieces), *content) !=
          std::end(kBertPieces)) {
        continue;
      }
      declared_.added.push_back(*content);
    }
  }

  // [CLS] A [SEP] is what this trainer puts around a text, too.
  void read_post_processor(const TokenizerJson& json) {
    if (Reader::find(json, "post_processor") == nullptr) return;
    const TokenizerJson& processor = object(json, "post_processor");
    const std::string type = type_of(processor, "post_processor");
    std::vector<std::string> around;
    if (type == "BertProcessing") {
      for (const char* key : {"cls", "sep"}) around.push_back(first_of_pair(processor, key));
    } else if (type == "TemplateProcessing") {
      around = special_of_single(processor);
    }
    if (around.size() != 2) {
      return not_followed("a post_processor of type " + in_quotes(type) +
                          " that puts other things around a text than [CLS] and [SEP]");
    }
    declared_.special.emplace_back("classify", around.front());
    declared_.special.emplace_back("separator", around.back());
  }

  // Of ["[CLS]", 101].
  [[nodiscard]] static std::string first_of_pair(const TokenizerJson& json, const char* key) {
    const auto pair = json.find(key);
    const bool is_pair = pair != json.end() && pair->is_array() && pair->size() == 2;
    return is_pair && pair->front().is_string() ? pair->front().get<std::string>() : "";
  }
  // Of the template of one text: what stands before and behind it; nothing where it is otherwise.
  [[nodiscard]] static std::vector<std::string> special_of_single(const TokenizerJson& json) {
    const auto single = json.find("single");
    if (single == json.end() || !single->is_array() || single->size() != 3) return {};
    std::vector<std::string> around;
    for (std::size_t i = 0; i < single->size(); ++i) {
      const TokenizerJson& part = (*single)[i];
      const char* const kind = i == 1 ? "Sequence" : "SpecialToken";
      if (!part.is_object() || !part.contains(kind) || !part.at(kind).is_object()) return {};
      const auto id = part.at(kind).find("id");
      if (id == part.at(kind).end() || !id->is_string()) return {};
      if (i != 1) around.push_back(id->get<std::string>());
    }
    return around;
  }

  Reader file_;
  DeclaredTokenizer declared_;
};

// --- tokenizer_config.json ---

// A piece is named by its text, or by an object that has it as content.
std::optional<std::string> piece_of(const Reader& file, const char* key) {
  const TokenizerJson* const value = Reader::find(file.json(), key);
  if (value == nullptr) return std::nullopt;
  return value->is_object() ? file.text(*value, "content") : file.text(file.json(), key);
}

template <typename Value>
void agree(const char* key, const Value& here, const char* other_key, std::optional<Value>* there,
           DeclaredTokenizer* declared) {
  if (*there && **there != here) {
    declared->not_followed.push_back("files that differ: " + std::string(key) + " of " +
                                     kTokenizerConfigFile + " and " + other_key + " of " +
                                     kTokenizerFile);
  }
  *there = here;
}

// Whoever loads the directory obeys both files.
void add_config(base::FileSystem& files, const Path& path, DeclaredTokenizer* declared) {
  if (!files.exists(path)) return;
  const Reader file(files, path, kLargestConfig);
  const TokenizerJson& json = file.json();
  if (const auto value = file.flag(json, "do_lower_case")) {
    agree("do_lower_case", *value, "lowercase", &declared->lowercase, declared);
  }
  if (const auto value = file.flag(json, "tokenize_chinese_chars")) {
    agree("tokenize_chinese_chars", *value, "handle_chinese_chars", &declared->handle_chinese_chars,
          declared);
  }
  auto accents = file.flag(json, "strip_accents");
  if (!accents && json.contains("strip_accents")) accents = declared->lowercase;  // null
  if (accents)
    agree("strip_accents", *accents, "strip_accents", &declared->strip_accents, declared);
  if (!file.flag(json, "do_basic_tokenize").value_or(true)) {
    declared->not_followed.emplace_back("do_basic_tokenize: false");
  }
  const std::string kind = file.text(json, "tokenizer_class").value_or("BertTokenizer");
  if (!kind.starts_with("Bert")) {
    declared->not_followed.push_back("a tokenizer_class " + in_quotes(kind));
  }
  for (const auto& [key, role] : kRoles) {
    if (const auto piece = piece_of(file, key)) declared->special.emplace_back(role, *piece);
  }
}

[[nodiscard]] DeclaredTokenizer read_vocabulary(base::FileSystem& files, const Path& path) {
  DeclaredTokenizer declared;
  declared.file = base::printable(path.string());
  declared.pieces = data::Vocabulary::load(path, files).pieces();
  add_config(files, path.parent_path() / kTokenizerConfigFile, &declared);
  return declared;
}

}  // namespace

DeclaredTokenizer read_tokenizer(base::FileSystem& files, const Path& path) {
  std::error_code unknown;
  if (!std::filesystem::is_directory(path, unknown)) {
    if (!files.exists(path)) {
      throw Error(Code::NotFound,
                  "no tokenizer at " + base::printable(path.string()) +
                      "; name a tokenizer.json, a vocab.txt, or a directory with one of them");
    }
    if (!std::filesystem::is_regular_file(path, unknown)) {
      throw Error(Code::User, base::printable(path.string()) +
                                  " is neither a regular file nor a directory; name a "
                                  "tokenizer.json or a vocab.txt");
    }
    return path.extension() == ".json" ? TokenizerReader(files, path).take()
                                       : read_vocabulary(files, path);
  }
  if (files.exists(path / kTokenizerFile)) {
    DeclaredTokenizer declared = TokenizerReader(files, path / kTokenizerFile).take();
    add_config(files, path / kTokenizerConfigFile, &declared);
    return declared;
  }
  if (files.exists(path / data::kVocabularyName)) {
    return read_vocabulary(files, path / data::kVocabularyName);
  }
  throw Error(Code::NotFound, base::printable(path.string()) +
                                  " has neither tokenizer.json nor vocab.txt; name a directory "
                                  "of a Hugging Face model, or one of these files");
}

}  // namespace regatta::trainer::interchange
