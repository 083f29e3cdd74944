#include "base/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace regatta::base {
namespace {

using Ordered = nlohmann::ordered_json;
using Sorted = nlohmann::json;

TEST(JsonText, KeepsOrSortsTheKeysAsTheTypeSays) {
  const char* const text = R"({"b":1,"a":[true,null,"x"]})";
  EXPECT_EQ(json_text(parse_json<Ordered>(text)), text);
  EXPECT_EQ(json_text(parse_json<Sorted>(text)), R"({"a":[true,null,"x"],"b":1})");
  EXPECT_EQ(json_text(parse_json<Ordered>(R"({"a":[1]})"), 2), "{\n  \"a\": [\n    1\n  ]\n}");
}

TEST(JsonText, WhatIsNoJsonIsDiscarded) {
  for (const char* text : {"", "{", "{\"a\":}", "nul", "[1] 2", "\"\xff\"", "{'a': 1}"}) {
    EXPECT_TRUE(parse_json<Ordered>(text).is_discarded()) << text;
    EXPECT_TRUE(parse_json<Sorted>(text).is_discarded()) << text;
  }
  EXPECT_TRUE(parse_json<Ordered>("null").is_null());
}

TEST(JsonText, KeysThatStandTwiceAreFound) {
  for (const char* text : {R"({"a":1,"b":{"a":2},"c":[{"a":3},{"a":4}]})", "{", R"({"a":1,"a":})",
                           "[1,1]", "\"a\"", "{}"}) {
    EXPECT_EQ(repeated_key(text), std::nullopt) << text;
  }
  EXPECT_EQ(repeated_key(R"({"a":1,"b":2,"a":1})"), "a");
  EXPECT_EQ(repeated_key(R"({"a":[{"x":{"b":{}, "b":{}}}], "a":1})"), "a[0].x.b");
  EXPECT_EQ(repeated_key(R"({"a":1,"\u0061":2})"), "a");
  EXPECT_EQ(repeated_key(R"([1,[],{"a":[2,{}],"b":1,"a":3}])"), "[2].a");
}

TEST(JsonText, IsUtf8OrAsciiWhateverTheStringsHold) {
  const Ordered json = {"\xc3\xbc", "\xff"};
  EXPECT_EQ(json_text(json), "[\"\xc3\xbc\",\"\xef\xbf\xbd\"]");
  EXPECT_EQ(ascii_json_text(json), R"(["\u00fc","\ufffd"])");
  EXPECT_EQ(ascii_json_text(Sorted("\xff"), 1), R"("\ufffd")");
}

}  // namespace
}  // namespace regatta::base
