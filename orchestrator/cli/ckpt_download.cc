// A checkpoint, or an export of one, from the controller to this machine: file by file, each
// checked against its size and digest, and begun where an earlier try ended. Exports that were made
// before digests were noted are checked by sizes.
#include "orchestrator/cli/ckpt_download.h"

#include <iostream>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/digest.h"
#include "base/error.h"
#include "base/file_system.h"
#include "base/text.h"
#include "orchestrator/cli/client_options.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;
using base::Code;
using base::Error;

constexpr std::uint64_t kBlock = std::uint64_t{1} << 20U;
constexpr const char* kManifest = "manifest.json";
constexpr const char* kPart = ".part";  // what a file is called until it is whole

struct RemoteFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::string digest;  // empty: not known
};

class CkptDownload : public Command {
 public:
  explicit CkptDownload(const Program& program)
      : Command({"download",
                 Group::Runs,
                 "fetch a checkpoint's files, each checked; goes on where it broke off",
                 {"ckpt download demo latest", "ckpt download demo 1200 -o best",
                  "ckpt download demo latest --export -o model"}}),
        client_(ClientOptions::of(program)) {}

  void add_options(OptionList& options) override {
    add_run(options, &run_);
    options.add("checkpoint", ValueKind::Any, &checkpoint_, "its name, its step, or 'latest'")
        .is_required = true;
    options.add("-o,--output", ValueKind::Directory, &output_,
                "directory to put them in (default: the checkpoint's name)");
    options.add("--export", &of_export_,
                "the files of its export, as `regatta ckpt export` has made it");
    options.add("--force", &replace_, "replace files of the same names that are there");
    add_server_options(options, &client_);
  }

  int run() override {
    const Client client = client_.connect();
    const std::string path = "/runs/" + path_part(run_) + "/checkpoints/" + path_part(checkpoint_);
    const Json answer = client.get(of_export_ ? path + "/export" : path);
    const std::string name = plain(answer.value("name", ""));
    std::vector<RemoteFile> files = of_export_ ? exported(answer) : stored(answer);
    // By its name from here on: `latest` may be another one in a moment.
    const std::string source = "/runs/" + path_part(run_) + "/checkpoints/" + path_part(name) +
                               (of_export_ ? "/export/files/" : "/files/");
    const base::Path directory =
        std::filesystem::absolute(output_.empty() ? name : output_).lexically_normal();
    if (!of_export_) describe_manifest(client, source, &files.back());
    files_.create_directory(directory);
    refuse_others(directory, files);
    // First, as it turns out only then whether they are what is asked for: else nothing is written.
    std::set<const RemoteFile*> begun;
    for (const RemoteFile& file : files) {
      if (!may_be_begun(directory / file.name, file)) continue;
      fetch(client, source, directory, file);
      begun.insert(&file);
    }
    std::vector<const RemoteFile*> fetched;
    for (const RemoteFile& file : files) {
      if (begun.count(&file) == 0) {
        if (is_there(directory / file.name, file)) continue;
        fetch(client, source, directory, file);
      }
      fetched.push_back(&file);
      if (!of_export_) publish(directory, file);
    }
    if (of_export_) {  // together: a part of a new one beside a part of an old one is no model
      for (const RemoteFile* file : fetched) publish(directory, *file);
    }
    files_.sync_directory(directory);
    std::cout << directory.string() << "\n";
    return 0;
  }

 private:
  // Of a name that another machine chose.
  static std::string plain(const std::string& name) {
    if (!name.empty() && name.front() != '.' && name.find('/') == std::string::npos) return name;
    throw Error(Code::Operator, "the controller names a file '" + base::printable(name) +
                                    "', which is no plain name; nothing was written");
  }

  static std::vector<RemoteFile> stored(const Json& answer) {
    std::vector<RemoteFile> files;
    const Json listed = answer.value("manifest", Json::object()).value("files", Json::object());
    for (const auto& [name, file] : listed.items()) {
      files.push_back({plain(name), file.value("bytes", std::uint64_t{0}),
                       file.value("digest", std::string())});
    }
    if (files.empty()) {
      throw Error(Code::Conflict,
                  "checkpoint " + base::printable(answer.value("name", "")) +
                      " is not whole: " + base::printable(answer.value("reason", "")));
    }
    files.push_back({kManifest, 0, ""});  // last, as its writer does: without it, it is unfinished
    return files;
  }

  // It is small, and says nothing of itself.
  static void describe_manifest(const Client& client, const std::string& source,
                                RemoteFile* manifest) {
    base::Digest digest;
    client.download(source + manifest->name, 0, [&](std::string_view bytes) {
      digest.update(bytes);
      manifest->bytes += bytes.size();
    });
    manifest->digest = digest.hex();
  }

  std::vector<RemoteFile> exported(const Json& answer) {
    if (answer.value("state", "") != "done") {
      throw Error(Code::Conflict,
                  "the export of this checkpoint is not done; wait, or make it again with "
                  "`regatta ckpt export`");
    }
    std::vector<RemoteFile> files;
    std::string version = answer.value("path", "");
    for (const Json& file : answer.value("files", Json::array())) {
      const auto digest = file.find("digest");
      const bool known = digest != file.end() && digest->is_string();
      files.push_back({plain(file.value("name", "")), file.value("bytes", std::uint64_t{0}),
                       known ? digest->get<std::string>() : std::string()});
      version += "\n" + files.back().name + " " + std::to_string(files.back().bytes);
    }
    version_ = base::digest_of(version);
    return files;
  }

