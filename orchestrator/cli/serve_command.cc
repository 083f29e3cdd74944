#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/confined_file_system.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/host.h"
#include "base/log.h"
#include "base/text.h"
#include "orchestrator/api/access.h"
#include "orchestrator/api/api.h"
#include "orchestrator/api/event_api.h"
#include "orchestrator/api/export_retention.h"
#include "orchestrator/api/opening.h"
#include "orchestrator/api/server.h"
#include "orchestrator/batch/batch_script.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/controller_places.h"
#include "orchestrator/cli/machines.h"
#include "orchestrator/cli/usage_error.h"
#include "orchestrator/control/controller.h"
#include "orchestrator/control/local_scheduler.h"
#include "orchestrator/control/scheduler_choice.h"
#include "orchestrator/control/slurm_scheduler.h"
#include "orchestrator/control/sweep_driver.h"
#include "orchestrator/files/shared_files.h"
#include "orchestrator/runs/trainer_program.h"
#include "orchestrator/site/data_directory.h"
#include "orchestrator/site/site_defaults.h"
#include "orchestrator/site/trainer_environment.h"
#include "orchestrator/slurm/slurm_commands.h"
#include "orchestrator/store/roll_ups.h"
#include "orchestrator/store/store.h"
#include "orchestrator/webhooks/webhooks.h"

