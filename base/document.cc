#include "base/document.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/text.h"

namespace regatta::base {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 20U;
constexpr int kMaxDepth = 32;
constexpr std::size_t kMaxNodes = 200'000;  // counted through aliases, which can multiply
constexpr std::size_t kMaxShown = 80;       // bytes of a wrong value in a message

std::string json_of(const std::string& text) { return text; }  // of what is JSON already
std::string json_of(bool value) { return value ? "true" : "false"; }
std::string json_of(std::int64_t value) { return std::to_string(value); }
std::string json_of(std::uint64_t value) { return std::to_string(value); }
// The shortest that is read as this number again; empty where JSON has none.
std::string json_of(double value) {
  if (!std::isfinite(value)) return "";
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof text, value);
  return error == std::errc{} ? std::string(text, end) : std::string();
}

std::string place(const std::string& source, const YAML::Mark& mark) {
  return mark.is_null() ? source : source + ":" + std::to_string(mark.line + 1);
}

// Rejects what would be ambiguous or endless: duplicate keys, odd keys, deep nesting, aliases of
// aliases. `nodes` counts what was seen; `path` is where the node is: "model." or empty.
void validate(const YAML::Node& node, const std::string& source, const std::string& path, int depth,
              std::size_t* nodes) {
  if (++*nodes > kMaxNodes) {
    throw Error(Code::User,
                source + ": holds more than " + std::to_string(kMaxNodes) + " values; shorten it");
  }
  if (depth > kMaxDepth) {
    throw Error(Code::User, place(source, node.Mark()) + ": nested deeper than " +
                                std::to_string(kMaxDepth) + " levels");
  }
  if (node.IsMap()) {
    std::set<std::string> seen;
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) {
        throw Error(Code::User, place(source, entry.first.Mark()) + ": a key must be a word");
      }
      const std::string key = printable(entry.first.Scalar().substr(0, kMaxShown));
      if (!seen.insert(entry.first.Scalar()).second) {
        throw Error(
            Code::User,
            place(source, entry.first.Mark()) + ": the key " + key + " stands twice; remove one",
            path + key);
      }
      validate(entry.second, source, path + key + ".", depth + 1, nodes);
    }
  } else if (node.IsSequence()) {
    std::size_t index = 0;
    const std::string list = path.substr(0, path.size() - (path.empty() ? 0 : 1));
    for (const auto& item : node) {
      validate(item, source, list + "[" + std::to_string(index++) + "].", depth + 1, nodes);
    }
  }
}

// Whether the bytes are UTF-8 without NUL. Otherwise the parser would guess at other encodings, and
// replace what it cannot read.
bool is_text(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size()) {
    const auto lead = static_cast<unsigned char>(text[i++]);
    if (lead == 0 || (lead >= 0x80 && lead < 0xC2) || lead > 0xF4) return false;
    const int following = lead < 0x80 ? 0 : lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
    for (int j = 0; j < following; ++j) {
      if (i == text.size()) return false;
      const auto next = static_cast<unsigned char>(text[i++]);
      if (next < 0x80 || next > 0xBF) return false;
      const bool overlong = (lead == 0xE0 && next < 0xA0) || (lead == 0xF0 && next < 0x90);
      const bool beyond = (lead == 0xED && next > 0x9F) || (lead == 0xF4 && next > 0x8F);
      if (j == 0 && (overlong || beyond)) return false;
    }
  }
  return true;
}

class IgnoredEvents final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

// Whether anything follows the first document. YAML::Load would ignore it, and YAML::LoadAll never
// ends on some texts ("," is one).
bool goes_on(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  IgnoredEvents ignored;
  return parser.HandleNextDocument(ignored) && parser.HandleNextDocument(ignored);
}

}  // namespace

struct Table::State {
  YAML::Node node;
  std::string source;
  std::string path;  // "model." or empty
  std::set<std::string> asked;
  std::span<const OtherName> other_names;
  std::list<AskedKey>* told = nullptr;  // what is asked

