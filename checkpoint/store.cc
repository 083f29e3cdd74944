#include "checkpoint/store.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/load.h"
#include "checkpoint/shards.h"

namespace regatta::checkpoint {
namespace {

using base::Code;
using base::Error;

constexpr std::uint64_t kMaxManifest = std::uint64_t{4} << 20U;
constexpr std::uint64_t kMaxSidecar = 4096;
// Room for the manifest, directory blocks and the journal's next lines.
constexpr std::uint64_t kSpareBytes = std::uint64_t{8} << 20U;
constexpr std::int64_t kMaxStep = 9'999'999'999;  // ten digits

// Hugging Face's loaders refuse a file that does not say which framework's layout it has.
const std::map<std::string, std::string> kMetadata{{"format", "pt"}};

bool is_execution(const std::string& text) {
  const auto good = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), good);
}

// After a failure, which is the one to report.
template <typename Body>
void quietly(const Body& body) {
  try {
    body();
  } catch (const Error&) {
  }
}

// Damage is what a reader finds in the bytes; anything else is the machine's trouble.
bool is_damage(Code code) { return code == Code::User || code == Code::NotFound; }

}  // namespace

std::string CheckpointName::text() const {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%010lld", static_cast<long long>(step));
  return std::string("step-") + digits + "-" + execution;
}

