#include "trainer/bench/bench_commands.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/file_system.h"
#include "trainer/bench/bench_ablation.h"
#include "trainer/bench/bench_balance.h"
#include "trainer/bench/bench_checkpoint.h"
#include "trainer/bench/bench_comm.h"
#include "trainer/bench/bench_kernels.h"
#include "trainer/bench/bench_lengths.h"
#include "trainer/bench/bench_overlap.h"
#include "trainer/bench/bench_plan.h"
#include "trainer/bench/bench_step.h"
#include "trainer/bench/input_command.h"
#include "trainer/bench/platform_command.h"
#include "trainer/plugins/make_device.h"
#include "trainer/run/stop_signals.h"
#include "trainer/step/train_loop.h"

namespace regatta::trainer::bench {
namespace command_line {

struct Machine {
  BenchPlace place;
  int cores = 1;
};

// What most benchmarks are told: the model, its lengths, and the device.
struct BenchOptions {
  std::string model = "tiny", device = "cpu", dtype = "float32", attention = "automatic";
  std::string gelu = "erf";
  BenchLengths lengths;
  int vocabulary = 30522;
  int threads = 0;  // 0: all cores, shared out among ranks

  void add(CLI::App* app) {
    app->add_option("--model", model, "tiny, mini, small, medium, base or large")
        ->capture_default_str();
    lengths.add(app);
    app->add_option("--vocabulary", vocabulary, "pieces")->check(CLI::Range(16, 1 << 22));
    app->add_option("--gelu", gelu, "erf, or tanh as in MLPerf's reference")
        ->check(CLI::IsMember({"erf", "tanh"}));
    app->add_option("--device", device, "cpu or cuda")->check(CLI::IsMember({"cpu", "cuda"}));
    app->add_option("--dtype", dtype, "float32, tf32, bfloat16 or float16")
        ->check(CLI::IsMember({"float32", "tf32", "bfloat16", "float16"}));
    app->add_option("--attention", attention,
                    "automatic, streamed, resident, wgmma, grouped or reference")
        ->check(CLI::IsMember(contract::attention_names()));
    app->add_option("--threads", threads, "threads")->check(CLI::Range(1, 1024));
  }
  [[nodiscard]] contract::Precision precision() const {
    if (dtype == "tf32") return contract::Precision::Tf32;
    if (dtype == "bfloat16") return contract::Precision::BFloat16;
    return dtype == "float16" ? contract::Precision::Float16 : contract::Precision::Float32;
  }
  [[nodiscard]] contract::DeviceKind kind() const {
    return device == "cuda" ? contract::DeviceKind::Cuda : contract::DeviceKind::Cpu;
  }
  [[nodiscard]] contract::AttentionKind attention_kind() const {
    const auto& names = contract::attention_names();
    return static_cast<contract::AttentionKind>(std::find(names.begin(), names.end(), attention) -
                                                names.begin());
  }
  [[nodiscard]] std::unique_ptr<device::Device> make(const Machine& machine) const {
    return plugins::make_device(
        {kind(), precision(), attention_kind(), threads > 0 ? threads : machine.cores, 0},
        machine.place.device);
  }
  [[nodiscard]] contract::ModelShape shape() const {
    contract::ModelShape shape = contract::preset_shape(model);
    shape.vocabulary = vocabulary;
    shape.gelu = gelu == "tanh" ? contract::Gelu::Tanh : contract::Gelu::Erf;
    return shape;
  }
};

class BenchStep {
 public:
  explicit BenchStep(const Machine& machine) : machine_(machine) {}
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
    options_.lengths_name = common_.lengths.name();
    options_.attention_name = common_.attention;
    options_.precision = common_.precision();
    options_.optimizer =
        optimizer_ == "lamb" ? contract::OptimizerKind::Lamb : contract::OptimizerKind::AdamW;
    options_.threads = common_.threads > 0 ? common_.threads : machine_.cores;
    const contract::LengthTable table = common_.lengths.table(machine_.place.device.program);
    const std::unique_ptr<device::Device> device = common_.make(machine_);
    std::fputs(bench_step(*device, base::system_clock(), table, options_).c_str(), stdout);
    return 0;
  }