  // Of a key, and of its value where it is absent, unless nobody wants to know.
  template <typename Value = std::string>
  AskedKey* tell(const std::string& key, AskedKey::Form form, const Value& absent = {}) {
    if (told == nullptr) return nullptr;
    const auto known = std::find_if(told->begin(), told->end(),
                                    [&](const AskedKey& each) { return each.name == key; });
    if (known != told->end()) return &*known;
    AskedKey& made = told->emplace_back();
    made.name = key;
    made.form = form;
    made.absent = json_of(absent);
    return &made;
  }

  // The key that was meant by an unknown one, as far as that can be guessed.
  [[nodiscard]] std::optional<std::string> meant_by(const std::string& unknown) const {
    std::string plain;
    for (const char c : unknown) {
      if (c != '_' && c != '-') plain += (c >= 'A' && c <= 'Z') ? static_cast<char>(c + 32) : c;
    }
    const auto other = std::find_if(other_names.begin(), other_names.end(),
                                    [&](const OtherName& each) { return each.name == plain; });
    if (other != other_names.end()) return std::string(other->key);
    return closest(unknown, {asked.begin(), asked.end()});
  }

  YAML::Node find(const std::string& key) {
    asked.insert(key);
    if (!node.IsMap()) return YAML::Node(YAML::NodeType::Undefined);
    const YAML::Node& fixed = node;
    YAML::Node value = fixed[key];
    if (!value.IsDefined() || value.IsNull()) return YAML::Node(YAML::NodeType::Undefined);
    return value;
  }

  // The mappings in a list, whose path in messages is `list_path`. told_items: gets what each is
  // asked for.
  [[nodiscard]] std::vector<Table> items(const YAML::Node& list, const std::string& list_path,
                                         std::list<AskedKey>* told_items = nullptr) const;

  [[noreturn]] void fail(const YAML::Node& at, const std::string& key,
                         const std::string& message) const {
    const std::string whole = path + printable(key.substr(0, kMaxShown));
    throw Error(Code::User, place(source, at.Mark()) + ": " + whole + ": " + message, whole);
  }

  // The plain text of a scalar, or nothing when the key is absent.
  std::optional<std::string> scalar(const std::string& key, const std::string& kind) {
    const YAML::Node value = find(key);
    if (!value.IsDefined()) return std::nullopt;
    if (!value.IsScalar()) fail(value, key, "expected " + kind);
    return value.Scalar();
  }

  [[noreturn]] void fail_value(const std::string& key, const std::string& text,
                               const std::string& kind) {
    fail(find(key), key,
         "expected " + kind + ", found '" + printable(text.substr(0, kMaxShown)) + "'");
  }
};

Table::Table(std::unique_ptr<State> state) : state_(std::move(state)) {}
Table::Table(Table&&) noexcept = default;
Table& Table::operator=(Table&&) noexcept = default;
Table::~Table() = default;

namespace {

// The checked document.
YAML::Node load(std::string_view text, const std::string& source) {
  if (text.size() > kMaxBytes) {
    throw Error(Code::User, source + ": larger than " + human_bytes(kMaxBytes));
  }
  if (!is_text(text)) {
    throw Error(Code::User, source + ": not a text in UTF-8; save it as one");
  }
  try {
    const std::string copy(text);
    if (goes_on(copy)) {
      throw Error(Code::User,
                  source + ": goes on after its first document; remove what follows it");
    }
    const YAML::Node node = YAML::Load(copy);
    std::size_t nodes = 0;
    validate(node, source, "", 0, &nodes);
    return node;
  } catch (const YAML::Exception& error) {
    throw Error(Code::User,
                place(source, error.mark) + ": not valid YAML or JSON: " + printable(error.msg));
  }
}

}  // namespace

Table Table::parse(std::string_view text, const std::string& source) {
  return parse(text, source, {});
}

