// What an exported directory holds, and what cannot be exported.
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "base/process.h"
#include "checkpoint/pins.h"
#include "checkpoint/store.h"
#include "checkpoint/tombstones.h"
#include "tests/trainer/interchange/trained_run.h"
#include "trainer/interchange/question_head.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using nlohmann::json;

class Export : public TrainedRun {
 protected:
  static base::Path newest_checkpoint() { return checkpoints_of(run()).back(); }
};

TEST_F(Export, HoldsTheNewestCheckpointUnderTransformersNames) {
  const base::Path model = exported("model");
  const data::Dataset data = data::Dataset::open(dataset());
  const auto pieces = static_cast<std::int64_t>(data.vocabulary().size());
  auto contents = contents_of(model);
  EXPECT_EQ(contents.size(), 5U);
  EXPECT_EQ(contents["vocab.txt"], data.vocabulary().text());
  EXPECT_EQ(json::parse(contents["config.json"]).at("vocab_size"), pieces);
  EXPECT_EQ(json::parse(contents["tokenizer_config.json"]).at("do_lower_case"), true);
  EXPECT_EQ(json::parse(contents["tokenizer_config.json"]).at("model_max_length"), 48);
  ASSERT_EQ(contents.count("special_tokens_map.json"), 1U);

  const auto exported = read_tensors(model / "model.safetensors");
  const auto saved = read_tensors(newest_checkpoint() / "model.safetensors");
  ASSERT_EQ(exported.size(), saved.size());
  std::set<std::string> names;
  for (std::size_t i = 0; i < saved.size(); ++i) {
    names.insert(exported[i].name);
    EXPECT_EQ(exported[i].name, saved[i].name);
    EXPECT_EQ(exported[i].shape, saved[i].shape);
    EXPECT_EQ(exported[i].bytes, saved[i].bytes);
    // No padded row leaves the trainer.
    if (exported[i].name == "bert.embeddings.word_embeddings.weight") {
      EXPECT_EQ(exported[i].shape, (std::vector<std::int64_t>{pieces, 32}));
    }
  }
  EXPECT_EQ(names.count("cls.predictions.bias"), 1U);
  EXPECT_EQ(names.count("cls.predictions.decoder.weight"), 0U) << "tied weights are stored once";
  EXPECT_EQ(names.count("cls.predictions.decoder.bias"), 0U);
}

TEST_F(Export, AnEncoderHasNoHeadsAndNoPrefix) {
  interchange::ExportOptions options;
  options.checkpoint = newest_checkpoint();
  options.output = path() / "encoder";
  options.model = interchange::HuggingFaceClass::Encoder;
  const interchange::ExportReport report =
      interchange::export_model(base::posix_file_system(), options);
  EXPECT_EQ(report.step, 6);
  for (const StoredTensor& tensor : read_tensors(path() / "encoder" / "model.safetensors")) {
    EXPECT_TRUE(tensor.name.rfind("embeddings.", 0) == 0 || tensor.name.rfind("encoder.", 0) == 0 ||
                tensor.name.rfind("pooler.", 0) == 0)
        << tensor.name;
  }
  EXPECT_NE(contents_of(path() / "encoder")["config.json"].find("BertModel"), std::string::npos);
}

// As another reader sees it, with the names and shapes that it expects of the class.
json listed_elsewhere(const base::Path& directory) {
  base::Command command;
  command.arguments = {"python3", "-B",
                       std::string(REGATTA_SOURCE_DIR) + "/tests/trainer/interchange/bert.py",
                       directory.string()};
  const base::Output output = base::run(command, 200);
  EXPECT_EQ(output.exit.code.value_or(-1), 0) << output.errors;
  return json::parse(output.text, nullptr, false);
}

TEST_F(Export, NamesAndShapesAreThoseThatAnotherReaderExpects) {
  for (const auto model :
       {interchange::HuggingFaceClass::ForPreTraining, interchange::HuggingFaceClass::Encoder,
        interchange::HuggingFaceClass::ForQuestionAnswering}) {
    SCOPED_TRACE(interchange::name_of(model));
    interchange::ExportOptions options;
    options.checkpoint = run();
    options.output = path() / interchange::name_of(model);
    options.model = model;
    const interchange::ExportReport report =
        interchange::export_model(base::posix_file_system(), options);
    EXPECT_EQ(json::parse(contents_of(options.output)["config.json"]).at("architectures"),
              json({interchange::name_of(model)}));
    EXPECT_EQ(static_cast<std::int64_t>(listed_elsewhere(options.output).size()), report.tensors);
  }
}

