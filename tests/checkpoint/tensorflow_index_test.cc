#include "checkpoint/tensorflow_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "checkpoint/crc32c.h"
#include "checkpoint/leveldb_table.h"
#include "tests/checkpoint/expect_error.h"
#include "tests/checkpoint/tensorflow_samples.h"

namespace regatta::checkpoint {
namespace {

using base::Code;
using testing::ElementsAre;
using testing::HasSubstr;
using tests::block_of;
using tests::bytes_field;
using tests::bytes_of;
using tests::entry_message;
using tests::error_of;
using tests::fixed_field;
using tests::header_message;
using tests::KeyValue;
using tests::number_field;
using tests::Packing;
using tests::raw_block;
using tests::raw_entry;
using tests::sealed;
using tests::shape_message;
using tests::table_of;
using tests::table_of_entries;
using tests::varint;

std::vector<KeyValue> sample_entries(std::uint64_t shards = 1) {
  return {{"", header_message(shards)},
          {"bert/a", entry_message({1, {2, 3}, bytes_of(std::vector<float>(6, 1.5F)), 0, 0})},
          {"bert/ab", entry_message({1, {}, bytes_of(std::vector<float>(1, 2.5F)), 0, 24})},
          {"bert/b", entry_message({9, {1}, bytes_of(std::vector<std::int64_t>(1)), 0, 28})},
          {"cls/c", entry_message({7, {1}, "text", 0, 36})}};
}

TEST(Crc32c, AgreesWithTheStandardsExamples) {  // RFC 3720, appendix B.4
  EXPECT_EQ(crc32c(""), 0U);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43U);
  std::string ascending;
  for (char c = 0; c < 32; ++c) ascending += c;
  EXPECT_EQ(crc32c(ascending), 0x46DD794EU);
  for (std::size_t split = 0; split <= ascending.size(); ++split) {
    const std::string_view rest = std::string_view(ascending).substr(split);
    EXPECT_EQ(extend_crc32c(crc32c(ascending.substr(0, split)), std::as_bytes(std::span(rest))),
              0x46DD794EU);
  }
}

TEST(TensorflowIndexTest, ListsWhatWasWritten) {
  for (const Packing packing : {Packing::None, Packing::Snappy}) {
    if (packing == Packing::Snappy && !reads_snappy()) continue;
    for (const std::size_t per_block : {1U, 2U, 1000U}) {
      const std::string bytes = table_of_entries(sample_entries(), per_block, packing);
      const TensorflowIndex index = parse_tensorflow_index(bytes, "f");
      EXPECT_EQ(index.shards, 1);
      EXPECT_EQ(index.slices, 0);
      ASSERT_EQ(index.tensors.size(), 4U);
      EXPECT_EQ(index.tensors[0].name, "bert/a");
      EXPECT_EQ(index.tensors[0].dtype, "F32");
      EXPECT_THAT(index.tensors[0].shape, ElementsAre(2, 3));
      EXPECT_EQ(index.tensors[0].size, 24U);
      EXPECT_EQ(index.tensors[1].name, "bert/ab");
      EXPECT_TRUE(index.tensors[1].shape.empty());
      EXPECT_EQ(index.tensors[1].offset, 24U);
      EXPECT_EQ(index.tensors[2].dtype, "I64");
      EXPECT_EQ(index.tensors[3].dtype, "STRING");
    }
  }
}

TEST(TensorflowIndexTest, UnknownFieldsAndTypesAreNoError) {
  const std::string more = number_field(90, 1) + fixed_field(91, 2) + bytes_field(92, "x") +
                           varint(93 * 8 + 1) + std::string(8, 'x');
  const std::vector<KeyValue> entries{{"", header_message() + more},
                                      {"a", entry_message({21, {5}, "", 0, 0}) + more},
                                      {"b", more + entry_message({14, {1}, "xy", 0, 0})}};
  const TensorflowIndex index = parse_tensorflow_index(table_of_entries(entries), "f");
  EXPECT_EQ(index.tensors.at(0).dtype, "type 21");
  EXPECT_EQ(index.tensors.at(1).dtype, "BF16");
}

TEST(TensorflowIndexTest, SnappyIsReadOrThePackageIsNamed) {
  const std::string bytes = table_of_entries(sample_entries(), 2, Packing::Snappy);
  if (reads_snappy()) {
    EXPECT_EQ(parse_tensorflow_index(bytes, "f"),
              parse_tensorflow_index(table_of_entries(sample_entries(), 2), "f"));
  } else {
    EXPECT_THAT(error_of(Code::Operator, [&] { (void)parse_tensorflow_index(bytes, "f"); }),
                HasSubstr("libsnappy-dev"));
  }
}

TEST(TensorflowIndexTest, FlippedBitsAreRefusedOrWithoutEffect) {
  for (const Packing packing : {Packing::None, Packing::Snappy}) {
    if (packing == Packing::Snappy && !reads_snappy()) continue;
    const std::string bytes = table_of_entries(sample_entries(), 2, packing);
    const TensorflowIndex whole = parse_tensorflow_index(bytes, "f");
    int refused = 0;
    int same = 0;
    for (std::size_t i = 0; i < bytes.size() * 8; ++i) {
      std::string bad = bytes;
      bad[i / 8] = static_cast<char>(bad[i / 8] ^ (1 << (i % 8)));
      try {
        EXPECT_EQ(parse_tensorflow_index(bad, "f"), whole) << "bit " << i;
        ++same;
      } catch (const base::Error& error) {
        EXPECT_EQ(error.code(), Code::User);
        ++refused;
      }
    }
    // Only the footer's filling says nothing: 40 bytes, less two places of at least two bytes.
    EXPECT_LE(same, 36 * 8);
    EXPECT_GE(refused, static_cast<int>(bytes.size() - 36) * 8);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      error_of(Code::User, [&] { (void)parse_tensorflow_index(bytes.substr(0, size), "f"); });
    }
  }
}

