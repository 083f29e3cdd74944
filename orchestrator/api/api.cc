#include "orchestrator/api/api.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "orchestrator/api/accuracy_json.h"
#include "orchestrator/api/answers.h"
#include "orchestrator/api/change_api.h"
#include "orchestrator/api/charts.h"
#include "orchestrator/api/environment_api.h"
#include "orchestrator/api/event_api.h"
#include "orchestrator/api/experiment_api.h"
#include "orchestrator/api/explain.h"
#include "orchestrator/api/health.h"
#include "orchestrator/api/history_json.h"
#include "orchestrator/api/label_api.h"
#include "orchestrator/api/learning_api.h"
#include "orchestrator/api/node_json.h"
#include "orchestrator/api/openapi.h"
#include "orchestrator/api/page.h"
#include "orchestrator/api/preview_json.h"
#include "orchestrator/api/removal_api.h"
#include "orchestrator/api/run_json.h"
#include "orchestrator/api/run_list.h"
#include "orchestrator/api/run_parts.h"
#include "orchestrator/api/shown_config.h"
#include "orchestrator/api/speed_api.h"
#include "orchestrator/api/sweep_api.h"
#include "orchestrator/api/topology_json.h"
#include "orchestrator/api/webhook_api.h"
#include "orchestrator/checkpoints/checkpoint_tools.h"
#include "orchestrator/control/journal_pulse.h"
#include "orchestrator/control/reconcile.h"
#include "orchestrator/control/request_error.h"
#include "orchestrator/control/request_key.h"
#include "orchestrator/control/run_lookup.h"
#include "orchestrator/files/shared_files.h"
#include "orchestrator/runs/run_records.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/run_schema.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kBase = "/api/v1/";
constexpr int kMostStepRows = 2000;

// Tags of the query, which are no key of the body.
void refuse_bad_tags(const runs::LabelChange& label) {
  (void)control::by_parameter("tags", [&] { return runs::changed({}, label); });
}

}  // namespace

Response Api::handle(const Request& request) {
  Response response = answer(request);
  if (request.path.rfind(kBase, 0) != 0) return response;
  if (const auto trouble = controller_.store().trouble()) {
    response.headers[kTroubleHeader] = base::printable(*trouble);
  }
  return response;
}

Response Api::answer(const Request& request) {
  try {
    if (request.path.rfind(kBase, 0) != 0) {
      if (request.path == "/api" || request.path.rfind("/api/", 0) == 0) {
        return error_response(404, "not_found", "no such address; the API is under /api/v1");
      }
      if (request.method != "GET") return wrong_method("GET, HEAD");
      return serve_page(request, page_directory_);
    }
    const auto found = find_route(
        routes(), request,
        base::split(std::string_view(request.path).substr(std::string(kBase).size()), '/'));
    if (const auto* refused = std::get_if<Response>(&found)) return *refused;
    const auto& call = std::get<Call>(found);
    // Of a dry run too, which is to say what the request itself would.
    const auto key = call.route.may_have_key ? key_of(request) : std::nullopt;
    if (key) control::check_key(*key);
    return (this->*call.route.handle)(call);
  } catch (const control::RequestError& error) {
    return parameter_problem(error);
  } catch (const base::Error& error) {
    if (base::meaning(error.code()).http_status >= 500) {
      base::log(base::LogLevel::Error, std::string(error.what()) + " (request " + request.id + ")");
    }
    return error_response(error, request.body);
  }
}

Response Api::version(const Call&) {
  return json_response(200, version_json(commit_, controller_.scheduler_name(),
                                         controller_.runs_directory(), controller_.adoption()));
}

Response Api::health(const Call&) {
  return json_response(
      200, health_json(controller_, clock_.utc_seconds(), files_, shared_,
                       webhooks_ == nullptr ? std::vector<webhooks::Status>{} : webhooks_->status(),
                       sweeps_ == nullptr ? std::vector<std::string>{} : sweeps_->faults()));
}

bool Api::is_ready() { return check_store(controller_).good; }

Response Api::document(const Call&) { return json_response(200, openapi_document()); }

Response Api::run_file_schema(const Call&) {
  return json_response(200, base::parse_json<Json>(trainer::contract::run_file_schema()));
}