TEST_F(Export, AQuestionAnsweringHeadIsNewOrGiven) {
  interchange::ExportOptions options;
  options.checkpoint = run();
  options.output = path() / "new";
  options.model = interchange::HuggingFaceClass::ForQuestionAnswering;
  const interchange::ExportReport report =
      interchange::export_model(base::posix_file_system(), options);
  ASSERT_EQ(report.notes.size(), 1U);
  EXPECT_EQ(report.notes[0].rfind("newly initialised: qa_outputs", 0), 0U) << report.notes[0];
  const interchange::QuestionHead head =
      interchange::initial_question_head(32, 1);  // the run's seed
  std::map<std::string, StoredTensor> tensors;
  for (const StoredTensor& one : read_tensors(options.output / "model.safetensors")) {
    tensors[one.name] = one;
  }
  EXPECT_EQ(std::memcmp(tensors.at("qa_outputs.weight").bytes.data(), head.weight.data(), 256), 0);
  EXPECT_EQ(tensors.at("qa_outputs.bias").bytes, std::string(8, '\0'));
  EXPECT_EQ(tensors.count("bert.pooler.dense.weight"), 0U) << "add_pooling_layer=False";

  // A head that was trained elsewhere, from among other tensors.
  std::string weight(256, '\0');
  for (int i = 0; i < 64; ++i) {
    const float value = 0.5F * static_cast<float>(i);
    std::memcpy(weight.data() + 4 * i, &value, 4);
  }
  write_tensors(path() / "head", {{"other", "F32", {2}, "abcdefgh"},
                                  {"qa_outputs.weight", "F32", {2, 32}, weight},
                                  {"qa_outputs.bias", "F32", {2}, weight.substr(4, 8)}});
  options.output = path() / "given";
  options.question_head = path() / "head";
  EXPECT_TRUE(interchange::export_model(base::posix_file_system(), options).notes.empty());
  for (const StoredTensor& one : read_tensors(options.output / "model.safetensors")) {
    const std::string& expected = one.name == "qa_outputs.weight" ? weight
                                  : one.name == "qa_outputs.bias" ? weight.substr(4, 8)
                                                                  : tensors.at(one.name).bytes;
    EXPECT_EQ(one.bytes, expected) << one.name;
  }
}

TEST(QuestionHead, IsDrawnAsTransformersDraw) {
  const interchange::QuestionHead head = interchange::initial_question_head(4096, 7);
  EXPECT_EQ(head.bias, (std::vector<float>{0, 0}));
  double sum = 0, squares = 0, beyond = 0;
  for (const float value : head.weight) {
    sum += static_cast<double>(value);
    squares += static_cast<double>(value) * static_cast<double>(value);
    beyond += std::abs(value) > 0.04F ? 1 : 0;
  }
  const auto count = static_cast<double>(head.weight.size());
  EXPECT_EQ(count, 8192);
  // Five standard errors.
  EXPECT_NEAR(sum / count, 0, 5 * 0.02 / std::sqrt(count));
  EXPECT_NEAR(std::sqrt(squares / count), 0.02, 5 * 0.02 / std::sqrt(2 * count));
  EXPECT_NEAR(beyond / count, 0.0455, 5 * std::sqrt(0.0455 / count)) << "not cut at two deviations";
  EXPECT_EQ(head.weight, interchange::initial_question_head(4096, 7).weight);
  EXPECT_NE(head.weight, interchange::initial_question_head(4096, 8).weight);
}

TEST_F(Export, HowTheMomentsWereSplitMakesNoDifference) {
  interchange::ExportOptions options;
  options.checkpoint = run();
  options.with_optimizer = true;
  options.output = path() / "whole";
  (void)interchange::export_model(base::posix_file_system(), options);
  for (const int shards : {2, 3}) {
    const std::string count = std::to_string(shards);
    std::filesystem::copy(run(), path() / ("run" + count),
                          std::filesystem::copy_options::recursive);
    split_optimizer(checkpoints_of(path() / ("run" + count)).back(), shards);
    options.checkpoint = path() / ("run" + count);
    options.output = path() / ("model" + count);
    EXPECT_EQ(interchange::export_model(base::posix_file_system(), options).step, 6);
    EXPECT_EQ(contents_of(options.output), contents_of(path() / "whole"));
  }
  const base::Path shard =
      checkpoints_of(path() / "run3").back() / "optimizer-00002-of-00003.safetensors";
  base::posix_file_system().remove_file(shard);
  options.checkpoint = shard.parent_path();
  options.output = path() / "lost";
  const base::Error error =
      error_of([&] { (void)interchange::export_model(base::posix_file_system(), options); });
  EXPECT_NE(std::string(error.what()).find("optimizer-00002-of-00003"), std::string::npos)
      << error.what();
}

