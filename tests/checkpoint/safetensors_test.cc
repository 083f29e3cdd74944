#include "checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/digest.h"
#include "base/error.h"
#include "tests/base/faulty_file_system.h"

namespace regatta::checkpoint {
namespace {

using testing::HasSubstr;

class SafetensorsTest : public testing::Test {
 protected:
  // A file of the given header, without padding, and data.
  base::Path file(const std::string& header, const std::string& data) {
    std::string bytes(8, '\0');
    const std::uint64_t length = header.size();
    std::memcpy(bytes.data(), &length, 8);
    return raw(bytes + header + data);
  }
  base::Path raw(const std::string& bytes) {
    const base::Path path = directory_.path() / std::to_string(count_++);
    files_.open(path, base::FileSystem::Open::CreateNew)->append(bytes);
    return path;
  }
  static std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
  }
  template <typename Body>
  static std::string user_error(const Body& body) {
    try {
      body();
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      EXPECT_LT(std::strlen(error.what()), 600U);
      return error.what();
    }
    ADD_FAILURE() << "accepted";
    return {};
  }

  base::FileSystem& files_ = base::posix_file_system();
  tests::TemporaryDirectory directory_;
  int count_ = 0;
};

TEST_F(SafetensorsTest, WritesTheBytesOfTheFormat) {
  const base::Path path = directory_.path() / "f";
  const std::vector<NamedTensor> tensors{{"a", "U8", {3}, bytes_of("xyz")}};
  const WrittenFile written = write_safetensors(files_, path, tensors, {{"format", "pt"}});
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  const std::string bytes = files_.read(path, 1000);
  ASSERT_GE(bytes.size(), 8U);
  EXPECT_EQ(static_cast<unsigned char>(bytes[0]), padded.size());
  EXPECT_EQ(bytes.substr(1, 7), std::string(7, '\0'));
  EXPECT_EQ(bytes.substr(8), padded + "xyz");
  EXPECT_EQ(padded.size() % 8, 0U);
  EXPECT_EQ(written.bytes, bytes.size());
  EXPECT_EQ(written.digest, base::digest_of(bytes));
  EXPECT_EQ(safetensors_bytes(tensors, {{"format", "pt"}}), bytes.size());
}

TEST_F(SafetensorsTest, ReadsBackWhatItWrote) {
  const std::vector<float> matrix{1, 2, 3, 4, 5, 6};
  const std::vector<double> scalar{0.5};
  const std::vector<NamedTensor> tensors{
      {"scalar", "F64", {}, std::as_bytes(std::span(scalar))},
      {"matrix", "F32", {2, 3}, std::as_bytes(std::span(matrix))},
      {"empty", "BF16", {0, 4}, {}},
      {"\xc3\xa9 \"quoted\"", "BOOL", {2}, bytes_of("\x01")},
  };
  const base::Path path = directory_.path() / "f";
  std::vector<NamedTensor> good = tensors;
  good[3].bytes = bytes_of("ab");
  write_safetensors(files_, path, good, {});
  const SafetensorsReader reader = SafetensorsReader::open(files_, path);
  EXPECT_EQ(reader.tensors().size(), 4U);
  EXPECT_TRUE(reader.metadata().empty());
  std::vector<float> back(6);
  reader.read("matrix", "F32", {2, 3}, std::as_writable_bytes(std::span(back)));
  EXPECT_EQ(back, matrix);
  double value = 0;
  reader.read("scalar", "F64", {}, std::as_writable_bytes(std::span(&value, 1)));
  EXPECT_EQ(value, 0.5);
  EXPECT_NO_THROW(reader.read("empty", "BF16", {0, 4}, {}));
  ASSERT_NE(reader.find("\xc3\xa9 \"quoted\""), nullptr);
  EXPECT_EQ(reader.find("none"), nullptr);

  EXPECT_THAT(user_error([&] { reader.read("none", "F32", {1}, {}); }),
              HasSubstr("has no tensor 'none'"));
  EXPECT_THAT(user_error([&] {
                reader.read("matrix", "F32", {3, 2}, {});
              }),
              HasSubstr("is F32[2, 3], expected F32[3, 2]"));
  EXPECT_THAT(user_error([&] {
                reader.read("matrix", "F16", {2, 3}, {});
              }),
              HasSubstr("expected F16[2, 3]"));
}

TEST_F(SafetensorsTest, ReadsTensorsLargerThanABlock) {
  std::string large(9'000'000, 'a');
  large[8'500'000] = 'b';
  const base::Path path = directory_.path() / "f";
  const std::vector<NamedTensor> tensors{{"t", "U8", {9'000'000}, bytes_of(large)}};
  write_safetensors(files_, path, tensors, {});
  std::string back(large.size(), ' ');
  SafetensorsReader::open(files_, path)
      .read("t", "U8", {9'000'000}, std::as_writable_bytes(std::span(back)));
  EXPECT_EQ(back, large);
}

TEST_F(SafetensorsTest, WriterRefusesWhatTheFormatCannotHold) {
  const auto refused = [&](const std::vector<NamedTensor>& tensors) {
    const base::Path path = directory_.path() / "refused";
    try {
      write_safetensors(files_, path, tensors, {});
    } catch (const base::Error& error) {
      EXPECT_FALSE(files_.exists(path)) << "nothing is written";
      return error.code() == base::Code::Developer;
    }
    return false;
  };
  EXPECT_TRUE(refused({{"a", "U8", {1}, bytes_of("x")}, {"a", "U8", {1}, bytes_of("x")}}));
  EXPECT_TRUE(refused({{"a", "U8", {2}, bytes_of("x")}}));
  EXPECT_TRUE(refused({{"a", "F7", {1}, bytes_of("x")}}));
  EXPECT_TRUE(refused({{"a", "U8", {-1}, bytes_of("x")}}));
  EXPECT_TRUE(refused({{"a", "U8", {1}, bytes_of("x")}, {"b", "F32", {1}, bytes_of("abcd")}}));
  EXPECT_TRUE(refused({{"__metadata__", "U8", {1}, bytes_of("x")}}));
  EXPECT_TRUE(refused({{"\xff", "U8", {1}, bytes_of("x")}}));
}

TEST_F(SafetensorsTest, AcceptsOtherWritersFiles) {
  // Unpadded header, keys in another order, tensors not in the order of their data, spaces.
  const base::Path path = file(
      R"( {"b":{"shape":[1],"data_offsets":[2,4],"dtype":"F16"},
           "__metadata__":{}, "a":{"dtype":"I8","shape":[2],"data_offsets":[0,2]}}   )" +
          1,
      "wxyz");
  const SafetensorsReader reader = SafetensorsReader::open(files_, path);
  ASSERT_EQ(reader.tensors().size(), 2U);
  EXPECT_EQ(reader.tensors()[0].name, "a");
  std::string back(2, ' ');
  reader.read("b", "F16", {1}, std::as_writable_bytes(std::span(back)));
  EXPECT_EQ(back, "yz");
  EXPECT_TRUE(SafetensorsReader::open(files_, file("{}", "")).tensors().empty());
  EXPECT_TRUE(SafetensorsReader::open(files_, file("{}      ", "")).tensors().empty());
}

