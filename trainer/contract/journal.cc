#include "trainer/contract/journal.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "trainer/contract/batch_schedule.h"

namespace regatta::trainer::contract {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxLine = std::size_t{1} << 20U;
constexpr int kMaxDepth = 16;
// Texts are cut so that no record can exceed kMaxLine, even if each byte needs six (as in \u0001).
constexpr std::size_t kMaxText = 16384;
constexpr std::size_t kMaxList = 8192;  // three such lists of 25 digits fit a line
constexpr std::size_t kMaxMetrics = 64;
constexpr std::size_t kMaxMetricName = 64;
// Of a list of texts, together: beside the texts and the numbers of a record it fits a line, too.
constexpr std::size_t kMaxListText = 32768;

// One list of fields per record serves the writer and the reader: fields(archive, record) calls
// archive(name, member) for each member.
template <typename Archive>
void fields(Archive& archive, auto& r, const StartRecord*) {
  archive("attempt", r.attempt);
  archive("execution", r.execution);
  archive("epoch", r.epoch);
  archive("process", r.process);
  archive("host", r.host);
  archive("version", r.version);
  archive("parameters", r.parameters);
  archive("steps", r.steps);
  archive("batch_size", r.batch_size);
  archive("batches", r.batches);
  archive("ranks", r.ranks);
  archive("ranks_per_node", r.ranks_per_node);
  archive("hosts", r.hosts);
  archive("device", r.device);
  archive("peak_flops", r.peak_flops);
  archive("bucket_bytes", r.bucket_bytes);
  archive("first_step", r.first_step);
  archive("first_progress", r.first_progress);
  archive("checkpoint", r.checkpoint);
  archive("metric", r.metric);
  archive("target", r.target);
  archive("baseline", r.baseline);
  archive("task", r.task);
}
template <typename Archive>
void fields(Archive& archive, auto& r, const StepRecord*) {
  archive("step", r.step);
  archive("loss", r.loss);
  archive("mlm_loss", r.mlm_loss);
  archive("nsp_loss", r.nsp_loss);
  archive("learning_rate", r.learning_rate);
  archive("gradient_norm", r.gradient_norm);
  archive("samples", r.samples);
  archive("tokens", r.tokens);
  archive("masked", r.masked);
  archive("step_seconds", r.seconds);
  archive("flops", r.flops);
  archive("data_seconds", r.data_seconds);
  archive("forward_seconds", r.forward_seconds);
  archive("backward_seconds", r.backward_seconds);
  archive("reduce_seconds", r.reduce_seconds);
  archive("optimizer_seconds", r.optimizer_seconds);
  archive("exposed_seconds", r.exposed_seconds);
  archive("bucket_launched", r.bucket_launched);
  archive("bucket_finished", r.bucket_finished);
  archive("imbalance", r.imbalance);
  archive("moved_bytes", r.moved_bytes);
  archive("noise_scale", r.noise_scale);
  archive("efficiency", r.efficiency);
  archive("goodput", r.goodput);
  archive("noise_scale_low", r.noise_scale_low);
  archive("noise_scale_high", r.noise_scale_high);
  archive("raw_noise_scale", r.raw_noise_scale);
  archive("raw_noise_scale_low", r.raw_noise_scale_low);
  archive("raw_noise_scale_high", r.raw_noise_scale_high);
  archive("statistics_seconds", r.statistics_seconds);
  archive("mfu", r.mfu);
  archive("utilisation", r.utilisation);
  archive("input_stalled", r.input_stalled);
  archive("making_seconds", r.making_seconds);
  archive("bubble", r.bubble);
  archive("bubble_predicted", r.bubble_predicted);
  archive("bubble_even", r.bubble_even);
  archive("progress", r.progress);
  archive("update_ratio", r.update_ratio);
  archive("loss_scale", r.loss_scale);
  archive("skipped", r.skipped);
}
template <typename Archive>
void fields(Archive& archive, auto& r, const EvalRecord*) {
  archive("step", r.step);
  archive("mlm_accuracy", r.mlm_accuracy);
  archive("mlm_loss", r.mlm_loss);
  archive("nsp_accuracy", r.nsp_accuracy);
  archive("metrics", r.metrics);
  archive("samples", r.samples);
  archive("eval_seconds", r.seconds);
  archive("target_met", r.target_met);
}
template <typename Archive>
void fields(Archive& archive, auto& r, const CheckpointRecord*) {
  archive("step", r.step);
  archive("name", r.name);
  archive("status", r.status);
  archive("bytes", r.bytes);
  archive("checkpoint_seconds", r.seconds);
  archive("stall_seconds", r.stall_seconds);
  archive("copy_seconds", r.copy_seconds);
  archive("write_seconds", r.write_seconds);
  archive("sync_seconds", r.sync_seconds);
  archive("message", r.message);
}
template <typename Archive>
void fields(Archive& archive, auto& r, const PhaseRecord*) {
  archive("phase", r.phase);
}
template <typename Archive>
void fields(Archive& archive, auto& r, const WarningRecord*) {
  archive("message", r.message);
}
template <typename Archive>
void fields(Archive& archive, auto& r, const BatchRecord*) {
  archive("step", r.step);
  archive("size", r.size);
  archive("noise_scale", r.noise_scale);
  archive("noise_scale_low", r.noise_scale_low);
}
template <typename Archive>
void fields(Archive& archive, auto& r, const EndRecord*) {
  archive("reason", r.reason);
  archive("step", r.step);
  archive("exit_code", r.exit_code);
  archive("message", r.message);
}
template <typename Archive>
void fields(Archive& archive, auto& r, const HeartbeatRecord*) {
  archive("step", r.step);
  archive("rank", r.rank);
  archive("phase", r.phase);
  archive("phase_seconds", r.phase_seconds);
}
template <typename Archive>
void fields(Archive& archive, auto& r, const TrialRecord*) {
  archive("step", r.step);
  archive("steps", r.steps);
  archive("rounds", r.rounds);
  archive("cuts", r.cuts);
  archive("cut_buckets", r.cut_buckets);
  archive("cut_seconds", r.cut_seconds);
  archive("winner", r.winner);
  archive("gain", r.gain);
  archive("noise", r.noise);
  archive("why", r.why);
  archive("bucket_bytes", r.bucket_bytes);
}
template <typename Archive>
void fields(Archive& archive, auto& r, const DivergenceRecord*) {
  archive("step", r.step);
  archive("quantity", r.quantity);
  archive("tensor", r.tensor);
  archive("layer", r.layer);
  archive("rank", r.rank);
  archive("action", r.action);
  archive("checkpoint", r.checkpoint);
  archive("checkpoint_step", r.checkpoint_step);
  archive("rollbacks", r.rollbacks);
  archive("skipped_steps", r.skipped_steps);
  archive("message", r.message);
}
template <typename Archive>
void fields(Archive& archive, auto& r, const AlarmRecord*) {
  archive("step", r.step);
  archive("kind", r.kind);
  archive("layer", r.layer);
  archive("value", r.value);
  archive("usual", r.usual);
  archive("deviation", r.deviation);
  archive("message", r.message);
}
template <typename Archive>
void fields(Archive& archive, auto& r, const LossScaleRecord*) {
  archive("step", r.step);
  archive("from", r.from);
  archive("to", r.to);
  archive("why", r.why);
  archive("quantity", r.quantity);
  archive("tensor", r.tensor);
  archive("layer", r.layer);
  archive("rank", r.rank);
  archive("message", r.message);
}
template <typename Archive>
void fields(Archive& archive, auto& r, const CorruptionRecord*) {
  archive("step", r.step);
  archive("rank", r.rank);
  archive("suspects", r.suspects);
  archive("host", r.host);
  archive("device", r.device);
  archive("quantity", r.quantity);
  archive("tensor", r.tensor);
  archive("layer", r.layer);
  archive("tensors", r.tensors);
  archive("checked_step", r.checked_step);
  archive("action", r.action);
  archive("message", r.message);
}
template <typename Archive>
void fields(Archive& archive, auto& r, const RanksRecord*) {
  archive("step", r.step);
  archive("tokens", r.tokens);
  archive("compute_seconds", r.compute_seconds);
}
template <typename Archive>
void fields(Archive& archive, auto& r, const InputRecord*) {
  archive("step", r.step);
  archive("workers", r.workers);
  archive("prefetch", r.prefetch);
  archive("samples_per_second", r.samples_per_second);
  archive("demand_per_second", r.demand_per_second);
  archive("starved", r.starved);
  archive("tried_workers", r.tried_workers);
  archive("tried_prefetch", r.tried_prefetch);
  archive("tried_seconds", r.tried_seconds);
  archive("pinned_seconds", r.pinned_seconds);
  archive("ordinary_seconds", r.ordinary_seconds);
  archive("why", r.why);
}
template <typename Archive>
void fields(Archive&, auto&, const UnknownRecord*) {}

// What a number of that name can be. Whatever else stands there is damage, or somebody who would
// have a run look as if it had reached its target: no such record is believed. Not a number is what
// a trainer says of a loss that is none; what the reader of a rank's figures makes of them is his.
bool can_be(std::string_view name, double value) {
  constexpr double kSlack = 1e-3;    // of differences of a clock
  constexpr double kLongest = 1e10;  // seconds: 300 years
  constexpr double kMostProgress = 1e12;
  if (std::isnan(value)) return true;
  if (name == "utc_seconds") return value >= 0 && value <= kLongest;
  if (name.ends_with("seconds")) return value >= -kSlack && value <= kLongest;
  if (name.ends_with("accuracy")) return value >= 0 && value <= 1;
  if (name.ends_with("progress")) return value >= 0 && value <= kMostProgress;
  return true;
}
// All but losses are shares or correlations.
bool share_can_be(std::string_view metric, double value) {
  return metric == "loss" || std::isnan(value) || (value >= -1 && value <= 1);
}
bool can_be(std::string_view name, std::int64_t value) {
  constexpr std::string_view kCounts[] = {"step",   "steps",       "first_step", "samples",
                                          "tokens", "masked",      "batch_size", "parameters",
                                          "size",   "checked_step"};
  constexpr std::int64_t kLargest = std::int64_t{1} << 53U;  // that a double has, too
  if (std::find(std::begin(kCounts), std::end(kCounts), name) == std::end(kCounts)) return true;
  return value >= 0 && value <= kLargest;
}

class Writer {
 public:
  explicit Writer(Json& json) : json_(json) {}