 private:
  const Machine& machine_;
  BenchOptions common_;
  BenchStepOptions options_;
  std::string optimizer_ = "adamw";
};

class BenchKernels {
 public:
  explicit BenchKernels(const Machine& machine) : machine_(machine) {}
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
    app->add_option("--product-side", options_.product_side, "side of the reference matrix product")
        ->check(CLI::Range(64, 1 << 16));
    app->add_option("--copy-bytes", options_.copy_bytes, "bytes of the reference copy")
        ->check(CLI::Range(std::int64_t{1} << 10, std::int64_t{1} << 36));
    return app;
  }
  int run() {
    options_.shape = common_.shape();
    options_.model_name = common_.model;
    options_.lengths_name = common_.lengths.name();
    options_.dtype_name = common_.dtype;
    options_.attention_name = common_.attention;
    options_.dtype = step::compute_dtype(common_.precision());
    const contract::LengthTable table = common_.lengths.table(machine_.place.device.program);
    const std::unique_ptr<device::Device> device = common_.make(machine_);
    const std::string json = bench_kernels(*device, base::system_clock(), table, options_);
    std::fputs(bench_kernels_table(json).c_str(), stderr);
    std::fputs(json.c_str(), stdout);
    return 0;
  }

 private:
  const Machine& machine_;
  BenchOptions common_;
  BenchKernelsOptions options_;
};

class BenchBalance {
 public:
  explicit BenchBalance(const Machine& machine) : machine_(machine) {}
  CLI::App* add(CLI::App& bench) {
    CLI::App* app = bench.add_subcommand(
        "balance",
        "share out steps of random lengths in every way; a table on stderr, JSON on stdout");
    app->add_option("--ranks", options_.ranks, "ranks")->check(CLI::Range(1, 1 << 16));
    app->add_option("--ranks-per-node", options_.ranks_per_node, "divides the ranks")
        ->check(CLI::Range(1, 1 << 16));
    app->add_option("--batch", options_.batch, "samples per step, over all ranks")
        ->check(CLI::Range(1, 1 << 24));
    lengths_.add(app);
    app->add_option("--steps", options_.steps, "steps")->check(CLI::Range(1, 1 << 20));
    app->add_option("--seed", options_.seed, "seed of the lengths");
    app->add_option("--model", options_.model_name, "whose cost of a length counts")
        ->capture_default_str();
    app->add_flag("--small", small_, "1 to 16 samples for each rank, whatever the batch");
    return app;
  }
  int run() {
    options_.shape = contract::preset_shape(options_.model_name);
    options_.shape.vocabulary = 30522;
    options_.lengths_name = lengths_.name();
    const contract::LengthTable table = lengths_.table(machine_.place.device.program);
    const std::string json =
        small_ ? bench_small_batches(table, options_) : bench_balance(table, options_);
    std::fputs((small_ ? bench_small_batches_table(json) : bench_balance_table(json)).c_str(),
               stderr);
    std::fputs(json.c_str(), stdout);
    return 0;
  }

 private:
  const Machine& machine_;
  BenchBalanceOptions options_;
  bool small_ = false;
  BenchLengths lengths_;
};

// Of a benchmark that trains on several ranks: what it prints where rank 0 is.
int train_on_ranks(const Machine& machine, const contract::RunConfig& config,
                   RankBenchOptions options,
                   const std::function<std::string(RankBench& bench)>& measure,
                   const std::function<std::string(const std::string& json)>& table) {
  options.place = machine.place.device;
  options.cores = machine.cores;
  options.threads = config.threads;
  return on_ranks(config, machine.place, [&](plugins::RankGroup& group) {
    RankBench bench(group, base::system_clock(), options);
    const std::string json = measure(bench);
    if (group.rank() != 0) return;
    std::fputs(table(json).c_str(), stderr);
    std::fputs(json.c_str(), stdout);
    std::fflush(stdout);
  });
}

class BenchOverlap {
 public:
  explicit BenchOverlap(const Machine& machine) : machine_(machine) {}
  CLI::App* add(CLI::App& bench) {
    CLI::App* app = bench.add_subcommand(
        "overlap",
        "how much of a slow link's time hides behind backward; a table on stderr, JSON on stdout");
    app->add_option("--ranks", ranks_, "ranks, of this machine")
        ->check(CLI::Range(2, 256))
        ->capture_default_str();
    app->add_option(
        "--model", model_,
        std::string(kSmallEmbedding) + ", or tiny to large; left out: small-embedding and base");
    lengths_.add(app);
    app->add_option("--samples", samples_, "samples per step, over all ranks")
        ->check(CLI::Range(2, 1 << 16));
    app->add_option("--steps", steps_, "measured steps of a round")->check(CLI::Range(1, 1 << 16));
    app->add_option("--rounds", rounds_, "rounds; the median counts")
        ->check(CLI::Range(1, 1 << 16));
    app->add_option("--threads", threads_, "threads per rank; left out: cores / ranks")
        ->check(CLI::Range(1, 1024));
    return app;
  }
  int run() {
    std::vector<OverlapCase> cases =
        model_.empty() ? default_overlap_cases() : std::vector{overlap_case(model_)};
    for (OverlapCase& tried : cases) {
      if (samples_ > 0) tried.samples = samples_;
      if (steps_ > 0) tried.steps = steps_;
      if (rounds_ > 0) tried.rounds = rounds_;
      if (tried.samples < ranks_) tried.samples = ranks_;
    }
    const contract::LengthTable lengths = lengths_.table(machine_.place.device.program);
    contract::RunConfig config;
    config.ranks = ranks_;
    config.threads = threads_;
    return train_on_ranks(
        machine_, config, {},
        [&](RankBench& bench) { return bench_overlap(bench, lengths, cases); },
        bench_overlap_table);
  }

