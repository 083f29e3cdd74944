// regatta-train: prepare data, train, measure.
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>

#include "base/build_commit.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file_system.h"
#include "base/host.h"
#include "base/log.h"
#include "base/standard_streams.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "trainer/bench/bench_commands.h"
#include "trainer/cli/answer_command.h"
#include "trainer/cli/debug_commands.h"
#include "trainer/cli/eval_command.h"
#include "trainer/cli/fill_command.h"
#include "trainer/cli/interchange_commands.h"
#include "trainer/cli/option_checks.h"
#include "trainer/cli/predict_command.h"
#include "trainer/cli/prepare_command.h"
#include "trainer/cli/verify_data_command.h"
#include "trainer/contract/run_change.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/run_difference.h"
#include "trainer/contract/run_directory.h"
#include "trainer/data/dataset.h"
#include "trainer/interchange/any_model.h"
#include "trainer/interchange/run_model.h"
#include "trainer/plugins/make_device.h"
#include "trainer/run/launcher.h"
#include "trainer/run/run_data.h"
#include "trainer/run/stop_signals.h"
#include "trainer/run/training_run.h"
#include "trainer/samples/sampler.h"
#include "trainer/step/memory_needs.h"
#include "trainer/step/train_loop.h"
#include "trainer/watch/process_stacks.h"

namespace {

using namespace regatta;  // this file only
using namespace regatta::trainer;
using namespace regatta::trainer::cli;

constexpr std::uint64_t kMaxTextBytes = 1U << 20U;
constexpr std::size_t kShownDifferences = 8;

std::string program_path() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).string();
}

// Of the environment: where plug-ins lie, where timed products are remembered, and with which
// instructions a CPU computes.
plugins::DevicePlace device_place() {
  plugins::DevicePlace place;
  place.program = program_path();
  if (const char* directory = std::getenv("REGATTA_PLUGIN_DIR")) place.plugin_directory = directory;
  if (const char* isa = std::getenv("REGATTA_ISA")) place.instruction_set = isa;
  if (const char* cache = std::getenv("REGATTA_CACHE_DIR")) {
    place.products_file = base::Path(cache) / "products.txt";
  } else if (const char* home = std::getenv("HOME")) {
    place.products_file = base::Path(home) / ".cache" / "regatta" / "products.txt";
  }
  return place;
}

// Whoever waits for nothing but what this program writes has it end with itself, however that ends.
void end_with_parent() {
  const char* parent = std::getenv("REGATTA_ENDS_WITH");
  if (parent == nullptr) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (std::to_string(::getppid()) != parent) std::_Exit(1);  // it was over before
}

// Options are members, filled by the parser between add() and run().
class Run {
 public:
  CLI::App* add(CLI::App& program) {
    CLI::App* app = program.add_subcommand("run", "one attempt at a run: train or resume");
    CLI::Option* directory = app->add_option("--directory", directory_, "run directory");
    CLI::Option* file =
        app->add_option("file", file_,
                        "run file to make the directory from; of a directory that is there, it "
                        "may change steps, target, evaluation and checkpoints")
            ->check(not_empty());
    app->add_option("--threads", options_.threads, "threads, instead of the run file's")
        ->check(CLI::Range(1, 1024));
    app->add_option("--ranks", options_.ranks,
                    "ranks, instead of the run file's; a run may go on with another number")
        ->check(CLI::Range(1, 1 << 20));
    CLI::Option* seconds =
        app->add_option("--deadline-seconds", deadline_seconds_,
                        "time that is left from now: save before it is over, and return 25")
            ->check(between(0, 1e9));
    app->add_option("--deadline-utc", options_.deadline_utc,
                    "the same as a moment, in seconds since 1970: what starting takes counts, too")
        ->check(between(0, 1e11))
        ->excludes(seconds);
    app->add_option("--mllog", options_.mllog,
                    "also write the run as a log of MLPerf Training to this file, instead of the "
                    "run file's mllog.file")
        ->check(not_empty());
    app->add_flag("--dry-run", dry_run_,
                  "print the run file with all defaults filled in, and on stderr what memory the "
                  "run will need at most; check what it begins with; do nothing")
        ->needs(file);
    app->add_flag("--debug-numerics", debug_numerics_,
                  "first compare the next step with float64, and print the error of each layer "
                  "(slow: `debug numerics`); then train")
        ->excludes("--dry-run");
    directory->excludes("--dry-run");
    return app;
  }
  int run() {
    if (dry_run_) return print_completed();
    if (directory_.empty()) {
      throw base::Error(base::Code::User, "name the run directory with --directory");
    }
    if (deadline_seconds_) {
      options_.deadline_utc = base::system_clock().utc_seconds() + *deadline_seconds_;
    }
    base::FileSystem& files = base::posix_file_system();
    if (!file_.empty()) {
      const contract::RunConfig config = config_from_file();
      (void)run::with_ranks(config,
                            options_);  // more ranks than samples are refused before it is made
      make_or_compare(files, config);
    }
    if (!options_.mllog.empty()) {
      options_.mllog = std::filesystem::absolute(options_.mllog).string();
    }
    run::catch_stop_signals();
    options_.place = device_place();
    options_.first_state = [&files](const contract::RunConfig& config, const run::RunData& data) {
      interchange::StartingState state = interchange::starting_state(
          files, base::system_clock(), *config.from, config.model,
          {data.vocabulary(), data.lower_case(), data.labels()}, config.seed, config.threads);
      return run::FirstState{std::move(state.parameters), std::move(state.first_moment),
                             std::move(state.second_moment), state.step, std::move(state.notes)};
    };
    options_.commit = base::build_commit();
    options_.variables = ranks::process_variables();
    options_.all_variables = ranks::all_process_variables;
    options_.rank_place = ranks::rank_place(options_.variables);
    const contract::RunDirectory directory = contract::RunDirectory::open(files, directory_);
    if (debug_numerics_) compare_numerics(directory);
    if (!options_.rank_place && ranks_of(directory) > 1) return launch(directory);
    return train_here(files, directory);
  }

