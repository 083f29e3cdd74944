#include "trainer/data/input_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace regatta::trainer {
namespace {

using data::InputFormat;
using testing::HasSubstr;

TEST(InputFormat, IsTheEndingBehindCompression) {
  struct Case {
    const char* path;
    InputFormat format;
  };
  const Case cases[] = {
      {"a.jsonl", InputFormat::JsonLines},
      {"a.ndjson", InputFormat::JsonLines},
      {"a.json", InputFormat::JsonLines},
      {"A.JSONL", InputFormat::JsonLines},
      {"b/a.x.jsonl.gz", InputFormat::JsonLines},
      {"a.json.zst", InputFormat::JsonLines},
      {"a.csv", InputFormat::Csv},
      {"a.csv.gz", InputFormat::Csv},
      {"a.tsv", InputFormat::Tsv},
      {"a.txt", InputFormat::Text},
      {"a", InputFormat::Text},
      {"a.gz", InputFormat::Text},
      {"jsonl", InputFormat::Text},
      {".jsonl", InputFormat::Text},
      {"a.jsonl/b", InputFormat::Text},
      {"a.jsonl.txt", InputFormat::Text},
      {"-", InputFormat::Text},
      {"/dev/fd/63", InputFormat::Text},
  };
  for (const Case& c : cases) EXPECT_EQ(data::format_of(c.path), c.format) << c.path;
}

TEST(InputFormat, HasNames) {
  EXPECT_EQ(data::input_format_named("text"), InputFormat::Text);
  EXPECT_EQ(data::input_format_named("jsonl"), InputFormat::JsonLines);
  EXPECT_EQ(data::input_format_named("csv"), InputFormat::Csv);
  EXPECT_EQ(data::input_format_named("tsv"), InputFormat::Tsv);
  EXPECT_EQ(data::input_format_named("JSONL"), std::nullopt);
  EXPECT_EQ(data::input_format_named(""), std::nullopt);
}

template <typename Call>
void expect_refused(Call call, const std::string& file, const char* advice) {
  try {
    call();
    ADD_FAILURE() << file << " is not refused";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::User);
    EXPECT_THAT(error.what(), HasSubstr(file));
    EXPECT_THAT(error.what(), HasSubstr(advice)) << file;
    EXPECT_THAT(error.what(), testing::Not(HasSubstr("\n")));
  }
}

TEST(InputFormat, OtherKindsAreRefusedByTheirEnding) {
  struct Case {
    const char* path;
    const char* advice;
  };
  const Case cases[] = {
      {"a.html", "pandoc"},       {"a.htm", "pandoc"},
      {"a.HTML.gz", "pandoc"},    {"a.pdf", "pdftotext"},
      {"a.zip", "unpack it"},     {"a.tar", "unpack it"},
      {"a.tar.gz", "unpack it"},  {"a.tgz", "unpack it"},
      {"a.7z", "unpack it"},      {"a.docx", "plain text"},
      {"a.xlsx", "plain text"},   {"a.odt", "plain text"},
      {"a.doc", "plain text"},    {"a.parquet", "built without Arrow"},
      {"a.txt.xz", "decompress"}, {"a.jsonl.bz2", "decompress"},
  };
  for (const Case& c : cases) {
    expect_refused([&] { (void)data::format_of(c.path); }, c.path, c.advice);
  }
}

TEST(InputFormat, OtherKindsAreRefusedByTheirFirstBytes) {
  struct Case {
    const char* path;
    std::string head;
    const char* advice;
    bool is_asked = false;
  };
  const Case cases[] = {
      {"page", "<!DOCTYPE html>\n<p>", "pandoc"},
      {"page.txt", " \n<html lang=en>", "pandoc"},
      {"paper.txt", "%PDF-1.7\n", "pdftotext"},
      {"paper asked", "%PDF-1.7\n", "pdftotext", true},
      {"a", "PK\x03\x04\x14", "unpack it"},
      {"letter.docx", "PK\x03\x04\x14", "plain text", true},
      {"old", "\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1", "plain text"},
      {"seven", "7z\xBC\xAF\x27\x1C", "unpack it"},
      {"tape", "a.txt" + std::string(252, '\0') + "ustar  ", "unpack it"},
      {"table", std::string("PAR1\x15\x04\x15\x00", 8), "built without Arrow"},
      {"table asked", std::string("PAR1\x15\x04\x15\x00", 8), "built without Arrow", true},
      {"list.json", "\n [ {\"text\": 1}", "one object a line"},
      {"list.jsonl", "[{\"text\"", "one object a line"},
      {"text.json.gz", "\"text\"", "one object a line"},
  };
  for (const Case& c : cases) {
    expect_refused([&] { data::check_content(c.path, c.path, c.head, c.is_asked); }, c.path,
                   c.advice);
  }
}

TEST(InputFormat, WhatMayBeTextIsRead) {
  struct Case {
    const char* path;
    std::string head;
    bool is_asked = false;
  };
  const Case cases[] = {
      {"empty", ""},
      {"empty.json", ""},
      {"blank.json", " \n\r\n"},
      {"a.json", " \r\n{\"text\""},
      {"a.jsonl", "broken\n{\"text\""},  // a broken line, which is counted
      {"list.json", "[1]", true},
      {"page.html", "<!doctype html>", true},
      {"a.txt", "PAR1 is a protein.\n"},
      {"a.txt", "PK was here\n"},
      {"a.txt", "<htmlish>\n"},
      {"a.txt", "{\"text\""},
      {"a.txt", std::string(257, 'a') + "Ustar"},
  };
  for (const Case& c : cases) {
    EXPECT_NO_THROW(data::check_content(c.path, c.path, c.head, c.is_asked)) << c.path << c.head;
  }
}

}  // namespace
}  // namespace regatta::trainer
