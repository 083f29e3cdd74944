// Writes tables and TensorFlow indexes piece by piece, good ones and bad ones, sharing nothing with
// the reader but the checksum.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/crc32c.h"

namespace regatta::tests {

inline std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 128; value /= 128) out += static_cast<char>(value % 128 + 128);
  return out + static_cast<char>(value);
}

inline std::string fixed32(std::uint32_t value) {
  std::string out(4, '\0');
  std::memcpy(out.data(), &value, 4);
  return out;
}

// Protocol buffers: a number, four bytes, or bytes with their length.
inline std::string number_field(std::uint64_t field, std::uint64_t value) {
  return varint(field * 8) + varint(value);
}
inline std::string fixed_field(std::uint64_t field, std::uint32_t value) {
  return varint(field * 8 + 5) + fixed32(value);
}
inline std::string bytes_field(std::uint64_t field, std::string_view bytes) {
  return varint(field * 8 + 2) + varint(bytes.size()) + std::string(bytes);
}

inline std::string shape_message(const std::vector<std::int64_t>& shape) {
  std::string out;
  for (const std::int64_t size : shape) {
    out += bytes_field(2, number_field(1, static_cast<std::uint64_t>(size)));
  }
  return out;
}

struct SampleTensor {
  int type = 1;  // float32
  std::vector<std::int64_t> shape;
  std::string bytes;
  std::uint64_t shard = 0;
  std::uint64_t offset = 0;
};

inline std::string entry_message(const SampleTensor& tensor) {
  return number_field(1, static_cast<std::uint64_t>(tensor.type)) +
         bytes_field(2, shape_message(tensor.shape)) + number_field(3, tensor.shard) +
         number_field(4, tensor.offset) + number_field(5, tensor.bytes.size()) +
         fixed_field(6, checkpoint::masked_crc32c(checkpoint::crc32c(tensor.bytes)));
}

inline std::string header_message(std::uint64_t shards = 1) {
  return number_field(1, shards) + bytes_field(3, number_field(1, 1));
}

// One entry of a block: `shared` bytes of the key before it, then its own.
inline std::string raw_entry(std::uint64_t shared, std::string_view own, std::string_view value) {
  return varint(shared) + varint(own.size()) + varint(value.size()) + std::string(own) +
         std::string(value);
}

inline std::string raw_block(const std::string& entries,
                             const std::vector<std::uint32_t>& restarts) {
  std::string out = entries;
  for (const std::uint32_t restart : restarts) out += fixed32(restart);
  return out + fixed32(static_cast<std::uint32_t>(restarts.size()));
}

struct KeyValue {
  std::string key;
  std::string value;
};

// As LevelDB writes it, a restart point before every `interval`-th entry.
inline std::string block_of(const std::vector<KeyValue>& entries, std::size_t interval = 16) {
  std::string out;
  std::vector<std::uint32_t> restarts;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    std::size_t shared = 0;
    if (i % interval == 0) {
      restarts.push_back(static_cast<std::uint32_t>(out.size()));
    } else {
      const std::string& last = entries[i - 1].key;
      while (shared < last.size() && shared < entries[i].key.size() &&
             last[shared] == entries[i].key[shared]) {
        ++shared;
      }
    }
    out += raw_entry(shared, std::string_view(entries[i].key).substr(shared), entries[i].value);
  }
  if (restarts.empty()) restarts.push_back(0);
  return raw_block(out, restarts);
}

// Snappy's format by hand: the length; literals of at most 60 bytes, and a copy of four bytes or
// more wherever the last 2047 bytes hold the same eight.
inline std::string snappy(std::string_view text) {
  std::string out = varint(text.size());
  std::string literal;
  const auto flush = [&] {
    if (literal.empty()) return;
    out += static_cast<char>((literal.size() - 1) * 4);
    out += literal;
    literal.clear();
  };
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t before = i == 0 || i + 8 > text.size() ? std::string_view::npos
                                                             : text.rfind(text.substr(i, 8), i - 1);
    if (before != std::string_view::npos && i - before < 2048) {
      flush();
      const std::size_t distance = i - before;
      out += static_cast<char>(1 + (8 - 4) * 4 + (distance >> 8U) * 32);
      out += static_cast<char>(distance & 0xFFU);
      i += 8;
    } else {
      literal += text[i++];
      if (literal.size() == 60) flush();
    }
  }
  flush();
  return out;
}

inline std::string sealed(std::string contents, int compression) {
  contents += static_cast<char>(compression);
  return contents + fixed32(checkpoint::masked_crc32c(checkpoint::crc32c(contents)));
}

inline std::string footer_of(const std::string& handles) {
  std::string out = handles;
  out.resize(40, '\0');
  return out + std::string("\x57\xfb\x80\x8b\x24\x75\x47\xdb", 8);
}

template <typename Values>
inline std::string bytes_of(const Values& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0])};
}

enum class Packing : std::uint8_t { None, Snappy };

// A whole table of blocks that are given as they are; `separators` are the index's keys.
inline std::string table_of(const std::vector<std::string>& blocks,
                            const std::vector<std::string>& separators,
                            Packing packing = Packing::None) {
  std::string out;
  const auto append = [&](const std::string& contents) {
    const std::string stored = packing == Packing::Snappy ? snappy(contents) : contents;
    const std::string handle = varint(out.size()) + varint(stored.size());
    out += sealed(stored, packing == Packing::Snappy ? 1 : 0);
    return handle;
  };
  std::vector<KeyValue> index;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    index.push_back({separators[i], append(blocks[i])});
  }
  const std::string meta = append(block_of({}));
  return out + footer_of(meta + append(block_of(index, 1)));
}

// A table of sorted entries, `per_block` of them in each block.
inline std::string table_of_entries(const std::vector<KeyValue>& entries,
                                    std::size_t per_block = 1000, Packing packing = Packing::None) {
  std::vector<std::string> blocks;
  std::vector<std::string> separators;
  for (std::size_t i = 0; i < entries.size(); i += per_block) {
    const std::size_t end = std::min(i + per_block, entries.size());
    blocks.push_back(block_of({entries.begin() + static_cast<std::ptrdiff_t>(i),
                               entries.begin() + static_cast<std::ptrdiff_t>(end)},
                              3));
    separators.push_back(entries[end - 1].key);
  }
  return table_of(blocks, separators, packing);
}

}  // namespace regatta::tests