 private:
  // What the dataset decides is filled in.
  static void complete(contract::RunConfig* config) {
    const bool classes = config->model.task == contract::Task::Classification;
    if (config->model.vocabulary != 0 && (!classes || config->model.labels != 0)) return;
    run::complete_model(base::posix_file_system(), "the run file", config);
  }
  // Of datasets that are the same but spelled in another way.
  static void take_spelling(const contract::DataConfig& there, contract::DataConfig* here) {
    const std::vector<std::string> paths = contract::data_paths(there);
    std::size_t i = 0;
    contract::change_data_paths(here, [&](const std::string& path) {
      std::error_code error;
      const std::size_t at = i++;
      const bool same = at < paths.size() && std::filesystem::equivalent(paths[at], path, error);
      return same ? paths[at] : path;
    });
  }
  // Who names another file means the run as that says, if a run may change so, and else another
  // run.
  void make_or_compare(base::FileSystem& files, contract::RunConfig config) const {
    const base::Path run_json = base::Path(directory_) / "run.json";
    if (!files.exists(run_json)) {
      try {
        (void)contract::RunDirectory::create(files, directory_, contract::to_json(config));
        return;
      } catch (const base::Error& error) {
        // Under mpirun another rank may have made it meanwhile.
        if (error.code() != base::Code::Conflict || !files.exists(run_json)) throw;
      }
    }
    contract::RunConfig there =
        contract::parse_run_config(files.read(run_json, kMaxTextBytes), run_json.string());
    take_spelling(there.data, &config.data);
    if ((there.model.vocabulary == 0) != (config.model.vocabulary == 0)) {
      complete(&there);
      complete(&config);
    }
    const std::vector<contract::KeyDifference> found = contract::differences(there, config);
    if (found.empty()) return;
    const std::vector<contract::KeyDifference> fixed = contract::fixed_differences(there, config);
    const bool untrained =
        !fixed.empty() &&
        contract::is_untrained(files, contract::RunDirectory::open(files, directory_));
    if (!fixed.empty() && !untrained) {
      throw base::Error(base::Code::User,
                        file_ + " is not the run file of " + directory_ + ": " +
                            contract::to_text(fixed, kShownDifferences) +
                            "; leave the file out to go on with the run as it is, or name another "
                            "directory");
    }
    const std::string what = contract::to_text(found, kShownDifferences);
    if (files.exists(base::Path(directory_) / "submission.json")) {
      throw base::Error(base::Code::User, directory_ + " is a controller's run, and " + file_ +
                                              " would change it: " + what +
                                              "; use `regatta extend` or `regatta change`");
    }
    base::replace_file(files, run_json, contract::to_json(config));
    base::log(base::LogLevel::Info, std::string("the run ") +
                                        (untrained ? "begins anew" : "goes on") + " as " + file_ +
                                        " says: " + what);
  }
  // 1 where run.json cannot be read: then the one rank finds out, and says so.
  [[nodiscard]] int ranks_of(const contract::RunDirectory& directory) const {
    try {
      return run::config_of(directory, options_).ranks;
    } catch (const base::Error&) {
      return 1;
    }
  }
  void compare_numerics(const contract::RunDirectory& directory) const {
    if (options_.rank_place) {
      throw base::Error(base::Code::User,
                        "--debug-numerics is for one process, and this is a rank of several; use "
                        "`regatta-train debug numerics`");
    }
    print_numerics_of_next_step(directory.path(), options_.place, options_.threads);
  }
  [[nodiscard]] int launch(const contract::RunDirectory& directory) const {
    run::MpiLaunch launch;
    launch.mpirun = run::mpirun_of(options_.variables);
    launch.program = options_.place.program;
    launch.arguments = {"run", "--directory", std::filesystem::absolute(directory.path()).string()};
    if (options_.ranks > 0) {
      launch.arguments.insert(launch.arguments.end(), {"--ranks", std::to_string(options_.ranks)});
    }
    if (options_.threads > 0) {
      launch.arguments.insert(launch.arguments.end(),
                              {"--threads", std::to_string(options_.threads)});
    }
    if (options_.deadline_utc) {
      launch.arguments.insert(launch.arguments.end(),
                              {"--deadline-utc", std::to_string(*options_.deadline_utc)});
    }
    if (!options_.mllog.empty()) {
      launch.arguments.insert(launch.arguments.end(), {"--mllog", options_.mllog});
    }
    launch.ranks = ranks_of(directory);
    return run::launch_ranks(launch);
  }
  [[nodiscard]] int train_here(base::FileSystem& files,
                               const contract::RunDirectory& directory) const {
    run::stop_with_launcher(options_.variables);
    const run::TrainingEnd end = run::train(files, base::system_clock(), directory, options_);
    const int code = static_cast<int>(end.code);
    const int rank = options_.rank_place ? options_.rank_place->rank : 0;
    return end.agreed ? run::rank_exit_code(options_.variables, rank, code) : code;
  }
  [[nodiscard]] contract::RunConfig config_from_file() const {
    contract::RunConfig config =
        contract::parse_run_config(base::posix_file_system().read(file_, kMaxTextBytes), file_);
    const base::Path here = std::filesystem::absolute(base::Path(file_)).parent_path();
    const auto absolute = [&](const std::string& path) { return (here / path).string(); };
    contract::change_data_paths(&config.data, absolute);
    contract::refuse_runs_of_controllers(config, file_);
    if (config.from) config.from->path = absolute(config.from->path);
    return config;
  }
  // What a run would begin with must fit it; no weights are read for that, but those of a
  // checkpoint, which is verified.
  static std::vector<std::string> check_start(const contract::RunConfig& config) {
    if (!config.from) return {};
    base::FileSystem& files = base::posix_file_system();
    const interchange::DatasetFacts data = interchange::dataset_facts(files, config);
    return interchange::check_start(files, base::system_clock(), *config.from, config.model,
                                    {data.vocabulary, data.lower_case, data.labels});
  }
  // What the dataset and the options decide is filled in; what the machine does is left to it.
  [[nodiscard]] int print_completed() const {
    contract::RunConfig config = run::with_ranks(config_from_file(), options_);
    if (options_.threads > 0) config.threads = options_.threads;
    complete(&config);
    const std::vector<std::string> notes = check_start(config);
    const step::MemoryNeeds needs = step::memory_needs(
        config, step::bert_options(config, config.device == contract::DeviceKind::Cpu ? 1 : 256),
        plugins::workspace_bytes(config.device, config.attention));
    const std::string text = contract::to_json(config);
    // With other ranks than its own a file may ask for what does not go together.
    (void)contract::parse_run_config(text, file_ + " with --ranks " + std::to_string(config.ranks));
    for (const std::string& note : notes) {
      std::fprintf(stderr, "from: %s\n", base::printable(note).c_str());
    }
    std::fputs(step::describe(needs, config).c_str(), stderr);
    std::fputs(text.c_str(), stdout);
    return 0;
  }

