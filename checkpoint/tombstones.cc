#include "checkpoint/tombstones.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "checkpoint/store.h"

namespace regatta::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFile = "removed.jsonl";
// kMostTombstones of the longest lines, with room to spare; a longer file is not ours.
constexpr std::uint64_t kMostFileBytes = std::uint64_t{16} << 20U;

std::string read_file(base::FileSystem& files, const base::Path& path) {
  try {
    return files.read(path, kMostFileBytes);
  } catch (const base::Error& error) {
    if (error.code() == base::Code::NotFound) return "";
    throw;
  }
}

std::optional<Tombstone> parse_tombstone(const std::string& line) {
  if (line.empty() || !base::json_depth_at_most(line, 4)) return std::nullopt;
  const Json json = base::parse_json<Json>(line);
  if (!json.is_object()) return std::nullopt;
  const auto text = [&](const char* key) {
    const auto it = json.find(key);
    return it != json.end() && it->is_string() ? it->get<std::string>() : std::string();
  };
  Tombstone tombstone;
  tombstone.name = text("name");
  const auto name = parse_checkpoint_name(tombstone.name);
  if (!name) return std::nullopt;
  tombstone.step = name->step;
  const auto utc = json.find("utc_seconds");
  if (utc != json.end() && utc->is_number()) tombstone.utc_seconds = utc->get<double>();
  tombstone.why = text("why");
  tombstone.round = text("round");
  const auto kept = json.find("kept");
  tombstone.kept = kept != json.end() && kept->is_boolean() && kept->get<bool>();
  return tombstone;
}

std::string line_of(const Tombstone& tombstone) {
  Json json{{"name", tombstone.name},
            {"step", tombstone.step},
            {"utc_seconds", tombstone.utc_seconds},
            {"why", tombstone.why},
            {"round", tombstone.round}};
  if (tombstone.kept) json["kept"] = true;
  return base::json_text(json) + "\n";
}

}  // namespace

std::map<std::string, Tombstone> read_tombstones(base::FileSystem& files,
                                                 const base::Path& checkpoints) {
  std::map<std::string, std::vector<Tombstone>> by_name;
  for (const std::string& line : base::split(read_file(files, checkpoints / kFile), '\n')) {
    auto tombstone = parse_tombstone(line);
    if (!tombstone) continue;
    std::vector<Tombstone>& rounds = by_name[tombstone->name];
    std::erase_if(rounds, [&](const Tombstone& one) { return one.round == tombstone->round; });
    if (!tombstone->kept) rounds.push_back(std::move(*tombstone));
  }
  std::map<std::string, Tombstone> found;
  for (auto& [name, rounds] : by_name) {
    if (!rounds.empty()) found[name] = std::move(rounds.back());
  }
  return found;
}

void add_tombstones(base::FileSystem& files, const base::Path& checkpoints,
                    const std::vector<Tombstone>& tombstones) {
  if (tombstones.empty()) return;
  const base::Path path = checkpoints / kFile;
  std::error_code ignored;
  if (std::filesystem::is_symlink(path, ignored)) {
    throw base::Error(base::Code::Operator, path.string() +
                                                " is a symbolic link; nothing is written through "
                                                "one: put a file there");
  }
  std::string text = read_file(files, path);
  const std::vector<std::string> lines = base::split(text, '\n');
  if (lines.size() > kMostTombstones) {
    text.clear();
    for (std::size_t i = lines.size() - kMostTombstones / 2; i < lines.size(); ++i) {
      if (!lines[i].empty()) text += lines[i] + "\n";
    }
    base::replace_file(files, path, text);
  }
  // A crash may have torn the last line.
  std::string added = text.empty() || text.back() == '\n' ? "" : "\n";
  for (const Tombstone& tombstone : tombstones) added += line_of(tombstone);
  const auto file = files.open(path, base::FileSystem::Open::Append);
  file->append(added);
  file->sync();
  if (text.empty()) files.sync_directory(checkpoints);
}

}  // namespace regatta::checkpoint
