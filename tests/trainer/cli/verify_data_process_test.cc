// `regatta-train verify-data`: what is told of a dataset that is whole, and of one that is not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/process.h"
#include "tests/base/faulty_file_system.h"
#include "tests/trainer/data/prepared.h"
#include "tests/trainer/interchange/tokenizer_files.h"
#include "trainer/tasks/task_dataset.h"

namespace regatta::tests {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;
using trainer::tasks::TaskPrepareOptions;

constexpr double kVerifyDeadline = 60;  // seconds, on any machine
constexpr int kWrongInput = 7;          // exit codes
constexpr int kNotThere = 3;

base::Output verify_data(const std::vector<std::string>& arguments) {
  base::Command command;
  command.arguments = {std::string(REGATTA_BINARY_DIR) + "/trainer/regatta-train", "verify-data"};
  command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
  return base::run(command, kVerifyDeadline);
}

base::Path text_dataset(const base::Path& directory) {
  write_file(directory / "corpus.txt", documents_text(0, 40));
  trainer::data::PrepareOptions options = small_options(directory);
  options.shard_tokens = 200;
  options.held_out = 0.3;
  (void)trainer::data::prepare(options, base::posix_file_system());
  return options.output;
}

base::Path class_dataset(const base::Path& directory) {
  write_file(directory / "vocab.txt", kSmallVocabulary);
  write_file(directory / "train.tsv",
             "sentence\tlabel\nthe boat\tgood\nthe wind\tbad\nrow the boat\tgood\n");
  write_file(directory / "dev.tsv", "sentence\tlabel\nrow\tbad\na wind\tgood\n");
  TaskPrepareOptions options;
  options.task = trainer::contract::Task::Classification;
  options.training = directory / "train.tsv";
  options.evaluation = directory / "dev.tsv";
  options.vocabulary = directory / "vocab.txt";
  options.output = directory / "dataset";
  (void)trainer::tasks::prepare_task(options, base::posix_file_system());
  return options.output;
}

base::Path question_dataset(const base::Path& directory) {
  const auto squad = [](const std::string& questions) {
    return R"({"version": "v2.0", "data": [{"title": "t", "paragraphs": [{"context": )"
           R"("the boat rows.", "qas": [)" +
           questions + "]}]}]}";
  };
  const auto question = [](const std::string& id) {
    return R"({"id": ")" + id +
           R"(", "question": "a boat", "is_impossible": false,)"
           R"( "answers": [{"text": "boat", "answer_start": 4}]})";
  };
  write_file(directory / "vocab.txt", kSmallVocabulary);
  write_file(directory / "train.json", squad(question("1") + "," + question("2")));
  write_file(directory / "dev.json", squad(question("3")));
  TaskPrepareOptions options;
  options.training = directory / "train.json";
  options.evaluation = directory / "dev.json";
  options.vocabulary = directory / "vocab.txt";
  options.output = directory / "dataset";
  (void)trainer::tasks::prepare_task(options, base::posix_file_system());
  return options.output;
}

// As documents_text() makes them: of document i, lines of the, boat, row, ##s, a piece for each
// digit, wind, i % 5 times ##s, and the full stop.
struct Expected {
  std::int64_t documents = 0, sentences = 0, tokens = 0;
};
Expected expected_of(int documents) {
  Expected all;
  for (int i = 0; i < documents; ++i) {
    const int lines = i % 3 + 1;
    const auto digits = static_cast<int>(std::to_string(i).size());
    all.documents += 1;
    all.sentences += lines;
    all.tokens += lines * (6 + digits + i % 5);
  }
  return all;
}

