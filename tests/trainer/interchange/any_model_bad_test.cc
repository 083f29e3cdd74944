// What is no model, and what no run can start from.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "checkpoint/manifest.h"
#include "tests/trainer/interchange/task_run.h"
#include "tests/trainer/interchange/tokenizer_files.h"
#include "tests/trainer/interchange/trained_run.h"
#include "trainer/interchange/any_model.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using contract::Task;
using interchange::HuggingFaceClass;
using nlohmann::json;

base::FileSystem& model_disk() { return base::posix_file_system(); }

class BadAnyModel : public testing::Test {
 protected:
  void SetUp() override {
    run_ = make_task_run(path() / "task", Task::Classification);
    export_again();
  }
  [[nodiscard]] const base::Path& path() const { return directory_.path(); }
  [[nodiscard]] base::Path model() const { return path() / "model"; }
  void export_again() {
    interchange::ExportOptions options;
    options.checkpoint = run_.run;
    options.output = model();
    model_disk().remove_tree(model());
    (void)interchange::export_model(model_disk(), options);
  }
  void open(const base::Path& from, std::optional<Task> task = {}) const {
    (void)interchange::open_any_model(model_disk(), base::system_clock(), {from, {}, task});
  }
  struct Wanted {
    contract::ModelShape shape;
    data::Vocabulary vocabulary;
    bool lower_case = true;
    std::vector<std::string> labels{};
  };
  [[nodiscard]] Wanted wanted() const { return {run_.config.model, vocabulary_of(run_)}; }
  // What is wrong but in values is also found by the look that reads no weights.
  void start(const base::Path& from, const Wanted& wanted, bool optimizer = false) const {
    (void)interchange::check_start(model_disk(), base::system_clock(), {from.string(), optimizer},
                                   wanted.shape,
                                   {wanted.vocabulary, wanted.lower_case, wanted.labels});
    (void)interchange::starting_state(model_disk(), base::system_clock(),
                                      {from.string(), optimizer}, wanted.shape,
                                      {wanted.vocabulary, wanted.lower_case, wanted.labels}, 1, 1);
  }
  TaskRun run_;

 private:
  TemporaryDirectory directory_;
};

struct BadModel {
  const char* name;
  // Spoils the exported model or the run; what it returns is opened.
  std::function<base::Path(const base::Path& model, const TaskRun& run)> spoil;
  base::Code code;
  const char* says;
};

std::function<base::Path(const base::Path&, const TaskRun&)> with_config(const char* keys) {
  return [keys](const base::Path& model, const TaskRun&) {
    change_config(model, [&](json& config) { config.merge_patch(json::parse(keys)); });
    return model;
  };
}

