#include "trainer/training_run.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "topology/plan.h"
#include "trainer/checkpoint_keeper.h"
#include "trainer/communicator.h"
#include "trainer/contract/run_config.h"
#include "trainer/environment.h"
#include "trainer/initial_weights.h"
#include "trainer/journal_writer.h"
#include "trainer/sampler.h"
#include "trainer/stop_signals.h"
#include "trainer/train_loop.h"

namespace regatta::trainer {
namespace {

// The run file, with what it leaves to the dataset and to the machine filled in.
RunConfig complete_config(const RunDirectory& directory, const Dataset& dataset, RunConfig config,
                          const TrainingRunOptions& options) {
  const int pieces = static_cast<int>(dataset.vocabulary().size());
  if (config.model.vocabulary != 0 && config.model.vocabulary != pieces) {
    throw base::Error(
        base::Code::User,
        (directory.path() / "run.json").string() + ": model.vocabulary is " +
            std::to_string(config.model.vocabulary) + ", but the dataset has " +
            std::to_string(pieces) +
            " pieces; leave the key out or prepare the data with the right vocabulary");
  }
  config.model.vocabulary = pieces;
  if (options.threads > 0) config.threads = options.threads;
  if (config.threads == 0) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    config.threads = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
  }
  if (config.ranks != 1) {
    throw base::Error(base::Code::User, "ranks is " + std::to_string(config.ranks) +
                                            ", but this version trains on one rank; set ranks: 1");
  }
  return config;
}

std::optional<double> target_value(const RunConfig& config, double baseline) {
  if (!config.target) return std::nullopt;
  if (config.target->value) return config.target->value;
  return *config.target->times_baseline * baseline;
}

bool meets(const RunConfig& config, const std::optional<double>& target, const EvalRecord& record) {
  if (!target) return false;
  return config.target->metric == TargetMetric::MlmAccuracy ? record.mlm_accuracy >= *target
                                                            : record.mlm_loss <= *target;
}

// Everything of one attempt that lives from its first to its last step.
class Attempt {
 public:
  Attempt(base::FileSystem& files, base::Clock& clock, const RunDirectory& directory,
          const AttemptName& name, const Fence& fence, JournalWriter& journal,
          const TrainingRunOptions& options)
      : files_(files),
        clock_(clock),
        directory_(directory),
        name_(name),
        fence_(fence),
        journal_(journal),
        options_(options) {}

  EndRecord run() {
    journal_.write(PhaseRecord{"loading"});
    const RunConfig parsed =
        parse_run_config(directory_.run_json(), (directory_.path() / "run.json").string());
    const Dataset dataset = Dataset::open(parsed.data.path);
    config_ = complete_config(directory_, dataset, parsed, options_);
    const SampleSource training(dataset, Split::Training, config_.data, config_.seed,
                                config_.shuffle_labels);
    evaluation_ = evaluation_samples(dataset, config_.data, config_.evaluate_samples);
    const double baseline = constant_guess_accuracy(evaluation_);
    target_ = target_value(config_, baseline);

    const std::unique_ptr<Device> device = make_device(
        {config_.device, config_.dtype, config_.attention, config_.threads}, options_.place);
    SingleCommunicator communicator;
    const TensorTable table = make_tensor_table(config_.model);
    const topology::Plan plan = topology::default_plan(static_cast<int>(table.tensors.size()));
    TrainLoop loop(*device, communicator, clock_, config_, plan, training);
    loop_ = &loop;
    CheckpointKeeper keeper(files_, clock_, directory_, fence_, config_, table,
                            dataset.fingerprint(), name_.execution);
    keeper_ = &keeper;
    const Resumed start = starting_point(table);
    write_environment(files_, directory_.attempt_path(name_) / "environment.json",
                      {options_.place.program, device->description(), config_.threads,
                       dataset.fingerprint(), model_fingerprint(config_.model)});
    announce(table, start, baseline);
    return train(start.step);
  }

 private:
  Resumed starting_point(const TensorTable& table) {
    std::vector<CheckpointRecord> skipped;
    std::optional<Resumed> resumed = keeper_->load(&skipped);
    for (const CheckpointRecord& record : skipped) journal_.write(record);
    if (!resumed) {
      resumed.emplace();
      resumed->state.parameters = initial_weights(table, config_.seed);
    }
    loop_->load(resumed->state);
    resumed->state = {};
    return std::move(*resumed);
  }

