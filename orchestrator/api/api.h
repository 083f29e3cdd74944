// The routes of /api/v1, and the page for everything else.
#pragma once

#include <mutex>

#include "base/clock.h"
#include "orchestrator/api/bench_book.h"
#include "orchestrator/api/checkpoint_api.h"
#include "orchestrator/api/experiment_reader.h"
#include "orchestrator/api/http.h"
#include "orchestrator/api/log_api.h"
#include "orchestrator/api/routes.h"
#include "orchestrator/control/controller.h"
#include "orchestrator/control/sweep_driver.h"
#include "orchestrator/plan/run_plan.h"
#include "orchestrator/slurm/node_table.h"
#include "orchestrator/webhooks/webhooks.h"

namespace regatta::orchestrator::api {

struct ApiOptions {
  base::Path page_directory{};  // serve_page()
  CheckpointApiOptions checkpoints{};
  slurm::NodeTable* nodes = nullptr;          // null where runs are processes of this machine
  files::SharedFiles* shared = nullptr;       // null: files are touched in the caller's thread
  webhooks::Webhooks* webhooks = nullptr;     // null: there are none
  std::string commit{};                       // that this program was built from; empty: not known
  const plan::RunPlanner* planner = nullptr;  // null: runs are not planned
  control::SweepDriver* sweeps = nullptr;     // null: there are none
};

class Api {
 public:
  // Everything, the options' pointers included, outlives the API.
  Api(control::Controller& controller, base::FileSystem& files, base::Clock& clock,
      ApiOptions options)
      : controller_(controller),
        files_(files),
        clock_(clock),
        checkpoint_api_(files, clock, std::move(options.checkpoints), options.shared),
        page_directory_(std::move(options.page_directory)),
        nodes_(options.nodes),
        shared_(options.shared),
        webhooks_(options.webhooks),
        commit_(std::move(options.commit)),
        planner_(options.planner),
        sweeps_(options.sweeps),
        experiment_reader_(clock) {}

  // Thread-safe. Never throws base::Error: errors become their status and JSON.
  [[nodiscard]] Response handle(const Request& request);

  // Those of checkpoints that were asked for before then, and are still there; each is an event.
  void remove_exports_before(double utc);

  // Whether the store answers.
  [[nodiscard]] bool is_ready();

  // All that are served; handle() knows no other.
  [[nodiscard]] static std::span<const Route> routes();

 private:
  // The table's parts (route_table.cc).
  [[nodiscard]] static std::vector<Route> controller_routes();
  [[nodiscard]] static std::vector<Route> sweep_routes();
  [[nodiscard]] static std::vector<Route> experiment_routes();
  [[nodiscard]] static std::vector<Route> run_routes();
  [[nodiscard]] static std::vector<Route> checkpoint_routes();

  [[nodiscard]] Response answer(const Request& request);

