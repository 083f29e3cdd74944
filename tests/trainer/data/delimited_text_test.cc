#include "trainer/data/delimited_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/process.h"

namespace regatta::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Rows = std::vector<std::vector<std::string>>;

constexpr data::DelimitedForm kHeadless{',', true, false};
constexpr data::DelimitedForm kHeadlessTsv{'\t', false, false};

struct Table {
  std::vector<std::string> header;
  Rows rows;
  std::vector<std::int64_t> lines;
  std::int64_t invalid = 0;
  std::string error;
};

Table read_table(std::string_view text, const data::DelimitedForm& form, std::size_t piece) {
  Table table;
  try {
    data::DelimitedReader reader("f", form);
    data::DelimitedRecord record;
    for (std::size_t at = 0; at <= text.size(); at += piece) {
      if (at < text.size()) reader.push(text.substr(at, piece));
      if (at + piece > text.size()) reader.finish();
      while (reader.next(record)) {
        table.rows.push_back(record.fields);
        table.lines.push_back(record.line);
      }
    }
    EXPECT_FALSE(reader.next(record)) << "it stays over";
    table.header = reader.header();
    table.invalid = reader.invalid_sequences();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::User);
    table.error = error.what();
  }
  return table;
}

TEST(DelimitedText, RecordsWhateverThePieces) {
  struct Case {
    const char* name;
    data::DelimitedForm form;
    std::string text;
    Rows rows;
  };
  const Case cases[] = {
      {"nothing", kHeadless, "", {}},
      {"no line end at the end", kHeadless, "a,b", {{"a", "b"}}},
      {"LF", kHeadless, "a,b\nc,d\n", {{"a", "b"}, {"c", "d"}}},
      {"CRLF", kHeadless, "a,b\r\nc,d\r\n", {{"a", "b"}, {"c", "d"}}},
      {"mixed", kHeadless, "a,b\r\nc,d\ne,f", {{"a", "b"}, {"c", "d"}, {"e", "f"}}},
      {"lone CR is text", kHeadless, "a\rb,\r\nc,\r", {{"a\rb", ""}, {"c", "\r"}}},
      {"two CRs", kHeadless, "a\r\r\n", {{"a\r"}}},
      {"empty fields", kHeadless, ",\n,x\ny,\n", {{"", ""}, {"", "x"}, {"y", ""}}},
      {"lines with nothing", kHeadless, "\na\n\r\n\nb\n\n", {{"a"}, {"b"}}},
      {"an empty field in quotes is one", kHeadless, "a\n\"\"\n", {{"a"}, {""}}},
      {"white space is text", kHeadless, " a , b \n , \n", {{" a ", " b "}, {" ", " "}}},
      {"quotes", kHeadless, "\"a\",\"b,c\"\n", {{"a", "b,c"}}},
      {"doubled quotes", kHeadless, "\"a\"\"b\",\"\"\"\"\n", {{"a\"b", "\""}}},
      {"line ends in quotes",
       kHeadless,
       "\"a\nb\r\nc\rd\",e\nf,g",
       {{"a\nb\r\nc\rd", "e"}, {"f", "g"}}},
      {"quote closes at the end", kHeadless, "a,\"b\"", {{"a", "b"}}},
      {"TSV has no quotes",
       kHeadlessTsv,
       "\"a\tb\"c\n\"\t\"\"\n",
       {{"\"a", "b\"c"}, {"\"", "\"\""}}},
      {"TSV with quotes", {'\t', true, false}, "\"a\tb\"\tc,d\n", {{"a\tb", "c,d"}}},
      {"semicolons", {';', true, false}, "a;b,c\n", {{"a", "b,c"}}},
      {"UTF-8", kHeadless, "ä,\U0001F600\n", {{"ä", "\U0001F600"}}},
  };
  for (const Case& one : cases) {
    for (std::size_t piece = 1; piece <= one.text.size() + 1; ++piece) {
      SCOPED_TRACE(std::string(one.name) + ", pieces of " + std::to_string(piece));
      const Table table = read_table(one.text, one.form, piece);
      EXPECT_EQ(table.error, "");
      EXPECT_EQ(table.rows, one.rows);
    }
  }
}

