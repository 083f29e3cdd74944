#include "trainer/samples/sample_parcel.h"

#include <bit>
#include <limits>
#include <string>
#include <string_view>

#include "base/digest.h"
#include "base/error.h"

namespace regatta::trainer::samples {
namespace {

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class Writer {
 public:
  void number(std::uint64_t value) {
    for (; value >= 128; value >>= 7U) bytes_.push_back(static_cast<std::byte>(value | 128U));
    bytes_.push_back(static_cast<std::byte>(value));
  }
  void piece(std::int32_t value) { number(static_cast<std::uint32_t>(value)); }
  void pieces(const std::vector<std::int32_t>& values) {
    for (const std::int32_t value : values) piece(value);
  }
  [[nodiscard]] std::vector<std::byte> finish() {
    const std::string digest = base::digest_of(text_of(bytes_));
    for (std::size_t i = 0; i < kParcelDigest; ++i) bytes_.push_back(std::byte(digest[i]));
    return std::move(bytes_);
  }

 private:
  std::vector<std::byte> bytes_;
};

[[noreturn]] void damaged(const std::string& what) {
  throw base::Error(base::Code::Retry, "samples from another rank arrived damaged: " + what);
}

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  [[nodiscard]] std::uint64_t number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 63; shift += 7) {
      if (bytes_.empty()) damaged("they end early");
      const auto byte = static_cast<std::uint8_t>(bytes_.front());
      bytes_ = bytes_.subspan(1);
      value |= std::uint64_t{byte & 127U} << shift;
      if (byte < 128) return value;
    }
    damaged("a number has more than 63 bits");
  }
  // In [0, limit].
  [[nodiscard]] std::int32_t up_to(std::int64_t limit, const char* what) {
    const std::uint64_t value = number();
    if (value > static_cast<std::uint64_t>(limit)) {
      damaged(std::string(what) + " " + std::to_string(value) + " is above " +
              std::to_string(limit));
    }
    return static_cast<std::int32_t>(value);
  }
  [[nodiscard]] std::int32_t piece() {
    const std::uint64_t value = number();
    if (value > std::numeric_limits<std::uint32_t>::max()) damaged("a piece has over 32 bits");
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(value));
  }
  [[nodiscard]] bool at_end() const { return bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
};

void write_sample(const Sample& sample, Writer* writer) {
  base::check(sample.types.size() == sample.ids.size() &&
                  sample.masked_labels.size() == sample.masked_positions.size(),
              "a sample's parts fit together");
  writer->piece(sample.sample_label);
  writer->piece(sample.answer_begin);
  writer->piece(sample.answer_end);
  writer->piece(std::bit_cast<std::int32_t>(sample.value));
  writer->number(sample.ids.size());
  writer->pieces(sample.ids);
  for (std::size_t begin = 0, end = 0; begin < sample.types.size(); begin = end) {
    while (end < sample.types.size() && sample.types[end] == sample.types[begin]) ++end;
    writer->piece(sample.types[begin]);
    writer->number(end - begin);
  }
  writer->number(sample.masked_positions.size());
  std::int32_t last = -1;
  for (const std::int32_t position : sample.masked_positions) {
    base::check(position > last, "masked positions ascend");
    writer->piece(position - last);
    last = position;
  }
  writer->pieces(sample.masked_labels);
}

Sample read_sample(std::int32_t max_length, Reader* reader) {
  Sample sample;
  sample.sample_label = reader->piece();
  sample.answer_begin = reader->piece();
  sample.answer_end = reader->piece();
  sample.value = std::bit_cast<float>(reader->piece());
  const std::int32_t length = reader->up_to(max_length, "length");
  for (std::int32_t i = 0; i < length; ++i) sample.ids.push_back(reader->piece());
  while (std::ssize(sample.types) < length) {
    const std::int32_t type = reader->piece();
    const std::int32_t count =
        reader->up_to(length - std::ssize(sample.types), "tokens of a segment");
    if (count == 0) damaged("a segment is empty");
    sample.types.insert(sample.types.end(), static_cast<std::size_t>(count), type);
  }
  const std::int32_t masked = reader->up_to(length, "number of masked positions");
  std::int32_t position = -1;
  for (std::int32_t i = 0; i < masked; ++i) {
    const std::int32_t step = reader->up_to(length - 1 - position, "masked position");
    if (step == 0) damaged("a position is masked twice");
    position += step;
    sample.masked_positions.push_back(position);
  }
  for (std::int32_t i = 0; i < masked; ++i) sample.masked_labels.push_back(reader->piece());
  return sample;
}

}  // namespace

std::vector<std::byte> make_parcel(std::int64_t step, const std::vector<PlacedSample>& samples) {
  Writer writer;
  writer.number(static_cast<std::uint64_t>(step));
  writer.number(samples.size());
  for (const PlacedSample& placed : samples) {
    writer.piece(placed.place);
    write_sample(placed.sample, &writer);
  }
  return writer.finish();
}

std::vector<PlacedSample> open_parcel(std::span<const std::byte> parcel, std::int64_t step,
                                      std::span<const std::int32_t> places,
                                      std::int32_t max_length) {
  if (parcel.size() < kParcelDigest) {
    damaged("only " + std::to_string(parcel.size()) + " bytes came");
  }
  const std::span<const std::byte> content = parcel.first(parcel.size() - kParcelDigest);
  if (base::digest_of(text_of(content)).substr(0, kParcelDigest) !=
      text_of(parcel.last(kParcelDigest))) {
    damaged("their digest does not fit");
  }
  Reader reader(content);
  const std::uint64_t sent_step = reader.number();
  if (sent_step != static_cast<std::uint64_t>(step)) {
    damaged("they are of step " + std::to_string(sent_step) + ", not " + std::to_string(step));
  }
  const std::uint64_t count = reader.number();
  if (count != places.size()) {
    damaged(std::to_string(count) + " came instead of " + std::to_string(places.size()));
  }
  std::vector<PlacedSample> samples;
  for (const std::int32_t place : places) {
    const std::int32_t sent_place = reader.piece();
    if (sent_place != place) {
      damaged("one is for place " + std::to_string(sent_place) + ", not " + std::to_string(place));
    }
    samples.push_back({place, read_sample(max_length, &reader)});
  }
  if (!reader.at_end()) damaged("bytes are left over");
  return samples;
}

}  // namespace regatta::trainer::samples
