// A scheduler and the jobs that it runs, simulated: jobs wait, start, train, write journals and
// checkpoints, end in every manner, and answers come late or never.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/runs/scheduler.h"
#include "tests/orchestrator/simulation/chance.h"
#include "tests/orchestrator/simulation/memory_disk.h"
#include "tests/orchestrator/support.h"
#include "trainer/contract/journal.h"
#include "trainer/contract/run_directory.h"

namespace regatta::tests::simulation {

struct Job {
  std::string handle, token;
  base::Path directory;
  double submitted = 0;  // monotonic, as all of these
  double arrives = 0;    // until then only the sender's message exists
  double starts = 0;     // while it waits
  double acts = 0;       // the next thing that it does
  orchestrator::runs::ProcessReport report;
  // The attempt that is under way.
  std::optional<trainer::contract::AttemptName> attempt;
  std::unique_ptr<base::WritableFile> journal;
  std::int64_t epoch = 0, sequence = 0, step = 0;
  std::int64_t goal = 0;  // its run file's steps, when the attempt began
  double began = 0;
  std::string torn;              // the rest of a line of which the first part is written
  std::optional<double> stops;   // when TERM reaches it
  std::optional<double> killed;  // and KILL
  bool ended = false;
  bool after_the_end = false;  // submitted for a run that had finished
};

// What is true of a run, whatever the controller thinks.
struct Truth {
  std::int64_t checkpoint = 0;
  bool finished = false;
  std::int64_t steps = 0;  // that it had when it finished last
  int jobs = 0;
};

class Cluster final : public orchestrator::runs::Scheduler {
 public:
  static constexpr std::int64_t kSteps = 12;

  // files: the jobs' mount. All outlive the cluster.
  Cluster(Mount& files, SimulatedClock& clock, Life& life, Chance& chance)
      : files_(files), clock_(clock), life_(life), chance_(chance) {}

  // From now on nothing goes wrong.
  void calm() { calm_ = true, silent_until_ = 0; }
  void be_silent(double seconds) { silent_until_ = clock_.now + seconds; }
  // Everything that jobs do until now.
  void advance();
  // Ones that exist or will.
  [[nodiscard]] std::vector<const Job*> live() const;
  [[nodiscard]] const std::vector<std::unique_ptr<Job>>& jobs() const { return jobs_; }
  [[nodiscard]] const Truth& truth(const base::Path& directory) { return truths_[directory]; }
  // Whether it has trained all that its run file asks for.
  [[nodiscard]] bool has_finished(const base::Path& directory);
  // Of the run file there; 0: there is none.
  [[nodiscard]] std::int64_t steps_of(const base::Path& directory);

  [[nodiscard]] std::string name() const override { return "simulated"; }
  [[nodiscard]] std::string why_not_now() override;
  [[nodiscard]] std::string submit(const orchestrator::runs::LaunchRequest& request) override;
  [[nodiscard]] orchestrator::runs::SchedulerFinding find(const std::string& token,
                                                          double since_utc) override;
  [[nodiscard]] std::optional<std::string> adopt(std::int64_t, const base::Path&) override {
    return std::nullopt;
  }
  [[nodiscard]] orchestrator::runs::ProcessReport poll(const std::string& handle) override;
  void stop(const std::string& handle) override;
  void kill(const std::string& handle) override;

 private:
  [[nodiscard]] bool silent() const { return clock_.now < silent_until_; }
  [[nodiscard]] Job* find_job(const std::string& handle);
  Job& add(const orchestrator::runs::LaunchRequest& request, double delay);
  void act(Job* job);
  void begin_attempt(Job* job);
  void train(Job* job);
  [[nodiscard]] bool write(Job* job, const std::string& line);
  template <typename Body>
  bool record(Job* job, const Body& body);
  void save(Job* job);
  void finish(Job* job, int code, const std::string& reason);
  void end(Job* job, std::optional<int> code, std::optional<int> signal,
           orchestrator::runs::Cause cause);
  void go_wrong(Job* job);

  Mount& files_;
  SimulatedClock& clock_;
  Life& life_;
  Chance& chance_;
  bool calm_ = false;
  double silent_until_ = 0;
  std::vector<std::unique_ptr<Job>> jobs_;
  std::map<base::Path, Truth> truths_;
};

}  // namespace regatta::tests::simulation