std::optional<CheckpointName> parse_checkpoint_name(const std::string& text) {
  constexpr std::size_t kDigits = 10;
  constexpr std::size_t kPrefix = 5;  // "step-"
  if (text.size() <= kPrefix + kDigits + 1 || text.rfind("step-", 0) != 0) return std::nullopt;
  const std::string digits = text.substr(kPrefix, kDigits);
  if (digits.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  if (text[kPrefix + kDigits] != '-') return std::nullopt;
  CheckpointName name;
  name.step = base::parse_integer(digits).value_or(0);
  name.execution = text.substr(kPrefix + kDigits + 1);
  if (!is_execution(name.execution)) return std::nullopt;
  return name;
}

std::int64_t rollbacks_of(const std::string& execution) {
  const std::size_t end = execution.find_first_not_of("0123456789abcdef");
  if (end == std::string::npos || end == 0 || execution[end] != 'r') return 0;
  return base::parse_integer(execution.substr(end + 1)).value_or(0);
}

Age age_of(const std::string& name, std::int64_t step, const std::string& execution,
           const std::vector<Rollback>& rollbacks, std::int64_t epoch) {
  return {rollbacks.empty() ? rollbacks_of(execution) : std::ssize(rollbacks), step, epoch, name};
}

Age Entry::age() const {
  if (!manifest) return age_of(name, step, execution, {}, 0);
  return age_of(name, step, execution, manifest->rollbacks, manifest->epoch);
}

CheckpointStore::CheckpointStore(base::FileSystem& files, base::Path directory)
    : files_(&files), directory_(std::move(directory)) {}

Written CheckpointStore::write(const Contents& contents, const std::function<bool()>& allowed,
                               const base::Clock& clock) {
  const CheckpointName name{contents.manifest.step, contents.manifest.execution};
  const base::Path path = path_of(name);
  refuse_whole(name);
  const std::uint64_t needed = safetensors_bytes(contents.model, kMetadata) +
                               safetensors_bytes(contents.optimizer, kMetadata);
  try {
    files_->remove_tree(path);  // what an earlier failure of this execution could not remove
    write_shard(name, kModelFile, contents.model, clock, needed);
    write_shard(name, kOptimizerFile, contents.optimizer, clock);
    return commit(contents.manifest, {kModelFile, kOptimizerFile}, allowed, clock);
  } catch (...) {
    quietly([&] { remove(name.text()); });
    throw;
  }
}

WrittenShard CheckpointStore::write_shard(const CheckpointName& name, const std::string& file,
                                          const std::vector<NamedTensor>& tensors,
                                          const base::Clock& clock, std::uint64_t needed) {
  base::check(parse_shard_file(file).has_value(), "a shard has a name that readers know");
  const base::Path path = path_of(name);
  refuse_whole(name);
  files_->create_directory(directory_);
  check_room(name, needed != 0 ? needed : safetensors_bytes(tensors, kMetadata));
  files_->create_directory(path);
  const base::Path sidecar = path / sidecar_file(file);
  const auto clear = [&] {
    files_->remove_file(sidecar);
    files_->remove_file(path / file);
  };
  try {
    clear();
    const WrittenFile written = write_safetensors(*files_, path / file, tensors, kMetadata, clock);
    const WrittenShard shard{
        {written.bytes, written.digest}, written.write_seconds, written.sync_seconds};
    write_synced(sidecar, to_json(shard));
    files_->sync_directory(path);
    return shard;
  } catch (...) {
    quietly(clear);
    throw;
  }
}

Written CheckpointStore::commit(const Manifest& manifest, const std::vector<std::string>& shards,
                                const std::function<bool()>& allowed, const base::Clock& clock) {
  const CheckpointName name{manifest.step, manifest.execution};
  const base::Path path = path_of(name);
  refuse_whole(name);
  const double start = clock.monotonic_seconds();
  Written written;
  written.name = name.text();
  Manifest whole = manifest;
  collect(path, shards, &whole, &written);
  const base::Path temporary = path / "manifest.json.tmp";
  try {
    // The shards' names and the directories' own reach the disk before the manifest says that they
    // are there.
    files_->sync_directory(path);
    files_->sync_directory(directory_);
    files_->sync_directory(directory_.has_parent_path() ? directory_.parent_path() : ".");
    const std::string text = to_json(whole);
    files_->remove_file(temporary);
    write_synced(temporary, text);
    written.bytes += text.size();
    if (!allowed()) {
      throw Error(Code::Conflict, "fenced: a newer attempt owns the run, so checkpoint " +
                                      written.name + " was not written");
    }
    files_->rename(temporary, path / kManifestFile);
    files_->sync_directory(path);
    files_->sync_directory(directory_);
  } catch (...) {
    quietly([&] { files_->remove_file(path / kManifestFile); });
    quietly([&] { files_->remove_file(temporary); });
    throw;
  }
  written.sync_seconds += clock.monotonic_seconds() - start;
  return written;
}

base::Path CheckpointStore::path_of(const CheckpointName& name) const {
  base::check(is_execution(name.execution), "an execution id is letters and digits");
  base::check(name.step >= 0 && name.step <= kMaxStep, "a step has at most ten digits");
  return directory_ / name.text();
}

void CheckpointStore::refuse_whole(const CheckpointName& name) const {
  if (files_->exists(path_of(name) / kManifestFile)) {
    throw Error(Code::Conflict, "checkpoint " + name.text() + " is already written");
  }
}

void CheckpointStore::check_room(const CheckpointName& name, std::uint64_t bytes) const {
  const std::uint64_t needed = bytes + kSpareBytes;
  const std::uint64_t available = files_->free_bytes(directory_);
  if (available < needed) {
    throw Error(Code::Operator, "no room for checkpoint " + name.text() + ": it needs " +
                                    base::human_bytes(needed) + ", the disk has " +
                                    base::human_bytes(available) + "; free some space");
  }
}

void CheckpointStore::write_synced(const base::Path& path, const std::string& text) {
  const auto file = files_->open(path, base::FileSystem::Open::CreateNew);
  file->append(text);
  file->sync();
}

void CheckpointStore::collect(const base::Path& path, const std::vector<std::string>& shards,
                              Manifest* manifest, Written* written) const {
  if (const auto missing = missing_shard(shards)) {
    throw Error(Code::Developer, "checkpoint " + written->name + ": its writer " + *missing);
  }
  manifest->files.clear();
  for (const std::string& shard : shards) {
    const std::string source = written->name + "/" + shard;
    try {
      const std::string text = files_->read(path / sidecar_file(shard), kMaxSidecar);
      const WrittenShard said = parse_sidecar(text, sidecar_file(source));
      const std::uint64_t bytes = said.file.bytes;
      // One byte before the end, none after it.
      if (bytes == 0 || files_->read_at(path / shard, bytes - 1, 2).size() != 1) {
        throw Error(Code::User, source + ": is not of the size that its sidecar says (" +
                                    std::to_string(bytes) + " bytes)");
      }
      manifest->files[shard] = said.file;
      written->bytes += bytes + text.size();
      written->write_seconds = std::max(written->write_seconds, said.write_seconds);
      written->sync_seconds = std::max(written->sync_seconds, said.sync_seconds);
    } catch (const Error& error) {
      if (error.code() != Code::NotFound) throw;
      throw Error(Code::User, source + ": the shard or its sidecar is missing: " + error.what());
    }
  }
}

Entry CheckpointStore::inspect(const CheckpointName& name) const {
  Entry entry;
  entry.name = name.text();
  entry.step = name.step;
  entry.execution = name.execution;
  const base::Path path = directory_ / entry.name;
  if (!files_->exists(path / kManifestFile)) {
    entry.reason = "unfinished: no manifest";
    return entry;
  }
  try {
    const std::string text = files_->read(path / kManifestFile, kMaxManifest);
    Manifest manifest = parse_manifest(text, entry.name + "/" + kManifestFile);
    if (manifest.step != name.step || manifest.execution != name.execution) {
      throw Error(Code::User, entry.name + "/" + kManifestFile +
                                  ": belongs to another checkpoint than its directory says");
    }
    std::vector<std::string> names;
    for (const auto& [file, facts] : manifest.files) names.push_back(file);
    if (const auto missing = missing_shard(names)) {
      throw Error(Code::User, entry.name + "/" + kManifestFile + ": " + *missing);
    }
    entry.status = Status::Valid;
    entry.manifest = std::move(manifest);
  } catch (const Error& error) {
    // Removed between the look and the read: unfinished, like any half-removed checkpoint.
    const bool gone = error.code() == Code::NotFound;
    entry.status = gone                      ? Status::Unfinished
                   : is_damage(error.code()) ? Status::Damaged
                                             : Status::Unreadable;
    entry.reason = gone ? "unfinished: no manifest" : error.what();
  }
  return entry;
}

std::vector<Entry> CheckpointStore::list() const {
  std::vector<Entry> entries;
  for (const std::string& text : files_->list(directory_)) {
    const auto name = parse_checkpoint_name(text);
    if (name) entries.push_back(inspect(*name));
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.age() > b.age(); });
  return entries;
}

