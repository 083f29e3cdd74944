#include "checkpoint/load.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <thread>
#include <utility>

#include "base/digest.h"
#include "base/error.h"
#include "base/text.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/shards.h"

namespace regatta::checkpoint {
namespace {

using base::Code;
using base::Error;

// Small enough to be digested from the cache that it was read into.
constexpr std::size_t kBlock = std::size_t{1} << 20U;
// Below this a second thread costs more than it brings.
constexpr std::uint64_t kLarge = std::uint64_t{32} << 20U;

[[noreturn]] void fail(const std::string& source, const std::string& what) {
  throw Error(Code::User, source + ": " + what);
}

std::string quoted(const std::string& name) {
  return "tensor '" + base::printable(name.substr(0, 80)) + "'";
}

// A file read from front to back.
class Stream {
 public:
  Stream(base::FileSystem& files, base::Path path) : files_(files), path_(std::move(path)) {}

  // What of `out` the file still had, read and digested.
  std::size_t take(std::span<std::byte> out) {
    std::size_t done = 0;
    while (done < out.size()) {
      const std::span<std::byte> block = out.subspan(done, std::min(kBlock, out.size() - done));
      const std::size_t got = files_.read_into(path_, position_, block);
      digest_.update(block.first(got));
      position_ += got;
      done += got;
      if (got < block.size()) break;
    }
    return done;
  }
  // The bytes that come next and are known already.
  void pass(std::span<const std::byte> bytes) {
    digest_.update(bytes);
    position_ += bytes.size();
  }
  // What is wrong now that all of the expected bytes should have been taken.
  std::optional<std::string> damage(const std::string& name, const ManifestFile& expected) {
    std::byte beyond{};
    const bool longer = position_ == expected.bytes &&
                        files_.read_into(path_, position_, std::span(&beyond, 1)) != 0;
    if (longer || position_ != expected.bytes) {
      return name + " is " + (longer ? "longer" : "shorter") + " than the manifest says (" +
             std::to_string(expected.bytes) + " bytes)";
    }
    if (digest_.hex() != expected.digest) return name + " is damaged: its digest differs";
    return std::nullopt;
  }

 private:
  base::FileSystem& files_;
  base::Path path_;
  base::Digest digest_;
  std::uint64_t position_ = 0;
};

// The places of one kind of file, and which of their elements the files so far hold.
class Places {
 public:
  explicit Places(const std::vector<TensorPlace>& places) {
    for (const TensorPlace& place : places) {
      const auto element = dtype_bytes(place.dtype);
      base::check(element.has_value(), "a place has a type of the format");
      std::int64_t elements = 1;
      for (const std::int64_t size : place.shape) elements *= size;
      base::check(place.bytes.size() == static_cast<std::size_t>(elements * *element),
                  "a place is as large as its type and shape say");
      const Room room{&place, elements, static_cast<std::size_t>(*element), {}};
      base::check(rooms_.emplace(place.name, room).second, "a tensor has one place");
    }
  }

  // Where a file's tensor goes.
  std::span<std::byte> assign(const TensorInfo& tensor, const std::string& source) {
    const auto whole = rooms_.find(tensor.name);
    if (whole != rooms_.end()) {
      Room& room = whole->second;
      if (tensor.dtype != room.place->dtype || tensor.shape != room.place->shape) {
        fail(source, quoted(tensor.name) + " is of another type or shape than the run's");
      }
      room.parts.emplace_back(0, room.elements);
      return room.place->bytes;
    }
    const auto range = parse_range_name(tensor.name);
    const auto found = range ? rooms_.find(range->tensor) : rooms_.end();
    if (found == rooms_.end()) fail(source, quoted(tensor.name) + " is not the run's");
    Room& room = found->second;
    const std::vector<std::int64_t> shape{range->end - range->begin};
    if (tensor.dtype != room.place->dtype || tensor.shape != shape || range->end > room.elements) {
      fail(source, quoted(tensor.name) + " is of another type or size than the run's");
    }
    room.parts.emplace_back(range->begin, range->end);
    const auto bytes = [&](std::int64_t elements) {
      return static_cast<std::size_t>(elements) * room.element_bytes;
    };
    return room.place->bytes.subspan(bytes(range->begin), bytes(range->end - range->begin));
  }

