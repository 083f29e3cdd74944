#include "trainer/data/json_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "base/ascii.h"
#include "base/text.h"

namespace regatta::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct JsonTextCase {
  const char* name;
  std::string line;
  std::string document;  // empty: none
  std::int64_t invalid = 0;
};

TEST(JsonLines, GiveTheTextOfTheField) {
  const JsonTextCase cases[] = {
      {"alone", R"({"text":"the boat"})", "the boat"},
      {"spaces", " \t{ \"text\" : \"the boat\" } \r", "the boat"},
      {"behind others", R"({"id":1,"meta":{"text":"no"},"l":["text",{"text":"no"}],"text":"yes"})",
       "yes"},
      {"before others", R"({"text":"yes","a":[],"b":{},"c":[1,-0.5e+3,1E2,0,true,false,null]})",
       "yes"},
      {"the last of two", R"({"text":"one","text":"two"})", "two"},
      {"a text behind what is none", R"({"text":1,"text":"two"})", "two"},
      {"escaped name", R"({"te\u0078t":"yes"})", "yes"},
      {"escapes", R"({"text":"a\"b\\c\/d\be\tf\u0041\u00e9\u4e00"})",
       "a\"b\\c/d\be\tfA\u00E9\u4E00"},
      {"pair", R"({"text":"\ud83d\uDE00!"})", "\U0001F600!"},
      {"last pair", R"({"text":"\udbff\udfff"})", "\U0010FFFF"},
      {"high alone", R"({"text":"a\ud83db"})", "a\uFFFDb", 1},
      {"low alone", R"({"text":"a\ude00b"})", "a\uFFFDb", 1},
      {"wrong order", R"({"text":"\ude00\ud83d"})", "\uFFFD\uFFFD", 2},
      {"two high, one low", R"({"text":"\ud83d\ud83d\ude00"})", "\uFFFD\U0001F600", 1},
      {"high before another escape", R"({"text":"\ud83d\u0041\ud83d\n\ud83d"})",
       "\uFFFDA\uFFFD\n\uFFFD", 3},
      {"ill-formed UTF-8", "{\"text\":\"a\xFF\"}", "a\uFFFD", 1},
      {"ill-formed elsewhere", "{\"x\":\"a\xFF\",\"text\":\"b\"}", "b", 0},
      {"own line breaks", R"({"text":"one\ntwo\r\nthree"})", "one\ntwo\nthree"},
      {"blank lines within", R"({"text":"\n one \n\n \t\ntwo\n\n"})", "one\ntwo"},
      {"no text", R"({"text":""})", ""},
      {"white space", R"({"text":" \n\t"})", ""},
      {"NUL", R"({"text":"a\u0000b"})", std::string("a\0b", 3)},
  };
  for (const JsonTextCase& c : cases) {
    const data::BlockDocuments made = data::split_json_lines(c.line, "text");
    EXPECT_EQ(made.broken, 0) << c.name;
    EXPECT_EQ(made.invalid_sequences, c.invalid) << c.name;
    EXPECT_EQ(made.empty, c.document.empty() ? 1 : 0) << c.name;
    if (c.document.empty()) {
      EXPECT_TRUE(made.documents.empty()) << c.name;
    } else {
      EXPECT_THAT(made.documents, ElementsAre(c.document)) << c.name;
    }
  }
}

struct BrokenJsonCase {
  const char* name;
  std::string line;
  std::int64_t column;
  const char* what;
};

std::string nested(int depth) {  // levels, the object included
  std::string text = R"({"text":"a","x":)";
  for (int i = 1; i < depth; ++i) text += i % 2 == 1 ? "[" : R"({"y":)";
  text += "0";
  for (int i = depth - 1; i >= 1; --i) text += i % 2 == 1 ? "]" : "}";
  return text + "}";
}

