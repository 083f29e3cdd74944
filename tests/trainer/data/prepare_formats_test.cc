// Preparation from text, JSON Lines, CSV and TSV: the same documents give the same dataset.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "tests/base/faulty_file_system.h"
#include "tests/trainer/data/compressed.h"
#include "tests/trainer/data/prepared.h"
#include "trainer/data/dataset.h"
#include "trainer/data/prepare.h"

namespace regatta::trainer {
namespace {

using base::Path;
using testing::HasSubstr;
using tests::documents_text;
using tests::files_of;
using tests::TemporaryDirectory;
using tests::write_file;

std::vector<std::string> texts_of(int first, int count) {
  std::vector<std::string> texts;
  for (int i = first; i < first + count; ++i) {
    const std::string text = documents_text(i, 1);
    texts.push_back(text.substr(0, text.size() - 2));
  }
  return texts;
}

std::string as_json_lines(const std::vector<std::string>& texts, const std::string& field) {
  std::string lines;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const nlohmann::json json = {{"id", i}, {field, texts[i]}, {"z", {{field, {1, "no"}}}}};
    lines +=
        json.dump(-1, ' ', i % 2 == 0) + (i % 3 == 0 ? "\r\n" : "\n") + (i % 5 == 0 ? "\n" : "");
  }
  return lines;
}

std::string as_csv(const std::vector<std::string>& texts) {
  std::string rows = "id,text\n";
  for (std::size_t i = 0; i < texts.size(); ++i) {
    rows += std::to_string(i) + ",\"" + texts[i] + "\"\r\n";
  }
  return rows;
}

using Inputs = std::vector<std::pair<std::string, std::string>>;  // name and bytes of each

data::PrepareOptions options_of(const Path& root, const Inputs& inputs) {
  std::filesystem::create_directories(root / "in");
  for (const auto& [name, bytes] : inputs) write_file(root / "in" / name, bytes);
  data::PrepareOptions options = tests::small_options(root);
  options.inputs = {root / "in"};
  return options;
}

data::PrepareReport prepare_from(const data::PrepareOptions& options) {
  return data::prepare(options, base::posix_file_system());
}

// All but the manifest, which counts what was read.
std::map<std::string, std::string> data_files(const Path& dataset) {
  std::map<std::string, std::string> files = files_of(dataset);
  files.erase("dataset.json");
  return files;
}

template <typename Change>
std::string message_of(const Inputs& inputs, Change change) {
  const TemporaryDirectory directory;
  data::PrepareOptions options = options_of(directory.path(), inputs);
  change(options);
  try {
    (void)prepare_from(options);
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::User) << error.what();
    EXPECT_THAT(tests::names_in(directory.path()), testing::ElementsAre("in", "vocab.txt"));
    return error.what();
  }
  return "";
}

TEST(PrepareFormats, EveryFormatGivesTheBytesOfText) {
  const TemporaryDirectory directory;
  const std::vector<std::string> all = texts_of(0, 300), one = texts_of(0, 120),
                                 two = texts_of(120, 90), three = texts_of(210, 90);
  const std::string lines = as_json_lines(all, "text");
  struct Variant {
    const char* name;
    Inputs inputs;
    int threads = 1;
    bool small_blocks = false;
  };
  const Variant variants[] = {
      {"text", {{"a.txt", documents_text(0, 300)}}},
      {"lines", {{"a.jsonl", lines}}},
      {"lines, small blocks, four threads", {{"a.ndjson", lines}}, 4, true},
      {"lines in gzip", {{"a.jsonl.gz", tests::gzip(lines)}}, 2},
      {"lines in zstd", {{"a.json.zst", tests::zstandard(lines)}}, 2, true},
      {"lines with a byte order mark", {{"a.json", "\xEF\xBB\xBF" + lines}}},
      {"rows", {{"a.csv", as_csv(all)}}},
      {"rows, small blocks, three threads", {{"a.csv.gz", tests::gzip(as_csv(all))}}, 3, true},
      {"a directory of all",
       {{"c.txt", documents_text(0, 120)},
        {"b.jsonl", as_json_lines(two, "text")},
        {"a.csv", as_csv(three)}},
       2,
       true},
      {"in another order",
       {{"a.jsonl.zst", tests::zstandard(as_json_lines(one, "text"))},
        {"b.csv", as_csv(two)},
        {"c", documents_text(210, 90)}},
       3,
       true},
  };
  std::map<std::string, std::string> expected;
  std::string fingerprint;
  for (const Variant& variant : variants) {
    data::PrepareOptions options = options_of(directory.path() / variant.name, variant.inputs);
    options.threads = variant.threads;
    if (variant.small_blocks) {
      options.read_block_bytes = 100;
      options.spill_bytes = 64;
      options.batch_bytes = 500;
    }
    const data::PrepareReport report = prepare_from(options);
    EXPECT_EQ(report.documents, 300) << variant.name;
    EXPECT_EQ(report.broken_records, 0) << variant.name << report.first_broken;
    if (expected.empty()) expected = data_files(options.output);
    if (fingerprint.empty()) fingerprint = report.fingerprint;
    EXPECT_EQ(data_files(options.output), expected) << variant.name;
    EXPECT_EQ(report.fingerprint, fingerprint) << variant.name;
    data::Dataset::open(options.output).verify();
  }
}

