#include "orchestrator/api/experiment_reader.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "base/wording.h"
#include "orchestrator/experiments/parallel_experiment.h"
#include "orchestrator/store/abandoned_points.h"
#include "orchestrator/store/series.h"

namespace regatta::orchestrator::api {

using experiments::ExperimentRun;

std::vector<ExperimentReader::Member> ExperimentReader::members(store::Store& store,
                                                                const std::string& experiment) {
  store::Snapshot snapshot = store.snapshot();
  const auto tagged =
      snapshot.runs_tagged(experiments::experiment_tag(experiment), kMostExperimentRuns + 1);
  if (tagged.size() > kMostExperimentRuns) {
    throw base::Error(base::Code::Conflict,
                      "more than " + std::to_string(kMostExperimentRuns) + " runs have the tag " +
                          experiments::experiment_tag(experiment) +
                          ", which are too many for a table; take it from some of them");
  }
  std::vector<Member> members;
  for (const store::TaggedRun& each : tagged) {
    if (!experiments::is_whole(experiments::read_tags(each.tags))) continue;
    const auto run = snapshot.run(each.number);
    if (!run) continue;
    const auto attempts = snapshot.attempts(each.number);
    Member& member =
        members.emplace_back(Member{each.number, experiments::experiment_run(*run, attempts), {}});
    member.extent = {snapshot.newest_cursor(each.number), snapshot.step_resolution(each.number),
                     attempts.size()};
    member.run.is_thinned = member.run.succeeded() && member.extent.resolution > 0;
  }
  return members;
}

std::shared_ptr<const ExperimentReader::Read> ExperimentReader::kept(const Member& member) {
  const std::lock_guard lock(mutex_);
  const auto found = reads_.find(member.number);
  if (found == reads_.end() || !found->second->whole || !(found->second->of == member.extent)) {
    return nullptr;
  }
  return found->second;
}

// One too many takes the place of all that are there.
void ExperimentReader::keep(const Member& member, std::shared_ptr<const Read> read) {
  const std::lock_guard lock(mutex_);
  reads_.erase(member.number);
  if (reads_.size() >= limits_.runs) reads_.clear();
  reads_.emplace(member.number, std::move(read));
}

// Steps first, then evaluations: neither needs the other.
void ExperimentReader::read_part(store::Store& store, const Member& member, Read* read) const {
  store::Snapshot snapshot = store.snapshot();
  const auto attempts = snapshot.attempts(member.number);
  const auto wanted = static_cast<std::size_t>(limits_.rows);
  const auto steps = snapshot.steps_after(member.number, read->steps, limits_.rows);
  const auto abandoned = store::abandoned(snapshot, attempts, steps);
  const store::RunAxis axis(attempts);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    read->steps = steps[i].cursor;
    if (abandoned[i]) continue;
    read->figures.add(steps[i], axis.at(steps[i].attempt, steps[i].seconds));
  }
  if (steps.size() == wanted) return;
  const auto run = snapshot.run(member.number);
  if (!run) return;
  const auto evaluations = snapshot.evaluations(member.number, read->evaluations, limits_.rows);
  const auto given_up = store::abandoned(snapshot, *run, attempts, evaluations);
  for (std::size_t i = 0; i < evaluations.size(); ++i) {
    read->evaluations = evaluations[i].cursor;
    if (!given_up[i]) read->figures.add(evaluations[i]);
  }
  read->whole = evaluations.size() < wanted;
}

void ExperimentReader::read_missing(store::Store& store, const std::vector<Member>& members) {
  const double until = clock_.monotonic_seconds() + limits_.seconds;
  std::vector<const Member*> missing;
  for (const Member& member : members) {
    if (member.run.succeeded() && kept(member) == nullptr) missing.push_back(&member);
  }
  for (std::size_t i = 0; i < missing.size(); ++i) {
    const Member& member = *missing[i];
    auto read = std::make_shared<Read>();
    {
      const std::lock_guard lock(mutex_);
      const auto begun = reads_.find(member.number);
      if (begun != reads_.end() && begun->second->of == member.extent) *read = *begun->second;
    }
    read->of = member.extent;
    do {
      read_part(store, member, read.get());
    } while (!read->whole && clock_.monotonic_seconds() < until);
    const std::size_t left = missing.size() - i - (read->whole ? 1 : 0);
    keep(member, std::move(read));
    if (left > 0 && clock_.monotonic_seconds() >= until) {
      throw base::Error(base::Code::Retry, "histories of " + base::plural(members.size(), "run") +
                                               " are being read, " + std::to_string(left) +
                                               " are left; ask again");
    }
  }
}

std::vector<ExperimentRun> ExperimentReader::runs(store::Store& store,
                                                  const std::string& experiment) {
  std::vector<Member> members = this->members(store, experiment);
  const auto all_kept = [&] {
    return std::all_of(members.begin(), members.end(), [&](const Member& member) {
      return !member.run.succeeded() || kept(member) != nullptr;
    });
  };
  if (!all_kept()) {
    const auto reading = reading_.try_take({"histories"}, limits_.waiting);
    if (!reading) {
      throw base::Error(base::Code::Retry,
                        "another request reads histories of an experiment; ask again");
    }
    read_missing(store, members);
  }
  std::vector<ExperimentRun> all;
  for (Member& member : members) {
    if (member.run.succeeded()) {
      const auto read = kept(member);
      if (read == nullptr) {  // its place is another's by now
        throw base::Error(base::Code::Retry,
                          "the history of " + member.run.id + " must be read again; ask again");
      }
      read->figures.write_to(&member.run);
    }
    all.push_back(std::move(member.run));
  }
  return all;
}

}  // namespace regatta::orchestrator::api
