#include "trainer/watch/hang_report.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"

namespace regatta::trainer::watch {
namespace {

constexpr std::chrono::milliseconds kLook(200);

// False when somebody was faster.
bool create(base::FileSystem& files, const base::Path& path, const std::string& text) {
  try {
    const auto file = files.open(path, base::FileSystem::Open::CreateNew);
    file->append(text);
    file->sync();
    return true;
  } catch (const base::Error& error) {
    if (error.code() == base::Code::Conflict) return false;
    throw;
  }
}

void report(base::FileSystem& files, base::Clock& clock, const HangPlaces& places,
            const std::string& json) {
  // The request comes first: whoever finds the report knows that the request was made.
  bool asked = false;
  if (!places.request.empty() && !files.exists(places.report)) {
    asked = create(files, places.request, "");
  }
  static_cast<void>(create(files, places.report, json));
  if (places.request.empty()) return;
  const double end = clock.monotonic_seconds() + kMostDumpSeconds;
  while (files.exists(places.request)) {
    if (clock.monotonic_seconds() >= end) {
      base::log(base::LogLevel::Warning, "nobody took the stacks of the ranks in time");
      if (asked) files.remove_file(places.request);
      return;
    }
    clock.sleep(kLook);
  }
}

}  // namespace

std::string hang_json(const Trip& trip, const std::string& host, int told_by) {
  nlohmann::ordered_json json;
  json["rank"] = trip.rank;
  json["host"] = host;
  json["phase"] = name_of(trip.phase);
  json["seconds"] = trip.seconds;
  json["why"] = trip.why;
  json["told_by"] = told_by;
  return base::json_text(json) + "\n";
}

void report_hang(base::FileSystem& files, base::Clock& clock, const HangPlaces& places,
                 const std::string& json) {
  try {
    report(files, clock, places, json);
  } catch (const base::Error& error) {
    base::log(base::LogLevel::Warning,
              std::string("who hangs is not written down: ") + error.what());
  }
}

}  // namespace regatta::trainer::watch