TEST(DelimitedText, TheHeaderIsNoRecordAndLinesAreThoseOfTheBeginnings) {
  for (std::size_t piece = 1; piece < 40; ++piece) {
    const Table table = read_table("\n\"x\ny\",z\r\n1,\"2\n\n\"\n\n3,4\n", data::kCsv, piece);
    EXPECT_THAT(table.header, ElementsAre("x\ny", "z"));
    EXPECT_EQ(table.rows, (Rows{{"1", "2\n\n"}, {"3", "4"}}));
    EXPECT_THAT(table.lines, ElementsAre(4, 8));
  }
  EXPECT_THAT(read_table("only\ta header", data::kTsv, 3).header, ElementsAre("only", "a header"));
}

TEST(DelimitedText, IllFormedUtf8IsReplacedAndCounted) {
  for (std::size_t piece = 1; piece < 12; ++piece) {
    // E2 82 is the beginning of a character, which the comma ends; FF is none.
    const Table table = read_table("a\xE2\x82,\xFF\nb\xC3\xA4,\xC3", kHeadless, piece);
    EXPECT_EQ(table.rows, (Rows{{"a\uFFFD", "\uFFFD"}, {"bä", "\uFFFD"}}));
    EXPECT_EQ(table.invalid, 3);
  }
}

