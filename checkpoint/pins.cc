#include "checkpoint/pins.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "checkpoint/store.h"
#include "checkpoint/tombstones.h"

namespace regatta::checkpoint {
namespace {

using base::Code;
using base::Error;
using Json = nlohmann::ordered_json;

constexpr const char* kPins = "pins";
constexpr const char* kReading = "reading";
constexpr std::uint64_t kMostPinBytes = 16 * 1024;  // of a pin or mark
constexpr int kMarkBytes = 8;                       // random, in a mark's name

void check_name(const std::string& name) {
  if (parse_checkpoint_name(name)) return;
  throw Error(Code::User,
              "'" + base::printable(name.substr(0, 200)) + "' is not the name of a checkpoint");
}

// Read after the pin or mark was written: retention writes its tombstone first and looks for pins
// and marks after it, so one of the two always sees the other.
void check_present(base::FileSystem& files, const base::Path& checkpoints,
                   const std::string& name) {
  if (!files.exists(checkpoints / name)) {
    throw Error(Code::NotFound, "there is no checkpoint " + name);
  }
  if (read_tombstones(files, checkpoints).count(name) != 0) {
    throw Error(Code::NotFound, "checkpoint " + name + " is being removed");
  }
}

base::Path make_folder(base::FileSystem& files, const base::Path& checkpoints, const char* folder) {
  refuse_links(checkpoints, folder);
  if (files.create_directory(checkpoints / folder)) files.sync_directory(checkpoints);
  return checkpoints / folder;
}

// Nothing when the file has gone meanwhile; an object without fields when it is not JSON.
std::optional<Json> read_object(base::FileSystem& files, const base::Path& path) {
  try {
    Json json = Json::object();
    const std::string text = files.read(path, kMostPinBytes);
    if (base::json_depth_at_most(text, 4)) json = base::parse_json<Json>(text);
    return json.is_object() ? json : Json::object();
  } catch (const Error& error) {
    if (error.code() == Code::NotFound) return std::nullopt;
    if (error.code() == Code::User) return Json::object();  // too long to be one of ours
    throw;
  }
}

double number(const Json& json, const char* key) {
  const auto it = json.find(key);
  return it != json.end() && it->is_number() ? it->get<double>() : 0;
}

std::string text(const Json& json, const char* key) {
  const auto it = json.find(key);
  return it != json.end() && it->is_string() ? it->get<std::string>() : "";
}

std::string dump(const Json& json) { return base::json_text(json) + "\n"; }

// The checkpoint that a file of reading/ speaks of: "<name>.<random>".
std::string marked_name(const std::string& file) { return file.substr(0, file.find('.')); }

enum class MarkState { Holds, Ended, Unclear };
MarkState state_of(const Json& mark, double utc_seconds) {
  const double until = number(mark, "until_utc_seconds");
  if (!(until > 0)) return MarkState::Unclear;
  const bool holds = utc_seconds < until && until - utc_seconds <= kLongestMark + kClockTolerance;
  return holds ? MarkState::Holds : MarkState::Ended;
}

}  // namespace

void refuse_links(const base::Path& checkpoints, const std::string& inside) {
  std::error_code ignored;
  for (const base::Path& path :
       {checkpoints, inside.empty() ? checkpoints : checkpoints / inside}) {
    if (std::filesystem::is_symlink(path, ignored)) {
      throw Error(Code::Operator, path.string() +
                                      " is a symbolic link; nothing is written or removed through "
                                      "one: put a directory there");
    }
  }
}

std::map<std::string, Pin> read_pins(base::FileSystem& files, const base::Path& checkpoints) {
  std::map<std::string, Pin> pins;
  for (const std::string& name : files.list(checkpoints / kPins)) {
    if (!parse_checkpoint_name(name)) continue;
    const auto json = read_object(files, checkpoints / kPins / name);
    if (!json) continue;
    pins[name] = {text(*json, "reason").substr(0, kLongestReason), number(*json, "utc_seconds")};
  }
  return pins;
}

void pin(base::FileSystem& files, const base::Path& checkpoints, const std::string& name,
         const Pin& pin) {
  check_name(name);
  if (pin.reason.size() > kLongestReason) {
    throw Error(Code::User,
                "the reason has " + std::to_string(pin.reason.size()) + " bytes; use at most " +
                    std::to_string(kLongestReason),
                "reason");
  }
  check_present(files, checkpoints, name);
  const base::Path path = make_folder(files, checkpoints, kPins) / name;
  const bool before = files.exists(path);
  base::replace_file(files, path, dump({{"reason", pin.reason}, {"utc_seconds", pin.utc_seconds}}));
  try {
    check_present(files, checkpoints, name);
  } catch (const Error&) {
    if (!before) files.remove_file(path);
    throw;
  }
}

bool unpin(base::FileSystem& files, const base::Path& checkpoints, const std::string& name) {
  check_name(name);
  refuse_links(checkpoints, kPins);
  const base::Path path = checkpoints / kPins / name;
  if (!files.exists(path)) return false;
  files.remove_file(path);
  files.sync_directory(checkpoints / kPins);
  return true;
}

std::set<std::string> read_marks(base::FileSystem& files, const base::Path& checkpoints,
                                 double utc_seconds) {
  std::set<std::string> names;
  for (const std::string& file : files.list(checkpoints / kReading)) {
    const std::string name = marked_name(file);
    if (!parse_checkpoint_name(name) || names.count(name) != 0) continue;
    const auto json = read_object(files, checkpoints / kReading / file);
    if (json && state_of(*json, utc_seconds) == MarkState::Holds) names.insert(name);
  }
  return names;
}

void remove_ended_marks(base::FileSystem& files, const base::Path& checkpoints,
                        double utc_seconds) {
  refuse_links(checkpoints, kReading);
  for (const std::string& file : files.list(checkpoints / kReading)) {
    if (!parse_checkpoint_name(marked_name(file))) continue;
    const base::Path path = checkpoints / kReading / file;
    const auto json = read_object(files, path);
    if (json && state_of(*json, utc_seconds) == MarkState::Ended) files.remove_file(path);
  }
}

ReadingMark::ReadingMark(base::FileSystem& files, const base::Path& checkpoints,
                         const std::string& name, const std::string& reader, double utc_seconds)
    : files_(files), reader_(reader) {
  check_name(name);
  check_present(files, checkpoints, name);
  path_ = make_folder(files, checkpoints, kReading) / (name + "." + base::random_hex(kMarkBytes));
  renew(utc_seconds);
  try {
    check_present(files, checkpoints, name);
  } catch (const Error&) {
    files_.remove_file(path_);
    throw;
  }
}

ReadingMark::~ReadingMark() {
  try {
    files_.remove_file(path_);
  } catch (const Error&) {  // it ends by itself
  }
}

void ReadingMark::renew(double utc_seconds) {
  base::replace_file(
      files_, path_,
      dump({{"reader", reader_}, {"until_utc_seconds", utc_seconds + kLongestMark}}));
}

}  // namespace regatta::checkpoint