  run::TrainingRunOptions options_;
  std::string directory_, file_;
  bool dry_run_ = false, debug_numerics_ = false;
  std::optional<double> deadline_seconds_;
};

class Baseline {
 public:
  CLI::App* add(CLI::App& program) {
    CLI::App* app = program.add_subcommand(
        "baseline", "accuracy of the best constant guess on a dataset's evaluation set");
    app->add_option("dataset", dataset_, "dataset directory")->required();
    app->add_option("--max-length", data_.max_length, "tokens per sample")
        ->check(CLI::Range(8, 4095));
    app->add_option("--samples", samples_, "evaluation samples")->check(CLI::Range(1, 1 << 24));
    return app;
  }
  [[nodiscard]] int run() const {
    const data::Dataset dataset = data::Dataset::open(dataset_);
    std::printf("%.6f\n", samples::constant_guess_accuracy(
                              samples::evaluation_samples(dataset, data_, samples_)));
    return 0;
  }

 private:
  std::string dataset_;
  contract::DataConfig data_;
  int samples_ = 1024;
};

class Stacks {
 public:
  CLI::App* add(CLI::App& program) {
    CLI::App* app = program.add_subcommand(
        "stacks",
        "states and stacks of the processes that train in a run directory, on this machine");
    app->add_option("--directory", directory_, "run directory that `run` was started with")
        ->required();
    app->add_option("--seconds", seconds_, "for eu-stack or gdb, at most")
        ->check(CLI::Range(0.1, 600.0));
    return app;
  }
  [[nodiscard]] int run() const {
    // Meant for the ranks, but a job's signals come to all of its processes.
    signal(SIGUSR1, SIG_IGN);
    signal(SIGUSR2, SIG_IGN);
    const char* node = std::getenv("SLURMD_NODENAME");
    const std::string host = base::printable(node != nullptr ? node : base::host_name());
    std::fputs(watch::describe_run(directory_, host, seconds_).c_str(), stdout);
    return 0;
  }