runs::Run Api::find(const Call& call) {
  store::Snapshot store = controller_.store().snapshot();
  return control::find_run(store, call.names.at(0));
}

Response Api::show(const Call& call) {
  return answer_with(call.names.at(0), call.flag("secrets") ? Secrets::Shown : Secrets::Hidden);
}

Response Api::answer_with(const std::string& name, Secrets secrets) {
  store::Snapshot store = controller_.store().snapshot();
  const runs::Run run = control::find_run(store, name);
  const RunParts parts = read_parts(store, run.number);
  const double now = clock_.utc_seconds();
  Json json = run_json(run, parts, now);
  json["slurm"] = runs::is_over(run.state) ? Json() : contact_json(contact_of(parts.launches), now);
  if (secrets == Secrets::Shown) json["config"] = whole_config(run.config);
  return json_response(200, json);
}

Response Api::remove(const Call& call) {
  return remove_run(controller_, call.names.at(0),
                    {call.flag("dry_run"), call.flag("pinned_too"), asker_of(call.request.peer),
                     key_of(call.request)});
}
Response Api::archive(const Call& call) {
  return archive_run(controller_, call.names.at(0),
                     call.flag("dry_run") ? control::DryRun::Yes : control::DryRun::No,
                     asker_of(call.request.peer), key_of(call.request));
}

// What was done to a checkpoint is an event, where it was done; and it was done, whether or not the
// store can take it.
Response Api::told(const Call& call, const runs::Run& run, Response response, const char* kind) {
  if (response.status >= 300 || *kind == '\0') return response;
  store::Event event;
  event.kind = kind;
  event.run = run.id;
  if (call.names.size() > 1) {  // which may be its step, or "latest"
    event.checkpoint = base::parse_json<Json>(response.body).value("name", call.names[1]);
  }
  event.by = asker_of(call.request.peer);
  note(event);
  return response;
}

void Api::note(const store::Event& event) {
  try {
    controller_.store().note(event);
  } catch (const base::Error& error) {
    base::log(base::LogLevel::Warning, "run " + event.run + ": no event tells of " + event.kind +
                                           (event.by.empty() ? "" : " by " + event.by) + ": " +
                                           error.what());
  }
}

Response Api::collect_checkpoints(const Call& call) {
  using Gc = checkpoints::CheckpointTools::Gc;
  const bool dry_run = call.flag("dry_run");
  const runs::Run run = find(call);
  return told(call, run, checkpoint_api_.collect(run, dry_run ? Gc::DryRun : Gc::Remove),
              dry_run ? "" : "checkpoint.collected");
}
Response Api::show_checkpoint(const Call& call) {
  return checkpoint_api_.show(find(call), call.names.at(1));
}
Response Api::verify_checkpoint(const Call& call) {
  return checkpoint_api_.verify(find(call), call.names.at(1));
}
Response Api::pin_checkpoint(const Call& call) {
  const runs::Run run = find(call);
  return told(call, run, checkpoint_api_.pin(call.request, run, call.names.at(1)),
              "checkpoint.pinned");
}
Response Api::unpin_checkpoint(const Call& call) {
  const runs::Run run = find(call);
  return told(call, run, checkpoint_api_.unpin(run, call.names.at(1)), "checkpoint.unpinned");
}
Response Api::show_export(const Call& call) {
  return checkpoint_api_.show_export(find(call), call.names.at(1));
}
Response Api::export_checkpoint(const Call& call) {
  const runs::Run run = find(call);
  return told(call, run, checkpoint_api_.begin_export(call.request, run, call.names.at(1)),
              "checkpoint.exported");
}

Response Api::remove_export(const Call& call) {
  const runs::Run run = find(call);
  return told(call, run, checkpoint_api_.remove_export(run, call.names.at(1)),
              "checkpoint.export_removed");
}
Response Api::checkpoint_file(const Call& call) {
  return checkpoint_api_.send_file(call.request, find(call), call.names.at(1), call.names.at(2));
}
Response Api::checkpoint_archive(const Call& call) {
  return checkpoint_api_.send_archive(call.request, find(call), call.names.at(1));
}
Response Api::export_file(const Call& call) {
  return checkpoint_api_.send_export_file(call.request, find(call), call.names.at(1),
                                          call.names.at(2));
}
Response Api::export_archive(const Call& call) {
  return checkpoint_api_.send_export_archive(call.request, find(call), call.names.at(1));
}