 private:
  const Machine& machine_;
  int ranks_ = 2, samples_ = 0, steps_ = 0, rounds_ = 0, threads_ = 0;
  std::string model_;
  BenchLengths lengths_;
};

class BenchAblation {
 public:
  explicit BenchAblation(const Machine& machine) : machine_(machine) {}
  CLI::App* add(CLI::App& bench) {
    CLI::App* app = bench.add_subcommand(
        "ablation", "each idea off in turn, and added in turn; a table on stderr, JSON on stdout");
    common_.add(app);
    app->add_option("--ranks", ranks_, "ranks, of this machine")
        ->check(CLI::Range(1, 256))
        ->capture_default_str();
    app->add_option("--samples", options_.samples, "samples per step, over all ranks")
        ->check(CLI::Range(1, 1 << 16))
        ->capture_default_str();
    app->add_option("--steps", options_.steps, "measured steps of each way in a round")
        ->check(CLI::Range(1, 1 << 16))
        ->capture_default_str();
    app->add_option("--rounds", options_.rounds, "rounds; the median counts")
        ->check(CLI::Range(1, 1 << 16))
        ->capture_default_str();
    app->add_option("--link-gbps", options_.link_gigabits,
                    "gigabits per second of an artificial link between CPU ranks; 0: none")
        ->check(CLI::Range(0.0, 1e6));
    app->add_option("--link-latency-us", options_.link_microseconds, "its latency")
        ->check(CLI::Range(0.0, 1e6));
    return app;
  }
  int run() {
    const bool preset = common_.model != kSmallEmbedding;
    options_.shape = preset ? common_.shape() : bench_shape(common_.model);
    options_.model_name = common_.model;
    options_.lengths_name = common_.lengths.name();
    const contract::LengthTable lengths = common_.lengths.table(machine_.place.device.program);
    contract::RunConfig config;
    config.ranks = ranks_;
    config.threads = common_.threads;
    config.device = common_.kind();
    if (config.device == contract::DeviceKind::Cpu &&
        common_.precision() != contract::Precision::Float32) {
      throw base::Error(base::Code::User, "dtype is " + common_.dtype +
                                              ", but the CPU computes in float32; set --device "
                                              "cuda, or leave out --dtype");
    }
    return train_on_ranks(
        machine_, config, {common_.kind(), common_.precision(), common_.attention_kind(), {}, 1, 0},
        [&](RankBench& bench) { return bench_ablation(bench, lengths, options_); },
        bench_ablation_table);
  }

 private:
  const Machine& machine_;
  BenchOptions common_;
  BenchAblationOptions options_;
  int ranks_ = 2;
};

// An artificial link, in nccl-tests' unit.
struct LinkOptions {
  double gb_per_s = 0, latency_us = 0;
  void add(CLI::App* app) {
    app->add_option("--link-gb-per-s", gb_per_s,
                    "10^9 bytes per second of an artificial link between CPU ranks; 0: none")
        ->check(CLI::Range(0.0, 1e6));
    app->add_option("--link-latency-us", latency_us, "its latency, each collective")
        ->check(CLI::Range(0.0, 1e7));
  }
  [[nodiscard]] std::optional<ranks::LinkModel> model() const {
    if (gb_per_s > 0) return ranks::LinkModel{latency_us * 1e-6, gb_per_s * 1e9};
    if (latency_us == 0) return std::nullopt;
    throw base::Error(base::Code::User,
                      "a link's latency is given without its rate; add --link-gb-per-s");
  }
};

