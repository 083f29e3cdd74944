// Runs that start from a TensorFlow 1 checkpoint of google-research/bert.
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/checkpoint/tensorflow_samples.h"
#include "tests/shared_data.h"
#include "tests/trainer/interchange/trained_run.h"
#include "trainer/interchange/any_model.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using nlohmann::json;

constexpr int kFloat32 = 1, kInt64 = 9;  // tensorflow/core/framework/types.proto

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

std::string transposed(const std::string& bytes, std::int64_t rows, std::int64_t columns) {
  std::string out(bytes.size(), '\0');
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      std::memcpy(out.data() + 4 * (c * rows + r), bytes.data() + 4 * (r * columns + c), 4);
    }
  }
  return out;
}

// As Google's modeling.py names and lays it out.
std::pair<std::string, SampleTensor> googles(const StoredTensor& ours, const std::string& suffix) {
  std::string name = replaced(ours.name, ".layer.", ".layer_");
  name = replaced(replaced(replaced(name, ".", "/"), "/LayerNorm/weight", "/LayerNorm/gamma"),
                  "/LayerNorm/bias", "/LayerNorm/beta");
  SampleTensor tensor{kFloat32, ours.shape, ours.bytes};
  if (name == "cls/predictions/bias") {
    name = "cls/predictions/output_bias";
  } else if (name.rfind("cls/seq_relationship/", 0) == 0) {
    name = replaced(replaced(name, "/weight", "/output_weights"), "/bias", "/output_bias");
  } else if (ends_with(name, "_embeddings/weight")) {
    name = replaced(name, "/weight", "");
  } else if (ends_with(name, "/weight")) {
    name = replaced(name, "/weight", "/kernel");
    tensor.bytes = transposed(ours.bytes, ours.shape[0], ours.shape[1]);
    tensor.shape = {ours.shape[1], ours.shape[0]};
  }
  return {name + suffix, tensor};
}

using Tensors = std::map<std::string, SampleTensor>;

class TensorflowImport : public TrainedRun {
 protected:
  // Step 3 of the run, with its moments, as Google's code would have saved it.
  Tensors tensors() {
    const base::Path from = checkpoints_of(run()).front();
    Tensors tensors;
    for (const StoredTensor& tensor : read_tensors(from / "model.safetensors")) {
      tensors.insert(googles(tensor, ""));
    }
    for (StoredTensor tensor : read_tensors(from / "optimizer.safetensors")) {
      const bool first = tensor.name.rfind("exp_avg.", 0) == 0;
      tensor.name = tensor.name.substr(tensor.name.find('.') + 1);
      tensors.insert(googles(tensor, first ? "/adam_m" : "/adam_v"));
    }
    const std::int64_t step = 3;
    tensors["global_step"] = {kInt64, {}, std::string(reinterpret_cast<const char*>(&step), 8)};
    return tensors;
  }
  // path()/google/bert_model.ckpt, its vocabulary and its configuration.
  base::Path write(Tensors tensors) {
    const base::Path directory = path() / "google";
    base::posix_file_system().create_directory(directory);
    std::string data;
    std::vector<KeyValue> entries{{"", header_message()}};
    for (auto& [name, tensor] : tensors) {
      tensor.offset = data.size();
      data += tensor.bytes;
      entries.push_back({name, entry_message(tensor)});
    }
    write_text(directory / "bert_model.ckpt.index", table_of_entries(entries, 16));
    write_text(directory / "bert_model.ckpt.data-00000-of-00001", data);
    write_text(directory / "vocab.txt", contents_of(dataset()).at("vocab.txt"));
    write_text(directory / "bert_config.json",
               R"({"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
                   "intermediate_size": 64, "max_position_embeddings": 48, "type_vocab_size": 2,
                   "vocab_size": 999, "hidden_act": "gelu", "pooler_type": "first_token"})");
    return directory / "bert_model.ckpt";
  }
  [[nodiscard]] interchange::ImportOptions options(const base::Path& from) const {
    interchange::ImportOptions options;
    options.from = from;
    options.run_file = run_file();
    options.run_directory = path() / "imported";
    options.with_optimizer = true;
    return options;
  }
  static interchange::ImportReport import(const interchange::ImportOptions& options) {
    return interchange::import_model(base::posix_file_system(), base::system_clock(), options);
  }
};