TEST_F(SafetensorsTest, NamesEveryViolation) {
  struct Row {
    const char* name;
    std::string header;
    std::string data;
    const char* message;
  };
  const auto tensor = [](const std::string& dtype, const std::string& shape,
                         const std::string& offsets) {
    return R"({"t":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets +
           "}}";
  };
  const std::string a = R"("a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]})";
  const Row rows[] = {
      {"empty header", "", "", "does not begin with '{'"},
      {"leading space", " {}", "", "does not begin with '{'"},
      {"a list", "[]", "", "does not begin with '{'"},
      {"not JSON", "{nonsense}", "", "not a JSON object"},
      {"half JSON", "{\"a\":", "", "not a JSON object"},
      {"something after", "{} x", "", "not a JSON object"},
      {"zero padding", std::string("{}\0\0", 4), "", "not a JSON object"},
      {"not UTF-8", "{\"\xff\":1}", "", "not a JSON object"},
      {"deep", "{\"a\":" + std::string(1 << 20, '['), "", "nested too deeply"},
      {"tensor is a number", R"({"t":1})", "", "expected exactly dtype"},
      {"tensor is empty", R"({"t":{}})", "", "expected exactly dtype"},
      {"no dtype", R"({"t":{"shape":[1],"data_offsets":[0,1],"x":1}})", "x", "expected exactly"},
      {"one key more", R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}})", "x",
       "expected exactly"},
      {"dtype number", tensor("8", "[1]", "[0,1]"), "x", "dtype is not text"},
      {"unknown dtype", tensor("\"U9\"", "[1]", "[0,1]"), "x", "unknown dtype 'U9'"},
      {"lower case dtype", tensor("\"u8\"", "[1]", "[0,1]"), "x", "unknown dtype"},
      {"hostile dtype", tensor("\"\\u001b[2J\"", "[1]", "[0,1]"), "x", "'\\x1b[2J'"},
      {"shape number", tensor("\"U8\"", "1", "[0,1]"), "x", "shape is not a list"},
      {"shape of 17", tensor("\"U8\"", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,1]"), "x",
       "at most 16"},
      {"negative size", tensor("\"U8\"", "[-1]", "[0,1]"), "x", "not a whole number"},
      {"fraction size", tensor("\"U8\"", "[1.0]", "[0,1]"), "x", "not a whole number"},
      {"size 2^63", tensor("\"U8\"", "[9223372036854775808]", "[0,1]"), "x", "not a whole number"},
      {"product overflows", tensor("\"U8\"", "[4294967296,4294967296]", "[0,0]"), "",
       "which is not U8"},
      {"overflow hidden by zero", tensor("\"U8\"", "[0,4294967296,4294967296]", "[0,1]"), "x",
       "which is not U8"},
      {"offsets number", tensor("\"U8\"", "[1]", "1"), "x", "not two whole numbers"},
      {"one offset", tensor("\"U8\"", "[1]", "[0]"), "x", "not two whole numbers"},
      {"three offsets", tensor("\"U8\"", "[1]", "[0,1,2]"), "x", "not two whole numbers"},
      {"negative offset", tensor("\"U8\"", "[1]", "[-1,0]"), "x", "not two whole numbers"},
      {"backwards", tensor("\"U8\"", "[1]", "[1,0]"), "x", "ends before it begins"},
      {"too many bytes", tensor("\"U8\"", "[1]", "[0,2]"), "xy", "holds 2 bytes"},
      {"too few bytes", tensor("\"F32\"", "[2]", "[0,4]"), "abcd", "is not F32[2]"},
      {"scalar of two", tensor("\"U8\"", "[]", "[0,2]"), "xy", "is not U8[]"},
      {"gap at the start", tensor("\"U8\"", "[1]", "[1,2]"), "xy", "leaves a gap"},
      {"gap between", "{" + a + R"(,"b":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}})", "wxyz",
       "'b' leaves a gap"},
      {"overlap", "{" + a + R"(,"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", "xyz",
       "'b' overlaps"},
      {"the same place", "{" + a + R"(,"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "xy",
       "overlaps"},
      {"empty tensor astray", "{" + a + R"(,"b":{"dtype":"U8","shape":[0],"data_offsets":[1,1]}})",
       "xy", "overlaps"},
      {"misaligned", "{" + a + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
       "xyabcd", "not a multiple of its 4-byte"},
      {"name twice", "{" + a + "," + a + "}", "xy", "'a' stands twice"},
      {"key twice", R"({"t":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x",
       "'dtype' stands twice"},
      {"metadata twice", R"({"__metadata__":{},"__metadata__":{}})", "", "stands twice"},
      {"metadata text", R"({"__metadata__":"x"})", "", "__metadata__ must map"},
      {"metadata number", R"({"__metadata__":{"a":1}})", "", "__metadata__ must map"},
      {"data missing", "{" + a + "}", "x", "is shorter or longer"},
      {"no data", "{" + a + "}", "", "is shorter or longer"},
      {"data left over", "{" + a + "}", "xyz", "is shorter or longer"},
      {"data without tensors", "{}", "x", "is shorter or longer"},
      {"huge end", tensor("\"U8\"", "[9223372036854775807]", "[0,9223372036854775807]"), "x",
       "is shorter or longer"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const base::Path path = file(row.header, row.data);
    EXPECT_THAT(user_error([&] { (void)SafetensorsReader::open(files_, path); }),
                HasSubstr(row.message));
  }
}

