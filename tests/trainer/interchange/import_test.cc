// Runs that start from an exported directory, in every form in which such directories come.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/process.h"
#include "checkpoint/store.h"
#include "tests/sanitizers.h"
#include "tests/trainer/interchange/trained_run.h"
#include "trainer/device/half_types.h"
#include "trainer/model/initial_weights.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using nlohmann::json;

constexpr char kDecoder[] = "cls.predictions.decoder.weight";
constexpr char kWords[] = "bert.embeddings.word_embeddings.weight";

class Import : public TrainedRun {
 protected:
  [[nodiscard]] interchange::ImportOptions options(const base::Path& from) const {
    interchange::ImportOptions options;
    options.from = from;
    options.run_file = run_file();
    options.run_directory = path() / "imported";
    return options;
  }
  [[nodiscard]] static interchange::ImportReport import(const interchange::ImportOptions& options) {
    return interchange::import_model(base::posix_file_system(), base::system_clock(), options);
  }
  // The model that a run directory exports.
  std::string model_of(const base::Path& run_directory, const std::string& name) {
    interchange::ExportOptions options;
    options.checkpoint = run_directory;
    options.output = path() / name;
    (void)interchange::export_model(base::posix_file_system(), options);
    return contents_of(options.output).at("model.safetensors");
  }
};

std::string half_bytes(const std::string& bytes, bool brain) {
  std::string halves;
  for (std::size_t i = 0; i < bytes.size(); i += 4) {
    float value = 0;
    std::memcpy(&value, bytes.data() + i, 4);
    const std::uint16_t bits =
        brain ? device::bf16_from_float(value) : device::fp16_from_float(value);
    halves.append(reinterpret_cast<const char*>(&bits), 2);
  }
  return halves;
}

TEST_F(Import, ExportAndImportAndExportIsTheSame) {
  const base::Path model = exported("model");
  const interchange::ImportReport report = import(options(model));
  EXPECT_EQ(report.step, 0);
  EXPECT_TRUE(report.notes.empty()) << report.notes.front();
  EXPECT_EQ(model_of(path() / "imported", "again"), contents_of(model).at("model.safetensors"));
  EXPECT_EQ(contents_of(path() / "again").at("config.json"), contents_of(model).at("config.json"));
  EXPECT_EQ(names("imported").size(), 1U);
  // The run goes on from there: its first steps are taken with those weights.
  train_run(run_file(), path() / "imported");
  EXPECT_NE(newest_state(path() / "imported"), newest_state(run()));
}

// With the moments a run goes on as if it had never been elsewhere.
TEST_F(Import, WithMomentsARunGoesOnBitForBit) {
  const auto checkpoints = checkpoints_of(run());
  ASSERT_GE(checkpoints.size(), 2U);
  interchange::ExportOptions out;
  out.checkpoint = checkpoints.front();  // step 3 of 6
  out.output = path() / "model";
  out.with_optimizer = true;
  EXPECT_EQ(interchange::export_model(base::posix_file_system(), out).step, 3);
  interchange::ImportOptions in = options(out.output);
  in.with_optimizer = true;
  EXPECT_EQ(import(in).step, 3);
  train_run(run_file(), path() / "imported");
  EXPECT_EQ(newest_state(path() / "imported"), newest_state(run()));
}

TEST_F(Import, AnEncoderGetsNewHeads) {
  interchange::ExportOptions out;
  out.checkpoint = run();
  out.output = path() / "encoder";
  out.model = interchange::HuggingFaceClass::Encoder;
  (void)interchange::export_model(base::posix_file_system(), out);
  const interchange::ImportReport report = import(options(out.output));
  ASSERT_EQ(report.notes.size(), 2U);
  EXPECT_NE(report.notes[0].find("cls.predictions."), std::string::npos);
  EXPECT_NE(report.notes[1].find("cls.seq_relationship."), std::string::npos);
  const data::Dataset data = data::Dataset::open(dataset());
  contract::RunConfig config = small_run_config(data);
  config.model.max_positions = 48;
  const contract::TensorTable table = contract::make_tensor_table(config.model);
  const std::vector<float> fresh = model::initial_weights(table, config.seed);
  (void)model_of(path() / "imported", "whole");
  for (const StoredTensor& tensor : read_tensors(path() / "whole" / "model.safetensors")) {
    if (tensor.name.rfind("cls.", 0) != 0) continue;
    const contract::TensorEntry& entry = table.at(tensor.name);
    EXPECT_EQ(std::memcmp(tensor.bytes.data(), fresh.data() + entry.offset, tensor.bytes.size()), 0)
        << tensor.name;
  }
  interchange::ExportOptions again = out;
  again.checkpoint = path() / "imported";
  again.output = path() / "again";
  (void)interchange::export_model(base::posix_file_system(), again);
  EXPECT_EQ(contents_of(path() / "again"), contents_of(path() / "encoder"));
}

