// regatta-train: prepare data, train, measure.
#include <sched.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "base/clock.h"
#include "base/error.h"
#include "base/file_system.h"
#include "base/log.h"
#include "base/text.h"
#include "trainer/bench_balance.h"
#include "trainer/bench_kernels.h"
#include "trainer/bench_step.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/run_directory.h"
#include "trainer/data/dataset.h"
#include "trainer/data/prepare.h"
#include "trainer/launcher.h"
#include "trainer/make_device.h"
#include "trainer/memory_needs.h"
#include "trainer/sampler.h"
#include "trainer/stop_signals.h"
#include "trainer/train_loop.h"
#include "trainer/training_run.h"

namespace {

using namespace regatta;  // this file only
using namespace regatta::trainer;

constexpr std::uint64_t kMaxTextBytes = 1U << 20U;

int usable_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  return sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

std::string program_path() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).string();
}

// One line on a terminal, rewritten; nothing when stderr is no terminal.
void show_progress(std::uint64_t done, std::uint64_t total) {
  if (isatty(2) == 0) return;
  if (total == 0) {  // standard input: no end in sight
    std::fprintf(stderr, "\r%s ", base::human_bytes(done).c_str());
    return;
  }
  const double share = static_cast<double>(done) / static_cast<double>(total);
  const int filled = static_cast<int>(share * 30);
  std::fprintf(stderr, "\r[%s%s] %s of %s ",
               std::string(static_cast<std::size_t>(filled), '#').c_str(),
               std::string(static_cast<std::size_t>(30 - filled), '.').c_str(),
               base::human_bytes(done).c_str(), base::human_bytes(total).c_str());
  if (done >= total) std::fputc('\n', stderr);
}

// The one place where the environment is read: where plug-ins lie, and where timed products are
// remembered.
DevicePlace device_place() {
  DevicePlace place;
  place.program = program_path();
  if (const char* directory = std::getenv("REGATTA_PLUGIN_DIR")) place.plugin_directory = directory;
  if (const char* cache = std::getenv("REGATTA_CACHE_DIR")) {
    place.products_file = base::Path(cache) / "products.txt";
  } else if (const char* home = std::getenv("HOME")) {
    place.products_file = base::Path(home) / ".cache" / "regatta" / "products.txt";
  }
  return place;
}

// Options are members, filled by the parser between add() and run().
class Prepare {
 public:
  CLI::App* add(CLI::App& program) {
    CLI::App* app = program.add_subcommand(
        "prepare",
        "text files or directories (.gz, .zst, - for stdin) to a dataset directory; a blank "
        "line separates documents");
    options_.threads = usable_cores();
    app->add_option("inputs", inputs_, "files, directories or -")->required();
    app->add_option("--output,-o", output_, "dataset directory to make")->required();
    CLI::Option* file = app->add_option("--vocab", vocabulary_, "vocab.txt to use");
    app->add_option("--train-vocab", options_.train_vocabulary,
                    "train a vocabulary of this many pieces")
        ->excludes(file)
        ->check(CLI::Range(256, 1 << 20));
    app->add_option("--word-limit", options_.word_limit,
                    "longer words (characters) become [UNK]: 200 as Google, 100 as Hugging Face")
        ->check(CLI::IsMember({100, 200}));
    app->add_option("--held-out", options_.held_out, "share of documents kept for evaluation")
        ->check(CLI::Range(0.0, 0.9));
    app->add_option("--threads", options_.threads, "threads")->check(CLI::Range(1, 1024));
    app->add_flag("--cased", cased_, "keep case and accents");
    app->add_flag("--force", options_.force, "replace the output directory");
    return app;
  }
  int run() {
    if (vocabulary_.empty() && options_.train_vocabulary == 0) {
      throw base::Error(base::Code::User, "name a vocabulary with --vocab, or --train-vocab N");
    }
    options_.inputs.assign(inputs_.begin(), inputs_.end());
    options_.output = output_;
    options_.vocabulary = vocabulary_;
    options_.lower_case = !cased_;
    const PrepareReport report = prepare(options_, base::posix_file_system(), show_progress);
    std::printf("%lld documents, %lld tokens, %s of text in %s -> %s\n",
                static_cast<long long>(report.documents), static_cast<long long>(report.tokens),
                base::human_bytes(report.bytes).c_str(),
                base::human_seconds(report.seconds).c_str(), base::printable(output_).c_str());
    if (report.invalid_sequences > 0) {
      std::printf("%lld invalid UTF-8 sequences were replaced by U+FFFD\n",
                  static_cast<long long>(report.invalid_sequences));
    }
    return 0;
  }

