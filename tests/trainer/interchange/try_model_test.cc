// Masked words filled in, and a question answered, beside plain Python.
#include "trainer/interchange/try_model.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "tests/trainer/interchange/tried_model.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using contract::Task;
using nlohmann::json;

class TryModel : public TriedModel {
 protected:
  static interchange::FillOptions filling(const std::string& text, Task task = Task::Pretraining) {
    interchange::FillOptions options;
    options.model = model_of(task);
    options.text = text;
    options.use.threads = 1;
    return options;
  }
  static interchange::FilledText fill(const interchange::FillOptions& options) {
    return interchange::fill_masks(disk(), base::system_clock(), options);
  }
  static interchange::AskOptions asking(const std::string& question, const std::string& context) {
    interchange::AskOptions options;
    options.model = model_of(Task::QuestionAnswering);
    options.question = question;
    options.context = context;
    options.use.threads = 1;
    return options;
  }
  static interchange::AskedQuestion ask(const interchange::AskOptions& options) {
    return interchange::ask(disk(), base::system_clock(), options);
  }
};

bool has_note(const std::vector<std::string>& notes, const std::string& part) {
  return std::any_of(notes.begin(), notes.end(),
                     [&](const std::string& note) { return note.find(part) != std::string::npos; });
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST_F(TryModel, FillsMasksAsPlainPythonDoes) {
  for (const char* const text :
       {"The boat [MASK] the river.", "[MASK]", "the [MASK] and[MASK]the Storm [MASK] 7 \xC3\xA4?",
        "A [mask], [SEP] and [MASK]"}) {
    SCOPED_TRACE(text);
    // Python's tokenizer has ASCII alone.
    std::string ascii = text;
    for (std::size_t at; (at = ascii.find("\xC3\xA4")) != std::string::npos;) {
      ascii.replace(at, 2, "a");
    }
    const json both = json::parse(
        python_says({"fill", model_of(Task::Pretraining).string(), ascii}), nullptr, false);
    const json& exact = both.at("double").at("masks");
    const json& naive = both.at("single").at("masks");
    interchange::FillOptions options = filling(text);
    options.best = 7;
    const interchange::FilledText filled = fill(options);
    EXPECT_EQ(filled.model, "model");
    EXPECT_TRUE(filled.notes.empty());
    ASSERT_EQ(filled.masks.size(), exact.size());
    const data::Vocabulary vocabulary = vocabulary_of(run_of(Task::Pretraining));
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const auto shares = exact[i].get<std::vector<double>>();
      const auto simplest = naive[i].get<std::vector<double>>();
      double allowed = 0;
      for (std::size_t id = 0; id < shares.size(); ++id) {
        allowed = std::max(allowed, kFloat32Errors * std::abs(shares[id] - simplest[id]));
      }
      EXPECT_LT(allowed, 1e-5);
      std::vector<std::size_t> order(shares.size());
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::stable_sort(order.begin(), order.end(),
                       [&](std::size_t a, std::size_t b) { return shares[a] > shares[b]; });
      const interchange::FilledMask& mask = filled.masks[i];
      EXPECT_EQ(mask.token, both.at("double").at("tokens")[i]);
      ASSERT_EQ(mask.best.size(), 7U);
      for (std::size_t rank = 0; rank < mask.best.size(); ++rank) {
        const interchange::MaskGuess& guess = mask.best[rank];
        EXPECT_EQ(guess.id, static_cast<data::TokenId>(order[rank])) << rank;
        EXPECT_EQ(guess.piece, vocabulary.piece(guess.id));
        EXPECT_NEAR(guess.probability, shares[order[rank]], allowed);
      }
    }
  }
}

TEST_F(TryModel, AllPiecesTogetherAreOne) {
  interchange::FillOptions options = filling("a [MASK] b");
  options.best = 1 << 20;
  const interchange::FilledText filled = fill(options);
  double sum = 0;
  for (const interchange::MaskGuess& guess : filled.masks[0].best) sum += guess.probability;
  EXPECT_EQ(filled.masks[0].best.size(),
            static_cast<std::size_t>(vocabulary_of(run_of(Task::Pretraining)).size()));
  EXPECT_NEAR(sum, 1, 1e-12);
}

TEST_F(TryModel, ARunACheckpointAndItsExportFillAlike) {
  const TaskRun& run = run_of(Task::Pretraining);
  interchange::ExportOptions out;
  out.checkpoint = run.run;
  out.output = path() / "model";
  (void)interchange::export_model(disk(), out);
  interchange::FillOptions same = filling("the [MASK] wind");
  same.model = out.output;
  const interchange::FilledText exported = fill(same);
  for (const base::Path& from : {run.run, run.checkpoint}) {
    interchange::FillOptions options = filling("the [MASK] wind");
    options.model = from;
    options.use.threads = 2;
    const interchange::FilledText filled = fill(options);
    ASSERT_EQ(filled.masks.size(), 1U);
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(filled.masks[0].best[i].piece, exported.masks[0].best[i].piece);
      EXPECT_EQ(filled.masks[0].best[i].probability, exported.masks[0].best[i].probability);
    }
    EXPECT_EQ(filled.model.rfind("run tuned, step-", 0), 0U) << filled.model;
  }
}