// Forms of one model that mean the same weights.
// A run trains the heads of pre-training, so of a question answering model it takes the encoder.
TEST_F(Import, OfAQuestionAnsweringModelTheEncoderIsKept) {
  interchange::ExportOptions out;
  out.checkpoint = run();
  out.output = path() / "answers";
  out.model = interchange::HuggingFaceClass::ForQuestionAnswering;
  (void)interchange::export_model(base::posix_file_system(), out);
  const interchange::ImportReport report = import(options(out.output));
  std::string notes;
  for (const std::string& note : report.notes) notes += note + "\n";
  EXPECT_EQ(notes,
            "no bert.pooler.*: initialised as for a new run\n"
            "no cls.predictions.*: initialised as for a new run\n"
            "no cls.seq_relationship.*: initialised as for a new run\n"
            "2 tensors were not used, the first is 'qa_outputs.weight'\n");
  interchange::ExportOptions again = out;
  again.checkpoint = path() / "imported";
  again.output = path() / "again";
  again.question_head = out.output / "model.safetensors";
  (void)interchange::export_model(base::posix_file_system(), again);
  EXPECT_EQ(contents_of(path() / "again"), contents_of(path() / "answers"));
}

TEST_F(Import, OldNamesAndTiedCopiesAreTheSameModel) {
  const base::Path model = exported("model");
  auto tensors = read_tensors(model / "model.safetensors");
  const auto words = *std::find_if(tensors.begin(), tensors.end(),
                                   [](const auto& tensor) { return tensor.name == kWords; });
  for (StoredTensor& tensor : tensors) {
    const auto replace = [&](const std::string& from, const std::string& to) {
      const auto at = tensor.name.find(from);
      if (at != std::string::npos) tensor.name.replace(at, from.size(), to);
    };
    replace("LayerNorm.weight", "LayerNorm.gamma");
    replace("LayerNorm.bias", "LayerNorm.beta");
    if (tensor.name == "cls.predictions.bias") tensor.name = "cls.predictions.decoder.bias";
  }
  tensors.push_back({kDecoder, words.dtype, words.shape, words.bytes});
  std::int64_t position_ids[48] = {};
  tensors.insert(tensors.begin(),
                 {"bert.embeddings.position_ids",
                  "I64",
                  {1, 48},
                  std::string(reinterpret_cast<const char*>(position_ids), sizeof position_ids)});
  tensors.push_back({"classifier.weight", "F32", {1}, std::string(4, '\0')});
  const std::string plain = contents_of(model).at("model.safetensors");
  write_tensors(model / "model.safetensors", tensors, {});
  const interchange::ImportReport report = import(options(model));
  ASSERT_EQ(report.notes.size(), 1U);
  EXPECT_EQ(report.notes[0], "1 tensors were not used, the first is 'classifier.weight'");
  EXPECT_EQ(model_of(path() / "imported", "again"), plain);
}

TEST_F(Import, HalfPrecisionIsWidened) {
  for (const bool brain : {false, true}) {
    const std::string dtype = brain ? "BF16" : "F16";
    SCOPED_TRACE(dtype);
    const base::Path model = exported("model" + dtype);
    auto tensors = read_tensors(model / "model.safetensors");
    for (StoredTensor& tensor : tensors) {
      tensor.dtype = dtype;
      tensor.bytes = half_bytes(tensor.bytes, brain);
    }
    write_tensors(model / "model.safetensors", tensors);
    interchange::ImportOptions in = options(model);
    in.run_directory = path() / ("imported" + dtype);
    (void)import(in);
    (void)model_of(in.run_directory, "again" + dtype);
    const auto again = read_tensors(path() / ("again" + dtype) / "model.safetensors");
    ASSERT_EQ(again.size(), tensors.size());
    for (std::size_t i = 0; i < again.size(); ++i) {
      EXPECT_EQ(again[i].dtype, "F32");
      EXPECT_EQ(half_bytes(again[i].bytes, brain), tensors[i].bytes) << again[i].name;
    }
  }
}