// The real one; looks for marks when the model is written.
class Watching final : public base::FileSystem {
 public:
  explicit Watching(base::Path checkpoints) : checkpoints_(std::move(checkpoints)) {}
  std::set<std::string> marked;

  std::unique_ptr<base::WritableFile> open(const base::Path& path, Open how) override {
    if (path.filename() == "model.safetensors") {
      marked = checkpoint::read_marks(real_, checkpoints_, base::system_clock().utc_seconds());
    }
    return real_.open(path, how);
  }
  std::string read(const base::Path& path, std::uint64_t limit) override {
    return real_.read(path, limit);
  }
  std::string read_at(const base::Path& path, std::uint64_t offset, std::uint64_t limit) override {
    return real_.read_at(path, offset, limit);
  }
  std::size_t read_into(const base::Path& path, std::uint64_t offset,
                        std::span<std::byte> out) override {
    return real_.read_into(path, offset, out);
  }
  std::uint64_t size(const base::Path& path) override { return real_.size(path); }
  bool create_directory(const base::Path& path) override { return real_.create_directory(path); }
  void rename(const base::Path& from, const base::Path& to) override { real_.rename(from, to); }
  void sync_directory(const base::Path& path) override { real_.sync_directory(path); }
  void remove_file(const base::Path& path) override { real_.remove_file(path); }
  void remove_tree(const base::Path& path) override { real_.remove_tree(path); }
  std::vector<std::string> list(const base::Path& path) override { return real_.list(path); }
  bool exists(const base::Path& path) override { return real_.exists(path); }
  std::uint64_t free_bytes(const base::Path& path) override { return real_.free_bytes(path); }

 private:
  base::FileSystem& real_ = base::posix_file_system();
  base::Path checkpoints_;
};

TEST_F(Export, TheCheckpointIsMarkedMeanwhile) {
  interchange::ExportOptions options;
  options.checkpoint = run();
  options.output = path() / "model";
  Watching files(run() / "checkpoints");
  const interchange::ExportReport report = interchange::export_model(files, options);
  EXPECT_EQ(files.marked, std::set<std::string>{report.checkpoint});
  EXPECT_TRUE(checkpoint::read_marks(base::posix_file_system(), run() / "checkpoints",
                                     base::system_clock().utc_seconds())
                  .empty());
}

TEST_F(Export, ACheckpointThatIsBeingRemovedIsPassedOver) {
  std::filesystem::copy(run(), path() / "run", std::filesystem::copy_options::recursive);
  const base::Path newest = checkpoints_of(path() / "run").back();
  checkpoint::add_tombstones(base::posix_file_system(), newest.parent_path(),
                             {{newest.filename().string(), 6, 1e9, "old"}});
  interchange::ExportOptions options;
  options.checkpoint = path() / "run";
  options.output = path() / "model";
  EXPECT_EQ(interchange::export_model(base::posix_file_system(), options).step, 3);
}

TEST_F(Export, APathMayEndInASlashAndAnOlderCheckpointBeNamed) {
  interchange::ExportOptions options;
  ASSERT_GE(checkpoints_of(run()).size(), 2U);
  options.checkpoint = checkpoints_of(run()).front().string() + "/";
  options.output = (path() / "older").string() + "/";
  EXPECT_EQ(interchange::export_model(base::posix_file_system(), options).step, 3);
  EXPECT_EQ(contents_of(path() / "older").count("config.json"), 1U);
}

TEST_F(Export, TheVocabularyMayComeFromElsewhere) {
  interchange::ExportOptions options;
  options.checkpoint = run();
  options.output = path() / "model";
  options.vocabulary = dataset() / "vocab.txt";
  options.cased = true;
  (void)interchange::export_model(base::posix_file_system(), options);
  EXPECT_EQ(json::parse(contents_of(path() / "model")["tokenizer_config.json"]).at("do_lower_case"),
            false);
}

TEST_F(Export, ForceReplacesExportsOnly) {
  const base::Path model = exported("model");
  const auto good = contents_of(model);
  write_text(model / "config.json", "old");
  interchange::ExportOptions options;
  options.checkpoint = run();
  options.output = model;
  EXPECT_EQ(
      error_of([&] { (void)interchange::export_model(base::posix_file_system(), options); }).code(),
      base::Code::Conflict);
  EXPECT_EQ(contents_of(model).at("config.json"), "old");
  options.force = true;
  (void)interchange::export_model(base::posix_file_system(), options);
  EXPECT_EQ(contents_of(model), good);
  EXPECT_EQ(names("model").size(), 1U);

  base::posix_file_system().create_directory(path() / "thesis");
  write_text(path() / "thesis" / "chapter.txt", "years of work");
  options.output = path() / "thesis";
  EXPECT_EQ(
      error_of([&] { (void)interchange::export_model(base::posix_file_system(), options); }).code(),
      base::Code::Conflict);
  EXPECT_EQ(contents_of(path() / "thesis").at("chapter.txt"), "years of work");
}