namespace regatta::orchestrator::cli {
namespace {

constexpr double kPlanSeconds = 10;     // for what a plan reads of the dataset
constexpr double kDefaultsSeconds = 5;  // for the files of site and user
constexpr double kChoiceSeconds = 5;    // for Slurm's answer to whether it is there
constexpr int kUnlimited = 1 << 20;     // runs at once: as many as Slurm takes

struct ServeOptions {
  std::string address = "127.0.0.1";
  int port = 8420;
  std::string data;     // empty: the default
  std::string runs;     // empty: the default
  std::string trainer;  // empty: looked for
  std::string page_directory;
  int parallel = 0;                   // 0: 1 on this machine, and no limit of ours under Slurm
  std::string scheduler = "auto";     // auto, local, slurm_cli
  std::vector<std::string> clusters;  // the machines that runs are planned for; none: no plans
  std::vector<std::string> measured;  // logs of nccl-tests of them
  double stop_grace_seconds = 60;
  std::vector<std::string> webhooks;
  std::string webhook_secret, webhook_kinds;
  bool webhook_private = false;
  bool allow_privileged = false;
  double first_look_seconds = store::LookTimes{}.first_seconds;  // after what is too old
};

void refuse_privilege(const ServeOptions& options) {
  if (::geteuid() != 0) return;
  if (!options.allow_privileged) {
    throw base::Error(base::Code::Forbidden,
                      "refuses to run as root, because every run would have root's rights; start "
                      "it as an ordinary user, or say --allow-privileged");
  }
  base::log(base::LogLevel::Warning, "runs as root: every run has root's rights");
}

// --parallel, else as the files of defaults say, else by the scheduler.
int parallel_of(const ServeOptions& options, const std::vector<site::DefaultsFile>& defaults,
                const runs::Scheduler& scheduler) {
  if (options.parallel > 0) return options.parallel;
  for (const site::DefaultsFile& file : defaults) {
    if (file.parallel > 0) return file.parallel;
  }
  return scheduler.name() == "local" ? 1 : kUnlimited;
}

// As the files of defaults say, the first of them that does.
store::KeptSteps kept_steps(const std::vector<site::DefaultsFile>& defaults) {
  store::KeptSteps kept;
  for (auto file = defaults.rbegin(); file != defaults.rend(); ++file) {
    kept.raw_days = file->metrics.raw_days.value_or(kept.raw_days);
    kept.ten_second_days = file->metrics.ten_second_days.value_or(kept.ten_second_days);
    kept.minute_days = file->metrics.minute_days.value_or(kept.minute_days);
  }
  return kept;
}

// What goes on beside everything else; it ends before the API does.
std::unique_ptr<api::ExportRetention> look_after(store::Store& store, api::Api& api,
                                                 const std::vector<site::DefaultsFile>& defaults,
                                                 const store::LookTimes& looks) {
  store.check_beside();
  store.roll_up_beside(kept_steps(defaults), looks);
  for (const site::DefaultsFile& file : defaults) {
    if (!file.exports.keep_days) continue;
    return std::make_unique<api::ExportRetention>(api, base::system_clock(),
                                                  *file.exports.keep_days, looks);
  }
  return nullptr;  // exports stay until somebody removes them
}

// Interruptible: it may ask a Slurm that is silent.
control::SchedulerChoice chosen(const ServeOptions& options,
                                const site::ProgramEnvironment& environment, store::Store* store,
                                const sigset_t& ending) {
  const slurm::SlurmCommands commands({}, {kChoiceSeconds, kChoiceSeconds},
                                      slurm::slurm_environment(environment.whole));
  ::pthread_sigmask(SIG_UNBLOCK, &ending, nullptr);
  control::SchedulerChoice choice =
      control::choose_scheduler(options.scheduler, store->has_runs_of("slurm"), commands);
  ::pthread_sigmask(SIG_BLOCK, &ending, nullptr);
  return choice;
}

std::unique_ptr<runs::Scheduler> make_scheduler(const control::SchedulerChoice& choice,
                                                const site::ProgramEnvironment& environment,
                                                base::FileSystem& files, const base::Path& runs,
                                                const base::Path& trainer,
                                                slurm::NodeTable* nodes) {
  if (choice.kind == control::SchedulerChoice::Kind::Slurm) batch::check_places(runs, trainer);
  if (!choice.why.empty()) {
    base::log(choice.surprising ? base::LogLevel::Warning : base::LogLevel::Info, choice.why);
  }
  if (choice.kind == control::SchedulerChoice::Kind::Processes) {
    return std::make_unique<control::LocalScheduler>(trainer,
                                                     site::trainer_environment(environment.whole));
  }
  if (const auto ignored = slurm::ignored_variables(environment.whole); !ignored.empty()) {
    base::log(base::LogLevel::Warning,
              base::printable(base::join(ignored, ", ")) +
                  " of the environment is ignored: what a job asks for is in its run file "
                  "(section slurm)");
  }
  control::SlurmSettings settings{trainer, base::user_name(), choice.cluster};
  return std::make_unique<control::SlurmScheduler>(
      files, base::system_clock(),
      slurm::SlurmCommands({}, {}, slurm::slurm_environment(environment.whole)),
      std::move(settings), *nodes);
}

// What runs are planned for, read once.
std::shared_ptr<const plan::RunPlanner> make_planner(const ServeOptions& options,
                                                     const site::ProgramEnvironment& environment,
                                                     base::FileSystem& files,
                                                     const base::Path& runs) {
  if (options.clusters.empty()) return nullptr;
  std::vector<plan::MeasuredLog> measured;
  for (const std::string& file : options.measured) {
    measured.push_back(read_measured(file));
  }
  return std::make_shared<const plan::RunPlanner>(
      files, machines_of({options.clusters, {}, false, ""}, environment, "serve"),
      std::move(measured), runs);
}

// Read at every submission, so that a change counts from then on.
std::function<site::FilledRun(const trainer::contract::RunConfig&)> filler(
    files::SharedFiles& shared, const site::ProgramEnvironment& environment) {
  return [&shared,
          places = site::defaults_places(environment)](const trainer::contract::RunConfig& run) {
    std::vector<site::DefaultsFile> files;
    if (!places.empty()) {
      files = shared.call(places.front().path.parent_path(), kDefaultsSeconds,
                          [places] { return site::read_defaults(places); });
    }
    return site::with_defaults(run, files);
  };
}

// What touches run directories and datasets is done there.
void use(files::SharedFiles& shared, const std::shared_ptr<const plan::RunPlanner>& planner,
         control::ControllerOptions* settings) {
  settings->beside = [&shared](const base::Path& directory, std::function<void()> work) {
    return shared.start(directory, std::move(work));
  };
  if (!planner) return;
  settings->plan = [&shared, planner](const trainer::contract::RunConfig& run) {
    return shared.call(trainer::contract::data_paths(run.data).front(), kPlanSeconds,
                       [planner, run] { return planner->plan(run); });
  };
}

// Blocked before any thread starts, so that only sigwait() gets them.
sigset_t block_ending_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

// The address on stdout is for programs that have started this one.
void announce_ready(const std::string& url, const std::string& message) {
  std::printf("%s\n", url.c_str());
  std::fflush(stdout);
  base::log(base::LogLevel::Info, message);
}

std::string ready_message(const std::string& url, const base::Path& data, const base::Path& runs,
                          const base::Path& trainer) {
  return "listens on " + url + " and " + site::socket_path(data).string() +
         "; open the page with 'regatta open'; runs in " + runs.string() + "; trainer " +
         trainer.string();
}

// Whoever waits for a controller that cannot start is not waited for.
class GivesUp {
 public:
  explicit GivesUp(api::Opening& opening) : opening_(opening) {}
  ~GivesUp() { opening_.give_up(); }
  GivesUp(const GivesUp&) = delete;
  GivesUp& operator=(const GivesUp&) = delete;

