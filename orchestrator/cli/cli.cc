#include "orchestrator/cli/cli.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <utility>

#include "base/build_commit.h"
#include "base/text.h"
#include "orchestrator/cli/ckpt_commands.h"
#include "orchestrator/cli/command_choices.h"
#include "orchestrator/cli/config_command.h"
#include "orchestrator/cli/diff_command.h"
#include "orchestrator/cli/doctor_command.h"
#include "orchestrator/cli/plan_command.h"
#include "orchestrator/cli/remove_command.h"
#include "orchestrator/cli/sbatch_command.h"
#include "orchestrator/cli/simulate_command.h"
#include "orchestrator/cli/topo_commands.h"

namespace regatta::orchestrator::cli {
namespace {

constexpr int kUsage = 2;

const Choices<Format> kFormats{{"text", Format::Text}, {"json", Format::Json}};

// Everything that options can set.
struct Parsed {
  ClientOptions client;
  ServeOptions serve;
  SubmitOptions submit;
  ListOptions list;
  RemoveCommandOptions remove;
  CkptOptions ckpt;
  ConfigOptions config;
  DiffOptions diff;
  OpenOptions open;
  std::vector<std::string> nodes;
  DoctorOptions doctor;
  PlanOptions plan;
  ProbeOptions probe;
  TopoOptions topo;
  SimulateOptions simulate;
  std::string run;
  std::string idempotency_key;
  std::vector<std::string> changes;
  bool follow = false;
  bool exit_status = false;
  bool secrets = false;
};

void add_server_options(CLI::App* command, Parsed* parsed) {
  command->add_option("--server", parsed->client.server.name,
                      "the controller: unix:PATH of its socket, or http://… (also REGATTA_SERVER; "
                      "without: DATA/controller.sock)");
  command->add_option("--token-file", parsed->client.server.token_file,
                      "with http://: the controller's token (also REGATTA_TOKEN_FILE; without: "
                      "DATA/token)");
  command->add_option("--timeout", parsed->client.timeout_seconds, "seconds per request")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
}

void add_client_options(CLI::App* command, Parsed* parsed) {
  add_server_options(command, parsed);
  add_choice(command, "-o,--output", &parsed->client.format, kFormats);
}

CLI::App* add_run_command(CLI::App* app, const std::string& name, const std::string& help,
                          Parsed* parsed) {
  CLI::App* const command = app->add_subcommand(name, help);
  command->add_option("run", parsed->run, "the run's id, or its name when only one has it")
      ->required();
  add_client_options(command, parsed);
  return command;
}

void add_serve(CLI::App* app, Parsed* parsed) {
  ServeOptions& options = parsed->serve;
  CLI::App* const command =
      app->add_subcommand("serve", "run the controller: starts runs, serves API and page");
  command->add_option("--address", options.address, "a loopback address")->capture_default_str();
  command->add_option("--port", options.port, "0: any free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command->add_option("--data", options.data,
                      "the store's directory, on a local disk ($XDG_STATE_HOME/regatta)");
  command->add_option("--runs", options.runs,
                      "where run directories are made ($REGATTA_RUNS, the files of `regatta config "
                      "show`, or DATA/runs)");
  command->add_option("--trainer", options.trainer,
                      "regatta-train (beside this program, or in PATH)");
  add_choice(command, "--scheduler", &options.scheduler,
             {{"auto", "auto"}, {"local", "local"}, {"slurm_cli", "slurm_cli"}},
             "who starts attempts: local (processes of this machine), slurm_cli, or auto: Slurm "
             "where it can be used");
  command
      ->add_option("--parallel", options.parallel,
                   "runs at once (1 with processes, unlimited with Slurm)")
      ->check(CLI::Range(1, 100000));
  command
      ->add_option("--stop-grace", options.stop_grace_seconds,
                   "seconds that a cancelled run has to write its checkpoint")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  command
      ->add_option("--cluster", options.clusters,
                   "the machines, as `regatta topo` reads them: runs on their GPUs are planned; "
                   "repeatable")
      ->allow_extra_args(false);
  command->add_option("--measured", options.measured, "what nccl-tests printed there; repeatable")
      ->allow_extra_args(false);
  command->add_option("--page-directory", options.page_directory,
                      "serve the page from here (development)");
  command->add_flag("--allow-privileged", options.allow_privileged, "run even as root");
}

void add_open(CLI::App* app, Parsed* parsed) {
  CLI::App* const command =
      app->add_subcommand("open", "print a link that opens the page once, within a minute");
  command->add_option("run", parsed->open.run, "the run's id or name; without: all runs");
  command->add_option("--url", parsed->open.url,
                      "the page's address as the browser reaches it, such as an end of ssh -L");
  command->add_flag("--browser", parsed->open.browser, "open it in the desktop's browser");
  add_client_options(command, parsed);
}

void add_submit(CLI::App* app, Parsed* parsed) {
  CLI::App* const submit = app->add_subcommand("submit", "make a run from a run file");
  submit->add_option("file", parsed->submit.file, "YAML or JSON; - for stdin")->required();
  submit->add_option("--plan", parsed->submit.plan, "a plan.json of `regatta plan`");
  submit->add_flag("--wait", parsed->submit.wait,
                   "watch the run and return its exit code (100: it failed without one)");
  submit
      ->add_option("--after", parsed->submit.after,
                   "begin only when this run has succeeded; repeatable")
      ->type_name("RUN")
      ->allow_extra_args(false);
  submit->add_option("--idempotency-key", parsed->idempotency_key,
                     "the same key and file make only one run");
  add_client_options(submit, parsed);
}

// rm and archive.
void add_removal(CLI::App* app, Parsed* parsed) {
  RemoveCommandOptions& options = parsed->remove;
  CLI::App* const remove =
      app->add_subcommand("rm", "remove runs that are over, with their directories");
  CLI::App* const archive = app->add_subcommand(
      "archive", "keep runs that are over with their newest and best checkpoints only, unlisted");
  for (CLI::App* const command : {remove, archive}) {
    command->add_option("runs", options.runs, "ids, or names when only one run has it")
        ->required()
        ->type_name("RUN");
    command->add_flag("--dry-run", options.dry_run, "only say what would be freed");
    add_client_options(command, parsed);
  }
  remove->add_flag("-y,--yes", options.yes, "do not ask");
  remove->add_flag("--pinned-too", options.pinned_too, "even with pinned checkpoints");
}

void add_diff(CLI::App* app, Parsed* parsed) {
  CLI::App* const command = app->add_subcommand(
      "diff", "say what has changed since a job's files were frozen; 1 when something has");
  command
      ->add_option("run", parsed->diff.run,
                   "a job's number, the name that --freeze told, or a run's id or name")
      ->required();
  command->add_option("file", parsed->diff.file, "a run file, to compare the run's own with");
  command->add_flag("--names-only", parsed->diff.names_only, "without the lines that changed");
  add_client_options(command, parsed);
}

void add_config(CLI::App* app, Parsed* parsed) {
  ConfigOptions& options = parsed->config;
  CLI::App* const group = app->add_subcommand("config", "settings of site and user");
  group->require_subcommand(1);
  CLI::App* const command = group->add_subcommand(
      "show", "show what the files of site and user set, or what a run file and they come to");
  command->add_option("file", options.file,
                      "a run file, as it would be submitted to Slurm; - for stdin");
  command->add_flag("--origin", options.origin, "which file each value is from");
  command->add_flag_callback(
      "--secrets", [&options] { options.secrets = Secrets::Shown; },
      "with the values of slurm.environment");
  add_choice(command, "-o,--output", &options.format, kFormats);
}

struct CkptCommand {
  const char* name;
  CkptAction action;
  const char* words;
  const char* help;
};
constexpr CkptCommand kCkptCommands[] = {
    {"ls", CkptAction::List, "[RUN]", "list checkpoints, and why each stays"},
    {"show", CkptAction::Show, "[RUN] CHECKPOINT", "show manifest and tensors"},
    {"verify", CkptAction::Verify, "[RUN] [CHECKPOINT...]",
     "read every byte (of all without a name); 1 when one is damaged"},
    {"pin", CkptAction::Pin, "[RUN] CHECKPOINT", "keep a checkpoint until it is unpinned"},
    {"unpin", CkptAction::Unpin, "[RUN] CHECKPOINT", "unpin a checkpoint; retention may delete it"},
    {"gc", CkptAction::Gc, "[RUN]", "remove what the run's policy does not keep"},
    {"export", CkptAction::Export, "CHECKPOINT_OR_RUN_DIRECTORY | RUN CHECKPOINT",
     "make a directory that Hugging Face's transformers load; runs regatta-train"},
    {"diff", CkptAction::Diff, "A B | RUN A B", "compare two checkpoints, tensor by tensor"},
};

// What is passed on to `regatta-train export`, which checks it; the words are as there.
void add_export_options(CLI::App* command, CkptOptions* ckpt) {
  command->add_option("-o,--output", ckpt->output, "directory to make")->required();
  command->add_option("--trainer", ckpt->trainer,
                      "regatta-train (beside this program, or in PATH)");
  constexpr std::pair<const char*, const char*> kWithValue[] = {
      {"--for", "pretraining (both heads), encoder, or question-answering"},
      {"--vocab", "the model's vocab.txt, where the dataset is gone"},
      {"--qa-head", "for question-answering: a .safetensors file with qa_outputs.{weight,bias}"},
  };
  constexpr std::pair<const char*, const char*> kFlags[] = {
      {"--with-optimizer", "the optimizer's moments, too"},
      {"--cased", "--vocab is of a model that keeps case and accents"},
      {"--force", "replace an earlier export"},
  };
  for (const auto& [name, help] : kWithValue) {
    const std::string option = name;
    command->add_option_function<std::string>(
        option,
        [ckpt, option](const std::string& value) {
          ckpt->export_options.push_back(option + "=" + value);
        },
        help);
  }
  for (const auto& [name, help] : kFlags) {
    const std::string option = name;
    command->add_flag_callback(
        option, [ckpt, option] { ckpt->export_options.push_back(option); }, help);
  }
}

void add_ckpt(CLI::App* app, Parsed* parsed) {
  CLI::App* const group = app->add_subcommand("ckpt", "a run's checkpoints");
  group->require_subcommand(1);
  for (const CkptCommand& entry : kCkptCommands) {
    CLI::App* const command = group->add_subcommand(entry.name, entry.help);
    command
        ->add_option("words", parsed->ckpt.words,
                     std::string(entry.words) +
                         "; a checkpoint is named as listed, by its step, or 'latest'")
        ->type_name("");
    command->add_option("--directory", parsed->ckpt.directory,
                        "the run's directory, instead of RUN; needs no controller");
    if (entry.action == CkptAction::Export) {
      add_server_options(command, parsed);
      add_export_options(command, &parsed->ckpt);
      continue;
    }
    add_client_options(command, parsed);
    if (entry.action == CkptAction::Pin) {
      command->add_option("--reason", parsed->ckpt.reason, "why, for people");
    } else if (entry.action == CkptAction::Gc) {
      command->add_flag("--dry-run", parsed->ckpt.dry_run, "only say what would go");
    } else if (entry.action == CkptAction::Diff) {
      command->add_flag("--optimizer", parsed->ckpt.optimizer, "the optimizer's tensors too");
    }
  }
}

void add_probe(CLI::App* app, Parsed* parsed) {
  ProbeOptions& options = parsed->probe;
  CLI::App* const command =
      app->add_subcommand("probe", "read this machine into a capture, to be replayed anywhere");
  command->add_option("-o,--output", options.output, "the file; - for stdout")
      ->capture_default_str();
  command->add_option("--nvml-library", options.nvml_library)->capture_default_str();
  // For the child that asks NVML, and may hang.
  command->add_flag("--nvml-calls", options.nvml_calls)->group("");
  command->add_option("--skip", options.skip)->group("");
}

void add_topo(CLI::App* app, Parsed* parsed) {
  TopoOptions& options = parsed->topo;
  CLI::App* const command = app->add_subcommand(
      "topo", "show what machines are and how they are cabled; without a file, this one");
  command->add_option("file", options.files,
                      "captures, nvidia-smi's matrices, NCCL topologies, ibnetdiscover's dumps, "
                      "Slurm's topology, cluster descriptions, graph.json; - for stdin");
  command
      ->add_option("--srun", options.srun,
                   "an option of srun, repeatable: probe the nodes that it gives, in one step")
      ->allow_extra_args(false);
  command->add_option("--nvml-library", options.nvml_library)->capture_default_str();
  const Choices<TopoFormat> formats{{"text", TopoFormat::Text},
                                    {"json", TopoFormat::Json},
                                    {"nccl-xml", TopoFormat::NcclXml},
                                    {"slurm", TopoFormat::Slurm},
                                    {"slurm-block", TopoFormat::SlurmBlock},
                                    {"slurm-yaml", TopoFormat::SlurmYaml}};
  add_choice(command, "-o,--output", &options.format, formats);
}

void add_doctor(CLI::App* app, Parsed* parsed) {
  DoctorOptions& options = parsed->doctor;
  CLI::App* const command = app->add_subcommand(
      "doctor", "say what is wrong with machines, fabric and settings; 1 when something is");
  command->add_option("file", options.files,
                      "what `regatta topo` reads, or nccl.conf; - for stdin; none: this machine");
  command->add_option("--job", options.job, "a run file, for the variables that it sets");
  command->add_flag("--list", options.list, "say what is checked, why, and what to do");
  add_choice(command, "-o,--output", &options.format, kFormats);
}

void add_given_figures(CLI::App* command, plan::GivenFigures* given) {
  command
      ->add_option("--efficiency", given->efficiency,
                   "share of the devices' peak that large products reach")
      ->check(CLI::Range(0.001, 1.0));
  command
      ->add_option("--overhead-seconds", given->overhead_seconds,
                   "fixed overhead per step, seconds (0.009 on several nodes)")
      ->check(CLI::Range(0.0, 3600.0));
}

void add_plan(CLI::App* app, Parsed* parsed) {
  PlanOptions& options = parsed->plan;
  CLI::App* const command =
      app->add_subcommand("plan", "choose buckets, GPUs and settings for a run, with the reasons");
  command->add_option("file", options.file, "the run file; - for stdin")->required();
  command
      ->add_option("--cluster", options.clusters,
                   "the machines: what `regatta topo` reads; repeatable")
      ->allow_extra_args(false);
  command->add_option("--nodes", options.nodes, "plan for N nodes of the described kind")
      ->check(CLI::Range(1, 8192));
  command->add_flag("--live", options.live, "plan for this machine");
  command
      ->add_option("--srun", options.srun,
                   "an option of srun, repeatable: probe the nodes that it gives, in one step")
      ->allow_extra_args(false);
  command
      ->add_option("--measured", options.measured,
                   "what nccl-tests or `regatta-train bench comm` printed there; repeatable")
      ->allow_extra_args(false);
  command->add_option("--lengths", options.lengths,
                      "how long samples are: lines low,high,fraction; none: all max_length");
  command
      ->add_option("--vocabulary", options.vocabulary,
                   "vocabulary size, in place of the run file's and its dataset's")
      ->check(CLI::Range(1, 1 << 24));
  command->add_option("--ranks", options.ranks,
                      "plan for N ranks, not the run file's; all: one for each GPU");
  add_given_figures(command, &options.given);
  command
      ->add_option("--slowdown", options.slowdown,
                   "fraction by which computing slows during collectives (default: from NCCL's use "
                   "of the GPU)")
      ->check(CLI::Range(0.0, 10.0));
  command->add_option("--nvml-library", options.nvml_library)->capture_default_str();
  command->add_option(
      "--runs", options.runs,
      "the runs directory: what earlier runs found out counts ($REGATTA_RUNS, or as "
      "`regatta config show` says)");
  command->add_option("--directory", options.directory,
                      "write plan.json and plan.tuner there; made if it is missing");
  command->add_flag_callback(
      "--explain", [&options] { options.format = PlanFormat::Explain; }, "in sentences");
  const Choices<PlanFormat> formats{{"text", PlanFormat::Text}, {"explain", PlanFormat::Explain},
                                    {"json", PlanFormat::Json}, {"env", PlanFormat::Env},
                                    {"csv", PlanFormat::Csv},   {"xml", PlanFormat::Xml},
                                    {"run", PlanFormat::Run}};
  add_choice(command, "-o,--output", &options.format, formats);
}

void add_simulated_run(CLI::App* command, SimulateOptions* options) {
  command->add_option("run-file", options->run_file, "YAML or JSON; - for stdin");
  command->add_option("--cluster", options->cluster,
                      "a cluster description, or what else `regatta topo` reads; - for stdin");
  command->add_option("--nodes", options->nodes, "numbers of nodes to compare: 1,2,4")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--lengths", options->lengths,
                      "lines `low,high,fraction` of tokens a sample; none: data.max_length");
  command
      ->add_option("--measured", options->measured,
                   "a log of nccl-tests, repeatable: for numbers of nodes that it fits")
      ->allow_extra_args(false);
  command
      ->add_option("--samples-per-rank", options->samples_per_rank,
                   "the batch grows with the ranks (0: it is the run's)")
      ->check(CLI::Range(0, 1 << 20));
  command
      ->add_option("--vocabulary", options->vocabulary,
                   "vocabulary size, in place of the run file's and its dataset's")
      ->check(CLI::Range(1, 1 << 24));
  add_given_figures(command, &options->given);
  command->add_flag("--sharp", options->sharp, "assume in-network reduction (SHARP)");
  command->add_option("--steps", options->steps, "number of simulated steps")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "random seed (default: the run's)");
}