std::optional<std::string> CheckpointStore::verify(const std::string& name) const {
  const auto parsed = parse_checkpoint_name(name);
  if (!parsed) return "'" + base::printable(name) + "' is not the name of a checkpoint";
  const Entry entry = inspect(*parsed);
  if (entry.status != Status::Valid) return entry.reason;
  try {
    for (const auto& [file, expected] : entry.manifest->files) {
      auto damage = file_damage(*files_, directory_ / entry.name / file, file, expected);
      if (damage) return damage;
    }
  } catch (const Error& error) {
    if (!is_damage(error.code())) throw;
    return std::string(error.what());
  }
  return std::nullopt;
}

LatestLoaded CheckpointStore::load_latest(const std::string& model_fingerprint,
                                          const std::string& data_fingerprint,
                                          const std::vector<TensorPlace>& model,
                                          const std::vector<TensorPlace>& optimizer) const {
  return load_one_of(list(), model_fingerprint, data_fingerprint, model, optimizer);
}

LatestLoaded CheckpointStore::load_first(const std::vector<std::string>& names,
                                         const std::string& model_fingerprint,
                                         const std::string& data_fingerprint,
                                         const std::vector<TensorPlace>& model,
                                         const std::vector<TensorPlace>& optimizer) const {
  std::vector<Entry> entries;
  for (const std::string& name : names) {
    const auto parsed = parse_checkpoint_name(name);
    base::check(parsed.has_value(), "these are names of checkpoints");
    entries.push_back(inspect(*parsed));
  }
  return load_one_of(entries, model_fingerprint, data_fingerprint, model, optimizer);
}

LatestLoaded CheckpointStore::load_one_of(const std::vector<Entry>& entries,
                                          const std::string& model_fingerprint,
                                          const std::string& data_fingerprint,
                                          const std::vector<TensorPlace>& model,
                                          const std::vector<TensorPlace>& optimizer) const {
  LatestLoaded latest;
  std::optional<Error> misfit;
  std::optional<Error> unreadable;
  for (const Entry& entry : entries) {
    const auto skip = [&](const std::string& reason) {
      latest.skipped.push_back({entry.name, reason});
    };
    if (entry.status != Status::Valid) {
      skip(entry.reason);
      if (entry.status == Status::Unreadable) unreadable.emplace(Code::Operator, entry.reason);
      continue;
    }
    const bool same_model = entry.manifest->model_fingerprint == model_fingerprint;
    if (!same_model || entry.manifest->data_fingerprint != data_fingerprint) {
      const std::string reason =
          std::string("checkpoint of another ") + (same_model ? "data set" : "model");
      skip(reason);
      if (!misfit) {
        misfit.emplace(Code::User, entry.name + " is a " + reason + "; restore the run file's " +
                                       (same_model ? "data" : "model") +
                                       " settings or start a new run");
      }
      continue;
    }
    try {
      auto absent = load_files(*files_, directory_ / entry.name, *entry.manifest, model, optimizer);
      latest.checkpoint = Loaded{entry.name, *entry.manifest, std::move(absent)};
      return latest;
    } catch (const Error& error) {
      skip(error.what());
      latest.skipped.back().is_damaged = is_damage(error.code());
      if (!is_damage(error.code())) unreadable = error;
    }
  }
  if (unreadable) throw *unreadable;
  if (misfit) throw *misfit;
  return latest;
}

void CheckpointStore::remove(const std::string& name) {
  if (!parse_checkpoint_name(name)) {
    throw Error(Code::User, "'" + base::printable(name) + "' is not the name of a checkpoint");
  }
  const base::Path path = directory_ / name;
  // Behind a link lies somebody else's directory: only the link itself goes.
  std::error_code ignored;
  if (!std::filesystem::is_symlink(path, ignored) && files_->exists(path / kManifestFile)) {
    files_->remove_file(path / kManifestFile);
    files_->sync_directory(path);
  }
  files_->remove_tree(path);
}

}  // namespace regatta::checkpoint