TEST_F(Import, PaddedVocabularyRowsAreCut) {
  const base::Path model = exported("model");
  const std::string plain = contents_of(model).at("model.safetensors");
  auto tensors = read_tensors(model / "model.safetensors");
  for (StoredTensor& tensor : tensors) {
    if (tensor.name != kWords && tensor.name != "cls.predictions.bias") continue;
    tensor.shape.front() += 3;
    tensor.bytes.resize(tensor.bytes.size() / static_cast<std::size_t>(tensor.shape.front() - 3) *
                        static_cast<std::size_t>(tensor.shape.front()));
  }
  write_tensors(model / "model.safetensors", tensors);
  change_config(model,
                [](json& config) { config["vocab_size"] = config["vocab_size"].get<int>() + 3; });
  const interchange::ImportReport report = import(options(model));
  ASSERT_EQ(report.notes.size(), 1U);
  EXPECT_EQ(report.notes[0], "3 rows beyond the vocabulary were cut");
  EXPECT_EQ(model_of(path() / "imported", "again"), plain);
}

struct BadImport {
  const char* name;
  std::function<void(const base::Path& model, interchange::ImportOptions* options)> spoil;
  const char* says;
};

// A change of one tensor, or its removal.
void change_tensor(const base::Path& model, const std::string& name,
                   const std::function<bool(StoredTensor*)>& keep) {
  std::vector<StoredTensor> changed;
  for (StoredTensor& tensor : read_tensors(model / "model.safetensors")) {
    if (tensor.name != name || keep(&tensor)) changed.push_back(tensor);
  }
  write_tensors(model / "model.safetensors", changed);
}

std::vector<BadImport> bad_weights() {
  const auto remove = [](StoredTensor*) { return false; };
  const auto set_first = [](float value) {
    return [value](StoredTensor* tensor) {
      std::memcpy(tensor->bytes.data(), &value, 4);
      return true;
    };
  };
  const auto cut = [](const base::Path& model, std::size_t bytes) {
    const std::string text = contents_of(model).at("model.safetensors");
    write_text(model / "model.safetensors", text.substr(0, bytes));
  };
  return {
      {"no weights",
       [](auto& model, auto*) {
         base::posix_file_system().remove_file(model / "model.safetensors");
       },
       "no model.safetensors"},
      {"a pickle instead",
       [](auto& model, auto*) {
         base::posix_file_system().rename(model / "model.safetensors", model / "pytorch_model.bin");
       },
       "safe_serialization=True"},
      {"several files",
       [](auto& model, auto*) {
         base::posix_file_system().rename(model / "model.safetensors",
                                          model / "model.safetensors.index.json");
       },
       "max_shard_size"},
      {"weights empty", [&](auto& model, auto*) { cut(model, 0); }, "shorter than 8 bytes"},
      {"cut in the header", [&](auto& model, auto*) { cut(model, 100); }, "within its header"},
      {"cut in the data", [&](auto& model, auto*) { cut(model, 60000); }, "shorter or longer"},
      {"hostile header length",
       [](auto& model, auto*) {
         write_text(model / "model.safetensors", "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F{");
       },
       "header is"},
      {"of TensorFlow's layout",
       [](auto& model, auto*) {
         const base::Path file = model / "model.safetensors";
         write_tensors(file, read_tensors(file), {{"format", "tf"}});
       },
       "is of format 'tf'"},
      {"an encoder tensor missing",
       [&](auto& model, auto*) {
         change_tensor(model, "bert.encoder.layer.1.output.dense.bias", remove);
       },
       "no tensor 'bert.encoder.layer.1.output.dense.bias'"},
      {"half a head missing",
       [&](auto& model, auto*) { change_tensor(model, "cls.predictions.bias", remove); },
       "no tensor 'cls.predictions.bias'"},
      {"whole numbers",
       [](auto& model, auto*) {
         change_tensor(model, "bert.pooler.dense.bias", [](StoredTensor* tensor) {
           tensor->dtype = "I32";
           return true;
         });
       },
       "is I32"},
      {"another shape",
       [](auto& model, auto*) {
         change_tensor(model, "bert.pooler.dense.weight", [](StoredTensor* tensor) {
           tensor->shape = {16, 64};
           return true;
         });
       },
       "expected F32[32, 32]"},
      {"not a number",
       [&](auto& model, auto*) {
         change_tensor(model, "bert.pooler.dense.bias", set_first(std::nanf("")));
       },
       "not finite at element 0"},
      {"both old and new name",
       [](auto& model, auto*) {
         auto tensors = read_tensors(model / "model.safetensors");
         tensors.push_back(
             {"bert.embeddings.LayerNorm.gamma", "F32", {32}, std::string(128, '\0')});
         write_tensors(model / "model.safetensors", tensors);
       },
       "has both"},
      {"an untied decoder",
       [](auto& model, auto*) {
         auto tensors = read_tensors(model / "model.safetensors");
         StoredTensor decoder =
             *std::find_if(tensors.begin(), tensors.end(),
                           [](const auto& tensor) { return tensor.name == kWords; });
         decoder.name = kDecoder;
         decoder.bytes[0] ^= 1;
         tensors.push_back(decoder);
         write_tensors(model / "model.safetensors", tensors);
       },
       "tied weights"},
  };
}

