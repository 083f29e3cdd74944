// The one table of the addresses below /api/v1 that the API serves. (/tickets and /session are
// Access's: who may ask is decided before there is an API.)
#include "orchestrator/api/api.h"

namespace regatta::orchestrator::api {

std::span<const Route> Api::routes() {
  using enum RequestBody;
  static constexpr Route kRoutes[] = {
      {"GET", "version", "", None, "version, scheduler and runs directory", &Api::version},
      {"GET", "nodes", "", None, "the machines, and the runs on them", &Api::nodes},
      {"GET", "runs", "archived before limit state", None, "runs, newest first", &Api::list_runs},
      {"POST", "runs", "after", Needed, "submits a run file", &Api::submit},
      {"GET", "runs/{id}", "secrets", None, "one run", &Api::show},
      {"DELETE", "runs/{id}", "dry_run pinned_too", None, "removes a run that is over",
       &Api::remove},
      {"POST", "runs/{id}/archive", "dry_run", None, "keeps only the best checkpoints of a run",
       &Api::archive},
      {"POST", "runs/{id}/cancel", "", None, "ends a run after a checkpoint", &Api::cancel},
      {"POST", "runs/{id}/resume", "", Optional, "lets a run that is over go on", &Api::resume},
      {"GET", "runs/{id}/metrics", "since", None, "series of steps, evaluations and checkpoints",
       &Api::metrics},
      {"GET", "runs/{id}/logs", "offset", None, "the newest log of a run", &Api::logs},
      {"GET", "runs/{id}/explain", "", None, "why a run is where it is", &Api::explain},
      {"GET", "runs/{id}/plan", "", None, "the plan of a run", &Api::plan},
      {"GET", "runs/{id}/checkpoints", "", None, "checkpoints of a run", &Api::checkpoints},
      {"POST", "runs/{id}/checkpoints/gc", "dry_run", None,
       "removes what the retention policy does not keep", &Api::collect_checkpoints},
      {"GET", "runs/{id}/checkpoints/{name}", "", None, "one checkpoint, with its files",
       &Api::show_checkpoint},
      {"POST", "runs/{id}/checkpoints/{name}/verify", "", None, "reads every byte of a checkpoint",
       &Api::verify_checkpoint},
      {"POST", "runs/{id}/checkpoints/{name}/pin", "", Optional,
       "pins a checkpoint, so that retention keeps it", &Api::pin_checkpoint},
      {"POST", "runs/{id}/checkpoints/{name}/unpin", "", None,
       "unpins a checkpoint; retention may delete it", &Api::unpin_checkpoint},
      {"GET", "runs/{id}/checkpoints/{name}/export", "", None, "the status of an export",
       &Api::show_export},
      {"POST", "runs/{id}/checkpoints/{name}/export", "", Optional,
       "begins to export a checkpoint for other tools", &Api::export_checkpoint},
  };
  return kRoutes;
}

}  // namespace regatta::orchestrator::api
