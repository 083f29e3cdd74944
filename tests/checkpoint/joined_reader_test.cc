#include "checkpoint/joined_reader.h"

#include <gmock/gmock.h>

#include <map>
#include <numeric>
#include <random>

#include "checkpoint/shards.h"
#include "tests/base/faulty_file_system.h"
#include "tests/checkpoint/expect_error.h"

namespace regatta::checkpoint {
namespace {

using testing::HasSubstr;
using Shape = std::vector<std::int64_t>;

// A tensor of float32 elements first, first + 1, …
struct Counted {
  std::string name;
  Shape shape;
  int first = 0;
};
using Files = std::map<std::string, std::vector<Counted>>;

class JoinedReaderTest : public testing::Test {
 protected:
  base::Path write(const Files& shards, const std::string& dtype = "F32") {
    const base::Path path = directory_.path() / std::to_string(++written_);
    files_.create_directory(path);
    for (const auto& [file, tensors] : shards) {
      std::vector<std::vector<float>> values;
      std::vector<NamedTensor> named;
      values.reserve(tensors.size());
      for (const Counted& one : tensors) {
        const auto count = std::accumulate(one.shape.begin(), one.shape.end(), std::int64_t{1},
                                           std::multiplies<>());
        std::vector<float>& own = values.emplace_back(static_cast<std::size_t>(count));
        std::iota(own.begin(), own.end(), static_cast<float>(one.first));
        named.push_back({one.name, dtype, one.shape, std::as_bytes(std::span(own))});
      }
      write_safetensors(files_, path / file, named, {});
    }
    return path;
  }
  JoinedReader open(const Files& shards) {
    return JoinedReader::open(files_, write(shards), kOptimizer);
  }
  static std::vector<float> read(const JoinedReader& reader, const std::string& name,
                                 const Shape& shape, std::size_t count) {
    std::vector<float> values(count);
    reader.read(name, "F32", shape, std::as_writable_bytes(std::span(values)));
    return values;
  }
  static std::vector<float> counted(int first, std::size_t count) {
    std::vector<float> values(count);
    std::iota(values.begin(), values.end(), static_cast<float>(first));
    return values;
  }

  base::FileSystem& files_ = base::posix_file_system();
  tests::TemporaryDirectory directory_;
  int written_ = 0;
};

TEST_F(JoinedReaderTest, OneFileIsReadAsItIs) {
  const JoinedReader reader =
      open({{"optimizer.safetensors", {{"z", {2, 3}, 0}, {"a", {}, 9}, {"none", {0, 4}, 0}}},
            {"model.safetensors", {{"other", {1}, 0}}},
            {"model-00001-of-00002.safetensors", {{"other", {1}, 0}}}});
  ASSERT_EQ(reader.tensors().size(), 3U);
  EXPECT_EQ(reader.file_count(), 1U);
  EXPECT_EQ(reader.tensors()[0].name, "z") << "in the file's order";
  EXPECT_FALSE(reader.tensors()[0].in_ranges);
  EXPECT_EQ(read(reader, "z", {2, 3}, 6), counted(0, 6));
  EXPECT_EQ(read(reader, "a", {}, 1), counted(9, 1));
  EXPECT_TRUE(read(reader, "none", {0, 4}, 0).empty());
  EXPECT_EQ(reader.find("other"), nullptr);
  const std::string error = tests::error_of(base::Code::User, [&] {
    (void)read(reader, "z", {3, 2}, 6);
  });
  EXPECT_THAT(error, HasSubstr("'z' is F32[2, 3], expected F32[3, 2]")) << "its shape is known";
}

TEST_F(JoinedReaderTest, JoinsRangesWhateverTheirOrder) {
  const JoinedReader reader =
      open({{"optimizer-00003-of-00003.safetensors", {{"w[0:2]", {2}, 0}}},
            {"optimizer-00001-of-00003.safetensors", {{"w[7:12]", {5}, 7}, {"whole", {2, 2}, 3}}},
            {"optimizer-00002-of-00003.safetensors",
             {{"v[0:1]", {1}, 5}, {"w[4:7]", {3}, 4}, {"w[2:4]", {2}, 2}}}});
  EXPECT_EQ(reader.file_count(), 3U);
  ASSERT_EQ(reader.tensors().size(), 3U);
  const JoinedTensor& w = *reader.find("w");
  EXPECT_TRUE(w.in_ranges);
  EXPECT_EQ(w.shape, (Shape{12}));
  EXPECT_EQ(w.bytes(), 48U);
  for (const Shape& shape : {Shape{12}, Shape{3, 4}, Shape{2, 1, 6}}) {
    EXPECT_EQ(read(reader, "w", shape, 12), counted(0, 12));
  }
  EXPECT_EQ(read(reader, "v", {1}, 1), counted(5, 1));
  EXPECT_EQ(read(reader, "whole", {2, 2}, 4), counted(3, 4));
  EXPECT_EQ(reader.find("w[0:2]"), nullptr) << "the name of a range is not a tensor's";
  for (const Shape& shape :
       {Shape{11}, Shape{13}, Shape{3, 5}, Shape{-12}, Shape{}, Shape{std::int64_t{1} << 62, 8}}) {
    const std::string error =
        tests::error_of(base::Code::User, [&] { (void)read(reader, "w", shape, 12); });
    EXPECT_THAT(error, HasSubstr("'w' is F32[12], in ranges, expected F32"));
  }
  std::vector<std::byte> room(48);
  EXPECT_THROW(reader.read("w", "I32", {12}, room), base::Error);
  EXPECT_THROW(reader.read("x", "F32", {12}, room), base::Error);
}

// Tensors cut at random places and dealt to random shards come back, for 40 seeds (each file is
// synced).
TEST_F(JoinedReaderTest, AnyCutComesBack) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    const int shards = 1 + static_cast<int>(random() % 5);
    Files files;
    for (int i = 0; i < shards; ++i) files[shard_file(kOptimizer, i, shards)];
    const std::int64_t size = 1 + static_cast<std::int64_t>(random() % 40);
    for (std::int64_t begin = 0; begin < size;) {
      const auto end = std::min(size, begin + 1 + static_cast<std::int64_t>(random() % 12));
      auto file = files.begin();
      std::advance(file, random() % files.size());
      file->second.push_back(
          {range_name({"exp_avg.x", begin, end}), {end - begin}, static_cast<int>(begin)});
      begin = end;
    }
    const JoinedReader reader = open(files);
    EXPECT_EQ(read(reader, "exp_avg.x", {size, 1}, static_cast<std::size_t>(size)),
              counted(0, static_cast<std::size_t>(size)))
        << "seed " << seed;
  }
}