 private:
  api::Opening& opening_;
};

// A thread in a call to a file server that does not answer takes no request to end. What a sudden
// end leaves behind is what a kill -9 does, and the next controller puts it in order.
void end_in_time(int exit_code) {
  base::log(base::LogLevel::Info, "ends; attempts that run go on");
  constexpr std::chrono::milliseconds kLongestEnd(1500);
  std::thread([kLongestEnd, exit_code] {
    std::this_thread::sleep_for(kLongestEnd);
    ::_exit(exit_code);
  }).detach();
}

std::function<void(const std::string& why)> ends_this_program(std::string* reason) {
  return [reason](const std::string& why) {
    *reason = why;
    ::kill(::getpid(), SIGTERM);
  };
}

void prepare_process(const ServeOptions& options) {
  base::start_log("regatta", base::LogLevel::Info);
  refuse_privilege(options);
  ::signal(SIGPIPE, SIG_IGN);
  ::umask(0077);
}

api::CheckpointApiOptions checkpoint_options(const base::Path& trainer,
                                             const site::ProgramEnvironment& environment) {
  constexpr double kExportSeconds = 3600;
  return {checkpoints::ExportSettings{trainer, kExportSeconds,
                                      site::trainer_environment(environment.whole)}};
}

// Those of the options after those of the files; of one name, that of the first file.
std::vector<site::WebhookSetting> webhooks_of(const ServeOptions& options,
                                              const std::vector<site::DefaultsFile>& defaults) {
  std::vector<site::WebhookSetting> webhooks;
  for (const site::DefaultsFile& file : defaults) {
    for (const site::WebhookSetting& each : file.webhooks) {
      const bool overridden = &file != &defaults.front() &&
                              std::any_of(webhooks.begin(), webhooks.end(), [&](const auto& other) {
                                return other.name == each.name;
                              });
      if (!overridden) webhooks.push_back(each);
    }
  }
  std::vector<std::string> kinds = base::split(options.webhook_kinds, ',');
  std::erase(kinds, "");
  if (options.webhooks.empty() != options.webhook_secret.empty()) {
    throw UsageError(options.webhooks.empty()
                         ? "--webhook-secret signs what --webhook sends; give both"
                         : "--webhook needs --webhook-secret, a file of mode 0600 that signs what "
                           "is sent; `openssl rand -hex 32` makes one");
  }
  for (const std::string& url : options.webhooks) {
    webhooks.push_back({"option-" + base::digest_of(url).substr(0, 8), url, kinds,
                        std::filesystem::absolute(options.webhook_secret),
                        options.webhook_private});
  }
  return webhooks;
}

// A full disk keeps no controller from starting or from ending.
void note(store::Store& store, const char* kind, std::string words) {
  store::Event event;
  event.kind = kind;
  event.words = std::move(words);
  try {
    store.note(event);
  } catch (const base::Error& error) {
    base::log(base::LogLevel::Warning, error.what());
  }
}

void begin(control::Controller& controller, control::SweepDriver& sweeps, store::Store& store,
           const std::string& words) {
  controller.start();
  sweeps.start();
  note(store, "controller.started", words);
}

// lost: why it ends, written before the signal was sent; empty: somebody asked for it.
void wait_for_end(const sigset_t& signals, store::Store& store, const std::string& lost) {
  int received = 0;
  ::sigwait(&signals, &received);
  end_in_time(lost.empty() ? 0 : base::meaning(base::Code::Operator).exit_code);
  note(store, "controller.ended", lost);
}

// Runs until SIGINT or SIGTERM; attempts go on after it.
int serve(const ServeOptions& options, const Program& program) {
  const site::ProgramEnvironment& environment = program.environment;
  prepare_process(options);
  const std::vector<site::DefaultsFile> defaults =
      site::read_defaults(site::defaults_places(environment));
  const base::Path trainer =
      runs::find_trainer(options.trainer, environment.program, environment.path);
  const base::Path data = data_directory(options.data, environment);
  control::ControllerOptions settings;
  settings.runs_directory = runs_directory(options.runs, environment, data);
  settings.limits.stop_grace_seconds = options.stop_grace_seconds;
  const base::Path runs = std::filesystem::absolute(settings.runs_directory);
  // Static: a thread that a mount holds fast may come back to it when all else has gone.
  static base::ConfinedFileSystem files(runs);
  const auto planner = make_planner(options, environment, files, settings.runs_directory);
  const sigset_t signals = block_ending_signals();
  std::string lost;  // written before TERM is sent, read after it came
  settings.lease->store = data.string();
  settings.on_loss = ends_this_program(&lost);

  std::unique_ptr<api::Access> access;
  std::unique_ptr<api::Api> api;
  api::Opening opening(runs, options.page_directory, program.commit);
  const auto handle = [&](const api::Request& request) {
    const auto refused = access->answer(request);
    return refused ? *refused : opening.answer(request);
  };
  // The port first: a second controller started by mistake ends before it touches anything.
  auto server =
      std::make_unique<api::HttpServer>(api::ServerOptions{options.address, options.port}, handle);
  store::Store store(data);
  access = std::make_unique<api::Access>(
      api::AccessOptions{site::keep_token(base::posix_file_system(), data), server->url(),
                         ::geteuid()},
      base::system_clock());
  // With workers of its own: who floods the port does not take the command line's.
  auto local_server = std::make_unique<api::HttpServer>(
      api::ServerOptions{"", api::kNoPort, site::socket_path(data)}, handle);
  const GivesUp before_the_servers(opening);
  local_server->start();
  server->start();
  files::SharedFiles shared;
  use(shared, planner, &settings);
  slurm::NodeTable nodes;
  const std::unique_ptr<runs::Scheduler> scheduler = make_scheduler(
      chosen(options, environment, &store, signals), environment, files, runs, trainer, &nodes);
  settings.parallel = parallel_of(options, defaults, *scheduler);
  slurm::NodeTable* const watched = scheduler->name() == "local" ? nullptr : &nodes;
  settings.nodes = watched;
  if (watched != nullptr) settings.defaults = filler(shared, environment);
  control::Controller controller(files, base::system_clock(), store, *scheduler, settings);
  webhooks::Webhooks webhooks(
      store, base::system_clock(),
      {webhooks_of(options, defaults), program.version, api::event_text, watched});
  control::SweepDriver sweeps(files, base::system_clock(), controller, {.shared = &shared});
  api = std::make_unique<api::Api>(
      controller, files, base::system_clock(),
      api::ApiOptions{options.page_directory, checkpoint_options(trainer, environment), watched,
                      &shared, &webhooks, program.commit, planner.get(), &sweeps});
  begin(controller, sweeps, store, program.version + ", runs in " + runs.string());
  const auto beside = look_after(store, *api, defaults, {options.first_look_seconds});
  opening.open(api.get());
  announce_ready(server->url(), ready_message(server->url(), data, runs, trainer));
  wait_for_end(signals, store, lost);
  // Before what their requests read.
  local_server.reset();
  server.reset();
  if (!lost.empty()) throw base::Error(base::Code::Operator, lost);
  return 0;
}

class Serve : public Command {
 public:
  explicit Serve(const Program& program)
      : Command({"serve",
                 Group::Controller,
                 "run the controller: it starts runs and serves the API and the page",
                 {"serve", "serve --data /var/tmp/regatta --parallel 2",
                  "serve --scheduler slurm_cli --cluster dgx.yaml"}}),
        program_(program) {}

