#include "checkpoint/leveldb_table.h"

#include <bit>
#include <cstring>
#include <limits>
#ifdef REGATTA_HAVE_SNAPPY
#include <snappy-c.h>
#endif

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/crc32c.h"

namespace regatta::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are read as they lie");

constexpr std::size_t kFooterBytes = 48;
constexpr std::uint64_t kMagic = 0xDB4775248B80FB57U;
constexpr std::size_t kTrailerBytes = 5;  // compression, checksum
constexpr std::size_t kMaxKey = 4096;
// A few bytes can stand for a long key or a long block, so what comes out is bounded as well.
constexpr std::uint64_t kMaxUnpacked = std::uint64_t{64} << 20U;

enum class Compression : std::uint8_t { None = 0, Snappy = 1 };

// Bytes of a block in the file, without its trailer.
struct BlockHandle {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

std::uint32_t read_u32(std::string_view bytes) {
  std::uint32_t value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

std::optional<BlockHandle> take_handle(std::string_view* in) {
  const auto offset = take_varint(in);
  const auto size = offset ? take_varint(in) : std::nullopt;
  if (!size) return std::nullopt;
  return BlockHandle{*offset, *size};
}

class Table {
 public:
  using Visit = std::function<void(std::string_view key, std::string_view value)>;

  Table(std::string_view bytes, const std::string& source) : bytes_(bytes), source_(source) {}

  void read(const Visit& visit) {
    require(bytes_.size() >= kFooterBytes, "is shorter than the 48 bytes of a footer");
    std::string_view footer = bytes_.substr(bytes_.size() - kFooterBytes);
    std::uint64_t magic = 0;
    std::memcpy(&magic, footer.data() + kFooterBytes - sizeof magic, sizeof magic);
    require(magic == kMagic, "does not end with the eight bytes of a table");
    footer.remove_suffix(sizeof magic);
    const auto meta = take_handle(&footer);
    const auto index = meta ? take_handle(&footer) : std::nullopt;
    require(index.has_value(), "has a footer whose numbers do not end");
    // Says nothing of use here, but damage in it is damage of the file.
    walk(block(*meta), [](std::string_view, std::string_view) {});
    read_blocks(block(*index), visit);
  }

 private:
  void require(bool good, const std::string& what) const {
    if (!good) {
      throw base::Error(base::Code::User, source_ + ": " + what + "; the file is damaged");
    }
  }

  // The index's key of a block is not below the block's last key and below the next block's first.
  void read_blocks(const std::string& index, const Visit& visit) {
    std::uint64_t end = 0;
    std::optional<std::string> last;  // the greatest key so far, the index's keys included
    walk(index, [&](std::string_view separator, std::string_view value) {
      const auto handle = take_handle(&value);
      require(handle.has_value() && value.empty(),
              "has an index entry that is not a block's place");
      require(handle->offset >= end, "has a block that overlaps the one before it");
      walk(block(*handle), [&](std::string_view key, std::string_view inner) {
        if (last) require_above(key, *last);
        last = key;
        visit(key, inner);
      });
      require(!last || *last <= separator, "has a key beyond its block's end");
      last = separator;
      end = handle->offset + handle->size + kTrailerBytes;
    });
  }

  void require_above(std::string_view key, std::string_view last) const {
    if (key > last) return;
    const std::string name = "'" + base::printable(key.substr(0, 80)) + "'";
    require(false, key == last ? "has the key " + name + " twice"
                               : "has the key " + name + " out of order");
  }

  // The block's contents, checked and decompressed.
  std::string block(const BlockHandle& handle) {
    const std::uint64_t room = bytes_.size() - kFooterBytes;
    require(handle.offset <= room && room - handle.offset >= kTrailerBytes &&
                handle.size <= room - handle.offset - kTrailerBytes,
            "has a block of " + std::to_string(handle.size) + " bytes at byte " +
                std::to_string(handle.offset) + ", beyond its end");
    const std::string where = "block at byte " + std::to_string(handle.offset);
    const std::string_view stored = bytes_.substr(handle.offset, handle.size + kTrailerBytes);
    const std::uint32_t sum = crc32c(stored.substr(0, handle.size + 1));
    require(read_u32(stored.substr(handle.size + 1)) == masked_crc32c(sum),
            "has a wrong checksum in the " + where);
    const std::string_view contents = stored.substr(0, handle.size);
    const auto type = static_cast<std::uint8_t>(stored[handle.size]);
    if (type == static_cast<std::uint8_t>(Compression::Snappy)) return unpack(contents, where);
    require(type == static_cast<std::uint8_t>(Compression::None),
            "has an unknown compression, " + std::to_string(type) + ", in the " + where);
    count(contents.size(), &unpacked_);
    return std::string(contents);
  }

  std::string unpack([[maybe_unused]] std::string_view contents,
                     [[maybe_unused]] const std::string& where) {
#ifdef REGATTA_HAVE_SNAPPY
    std::size_t size = 0;
    const std::string what = "has bytes that are not Snappy's in the " + where;
    require(snappy_uncompressed_length(contents.data(), contents.size(), &size) == SNAPPY_OK, what);
    // No element of the format yields more than 64 bytes for 3, so a longer claim costs no memory.
    require(size <= 32 * contents.size(), what);
    count(size, &unpacked_);
    std::string out(size, '\0');
    require(snappy_uncompress(contents.data(), contents.size(), out.data(), &size) == SNAPPY_OK,
            what);
    out.resize(size);
    return out;
#else
    throw base::Error(base::Code::Operator,
                      source_ +
                          ": is compressed with Snappy, which this build cannot read; install "
                          "libsnappy-dev, configure again and build");
#endif
  }

  void count(std::uint64_t bytes, std::uint64_t* total) const {
    *total += bytes;
    require(*total <= kMaxUnpacked, "holds more than " + base::human_bytes(kMaxUnpacked));
  }

  // Entries from the front, restart points from the back, their number last.
  void walk(const std::string& contents, const Visit& visit) {
    const std::string_view all = contents;
    require(all.size() >= 8, "has a block without restart points");
    const std::uint64_t restarts = read_u32(all.substr(all.size() - 4));
    require(restarts >= 1 && restarts <= (all.size() - 4) / 4,
            "has a block with " + std::to_string(restarts) + " restart points");
    const std::size_t end = all.size() - 4 - 4 * static_cast<std::size_t>(restarts);
    const auto restart = [&](std::size_t i) { return read_u32(all.substr(end + 4 * i)); };
    require(restart(0) == 0, "has a block whose first restart point is not its begin");
    std::size_t next = 0;  // the restart point to come
    std::string key;
    bool first = true;
    std::string_view rest = all.substr(0, end);
    while (!rest.empty()) {
      const std::size_t place = end - rest.size();
      const bool restarts_here = next < restarts && restart(next) == place;
      if (restarts_here) ++next;
      const std::string last = key;
      const std::string_view value = take_entry(&rest, restarts_here, &key);
      if (!first) require_above(key, last);
      first = false;
      visit(key, value);
    }
    require(next == restarts || (first && restarts == 1),
            "has a restart point that is not where an entry begins");
  }

  std::uint64_t take_number(std::string_view* in) const {
    const auto number = take_varint(in);
    require(number.has_value(), "has an entry with a number that does not end");
    return number.value_or(0);
  }

  // Takes an entry off the front of `rest`; `key` is the key before it and becomes its own.
  std::string_view take_entry(std::string_view* rest, bool restarts_here, std::string* key) {
    const std::uint64_t shared = take_number(rest);
    const std::uint64_t own = take_number(rest);
    const std::uint64_t length = take_number(rest);
    require(own <= rest->size() && length <= rest->size() - own,
            "has an entry that ends beyond its block");
    require(shared <= key->size(), "has a key that shares more than there is before it");
    require(!restarts_here || shared == 0, "has a restart point at a shortened key");
    require(shared + own <= kMaxKey, "has a key of " + std::to_string(shared + own) + " bytes");
    count(shared + own, &keys_);
    key->resize(static_cast<std::size_t>(shared));
    key->append(rest->substr(0, static_cast<std::size_t>(own)));
    const std::string_view value =
        rest->substr(static_cast<std::size_t>(own), static_cast<std::size_t>(length));
    rest->remove_prefix(static_cast<std::size_t>(own + length));
    return value;
  }

  std::string_view bytes_;
  const std::string& source_;
  std::uint64_t unpacked_ = 0;  // bytes of blocks so far
  std::uint64_t keys_ = 0;      // bytes of keys so far
};

}  // namespace

std::optional<std::uint64_t> take_varint(std::string_view* in) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !in->empty(); shift += 7) {
    const auto byte = static_cast<std::uint8_t>(in->front());
    in->remove_prefix(1);
    if (shift == 63 && byte > 1) return std::nullopt;
    value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
    if ((byte & 0x80U) == 0) return value;
  }
  return std::nullopt;
}

bool reads_snappy() {
#ifdef REGATTA_HAVE_SNAPPY
  return true;
#else
  return false;
#endif
}

void read_leveldb_table(
    std::string_view bytes, const std::string& source,
    const std::function<void(std::string_view key, std::string_view value)>& visit) {
  Table(bytes, source).read(visit);
}

}  // namespace regatta::checkpoint
