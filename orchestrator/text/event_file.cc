#include "orchestrator/text/event_file.h"

#include <bit>
#include <nlohmann/json.hpp>

#include "checkpoint/crc32c.h"

namespace regatta::orchestrator::text {
namespace {

using Json = nlohmann::ordered_json;

// The fields of tensorflow/core/util/event.proto and framework/summary.proto that are written.
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;  // Event
constexpr int kValue = 1;                                                                 // Summary
constexpr int kTag = 1, kSimpleValue = 2;       // Summary.Value
constexpr int kStatus = 1, kStatusOfStart = 1;  // SessionLog

enum Wire { kVarint = 0, kEight = 1, kBytes = 2, kFour = 5 };

std::string little_endian(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xFFU);
  return text;
}

std::string varint(std::uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7U) text += static_cast<char>(value | 0x80U);
  return text + static_cast<char>(value);
}
std::string head_of(int field, Wire wire) {
  return varint(static_cast<std::uint64_t>(field) << 3U | static_cast<std::uint64_t>(wire));
}
std::string bytes_field(int field, std::string_view bytes) {
  return head_of(field, kBytes) + varint(bytes.size()) + std::string(bytes);
}
std::string double_field(int field, double value) {
  return head_of(field, kEight) + little_endian(std::bit_cast<std::uint64_t>(value), 8);
}
std::string float_field(int field, float value) {
  return head_of(field, kFour) + little_endian(std::bit_cast<std::uint32_t>(value), 4);
}
std::string integer_field(int field, std::int64_t value) {
  return head_of(field, kVarint) + varint(static_cast<std::uint64_t>(value));
}

// Of what kind of row, its key and its tag.
struct Scalar {
  std::string_view type, key, tag;
};
constexpr Scalar kScalars[] = {
    {"step", "loss", "train/loss"},
    {"step", "mlm_loss", "train/mlm_loss"},
    {"step", "goodput", "train/goodput"},
    {"step", "mfu", "train/mfu"},
    {"step", "learning_rate", "train/learning_rate"},
    {"evaluation", "mlm_accuracy", "eval/mlm_accuracy"},
    {"evaluation", "mlm_loss", "eval/mlm_loss"},
};

double number_at(const Json& row, std::string_view key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_number() ? found->get<double>() : 0;
}

std::string value_of(std::string_view tag, double value) {
  return bytes_field(kValue,
                     bytes_field(kTag, tag) + float_field(kSimpleValue, static_cast<float>(value)));
}

std::string summary_of(const Json& row) {
  const std::string type = row.value("type", "");
  std::string summary;
  for (const Scalar& scalar : kScalars) {
    if (type != scalar.type) continue;
    const auto found = row.find(scalar.key);
    if (found == row.end() || !found->is_number()) continue;
    summary += value_of(scalar.tag, found->get<double>());
  }
  // Of another task than pre-training: each under its name.
  const auto metrics = row.find("metrics");
  if (type == "evaluation" && metrics != row.end() && metrics->is_object()) {
    for (const auto& [name, value] : metrics->items()) {
      if (value.is_number()) summary += value_of("eval/" + name, value.get<double>());
    }
  }
  const double seconds = number_at(row, "step_seconds");
  if (type == "step" && seconds > 0) {
    summary += value_of("train/samples_per_second", number_at(row, "samples") / seconds);
  }
  return summary;
}

}  // namespace

std::string tfrecord(std::string_view bytes) {
  const std::string length = little_endian(bytes.size(), 8);
  const auto check = [](std::string_view of) {
    return little_endian(checkpoint::masked_crc32c(checkpoint::crc32c(of)), 4);
  };
  return length + check(length) + std::string(bytes) + check(bytes);
}

std::string EventFile::head() const {
  return tfrecord(double_field(kWallTime, origin_utc_) +
                  bytes_field(kFileVersion, "brain.Event:2"));
}

std::string EventFile::records(const Json& rows) {
  std::string text;
  for (const Json& row : rows) {
    const std::string summary = summary_of(row);
    if (summary.empty()) continue;
    const std::string place =
        double_field(kWallTime, origin_utc_ + number_at(row, "at_seconds")) +
        integer_field(kStep, static_cast<std::int64_t>(number_at(row, "step")));
    const auto attempt = static_cast<std::int64_t>(number_at(row, "attempt"));
    if (attempt_ != 0 && attempt != attempt_) {
      text += tfrecord(place + bytes_field(kSessionLog, integer_field(kStatus, kStatusOfStart)));
    }
    attempt_ = attempt;
    text += tfrecord(place + bytes_field(kSummary, summary));
  }
  return text;
}

}  // namespace regatta::orchestrator::text