std::vector<BadModel> bad_directories() {
  using enum base::Code;
  return {
      {"roberta", with_config(R"({"model_type": "roberta", "architectures": ["RobertaModel"]})"),
       User, "model_type is 'roberta'"},
      {"distilbert", with_config(R"({"model_type": "distilbert", "n_layers": 2, "dim": 32})"), User,
       "model_type is 'distilbert'"},
      {"an old roberta without its type",
       with_config(R"({"model_type": null, "architectures": ["RobertaForMaskedLM"]})"), User,
       "architectures names 'RobertaForMaskedLM'"},
      {"architectures are text", with_config(R"({"architectures": "BertModel"})"), User,
       "not a list of names"},
      {"labels are text", with_config(R"({"id2label": "yes"})"), User, "id2label is"},
      {"a label without a name", with_config(R"({"id2label": {"1": null}})"), User,
       "no name for label 1"},
      {"no labels", with_config(R"({"id2label": null, "num_labels": 0})"), User,
       "num_labels gives 0 labels"},
      {"too many labels", with_config(R"({"id2label": null, "num_labels": 9999999})"), User,
       "num_labels gives 9999999 labels"},
      {"more labels than the head has", with_config(R"({"id2label": {"3": "maybe"}})"), User,
       "expected F32[4"},
      {"a directory that is none", [](auto&, auto& run) { return run.dataset; }, NotFound,
       "no config.json or run.json"},
      {"the checkpoints' directory", [](auto&, auto& run) { return run.run / "checkpoints"; },
       NotFound, "no config.json or run.json"},
      {"a file", [](auto& model, auto&) { return model / "model.safetensors"; }, NotFound,
       "no config.json or run.json"},
      {"nothing", [](auto& model, auto&) { return model / "no" / "such"; }, NotFound,
       "no model at"},
      {"no path", [](auto&, auto&) { return base::Path(); }, NotFound, "no model at"},
      {"no vocabulary",
       [](auto& model, auto&) {
         model_disk().remove_file(model / "vocab.txt");
         return model;
       },
       NotFound, "put its vocab.txt there"},
      {"more pieces than rows",
       [](auto& model, auto&) {
         write_text(model / "vocab.txt", contents_of(model).at("vocab.txt") + "zzz\n");
         return model;
       },
       User, "put the model's own vocab.txt there"},
      {"weights cut short",
       [](auto& model, auto&) {
         const std::string text = contents_of(model).at("model.safetensors");
         write_text(model / "model.safetensors", text.substr(0, text.size() - 100));
         return model;
       },
       User, "shorter or longer"},
      {"half a head",
       [](auto& model, auto&) {
         auto tensors = read_tensors(model / "model.safetensors");
         std::erase_if(tensors, [](const auto& one) { return one.name == "classifier.bias"; });
         write_tensors(model / "model.safetensors", tensors);
         return model;
       },
       User, "no tensor 'classifier.bias'"},
  };
}

std::vector<BadModel> bad_runs() {
  using enum base::Code;
  return {
      {"a checkpoint cut short",
       [](auto&, auto& run) {
         const std::string text = contents_of(run.checkpoint).at("model.safetensors");
         write_text(run.checkpoint / "model.safetensors", text.substr(0, text.size() / 2));
         return run.checkpoint;
       },
       User, "is damaged"},
      {"a flipped bit, in a run's only checkpoint",
       [](auto&, auto& run) {
         std::string text = contents_of(run.checkpoint).at("optimizer.safetensors");
         text[text.size() / 2] ^= 1;
         write_text(run.checkpoint / "optimizer.safetensors", text);
         return run.run;
       },
       User, "is damaged"},
      {"a run without checkpoints",
       [](auto&, auto& run) {
         model_disk().remove_tree(run.run / "checkpoints");
         return run.run;
       },
       NotFound, "no checkpoint in"},
      {"a checkpoint that is not there",
       [](auto&, auto& run) {
         return run.run / "checkpoints" / "step-0000000099-0123456789abcdef";
       },
       NotFound, "no checkpoint at"},
      {"the dataset is gone",
       [](auto&, auto& run) {
         model_disk().remove_tree(run.dataset);
         return run.run;
       },
       NotFound, "no vocabulary in the dataset"},
  };
}

TEST_F(BadAnyModel, IsRefusedInOneLine) {
  std::vector<BadModel> cases = bad_directories();
  for (BadModel& c : bad_runs()) cases.push_back(std::move(c));
  for (const BadModel& c : cases) {
    SCOPED_TRACE(c.name);
    model_disk().remove_tree(path() / "task");
    SetUp();
    const Wanted same = wanted();
    const base::Path from = c.spoil(model(), run_);
    const base::Error opened = error_of([&] { open(from); });
    EXPECT_EQ(opened.code(), c.code) << opened.what();
    EXPECT_NE(std::string(opened.what()).find(c.says), std::string::npos) << opened.what();
    // A run starts with fewer needs: of a head for other labels, only the encoder is taken, and
    // its own vocabulary is what counts.
    const bool other_head = std::string(c.name) == "more labels than the head has";
    if (other_head) {
      EXPECT_NO_THROW(start(from, same));
    } else {
      (void)error_of([&] { start(from, same); });
    }
  }
}

