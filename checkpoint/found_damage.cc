#include "checkpoint/found_damage.h"

#include <nlohmann/json.hpp>

#include "base/digest.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "checkpoint/pins.h"

namespace regatta::checkpoint {
namespace {

using DamageJson = nlohmann::ordered_json;

constexpr const char* kFoundDamaged = "damaged";
constexpr std::uint64_t kMostNoteBytes = 16 * 1024;
constexpr std::size_t kLongestFinding = 1000;  // bytes
constexpr std::uint64_t kMostManifestBytes = std::uint64_t{16} << 20U;

// Nothing where there is none.
std::optional<std::string> read_any(base::FileSystem& files, const base::Path& path,
                                    std::uint64_t limit) {
  try {
    return files.read(path, limit);
  } catch (const base::Error& error) {
    if (error.code() == base::Code::NotFound || error.code() == base::Code::User) return {};
    throw;
  }
}

std::optional<std::string> manifest_digest(base::FileSystem& files, const base::Path& checkpoint) {
  const auto text = read_any(files, checkpoint / kManifestFile, kMostManifestBytes);
  if (!text) return std::nullopt;
  return base::digest_of(*text);
}

}  // namespace

std::map<std::string, std::string> read_found_damage(base::FileSystem& files,
                                                     const base::Path& checkpoints) {
  std::map<std::string, std::string> found;
  for (const std::string& name : files.list(checkpoints / kFoundDamaged)) {
    if (!parse_checkpoint_name(name)) continue;
    const auto text = read_any(files, checkpoints / kFoundDamaged / name, kMostNoteBytes);
    if (!text || !base::json_depth_at_most(*text, 4)) continue;
    const auto json = base::parse_json<DamageJson>(*text);
    if (!json.is_object() || !json.contains("manifest") || !json.contains("reason")) continue;
    if (!json["manifest"].is_string() || !json["reason"].is_string()) continue;
    if (manifest_digest(files, checkpoints / name) != json["manifest"].get<std::string>()) continue;
    found[name] = json["reason"].get<std::string>();
  }
  return found;
}

std::vector<Entry> list_with_found_damage(base::FileSystem& files, const base::Path& checkpoints) {
  std::vector<Entry> all = CheckpointStore(files, checkpoints).list();
  const auto found = read_found_damage(files, checkpoints);
  for (Entry& entry : all) {
    const auto damage = found.find(entry.name);
    if (entry.status != Status::Valid || damage == found.end()) continue;
    entry.status = Status::Damaged;
    entry.reason = damage->second;
  }
  return all;
}

void note_found_damage(base::FileSystem& files, const base::Path& checkpoints,
                       const std::string& name, const std::optional<std::string>& damage,
                       double utc_seconds) {
  if (!parse_checkpoint_name(name)) {
    throw base::Error(base::Code::User, "'" + base::printable(name.substr(0, 200)) +
                                            "' is not the name of a checkpoint");
  }
  refuse_links(checkpoints, kFoundDamaged);
  const base::Path folder = checkpoints / kFoundDamaged;
  for (const std::string& noted : files.list(folder)) {  // what became of others
    const bool is_name = parse_checkpoint_name(noted).has_value();
    if (is_name && !files.exists(checkpoints / noted)) files.remove_file(folder / noted);
  }
  const auto manifest = damage ? manifest_digest(files, checkpoints / name) : std::nullopt;
  if (!manifest) return files.remove_file(folder / name);
  if (files.create_directory(folder)) files.sync_directory(checkpoints);
  const DamageJson json{{"reason", damage->substr(0, kLongestFinding)},
                        {"manifest", *manifest},
                        {"utc_seconds", utc_seconds}};
  base::replace_file(files, folder / name, base::json_text(json) + "\n");
}

}  // namespace regatta::checkpoint