// The exported model takes 48 tokens: [CLS], 46 pieces, [SEP].
TEST_F(TryModel, SaysWhatIsCutOfALongText) {
  const interchange::FilledText whole = fill(filling("[MASK]" + repeated(" the", 45)));
  EXPECT_TRUE(whole.notes.empty());
  const interchange::FilledText cut = fill(filling("[MASK]" + repeated(" the", 48)));
  ASSERT_EQ(cut.notes.size(), 1U);
  EXPECT_EQ(cut.notes[0],
            "the text has 51 tokens with [CLS] and [SEP], and model takes 48: the last 3 before "
            "[SEP] are cut off");
  EXPECT_EQ(cut.masks[0].best[0].probability, whole.masks[0].best[0].probability);
}

TEST_F(TryModel, RefusesWhatItCannotFill) {
  struct Case {
    const char* name;
    interchange::FillOptions options;
    base::Code code;
    const char* says;
  };
  const auto of_file = [&](const char* name) {
    interchange::FillOptions options = filling("[MASK]");
    options.model = path() / name;
    return options;
  };
  const auto with_vocabulary = [&] {
    interchange::FillOptions options = filling("[MASK]");
    options.vocabulary = path() / "none.txt";
    return options;
  };
  const Case cases[] = {
      {"no mask", filling("the boat"), base::Code::User, "has no [MASK]"},
      {"lower case", filling("the [mask]"), base::Code::User, "has no [MASK]"},
      {"half of one", filling("the [MASK"), base::Code::User, "has no [MASK]"},
      {"empty", filling(""), base::Code::User, "the text is empty"},
      {"blank", filling(" \t\n"), base::Code::User, "the text is empty"},
      {"no UTF-8", filling("[MASK] \xC3("), base::Code::User, "the text is not UTF-8"},
      {"a surrogate", filling("[MASK] \xED\xA0\x80"), base::Code::User, "is not UTF-8"},
      {"a mask beyond the model's length", filling("[MASK]" + repeated(" the", 46) + " [MASK]"),
       base::Code::User, "takes 48: mask 2 is beyond them"},
      {"answers questions", filling("[MASK]", Task::QuestionAnswering), base::Code::User,
       "has no head for pretraining (it has one for question-answering); try it with "
       "`regatta-train answer`"},
      {"classifies", filling("[MASK]", Task::Classification), base::Code::User,
       "try it with `regatta-train predict`"},
      {"gives numbers", filling("[MASK]", Task::Regression), base::Code::User,
       "try it with `regatta-train predict`"},
      {"no model", of_file("none"), base::Code::NotFound, "no model at"},
      {"no vocabulary", with_vocabulary(), base::Code::NotFound, "none.txt"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const base::Error error = error_of([&] { (void)fill(c.options); });
    EXPECT_EQ(error.code(), c.code);
    EXPECT_NE(std::string(error.what()).find(c.says), std::string::npos) << error.what();
  }
}

// Without a bias, a decoder of zeros finds all pieces alike.
TEST_F(TryModel, OfEqualGuessesTheFirstOfTheVocabularyComesFirst) {
  const base::Path model = path() / "even";
  std::filesystem::copy(model_of(Task::Pretraining), model);
  std::vector<StoredTensor> tensors = read_tensors(model / "model.safetensors");
  for (StoredTensor& tensor : tensors) {
    if (tensor.name == "bert.embeddings.word_embeddings.weight" ||
        tensor.name == "cls.predictions.bias") {
      std::fill(tensor.bytes.begin(), tensor.bytes.end(), '\0');
    }
  }
  write_tensors(model / "model.safetensors", tensors);
  interchange::FillOptions options = filling("the [MASK]");
  options.model = model;
  options.best = 9;
  const interchange::FilledText filled = fill(options);
  ASSERT_EQ(filled.masks.at(0).best.size(), 9U);
  for (data::TokenId id = 0; id < 9; ++id) {
    EXPECT_EQ(filled.masks[0].best[static_cast<std::size_t>(id)].id, id);
  }
}

TEST_F(TryModel, AHeadThatIsNotFiniteIsRefused) {
  const base::Path model = path() / "model";
  std::filesystem::copy(model_of(Task::Pretraining), model);
  std::vector<StoredTensor> tensors = read_tensors(model / "model.safetensors");
  for (StoredTensor& tensor : tensors) {
    if (tensor.name != "cls.predictions.transform.LayerNorm.weight") continue;
    const float large = 3e38F;
    for (std::size_t at = 0; at < tensor.bytes.size(); at += sizeof large) {
      std::copy_n(reinterpret_cast<const char*>(&large), sizeof large,
                  tensor.bytes.begin() + static_cast<long>(at));
    }
  }
  write_tensors(model / "model.safetensors", tensors);
  interchange::FillOptions options = filling("[MASK]");
  options.model = model;
  const base::Error error = error_of([&] { (void)fill(options); });
  EXPECT_NE(std::string(error.what()).find("a logit of mask 1 is not a finite number"),
            std::string::npos)
      << error.what();
}

TEST_F(TryModel, TellsMasksAsTextAndJson) {
  interchange::FillOptions options = filling("a [MASK] [MASK]");
  options.best = 2;
  const interchange::FilledText filled = fill(options);
  const std::string text = interchange::to_text(filled);
  EXPECT_NE(text.find("mask 1 of 2\n"), std::string::npos) << text;
  EXPECT_NE(text.find("mask 2 of 2\n"), std::string::npos) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 9) << text;
  const json told = json::parse(interchange::to_json(filled));
  EXPECT_EQ(told.at("masks").size(), 2U);
  EXPECT_EQ(told.at("masks")[1].at("best")[0].at("probability").get<double>(),
            filled.masks[1].best[0].probability);
  EXPECT_EQ(told.at("masks")[1].at("token"), 3);
}