TEST(VerifyDataProcess, TellsTheFiguresOfText) {
  const TemporaryDirectory directory;
  const std::string path = text_dataset(directory.path()).string();
  const std::string fingerprint =
      json::parse(read_file(path + "/dataset.json"))["fingerprint"].get<std::string>();
  const base::Output told = verify_data({path});
  EXPECT_EQ(told.exit.code, 0) << told.errors;
  EXPECT_EQ(told.errors, "");
  EXPECT_THAT(told.text, StartsWith("ok\ntask        pretraining\ntraining    "));
  EXPECT_THAT(told.text, HasSubstr("\nheld out    "));
  EXPECT_THAT(told.text, HasSubstr(" 0 unknown tokens\nvocabulary  39 pieces\n"));
  EXPECT_THAT(told.text, testing::EndsWith("\nfingerprint " + fingerprint + "\n"));
  const base::Output output = verify_data({path, "--json"});
  EXPECT_EQ(output.exit.code, 0) << output.errors;
  const json made = json::parse(output.text, nullptr, false);
  EXPECT_EQ(made["ok"], true);
  EXPECT_EQ(made["directory"], path);
  EXPECT_EQ(made["fingerprint"], fingerprint);
  EXPECT_EQ(made["vocabulary"], 39);
  const Expected expected = expected_of(40);
  for (const auto& [key, count] :
       {std::pair("documents", expected.documents), std::pair("sentences", expected.sentences),
        std::pair("tokens", expected.tokens)}) {
    EXPECT_EQ(made["training"][key].get<std::int64_t>() + made["held_out"][key].get<std::int64_t>(),
              count)
        << key;
    EXPECT_THAT(told.text, HasSubstr(made["held_out"][key].dump() + " " + key));
  }
}

TEST(VerifyDataProcess, TellsTheSamplesOfATask) {
  const TemporaryDirectory directory;
  for (const char* name : {"classes", "questions"}) {
    std::filesystem::create_directory(directory.path() / name);
  }
  const base::Path classes = class_dataset(directory.path() / "classes");
  const base::Output told = verify_data({classes.string()});
  EXPECT_EQ(told.exit.code, 0) << told.errors;
  EXPECT_THAT(told.text, StartsWith("ok\ntask        classification\ntraining    3 samples\n"
                                    "evaluation  2 samples\nvocabulary  39 pieces\n"
                                    "labels      bad, good\nfingerprint "));
  const base::Path questions = question_dataset(directory.path() / "questions");
  const json made = json::parse(verify_data({questions.string(), "--json"}).text, nullptr, false);
  EXPECT_EQ(made["task"], "question-answering");
  EXPECT_EQ(made["training"], json({{"samples", 2}}));
  EXPECT_EQ(made["evaluation"], json({{"samples", 1}}));
  EXPECT_FALSE(made.contains("labels"));
}

// One line that names the directory; with --json an object, too.
void expect_damage(const base::Path& path, const std::string& found) {
  const base::Output told = verify_data({path.string()});
  EXPECT_EQ(told.exit.code, kWrongInput) << told.errors;
  EXPECT_EQ(told.text, "");
  EXPECT_THAT(told.errors, StartsWith("regatta-train: dataset " + path.string() + " is damaged: "));
  EXPECT_THAT(told.errors, HasSubstr(found));
  EXPECT_EQ(std::count(told.errors.begin(), told.errors.end(), '\n'), 1) << told.errors;
  const base::Output object = verify_data({path.string(), "--json"});
  EXPECT_EQ(object.exit.code, kWrongInput) << object.errors;
  const json made = json::parse(object.text, nullptr, false);
  ASSERT_TRUE(made.is_object()) << object.text;
  EXPECT_EQ(made["ok"], false);
  EXPECT_EQ("regatta-train: " + made["error"].get<std::string>() + "\n", told.errors);
}

void expect_every_damage(const base::Path& path) {
  for (const std::string& name : names_in(path)) {
    SCOPED_TRACE(name);
    const std::string whole = read_file(path / name);
    std::string changed = whole;
    changed[whole.size() / 2] = static_cast<char>(changed[whole.size() / 2] ^ 1);
    write_file(path / name, changed);
    expect_damage(path, "");
    write_file(path / name, whole.substr(0, whole.size() / 2));
    expect_damage(path, "");
    write_file(path / name, whole);
  }
  EXPECT_EQ(verify_data({path.string()}).exit.code, 0);
}

TEST(VerifyDataProcess, FindsAFlippedBitAndACutInEveryFile) {
  const TemporaryDirectory directory;
  for (const char* name : {"text", "classes", "questions"}) {
    std::filesystem::create_directory(directory.path() / name);
  }
  expect_every_damage(text_dataset(directory.path() / "text"));
  expect_every_damage(class_dataset(directory.path() / "classes"));
  expect_every_damage(question_dataset(directory.path() / "questions"));
}