TEST_F(Export, ADamagedNewestCheckpointIsPassedOver) {
  std::filesystem::copy(run(), path() / "run", std::filesystem::copy_options::recursive);
  const base::Path newest = checkpoints_of(path() / "run").back();
  auto bytes = contents_of(newest).at("model.safetensors");
  bytes[bytes.size() / 2] ^= 1;
  write_text(newest / "model.safetensors", bytes);
  interchange::ExportOptions options;
  options.checkpoint = path() / "run";
  options.output = path() / "model";
  EXPECT_EQ(interchange::export_model(base::posix_file_system(), options).step, 3);
  options.checkpoint = newest;
  options.output = path() / "damaged";
  const base::Error error =
      error_of([&] { (void)interchange::export_model(base::posix_file_system(), options); });
  EXPECT_NE(std::string(error.what()).find("is damaged"), std::string::npos) << error.what();
  EXPECT_TRUE(names("damaged").empty());
}

struct BadExport {
  const char* name;
  std::function<void(const base::Path& run, interchange::ExportOptions* options)> spoil;
  const char* says;
};

TEST_F(Export, RefusesInOneLineAndLeavesNothing) {
  const auto remove = [](const base::Path& what) { base::posix_file_system().remove_tree(what); };
  const auto run_json = [](const base::Path& run, const char* key, const json& value) {
    json text = json::parse(contents_of(run).at("run.json"));
    text[json::json_pointer(key)] = value;
    write_text(run / "run.json", text.dump());
  };
  const BadExport kCases[] = {
      {"no such path", [](auto&, auto* o) { o->checkpoint = "/no/such/run"; }, "no checkpoint at"},
      {"any other directory", [&](auto&, auto* o) { o->checkpoint = dataset(); }, "neither a run"},
      {"the checkpoints' directory",
       [](auto& run, auto* o) { o->checkpoint = run / "checkpoints"; }, "neither a run"},
      {"a checkpoint that is not there",
       [](auto& run, auto* o) {
         o->checkpoint = run / "checkpoints" / "step-0000000099-0123456789abcdef";
       },
       "no checkpoint at"},
      {"no checkpoint yet", [&](auto& run, auto*) { remove(run / "checkpoints"); },
       "no checkpoint in"},
      {"only unfinished ones",
       [&](auto& run, auto*) {
         for (const base::Path& one : checkpoints_of(run)) remove(one / "manifest.json");
       },
       "is not whole"},
      {"run.json is not a run file", [](auto& run, auto*) { write_text(run / "run.json", "{}"); },
       "data.path"},
      {"run.json of another model", [&](auto& run, auto*) { run_json(run, "/model/hidden", 64); },
       "another model"},
      {"run.json of another activation",
       [&](auto& run, auto*) { run_json(run, "/model/gelu", "tanh"); }, "another model"},
      {"run.json of another vocabulary",
       [&](auto& run, auto*) { run_json(run, "/model/vocabulary", 7); }, "vocabulary of 7"},
      {"the dataset is gone",
       [&](auto& run, auto*) { run_json(run, "/data/path", "/no/such/dataset"); }, "--vocab"},
      {"the dataset is another one",
       [&](auto& run, auto*) {
         const base::Path other = make_small_dataset(run, 7);
         std::filesystem::copy(dataset() / "vocab.txt", other / "vocab.txt",
                               std::filesystem::copy_options::overwrite_existing);
         run_json(run, "/data/path", other.string());
       },
       "--vocab"},
      {"the vocabulary is another one",
       [&](auto& run, auto* o) {
         o->vocabulary = run / "vocab.txt";
         write_text(o->vocabulary, "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n");
       },
       "another model"},
      {"the vocabulary is none",
       [&](auto& run, auto* o) {
         o->vocabulary = run / "vocab.txt";
         write_text(o->vocabulary, "a\nb\n");
       },
       "[PAD]"},
      {"the vocabulary is missing",
       [](auto& run, auto* o) { o->vocabulary = run / "no-vocab.txt"; }, "no-vocab.txt"},
      {"cased, but of what", [](auto&, auto* o) { o->cased = true; }, "--cased is about --vocab"},
      {"moments without heads",
       [](auto&, auto* o) {
         o->with_optimizer = true;
         o->model = interchange::HuggingFaceClass::Encoder;
       },
       "--with-optimizer"},
      {"a head for nothing to ask",
       [](auto& run, auto* o) { o->question_head = run / "head.safetensors"; },
       "--qa-head goes with"},
      {"a head that is not there",
       [](auto& run, auto* o) {
         o->model = interchange::HuggingFaceClass::ForQuestionAnswering;
         o->question_head = run / "head.safetensors";
       },
       "head.safetensors"},
      {"a head of another model",
       [](auto& run, auto* o) {
         o->model = interchange::HuggingFaceClass::ForQuestionAnswering;
         o->question_head = run / "head.safetensors";
         tests::write_tensors(o->question_head, {{"qa_outputs.weight", "F32", {2, 1}, "12345678"},
                                                 {"qa_outputs.bias", "F32", {2}, "12345678"}});
       },
       "'qa_outputs.weight' is F32[2, 1], expected F32[2, 32]"},
      {"a head without numbers",
       [](auto& run, auto* o) {
         o->model = interchange::HuggingFaceClass::ForQuestionAnswering;
         o->question_head = run / "head.safetensors";
         const std::string ones(2 * 32 * 4, '\xFF');
         tests::write_tensors(o->question_head, {{"qa_outputs.weight", "F32", {2, 32}, ones},
                                                 {"qa_outputs.bias", "F32", {2}, "12345678"}});
       },
       "not finite"},
      {"moments of another head",
       [](auto&, auto* o) {
         o->with_optimizer = true;
         o->model = interchange::HuggingFaceClass::ForQuestionAnswering;
       },
       "--with-optimizer"},
      {"output below a file", [](auto& run, auto* o) { o->output = run / "run.json" / "model"; },
       "run.json"},
      {"output below nothing", [](auto& run, auto* o) { o->output = run / "no" / "model"; },
       "no/model"},
      {"output is a file",
       [](auto& run, auto* o) {
         o->force = true;
         o->output = run / "run.json";
       },
       "exists already"},
  };
  for (const BadExport& c : kCases) {
    SCOPED_TRACE(c.name);
    const base::Path copy = path() / "copy";
    remove(copy);
    std::filesystem::copy(run(), copy, std::filesystem::copy_options::recursive);
    interchange::ExportOptions options;
    options.checkpoint = copy;
    options.output = path() / "output";
    c.spoil(copy, &options);
    const base::Error error =
        error_of([&] { (void)interchange::export_model(base::posix_file_system(), options); });
    EXPECT_NE(std::string(error.what()).find(c.says), std::string::npos) << error.what();
    EXPECT_TRUE(names("output").empty());
    EXPECT_EQ(names("").size(), 1U) << "only the copy is there";
  }
}

