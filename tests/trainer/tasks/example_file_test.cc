#include "trainer/tasks/example_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "tests/base/faulty_file_system.h"
#include "tests/trainer/data/compressed.h"

namespace regatta::trainer {
namespace {

using tasks::ExampleFormat;
using tasks::ExampleLabels;
using tasks::ExampleOptions;
using tasks::ExampleSet;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ExampleFile : public testing::Test {
 protected:
  [[nodiscard]] base::Path write(const std::string& name, std::string_view text) const {
    const base::Path path = directory_.path() / name;
    std::ofstream(path, std::ios::binary)
        .write(text.data(), static_cast<std::streamsize>(text.size()));
    return path;
  }
  [[nodiscard]] ExampleSet read(const std::string& name, std::string_view text,
                                const ExampleOptions& options = {}) const {
    return tasks::read_examples(write(name, text), -1, options);
  }
  // Without the directory; "" if there is none.
  [[nodiscard]] std::string error_of(const std::string& name, std::string_view text,
                                     const ExampleOptions& options = {}) const {
    try {
      (void)read(name, text, options);
      return "";
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User) << error.what();
      const std::string message = error.what();
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
      const std::string directory = directory_.path().string() + "/";
      return message.starts_with(directory) ? message.substr(directory.size()) : message;
    }
  }

 private:
  tests::TemporaryDirectory directory_;
};

ExampleOptions predicted() {
  ExampleOptions options;
  options.kind = ExampleLabels::Absent;
  return options;
}
ExampleOptions regression() {
  ExampleOptions options;
  options.kind = ExampleLabels::Numbers;
  return options;
}
ExampleOptions with_labels(std::vector<std::string> labels) {
  ExampleOptions options;
  options.labels = std::move(labels);
  return options;
}
ExampleOptions with_columns(std::string text, std::string second, std::string label,
                            bool header = true) {
  ExampleOptions options;
  options.header = header;
  options.text_column = std::move(text);
  options.second_text_column = std::move(second);
  options.label_column = std::move(label);
  return options;
}

// The headers of GLUE's files, with the row of each that says which column is which.
TEST_F(ExampleFile, ColumnsOfGlue) {
  struct Case {
    const char* name;
    std::string header;
    bool pairs;
  };
  const Case cases[] = {
      {"SST-2", "A\tL", false},
      {"MRPC", "L\t-\t-\tA\tB", true},
      {"QQP", "-\t-\t-\tA\tB\tL", true},
      {"STS-B", "-\t-\t-\t-\t-\t-\t-\tA\tB\tL", true},
      {"MNLI", "-\t-\t-\t-\t-\t-\t-\t-\tA\tB\t-\tL", true},
      {"QNLI", "-\tA\tB\tL", true},
      {"RTE and WNLI", "-\tA\tB\tL", true},
      {"of premises", "A\tB\tL", true},
      {"TREC", "L\tA", false},
      {"BoolQ", "A\tB\tL", true},
  };
  const char* const headers[] = {
      "sentence\tlabel",
      "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String",
      "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
      "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
      "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\t"
      "sentence1_parse\tsentence2_parse\tsentence1\tsentence2\tlabel1\tgold_label",
      "index\tquestion\tsentence\tlabel",
      "index\tsentence1\tsentence2\tlabel",
      "premise\thypothesis\tLabel",
      "label\ttext",
      "question\tpassage\tlabel",
  };
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    const Case& one = cases[i];
    SCOPED_TRACE(one.name);
    std::string other = one.header;
    other[other.find('L')] = 'K';
    const ExampleSet set =
        read("x.tsv", std::string(headers[i]) + "\r\n" + one.header + "\r\n" + other);
    EXPECT_THAT(set.texts, ElementsAre("A", "A"));
    EXPECT_EQ(set.second_texts,
              one.pairs ? std::vector<std::string>({"B", "B"}) : std::vector<std::string>());
    EXPECT_THAT(set.labels, ElementsAre("K", "L"));
    EXPECT_THAT(set.classes, ElementsAre(1, 0));
    EXPECT_THAT(set.values, IsEmpty());
  }
}