TEST(VerifyDataProcess, FindsAnEditedManifest) {
  const TemporaryDirectory directory;
  for (const char* name : {"text", "classes"}) {
    std::filesystem::create_directory(directory.path() / name);
  }
  const base::Path text = text_dataset(directory.path() / "text");
  const base::Path classes = class_dataset(directory.path() / "classes");
  struct Case {
    const base::Path* dataset;
    const char* manifest;
    const char* pointer;
    json value;
    const char* found;
  };
  const std::string zeros(32, '0');
  for (const Case& each : {
           Case{&text, "dataset.json", "/fingerprint", zeros, "fingerprint"},
           Case{&text, "dataset.json", "/corpus/digest", zeros, "fingerprint"},
           Case{&text, "dataset.json", "/tokenizer/lower_case", false, "fingerprint"},
           Case{&text, "dataset.json", "/vocabulary/digest", zeros, "vocab.txt"},
           Case{&text, "dataset.json", "/splits/training/tokens", 7, "do not add up"},
           Case{&text, "dataset.json", "/splits/held_out/documents", 1, "held_out.documents"},
           Case{&text, "dataset.json", "/splits/training/unknown_tokens", 1, "unknown tokens"},
           Case{&text, "dataset.json", "/files/0/digest", zeros, "has changed"},
           Case{&text, "dataset.json", "/files/0/name", "../corpus.txt", "does not list"},
           Case{&text, "dataset.json", "/format", "other", "dataset.json"},
           Case{&classes, "task.json", "/fingerprint", zeros, "task.json"},
           Case{&classes, "task.json", "/training/samples", 4, ""},
           Case{&classes, "task.json", "/evaluation/digest", zeros, ""},
       }) {
    SCOPED_TRACE(std::string(each.pointer) + " " + each.value.dump());
    const base::Path path = *each.dataset / each.manifest;
    const std::string whole = read_file(path);
    auto edited = nlohmann::ordered_json::parse(whole);
    const nlohmann::ordered_json::json_pointer pointer(each.pointer);
    ASSERT_TRUE(edited.contains(pointer));
    edited[pointer] = each.value;
    write_file(path, edited.dump(2) + "\n");
    expect_damage(*each.dataset, each.found);
    write_file(path, whole);
  }
}

TEST(VerifyDataProcess, WhatIsNoDatasetIsRefused) {
  const TemporaryDirectory directory;
  write_file(directory.path() / "file", "x");
  const std::string path = directory.path().string();
  for (const std::string& absent : {path, path + "/absent"}) {
    const base::Output output = verify_data({absent});
    EXPECT_EQ(output.exit.code, kNotThere) << output.errors;
    EXPECT_THAT(output.errors, HasSubstr("is not a dataset"));
  }
  const base::Output file = verify_data({path + "/file"});
  EXPECT_EQ(file.exit.code, kWrongInput) << file.errors;
  EXPECT_THAT(file.errors, HasSubstr("is a file, and a dataset is a folder"));
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{}, {""}, {path, path}, {path, "--jsn"}}) {
    EXPECT_EQ(verify_data(wrong).exit.code, 2);
  }
}

// The dataset is whole, and this is what is told of the tokenizer beside it.
struct ToldTokenizer {
  int code;
  std::string text;  // behind the figures of the dataset
  json object;
};
ToldTokenizer told_tokenizer(const base::Path& dataset, const base::Path& tokenizer) {
  const base::Output told = verify_data({dataset.string(), "--tokenizer", tokenizer.string()});
  EXPECT_EQ(told.errors, "");
  EXPECT_THAT(told.text, StartsWith("ok\ntask "));
  const base::Output output =
      verify_data({dataset.string(), "--tokenizer", tokenizer.string(), "--json"});
  EXPECT_EQ(output.exit.code, told.exit.code) << output.errors;
  const json made = json::parse(output.text, nullptr, false);
  EXPECT_EQ(made["ok"], true);
  EXPECT_EQ(made["tokenizer"]["same"], told.exit.code == 0);
  const std::size_t at = told.text.find("\ntokenizer   ");
  EXPECT_NE(at, std::string::npos) << told.text;
  return {told.exit.code.value_or(-1), told.text.substr(at + 1), made["tokenizer"]};
}