  void add_options(OptionList& options) override {
    options.add("--address", &options_.address, "the loopback address to listen on");
    options.add("--port", &options_.port, "the port to listen on; 0: any free one").range = {0,
                                                                                             65535};
    options.add("--data", ValueKind::Directory, &options_.data,
                "the store's directory, on a local disk (default: $XDG_STATE_HOME/regatta)");
    options.add("--runs", ValueKind::Directory, &options_.runs,
                "where run directories are made (default: REGATTA_RUNS, what `regatta config "
                "show` says, or DATA/runs)");
    options.add("--trainer", ValueKind::File, &options_.trainer,
                "regatta-train (default: beside this program, or in PATH)");
    options.choose("--scheduler", &options_.scheduler,
                   {{"auto", std::string("auto")},
                    {"local", std::string("local")},
                    {"slurm_cli", std::string("slurm_cli")}},
                   "who starts attempts: local (processes of this machine), slurm_cli, or auto: "
                   "Slurm if it can be used");
    options
        .add("--parallel", &options_.parallel,
             "runs at once (default: 1 as processes, unlimited with Slurm)")
        .range = {1, 100000};
    options
        .add("--stop-grace", &options_.stop_grace_seconds,
             "seconds that a cancelled run has to write its checkpoint")
        .range = {0, 86400};
    options.add("--cluster", ValueKind::File, &options_.clusters,
                "the machines, a file that `regatta topo` reads: runs on their GPUs are planned; "
                "repeatable");
    options.add("--measured", ValueKind::File, &options_.measured,
                "a log of nccl-tests on these machines; repeatable");
    options
        .add("--webhook", &options_.webhooks,
             "POST events to this URL; repeatable, and in `webhooks:` of `regatta config` files, "
             "where a URL is not in the list of processes")
        .type = "URL";
    options.add("--webhook-secret", ValueKind::File, &options_.webhook_secret,
                "the secret that signs them, a file of mode 0600");
    options.add("--webhook-kinds", &options_.webhook_kinds,
                "only events of these kinds, such as run.failed,node (default: all)");
    options.add("--webhook-private", &options_.webhook_private,
                "also to loopback and private addresses");
    options.add("--page-directory", ValueKind::Directory, &options_.page_directory,
                "serve the page from here (development)");
    options.add("--allow-privileged", &options_.allow_privileged, "run even as root");
    options.add("--first-look", &options_.first_look_seconds, "").is_hidden = true;  // of tests
  }
  int run() override { return serve(options_, program_); }

 private:
  Program program_;
  ServeOptions options_;
};

}  // namespace

std::unique_ptr<Command> serve_command(const Program& program) {
  return std::make_unique<Serve>(program);
}

}  // namespace regatta::orchestrator::cli