 private:
  std::string directory_;
  double seconds_ = 8;
};

// Help that was asked for of an unknown command would be the program's, with exit code 0.
int usage_error(const CLI::App& program, const CLI::ParseError& error) {
  constexpr int kUsage = 2;
  const std::vector<std::string> rest = program.remaining();
  if (!program.get_subcommands().empty() || rest.empty()) {
    return program.exit(error) == 0 ? 0 : kUsage;
  }
  std::vector<std::string> names;
  for (const CLI::App* command : program.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  const auto suggestion = base::closest(rest.front(), names);
  std::fprintf(stderr, "regatta-train: '%s' is not a command%s; --help lists them\n",
               base::printable(rest.front()).c_str(),
               suggestion ? ("; did you mean '" + *suggestion + "'?").c_str() : "");
  return kUsage;
}

int run_program(int argc, char** argv) {
  CLI::App program("Regatta's trainer: BERT-style encoders without padding");
  program.require_subcommand(1);
  program.set_version_flag("--version", base::version_text("regatta-train"));
  CLI::App* const version = program.add_subcommand("version", "print the version");
  PrepareCommand prepare;
  Run run;
  Baseline baseline;
  Stacks stacks;
  VerifyDataCommand verifier;
  EvalCommand evaluator(device_place());
  DebugCommands debug(device_place());
  FillCommand fill(device_place());
  AnswerCommand answer(device_place());
  PredictCommand predict(device_place());
  ExportCommand exporter;
  ImportCommand importer;
  bench::BenchCommands bench({device_place(),
                              ranks::process_variables(),
                              {argv + std::min(argc, 1), argv + argc},
                              base::build_commit()},
                             base::usable_cores());
  struct Command {
    CLI::App* app;
    std::function<int()> body;
  };
  const std::vector<Command> commands{{prepare.add(program), [&] { return prepare.run(); }},
                                      {run.add(program), [&] { return run.run(); }},
                                      {baseline.add(program), [&] { return baseline.run(); }},
                                      {stacks.add(program), [&] { return stacks.run(); }},
                                      {verifier.add(program), [&] { return verifier.run(); }},
                                      {evaluator.add(program), [&] { return evaluator.run(); }},
                                      {debug.add(program), [&] { return debug.run(); }},
                                      {fill.add(program), [&] { return fill.run(); }},
                                      {answer.add(program), [&] { return answer.run(); }},
                                      {predict.add(program), [&] { return predict.run(); }},
                                      {exporter.add(program), [&] { return exporter.run(); }},
                                      {importer.add(program), [&] { return importer.run(); }}};
  bench.add(program);
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return usage_error(program, error);
  }
  if (version->parsed()) {
    std::printf("%s\n", base::version_text("regatta-train").c_str());
    return 0;
  }
  for (const Command& command : commands) {
    if (command.app->parsed()) return command.body();
  }
  return bench.run();
}

}  // namespace

int main(int argc, char** argv) {
  base::hold_standard_streams();
  base::start_log("regatta-train", base::LogLevel::Info);
  end_with_parent();
  try {
    const int code = run_program(argc, argv);
    if (code == 0) base::finish_output();  // any other says more
    return code;
  } catch (const base::Error& error) {
    std::fprintf(stderr, "regatta-train: %s\n", base::printable(error.what()).c_str());
    const bool training = argc > 1 && std::string(argv[1]) == "run";
    return training ? static_cast<int>(contract::exit_code_of(error.code()))
                    : base::meaning(error.code()).exit_code;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "regatta-train: %s\n", base::printable(error.what()).c_str());
    return 70;
  }
}