// A table of one block, given as it is, behind a good header.
std::string with_block(const std::string& block) {
  return table_of({block_of({{"", header_message()}}), block}, {"", "zzzz"});
}
std::string with_entry(const std::string& message) {
  return with_block(block_of({{"t", message}}));
}
std::string with_header(const std::string& message) { return table_of_entries({{"", message}}); }
// A good table whose bytes from `place` on (from the end when negative) are replaced.
std::string with_bytes(std::ptrdiff_t place, const std::string& bytes) {
  std::string table = table_of_entries(sample_entries());
  if (place < 0) place += static_cast<std::ptrdiff_t>(table.size());
  return table.replace(static_cast<std::size_t>(place), bytes.size(), bytes);
}
// A sealed first block, and an index of the given handle.
std::string with_handle(const std::string& handle) {
  std::string out = sealed(block_of({{"", header_message()}}), 0);
  const std::string meta = varint(out.size()) + varint(8);
  out += sealed(block_of({}), 0);
  const std::string index = block_of({{"z", handle}});
  const std::string place = varint(out.size()) + varint(index.size());
  return out + sealed(index, 0) + tests::footer_of(meta + place);
}
std::string with_stored(const std::string& stored, int compression) {
  const std::string meta = sealed(block_of({}), 0);
  const std::string first = sealed(stored, compression);
  const std::string index = block_of({{"z", varint(meta.size()) + varint(stored.size())}});
  return meta + first + sealed(index, 0) +
         tests::footer_of(varint(0) + varint(8) + varint(meta.size() + first.size()) +
                          varint(index.size()));
}

struct BadIndex {
  std::string name;
  std::string bytes;
  std::string message;
};

const std::string kEndless(12, '\xff');
constexpr std::uint64_t kHuge = ~std::uint64_t{0};

