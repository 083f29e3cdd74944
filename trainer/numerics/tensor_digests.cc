#include "trainer/numerics/tensor_digests.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>

#include "base/digest.h"
#include "base/error.h"
#include "trainer/model/input_feed.h"

namespace regatta::trainer::numerics {
namespace {

using model::kCompute;
constexpr std::int64_t kChunk = std::int64_t{1} << 20;  // elements on the host at a time
constexpr std::size_t kDigits = 16;                     // of 64 bits

std::uint64_t number_of(const base::Digest& digest) {
  const std::string hex = digest.hex();
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(hex.data(), hex.data() + kDigits, number, 16);
  base::check(error == std::errc{} && end == hex.data() + kDigits, "a digest is hexadecimal");
  return number;
}

void add(const float* values, std::int64_t count, base::Digest* digest) {
  digest->update(std::as_bytes(std::span(values, static_cast<std::size_t>(count))));
}

}  // namespace

TensorDigests tensor_digests(device::Device& device, device::View arena,
                             const contract::TensorTable& table) {
  std::optional<device::HostMemory> memory;
  if (!device.is_on_host()) memory.emplace(device, 4 * kChunk);
  device.wait_host(device.record(kCompute));
  TensorDigests digests;
  for (const contract::TensorEntry& tensor : table.tensors) {
    base::Digest digest;
    if (!memory) {
      add(arena.floats() + tensor.offset, tensor.size, &digest);
    } else {
      for (std::int64_t begin = 0; begin < tensor.size; begin += kChunk) {
        const std::int64_t count = std::min(kChunk, tensor.size - begin);
        device.copy_to_host(kCompute, memory->floats(), arena.slice(tensor.offset + begin, count));
        device.wait_host(device.record(kCompute));
        add(memory->floats(), count, &digest);
      }
    }
    digests.push_back(number_of(digest));
  }
  return digests;
}

std::uint64_t digest_of(const TensorDigests& digests) {
  base::Digest digest;
  digest.update(std::as_bytes(std::span(digests)));
  return number_of(digest);
}

}  // namespace regatta::trainer::numerics
