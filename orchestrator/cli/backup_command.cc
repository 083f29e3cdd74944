// `regatta backup` and `regatta restore`: the store as one file. Both work on the controller's
// machine, on its files and as its user.
#include <filesystem>
#include <iostream>

#include "base/confined_file_system.h"
#include "base/error.h"
#include "base/text.h"
#include "base/wording.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/controller_places.h"
#include "orchestrator/store/backup.h"

namespace regatta::orchestrator::cli {
namespace {

constexpr const char* kDataHelp =
    "the directory of `regatta serve` (default: $XDG_STATE_HOME/regatta)";

class BackupCommand : public Command {
 public:
  explicit BackupCommand(const Program& program)
      : Command({"backup",
                 Group::Controller,
                 "copy the controller's store into a file, while it serves or not",
                 {"backup /backups/regatta-monday.sqlite"}}),
        environment_(program.environment) {}

  void add_options(OptionList& options) override {
    options.add("file", ValueKind::File, &file_, "a file that is not there yet").is_required = true;
    options.add("--data", ValueKind::Directory, &data_, kDataHelp);
  }

  int run() override {
    const store::Backup backup = store::back_up(data_directory(data_, environment_), file_);
    std::cout << base::printable(file_) << ": " << base::plural(backup.runs, "run") << ", "
              << base::human_bytes(backup.bytes) << "\n";
    return 0;
  }

 private:
  site::ProgramEnvironment environment_;
  std::string file_, data_;
};

class RestoreCommand : public Command {
 public:
  explicit RestoreCommand(const Program& program)
      : Command({"restore",
                 Group::Controller,
                 "put a backup in the place of the controller's store; no controller may run",
                 {"restore /backups/regatta-monday.sqlite"}}),
        environment_(program.environment) {}

  void add_options(OptionList& options) override {
    options.add("file", ValueKind::File, &file_, "what `regatta backup` has written").is_required =
        true;
    options.add("--data", ValueKind::Directory, &data_, kDataHelp);
    options.add("--runs", ValueKind::Directory, &runs_,
                "where run directories are (default: as `regatta serve` has it)");
  }

  int run() override {
    const base::Path data = data_directory(data_, environment_);
    if (!data_.empty()) refuse_lost(data);
    const base::Path runs =
        std::filesystem::absolute(runs_directory(runs_, environment_, data)).lexically_normal();
    refuse_no_runs(runs);
    base::ConfinedFileSystem files(runs);
    const store::Restored restored = store::restore(file_, data, files, runs);
    std::cout << "restored " << base::plural(restored.runs, "run") << " from "
              << base::printable(file_) << "\n";
    if (restored.made_data) std::cout << "made " << base::printable(data.string()) << "\n";
    if (restored.dropped > 0) {
      std::cout << base::plural(restored.dropped, "run")
                << " had not ended then, or changed since; the controller reads "
                << (restored.dropped == 1 ? "it" : "them") << " again from "
                << base::printable(runs.string()) << " when it starts\n";
    }
    if (restored.given_up > 0) {
      std::cout << base::plural(restored.given_up, "run")
                << " had not ended then, and the run directory is gone; kept as failed\n";
    }
    if (!restored.kept.empty()) {
      std::cout << "what was there is kept as " << base::printable(restored.kept.string()) << "\n";
    }
    return 0;
  }

 private:
  // A new place is one directory; a mistyped path would become a tree of them.
  static void refuse_lost(const base::Path& data) {
    if (std::filesystem::is_directory(data.parent_path())) return;
    throw base::Error(base::Code::NotFound,
                      "there is no directory " + base::printable(data.parent_path().string()) +
                          " to make " + base::printable(data.filename().string()) +
                          " in; name the directory of `regatta serve` with --data");
  }

  // Else it would seem that every run of the backup has been removed.
  static void refuse_no_runs(const base::Path& runs) {
    std::error_code error;
    if (std::filesystem::is_directory(runs, error)) return;
    throw base::Error(base::Code::NotFound,
                      "there is no directory " + base::printable(runs.string()) +
                          " with the runs of the backup; name theirs with --runs");
  }

  site::ProgramEnvironment environment_;
  std::string file_, data_, runs_;
};

}  // namespace

std::unique_ptr<Command> backup_command(const Program& program) {
  return std::make_unique<BackupCommand>(program);
}
std::unique_ptr<Command> restore_command(const Program& program) {
  return std::make_unique<RestoreCommand>(program);
}

}  // namespace regatta::orchestrator::cli