TEST_F(BadAnyModel, ATaskWithoutItsHeadIsRefusedSayingWhatThereIs) {
  struct Case {
    Task wanted;
    const char* says;
  };
  const Case kCases[] = {
      {Task::Pretraining,
       "has no head for pretraining (it has one for classification); try it with "
       "`regatta-train predict`, or train one"},
      {Task::QuestionAnswering, "has no head for question-answering"},
      {Task::Regression, "a run file with task regression and from: this model"},
  };
  for (const base::Path& from : {model(), run_.run}) {
    for (const Case& c : kCases) {
      const base::Error error = error_of([&] { open(from, c.wanted); });
      EXPECT_EQ(error.code(), base::Code::User);
      EXPECT_NE(std::string(error.what()).find(c.says), std::string::npos) << error.what();
    }
  }
  change_config(model(),
                [](json& config) { config["problem_type"] = "multi_label_classification"; });
  const base::Error error = error_of([&] { open(model(), Task::Classification); });
  EXPECT_NE(std::string(error.what()).find("it is a BertForSequenceClassification"),
            std::string::npos)
      << error.what();
}

TEST_F(BadAnyModel, AllDifferencesAreToldAtOnce) {
  Wanted other = wanted();
  other.shape.layers = 3;
  other.shape.hidden = 64;
  other.shape.heads = 4;
  other.shape.feed_forward = 128;
  other.shape.max_positions = 64;
  other.shape.token_types = 3;
  other.shape.gelu = contract::Gelu::Tanh;
  other.shape.task = Task::Regression;
  other.shape.labels = 0;
  std::string pieces = other.vocabulary.text();
  pieces.replace(pieces.find("boat"), 4, "ship");
  other.vocabulary = data::Vocabulary::parse(pieces, "other");
  other.lower_case = false;
  const std::vector<std::string> there = {
      "layers is 3, num_hidden_layers is 2",
      "hidden is 64, hidden_size is 32",
      "heads is 4, num_attention_heads is 2",
      "feed_forward is 128, intermediate_size is 64",
      "max_positions is 64, max_position_embeddings is 48",
      "token_types is 3, type_vocab_size is 2",
      "gelu is tanh, hidden_act means erf",
      "line 7 is 'boat', in the dataset it is 'ship'",
      "the model's text is lower case, the dataset's is mixed case",
      "the moments are of classification with 3 labels, the task is regression",
      "change the run file",
      "prepare the data with --vocab",
      "prepare the data without --cased",
      "take the weights without the optimizer"};
  const base::Error of_directory = error_of([&] { start(model(), other, true); });
  EXPECT_EQ(of_directory.code(), base::Code::User);
  for (const std::string& line : there) {
    EXPECT_NE(std::string(of_directory.what()).find(line), std::string::npos)
        << line << "\n"
        << of_directory.what();
  }
  const base::Error of_run = error_of([&] { start(run_.run, other, true); });
  for (const char* line : {"layers is 3, layers there is 2", "max_positions there is 48",
                           "gelu is tanh, gelu there means erf", "line 7 is 'boat'", "mixed case",
                           "the moments are of"}) {
    EXPECT_NE(std::string(of_run.what()).find(line), std::string::npos) << line << "\n"
                                                                        << of_run.what();
  }
}