  // With what tells it from others in its name it is a part of this file and of no other.
  [[nodiscard]] base::Path part_of(const base::Path& directory, const RemoteFile& file) const {
    const std::string& mark = file.digest.empty() ? version_ : file.digest;
    return directory / (file.name + "." + mark.substr(0, 8) + kPart);
  }

  void publish(const base::Path& directory, const RemoteFile& file) {
    files_.rename(part_of(directory, file), directory / file.name);
  }

  [[nodiscard]] std::uint64_t size_of(const base::Path& path) {
    return files_.exists(path) ? files_.size(path) : 0;
  }

  void add_up(const base::Path& path, std::uint64_t bytes, base::Digest* digest) {
    for (std::uint64_t at = 0; at < bytes; at += kBlock) {
      digest->update(files_.read_at(path, at, std::min(kBlock, bytes - at)));
    }
  }

  [[nodiscard]] bool is_there(const base::Path& path, const RemoteFile& file) {
    if (file.digest.empty() || !files_.exists(path) || files_.size(path) != file.bytes)
      return false;
    base::Digest digest;
    add_up(path, file.bytes, &digest);
    return digest.hex() == file.digest;
  }

  // Shorter, under its last name: another program, or a disk that lost its end, may have left it.
  [[nodiscard]] bool may_be_begun(const base::Path& path, const RemoteFile& file) {
    return !replace_ && !file.digest.empty() &&
           std::filesystem::is_regular_file(std::filesystem::symlink_status(path)) &&
           files_.size(path) < file.bytes;
  }

  [[nodiscard]] bool begins_with(const base::Path& whole, const base::Path& begun) {
    const std::uint64_t bytes = files_.size(begun);
    base::Digest expected, found;
    add_up(begun, bytes, &expected);
    add_up(whole, bytes, &found);
    return found.hex() == expected.hex();
  }

  void copy(const base::Path& from, const base::Path& to) {
    const std::uint64_t bytes = files_.size(from);
    const auto output = files_.open(to, base::FileSystem::Open::Truncate);
    for (std::uint64_t at = 0; at < bytes; at += kBlock) {
      output->append(files_.read_at(from, at, std::min(kBlock, bytes - at)));
    }
  }

  [[noreturn]] static void refuse_other(const base::Path& target, const RemoteFile& file) {
    throw Error(
        Code::Conflict,
        base::printable(target.string()) +
            (file.digest.empty() ? " is there, and may be another export's" : " is another file") +
            "; name another directory, or replace what is there with --force");
  }

  // What is there and is not what is asked for is somebody's.
  void refuse_others(const base::Path& directory, const std::vector<RemoteFile>& files) {
    if (replace_) return;
    for (const RemoteFile& file : files) {
      const base::Path target = directory / file.name;
      if (!files_.exists(target) || is_there(target, file) || may_be_begun(target, file)) continue;
      refuse_other(target, file);
    }
  }

  void fetch(const Client& client, const std::string& source, const base::Path& directory,
             const RemoteFile& file) {
    const base::Path target = directory / file.name;
    const base::Path part = part_of(directory, file);
    if (std::filesystem::is_symlink(part)) {
      throw Error(Code::Conflict, base::printable(part.string()) + " is a link; remove it");
    }
    const bool begun = may_be_begun(target, file);
    if (begun && size_of(part) < files_.size(target)) copy(target, part);
    std::uint64_t offset = size_of(part);
    if (offset > file.bytes) offset = 0;
    base::Digest digest;
    if (!file.digest.empty()) add_up(part, offset, &digest);
    std::cerr << file.name
              << (file.bytes > 0 ? "  " + base::human_bytes(file.bytes) : std::string())
              << (offset > 0 ? ", from " + base::human_bytes(offset) + " on" : std::string())
              << "\n";
    const auto output = files_.open(
        part, offset > 0 ? base::FileSystem::Open::Append : base::FileSystem::Open::Truncate);
    std::uint64_t at = offset;
    if (at < file.bytes) {
      client.download(source + path_part(file.name), offset, [&](std::string_view bytes) {
        output->append(bytes);
        digest.update(bytes);
        at += bytes.size();
      });
    }
    if (at != file.bytes || (!file.digest.empty() && digest.hex() != file.digest)) {
      files_.remove_file(part);
      if (begun) refuse_other(target, file);
      throw Error(Code::Operator, base::printable(target.string()) +
                                      " came out damaged and was removed; try again, or " +
                                      (of_export_ ? "remove the export and make it again"
                                                  : "check the checkpoint with `regatta ckpt "
                                                    "verify`"));
    }
    output->sync();
    if (begun && !begins_with(part, target)) refuse_other(target, file);
  }

  base::FileSystem& files_ = base::posix_file_system();
  ClientOptions client_;
  std::string run_, checkpoint_, output_;
  std::string version_;  // of an export: what files whose digests are not known are part of
  bool of_export_ = false;
  bool replace_ = false;
};

}  // namespace

std::unique_ptr<Command> ckpt_download_command(const Program& program) {
  return std::make_unique<CkptDownload>(program);
}

}  // namespace regatta::orchestrator::cli
