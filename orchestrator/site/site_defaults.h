// What is said once for all runs: by a site in /etc/regatta/config.yaml, by a user in
// ~/.config/regatta/config.yaml. A run file says more than the user's file, that more than the
// site's, and what none of them says has the default of the program or of Slurm.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "orchestrator/site/environment.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator::site {

// How long steps of runs that have ended are kept (store/roll_ups.h); absent: the file does not
// say.
struct MetricsDefaults {
  std::optional<double> raw_days, ten_second_days, minute_days;
};

// How long exports of checkpoints are kept (api/export_retention.h); absent: the file does not say.
struct ExportDefaults {
  std::optional<double> keep_days;
};

// A receiver of events; webhooks/webhooks.h sends them.
struct WebhookSetting {
  std::string name;  // letters, digits, '.', '_' and '-'
  std::string url;
  std::vector<std::string> kinds;  // of events, or beginnings of kinds; empty: all
  base::Path secret_file;          // absolute
  bool allow_private = false;      // also on loopback and in private networks
};
// Code::User for one that cannot be; what its text and its files say is looked at by who uses it.
void check_webhook(const WebhookSetting& webhook);

struct DefaultsFile {
  base::Path path;
  std::string runs;  // the runs directory, absolute; empty: the file does not say
  int parallel = 0;  // runs at once; 0: the file does not say
  MetricsDefaults metrics;
  ExportDefaults exports{};
  std::vector<WebhookSetting> webhooks{};
  trainer::contract::SlurmResources slurm;
  std::vector<std::string>
      slurm_keys;  // those that the file has, as with_slurm_defaults() names them
};

// Where the files may lie, the user's before the site's: REGATTA_CONFIG or
// $XDG_CONFIG_HOME/regatta/config.yaml or ~/.config/…; REGATTA_SITE_CONFIG or /etc/…. A variable
// that is empty leaves its file out.
struct DefaultsPlace {
  base::Path path;
  bool must_exist = false;  // a variable names it
};
[[nodiscard]] std::vector<DefaultsPlace> defaults_places(const ProgramEnvironment& environment);

// The files that are there, in that order. Code::User for one that cannot be understood, with file,
// line and key; Code::Operator for one that others can write (`setup` is a shell), for a pipe and
// the like, and for one that a variable names and that is not there.
[[nodiscard]] std::vector<DefaultsFile> read_defaults(const std::vector<DefaultsPlace>& places);
[[nodiscard]] DefaultsFile parse_defaults(const std::string& text, const base::Path& path);

struct FilledRun {
  trainer::contract::RunConfig config;
  std::map<std::string, base::Path> origins;  // "slurm.partition": the file that said it
};
// `config`, a job of Slurm's, with what it leaves to Slurm as the files have it; as it is where it
// says `slurm: {defaults: false}`. Code::User for a whole that no run file could be.
[[nodiscard]] FilledRun with_defaults(trainer::contract::RunConfig config,
                                      const std::vector<DefaultsFile>& files);

// The runs directory where no option names one: REGATTA_RUNS, else as the files say; nothing where
// neither does. Errors as read_defaults().
[[nodiscard]] std::optional<base::Path> default_runs_directory(
    const ProgramEnvironment& environment);

}  // namespace regatta::orchestrator::site