  void operator()(const char* name, const std::string& value) {
    json_[name] = value.substr(0, kMaxText);
  }
  void operator()(const char* name, const std::optional<double>& value) {
    if (value) json_[name] = *value;
  }
  void operator()(const char* name, const std::vector<std::string>& values) {
    Json list = Json::array();
    std::size_t bytes = 0;
    for (const std::string& value : values) {
      bytes += value.size() + 1;
      if (bytes > kMaxListText || list.size() == kMaxList) break;
      list.push_back(value);
    }
    json_[name] = std::move(list);
  }
  void operator()(const char* name, const std::vector<Metric>& metrics) {
    if (metrics.empty()) return;
    Json object = Json::object();
    for (const Metric& metric : metrics) object[metric.name] = metric.value;
    json_[name] = std::move(object);
  }
  void operator()(const char* name, const BatchChanges& changes) {
    if (changes.empty()) return;
    for (const checkpoint::BatchChange& each : changes) {
      json_[name].push_back({{"step", each.step}, {"size", each.size}});
    }
  }
  template <typename Number>
  void operator()(const char* name, const std::vector<Number>& values) {
    const auto kept = static_cast<std::ptrdiff_t>(std::min(values.size(), kMaxList));
    json_[name] = Json(std::vector<Number>(values.begin(), values.begin() + kept));
  }
  template <typename Value>
  void operator()(const char* name, const Value& value) {
    json_[name] = value;  // nlohmann writes NaN and the infinities as null
  }

