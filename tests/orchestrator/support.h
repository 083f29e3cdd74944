// What the orchestrator's tests share: a folder of their own, a clock and a scheduler that do as
// told.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/file_system.h"
#include "orchestrator/runs/scheduler.h"
#include "tests/base/faulty_file_system.h"
#include "trainer/contract/journal.h"
#include "trainer/contract/run_directory.h"

namespace regatta::tests {

inline void write_file(const base::Path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

// True once `condition` holds; false after a minute, which only a broken program needs.
inline bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (std::chrono::steady_clock::now() < deadline) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return condition();
}

class SimulatedClock final : public base::Clock {
 public:
  [[nodiscard]] double monotonic_seconds() const override { return now; }
  [[nodiscard]] double utc_seconds() const override { return 1.7e9 + now; }
  void sleep(std::chrono::duration<double> duration) override { now += duration.count(); }
  std::atomic<double> now = 0;  // read on the server's threads, too
};

// Thrown by the scripted scheduler where the controller is to "die".
struct ControllerDies {};

class ScriptedScheduler final : public orchestrator::runs::Scheduler {
 public:
  [[nodiscard]] std::string name() const override { return called; }
  [[nodiscard]] std::string why_not_now() override { return away; }
  [[nodiscard]] std::string submit(const orchestrator::runs::LaunchRequest& request) override {
    if (refuse_for_now) throw base::Error(base::Code::Conflict, "the partition is down");
    if (refuse) throw base::Error(base::Code::Operator, "cannot start: no such program");
    if (lose_submissions) throw base::Error(base::Code::Retry, "no answer");
    launches.push_back(request);
    const std::string handle = "h" + std::to_string(launches.size());
    by_token[request.token] = handle;
    reports[handle] = {orchestrator::runs::ProcessState::Running, std::nullopt, std::nullopt, ""};
    if (die_after_submit) throw ControllerDies{};
    if (lose_answers) throw base::Error(base::Code::Retry, "no answer");
    return handle;
  }
  [[nodiscard]] orchestrator::runs::SchedulerFinding find(const std::string& token,
                                                          double) override {
    if (!answers) return {false, std::nullopt};
    const auto it = by_token.find(token);
    if (it == by_token.end()) return {true, std::nullopt};
    return {true, it->second};
  }
  [[nodiscard]] std::optional<std::string> adopt(std::int64_t process, const base::Path&) override {
    const std::string handle = "p" + std::to_string(process);
    if (reports.count(handle) == 0) return std::nullopt;
    return handle;
  }
  [[nodiscard]] bool is_gone(std::int64_t process) const override {
    return gone.count(process) > 0;
  }
  [[nodiscard]] orchestrator::runs::ProcessReport poll(const std::string& handle) override {
    const auto it = reports.find(handle);
    if (it == reports.end()) {
      return {orchestrator::runs::ProcessState::Gone, std::nullopt, std::nullopt, ""};
    }
    return it->second;
  }
  void stop(const std::string& handle) override { stopped.push_back(handle); }
  void kill(const std::string& handle) override { killed.push_back(handle); }

  void end(const std::string& handle, int code) {
    reports[handle] = {orchestrator::runs::ProcessState::Ended, code, std::nullopt, ""};
  }
  void end_by_signal(const std::string& handle, int signal) {
    reports[handle] = {orchestrator::runs::ProcessState::Ended, std::nullopt, signal, ""};
  }

  void avoid(const std::string& handle, const std::vector<std::string>& nodes) override {
    avoided.emplace_back(handle, nodes);
  }
  [[nodiscard]] std::optional<std::vector<std::string>> usable_nodes(
      const trainer::contract::SlurmResources&) override {
    return usable;
  }

  void limit(const std::string& handle, std::int64_t minutes) override {
    limits.emplace_back(handle, minutes);
  }
  [[nodiscard]] std::optional<orchestrator::runs::LimitAnswer> take_limit_answer(
      const std::string& handle) override {
    const auto node = limit_answers.extract(handle);
    if (node.empty()) return std::nullopt;
    return node.mapped();
  }
  [[nodiscard]] std::vector<std::string> lost_nodes() override { return lost; }
  [[nodiscard]] std::optional<orchestrator::runs::Contact> contact(const std::string&) override {
    return slurm;
  }
  [[nodiscard]] std::optional<orchestrator::runs::Asking> asking() override { return asked; }
  void somebody_looks() override { ++looks; }

