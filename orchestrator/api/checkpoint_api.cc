#include "orchestrator/api/checkpoint_api.h"

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "orchestrator/api/answers.h"
#include "orchestrator/checkpoints/checkpoint_tools.h"
#include "orchestrator/files/shared_files.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;
using base::Code;
using base::Error;

constexpr int kMostDepth = 4;
constexpr double kReadSeconds = 5;    // then 503: the run's file system does not answer
constexpr double kWholeSeconds = 60;  // where a whole checkpoint is read

// The body of a pin: nothing, or {"reason": "…"}.
std::string read_reason(const std::string& body) {
  if (body.find_first_not_of(" \t\r\n") == std::string::npos) return "";
  const Json json =
      base::json_depth_at_most(body, kMostDepth) ? Json::parse(body, nullptr, false) : Json();
  const bool good = json.is_object() && json.size() <= 1 &&
                    (json.empty() || (json.contains("reason") && json["reason"].is_string()));
  if (!good) throw Error(Code::User, R"(the body is not {"reason": "…"}; send that, or nothing)");
  return json.empty() ? "" : json["reason"].get<std::string>();
}

// The body of an export: nothing, or {"for": "…", "with_optimizer": true}.
checkpoints::ExportRequest read_export(const std::string& body) {
  checkpoints::ExportRequest request;
  if (body.find_first_not_of(" \t\r\n") == std::string::npos) return request;
  const Json json =
      base::json_depth_at_most(body, kMostDepth) ? Json::parse(body, nullptr, false) : Json();
  bool good = json.is_object();
  for (const auto& [key, value] : json.items()) {
    if (key == "for" && value.is_string()) {
      request.model = value.get<std::string>();
      good = good && (request.model == "pretraining" || request.model == "encoder" ||
                      request.model == "question-answering");
    } else if (key == "with_optimizer" && value.is_boolean()) {
      request.with_optimizer = value.get<bool>();
    } else {
      good = false;
    }
  }
  if (!good) {
    throw Error(Code::User,
                R"(the body is not {"for": "pretraining", "encoder" or "question-answering", )"
                R"("with_optimizer": true or false}; send that, a part of it, or nothing)");
  }
  return request;
}

// Nothing when it is neither true nor false.
std::optional<bool> read_flag(const Request& request, const std::string& name) {
  const auto it = request.query.find(name);
  if (it == request.query.end() || it->second == "false" || it->second == "0") return false;
  if (it->second == "true" || it->second == "1") return true;
  return std::nullopt;
}

Response too_large(const checkpoints::CheckpointTools& tools, std::uint64_t bytes,
                   std::uint64_t limit, const std::string& command) {
  return error_response(413, "user",
                        "the checkpoint has " + base::human_bytes(bytes) +
                            "; requests read at most " + base::human_bytes(limit) +
                            ": use 'regatta ckpt " + command + " --directory " +
                            tools.run_directory().string() + "'");
}

Response no_such_address() {
  return error_response(404, "not_found", "no such address below /checkpoints");
}

std::unique_lock<std::mutex> take_turn(std::mutex& reading) {
  std::unique_lock lock(reading, std::try_to_lock);
  if (!lock.owns_lock()) {
    throw Error(Code::Retry, "another request is reading a checkpoint; try again when it is done");
  }
  return lock;
}

// The output's place is not the client's to choose.
Response handle_export(const Request& request, const checkpoints::CheckpointTools& tools,
                       const std::string& checkpoint, checkpoints::CheckpointExports& exports) {
  const bool post = request.method == "POST";
  if (!post && request.method != "GET") return wrong_method("GET, POST");
  // An export may outlive its checkpoint.
  const std::string name = !post && checkpoint::parse_checkpoint_name(checkpoint)
                               ? checkpoint
                               : tools.path_of(checkpoint).filename().string();
  const base::Path& run = tools.run_directory();
  if (!post) return json_response(200, exports.status(run, name));
  Response response = json_response(202, exports.start(run, name, read_export(request.body)));
  response.headers["Location"] = request.path;
  return response;
}

// What a whole checkpoint has to be read for. bytes: how many.
Response read_whole(std::mutex& reading, const checkpoints::CheckpointTools& tools,
                    std::uint64_t limit, const std::string& command,
                    const std::function<std::uint64_t()>& bytes,
                    const std::function<Json()>& read) {
  const auto turn = take_turn(reading);
  const std::uint64_t found = bytes();
  if (found > limit) return too_large(tools, found, limit, command);
  return json_response(200, read());
}

Response handle_gc(const Request& request, checkpoints::CheckpointTools& tools, std::uint64_t limit,
                   std::mutex& reading) {
  if (request.method != "POST") return wrong_method("POST");
  const auto dry_run = read_flag(request, "dry_run");
  if (!dry_run) return error_response(400, "user", "dry_run is neither true nor false");
  if (*dry_run) return json_response(200, tools.gc(checkpoints::CheckpointTools::Gc::DryRun));
  return read_whole(
      reading, tools, limit, "gc", [&] { return tools.newest_bytes(); },
      [&] { return tools.gc(checkpoints::CheckpointTools::Gc::Remove); });
}

Response answer(const Request& request, checkpoints::CheckpointTools tools,
                const std::vector<std::string>& parts, std::uint64_t limit, std::mutex& reading,
                checkpoints::CheckpointExports& exports) {
  if (parts.size() == 1 && parts[0] == "gc") return handle_gc(request, tools, limit, reading);
  if (parts.size() == 1) {
    if (request.method != "GET") return wrong_method("GET");
    return json_response(200, tools.show(parts[0]));
  }
  if (parts.size() != 2) return no_such_address();
  const std::string& action = parts[1];
  if (action == "export") return handle_export(request, tools, parts[0], exports);
  if (action != "verify" && action != "pin" && action != "unpin") return no_such_address();
  if (request.method != "POST") return wrong_method("POST");
  if (action == "pin") return json_response(200, tools.pin(parts[0], read_reason(request.body)));
  if (action == "unpin") return json_response(200, tools.unpin(parts[0]));
  return read_whole(
      reading, tools, limit, "verify", [&] { return tools.bytes_of(parts[0]); },
      [&] { return tools.verify(parts[0]); });
}

}  // namespace

Response CheckpointApi::handle(const Request& request, const runs::Run& run,
                               const std::vector<std::string>& parts) {
  const bool whole = !parts.empty() && (parts.back() == "verify" || parts.back() == "gc");
  return files::call_if(
      shared_, run.directory, whole ? kWholeSeconds : kReadSeconds,
      [request, parts, files = &files_, clock = &clock_, directory = run.directory,
       limit = most_verified_bytes_, reading = reading_, exports = exports_] {
        return answer(request, checkpoints::CheckpointTools(*files, *clock, directory), parts,
                      limit, *reading, *exports);
      });
}

Json CheckpointApi::list(const runs::Run& run, Json answer) const {
  std::map<std::string, Json> found;
  try {
    const Json listed =
        files::call_if(shared_, run.directory, kReadSeconds,
                       [files = &files_, clock = &clock_, directory = run.directory] {
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