struct BadCase {
  const char* name;
  Files files;
  const char* says;
};

TEST_F(JoinedReaderTest, RefusesInOneLine) {
  const std::string one = "optimizer.safetensors";
  const std::string first = "optimizer-00001-of-00002.safetensors";
  const std::string second = "optimizer-00002-of-00002.safetensors";
  const BadCase kCases[] = {
      {"a shard is missing", {{first, {{"a", {1}}}}}, "00002-of-00002.safetensors is missing"},
      {"the first is missing", {{second, {{"a", {1}}}}}, "00001-of-00002.safetensors is missing"},
      {"whole and split", {{one, {}}, {first, {}}, {second, {}}}, "both optimizer"},
      {"split in two and in three",
       {{first, {}}, {second, {}}, {"optimizer-00003-of-00003.safetensors", {}}},
       "both optimizer"},
      {"a tensor in two shards", {{first, {{"a", {1}}}}, {second, {{"a", {1}}}}}, "in two files"},
      {"whole and in a range",
       {{first, {{"a", {2}}}}, {second, {{"a[0:2]", {2}}}}},
       "whole and in ranges"},
      {"in a range and whole",
       {{first, {{"a[0:2]", {2}}}}, {second, {{"a", {2}}}}},
       "whole and in ranges"},
      {"a gap", {{one, {{"a[0:2]", {2}}, {"a[3:4]", {1}}}}}, "no range that begins at 2"},
      {"the beginning is missing", {{one, {{"a[1:4]", {3}}}}}, "no range that begins at 0"},
      {"an overlap", {{first, {{"a[0:3]", {3}}}}, {second, {{"a[2:4]", {2}}}}}, "overlap at 2"},
      {"a range twice", {{first, {{"a[0:2]", {2}}}}, {second, {{"a[0:2]", {2}}}}}, "overlap at 0"},
      {"one within another",
       {{one, {{"a[0:8]", {8}}, {"a[2:4]", {2}}, {"a[4:8]", {4}}}}},
       "overlap at 2"},
      {"more elements than the range", {{one, {{"a[0:2]", {3}}}}}, "not its range's"},
      {"fewer elements than the range", {{one, {{"a[0:2]", {1}}}}}, "not its range's"},
      {"a range of two dimensions", {{one, {{"a[0:4]", {2, 2}}}}}, "not its range's"},
      {"a range without dimension", {{one, {{"a[0:1]", {}}}}}, "not its range's"},
      {"a name for the terminal",
       {{first, {{"\x1b[2J", {1}}}}, {second, {{"\x1b[2J", {1}}}}},
       "\\x1b[2J"},
  };
  for (const BadCase& c : kCases) {
    SCOPED_TRACE(c.name);
    const std::string error = tests::error_of(base::Code::User, [&] { (void)open(c.files); });
    EXPECT_THAT(error, HasSubstr(c.says));
  }
}

TEST_F(JoinedReaderTest, RefusesTwoTypesBadFilesAndNone) {
  const base::Path path = write({{"optimizer-00001-of-00002.safetensors", {{"a[0:2]", {2}}}}});
  const base::Path other =
      write({{"optimizer-00002-of-00002.safetensors", {{"a[2:4]", {2}}}}}, "I32");
  std::filesystem::copy(other / "optimizer-00002-of-00002.safetensors", path);
  const auto opens = [&](const base::Path& directory) {
    return [this, directory] { (void)JoinedReader::open(files_, directory, kOptimizer); };
  };
  EXPECT_THAT(tests::error_of(base::Code::User, opens(path)),
              HasSubstr("F32 and, elsewhere, of I32"));
  base::replace_file(files_, path / "optimizer-00002-of-00002.safetensors", "short");
  EXPECT_THAT(tests::error_of(base::Code::User, opens(path)), HasSubstr("00002-of-00002"));
  EXPECT_THAT(tests::error_of(base::Code::NotFound, opens(write({{"model.safetensors", {}}}))),
              HasSubstr("has no optimizer.safetensors"));
  EXPECT_THROW(opens(directory_.path() / "absent")(), base::Error);
}

}  // namespace
}  // namespace regatta::checkpoint
