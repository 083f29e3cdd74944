// Files predicted by models of every task: what is written, what is scored, what is refused.
#include "trainer/interchange/predict_file.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/text.h"
#include "tests/trainer/interchange/tried_model.h"
#include "trainer/interchange/try_model.h"
#include "trainer/run/checkpoint_evaluation.h"
#include "trainer/tasks/task_dataset.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using contract::Task;
using nlohmann::json;

// Three questions of which the last has no answer.
constexpr char kThreeQuestions[] =
    R"({"version": "v2.0", "data": [{"paragraphs": [{"context": "the boat is at sea", "qas": [
        {"id": "a", "question": "what is at sea", "is_impossible": false,
         "answers": [{"text": "the boat", "answer_start": 0}]},
        {"id": "b", "question": "at what", "is_impossible": false,
         "answers": [{"text": "sea", "answer_start": 15}]},
        {"id": "c", "question": "what", "is_impossible": true, "answers": []}]}]}]})";
constexpr char kUnlabelled[] =
    R"({"version": "v2.0", "data": [{"paragraphs": [{"context": "the boat is at sea", "qas": [
        {"id": "a", "question": "what is at sea"}, {"id": "b", "question": "at what"}]}]}]})";

class PredictFile : public TriedModel {
 protected:
  [[nodiscard]] interchange::PredictOptions predicting(Task task, const std::string& name,
                                                       const std::string& text) const {
    write_text(path() / name, text);
    interchange::PredictOptions options;
    options.model = model_of(task);
    options.file = path() / name;
    options.output = path() / "out";
    options.use.threads = 1;
    return options;
  }
  static interchange::Predicted predict(const interchange::PredictOptions& options) {
    return interchange::predict_file(disk(), base::system_clock(), options);
  }
  [[nodiscard]] json read_json(const char* name) const {
    return json::parse(disk().read(path() / "out" / name, 1U << 20U));
  }
};

std::map<std::string, double> predicted_figures(const std::vector<contract::Metric>& metrics) {
  std::map<std::string, double> figures;
  for (const contract::Metric& metric : metrics) figures[metric.name] = metric.value;
  return figures;
}

TEST_F(PredictFile, ClassesHaveTheProbabilitiesOfPlainPython) {
  const std::vector<std::string> texts = {"the boat", "a b c is at sea", "what ?", "xyz"};
  std::vector<std::string> arguments = {"classify", model_of(Task::Classification).string()};
  arguments.insert(arguments.end(), texts.begin(), texts.end());
  const json both = json::parse(python_says(arguments), nullptr, false);
  const std::vector<std::string> labels = {"no", "so so", "yes"};
  std::string table = "sentence\tlabel\n";
  int right = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto shares = both.at("double")[i].get<std::vector<double>>();
    const auto best = std::max_element(shares.begin(), shares.end()) - shares.begin();
    right += best == static_cast<std::ptrdiff_t>(i % 3) ? 1 : 0;
    table += texts[i] + "\t" + labels[i % 3] + "\n";
  }
  const interchange::Predicted predicted =
      predict(predicting(Task::Classification, "some.tsv", table));
  EXPECT_EQ(predicted.count, texts.size());
  EXPECT_EQ(predicted_figures(predicted.metrics).at("accuracy"), right / 4.0);
  EXPECT_FALSE(predicted.best.has_value());
  EXPECT_TRUE(predicted.notes.empty());
  EXPECT_EQ(disk().list(path() / "out"), std::vector<std::string>{"predictions.tsv"});
  const std::vector<std::string> lines =
      base::split(disk().read(path() / "out" / "predictions.tsv", 1U << 20U), '\n');
  ASSERT_EQ(lines.size(), texts.size() + 2);
  EXPECT_EQ(lines[0], "index\tprediction\tno\tso so\tyes");
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::vector<std::string> fields = base::split(lines[i + 1], '\t');
    ASSERT_EQ(fields.size(), 5U);
    const auto shares = both.at("double")[i].get<std::vector<double>>();
    const auto best = std::max_element(shares.begin(), shares.end()) - shares.begin();
    EXPECT_EQ(fields[0], std::to_string(i));
    EXPECT_EQ(fields[1], labels[static_cast<std::size_t>(best)]);
    for (std::size_t label = 0; label < 3; ++label) {
      // Six digits are written.
      EXPECT_NEAR(std::stod(fields[label + 2]), shares[label], 2e-6) << i;
    }
  }
}

