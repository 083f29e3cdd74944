#include "orchestrator/frozen/frozen_job.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/digest.h"
#include "base/error.h"
#include "base/text.h"

namespace regatta::orchestrator::frozen {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr std::uint64_t kMostJsonBytes = std::uint64_t{64} << 20U;
constexpr std::uint64_t kMostListBytes = std::uint64_t{2} << 30U;
constexpr std::size_t kDigestDigits = 32;
constexpr std::string_view kKinds = "fxl";  // as FrozenFile::Kind

// "DIGEST KIND BYTES PATH", ended by NUL: a path may hold anything else.
std::string list_of(const std::vector<FrozenFile>& files) {
  std::string text;
  for (const FrozenFile& file : files) {
    text += file.digest;
    text += ' ';
    text += kKinds[static_cast<std::size_t>(file.kind)];
    text += ' ' + std::to_string(file.bytes) + ' ' + file.path;
    text += '\0';
  }
  return text;
}

FrozenFile file_of(const std::string& entry) {
  const std::size_t bytes_at = kDigestDigits + 3;
  const std::size_t space = entry.find(' ', bytes_at);
  const std::size_t kind =
      entry.size() > bytes_at ? kKinds.find(entry[kDigestDigits + 1]) : std::string::npos;
  const auto bytes = space == std::string::npos
                         ? std::nullopt
                         : base::parse_integer(entry.substr(bytes_at, space - bytes_at));
  if (kind == std::string::npos || !bytes || *bytes < 0 || space + 1 >= entry.size()) {
    throw base::Error(base::Code::Operator, "a line of its list is damaged");
  }
  return {entry.substr(space + 1), entry.substr(0, kDigestDigits),
          static_cast<std::uint64_t>(*bytes), static_cast<FrozenFile::Kind>(kind)};
}

std::vector<FrozenFile> files_of(const std::string& list) {
  std::vector<FrozenFile> files;
  if (list.empty()) return files;
  if (list.back() != '\0') throw base::Error(base::Code::Operator, "its list has no end");
  for (const std::string& entry :
       base::split(std::string_view(list).substr(0, list.size() - 1), '\0')) {
    files.push_back(file_of(entry));
  }
  return files;
}

FrozenJob job_of(const Json& json) {
  FrozenJob job;
  if (json.at("format") != kFormat) {
    throw base::Error(base::Code::Operator, "it is of another version of regatta");
  }
  job.made = json.at("made");
  job.root = json.at("root").get<std::string>();
  job.directory = json.at("directory");
  if (!json.at("commit").is_null()) job.commit = json.at("commit");
  job.at_commit = json.at("at_commit");
  job.tree = json.at("tree");
  job.linked = json.at("linked").get<std::vector<std::string>>();
  if (!json.at("script").is_null()) job.script = json.at("script").get<std::string>();
  job.script_digest = json.at("script_digest");
  job.command = json.at("command").get<std::vector<std::string>>();
  return job;
}

}  // namespace

std::string tree_digest(const std::vector<FrozenFile>& files) {
  return base::digest_of(list_of(files));
}

void write_frozen_job(base::FileSystem& files, const base::Path& folder, const FrozenJob& job) {
  Json json;
  json["format"] = kFormat;
  json["made"] = job.made;
  json["root"] = job.root.string();
  json["directory"] = job.directory;
  json["commit"] = job.commit ? Json(*job.commit) : Json();
  json["at_commit"] = job.at_commit;
  json["tree"] = job.tree;
  json["linked"] = job.linked;
  json["script"] = job.script ? Json(job.script->string()) : Json();
  json["script_digest"] = job.script_digest;
  json["command"] = Json::array();
  for (const std::string& word : job.command) json["command"].push_back(base::printable(word));
  std::string text;
  try {
    text = json.dump(1) + "\n";
  } catch (const Json::exception&) {
    throw base::Error(base::Code::User,
                      "a name beside the files of " + base::printable(job.root.string()) +
                          " is not UTF-8; rename the folder or what git ignores in it");
  }
  base::replace_file(files, folder / "files", list_of(job.files));
  base::replace_file(files, folder / "frozen.json", text);
}

FrozenJob read_frozen_job(base::FileSystem& files, const base::Path& folder) {
  const std::string text = files.read(folder / "frozen.json", kMostJsonBytes);
  try {
    FrozenJob job = job_of(Json::parse(text));
    job.name = folder.filename().string();
    const std::string list = files.read(folder / "files", kMostListBytes);
    if (base::digest_of(list) != job.tree) {
      throw base::Error(base::Code::Operator, "its list is not the one that was written");
    }
    job.files = files_of(list);
    return job;
  } catch (const Json::exception&) {
    throw base::Error(base::Code::Operator, base::printable((folder / "frozen.json").string()) +
                                                " cannot be read: it is damaged");
  } catch (const base::Error& error) {
    throw base::Error(base::Code::Operator,
                      base::printable(folder.string()) + " cannot be read: " + error.what());
  }
}

}  // namespace regatta::orchestrator::frozen