 private:
  PrepareOptions options_;
  std::vector<std::string> inputs_;
  std::string output_, vocabulary_;
  bool cased_ = false;
};

class Run {
 public:
  CLI::App* add(CLI::App& program) {
    CLI::App* app = program.add_subcommand("run", "one attempt at a run: train or resume");
    CLI::Option* directory = app->add_option("--directory", directory_, "run directory");
    CLI::Option* file = app->add_option(
        "file", file_, "run file to make the directory from, if it is not there yet");
    app->add_option("--threads", options_.threads, "threads, instead of the run file's")
        ->check(CLI::Range(1, 1024));
    app->add_option("--ranks", options_.ranks,
                    "ranks, instead of the run file's; a run may go on with another number")
        ->check(CLI::Range(1, 1 << 20));
    app->add_flag("--dry-run", dry_run_,
                  "print what memory the run will need at most, and do nothing")
        ->needs(file);
    directory->excludes("--dry-run");
    return app;
  }
  int run() {
    if (dry_run_) return print_needs();
    if (directory_.empty()) {
      throw base::Error(base::Code::User, "name the run directory with --directory");
    }
    base::FileSystem& files = base::posix_file_system();
    if (!file_.empty() && !files.exists(base::Path(directory_) / "run.json")) {
      (void)RunDirectory::create(files, directory_, to_json(config_from_file()));
    }
    catch_stop_signals();
    options_.place = device_place();
    options_.variables = process_variables();
    options_.rank_place = rank_place(options_.variables);
    const RunDirectory directory = RunDirectory::open(files, directory_);
    if (!options_.rank_place && ranks_of(directory) > 1) return launch(directory);
    return train_here(files, directory);
  }

 private:
  // 1 where run.json cannot be read: then the one rank finds out, and says so.
  [[nodiscard]] int ranks_of(const RunDirectory& directory) const {
    try {
      return config_of(directory, options_).ranks;
    } catch (const base::Error&) {
      return 1;
    }
  }
  [[nodiscard]] int launch(const RunDirectory& directory) const {
    Launch launch;
    launch.program = options_.place.program;
    launch.arguments = {"run", "--directory", std::filesystem::absolute(directory.path()).string()};
    if (options_.ranks > 0) {
      launch.arguments.insert(launch.arguments.end(), {"--ranks", std::to_string(options_.ranks)});
    }
    if (options_.threads > 0) {
      launch.arguments.insert(launch.arguments.end(),
                              {"--threads", std::to_string(options_.threads)});
    }
    launch.ranks = ranks_of(directory);
    return launch_ranks(launch);
  }
  [[nodiscard]] int train_here(base::FileSystem& files, const RunDirectory& directory) const {
    if (const char* launcher = options_.variables(kLauncherVariable)) {
      if (const auto process = base::parse_integer(launcher)) stop_with(*process);
    }
    const TrainingEnd end = train(files, base::system_clock(), directory, options_);
    const char* exit_file = options_.variables(kExitFileVariable);
    if (exit_file == nullptr || !end.agreed) return static_cast<int>(end.code);
    if (options_.rank_place && options_.rank_place->rank == 0) {
      base::replace_file(files, exit_file, std::to_string(static_cast<int>(end.code)));
    }
    return 0;
  }
  [[nodiscard]] RunConfig config_from_file() const {
    RunConfig config =
        parse_run_config(base::posix_file_system().read(file_, kMaxTextBytes), file_);
    config.data.path =
        std::filesystem::absolute(base::Path(file_)).parent_path() / config.data.path;
    return config;
  }
  [[nodiscard]] int print_needs() const {
    RunConfig config = config_from_file();
    if (config.model.vocabulary == 0) {
      config.model.vocabulary =
          static_cast<int>(Dataset::open(config.data.path).vocabulary().size());
    }
    const MemoryNeeds needs =
        memory_needs(config, bert_options(config, config.device == DeviceKind::Cpu ? 1 : 256),
                     workspace_bytes(config.device, config.attention));
    std::fputs(describe(needs, config).c_str(), stdout);
    return 0;
  }