TEST_F(ExampleFile, CsvTsvAndJsonLinesGiveTheSame) {
  const std::string tsv = "id\tsentence\tlabel\n1\tsay \"hi\", you\tpos\n\n2\tno\u00e9\tneg\n";
  const std::string csv =
      "\xEF\xBB\xBFsentence,id,label\r\n\"say \"\"hi\"\", you\",1,pos\r\nno\u00e9,2,\" neg \"";
  const std::string lines =
      "{\"sentence\": \"say \\\"hi\\\", you\", \"label\": \"pos\"}\r\n\n"
      " {\"label\": \"neg\", \"id\": [1], \"sentence\": \"no\\u00e9\"}";
  struct Case {
    const char* name;
    std::string bytes;
    ExampleFormat format;
  };
  const Case cases[] = {
      {"a.tsv", tsv, ExampleFormat::Automatic},
      {"a.CSV", csv, ExampleFormat::Automatic},
      {"a.jsonl", lines, ExampleFormat::Automatic},
      {"a.ndjson", lines, ExampleFormat::Automatic},
      {"a.tsv.gz", tests::gzip(tsv), ExampleFormat::Automatic},
      {"a.csv.zst", tests::zstandard(csv), ExampleFormat::Automatic},
      {"a.jsonl.zstd", tests::zstandard(lines), ExampleFormat::Automatic},
      {"compressed, whatever the name.tsv", tests::gzip(tsv), ExampleFormat::Automatic},
      {"named otherwise.csv", tsv, ExampleFormat::Tsv},
      {"a.txt", csv, ExampleFormat::Csv},
      {"a.json", lines, ExampleFormat::JsonLines},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    ExampleOptions options;
    options.format = one.format;
    const ExampleSet set = read(one.name, one.bytes, options);
    EXPECT_THAT(set.texts, ElementsAre("say \"hi\", you", "no\u00e9"));
    EXPECT_THAT(set.labels, ElementsAre("neg", "pos"));
    EXPECT_THAT(set.classes, ElementsAre(1, 0));
    EXPECT_EQ(set.invalid_sequences, 0);
  }
}

