#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "checkpoint/crc32c.h"
#include "checkpoint/leveldb_table.h"
#include "checkpoint/tensorflow_bundle.h"
#include "checkpoint/tensorflow_index.h"
#include "checkpoint/tensorflow_names.h"
#include "tests/base/faulty_file_system.h"
#include "tests/checkpoint/expect_error.h"
#include "tests/checkpoint/tensorflow_samples.h"
#include "tests/shared_data.h"
#include "trainer/contract/model_shape.h"

namespace regatta::checkpoint {
namespace {

using base::Code;
using testing::ElementsAre;
using testing::HasSubstr;
using tests::bytes_field;
using tests::bytes_of;
using tests::entry_message;
using tests::error_of;
using tests::fixed_field;
using tests::header_message;
using tests::KeyValue;
using tests::number_field;
using tests::SampleTensor;
using tests::shape_message;
using tests::table_of_entries;

class TensorflowReaderTest : public testing::Test {
 protected:
  base::Path write(const std::string& name, const std::string& bytes) {
    const base::Path path = directory_.path() / name;
    files_.open(path, base::FileSystem::Open::CreateNew)->append(bytes);
    return path;
  }
  // A checkpoint of these tensors, one after another in their data files.
  base::Path checkpoint(const std::string& name, std::map<std::string, SampleTensor> tensors,
                        std::uint64_t shards = 1) {
    std::vector<std::string> data(shards);
    std::vector<KeyValue> entries{{"", header_message(shards)}};
    for (auto& [key, tensor] : tensors) {
      tensor.offset = data.at(tensor.shard).size();
      data.at(tensor.shard) += tensor.bytes;
      entries.push_back({key, entry_message(tensor)});
    }
    write(name + ".index", table_of_entries(entries, 3));
    for (std::size_t i = 0; i < shards; ++i) {
      write(name + ".data-0000" + std::to_string(i) + "-of-0000" + std::to_string(shards), data[i]);
    }
    return directory_.path() / name;
  }
  static std::vector<float> floats(const TensorflowReader& reader, const std::string& name,
                                   std::size_t size) {
    std::vector<float> out(size);
    reader.read_float32(name, out);
    return out;
  }

