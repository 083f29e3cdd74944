// The one table of the addresses below /api/v1 that the API serves. (/tickets and /session are
// Access's: who may ask is decided before there is an API.)
#include "orchestrator/api/api.h"
#include "orchestrator/api/node_json.h"

namespace regatta::orchestrator::api {
namespace {

using Kind = Parameter::Kind;
using enum RequestBody;

constexpr Parameter kDryRunOnly = {"dry_run", Kind::Flag, "only say what would be done", "false"};
constexpr std::int64_t kMostCursor = std::int64_t{1} << 62U;

constexpr Parameter kListQuery[] = {
    {"state", Kind::Words, "only runs in one of these states", "",
     "queued starting running stopping succeeded stopped failed cancelled"},
    {"archived", Kind::Word, "no archived runs, only those, or all runs", "false",
     "false true all"},
    {"name", Kind::Text, "only runs whose name begins so"},
    {"text", Kind::Text,
     "only runs with this in their id, name or error; ASCII letters of any case"},
    {"tag", Kind::List, "only runs with this tag; with commas between them, with all of these"},
    {"owner", Kind::Text, "only runs that this one submitted: `uid 1000`, `token`"},
    {"node", Kind::Text, "only runs of which a launch had this node"},
    {"since", Kind::Moment, "only runs created from this moment on"},
    {"until", Kind::Moment, "only runs created before this moment"},
    {"sort", Kind::Word, "by what; what has not ended or not reached its target counts as largest",
     "created", "created ended time_to_accuracy name"},
    {"order", Kind::Word, "which way", "descending", "descending ascending"},
    {"limit", Kind::Integer, "at most so many runs", "100", "", 1, 1000},
    {"before", Kind::Text, "the `next` of an answer to the same query: the runs after its last"},
    {"total", Kind::Flag, "also say how many runs there are on all pages", "false"},
    {"full", Kind::Flag, "all that is known of each run but `slurm`, `warnings` and `config`",
     "false"},
};
constexpr Parameter kSubmitQuery[] = {
    {"after", Kind::List,
     "ids or names of at most 32 runs, with commas between them, that must have succeeded before"},
    {"tags", Kind::List, "tags that it is to have, with commas between them"},
    {"dry_run", Kind::Flag, "only say what would be submitted", "false"},
};
constexpr Parameter kShowQuery[] = {
    {"secrets", Kind::Flag, "with the values of slurm.environment; over the socket only", "false",
     "", 0, 0, Scope::Owner},
};
constexpr Parameter kRemoveQuery[] = {
    kDryRunOnly,
    {"pinned_too", Kind::Flag, "also a run with pinned checkpoints", "false"},
};
constexpr Parameter kDryRunQuery[] = {kDryRunOnly};
constexpr Parameter kMetricsQuery[] = {
    {"since", Kind::Integer, "the `cursor` of an answer: only what came after it", "0", "", 0,
     kMostCursor},
};
constexpr Parameter kHistoryQuery[] = {
    {"since", Kind::Integer, "the `cursor` of an answer: only what came after it", "0", "", 0,
     kMostCursor},
    {"limit", Kind::Integer, "at most so many rows", "1000", "", 1, 10000},
};
constexpr Parameter kTopologyQuery[] = {
    {"graph", Kind::Flag, "with the graph, as `regatta topo -o json` prints it", "false"},
};
constexpr Parameter kNodesQuery[] = {
    {"state", Kind::Words, "only nodes in one of these states; drained: those that are down, too",
     "", kNodeStates},
    {"usable", Kind::Flag, "only nodes that may be given work, or only those that may not"},
    {"name", Kind::Text, "only nodes whose name begins so"},
    {"nodes", Kind::Text, "only these nodes, such as `node[01-04]`"},
    {"partition", Kind::Text, "only nodes of this partition"},
    {"text", Kind::Text, "only nodes with this in their name or reason; ASCII letters of any case"},
    {"limit", Kind::Integer, "at most so many nodes", "100", "", 1, 1000},
    {"after", Kind::Text, "the `next` of an answer: the nodes after its last"},
    {"full", Kind::Flag,
     "of each also Slurm's words for its state, what to do, its features, and why it is suspected",
     "false"},
};
constexpr Parameter kEventKind = {
    "kind", Kind::List,
    "only of these kinds, with commas between them; `run` is all that begin with `run.`"};
constexpr Parameter kEventRun = {"run", Kind::Text, "only of this run, by id or name"};
constexpr Parameter kEventNode = {"node", Kind::Text, "only of this node"};
constexpr Parameter kEventBy = {"by", Kind::Text,
                                "only what this one asked for: `uid 1000`, `token`"};
constexpr Parameter kEventsQuery[] = {
    kEventKind,
    kEventRun,
    kEventNode,
    kEventBy,
    {"since", Kind::Integer, "a number, or `next` of an answer: the oldest after it", "", "", 0,
     kMostCursor},
    {"before", Kind::Integer, "a number: the newest before it; without both, the newest of all", "",
     "", 1, kMostCursor},
    {"limit", Kind::Integer, "at most so many events", "100", "", 1, 1000},
};
constexpr Parameter kEventStreamQuery[] = {
    kEventKind,
    kEventRun,
    kEventNode,
    kEventBy,
    {"since", Kind::Integer,
     "a number, or `next` of an answer: what came after it first; without, what comes from now on",
     "", "", 0, kMostCursor},
};
constexpr Parameter kChartQuery[] = {
    {"runs", Kind::List, "ids or names of at most 16 runs, with commas between them; needed"},
    {"series", Kind::Words,
     "at most 16 of these; from mlm_accuracy on they are of evaluations; metric: what the run is "
     "judged by",
     "loss",
     "loss mlm_loss samples tokens step_seconds samples_per_second tokens_per_second "
     "exposed_seconds imbalance moved_bytes goodput noise_scale efficiency mfu utilisation "
     "learning_rate mlm_accuracy evaluation_loss metric exact f1 accuracy matthews pearson "
     "spearman"},
    {"x", Kind::Word,
     "wall: seconds since the first step of the run; device_hours: ranks times the hours of their "
     "attempts since the first step of each",
     "step", "step samples wall wall_since_submission device_hours"},
    {"buckets", Kind::Integer,
     "so many for each run, and at most one more where an attempt or an abandoned branch ends",
     "500", "", 1, 2000},
    {"from", Kind::Text, "only points with at least this x, a number"},
    {"to", Kind::Text, "only points with at most this x, a number"},
};
constexpr Parameter kEvaluationsQuery[] = {
    {"since", Kind::Integer, "the `cursor` of an answer: only what came after it", "0", "", 0,
     kMostCursor},
    {"limit", Kind::Integer, "at most so many", "1000", "", 1, 10000},
};
constexpr Parameter kThresholdsQuery[] = {
    {"thresholds", Kind::Text,
     "values of the metric, with commas between them: when each was reached first"},
};
constexpr Parameter kLogFile = {"file", Kind::Text, "a log, by its name in logs/files"};
constexpr Parameter kLogAttempt = {
    "attempt", Kind::Integer, "the newest log of this attempt", "", "", 1, 1000000};
constexpr Parameter kLogRank = {"rank", Kind::Integer, "the newest log of this rank alone", "", "",
                                0,      1000000};
constexpr Parameter kEnvironmentQuery[] = {
    {"attempt", Kind::Integer, "of this attempt, not of the newest", "", "", 1, 1000000},
};
constexpr Parameter kAgainstQuery[] = {
    {"against", Kind::Text, "the run that it is compared with, by its id or its only name"},
};
constexpr Parameter kLogQuery[] = {
    kLogFile,
    kLogAttempt,
    kLogRank,
    {"offset", Kind::Integer, "the `next` of an answer: from there on", "0", "", 0, kMostCursor},
    {"limit", Kind::Integer, "at most so many bytes of the file", "262144", "", 4, 262144},
    {"tail", Kind::Integer, "instead of an offset: the last so many lines", "", "", 1, 100000},
};
constexpr Parameter kLogDownloadQuery[] = {kLogFile, kLogAttempt, kLogRank};
constexpr Parameter kLogSearchQuery[] = {
    {"grep", Kind::Text, "a regular expression (RE2) for a line; needed"},
    {"ignore_case", Kind::Flag, "whatever the case of letters", "false"},
    {"context", Kind::Integer, "so many lines before and after a match, too", "0", "", 0, 20},
    kLogFile,
    kLogAttempt,
    kLogRank,
    {"limit", Kind::Integer, "at most so many matches", "100", "", 1, 1000},
    {"from", Kind::Text, "the `next` of an answer: the search goes on there", "", "", 0, 0,
     Scope::Read, "0.3.0"},
};

constexpr RouteAnswer kVersionAnswers[] = {{200, "Version"}};
constexpr RouteAnswer kDocumentAnswers[] = {{200, "OpenApi"}};
constexpr RouteAnswer kSchemaAnswers[] = {{200, "RunFileSchema", "a JSON Schema"}};
constexpr RouteAnswer kHealthAnswers[] = {{200, "Health"}};
constexpr RouteAnswer kNodesAnswers[] = {{200, "Nodes"}};
constexpr RouteAnswer kTopologyAnswers[] = {{200, "Topology"}};
constexpr RouteAnswer kFindingsAnswers[] = {{200, "Findings"}};
constexpr RouteAnswer kEventsAnswers[] = {{200, "Events"}};
constexpr RouteAnswer kEventStreamAnswers[] = {
    {200, "EventStream", "`data` of each is an Event", "text/event-stream"}};
constexpr RouteAnswer kListAnswers[] = {{200, "RunList"}};
constexpr RouteAnswer kSubmitAnswers[] = {{201, "Run", "the new run"},
                                          {200, "RunOrPreview",
                                           "the run of an earlier, equal request; with dry_run "
                                           "what would be submitted"}};
constexpr RouteAnswer kRunAnswers[] = {{200, "Run"}};
constexpr RouteAnswer kWishAnswers[] = {{202, "Run", "it will be done"},
                                        {200, "Run", "there was nothing to do"}};
constexpr RouteAnswer kForkAnswers[] = {{201, "Run", "the new run"},
                                        {200, "Run", "the run of an earlier, equal request"}};
constexpr RouteAnswer kRemovalAnswers[] = {{200, "Removal"},
                                           {202, "Removal", "`left` says what is left"}};
constexpr RouteAnswer kArchivalAnswers[] = {{200, "Archival"}};
constexpr RouteAnswer kMetricsAnswers[] = {{200, "Metrics"}};
constexpr RouteAnswer kChartAnswers[] = {{200, "Charts"}};
constexpr RouteAnswer kAttemptsAnswers[] = {{200, "Attempts"}};
constexpr RouteAnswer kEvaluationsAnswers[] = {{200, "Evaluations"}};
constexpr RouteAnswer kHistoryAnswers[] = {{200, "History"}};
constexpr RouteAnswer kAccuracyAnswers[] = {{200, "TimeToAccuracy"}};
constexpr RouteAnswer kLogAnswers[] = {{200, "Log"}};
constexpr RouteAnswer kLogFilesAnswers[] = {{200, "LogFiles"}};
constexpr RouteAnswer kLogSearchAnswers[] = {{200, "LogSearch"}};
constexpr RouteAnswer kExplainAnswers[] = {{200, "Explanation"}};
constexpr RouteAnswer kEnvironmentAnswers[] = {{200, "Environment"}};
constexpr RouteAnswer kSpeedAnswers[] = {{200, "SpeedDifference"}};
constexpr RouteAnswer kLearningAnswers[] = {{200, "LearningDifference"}};
constexpr RouteAnswer kPlanAnswers[] = {{200, "Plan"}};
constexpr RouteAnswer kCheckpointsAnswers[] = {{200, "CheckpointList"}};
constexpr RouteAnswer kCollectionAnswers[] = {{200, "Collection"}};
constexpr RouteAnswer kDetailsAnswers[] = {{200, "CheckpointDetails"}};
constexpr RouteAnswer kVerificationAnswers[] = {{200, "Verification"}};
constexpr RouteAnswer kStoredAnswers[] = {{200, "StoredCheckpoint"}};
constexpr RouteAnswer kExportAnswers[] = {{200, "Export"}};
constexpr const char* kOctetStream = "application/octet-stream";
constexpr const char* kTar = "application/x-tar";
constexpr RouteAnswer kFileAnswers[] = {
    {200, "FileBytes", "the file; `ETag` and `X-Digest-XXH3-128` are its digest, where it is known",
     kOctetStream},
    {206, "FileBytes", "the range that was asked for", kOctetStream}};
constexpr const char* kLogText = "text/plain; charset=utf-8";
constexpr RouteAnswer kLogDownloadAnswers[] = {
    {200, "FileBytes", "the log as it is at the moment", kLogText},
    {206, "FileBytes", "the range that was asked for", kLogText}};
constexpr RouteAnswer kArchiveAnswers[] = {
    {200, "FileBytes", "a tar archive of all files", kTar},
    {206, "FileBytes", "the range that was asked for", kTar}};
constexpr RouteAnswer kExportRemovedAnswers[] = {{200, "RemovedExport"}};
constexpr RouteAnswer kExportBegunAnswers[] = {{202, "Export"}};

constexpr Parameter kReferencesQuery[] = {
    {"limit", Kind::Integer, "at most so many references", "100", "", 1, 1000},
    {"after", Kind::Text, "the `next` of an answer: the references after its last"},
};
constexpr Parameter kRedeliverQuery[] = {
    {"skip", Kind::Flag, "go on without the event that fails", "false"},
};
constexpr RouteAnswer kWebhooksAnswers[] = {{200, "WebhookList"}};
constexpr RouteAnswer kWebhookAnswers[] = {{200, "Webhook"}};
constexpr RouteAnswer kReferencesAnswers[] = {{200, "ReferenceList"}};
constexpr RouteAnswer kReferenceAnswers[] = {{200, "Reference"}};
constexpr RouteAnswer kNewReferenceAnswers[] = {{201, "Reference", "the new reference"},
                                                {200, "Reference", "the same was there"}};
constexpr RouteAnswer kReferenceRemovalAnswers[] = {{200, "ReferenceRemoval"}};
constexpr Parameter kSweepsQuery[] = {
    {"state", Kind::Words, "only sweeps in one of these states", "", "running done stopped"},
    {"limit", Kind::Integer, "at most so many sweeps", "100", "", 1, 1000},
    {"after", Kind::Text, "the `next` of an answer to the same query: the sweeps after its last"},
};
constexpr Parameter kSubmitSweepQuery[] = {
    {"dry_run", Kind::Flag, "only say what would be submitted, and which trials begin", "false"},
};
constexpr RouteAnswer kSweepsAnswers[] = {{200, "SweepList"}};
constexpr RouteAnswer kSweepAnswers[] = {{200, "Sweep"}};
constexpr RouteAnswer kNewSweepAnswers[] = {{201, "Sweep", "the new sweep"},
                                            {200, "Sweep",
                                             "the sweep of an earlier, equal request; with "
                                             "dry_run what would be submitted"}};
constexpr RouteAnswer kStopAnswers[] = {{202, "Sweep", "it will be done"},
                                        {200, "Sweep", "there was nothing to do"}};
constexpr RouteAnswer kTrialsAnswers[] = {{200, "SweepTable",
                                           "one line a trial, below the names of the columns",
                                           "text/csv; charset=utf-8"}};
constexpr RouteAnswer kSweepRemovalAnswers[] = {{200, "SweepRemoval"}};
constexpr Parameter kExperimentsQuery[] = {
    {"limit", Kind::Integer, "at most so many experiments", "100", "", 1, 1000},
    {"after", Kind::Text, "the `next` of an answer: the experiments after its last", "", "", 0, 0,
     Scope::Read, "4f2a91"},
};
constexpr RouteAnswer kExperimentsAnswers[] = {{200, "ExperimentList"}};
constexpr RouteAnswer kExperimentAnswers[] = {{200, "Experiment"}};
constexpr RouteAnswer kExperimentTableAnswers[] = {
    {200, "ExperimentTable", "as `regatta experiment show -o markdown` prints it",
     "text/markdown; charset=utf-8"}};
constexpr std::string_view kSweepFile =
    R"({"name": "rates", "data": {"path": "/data/wikipedia"}, "steps": 1000, "sweep": )"
    R"({"method": "random", "trials": 8, "objective": {"direction": "maximize"}, "parameters": )"
    R"({"optimizer.learning_rate": {"kind": "log_uniform", "low": 1e-5, "high": 1e-2}}}})";
constexpr Parameters kNoQuery{};
constexpr RouteAnswer kNodeBenchesAnswers[] = {{200, "NodeBenches"}};
constexpr RouteAnswer kNewNodeBenchAnswers[] = {{201, "NodeBench", "the controller keeps it"},
                                                {200, "NodeBench", "the same was there"}};
constexpr RouteAnswer kNodeBenchRemovalAnswers[] = {{200, "NodeBenchRemoval"}};
constexpr std::string_view kBench =
    R"({"format": 1, "workload": 1, "host": "n1", "at": "2026-01-01T00:00:00Z", )"
    R"("utc": 1767225600, "seconds": 97.5, "version": "0.2.0", )"
    R"("machine": {"threads": 8, "memory_bytes": 34359738368, "load_average": 0.3}, )"
    R"("figures": [{"name": "memory.cpu.copy", "unit": "B/s", "value": 9.5e9, "spread": 1e8, )"
    R"("repeats": 7, "better": "higher", "work": "536870912 B"}], )"
    R"("absent": [{"name": "transfer.cuda", "why": "no GPU"}]})";
constexpr std::string_view kReference =
    R"({"name": "example", "threshold": 0.72, "evaluations": [[60.5, 150000, 0.41]]})";

constexpr std::string_view kRunFile =
    R"({"name": "demo", "data": {"path": "/data/wikipedia"}, "steps": 1000})";

}  // namespace

std::vector<Route> Api::controller_routes() {
  return {
      {"GET", "version", "version, scheduler and runs directory", &Api::version, kVersionAnswers},
      {"GET", "health", "what works and what does not", &Api::health, kHealthAnswers},
      {"GET", "openapi.json", "this document", &Api::document, kDocumentAnswers},
      {"GET", "run_file_schema", "what a run file may say", &Api::run_file_schema, kSchemaAnswers},
      {"GET", "nodes", "the machines, and the runs on them", &Api::nodes, kNodesAnswers,
       kNodesQuery},
      {"GET", "nodes/{node}/benches", "the benches of a node that are kept, the newest first",
       &Api::node_benches, kNodeBenchesAnswers},
      {"POST", "nodes/{node}/benches", "keeps a bench of a node", &Api::add_node_bench,
       kNewNodeBenchAnswers, kNoQuery, Needed, "PlatformBench", kBench},
      {"DELETE", "nodes/{node}/benches/{bench}", "removes a bench of a node",
       &Api::remove_node_bench, kNodeBenchRemovalAnswers},
      {"GET", "topology", "the machines that runs are planned for", &Api::topology,
       kTopologyAnswers, kTopologyQuery},
      {"GET", "topology/findings", "what is wrong with these machines", &Api::findings,
       kFindingsAnswers},
      {"GET", "references", "reference curves, by name", &Api::references, kReferencesAnswers,
       kReferencesQuery},
      {"POST", "references", "keeps a reference curve", &Api::add_reference, kNewReferenceAnswers,
       kNoQuery, Needed, "NewReference", kReference},
      {"GET", "references/{name}", "one reference, with its curve", &Api::show_reference,
       kReferenceAnswers},
      {"DELETE", "references/{name}", "removes a reference", &Api::remove_reference,
       kReferenceRemovalAnswers},
      {"GET", "events", "what happened, and who asked for it", &Api::events, kEventsAnswers,
       kEventsQuery},
      {"GET", "events/stream", "the same as it happens, as server-sent events", &Api::event_stream,
       kEventStreamAnswers, kEventStreamQuery},
      {"GET", "webhooks", "who is told events, and how far", &Api::webhooks, kWebhooksAnswers},
      {"POST", "webhooks/{name}/redeliver", "tries a webhook again at once", &Api::redeliver,
       kWebhookAnswers, kRedeliverQuery},
  };
}

std::vector<Route> Api::sweep_routes() {
  return {
      {"GET", "sweeps", "a list of sweeps", &Api::sweeps, kSweepsAnswers, kSweepsQuery},
      {"POST", "sweeps", "submits a run file with a section `sweep`", &Api::add_sweep,
       kNewSweepAnswers, kSubmitSweepQuery, Needed, "SweepFile", kSweepFile, true},
      {"GET", "sweeps/{id}", "one sweep, with its trials", &Api::sweep, kSweepAnswers},
      {"DELETE", "sweeps/{id}", "forgets a sweep that is over; its runs stay", &Api::remove_sweep,
       kSweepRemovalAnswers},
      {"GET", "sweeps/{id}/trials.csv", "the trials of a sweep as a table", &Api::sweep_table,
       kTrialsAnswers},
      {"POST", "sweeps/{id}/stop", "has no trial begin or go on, and cancels those that train",
       &Api::stop_sweep, kStopAnswers},
  };
}

std::vector<Route> Api::experiment_routes() {
  return {
      {"GET", "experiments", "a list of experiments", &Api::experiments, kExperimentsAnswers,
       kExperimentsQuery},
      {"GET", "experiments/{id}", "one experiment: its layouts compared", &Api::experiment,
       kExperimentAnswers},
      {"GET", "experiments/{id}/table.md", "the same as a table in Markdown",
       &Api::experiment_table, kExperimentTableAnswers},
  };
}

std::vector<Route> Api::run_routes() {
  return {
      {"GET", "runs", "a list of runs", &Api::list, kListAnswers, kListQuery},
      {"POST", "runs", "submits a run file", &Api::submit, kSubmitAnswers, kSubmitQuery, Needed,
       "RunFile", kRunFile, true},
      {"GET", "runs/{id}", "one run", &Api::show, kRunAnswers, kShowQuery},
      {"DELETE", "runs/{id}", "removes a run that is over", &Api::remove, kRemovalAnswers,
       kRemoveQuery, None, "", "", true},
      {"POST", "runs/{id}/archive", "keeps only the best checkpoints of a run", &Api::archive,
       kArchivalAnswers, kDryRunQuery, None, "", "", true},
      {"POST", "runs/{id}/labels", "changes a run's tags and note", &Api::label, kRunAnswers,
       kNoQuery, Needed, "Labels",
       R"({"add_tags": ["baseline"], "note": "warm-up twice as long"})"},
      {"POST", "runs/{id}/cancel", "ends a run after a checkpoint", &Api::cancel, kWishAnswers,
       kNoQuery, None, "", "", true},
      {"POST", "runs/{id}/resume", "lets a run that is over go on", &Api::resume, kWishAnswers,
       kNoQuery, Optional, "Resumption", R"({"slurm": {"time_limit": 120}})", true},
      {"POST", "runs/{id}/requeue",
       "ends what is under way after a checkpoint, and starts it again", &Api::requeue,
       kWishAnswers, kNoQuery, Optional, "Resumption", R"({"slurm": {"partition": "other"}})",
       true},
      {"POST", "runs/{id}/extend", "lets a run that is over train further", &Api::extend,
       kWishAnswers, kNoQuery, Needed, "Extension", R"({"steps": 2000, "target": 0.6})", true},
      {"POST", "runs/{id}/change", "changes how long a run trains, and what it keeps", &Api::change,
       kWishAnswers, kNoQuery, Needed, "RunChange",
       R"({"slurm": {"time_limit": 240}, "checkpoint": {"keep_last": 5}})", true},
      {"POST", "runs/{id}/fork", "submits a run that continues a checkpoint of this one",
       &Api::fork, kForkAnswers, kNoQuery, Needed, "Fork",
       R"({"checkpoint": "latest", "name": "lamb", "changes": {"optimizer": {"name": "lamb"}}})",
       true},
      {"GET", "runs/{id}/metrics", "series of steps, evaluations and checkpoints", &Api::metrics,
       kMetricsAnswers, kMetricsQuery},
      {"GET", "metrics", "series of several runs, in buckets with minimum, maximum and last",
       &Api::charts, kChartAnswers, kChartQuery},
      {"GET", "runs/{id}/attempts", "attempts of a run, and the launches that made them",
       &Api::attempts, kAttemptsAnswers},
      {"GET", "runs/{id}/evaluations", "every evaluation of a run", &Api::evaluations,
       kEvaluationsAnswers, kEvaluationsQuery},
      {"GET", "runs/{id}/history", "every step, evaluation and checkpoint, none left out",
       &Api::history, kHistoryAnswers, kHistoryQuery},
      {"GET", "runs/{id}/time_to_accuracy",
       "what was reached when, what is predicted, and where the time went", &Api::time_to_accuracy,
       kAccuracyAnswers, kThresholdsQuery},
      {"GET", "runs/{id}/logs", "a part of a log", &Api::logs, kLogAnswers, kLogQuery},
      {"GET", "runs/{id}/logs/files", "the logs of a run", &Api::list_log_files, kLogFilesAnswers},
      {"GET", "runs/{id}/logs/download", "all of a log, with ranges", &Api::download_log,
       kLogDownloadAnswers, kLogDownloadQuery},
      {"GET", "runs/{id}/logs/search", "lines that a regular expression matches", &Api::search_log,
       kLogSearchAnswers, kLogSearchQuery},
      {"GET", "runs/{id}/explain", "why a run is where it is", &Api::explain, kExplainAnswers},
      {"GET", "runs/{id}/plan", "the plan of a run", &Api::plan, kPlanAnswers},
      {"GET", "runs/{id}/environment", "what an attempt was built of and ran on", &Api::environment,
       kEnvironmentAnswers, kEnvironmentQuery},
      {"GET", "runs/{id}/speed", "what makes a run slower or faster than another", &Api::speed,
       kSpeedAnswers, kAgainstQuery},
      {"GET", "runs/{id}/learning", "from which step on a run learns differently than another",
       &Api::learning, kLearningAnswers, kAgainstQuery},
  };
}

std::vector<Route> Api::checkpoint_routes() {
  return {
      {"GET", "runs/{id}/checkpoints", "checkpoints of a run", &Api::checkpoints,
       kCheckpointsAnswers},
      {"POST", "runs/{id}/checkpoints/gc", "removes what the retention policy does not keep",
       &Api::collect_checkpoints, kCollectionAnswers, kDryRunQuery},
      {"GET", "runs/{id}/checkpoints/{name}", "one checkpoint, with its files",
       &Api::show_checkpoint, kDetailsAnswers},
      {"POST", "runs/{id}/checkpoints/{name}/verify", "reads every byte of a checkpoint",
       &Api::verify_checkpoint, kVerificationAnswers},
      {"POST", "runs/{id}/checkpoints/{name}/pin", "pins a checkpoint, so that retention keeps it",
       &Api::pin_checkpoint, kStoredAnswers, kNoQuery, Optional, "Pin",
       R"({"reason": "the best so far"})"},
      {"POST", "runs/{id}/checkpoints/{name}/unpin", "unpins a checkpoint; retention may delete it",
       &Api::unpin_checkpoint, kStoredAnswers},
      {"GET", "runs/{id}/checkpoints/{name}/files/{file}", "a file of a checkpoint, with ranges",
       &Api::checkpoint_file, kFileAnswers},
      {"GET", "runs/{id}/checkpoints/{name}/archive", "a checkpoint as a tar archive, with ranges",
       &Api::checkpoint_archive, kArchiveAnswers},
      {"GET", "runs/{id}/checkpoints/{name}/export/files/{file}",
       "a file of an export, with ranges", &Api::export_file, kFileAnswers},
      {"GET", "runs/{id}/checkpoints/{name}/export/archive",
       "an export as a tar archive, with ranges", &Api::export_archive, kArchiveAnswers},
      {"DELETE", "runs/{id}/checkpoints/{name}/export", "removes an export", &Api::remove_export,
       kExportRemovedAnswers},
      {"GET", "runs/{id}/checkpoints/{name}/export", "the status of an export", &Api::show_export,
       kExportAnswers},
      {"POST", "runs/{id}/checkpoints/{name}/export",
       "begins to export a checkpoint for other tools", &Api::export_checkpoint,
       kExportBegunAnswers, kNoQuery, Optional, "ExportRequest", R"({"for": "encoder"})"},
  };
}

std::span<const Route> Api::routes() {
  static const std::vector<Route> all = [] {
    std::vector<Route> routes = controller_routes();
    for (const auto& part :
         {sweep_routes(), experiment_routes(), run_routes(), checkpoint_routes()}) {
      routes.insert(routes.end(), part.begin(), part.end());
    }
    return routes;
  }();
  return all;
}

}  // namespace regatta::orchestrator::api
