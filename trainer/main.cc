// regatta-train: prepare data, train, measure.
#include <sched.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <functional>

#include "base/clock.h"
#include "base/error.h"
#include "base/file_system.h"
#include "base/log.h"
#include "base/text.h"
#include "trainer/bench_step.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/run_directory.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/data/dataset.h"
#include "trainer/data/prepare.h"
#include "trainer/sampler.h"
#include "trainer/stop_signals.h"
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

struct Command {
  CLI::App* app;
  std::function<int()> body;
};

Command add_prepare(CLI::App& program) {
  CLI::App* app = program.add_subcommand(
      "prepare",
      "text files or directories (.gz, .zst, - for stdin) to a dataset directory; a blank "
      "line separates documents");
  static PrepareOptions options;  // filled by the parser after this function returns
  static std::vector<std::string> inputs;
  static std::string output, vocabulary;
  static bool cased = false;
  options.threads = usable_cores();
  app->add_option("inputs", inputs, "files, directories or -")->required();
  app->add_option("--output,-o", output, "dataset directory to make")->required();
  CLI::Option* file = app->add_option("--vocab", vocabulary, "vocab.txt to use");
  app->add_option("--train-vocab", options.train_vocabulary,
                  "train a vocabulary of this many pieces")
      ->excludes(file)
      ->check(CLI::Range(256, 1 << 20));
  app->add_option("--word-limit", options.word_limit,
                  "longer words (characters) become [UNK]: 200 as Google, 100 as Hugging Face")
      ->check(CLI::IsMember({100, 200}));
  app->add_option("--held-out", options.held_out, "share of documents kept for evaluation")
      ->check(CLI::Range(0.0, 0.9));
  app->add_option("--threads", options.threads, "threads")->check(CLI::Range(1, 1024));
  app->add_flag("--cased", cased, "keep case and accents");
  app->add_flag("--force", options.force, "replace the output directory");
  return {
      app, [] {
        if (vocabulary.empty() && options.train_vocabulary == 0) {
          throw base::Error(base::Code::User, "name a vocabulary with --vocab, or --train-vocab N");
        }
        options.inputs.assign(inputs.begin(), inputs.end());
        options.output = output;
        options.vocabulary = vocabulary;
        options.lower_case = !cased;
        const PrepareReport report = prepare(options, base::posix_file_system(), show_progress);
        std::printf("%lld documents, %lld tokens, %s of text in %s -> %s\n",
                    static_cast<long long>(report.documents), static_cast<long long>(report.tokens),
                    base::human_bytes(report.bytes).c_str(),
                    base::human_seconds(report.seconds).c_str(), base::printable(output).c_str());
        if (report.invalid_sequences > 0) {
          std::printf("%lld invalid UTF-8 sequences were replaced by U+FFFD\n",
                      static_cast<long long>(report.invalid_sequences));
        }
        return 0;
      }};
}

Command add_run(CLI::App& program) {
  CLI::App* app = program.add_subcommand("run", "one attempt at a run: train or resume");
  static std::string directory, file;
  static TrainingRunOptions options;
  app->add_option("--directory", directory, "run directory")->required();
  app->add_option("file", file, "run file to make the directory from, if it is not there yet");
  app->add_option("--threads", options.threads, "threads, instead of the run file's")
      ->check(CLI::Range(1, 1024));
  return {app, [] {
            base::FileSystem& files = base::posix_file_system();
            if (!file.empty() && !files.exists(base::Path(directory) / "run.json")) {
              RunConfig config = parse_run_config(files.read(file, kMaxTextBytes), file);
              config.data.path =
                  std::filesystem::absolute(base::Path(file)).parent_path() / config.data.path;
              (void)RunDirectory::create(files, directory, to_json(config));
            }
            catch_stop_signals();
            options.program = program_path();
            return static_cast<int>(
                train(files, base::system_clock(), RunDirectory::open(files, directory), options));
          }};
}

Command add_baseline(CLI::App& program) {
  CLI::App* app = program.add_subcommand(
      "baseline", "accuracy of the best constant guess on a dataset's evaluation set");
  static std::string dataset_path;
  static DataConfig data;
  static int samples = 1024;
  app->add_option("dataset", dataset_path, "dataset directory")->required();
  app->add_option("--max-length", data.max_length, "tokens per sample")->check(CLI::Range(8, 4096));
  app->add_option("--samples", samples, "evaluation samples")->check(CLI::Range(1, 1 << 24));
  return {app, [] {
            const Dataset dataset = Dataset::open(dataset_path);
            std::printf("%.6f\n",
                        constant_guess_accuracy(evaluation_samples(dataset, data, samples)));
            return 0;
          }};
}

Command add_bench_step(CLI::App& program) {
  CLI::App* bench = program.add_subcommand("bench", "measure")->require_subcommand(1);
  CLI::App* app = bench->add_subcommand("step", "time whole training steps; prints JSON");
  static BenchStepOptions options;
  static std::string model = "tiny", dtype = "float32", optimizer = "adamw";
  static std::string lengths = "tests/data/lengths_wikipedia_512.csv";
  static int vocabulary = 30522;
  static int threads = usable_cores();
  app->add_option("--model", model, "tiny, mini, small, medium, base or large");
  app->add_option("--lengths", lengths, "length table (low,high,fraction lines)")
      ->capture_default_str();
  app->add_option("--dtype", dtype, "float32")->check(CLI::IsMember({"float32"}));
  app->add_option("--threads", threads, "threads")->check(CLI::Range(1, 1024));
  app->add_option("--vocabulary", vocabulary, "pieces")->check(CLI::Range(16, 1 << 22));
  app->add_option("--samples", options.samples, "samples per step")->check(CLI::Range(1, 1 << 20));
  app->add_option("--micro", options.micro, "samples per forward/backward; 0: all")
      ->check(CLI::Range(0, 1 << 20));
  app->add_option("--steps", options.steps, "measured steps")->check(CLI::Range(1, 1 << 20));
  app->add_option("--warmup", options.warmup_steps, "steps before")->check(CLI::Range(0, 1 << 20));
  app->add_option("--dropout", options.dropout, "probability")->check(CLI::Range(0.0, 0.9));
  app->add_option("--optimizer", optimizer, "adamw or lamb")
      ->check(CLI::IsMember({"adamw", "lamb"}));
  return {app, [] {
            options.shape = preset_shape(model);
            options.shape.vocabulary = vocabulary;
            options.model_name = model;
            options.lengths_name = base::Path(lengths).filename().string();
            options.optimizer = optimizer == "lamb" ? OptimizerKind::Lamb : OptimizerKind::AdamW;
            options.threads = threads;
            const LengthTable table =
                LengthTable::parse(base::posix_file_system().read(lengths, kMaxTextBytes), lengths);
            const std::unique_ptr<Device> device = make_cpu_device(threads);
            std::fputs(bench_step(*device, base::system_clock(), table, options).c_str(), stdout);
            return 0;
          }};
}

int run_program(int argc, char** argv) {
  CLI::App program("Regatta's trainer: BERT-style encoders without padding");
  program.require_subcommand(1);
  program.set_version_flag("--version", REGATTA_VERSION);
  const Command commands[] = {add_prepare(program), add_run(program), add_baseline(program),
                              add_bench_step(program)};
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