TEST(VerifyDataProcess, ATokenizerIsTheSameOrAnotherOrUnknown) {
  const TemporaryDirectory directory;
  const base::Path text = text_dataset(directory.path());
  std::filesystem::create_directory(directory.path() / "classes");
  const base::Path classes = class_dataset(directory.path() / "classes");
  const auto vocabulary = trainer::data::Vocabulary::parse(kSmallVocabulary, "small");
  const base::Path file = directory.path() / "model" / "tokenizer.json";
  std::filesystem::create_directory(file.parent_path());
  for (const base::Path& dataset : {text, classes}) {
    json made = tokenizer_json(vocabulary);
    write_file(file, made.dump());
    for (const base::Path& given : {file, file.parent_path()}) {
      const ToldTokenizer same = told_tokenizer(dataset, given);
      EXPECT_EQ(same.code, 0) << same.text;
      EXPECT_THAT(same.text, StartsWith("tokenizer   " + file.string() + " gives the same tokens"));
      EXPECT_EQ(same.object["verdict"], "same");
      EXPECT_EQ(same.object["differences"], json::array());
      EXPECT_EQ(same.object["first_difference"], nullptr);
    }
    made["normalizer"]["lowercase"] = false;
    write_file(file, made.dump());
    const ToldTokenizer other = told_tokenizer(dataset, file);
    EXPECT_EQ(other.code, 1) << other.text;
    EXPECT_THAT(other.text,
                HasSubstr(" gives other tokens than the dataset has\n  lower_case: true "
                          "in the dataset, false there\n"));
    EXPECT_THAT(other.text,
                HasSubstr("  first probe text that differs (prose): \"The quick brown"));
    EXPECT_THAT(other.text, HasSubstr("    dataset:   the [UNK] [UNK]"));
    EXPECT_THAT(other.text, HasSubstr("    tokenizer: [UNK] [UNK] [UNK]"));
    EXPECT_EQ(other.object["verdict"], "differs");
    EXPECT_EQ(other.object["differences"][0],
              json({{"rule", "lower_case"}, {"dataset", "true"}, {"tokenizer", "false"}}));
    EXPECT_EQ(other.object["first_difference"]["dataset"][0], "the");
    made["model"]["type"] = "BPE";
    write_file(file, made.dump());
    const ToldTokenizer unknown = told_tokenizer(dataset, file);
    EXPECT_EQ(unknown.code, 1);
    made["normalizer"]["lowercase"] = true;
    write_file(file, made.dump());
    EXPECT_EQ(told_tokenizer(dataset, file).object["verdict"], "unknown");
    EXPECT_THAT(told_tokenizer(dataset, file).text, HasSubstr("is unknown\n  not followed here: a "
                                                              "model of type 'BPE'"));
    const ToldTokenizer own = told_tokenizer(dataset, dataset / "vocab.txt");
    EXPECT_EQ(own.code, 0) << own.text;
    EXPECT_THAT(own.text, HasSubstr("not declared there, taken as the dataset's: lower_case"));
  }
}

TEST(VerifyDataProcess, ATokenizerThatCannotBeReadIsOneLine) {
  const TemporaryDirectory directory;
  const base::Path dataset = text_dataset(directory.path());
  const auto told = [&](const base::Path& tokenizer, int code) {
    const base::Output output = verify_data({dataset.string(), "--tokenizer", tokenizer.string()});
    EXPECT_EQ(output.exit.code, code) << output.errors;
    EXPECT_EQ(output.text, "");
    EXPECT_THAT(output.errors, HasSubstr(tokenizer.string()));
    EXPECT_EQ(std::count(output.errors.begin(), output.errors.end(), '\n'), 1) << output.errors;
    EXPECT_LT(output.errors.size(), 400U);
  };
  const base::Path file = directory.path() / "tokenizer.json";
  told(file, kNotThere);
  for (const std::string& bad :
       {std::string(), std::string("{"), std::string(10000, '['), std::string("{\"model\": 5}")}) {
    write_file(file, bad);
    told(file, kWrongInput);
  }
  std::filesystem::resize_file(file, 100'000'000);
  told(file, kWrongInput);
  told("/dev/null", kWrongInput);
  write_file(directory.path() / "other.txt", "no pieces of BERT\n");
  told(directory.path() / "other.txt", kWrongInput);
  EXPECT_EQ(verify_data({dataset.string(), "--tokenizer", ""}).exit.code, 2);
  const base::Output object =
      verify_data({dataset.string(), "--tokenizer", file.string(), "--json"});
  EXPECT_EQ(object.exit.code, kWrongInput);
  EXPECT_EQ(json::parse(object.text, nullptr, false)["ok"], false);
}

}  // namespace
}  // namespace regatta::tests