// Each of them alone, too.
TEST_F(BadAnyModel, EachDifferenceIsRefused) {
  struct Case {
    const char* name;
    std::function<void(Wanted*)> change;
    const char* says;
  };
  const std::vector<Case> cases = {
      {"layers", [](Wanted* w) { w->shape.layers = 1; }, "layers is 1"},
      {"hidden", [](Wanted* w) { w->shape.hidden = 64; }, "hidden is 64"},
      {"heads", [](Wanted* w) { w->shape.heads = 4; }, "heads is 4"},
      {"feed_forward", [](Wanted* w) { w->shape.feed_forward = 32; }, "feed_forward is 32"},
      {"more positions than there are", [](Wanted* w) { w->shape.max_positions = 49; },
       "max_positions is 49"},
      {"token types", [](Wanted* w) { w->shape.token_types = 1; }, "token_types is 1"},
      {"gelu", [](Wanted* w) { w->shape.gelu = contract::Gelu::Tanh; }, "gelu is tanh"},
      {"epsilon", [](Wanted* w) { w->shape.layer_norm_epsilon = 1e-5F; }, "LayerNorm adds"},
      {"another piece",
       [](Wanted* w) {
         std::string text = w->vocabulary.text();
         text.replace(text.find("boat"), 4, "ship");
         w->vocabulary = data::Vocabulary::parse(text, "other");
       },
       "in the dataset it is 'ship'"},
      {"one piece more",
       [](Wanted* w) {
         w->vocabulary = data::Vocabulary::parse(w->vocabulary.text() + "zzz\n", "other");
         ++w->shape.vocabulary;
       },
       " pieces, the dataset "},
      {"case", [](Wanted* w) { w->lower_case = false; }, "without --cased"},
  };
  for (const base::Path& from : {model(), run_.run}) {
    for (const Case& c : cases) {
      SCOPED_TRACE(c.name);
      Wanted other = wanted();
      c.change(&other);
      const base::Error error = error_of([&] { start(from, other); });
      EXPECT_EQ(error.code(), base::Code::User);
      EXPECT_NE(std::string(error.what()).find(c.says), std::string::npos) << error.what();
    }
  }
}

// What is told of the tokenizer.json beside a model whose vocab.txt and do_lower_case are the
// dataset's: nothing where it is the same, a line where other tokens would be made, and a refusal
// where its pieces are others.
TEST_F(BadAnyModel, ATokenizerJsonOfOtherTokensIsOneLine) {
  const Wanted same = wanted();
  const json good = tokenizer_json(same.vocabulary, true, 100);  // Hugging Face's own limit
  const auto with = [&](const std::function<void(json&)>& change) {
    json changed = good;
    change(changed);
    return changed.dump();
  };
  const auto notes = [&] {
    std::vector<std::string> checked =
        interchange::check_start(model_disk(), base::system_clock(), {model().string(), false},
                                 same.shape, {same.vocabulary, same.lower_case, same.labels});
    const std::vector<std::string> trained =
        interchange::starting_state(model_disk(), base::system_clock(), {model().string(), false},
                                    same.shape, {same.vocabulary, same.lower_case, same.labels}, 1,
                                    1)
            .notes;
    for (const std::string& note : checked) {
      EXPECT_NE(std::find(trained.begin(), trained.end(), note), trained.end()) << note;
    }
    std::erase_if(
        checked, [](const auto& note) { return note.find("tokenizer.json") == std::string::npos; });
    return checked;
  };
  ASSERT_TRUE(notes().empty());
  write_text(model() / "tokenizer_config.json", R"({"do_lower_case": true})");
  write_text(model() / "tokenizer.json", good.dump());
  EXPECT_TRUE(notes().empty());
  const std::pair<std::string, const char*> noted[] = {
      {with([](json& j) { j["normalizer"]["strip_accents"] = false; }),
       "gives other tokens than the dataset has: strip_accents is true in the dataset and false "
       "there"},
      {with([](json& j) { j["normalizer"]["handle_chinese_chars"] = false; }),
       "handle_chinese_chars is true in the dataset and false there"},
      {with([](json& j) { j["normalizer"]["lowercase"] = false; }),
       "files that differ: do_lower_case of tokenizer_config.json and lowercase of tokenizer.json"},
      {with([](json& j) { j["model"]["type"] = "BPE"; }),
       "whether it gives the dataset's tokens is unknown: not followed here: a model of type "
       "'BPE'"},
      {with([](json& j) {
         j["added_tokens"].push_back({{"id", j["model"]["vocab"].size()}, {"content", "[ENT]"}});
       }),
       "1 piece that no rule is applied to, the first is '[ENT]'"},
      {"not JSON", "is not a JSON object; copy the file again; only vocab.txt and do_lower_case"},
      {std::string(10000, '['), "only vocab.txt and do_lower_case are compared"},
  };
  for (const auto& [text, says] : noted) {
    write_text(model() / "tokenizer.json", text);
    const std::vector<std::string> found = notes();
    ASSERT_EQ(found.size(), 1U) << says;
    EXPECT_NE(found[0].find(says), std::string::npos) << found[0];
    EXPECT_EQ(found[0].find('\n'), std::string::npos);
  }
  write_text(model() / "tokenizer.json", with([](json& j) {
               std::swap(j["model"]["vocab"]["boat"], j["model"]["vocab"]["sea"]);
             }));
  const base::Error error = error_of([&] { start(model(), same); });
  EXPECT_EQ(error.code(), base::Code::User);
  EXPECT_NE(std::string(error.what()).find("in vocab.txt and the dataset 'boat'"),
            std::string::npos)
      << error.what();

  // Where tokenizer_config.json does not tell the case, this file does.
  write_text(model() / "tokenizer.json",
             with([](json& j) { j["normalizer"]["lowercase"] = false; }));
  model_disk().remove_file(model() / "tokenizer_config.json");
  const base::Error cased = error_of([&] { start(model(), same); });
  EXPECT_NE(std::string(cased.what()).find("tokenizer.json: the model's text is mixed case"),
            std::string::npos)
      << cased.what();
}