// --- questions ---

TEST_F(TryModel, AnswersAsPlainPythonDoes) {
  struct Case {
    const char* question;
    const char* context;
  };
  for (const Case& c : {Case{"what is at sea", "the boat is at sea"},
                        Case{"what", "the boat is at the sea a b c the boat x"},
                        Case{"is the boat at sea?", "  the\tsea \n is at   the boat"}}) {
    SCOPED_TRACE(c.context);
    const json both = json::parse(
        python_says({"answer", model_of(Task::QuestionAnswering).string(), c.question, c.context}),
        nullptr, false);
    const json& exact = both.at("double");
    const json& naive = both.at("single");
    interchange::AskOptions options = asking(c.question, c.context);
    options.best = 21;  // no answer may come after the 20 best
    const interchange::AskedQuestion asked = ask(options);
    EXPECT_EQ(asked.windows, 1U);
    const json& answers = exact.at("answers");
    ASSERT_EQ(asked.best.size(), answers.size());
    double allowed =
        std::abs(exact.at("null_odds").get<double>() - naive.at("null_odds").get<double>());
    for (std::size_t i = 0; i < answers.size(); ++i) {
      allowed = std::max(
          allowed, std::abs(answers[i][1].get<double>() - naive.at("answers")[i][1].get<double>()));
    }
    allowed *= kFloat32Errors;
    EXPECT_LT(allowed, 1e-3);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      EXPECT_EQ(asked.best[i].text, answers[i][0]) << i;
      EXPECT_NEAR(asked.best[i].probability, answers[i][1].get<double>(), allowed) << i;
      EXPECT_EQ(asked.best[i].begin, answers[i][2].get<std::size_t>()) << i;
    }
    const double odds = exact.at("null_odds").get<double>();
    EXPECT_NEAR(asked.null_odds, odds, allowed);
    const auto text = std::find_if(answers.begin(), answers.end(),
                                   [](const json& each) { return each[0] != ""; });
    const std::string best = (*text)[0];
    EXPECT_EQ(asked.answer, odds > 0 ? "" : best);
    // By the rule, whatever these random weights say.
    options.choices.null_threshold = odds + 1;
    EXPECT_EQ(ask(options).answer, best);
    options.choices.null_threshold = odds - 1;
    EXPECT_EQ(ask(options).answer, "");
    options.choices.null_threshold.reset();
    options.choices.always_answered = true;
    const interchange::AskedQuestion answerable = ask(options);
    EXPECT_EQ(answerable.answer, best);
    for (const interchange::AskedAnswer& one : answerable.best) EXPECT_NE(one.text, "");
  }
}

TEST_F(TryModel, PlacesAreCharactersNotBytes) {
  // 'ä' is no piece, but has two bytes.
  interchange::AskOptions options = asking("what", "\xC3\xA4\xC3\xB6 boat");
  options.best = 20;
  bool found = false;
  for (const interchange::AskedAnswer& one : ask(options).best) {
    if (one.text != "boat") continue;
    found = true;
    EXPECT_EQ(one.begin, 3U);
    EXPECT_EQ(one.end, 7U);
  }
  EXPECT_TRUE(found);
}

