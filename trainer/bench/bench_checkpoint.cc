#include "trainer/bench/bench_checkpoint.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "base/digest.h"
#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/process.h"
#include "base/statistics.h"
#include "base/text.h"
#include "checkpoint/shards.h"
#include "checkpoint/store.h"
#include "trainer/bench/bench_ranks.h"
#include "trainer/bench/bench_seed.h"
#include "trainer/model/initial_weights.h"
#include "trainer/run/checkpoint_keeper.h"
#include "trainer/run/checkpoint_writer.h"
#include "trainer/run/stop_signals.h"
#include "trainer/samples/random_samples.h"
#include "trainer/step/buckets.h"
#include "trainer/step/snapshot.h"
#include "trainer/step/train_loop.h"

namespace regatta::trainer::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kSavedEverySeconds = 60;  // what the overhead is told for
constexpr std::int64_t kBlock = 8 << 20;   // bytes; of dd and of reading ahead
constexpr double kDdTimeoutSeconds = 600;  // at 10 MB/s six gigabytes
constexpr int kDigestRepetitions = 7;
constexpr int kMostResumes = 3;

base::FileSystem& files() { return base::posix_file_system(); }

// A directory of our own below the one that was asked for.
class Scratch {
 public:
  explicit Scratch(const base::Path& parent)
      : path_(parent / ("bench-checkpoint-" + std::to_string(getpid()))) {
    files().create_directory(path_);
  }
  ~Scratch() {
    try {
      files().remove_tree(path_);
    } catch (const base::Error&) {  // a figure that was measured is worth more than a tidy disk
    }
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] const base::Path& path() const { return path_; }

 private:
  base::Path path_;
};

contract::RunConfig run_config(const BenchCheckpointOptions& options,
                               const contract::ModelShape& shape, int samples) {
  contract::RunConfig config;
  config.name = "bench";
  config.model = shape;
  config.data.path = "/random";
  config.data.max_length = shape.max_positions;
  config.optimizer.learning_rate = 1e-4;
  config.optimizer.schedule = contract::ScheduleKind::Constant;
  config.batch_size = samples;
  config.keep_last = 1;
  config.guard.replay_every = 0;  // a step more, now and then
  config.seed = kSeed;
  config.dtype = options.precision;
  config.attention = options.attention;
  return config;
}

// Values that no disk and no digest can make light of.
std::vector<float> random_floats(std::int64_t size) {
  std::vector<float> values(static_cast<std::size_t>(size));
  std::uint64_t state = 88172645463325252ULL;  // Marsaglia's xorshift64
  for (float& value : values) {
    state ^= state << 13U;
    state ^= state >> 7U;
    state ^= state << 17U;
    value = static_cast<float>(state >> 40U) * 0x1p-24F;
  }
  return values;
}

step::StateShard shard_of(const contract::TensorTable& table, const std::vector<float>& values) {
  step::StateShard shard;
  shard.parameters = shard.first_moment = shard.second_moment = values.data();
  shard.pieces = step::whole_state(table);
  return shard;
}

std::uint64_t state_bytes(const contract::TensorTable& table) {
  return 3 * 4 * static_cast<std::uint64_t>(table.arena_size);
}

// What a run on one rank has that saves and resumes.
class SavingRun {
 public:
  SavingRun(device::Device& device, base::Clock& clock, const contract::RunConfig& config,
            samples::SampleStream samples, const base::Path& directory)
      : clock_(clock),
        table_(contract::make_tensor_table(config.model)),
        directory_(contract::RunDirectory::create(files(), directory, contract::to_json(config))),
        fence_(directory_, directory_.take_epoch()),
        keeper_({files(), clock, directory_, fence_, config, table_, "random",
                 directory_.create_attempt().execution, device.description()}),
        loop_(device, communicator_, clock, config, plan_of(table_), std::move(samples),
              loop_options()) {}
  SavingRun(const SavingRun&) = delete;
  SavingRun& operator=(const SavingRun&) = delete;

  [[nodiscard]] const contract::TensorTable& table() const { return table_; }
  [[nodiscard]] run::CheckpointKeeper& keeper() { return keeper_; }
  [[nodiscard]] step::TrainLoop& loop() { return loop_; }
  [[nodiscard]] const std::vector<contract::CheckpointRecord>& written() const { return written_; }

