#include "base/document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace regatta::base {
namespace {

using testing::HasSubstr;

// The message of the error that `body` throws; fails the test when there is none.
template <typename Body>
std::string error_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::User);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

TEST(Table, ReadsEveryKindInYamlAndInJson) {
  const char* const texts[] = {
      "yes: true\nsmall: -3\nlarge: 5000000000\nseed: 18446744073709551615\nrate: 1e-4\n"
      "name: a b\nmaybe: 0.5\nlist: [a, b]\nkind: second\ninner:\n  deep: 1\n",
      R"({"yes": true, "small": -3, "large": 5000000000, "seed": 18446744073709551615,
          "rate": 1e-4, "name": "a b", "maybe": 0.5, "list": ["a", "b"], "kind": "second",
          "inner": {"deep": 1}})"};
  for (const char* text : texts) {
    Table table = Table::parse(text, "x");
    bool yes = false;
    int small = 0;
    std::int64_t large = 0;
    std::uint64_t seed = 0;
    double rate = 0;
    std::string name;
    std::optional<double> maybe;
    std::vector<std::string> list;
    int kind = 0;
    int deep = 0;
    table.read("yes", &yes);
    table.read("small", &small);
    table.read("large", &large);
    table.read("seed", &seed);
    table.read("rate", &rate);
    table.read("name", &name);
    table.read("maybe", &maybe);
    table.read("list", &list);
    table.read_choice("kind", {"first", "second"}, &kind);
    Table inner = table.table("inner");
    inner.read("deep", &deep);
    inner.finish();
    table.finish();
    EXPECT_TRUE(yes);
    EXPECT_EQ(small, -3);
    EXPECT_EQ(large, 5'000'000'000);
    EXPECT_EQ(seed, 18446744073709551615U);
    EXPECT_EQ(rate, 1e-4);
    EXPECT_EQ(name, "a b");
    EXPECT_EQ(maybe, 0.5);
    EXPECT_EQ(list, (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(kind, 1);
    EXPECT_EQ(deep, 1);
  }
}

TEST(Table, AbsentAndNullKeepTheDefault) {
  Table table = Table::parse("nothing:\nempty: ~\n", "x");
  int value = 7;
  std::optional<double> maybe;
  table.read("nothing", &value);
  table.read("missing", &value);
  table.read("empty", &maybe);
  EXPECT_EQ(value, 7);
  EXPECT_EQ(maybe, std::nullopt);
  EXPECT_TRUE(table.has("nothing"));
  EXPECT_FALSE(table.has("missing"));
  EXPECT_FALSE(table.is_table("nothing"));
  Table inner = table.table("absent");
  inner.finish();
  EXPECT_TRUE(inner.keys().empty());
  table.finish();
}

TEST(Table, RefusesTextsThatAreNotOneMapping) {
  struct Row {
    const char* name;
    std::string text;
    const char* message;
  };
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before;
    for (int j = 1; j < 10; ++j) bomb += ", " + before;
    bomb += "]\n";
  }
  const Row rows[] = {
      {"empty", "", "f: expected a mapping"},
      {"a list", "[1, 2]", "f: expected a mapping"},
      {"a word", "hello", "f: expected a mapping"},
      {"tabs", "a: 1\nmodel:\n\thidden: 3\n", "f:3: not valid"},
      {"open bracket", "a: [1, 2\n", "not valid"},
      {"duplicate key", "a: 1\nb: 2\na: 3\n", "f:3: the key a stands twice"},
      {"duplicate in JSON", "{\"a\": 1, \"a\": 2}", "f:1: the key a stands twice"},
      {"inner duplicate", "m:\n  a: 1\n  a: 2\n", "f:3: the key a stands twice"},
      {"key that is a list", "? [a, b]\n: 1\n", "a key must be a word"},
      {"deep", "a: " + std::string(40, '[') + std::string(40, ']'), "nested deeper than 32"},
      {"very deep", "a: " + std::string(100000, '['), "f"},
      {"alias bomb", bomb, "holds more than"},
      {"alias of nobody", "a: *b\n", "not valid"},
      {"large", "a: " + std::string(1 << 20, 'x'), "larger than"},
      {"two documents", "a: 1\n---\na: 2\n", "goes on after its first document"},
      {"a comma", ",", "goes on after"},
      {"a comma before", ", a: 1", "f"},
      {"UTF-16",
       std::string("\xff\xfe"
                   "a\0:\0",
                   6),
       "not a text in UTF-8"},
      {"UTF-32", std::string("\0\0\0,0\n", 6), "not a text in UTF-8"},
      {"Latin-1", "a: caf\xe9\n", "not a text in UTF-8"},
      {"overlong", "a: \xc0\xaf\n", "not a text in UTF-8"},
      {"surrogate", "a: \xed\xa0\x80\n", "not a text in UTF-8"},
      {"NUL", std::string("a: b\0c\n", 7), "not a text in UTF-8"},
      {"control character", std::string("a: \x01\n"), "f"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    EXPECT_THAT(error_of([&] {
                  Table table = Table::parse(row.text, "f");
                  std::vector<std::string> ignored;
                  table.read("a", &ignored);
                  table.fail("a", "f");  // rows that the parser may also take
                }),
                HasSubstr(row.message));
  }
}

TEST(Table, NamesLinePathAndValueOfAWrongType) {
  struct Row {
    const char* name;
    const char* value;
    void (*read)(Table&);
    const char* message;
  };
  const auto as_int = [](Table& table) {
    int value = 0;
    table.read("k", &value);
  };
  const auto as_unsigned = [](Table& table) {
    std::uint64_t value = 0;
    table.read("k", &value);
  };
  const auto as_double = [](Table& table) {
    double value = 0;
    table.read("k", &value);
  };
  const auto as_bool = [](Table& table) {
    bool value = false;
    table.read("k", &value);
  };
  const auto as_text = [](Table& table) {
    std::string value;
    table.read("k", &value);
  };
  const auto as_list = [](Table& table) {
    std::vector<std::string> value;
    table.read("k", &value);
  };
  const auto as_choice = [](Table& table) {
    int value = 0;
    table.read_choice("k", {"red", "green"}, &value);
  };
  const auto as_table = [](Table& table) { (void)table.table("k"); };
  const Row rows[] = {
      {"word for int", "many", as_int, "expected a whole number, found 'many'"},
      {"fraction for int", "1.5", as_int, "expected a whole number, found '1.5'"},
      {"too large for int", "3000000000", as_int, "at most 31 bits, found '3000000000'"},
      {"beyond 64 bits", "99999999999999999999", as_int, "expected a whole number"},
      {"list for int", "[1]", as_int, "expected a whole number"},
      {"negative for unsigned", "-1", as_unsigned, "found '-1'"},
      {"beyond unsigned", "18446744073709551616", as_unsigned, "found '18446744073709551616'"},
      {"word for number", "fast", as_double, "expected a number, found 'fast'"},
      {"infinity", "inf", as_double, "expected a number, found 'inf'"},
      {"YAML infinity", ".inf", as_double, "expected a number"},
      {"not a number", "nan", as_double, "expected a number"},
      {"beyond double", "1e999", as_double, "expected a number"},
      {"yes for bool", "yes", as_bool, "expected true or false, found 'yes'"},
      {"one for bool", "1", as_bool, "expected true or false"},
      {"mapping for text", "{a: 1}", as_text, "expected text"},
      {"mapping for list", "{a: 1}", as_list, "expected a list of texts"},
      {"list of lists", "[[a]]", as_list, "expected a list of texts"},
      {"unknown choice", "blue", as_choice, "expected one of red, green, found 'blue'"},
      {"scalar for mapping", "3", as_table, "expected a mapping"},
      {"list for mapping", "[3]", as_table, "expected a mapping"},
      {"hostile text", "\"\\e[2J\"", as_int, "found '\\x1b[2J'"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const std::string text = "\nouter:\n  k: " + std::string(row.value) + "\n";
    Table table = Table::parse(text, "run.yaml");
    Table outer = table.table("outer");
    const std::string message = error_of([&] { row.read(outer); });
    EXPECT_THAT(message, HasSubstr("run.yaml:3: outer.k: "));
    EXPECT_THAT(message, HasSubstr(row.message));
  }
}

TEST(Table, NamesUnknownKeysWithAGuess) {
  Table table = Table::parse("model:\n  layers: 2\n  hiden: 8\n", "run.yaml");
  Table model = table.table("model");
  int layers = 0;
  int hidden = 0;
  model.read("layers", &layers);
  model.read("hidden", &hidden);
  EXPECT_EQ(error_of([&] { model.finish(); }),
            "run.yaml:3: model.hiden: unknown key; did you mean 'hidden'?");

  Table other = Table::parse("zebra: 1\n", "run.yaml");
  int steps = 0;
  other.read("steps", &steps);
  EXPECT_EQ(error_of([&] { other.finish(); }),
            "run.yaml:1: zebra: unknown key; remove it (known here: steps)");
}

TEST(Table, KnowsWhatOtherProgramsCallAKey) {
  constexpr OtherName kNames[] = {{"batchsize", "batch.size"}, {"epochs", "steps"}};
  const auto refused = [&](const std::string& text) {
    Table table = Table::parse(text, "f", kNames);
    int number = 0;
    table.read("steps", &number);
    Table batch = table.table("batch");
    batch.read("size", &number);
    return error_of([&] {
      batch.finish();
      table.finish();
    });
  };
  EXPECT_EQ(refused("batchsize: 8"), "f:1: batchsize: unknown key; did you mean 'batch.size'?");
  for (const char* spelled : {"batch_size", "batch-size", "batchSize", "BATCH_SIZE"}) {
    EXPECT_EQ(refused(std::string(spelled) + ": 8"),
              "f:1: " + std::string(spelled) + ": unknown key; did you mean 'batch.size'?");
  }
  EXPECT_EQ(refused("batch: {batch_size: 8}"),
            "f:1: batch.batch_size: unknown key; did you mean 'batch.size'?");
  EXPECT_EQ(refused("epochs: 3"), "f:1: epochs: unknown key; did you mean 'steps'?");
  EXPECT_EQ(refused("stepz: 3"), "f:1: stepz: unknown key; did you mean 'steps'?");
  EXPECT_EQ(refused("zebra: 3"), "f:1: zebra: unknown key; remove it (known here: batch, steps)");
}

TEST(Table, ReadsListsOfMappings) {
  auto items = Table::parse_list("- name: a\n  parts:\n  - n: 1\n  - n: 2\n- name: b\n", "l");
  ASSERT_EQ(items.size(), 2u);
  std::string name;
  items[0].read("name", &name);
  EXPECT_EQ(name, "a");
  EXPECT_EQ(items[1].line("name"), 5);
  EXPECT_EQ(items[1].line("absent"), 5) << "where the mapping starts";
  auto parts = items[0].tables("parts");
  ASSERT_EQ(parts.size(), 2u);
  int number = 0;
  parts[1].read("n", &number);
  EXPECT_EQ(number, 2);
  parts[1].finish();
  items[0].finish();
  EXPECT_TRUE(items[1].tables("parts").empty());
  EXPECT_EQ(error_of([&] { parts[0].read("n", &name), parts[0].fail("n", "is odd"); }),
            "l:3: [0].parts[0].n: is odd");
  EXPECT_EQ(error_of([] { (void)Table::parse_list("- a\n", "l"); }),
            "l:1: [0]: expected a mapping");
  EXPECT_EQ(error_of([] { (void)Table::parse_list("a: 1\n", "l"); }),
            "l: expected a list at the top");
  EXPECT_EQ(error_of([] {
              auto table = Table::parse("a: 1\nb: [{c: 1}, 2]\n", "l");
              EXPECT_EQ(table.tables("c").size(), 0u);
              (void)table.tables("b");
            }),
            "l:2: b[1]: expected a mapping");
  EXPECT_EQ(error_of([] { (void)Table::parse("a: 1\n", "l").tables("a"); }),
            "l:1: a: expected a list of mappings");
}

TEST(Table, CutsLongValuesInMessages) {
  Table table = Table::parse("k: " + std::string(100000, 'x'), "f");
  int value = 0;
  EXPECT_LT(error_of([&] { table.read("k", &value); }).size(), 200U);
  EXPECT_LT(error_of([&] { Table::parse(std::string(900, 'k') + ": 1", "f").finish(); }).size(),
            400U);
}

TEST(Table, FailPointsAtTheKeyOrTheMapping) {
  const Table table = Table::parse("a: 1\nb: 2\n", "f");
  EXPECT_EQ(error_of([&] { table.fail("b", "is odd"); }), "f:2: b: is odd");
  EXPECT_EQ(error_of([&] { table.fail("c", "is missing"); }), "f:1: c: is missing");
}

TEST(Table, ErrorsNameTheirKeyForPrograms) {
  const auto key_of = [](const char* text) {
    try {
      Table table = Table::parse(text, "f");
      Table model = table.table("model");
      int hidden = 0;
      model.read("hidden", &hidden);
      if (hidden < 0) model.fail("hidden", "is negative");
      model.finish();
      for (Table& each : table.tables("list")) each.finish();
      table.finish();
    } catch (const Error& error) {
      return error.key();
    }
    return std::string("no error");
  };
  EXPECT_EQ(key_of("model: {hidden: wide}"), "model.hidden");
  EXPECT_EQ(key_of("model: {hidden: -1}"), "model.hidden");
  EXPECT_EQ(key_of("model: {hiden: 1}"), "model.hiden");
  EXPECT_EQ(key_of("model: 1"), "model");
  EXPECT_EQ(key_of("modl: {}"), "modl");
  EXPECT_EQ(key_of("model: {hidden: 1, hidden: 2}"), "model.hidden") << "stands twice";
  EXPECT_EQ(key_of("list: [{}, {x: 1}]"), "list[1].x");
  EXPECT_EQ(key_of("list: [{}, {x: {y: 1, y: 2}}]"), "list[1].x.y") << "stands twice";
  EXPECT_EQ(key_of("list: [1]"), "list[0]");
  EXPECT_EQ(key_of("model: ["), "") << "no key is at fault";
  EXPECT_EQ(key_of("{}"), "no error");
}

TEST(Table, TellsWhatItIsAskedFor) {
  std::list<AskedKey> asked;
  Table table = Table::parse("{a: 3, inner: {b: x}, list: [{c: 4}, {c: 5}]}", "f", {}, &asked);
  int a = 7;
  table.read("a", &a);
  table.note_range("a", 1, 9, true, false);
  table.read("a", &a);
  double share = 0.1;
  table.read("share", &share);
  int choice = 1;
  table.read_choice("choice", {"one", "two"}, &choice);
  std::string b;
  table.table("inner").read("b", &b);
  EXPECT_TRUE(table.is_list("list"));
  EXPECT_FALSE(table.is_list("inner"));
  EXPECT_FALSE(table.is_list("absent"));
  for (Table& item : table.tables("list")) item.read("c", &a);
  EXPECT_TRUE(table.tables("absent").empty());
  ASSERT_EQ(asked.size(), 6U) << "each once";
  auto key = asked.begin();
  EXPECT_EQ(key->name, "a");
  EXPECT_EQ(key->form, AskedKey::Form::Whole);
  EXPECT_EQ(key->absent, "7") << "as it was before it was read";
  EXPECT_EQ(key->low, 1);
  EXPECT_TRUE(key->low_is_out);
  EXPECT_FALSE(key->high_is_out);
  EXPECT_EQ((++key)->absent, "0.1");
  EXPECT_EQ((++key)->absent, "\"two\"");
  EXPECT_EQ(key->choices.size(), 2U);
  EXPECT_EQ((++key)->form, AskedKey::Form::Mapping);
  ASSERT_EQ(key->below.size(), 1U);
  EXPECT_EQ(key->below.front().name, "b");
  EXPECT_EQ(key->below.front().absent, "");
  EXPECT_EQ((++key)->form, AskedKey::Form::Mappings);
  ASSERT_EQ(key->below.size(), 1U) << "of all its mappings";
  EXPECT_EQ(key->below.front().name, "c");
  EXPECT_EQ((++key)->form, AskedKey::Form::Mappings);
  EXPECT_TRUE(key->below.empty());
}

}  // namespace
}  // namespace regatta::base
