#include "orchestrator/checkpoints/checkpoint_tools.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/digest.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "checkpoint/diff.h"
#include "checkpoint/found_damage.h"
#include "checkpoint/held_mark.h"
#include "checkpoint/pins.h"
#include "checkpoint/retention.h"
#include "checkpoint/shards.h"
#include "checkpoint/tombstones.h"
#include "trainer/contract/retention_policy.h"
#include "trainer/contract/run_directory.h"

namespace regatta::orchestrator::checkpoints {
namespace {

using Json = nlohmann::ordered_json;
using base::Code;
using base::Error;
using checkpoint::Entry;
using checkpoint::Status;

constexpr const char* kReader = "regatta";  // in marks
constexpr const char* kDownloader = "a download";
constexpr std::uint64_t kMostManifest = std::uint64_t{16} << 20U;

const char* name_of(Status status) {
  switch (status) {
    case Status::Valid:
      return "valid";
    case Status::Unfinished:
      return "unfinished";
    case Status::Damaged:
      return "damaged";
    case Status::Unreadable:
      break;
  }
  return "unreadable";
}

Json number_or_null(const std::optional<double>& value) {
  if (!value || !std::isfinite(*value)) return nullptr;
  return *value;
}

Json pin_json(const std::map<std::string, checkpoint::Pin>& pins, const std::string& name) {
  const auto it = pins.find(name);
  if (it == pins.end()) return nullptr;
  return {{"reason", it->second.reason}, {"at", base::iso8601(it->second.utc_seconds)}};
}

std::uint64_t bytes_of_files(const checkpoint::Manifest& manifest) {
  std::uint64_t bytes = 0;
  for (const auto& [name, file] : manifest.files) bytes += file.bytes;
  return bytes;
}

// In how many files the part lies that is cut into most.
std::size_t shards_of(const checkpoint::Manifest& manifest) {
  std::map<std::string, std::size_t> files;
  std::size_t most = 1;
  for (const auto& [file, facts] : manifest.files) {
    const auto name = checkpoint::parse_shard_file(file);
    if (name) most = std::max(most, ++files[name->kind]);
  }
  return most;
}

// What an entry itself says.
Json row_json(const Entry& entry, const base::Path& directory, double now) {
  Json row{{"step", entry.step},
           {"name", entry.name},
           {"path", (directory / entry.name).string()},
           {"condition", name_of(entry.status)},
           {"reason", entry.reason},
           {"bytes", nullptr},
           {"shards", nullptr},
           {"metric", ""},
           {"value", nullptr},
           {"at", nullptr},
           {"age_seconds", nullptr}};
  if (!entry.manifest) return row;
  row["bytes"] = bytes_of_files(*entry.manifest);
  row["shards"] = shards_of(*entry.manifest);
  row["metric"] = entry.manifest->metric;
  row["value"] = number_or_null(entry.manifest->value);
  row["at"] = base::iso8601(entry.manifest->utc_seconds);
  row["age_seconds"] = std::max(0.0, now - entry.manifest->utc_seconds);
  return row;
}

struct RunFacts {
  checkpoint::RetentionPolicy policy;
  std::string execution;  // of the newest attempt
};
RunFacts read_facts(base::FileSystem& files, const base::Path& directory) {
  const auto run = trainer::contract::RunDirectory::open(files, directory);
  const std::string source = (directory / "run.json").string();
  RunFacts facts;
  facts.policy = trainer::contract::retention_policy(
      trainer::contract::parse_run_config(run.run_json(), source));
  const auto attempts = run.attempts();
  if (!attempts.empty()) facts.execution = attempts.back().execution;
  return facts;
}

Json tensors_json(base::FileSystem& files, const base::Path& path) {
  const auto reader = checkpoint::SafetensorsReader::open(files, path);
  Json list = Json::array();
  for (const checkpoint::TensorInfo& tensor : reader.tensors()) {
    list.push_back({{"name", tensor.name},
                    {"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"bytes", tensor.end - tensor.begin}});
  }
  return list;
}

}  // namespace

CheckpointTools::CheckpointTools(base::FileSystem& files, base::Clock& clock,
                                 base::Path run_directory)
    : files_(files), clock_(clock), run_directory_(std::move(run_directory)) {}

checkpoint::CheckpointStore CheckpointTools::store() const {
  return {files_, run_directory_ / "checkpoints"};
}

std::vector<Entry> CheckpointTools::entries() const {
  return checkpoint::list_with_found_damage(files_, run_directory_ / "checkpoints");
}

Entry CheckpointTools::find(const std::string& checkpoint) const {
  const auto step = base::parse_integer(checkpoint);
  std::vector<Entry> found;
  for (Entry& entry : entries()) {  // newest first
    const bool hit = checkpoint == "latest" ? found.empty() && entry.status == Status::Valid
                     : step                 ? entry.step == *step
                                            : entry.name == checkpoint;
    if (hit) found.push_back(std::move(entry));
  }
  const std::string asked = "'" + base::printable(checkpoint.substr(0, 100)) + "'";
  if (found.empty()) {
    throw Error(Code::NotFound, "no checkpoint " + asked +
                                    " in this run; name one as listed, by its step, or 'latest'");
  }
  if (found.size() > 1) {
    throw Error(Code::User, "several checkpoints are of step " + asked +
                                "; name one: " + found[0].name + ", " + found[1].name);
  }
  return found.front();
}

base::Path CheckpointTools::path_of(const std::string& checkpoint) const {
  return run_directory_ / "checkpoints" / find(checkpoint).name;
}

CheckpointTools::StoredFiles CheckpointTools::files_of(const std::string& checkpoint) const {
  const Entry entry = find(checkpoint);
  if (!entry.manifest) {
    throw Error(Code::Conflict, entry.name + " is not whole: " + entry.reason);
  }
  StoredFiles stored{run_directory_ / "checkpoints" / entry.name, entry.manifest->utc_seconds, {}};
  for (const auto& [name, file] : entry.manifest->files) {
    stored.files.push_back({name, file.bytes, file.digest});
  }
  const std::string manifest =
      files_.read(stored.directory / checkpoint::kManifestFile, kMostManifest);
  stored.files.push_back({checkpoint::kManifestFile, manifest.size(), base::digest_of(manifest)});
  return stored;
}

std::shared_ptr<void> CheckpointTools::hold(const base::Path& checkpoint) const {
  return checkpoint::hold_mark(files_, clock_, checkpoint, kDownloader);
}

Json CheckpointTools::list() const {
  const base::Path directory = run_directory_ / "checkpoints";
  const double now = clock_.utc_seconds();
  const RunFacts facts = read_facts(files_, run_directory_);
  const auto pins = checkpoint::read_pins(files_, directory);
  auto tombstones = checkpoint::read_tombstones(files_, directory);
  auto opened = store();
  std::map<std::string, checkpoint::RetentionDecision> decisions;
  for (auto& one : checkpoint::apply_retention(
                       files_, opened, facts.policy,
                       {facts.execution, now, checkpoint::RetentionRound::Mode::Plan, {}})
                       .decisions) {
    decisions[one.name] = std::move(one);
  }
  Json rows = Json::array();
  for (const Entry& entry : entries()) {
    const bool removed = tombstones.erase(entry.name) != 0;
    Json row = row_json(entry, directory, now);
    if (removed) {
      row["condition"] = "removed";
      row["reason"] = "its removal was cut short; the next gc finishes it";
    }
    row["pinned"] = pin_json(pins, entry.name);
    const auto decision = decisions.find(entry.name);
    const bool goes = decision != decisions.end() && decision->second.goes;
    row["goes"] = goes;
    row["kept_because"] = Json::array();
    if (decision != decisions.end() && !goes) row["kept_because"] = decision->second.reasons;
    rows.push_back(std::move(row));
  }
  std::size_t left = kMostRemovedRows;
  for (auto it = tombstones.rbegin(); it != tombstones.rend() && left > 0; ++it, --left) {
    Json row = row_json({it->first, it->second.step, "", Status::Valid, it->second.why, {}},
                        directory, now);
    row["condition"] = "removed";
    row["at"] = base::iso8601(it->second.utc_seconds);
    row["age_seconds"] = std::max(0.0, now - it->second.utc_seconds);
    row["pinned"] = nullptr;
    row["goes"] = false;
    row["kept_because"] = Json::array();
    rows.push_back(std::move(row));
  }
  return {{"checkpoints", rows}};
}

Json CheckpointTools::row_of(const std::string& name) const {
  Json listed = list();
  for (Json& row : listed["checkpoints"]) {
    if (row["name"] == name) return std::move(row);
  }
  throw Error(Code::NotFound, "checkpoint " + name + " has gone meanwhile");
}

Json CheckpointTools::show(const std::string& checkpoint) const {
  const Entry entry = find(checkpoint);
  Json row = row_of(entry.name);
  row["manifest"] = nullptr;
  row["files"] = Json::object();
  if (!entry.manifest) return row;
  row["manifest"] = base::parse_json<Json>(checkpoint::to_json(*entry.manifest));
  for (const auto& [file, facts] : entry.manifest->files) {
    Json described{{"bytes", facts.bytes}, {"digest", facts.digest}, {"tensors", nullptr}};
    try {
      described["tensors"] =
          tensors_json(files_, run_directory_ / "checkpoints" / entry.name / file);
    } catch (const Error& error) {  // that, too, is worth showing
      described["error"] = error.what();
    }
    row["files"][file] = std::move(described);
  }
  return row;
}

std::uint64_t CheckpointTools::bytes_of(const std::string& checkpoint) const {
  const Entry entry = find(checkpoint);
  return entry.manifest ? bytes_of_files(*entry.manifest) : 0;
}

std::uint64_t CheckpointTools::newest_bytes() const {
  for (const Entry& entry : entries()) {
    if (entry.status == Status::Valid) return bytes_of_files(*entry.manifest);
  }
  return 0;
}

Json CheckpointTools::verify(const std::string& checkpoint) const {
  const Entry entry = find(checkpoint);
  const double start = clock_.monotonic_seconds();
  const auto reading =
      checkpoint::hold_mark(files_, clock_, run_directory_ / "checkpoints" / entry.name, kReader);
  const auto damage = store().verify(entry.name);
  try {
    checkpoint::note_found_damage(files_, run_directory_ / "checkpoints", entry.name, damage,
                                  clock_.utc_seconds());
  } catch (const Error&) {  // where nothing can be written it is told here alone
  }
  return {{"name", entry.name},
          {"step", entry.step},
          {"good", !damage.has_value()},
          {"bytes", entry.manifest ? bytes_of_files(*entry.manifest) : 0},
          {"seconds", clock_.monotonic_seconds() - start},
          {"message", damage.value_or("every byte is as it was written")}};
}

Json CheckpointTools::pin(const std::string& checkpoint, const std::string& reason) {
  const std::string name = find(checkpoint).name;
  checkpoint::pin(files_, run_directory_ / "checkpoints", name, {reason, clock_.utc_seconds()});
  return row_of(name);
}

Json CheckpointTools::unpin(const std::string& checkpoint) {
  const std::string name = find(checkpoint).name;
  (void)checkpoint::unpin(files_, run_directory_ / "checkpoints", name);
  return row_of(name);
}

Json CheckpointTools::gc(Gc mode) {
  using Mode = checkpoint::RetentionRound::Mode;
  const RunFacts facts = read_facts(files_, run_directory_);
  auto opened = store();
  const auto outcome = checkpoint::apply_retention(files_, opened, facts.policy,
                                                   {facts.execution,
                                                    clock_.utc_seconds(),
                                                    mode == Gc::Remove   ? Mode::Check
                                                    : mode == Gc::DryRun ? Mode::Preview
                                                                         : Mode::Plan,
                                                    {}});
  Json removed = Json::array();
  Json kept = Json::array();
  for (const checkpoint::RetentionDecision& one : outcome.decisions) {
    (one.goes ? removed : kept)
        .push_back({{"name", one.name}, {"step", one.step}, {"reasons", one.reasons}});
  }
  const checkpoint::RetentionPolicy& policy = facts.policy;
  return {{"dry_run", mode != Gc::Remove},
          {"policy",
           {{"keep_last", policy.keep_last},
            {"keep_best", policy.keep_best},
            {"keep_every", policy.keep_every},
            {"metric", policy.metric},
            {"better", policy.better == checkpoint::Better::Highest ? "highest" : "lowest"}}},
          {"removed", removed},
          {"kept", kept}};
}

Json diff_checkpoints(base::FileSystem& files, const base::Path& a, const base::Path& b,
                      WithOptimizer optimizer) {
  const auto mark_a = checkpoint::hold_mark(files, base::system_clock(), a, kReader);
  const auto mark_b = checkpoint::hold_mark(files, base::system_clock(), b, kReader);
  Json tensors = Json::array();
  Json misfits = Json::array();
  Json damaged = Json::array();
  std::vector<std::pair<const char*, const char*>> kinds{
      {checkpoint::kModel, checkpoint::kModelFile}};
  if (optimizer == WithOptimizer::Yes) {
    kinds.emplace_back(checkpoint::kOptimizer, checkpoint::kOptimizerFile);
  }
  for (const auto& [kind, file] : kinds) {  // in however many files it really lies
    for (const base::Path& path : {a, b}) {
      const auto damage = checkpoint::damage_of_kind(files, path, kind);
      if (damage) damaged.push_back({{"path", path.string()}, {"reason", *damage}});
    }
    const auto diff = checkpoint::compare_checkpoints(files, a, b, kind);
    for (const checkpoint::TensorMisfit& one : diff.misfits) {
      misfits.push_back({{"file", file}, {"name", one.name}, {"what", one.what}});
    }
    for (const checkpoint::TensorDifference& one : diff.tensors) {
      tensors.push_back({{"file", file},
                         {"name", one.name},
                         {"dtype_a", one.dtype_a},
                         {"dtype_b", one.dtype_b},
                         {"shape", one.shape},
                         {"norm_a", one.norm_a},
                         {"norm_b", one.norm_b},
                         {"difference", one.norm},
                         {"relative", one.relative},
                         {"largest", one.largest},
                         {"at", one.at},
                         {"not_finite_a", one.not_finite_a},
                         {"not_finite_b", one.not_finite_b},
                         {"same_bits", one.same_bits}});
    }
  }
  return {{"a", a.string()},
          {"b", b.string()},
          {"damaged", damaged},
          {"misfits", misfits},
          {"tensors", tensors}};
}

}  // namespace regatta::orchestrator::checkpoints