// Kernels are transposed back, moments and step are taken along: bit for bit.
TEST_F(TensorflowImport, ARunGoesOnAsIfItHadNeverLeft) {
  const interchange::ImportReport report = import(options(write(tensors())));
  EXPECT_EQ(report.step, 3);
  ASSERT_EQ(report.notes.size(), 1U);
  EXPECT_NE(report.notes[0].find("the run file says erf"), std::string::npos) << report.notes[0];
  train_run(run_file(), path() / "imported");
  EXPECT_EQ(newest_state(path() / "imported"), newest_state(run()));
}

TEST_F(TensorflowImport, OpensAsAnyModelAndStartsARun) {
  const base::Path prefix = write(tensors());
  const auto model = interchange::open_any_model(base::posix_file_system(), base::system_clock(),
                                                 {prefix, {}, contract::Task::Pretraining});
  ASSERT_EQ(model.notes.size(), 1U);
  EXPECT_NE(model.notes[0].find("which gelu"), std::string::npos) << model.notes[0];
  EXPECT_TRUE(model.lower_case) << "its vocabulary has no capitals";
  const contract::TensorTable table = contract::make_tensor_table(model.shape);
  const auto state = interchange::starting_state(base::posix_file_system(), base::system_clock(),
                                                 {prefix.string(), true}, model.shape,
                                                 {model.vocabulary, true, {}}, 1, 1);
  EXPECT_EQ(state.step, 3);
  EXPECT_EQ(state.parameters, model.parameters);
  const base::Path from = checkpoints_of(run()).front();
  for (const StoredTensor& tensor : read_tensors(from / "model.safetensors")) {
    const float* const ours = model.parameters.data() + table.at(tensor.name).offset;
    EXPECT_EQ(std::memcmp(ours, tensor.bytes.data(), tensor.bytes.size()), 0) << tensor.name;
  }
  for (const StoredTensor& tensor : read_tensors(from / "optimizer.safetensors")) {
    if (tensor.name.rfind("exp_avg", 0) != 0) continue;
    const bool first = tensor.name.rfind("exp_avg.", 0) == 0;
    const std::string name = tensor.name.substr(tensor.name.find('.') + 1);
    const auto& moments = first ? state.first_moment : state.second_moment;
    EXPECT_EQ(std::memcmp(moments.data() + table.at(name).offset, tensor.bytes.data(),
                          tensor.bytes.size()),
              0)
        << tensor.name;
  }
  base::posix_file_system().remove_file(prefix.parent_path() / "bert_config.json");
  const base::Error error = error_of([&] {
    (void)interchange::open_any_model(base::posix_file_system(), base::system_clock(),
                                      {prefix, {}, {}});
  });
  EXPECT_NE(std::string(error.what()).find("bert_config.json"), std::string::npos) << error.what();
}

TEST_F(TensorflowImport, WithoutMomentsPaddedAndWithMoreThanAModel) {
  Tensors padded = tensors();
  for (const char* name : {"bert/embeddings/word_embeddings", "cls/predictions/output_bias"}) {
    SampleTensor& tensor = padded.at(name);
    const auto row = tensor.bytes.size() / static_cast<std::size_t>(tensor.shape.front());
    tensor.bytes += std::string(6 * row, '\0');
    tensor.shape.front() += 6;
  }
  padded.erase("cls/seq_relationship/output_weights");
  padded.erase("cls/seq_relationship/output_bias");
  padded["cls/squad/output_bias"] = {kFloat32, {2}, std::string(8, '\0')};
  const base::Path prefix = write(padded);
  base::posix_file_system().remove_file(prefix.parent_path() / "bert_config.json");
  interchange::ImportOptions in = options(prefix.string() + ".index");
  in.with_optimizer = false;
  const interchange::ImportReport report = import(in);
  EXPECT_EQ(report.step, 0);
  ASSERT_EQ(report.notes.size(), 5U);
  EXPECT_NE(report.notes[0].find("no bert_config.json"), std::string::npos);
  EXPECT_NE(report.notes[2].find("no cls.seq_relationship.*"), std::string::npos);
  EXPECT_EQ(report.notes[3], "6 rows beyond the vocabulary were cut");
  EXPECT_NE(report.notes[4].find("1 tensors were not used"), std::string::npos);
}

struct BadCheckpoint {
  const char* name;
  std::function<void(Tensors*)> spoil;
  std::function<void(const base::Path& prefix, interchange::ImportOptions*)> after;
  const char* says;
};

