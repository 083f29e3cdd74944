// What spreadsheets and other programs are given.
#include "orchestrator/text/run_csv.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/document.h"

namespace regatta::orchestrator::text {
namespace {

using Json = nlohmann::ordered_json;

TEST(Csv, QuotesWhatNeedsItAndDefusesFormulas) {
  const Json rows = {
      {{"id", "a"}, {"error", "one, \"two\"\nthree"}, {"n", 1.5}, {"after", {"x", "y"}}},
      {{"id", "=HYPERLINK(1)"}, {"error", nullptr}, {"n", -2}, {"after", Json::array()}},
      {{"id", "@sum"}, {"error", "-1"}, {"n", true}, {"after", {"+z"}}}};
  EXPECT_EQ(csv_of(rows),
            "id,error,n,after\r\n"
            "a,\"one, \"\"two\"\"\nthree\",1.5,x y\r\n"
            "'=HYPERLINK(1),,-2,\r\n"
            "'@sum,'-1,true,'+z\r\n");
  EXPECT_EQ(csv_of(Json::array()), "");
  EXPECT_EQ(csv_of(Json::array(), Audience::Program, {"id", "a,b"}), "id,\"a,b\"\r\n");
  EXPECT_EQ(csv_of({{{"id", "a"}}}, Audience::Program, {"other"}), "id\r\na\r\n");
}

TEST(Csv, HasTheKeysOfAllRows) {
  EXPECT_EQ(csv_of({{{"id", "a"}, {"bytes", 3}}, {{"id", "b"}, {"why", "gone"}}}),
            "id,bytes,why\r\na,3,\r\nb,,gone\r\n");
}

TEST(Csv, IsPrintableOnATerminal) {
  EXPECT_EQ(csv_of({{{"error", "\x1b[2J\u009B"}, {"o", {{"k", "\u009B"}}}}}, Audience::Terminal),
            "error,o\r\n\\x1b[2J\\x9b,\"{\"\"k\"\":\"\"\\u009b\"\"}\"\r\n");
}

// Read by the parser of run files, which is yaml-cpp.
TEST(Yaml, IsReadAsItWasMeant) {
  const Json json = {{"text", "yes: [no]\n\x1b#'\""},
                     {"empty", ""},
                     {"number", 1.5},
                     {"whole", 7},
                     {"flag", true},
                     {"list", {"a", "- b"}},
                     {"inner", {{"deep", {{"er", 3}}}}}};
  base::Table table = base::Table::parse(yaml_of(json), "x.yaml");
  std::string text, empty = "other";
  double number = 0;
  int whole = 0, deep = 0;
  bool flag = false;
  std::vector<std::string> list;
  table.read("text", &text);
  table.read("empty", &empty);
  table.read("number", &number);
  table.read("whole", &whole);
  table.read("flag", &flag);
  table.read("list", &list);
  table.table("inner").table("deep").read("er", &deep);
  EXPECT_EQ(text, json["text"]);
  EXPECT_EQ(empty, "");
  EXPECT_EQ(number, 1.5);
  EXPECT_EQ(whole, 7);
  EXPECT_TRUE(flag);
  EXPECT_EQ(list, (std::vector<std::string>{"a", "- b"}));
  EXPECT_EQ(deep, 3);
}

// To YAML 1.1 "1e-05" is a text.
TEST(Yaml, ExponentsHaveAPoint) {
  EXPECT_EQ(yaml_of({{"a", 1e-5}, {"b", 1.5e-5}, {"c", 1e300}, {"d", "1e5"}}),
            "\"a\": 1.0e-05\n\"b\": 1.5e-05\n\"c\": 1.0e+300\n\"d\": \"1e5\"\n");
}

TEST(Yaml, OfWhatIsEmpty) {
  EXPECT_EQ(yaml_of({{"runs", Json::array()}, {"next", nullptr}, {"o", Json::object()}}),
            "\"runs\": []\n\"next\": null\n\"o\": {}\n");
}

}  // namespace
}  // namespace regatta::orchestrator::text