  void prepare_to_save(device::Device& device) {
    snapshot_.emplace(device, table_, loop_.pieces(), 0, 1, true);
    writer_.emplace(keeper_, communicator_.host(), clock_, 1, -1);
  }
  void step() {
    loop_.step(++done_);
    if (loop_.agreed().stop) throw base::Error(base::Code::User, "stopped by a signal");
    if (writer_) keep(writer_->follow({loop_.agreed().writing, loop_.agreed().write_failed}));
  }
  // As between two steps of a run.
  void save() {
    keep(writer_->settle());
    const double since = clock_.monotonic_seconds();
    loop_.snapshot(&*snapshot_);
    writer_->begin(done_, &snapshot_->shard(), std::nullopt, since);
  }
  [[nodiscard]] bool is_writing() const { return writer_->step_under_way() >= 0; }
  void settle() { keep(writer_->settle()); }

 private:
  static topology::plan::Plan plan_of(const contract::TensorTable& table) {
    topology::plan::Plan plan;
    plan.ranks = 1;
    plan.buckets = step::buckets_of_bytes(table, 0);
    return plan;
  }
  step::TrainLoopOptions loop_options() {
    step::TrainLoopOptions options;
    options.local_flags = [this] {
      step::StepFlags flags;
      flags.stop = run::take_requests().stop;
      if (!writer_) return flags;
      const run::CheckpointWriter::Progress progress = writer_->progress();
      flags.writing = progress.writing;
      flags.write_failed = progress.failed;
      return flags;
    };
    return options;
  }
  void keep(const std::vector<contract::CheckpointRecord>& records) {
    for (const contract::CheckpointRecord& record : records) {
      if (record.status == "failed") throw base::Error(base::Code::Operator, record.message);
      if (record.status == "written") written_.push_back(record);
    }
  }

  base::Clock& clock_;
  contract::TensorTable table_;
  contract::RunDirectory directory_;
  contract::Fence fence_;
  ranks::SingleCommunicator communicator_;
  run::CheckpointKeeper keeper_;
  std::vector<contract::CheckpointRecord> written_;
  std::int64_t done_ = 0;
  step::TrainLoop loop_;
  std::optional<step::Snapshot> snapshot_;
  std::optional<run::CheckpointWriter> writer_;  // its thread ends before what it writes
};

double median_over(const std::vector<contract::CheckpointRecord>& records,
                   double contract::CheckpointRecord::*value) {
  std::vector<double> values;
  for (const contract::CheckpointRecord& record : records) values.push_back(record.*value);
  return base::median(std::move(values));
}

class OverheadBench {
 public:
  OverheadBench(device::Device& device, base::Clock& clock, const contract::LengthTable& lengths,
                const BenchCheckpointOptions& options, base::Path directory)
      : device_(device),
        clock_(clock),
        lengths_(lengths),
        options_(options),
        directory_(std::move(directory)),
        weights_(model::initial_weights(contract::make_tensor_table(options.shape), kSeed,
                                        options.threads)) {}

