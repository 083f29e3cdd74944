#include "orchestrator/api/removal_api.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "orchestrator/api/answers.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;

// Nothing when it is neither true nor false.
std::optional<bool> read_flag(const Request& request, const std::string& name) {
  const auto it = request.query.find(name);
  if (it == request.query.end() || it->second == "false" || it->second == "0") return false;
  if (it->second == "true" || it->second == "1") return true;
  return std::nullopt;
}

Response bad_flag(const std::string& name) {
  return error_response(400, "user", name + " is neither true nor false");
}

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

Response remove_run(control::Controller& controller, const Request& request,
                    const std::string& run) {
  const auto dry_run = read_flag(request, "dry_run");
  if (!dry_run) return bad_flag("dry_run");
  const auto pinned_too = read_flag(request, "pinned_too");
  if (!pinned_too) return bad_flag("pinned_too");
  const control::Removal removal = controller.remove(run, {*dry_run, *pinned_too});
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

Response archive_run(control::Controller& controller, const Request& request,
                     const std::string& run) {
  const auto dry_run = read_flag(request, "dry_run");
  if (!dry_run) return bad_flag("dry_run");
  const control::Archival archival =
      controller.archive(run, *dry_run ? control::DryRun::Yes : control::DryRun::No);
  std::uint64_t bytes = archival.files.exports;
  for (const control::ArchivedFiles::Checkpoint& one : archival.files.removed) bytes += one.bytes;
  return json_response(200, {{"id", archival.run.id},
                             {"dry_run", *dry_run},
                             {"archived", archival.run.archived},
                             {"bytes", bytes},
                             {"exports", archival.files.exports},
                             {"removed", checkpoints_json(archival.files.removed)},
                             {"kept", checkpoints_json(archival.files.kept)}});
}

}  // namespace regatta::orchestrator::api