Response Api::checkpoints(const Call& call) {
  std::optional<runs::Run> run;
  Json rows;
  {
    store::Snapshot store = controller_.store().snapshot();
    run = control::find_run(store, call.names.at(0));
    rows = checkpoints_json(store, *run);
  }
  return checkpoint_list(checkpoint_api_.list(*run, std::move(rows)));
}

Response Api::nodes(const Call& call) {
  const auto query = parse_node_query(call);
  if (const auto* refused = std::get_if<Response>(&query)) return *refused;
  NodesAnswer answer;
  answer.scheduler = controller_.scheduler_name();
  answer.now_utc = clock_.utc_seconds();
  if (nodes_ != nullptr) {
    nodes_->want(clock_.monotonic_seconds());
    answer.nodes = nodes_->snapshot();
    const auto contact = controller_.contact("");
    if (contact && answer.nodes.trouble.empty()) answer.nodes.trouble = contact->trouble;
  } else {
    answer.nodes.taken_utc = answer.now_utc;
  }
  slurm::NodeRow machine = nodes_ == nullptr ? slurm::this_machine() : slurm::NodeRow();
  answer.benches = benches_.reports(controller_.store());  // before it has a connection in hand
  store::Snapshot store = controller_.store().snapshot();
  answer.events = store.node_events();
  const bool any_jobs = nodes_ == nullptr || !answer.nodes.jobs.empty();
  for (const auto& [run, launch] :
       any_jobs ? store.open_launches() : std::vector<store::OpenLaunch>()) {
    if (launch.over || launch.handle.empty()) continue;
    answer.run_by_token[launch.token] = run;
    if (nodes_ != nullptr || launch.handle == control::kByJournal) continue;
    answer.nodes.jobs[launch.token] = machine.name;
    machine.state = slurm::parse_node_state("MIXED");
  }
  if (nodes_ == nullptr) answer.nodes.rows = {std::move(machine)};
  return list_nodes(answer, std::get<NodeQuery>(query));
}

Response Api::topology(const Call& call) {
  return show_topology(planner_, call.flag("graph") ? GraphToo::Yes : GraphToo::No);
}

// The machines are those of the controller's start, and to look at all of them takes a while.
Response Api::findings(const Call&) {
  std::call_once(looked_, [this] { findings_ = show_findings(planner_); });
  return findings_;
}

// Whoever waits for what happens to nodes wants Slurm to be asked for it.
void Api::follow_nodes(const Call& call, double seconds) {
  const std::string kinds = call.text("kind").value_or("node");
  if (nodes_ != nullptr && kinds.find("node") != std::string::npos) {
    nodes_->follow(clock_.monotonic_seconds(), seconds);
  }
}

Response Api::events(const Call& call) {
  follow_nodes(call, 0);
  store::Snapshot store = controller_.store().snapshot();
  return list_events(store, call);
}

Response Api::event_stream(const Call& call) {
  follow_nodes(call, EventStreamLimits{}.longest_seconds);
  return stream_events(controller_.store(), clock_, call);
}

Response Api::webhooks(const Call&) { return list_webhooks(webhooks_, clock_.utc_seconds()); }

Response Api::redeliver(const Call& call) {
  return redeliver_webhook(webhooks_, call, clock_.utc_seconds());
}

Response Api::sweeps(const Call& call) { return list_sweeps(sweeps_, call); }
Response Api::add_sweep(const Call& call) { return submit_sweep(sweeps_, call); }
Response Api::sweep(const Call& call) { return show_sweep(sweeps_, call.names.at(0)); }
Response Api::sweep_table(const Call& call) { return sweep_trials(sweeps_, call.names.at(0)); }
Response Api::stop_sweep(const Call& call) { return api::stop_sweep(sweeps_, call); }
Response Api::remove_sweep(const Call& call) { return api::remove_sweep(sweeps_, call); }