TEST_F(Export, NoRoomIsNoticedBeforeWriting) {
  FaultyFileSystem files;
  files.set_free_bytes(1 << 20);
  interchange::ExportOptions options;
  options.checkpoint = run();
  options.output = path() / "model";
  const base::Error error = error_of([&] { (void)interchange::export_model(files, options); });
  EXPECT_EQ(error.code(), base::Code::Operator);
  EXPECT_NE(std::string(error.what()).find("no room"), std::string::npos) << error.what();
  EXPECT_TRUE(names("model").empty());
}

// Every operation fails once: the old export or the new one is there, whole, and nothing else.
TEST_F(Export, EveryFailureLeavesOldOrNew) {
  interchange::ExportOptions options;
  options.checkpoint = newest_checkpoint();
  options.output = path() / "model";
  options.force = true;
  const auto good = contents_of(exported("model"));
  FaultyFileSystem files;
  (void)interchange::export_model(files, options);
  const std::int64_t operations = files.operations();
  EXPECT_GT(operations, 50);
  int failures = 0;
  for (std::int64_t n = 1; n <= operations; ++n) {
    SCOPED_TRACE(n);
    FaultyFileSystem faulty;
    faulty.fail_at(n, Fault::Once);
    try {
      (void)interchange::export_model(faulty, options);
    } catch (const base::Error& error) {
      ++failures;
    }
    EXPECT_EQ(contents_of(options.output), good);
    for (const std::string& name : names("model.")) {  // what could not be removed is set aside
      EXPECT_EQ(name.rfind("model.replaced-", 0), 0U) << name;
      base::posix_file_system().remove_tree(path() / name);
    }
  }
  EXPECT_GT(failures, 50);
}

}  // namespace
}  // namespace regatta::tests