TEST(PrepareFormats, ADocumentOfJsonKeepsItsLinesAndEqualOnesAreKeptOnce) {
  const TemporaryDirectory directory;
  const data::PrepareOptions options = options_of(
      directory.path(),
      {{"a.jsonl",
        "{\"text\":\"the boat\\n\\n \\nthe wind\"}\n{\"text\":\"the boat\\r\\nthe wind\\n\"}\n"
        "{\"text\":\"the wind\"}\n{\"text\":\" \\n\"}\n{\"text\":\"\\ud800 a\"}\n"},
       {"b.txt", "the boat\nthe wind\n"}});
  const data::PrepareReport report = prepare_from(options);
  EXPECT_EQ(report.documents, 3);
  EXPECT_EQ(report.sentences, 2 + 1 + 1);
  EXPECT_EQ(report.duplicate_documents, 2);
  EXPECT_EQ(report.empty_documents, 1);
  EXPECT_EQ(report.invalid_sequences, 1);
}

TEST(PrepareFormats, BrokenLinesAreCountedAndTheFirstIsNamed) {
  for (const auto& [threads, block] :
       {std::pair<int, std::size_t>{1, 1U << 20U}, {1, 40}, {4, 40}}) {
    const TemporaryDirectory directory;
    std::string lines = as_json_lines(texts_of(0, 50), "text");
    lines += "{\"text\":\"the boat\" no}\n" + as_json_lines(texts_of(50, 50), "text");
    const auto line = std::count(lines.begin(), lines.end(), '\n');  // behind the broken one
    const auto behind = std::count(lines.begin() + static_cast<std::ptrdiff_t>(lines.find(" no}")),
                                   lines.end(), '\n');
    lines += "{\"text\":5}\nprose\n{\"t\":\"\"}\n[]\n";
    data::PrepareOptions options =
        options_of(directory.path(), {{"a.txt", documents_text(200, 5)}, {"b.jsonl", lines}});
    options.threads = threads;
    options.read_block_bytes = block;
    const data::PrepareReport report = prepare_from(options);
    EXPECT_EQ(report.documents, 105);
    EXPECT_EQ(report.broken_records, 5);
    const std::string place = (directory.path() / "in" / "b.jsonl").string() + ":" +
                              std::to_string(line - behind + 1) + ":20: ";
    EXPECT_THAT(report.first_broken, testing::StartsWith(place));
    EXPECT_THAT(data::summary_text(report, "out"),
                HasSubstr("5 broken lines were left out; the first: " + place));
  }
}

TEST(PrepareFormats, StrictFailsAtTheFirstBrokenLine) {
  const std::string lines = as_json_lines(texts_of(0, 40), "text");
  const auto count = std::count(lines.begin(), lines.end(), '\n');
  const Inputs inputs = {{"a.jsonl", lines + "{\"text\":null}\nbroken\n"}};
  for (const std::size_t block : {std::size_t{50}, std::size_t{1} << 20U}) {
    const std::string message = message_of(inputs, [&](data::PrepareOptions& o) {
      o.strict = true;
      o.threads = 3;
      o.read_block_bytes = block;
    });
    EXPECT_THAT(message, HasSubstr("a.jsonl:" + std::to_string(count + 1) +
                                   ":9: field 'text' is not a text"));
  }
  EXPECT_EQ(message_of({{"a.jsonl", lines + "\n \t\n"}},
                       [](data::PrepareOptions& o) { o.strict = true; }),
            "");
}

TEST(PrepareFormats, OptionsNameFieldColumnAndFormat) {
  const std::vector<std::string> texts = texts_of(0, 30);
  const std::string rows = as_csv(texts);
  std::string tabs = "text\tid\n";
  for (const std::string& text : texts_of(0, 31)) {
    if (text.find('\n') == std::string::npos) tabs += text + "\t1\n";
  }
  struct Case {
    const char* name;
    Inputs inputs;
    std::function<void(data::PrepareOptions&)> change;
    std::int64_t documents;
  };
  const Case cases[] = {
      {"field",
       {{"a.jsonl", as_json_lines(texts, "content")}},
       [](auto& o) { o.field = "content"; },
       30},
      {"column by name", {{"a.csv", rows}}, [](auto& o) { o.column = "text"; }, 30},
      {"column by number", {{"a.csv", rows}}, [](auto& o) { o.column = "2"; }, 30},
      {"tabs", {{"a.tsv", tabs}}, [](auto&) {}, 11},
      {"text, whatever the name",
       {{"a.jsonl", documents_text(0, 30)}, {"b.html", documents_text(30, 3)}},
       [](auto& o) { o.format = data::InputFormat::Text; },
       33},
      {"lines, whatever the name",
       {{"a.txt", as_json_lines(texts, "text")}},
       [](auto& o) { o.format = data::InputFormat::JsonLines; },
       30},
      {"rows, whatever the name",
       {{"a", rows}},
       [](auto& o) { o.format = data::InputFormat::Csv; },
       30},
  };
  for (const Case& c : cases) {
    const TemporaryDirectory directory;
    data::PrepareOptions options = options_of(directory.path(), c.inputs);
    c.change(options);
    const data::PrepareReport report = prepare_from(options);
    EXPECT_EQ(report.documents, c.documents) << c.name;
    EXPECT_EQ(report.unknown_tokens, 0) << c.name;
  }
}