  TrainingRunOptions options_;
  std::string directory_, file_;
  bool dry_run_ = false;
};

class Baseline {
 public:
  CLI::App* add(CLI::App& program) {
    CLI::App* app = program.add_subcommand(
        "baseline", "accuracy of the best constant guess on a dataset's evaluation set");
    app->add_option("dataset", dataset_, "dataset directory")->required();
    app->add_option("--max-length", data_.max_length, "tokens per sample")
        ->check(CLI::Range(8, 4096));
    app->add_option("--samples", samples_, "evaluation samples")->check(CLI::Range(1, 1 << 24));
    return app;
  }
  [[nodiscard]] int run() const {
    const Dataset dataset = Dataset::open(dataset_);
    std::printf("%.6f\n", constant_guess_accuracy(evaluation_samples(dataset, data_, samples_)));
    return 0;
  }

 private:
  std::string dataset_;
  DataConfig data_;
  int samples_ = 1024;
};

// What both benchmarks are told: the model, its lengths, and the device.
struct BenchOptions {
  std::string model = "tiny", device = "cpu", dtype = "float32", attention = "automatic";
  std::string gelu = "erf";
  std::string lengths = "tests/data/lengths_wikipedia_512.csv";
  int vocabulary = 30522;
  int threads = usable_cores();

  void add(CLI::App* app) {
    app->add_option("--model", model, "tiny, mini, small, medium, base or large");
    app->add_option("--lengths", lengths, "length table (low,high,fraction lines)")
        ->capture_default_str();
    app->add_option("--vocabulary", vocabulary, "pieces")->check(CLI::Range(16, 1 << 22));
    app->add_option("--gelu", gelu, "erf, or tanh as in MLPerf's reference")
        ->check(CLI::IsMember({"erf", "tanh"}));
    app->add_option("--device", device, "cpu or cuda")->check(CLI::IsMember({"cpu", "cuda"}));
    app->add_option("--dtype", dtype, "float32, tf32, bfloat16 or float16")
        ->check(CLI::IsMember({"float32", "tf32", "bfloat16", "float16"}));
    app->add_option("--attention", attention, "automatic, grouped or reference")
        ->check(CLI::IsMember({"automatic", "grouped", "reference"}));
    app->add_option("--threads", threads, "threads")->check(CLI::Range(1, 1024));
  }
  [[nodiscard]] Precision precision() const {
    if (dtype == "tf32") return Precision::Tf32;
    if (dtype == "bfloat16") return Precision::BFloat16;
    return dtype == "float16" ? Precision::Float16 : Precision::Float32;
  }
  [[nodiscard]] std::unique_ptr<Device> make() const {
    DeviceRequest request;
    request.kind = device == "cuda" ? DeviceKind::Cuda : DeviceKind::Cpu;
    request.precision = precision();
    if (attention == "grouped") request.attention = AttentionKind::Grouped;
    if (attention == "reference") request.attention = AttentionKind::Reference;
    request.threads = threads;
    return make_device(request, device_place());
  }
  [[nodiscard]] ModelShape shape() const {
    ModelShape shape = preset_shape(model);
    shape.vocabulary = vocabulary;
    shape.gelu = gelu == "tanh" ? Gelu::Tanh : Gelu::Erf;
    return shape;
  }
  [[nodiscard]] LengthTable table() const {
    return LengthTable::parse(base::posix_file_system().read(lengths, kMaxTextBytes), lengths);
  }
  [[nodiscard]] std::string lengths_name() const { return base::Path(lengths).filename(); }
};