void add_simulate(CLI::App* app, Parsed* parsed) {
  SimulateOptions& options = parsed->simulate;
  CLI::App* const command =
      app->add_subcommand("simulate", "say what a run would take on machines that are described");
  add_simulated_run(command, &options);
  constexpr double kMost = 1e12;
  command
      ->add_option("--samples-to-converge", options.samples_to_converge,
                   "samples until the target is met")
      ->check(CLI::Range(1.0, kMost));
  command
      ->add_option("--samples-deviation", options.samples_deviation,
                   "standard deviation of that from run to run")
      ->check(CLI::Range(0.0, kMost));
  command
      ->add_option("--mtbf-hours", options.mtbf_hours,
                   "mean hours between failures of one node (0: none fails)")
      ->check(CLI::Range(0.0, kMost));
  command
      ->add_option("--restart-seconds", options.restart_seconds,
                   "seconds until training goes on after a failure")
      ->check(CLI::Range(0.0, kMost))
      ->capture_default_str();
  command
      ->add_option("--checkpoint-seconds", options.checkpoint_seconds,
                   "seconds training pauses per checkpoint")
      ->check(CLI::Range(0.0, kMost));
  add_choice(command, "--gantt", &options.gantt, {{"text", Gantt::Text}, {"svg", Gantt::Svg}},
             "text: also draw a step of the last number of nodes; svg: print only its picture");
  add_choice(command, "--study", &options.study, {{"mlperf", "mlperf"}},
             "mlperf: published results beside predictions");
  add_choice(command, "-o,--output", &options.format,
             {{"table", SimulateFormat::Table}, {"json", SimulateFormat::Json}});
}