TEST(PrepareFormats, StandardInputMayBeLines) {
  const TemporaryDirectory directory;
  data::PrepareOptions options =
      options_of(directory.path(), {{"a.jsonl", as_json_lines(texts_of(0, 40), "text")}});
  const std::string fingerprint = prepare_from(options).fingerprint;
  const base::UniqueFd file(::open((directory.path() / "in/a.jsonl").c_str(), O_RDONLY));
  options.inputs = {"-"};
  options.standard_input = file.get();
  options.output = directory.path() / "other";
  options.format = data::InputFormat::JsonLines;
  EXPECT_EQ(prepare_from(options).fingerprint, fingerprint);
}

TEST(PrepareFormats, SayWhatCannotBeRead) {
  struct Case {
    const char* name;
    Inputs inputs;
    const char* message;
    std::function<void(data::PrepareOptions&)> change = [](data::PrepareOptions&) {};
  };
  const std::string good = as_json_lines(texts_of(0, 9), "text");
  const Case cases[] = {
      {"no line",
       {{"a.jsonl", "{\"content\":\"a\"}\n{\"content\":\"b\"}\n"}},
       "a.jsonl:1:1: no field 'text'; the line has 'content'"},
      {"no line: what to do", {{"a.jsonl", "{\"content\":\"a\"}\n"}}, "--field"},
      {"printed over several lines",
       {{"a.json", "{\n  \"text\": \"a\"\n}\n"}},
       "3 broken lines, the first: "},
      {"a list", {{"a.json", "[{\"text\":\"a\"}]"}}, "write one object a line"},
      {"blank", {{"a.jsonl", "\n\n"}}, "corpus is empty"},
      {"one line", {{"a.jsonl", "{\"text\":\"a\"}\n"}}, "name inputs with more lines or rows"},
      {"a long line",
       {{"a.jsonl", good + "{\"text\":\"" + std::string(400, 'a') + "\"}\n" + good}},
       "a.jsonl has a line above 400 B",
       [](data::PrepareOptions& o) {
         o.longest_line = 400;
         o.read_block_bytes = 64;
       }},
      {"a PDF among others", {{"a.jsonl", good}, {"b", "%PDF-1.4\n\x01"}}, "b is a PDF"},
      {"a ZIP with NUL", {{"a", std::string("PK\x03\x04\0\0", 6)}}, "a is an archive"},
      {"a ZIP in gzip", {{"a.gz", tests::gzip("PK\x03\x04")}}, "a.gz is an archive"},
      {"a page by name", {{"a.jsonl", good}, {"b.html", "x"}}, "b.html is HTML"},
      {"no such column",
       {{"a.csv", as_csv(texts_of(0, 5))}},
       "--column is 'body'",
       [](data::PrepareOptions& o) { o.column = "body"; }},
      {"column without a row", {{"a.csv", "id,body\n"}}, "--column is 'text'"},
      {"an open quote", {{"a.csv", "text\n\"the boat\n"}}, "a.csv:2:1: "},
      {"NUL", {{"a.jsonl", good + std::string(1, '\0')}}, "a.jsonl has NUL bytes"},
  };
  for (const Case& c : cases) {
    const std::string message = message_of(c.inputs, c.change);
    EXPECT_THAT(message, HasSubstr(c.message)) << c.name;
    EXPECT_THAT(message, testing::Not(HasSubstr("\n"))) << c.name;
  }
}

// A line as long as it may be is read, however the blocks fall.
TEST(PrepareFormats, TheLongestLineIsRead) {
  const TemporaryDirectory directory;
  std::string lines = as_json_lines(texts_of(0, 9), "text");
  const std::string begin = "{\"text\":\"";
  lines += begin + std::string(400 - begin.size() - 2, 'a') + "\"}\n";
  data::PrepareOptions options = options_of(directory.path(), {{"a.jsonl", lines}});
  options.longest_line = 400;
  for (const std::size_t block : {1, 7, 64, 300}) {
    options.read_block_bytes = block;
    options.output = directory.path() / ("dataset" + std::to_string(block));
    EXPECT_EQ(prepare_from(options).documents, 10) << block;
  }
}

}  // namespace
}  // namespace regatta::trainer
