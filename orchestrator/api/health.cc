#include "orchestrator/api/health.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "base/wording.h"
#include "orchestrator/api/answer_fields.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;

HealthCheck check_scheduler(const control::Controller& controller, double now_utc) {
  HealthCheck check{"scheduler", true, controller.scheduler_name()};
  const auto contact = controller.contact("");
  if (!contact) return check;  // runs are processes of this machine
  check.good = contact->trouble.empty();
  if (contact->answered_utc) {
    check.detail += ", answered " +
                    base::human_seconds(std::max(0.0, now_utc - *contact->answered_utc)) + " ago";
  } else {
    check.detail += ", has not answered yet";
  }
  if (!check.good) check.detail += ": " + contact->trouble;
  return check;
}

// It may answer and be damaged all the same.
HealthCheck check_pages(control::Controller& controller) {
  const HealthCheck answers = check_store(controller);
  if (!answers.good) return answers;
  if (const auto trouble = controller.store().trouble()) return {"store", false, *trouble};
  const store::IntegrityCheck::Result pages = controller.store().integrity();
  if (!pages.damage.empty()) return {"store", false, pages.damage};
  return {"store", true, pages.unchecked};
}

HealthCheck check_adoption(const control::Controller& controller) {
  const control::Adoption adoption = controller.adoption();
  const std::string where = base::printable(controller.runs_directory().string());
  if (adoption.refused > 0) {
    return {"runs_directory", false,
            where + ": " + std::to_string(adoption.refused) +
                (adoption.refused == 1 ? " run directory" : " run directories") +
                " cannot be taken in until mended, moved away or removed; the first: " +
                base::printable(adoption.first_refused + ": " + adoption.why_refused)};
  }
  if (adoption.done) return {"runs_directory", true, where};
  return {"runs_directory", true,
          where + ": " + std::to_string(adoption.read) + " of " + std::to_string(adoption.found) +
              " unknown run directories taken in so far"};
}

// Whether the runs are where they are looked for: a directory that was moved, or whose file system
// is not mounted, is empty and in order to everybody else.
HealthCheck check_runs(control::Controller& controller, base::FileSystem& files,
                       files::SharedFiles* shared) {
  constexpr int kNewest = 20;
  constexpr double kSeconds = 3;
  const std::string where = base::printable(controller.runs_directory().string());
  try {
    store::RunFilter newest;
    newest.limit = kNewest;
    newest.archived = store::Archived::Also;
    std::vector<base::Path> directories;
    for (const store::RunRow& row : controller.store().snapshot().list(newest).rows) {
      directories.emplace_back(row.run.directory);
    }
    const bool found = files::call_if(
        shared, controller.runs_directory(), kSeconds, [files = &files, directories] {
          return directories.empty() ||
                 std::any_of(directories.begin(), directories.end(), [files](const auto& each) {
                   return files->exists(each / "run.json");
                 });
        });
    if (found) return check_adoption(controller);
    return {"runs_directory", false,
            where + " has none of the newest " + base::plural(directories.size(), "run") +
                "; mount its file system, or name the directory that has them with `regatta serve "
                "--runs`"};
  } catch (const base::Error& error) {
    return {"runs_directory", false, where + ": " + error.what()};
  }
}

// One that is tried again may work again by itself; one that is given up does not.
HealthCheck check_webhooks(const std::vector<webhooks::Status>& webhooks) {
  std::vector<std::string> dead;
  for (const webhooks::Status& each : webhooks) {
    if (each.place.dead) dead.push_back(each.name);
  }
  if (dead.empty()) return {"webhooks", true, ""};
  return {"webhooks", false,
          base::join(dead, ", ") +
              " given up after failures for days; `regatta webhooks "
              "--redeliver NAME` tries again"};
}

Json polling_json(const control::Controller& controller) {
  const std::optional<runs::Asking> asking = controller.asking();
  if (!asking) return nullptr;
  return {{"calls", asking->calls},
          {"most_calls", asking->most_calls},
          {"call_seconds", number(asking->call_seconds)},
          {"paused_seconds", number(asking->paused_seconds)}};
}

}  // namespace

Json version_json(const std::string& commit, const std::optional<std::string>& scheduler,
                  const base::Path& runs_directory, const control::Adoption& adoption) {
  return {
      {"version", REGATTA_VERSION},
      {"commit", commit.empty() ? Json() : Json(commit)},
      {"scheduler", scheduler ? Json(*scheduler) : Json()},
      {"runs_directory", runs_directory.string()},
      {"adoption", {{"done", adoption.done}, {"found", adoption.found}, {"read", adoption.read}}}};
}

HealthCheck check_store(control::Controller& controller) {
  try {
    (void)controller.store().snapshot().has_runs_of(controller.scheduler_name());
    return {"store", true, ""};
  } catch (const base::Error& error) {
    return {"store", false, error.what()};
  }
}

Json health_json(control::Controller& controller, double now_utc, base::FileSystem& files,
                 files::SharedFiles* shared, const std::vector<webhooks::Status>& webhooks,
                 const std::vector<std::string>& sweep_faults) {
  std::vector<HealthCheck> all = {check_pages(controller), check_scheduler(controller, now_utc),
                                  check_runs(controller, files, shared)};
  if (!webhooks.empty()) all.push_back(check_webhooks(webhooks));
  if (!sweep_faults.empty()) {
    const std::size_t others = sweep_faults.size() - 1;
    all.push_back(
        {"sweeps", false,
         sweep_faults.front() + (others > 0 ? " (and " + std::to_string(others) + " more)" : "")});
  }
  bool good = true;
  Json checks = Json::array();
  for (const HealthCheck& check : all) {
    good = good && check.good;
    checks.push_back({{"name", check.name}, {"good", check.good}, {"detail", check.detail}});
  }
  return {{"status", good ? "ok" : "degraded"},
          {"checks", std::move(checks)},
          {"polling", polling_json(controller)}};
}

}  // namespace regatta::orchestrator::api