  [[nodiscard]] Json measure() {
    const int samples = options_.samples > 0 ? options_.samples : samples_of_a_step();
    const double step_seconds = seconds_of_a_step(samples);
    const int steps = std::max(
        2, static_cast<int>(std::ceil(options_.block_seconds / std::max(1e-6, step_seconds))));
    // Every block sees the same samples.
    const auto run = make_run("blocks", samples, std::int64_t{samples} * steps);
    run->prepare_to_save(device_);
    (void)block(*run, steps, true);  // to warm up
    std::vector<double> with, without, extra;
    int unfinished = 0;
    const std::size_t first = run->written().size();
    for (int round = 0; round < options_.rounds; ++round) {
      for (const bool saving : {round % 2 == 0, round % 2 != 0}) {
        (saving ? with : without).push_back(block(*run, steps, saving));
        unfinished += unfinished_ ? 1 : 0;
      }
      extra.push_back(with.back() - without.back());
    }
    const std::vector<contract::CheckpointRecord> records(
        run->written().begin() + static_cast<std::ptrdiff_t>(first), run->written().end());
    const double more = base::median(extra);
    Json json;
    json["samples_per_step"] = samples;
    json["steps_per_block"] = steps;
    json["rounds"] = options_.rounds;
    json["checkpoint_bytes"] = records.front().bytes;
    json["block_seconds_with"] = base::median(with);
    json["block_seconds_without"] = base::median(without);
    json["extra_seconds"] = more;
    json["extra_seconds_of_rounds"] = extra;
    json["percent_at_one_per_60_s"] = 100 * more / kSavedEverySeconds;
    json["stall_seconds"] = median_over(records, &contract::CheckpointRecord::stall_seconds);
    json["copy_seconds"] = median_over(records, &contract::CheckpointRecord::copy_seconds);
    json["whole_after_seconds"] = median_over(records, &contract::CheckpointRecord::seconds);
    json["write_seconds"] = median_over(records, &contract::CheckpointRecord::write_seconds);
    json["sync_seconds"] = median_over(records, &contract::CheckpointRecord::sync_seconds);
    json["blocks_that_waited_for_the_writer"] = unfinished;
    return json;
  }

 private:
  std::unique_ptr<SavingRun> make_run(const char* name, int samples, std::int64_t period) {
    auto run = std::make_unique<SavingRun>(
        device_, clock_, run_config(options_, options_.shape, samples),
        samples::random_samples(lengths_, options_.shape, period), directory_ / name);
    step::TrainingState start;
    start.parameters = weights_;
    run->loop().load(start);
    return run;
  }

  // Of the second of two steps.
  double seconds_of_a_step(int samples) {
    const auto run = make_run(("steps-" + std::to_string(samples)).c_str(), samples, samples);
    run->step();
    const double start = clock_.monotonic_seconds();
    run->step();
    return clock_.monotonic_seconds() - start;
  }
  int samples_of_a_step() {
    constexpr int kTried = 4;
    const double each = seconds_of_a_step(kTried) / kTried;
    return static_cast<int>(std::clamp(options_.step_seconds / std::max(1e-6, each), 1.0, 4096.0));
  }

  double block(SavingRun& run, int steps, bool saving) {
    const double start = clock_.monotonic_seconds();
    for (int step = 0; step < steps; ++step) {
      run.step();
      if (saving && step == 0) run.save();
    }
    unfinished_ = run.is_writing();
    run.settle();
    return clock_.monotonic_seconds() - start;
  }

  device::Device& device_;
  base::Clock& clock_;
  const contract::LengthTable& lengths_;
  const BenchCheckpointOptions& options_;
  base::Path directory_;
  std::vector<float> weights_;
  bool unfinished_ = false;  // of the last block: the writer was not done when its steps were
};

// Both write as many bytes, up to the last block of dd.
class WriterBench {
 public:
  WriterBench(const base::Clock& clock, const BenchCheckpointOptions& options,
              const base::Path& directory)
      : clock_(clock),
        options_(options),
        directory_(directory),
        store_(files(), directory / "checkpoints"),
        table_(contract::make_tensor_table(options.shape)),
        values_(random_floats(table_.arena_size)) {
    files().create_directory(directory_);
  }

  [[nodiscard]] Json measure() {
    (void)write(0);  // to warm up
    std::vector<double> ours, dd, ratios;
    for (int round = 0; round < options_.rounds; ++round) {
      double seconds[2] = {0, 0};  // ours, dd
      for (const int which : {round % 2, 1 - round % 2}) {
        seconds[which] = which == 0 ? write(round + 1) : run_dd();
      }
      ours.push_back(gigabytes(seconds[0]));
      dd.push_back(gigabytes(seconds[1]));
      ratios.push_back(seconds[1] / seconds[0]);
    }
    Json json;
    json["bytes"] = bytes_;
    json["rounds"] = options_.rounds;
    json["gigabytes_per_second"] = base::median(ours);
    json["dd_gigabytes_per_second"] = base::median(dd);
    json["ratio_to_dd"] = base::median(ours) / base::median(dd);
    json["gigabytes_per_second_of_rounds"] = ours;
    json["dd_gigabytes_per_second_of_rounds"] = dd;
    json["ratio_of_rounds"] = ratios;
    return json;
  }

