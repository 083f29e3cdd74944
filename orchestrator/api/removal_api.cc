#include "orchestrator/api/removal_api.h"

#include <nlohmann/json.hpp>

#include "orchestrator/api/answers.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;

Json freed_json(const control::DirectoryUse& use) {
  return {{"checkpoints", use.checkpoints},
          {"exports", use.exports},
          {"logs", use.logs},
          {"journal", use.journal},
          {"other", use.other}};
}

Json checkpoints_json(const std::vector<control::ArchivedFiles::Checkpoint>& checkpoints) {
  Json rows = Json::array();
  for (const control::ArchivedFiles::Checkpoint& one : checkpoints) {
    rows.push_back(
        {{"name", one.name}, {"step", one.step}, {"bytes", one.bytes}, {"reasons", one.reasons}});
  }
  return rows;
}

}  // namespace

Response remove_run(control::Controller& controller, const std::string& run,
                    const control::RemoveOptions& options) {
  const control::Removal removal = controller.remove(run, options);
  return json_response(removal.left.empty() ? 200 : 202,
                       {{"id", removal.run.id},
                        {"dry_run", removal.dry_run},
                        {"directory", removal.run.directory},
                        {"had_directory", removal.had_directory},
                        {"bytes", removal.use.bytes()},
                        {"freed", freed_json(removal.use)},
                        {"files", removal.use.files},
                        {"pinned", removal.pinned},
                        {"left", removal.left.empty() ? Json() : Json(removal.left)}});
}

Response archive_run(control::Controller& controller, const std::string& run,
                     control::DryRun dry_run, const std::string& by,
                     const std::optional<std::string>& idempotency_key) {
  const control::Archival archival = controller.archive(run, dry_run, by, idempotency_key);
  std::uint64_t bytes = archival.files.exports;
  for (const control::ArchivedFiles::Checkpoint& one : archival.files.removed) bytes += one.bytes;
  return json_response(200, {{"id", archival.run.id},
                             {"dry_run", dry_run == control::DryRun::Yes},
                             {"archived", archival.run.archived},
                             {"bytes", bytes},
                             {"exports", archival.files.exports},
                             {"removed", checkpoints_json(archival.files.removed)},
                             {"kept", checkpoints_json(archival.files.kept)}});
}

}  // namespace regatta::orchestrator::api