std::vector<BadIndex> bad_tables() {
  const std::string one = raw_entry(0, "t", entry_message({1, {1}, "abcd", 0, 0}));
  const std::string two = raw_entry(1, "u", entry_message({1, {1}, "abcd", 0, 0}));
  const auto end = static_cast<std::uint32_t>(one.size());
  const std::string good = block_of(sample_entries());
  return {
      {"empty", "", "shorter than the 48 bytes"},
      {"nearly a footer", std::string(47, '\0'), "shorter than the 48 bytes"},
      {"another magic", with_bytes(-1, "\xda"), "eight bytes of a table"},
      {"footer's numbers do not end", with_bytes(-48, std::string(40, '\xff')), "do not end"},
      {"blocks beyond the end", with_bytes(-48, varint(kHuge) + varint(1)), "beyond its end"},
      {"block of every byte", with_bytes(-48, varint(0) + varint(kHuge)), "beyond its end"},
      {"block without room for its trailer", tests::footer_of(varint(0) + varint(0)),
       "beyond its end"},
      {"wrong checksum", with_bytes(3, "\x7f"), "wrong checksum in the block at byte 0"},
      {"unknown compression", with_stored(good, 2), "unknown compression, 2"},
      {"index entry that is not a place", with_handle("\xff"), "not a block's place"},
      {"index entry with more than a place", with_handle(varint(0) + varint(16) + "x"),
       "not a block's place"},
      {"index entry beyond the end", with_handle(varint(1 << 20) + varint(8)), "beyond its end"},
      {"block shorter than its restart points", with_block("abcd"), "without restart points"},
      {"no restart point", with_block(raw_block(one + "1234", {})), "0 restart points"},
      {"more restart points than bytes", with_block(one + tests::fixed32(0xFFFFFFFF)),
       "4294967295 restart points"},
      {"first restart point elsewhere", with_block(raw_block(one, {end})), "not its begin"},
      {"restart point within an entry", with_block(raw_block(one + two, {0, 2})),
       "not where an entry begins"},
      {"restart point beyond the entries", with_block(raw_block(one, {0, 9999})),
       "not where an entry begins"},
      {"restart points out of order", with_block(raw_block(one + two, {0, end + 99, end})),
       "not where an entry begins"},
      {"restart point at a shortened key", with_block(raw_block(one + two, {0, end})),
       "at a shortened key"},
      {"key that shares too much", with_block(raw_block(one + raw_entry(2, "u", ""), {0})),
       "more than there is before it"},
      {"first key that shares", with_block(raw_block(raw_entry(1, "u", ""), {0})),
       "more than there is before it"},
      {"key beyond the block", with_block(raw_block(varint(0) + varint(99) + varint(0), {0})),
       "ends beyond its block"},
      {"key of every byte", with_block(raw_block(varint(0) + varint(kHuge) + varint(1), {0})),
       "ends beyond its block"},
      {"value of every byte",
       with_block(raw_block(varint(0) + varint(1) + varint(kHuge) + "k", {0})),
       "ends beyond its block"},
      {"number that does not end", with_block(raw_block(kEndless, {0})), "does not end"},
      {"number cut short", with_block(raw_block(std::string("\0\x80", 2), {0})), "does not end"},
      {"key of 5000 bytes", with_block(block_of({{std::string(5000, 'k'), ""}})),
       "a key of 5000 bytes"},
      {"key twice", with_block(raw_block(one + one, {0, end})), "key 't' twice"},
      {"key twice in two blocks",
       table_of({block_of({{"", header_message()}, {"t", entry_message({1, {0}, "", 0, 0})}}),
                 block_of({{"t", entry_message({1, {0}, "", 0, 0})}})},
                {"t", "z"}),
       "key 't' twice"},
      {"keys out of order", with_block(raw_block(one + raw_entry(0, "s", ""), {0})),
       "key 's' out of order"},
      {"blocks out of order",
       table_of({block_of({{"", header_message()}}), block_of({{"n", ""}})}, {"o", "z"}),
       "key 'n' out of order"},
      {"key beyond its block's end",
       table_of({block_of({{"", header_message()}, {"t", entry_message({1, {0}, "", 0, 0})}})},
                {"a"}),
       "beyond its block's end"},
      {"terminal escape in a key", with_block(raw_block(raw_entry(0, "b\x1b[2J", "\xff"), {0})),
       "b\\x1b[2J"},
  };
}

std::vector<BadIndex> bad_snappy() {
  const std::string good = tests::snappy(block_of(sample_entries()));
  return {
      {"empty", with_stored("", 1), "not Snappy's"},
      {"not Snappy's", with_stored(std::string(40, '\xff'), 1), "not Snappy's"},
      {"cut short", with_stored(good.substr(0, good.size() - 1), 1), "not Snappy's"},
      {"too long", with_stored(good + std::string("\0a", 2), 1), "not Snappy's"},
      {"claims 4 GB", with_stored(varint(0xFFFFFFFF) + "abc", 1), "not Snappy's"},
      {"copy from before the begin", with_stored(varint(4) + "\x01\x09", 1), "not Snappy's"},
  };
}