 private:
  [[nodiscard]] double gigabytes(double seconds) const {
    return 1e-9 * static_cast<double>(bytes_) / seconds;
  }

  double write(int step) {
    const checkpoint::CheckpointName name{step, "bench"};
    const step::StateShard shard = shard_of(table_, values_);
    const auto model = step::model_tensors(table_, shard);
    const auto optimizer = step::optimizer_tensors(table_, shard, nullptr);
    const double start = clock_.monotonic_seconds();
    bytes_ =
        store_.write_shard(name, checkpoint::shard_file(checkpoint::kModel, 0, 1), model, clock_)
            .file.bytes;
    bytes_ += store_
                  .write_shard(name, checkpoint::shard_file(checkpoint::kOptimizer, 0, 1),
                               optimizer, clock_)
                  .file.bytes;
    const double seconds = clock_.monotonic_seconds() - start;
    store_.remove(name.text());
    return seconds;
  }

  double run_dd() {
    const base::Path path = directory_ / "dd";
    const std::uint64_t blocks = (bytes_ + kBlock - 1) / kBlock;
    base::Command command;
    command.arguments = {"dd",
                         "if=/dev/zero",
                         "of=" + path.string(),
                         "bs=8M",
                         "count=" + std::to_string(blocks),
                         "conv=fsync"};
    const double start = clock_.monotonic_seconds();
    const base::Output output = base::run(command, kDdTimeoutSeconds);
    const double seconds = clock_.monotonic_seconds() - start;
    files().remove_file(path);
    if (output.exit.code != 0) {
      throw base::Error(base::Code::Operator,
                        "dd could not write " + std::to_string(bytes_) + " bytes to " +
                            path.string() + "; look whether the disk is full, or leave out writer");
    }
    // A block more than ours counts as it should.
    return seconds * static_cast<double>(bytes_) / static_cast<double>(blocks * kBlock);
  }

  const base::Clock& clock_;
  const BenchCheckpointOptions& options_;
  base::Path directory_;
  checkpoint::CheckpointStore store_;
  contract::TensorTable table_;
  std::vector<float> values_;
  std::uint64_t bytes_ = 0;
};

Json bench_digest(const base::Clock& clock, std::int64_t bytes) {
  const std::vector<float> values = random_floats(std::max<std::int64_t>(1, bytes / 4));
  const auto buffer = std::as_bytes(std::span(values));
  std::vector<double> rates;
  std::string digest;
  for (int i = 0; i <= kDigestRepetitions; ++i) {
    const double start = clock.monotonic_seconds();
    base::Digest sum;
    sum.update(buffer);
    digest = sum.hex();
    const double seconds = std::max(1e-9, clock.monotonic_seconds() - start);
    if (i > 0) rates.push_back(1e-9 * static_cast<double>(buffer.size()) / seconds);
  }
  return {{"bytes", buffer.size()},
          {"gigabytes_per_second", base::median(rates)},
          {"gigabytes_per_second_of_rounds", rates},
          {"digest", digest}};
}

// Why a state cannot be written and resumed here: the copy that is written, then weights, gradients
// and moments of the loop, what is read, and the page cache.
std::optional<std::string> no_room(const contract::TensorTable& table,
                                   const base::Path& directory) {
  const std::uint64_t state = state_bytes(table);
  const std::uint64_t memory = state * 10 / 3 + state / 3;
  const auto available = base::available_memory();
  if (available && *available < memory) {
    return "needs " + base::human_bytes(memory) + " of memory, " + base::human_bytes(*available) +
           " are left";
  }
  const std::uint64_t free = files().free_bytes(directory);
  if (free < state + state / 8) {
    return "needs " + base::human_bytes(state + state / 8) + " of disk, " +
           base::human_bytes(free) + " are left";
  }
  return std::nullopt;
}

void read_all(const base::Path& directory) {
  std::vector<std::byte> block(static_cast<std::size_t>(kBlock));
  for (const std::string& name : files().list(directory)) {
    std::uint64_t offset = 0;
    while (files().read_into(directory / name, offset, block) == block.size()) {
      offset += block.size();
    }
  }
}