Response Api::experiments(const Call& call) { return list_experiments(controller_.store(), call); }
Response Api::experiment(const Call& call) {
  return show_experiment(experiment_reader_, controller_.store(), call.names.at(0));
}
Response Api::experiment_table(const Call& call) {
  return experiment_markdown(experiment_reader_, controller_.store(), call.names.at(0));
}

Response Api::plan(const Call& call) {
  const runs::Run run = find(call);
  const base::Path path = base::Path(run.directory) / "plan.json";
  const auto text =
      files::call_if(shared_, run.directory, kRunFileSeconds, [files = &files_, path] {
        return files->exists(path)
                   ? std::optional(files->read(path, topology::plan::kMostPlanBytes))
                   : std::nullopt;
      });
  if (!text) return error_response(404, "not_found", "run " + run.id + " has no plan");
  const topology::plan::Plan plan = topology::plan::parse_plan(*text, path.string(), std::nullopt);
  return json_response(200,
                       base::parse_json<nlohmann::ordered_json>(topology::plan::to_json(plan)));
}

Response Api::environment(const Call& call) {
  const auto attempt = call.text("attempt") ? std::optional(call.integer("attempt")) : std::nullopt;
  return answer_environment(files_, shared_, find(call), attempt);
}

// A is what it is held against.
Response Api::compared(const Call& call, AnswerTwo answer_two) {
  const std::optional<std::string> against = call.text("against");
  if (!against) {
    return parameter_problem("against", "against is missing: name the run to compare with");
  }
  const auto both = [&] {  // no snapshot is held while files are read
    store::Snapshot store = controller_.store().snapshot();
    return std::pair(control::find_run(store, call.names.at(0)),
                     control::find_run(store, *against));
  }();
  return answer_two(files_, shared_, both.first, both.second);
}

Response Api::speed(const Call& call) { return compared(call, &answer_speed); }

Response Api::learning(const Call& call) { return compared(call, &answer_learning); }

Response Api::explain(const Call& call) {
  store::Snapshot store = controller_.store().snapshot();
  runs::Run run = control::find_run(store, call.names.at(0));
  if (run.state == runs::RunState::Queued && run.reason == control::kNoFreeSlot) {
    run.reason = place_in_line(run, store.unfinished_runs());
  }
  const trainer::contract::SlurmResources wanted = trainer::contract::slurm_resources_of(
      trainer::contract::parse_run_config(run.config, "run.json"));
  std::optional<std::vector<std::string>> usable;
  if (nodes_ != nullptr && nodes_->snapshot().taken_utc) {
    usable = slurm::usable_nodes(nodes_->snapshot(), wanted);
  }
  std::vector<slurm::Avoided> avoided;
  if (!usable || !usable->empty()) {
    avoided = slurm::nodes_to_avoid(store.node_events(), clock_.utc_seconds(), {},
                                    usable.value_or(std::vector<std::string>()),
                                    static_cast<std::size_t>(wanted.min_nodes));
  }
  controller_.somebody_looks();
  const RunParts parts = read_parts(store, run.number);
  return json_response(
      200, explain_json(run, parts, avoided, contact_of(parts.launches), clock_.utc_seconds()));
}

std::optional<runs::Contact> Api::contact_of(const std::vector<runs::Launch>& launches) const {
  const bool open = !launches.empty() && !launches.back().over;
  return controller_.contact(open ? launches.back().handle : "");
}

Response Api::list(const Call& call) {
  store::Snapshot store = controller_.store().snapshot();
  return list_runs(store, call, clock_.utc_seconds());
}

Response Api::submit(const Call& call) {
  const Request& request = call.request;
  const std::vector<std::string> after = call.words("after");
  runs::LabelChange label;
  label.tags = call.words("tags");
  refuse_bad_tags(label);
  if (call.flag("dry_run")) {
    return json_response(
        200, preview_json(controller_.preview(request.body, after), controller_.scheduler_name()));
  }
  const auto key = key_of(request);
  if (key && sweeps_ != nullptr) sweeps_->refuse_used_key(*key);
  const control::Controller::Accepted accepted =
      controller_.submit(request.body, key, after, asker_of(request.peer), label);
  return answer_accepted(accepted);
}