TEST_F(ExampleFile, StandardInput) {
  ExampleOptions options;
  options.format = ExampleFormat::Csv;
  const base::UniqueFd input(
      ::open(write("in", "text,label\na,1\nb,2\n").c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(tasks::read_examples("-", input.get(), options).texts.size(), 2U);
  try {
    (void)tasks::read_examples("-", input.get(), {});
    ADD_FAILURE();
  } catch (const base::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("standard input: its name does not say"));
  }
}

// CoLA's files have none.
TEST_F(ExampleFile, WithoutAHeader) {
  const std::string text = "gj04\t1\t\tThey drank.\ngj04\t0\t*\tThey drank the.\n";
  const ExampleSet set = read("x.tsv", text, with_columns("4", "", "2", false));
  EXPECT_THAT(set.texts, ElementsAre("They drank.", "They drank the."));
  EXPECT_THAT(set.classes, ElementsAre(1, 0));
  EXPECT_EQ(error_of("x.tsv", text, with_columns("", "", "", false)),
            "x.tsv: without a header, set text_column and label_column to numbers of columns, from "
            "1 (first record: 'gj04', '1', '', 'They drank.')");
}

TEST_F(ExampleFile, ColumnsThatAreNamed) {
  const std::string text = "a,b,label,sentence\nx,y,0,z\nv,w,1,u\n";
  ExampleSet set = read("x.csv", text, with_columns("b", "a", "sentence"));
  EXPECT_THAT(set.texts, ElementsAre("y", "w"));
  EXPECT_THAT(set.second_texts, ElementsAre("x", "v"));
  EXPECT_THAT(set.labels, ElementsAre("u", "z"));
  set = read("x.csv", "sentence1,sentence2,label\nx,y,0\nx,y,1\n", with_columns("2", "", ""));
  EXPECT_THAT(set.texts, ElementsAre("y", "y"));
  EXPECT_THAT(set.second_texts, IsEmpty());
  set = read("x.jsonl", "{\"a\":\"x\",\"2\":0}\n{\"2\":1,\"a\":\"y\",\"text\":\"z\"}\n",
             with_columns("a", "", "2"));
  EXPECT_THAT(set.texts, ElementsAre("x", "y"));
}

TEST_F(ExampleFile, OrderOfClasses) {
  struct Case {
    const char* name;
    std::vector<std::string> in_file;
    ExampleOptions options;
    std::vector<std::string> labels;
    std::vector<std::int32_t> classes;
  };
  const Case cases[] = {
      {"text by bytes", {"b", "B", "a", "b"}, {}, {"B", "a", "b"}, {2, 0, 1, 2}},
      {"numbers by value", {"10", "9", "-1", "10"}, {}, {"-1", "9", "10"}, {2, 1, 0, 2}},
      {"numbers with points", {"1.5", "1", "0.25"}, {}, {"0.25", "1", "1.5"}, {2, 1, 0}},
      {"a text among numbers", {"10", "9", "x"}, {}, {"10", "9", "x"}, {0, 1, 2}},
      {"infinity is a text", {"2", "inf", "10"}, {}, {"10", "2", "inf"}, {1, 2, 0}},
      {"as given", {"b", "a"}, with_labels({"b", "c", "a"}), {"b", "c", "a"}, {0, 2}},
      {"given, and one in the file", {"a"}, with_labels({"b", "a"}), {"b", "a"}, {1}},
      {"white space around", {" a", "b "}, with_labels({"b", " a "}), {"b", "a"}, {1, 0}},
  };
  for (const Case& one : cases) {
    std::string text = "label,text\n";
    std::string lines;
    for (const std::string& label : one.in_file) {
      text += label + ",x\n";
      lines += "{\"text\": \"x\", \"label\": \"" + label + "\"}\n";
    }
    for (const ExampleSet& set :
         {read("x.csv", text, one.options), read("x.jsonl", lines, one.options)}) {
      EXPECT_EQ(set.labels, one.labels) << one.name;
      EXPECT_EQ(set.classes, one.classes) << one.name;
    }
  }
  const ExampleSet set = read("x.jsonl",
                              "{\"text\":\"x\",\"label\":1}\n{\"text\":\"x\",\"label\":\"1\"}\n"
                              "{\"text\":\"x\",\"label\":true}\n{\"text\":\"x\",\"label\":0.5}\n");
  EXPECT_THAT(set.labels, ElementsAre("0.5", "1", "true"));
  EXPECT_THAT(set.classes, ElementsAre(1, 1, 2, 0));
}

TEST_F(ExampleFile, NumbersAndFilesWithoutLabels) {
  EXPECT_THAT(
      read("x.tsv", "sentence1\tsentence2\tscore\na\tb\t5.000\nc\td\t-1e-3 \n", regression())
          .values,
      ElementsAre(5, -0.001));
  EXPECT_THAT(read("x.jsonl", "{\"text\":\"x\",\"label\":2}\n{\"text\":\"x\",\"label\":\"2.5\"}\n",
                   regression())
                  .values,
              ElementsAre(2, 2.5));
  const ExampleSet constant = read("x.tsv", "text\tlabel\na\t1\n", regression());
  EXPECT_THAT(constant.classes, IsEmpty());
  EXPECT_THAT(constant.labels, IsEmpty());

  for (const ExampleSet& set :
       {read("x.tsv", "index\tsentence\n0\tx\n", predicted()),
        read("x.tsv", "sentence\tlabel\nx\t\n", predicted()),
        read("x.jsonl", "{\"text\":\"x\"}\n", predicted()),
        read("x.jsonl", "{\"text\":\"x\",\"label\":null}\n", predicted())}) {
    EXPECT_THAT(set.texts, ElementsAre("x"));
    EXPECT_THAT(set.classes, IsEmpty());
    EXPECT_THAT(set.values, IsEmpty());
    EXPECT_THAT(set.labels, IsEmpty());
  }
}

TEST_F(ExampleFile, IllFormedUtf8IsReplacedAndCounted) {
  for (const ExampleSet& set :
       {read("x.csv", "text,label\na\xFF,1\nb\xE2\x82,2\n"),
        read("x.jsonl",
             "{\"text\":\"a\xFF\",\"label\":1}\n{\"text\":\"b\xE2\x82\",\"label\":2}")}) {
    EXPECT_THAT(set.texts, ElementsAre("a\uFFFD", "b\uFFFD"));
    EXPECT_EQ(set.invalid_sequences, 2);
  }
}

TEST_F(ExampleFile, LongFilesAreReadInPieces) {
  std::string tsv = "text\tlabel\n";
  std::string lines;
  for (int i = 0; i < 60'000; ++i) {
    const std::string text =
        "line " + std::to_string(i) + std::string(static_cast<std::size_t>(i) % 50, 'x');
    tsv += text + "\t" + std::to_string(i % 7) + "\n";
    lines += "{\"text\": \"" + text + "\", \"label\": " + std::to_string(i % 7) + "}\n";
  }
  const ExampleSet a = read("x.tsv", tsv);
  const ExampleSet b = read("x.jsonl", lines);
  ASSERT_EQ(a.texts.size(), 60'000U);
  EXPECT_EQ(a.texts, b.texts);
  EXPECT_EQ(a.classes, b.classes);
  EXPECT_EQ(a.classes[59'999], 59'999 % 7);
  EXPECT_EQ(error_of("x.jsonl", lines + "x"), "x.jsonl:60001: not a JSON object; each line is one");
}

std::string many_labels(const std::string& prefix, int count) {
  std::string text = "text\tlabel\n";
  for (int i = 0; i < count; ++i) text += "x\t" + prefix + std::to_string(i) + "\n";
  return text;
}

TEST_F(ExampleFile, BadTables) {
  const std::string ok = "text\tlabel\na\t0\nb\t1\n";
  struct Case {
    const char* name;
    std::string file;
    std::string text;
    ExampleOptions options;
    std::string error;
  };
  const Case cases[] = {
      {"empty", "x.tsv", "", {}, "x.tsv: it has no examples"},
      {"only a header", "x.tsv", "text\tlabel\n", {}, "x.tsv: it has no examples"},
      {"a format that is not known",
       "x.txt",
       ok,
       {},
       "x.txt: its name does not say what it is; set format to tsv, csv or jsonl, or let the name "
       "end so"},
      {"no known text",
       "x.tsv",
       "review\tlabel\na\t0\n",
       {},
       "x.tsv: which columns are the texts? Set text_column, and second_text_column for pairs "
       "(columns: 'review', 'label')"},
      {"two texts that are no pair",
       "x.tsv",
       "text\tsentence\tlabel\na\tb\t0\n",
       {},
       "x.tsv: which columns are the texts? Set text_column, and second_text_column for pairs "
       "(columns: 'text', 'sentence', 'label')"},
      {"a pair and a text",
       "x.tsv",
       "sentence1\tsentence2\ttext\tlabel\na\tb\tc\t0\n",
       {},
       "x.tsv: which columns are the texts? Set text_column, and second_text_column for pairs "
       "(columns: 'sentence1', 'sentence2', 'text', 'label')"},
      {"half a pair",
       "x.tsv",
       "premise\tlabel\na\t0\n",
       {},
       "x.tsv: which columns are the texts? Set text_column, and second_text_column for pairs "
       "(columns: 'premise', 'label')"},
      {"two columns of a name",
       "x.tsv",
       "text\tText\tlabel\na\tb\t0\n",
       {},
       "x.tsv: which columns are the texts? Set text_column, and second_text_column for pairs "
       "(columns: 'text', 'Text', 'label')"},
      {"no label",
       "x.tsv",
       "text\tid\na\t0\n",
       {},
       "x.tsv: which column is the label? Set label_column (columns: 'text', 'id')"},
      {"two labels",
       "x.tsv",
       "text\tlabel\tscore\na\t0\t1\n",
       {},
       "x.tsv: which column is the label? Set label_column (columns: 'text', 'label', 'score')"},
      {"a first record instead of a header",
       "x.tsv",
       "a\t0\nb\t1\n",
       {},
       "x.tsv: which columns are the texts? Set text_column, and second_text_column for pairs "
       "(columns: 'a', '0')"},
      {"no such column", "x.tsv", ok, with_columns("texts", "", ""),
       "x.tsv: text_column is 'texts', which is no column; did you mean 'text'? (columns: 'text', "
       "'label')"},
      {"a second column alone", "x.tsv", ok, with_columns("", "text", ""),
       "second_text_column: set text_column too"},
      {"one column as two", "x.tsv", ok, with_columns("1", "text", ""),
       "x.tsv: text_column, second_text_column and label_column are not all different"},
      {"a text as label", "x.tsv", ok, with_columns("text", "", "text"),
       "x.tsv: text_column, second_text_column and label_column are not all different"},
      {"a field too few",
       "x.tsv",
       ok + "c\n",
       {},
       "x.tsv:4:2: the record ends after 1 field; column 'label' is missing; fix the line"},
      {"a field too many",
       "x.tsv",
       ok + "c\t1\t2\n",
       {},
       "x.tsv:4:5: one field too many: there are 2 columns; fix the line"},
      {"an open quote",
       "x.csv",
       "text,label\n\"a,0\nb,1\n",
       {},
       "x.csv:2:1: the quoted field that begins here is never closed; add its closing quote"},
      {"an empty text",
       "x.tsv",
       ok + "\t1\n",
       {},
       "x.tsv:4: the text in column 'text' is empty; fix or remove the example"},
      {"a text of white space",
       "x.csv",
       "text,label\na,1\n\" \n \",0\n",
       {},
       "x.csv:3: the text in column 'text' is empty; fix or remove the example"},
      {"an empty second text",
       "x.csv",
       "premise,hypothesis,label\na,,0\n",
       {},
       "x.csv:2: the text in column 'hypothesis' is empty; fix or remove the example"},
      {"an empty label",
       "x.tsv",
       ok + "c\t \n",
       {},
       "x.tsv:4: the label in column 'label' is empty; fix or remove the example"},
      {"one class",
       "x.tsv",
       "text\tlabel\na\t0\nb\t0\n",
       {},
       "x.tsv: every label is '0'; classification needs two classes"},
      {"one number in two ways",
       "x.tsv",
       "text\tlabel\na\t1\nb\t1.0\nc\t0\n",
       {},
       "x.tsv: the labels '1', '1.0' are the same number; write it the same way everywhere"},
      {"too many classes of text",
       "x.tsv",
       many_labels("v", 1025),
       {},
       "x.tsv:1026: more than 1,024 different labels in column 'label', which looks like text; set "
       "label_column"},
      {"too many classes of numbers",
       "x.tsv",
       many_labels("0.", 1025),
       {},
       "x.tsv:1026: more than 1,024 different labels in column 'label', which looks like numbers; "
       "set regression"},
      {"an unknown label", "x.tsv", ok + "c\t2\n", with_labels({"0", "1"}),
       "x.tsv:4: the label in column 'label' is '2', which is none of the known '0', '1'; fix it, "
       "or train "
       "with it"},
      {"a label in another case", "x.tsv", "text\tlabel\na\tPos\n", with_labels({"pos", "neg"}),
       "x.tsv:2: the label in column 'label' is 'Pos', which is none of the known 'pos', 'neg'; "
       "fix it, or "
       "train with it"},
      {"a control character", "x.tsv", "text\tlabel\na\t\x1b[2J\n", with_labels({"0", "1"}),
       "x.tsv:2: the label in column 'label' is '\\x1b[2J', which is none of the known '0', '1'; "
       "fix it, or "
       "train with it"},
      {"one given label", "x.tsv", ok, with_labels({"0"}),
       "labels: there are 1; classification has 2 to 1,024"},
      {"a given label twice", "x.tsv", ok, with_labels({"0", "1", " 0"}),
       "labels: '0' is there twice"},
      {"an empty given label", "x.tsv", ok, with_labels({"0", " "}),
       "labels: one is empty; give each class a name"},
      {"NUL bytes",
       "x.tsv",
       std::string("text\tlabel\na\0\t1\n", 16),
       {},
       "x.tsv has NUL bytes, so it is not UTF-8 text; convert it or leave it out"},
      {"a cut gzip file",
       "x.tsv",
       tests::gzip(ok).substr(0, 25),
       {},
       "x.tsv ends inside its gzip data; copy it again"},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(error_of(one.file, one.text, one.options), one.error) << one.name;
  }
  EXPECT_EQ(error_of("x.tsv", many_labels("v", 1024)), "");
}

TEST_F(ExampleFile, LabelsThatAreNoNumbers) {
  for (const char* const label :
       {"good", "1,5", "nan", "inf", "-inf", "1e39", "1e999", "0x10", "1 2"}) {
    EXPECT_EQ(error_of("x.tsv", "text\tlabel\na\t0\nb\t" + std::string(label) + "\n", regression()),
              "x.tsv:3: the label in column 'label' is '" + std::string(label) +
                  "', which is no finite number; fix it, or unset regression");
  }
  ExampleOptions options = regression();
  options.labels = {"0", "1"};
  EXPECT_EQ(error_of("x.tsv", "text\tlabel\na\t0\n", options),
            "labels: numbers have no list of labels; remove it or unset regression");
}

TEST_F(ExampleFile, BadJsonLines) {
  const std::string ok = "{\"text\": \"a\", \"label\": 0}\n";
  struct Case {
    const char* name;
    std::string text;
    ExampleOptions options;
    std::string error;
  };
  const Case cases[] = {
      {"empty", "\n\n", {}, "x.jsonl: it has no examples"},
      {"a list", "[" + ok, {}, "x.jsonl:1: not a JSON object; each line is one"},
      {"a text", ok + "\n\"a\"\n", {}, "x.jsonl:3: not a JSON object; each line is one"},
      {"no JSON", ok + "a\t1\n", {}, "x.jsonl:2: not a JSON object; each line is one"},
      {"broken",
       ok + "{\"text\": \"\u00e9\" \"label\": 0}",
       {},
       "x.jsonl:2:20: broken JSON; fix the line"},
      {"a bad escape", ok + "{\"text\": \"\\x\"}", {}, "x.jsonl:2:12: broken JSON; fix the line"},
      {"half a surrogate pair",
       ok + "{\"text\": \"\\ud800\"}",
       {},
       "x.jsonl:2:17: broken JSON; fix the line"},
      {"cut", ok + "{\"text\": \"a\", ", {}, "x.jsonl:2:15: its JSON ends too early; fix the line"},
      {"an object over lines",
       "{\n\"text\": \"a\"}\n",
       {},
       "x.jsonl:1:2: its JSON ends too early; fix the line"},
      {"two objects", "{\"text\": \"a\"} {}", {}, "x.jsonl:1:15: broken JSON; fix the line"},
      {"a number out of range",
       "{\"text\": \"a\", \"label\": 1e999}",
       {},
       "x.jsonl:1: a number in its JSON is out of range; fix the line"},
      {"deep",
       ok + "{\"x\": " + std::string(20, '[') + "}",
       {},
       "x.jsonl:2: its JSON nests deeper than 16 levels"},
      {"very deep",
       "{\"x\": " + std::string(1'000'000, '[') + "}",
       {},
       "x.jsonl:1: its JSON nests deeper than 16 levels"},
      {"no field",
       ok + "{\"label\": 1, \"Text\": \"a\"}",
       {},
       "x.jsonl:2: there is no field 'text'; fields: 'label', 'Text'"},
      {"no label",
       ok + "{\"text\": \"a\"}",
       {},
       "x.jsonl:2: there is no field 'label'; fields: 'text'"},
      {"nothing", ok + "{}", {}, "x.jsonl:2: there is no field 'text'; fields: none"},
      {"nothing known",
       "{\"a\": 1, \"b\": 2}",
       {},
       "x.jsonl:1: which columns are the texts? Set text_column, and second_text_column for pairs "
       "(columns: 'a', 'b')"},
      {"no such field", ok, with_columns("txt", "", ""),
       "x.jsonl:1: there is no field 'txt'; fields: 'text', 'label'"},
      {"a number as a field", ok, with_columns("1", "", ""),
       "x.jsonl:1: there is no field '1'; fields: 'text', 'label'"},
      {"a text that is a number",
       ok + "{\"text\": 1, \"label\": 1}",
       {},
       "x.jsonl:2: field 'text' is not text but number; put it in quotes"},
      {"a text that is null",
       ok + "{\"text\": null, \"label\": 1}",
       {},
       "x.jsonl:2: field 'text' is not text but null; put it in quotes"},
      {"a text that is a list",
       "{\"text\": [\"a\"], \"label\": 1}",
       {},
       "x.jsonl:1: field 'text' is not text but array; put it in quotes"},
      {"an empty text",
       ok + "{\"text\": \"\\u0009\", \"label\": 1}",
       {},
       "x.jsonl:2: the text in field 'text' is empty; fix or remove the example"},
      {"a NUL",
       ok + "{\"text\": \"a\\u0000\", \"label\": 1}",
       {},
       "x.jsonl:2: field 'text' has a NUL character, which no text has; remove it"},
      {"a label that is null",
       ok + "{\"text\": \"a\", \"label\": null}",
       {},
       "x.jsonl:2: field 'label' is neither text nor a number but null"},
      {"a label that is a list",
       ok + "{\"text\": \"a\", \"label\": [1]}",
       {},
       "x.jsonl:2: field 'label' is neither text nor a number but array"},
      {"an unknown label", ok, with_labels({"1", "2"}),
       "x.jsonl:1: the label in field 'label' is '0', which is none of the known '1', '2'; fix it, "
       "or train "
       "with it"},
      {"no number", "{\"text\": \"a\", \"label\": true}", regression(),
       "x.jsonl:1: the label in field 'label' is 'true', which is no finite number; fix it, or "
       "unset regression"},
      {"one class", ok + ok, {}, "x.jsonl: every label is '0'; classification needs two classes"},
      {"a long line",
       ok + "{\"text\": \"" + std::string(17U << 20U, 'x') + "\"}",
       {},
       "x.jsonl:2: a line of over 16 MiB; cut it"},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(error_of("x.jsonl", one.text, one.options), one.error) << one.name;
  }
}

TEST_F(ExampleFile, NoFile) {
  try {
    (void)tasks::read_examples(write("x", "").parent_path() / "absent.tsv", -1, {});
    ADD_FAILURE();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::NotFound);
    EXPECT_THAT(error.what(), HasSubstr("absent.tsv"));
  }
}

}  // namespace
}  // namespace regatta::trainer
