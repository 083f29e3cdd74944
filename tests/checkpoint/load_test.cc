// Tensors find their places from any division into files, exactly once, or the checkpoint is none.
#include "checkpoint/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <fstream>
#include <functional>
#include <map>
#include <numeric>

#include "base/digest.h"
#include "base/error.h"
#include "checkpoint/shards.h"
#include "tests/base/faulty_file_system.h"
#include "tests/checkpoint/samples.h"

namespace regatta::checkpoint {
namespace {

using testing::HasSubstr;
using tests::kDataPrint;
using tests::kModelPrint;
using tests::load_sample;
using tests::SampleCheckpoint;
using tests::write_sample;

class LoadTest : public testing::Test {
 protected:
  // A tensor of the values 0, 1, …
  NamedTensor counted(const std::string& name, std::vector<std::int64_t> shape) {
    const std::int64_t size =
        std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    std::vector<float>& values = values_.emplace_back(static_cast<std::size_t>(size));
    std::iota(values.begin(), values.end(), 0.0F);
    return {name, "F32", std::move(shape), std::as_bytes(std::span(values))};
  }
  // Elements [begin, end) of such a tensor.
  NamedTensor range(const std::string& name, std::int64_t begin, std::int64_t end) {
    const NamedTensor whole = counted(name, {end});
    return {range_name({name, begin, end}),
            "F32",
            {end - begin},
            whole.bytes.subspan(static_cast<std::size_t>(begin) * sizeof(float))};
  }
  // A checkpoint with these optimizer shards and a model of one tensor "w" [2].
  void write(std::int64_t step, const std::vector<std::vector<NamedTensor>>& shards) {
    const SampleCheckpoint sample(step, "aaaa");
    std::vector<std::string> files = tests::sample_files(static_cast<int>(shards.size()));
    const std::vector<NamedTensor> model{counted("w", {2})};
    for (std::size_t i = 0; i < files.size(); ++i) {
      const std::vector<NamedTensor>& tensors = i == 0 ? model : shards[i - 1];
      store_.write_shard(sample.id(), files[i], tensors, base::system_clock());
    }
    store_.commit(sample.contents.manifest, files, tests::always, base::system_clock());
  }
  // Places for "w", "m" [3, 4], "v" [5], "none" [0, 3] and "extra" [1], which may be absent.
  LatestLoaded load() {
    const auto place = [&](const char* name, std::vector<std::int64_t> shape, std::size_t size,
                           bool may_be_absent = false) {
      std::vector<float>& memory = loaded_[name];
      memory.assign(size, -1.0F);
      return TensorPlace{name, "F32", std::move(shape), std::as_writable_bytes(std::span(memory)),
                         may_be_absent};
    };
    return store_.load_latest(kModelPrint, kDataPrint, {place("w", {2}, 2)},
                              {place("m", {3, 4}, 12), place("v", {5}, 5), place("none", {0, 3}, 0),
                               place("extra", {1}, 1, true)});
  }
  // Why the newest checkpoint does not load.
  std::string reason() {
    const LatestLoaded latest = load();
    if (latest.checkpoint) return "loaded";
    return latest.skipped.at(0).reason;
  }
  void expect_counted() {
    for (const auto& [name, values] : loaded_) {
      if (name == "extra") continue;
      for (std::size_t i = 0; i < values.size(); ++i) {
        EXPECT_EQ(values[i], static_cast<float>(i)) << name << " " << i;
      }
    }
  }