int run_ckpt(const CLI::App& group, const Parsed& parsed,
             const site::ProgramEnvironment& environment) {
  const std::string name = group.get_subcommands().front()->get_name();
  for (const CkptCommand& entry : kCkptCommands) {
    if (name == entry.name) return ckpt(entry.action, parsed.client, parsed.ckpt, environment);
  }
  return kUsage;
}

// Words of the command line that CLI11 repeats in its messages are the user's own, but a script may
// have passed on someone else's.
int usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* last = &app;
  std::string name = "regatta";
  while (!last->get_subcommands().empty()) {
    last = last->get_subcommands().front();
    name += " " + last->get_name();
  }
  const auto commands = last->get_subcommands([](const CLI::App*) { return true; });
  const std::vector<std::string> rest = last->remaining();
  // Help that was asked for of an unknown command would be that of another one.
  const bool unknown = !commands.empty() && !rest.empty();
  if (error.get_exit_code() == 0 && !unknown) return app.exit(error);  // --help, --version
  std::string message = error.what();
  if (unknown) {
    std::vector<std::string> names;
    for (const CLI::App* command : commands) names.push_back(command->get_name());
    const auto suggestion = base::closest(rest.front(), names);
    message = "'" + rest.front() + "' is not a command" +
              (suggestion ? "; did you mean '" + *suggestion + "'?" : "");
  }
  std::cerr << "regatta: " << base::printable(message) << "; '" << (unknown ? name : "regatta")
            << " --help' lists the commands\n";
  return kUsage;
}