std::vector<BadImport> bad_descriptions() {
  const auto config = [](const char* key, const json& value) {
    return [key, value](const base::Path& model, interchange::ImportOptions*) {
      change_config(model, [&](json& text) { text[key] = value; });
    };
  };
  const auto run_file = [](const char* from, const char* to) {
    return [from, to](const base::Path& model, interchange::ImportOptions* options) {
      std::string text = contents_of(options->run_file.parent_path()).at("run.yaml");
      const auto at = text.find(from);
      ASSERT_NE(at, std::string::npos) << from;
      text.replace(at, std::strlen(from), to);
      options->run_file = model.parent_path() / "other.yaml";
      write_text(options->run_file, text);
    };
  };
  return {
      {"no such model", [](auto&, auto* o) { o->from = "/no/such/model"; }, "no model at"},
      {"a directory of something else", [](auto&, auto* o) { o->from = "/"; }, "no config.json"},
      {"a file", [](auto& model, auto* o) { o->from = model / "vocab.txt"; }, "no config.json"},
      {"config.json is no JSON", [](auto& model, auto*) { write_text(model / "config.json", "{"); },
       "not a JSON object"},
      {"config.json is deep",
       [](auto& model, auto*) { write_text(model / "config.json", std::string(900000, '[')); },
       "not a JSON object"},
      {"config.json is huge",
       [](auto& model, auto*) { write_text(model / "config.json", std::string(2 << 20, ' ')); },
       "config.json"},
      {"another size", config("hidden_size", 64), "hidden is 32, hidden_size is 64"},
      {"huge sizes", config("num_hidden_layers", 1 << 30), "layers is 1073741824"},
      {"other heads", config("num_attention_heads", 4), "num_attention_heads is 4"},
      {"fewer positions", config("max_position_embeddings", 40), "max_position_embeddings is 40"},
      {"another activation", config("hidden_act", "gelu_new"), "hidden_act means tanh"},
      {"another epsilon", config("layer_norm_eps", 1e-5), "layer_norm_eps"},
      {"fewer rows than pieces", config("vocab_size", 20), "has 20 pieces"},
      {"more rows than the file", config("vocab_size", 4000), "expected F32[4000"},
      {"a model of another kind", config("model_type", "gpt2"), "gpt2"},
      {"a run file of another size", run_file("hidden: 32", "hidden: 40"), "hidden is 40"},
      {"a run file of another activation", run_file("gelu: erf", "gelu: tanh"), "gelu is tanh"},
      {"a run file with a mistake", run_file("steps", "stepz"), "stepz"},
      {"a run file without its data", run_file("/dataset", "/no-dataset"), "no-dataset"},
      {"no run file", [](auto&, auto* o) { o->run_file = "/no/run.yaml"; }, "/no/run.yaml"},
      {"no vocabulary",
       [](auto& model, auto*) { base::posix_file_system().remove_file(model / "vocab.txt"); },
       "nobody knows"},
      {"another vocabulary",
       [](auto& model, auto*) {
         std::string text = contents_of(model).at("vocab.txt");
         text.insert(text.rfind('\n', text.size() - 2) + 1, "other");
         write_text(model / "vocab.txt", text);
       },
       "in the dataset it is '"},
      {"a longer vocabulary",
       [](auto& model, auto*) {
         write_text(model / "vocab.txt", contents_of(model).at("vocab.txt") + "zzz\n");
       },
       "the dataset "},
      {"mixed case",
       [](auto& model, auto*) {
         write_text(model / "tokenizer_config.json", R"({"do_lower_case": false})");
       },
       "with --cased"},
      {"no moments", [](auto&, auto* o) { o->with_optimizer = true; },
       "export with --with-optimizer"},
      {"moments without a step",
       [](auto& model, auto* o) {
         o->with_optimizer = true;
         std::filesystem::copy(model / "model.safetensors", model / "optimizer.safetensors");
       },
       "at which step"},
      {"moments of something else",
       [](auto& model, auto* o) {
         o->with_optimizer = true;
         write_tensors(model / "optimizer.safetensors", read_tensors(model / "model.safetensors"),
                       {{"format", "pt"}, {"step", "3"}});
       },
       "exp_avg."},
      {"the output is there", [](auto& model, auto* o) { o->run_directory = model; },
       "exists already"},
      {"the output is below a file",
       [](auto& model, auto* o) { o->run_directory = model / "config.json" / "run"; },
       "config.json"},
  };
}

