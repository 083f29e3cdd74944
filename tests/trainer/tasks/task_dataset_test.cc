#include "trainer/tasks/task_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/process.h"
#include "base/text.h"
#include "tests/base/faulty_file_system.h"
#include "tests/shared_data.h"
#include "tests/trainer/data/compressed.h"
#include "tests/trainer/tasks/prepared_task.h"

namespace regatta::trainer {
namespace {

using base::Code;
using base::Path;
using contract::Task;
using tasks::ExampleFormat;
using tasks::Part;
using tasks::TaskDataset;
using tasks::TaskPrepareOptions;
using tasks::TaskPrepareReport;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

base::FileSystem& real_files() { return base::posix_file_system(); }

TEST(TaskDatasets, QuestionsAreWhatWasWritten) {
  const tests::TemporaryDirectory directory;
  const TaskPrepareOptions options = tests::task_options(directory.path(), Task::QuestionAnswering);
  const TaskPrepareReport report = tasks::prepare_task(options, real_files());
  EXPECT_EQ(report.training.samples, 4);
  EXPECT_EQ(report.training.impossible, 1);
  EXPECT_EQ(report.training.contexts, 1);
  EXPECT_EQ(report.training.tokens, 4 * 2 + 5);
  EXPECT_EQ(report.training.unknown, 4);
  EXPECT_EQ(report.evaluation.samples, 3);
  EXPECT_EQ(report.vocabulary_pieces, 39);
  EXPECT_TRUE(report.labels.empty());
  EXPECT_THAT(report.fingerprint, testing::MatchesRegex("[0-9a-f]{32}"));

  EXPECT_TRUE(TaskDataset::is_there(options.output, real_files()));
  EXPECT_FALSE(TaskDataset::is_there(directory.path(), real_files()));
  const TaskDataset dataset = TaskDataset::open(options.output, real_files());
  EXPECT_EQ(dataset.task(), Task::QuestionAnswering);
  EXPECT_EQ(dataset.fingerprint(), report.fingerprint);
  EXPECT_EQ(dataset.directory(), options.output);
  EXPECT_EQ(dataset.vocabulary().text(), tests::kSmallVocabulary);
  EXPECT_TRUE(dataset.lower_case());
  EXPECT_EQ(dataset.samples(Part::Training), 4);
  EXPECT_EQ(dataset.samples(Part::Evaluation), 3);
  const tasks::QuestionSet set = dataset.questions(Part::Evaluation);
  EXPECT_EQ(set.contexts, std::vector<std::string>{"the boat rows."});
  ASSERT_EQ(set.questions.size(), 3U);
  EXPECT_EQ(set.questions[0].id, "e0");
  EXPECT_EQ(set.questions[0].answers.at(0).begin, 4U);
  EXPECT_TRUE(set.questions[2].impossible);
  EXPECT_EQ(dataset.questions(Part::Training).questions.at(3).id, "t3");
  EXPECT_THAT(tests::names_in(options.output),
              ElementsAre("evaluation.json", "task.json", "training.json", "vocab.txt"));
  EXPECT_EQ(tests::read_file(options.output / "training.json"), tests::read_file(options.training));
  EXPECT_EQ(to_json(dataset.manifest()), tests::read_file(options.output / "task.json"));
}

TEST(TaskDatasets, LabelsAreTheTrainings) {
  const tests::TemporaryDirectory directory;
  TaskPrepareOptions options = tests::task_options(directory.path(), Task::Classification);
  TaskPrepareReport report = tasks::prepare_task(options, real_files());
  EXPECT_THAT(report.labels, ElementsAre("bad", "good"));
  EXPECT_THAT(report.training.examples_by_label, ElementsAre(1, 3));
  EXPECT_THAT(report.evaluation.examples_by_label, ElementsAre(1, 1));
  EXPECT_THAT(report.warnings, IsEmpty());
  const TaskDataset dataset = TaskDataset::open(options.output, real_files());
  EXPECT_THAT(dataset.labels(), ElementsAre("bad", "good"));
  EXPECT_THAT(dataset.examples(Part::Training).classes, ElementsAre(1, 0, 1, 1));
  EXPECT_THAT(dataset.examples(Part::Evaluation).classes, ElementsAre(1, 0));
  EXPECT_THAT(dataset.examples(Part::Evaluation).texts, ElementsAre("the wind rows", "boats"));

  // Of those that are evaluated, only one is there; and given ones have their order.
  tests::write_file(options.evaluation, "label\tsentence\nbad\ta\n");
  options.output = directory.path() / "ordered";
  options.examples.labels = {"good", "bad"};
  report = tasks::prepare_task(options, real_files());
  EXPECT_THAT(report.labels, ElementsAre("good", "bad"));
  const TaskDataset ordered = TaskDataset::open(options.output, real_files());
  EXPECT_THAT(ordered.examples(Part::Training).classes, ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(ordered.examples(Part::Evaluation).classes, ElementsAre(1));
  EXPECT_THAT(report.warnings,
              ElementsAre("evaluation has no example of label 'good'; it should have some of every "
                          "label"));
}

TEST(TaskDatasets, NumbersOfRegression) {
  const tests::TemporaryDirectory directory;
  TaskPrepareOptions options = tests::task_options(directory.path(), Task::Regression);
  options.lower_case = false;
  const TaskPrepareReport report = tasks::prepare_task(options, real_files());
  EXPECT_EQ(report.training.least, -2);
  EXPECT_EQ(report.training.mean, 1.5);
  EXPECT_EQ(report.training.most, 5);
  const TaskDataset dataset = TaskDataset::open(options.output, real_files());
  EXPECT_EQ(dataset.task(), Task::Regression);
  EXPECT_FALSE(dataset.lower_case());
  EXPECT_THAT(dataset.labels(), IsEmpty());
  EXPECT_THAT(dataset.examples(Part::Training).values, ElementsAre(1.5, -2, 5));
}

// The boundaries of the summary: nearest rank of 95 %, special tokens of pairs and single texts.
TEST(TaskDatasets, TellsWhatItHas) {
  const tests::TemporaryDirectory directory;
  TaskPrepareOptions options = tests::task_options(directory.path(), Task::Classification);
  std::string table = "question1\tquestion2\tis_duplicate\n";  // 19 of 3 + 1 + 1, one of 3 + 8 + 1
  for (int i = 0; i < 19; ++i) table += "the\tboat\t" + std::to_string(i % 4 == 0 ? 1 : 0) + "\n";
  tests::write_file(options.training, table + "the boat rows the wind the\twind\t0\n");
  tests::write_file(options.evaluation, "question1\tquestion2\tis_duplicate\nzzz\twind\t1\n");
  const TaskPrepareReport report = tasks::prepare_task(options, real_files());
  std::string text = summary_text(report, "made\n");
  const std::string taken = base::human_seconds(report.seconds);
  text.replace(text.find(taken), taken.size(), "T");
  EXPECT_EQ(text,
            "classification, vocabulary of 39 pieces, lower case, in T -> made\\n\n"
            "training: 20 examples of two texts\n"
            "  tokens per example: mean 5.3, 95 % at most 5, longest 11\n"
            "  unknown pieces: 0.0 %\n"
            "evaluation: 1 example of two texts\n"
            "  tokens per example: mean 5.0, 95 % at most 5, longest 5\n"
            "  unknown pieces: 50.0 %\n"
            "2 labels:\n"
            "  '0': training 75.0 % (15), evaluation 0.0 % (0)\n"
            "  '1': training 25.0 % (5), evaluation 100.0 % (1)\n"
            "fingerprint: " +
                report.fingerprint + "\n");
  options = tests::task_options(directory.path(), Task::QuestionAnswering);
  options.force = true;
  options.lower_case = false;
  const std::string questions = summary_text(tasks::prepare_task(options, real_files()), "made");
  EXPECT_THAT(questions, HasSubstr("question-answering, vocabulary of 39 pieces, case kept, in "));
  EXPECT_THAT(questions, HasSubstr("\ntraining: 4 questions, 1 without an answer, 1 context\n"
                                   "  tokens per question: mean 2.0, 95 % at most 2, longest 2\n"
                                   "  tokens per context: mean 5.0, 95 % at most 5, longest 5\n"));
  options = tests::task_options(directory.path(), Task::Regression);
  options.force = true;
  EXPECT_THAT(summary_text(tasks::prepare_task(options, real_files()), "made"),
              HasSubstr("  labels: mean 1.5, from -2 to 5\n"));
}

// The name says the format and the compression; the bytes stay.
TEST(TaskDatasets, FilesStayAsTheyAre) {
  struct Case {
    const char* given;
    ExampleFormat format;
    const char* kept;
  };
  const std::string table = tests::kTrainingTable;
  std::string commas = table, lines;
  for (char& c : commas) c = c == '\t' ? ',' : c;
  for (const char* label : {"bad", "good"}) {
    lines += std::string(R"({"sentence":"the boat","label":")") + label + "\"}\n";
  }
  for (const Case& c : {Case{"train.TSV", ExampleFormat::Automatic, "training.tsv"},
                        Case{"train.v2.csv", ExampleFormat::Automatic, "training.csv"},
                        Case{"train.ndjson", ExampleFormat::Automatic, "training.jsonl"},
                        Case{"train.tsv.gz", ExampleFormat::Automatic, "training.tsv.gz"},
                        Case{"train.csv.ZST", ExampleFormat::Automatic, "training.csv.zst"},
                        Case{"train", ExampleFormat::Csv, "training.csv"},
                        Case{"train.tsv", ExampleFormat::JsonLines, "training.jsonl"},
                        Case{"train.txt.gz", ExampleFormat::Tsv, "training.tsv.gz"}}) {
    SCOPED_TRACE(c.given);
    const tests::TemporaryDirectory directory;
    TaskPrepareOptions options = tests::task_options(directory.path(), Task::Classification);
    const std::string kept = c.kept;
    const bool is_csv = kept.find(".csv") != std::string::npos;
    std::string bytes = is_csv ? commas : kept.find(".tsv") != std::string::npos ? table : lines;
    if (c.format != ExampleFormat::Automatic) tests::write_file(options.evaluation, bytes);
    if (kept.ends_with(".gz")) bytes = tests::gzip(bytes);
    if (kept.ends_with(".zst")) bytes = tests::zstandard(bytes);
    options.training = directory.path() / c.given;
    options.examples.format = c.format;
    tests::write_file(options.training, bytes);
    const TaskPrepareReport report = tasks::prepare_task(options, real_files());
    EXPECT_EQ(tests::read_file(options.output / kept), bytes);
    const TaskDataset dataset = TaskDataset::open(options.output, real_files());
    EXPECT_EQ(dataset.examples(Part::Training).texts.size(),
              static_cast<std::size_t>(report.training.samples));
    EXPECT_EQ(dataset.examples(Part::Training).texts.at(0), "the boat");
    EXPECT_EQ(dataset.samples(Part::Training), report.training.samples);
  }
}

TEST(TaskDatasets, TablesWithoutAHeader) {
  const tests::TemporaryDirectory directory;
  TaskPrepareOptions options = tests::task_options(directory.path(), Task::Classification);
  tests::write_file(options.training, "1\tthe\twind\n0\ta\tboat\n");
  tests::write_file(options.evaluation, "0\tthe\tboat\n");
  options.examples.header = false;
  options.examples.text_column = "3";
  options.examples.second_text_column = "2";
  options.examples.label_column = "1";
  (void)tasks::prepare_task(options, real_files());
  const TaskDataset dataset = TaskDataset::open(options.output, real_files());
  EXPECT_THAT(dataset.examples(Part::Training).texts, ElementsAre("wind", "boat"));
  EXPECT_THAT(dataset.examples(Part::Training).second_texts, ElementsAre("the", "a"));
  EXPECT_THAT(dataset.examples(Part::Evaluation).classes, ElementsAre(0));
}

struct BadTask {
  const char* name;
  Task task;
  std::function<void(TaskPrepareOptions&, const Path&)> change;
  Code code;
  const char* message;
};

const BadTask kBadTaskOptions[] = {
    {"pre-training", Task::Pretraining, [](auto&, auto&) {}, Code::User, "pretraining has no"},
    {"no training file", Task::Classification, [](auto& o, auto&) { o.training.clear(); },
     Code::User, "no training file"},
    {"no evaluation file", Task::Classification, [](auto& o, auto&) { o.evaluation.clear(); },
     Code::User, "no evaluation file"},
    {"standard input", Task::Regression, [](auto& o, auto&) { o.training = "-"; }, Code::User,
     "the training file is '-'"},
    {"a directory", Task::QuestionAnswering, [](auto& o, auto& d) { o.evaluation = d; }, Code::User,
     "is a directory; name one evaluation file"},
    {"absent training file", Task::QuestionAnswering,
     [](auto& o, auto& d) { o.training = d / "absent.json"; }, Code::NotFound, "absent.json"},
    {"absent evaluation file", Task::Regression,
     [](auto& o, auto& d) { o.evaluation = d / "absent.tsv"; }, Code::NotFound, "absent.tsv"},
    {"no vocabulary", Task::Regression, [](auto& o, auto&) { o.vocabulary.clear(); }, Code::User,
     "no vocabulary"},
    {"absent vocabulary", Task::Regression, [](auto& o, auto& d) { o.vocabulary = d / "absent"; },
     Code::NotFound, "absent"},
    {"vocabulary without [MASK]", Task::Regression,
     [](auto& o, auto&) { tests::write_file(o.vocabulary, "[PAD]\n[UNK]\n[CLS]\n[SEP]\n"); },
     Code::User, "no piece [MASK]"},
    {"no output", Task::Regression, [](auto& o, auto&) { o.output.clear(); }, Code::User,
     "no output"},
    {"output in an absent directory", Task::Regression,
     [](auto& o, auto& d) { o.output = d / "no" / "such"; }, Code::NotFound, "no/such"},
    {"output is a file", Task::Regression, [](auto& o, auto& d) { o.output = d / "vocab.txt"; },
     Code::Conflict, "vocab.txt exists already and is not a dataset"},
    {"columns of questions", Task::QuestionAnswering,
     [](auto& o, auto&) { o.examples.text_column = "text"; }, Code::User, "have no columns"},
    {"label column of questions", Task::QuestionAnswering,
     [](auto& o, auto&) { o.examples.label_column = "label"; }, Code::User, "have no columns"},
    {"header of questions", Task::QuestionAnswering,
     [](auto& o, auto&) { o.examples.header = false; }, Code::User, "have no columns"},
    {"format of questions", Task::QuestionAnswering,
     [](auto& o, auto&) { o.examples.format = ExampleFormat::Csv; }, Code::User, "have no columns"},
    {"labels of numbers", Task::Regression,
     [](auto& o, auto&) {
       o.examples.labels = {"1", "2"};
     },
     Code::User, "numbers have no list of labels"},
    {"second text alone", Task::Classification,
     [](auto& o, auto&) { o.examples.second_text_column = "b"; }, Code::User, "set text_column"},
};

const BadTask kBadTaskFiles[] = {
    {"training is no SQuAD", Task::QuestionAnswering,
     [](auto& o, auto&) { tests::write_file(o.training, "{}"); }, Code::User,
     "training.json: data is missing"},
    {"evaluation is cut short", Task::QuestionAnswering,
     [](auto& o, auto&) { tests::write_file(o.evaluation, R"({"data":[)"); }, Code::User,
     "evaluation.json: not JSON, or cut short"},
    {"a question without an answer in evaluation", Task::QuestionAnswering,
     [](auto& o, auto&) {
       tests::write_file(o.evaluation, R"({"data":[{"paragraphs":[{"context":"a","qas":[{"id":"1",)"
                                       R"("question":"b","answers":[]}]}]}]})");
     },
     Code::User, "evaluation.json: data[0].paragraphs[0].qas[0].answers (id '1') is empty"},
    {"an empty file", Task::QuestionAnswering,
     [](auto& o, auto&) { tests::write_file(o.training, ""); }, Code::User, "training.json: not"},
    {"a label that training has not", Task::Classification,
     [](auto& o, auto&) { tests::write_file(o.evaluation, "sentence\tlabel\na\tgood\nb\tugly\n"); },
     Code::User, "evaluation.tsv:3: the label in column 'label' is 'ugly', which is none of the "},
    {"one label", Task::Classification,
     [](auto& o, auto&) { tests::write_file(o.training, "sentence\tlabel\na\tgood\n"); },
     Code::User, "classification needs two classes"},
    {"a label that is no number", Task::Regression,
     [](auto& o, auto&) { tests::write_file(o.evaluation, "text\tscore\na\t1\nb\thigh\n"); },
     Code::User, "evaluation.tsv:3: the label in column 'score' is 'high'"},
    {"no examples", Task::Regression,
     [](auto& o, auto&) { tests::write_file(o.evaluation, "text\tscore\n"); }, Code::User,
     "evaluation.tsv: it has no examples"},
    {"an empty text", Task::Classification,
     [](auto& o, auto&) { tests::write_file(o.training, "sentence\tlabel\n \tgood\n"); },
     Code::User, "training.tsv:2: the text in column 'sentence' is empty"},
    {"columns of other names in evaluation", Task::Classification,
     [](auto& o, auto&) { tests::write_file(o.evaluation, "words\tlabel\na\tgood\n"); }, Code::User,
     "evaluation.tsv: which columns are the texts?"},
    {"a column that evaluation has not", Task::Classification,
     [](auto& o, auto&) {
       o.examples.text_column = "sentence";
       tests::write_file(o.evaluation, "text\tlabel\na\tgood\n");
     },
     Code::User, "evaluation.tsv"},
    {"pairs in evaluation alone", Task::Classification,
     [](auto& o, auto&) {
       tests::write_file(o.evaluation, "sentence1\tsentence2\tlabel\na\tb\tgood\n");
     },
     Code::User, "evaluation.tsv has pairs of texts, and the training file single texts"},
    {"pairs in training alone", Task::Classification,
     [](auto& o, auto&) {
       tests::write_file(o.training, "sentence1\tsentence2\tlabel\na\tb\tgood\na\tb\tbad\n");
     },
     Code::User, "evaluation.tsv has single texts, and the training file pairs"},
    {"a name without a format", Task::Classification,
     [](auto& o, auto& d) {
       std::filesystem::rename(o.training, d / "training.txt");
       o.training = d / "training.txt";
     },
     Code::User, "set format to tsv, csv or jsonl"},
    {"damaged gzip", Task::Classification,
     [](auto& o, auto&) {
       tests::write_file(o.training, tests::gzip(tests::kTrainingTable).substr(0, 30));
     },
     Code::User, "training.tsv"},
};

void expect_bad_task(const BadTask& c) {
  SCOPED_TRACE(c.name);
  const tests::TemporaryDirectory directory;
  TaskPrepareOptions options = tests::task_options(directory.path(), c.task);
  c.change(options, directory.path());
  const auto before = tests::files_of(directory.path());
  const auto names_before = tests::names_in(directory.path());
  const auto [code, message] =
      tests::task_error([&] { (void)tasks::prepare_task(options, real_files()); });
  EXPECT_THAT(message, HasSubstr(c.message));
  EXPECT_EQ(code, c.code) << message;
  EXPECT_EQ(tests::files_of(directory.path()), before);
  EXPECT_EQ(tests::names_in(directory.path()), names_before);
}
TEST(TaskDatasets, BadOptionsLeaveNothing) {
  for (const BadTask& c : kBadTaskOptions) expect_bad_task(c);
}
TEST(TaskDatasets, BadFilesLeaveNothing) {
  for (const BadTask& c : kBadTaskFiles) expect_bad_task(c);
}

TEST(TaskDatasets, Warnings) {
  using Change = std::function<void(TaskPrepareOptions&)>;
  struct Case {
    const char* name;
    Task task;
    Change change;
    std::vector<std::string> beginnings;  // of the warnings
  };
  const auto questions = [](const std::string& training, const std::string& evaluation) {
    return [=](TaskPrepareOptions& o) {
      tests::write_file(o.vocabulary, std::string(tests::kSmallVocabulary) + "?\n");
      tests::write_file(o.training, training);
      tests::write_file(o.evaluation, evaluation);
    };
  };
  const auto table = [](const std::string& evaluation) {
    return [=](TaskPrepareOptions& o) { tests::write_file(o.evaluation, evaluation); };
  };
  const std::string header = "sentence\tlabel\n";
  std::string nineteen = "the";
  for (int i = 0; i < 18; ++i) nineteen += " the";
  const Case cases[] = {
      {"none",
       Task::QuestionAnswering,
       questions(tests::small_squad("t", 2, 1), tests::small_squad("e", 2, 1)),
       {}},
      {"one path twice",
       Task::Regression,
       [](auto& o) { o.evaluation = o.training; },
       {"training and evaluation are the same file"}},
      {"two paths to the same bytes",
       Task::QuestionAnswering,
       questions(tests::small_squad("t", 2, 1), tests::small_squad("t", 2, 1)),
       {"training and evaluation are the same file"}},
      {"one id in both",
       Task::QuestionAnswering,
       questions(tests::small_squad("t", 1, 0), tests::small_squad("t", 3, 0)),
       {"1 question of 3 in evaluation has an id of training, the first 't0'"}},
      {"ids in both",
       Task::QuestionAnswering,
       questions(tests::small_squad("t", 3, 1), tests::small_squad("t", 2, 1)),
       {"2 questions of 2 in evaluation have ids of training, the first 't0'"}},
      {"answers to all in training alone",
       Task::QuestionAnswering,
       questions(tests::small_squad("t", 2, 0), tests::small_squad("e", 2, 1)),
       {"evaluation has 1 question without an answer, and training none"}},
      {"answers to all in evaluation alone",
       Task::QuestionAnswering,
       questions(tests::small_squad("t", 2, 1), tests::small_squad("e", 2, 0)),
       {}},
      {"a label that evaluation has not",
       Task::Classification,
       table(header + "a\tgood\n"),
       {"evaluation has no example of label 'bad'"}},
      {"5 % unknown",
       Task::Classification,
       table(header + nineteen + " zzz\tgood\nthe\tbad\n"),
       {}},
      {"above 5 % unknown",
       Task::Classification,
       table(header + nineteen.substr(4) + " zzz\tgood\nzzz\tbad\n"),
       {"10.0 % of the pieces of evaluation are unknown ([UNK])"}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const tests::TemporaryDirectory directory;
    TaskPrepareOptions options = tests::task_options(directory.path(), c.task);
    c.change(options);
    const TaskPrepareReport report = tasks::prepare_task(options, real_files());
    ASSERT_EQ(report.warnings.size(), c.beginnings.size())
        << testing::PrintToString(report.warnings);
    for (std::size_t i = 0; i < c.beginnings.size(); ++i) {
      EXPECT_THAT(report.warnings[i], testing::StartsWith(c.beginnings[i]));
    }
  }
}

// Counts and lengths as squad_lengths.py finds them, and the files byte for byte.
TEST(TaskDatasets, PublishedQuestions) {
  REGATTA_NEED_SHARED("data/squad");
  REGATTA_NEED_SHARED("data/vocab");
  const Path squad = tests::shared_path("data/squad");
  struct Case {
    const char* training;
    const char* evaluation;
    const char* vocabulary;
    bool lower_case;
    std::size_t warnings;
  };
  for (const Case& c : {Case{"train-v2.0.first10articles.json", "dev-v2.0.reconstructed.json",
                             "bert-base-uncased", true, 0},
                        Case{"xquad.zh.json", "xquad.en.json", "bert-base-cased", false, 2}}) {
    SCOPED_TRACE(c.training);
    const tests::TemporaryDirectory directory;
    TaskPrepareOptions options;
    options.training = squad / c.training;
    options.evaluation = squad / c.evaluation;
    options.vocabulary = tests::shared_path("data/vocab") / c.vocabulary / "vocab.txt";
    options.lower_case = c.lower_case;
    options.output = directory.path() / "dataset";
    const TaskPrepareReport report = tasks::prepare_task(options, real_files());
    EXPECT_EQ(report.warnings.size(), c.warnings) << testing::PrintToString(report.warnings);
    for (const Part part : tasks::kParts) {
      const Path& file = part == Part::Training ? options.training : options.evaluation;
      const auto& found = part == Part::Training ? report.training : report.evaluation;
      base::Command command;
      command.arguments = {
          "python3", "-B",
          std::string(REGATTA_SOURCE_DIR) + "/tests/trainer/tasks/squad_lengths.py", file.string(),
          options.vocabulary.string()};
      if (!c.lower_case) command.arguments.emplace_back("--cased");
      const base::Output output = base::run(command, 200);
      ASSERT_EQ(output.exit.code.value_or(-1), 0) << output.errors;
      std::string text = std::to_string(found.samples) + " " + std::to_string(found.impossible) +
                         " " + std::to_string(found.contexts) + " " + std::to_string(found.tokens) +
                         " " + std::to_string(found.unknown);
      for (const tasks::TokenLengths& lengths : found.lengths) {
        char figures[96];
        std::snprintf(figures, sizeof figures, " %.6f %lld %lld", lengths.mean,
                      static_cast<long long>(lengths.long_tokens),
                      static_cast<long long>(lengths.longest));
        text += figures;
      }
      EXPECT_EQ(text + "\n", output.text);
    }
    const TaskDataset dataset = TaskDataset::open(options.output, real_files());
    EXPECT_EQ(tests::read_file(options.output / "training.json"),
              tests::read_file(options.training));
    EXPECT_EQ(dataset.questions(Part::Evaluation).questions.size(),
              static_cast<std::size_t>(report.evaluation.samples));
  }
}

}  // namespace
}  // namespace regatta::trainer