 private:
  Json& json_;
};

class Reader {
 public:
  explicit Reader(const Json& json) : json_(json) {}
  [[nodiscard]] bool good() const { return good_; }

  void operator()(const char* name, std::string& value) {
    if (const Json* field = find(name, &Json::is_string)) value = field->get<std::string>();
  }
  void operator()(const char* name, bool& value) {
    if (const Json* field = find(name, &Json::is_boolean)) value = field->get<bool>();
  }
  void operator()(const char* name, double& value) { read_number(name, value); }
  void operator()(const char* name, std::optional<double>& value) {
    const auto it = json_.find(name);
    if (it == json_.end() || it->is_null()) return;
    double number = 0;
    take(name, *it, number);
    value = number;
  }
  // kMaxList elements at most, here and below.
  void operator()(const char* name, std::vector<std::string>& values) {
    const Json* field = find(name, &Json::is_array);
    if (field == nullptr) return;
    good_ = good_ && field->size() <= kMaxList;
    values.clear();
    for (const Json& element : *field) {
      good_ = good_ && element.is_string();
      if (!good_) return;
      values.push_back(element.get<std::string>());
    }
  }
  void operator()(const char* name, std::vector<Metric>& metrics) {
    const Json* field = find(name, &Json::is_object);
    if (field == nullptr) return;
    good_ = good_ && field->size() <= kMaxMetrics;
    metrics.clear();
    for (const auto& [metric, value] : field->items()) {
      if (!good_) return;
      double number = 0;
      take(metric.c_str(), value, number);
      good_ = good_ && metric.size() <= kMaxMetricName && share_can_be(metric, number);
      metrics.push_back({metric, number});
    }
  }
  // Only those that follow one another are believed (BatchSchedule::of).
  void operator()(const char* name, BatchChanges& changes) {
    const Json* field = find(name, &Json::is_array);
    if (field == nullptr) return;
    good_ = good_ && field->size() <= kMaxList;
    changes.clear();
    for (const Json& element : *field) {
      if (!good_ || !element.is_object()) return void(good_ = false);
      checkpoint::BatchChange change{0, 0};
      Reader reader(element);
      reader("step", change.step);
      reader("size", change.size);
      good_ = reader.good();
      changes.push_back(change);
    }
    good_ = good_ && BatchSchedule::of(changes).has_value();
  }
  template <typename Number>
  void operator()(const char* name, std::vector<Number>& values) {
    const Json* field = find(name, &Json::is_array);
    if (field == nullptr) return;
    good_ = good_ && field->size() <= kMaxList;
    values.clear();
    for (const Json& element : *field) {
      Number number{};
      take(name, element, number);
      if (!good_) return;
      values.push_back(number);
    }
  }
  template <typename Integer>
  void operator()(const char* name, Integer& value) {
    read_number(name, value);
  }

