// Reading sorted tables in LevelDB's format (https://github.com/google/leveldb,
// its table format), as TensorFlow 1 writes its .index files: bytewise order, no internal keys.
// docs/formats/checkpoint.md gives the bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace regatta::checkpoint {

// Takes a number of seven bits per byte, lowest first, off the front of `in`; nothing when `in`
// ends within it or it does not fit 64 bits.
[[nodiscard]] std::optional<std::uint64_t> take_varint(std::string_view* in);

// Whether this build can read blocks that are compressed with Snappy.
[[nodiscard]] bool reads_snappy();

// Calls `visit` for every entry of the table, keys strictly ascending; both views end with the
// call. Throws Code::User naming `source` for anything that breaks the format: checksums, bounds,
// order, keys of more than 4096 bytes, more than 64 MiB of blocks or of keys. Code::Operator when
// a block needs Snappy and this build lacks it. What `visit` throws passes through.
void read_leveldb_table(
    std::string_view bytes, const std::string& source,
    const std::function<void(std::string_view key, std::string_view value)>& visit);

}  // namespace regatta::checkpoint
