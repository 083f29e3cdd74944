#include "trainer/run/mllog_writer.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "trainer/contract/exit_code.h"

namespace regatta::trainer::run {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kMark = ":::MLLOG ";
constexpr const char* kWriter = "regatta-train";
constexpr std::uint64_t kMostLogBytes = std::uint64_t{64} << 20U;  // of a log that is gone on with
constexpr const char* kPoint = "POINT_IN_TIME";
constexpr const char* kBegin = "INTERVAL_START";
constexpr const char* kEnd = "INTERVAL_END";

Json parsed(std::string_view line) {
  if (line.rfind(kMark, 0) != 0) return {};
  Json json = base::parse_json<Json>(line.substr(kMark.size()));
  return json.is_object() ? json : Json();
}

// Whether an unreadable line may be what a loss of power left of one of ours: a part, or zeros.
bool may_be_ours(std::string_view line) {
  return line.rfind(kMark, 0) == 0 || kMark.rfind(line, 0) == 0 || line.front() == '\0';
}

Json metadata_of(const Json& line) {
  const auto found = line.find("metadata");
  return found != line.end() && found->is_object() ? *found : Json::object();
}

std::string text_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

struct MllogWriter::Line {
  double utc = 0;
  const char* type = kPoint;
  std::string key;
  Json value{};
  Json metadata = Json::object();
};

MllogWriter::MllogWriter(base::FileSystem& files, const base::Path& path, std::string run,
                         double started_utc)
    : files_(files), path_(path), run_(std::move(run)), started_utc_(started_utc) {
  const bool goes_on = !files_.exists(path_) || take_up(files_.read(path_, kMostLogBytes));
  if (goes_on) file_ = files_.open(path_, base::FileSystem::Open::Append);
}

// What an earlier attempt of the run has left; false: nothing is to be added to it. A loss of power
// may have damaged lines of it, which is no reason not to train.
bool MllogWriter::take_up(const std::string& text) {
  std::string kept, owner;
  bool all_ours = true, is_over = false;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view whole = std::string_view(text).substr(begin, end - begin);
    const Json line = end < text.size() ? parsed(whole) : Json();
    if (line.is_null() && owner != run_ && !may_be_ours(whole)) {
      throw base::Error(base::Code::User, path_.string() +
                                              " is there, and is no log of MLPerf; name another "
                                              "file for the log, or remove it");
    }
    if (end == text.size()) break;  // torn
    if (line.is_null()) {
      base::log(base::LogLevel::Warning, path_.string() + ": a damaged line is left out");
      begin = end + 1;
      continue;
    }
    const std::string key = text_at(line, "key");
    const Json metadata = metadata_of(line);
    all_ours = all_ours && text_at(metadata, "file") == kWriter;
    if (key == "submission_benchmark") owner = text_at(metadata, "run");
    if (key == "run_start") has_start_ = true;
    if (key == "eval_accuracy") met_ = met_ || metadata.value("target_met", Json()) == Json(true);
    if (key == "run_stop") {
      is_over = text_at(metadata, "status") == "success";
      if (!is_over) break;
    }
    const auto time = line.find("time_ms");
    if (time != line.end() && time->is_number_integer()) last_ms_ = time->get<std::int64_t>();
    kept.append(text, begin, end + 1 - begin);
    begin = end + 1;
  }
  const bool lost_its_begin = owner.empty() && all_ours;
  if (!kept.empty() && owner != run_ && !lost_its_begin) {
    throw base::Error(base::Code::User,
                      path_.string() + " is the log of " +
                          (owner.empty() ? "another run" : "run " + base::printable(owner)) +
                          "; name another file for the log of " + base::printable(run_));
  }
  if (has_start_ && lost_its_begin) {  // a new one would count from now on
    base::log(base::LogLevel::Warning,
              path_.string() + " has lost its beginning; nothing is added to this log of MLPerf");
    return false;
  }
  if (!has_start_) kept.clear();
  if (kept != text) base::replace_file(files_, path_, kept);
  return !is_over;
}

void MllogWriter::describe(const contract::RunConfig& config, const MllogSamples& samples) {
  config_ = config;
  samples_ = samples;
}

void MllogWriter::follow(const contract::JournalRecord& record) {
  if (file_ == nullptr) return;
  const double utc = record.utc_seconds;
  if (const auto* begun = std::get_if<contract::StartRecord>(&record.body)) start(*begun, utc);
  if (const auto* done = std::get_if<contract::StepRecord>(&record.body)) step(*done, utc);
  if (const auto* read = std::get_if<contract::EvalRecord>(&record.body)) evaluation(*read, utc);
  if (const auto* over = std::get_if<contract::EndRecord>(&record.body)) end(*over, utc);
  flush();
}