class BenchStep {
 public:
  CLI::App* add(CLI::App& bench) {
    CLI::App* app = bench.add_subcommand("step", "time whole training steps; prints JSON");
    common_.add(app);
    app->add_option("--samples", options_.samples, "samples per step")
        ->check(CLI::Range(1, 1 << 20));
    app->add_option("--micro", options_.micro, "samples per forward/backward; 0: all")
        ->check(CLI::Range(0, 1 << 20));
    app->add_option("--steps", options_.steps, "measured steps")->check(CLI::Range(1, 1 << 20));
    app->add_option("--warmup", options_.warmup_steps, "steps before")
        ->check(CLI::Range(0, 1 << 20));
    app->add_option("--dropout", options_.dropout, "probability")->check(CLI::Range(0.0, 0.9));
    app->add_option("--optimizer", optimizer_, "adamw or lamb")
        ->check(CLI::IsMember({"adamw", "lamb"}));
    app->add_option("--token-bucket", options_.token_bucket,
                    "tokens are rounded up to it; 0: as the device likes")
        ->check(CLI::Range(0, 1 << 20));
    app->add_flag("!--no-graphs", options_.graphs, "without CUDA graphs");
    return app;
  }
  int run() {
    options_.shape = common_.shape();
    options_.model_name = common_.model;
    options_.lengths_name = common_.lengths_name();
    options_.attention_name = common_.attention;
    options_.precision = common_.precision();
    options_.optimizer = optimizer_ == "lamb" ? OptimizerKind::Lamb : OptimizerKind::AdamW;
    options_.threads = common_.threads;
    const LengthTable table = common_.table();
    const std::unique_ptr<Device> device = common_.make();
    std::fputs(bench_step(*device, base::system_clock(), table, options_).c_str(), stdout);
    return 0;
  }

 private:
  BenchOptions common_;
  BenchStepOptions options_;
  std::string optimizer_ = "adamw";
};

class BenchKernels {
 public:
  CLI::App* add(CLI::App& bench) {
    CLI::App* app = bench.add_subcommand(
        "kernels", "time every operation of a step alone; a table on stderr, JSON on stdout");
    common_.add(app);
    app->add_option("--samples", options_.samples, "samples of the batch")
        ->check(CLI::Range(1, 1 << 16));
    app->add_option("--dropout", options_.dropout, "probability")->check(CLI::Range(0.0, 0.9));
    app->add_option("--repetitions", options_.repetitions, "batches of calls; the median counts")
        ->check(CLI::Range(1, 1000));
    app->add_option("--batch-seconds", options_.batch_seconds, "length of a batch of calls")
        ->check(CLI::Range(0.0, 10.0));
    app->add_option("--product-side", options_.product_side, "of the ceiling's square product")
        ->check(CLI::Range(64, 1 << 16));
    app->add_option("--copy-bytes", options_.copy_bytes, "of the ceiling's copy")
        ->check(CLI::Range(std::int64_t{1} << 10, std::int64_t{1} << 36));
    return app;
  }
  int run() {
    options_.shape = common_.shape();
    options_.model_name = common_.model;
    options_.lengths_name = common_.lengths_name();
    options_.dtype_name = common_.dtype;
    options_.attention_name = common_.attention;
    options_.dtype = compute_dtype(common_.precision());
    const LengthTable table = common_.table();
    const std::unique_ptr<Device> device = common_.make();
    const std::string json = bench_kernels(*device, base::system_clock(), table, options_);
    std::fputs(bench_kernels_table(json).c_str(), stderr);
    std::fputs(json.c_str(), stdout);
    return 0;
  }