int dispatch(const CLI::App& app, const Parsed& parsed,
             const site::ProgramEnvironment& environment) {
  const std::string name = app.get_subcommands().front()->get_name();
  if (name == "serve") return serve(parsed.serve, environment);
  if (name == "submit") {
    SubmitOptions options = parsed.submit;
    if (app.get_subcommand("submit")->count("--idempotency-key") > 0) {
      options.idempotency_key = parsed.idempotency_key;
    }
    return submit(parsed.client, options);
  }
  if (name == "ls") return list(parsed.client, parsed.list);
  if (name == "show") {
    return show(parsed.client, parsed.run, parsed.secrets ? Secrets::Shown : Secrets::Hidden);
  }
  if (name == "probe") return probe(parsed.probe, environment);
  if (name == "topo") return topo(parsed.topo, environment);
  if (name == "doctor") return doctor(parsed.doctor, environment);
  if (name == "plan") return plan(parsed.plan, environment);
  if (name == "simulate") return simulate(parsed.simulate);
  if (name == "config") return show_config(parsed.config, environment);
  if (name == "ckpt") return run_ckpt(*app.get_subcommand("ckpt"), parsed, environment);
  if (name == "explain") return explain(parsed.client, parsed.run);
  if (name == "open") return open_page(parsed.client, parsed.open);
  if (name == "nodes") return nodes(parsed.client, parsed.nodes);
  if (name == "diff") return diff(parsed.client, parsed.diff, environment);
  if (name == "cancel") return cancel(parsed.client, parsed.run);
  if (name == "resume") return resume(parsed.client, parsed.run, parsed.changes);
  if (name == "rm") return remove_runs(parsed.client, parsed.remove);
  if (name == "archive") return archive_runs(parsed.client, parsed.remove);
  if (name == "logs") {
    return logs(parsed.client, parsed.run, parsed.follow ? Follow::Yes : Follow::No);
  }
  if (name == "watch") {
    return watch(parsed.client, parsed.run,
                 parsed.exit_status ? WatchResult::RunExitCode : WatchResult::Zero);
  }
  return version(parsed.client, base::build_commit());
}

}  // namespace