std::vector<BadIndex> bad_messages() {
  const std::string type = number_field(1, 1);
  const auto shape = [](const std::vector<std::int64_t>& sizes) {
    return bytes_field(2, shape_message(sizes));
  };
  return {
      {"no header", table_of_entries({{"a", entry_message({})}}), "without a checkpoint's header"},
      {"nothing", table_of({block_of({})}, {"z"}), "an empty table"},
      {"no blocks", table_of({}, {}), "an empty table"},
      {"header is not a message", with_header("\xff"), "not a protocol buffer"},
      {"no data files", with_header(""), "names no data file"},
      {"no data files said", with_header(number_field(1, 0)), "names no data file"},
      {"100,000 data files", with_header(number_field(1, 100'000)), "number of data files, 100000"},
      {"-1 data files", with_header(number_field(1, kHuge)), "number of data files, -1"},
      {"two numbers of data files", with_header(number_field(1, 1) + number_field(1, 2)),
       "two fields for its number of data files"},
      {"big-endian", with_header(header_message() + number_field(2, 1)), "big-endian"},
      {"newer reader", with_header(number_field(1, 1) + bytes_field(3, number_field(2, 2))),
       "a reader of version 2"},
      {"version is a number", with_header(number_field(3, 1)), "version that is not a message"},
      {"entry is not a message", with_entry("\x08"), "'t' is not a protocol buffer"},
      {"field zero", with_entry(number_field(0, 1)), "not a protocol buffer"},
      {"group", with_entry("\x0b"), "not a protocol buffer"},
      {"field number of 61 bits", with_entry(varint(kHuge - 7) + "a"), "not a protocol buffer"},
      {"bytes beyond the message", with_entry("\x12\x7f"), "not a protocol buffer"},
      {"checksum cut short",
       with_entry("\x35"
                  "ab"),
       "not a protocol buffer"},
      {"no type", with_entry(shape({1})), "'t' has no type"},
      {"type is a message", with_entry(bytes_field(1, "x")), "type that is not a number"},
      {"negative type", with_entry(number_field(1, kHuge)), "impossible type, -1"},
      {"shape is a number", with_entry(type + number_field(2, 4)), "shape that is not a message"},
      {"two shapes", with_entry(type + shape({1}) + shape({1})), "two fields for its shape"},
      {"negative dimension", with_entry(type + shape({-1})), "impossible dimension, -1"},
      {"dimension is a number", with_entry(type + bytes_field(2, number_field(2, 1))),
       "dimension that is not a message"},
      {"unknown shape", with_entry(type + bytes_field(2, number_field(3, 1))), "no known shape"},
      {"17 dimensions", with_entry(type + shape(std::vector<std::int64_t>(17, 1))),
       "more than 16 dimensions"},
      {"elements beyond 63 bits", with_entry(type + shape({1LL << 40, 1LL << 40})),
       "more elements than any file"},
      {"size is not the shape's", with_entry(type + shape({3}) + number_field(5, 8)),
       "has 8 bytes, but its shape and type (F32) take 12"},
      {"negative offset", with_entry(type + number_field(4, kHuge)), "impossible offset, -1"},
      {"negative size", with_entry(type + number_field(5, kHuge)), "impossible size, -1"},
      {"end beyond 63 bits",
       with_entry(type + shape({2}) + number_field(4, kHuge / 2 - 3) + number_field(5, 8)),
       "ends beyond any file"},
      {"data file that is not there", with_entry(type + number_field(3, 1)),
       "impossible data file, 1"},
      {"checksum is a number", with_entry(type + number_field(6, 1)), "not 32 bits"},
      {"two checksums", with_entry(type + fixed_field(6, 1) + fixed_field(6, 1)),
       "two fields for its checksum"},
  };
}

TEST(TensorflowIndexTest, RefusesWhatBreaksTheFormat) {
  std::vector<BadIndex> rows = bad_tables();
  for (const BadIndex& row : bad_messages()) rows.push_back(row);
  if (reads_snappy()) {
    for (const BadIndex& row : bad_snappy()) rows.push_back(row);
  }
  for (const BadIndex& row : rows) {
    SCOPED_TRACE(row.name);
    const std::string message =
        error_of(Code::User, [&] { (void)parse_tensorflow_index(row.bytes, "the/file"); });
    EXPECT_THAT(message, HasSubstr("the/file: "));
    EXPECT_THAT(message, HasSubstr(row.message));
  }
  RecordProperty("rows", static_cast<int>(rows.size()));
}

TEST(TensorflowIndexTest, FewBytesDoNotBecomeManyInMemory) {
  // 60,000 keys of 2,000 bytes in 400 kB: each names all but one byte of the key before it.
  std::string entries = raw_entry(0, std::string(2000, 'a'), "");
  for (int i = 0; i < 60'000; ++i) {
    const std::string own{static_cast<char>('b' + i / 10'000), static_cast<char>(1 + i / 100 % 100),
                          static_cast<char>(1 + i % 100)};
    entries += raw_entry(1997, own, "");
  }
  EXPECT_THAT(error_of(Code::User,
                       [&] {
                         read_leveldb_table(table_of({raw_block(entries, {0})}, {"z"}), "f",
                                            [](std::string_view, std::string_view) {});
                       }),
              HasSubstr("more than 67.1 MB"));
}

}  // namespace
}  // namespace regatta::checkpoint
