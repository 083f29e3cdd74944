#include "checkpoint/store.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/digest.h"
#include "base/error.h"
#include "base/text.h"

namespace regatta::checkpoint {
namespace {

using base::Code;
using base::Error;

constexpr std::uint64_t kMaxManifest = std::uint64_t{4} << 20U;
constexpr std::uint64_t kReadBlock = std::uint64_t{8} << 20U;
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

CheckpointStore::CheckpointStore(base::FileSystem& files, base::Path directory)
    : files_(&files), directory_(std::move(directory)) {}

Written CheckpointStore::write(const Contents& contents, const std::function<bool()>& allowed) {
  const Manifest& manifest = contents.manifest;
  base::check(is_execution(manifest.execution), "an execution id is letters and digits");
  base::check(manifest.step >= 0 && manifest.step <= kMaxStep, "a step has at most ten digits");
  Written written;
  written.name = CheckpointName{manifest.step, manifest.execution}.text();
  const base::Path path = directory_ / written.name;
  files_->create_directory(directory_);

  const std::uint64_t needed = safetensors_bytes(contents.model, kMetadata) +
                               safetensors_bytes(contents.optimizer, kMetadata) + kSpareBytes;
  const std::uint64_t available = files_->free_bytes(directory_);
  if (available < needed) {
    throw Error(Code::Operator, "no room for checkpoint " + written.name + ": it needs " +
                                    base::human_bytes(needed) + ", the disk has " +
                                    base::human_bytes(available) + "; free some space");
  }
  if (!files_->create_directory(path)) {
    if (files_->exists(path / kManifestFile)) {
      throw Error(Code::Conflict, "checkpoint " + written.name + " is already written");
    }
    files_->remove_tree(path);  // what an earlier failure of this execution could not remove
    files_->create_directory(path);
  }
  try {
    write_files(contents, path, allowed, &written);
  } catch (...) {
    try {
      remove(written.name);
    } catch (const Error&) {  // the first failure is the one to report
    }
    throw;
  }
  return written;
}

void CheckpointStore::write_files(const Contents& contents, const base::Path& path,
                                  const std::function<bool()>& allowed, Written* written) {
  Manifest manifest = contents.manifest;
  manifest.files.clear();
  const auto shard = [&](const char* name, const std::vector<NamedTensor>& tensors) {
    const WrittenFile file = write_safetensors(*files_, path / name, tensors, kMetadata);
    manifest.files[name] = {file.bytes, file.digest};
    written->bytes += file.bytes;
  };
  shard(kModelFile, contents.model);
  shard(kOptimizerFile, contents.optimizer);
  // The shards' names and the directory's own reach the disk before the manifest says that they are
  // there.
  files_->sync_directory(path);
  files_->sync_directory(directory_);

  const std::string text = to_json(manifest);
  const base::Path temporary = path / "manifest.json.tmp";
  const auto file = files_->open(temporary, base::FileSystem::Open::CreateNew);
  file->append(text);
  file->sync();
  written->bytes += text.size();
  if (!allowed()) {
    throw Error(Code::Conflict, "fenced: a newer attempt owns the run, so checkpoint " +
                                    written->name + " was not written");
  }
  files_->rename(temporary, path / kManifestFile);
  files_->sync_directory(path);
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
    for (const char* file : {kModelFile, kOptimizerFile}) {
      if (manifest.files.count(file) == 0) {
        throw Error(Code::User, entry.name + "/" + kManifestFile + ": does not list " + file);
      }
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
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.step != b.step ? a.step > b.step : a.name > b.name;
  });
  return entries;
}

std::optional<std::string> CheckpointStore::verify(const std::string& name) const {
  const auto parsed = parse_checkpoint_name(name);
  if (!parsed) return "'" + base::printable(name) + "' is not the name of a checkpoint";
  const Entry entry = inspect(*parsed);
  if (entry.status != Status::Valid) return entry.reason;
  return verify_files(directory_ / entry.name, *entry.manifest);
}

std::optional<std::string> CheckpointStore::verify_files(const base::Path& path,
                                                         const Manifest& manifest) const {
  for (const auto& [name, expected] : manifest.files) {
    base::Digest digest;
    std::uint64_t bytes = 0;
    try {
      // One byte beyond the expected size, so that a longer file shows as well.
      while (bytes <= expected.bytes) {
        const std::uint64_t wanted = std::min(kReadBlock, expected.bytes + 1 - bytes);
        const std::string block = files_->read_at(path / name, bytes, wanted);
        digest.update(block);
        bytes += block.size();
        if (block.size() < wanted) break;
      }
    } catch (const Error& error) {
      if (!is_damage(error.code())) throw;
      return std::string(error.what());
    }
    if (bytes != expected.bytes) {
      return name + " is " + (bytes < expected.bytes ? "shorter" : "longer") +
             " than the manifest says (" + std::to_string(expected.bytes) + " bytes)";
    }
    if (digest.hex() != expected.digest) return name + " is damaged: its digest differs";
  }
  return std::nullopt;
}

Latest CheckpointStore::open_latest_valid(const std::string& model_fingerprint,
                                          const std::string& data_fingerprint) const {
  Latest latest;
  std::optional<Error> misfit;
  std::optional<Error> unreadable;
  for (Entry& entry : list()) {
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
      const base::Path path = directory_ / entry.name;
      if (const auto damage = verify_files(path, *entry.manifest)) {
        skip(*damage);
        continue;
      }
      latest.checkpoint = OpenCheckpoint{entry.name, std::move(*entry.manifest),
                                         SafetensorsReader::open(*files_, path / kModelFile),
                                         SafetensorsReader::open(*files_, path / kOptimizerFile)};
      return latest;
    } catch (const Error& error) {
      skip(error.what());
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