Table Table::parse(std::string_view text, const std::string& source,
                   std::span<const OtherName> other_names, std::list<AskedKey>* asked) {
  auto state = std::make_unique<State>();
  state->told = asked;
  state->source = source;
  state->other_names = other_names;
  state->node = load(text, source);
  if (!state->node.IsMap()) {
    throw Error(Code::User, source + ": expected a mapping of keys to values at the top");
  }
  return Table(std::move(state));
}

std::vector<Table> Table::State::items(const YAML::Node& list, const std::string& list_path,
                                       std::list<AskedKey>* told_items) const {
  std::vector<Table> tables;
  for (const YAML::Node& item : list) {
    const std::string index = "[" + std::to_string(tables.size()) + "]";
    if (!item.IsMap()) {
      const std::string whole = list_path + index;
      throw Error(Code::User, place(source, item.Mark()) + ": " + whole + ": expected a mapping",
                  whole);
    }
    auto child = std::make_unique<State>();
    child->source = source;
    child->path = list_path + index + ".";
    child->other_names = other_names;
    child->node = item;
    child->told = told_items;
    tables.push_back(Table(std::move(child)));
  }
  return tables;
}

std::vector<Table> Table::parse_list(std::string_view text, const std::string& source) {
  State state;
  state.source = source;
  state.node = load(text, source);
  if (!state.node.IsSequence()) {
    throw Error(Code::User, source + ": expected a list at the top");
  }
  return state.items(state.node, "");
}

bool Table::has(const std::string& key) const {
  const YAML::Node& node = state_->node;
  return node.IsMap() && node[key].IsDefined();
}

std::vector<std::string> Table::keys() const {
  std::vector<std::string> names;
  if (!state_->node.IsMap()) return names;
  for (const auto& entry : state_->node) names.push_back(entry.first.Scalar());
  return names;
}

void Table::read(const std::string& key, bool* value) {
  state_->tell(key, AskedKey::Form::Flag, *value);
  const auto text = state_->scalar(key, "true or false");
  if (!text) return;
  if (*text != "true" && *text != "false") state_->fail_value(key, *text, "true or false");
  *value = *text == "true";
}

void Table::read(const std::string& key, std::int64_t* value) {
  state_->tell(key, AskedKey::Form::Whole, *value);
  const auto text = state_->scalar(key, "a whole number");
  if (!text) return;
  const auto number = parse_integer(*text);
  if (!number) state_->fail_value(key, *text, "a whole number");
  *value = *number;
}

void Table::read(const std::string& key, int* value) {
  std::int64_t wide = *value;
  read(key, &wide);
  if (wide < INT32_MIN || wide > INT32_MAX) {
    state_->fail_value(key, std::to_string(wide), "a whole number of at most 31 bits");
  }
  *value = static_cast<int>(wide);
}

void Table::read(const std::string& key, std::uint64_t* value) {
  if (AskedKey* const told = state_->tell(key, AskedKey::Form::Whole, *value)) {
    told->low = 0;
  }
  constexpr const char* kKind = "a whole number of 0 to 2^64 - 1";
  const auto text = state_->scalar(key, kKind);
  if (!text) return;
  std::uint64_t number = 0;
  const char* const last = text->data() + text->size();
  const auto [end, error] = std::from_chars(text->data(), last, number);
  if (error != std::errc{} || end != last) state_->fail_value(key, *text, kKind);
  *value = number;
}

void Table::read(const std::string& key, double* value) {
  state_->tell(key, AskedKey::Form::Number, *value);
  const auto text = state_->scalar(key, "a number");
  if (!text) return;
  const auto number = parse_number(*text);
  if (!number || !std::isfinite(*number)) state_->fail_value(key, *text, "a number");
  *value = *number;
}

void Table::read(const std::string& key, std::optional<double>* value) {
  state_->tell(key, AskedKey::Form::Number);
  double number = 0;
  read(key, &number);
  if (has(key) && state_->find(key).IsDefined()) *value = number;
}

void Table::read(const std::string& key, std::string* value) {
  state_->tell(key, AskedKey::Form::Text);
  const auto text = state_->scalar(key, "text");
  if (text) *value = *text;
}