TEST(JsonLines, NameWhatIsBroken) {
  const BrokenJsonCase cases[] = {
      {"prose", "the boat", 1, "not a JSON object"},
      {"a list", R"(["text"])", 1, "not a JSON object"},
      {"a text", R"( "text")", 2, "not a JSON object"},
      {"cut in a text", R"({"text":"the)", 13, "where the line ends"},
      {"cut behind a text", R"({"text":"the")", 14, "',' or '}' is expected where the line ends"},
      {"cut in an escape", R"({"text":"a\)", 11, "escape"},
      {"cut in a unit", R"({"text":"a\u00)", 11, "escape"},
      {"no such escape", R"({"text":"a\x"})", 11, "escape"},
      {"no hexadecimal", R"({"text":"\u00g0"})", 10, "escape"},
      {"second unit is none", R"({"text":"\ud83d\u12"})", 16, "escape"},
      {"control character", "{\"text\":\"a\tb\"}", 11, "control character"},
      {"no quotes", R"({text:"a"})", 2, "a name in quotes"},
      {"single quotes", R"({'text':"a"})", 2, "a name in quotes"},
      {"no colon", R"({"text" "a"})", 9, "':' is expected"},
      {"no comma", R"({"text":"a" "b":1})", 13, "',' or '}'"},
      {"comma at the end", R"({"text":"a",})", 13, "a name in quotes"},
      {"comma at the end of a list", R"({"text":"a","b":[1,]})", 20, "a value"},
      {"comma first", R"({,"text":"a"})", 2, "a name in quotes"},
      {"list of members", R"({"text":"a","b":["c":1]})", 21, "',' or ']'"},
      {"wrong bracket", R"({"text":"a","b":[1})", 19, "',' or ']'"},
      {"no value", R"({"text":})", 9, "a value"},
      {"NaN", R"({"text":"a","b":NaN})", 17, "a value"},
      {"leading zero", R"({"text":"a","b":01})", 18, "',' or '}'"},
      {"no digit", R"({"text":"a","b":-})", 18, "a digit"},
      {"no fraction", R"({"text":"a","b":1.})", 19, "a digit"},
      {"no exponent", R"({"text":"a","b":1e+})", 20, "a digit"},
      {"plus", R"({"text":"a","b":+1})", 17, "a value"},
      {"word cut", R"({"text":"a","b":tru})", 17, "a value"},
      {"two objects", R"({"text":"a"}{"text":"b"})", 13, "something stands behind"},
      {"comment", R"({"text":"a"} // b)", 14, "something stands behind"},
      {"another field", R"( {"content":"a","id":7})", 2,
       "no field 'text'; the line has 'content', 'id'"},
      {"empty object", "{}", 1, "no field 'text'"},
      {"many fields", R"({"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1})", 1, "'f', …"},
      {"null", R"({"text":null})", 9, "field 'text' is not a text"},
      {"number", R"({"text":12})", 9, "field 'text' is not a text"},
      {"list of texts", R"({"text":["a"]})", 9, "field 'text' is not a text"},
      {"no text in the end", R"({"text":"a","text":0})", 20, "field 'text' is not a text"},
      {"columns are characters", "{\"text\":\"\u00E9\u4E00\\q\"}", 12, "escape"},
      {"too deep", nested(65), static_cast<std::int64_t>(nested(65).find('0')) - 4,
       "nests deeper than 64"},
      {"far too deep", R"({"text":)" + std::string(100000, '['), 72, "nests deeper than 64"},
  };
  for (const BrokenJsonCase& c : cases) {
    const data::BlockDocuments made = data::split_json_lines(c.line + "\n", "text");
    EXPECT_EQ(made.broken, 1) << c.name;
    EXPECT_TRUE(made.documents.empty()) << c.name;
    ASSERT_TRUE(made.first_broken) << c.name;
    EXPECT_EQ(made.first_broken->line, 1) << c.name;
    EXPECT_EQ(made.first_broken->column, c.column) << c.name << ": " << made.first_broken->what;
    EXPECT_THAT(made.first_broken->what, HasSubstr(c.what)) << c.name;
  }
}

TEST(JsonLines, AreReadTo64Levels) {
  EXPECT_THAT(data::split_json_lines(nested(64), "text").documents, ElementsAre("a"));
  EXPECT_EQ(data::split_json_lines(nested(65), "text").broken, 1);
}

TEST(JsonLines, BlankLinesAreNothingAndLineEndsMayDiffer) {
  const data::BlockDocuments made = data::split_json_lines(
      "\n \t\r\n{\"text\":\"a\"}\r\n\n{\"text\":\"b\"}\nbroken\r\n\f\n{\"text\":\"c\"}", "text");
  EXPECT_THAT(made.documents, ElementsAre("a", "b", "c"));
  EXPECT_EQ(made.broken, 1);
  EXPECT_EQ(made.first_broken->line, 6);
  EXPECT_EQ(data::split_json_lines("", "text").documents.size(), 0U);
  EXPECT_THAT(data::split_json_lines("{\"a b\":\"x\"}", "a b").documents, ElementsAre("x"));
}