void MllogWriter::start(const contract::StartRecord& record, double utc) {
  if (std::exchange(has_start_, true)) return;
  const contract::MllogConfig given = config_.mllog.value_or(contract::MllogConfig{});
  const contract::OptimizerConfig& optimizer = config_.optimizer;
  const int nodes = std::max(1, record.ranks / std::max(1, record.ranks_per_node));
  const std::int64_t of_rank = (config_.batch_size + record.ranks - 1) / record.ranks;
  const int micro = config_.micro_batch_size;
  // That the trainer clears no cache is said, since the rules ask for the line.
  add({started_utc_, kPoint, "cache_clear"});
  add({started_utc_, kBegin, "init_start"});
  const auto say = [&](const char* key, Json value) { add({utc, kPoint, key, std::move(value)}); };
  add({utc, kPoint, "submission_benchmark", "bert", {{"run", run_}}});
  say("submission_org", given.submitter);
  say("submission_division", contract::name_of(given.division));
  say("submission_status", "onprem");
  say("submission_platform",
      given.system.empty() ? std::to_string(nodes) + "x" + record.device : given.system);
  say("seed", config_.seed);
  say("global_batch_size", config_.batch_size);
  say("gradient_accumulation_steps", micro == 0 ? 1 : (of_rank + micro - 1) / micro);
  say("max_sequence_length", config_.data.max_length);
  say("train_samples", samples_.training);
  say("eval_samples", samples_.evaluation);
  say("opt_name", contract::name_of(optimizer.kind));
  say("opt_base_learning_rate", optimizer.learning_rate);
  say("opt_end_learning_rate", optimizer.end_learning_rate);
  say("opt_lamb_epsilon", optimizer.epsilon);
  say("opt_lamb_beta_1", optimizer.beta1);
  say("opt_lamb_beta_2", optimizer.beta2);
  say("opt_lamb_weight_decay_rate", optimizer.weight_decay);
  say("opt_lamb_learning_rate_decay_poly_power", optimizer.power);
  say("opt_learning_rate_warmup_steps", optimizer.warmup_steps);
  say("opt_learning_rate_training_steps",
      optimizer.decay_steps > 0 ? optimizer.decay_steps : config_.steps);
  say("num_warmup_steps", optimizer.warmup_steps);
  say("start_warmup_step", 0);
  say("number_of_nodes", nodes);
  say("number_of_ranks", record.ranks);
  if (record.target && record.metric == "mlm_accuracy") say("target_accuracy", *record.target);
  add({utc, kEnd, "init_stop"});
  add({utc, kBegin, "run_start"});
}

void MllogWriter::step(const contract::StepRecord& record, double utc) {
  if (block_) return;
  block_ = samples_after(record.step - 1);
  add({utc - record.seconds,
       kBegin,
       "block_start",
       {},
       {{"first_epoch_num", *block_}, {"epoch_count", 1}, {"samples_count", *block_}}});
}

void MllogWriter::end_block(double utc) {
  if (!block_) return;
  add({utc, kEnd, "block_stop", {}, {{"first_epoch_num", *block_}, {"samples_count", *block_}}});
  block_.reset();
}

void MllogWriter::evaluation(const contract::EvalRecord& record, double utc) {
  const std::int64_t samples = samples_after(record.step);
  const Json place{{"epoch_num", samples}, {"samples_count", samples}, {"step", record.step}};
  end_block(utc - record.seconds);
  met_ = met_ || record.target_met;
  Json metadata = place;
  metadata["target_met"] = record.target_met;
  add({utc - record.seconds, kBegin, "eval_start", {}, place});
  add({utc, kPoint, "eval_accuracy", record.mlm_accuracy, std::move(metadata)});
  add({utc, kEnd, "eval_stop", {}, place});
}

// Of an attempt that another one follows the log stays open.
void MllogWriter::end(const contract::EndRecord& record, double utc) {
  if (!has_start_) return;
  end_block(utc);
  const auto code = static_cast<contract::ExitCode>(record.exit_code);
  if (code == contract::ExitCode::Continue || code == contract::ExitCode::Retry ||
      code == contract::ExitCode::Fenced) {
    return;
  }
  const bool success = met_ && code == contract::ExitCode::Finished;
  add({utc,
       kEnd,
       "run_stop",
       {},
       {{"status", success ? "success" : "aborted"},
        {"samples_count", samples_after(record.step)},
        {"step", record.step}}});
}

void MllogWriter::add(const Line& line) {
  constexpr double kMilliseconds = 1e3;
  last_ms_ = std::max(last_ms_, static_cast<std::int64_t>(std::llround(line.utc * kMilliseconds)));
  Json metadata{{"file", kWriter}, {"lineno", 0}};
  metadata.update(line.metadata);
  pending_ += kMark;
  pending_ += base::json_text(Json{{"namespace", ""},
                                   {"time_ms", last_ms_},
                                   {"event_type", line.type},
                                   {"key", line.key},
                                   {"value", line.value},
                                   {"metadata", std::move(metadata)}}) +
              "\n";
}

void MllogWriter::flush() {
  const std::string text = std::exchange(pending_, {});
  if (text.empty()) return;
  try {
    file_->append(text);
  } catch (const base::Error& error) {
    base::log(base::LogLevel::Warning, std::string("the log of MLPerf ends here: ") + error.what());
    file_.reset();
  }
}

}  // namespace regatta::trainer::run