TEST_F(TensorflowImport, RefusesInOneLineAndLeavesNothing) {
  const std::string kOutput = "bert/encoder/layer_1/output/dense/kernel";
  const auto erase = [](const std::string& name) {
    return [name](Tensors* tensors) { tensors->erase(name); };
  };
  const auto same = [](Tensors*) {};
  const auto nothing = [](auto&, auto*) {};
  const std::vector<BadCheckpoint> cases = {
      {"a kernel missing", erase(kOutput), nothing, "no tensor 'bert.encoder.layer.1.output"},
      {"half a head missing", erase("cls/predictions/output_bias"), nothing,
       "no tensor 'cls.predictions.bias'"},
      {"a moment missing", erase(kOutput + "/adam_v"), nothing, "not both moments"},
      {"no step", erase("global_step"), nothing, "global_step"},
      {"the words missing", erase("bert/embeddings/word_embeddings"), nothing, "has 0 pieces"},
      {"not transposed",
       [&](Tensors* tensors) {
         std::swap(tensors->at(kOutput).shape[0], tensors->at(kOutput).shape[1]);
       },
       nothing, "expected [32, 64]"},
      {"not finite",
       [&](Tensors* tensors) {
         const float bad = INFINITY;
         std::memcpy(tensors->at(kOutput).bytes.data(), &bad, 4);
       },
       nothing, "not finite"},
      {"a moment that is not finite",
       [&](Tensors* tensors) {
         const float bad = NAN;
         std::memcpy(tensors->at(kOutput + "/adam_m").bytes.data() + 8, &bad, 4);
       },
       nothing, "moment of bert.encoder.layer.1.output.dense.weight"},
      {"too many steps", [](Tensors* tensors) { tensors->at("global_step").bytes[1] = 4; }, nothing,
       "raise steps"},
      {"no data", same,
       [](auto& prefix, auto*) {
         base::posix_file_system().remove_file(prefix.string() + ".data-00000-of-00001");
       },
       "is missing"},
      {"a flipped bit", same,
       [](auto& prefix, auto*) {
         const base::Path file = prefix.string() + ".data-00000-of-00001";
         std::string data = contents_of(file.parent_path()).at(file.filename());
         data[5000] ^= 1;
         write_text(file, data);
       },
       "google/bert_model.ckpt"},
      {"an empty index", same,
       [](auto& prefix, auto*) { write_text(prefix.string() + ".index", ""); },
       "bert_model.ckpt.index"},
      {"another configuration", same,
       [](auto& prefix, auto*) {
         write_text(prefix.parent_path() / "bert_config.json",
                    R"({"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
                        "intermediate_size": 64, "max_position_embeddings": 48, "vocab_size": 9})");
       },
       "layers is 2, num_hidden_layers is 3; heads is 2, num_attention_heads is 4"},
      {"no vocabulary", same,
       [](auto& prefix, auto*) {
         base::posix_file_system().remove_file(prefix.parent_path() / "vocab.txt");
       },
       "nobody knows"},
      {"no such prefix", same, [](auto&, auto* in) { in->from += "-1000000"; }, "no model at"},
  };
  for (const BadCheckpoint& c : cases) {
    SCOPED_TRACE(c.name);
    Tensors spoilt = tensors();
    c.spoil(&spoilt);
    const base::Path prefix = write(spoilt);
    interchange::ImportOptions in = options(prefix);
    c.after(prefix, &in);
    const base::Error error = error_of([&] { (void)import(in); });
    EXPECT_NE(std::string(error.what()).find(c.says), std::string::npos) << error.what();
    EXPECT_TRUE(names("imported").empty());
    base::posix_file_system().remove_tree(prefix.parent_path());
  }
}

// Real files: Google's own index without its data, and a model of an impossible size.
TEST_F(TensorflowImport, RealFilesAreToldApart) {
  REGATTA_NEED_SHARED("data/weights");
  const base::Path weights = shared_path("data/weights");
  write_text(path() / "base.yaml", "name: base\nmodel: {preset: base}\nsteps: 9\ndata: {path: " +
                                       dataset().string() + "}\n");
  interchange::ImportOptions in =
      options(weights / "google_bert_base_index_only" / "bert_model.ckpt");
  in.run_file = path() / "base.yaml";
  const base::Error missing = error_of([&] { (void)import(in); });
  EXPECT_NE(std::string(missing.what()).find("is missing"), std::string::npos) << missing.what();
  in.from = weights / "keras_bert_test_checkpoint" / "bert_model.ckpt";
  const base::Error small = error_of([&] { (void)import(in); });
  EXPECT_NE(std::string(small.what()).find("hidden is 4"), std::string::npos) << small.what();
  EXPECT_TRUE(names("imported").empty());
}

}  // namespace
}  // namespace regatta::tests