TEST_F(Import, RefusesInOneLineAndLeavesNothing) {
  std::vector<BadImport> cases = bad_weights();
  for (BadImport& c : bad_descriptions()) cases.push_back(std::move(c));
  for (const BadImport& c : cases) {
    SCOPED_TRACE(c.name);
    const base::Path model = exported("model");
    interchange::ImportOptions in = options(model);
    c.spoil(model, &in);
    const base::Error error = error_of([&] { (void)import(in); });
    EXPECT_NE(std::string(error.what()).find(c.says), std::string::npos) << error.what();
    EXPECT_TRUE(names("imported").empty());
    EXPECT_EQ(names("model").size(), 1U);
    base::posix_file_system().remove_tree(model);
  }
  std::printf("%zu kinds of bad input\n", cases.size());
}

// A small file that says it is a model of 4 GB of weights and moments: names and shapes are looked
// at before there is room for them. (Refusing one like it took 6 s and 880 MB.)
TEST_F(Import, AWrongFileIsRefusedBeforeRoomIsMade) {
  const base::Path model = exported("model");
  change_config(model, [](json& config) {
    config["hidden_size"] = 1024;
    config["num_hidden_layers"] = 24;
    config["intermediate_size"] = 4096;
  });
  std::string text = contents_of(run_file().parent_path()).at("run.yaml");
  for (const auto& [key, value] : {std::pair("layers", "24"), std::pair("hidden", "1024"),
                                   std::pair("feed_forward", "4096")}) {
    const auto at = text.find(std::string(key) + ": ") + std::strlen(key) + 2;
    text.replace(at, text.find_first_of(",}\n", at) - at, value);
  }
  write_text(path() / "large.yaml", text);
#if defined(REGATTA_ADDRESS_SANITIZER) || defined(REGATTA_THREAD_SANITIZER)
  const std::string limit = "unlimited";  // sanitizers reserve terabytes of addresses
#else
  const std::string limit = "$(( $(grep -c processor /proc/cpuinfo) * 70000 + 900000 ))";
#endif
  const std::string script = "ulimit -v " + limit + "; exec \"$@\"";
  const auto import_of = [&](const base::Path& from) {
    base::Command command;
    command.arguments = {"sh",
                         "-c",
                         script,
                         "sh",
                         std::string(REGATTA_BINARY_DIR) + "/trainer/regatta-train",
                         "import",
                         "--from",
                         from.string(),
                         "--run",
                         (path() / "large.yaml").string(),
                         "--directory",
                         (path() / "imported").string()};
    return base::run(command, 100);
  };
  const base::Output shape = import_of(model);
  EXPECT_EQ(shape.exit.code, base::meaning(base::Code::User).exit_code) << shape.errors;
  EXPECT_NE(shape.errors.find("expected F32["), std::string::npos) << shape.errors;
  write_tensors(model / "model.safetensors", {{"a", "F32", {2}, std::string(8, 'x')}});
  const base::Output none = import_of(model);
  EXPECT_EQ(none.exit.code, base::meaning(base::Code::User).exit_code) << none.errors;
  EXPECT_NE(none.errors.find("has no tensor"), std::string::npos) << none.errors;
  EXPECT_TRUE(names("imported").empty());
}