// A model of 48 positions: questions of 64 pieces leave no room, so 22 are read.
TEST_F(TryModel, ReadsALongTextInWindowsAndSaysWhatIsCut) {
  const std::string context = repeated("the boat is at sea ", 20);  // 100 pieces
  interchange::AskOptions options = asking("what", context);
  interchange::AskedQuestion asked = ask(options);
  EXPECT_TRUE(has_note(asked.notes, "windows of 48 tokens: questions are cut at 22 pieces"));
  EXPECT_EQ(asked.windows, 3U) << "of 44 pieces each, which the stride does not pass";
  options.choices.doc_stride = 10;
  options.choices.max_question = 5;
  options.question = repeated("what ", 9);
  asked = ask(options);
  // 40 pieces each: those that begin at 0, 10, … 60.
  EXPECT_EQ(asked.windows, 7U);
  ASSERT_EQ(asked.notes.size(), 1U);
  EXPECT_EQ(asked.notes[0],
            "1 question of more than 5 pieces: what is beyond is cut off (--max-question)");
  options.choices.max_answer = 1;
  options.best = 20;
  for (const interchange::AskedAnswer& one : ask(options).best) {
    EXPECT_EQ(one.text.find(' '), std::string::npos) << one.text;
  }
  options.question = repeated("boat ", 5);
  EXPECT_TRUE(ask(options).notes.empty()) << "five pieces are not cut";
}

TEST_F(TryModel, RefusesWhatItCannotAnswer) {
  struct Case {
    const char* name;
    std::function<void(interchange::AskOptions*)> spoil;
    base::Code code;
    const char* says;
  };
  const auto model = [](Task task) {
    return [task](interchange::AskOptions* options) { options->model = model_of(task); };
  };
  const auto context = [](const std::string& text) {
    return [text](interchange::AskOptions* options) { options->context = text; };
  };
  const auto question = [](const std::string& text) {
    return [text](interchange::AskOptions* options) { options->question = text; };
  };
  using base::Code;
  const Case cases[] = {
      {"fills masks", model(Task::Pretraining), Code::User,
       "has no head for question-answering (it has one for pretraining); try it with "
       "`regatta-train fill`"},
      {"classifies", model(Task::Classification), Code::User,
       "try it with `regatta-train predict`"},
      {"no model", [](auto* options) { options->model = "/no/such"; }, Code::NotFound,
       "no model at"},
      {"no question", question(""), Code::User, "the question is empty"},
      {"a blank question", question(" \n"), Code::User, "the question is empty"},
      {"no context", context(""), Code::User, "the context is empty"},
      {"marks alone", context("\xCC\x81"), Code::User, "a text of which a piece is left"},
      {"a question that is no UTF-8", question("\xFF"), Code::User, "the question is not UTF-8"},
      {"a context that is no UTF-8", context("a \xC0\x80"), Code::User, "the context is not UTF-8"},
      {"a long question", question(repeated("a ", 40000)), Code::User,
       "the question has 80000 bytes; at most 65536"},
      {"a long context", context(repeated("a ", 600000)), Code::User,
       "the context has 1200000 bytes; at most 1048576"},
      {"more tokens than positions", [](auto* options) { options->choices.max_length = 49; },
       Code::User, "--max-length is 49, and model has 48 positions"},
      {"no room beside the question", [](auto* options) { options->choices.max_question = 45; },
       Code::User, "--max-question 45 leaves no room for text in windows of 48 tokens"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    interchange::AskOptions options = asking("what", "the boat");
    c.spoil(&options);
    const base::Error error = error_of([&] { (void)ask(options); });
    EXPECT_EQ(error.code(), c.code);
    EXPECT_NE(std::string(error.what()).find(c.says), std::string::npos) << error.what();
  }
}

TEST_F(TryModel, TellsAnswersAsTextAndJson) {
  interchange::AskedQuestion asked;
  asked.model = "m";
  asked.question = "who?";
  asked.windows = 2;
  asked.null_odds = 1.5;
  asked.best = {{"", 0.75, 0, 0}, {"a man", 0.25, 3, 8}};
  EXPECT_EQ(interchange::to_text(asked),
            "model           m\n"
            "device          \n"
            "question        who?\n"
            "windows         2\n"
            "answer          (no answer)\n"
            "null odds       1.500000 (no answer above 0)\n"
            "probability  characters  answer\n"
            "   0.750000  -           (no answer)\n"
            "   0.250000  3-8         a man\n");
  const json told = json::parse(interchange::to_json(asked));
  EXPECT_EQ(told.at("answer"), nullptr);
  EXPECT_EQ(told.at("best")[0], json({{"text", nullptr}, {"probability", 0.75}}));
  EXPECT_EQ(told.at("best")[1],
            json({{"text", "a man"}, {"probability", 0.25}, {"begin", 3}, {"end", 8}}));
  asked.may_be_null = false;
  EXPECT_FALSE(json::parse(interchange::to_json(asked)).contains("null_odds"));
}

}  // namespace
}  // namespace regatta::tests
