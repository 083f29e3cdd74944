#include "orchestrator/api/checkpoint_api.h"

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <thread>

#include "base/digest.h"
#include "base/error.h"
#include "base/json.h"
#include "base/shell_words.h"
#include "base/text.h"
#include "orchestrator/api/answers.h"
#include "orchestrator/api/download.h"
#include "orchestrator/checkpoints/checkpoint_exports.h"
#include "orchestrator/checkpoints/checkpoint_tools.h"
#include "orchestrator/files/shared_files.h"
#include "orchestrator/runs/run_presence.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;
using base::Code;
using base::Error;
using checkpoints::CheckpointTools;

constexpr int kMostDepth = 4;
constexpr double kReadSeconds = 5;    // then 503: the run's file system does not answer
constexpr double kWholeSeconds = 60;  // where a whole checkpoint is read

// The body of a pin: nothing, or {"reason": "…"}.
std::string read_reason(const std::string& body) {
  if (body.find_first_not_of(" \t\r\n") == std::string::npos) return "";
  const Json json = read_body(body, kMostDepth);
  const bool good = json.is_object() && json.size() <= 1 &&
                    (json.empty() || (json.contains("reason") && json["reason"].is_string()));
  if (!good) {
    std::string wrong = "reason";  // unless another key is
    if (json.is_object()) {
      for (const auto& [key, value] : json.items()) {
        if (key != "reason") wrong = base::printable(key);
      }
    }
    throw Error(Code::User, R"(the body is not {"reason": "…"}; send that, or nothing)",
                json.is_object() ? wrong : "");
  }
  return json.empty() ? "" : json["reason"].get<std::string>();
}

// The body of an export: nothing, or {"for": "…", "with_optimizer": true}.
checkpoints::ExportRequest read_export(const std::string& body) {
  checkpoints::ExportRequest request;
  if (body.find_first_not_of(" \t\r\n") == std::string::npos) return request;
  const Json json = read_body(body, kMostDepth);
  bool good = json.is_object();
  std::string wrong;  // the first key that is
  for (const auto& [key, value] : json.items()) {
    const std::string model = value.is_string() ? value.get<std::string>() : "";
    const auto& known = checkpoints::kExportModels;
    if (key == "for" && std::find(known.begin(), known.end(), model) != known.end()) {
      request.model = model;
    } else if (key == "with_optimizer" && value.is_boolean()) {
      request.with_optimizer = value.get<bool>();
    } else {
      if (json.is_object() && wrong.empty()) wrong = base::printable(key);
      good = false;
    }
  }
  if (!good) {
    throw Error(Code::User,
                R"(the body is not {"for": "pretraining", "encoder", "question-answering" or )"
                R"("sequence-classification", "with_optimizer": true or false}; send that, a )"
                "part of it, or nothing",
                wrong);
  }
  return request;
}

Response too_large(const CheckpointTools& tools, std::uint64_t bytes, std::uint64_t limit,
                   const std::string& command) {
  return error_response(413, "user",
                        "the checkpoint has " + base::human_bytes(bytes) +
                            "; requests read at most " + base::human_bytes(limit) + ": use `" +
                            base::shown_command("regatta ckpt " + command + " --directory",
                                                tools.run_directory().string()) +
                            "`");
}

std::unique_lock<std::mutex> take_turn(std::mutex& reading) {
  std::unique_lock lock(reading, std::try_to_lock);
  if (!lock.owns_lock()) {
    throw Error(Code::Retry, "another request is reading a checkpoint; try again when it is done");
  }
  return lock;
}

// What a whole checkpoint has to be read for. bytes: how many.
Response read_whole(std::mutex& reading, const CheckpointTools& tools, std::uint64_t limit,
                    const std::string& command, const std::function<std::uint64_t()>& bytes,
                    const std::function<Json()>& read) {
  const auto turn = take_turn(reading);
  const std::uint64_t found = bytes();
  if (found > limit) return too_large(tools, found, limit, command);
  return json_response(200, read());
}

// Who ends a download is a thread that must not wait for a file system: the mark is taken away in
// one of its own.
std::shared_ptr<void> let_go_elsewhere(std::shared_ptr<void> mark) {
  if (mark == nullptr) return nullptr;
  void* const same = mark.get();
  return {same, [mark](void*) mutable {
            try {
              std::thread([kept = std::move(mark)]() mutable { kept.reset(); }).detach();
            } catch (const std::system_error&) {  // no thread: it goes here
            }
          }};
}

[[noreturn]] void throw_no_file(const std::string& file, const std::string& of,
                                const std::vector<std::string>& names) {
  throw Error(Code::NotFound, "no file '" + base::printable(file.substr(0, 100)) + "' in " + of +
                                  "; it has " + base::join(names, ", "));
}