Response Api::answer_accepted(const control::Controller::Accepted& accepted) {
  controller_.somebody_looks();
  store::Snapshot store = controller_.store().snapshot();
  const RunParts parts = read_parts(store, accepted.run.number);
  Json json = run_json(accepted.run, parts, clock_.utc_seconds());
  Json warnings = accepted.doubts;
  for (const Json& warning : json["warnings"]) warnings.push_back(warning);
  json["warnings"] = std::move(warnings);
  Response response = json_response(accepted.created ? 201 : 200, json);
  response.headers["Location"] = std::string(kBase) + "runs/" + accepted.run.id;
  return response;
}

Response Api::label(const Call& call) {
  (void)controller_.label(call.names.at(0), parse_labels(call.request.body),
                          asker_of(call.request.peer));
  return answer_with(call.names.at(0), Secrets::Hidden);
}

Response Api::cancel(const Call& call) {
  const bool changed =
      controller_.cancel(call.names.at(0), asker_of(call.request.peer), key_of(call.request));
  controller_.somebody_looks();
  return answer_after(call, changed);
}

Response Api::requeue(const Call& call) {
  const bool changed = controller_.requeue(call.names.at(0), call.request.body,
                                           asker_of(call.request.peer), key_of(call.request));
  controller_.somebody_looks();
  return answer_after(call, changed);
}

// The run, and 202 where it is to be another one now.
Response Api::answer_after(const Call& call, bool changed) {
  Response response = answer_with(call.names.at(0), Secrets::Hidden);
  if (changed) response.status = 202;
  return response;
}

Response Api::resume(const Call& call) {
  const bool changed = controller_.resume(call.names.at(0), call.request.body,
                                          asker_of(call.request.peer), key_of(call.request));
  return answer_after(call, changed);
}

Response Api::extend(const Call& call) {
  const bool changed = controller_.extend(call.names.at(0), call.request.body, key_of(call.request),
                                          asker_of(call.request.peer));
  return answer_after(call, changed);
}

Response Api::change(const Call& call) {
  const bool changed = controller_.change(call.names.at(0), call.request.body, key_of(call.request),
                                          asker_of(call.request.peer));
  controller_.somebody_looks();
  return answer_after(call, changed);
}

Response Api::fork(const Call& call) {
  return answer_accepted(controller_.fork(call.names.at(0), parse_fork(call.request.body),
                                          key_of(call.request), asker_of(call.request.peer)));
}

Response Api::metrics(const Call& call) {
  store::Snapshot store = controller_.store().snapshot();
  return json_response(200, metrics_json(store, control::find_run(store, call.names.at(0)),
                                         call.integer("since"), kMostStepRows));
}

Response Api::charts(const Call& call) {
  store::Snapshot store = controller_.store().snapshot();
  return api::charts(store, call);
}

Response Api::attempts(const Call& call) {
  store::Snapshot store = controller_.store().snapshot();
  return json_response(200, attempts_json(store, control::find_run(store, call.names.at(0))));
}

Response Api::evaluations(const Call& call) {
  store::Snapshot store = controller_.store().snapshot();
  return json_response(
      200, evaluations_json(store, control::find_run(store, call.names.at(0)),
                            call.integer("since"), static_cast<int>(call.integer("limit"))));
}

Response Api::history(const Call& call) {
  store::Snapshot store = controller_.store().snapshot();
  return json_response(
      200, history_json(store, control::find_run(store, call.names.at(0)), call.integer("since"),
                        static_cast<int>(call.integer("limit"))));
}

Response Api::time_to_accuracy(const Call& call) {
  store::Snapshot store = controller_.store().snapshot();
  return api::time_to_accuracy(store, call, control::find_run(store, call.names.at(0)),
                               clock_.utc_seconds());
}

LogPlace Api::logs_of(const Call& call) {
  store::Snapshot store = controller_.store().snapshot();
  const runs::Run run = control::find_run(store, call.names.at(0));
  return {&files_, shared_, &clock_, run.directory, store.launches(run.number)};
}

Response Api::logs(const Call& call) { return log_part(call, logs_of(call)); }
Response Api::list_log_files(const Call& call) { return log_files(call, logs_of(call)); }
Response Api::download_log(const Call& call) { return log_download(call, logs_of(call)); }
Response Api::search_log(const Call& call) { return log_search(call, logs_of(call)); }

}  // namespace regatta::orchestrator::api