TEST_F(SafetensorsTest, RefusesHostileLengths) {
  struct Row {
    const char* name;
    std::string bytes;
    const char* message;
  };
  const Row rows[] = {
      {"empty file", "", "shorter than 8 bytes"},
      {"seven bytes", std::string(7, '\0'), "shorter than 8 bytes"},
      {"zero length", std::string(8, '\0'), "does not begin with '{'"},
      {"all ones", std::string(8, '\xff') + "{}", "says its header is 18446744073709551615"},
      {"just over the limit", std::string("\x01\0\0\x01\0\0\0\0", 8) + "{}", "says its header is"},
      {"beyond the file", std::string("\x40\0\0\0\0\0\0\0", 8) + "{}", "ends within its header"},
      {"big-endian", std::string("\0\0\0\0\0\0\0\x02", 8) + "{}", "says its header is"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const base::Path path = raw(row.bytes);
    EXPECT_THAT(user_error([&] { (void)SafetensorsReader::open(files_, path); }),
                HasSubstr(row.message));
  }
}

TEST_F(SafetensorsTest, EveryTruncationAndFlippedHeaderBitIsSurvived) {
  const base::Path path = directory_.path() / "f";
  const std::vector<NamedTensor> tensors{{"a", "U8", {3}, bytes_of("xyz")},
                                         {"b", "U8", {1, 2}, bytes_of("uv")}};
  write_safetensors(files_, path, tensors, {});
  const std::string good = files_.read(path, 1000);
  for (std::size_t size = 0; size < good.size(); ++size) {
    const base::Path cut = raw(good.substr(0, size));
    user_error([&] { (void)SafetensorsReader::open(files_, cut); });
  }
  const std::size_t header_end = good.size() - 5;
  for (std::size_t bit = 0; bit < 8 * header_end; ++bit) {
    std::string flipped = good;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    try {
      (void)SafetensorsReader::open(files_, raw(flipped));  // a changed name is still a good file
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User) << bit;
    }
  }
}

}  // namespace
}  // namespace regatta::checkpoint