class BenchComm {
 public:
  explicit BenchComm(const Machine& machine) : machine_(machine) {}
  CLI::App* add(CLI::App& bench) {
    CLI::App* app = bench.add_subcommand(
        "comm", "how long collectives take between ranks; tables as nccl-tests prints them");
    app->add_option("--ranks", ranks_, "ranks, of this machine")
        ->check(CLI::Range(2, 1 << 20))
        ->capture_default_str();
    app->add_option("--device", device_, "cpu (MPI) or cuda (NCCL)")
        ->check(CLI::IsMember({"cpu", "cuda"}));
    app->add_option("--collectives", collectives_,
                    "all-reduce, reduce-scatter, all-gather; left out: all three")
        ->delimiter(',')
        ->check(CLI::IsMember({"all-reduce", "reduce-scatter", "all-gather"}));
    app->add_option("--min-bytes", options_.sizes.least_bytes, "smallest size")
        ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 32))
        ->capture_default_str();
    app->add_option("--max-bytes", options_.sizes.most_bytes, "largest size")
        ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 32))
        ->capture_default_str();
    app->add_option("--factor", options_.sizes.factor, "from one size to the next")
        ->capture_default_str();
    app->add_option("--rounds", options_.rounds, "rounds over all sizes; the median counts")
        ->check(CLI::Range(1, 1 << 16))
        ->capture_default_str();
    app->add_option("--json", json_,
                    "write them to this file, of several collectives each beside it: comm.json "
                    "becomes comm-all_reduce.json");
    link_.add(app);
    return app;
  }
  int run() {
    options_.link = link_.model();
    if (collectives_.empty()) collectives_ = {"all-reduce", "reduce-scatter", "all-gather"};
    contract::RunConfig config;
    config.ranks = ranks_;
    RankBenchOptions options;
    options.device = config.device =
        device_ == "cuda" ? contract::DeviceKind::Cuda : contract::DeviceKind::Cpu;
    options.place = machine_.place.device;
    options.cores = machine_.cores;
    return on_ranks(config, machine_.place, [&](plugins::RankGroup& group) {
      RankBench bench(group, base::system_clock(), options);
      for (const std::string& name : collectives_) measure(bench, name);
    });
  }

 private:
  void measure(RankBench& bench, const std::string& name) {
    using topology::nccl::Collective;
    options_.collective = name == "all-reduce"       ? Collective::AllReduce
                          : name == "reduce-scatter" ? Collective::ReduceScatter
                                                     : Collective::AllGather;
    const CommReport report = bench_comm(bench, options_);
    if (bench.group().rank() != 0) return;
    std::fputs(comm_table(report).c_str(), stdout);
    std::fflush(stdout);
    if (json_.empty()) return;
    base::Path path(json_);
    if (collectives_.size() > 1) {
      std::string suffix = comm_program(options_.collective);
      suffix.resize(suffix.size() - std::string("_perf").size());
      path.replace_filename(path.stem().string() + "-" + suffix + path.extension().string());
    }
    base::replace_file(base::posix_file_system(), path, comm_json(report));
  }

  const Machine& machine_;
  BenchCommOptions options_;
  LinkOptions link_;
  int ranks_ = 2;
  std::string device_ = "cpu", json_;
  std::vector<std::string> collectives_;
};

class BenchPlan {
 public:
  explicit BenchPlan(const Machine& machine) : machine_(machine) {}
  CLI::App* add(CLI::App& bench) {
    CLI::App* app = bench.add_subcommand(
        "plan",
        "plans buckets for what it measures on these ranks, and runs them beside others; tables "
        "on stderr, JSON on stdout");
    app->add_option("--ranks", ranks_, "ranks, of this machine")
        ->check(CLI::Range(2, 256))
        ->capture_default_str();
    app->add_option("--model", case_.model, std::string(kSmallEmbedding) + ", or tiny to large")
        ->capture_default_str();
    app->add_option("--links", links_,
                    "artificial links: none, balanced, latency, slow; left out: all of them")
        ->delimiter(',')
        ->check(CLI::IsMember(plan_links()));
    lengths_.add(app);
    app->add_option("--samples", case_.samples, "samples per step, over all ranks")
        ->check(CLI::Range(2, 1 << 16))
        ->capture_default_str();
    app->add_option("--rounds", case_.rounds, "rounds; the median counts")
        ->check(CLI::Range(1, 1 << 16))
        ->capture_default_str();
    app->add_option("--threads", threads_, "threads per rank; left out: cores / ranks")
        ->check(CLI::Range(1, 1024));
    link_.add(app);
    return app;
  }
  int run() {
    case_.samples = std::max(case_.samples, ranks_);
    std::vector<PlanCase> cases;
    if (const auto given = link_.model()) {
      cases.push_back(case_);
      cases.back().given = given;
    }
    if (cases.empty() && links_.empty()) links_ = plan_links();
    for (const std::string& link : links_) {
      cases.push_back(case_);
      cases.back().link = link;
    }
    const contract::LengthTable lengths = lengths_.table(machine_.place.device.program);
    contract::RunConfig config;
    config.ranks = ranks_;
    config.threads = threads_;
    std::string text;
    return train_on_ranks(
        machine_, config, {},
        [&](RankBench& bench) {
          PlanBench result = bench_plan(bench, lengths, cases);
          text = std::move(result.text);
          return std::move(result.json);
        },
        [&](const std::string&) { return text; });
  }