  base::FileSystem& files_ = base::posix_file_system();
  tests::TemporaryDirectory directory_;
};

TEST_F(TensorflowReaderTest, ReadsFromSeveralDataFilesAndTypes) {
  const std::vector<std::uint16_t> halves{0x3C00, 0xC000, 0x0001, 0x7BFF, 0x8000, 0x7C00, 0x03FF};
  const std::vector<std::uint16_t> brains{0x3F80, 0xC0A0};
  const base::Path prefix =
      checkpoint("model.ckpt",
                 {{"a", {1, {2}, bytes_of(std::vector<float>{1, -2}), 1, 0}},
                  {"b", {2, {1}, bytes_of(std::vector<double>{0.5}), 0, 0}},
                  {"c", {19, {7}, bytes_of(halves), 1, 0}},
                  {"d", {14, {2}, bytes_of(brains), 0, 0}},
                  {"e", {9, {}, bytes_of(std::vector<std::int64_t>{77}), 1, 0}},
                  {"f", {1, {0, 4}, "", 0, 0}},
                  {"g", {1, {2, 3}, bytes_of(std::vector<float>{1, 2, 3, 4, 5, 6}), 1, 0}}},
                 2);
  const TensorflowReader reader = TensorflowReader::open(files_, prefix);
  EXPECT_THAT(floats(reader, "a", 2), ElementsAre(1, -2));
  EXPECT_THAT(floats(reader, "b", 1), ElementsAre(0.5));
  EXPECT_THAT(floats(reader, "c", 7),
              ElementsAre(1, -2, std::ldexp(1.0F, -24), 65504, -0.0F,
                          std::numeric_limits<float>::infinity(), std::ldexp(1023.0F, -24)));
  EXPECT_THAT(floats(reader, "d", 2), ElementsAre(1, -5));
  EXPECT_TRUE(floats(reader, "f", 0).empty());
  std::vector<float> transposed(6);
  reader.read_transposed("g", transposed);
  EXPECT_THAT(transposed, ElementsAre(1, 4, 2, 5, 3, 6));
  std::int64_t number = 0;
  reader.read("e", std::as_writable_bytes(std::span(&number, 1)));
  EXPECT_EQ(number, 77);
  EXPECT_EQ(reader.find("h"), nullptr);
  // With the suffix, as a shell's completion gives it.
  EXPECT_EQ(TensorflowReader::open(files_, prefix.string() + ".index").index(), reader.index());
}

TEST_F(TensorflowReaderTest, TransposesWhatIsLargerThanATile) {
  std::vector<float> values(70 * 45);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const TensorflowReader reader =
      TensorflowReader::open(files_, checkpoint("m", {{"k", {1, {70, 45}, bytes_of(values)}}}));
  std::vector<float> transposed(values.size());
  reader.read_transposed("k", transposed);
  for (std::size_t r = 0; r < 70; ++r) {
    for (std::size_t c = 0; c < 45; ++c) ASSERT_EQ(transposed[c * 70 + r], values[r * 45 + c]);
  }
}

// As BERT's word embeddings are: read in blocks of 8 MiB.
TEST_F(TensorflowReaderTest, ReadsWhatIsLargerThanABlock) {
  std::vector<float> values(5'000'000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const TensorflowReader reader = TensorflowReader::open(
      files_, checkpoint("m", {{"a", {1, {1}, bytes_of(std::vector<float>{7})}},
                               {"k", {1, {5'000'000}, bytes_of(values)}}}));
  EXPECT_EQ(floats(reader, "k", values.size()), values);
}

TEST_F(TensorflowReaderTest, RefusesWhatCannotBeRead) {
  const std::string four = bytes_of(std::vector<float>{1});
  const auto entry = [&](std::uint64_t offset, std::uint32_t crc, const std::string& more) {
    return number_field(1, 1) + bytes_field(2, shape_message({1})) + number_field(4, offset) +
           number_field(5, 4) + fixed_field(6, crc) + more;
  };
  const std::uint32_t crc = masked_crc32c(crc32c(four));
  const std::string slice("\0slice", 6);
  write(
      "m.index",
      table_of_entries(
          {{"", header_message(2)},
           {slice, entry(0, crc, "")},
           {"beyond", entry(1, crc, "")},
           {"far", number_field(1, 1) + bytes_field(2, shape_message({1LL << 60})) +
                       number_field(5, 1ULL << 62)},
           {"good", entry(0, crc, "")},
           {"lost", number_field(3, 1) + entry(0, crc, "")},
           {"parts", number_field(1, 1) + bytes_field(2, shape_message({8})) + bytes_field(7, "")},
           {"text", number_field(1, 7) + bytes_field(2, shape_message({1})) + number_field(5, 4)},
           {"wrong", entry(0, crc + 1, "")}}));
  write("m.data-00000-of-00002", four);
  const TensorflowReader reader = TensorflowReader::open(files_, directory_.path() / "m");
  EXPECT_EQ(reader.index().slices, 1);
  EXPECT_EQ(reader.tensors().size(), 7U);
  EXPECT_THAT(floats(reader, "good", 1), ElementsAre(1));
  struct Row {
    const char* name;
    Code code;
    const char* message;
  };
  for (const Row& row : {Row{"absent", Code::User, "has no tensor 'absent'"},
                         Row{"beyond", Code::User, "'beyond' ends at byte 5, beyond the file's"},
                         Row{"lost", Code::NotFound, "m.data-00001-of-00002 is missing"},
                         Row{"parts", Code::User, "'parts' is partitioned into slices"},
                         Row{"text", Code::User, "'text' is STRING"},
                         Row{"wrong", Code::User, "'wrong' has a wrong checksum"}}) {
    SCOPED_TRACE(row.name);
    const TensorflowTensor* const tensor = reader.find(row.name);
    const std::size_t size = tensor == nullptr || tensor->shape.at(0) == 1 ? 1 : 8;
    EXPECT_THAT(error_of(row.code, [&] { (void)floats(reader, row.name, size); }),
                HasSubstr(row.message));
  }
  EXPECT_THAT(error_of(Code::User, [&] { reader.check_readable("far"); }),
              HasSubstr("beyond the file's end"));
  std::vector<float> one(1);
  EXPECT_THAT(error_of(Code::User, [&] { reader.read_transposed("good", one); }),
              HasSubstr("has 1 dimensions, expected 2"));
  EXPECT_THAT(error_of(Code::NotFound,
                       [&] { (void)TensorflowReader::open(files_, directory_.path() / "n"); }),
              HasSubstr("n.index does not exist"));
}

TEST_F(TensorflowReaderTest, ImportsParametersAndMomentsByOurNames) {
  const auto six = [](float first) { return bytes_of(std::vector<float>{first, 2, 3, 4, 5, 6}); };
  const base::Path prefix =
      checkpoint("m", {{"bert/pooler/dense/kernel", {1, {2, 3}, six(1)}},
                       {"bert/pooler/dense/kernel/adam_m", {1, {2, 3}, six(10)}},
                       {"bert/pooler/dense/kernel/adam_v", {1, {2, 3}, six(20)}},
                       {"cls/seq_relationship/output_weights", {1, {2, 3}, six(30)}},
                       {"loss_scale", {1, {}, bytes_of(std::vector<float>{1})}},
                       {"global_step", {9, {}, bytes_of(std::vector<std::int64_t>{12})}}});
  const TensorflowImport all = read_tensorflow(files_, prefix, Moments::Read);
  EXPECT_EQ(all.step, 12);
  EXPECT_THAT(all.unknown, ElementsAre("loss_scale"));
  ASSERT_EQ(all.tensors.size(), 4U);
  EXPECT_EQ(all.tensors[0].name, "bert.pooler.dense.weight");
  EXPECT_EQ(all.tensors[0].kind, TensorflowKind::Parameter);
  EXPECT_THAT(all.tensors[0].shape, ElementsAre(3, 2));
  EXPECT_THAT(all.tensors[0].values, ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_EQ(all.tensors[1].kind, TensorflowKind::First);
  EXPECT_THAT(all.tensors[1].values, ElementsAre(10, 4, 2, 5, 3, 6));
  EXPECT_EQ(all.tensors[2].kind, TensorflowKind::Second);
  EXPECT_EQ(all.tensors[3].name, "cls.seq_relationship.weight");
  EXPECT_THAT(all.tensors[3].shape, ElementsAre(2, 3));
  EXPECT_THAT(all.tensors[3].values, ElementsAre(30, 2, 3, 4, 5, 6));
  const TensorflowImport some = read_tensorflow(files_, prefix, Moments::Skip);
  EXPECT_EQ(some.tensors.size(), 2U);
  EXPECT_EQ(some.step, 12);
}

TEST_F(TensorflowReaderTest, RefusesCheckpointsThatAreNotOneBert) {
  const std::string one = bytes_of(std::vector<float>{1});
  const auto import = [&](const base::Path& prefix) {
    return error_of(Code::User, [&] { (void)read_tensorflow(files_, prefix, Moments::Read); });
  };
  EXPECT_THAT(import(checkpoint("other", {{"dense/kernel", {1, {1, 1}, one}}})),
              HasSubstr("none of its tensors is BERT's"));
  EXPECT_THAT(import(checkpoint("twice", {{"bert/pooler/dense/bias/LAMB", {1, {1}, one}},
                                          {"bert/pooler/dense/bias/adam_m", {1, {1}, one}}})),
              HasSubstr("are both bert.pooler.dense.bias"));
  EXPECT_THAT(import(checkpoint("flat", {{"bert/pooler/dense/kernel", {1, {1}, one}}})),
              HasSubstr("has 1 dimensions"));
  EXPECT_THAT(import(checkpoint("whole", {{"bert/pooler/dense/bias", {3, {1}, one}}})),
              HasSubstr("is I32, expected floating-point"));
  EXPECT_THAT(import(checkpoint("step", {{"global_step", {1, {}, one}}})),
              HasSubstr("global_step is F32"));
}

TEST_F(TensorflowReaderTest, EveryFailingReadIsAnError) {
  const base::Path prefix =
      checkpoint("m", {{"bert/pooler/dense/bias", {1, {1}, bytes_of(std::vector<float>{1})}},
                       {"cls/predictions/output_bias", {1, {1}, bytes_of(std::vector<float>{2})}}});
  tests::FaultyFileSystem faulty;
  (void)read_tensorflow(faulty, prefix, Moments::Read);
  const std::int64_t operations = faulty.operations();
  ASSERT_GE(operations, 3);
  for (std::int64_t n = 1; n <= operations; ++n) {
    faulty.fail_at(n, tests::Fault::Once);
    error_of(Code::Operator, [&] { (void)read_tensorflow(faulty, prefix, Moments::Read); });
    faulty.heal();
  }
}

TEST(TensorflowNames, MapsGooglesToOurs) {
  using Kind = TensorflowKind;
  struct Row {
    const char* theirs;
    const char* ours;
    bool transpose;
    Kind kind;
  };
  const Row kRows[] = {
      {"bert/embeddings/word_embeddings", "bert.embeddings.word_embeddings.weight", false, {}},
      {"bert/embeddings/LayerNorm/gamma", "bert.embeddings.LayerNorm.weight", false, {}},
      {"bert/embeddings/LayerNorm/beta", "bert.embeddings.LayerNorm.bias", false, {}},
      {"bert/encoder/layer_0/attention/self/query/kernel",
       "bert.encoder.layer.0.attention.self.query.weight",
       true,
       {}},
      {"bert/encoder/layer_23/attention/self/value/bias/adam_v",
       "bert.encoder.layer.23.attention.self.value.bias", false, Kind::Second},
      {"bert/encoder/layer_10/attention/output/LayerNorm/beta",
       "bert.encoder.layer.10.attention.output.LayerNorm.bias",
       false,
       {}},
      {"bert/encoder/layer_7/intermediate/dense/kernel/adam_m",
       "bert.encoder.layer.7.intermediate.dense.weight", true, Kind::First},
      {"bert/encoder/layer_7/output/dense/kernel/LAMB", "bert.encoder.layer.7.output.dense.weight",
       true, Kind::First},
      {"bert/encoder/layer_7/output/dense/kernel/LAMB_1",
       "bert.encoder.layer.7.output.dense.weight", true, Kind::Second},
      {"bert/pooler/dense/kernel", "bert.pooler.dense.weight", true, {}},
      {"cls/predictions/transform/dense/kernel",
       "cls.predictions.transform.dense.weight",
       true,
       {}},
      {"cls/predictions/output_bias", "cls.predictions.bias", false, {}},
      {"cls/seq_relationship/output_weights", "cls.seq_relationship.weight", false, {}},
      {"cls/seq_relationship/output_bias/adam_m", "cls.seq_relationship.bias", false, Kind::First},
      {"cls/squad/output_weights", "qa_outputs.weight", false, {}},
      {"global_step", "global_step", false, Kind::Step},
  };
  for (const Row& row : kRows) {
    EXPECT_EQ(map_tensorflow_name(row.theirs), (TensorflowName{row.ours, row.transpose, row.kind}))
        << row.theirs;
  }
}

TEST(TensorflowNames, OthersAreNotMapped) {
  for (const char* name : {"",
                           "/",
                           "bert",
                           "bert/",
                           "beta1_power",
                           "loss_scale",
                           "global_step/adam_m",
                           "adam_m",
                           "/adam_m",
                           "bert/embeddings/word_embeddings:0",
                           "model/bert/pooler/dense/kernel",
                           "bert/pooler/dense/gamma",
                           "bert/pooler/dense",
                           "bert/pooler/dense/kernel/adam",
                           "bert/pooler/dense/kernel/adam_m/adam_m",
                           "bert/embeddings/LayerNorm/kernel",
                           "bert/encoder/layer_/output/dense/kernel",
                           "bert/encoder/layer_1",
                           "bert/encoder/layer_01/output/dense/kernel",
                           "bert/encoder/layer_-1/output/dense/kernel",
                           "bert/encoder/layer_99999/output/dense/kernel",
                           "bert/encoder/layer_1/dense/kernel",
                           "bert/encoder/layer_1/attention/self/queries/kernel",
                           "BERT/pooler/dense/kernel",
                           "_CHECKPOINTABLE_OBJECT_GRAPH",
                           "a/.ATTRIBUTES/VARIABLE_VALUE"}) {
    EXPECT_EQ(map_tensorflow_name(name), std::nullopt) << name;
  }
}

// The shape that the tensor has there: kernels the other way round.
std::vector<std::int64_t> shape_there(const trainer::contract::TensorEntry& entry, bool transpose) {
  std::vector<std::int64_t> shape = entry.shape;
  if (transpose) std::reverse(shape.begin(), shape.end());
  return shape;
}

// Whether the checkpoint has each of the model's tensors once, in its shape, as parameters and, if
// asked for, as both moments; the number of tensors that are none of these.
int expect_whole_model(const TensorflowIndex& index, const trainer::contract::ModelShape& shape,
                       bool moments) {
  std::map<std::string, trainer::contract::TensorEntry> wanted;
  for (const trainer::contract::TensorEntry& entry :
       trainer::contract::make_tensor_table(shape).tensors) {
    wanted[entry.name] = entry;
  }
  std::set<std::pair<std::string, TensorflowKind>> found;
  int others = 0;
  for (const TensorflowTensor& tensor : index.tensors) {
    const auto mapped = map_tensorflow_name(tensor.name);
    if (!mapped || mapped->kind == TensorflowKind::Step) {
      ++others;
      continue;
    }
    EXPECT_TRUE(found.emplace(mapped->name, mapped->kind).second) << tensor.name;
    EXPECT_TRUE(wanted.count(mapped->name) == 1) << tensor.name;
    if (wanted.count(mapped->name) == 0) continue;
    EXPECT_EQ(tensor.shape, shape_there(wanted[mapped->name], mapped->transpose)) << tensor.name;
  }
  EXPECT_EQ(found.size(), wanted.size() * (moments ? 3 : 1));
  return others;
}

TEST(TensorflowRealFiles, ListsGooglesBertBase) {
  const std::string folder = "data/weights/google_bert_base_index_only/";
  REGATTA_NEED_SHARED(folder + "expected.json");
  std::ifstream file(tests::shared_path(folder + "expected.json"));
  const nlohmann::json expected = nlohmann::json::parse(file);
  base::FileSystem& files = base::posix_file_system();
  const base::Path prefix = tests::shared_path(folder + "bert_model.ckpt");
  const TensorflowReader reader = TensorflowReader::open(files, prefix);
  EXPECT_EQ(reader.index().shards, 1);
  ASSERT_EQ(reader.tensors().size(), 206U);
  ASSERT_EQ(expected["tensors"].size(), 206U);
  std::uint64_t bytes = 0;
  for (const TensorflowTensor& tensor : reader.tensors()) {
    const nlohmann::json& row = expected["tensors"].at(tensor.name);
    EXPECT_EQ(tensor.dtype, "F32");
    EXPECT_EQ(row["dtype"], "float32");
    EXPECT_EQ(tensor.shape, row["shape"].get<std::vector<std::int64_t>>());
    EXPECT_EQ(tensor.shard, row["shard"].get<int>());
    EXPECT_EQ(tensor.offset, row["offset"].get<std::uint64_t>());
    EXPECT_EQ(tensor.size, row["size"].get<std::uint64_t>());
    EXPECT_EQ(tensor.masked_crc32c, row["crc32c_masked"].get<std::uint32_t>());
    bytes += tensor.size;
  }
  EXPECT_EQ(bytes, 411'529'768U);
  trainer::contract::ModelShape shape = trainer::contract::preset_shape("base");
  shape.vocabulary = 21128;
  EXPECT_EQ(expect_whole_model(reader.index(), shape, false), 0);
  EXPECT_THAT(
      error_of(Code::NotFound, [&] { (void)read_tensorflow(files, prefix, Moments::Skip); }),
      HasSubstr("bert_model.ckpt.data-00000-of-00001 is missing"));
}

TEST(TensorflowRealFiles, LoadsATrainedCheckpointWithItsMoments) {
  const std::string folder = "data/weights/keras_bert_test_checkpoint/";
  REGATTA_NEED_SHARED(folder);
  base::FileSystem& files = base::posix_file_system();
  const base::Path prefix = tests::shared_path(folder + "bert_model.ckpt");
  const TensorflowReader reader = TensorflowReader::open(files, prefix);
  EXPECT_EQ(reader.tensors().size(), 139U);
  trainer::contract::ModelShape shape;  // bert_config.json beside it
  shape.layers = 2;
  shape.hidden = 4;
  shape.heads = 4;
  shape.feed_forward = 16;
  shape.vocabulary = 15;
  shape.max_positions = 16;
  EXPECT_EQ(expect_whole_model(reader.index(), shape, true), 1);  // global_step

  const TensorflowImport imported = read_tensorflow(files, prefix, Moments::Read);
  EXPECT_EQ(imported.tensors.size(), 138U);
  EXPECT_TRUE(imported.unknown.empty());
  EXPECT_EQ(imported.step, 20);
  std::map<std::pair<std::string, TensorflowKind>, const ImportedTensor*> by_name;
  for (const ImportedTensor& tensor : imported.tensors) {
    by_name[{tensor.name, tensor.kind}] = &tensor;
  }
  // Read from the file with Python's struct module, without this code.
  struct Row {
    const char* name;
    TensorflowKind kind;
    std::size_t row;
    std::size_t column;
    float value;
  };
  constexpr auto kParameter = TensorflowKind::Parameter;
  for (const Row& row :
       {Row{"bert.encoder.layer.1.intermediate.dense.weight", kParameter, 0, 0, -0.0307543855F},
        Row{"bert.encoder.layer.1.intermediate.dense.weight", kParameter, 1, 0, -0.0131320385F},
        Row{"bert.encoder.layer.1.intermediate.dense.weight", kParameter, 0, 1, -0.0098184552F},
        Row{"bert.encoder.layer.1.intermediate.dense.weight", kParameter, 13, 2, -0.0184375886F},
        Row{"bert.encoder.layer.1.intermediate.dense.weight", kParameter, 15, 3, 0.00431186194F},
        Row{"bert.embeddings.word_embeddings.weight", kParameter, 14, 1, -0.00294762221F},
        Row{"cls.seq_relationship.weight", kParameter, 1, 0, -0.0312310066F},
        Row{"cls.predictions.bias", kParameter, 0, 3, -6.12876602e-06F},
        Row{"bert.encoder.layer.0.output.dense.weight", TensorflowKind::Second, 3, 9,
            9.19018767e-13F},
        Row{"bert.encoder.layer.0.output.dense.weight", TensorflowKind::First, 2, 15,
            9.2359669e-06F},
        Row{"bert.encoder.layer.0.attention.self.query.weight", kParameter, 3, 1, -0.023608746F},
        Row{"bert.pooler.dense.bias", TensorflowKind::First, 0, 1, -0.00136230898F}}) {
    SCOPED_TRACE(row.name);
    const ImportedTensor* const tensor = by_name[{row.name, row.kind}];
    ASSERT_NE(tensor, nullptr);
    const auto columns = static_cast<std::size_t>(tensor->shape.back());
    EXPECT_EQ(tensor->values.at(row.row * columns + row.column), row.value);
  }
}

TEST(TensorflowRealFiles, ListsCompressedIndexes) {
  REGATTA_NEED_SHARED("data/weights/tf_serving_bundles");
  base::FileSystem& files = base::posix_file_system();
  const auto prefix = [](const std::string& name) {
    return tests::shared_path("data/weights/tf_serving_bundles/saved_model_half_plus_two_" + name +
                              "/variables");
  };
  const auto names = [](const TensorflowReader& reader) {
    std::vector<std::string> out;
    for (const TensorflowTensor& tensor : reader.tensors()) out.push_back(tensor.name);
    return out;
  };
  const TensorflowReader plain = TensorflowReader::open(files, prefix("mkl"));
  EXPECT_THAT(names(plain),
              ElementsAre("a", "b", "c", "conv2d/bias", "conv2d/kernel", "conv2d_1/bias",
                          "conv2d_1/kernel", "conv2d_2/bias", "conv2d_2/kernel"));
  if (!reads_snappy()) GTEST_SKIP() << "needs a build with Snappy (libsnappy-dev)";
  const TensorflowReader packed = TensorflowReader::open(files, prefix("cpu"));
  EXPECT_THAT(names(packed), ElementsAre("a", "a2", "b", "c", "c2"));
  const TensorflowReader later = TensorflowReader::open(files, prefix("tf2_cpu"));
  EXPECT_THAT(names(later),
              ElementsAre("_CHECKPOINTABLE_OBJECT_GRAPH", "a/.ATTRIBUTES/VARIABLE_VALUE",
                          "b/.ATTRIBUTES/VARIABLE_VALUE", "c/.ATTRIBUTES/VARIABLE_VALUE"));
  EXPECT_EQ(later.tensors()[0].dtype, "STRING");
  for (const TensorflowReader* reader : {&plain, &packed, &later}) {
    for (const TensorflowTensor& tensor : reader->tensors()) {
      if (tensor.name.size() > 2 && !tensor.name.ends_with("/VARIABLE_VALUE")) continue;
      float value = 0;
      reader->read_float32(tensor.name, std::span(&value, 1));
      const char letter = tensor.name[0];
      EXPECT_EQ(value, letter == 'a' ? 0.5F : letter == 'b' ? 2.0F : 3.0F) << tensor.name;
    }
  }
  EXPECT_THAT(
      error_of(Code::User, [&] { (void)read_tensorflow(files, prefix("tf2_cpu"), Moments::Skip); }),
      HasSubstr("none of its tensors is BERT's"));
}

}  // namespace
}  // namespace regatta::checkpoint