 private:
  BenchOptions common_;
  BenchKernelsOptions options_;
};

class BenchBalance {
 public:
  CLI::App* add(CLI::App& bench) {
    CLI::App* app = bench.add_subcommand(
        "balance",
        "share out steps of random lengths in every way; a table on stderr, JSON on stdout");
    app->add_option("--ranks", options_.ranks, "ranks")->check(CLI::Range(1, 1 << 16));
    app->add_option("--ranks-per-node", options_.ranks_per_node, "divides the ranks")
        ->check(CLI::Range(1, 1 << 16));
    app->add_option("--batch", options_.batch, "samples per step, over all ranks")
        ->check(CLI::Range(1, 1 << 24));
    app->add_option("--lengths", lengths_, "length table (low,high,fraction lines)")
        ->capture_default_str();
    app->add_option("--steps", options_.steps, "steps")->check(CLI::Range(1, 1 << 20));
    app->add_option("--seed", options_.seed, "seed of the lengths");
    app->add_option("--model", options_.model_name, "whose cost of a length counts")
        ->capture_default_str();
    app->add_flag("--small", small_, "1 to 16 samples for each rank, whatever the batch");
    return app;
  }
  int run() {
    options_.shape = preset_shape(options_.model_name);
    options_.shape.vocabulary = 30522;
    options_.lengths_name = base::Path(lengths_).filename().string();
    const LengthTable table =
        LengthTable::parse(base::posix_file_system().read(lengths_, kMaxTextBytes), lengths_);
    const std::string json =
        small_ ? bench_small_batches(table, options_) : bench_balance(table, options_);
    std::fputs((small_ ? bench_small_batches_table(json) : bench_balance_table(json)).c_str(),
               stderr);
    std::fputs(json.c_str(), stdout);
    return 0;
  }

 private:
  BenchBalanceOptions options_;
  bool small_ = false;
  std::string lengths_ = "tests/data/lengths_wikipedia_512.csv";
};

int run_program(int argc, char** argv) {
  CLI::App program("Regatta's trainer: BERT-style encoders without padding");
  program.require_subcommand(1);
  program.set_version_flag("--version", REGATTA_VERSION);
  Prepare prepare;
  Run run;
  Baseline baseline;
  BenchStep step;
  BenchKernels kernels;
  BenchBalance balance;
  struct Command {
    CLI::App* app;
    std::function<int()> body;
  };
  std::vector<Command> commands{{prepare.add(program), [&] { return prepare.run(); }},
                                {run.add(program), [&] { return run.run(); }},
                                {baseline.add(program), [&] { return baseline.run(); }}};
  CLI::App* bench = program.add_subcommand("bench", "measure")->require_subcommand(1);
  commands.push_back({step.add(*bench), [&] { return step.run(); }});
  commands.push_back({kernels.add(*bench), [&] { return kernels.run(); }});
  commands.push_back({balance.add(*bench), [&] { return balance.run(); }});
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return error.get_exit_code() == 0 ? program.exit(error) : (program.exit(error), 2);
  }
  for (const Command& command : commands) {
    if (command.app->parsed()) return command.body();
  }
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  base::start_log("regatta-train", base::LogLevel::Info);
  try {
    return run_program(argc, argv);
  } catch (const base::Error& error) {
    std::fprintf(stderr, "regatta-train: %s\n", base::printable(error.what()).c_str());
    const bool training = argc > 1 && std::string(argv[1]) == "run";
    return training ? static_cast<int>(exit_code_of(error.code()))
                    : base::meaning(error.code()).exit_code;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "regatta-train: %s\n", base::printable(error.what()).c_str());
    return 70;
  }
}