struct Exported {
  base::Path directory;
  std::vector<ArchivedFile> files;
  std::map<std::string, std::string> digests;  // by file, where they are known
};
Exported exported(const CheckpointTools& tools, const checkpoints::CheckpointExports& exports,
                  const std::string& name) {
  const std::string whole =
      checkpoint::parse_checkpoint_name(name) ? name : tools.path_of(name).filename().string();
  const Json json = exports.finished(tools.run_directory(), whole);
  Exported found{json["path"].get<std::string>(), {}, {}};
  for (const Json& file : json["files"]) {
    const std::string file_name = file["name"].get<std::string>();
    found.files.push_back(
        {file_name, found.directory / file_name, file["bytes"].get<std::uint64_t>()});
    if (file["digest"].is_string()) found.digests[file_name] = file["digest"].get<std::string>();
  }
  return found;
}

// Where digests are not known, sizes tell most exports of a checkpoint apart.
std::string version_of(const Exported& found) {
  std::string text = found.directory.string();
  for (const ArchivedFile& file : found.files) {
    text += "\n" + file.name + " " + std::to_string(file.size);
    const auto digest = found.digests.find(file.name);
    if (digest != found.digests.end()) text += " " + digest->second;
  }
  return base::digest_of(text);
}

// In a thread that may wait for the file system.
Response send_whole(const Request& request, base::FileSystem& files, files::SharedFiles* shared,
                    Download download) {
  check_sizes(files, download);
  return send(request, files, shared, std::move(download));
}

Download archive_of(const base::Path& run_directory, std::vector<ArchivedFile> files,
                    const std::string& name, double modified_utc, const std::string& version) {
  for (ArchivedFile& file : files) file.name.insert(0, name + "/");
  Download download{run_directory, tar_archive(files, modified_utc), name + ".tar",
                    "application/x-tar"};
  download.version = version;
  return download;
}

}  // namespace

template <typename Work>
Response CheckpointApi::in_files(const runs::Run& run, double seconds, Work work) const {
  return files::call_if(shared_, run.directory, seconds,
                        [work = std::move(work), files = &files_, clock = &clock_,
                         directory = run.directory]() -> Response {
                          runs::refuse_gone(*files, directory);
                          return work(checkpoints::CheckpointTools(*files, *clock, directory));
                        });
}

Response CheckpointApi::show(const runs::Run& run, const std::string& name) const {
  return in_files(run, kReadSeconds, [name](const CheckpointTools& tools) {
    return json_response(200, tools.show(name));
  });
}

Response CheckpointApi::verify(const runs::Run& run, const std::string& name) const {
  return in_files(
      run, kWholeSeconds,
      [name, limit = most_verified_bytes_, reading = reading_](const CheckpointTools& tools) {
        return read_whole(
            *reading, tools, limit, "verify", [&] { return tools.bytes_of(name); },
            [&] { return tools.verify(name); });
      });
}

Response CheckpointApi::pin(const Request& request, const runs::Run& run,
                            const std::string& name) const {
  return in_files(run, kReadSeconds, [name, body = request.body](CheckpointTools tools) {
    return json_response(200, tools.pin(name, read_reason(body)));
  });
}

Response CheckpointApi::unpin(const runs::Run& run, const std::string& name) const {
  return in_files(run, kReadSeconds,
                  [name](CheckpointTools tools) { return json_response(200, tools.unpin(name)); });
}

Response CheckpointApi::collect(const runs::Run& run, checkpoints::CheckpointTools::Gc mode) const {
  return in_files(run, kWholeSeconds,
                  [mode, limit = most_verified_bytes_, reading = reading_](CheckpointTools tools) {
                    using Gc = checkpoints::CheckpointTools::Gc;
                    // What may not be read here is told by the manifests.
                    if (mode == Gc::DryRun && tools.newest_bytes() > limit) {
                      return json_response(200, tools.gc(Gc::DryRunUnread));
                    }
                    return read_whole(
                        *reading, tools, limit, "gc", [&] { return tools.newest_bytes(); },
                        [&] { return tools.gc(mode); });
                  });
}

// An export may outlive its checkpoint.
Response CheckpointApi::show_export(const runs::Run& run, const std::string& name) const {
  return in_files(run, kReadSeconds, [name, exports = exports_](const CheckpointTools& tools) {
    const std::string whole =
        checkpoint::parse_checkpoint_name(name) ? name : tools.path_of(name).filename().string();
    return json_response(200, exports->status(tools.run_directory(), whole));
  });
}

// The output's place is not the client's to choose.
Response CheckpointApi::begin_export(const Request& request, const runs::Run& run,
                                     const std::string& name) const {
  Response response = in_files(
      run, kReadSeconds,
      [name, body = request.body, exports = exports_](const CheckpointTools& tools) {
        const std::string whole = tools.path_of(name).filename().string();
        return json_response(202, exports->start(tools.run_directory(), whole, read_export(body)));
      });
  response.headers["Location"] = request.path;
  return response;
}

Response CheckpointApi::send_file(const Request& request, const runs::Run& run,
                                  const std::string& name, const std::string& file) const {
  return in_files(
      run, kReadSeconds,
      [name, file, request, files = &files_, shared = shared_](const CheckpointTools& tools) {
        const CheckpointTools::StoredFiles stored = tools.files_of(name);
        std::vector<std::string> names;
        for (const CheckpointTools::StoredFile& each : stored.files) {
          names.push_back(each.name);
          if (each.name != file) continue;
          Download download{tools.run_directory(),
                            {{"", stored.directory / file, each.bytes}},
                            stored.directory.filename().string() + "-" + file};
          download.digest = each.digest;
          download.held = let_go_elsewhere(tools.hold(stored.directory));
          return send_whole(request, *files, shared, std::move(download));
        }
        throw_no_file(file, stored.directory.filename().string(), names);
      });
}