TEST_F(Import, MomentsOfAFinishedRunAreRefused) {
  const base::Path model = exported("model", true);
  interchange::ImportOptions in = options(model);
  in.with_optimizer = true;
  const base::Error error = error_of([&] { (void)import(in); });
  EXPECT_NE(std::string(error.what()).find("raise steps"), std::string::npos) << error.what();
  EXPECT_TRUE(names("imported").empty());
}

// Every operation fails once: a run directory with its checkpoint, or none.
TEST_F(Import, EveryFailureLeavesAllOrNothing) {
  const base::Path model = exported("model");
  FaultyFileSystem counting;
  (void)interchange::import_model(counting, base::system_clock(), options(model));
  base::posix_file_system().remove_tree(path() / "imported");
  int failures = 0;
  for (std::int64_t n = 1; n <= counting.operations(); ++n) {
    SCOPED_TRACE(n);
    FaultyFileSystem faulty;
    faulty.fail_at(n, Fault::Once);
    bool made = true;
    try {
      (void)interchange::import_model(faulty, base::system_clock(), options(model));
    } catch (const base::Error& error) {
      ++failures;
      made = false;
    }
    for (const std::string& name : names("imported.partial-")) {
      EXPECT_TRUE(made) << "only the last removal may fail and leave " << name;
      base::posix_file_system().remove_tree(path() / name);
    }
    if (names("imported").empty()) {
      EXPECT_FALSE(made);
      continue;
    }
    checkpoint::CheckpointStore store(base::posix_file_system(),
                                      path() / "imported" / "checkpoints");
    ASSERT_EQ(store.list().size(), 1U);
    EXPECT_EQ(store.verify(store.list().front().name), std::nullopt);
    base::posix_file_system().remove_tree(path() / "imported");
  }
  std::printf("%d of %lld operations failed the import\n", failures,
              static_cast<long long>(counting.operations()));
  EXPECT_GT(failures, 50);
}

// The command lines, as a user sees them.
TEST_F(Import, TheCommandsSayWhatTheyDid) {
  const auto regatta_train = [](const std::vector<std::string>& arguments) {
    base::Command command;
    command.arguments = {std::string(REGATTA_BINARY_DIR) + "/trainer/regatta-train"};
    command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
    return base::run(command, 100);
  };
  const std::string model = path() / "model", imported = path() / "imported";
  const base::Output out = regatta_train({"export", "--checkpoint", run(), "--output", model});
  EXPECT_EQ(out.exit.code, 0) << out.errors;
  EXPECT_NE(out.text.find("BertForPreTraining, 46 tensors"), std::string::npos) << out.text;
  const std::vector<std::string> in{"import",      "--from", model, "--run", run_file().string(),
                                    "--directory", imported};
  const base::Output first = regatta_train(in);
  EXPECT_EQ(first.exit.code, 0) << first.errors;
  EXPECT_NE(first.text.find("step-0000000000-"), std::string::npos) << first.text;
  const base::Output second = regatta_train(in);
  EXPECT_EQ(second.exit.code, base::meaning(base::Code::Conflict).exit_code);
  EXPECT_EQ(std::count(second.errors.begin(), second.errors.end(), '\n'), 1) << second.errors;
  EXPECT_NE(second.errors.find("exists already"), std::string::npos) << second.errors;
}

}  // namespace
}  // namespace regatta::tests
