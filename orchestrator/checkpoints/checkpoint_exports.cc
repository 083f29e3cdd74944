#include "orchestrator/checkpoints/checkpoint_exports.h"

#include <signal.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/digest.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/process.h"
#include "base/text.h"
#include "checkpoint/pins.h"

namespace regatta::orchestrator::checkpoints {
namespace {

using Json = nlohmann::ordered_json;
using base::Code;
using base::Error;

constexpr const char* kExports = "exports";
constexpr std::chrono::milliseconds kLook(50);  // how often a child is looked at
constexpr const char* kStaged = ".partial-";    // between an output's name and random digits
constexpr int kStagedBytes = 8;
constexpr std::uint64_t kMostLog = 64 << 10U;
constexpr std::size_t kMostMessage = 500;
constexpr const char* kDigests = ".digests.json";  // in the output: {"<file>": "<XXH3-128>"…}
constexpr std::uint64_t kMostDigests = std::uint64_t{1} << 20U;
constexpr std::uint64_t kDigestBlock = std::uint64_t{4} << 20U;

base::Path output_of(const base::Path& run_directory, const std::string& name) {
  return run_directory / kExports / name;
}

// The last line that says something.
std::string last_line(const std::string& text) {
  std::string last;
  for (const std::string& line : base::split(text, '\n')) {
    if (line.find_first_not_of(" \t\r") != std::string::npos) last = line;
  }
  return base::printable(last.substr(0, kMostMessage));
}

std::string end_text(const base::Exit& exit) {
  if (exit.signal) return "signal " + std::to_string(*exit.signal);
  return "exit code " + std::to_string(exit.code.value_or(-1));
}

bool is_digest(const Json& json) {
  if (!json.is_string()) return false;
  const auto text = json.get<std::string>();
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// None of an export that was made before digests were, or whose digests could not be taken.
std::map<std::string, std::string> read_digests(base::FileSystem& files,
                                                const base::Path& directory) {
  std::map<std::string, std::string> digests;
  try {
    const std::string text = files.read(directory / kDigests, kMostDigests);
    const Json json = base::json_depth_at_most(text, 2) ? base::parse_json<Json>(text) : Json();
    if (!json.is_object()) return digests;
    for (const auto& [name, digest] : json.items()) {
      if (is_digest(digest)) digests[name] = digest.get<std::string>();
    }
  } catch (const Error& error) {
    base::log(base::LogLevel::Warning, std::string("digests of an export: ") + error.what());
  }
  return digests;
}

// All or an error: what is left out here would be missing in a download that ends well.
Json files_json(base::FileSystem& files, const base::Path& directory) {
  Json list = Json::array();
  bool has_digests = false;
  for (const std::string& name : files.list(directory)) {
    has_digests = has_digests || name == kDigests;
    if (name.rfind(kDigests, 0) == 0) continue;  // or what a crash left of writing it
    list.push_back({{"name", name}, {"bytes", files.size(directory / name)}, {"digest", nullptr}});
  }
  if (!has_digests) return list;
  const auto digests = read_digests(files, directory);
  for (Json& file : list) {
    const auto found = digests.find(file["name"].get<std::string>());
    if (found != digests.end()) file["digest"] = found->second;
  }
  return list;
}

// Nothing where the controller ends meanwhile.
std::optional<std::string> digest_of_file(base::FileSystem& files, const base::Path& path,
                                          const std::stop_token& stop) {
  base::Digest digest;
  const std::uint64_t size = files.size(path);
  for (std::uint64_t at = 0; at < size; at += kDigestBlock) {
    if (stop.stop_requested()) return std::nullopt;
    digest.update(files.read_at(path, at, std::min(kDigestBlock, size - at)));
  }
  return digest.hex();
}

// Notes what the trainer has just written, which is then known of files that change later. An
// export without digests is as good a model, so a fault here is no fault of the export.
void note_digests(base::FileSystem& files, const base::Path& directory,
                  const std::stop_token& stop) {
  try {
    Json digests = Json::object();
    for (const std::string& name : files.list(directory)) {
      const auto digest = digest_of_file(files, directory / name, stop);
      if (!digest) return;
      digests[name] = *digest;
    }
    base::replace_file(files, directory / kDigests, base::json_text(digests));
  } catch (const Error& error) {
    base::log(base::LogLevel::Warning, "the export " + base::printable(directory.string()) +
                                           " is without digests: " + error.what());
  }
}

}  // namespace

CheckpointExports::CheckpointExports(base::FileSystem& files, ExportSettings settings)
    : files_(files), settings_(std::move(settings)) {}

CheckpointExports::~CheckpointExports() { thread_.request_stop(); }

Json CheckpointExports::start(const base::Path& run_directory, const std::string& name,
                              const ExportRequest& request) {
  if (settings_.trainer.empty()) {
    throw Error(Code::Operator, "this controller knows no regatta-train; start it with --trainer");
  }
  const base::Path output = output_of(run_directory, name);
  // Not under the lock, which every other request for an export takes.
  checkpoint::refuse_links(run_directory, kExports);
  const bool taken = files_.exists(output);
  files_.create_directory(run_directory / kExports);
  const std::unique_lock lock(mutex_);
  if (state_ == State::Running) {
    if (output_ == output) throw Error(Code::Conflict, name + " is being exported already");
    throw Error(Code::Retry, "another checkpoint is being exported; try again when it is done");
  }
  if (taken) {
    throw Error(Code::Conflict, base::printable(output.string()) +
                                    " exists already; remove it, or export to another place with "
                                    "'regatta ckpt export'");
  }
  std::vector<std::string> arguments{
      settings_.trainer.string(),
      "export",
      "--checkpoint=" + (run_directory / "checkpoints" / name).string(),
      "--output=" + output.string(),
  };
  if (!request.model.empty()) arguments.push_back("--for=" + request.model);
  if (request.with_optimizer) arguments.emplace_back("--with-optimizer");
  state_ = State::Running;
  output_ = output;
  message_.clear();
  // The one before has ended, or is about to return.
  thread_ = std::jthread(
      [this, arguments, output](const std::stop_token& stop) { run(stop, arguments, output); });
  return describe(output, State::Running, "");
}

Json CheckpointExports::status(const base::Path& run_directory, const std::string& name) const {
  const base::Path output = output_of(run_directory, name);
  std::unique_lock lock(mutex_);
  const State state = output_ == output ? state_ : State::None;
  const std::string message = message_;
  lock.unlock();
  return describe(output, state, message);
}

Json CheckpointExports::finished(const base::Path& run_directory, const std::string& name) const {
  Json json = status(run_directory, name);
  if (json["state"] != "done") {
    throw Error(
        Code::Conflict,
        "the export of " + name + " is " +
            (json["state"] == "running" ? "still being made; try again later" : "none: it failed"));
  }
  return json;
}

void CheckpointExports::remove(const base::Path& run_directory, const std::string& name) {
  checkpoint::refuse_links(run_directory, kExports);
  const Json json = status(run_directory, name);
  if (json["state"] == "running") {
    throw Error(Code::Conflict, name + " is being exported; remove the export when it is done");
  }
  const base::Path output = output_of(run_directory, name);
  if (json["state"] == "done") {
    // At once: of what is half removed, nobody may take the rest for an export.
    const base::Path gone = output.string() + kStaged + base::random_hex(kStagedBytes);
    files_.rename(output, gone);
    files_.sync_directory(output.parent_path());
    remove_staged(gone);
  }
  const std::unique_lock lock(mutex_);
  if (state_ == State::Failed && output_ == output) state_ = State::None;
}

Json CheckpointExports::describe(const base::Path& output, State state,
                                 const std::string& message) const {
  const std::string name = output.filename().string();
  const bool running = state == State::Running;
  Json files = running ? Json::array() : files_json(files_, output);
  const bool done = !running && files_.exists(output);  // still: then none of them is missing
  const bool failed = state == State::Failed && !done;
  if (!running && !done && !failed) {
    throw Error(Code::NotFound, "no export of " + name + " was asked for; POST here to begin one");
  }
  return {{"name", name},
          {"state", running ? "running"
                    : done  ? "done"
                            : "failed"},
          {"path", output.string()},
          {"files", std::move(files)},
          {"message", failed ? message : ""}};
}

void CheckpointExports::run(const std::stop_token& stop, const std::vector<std::string>& arguments,
                            const base::Path& output) {
  std::string message;
  const base::Path log = output.string() + ".log";
  try {
    remove_leftovers(output);
    files_.remove_file(log);
    message = run_child(stop, arguments, log);
    if (!message.empty()) remove_leftovers(output);
    files_.remove_file(log);
    if (message.empty()) note_digests(files_, output, stop);
  } catch (const Error& error) {
    if (message.empty()) message = error.what();
  }
  if (!message.empty()) {
    base::log(base::LogLevel::Warning, "export to " + output.string() + " failed: " + message);
  }
  const std::unique_lock lock(mutex_);
  state_ = message.empty() ? State::None : State::Failed;
  message_ = message;
}

std::string CheckpointExports::run_child(const std::stop_token& stop,
                                         const std::vector<std::string>& arguments,
                                         const base::Path& log) {
  base::Command command;
  command.arguments = arguments;
  command.output_path = log;
  command.environment = settings_.environment;
  command.bare_environment = true;
  command.new_session = true;
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(settings_.deadline_seconds);
  const pid_t child = base::spawn(command);
  std::optional<base::Exit> exit;
  while (!(exit = base::poll_exit(child))) {
    const bool late = std::chrono::steady_clock::now() >= deadline;
    if (late || stop.stop_requested()) {
      ::kill(-child, SIGKILL);
      (void)base::wait_exit(child);
      return late ? "it took longer than " + base::human_seconds(settings_.deadline_seconds) +
                        " and was ended; use 'regatta ckpt export', which has no limit"
                  : "the controller ended";
    }
    std::mutex mutex;
    std::unique_lock lock(mutex);
    stopped_.wait_for(lock, stop, kLook, [] { return false; });
  }
  if (exit->code == 0) return "";
  const std::string said = last_line(files_.read_at(log, 0, kMostLog));
  return said.empty() ? "regatta-train ended with " + end_text(*exit) : said;
}

// What a killed export (trainer/interchange/staged_directory.h) or removal left beside the output.
void CheckpointExports::remove_leftovers(const base::Path& output) {
  const std::string prefix = output.filename().string() + kStaged;
  for (const std::string& name : files_.list(output.parent_path())) {
    if (name.rfind(prefix, 0) == 0) remove_staged(output.parent_path() / name);
  }
}

void CheckpointExports::remove_staged(const base::Path& directory) {
  try {
    files_.remove_tree(directory);
  } catch (const Error& error) {  // another thread removes it, too
    if (error.code() != Code::NotFound) throw;
  }
}

}  // namespace regatta::orchestrator::checkpoints