TEST_F(PredictFile, QuestionsHaveTheAnswersOfOneByOne) {
  interchange::PredictOptions options =
      predicting(Task::QuestionAnswering, "some.json", kUnlabelled);
  const interchange::Predicted predicted = predict(options);
  EXPECT_EQ(predicted.count, 2U);
  EXPECT_TRUE(predicted.metrics.empty());
  EXPECT_EQ(predicted.notes.back(), "not everything in the file has a label, so nothing is scored");
  const json answers = read_json("predictions.json");
  const json odds = read_json("null_odds.json");
  const json best = read_json("nbest_predictions.json");
  for (const auto& [id, question] :
       std::map<std::string, std::string>{{"a", "what is at sea"}, {"b", "at what"}}) {
    interchange::AskOptions asking;
    asking.model = options.model;
    asking.question = question;
    asking.context = "the boat is at sea";
    asking.use.threads = 1;
    const interchange::AskedQuestion asked = interchange::ask(disk(), base::system_clock(), asking);
    EXPECT_EQ(answers.at(id), asked.answer);
    EXPECT_NEAR(odds.at(id).get<double>(), asked.null_odds, 1e-5);
    EXPECT_EQ(best.at(id)[0].at("text"), asked.best[0].text);
  }
  options.choices.always_answered = true;
  options.force = true;
  (void)predict(options);
  EXPECT_FALSE(disk().exists(path() / "out" / "null_odds.json")) << "replaced as a whole";
  for (const auto& answer : read_json("predictions.json")) EXPECT_NE(answer, "");
}

// Whatever the file says of its questions.
TEST_F(PredictFile, AnswerableHoldsForLabelledQuestions) {
  interchange::PredictOptions options =
      predicting(Task::QuestionAnswering, "three.json", kThreeQuestions);
  options.choices.always_answered = true;
  const interchange::Predicted predicted = predict(options);
  EXPECT_FALSE(disk().exists(path() / "out" / "null_odds.json"));
  for (const auto& answer : read_json("predictions.json")) EXPECT_NE(answer, "");
  EXPECT_FALSE(predicted.metrics.empty());
  EXPECT_FALSE(predicted.best.has_value());
}

TEST_F(PredictFile, TheVersionTellsWhetherAnswersMayBeMissing) {
  const std::string of_second(kUnlabelled);
  const auto with = [&](const std::string& version) {
    return std::string(of_second).replace(of_second.find("\"v2.0\""), 6, version);
  };
  const auto has_odds = [&](const interchange::PredictOptions& options) {
    (void)predict(options);
    return disk().exists(path() / "out" / "null_odds.json");
  };
  for (const auto& [version, odds] :
       {std::pair("\"1.1\"", false), {"\"v2.0\"", true}, {"\"\"", false}}) {
    SCOPED_TRACE(version);
    interchange::PredictOptions options =
        predicting(Task::QuestionAnswering, "some.json", with(version));
    options.force = true;
    EXPECT_EQ(has_odds(options), odds);
    for (const auto& answer : read_json("predictions.json")) EXPECT_TRUE(odds || answer != "");
  }
  interchange::PredictOptions options =
      predicting(Task::QuestionAnswering, "some.json", with("\"\""));
  options.force = true;
  options.model = run_of(Task::QuestionAnswering).run;
  options.choices.max_question = 8;
  EXPECT_FALSE(has_odds(options)) << "the run learned from answered questions alone";
  options.choices.null_threshold = 0;
  EXPECT_TRUE(has_odds(options)) << "asked for";
}

// The metrics and best thresholds are those of `eval`, of a dataset of the same file; at its best
// threshold a model scores as it says.
TEST_F(PredictFile, QuestionsAreScoredAsEvalDoes) {
  const TaskRun run = make_task_run(path() / "task", Task::QuestionAnswering);
  contract::RunConfig config = contract::parse_run_config(
      disk().read(run.run / "run.json", 1U << 20U), (run.run / "run.json").string());
  config.questions.max_question = 8;  // its windows have 40 tokens
  write_text(run.run / "run.json", contract::to_json(config));
  interchange::PredictOptions options =
      predicting(Task::QuestionAnswering, "three.json", kThreeQuestions);
  options.model = run.run;
  tasks::TaskPrepareOptions preparing;
  preparing.task = Task::QuestionAnswering;
  preparing.training = preparing.evaluation = options.file;
  preparing.vocabulary = run.dataset / "vocab.txt";
  preparing.output = path() / "dataset";
  (void)tasks::prepare_task(preparing, disk());
  const run::CheckpointEvaluation evaluated =
      run::evaluate_checkpoint(disk(), base::system_clock(), {run.run, preparing.output, 1, {}});
  const interchange::Predicted predicted = predict(options);
  EXPECT_TRUE(predicted.notes.empty()) << predicted.notes.front();
  EXPECT_EQ(predicted_figures(predicted.metrics), predicted_figures(evaluated.result.metrics));
  ASSERT_TRUE(predicted.best.has_value());
  ASSERT_TRUE(evaluated.best.has_value());
  EXPECT_EQ(run::figures_of(*predicted.best), run::figures_of(*evaluated.best));
  EXPECT_GE(predicted.best->f1, 100 * predicted_figures(predicted.metrics).at("f1") - 1e-9);
  const json told = json::parse(run::to_json(evaluated));
  EXPECT_EQ(told.at("best_f1_threshold").get<double>(), predicted.best->f1_threshold);
  EXPECT_NE(run::to_text(evaluated).find("best_f1_threshold       "), std::string::npos);
  for (const json& each : {told, json::parse(interchange::to_json(predicted))}) {
    EXPECT_EQ(each.at("best_exact").get<double>(), predicted.best->exact / 100);
    EXPECT_EQ(each.at("best_f1").get<double>(), predicted.best->f1 / 100) << "shares, as metrics";
  }
  EXPECT_NE(interchange::to_text(predicted).find("questions               3\n"), std::string::npos);
  options.force = true;
  options.choices.null_threshold = -1e9;
  const auto never = predicted_figures(predict(options).metrics);
  EXPECT_DOUBLE_EQ(never.at("exact"), 1 / 3.0) << "no answer at all is right for one of three";
  // Without an answered question, the threshold is 0 and stands for none.
  if (predicted.best->f1_threshold == 0) return;
  options.choices.null_threshold = predicted.best->f1_threshold;
  EXPECT_NEAR(100 * predicted_figures(predict(options).metrics).at("f1"), predicted.best->f1, 1e-9);
}