// Lines of JSON and of nearly JSON, with few names so that they repeat.
class RandomJson {
 public:
  explicit RandomJson(unsigned seed) : random_(seed) {}
  unsigned below(unsigned n) { return static_cast<unsigned>(random_() % n); }
  std::string object(int depth) {
    std::string text = "{" + space();
    for (unsigned i = 0, n = below(4); i < n; ++i) {
      const char* const names[] = {"text", "te\\u0078t", "id", "text ", "\\\"", ""};
      text += (i == 0 ? "\"" : ",\"") + std::string(names[below(6)]) + "\"" + space() + ":" +
              value(depth) + space();
    }
    return text + "}";
  }
  // One byte is another, too many or left out.
  std::string damaged(std::string text) {
    constexpr std::string_view kBytes = "{}[]\",:\\ u0-.tn\t/1";
    const std::size_t at = below(static_cast<unsigned>(text.size()));
    const char byte = kBytes[below(static_cast<unsigned>(kBytes.size()))];
    switch (below(3)) {
      case 0:
        text[at] = byte;
        break;
      case 1:
        text.insert(at, 1, byte);
        break;
      default:
        text.erase(at, 1);
    }
    return text;
  }

 private:
  std::string space() { return std::string(below(5) / 4, " \t\r"[below(3)]); }
  std::string value(int depth) {
    const unsigned kind = below(depth > 0 ? 8 : 6);
    const char* const plain[] = {"null", "true", "-0.25", "12"};
    if (kind < 2) return plain[below(4)];
    if (kind < 6) return string();
    if (kind == 6) return object(depth - 1);
    std::string list = "[" + space();
    for (unsigned i = 0, n = below(4); i < n; ++i) list += (i == 0 ? "" : ",") + value(depth - 1);
    return list + space() + "]";
  }
  std::string string() {
    const char* const parts[] = {"a",    " ",    "\\n",       "\\\\",   "\\\"",   "\u00E9",
                                 "\\t",  "\\/",  "\\u00e9",   "\u4E00", "\\r\\n", "\\ud83d\\ude00",
                                 "text", "{\\n", "\U0001F600"};
    std::string text = "\"";
    for (unsigned i = 0, n = below(6); i < n; ++i) text += parts[below(15)];
    return text + "\"";
  }
  std::mt19937 random_;
};

// As the library reads it; nothing where it does not.
std::optional<std::string> text_by_library(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("text") || !json["text"].is_string()) return std::nullopt;
  std::string document;
  for (const std::string& each : base::split(json["text"].get<std::string>(), '\n')) {
    const std::string_view trimmed = base::trimmed(each, " \t\r\f\v");
    if (!trimmed.empty()) document += (document.empty() ? "" : "\n") + std::string(trimmed);
  }
  return document;
}

TEST(JsonLines, AgreeWithTheLibraryOnRandomJson) {
  RandomJson random(41);
  int texts = 0, damaged = 0, broken = 0;
  for (int round = 0; round < 60000; ++round) {
    std::string line = random.object(3);
    // The library refuses ill-formed UTF-8 and lone surrogates, which are read here.
    if (random.below(2) == 0 && line.find("\\ud") == std::string::npos) {
      line = random.damaged(line);
      if (!base::is_utf8(line) || line.find("\\ud") != std::string::npos) continue;
      ++damaged;
    }
    const std::optional<std::string> expected = text_by_library(line);
    const data::BlockDocuments made = data::split_json_lines(line, "text");
    if (base::trimmed(line, " \t\r").empty()) continue;
    ASSERT_EQ(made.broken, expected ? 0 : 1) << line;
    ASSERT_EQ(made.documents.empty() ? "" : made.documents[0], expected.value_or("")) << line;
    ASSERT_EQ(made.invalid_sequences, 0) << line;
    ++(expected ? texts : broken);
  }
  EXPECT_GT(texts, 5000);
  EXPECT_GT(broken, 10000);
  EXPECT_GT(damaged, 10000);
}

}  // namespace
}  // namespace regatta::trainer