  std::string called = "scripted";
  std::string away;  // why nothing can be submitted now
  bool refuse = false;
  bool refuse_for_now = false;
  bool die_after_submit = false;
  bool lose_submissions = false;  // nothing is started, and nobody knows
  bool lose_answers = false;      // it is started, and nobody knows
  bool answers = true;            // find() knows
  std::vector<orchestrator::runs::LaunchRequest> launches;
  std::map<std::string, std::string> by_token;
  std::map<std::string, orchestrator::runs::ProcessReport> reports;
  std::set<std::int64_t> gone;  // processes
  std::vector<std::string> stopped, killed;
  std::optional<std::vector<std::string>> usable;    // nothing: not known
  std::vector<std::string> lost;                     // nodes
  std::optional<orchestrator::runs::Contact> slurm;  // nothing: nobody has to be asked
  std::optional<orchestrator::runs::Asking> asked;
  int looks = 0;
  std::vector<std::pair<std::string, std::vector<std::string>>> avoided;
  std::vector<std::pair<std::string, std::int64_t>> limits;
  std::map<std::string, orchestrator::runs::LimitAnswer> limit_answers;  // to be taken, by handle
};

// Writes an attempt's journal with times as told.
class JournalAuthor {
 public:
  JournalAuthor(trainer::contract::RunDirectory directory, double start_utc)
      : directory_(std::move(directory)),
        name_(directory_.create_attempt()),
        start_utc_(start_utc),
        path_(directory_.journal_path(name_)) {
    write_file(path_, "");
  }

  template <typename Body>
  std::string line(double seconds, const Body& body) {
    trainer::contract::JournalRecord record;
    record.sequence = sequence_++;
    record.seconds = seconds;
    record.utc_seconds = start_utc_ + seconds;
    record.body = body;
    return trainer::contract::to_line(record);
  }
  template <typename Body>
  void add(double seconds, const Body& body) {
    append(line(seconds, body));
  }
  void append(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary | std::ios::app) << bytes;
  }

  void start(double seconds, std::int64_t first_step = 0, std::int64_t process = 1234) {
    start(seconds, first_step, process, trainer::contract::StartRecord{});
  }
  // Four ranks, two buckets.
  void start_four_ranks(double seconds, std::int64_t first_step = 0) {
    trainer::contract::StartRecord record;
    record.ranks = 4;
    record.ranks_per_node = 2;
    record.device = "cpu: \x1b[1mfour cores";
    record.peak_flops = 4e11;
    record.bucket_bytes = {4096, 1024};
    start(seconds, first_step, 1234, record);
  }
  void start(double seconds, std::int64_t first_step, std::int64_t process,
             trainer::contract::StartRecord record) {
    record.attempt = name_.number;
    record.execution = name_.execution;
    record.process = process;
    record.steps = 100;
    record.batch_size = 8;
    record.first_step = first_step;
    record.metric = "mlm_accuracy";
    record.target = 0.5;
    record.baseline = 0.1;
    add(seconds, record);
  }
  void step(double seconds, std::int64_t step, double step_seconds = 0.5) {
    trainer::contract::StepRecord record;
    record.step = step;
    record.loss = 1.0 / static_cast<double>(step);
    record.mlm_loss = record.loss;
    record.samples = 8;
    record.tokens = 800;
    record.seconds = step_seconds;
    add(seconds, record);
  }
  // A step of four ranks; its figures grow with its number.
  static trainer::contract::StepRecord step_of_four_ranks(std::int64_t step) {
    trainer::contract::StepRecord record;
    record.step = step;
    record.loss = 1;
    record.samples = 8;
    record.tokens = 800;
    record.seconds = 0.5;
    record.data_seconds = 0.01;
    record.forward_seconds = 0.14;
    record.backward_seconds = 0.25;
    record.reduce_seconds = 0.05;
    record.optimizer_seconds = 0.05;
    record.exposed_seconds = 0.05;
    record.bucket_launched = {0.3, 0.4};
    record.bucket_finished = {0.35, 0.45};
    record.imbalance = 1.25;
    record.moved_bytes = 100 * step;
    record.noise_scale = 600.0 + static_cast<double>(step);
    record.noise_scale_low = *record.noise_scale - 100;
    record.noise_scale_high = *record.noise_scale + 200;
    record.efficiency = 0.75;
    record.goodput = 12;
    record.mfu = 0.25;
    record.utilisation = 0.875;
    return record;
  }
  void evaluation(double seconds, std::int64_t step, double accuracy) {
    trainer::contract::EvalRecord record;
    record.step = step;
    record.mlm_accuracy = accuracy;
    record.mlm_loss = 1;
    record.target_met = accuracy >= 0.5;
    add(seconds, record);
  }
  void checkpoint(double seconds, std::int64_t step, const std::string& status = "written") {
    trainer::contract::CheckpointRecord record;
    record.step = step;
    record.name = "step-" + std::to_string(step);
    record.status = status;
    record.bytes = 10;
    add(seconds, record);
  }
  void end(double seconds, int exit_code, const std::string& message = "") {
    trainer::contract::EndRecord record;
    record.reason = "scripted";
    record.exit_code = exit_code;
    record.message = message;
    add(seconds, record);
  }
  [[nodiscard]] const trainer::contract::AttemptName& name() const { return name_; }
  [[nodiscard]] const base::Path& path() const { return path_; }

 private:
  trainer::contract::RunDirectory directory_;
  trainer::contract::AttemptName name_;
  double start_utc_;
  base::Path path_;
  std::int64_t sequence_ = 0;
};

inline std::string run_file(const std::string& data = "/nowhere") {
  return "name: demo\nsteps: 100\ndata: {path: " + data + "}\n";
}

}  // namespace regatta::tests