TEST_F(PredictFile, NumbersAndFilesOfEveryKind) {
  struct Case {
    const char* name;
    Task task;
    const char* file;
    const char* text;
    std::function<void(interchange::PredictOptions*)> change;
    std::size_t count;
    bool is_scored;
  };
  const auto nothing = [](interchange::PredictOptions*) {};
  const Case cases[] = {
      {"numbers", Task::Regression, "a.tsv", "text\tscore\nthe boat\t1.5\nsea\t2\na\t3\n", nothing,
       3, true},
      {"numbers to predict", Task::Regression, "a.tsv", "text\nthe boat\n", nothing, 1, false},
      {"numbers not looked at", Task::Regression, "a.tsv", "text\tscore\nthe boat\tnone\n",
       [](auto* options) { options->examples.kind = tasks::ExampleLabels::Absent; }, 1, false},
      {"JSON lines", Task::Classification, "a.jsonl", "{\"text\": \"sea\", \"label\": \"yes\"}\n",
       nothing, 1, true},
      {"JSON lines without labels", Task::Classification, "a.jsonl", "{\"text\": \"sea\"}\n",
       nothing, 1, false},
      {"pairs", Task::Classification, "a.csv", "sentence1,sentence2,label\nsea,\"a, b\",no\n",
       nothing, 1, true},
      {"other names of the classes", Task::Classification, "a.tsv",
       "sentence\tlabel\nsea\t0\nboat\t2\n",
       [](auto* options) {
         options->examples.labels = {"0", "1", "2"};
       },
       2, true},
      {"columns by number", Task::Classification, "a.tsv", "1\tsea\tyes\n2\tboat\tno\n",
       [](auto* options) {
         options->examples.header = false;
         options->examples.text_column = "2";
         options->examples.label_column = "3";
       },
       2, true},
      {"a column by number, without labels", Task::Classification, "a.tsv", "1\tsea\n",
       [](auto* options) {
         options->examples.header = false;
         options->examples.text_column = "2";
       },
       1, false},
      {"a format that the name does not tell", Task::Classification, "a", "text,label\nsea,yes\n",
       [](auto* options) { options->examples.format = tasks::ExampleFormat::Csv; }, 1, true},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    interchange::PredictOptions options = predicting(c.task, c.file, c.text);
    options.force = true;
    c.change(&options);
    const interchange::Predicted predicted = predict(options);
    EXPECT_EQ(predicted.count, c.count);
    EXPECT_EQ(predicted.samples, c.count);
    EXPECT_EQ(!predicted.metrics.empty(), c.is_scored);
    const std::string table = disk().read(path() / "out" / "predictions.tsv", 1U << 20U);
    EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), static_cast<long>(c.count) + 1);
  }
}

TEST_F(PredictFile, SaysWhatIsCut) {
  const auto seas = [](int count) {
    std::string text = "the";
    for (int i = 0; i < count; ++i) text += " sea";
    return text;
  };
  // The second has 48 tokens with [CLS] and [SEP].
  interchange::PredictOptions options = predicting(
      Task::Classification, "a.tsv", "text\n" + seas(60) + "\n" + seas(45) + "\n\xFFsea\n");
  const interchange::Predicted predicted = predict(options);
  ASSERT_EQ(predicted.notes.size(), 3U);
  EXPECT_EQ(predicted.notes[0], "1 ill-formed UTF-8 sequence read as U+FFFD");
  EXPECT_EQ(predicted.notes[1], "1 example of 3 cut to 48 tokens, from the end of the longer text");
  options.choices.max_length = 62;  // of 48 positions
  options.force = true;
  const base::Error error = error_of([&] { (void)predict(options); });
  EXPECT_NE(std::string(error.what()).find("has 48 positions"), std::string::npos) << error.what();
}