  // Every element has to come from one place: names those that may be absent and are.
  void check_whole(const std::string& source, std::vector<std::string>* absent) {
    for (auto& [name, room] : rooms_) {
      if (room.parts.empty() && room.place->may_be_absent) {
        absent->push_back(name);
        continue;
      }
      if (room.parts.empty()) fail(source, "there is no " + quoted(name));
      std::sort(room.parts.begin(), room.parts.end());
      std::int64_t end = 0;
      bool twice = room.elements == 0 && room.parts.size() > 1;
      for (const auto& [from, to] : room.parts) {
        if (from > end) fail(source, missing(name, end, from));
        twice = twice || from < end;
        end = to;
      }
      if (twice) fail(source, quoted(name) + " stands twice");
      if (end < room.elements) fail(source, missing(name, end, room.elements));
    }
  }

 private:
  struct Room {
    const TensorPlace* place;
    std::int64_t elements;
    std::size_t element_bytes;
    std::vector<std::pair<std::int64_t, std::int64_t>> parts;  // elements [from, to)
  };

  static std::string missing(const std::string& name, std::int64_t from, std::int64_t to) {
    return "elements " + std::to_string(from) + " to " + std::to_string(to - 1) + " of " +
           quoted(name) + " are missing";
  }

  std::map<std::string, Room> rooms_;
};

struct File {
  std::string name;
  ManifestFile expected;
  bool shard = false;  // else only digested
  SafetensorsFront front;
  std::vector<std::span<std::byte>> targets;  // of its tensors, in their order
};

void stream(base::FileSystem& files, const base::Path& directory, const File& file) {
  const base::Path path = directory / file.name;
  std::optional<std::string> damage;
  if (file.shard) {
    Stream stream(files, path);
    const std::uint64_t length = file.front.json.size();
    stream.pass(std::as_bytes(std::span(&length, 1)));
    stream.pass(std::as_bytes(std::span(file.front.json)));
    for (const std::span<std::byte> target : file.targets) {
      if (stream.take(target) < target.size()) break;
    }
    damage = stream.damage(file.name, file.expected);
  } else {
    damage = file_damage(files, path, file.name, file.expected);
  }
  if (damage) throw Error(Code::User, *damage);
}

// Calls `work` with 0 … count − 1, from two threads when `both`, and throws what the first of them
// threw, by number.
template <typename Work>
void for_each(std::size_t count, bool both, const Work& work) {
  std::vector<std::exception_ptr> errors(count);
  std::atomic<std::size_t> next{0};
  const auto loop = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  };
  {
    std::jthread helper;
    if (both) helper = std::jthread(loop);
    loop();
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace

std::optional<std::string> file_damage(base::FileSystem& files, const base::Path& path,
                                       const std::string& name, const ManifestFile& expected) {
  Stream stream(files, path);
  std::vector<std::byte> block(std::min<std::uint64_t>(kBlock, expected.bytes));
  std::uint64_t left = expected.bytes;
  while (left > 0) {
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(block.size(), left));
    if (stream.take(std::span(block).first(wanted)) < wanted) break;
    left -= wanted;
  }
  return stream.damage(name, expected);
}

std::vector<std::string> load_files(base::FileSystem& files, const base::Path& directory,
                                    const Manifest& manifest, const std::vector<TensorPlace>& model,
                                    const std::vector<TensorPlace>& optimizer) {
  Places model_places(model);
  Places optimizer_places(optimizer);
  std::vector<File> all;
  for (const auto& [name, expected] : manifest.files) {
    File& file = all.emplace_back();
    file.name = name;
    file.expected = expected;
    const auto shard = parse_shard_file(name);
    if (!shard) continue;
    file.shard = true;
    file.front = read_safetensors_front(files, directory / name);
    const std::uint64_t begin = file.front.data_begin;
    if (expected.bytes < begin || expected.bytes - begin != file.front.header.data_bytes) {
      fail(name, "is not of the size that the manifest says (" + std::to_string(expected.bytes) +
                     " bytes); the file is damaged");
    }
    Places& places = shard->kind == kModel ? model_places : optimizer_places;
    for (const TensorInfo& tensor : file.front.header.tensors) {
      file.targets.push_back(places.assign(tensor, name));
    }
  }
  std::vector<std::string> absent;
  model_places.check_whole(kModel, &absent);
  optimizer_places.check_whole(kOptimizer, &absent);

  // The largest first, so that the two threads end together.
  std::stable_sort(all.begin(), all.end(), [](const File& a, const File& b) {
    return a.expected.bytes > b.expected.bytes;
  });
  std::uint64_t bytes = 0;
  for (const File& file : all) bytes += file.expected.bytes;
  for_each(all.size(), bytes >= kLarge && all.size() > 1,
           [&](std::size_t i) { stream(files, directory, all[i]); });
  return absent;
}

}  // namespace regatta::checkpoint
