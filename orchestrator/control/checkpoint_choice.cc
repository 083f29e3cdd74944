#include "orchestrator/control/checkpoint_choice.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/shell_words.h"
#include "base/text.h"
#include "checkpoint/found_damage.h"
#include "checkpoint/pins.h"
#include "orchestrator/runs/metrics.h"

namespace regatta::orchestrator::control {
namespace {

constexpr const char* kCheckpointKey = "checkpoint";

// Newest first.
checkpoint::Entry best_of(std::vector<checkpoint::Entry> entries, const CheckpointWish& wish,
                          const std::string& see) {
  const bool higher = runs::better_of(wish.metric) == runs::Better::Higher;
  const checkpoint::Entry* best = nullptr;
  for (const checkpoint::Entry& entry : entries) {
    if (entry.status != checkpoint::Status::Valid || entry.manifest->metric != wish.metric ||
        !entry.manifest->value) {
      continue;
    }
    const double value = *entry.manifest->value;
    const bool is_better = best == nullptr || (higher ? value > *best->manifest->value
                                                      : value < *best->manifest->value);
    if (is_better) best = &entry;
  }
  if (best != nullptr) return *best;
  throw base::Error(base::Code::NotFound,
                    "run " + wish.run + " has no checkpoint with a value of " + wish.metric +
                        "; name one by its step, or the newest" + see,
                    kCheckpointKey);
}

bool is_newest(const std::string& asked) { return asked == "latest" || asked == "newest"; }

// Ours alone, of all pins.
std::string pin_reason(const std::string& run) {
  return "run " + run + " begins with it, and has no checkpoint of its own yet";
}

std::optional<checkpoint::Pin> pin_of(base::FileSystem& files, const base::Path& checkpoint) {
  const auto pins = checkpoint::read_pins(files, checkpoint.parent_path());
  const auto found = pins.find(checkpoint.filename().string());
  return found == pins.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

checkpoint::Entry choose_checkpoint(base::FileSystem& files, const base::Path& run_directory,
                                    const CheckpointWish& wish) {
  const std::string& asked = wish.asked;
  const std::string see = "; `" + base::shown_command("regatta ckpt ls", wish.run) + "` lists them";
  std::vector<checkpoint::Entry> all =
      checkpoint::list_with_found_damage(files, run_directory / "checkpoints");  // newest first
  if (asked == "best") return best_of(std::move(all), wish, see);
  const auto step = base::parse_integer(asked);
  std::vector<checkpoint::Entry> found;
  for (checkpoint::Entry& entry : all) {
    const bool meant = is_newest(asked) ? found.empty() && entry.status == checkpoint::Status::Valid
                       : step           ? entry.step == *step && entry.manifest
                                        : entry.name == asked;
    if (meant) found.push_back(std::move(entry));
  }
  if (found.empty()) {
    throw base::Error(
        base::Code::NotFound,
        "run " + wish.run + " has no checkpoint " + base::printable(asked.substr(0, 100)) + see,
        kCheckpointKey);
  }
  if (found.size() > 1) {
    throw base::Error(
        base::Code::User,
        "run " + wish.run + " has several checkpoints of step " + asked + "; name one" + see,
        kCheckpointKey);
  }
  if (!found.front().manifest) {
    throw base::Error(
        base::Code::User,
        "checkpoint " + found.front().name + " is not whole: " + found.front().reason + see,
        kCheckpointKey);
  }
  return found.front();
}

// "@last" is a run.
NamedStart parse_start(const std::string& text) {
  const std::size_t at = text.rfind('@');
  if (at == std::string::npos || at == 0) return {text, "newest"};
  if (at + 1 < text.size()) return {text.substr(0, at), text.substr(at + 1)};
  throw base::Error(base::Code::User,
                    "run file: from.run: '" + base::printable(text.substr(0, 100)) +
                        "' names no checkpoint behind the @; use RUN, RUN@STEP, RUN@best or "
                        "RUN@newest",
                    "from.run");
}

void pin_start(base::FileSystem& files, const base::Path& checkpoint, const std::string& run,
               double utc_seconds) {
  // Written again where it is there: that is what finds out whether a removal has begun.
  const checkpoint::Pin pin =
      pin_of(files, checkpoint).value_or(checkpoint::Pin{pin_reason(run), utc_seconds});
  checkpoint::pin(files, checkpoint.parent_path(), checkpoint.filename().string(), pin);
}

void unpin_start(base::FileSystem& files, const base::Path& checkpoint, const std::string& run,
                 const std::string& successor, double utc_seconds) {
  const auto pin = pin_of(files, checkpoint);
  if (!pin || pin->reason != pin_reason(run)) return;
  const base::Path checkpoints = checkpoint.parent_path();
  const std::string name = checkpoint.filename().string();
  if (successor.empty()) {
    (void)checkpoint::unpin(files, checkpoints, name);
  } else {
    checkpoint::pin(files, checkpoints, name, {pin_reason(successor), utc_seconds});
  }
}

}  // namespace regatta::orchestrator::control