  // What the routes do.
  [[nodiscard]] Response version(const Call& call);
  [[nodiscard]] Response health(const Call& call);
  [[nodiscard]] Response document(const Call& call);
  [[nodiscard]] Response run_file_schema(const Call& call);
  [[nodiscard]] Response nodes(const Call& call);
  [[nodiscard]] Response topology(const Call& call);
  [[nodiscard]] Response findings(const Call& call);
  [[nodiscard]] Response events(const Call& call);
  [[nodiscard]] Response event_stream(const Call& call);
  [[nodiscard]] Response webhooks(const Call& call);
  [[nodiscard]] Response redeliver(const Call& call);
  [[nodiscard]] Response node_benches(const Call& call);
  [[nodiscard]] Response add_node_bench(const Call& call);
  [[nodiscard]] Response remove_node_bench(const Call& call);
  [[nodiscard]] Response references(const Call& call);
  [[nodiscard]] Response add_reference(const Call& call);
  [[nodiscard]] Response show_reference(const Call& call);
  [[nodiscard]] Response remove_reference(const Call& call);
  [[nodiscard]] Response sweeps(const Call& call);
  [[nodiscard]] Response add_sweep(const Call& call);
  [[nodiscard]] Response sweep(const Call& call);
  [[nodiscard]] Response sweep_table(const Call& call);
  [[nodiscard]] Response stop_sweep(const Call& call);
  [[nodiscard]] Response remove_sweep(const Call& call);
  [[nodiscard]] Response experiments(const Call& call);
  [[nodiscard]] Response experiment(const Call& call);
  [[nodiscard]] Response experiment_table(const Call& call);
  [[nodiscard]] Response list(const Call& call);
  [[nodiscard]] Response submit(const Call& call);
  [[nodiscard]] Response show(const Call& call);
  [[nodiscard]] Response remove(const Call& call);
  [[nodiscard]] Response archive(const Call& call);
  [[nodiscard]] Response cancel(const Call& call);
  [[nodiscard]] Response label(const Call& call);
  [[nodiscard]] Response requeue(const Call& call);
  [[nodiscard]] Response resume(const Call& call);
  [[nodiscard]] Response extend(const Call& call);
  [[nodiscard]] Response change(const Call& call);
  [[nodiscard]] Response fork(const Call& call);
  [[nodiscard]] Response metrics(const Call& call);
  [[nodiscard]] Response charts(const Call& call);
  [[nodiscard]] Response attempts(const Call& call);
  [[nodiscard]] Response evaluations(const Call& call);
  [[nodiscard]] Response history(const Call& call);
  [[nodiscard]] Response time_to_accuracy(const Call& call);
  [[nodiscard]] Response logs(const Call& call);
  [[nodiscard]] Response list_log_files(const Call& call);
  [[nodiscard]] Response search_log(const Call& call);
  [[nodiscard]] Response download_log(const Call& call);
  [[nodiscard]] Response explain(const Call& call);
  [[nodiscard]] Response environment(const Call& call);
  [[nodiscard]] Response speed(const Call& call);
  [[nodiscard]] Response learning(const Call& call);
  [[nodiscard]] Response plan(const Call& call);
  [[nodiscard]] Response checkpoints(const Call& call);
  [[nodiscard]] Response collect_checkpoints(const Call& call);
  [[nodiscard]] Response show_checkpoint(const Call& call);
  [[nodiscard]] Response verify_checkpoint(const Call& call);
  [[nodiscard]] Response pin_checkpoint(const Call& call);
  [[nodiscard]] Response unpin_checkpoint(const Call& call);
  [[nodiscard]] Response show_export(const Call& call);
  [[nodiscard]] Response export_checkpoint(const Call& call);
  [[nodiscard]] Response remove_export(const Call& call);
  [[nodiscard]] Response checkpoint_file(const Call& call);
  [[nodiscard]] Response checkpoint_archive(const Call& call);
  [[nodiscard]] Response export_file(const Call& call);
  [[nodiscard]] Response export_archive(const Call& call);

  // What `answer` makes of a run and the one that it is held against.
  using AnswerTwo = Response (*)(base::FileSystem&, files::SharedFiles*, const runs::Run&,
                                 const runs::Run&);
  [[nodiscard]] Response compared(const Call& call, AnswerTwo answer_two);
  // What is read from files is read without a connection of the store in hand.
  [[nodiscard]] runs::Run find(const Call& call);
  [[nodiscard]] Response told(const Call& call, const runs::Run& run, Response response,
                              const char* kind);
  // Where the store cannot take it, the log has it.
  void note(const store::Event& event);
  void follow_nodes(const Call& call, double seconds);
  [[nodiscard]] Response show_reference(const std::string& name);
  void judge_bench(const runs::NodeBench& bench);
  [[nodiscard]] LogPlace logs_of(const Call& call);
  [[nodiscard]] Response answer_accepted(const control::Controller::Accepted& accepted);
  enum class Secrets { Hidden, Shown };
  [[nodiscard]] Response answer_with(const std::string& run, Secrets secrets);
  [[nodiscard]] Response answer_after(const Call& call, bool changed);
  [[nodiscard]] std::optional<runs::Contact> contact_of(
      const std::vector<runs::Launch>& launches) const;

  control::Controller& controller_;
  base::FileSystem& files_;
  base::Clock& clock_;
  CheckpointApi checkpoint_api_;
  base::Path page_directory_;
  slurm::NodeTable* nodes_;
  files::SharedFiles* shared_;
  webhooks::Webhooks* webhooks_;
  const std::string commit_;
  const plan::RunPlanner* planner_;
  control::SweepDriver* sweeps_;
  ExperimentReader experiment_reader_;
  BenchBook benches_;
  std::once_flag looked_;
  Response findings_;  // once looked_
};

}  // namespace regatta::orchestrator::api