TEST(DelimitedText, BadTextNamesFileLineAndColumn) {
  struct Case {
    const char* name;
    data::DelimitedForm form;
    std::string text;
    std::string error;
  };
  const Case cases[] = {
      {"a field too many", data::kCsv, "a,b\n1,2\nä,ö,3\n",
       "f:3:5: one field too many: there are 2 columns; fix the line, or put a field with a "
       "separator in quotes"},
      {"many too many", data::kTsv, "a\tb\n1\t2\t3\t4\t5\n",
       "f:2:5: one field too many: there are 2 columns; fix the line"},
      {"a field missing", data::kTsv, "a\tlabel\r\n1\r\n",
       "f:2:2: the record ends after 1 field; column 'label' is missing; fix the line"},
      {"a line of white space", data::kCsv, "a,b\n1,2\n \n",
       "f:3:2: the record ends after 1 field; column 'b' is missing; fix the line"},
      {"missing at the end", data::kCsv, "a,b,c\n1,\"x\ny\"",
       "f:3:3: the record ends after 2 fields; column 'c' is missing; fix the line"},
      {"missing without a header", kHeadless, "a,b\n\"c\"\n",
       "f:2:4: the record ends after 1 field; field 2 is missing; fix the line"},
      {"an open quote", data::kCsv, "a,b\n1,\"2\n3,4\n5,6\n",
       "f:2:3: the quoted field that begins here is never closed; add its closing quote"},
      {"a quote that is open at the very end", data::kCsv, "a,b\n1,\"",
       "f:2:3: the quoted field that begins here is never closed; add its closing quote"},
      {"an open quote behind a doubled one", data::kCsv, "\"a\"\"\n",
       "f:1:1: the quoted field that begins here is never closed; add its closing quote"},
      {"a quote within", data::kCsv, "a,b\nin 5\" x,y\n",
       "f:2:5: a quote within an unquoted field; double it and put the field "
       "in quotes"},
      {"a quote behind a blank", data::kCsv, "a,b\nx, \"y\"\n",
       "f:2:4: a quote within an unquoted field; double it and put the field "
       "in quotes"},
      {"text behind quotes", data::kCsv, "a,b\n\"x\"y,z\n",
       "f:2:4: text after a closing quote; a quote within a quoted field is doubled"},
      {"a quote that is not doubled", data::kCsv, "a,b\n\"x \"\"y\" z\",z\n",
       "f:2:8: text after a closing quote; a quote within a quoted field is doubled"},
      {"a lone CR behind quotes", data::kCsv, "a,b\n\"x\"\r",
       "f:2:4: text after a closing quote; a quote within a quoted field is doubled"},
      {"too many columns", data::kCsv, std::string(data::DelimitedReader::kMostColumns, ','),
       "f:1:4097: more than 4096 fields; is this a table?"},
  };
  for (const Case& one : cases) {
    for (const std::size_t piece : {1, 2, 3, 7, 100'000}) {
      EXPECT_EQ(read_table(one.text, one.form, piece).error, one.error)
          << one.name << ", pieces of " << piece;
    }
  }
}

TEST(DelimitedText, FieldsAndRecordsHaveABound) {
  const std::string longest(data::DelimitedReader::kLongestField, 'x');
  EXPECT_EQ(read_table("a,b\n" + longest + ",y", data::kCsv, 1U << 20U).rows.size(), 1U);
  EXPECT_EQ(read_table("a,b\n1,x" + longest, data::kCsv, 1U << 20U).error,
            "f:2:3: a field of over 16 MiB begins here; cut it");
  EXPECT_EQ(read_table("a,b\n1,\"x\n" + longest, data::kCsv, 1U << 20U).error,
            "f:2:3: a quoted field of over 16 MiB begins here; is its quote closed?");
  const std::string row = longest + "," + longest + "," + longest + "," + longest;
  EXPECT_EQ(read_table("a,b,c,d,e\n" + row + ",x", data::kCsv, 1U << 20U).error,
            "f:2:1: a record of over 64 MiB begins here; cut it");
}

TEST(DelimitedText, ColumnsByNameAndNumber) {
  const std::vector<std::string> columns = {"id", "sentence", "2", "twice", "twice"};
  const auto column = [&](std::string_view wanted, bool header = true) {
    return data::column_index(columns, {"text_column", wanted, header}, "f");
  };
  EXPECT_EQ(column("id"), 0U);
  EXPECT_EQ(column("2"), 2U) << "a name before a number";
  EXPECT_EQ(column("1"), 0U);
  EXPECT_EQ(column("5"), 4U);
  EXPECT_EQ(column("2", false), 1U);
  struct Case {
    std::string_view wanted;
    bool header;
    const char* message;
  };
  const Case cases[] = {
      {"sentense", true, "text_column is 'sentense', which is no column; did you mean 'sentence'?"},
      {"Id", true, "(columns: 'id', 'sentence', '2', 'twice', 'twice')"},
      {"twice", true, "two columns"},
      {"0", true, "no column"},
      {"6", true, "no column"},
      {"-1", true, "no column"},
      {"99999999999999999999", true, "no column"},
      {"", true, "no column"},
      {"id", false, "columns are numbered from 1"},
      {"6", false, "columns are numbered from 1"},
  };
  for (const Case& one : cases) {
    try {
      (void)column(one.wanted, one.header);
      ADD_FAILURE() << one.wanted;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      EXPECT_THAT(error.what(), HasSubstr(one.message));
    }
  }
  EXPECT_EQ(data::listed({"a\x1b", std::string(38, 'x') + "äöü"}),
            "'a\\x1b', '" + std::string(38, 'x') + "ä…'");
  EXPECT_THAT(data::listed(std::vector<std::string>(30, "x")), HasSubstr("and 6 more"));
}

// Fields that are written and read again are the same, whatever is in them.
TEST(DelimitedText, WrittenAndReadAgain) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto below = [&](std::size_t n) { return random() % n; };
  constexpr std::string_view kCharacters = "ab,\"\n\r\t ;";
  for (int round = 0; round < 300; ++round) {
    Rows rows(below(6), std::vector<std::string>(2 + below(3)));
    std::string text;
    for (std::vector<std::string>& row : rows) {
      row.resize(rows[0].size());
      for (std::string& field : row) {
        for (std::size_t n = below(6); n > 0; --n) field += kCharacters[below(kCharacters.size())];
        const bool plain = field.find_first_of("\",\n\r") == std::string::npos && below(2) == 0;
        std::string doubled;
        for (const char c : field) doubled += c == '"' ? "\"\"" : std::string(1, c);
        text += (&field == row.data() ? "" : ",") + (plain ? field : "\"" + doubled + "\"");
      }
      text += below(2) == 0 ? "\n" : "\r\n";
    }
    const Table table = read_table(text, kHeadless, 1 + below(9));
    EXPECT_EQ(table.error, "") << text;
    EXPECT_EQ(table.rows, rows) << text;
  }
}

// Another writer: Python's csv module.
TEST(DelimitedText, AsPythonWritesIt) {
  const std::string seed = std::to_string(std::random_device{}());
  SCOPED_TRACE("seed " + seed);
  base::Command command;
  command.arguments = {"python3", "-B",
                       std::string(REGATTA_SOURCE_DIR) + "/tests/trainer/data/delimited_text.py",
                       seed, "500"};
  const base::Output output = base::run(command, 200);
  ASSERT_EQ(output.exit.code.value_or(-1), 0) << output.errors;
  const auto tables = nlohmann::json::parse(output.text);
  ASSERT_EQ(tables.size(), 500U);
  std::size_t piece = 0;
  for (const auto& each : tables) {
    SCOPED_TRACE(each.dump());
    const data::DelimitedForm form{each["separator"].get<std::string>()[0], true, false};
    const Table table = read_table(each["text"].get<std::string>(), form, 1 + piece++ % 11);
    EXPECT_EQ(table.error, "");
    EXPECT_EQ(table.rows, each["rows"].get<Rows>());
  }
}

}  // namespace
}  // namespace regatta::trainer
