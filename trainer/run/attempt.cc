#include "trainer/run/attempt.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iomanip>
#include <numeric>
#include <sstream>

#include "base/error.h"
#include "base/host.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "base/wording.h"
#include "trainer/device/device_peak.h"
#include "trainer/ranks/rank_agreement.h"
#include "trainer/run/launcher.h"
#include "trainer/run/stop_signals.h"
#include "trainer/run/target.h"
#include "trainer/step/buckets.h"
#include "trainer/watch/hang_report.h"

namespace regatta::trainer::run {
namespace {

// Bytes per second that a first checkpoint is reckoned with, until one was timed.
constexpr double kSlowDisk = 200e6;
constexpr double kRanksPause = 1;  // seconds, between two records of all ranks

int threads_of(const AttemptContext& context) {
  const int asked = context.options.threads > 0 ? context.options.threads : context.config.threads;
  return asked > 0 ? asked : std::max(1, base::usable_cores() / context.group.ranks_per_node());
}

// The run file, with what it leaves to the dataset and to the machine filled in.
contract::RunConfig complete_config(const AttemptContext& context, const RunData& data) {
  contract::RunConfig config = context.config;
  complete_model((context.directory.path() / "run.json").string(), data.vocabulary(), data.labels(),
                 &config);
  config.threads = threads_of(context);
  config.ranks_per_node = context.group.ranks_per_node();
  return config;
}

// What Slurm calls the node that it started this rank on; else the machine's own name.
std::string node_name(const ranks::Variables& variables) {
  const char* node = variables ? variables("SLURMD_NODENAME") : nullptr;
  if (node != nullptr && *node != '\0') return base::printable(node);
  return base::printable(base::host_name());
}

// The plan of the run directory, or what the run file says about buckets.
topology::plan::Plan plan_of(base::FileSystem& files, const contract::RunDirectory& directory,
                             const contract::RunConfig& config, const contract::TensorTable& table,
                             bool is_cuda) {
  const base::Path path = directory.path() / "plan.json";
  const auto tensors = static_cast<int>(table.tensors.size());
  if (config.buckets.by == contract::BucketPolicy::Plan && files.exists(path)) {
    topology::plan::Plan plan =
        topology::plan::parse_plan(files.read(path, kMaxPlanBytes), path.string(), tensors);
    if (plan.ranks == config.ranks) return plan;
    base::log(base::LogLevel::Warning, path.string() + " is for " + std::to_string(plan.ranks) +
                                           " ranks, and is not used; plan again");
  }
  topology::plan::Plan plan;
  plan.ranks = config.ranks;
  plan.buckets = step::default_buckets(config, table, is_cuda);
  return plan;
}

// For the copies of the state that the ranks of a node make.
void check_memory(double bytes) {
  const auto available = base::available_memory();
  if (!available || bytes <= static_cast<double>(*available)) return;
  throw base::Error(base::Code::Operator,
                    "checkpoints need " + base::human_bytes(static_cast<std::uint64_t>(bytes)) +
                        " of memory for copies of the state, this machine has " +
                        base::human_bytes(*available) +
                        " left; use more memory, or more ranks with sharding.optimizer: true");
}

}  // namespace

AttemptRunner::Inputs::Inputs(const AttemptContext& context)
    : data(open_run_data(context.files, context.config, threads_of(context))),
      config(complete_config(context, *data)),
      device(plugins::make_device({config.device, config.dtype, config.attention, config.threads,
                                   context.group.local_rank(), config.determinism.level},
                                  context.options.place)) {
  // Throws where the device does not compute in this type.
  (void)step::bert_options(config, *device);
}

AttemptRunner::AttemptRunner(const AttemptContext& context)
    : context_(context),
      inputs_(load_inputs(context)),
      config_(inputs_->config),
      device_(*inputs_->device),
      communicator_(join(context, device_)),
      table_(contract::make_tensor_table(config_.model)),
      peak_flops_(peak_flops()),
      plan_(agreed_plan()),
      hosts_(ranks::texts_of_ranks(context.group.host(), node_name(context.options.variables))),
      watchdog_(make_watchdog()),
      loop_(device_, communicator_, context.clock, config_, plan_, inputs_->data->training(),
            loop_options()),
      keeper_({context.files, context.clock, context.directory, context.fence, config_, table_,
               inputs_->data->fingerprint(), context.name.execution, device_.description()}),
      writers_(loop_.shards()),
      node_bytes_(snapshot_bytes_of_node()),
      snapshot_(reserve_snapshot()),
      deadline_(make_deadline()),
      start_(load_state(std::nullopt)),
      learning_(context.files, context.clock, context.group.host(), context.directory, config_,
                table_, plan_, plan_situation()),
      writer_(keeper_, context.group.host(), context.clock, writers_,
              start_.step > 0 ? start_.step : -1),
      target_(target_value(config_, inputs_->data->baseline())) {
  take_up(start_.rollbacks);
  plan_.buckets = learning_.buckets();
  if (learning_.may_change()) loop_.cut(plan_.buckets);
}

contract::EndRecord AttemptRunner::run() {
  if (writes()) {
    write_environment();
    announce();
    log_what_is_checked();
  }
  contract::EndRecord end = train(start_.step);
  if (writes()) note_clocks();
  return end;
}

std::unique_ptr<AttemptRunner::Inputs> AttemptRunner::load_inputs(const AttemptContext& context) {
  context.journal.write(contract::PhaseRecord{"loading"});
  std::unique_ptr<Inputs> inputs;
  ranks::run_on_all_ranks(context.group.host(),
                          [&] { inputs = std::make_unique<Inputs>(context); });
  ranks::same_everywhere(context.group.host(), "the dataset's fingerprint",
                         inputs->data->fingerprint());
  return inputs;
}

ranks::Communicator& AttemptRunner::join(const AttemptContext& context, device::Device& device) {
  ranks::Communicator& real = context.group.communicator(device, !device.is_on_host());
  if (!context.group.tuner_warning().empty()) {
    context.journal.write(contract::WarningRecord{context.group.tuner_warning()});
  }
  return context.options.around ? context.options.around(real) : real;
}

// Of all ranks: what the run file says, or as fast as each rank's device multiplies.
double AttemptRunner::peak_flops() const {
  double peak = config_.peak_tflops * 1e12;
  if (peak == 0) {
    peak = device::product_flops(device_, context_.clock, step::compute_dtype(config_.dtype));
  }
  context_.group.host().all_reduce_sum(&peak, 1);
  return peak;
}

// Rank 0's, so that a file that changes while ranks start cannot part them.
topology::plan::Plan AttemptRunner::agreed_plan() const {
  std::string text;
  ranks::run_on_all_ranks(context_.group.host(), [&] {
    if (!writes()) return;
    text = topology::plan::to_json(
        plan_of(context_.files, context_.directory, config_, table_, !device_.is_on_host()));
  });
  return topology::plan::parse_plan(ranks::text_of_rank_0(context_.group.host(), text),
                                    "rank 0's plan", static_cast<int>(table_.tensors.size()));
}

step::TrainLoopOptions AttemptRunner::loop_options() {
  step::TrainLoopOptions options;
  options.peak_flops = peak_flops_;
  options.peak_is_measured = config_.peak_tflops == 0;
  options.local_flags = [this] { return local_flags(); };
  if (watchdog_ != nullptr) {
    options.beat = [this](std::int64_t step, watch::Phase phase) { beat(step, phase); };
  }
  return options;
}

// What the run starts with beside its plan: what it, or another one on the like, has found before.
step::PlanSituation AttemptRunner::plan_situation() const {
  step::PlanSituation situation;
  situation.communicator = communicator_.library_version();
  situation.device = ranks::text_of_rank_0(context_.group.host(), device_.description());
  situation.first_step = start_.step;
  situation.standard = step::default_buckets(config_, table_, !device_.is_on_host());
  situation.kept = start_.plan;
  return situation;
}

// All ranks know the same of the step, so all have the same buckets in the next.
void AttemptRunner::learn_from_step(std::int64_t done, bool was_writing) {
  if (!learning_.is_trying()) return;
  step::StepPace pace = loop_.pace();
  pace.disturbed = pace.disturbed || was_writing;
  const std::optional<contract::TrialRecord> found = learning_.observe(done, pace);
  loop_.cut(learning_.buckets());
  if (!found) return;
  context_.journal.write(*found);
  if (writes()) base::log(base::LogLevel::Info, "buckets: " + found->why);
}

// Of rank 0; others make their samples in their own way.
void AttemptRunner::tell_input(const contract::InputRecord& record) {
  if (!writes()) return;
  context_.journal.write(record);
  if (!record.starved) return base::log(base::LogLevel::Info, "input: " + record.why);
  context_.journal.write(contract::WarningRecord{record.why});
  base::log(base::LogLevel::Warning, record.why);
}

// Steps may be short, and ranks many.
void AttemptRunner::tell_ranks() {
  if (config_.ranks == 1 || !writes()) return;
  contract::RanksRecord record = loop_.ranks();
  if (!device_.is_on_host()) record.compute_seconds.clear();    // the host only enqueued
  if (config_.parallel.pipeline == 1) stragglers_.add(record);  // stages are not alike
  const double now = context_.clock.monotonic_seconds();
  if (ranks_told_ && now - *ranks_told_ < kRanksPause) return;
  ranks_told_ = now;
  context_.journal.write(record);
  for (const watch::Stragglers::Change& change : stragglers_.judge()) {
    const std::string text = describe(change, hosts_[static_cast<std::size_t>(change.rank)]);
    context_.journal.write(contract::WarningRecord{text});
    base::log(base::LogLevel::Warning, text);
  }
}

std::unique_ptr<watch::Watchdog> AttemptRunner::make_watchdog() {
  if (config_.ranks == 1 || config_.watchdog_seconds == 0) return nullptr;
  watch::WatchdogOptions options;
  options.least_seconds = config_.watchdog_seconds;
  const auto trip = [this](const watch::Trip& why) { give_up(why); };
  const auto report = [this](const contract::HeartbeatRecord& record) {
    try {
      context_.journal.write(record);
    } catch (const Fenced&) {  // the training thread finds out, too
    }
  };
  auto watchdog = std::make_unique<watch::Watchdog>(context_.group.host(), context_.clock, options,
                                                    trip, report);
  watchdog->beat(0, watch::Phase::Loading);
  return watchdog;
}

// On the watchdog's thread. Others stand still: nothing can be waited for.
void AttemptRunner::give_up(const watch::Trip& trip) {
  base::log(base::LogLevel::Error, trip.why);
  contract::EndRecord end;
  end.reason = "failed";
  end.exit_code = static_cast<int>(contract::ExitCode::Retry);
  end.message = trip.why;
  context_.journal.write_end(end);
  if (trip.hangs) {
    const auto blamed = static_cast<std::size_t>(trip.rank);
    watch::HangPlaces places;
    places.report = context_.directory.attempt_path(context_.name) / "hang.json";
    if (const char* request = context_.options.variables(watch::kDumpRequestVariable))
      places.request = request;
    watch::report_hang(context_.files, context_.clock, places,
                       watch::hang_json(trip, blamed < hosts_.size() ? hosts_[blamed] : "",
                                        context_.group.rank()));
  }
  try {
    // Rank 0, which writes it otherwise, may be the one that hangs.
    leave_exit_code(context_.options.variables, end.exit_code);
  } catch (const base::Error& error) {
    base::log(base::LogLevel::Warning, error.what());
  }
  std::_Exit(end.exit_code);
}

void AttemptRunner::beat(std::int64_t step, watch::Phase phase) {
  if (watchdog_ != nullptr) watchdog_->beat(step, phase);
}

step::StepFlags AttemptRunner::local_flags() {
  const Requests requests = take_requests();
  // A rank alone finds out when it journals the step; several must leave together.
  const bool fenced = config_.ranks > 1 && writes() && !context_.fence.holds();
  const CheckpointWriter::Progress progress = writer_.progress();
  step::StepFlags flags;
  flags.stop = requests.stop;
  flags.checkpoint = requests.checkpoint;
  flags.fenced = fenced;
  flags.out_of_time = writes() && deadline_.is_due(context_.clock.monotonic_seconds());
  flags.writing = progress.writing;
  flags.write_failed = progress.failed;
  return flags;
}

std::vector<step::StatePiece> AttemptRunner::shard_pieces() const {
  return has_shard() ? loop_.pieces() : std::vector<step::StatePiece>();
}

// Ranks of a node share its memory.
double AttemptRunner::snapshot_bytes_of_node() const {
  const double needed =
      has_shard() ? static_cast<double>(step::Snapshot::bytes(table_, shard_pieces(), writes()))
                  : 0.0;
  std::vector<double> all(static_cast<std::size_t>(config_.ranks));
  context_.group.host().all_gather(&needed, sizeof needed, all.data());
  const auto first = static_cast<std::ptrdiff_t>(context_.group.rank() / config_.ranks_per_node *
                                                 config_.ranks_per_node);
  const auto last = std::min<std::ptrdiff_t>(config_.ranks, first + config_.ranks_per_node);
  return std::accumulate(all.begin() + first, all.begin() + last, 0.0);
}

std::unique_ptr<step::Snapshot> AttemptRunner::reserve_snapshot() const {
  std::unique_ptr<step::Snapshot> snapshot;
  ranks::run_on_all_ranks(context_.group.host(), [&] { check_memory(node_bytes_); });
  ranks::run_on_all_ranks(context_.group.host(), [&] {
    if (!has_shard()) return;
    snapshot = std::make_unique<step::Snapshot>(device_, table_, shard_pieces(), *loop_.shard(),
                                                writers_, writes());
  });
  return snapshot;
}

Deadline AttemptRunner::make_deadline() const {
  if (!context_.options.deadline_utc) return {};
  const double left = *context_.options.deadline_utc - context_.clock.utc_seconds();
  return {context_.clock.monotonic_seconds() + left, node_bytes_ / kSlowDisk};
}

void AttemptRunner::announce() {
  contract::StartRecord record;
  record.attempt = context_.name.number;
  record.execution = context_.name.execution;
  record.epoch = context_.fence.epoch();
  record.process = getpid();
  const char* launcher = context_.options.variables(kLauncherVariable);
  if (launcher != nullptr) record.process = base::parse_integer(launcher).value_or(getpid());
  record.host = base::printable(base::host_name());
  for (std::size_t rank = 0; rank < hosts_.size();
       rank += static_cast<std::size_t>(config_.ranks_per_node)) {
    record.hosts.push_back(hosts_[rank]);
  }
  record.version = REGATTA_VERSION;
  record.parameters = table_.parameter_count;
  record.steps = config_.steps;
  record.batch_size = config_.batch_size;
  record.ranks = config_.ranks;
  record.ranks_per_node = config_.ranks_per_node;
  record.device = device_.description();
  record.peak_flops = peak_flops_;
  if (config_.ranks > 1) {
    for (const step::ArenaSlice& slice : loop_.summed()) {
      record.bucket_bytes.push_back(4 * slice.size);
    }
  }
  record.first_step = start_.step;
  if (const std::optional<step::BatchGrowthState>& growth = start_.growth) {
    record.batches = growth->batches;
    if (contract::grows(config_)) record.first_progress = growth->progress;
  }
  record.checkpoint = start_.name;
  record.metric = contract::metric_of(config_);
  record.target = target_;
  record.baseline = inputs_->data->baseline();
  record.task = contract::name_of(config_.model.task);
  if (context_.mllog != nullptr) {
    context_.mllog->describe(
        config_, {inputs_->data->training_samples(), inputs_->data->evaluation_samples()});
  }
  context_.journal.write(record);
  base::log(base::LogLevel::Info, start_.name.empty()
                                      ? "training " + std::to_string(table_.parameter_count) +
                                            " parameters from " +
                                            (config_.from ? config_.from->path : "scratch")
                                      : "resumed from " + start_.name);
}

// Once, of a figure in the run file that cannot be the device's.
void AttemptRunner::warn_of_peak(double mfu) {
  if (mfu <= 1 || warned_of_peak_) return;
  warned_of_peak_ = true;
  std::ostringstream text;
  text << "statistics.peak_tflops is " << config_.peak_tflops << ", and a rank computes at "
       << std::setprecision(3) << mfu * config_.peak_tflops
       << ", so MFU is more than 100 %; set it to the device's peak, or leave it out";
  context_.journal.write(contract::WarningRecord{text.str()});
}

contract::EndRecord AttemptRunner::train(std::int64_t done) {
  // An attempt that resumes where an evaluation was due may have lost its record: it is repeated.
  if (done == 0 || evaluation_due(done)) {
    if (evaluate(done) && config_.stop_at_target) return finish("target", done);
  }
  context_.journal.write(contract::PhaseRecord{"training"});
  while (!loop_.is_over(done)) {
    const bool was_writing = writer_.step_under_way() >= 0;
    contract::StepRecord step;
    try {
      step = loop_.step(++done);
    } catch (const step::Corrupted&) {  // on all ranks, as below
      journal(writer_.settle());
      tell_noticed();
      return corrupted(done - 1);
    } catch (const step::Diverged& error) {  // on all ranks; what was being written is told, too
      journal(writer_.settle());
      const std::optional<std::int64_t> back = go_back(error);
      if (!back) return diverged(error);
      done = *back;
      // What was wanted at the step that did not count.
      const step::StepFlags& agreed = loop_.agreed();
      if (agreed.fenced) throw Fenced{};
      if (agreed.stop) return finish("stopped", done);
      if (agreed.out_of_time) return finish("deadline", done);
      continue;
    }
    if (!learning_.has_first_buckets()) {  // the start record's
      step.bucket_launched.clear();
      step.bucket_finished.clear();
    }
    context_.journal.write(step);
    tell_noticed();
    if (loop_.decided()) tell_batch(*loop_.decided());
    if (loop_.input_told()) tell_input(*loop_.input_told());
    tell_ranks();
    warn_of_peak(step.mfu);
    const step::StepFlags& agreed = loop_.agreed();
    if (agreed.fenced) throw Fenced{};
    learn_from_step(done, was_writing);
    journal(writer_.follow({agreed.writing, agreed.write_failed}));
    if (evaluation_due(done) && evaluate(done) && config_.stop_at_target) {
      return finish("target", done);
    }
    if (loop_.is_over(done)) continue;
    if (agreed.stop) return finish("stopped", done);
    if (agreed.out_of_time) return finish("deadline", done);
    if (done % config_.checkpoint_every == 0 || agreed.checkpoint) checkpoint(done);
  }
  return finish("steps", done);
}

bool AttemptRunner::evaluation_due(std::int64_t done) const {
  const bool is_last = contract::grows(config_) ? loop_.is_over(done) : done == config_.steps;
  return done % config_.evaluate_every == 0 || is_last;
}

void AttemptRunner::tell_batch(const contract::BatchRecord& record) {
  context_.journal.write(record);
  if (!writes()) return;
  base::log(base::LogLevel::Info, "from step " + std::to_string(record.step) + " on a step has " +
                                      std::to_string(record.size) +
                                      " samples: the gradient's noise scale is at least " +
                                      base::short_number(record.noise_scale_low));
}

bool AttemptRunner::evaluate(std::int64_t done) {
  contract::EvalRecord record = inputs_->data->evaluate(loop_, done);
  record.target_met = meets(config_, target_, record);
  metric_step_ = done;
  metric_ = contract::value_of(record, contract::metric_of(config_));
  context_.journal.write(record);
  return record.target_met;
}

void AttemptRunner::journal(const std::vector<contract::CheckpointRecord>& records) {
  for (const contract::CheckpointRecord& record : records) {
    context_.journal.write(record);
    if (record.status == "written") deadline_.saved(record.seconds);
    if (record.status == "failed") base::log(base::LogLevel::Warning, record.message);
  }
}

// Training stands still for a copy; where the one before is still being written, for that, too.
void AttemptRunner::checkpoint(std::int64_t done) {
  if (writer_.saved_step() == done || writer_.step_under_way() == done) return;
  beat(done, watch::Phase::Checkpointing);
  journal(writer_.settle());
  keeper_.keep_plan(learning_.found());
  keeper_.keep_growth(loop_.batch().state());
  const double since = context_.clock.monotonic_seconds();
  loop_.snapshot(snapshot_.get());
  // Of these weights or of none: keep_best compares it.
  writer_.begin(done, snapshot_ ? &snapshot_->shard() : nullptr,
                metric_step_ == done ? metric_ : std::nullopt, since);
  if (!config_.checkpoint_async) journal(writer_.settle());
}

contract::EndRecord AttemptRunner::finish(const std::string& reason, std::int64_t done) {
  checkpoint(done);
  journal(writer_.settle());
  contract::EndRecord end;
  end.reason = reason;
  end.step = done;
  end.exit_code = static_cast<int>(reason == "stopped"    ? contract::ExitCode::Stopped
                                   : reason == "deadline" ? contract::ExitCode::Continue
                                                          : contract::ExitCode::Finished);
  if (writer_.saved_step() != done) {
    end.reason = "failed";
    end.exit_code = static_cast<int>(contract::ExitCode::Operator);
    end.message = "the last checkpoint could not be written; make room on the disk and resume";
  }
  return end;
}

}  // namespace regatta::trainer::run
