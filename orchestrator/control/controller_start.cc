// What a submitted run begins with: the checkpoint of a run here, which stays until the new one has
// its own, or a model elsewhere; and what is known to be wrong with it and with the dataset before
// anything is made.
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "orchestrator/control/checkpoint_choice.h"
#include "orchestrator/control/controller.h"
#include "orchestrator/plan/start_facts.h"
#include "orchestrator/runs/run_start.h"

namespace regatta::orchestrator::control {
namespace {

constexpr const char* kStartKey = "from.run";
constexpr double kStartSeconds = 3;  // for the model to be looked at, and for its pin

// What `find` answers, whose base::Error is one of the run file's key.
template <typename Find>
auto by_start_key(Find find) {
  try {
    return find();
  } catch (const base::Error& error) {
    throw base::Error(error.code(), std::string("run file: from.run: ") + error.what(), kStartKey);
  }
}

}  // namespace

// In the configuration a path takes the place of the name.
Controller::Origin Controller::resolve_start(trainer::contract::RunConfig* config) {
  if (!config->from || config->from->run.empty()) return {};
  trainer::contract::StartConfig& from = *config->from;
  const NamedStart named = parse_start(from.run);
  const auto origin = std::make_shared<checkpoint::Entry>();  // with a work that may come later
  const runs::Run parent = by_start_key([&] {
    runs::Run run = find(named.run);
    do_beside(run.directory, kListSeconds,
              [origin, files = &files_, directory = run.directory,
               wish = CheckpointWish{run.id, run.summary.metric, named.checkpoint}] {
                *origin = choose_checkpoint(*files, directory, wish);
              });
    return run;
  });
  from.run.clear();
  from.path = (base::Path(parent.directory) / "checkpoints" / origin->name).string();
  return {parent.id, origin->name};
}

// All datasets, which must have one vocabulary. The first that is at fault is told.
void Controller::look_at_datasets(const trainer::contract::RunConfig& config, Inputs* inputs) {
  std::optional<plan::DatasetFacts> first;
  const std::vector<std::string> paths = trainer::contract::data_paths(config.data);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const std::string& path = paths[i];
    const auto found = std::make_shared<std::optional<plan::DatasetFacts>>();
    do_beside(path, kStartSeconds, [found, config, path, files = &files_] {
      *found = plan::dataset_facts(*files, path);
      if (*found) plan::check_dataset(config, path, **found);
    });
    if (!*found) {
      inputs->no_dataset = path;
      return;
    }
    const auto difference =
        first ? plan::text_difference({paths.front(), *first}, {path, **found}) : std::nullopt;
    if (difference) {
      const std::string key = trainer::contract::data_path_key(config.data, i);
      throw base::Error(base::Code::User, "run file: " + key + ": " + *difference, key);
    }
    if (!first) first = **found;
  }
  inputs->dataset = first;
}

// Of all what can be seen from here; the trainer looks at it again.
Controller::Inputs Controller::look_at_inputs(const trainer::contract::RunConfig& config) {
  Inputs inputs;
  const auto attempt = [](std::optional<base::Error>* fault, std::string* unknown,
                          const std::function<void()>& look) {
    try {
      look();
    } catch (const base::Error& error) {
      if (error.key().empty()) {
        *unknown = error.what();
      } else {
        *fault = error;
      }
    }
  };
  attempt(&inputs.dataset_fault, &inputs.dataset_unknown,
          [&] { look_at_datasets(config, &inputs); });
  if (!config.from) return inputs;
  attempt(&inputs.start_fault, &inputs.start_unknown, [&] {
    do_beside(config.from->path, kStartSeconds,
              [config, files = &files_] { plan::check_start(*files, config); });
  });
  return inputs;
}

std::vector<std::string> Controller::refuse_inputs(const trainer::contract::RunConfig& config) {
  const Inputs inputs = look_at_inputs(config);
  if (inputs.dataset_fault) throw base::Error(*inputs.dataset_fault);
  if (inputs.start_fault) throw base::Error(*inputs.start_fault);
  std::vector<std::string> doubts;
  if (!inputs.no_dataset.empty()) doubts.push_back(text_of_no_dataset(inputs.no_dataset));
  for (const std::string& unknown : {inputs.dataset_unknown, inputs.start_unknown}) {
    if (!unknown.empty()) doubts.push_back(unknown);
  }
  return doubts;
}

