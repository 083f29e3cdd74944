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

TEST(Yaml, OfWhatIsEmpty) {
  EXPECT_EQ(yaml_of({{"runs", Json::array()}, {"next", nullptr}, {"o", Json::object()}}),
            "\"runs\": []\n\"next\": null\n\"o\": {}\n");
}

}  // namespace
}  // namespace regatta::orchestrator::text
