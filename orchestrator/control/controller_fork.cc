// A run that continues another one's checkpoint: submitted with a copy of that in its directory,
// which comes into being complete or not at all.
#include <memory>

#include "base/digest.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "checkpoint/copy.h"
#include "checkpoint/found_damage.h"
#include "checkpoint/held_mark.h"
#include "checkpoint/store.h"
#include "orchestrator/control/checkpoint_choice.h"
#include "orchestrator/control/controller.h"
#include "orchestrator/control/request_key.h"
#include "orchestrator/plan/run_changes.h"
#include "topology/plan/plan.h"
#include "trainer/contract/batch_schedule.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator::control {
namespace {

constexpr double kForkKeySeconds = 60;  // for another request with the same key
constexpr const char* kReader = "fork";
constexpr const char* kPlanFiles[] = {"plan.json", "plan.tuner"};

// So that the next request for the newest takes another one.
void note_damage(base::FileSystem& files, const base::Clock& clock, const base::Path& checkpoint,
                 const std::string& damage) {
  try {
    checkpoint::note_found_damage(files, checkpoint.parent_path(), checkpoint.filename().string(),
                                  damage, clock.utc_seconds());
  } catch (const base::Error&) {  // where nothing can be written it is told here alone
  }
}

// Into a directory that is being made. While it reads, nobody's retention removes the original.
void fill(base::FileSystem& files, const base::Clock& clock, const checkpoint::Entry& origin,
          const base::Path& parent, bool with_plan, const base::Path& directory) {
  const base::Path from = parent / "checkpoints" / origin.name;
  const auto mark = checkpoint::hold_mark(files, clock, from, kReader);
  try {
    checkpoint::copy_checkpoint(files, from, *origin.manifest,
                                directory / "checkpoints" / origin.name);
  } catch (const base::Error& error) {
    if (error.code() == base::Code::User) note_damage(files, clock, from, error.what());
    throw;
  }
  files.sync_directory(directory / "checkpoints");
  for (const char* const name : kPlanFiles) {
    if (!with_plan || !files.exists(parent / name)) continue;
    base::replace_file(files, directory / name,
                       files.read(parent / name, topology::plan::kMostPlanBytes));
  }
}

}  // namespace

Controller::Accepted Controller::fork(const std::string& name, const ForkRequest& request,
                                      const std::optional<std::string>& idempotency_key,
                                      const std::string& by) {
  check_lease();
  if (idempotency_key) {
    check_key(*idempotency_key);
    wait_for_adoption();
  }
  const runs::Run parent = find(name);
  const plan::ChangedRunFile file =
      plan::forked_run_file(parent.config, request.changes, request.name);
  const std::string digest = base::digest_of(base::join(
      {"fork", parent.id, request.checkpoint, request.name, plan::canonical_json(request.changes)},
      " "));
  std::vector<std::string> names;
  if (idempotency_key) {
    refuse_unreadable(file.config.name);
    names.push_back(lock_name(*idempotency_key));
  }
  const files::NameLocks::Held held = changing_.take(names, kForkKeySeconds);
  if (idempotency_key) {
    if (const auto before = submitted_before(*idempotency_key, digest)) return {*before, false};
  }
  const auto origin = std::make_shared<checkpoint::Entry>();  // with a work that may come later
  do_beside(parent.directory, kListSeconds,
            [origin, files = &files_, directory = parent.directory,
             wish = CheckpointWish{parent.id, parent.summary.metric, request.checkpoint}] {
              *origin = choose_checkpoint(*files, directory, wish);
            });
  const std::optional<checkpoint::BatchGrowthState> growth =
      trainer::contract::batches_of(*origin->manifest, file.config.batch_size);
  if (growth) {
    if (const auto refusal =
            trainer::contract::refuse_checkpoint(*growth, origin->step, file.config.growth,
                                                 file.config.batch_size, file.config.max_batch)) {
      throw base::Error(base::Code::User, refusal->message, std::string("changes.") + refusal->key);
    }
  }
  const auto done = growth ? static_cast<std::int64_t>(growth->progress) : origin->step;
  const bool grew = done != origin->step;
  if (file.config.steps <= done) {
    throw base::Error(base::Code::User,
                      "the fork would end at step " + std::to_string(file.config.steps) +
                          ", and its checkpoint is " + (grew ? "worth " : "of step ") +
                          std::to_string(done) + (grew ? " steps" : "") + "; give it more steps",
                      "changes.steps");
  }
  store::NewRun run;
  store::take_config(file.config, &run);
  run.created_utc = clock_.utc_seconds();
  run.idempotency_key = idempotency_key;
  run.body_digest = digest;
  run.by = run.owner = by;
  run.scheduler = runs::family_of(scheduler_.name());
  run.forked_from = parent.id;
  run.forked_checkpoint = origin->name;
  DirectoryContents contents;
  contents.seconds = checkpoint::copy_seconds(*origin->manifest);
  const bool with_plan =
      file.config.ranks == trainer::contract::parse_run_config(parent.config, "run.json").ranks;
  contents.fill = [files = &files_, clock = &clock_, origin, with_plan,
                   directory = base::Path(parent.directory)](const base::Path& into) {
    fill(*files, *clock, *origin, directory, with_plan, into);
  };
  const runs::RunNumber number = add_submitted(&run, std::move(contents));
  base::log(base::LogLevel::Info,
            "run " + run.id + " continues " + origin->name + " of " + parent.id);
  wake(number);
  return {find(run.id), true};
}

}  // namespace regatta::orchestrator::control