 private:
  template <typename Number>
  void read_number(const char* name, Number& value) {
    const auto it = json_.find(name);
    if (it != json_.end()) take(name, *it, value);
  }
  void take(const char* name, const Json& field, double& value) {
    if (field.is_null()) {
      value = std::numeric_limits<double>::quiet_NaN();
    } else if (field.is_number()) {
      value = field.get<double>();
      good_ = good_ && can_be(name, value);
    } else {
      good_ = false;
    }
  }
  template <typename Integer>
  void take(const char* name, const Json& field, Integer& value) {
    const bool fits =
        field.is_number_unsigned()  ? std::in_range<Integer>(field.get<std::uint64_t>())
        : field.is_number_integer() ? std::in_range<Integer>(field.get<std::int64_t>())
                                    : false;
    if (fits) value = field.get<Integer>();
    good_ = good_ && fits && can_be(name, static_cast<std::int64_t>(value));
  }
  const Json* find(const char* name, bool (Json::*is_kind)() const noexcept) {
    const auto it = json_.find(name);
    if (it == json_.end()) return nullptr;
    if (((*it).*is_kind)()) return &*it;
    good_ = false;
    return nullptr;
  }

  const Json& json_;
  bool good_ = true;
};

// In the order of the variant's alternatives; UnknownRecord has no name of its own.
constexpr const char* kTypes[] = {
    "start", "step",       "eval",  "checkpoint", "phase", "warning",    "end",        "heartbeat",
    "trial", "divergence", "ranks", "batch",      "alarm", "loss_scale", "corruption", "input"};

template <std::size_t index = 0>
bool read_body(const std::string& type, const Json& json, JournalRecord* record) {
  if constexpr (index < std::size(kTypes)) {
    if (type != kTypes[index]) return read_body<index + 1>(type, json, record);
    auto& body = record->body.template emplace<index>();
    Reader reader(json);
    fields(reader, body, &body);
    return reader.good();
  } else {
    record->body = UnknownRecord{type};
    return true;
  }
}

}  // namespace