Json bench_resume(device::Device& device, base::Clock& clock, const contract::LengthTable& lengths,
                  const BenchCheckpointOptions& options, const base::Path& directory) {
  Json json{{"model", options.resume_model_name}};
  if (const auto reason = no_room(contract::make_tensor_table(options.resume_shape), directory)) {
    json["skipped"] = *reason;
    return json;
  }
  SavingRun run(device, clock, run_config(options, options.resume_shape, 1),
                samples::random_samples(lengths, options.resume_shape, 1), directory / "resume");
  const contract::CheckpointRecord record = [&] {
    const std::vector<float> values = random_floats(run.table().arena_size);
    return run.keeper().write(1, shard_of(run.table(), values), std::nullopt).front();
  }();
  if (record.status != "written") throw base::Error(base::Code::Operator, record.message);
  read_all(directory / "resume" / "checkpoints" / record.name);
  const double before = clock.monotonic_seconds();
  step::Snapshot whole(device, run.table(), step::whole_state(run.table()), 0, 1, true);
  const double reserved = clock.monotonic_seconds() - before;  // at every start, resumed or not
  std::vector<double> seconds, found, loaded;
  for (int round = 0; round < std::min(options.rounds, kMostResumes); ++round) {
    const double start = clock.monotonic_seconds();
    std::vector<contract::CheckpointRecord> skipped;
    const auto resumed = run.keeper().load(&whole, &skipped);
    base::check(resumed && resumed->step == 1, "what was written is found");
    const double read = clock.monotonic_seconds();
    run.loop().load(whole.shard());
    const double end = clock.monotonic_seconds();
    seconds.push_back(end - start);
    found.push_back(read - start);
    loaded.push_back(end - read);
  }
  json["parameters"] = run.table().parameter_count;
  json["bytes"] = record.bytes;
  json["seconds"] = base::median(seconds);
  json["seconds_of_rounds"] = seconds;
  json["find_verify_and_read_seconds"] = base::median(found);
  json["load_seconds"] = base::median(loaded);
  json["reserve_memory_seconds"] = reserved;
  return json;
}

}  // namespace

const std::vector<std::string>& bench_checkpoint_parts() {
  static const std::vector<std::string> parts{"overhead", "writer", "digest", "resume"};
  return parts;
}

std::string bench_checkpoint(device::Device& device, base::Clock& clock,
                             const contract::LengthTable& lengths,
                             const BenchCheckpointOptions& options) {
  const auto& known = bench_checkpoint_parts();
  for (const std::string& part : options.parts) {
    if (std::find(known.begin(), known.end(), part) == known.end()) {
      throw base::Error(base::Code::User, "no part '" + base::printable(part) + "'; use " +
                                              "overhead, writer, digest, resume");
    }
  }
  const auto wanted = [&](const char* part) {
    return options.parts.empty() ||
           std::find(options.parts.begin(), options.parts.end(), part) != options.parts.end();
  };
  double load = 0;
  getloadavg(&load, 1);
  const Scratch scratch(options.directory);
  Json json;
  json["benchmark"] = "checkpoint";
  json["model"] = options.model_name;
  json["parameters"] = contract::make_tensor_table(options.shape).parameter_count;
  json["lengths"] = options.lengths_name;
  json["device"] = device.description();
  json["dtype"] = contract::name_of(options.precision);
  json["threads"] = options.threads;
  json["optimizer"] = "adamw";
  json["load_average_before"] = load;
  if (wanted("overhead")) {
    json["overhead"] = OverheadBench(device, clock, lengths, options, scratch.path()).measure();
  }
  if (wanted("writer")) {
    json["writer"] = WriterBench(clock, options, scratch.path() / "writer").measure();
  }
  if (wanted("digest")) json["digest"] = bench_digest(clock, options.digest_bytes);
  if (wanted("resume")) {
    json["resume"] = bench_resume(device, clock, lengths, options, scratch.path());
  }
  return base::json_text(json, 2) + "\n";
}

}  // namespace regatta::trainer::bench