TEST_F(BadAnyModel, MomentsAreAskedForWhereNoneAre) {
  const base::Error none = error_of([&] { start(model(), wanted(), true); });
  EXPECT_EQ(none.code(), base::Code::User);
  EXPECT_NE(std::string(none.what()).find("leave from.optimizer out"), std::string::npos)
      << none.what();
  Wanted other = wanted();
  other.shape.labels = 2;
  const base::Error labels = error_of([&] { start(run_.run, other, true); });
  EXPECT_NE(std::string(labels.what()).find("the task is classification with 2 labels"),
            std::string::npos)
      << labels.what();
  write_tensors(model() / "model.safetensors", read_tensors(model() / "model.safetensors"));
  std::filesystem::copy(model() / "model.safetensors", model() / "optimizer.safetensors");
  const base::Error step = error_of([&] { start(model(), wanted(), true); });
  EXPECT_NE(std::string(step.what()).find("at which step"), std::string::npos) << step.what();
}

// A newer checkpoint that is damaged is passed over, as a run that resumes does.
TEST_F(BadAnyModel, ADamagedNewestCheckpointIsPassedOver) {
  const base::Path newer = run_.run / "checkpoints" / "step-0000000008-0123456789abcdef";
  std::filesystem::copy(run_.checkpoint, newer, std::filesystem::copy_options::recursive);
  checkpoint::Manifest manifest =
      checkpoint::parse_manifest(contents_of(newer).at("manifest.json"), "manifest");
  manifest.step = kTaskRunStep + 1;
  write_text(newer / "manifest.json", checkpoint::to_json(manifest));
  const auto newest =
      interchange::open_any_model(model_disk(), base::system_clock(), {run_.run, {}, {}});
  EXPECT_EQ(newest.name, "run tuned, " + newer.filename().string());
  const std::string text = contents_of(newer).at("model.safetensors");
  write_text(newer / "model.safetensors", text.substr(0, text.size() - 8));
  const auto opened =
      interchange::open_any_model(model_disk(), base::system_clock(), {run_.run, {}, {}});
  EXPECT_EQ(opened.name, "run tuned, " + run_.checkpoint.filename().string());
  EXPECT_EQ(opened.parameters, run_.state.parameters);
}

}  // namespace
}  // namespace regatta::tests