void Table::read(const std::string& key, std::vector<std::string>* value) {
  state_->tell(key, AskedKey::Form::Texts);
  const YAML::Node node = state_->find(key);
  if (!node.IsDefined()) return;
  if (node.IsScalar()) {
    *value = {node.Scalar()};
    return;
  }
  if (!node.IsSequence()) state_->fail(node, key, "expected a list of texts");
  value->clear();
  for (const auto& item : node) {
    if (!item.IsScalar()) state_->fail(item, key, "expected a list of texts");
    value->push_back(item.Scalar());
  }
}

void Table::read_choice(const std::string& key, const std::vector<std::string>& names, int* value) {
  if (AskedKey* const told = state_->tell(key, AskedKey::Form::Choice)) {
    told->choices = names;
    told->absent = "\"" + names.at(static_cast<std::size_t>(*value)) + "\"";
  }
  const auto text = state_->scalar(key, "one of " + join(names, ", "));
  if (!text) return;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == *text) {
      *value = static_cast<int>(i);
      return;
    }
  }
  state_->fail_value(key, *text, "one of " + join(names, ", "));
}

void Table::note_range(const std::string& key, double low, double high, bool low_is_out,
                       bool high_is_out) {
  AskedKey* const told = state_->tell(key, AskedKey::Form::Number);
  if (told == nullptr) return;
  told->low = low;
  told->high = high;
  told->low_is_out = low_is_out;
  told->high_is_out = high_is_out;
}

Table Table::table(const std::string& key) {
  const YAML::Node value = state_->find(key);
  auto child = std::make_unique<State>();
  AskedKey* const told = state_->tell(key, AskedKey::Form::Mapping);
  child->told = told == nullptr ? nullptr : &told->below;
  child->source = state_->source;
  child->path = state_->path + key + ".";
  child->other_names = state_->other_names;
  if (value.IsDefined()) {
    if (!value.IsMap()) state_->fail(value, key, "expected a mapping");
    child->node = value;
  } else {
    child->node = YAML::Node(YAML::NodeType::Map);
  }
  return Table(std::move(child));
}

bool Table::is_table(const std::string& key) const {
  const YAML::Node& node = state_->node;
  return node.IsMap() && node[key].IsDefined() && node[key].IsMap();
}

bool Table::is_list(const std::string& key) const {
  const YAML::Node& node = state_->node;
  return node.IsMap() && node[key].IsDefined() && node[key].IsSequence();
}

std::vector<Table> Table::tables(const std::string& key) {
  const YAML::Node value = state_->find(key);
  AskedKey* const told = state_->tell(key, AskedKey::Form::Mappings);
  if (!value.IsDefined()) return {};
  if (!value.IsSequence()) state_->fail(value, key, "expected a list of mappings");
  return state_->items(value, state_->path + key, told == nullptr ? nullptr : &told->below);
}

int Table::line(const std::string& key) const {
  const YAML::Node& node = state_->node;
  const bool present = node.IsMap() && node[key].IsDefined();
  const YAML::Mark mark = present ? node[key].Mark() : node.Mark();
  return mark.is_null() ? 0 : mark.line + 1;
}

void Table::finish() const {
  if (!state_->node.IsMap()) return;
  for (const auto& entry : state_->node) {
    const std::string name = entry.first.Scalar();
    if (state_->asked.count(name) != 0) continue;
    const auto guess = state_->meant_by(name);
    state_->fail(entry.first, printable(name.substr(0, kMaxShown)),
                 guess ? "unknown key; did you mean '" + *guess + "'?"
                       : "unknown key; remove it (known here: " +
                             join({state_->asked.begin(), state_->asked.end()}, ", ") + ")");
  }
}

void Table::fail(const std::string& key, const std::string& message) const {
  const YAML::Node& node = state_->node;
  const bool present = node.IsMap() && node[key].IsDefined();
  state_->fail(present ? node[key] : node, key, message);
}

}  // namespace regatta::base
