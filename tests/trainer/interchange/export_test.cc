// What an exported directory holds, and what cannot be exported.
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/store.h"
#include "tests/trainer/interchange/trained_run.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using nlohmann::json;

class Export : public TrainedRun {
 protected:
  static base::Path newest_checkpoint() {
    return run() / "checkpoints" / base::posix_file_system().list(run() / "checkpoints").back();
  }
};

TEST_F(Export, HoldsTheNewestCheckpointUnderTransformersNames) {
  const base::Path model = exported("model");
  const Dataset data = Dataset::open(dataset());
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
  ExportOptions options;
  options.checkpoint = newest_checkpoint();
  options.output = path() / "encoder";
  options.model = HuggingFaceClass::Encoder;
  const ExportReport report = export_model(base::posix_file_system(), options);
  EXPECT_EQ(report.step, 6);
  for (const StoredTensor& tensor : read_tensors(path() / "encoder" / "model.safetensors")) {
    EXPECT_TRUE(tensor.name.rfind("embeddings.", 0) == 0 || tensor.name.rfind("encoder.", 0) == 0 ||
                tensor.name.rfind("pooler.", 0) == 0)
        << tensor.name;
  }
  EXPECT_NE(contents_of(path() / "encoder")["config.json"].find("BertModel"), std::string::npos);
}

TEST_F(Export, APathMayEndInASlashAndAnOlderCheckpointBeNamed) {
  ExportOptions options;
  const auto names = base::posix_file_system().list(run() / "checkpoints");
  ASSERT_GE(names.size(), 2U);
  options.checkpoint = (run() / "checkpoints" / names.front()).string() + "/";
  options.output = (path() / "older").string() + "/";
  EXPECT_EQ(export_model(base::posix_file_system(), options).step, 3);
  EXPECT_EQ(contents_of(path() / "older").count("config.json"), 1U);
}

TEST_F(Export, TheVocabularyMayComeFromElsewhere) {
  ExportOptions options;
  options.checkpoint = run();
  options.output = path() / "model";
  options.vocabulary = dataset() / "vocab.txt";
  options.cased = true;
  (void)export_model(base::posix_file_system(), options);
  EXPECT_EQ(json::parse(contents_of(path() / "model")["tokenizer_config.json"]).at("do_lower_case"),
            false);
}

TEST_F(Export, ForceReplacesExportsOnly) {
  const base::Path model = exported("model");
  const auto good = contents_of(model);
  write_text(model / "config.json", "old");
  ExportOptions options;
  options.checkpoint = run();
  options.output = model;
  EXPECT_EQ(error_of([&] { (void)export_model(base::posix_file_system(), options); }).code(),
            base::Code::Conflict);
  EXPECT_EQ(contents_of(model).at("config.json"), "old");
  options.force = true;
  (void)export_model(base::posix_file_system(), options);
  EXPECT_EQ(contents_of(model), good);
  EXPECT_EQ(names("model").size(), 1U);

  base::posix_file_system().create_directory(path() / "thesis");
  write_text(path() / "thesis" / "chapter.txt", "years of work");
  options.output = path() / "thesis";
  EXPECT_EQ(error_of([&] { (void)export_model(base::posix_file_system(), options); }).code(),
            base::Code::Conflict);
  EXPECT_EQ(contents_of(path() / "thesis").at("chapter.txt"), "years of work");
}

TEST_F(Export, ADamagedNewestCheckpointIsPassedOver) {
  std::filesystem::copy(run(), path() / "run", std::filesystem::copy_options::recursive);
  const base::Path store = path() / "run" / "checkpoints";
  const base::Path newest = store / base::posix_file_system().list(store).back();
  auto bytes = contents_of(newest).at("model.safetensors");
  bytes[bytes.size() / 2] ^= 1;
  write_text(newest / "model.safetensors", bytes);
  ExportOptions options;
  options.checkpoint = path() / "run";
  options.output = path() / "model";
  EXPECT_EQ(export_model(base::posix_file_system(), options).step, 3);
  options.checkpoint = newest;
  options.output = path() / "damaged";
  const base::Error error =
      error_of([&] { (void)export_model(base::posix_file_system(), options); });
  EXPECT_NE(std::string(error.what()).find("is damaged"), std::string::npos) << error.what();
  EXPECT_TRUE(names("damaged").empty());
}

struct BadExport {
  const char* name;
  std::function<void(const base::Path& run, ExportOptions* options)> spoil;
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
         for (const auto& name : base::posix_file_system().list(run / "checkpoints")) {
           remove(run / "checkpoints" / name / "manifest.json");
         }
       },
       "is not whole"},
      {"run.json is no run file", [](auto& run, auto*) { write_text(run / "run.json", "{}"); },
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
         o->model = HuggingFaceClass::Encoder;
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
    ExportOptions options;
    options.checkpoint = copy;
    options.output = path() / "output";
    c.spoil(copy, &options);
    const base::Error error =
        error_of([&] { (void)export_model(base::posix_file_system(), options); });
    EXPECT_NE(std::string(error.what()).find(c.says), std::string::npos) << error.what();
    EXPECT_TRUE(names("output").empty());
    EXPECT_EQ(names("").size(), 1U) << "only the copy is there";
  }
}

TEST_F(Export, NoRoomIsNoticedBeforeWriting) {
  FaultyFileSystem files;
  files.set_free_bytes(1 << 20);
  ExportOptions options;
  options.checkpoint = run();
  options.output = path() / "model";
  const base::Error error = error_of([&] { (void)export_model(files, options); });
  EXPECT_EQ(error.code(), base::Code::Operator);
  EXPECT_NE(std::string(error.what()).find("no room"), std::string::npos) << error.what();
  EXPECT_TRUE(names("model").empty());
}

// Every operation fails once: the old export or the new one is there, whole, and nothing else.
TEST_F(Export, EveryFailureLeavesOldOrNew) {
  ExportOptions options;
  options.checkpoint = newest_checkpoint();
  options.output = path() / "model";
  options.force = true;
  const auto good = contents_of(exported("model"));
  FaultyFileSystem files;
  (void)export_model(files, options);
  const std::int64_t operations = files.operations();
  EXPECT_GT(operations, 50);
  int failures = 0;
  for (std::int64_t n = 1; n <= operations; ++n) {
    SCOPED_TRACE(n);
    FaultyFileSystem faulty;
    faulty.fail_at(n, Fault::Once);
    try {
      (void)export_model(faulty, options);
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