  tests::FaultyFileSystem files_;  // never fails here, and spares the disk the syncs
  tests::TemporaryDirectory directory_;
  CheckpointStore store_{files_, directory_.path() / "checkpoints"};
  std::deque<std::vector<float>> values_;
  std::map<std::string, std::vector<float>> loaded_;
};

// Other checkpoints than the named ones are not looked at, and the first whole one counts.
TEST_F(LoadTest, TakesTheNamedOnesInTheirOrder) {
  const std::vector<std::vector<NamedTensor>> shards{
      {counted("m", {3, 4}), counted("v", {5}), counted("none", {0, 3})}};
  for (const std::int64_t step : {1, 2, 3, 4}) write(step, shards);
  const auto name = [](std::int64_t step) { return SampleCheckpoint(step, "aaaa").id().text(); };
  files_.remove_file(store_.directory() / name(1) / kModelFile);
  std::vector<std::vector<float>> memory{std::vector<float>(2), std::vector<float>(12),
                                         std::vector<float>(5)};
  const auto place = [&](const char* tensor, std::vector<std::int64_t> shape, std::size_t at) {
    return TensorPlace{tensor, "F32", std::move(shape),
                       std::as_writable_bytes(std::span(memory[at]))};
  };
  const auto load = [&](const std::vector<std::string>& names) {
    return store_.load_first(
        names, kModelPrint, kDataPrint, {place("w", {2}, 0)},
        {place("m", {3, 4}, 1), place("v", {5}, 2), TensorPlace{"none", "F32", {0, 3}, {}}});
  };
  EXPECT_EQ(load({name(2), name(4)}).checkpoint->manifest.step, 2);
  const LatestLoaded second = load({name(1), name(3), name(4)});
  EXPECT_EQ(second.checkpoint->manifest.step, 3);
  ASSERT_EQ(second.skipped.size(), 1U);
  EXPECT_EQ(second.skipped[0].name, name(1));
  EXPECT_FALSE(load({}).checkpoint.has_value());
}

TEST_F(LoadTest, PutsRangesWhereTheyBelong) {
  const NamedTensor none = counted("none", {0, 3});
  const std::vector<std::vector<std::vector<NamedTensor>>> divisions{
      {{counted("m", {3, 4}), counted("v", {5}), none}},
      {{counted("v", {5}), range("m", 0, 7)}, {none, range("m", 7, 12)}},
      {{range("m", 7, 12), none}, {range("v", 0, 5), range("m", 0, 7)}},  // whole, as a range
      {{range("m", 11, 12), range("m", 0, 1)}, {}, {none, counted("v", {5}), range("m", 1, 11)}},
      {{range("v", 4, 5)}, {range("v", 2, 4)}, {range("v", 0, 2)}, {counted("m", {3, 4}), none}},
  };
  std::int64_t step = 0;
  for (const auto& shards : divisions) {
    SCOPED_TRACE(step);
    write(++step, shards);
    const LatestLoaded latest = load();
    ASSERT_TRUE(latest.checkpoint.has_value());
    EXPECT_EQ(latest.checkpoint->manifest.step, step);
    EXPECT_EQ(latest.checkpoint->absent, std::vector<std::string>{"extra"});
    expect_counted();
  }
  write(++step, {{counted("m", {3, 4}), counted("v", {5}), none, counted("extra", {1})}});
  EXPECT_TRUE(load().checkpoint->absent.empty());
  EXPECT_EQ(loaded_["extra"][0], 0.0F);
}

TEST_F(LoadTest, TensorsThatDoNotFitAreDamage) {
  const NamedTensor m = counted("m", {3, 4});
  const NamedTensor v = counted("v", {5});
  const NamedTensor none = counted("none", {0, 3});
  NamedTensor half = v;
  half.dtype = "F16";
  half.shape = {10};
  NamedTensor half_range = range("v", 0, 5);
  half_range.dtype = "I32";
  NamedTensor square = range("m", 0, 4);
  square.shape = {2, 2};
  struct Row {
    const char* name;
    std::vector<std::vector<NamedTensor>> shards;
    const char* reason;
  };
  const Row rows[] = {
      {"nothing", {{}}, "there is no tensor 'm'"},
      {"one missing", {{m, none}}, "there is no tensor 'v'"},
      {"the empty one missing", {{m, v}}, "there is no tensor 'none'"},
      {"one more", {{m, v, none, counted("z", {1})}}, "tensor 'z' is not the run's"},
      {"a range of one more", {{m, v, none, range("z", 0, 1)}}, "tensor 'z[0:1]' is not the run's"},
      {"the model's", {{m, v, none, counted("w", {2})}}, "tensor 'w' is not the run's"},
      {"other type", {{m, half, none}}, "another type or shape"},
      {"other shape", {{counted("m", {4, 3}), v, none}}, "another type or shape"},
      {"flat", {{counted("m", {12}), v, none}}, "another type or shape"},
      {"range of another type", {{m, half_range, none}}, "another type or size"},
      {"range with a shape", {{square, range("m", 4, 12), v, none}}, "another type or size"},
      {"range of another size",
       {{m, {"v[0:4]", "F32", {5}, v.bytes}, none}},
       "another type or size"},
      {"range beyond the end", {{m, range("v", 3, 6), none}}, "another type or size"},
      {"huge range",
       {{m, {"v[9223372036854775800:9223372036854775805]", "F32", {5}, v.bytes}, none}},
       "another type or size"},
      {"empty range", {{m, v, {"none[0:0]", "F32", {0}, {}}}}, "'none[0:0]' is not the run's"},
      {"range of the empty one", {{m, v, none, range("none", 0, 1)}}, "another type or size"},
      {"begin missing", {{range("m", 1, 12), v, none}}, "elements 0 to 0 of tensor 'm' are miss"},
      {"end missing", {{range("m", 0, 11), v, none}}, "elements 11 to 11 of tensor 'm' are miss"},
      {"gap", {{range("m", 0, 5)}, {range("m", 7, 12), v, none}}, "elements 5 to 6 of tensor 'm'"},
      {"overlap", {{range("m", 0, 6)}, {range("m", 5, 12), v, none}}, "'m' stands twice"},
      {"range twice", {{range("m", 0, 12)}, {range("m", 0, 12), v, none}}, "'m' stands twice"},
      {"whole twice", {{m}, {m, v, none}}, "'m' stands twice"},
      {"whole and a range", {{m, v}, {range("v", 2, 3), none}}, "'v' stands twice"},
      {"a range inside another", {{range("m", 0, 12)}, {range("m", 3, 4), v, none}}, "twice"},
      {"the empty one twice", {{m, none}, {v, none}}, "'none' stands twice"},
      {"a part of what may be absent",
       {{m, v, none, counted("extra", {2})}},
       "another type or shape"},
  };
  std::int64_t step = 0;
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    write(++step, row.shards);
    const std::string found = reason();
    EXPECT_THAT(found, HasSubstr(row.reason));
    EXPECT_EQ(store_.verify(store_.list()[0].name), std::nullopt) << "its bytes are as written";
  }
}

// Larger than what one thread reads alone, and than a block.
TEST_F(LoadTest, TwoThreadsReadWhatOneWrote) {
  constexpr std::int64_t kRows = 1'000'003;  // 12 MB a tensor, 36 in all
  const SampleCheckpoint sample(100, "aaaa", kRows);
  CheckpointStore store(base::posix_file_system(), store_.directory());
  write_sample(store, sample, 3);
  tests::LoadedSample loaded = load_sample(store, kRows);
  EXPECT_EQ(loaded.step, 100);
  EXPECT_TRUE(loaded.whole);
  EXPECT_EQ(store.verify(sample.name()), std::nullopt);

  // Damage is found whichever thread meets it.
  for (const std::string& file : tests::sample_files(3)) {
    const base::Path path = store.directory() / sample.name() / file;
    const auto flip = [&] {
      std::fstream stream(path, std::ios::in | std::ios::out | std::ios::binary);
      stream.seekg(-1, std::ios::end);
      const char last = static_cast<char>(stream.get());
      stream.seekp(-1, std::ios::end);
      stream.put(static_cast<char>(last ^ 4));
    };
    flip();
    loaded = load_sample(store, kRows);
    EXPECT_FALSE(loaded.step.has_value());
    ASSERT_EQ(loaded.skipped.size(), 1U);
    EXPECT_THAT(loaded.skipped[0].reason, HasSubstr(file + " is damaged"));
    flip();
  }
  EXPECT_TRUE(load_sample(store, kRows).whole);
}

// Both names are the run's: where a tensor is called like a range, it is that tensor.
TEST_F(LoadTest, ATensorMayBeCalledLikeARange) {
  const SampleCheckpoint sample(1, "aaaa");
  store_.write_shard(sample.id(), kModelFile, {counted("x[0:1]", {3})}, base::system_clock());
  store_.write_shard(sample.id(), kOptimizerFile, {}, base::system_clock());
  store_.commit(sample.contents.manifest, tests::sample_files(1), tests::always,
                base::system_clock());
  std::vector<float> memory(3, -1.0F);
  const TensorPlace place{"x[0:1]", "F32", {3}, std::as_writable_bytes(std::span(memory))};
  EXPECT_TRUE(store_.load_latest(kModelPrint, kDataPrint, {place}, {}).checkpoint.has_value());
  EXPECT_EQ(memory, (std::vector<float>{0, 1, 2}));
}

// What a later version may put beside the shards is digested too.
TEST_F(LoadTest, OtherFilesOfTheManifestAreCheckedToo) {
  const SampleCheckpoint sample(1, "aaaa");
  write_sample(store_, sample, 1);
  const base::Path path = store_.directory() / sample.name();
  Manifest manifest = parse_manifest(files_.read(path / kManifestFile, 1 << 20), "x");
  manifest.files["notes"] = {5, base::digest_of("notes")};
  base::replace_file(files_, path / kManifestFile, to_json(manifest));
  EXPECT_THAT(load_sample(store_).skipped.at(0).reason, HasSubstr("cannot open"));
  base::replace_file(files_, path / "notes", "noteS");
  EXPECT_THAT(load_sample(store_).skipped.at(0).reason, HasSubstr("notes is damaged"));
  base::replace_file(files_, path / "notes", "notes");
  EXPECT_EQ(load_sample(store_).step, 1);
}

TEST_F(LoadTest, FilesDamageNamesWhatIsWrong) {
  const base::Path path = directory_.path() / "f";
  const std::string text(3'000'000, 'x');
  base::replace_file(files_, path, text);
  const auto damage = [&](std::uint64_t bytes, const std::string& digest) {
    return file_damage(files_, path, "f", {bytes, digest}).value_or("none");
  };
  EXPECT_EQ(damage(3'000'000, base::digest_of(text)), "none");
  EXPECT_THAT(damage(3'000'001, base::digest_of(text)), HasSubstr("f is shorter"));
  EXPECT_THAT(damage(2'999'999, base::digest_of(text)), HasSubstr("f is longer"));
  EXPECT_THAT(damage(0, base::digest_of("")), HasSubstr("f is longer"));
  EXPECT_THAT(damage(3'000'000, base::digest_of("")), HasSubstr("its digest differs"));
  EXPECT_THAT(damage(~0ULL, base::digest_of(text)), HasSubstr("f is shorter"));
}

TEST_F(LoadTest, PlacesThatContradictThemselvesAreABug) {
  std::vector<float> two(2);
  const auto place = [&](const char* name, const char* dtype, std::int64_t size) {
    return TensorPlace{name, dtype, {size}, std::as_writable_bytes(std::span(two))};
  };
  write(1, {{}});
  EXPECT_DEATH((void)store_.load_latest(kModelPrint, kDataPrint, {place("w", "F32", 3)}, {}),
               "place");
  EXPECT_DEATH((void)store_.load_latest(kModelPrint, kDataPrint, {place("w", "F99", 2)}, {}),
               "place");
  EXPECT_DEATH((void)store_.load_latest(kModelPrint, kDataPrint,
                                        {place("w", "F32", 2), place("w", "F32", 2)}, {}),
               "place");
}

}  // namespace
}  // namespace regatta::checkpoint