double value_of(const EvalRecord& record, const std::string& metric) {
  for (const Metric& each : record.metrics) {
    if (each.name == metric) return each.value;
  }
  if (metric == "mlm_accuracy") return record.mlm_accuracy;
  return metric == "mlm_loss" ? record.mlm_loss : std::numeric_limits<double>::quiet_NaN();
}

std::string to_line(const JournalRecord& record) {
  Json json;
  json["sequence"] = record.sequence;
  json["utc_seconds"] = record.utc_seconds;
  json["seconds"] = record.seconds;
  const auto* unknown = std::get_if<UnknownRecord>(&record.body);
  json["type"] = unknown != nullptr ? unknown->type : kTypes[record.body.index()];
  std::visit(
      [&](const auto& body) {
        Writer writer(json);
        fields(writer, body, &body);
      },
      record.body);
  return base::json_text(json) + "\n";
}

std::optional<JournalRecord> parse_record(std::string_view line) {
  // The parser takes a NUL byte for the end of its input; a crashed disk leaves runs of them.
  if (line.find('\0') != std::string_view::npos) return std::nullopt;
  if (line.size() > kMaxLine || !base::json_depth_at_most(line, kMaxDepth)) return std::nullopt;
  const Json json = base::parse_json<Json>(line);
  if (!json.is_object()) return std::nullopt;
  JournalRecord record;
  Reader reader(json);
  std::string type;
  reader("sequence", record.sequence);
  reader("utc_seconds", record.utc_seconds);
  reader("seconds", record.seconds);
  reader("type", type);
  if (!reader.good() || type.empty() || record.sequence < 0) return std::nullopt;
  if (!read_body(type, json, &record)) return std::nullopt;
  return record;
}

JournalChunk parse_journal(std::string_view bytes) {
  JournalChunk chunk;
  for (;;) {
    const std::size_t end = bytes.find('\n', chunk.consumed);
    if (end == std::string_view::npos) break;
    auto record = parse_record(bytes.substr(chunk.consumed, end - chunk.consumed));
    chunk.consumed = end + 1;
    if (record) {
      chunk.records.push_back(std::move(*record));
    } else {
      ++chunk.damaged;
    }
  }
  // A line longer than any record would make the reader wait, and hold its bytes, for ever.
  if (bytes.size() - chunk.consumed > kMaxLine) {
    chunk.consumed = bytes.size();
    ++chunk.damaged;
  }
  return chunk;
}

}  // namespace regatta::trainer::contract