int run_command_line(int count, char** arguments, const site::ProgramEnvironment& environment) {
  // Its options are sbatch's, so nothing here may read them; a link called sbatch stands for it.
  const bool by_name = count > 0 && base::Path(arguments[0]).filename() == "sbatch";
  if (by_name || (count > 1 && std::string_view(arguments[1]) == "sbatch")) {
    return sbatch({arguments + (by_name ? 1 : 2), arguments + count}, environment);
  }
  Parsed parsed;
  parsed.client.server = controller_address(environment);
  CLI::App app("Trains BERT-style encoders and shows how long they take to reach an accuracy.");
  app.name("regatta");
  app.set_version_flag("--version", base::version_text("regatta"));
  app.require_subcommand(1);
  add_serve(&app, &parsed);
  add_submit(&app, &parsed);
  app.add_subcommand(
      "sbatch",
      "sbatch with any option and script, with checks and lost-reply recovery (sbatch --help)");

  CLI::App* const list = app.add_subcommand("ls", "list the runs, newest first");
  list->add_option("--limit", parsed.list.limit)->check(CLI::Range(1, 1000))->capture_default_str();
  list->add_option("--state", parsed.list.state, "only runs in this state");
  list->add_flag("--archived", parsed.list.archived, "only archived runs");
  list->add_flag("--all", parsed.list.all, "archived runs, too");
  add_client_options(list, &parsed);

  CLI::App* const show = add_run_command(&app, "show", "show a run", &parsed);
  show->add_flag("--secrets", parsed.secrets,
                 "with the values of slurm.environment, on the controller's machine");
  CLI::App* const watch = add_run_command(
      &app, "watch", "show a run's progress until it ends; Ctrl-C detaches", &parsed);
  watch->add_flag("--exit-status", parsed.exit_status,
                  "return the run's own exit code (100: it failed without one)");
  CLI::App* const logs = add_run_command(&app, "logs", "print the newest attempt's log", &parsed);
  logs->add_flag("-f,--follow", parsed.follow, "follow until the run ends");
  add_run_command(&app, "explain",
                  "say why a run waits, what became of its attempts, and what is next", &parsed);
  add_run_command(&app, "cancel", "stop a run after a checkpoint", &parsed);
  add_run_command(&app, "resume",
                  "let a stopped, cancelled or failed run go on from its newest checkpoint",
                  &parsed)
      ->add_option("--set", parsed.changes,
                   "ask Slurm for something else from now on, such as slurm.memory_per_node=64G; "
                   "repeatable")
      ->type_name("slurm.KEY=VALUE")
      ->allow_extra_args(false);
  add_removal(&app, &parsed);
  add_diff(&app, &parsed);
  add_config(&app, &parsed);
  add_open(&app, &parsed);
  add_ckpt(&app, &parsed);
  CLI::App* const nodes =
      app.add_subcommand("nodes", "show the machines: what is free, what is wrong, what to do");
  nodes->add_option("nodes", parsed.nodes, "only these, such as node[01-04]")->type_name("NAME");
  add_client_options(nodes, &parsed);
  add_probe(&app, &parsed);
  add_topo(&app, &parsed);
  add_doctor(&app, &parsed);
  add_plan(&app, &parsed);
  add_simulate(&app, &parsed);
  CLI::App* const version = app.add_subcommand("version", "print versions");
  add_client_options(version, &parsed);

  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return usage_error(app, error);
  }
  return dispatch(app, parsed, environment);
}

}  // namespace regatta::orchestrator::cli