// Before there is a directory of the run: from here on its checkpoint is not removed. Where its
// directory cannot be written the run goes without.
void Controller::pin_origin(const std::string& id, const trainer::contract::RunConfig& config) {
  const base::Path checkpoint = config.from->path;
  try {
    do_beside(checkpoint.parent_path().parent_path(), kStartSeconds,
              [=, files = &files_, now = clock_.utc_seconds()] {
                pin_start(*files, checkpoint, id, now);
              });
  } catch (const base::Error& error) {
    if (error.code() == base::Code::NotFound) {
      throw base::Error(base::Code::NotFound,
                        std::string("run file: from.run: ") + error.what() +
                            " any more; submit it again with another",
                        kStartKey);
    }
    base::log(base::LogLevel::Warning,
              "run " + id + " begins with " + checkpoint.filename().string() +
                  ", which cannot be pinned and may be removed before: " + error.what());
  }
}

// Of those that began with the same checkpoint one that has none of its own, and may need it yet,
// be it that somebody resumes it; empty: none.
std::string Controller::heir_of_start(const runs::Run& run) {
  const base::Path checkpoint = runs::start_checkpoint(run);
  for (const runs::Run& other : store_.begun_with(run.forked_from, run.forked_checkpoint)) {
    const bool done = !other.summary.checkpoint.empty() || other.state == runs::RunState::Succeeded;
    if (!done && other.id != run.id && runs::start_checkpoint(other) == checkpoint) return other.id;
  }
  return {};
}

void Controller::unpin_origin(const runs::Run& run) {
  const base::Path checkpoint = runs::start_checkpoint(run);
  if (checkpoint.empty()) return;
  try {
    do_beside(checkpoint.parent_path().parent_path(), kStartSeconds,
              [=, files = &files_, id = run.id, heir = heir_of_start(run),
               now = clock_.utc_seconds()] { unpin_start(*files, checkpoint, id, heir, now); });
  } catch (const base::Error& error) {
    base::log(base::LogLevel::Warning, "run " + run.id + ": the pin of " +
                                           checkpoint.filename().string() +
                                           ", which it began with, stays: " + error.what());
  }
}

// Whether it has what it needs of the checkpoint that it begins with: a pin until it has one of its
// own, and then none. What cannot be done is told, and not waited for.
bool Controller::keep_start(OpenRun* open) {
  if (open->start.empty() || !open->foreign.empty()) return true;
  const runs::Run& run = open->run;
  const bool done = !run.summary.checkpoint.empty() || run.state == runs::RunState::Succeeded;
  const auto wanted = done ? OpenRun::StartPin::Released : OpenRun::StartPin::Held;
  if (open->start_pin == wanted) return true;
  if (open->start_pin_asked) return false;
  const std::string heir = done ? heir_of_start(run) : "";
  open->start_pin_asked = true;
  const runs::RunNumber number = run.number;
  const bool begun = side_.begin<bool>(
      open->start.parent_path().parent_path(),
      [=, files = &files_, start = open->start, id = run.id, now = clock_.utc_seconds()] {
        if (done) {
          unpin_start(*files, start, id, heir, now);
        } else {
          pin_start(*files, start, id, now);
        }
        return true;
      },
      [this, number, wanted](const files::Outcome<bool>& outcome) {
        const auto found = open_.find(number);
        if (found == open_.end()) return;
        found->second.start_pin_asked = false;
        found->second.start_pin = wanted;
        if (!outcome.error) return;
        base::log(base::LogLevel::Warning,
                  "run " + found->second.run.id +
                      ": the checkpoint that it begins with: " + outcome.error->what());
      });
  if (!begun) open->start_pin_asked = false;  // the other run is being visited; soon again
  return open->start_pin == wanted;
}

}  // namespace regatta::orchestrator::control