Response CheckpointApi::send_archive(const Request& request, const runs::Run& run,
                                     const std::string& name) const {
  return in_files(run, kReadSeconds,
                  [name, request, files = &files_, shared = shared_](const CheckpointTools& tools) {
                    const CheckpointTools::StoredFiles stored = tools.files_of(name);
                    std::vector<ArchivedFile> archived;
                    std::string digests;
                    for (const CheckpointTools::StoredFile& each : stored.files) {
                      archived.push_back({each.name, stored.directory / each.name, each.bytes});
                      digests += each.digest;
                    }
                    Download download = archive_of(tools.run_directory(), std::move(archived),
                                                   stored.directory.filename().string(),
                                                   stored.written_utc, base::digest_of(digests));
                    download.held = let_go_elsewhere(tools.hold(stored.directory));
                    return send_whole(request, *files, shared, std::move(download));
                  });
}

Response CheckpointApi::send_export_file(const Request& request, const runs::Run& run,
                                         const std::string& name, const std::string& file) const {
  return in_files(run, kReadSeconds,
                  [name, file, request, exports = exports_, files = &files_,
                   shared = shared_](const CheckpointTools& tools) {
                    const Exported found = exported(tools, *exports, name);
                    std::vector<std::string> names;
                    for (const ArchivedFile& each : found.files) {
                      names.push_back(each.name);
                      if (each.name != file) continue;
                      Download download{tools.run_directory(), {{"", each.path, each.size}}, file};
                      const auto digest = found.digests.find(file);
                      if (digest != found.digests.end()) {
                        download.digest = digest->second;
                      } else {
                        download.version = version_of(found);
                      }
                      return send_whole(request, *files, shared, std::move(download));
                    }
                    throw_no_file(file, "the export", names);
                  });
}

Response CheckpointApi::send_export_archive(const Request& request, const runs::Run& run,
                                            const std::string& name) const {
  return in_files(run, kReadSeconds,
                  [name, request, created = run.created_utc, exports = exports_, files = &files_,
                   shared = shared_](const CheckpointTools& tools) {
                    const Exported found = exported(tools, *exports, name);
                    return send_whole(request, *files, shared,
                                      archive_of(tools.run_directory(), found.files,
                                                 found.directory.filename().string() + "-export",
                                                 created, version_of(found)));
                  });
}

Response CheckpointApi::remove_export(const runs::Run& run, const std::string& name) const {
  return in_files(run, kWholeSeconds, [name, exports = exports_](const CheckpointTools& tools) {
    const std::string whole =
        checkpoint::parse_checkpoint_name(name) ? name : tools.path_of(name).filename().string();
    const Json json = exports->status(tools.run_directory(), whole);
    exports->remove(tools.run_directory(), whole);
    std::uint64_t bytes = 0;
    for (const Json& file : json["files"]) bytes += file["bytes"].get<std::uint64_t>();
    return json_response(200, {{"name", whole}, {"bytes", bytes}});
  });
}

// The same until something but an age is another, which goes with the clock.
Response checkpoint_list(const Json& listed) {
  Json steady = listed;
  for (Json& row : steady["checkpoints"]) row["age_seconds"] = nullptr;
  Response response = json_response(200, listed);
  response.headers["ETag"] = "W/\"" + base::digest_of(base::json_text(steady)) + "\"";
  return response;
}

Json CheckpointApi::list(const runs::Run& run, Json answer) const {
  std::map<std::string, Json> found;
  try {
    const Json listed =
        files::call_if(shared_, run.directory, kReadSeconds,
                       [files = &files_, clock = &clock_, directory = run.directory] {
                         runs::refuse_gone(*files, directory);
                         return checkpoints::CheckpointTools(*files, *clock, directory).list();
                       });
    for (const Json& row : listed["checkpoints"]) {
      found[row["name"].get<std::string>()] = row;
    }
  } catch (const Error& error) {
    answer["trouble"] = error.what();
    return answer;
  }
  Json& rows = answer["checkpoints"];
  for (Json& row : rows) {
    const auto it = found.find(row.value("name", ""));
    if (it == found.end()) continue;
    for (const char* key : {"condition", "reason", "metric", "value", "age_seconds", "pinned",
                            "goes", "kept_because", "shards"}) {
      row[key] = it->second[key];
    }
    if (it->second["condition"] == "removed") row["status"] = "removed";
    found.erase(it);
  }
  for (auto& [name, row] : found) {  // by name, and so by step
    row["seconds"] = nullptr;
    row["status"] = row["condition"] == "valid" ? Json("written") : row["condition"];
    rows.push_back(std::move(row));
  }
  return answer;
}

}  // namespace regatta::orchestrator::api
