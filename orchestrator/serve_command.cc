#include <pwd.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "orchestrator/api.h"
#include "orchestrator/commands.h"
#include "orchestrator/controller.h"
#include "orchestrator/local_scheduler.h"
#include "orchestrator/plan_command.h"
#include "orchestrator/server.h"
#include "orchestrator/slurm/batch_script.h"
#include "orchestrator/slurm/slurm_commands.h"
#include "orchestrator/slurm_scheduler.h"
#include "orchestrator/store.h"
#include "orchestrator/topo_commands.h"
#include "orchestrator/trainer_program.h"

namespace regatta::orchestrator {
namespace {

void refuse_privilege(const ServeOptions& options) {
  if (::geteuid() != 0) return;
  if (!options.allow_privileged) {
    throw base::Error(base::Code::Operator,
                      "refuses to run as root, because every run would have root's rights; start "
                      "it as an ordinary user, or say --allow-privileged");
  }
  base::log(base::LogLevel::Warning, "runs as root: every run has root's rights");
}

base::Path data_directory(const ServeOptions& options, const Environment& environment) {
  if (!options.data.empty()) return std::filesystem::absolute(options.data).lexically_normal();
  if (environment.state_home && !environment.state_home->empty()) {
    return base::Path(*environment.state_home) / "regatta";
  }
  if (environment.home && !environment.home->empty()) {
    return base::Path(*environment.home) / ".local" / "state" / "regatta";
  }
  throw base::Error(base::Code::Operator,
                    "neither XDG_STATE_HOME nor HOME is set; name a directory with --data");
}

// The user's name as Slurm spells it.
std::string user_name() {
  const passwd* const entry = ::getpwuid(::geteuid());
  return entry != nullptr ? entry->pw_name : std::to_string(::geteuid());
}

// Slurm where there is one: the question costs seconds where only its programs are installed.
bool may_have_slurm(const Environment& environment) {
  const auto conf = environment.whole.find("SLURM_CONF");
  return (conf != environment.whole.end() && !conf->second.empty()) ||
         std::filesystem::exists("/etc/slurm/slurm.conf");
}

std::unique_ptr<Scheduler> make_scheduler(const ServeOptions& options,
                                          const Environment& environment, const base::Path& runs,
                                          const base::Path& trainer, NodeTable* nodes) {
  if (options.scheduler == "slurm_cli" ||
      (options.scheduler == "auto" && may_have_slurm(environment))) {
    SlurmCommands commands({}, {}, slurm_environment(environment.whole));
    try {
      check_places(runs, trainer);
      SlurmSettings settings = probe_slurm(commands, trainer, user_name());
      base::log(base::LogLevel::Info,
                "runs go to Slurm " + to_string(settings.version) +
                    (settings.accounting ? ""
                                         : ", which keeps no accounting: how a job ended is "
                                           "known for as long as slurmctld remembers it"));
      return std::make_unique<SlurmScheduler>(base::posix_file_system(), base::system_clock(),
                                              std::move(commands), std::move(settings), *nodes);
    } catch (const base::Error& error) {
      if (options.scheduler != "auto") throw;
      base::log(base::LogLevel::Warning,
                std::string(error.what()) + "; runs are processes of this machine");
    }
  }
  return std::make_unique<LocalScheduler>(trainer);
}

// What runs are planned for, read once.
std::optional<RunPlanner> make_planner(const ServeOptions& options, const Environment& environment,
                                       const base::Path& runs) {
  if (options.clusters.empty()) return std::nullopt;
  std::vector<MeasuredLog> measured;
  for (const std::string& file : options.measured) {
    measured.push_back(read_measured(file));
  }
  return std::optional<RunPlanner>(
      std::in_place, base::posix_file_system(),
      machines_of({options.clusters, {}, false, ""}, environment, "serve"), std::move(measured),
      runs);
}

sigset_t ending_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

}  // namespace

int serve(const ServeOptions& options, const Environment& environment) {
  base::start_log("regatta", base::LogLevel::Info);
  refuse_privilege(options);
  const base::Path trainer = find_trainer(options.trainer, environment.program, environment.path);
  base::Path data = data_directory(options, environment);
  if (!data.has_filename()) data = data.parent_path();
  ControllerOptions settings;
  settings.runs_directory = !options.runs.empty() ? base::Path(options.runs)
                            : environment.runs && !environment.runs->empty()
                                ? base::Path(*environment.runs)
                                : data / "runs";
  settings.limits.stop_grace_seconds = options.stop_grace_seconds;
  const std::optional<RunPlanner> planner =
      make_planner(options, environment, settings.runs_directory);
  if (planner) {
    settings.plan = [&planner](const trainer::RunConfig& run) { return planner->plan(run); };
  }

  // Blocked before any thread starts, so that only sigwait() below gets them.
  const sigset_t signals = ending_signals();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  ::umask(0077);

  std::unique_ptr<Api> api;
  // The port first: a second controller started by mistake ends before it touches anything.
  HttpServer server({options.address, options.port},
                    [&api](const Request& request) { return api->handle(request); });
  Store store(data);
  NodeTable nodes;
  const std::unique_ptr<Scheduler> scheduler = make_scheduler(
      options, environment, std::filesystem::absolute(settings.runs_directory), trainer, &nodes);
  constexpr int kUnlimited = 1 << 20;
  settings.parallel = options.parallel > 0           ? options.parallel
                      : scheduler->name() == "local" ? 1
                                                     : kUnlimited;
  Controller controller(base::posix_file_system(), base::system_clock(), store, *scheduler,
                        settings);
  api = std::make_unique<Api>(controller, base::posix_file_system(), base::system_clock(),
                              options.page_directory, CheckpointApiOptions{{trainer}},
                              scheduler->name() == "local" ? nullptr : &nodes);
  controller.start();
  server.start();
  std::printf("%s\n", server.url().c_str());
  std::fflush(stdout);
  base::log(base::LogLevel::Info, "listens on " + server.url() + "; runs in " +
                                      controller.runs_directory().string() + "; trainer " +
                                      trainer.string());
  int received = 0;
  ::sigwait(&signals, &received);
  base::log(base::LogLevel::Info, "ends; attempts that run go on");
  return 0;
}

}  // namespace regatta::orchestrator