 private:
  const Machine& machine_;
  PlanCase case_{kSmallEmbedding, ""};
  LinkOptions link_;
  int ranks_ = 2, threads_ = 0;
  std::vector<std::string> links_;
  BenchLengths lengths_;
};

class BenchCheckpoint {
 public:
  explicit BenchCheckpoint(const Machine& machine) : machine_(machine) {}
  CLI::App* add(CLI::App& bench) {
    CLI::App* app = bench.add_subcommand(
        "checkpoint", "what saving costs a run, how fast it is, how soon a run resumes; JSON");
    common_.model = "base";
    common_.add(app);
    app->add_option("--directory", directory_, "where to write; nothing stays there")
        ->capture_default_str();
    app->add_option("--parts", options_.parts, "overhead, writer, digest, resume; left out: all")
        ->delimiter(',')
        ->check(CLI::IsMember(bench_checkpoint_parts()));
    app->add_option("--rounds", options_.rounds, "rounds; the median counts")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    app->add_option("--block-seconds", options_.block_seconds,
                    "of training with one checkpoint, and without")
        ->check(CLI::Range(0.01, 3600.0))
        ->capture_default_str();
    app->add_option("--samples", options_.samples,
                    "samples per step; left out: as many as take 1.5 s")
        ->check(CLI::Range(1, 1 << 16));
    app->add_option("--resume-model", resume_model_, "tiny, mini, small, medium, base or large")
        ->capture_default_str();
    return app;
  }
  int run() {
    options_.shape = common_.shape();
    options_.model_name = common_.model;
    options_.resume_shape = contract::preset_shape(resume_model_);
    options_.resume_shape.vocabulary = common_.vocabulary;
    options_.resume_model_name = resume_model_;
    options_.lengths_name = common_.lengths.name();
    options_.directory = directory_;
    options_.precision = common_.precision();
    options_.attention = common_.attention_kind();
    options_.threads = common_.threads > 0 ? common_.threads : machine_.cores;
    const contract::LengthTable table = common_.lengths.table(machine_.place.device.program);
    run::catch_stop_signals();  // what was written so far is removed
    const std::unique_ptr<device::Device> device = common_.make(machine_);
    std::fputs(bench_checkpoint(*device, base::system_clock(), table, options_).c_str(), stdout);
    return 0;
  }

 private:
  const Machine& machine_;
  BenchOptions common_;
  BenchCheckpointOptions options_;
  std::string directory_ = ".", resume_model_ = "large";
};

}  // namespace command_line

struct BenchCommands::Commands {
  explicit Commands(command_line::Machine of) : machine(std::move(of)) {}

  command_line::Machine machine;
  command_line::BenchStep step{machine};
  command_line::BenchKernels kernels{machine};
  command_line::BenchBalance balance{machine};
  InputCommand input{machine.place.device.program, machine.cores};
  command_line::BenchOverlap overlap{machine};
  command_line::BenchAblation ablation{machine};
  command_line::BenchCheckpoint checkpoint{machine};
  command_line::BenchComm comm{machine};
  command_line::BenchPlan plan{machine};
  PlatformCommand platform{machine.place, machine.cores};
  struct Command {
    CLI::App* app;
    std::function<int()> body;
  };
  std::vector<Command> all;
};

BenchCommands::BenchCommands(BenchPlace place, int cores)
    : commands_(std::make_unique<Commands>(command_line::Machine{std::move(place), cores})) {}

BenchCommands::~BenchCommands() = default;

void BenchCommands::add(CLI::App& program) {
  CLI::App* bench = program.add_subcommand("bench", "measure")->require_subcommand(1);
  const auto add = [&](auto& command) {
    commands_->all.push_back({command.add(*bench), [&command] { return command.run(); }});
  };
  add(commands_->step);
  add(commands_->kernels);
  add(commands_->balance);
  add(commands_->input);
  add(commands_->overlap);
  add(commands_->ablation);
  add(commands_->checkpoint);
  add(commands_->comm);
  add(commands_->plan);
  add(commands_->platform);
}

int BenchCommands::run() {
  for (const Commands::Command& command : commands_->all) {
    if (command.app->parsed()) return command.body();
  }
  return 2;
}

}  // namespace regatta::trainer::bench
