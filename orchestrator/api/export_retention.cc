#include "orchestrator/api/export_retention.h"

#include <chrono>
#include <map>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "orchestrator/api/api.h"

namespace regatta::orchestrator::api {
namespace {

constexpr double kSecondsOfADay = 86400;
constexpr int kEventsAtOnce = 1000;
constexpr const char* kExported = "checkpoint.exported";
constexpr const char* kExportRemoved = "checkpoint.export_removed";

// Of each run and checkpoint, when an export was asked for that nobody had removed since.
using AskedExports = std::map<std::pair<std::string, std::string>, double>;
AskedExports asked_exports(store::Store& store) {
  AskedExports asked;
  const store::EventFilter filter{{kExportRemoved, kExported}, "", "", ""};
  std::int64_t after = 0;
  for (bool more = true; more;) {
    const store::EventPage page = store.snapshot().events_after(filter, after, kEventsAtOnce);
    for (const store::Event& event : page.events) {
      after = event.number;
      const std::pair of(event.run, event.checkpoint);
      if (event.kind == kExported) {
        asked[of] = event.utc;
      } else {
        asked.erase(of);
      }
    }
    more = page.more;
  }
  return asked;
}

}  // namespace

void Api::remove_exports_before(double utc) {
  for (const auto& [of, asked_utc] : asked_exports(controller_.store())) {
    const auto& [id, checkpoint] = of;
    if (asked_utc >= utc) continue;
    const auto run = controller_.store().run(id);
    if (!run) continue;
    try {
      (void)checkpoint_api_.remove_export(*run, checkpoint);
    } catch (const base::Error& error) {
      // It failed, or somebody removed its files; or it is being made again.
      if (error.code() == base::Code::NotFound || error.code() == base::Code::Conflict) continue;
      base::log(base::LogLevel::Warning, "run " + id + ": the old export of " + checkpoint +
                                             " stays for now: " + error.what());
      continue;
    }
    store::Event event;
    event.kind = kExportRemoved;
    event.run = id;
    event.checkpoint = checkpoint;
    event.words = "its days were over";
    note(event);
  }
}

ExportRetention::ExportRetention(Api& api, base::Clock& clock, double keep_days,
                                 const store::LookTimes& looks)
    : api_(api),
      clock_(clock),
      keep_days_(keep_days),
      looks_(looks),
      thread_([this](const std::stop_token& stop) { work(stop); }) {}

ExportRetention::~ExportRetention() {
  thread_.request_stop();
  thread_.join();
}

void ExportRetention::work(const std::stop_token& stop) {
  double wait = looks_.first_seconds;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      ended_.wait_for(lock, stop, std::chrono::duration<double>(wait), [] { return false; });
    }
    if (stop.stop_requested()) return;
    wait = looks_.then_seconds;
    try {
      api_.remove_exports_before(clock_.utc_seconds() - keep_days_ * kSecondsOfADay);
    } catch (const base::Error& error) {  // the next look tries again
      base::log(base::LogLevel::Warning,
                std::string("old exports of checkpoints stay for now: ") + error.what());
    }
  }
}

}  // namespace regatta::orchestrator::api
