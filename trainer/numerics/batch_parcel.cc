#include "trainer/numerics/batch_parcel.h"

#include <cstdint>
#include <cstring>

#include "base/error.h"

namespace regatta::trainer::numerics {
namespace {

// One list of fields serves both ways.
template <typename Archive, typename Batch>
void fields(Archive& archive, Batch& batch) {
  archive(batch.ids);
  archive(batch.types);
  archive(batch.ordinals);
  archive(batch.positions);
  archive(batch.sorted);
  archive(batch.cumulative);
  archive(batch.masked_rows);
  archive(batch.masked_labels);
  archive(batch.first_rows);
  archive(batch.sample_labels);
  archive(batch.answers);
  archive(batch.values);
}

class Packer {
 public:
  void number(std::int64_t value) { bytes(&value, sizeof value); }
  template <typename Element>
  void operator()(const std::vector<Element>& list) {
    number(std::ssize(list));
    bytes(list.data(), list.size() * sizeof(Element));
  }
  [[nodiscard]] std::vector<std::byte> take() { return std::move(parcel_); }

 private:
  void bytes(const void* from, std::size_t count) {
    const auto* begin = static_cast<const std::byte*>(from);
    parcel_.insert(parcel_.end(), begin, begin + count);
  }
  std::vector<std::byte> parcel_;
};

class Unpacker {
 public:
  explicit Unpacker(std::span<const std::byte> parcel) : left_(parcel) {}

  // In [0, limit].
  [[nodiscard]] std::int64_t number(std::int64_t limit) {
    std::int64_t value = 0;
    bytes(&value, sizeof value);
    if (value < 0 || value > limit) damaged();
    return value;
  }
  template <typename Element>
  void operator()(std::vector<Element>& list) {
    const std::int64_t count = number(std::ssize(left_) / std::int64_t{sizeof(Element)});
    list.resize(static_cast<std::size_t>(count));
    bytes(list.data(), list.size() * sizeof(Element));
  }
  [[nodiscard]] std::int64_t left() const { return std::ssize(left_); }
  [[noreturn]] static void damaged() {
    throw base::Error(base::Code::Retry,
                      "another rank's samples arrived damaged; the attempt has to start again");
  }

 private:
  void bytes(void* to, std::size_t count) {
    if (count > left_.size()) damaged();
    if (count > 0) std::memcpy(to, left_.data(), count);
    left_ = left_.subspan(count);
  }
  std::span<const std::byte> left_;
};

}  // namespace

std::vector<std::byte> pack_batches(const std::vector<samples::PackedBatch>& batches) {
  Packer packer;
  packer.number(std::ssize(batches));
  for (const samples::PackedBatch& batch : batches) {
    packer.number(batch.max_length);
    fields(packer, batch);
  }
  return packer.take();
}

std::vector<samples::PackedBatch> unpack_batches(std::span<const std::byte> parcel) {
  Unpacker unpacker(parcel);
  std::vector<samples::PackedBatch> batches(
      static_cast<std::size_t>(unpacker.number(std::ssize(parcel))));
  for (samples::PackedBatch& batch : batches) {
    batch.max_length = unpacker.number(std::ssize(parcel));
    fields(unpacker, batch);
  }
  if (unpacker.left() > 0) Unpacker::damaged();
  return batches;
}

}  // namespace regatta::trainer::numerics