  void announce(const TensorTable& table, const Resumed& start, double baseline) {
    StartRecord record;
    record.attempt = name_.number;
    record.execution = name_.execution;
    record.epoch = fence_.epoch();
    record.process = getpid();
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    record.host = host;
    record.version = REGATTA_VERSION;
    record.parameters = table.parameter_count;
    record.steps = config_.steps;
    record.batch_size = config_.batch_size;
    record.first_step = start.step;
    record.checkpoint = start.name;
    const bool by_loss = config_.target && config_.target->metric == TargetMetric::MlmLoss;
    record.metric = by_loss ? "mlm_loss" : "mlm_accuracy";
    record.target = target_;
    record.baseline = baseline;
    journal_.write(record);
    base::log(base::LogLevel::Info,
              start.name.empty()
                  ? "training " + std::to_string(table.parameter_count) + " parameters from scratch"
                  : "resumed from " + start.name);
  }

  EndRecord train(std::int64_t done) {
    // An attempt that resumes where an evaluation was due may have lost its record: it is repeated.
    if (done == 0 || evaluation_due(done)) {
      if (evaluate(done) && config_.stop_at_target) return finish("target", done);
    }
    journal_.write(PhaseRecord{"training"});
    while (done < config_.steps) {
      const Requests requests = take_requests();
      if (requests.stop) return finish("stopped", done);
      if (requests.checkpoint) checkpoint(done);
      journal_.write(loop_->step(++done));
      if (evaluation_due(done) && evaluate(done) && config_.stop_at_target) {
        return finish("target", done);
      }
      if (done % config_.checkpoint_every == 0 && done < config_.steps) checkpoint(done);
    }
    return finish("steps", done);
  }

  bool evaluation_due(std::int64_t done) const {
    return done % config_.evaluate_every == 0 || done == config_.steps;
  }

  // True when the target is met.
  bool evaluate(std::int64_t done) {
    EvalRecord record = loop_->evaluate(evaluation_, done);
    record.target_met = meets(config_, target_, record);
    metric_ = config_.target && config_.target->metric == TargetMetric::MlmLoss
                  ? record.mlm_loss
                  : record.mlm_accuracy;
    journal_.write(record);
    return record.target_met;
  }

  void checkpoint(std::int64_t done) {
    if (keeper_->last_step() == done) return;
    if (!fence_.holds()) throw Fenced{};
    for (const CheckpointRecord& record : keeper_->write(done, loop_->save(), metric_)) {
      journal_.write(record);
      if (record.status == "failed") base::log(base::LogLevel::Warning, record.message);
    }
  }

  EndRecord finish(const std::string& reason, std::int64_t done) {
    checkpoint(done);
    EndRecord end;
    end.reason = reason;
    end.step = done;
    end.exit_code = static_cast<int>(reason == "stopped" ? ExitCode::Stopped : ExitCode::Finished);
    if (keeper_->last_step() != done) {
      end.reason = "failed";
      end.exit_code = static_cast<int>(ExitCode::Operator);
      end.message = "the last checkpoint could not be written; make room on the disk and resume";
    }
    return end;
  }

  base::FileSystem& files_;
  base::Clock& clock_;
  RunDirectory directory_;
  AttemptName name_;
  Fence fence_;
  JournalWriter& journal_;
  TrainingRunOptions options_;
  RunConfig config_;
  std::vector<Sample> evaluation_;
  std::optional<double> target_;
  std::optional<double> metric_;  // of the last evaluation
  TrainLoop* loop_ = nullptr;
  CheckpointKeeper* keeper_ = nullptr;
};

EndRecord failure(ExitCode code, const std::string& reason, const std::string& message) {
  EndRecord end;
  end.reason = reason;
  end.exit_code = static_cast<int>(code);
  end.message = message;
  return end;
}

}  // namespace

ExitCode train(base::FileSystem& files, base::Clock& clock, const RunDirectory& directory,
               const TrainingRunOptions& options) {
  RunDirectory owned = directory;
  const AttemptName name = owned.create_attempt();
  const Fence fence(owned, owned.take_epoch());
  JournalWriter journal(files, clock, owned, name, fence);
  EndRecord end;
  try {
    Attempt attempt(files, clock, owned, name, fence, journal, options);
    end = attempt.run();
  } catch (const Fenced&) {
    end = failure(ExitCode::Fenced, "fenced", "a newer attempt owns the run");
  } catch (const base::Error& error) {
    end = failure(exit_code_of(error.code()), "failed", error.what());
  } catch (const std::exception& error) {
    end = failure(ExitCode::Developer, "failed", error.what());
  }
  journal.write_end(end);
  if (!end.message.empty()) base::log(base::LogLevel::Error, end.message);
  base::log(base::LogLevel::Info, "ended: " + end.reason + " at step " + std::to_string(end.step));
  return static_cast<ExitCode>(end.exit_code);
}

}  // namespace regatta::trainer