TEST_F(PredictFile, RefusesAndLeavesNothing) {
  struct Case {
    const char* name;
    Task task;
    const char* file;
    const char* text;
    std::function<void(interchange::PredictOptions*)> spoil;
    const char* says;
  };
  const auto nothing = [](interchange::PredictOptions*) {};
  constexpr char kRows[] = "text\tlabel\nsea\tyes\n";
  const Case cases[] = {
      {"fills masks", Task::Pretraining, "a.tsv", kRows, nothing,
       "fill in masked words with `regatta-train fill`"},
      {"no model", Task::Classification, "a.tsv", kRows,
       [](auto* options) { options->model = "/no/such"; }, "no model at"},
      {"no file", Task::Classification, "a.tsv", kRows,
       [](auto* options) { options->file += "x.tsv"; }, "a.tsvx.tsv"},
      {"no questions file", Task::QuestionAnswering, "a.json", kThreeQuestions,
       [](auto* options) { options->file += "x"; }, "a.jsonx"},
      {"a label that the model has not", Task::Classification, "a.tsv", "text\tlabel\nsea\tmaybe\n",
       nothing, "none of the known"},
      {"too few names", Task::Classification, "a.tsv", kRows,
       [](auto* options) {
         options->examples.labels = {"a", "b"};
       },
       "--labels names 2 labels, and model has 3 (no, so so, yes)"},
      {"names of numbers", Task::Regression, "a.tsv", "text\tscore\nsea\t1\n",
       [](auto* options) {
         options->examples.labels = {"a", "b"};
       },
       "--labels is of classes"},
      {"no number", Task::Regression, "a.tsv", "text\tscore\nsea\tyes\n", nothing,
       "which is no finite number"},
      {"an empty text", Task::Classification, "a.tsv", "text\tlabel\n \tyes\n", nothing,
       "is empty"},
      {"an empty file", Task::Classification, "a.tsv", "", nothing, "a.tsv"},
      {"a table for questions", Task::QuestionAnswering, "a.tsv", kRows, nothing, "a.tsv"},
      {"questions for a table", Task::Classification, "a.json", kThreeQuestions, nothing,
       "its name does not say what it is"},
      {"columns of questions", Task::QuestionAnswering, "a.json", kThreeQuestions,
       [](auto* options) { options->examples.text_column = "a"; }, "its files are SQuAD's"},
      {"a stride of classes", Task::Classification, "a.tsv", kRows,
       [](auto* options) { options->choices.doc_stride = 8; }, "leave out what is about questions"},
      {"no UTF-8 in questions", Task::QuestionAnswering, "a.json", "{\"data\": \"\xFF\"}", nothing,
       "a.json"},
      {"an output that is a file of theirs", Task::Classification, "a.tsv", kRows,
       [](auto* options) { options->output = options->file; }, "exists already; choose another"},
      {"an output in no directory", Task::Classification, "a.tsv", kRows,
       [](auto* options) { options->output = options->output / "x" / "y"; }, "out/x"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    interchange::PredictOptions options = predicting(c.task, c.file, c.text);
    c.spoil(&options);
    const base::Error error = error_of([&] { (void)predict(options); });
    EXPECT_NE(std::string(error.what()).find(c.says), std::string::npos) << error.what();
    EXPECT_NE(error.code(), base::Code::Developer) << error.what();
    EXPECT_FALSE(disk().exists(path() / "out"));
    for (const std::string& name : disk().list(path())) {
      EXPECT_EQ(name.find(".partial-"), std::string::npos) << name;
    }
  }
}

TEST_F(PredictFile, ReplacesPredictionsOnly) {
  interchange::PredictOptions options =
      predicting(Task::Classification, "a.tsv", "text\tlabel\nsea\tyes\n");
  (void)predict(options);
  EXPECT_EQ(error_of([&] { (void)predict(options); }).code(), base::Code::Conflict);
  options.force = true;
  (void)predict(options);
  write_text(path() / "out" / "notes.txt", "mine");
  const base::Error error = error_of([&] { (void)predict(options); });
  EXPECT_EQ(error.code(), base::Code::Conflict);
  EXPECT_NE(std::string(error.what()).find("has notes.txt, which is no file of predictions"),
            std::string::npos)
      << error.what();
  EXPECT_EQ(disk().read(path() / "out" / "notes.txt", 100), "mine");
}

}  // namespace
}  // namespace regatta::tests
