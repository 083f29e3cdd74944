#include "orchestrator/checkpoint_api.h"

#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "orchestrator/answers.h"
#include "orchestrator/checkpoint_tools.h"

namespace regatta::orchestrator {
namespace {

using Json = nlohmann::ordered_json;
using base::Code;
using base::Error;

constexpr int kMostDepth = 4;

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
ExportRequest read_export(const std::string& body) {
  ExportRequest request;
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

Response too_large(const CheckpointTools& tools, std::uint64_t bytes, std::uint64_t limit,
                   const std::string& command) {
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

}  // namespace

Response CheckpointApi::handle(const Request& request, const Run& run,
                               const std::vector<std::string>& parts) {
  CheckpointTools tools(files_, clock_, run.directory);
  const bool post = request.method == "POST";
  if (parts.size() == 1 && parts[0] == "gc") {
    if (!post) return wrong_method("POST");
    const auto dry_run = read_flag(request, "dry_run");
    if (!dry_run) return error_response(400, "user", "dry_run is neither true nor false");
    if (*dry_run) return json_response(200, tools.gc(CheckpointTools::Gc::DryRun));
    const auto turn = take_turn(reading_);
    const std::uint64_t bytes = tools.newest_bytes();
    if (bytes > most_verified_bytes_) return too_large(tools, bytes, most_verified_bytes_, "gc");
    return json_response(200, tools.gc(CheckpointTools::Gc::Remove));
  }
  if (parts.size() == 1) {
    if (request.method != "GET") return wrong_method("GET");
    return json_response(200, tools.show(parts[0]));
  }
  if (parts.size() != 2) return no_such_address();
  const std::string& action = parts[1];
  if (action == "export") return handle_export(request, tools, parts[0]);
  if (action != "verify" && action != "pin" && action != "unpin") return no_such_address();
  if (!post) return wrong_method("POST");
  if (action == "pin") return json_response(200, tools.pin(parts[0], read_reason(request.body)));
  if (action == "unpin") return json_response(200, tools.unpin(parts[0]));
  const auto turn = take_turn(reading_);
  const std::uint64_t bytes = tools.bytes_of(parts[0]);
  if (bytes > most_verified_bytes_) return too_large(tools, bytes, most_verified_bytes_, "verify");
  return json_response(200, tools.verify(parts[0]));
}

// The output's place is not the client's to choose.
Response CheckpointApi::handle_export(const Request& request, const CheckpointTools& tools,
                                      const std::string& checkpoint) {
  const bool post = request.method == "POST";
  if (!post && request.method != "GET") return wrong_method("GET, POST");
  // An export may outlive its checkpoint.
  const std::string name = !post && checkpoint::parse_checkpoint_name(checkpoint)
                               ? checkpoint
                               : tools.path_of(checkpoint).filename().string();
  const base::Path& run = tools.run_directory();
  if (!post) return json_response(200, exports_.status(run, name));
  Response response = json_response(202, exports_.start(run, name, read_export(request.body)));
  response.headers["Location"] = request.path;
  return response;
}

Json CheckpointApi::list(const Run& run, Json answer) const {
  std::map<std::string, Json> found;
  try {
    const Json listed = CheckpointTools(files_, clock_, run.directory).list();
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

}  // namespace regatta::orchestrator
