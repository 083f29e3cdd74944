// The store's tables. What the columns mean is said at the members that they hold (runs/run.h,
// store_reads.h; runs/record_fields.h and row_fields.h map them). A new store goes through every
// version, so that it cannot differ from an old one that was brought up to date. A version that
// stores may have does not change any more; what is new is a version of its own.
#pragma once

#include <iterator>

namespace regatta::orchestrator::store {

constexpr const char* kVersion1 = R"sql(
CREATE TABLE runs (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  config TEXT NOT NULL,
  directory TEXT NOT NULL UNIQUE,
  created_utc REAL NOT NULL,
  wanted INTEGER NOT NULL,
  idempotency_key TEXT UNIQUE,
  body_digest TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'queued',
  reason TEXT NOT NULL DEFAULT '',
  error TEXT NOT NULL DEFAULT '',
  ended_utc REAL,
  failures INTEGER NOT NULL DEFAULT 0,
  progress_step INTEGER NOT NULL DEFAULT -1,
  drained INTEGER NOT NULL DEFAULT 0,
  step INTEGER NOT NULL DEFAULT 0,
  steps INTEGER NOT NULL DEFAULT 0,
  samples INTEGER NOT NULL DEFAULT 0,
  metric TEXT NOT NULL DEFAULT 'mlm_accuracy',
  value REAL, target REAL, baseline REAL, started_utc REAL, time_to_accuracy REAL,
  training_seconds REAL NOT NULL DEFAULT 0,
  samples_per_second REAL, tokens_per_second REAL, loss REAL,
  phase TEXT NOT NULL DEFAULT '',
  checkpoint_step INTEGER NOT NULL DEFAULT -1,
  checkpoint TEXT NOT NULL DEFAULT '',
  crossing REAL, crossing_low REAL, crossing_high REAL,
  axis_seconds REAL NOT NULL DEFAULT 0,
  last_record_utc REAL NOT NULL DEFAULT 0
);
CREATE INDEX runs_by_name ON runs(name);
CREATE INDEX runs_open ON runs(drained);

CREATE TABLE launches (
  run INTEGER NOT NULL REFERENCES runs(number),
  number INTEGER NOT NULL,
  token TEXT NOT NULL,
  handle TEXT NOT NULL,
  attempts_before INTEGER NOT NULL,
  started_utc REAL NOT NULL,
  over INTEGER NOT NULL,
  exit_code INTEGER,
  signal INTEGER,
  PRIMARY KEY (run, number)
) WITHOUT ROWID;

CREATE TABLE attempts (
  row INTEGER PRIMARY KEY,
  run INTEGER NOT NULL REFERENCES runs(number),
  number INTEGER NOT NULL,
  execution TEXT NOT NULL,
  offset INTEGER NOT NULL DEFAULT 0,
  damaged INTEGER NOT NULL DEFAULT 0,
  started INTEGER NOT NULL DEFAULT 0,
  start_utc REAL NOT NULL DEFAULT 0,
  first_step_begin REAL,
  last_seconds REAL NOT NULL DEFAULT 0,
  process INTEGER NOT NULL DEFAULT 0,
  host TEXT NOT NULL DEFAULT '',
  first_step INTEGER NOT NULL DEFAULT 0,
  batch_size INTEGER NOT NULL DEFAULT 0,
  training_seconds REAL NOT NULL DEFAULT 0,
  exit_code INTEGER,
  reason TEXT NOT NULL DEFAULT '',
  message TEXT NOT NULL DEFAULT '',
  UNIQUE (run, number, execution)
);

CREATE TABLE steps (
  cursor INTEGER PRIMARY KEY,
  run INTEGER NOT NULL, attempt INTEGER NOT NULL, sequence INTEGER NOT NULL,
  step INTEGER NOT NULL, seconds REAL NOT NULL,
  loss REAL, mlm_loss REAL, samples INTEGER, tokens INTEGER, step_seconds REAL,
  UNIQUE (attempt, sequence)
);
CREATE INDEX steps_of_run ON steps(run, cursor);
CREATE TABLE evaluations (
  cursor INTEGER PRIMARY KEY,
  run INTEGER NOT NULL, attempt INTEGER NOT NULL, sequence INTEGER NOT NULL,
  step INTEGER NOT NULL, seconds REAL NOT NULL,
  mlm_accuracy REAL, mlm_loss REAL, target_met INTEGER NOT NULL,
  UNIQUE (attempt, sequence)
);
CREATE INDEX evaluations_of_run ON evaluations(run, cursor);
CREATE TABLE checkpoints (
  cursor INTEGER PRIMARY KEY,
  run INTEGER NOT NULL, attempt INTEGER NOT NULL, sequence INTEGER NOT NULL,
  step INTEGER NOT NULL, seconds REAL NOT NULL,
  name TEXT NOT NULL, status TEXT NOT NULL, bytes INTEGER, write_seconds REAL, utc REAL,
  UNIQUE (attempt, sequence)
);
CREATE INDEX checkpoints_of_run ON checkpoints(run, cursor);
CREATE TABLE warnings (
  cursor INTEGER PRIMARY KEY,
  run INTEGER NOT NULL, attempt INTEGER NOT NULL, sequence INTEGER NOT NULL,
  utc REAL NOT NULL, message TEXT NOT NULL,
  UNIQUE (attempt, sequence)
);
CREATE INDEX warnings_of_run ON warnings(run, cursor);
)sql";

// Several ranks.
constexpr const char* kVersion2 = R"sql(
ALTER TABLE runs ADD COLUMN mfu REAL;
ALTER TABLE runs ADD COLUMN utilisation REAL;
ALTER TABLE runs ADD COLUMN exposed_share REAL;
ALTER TABLE runs ADD COLUMN imbalance REAL;
ALTER TABLE runs ADD COLUMN moved_bytes REAL;
ALTER TABLE runs ADD COLUMN goodput REAL;
ALTER TABLE runs ADD COLUMN noise_scale REAL;
ALTER TABLE runs ADD COLUMN efficiency REAL;

ALTER TABLE attempts ADD COLUMN ranks INTEGER NOT NULL DEFAULT 1;
ALTER TABLE attempts ADD COLUMN ranks_per_node INTEGER NOT NULL DEFAULT 1;
ALTER TABLE attempts ADD COLUMN device TEXT NOT NULL DEFAULT '';
ALTER TABLE attempts ADD COLUMN peak_flops REAL NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN slowest_rank INTEGER;
ALTER TABLE attempts ADD COLUMN slowest_step INTEGER;
ALTER TABLE attempts ADD COLUMN slowest_phase TEXT;
ALTER TABLE attempts ADD COLUMN slowest_seconds REAL;
ALTER TABLE attempts ADD COLUMN slowest_utc REAL;

ALTER TABLE steps ADD COLUMN exposed_seconds REAL;
ALTER TABLE steps ADD COLUMN imbalance REAL;
ALTER TABLE steps ADD COLUMN moved_bytes INTEGER;
ALTER TABLE steps ADD COLUMN goodput REAL;
ALTER TABLE steps ADD COLUMN noise_scale REAL;
ALTER TABLE steps ADD COLUMN efficiency REAL;
ALTER TABLE steps ADD COLUMN mfu REAL;
ALTER TABLE steps ADD COLUMN utilisation REAL;

CREATE TABLE timelines (
  attempt INTEGER PRIMARY KEY,
  bucket_bytes TEXT NOT NULL DEFAULT '[]',
  step INTEGER, step_seconds REAL, data_seconds REAL, forward_seconds REAL,
  backward_seconds REAL, reduce_seconds REAL, optimizer_seconds REAL, exposed_seconds REAL,
  launched TEXT NOT NULL DEFAULT '[]',
  finished TEXT NOT NULL DEFAULT '[]'
);
)sql";

// How long training stood still for a checkpoint, and what writing it took; why one failed.
constexpr const char* kVersion3 = R"sql(
ALTER TABLE checkpoints RENAME COLUMN write_seconds TO whole_seconds;
ALTER TABLE checkpoints ADD COLUMN stall_seconds REAL;
ALTER TABLE checkpoints ADD COLUMN copy_seconds REAL;
ALTER TABLE checkpoints ADD COLUMN write_seconds REAL;
ALTER TABLE checkpoints ADD COLUMN sync_seconds REAL;
ALTER TABLE checkpoints ADD COLUMN message TEXT NOT NULL DEFAULT '';
)sql";

// Why a run waits, how its jobs ended, and what that says of nodes.
constexpr const char* kVersion4 = R"sql(
ALTER TABLE runs ADD COLUMN wait_category TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN wait_action TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN wait_clears TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN expected_start REAL;
ALTER TABLE runs ADD COLUMN next_start REAL;
ALTER TABLE launches ADD COLUMN replaced INTEGER NOT NULL DEFAULT 0;
ALTER TABLE launches ADD COLUMN ended_utc REAL;
ALTER TABLE launches ADD COLUMN cause TEXT NOT NULL DEFAULT '';
ALTER TABLE launches ADD COLUMN words TEXT NOT NULL DEFAULT '';
ALTER TABLE launches ADD COLUMN action TEXT NOT NULL DEFAULT '';
ALTER TABLE launches ADD COLUMN nodes TEXT NOT NULL DEFAULT '';
ALTER TABLE launches ADD COLUMN gpus INTEGER;
ALTER TABLE attempts ADD COLUMN hosts TEXT NOT NULL DEFAULT '';
ALTER TABLE attempts ADD COLUMN judged INTEGER NOT NULL DEFAULT 0;

CREATE TABLE node_events (
  row INTEGER PRIMARY KEY,
  node TEXT NOT NULL,
  utc REAL NOT NULL,
  blame TEXT NOT NULL,
  weight REAL NOT NULL,
  run TEXT NOT NULL,
  words TEXT NOT NULL
);
)sql";

// Every query by an index, in its order; whether a run's end is written down in its directory; the
// place of a step row among its run's (1, 2, …), by which a long series is thinned.
constexpr const char* kVersion5 = R"sql(
ALTER TABLE runs ADD COLUMN settled INTEGER NOT NULL DEFAULT 0;
DROP INDEX runs_by_name;
DROP INDEX runs_open;
CREATE INDEX runs_by_time ON runs(created_utc);
CREATE INDEX runs_by_state ON runs(state, created_utc);
CREATE INDEX runs_by_name ON runs(name, created_utc);
CREATE INDEX runs_open ON runs(created_utc) WHERE drained = 0;
CREATE INDEX runs_unsettled ON runs(created_utc)
  WHERE settled = 0 AND state IN ('succeeded', 'stopped', 'failed', 'cancelled');

ALTER TABLE steps ADD COLUMN place INTEGER NOT NULL DEFAULT 0;
UPDATE steps SET place = places.place
  FROM (SELECT cursor, row_number() OVER (PARTITION BY run ORDER BY cursor) AS place FROM steps)
    AS places
  WHERE places.cursor = steps.cursor;
CREATE INDEX steps_by_place ON steps(run, place);
CREATE INDEX checkpoints_failed ON checkpoints(run, cursor) WHERE status = 'failed';
CREATE INDEX node_events_by_time ON node_events(utc);
)sql";

// Which scheduler a run belongs to. What it was so far, the handles of its launches tell.
constexpr const char* kVersion6 = R"sql(
ALTER TABLE runs ADD COLUMN scheduler TEXT NOT NULL DEFAULT '';
UPDATE runs SET scheduler = 'slurm' WHERE wanted <> 2 AND EXISTS (
  SELECT 1 FROM launches WHERE run = runs.number AND handle LIKE 'slurm:%');
UPDATE runs SET scheduler = 'local' WHERE wanted <> 2 AND scheduler = '' AND EXISTS (
  SELECT 1 FROM launches WHERE run = runs.number AND handle NOT IN ('', 'journal'));
CREATE INDEX runs_by_scheduler ON runs(scheduler);
)sql";

// Which runs a run starts after (ids, each followed by a '/', which no id has), and which runs are
// archived, by time and by state and time.
constexpr const char* kVersion7 = R"sql(
ALTER TABLE runs ADD COLUMN after_runs TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN archived INTEGER NOT NULL DEFAULT 0;
CREATE INDEX runs_by_archived ON runs(archived, created_utc);
CREATE INDEX runs_by_archived_state ON runs(archived, state, created_utc);
CREATE INDEX runs_after ON runs(created_utc) WHERE after_runs <> '' AND state = 'queued';
)sql";

// The target that a run file asks for as a multiple of the best constant guess; and what it asks
// for as a number, which the journal tells only once training has begun.
constexpr const char* kVersion8 = R"sql(
ALTER TABLE runs ADD COLUMN target_times_baseline REAL;
UPDATE runs SET target_times_baseline = json_extract(config, '$.target.times_baseline')
  WHERE json_valid(config);
UPDATE runs SET target = json_extract(config, '$.target.value'),
                metric = coalesce(json_extract(config, '$.target.metric'), metric)
  WHERE target IS NULL AND json_valid(config);
)sql";

// How far the noise scale is known.
constexpr const char* kVersion9 = R"sql(
ALTER TABLE runs ADD COLUMN noise_scale_low REAL;
ALTER TABLE runs ADD COLUMN noise_scale_high REAL;
ALTER TABLE steps ADD COLUMN noise_scale_low REAL;
ALTER TABLE steps ADD COLUMN noise_scale_high REAL;
)sql";

// Lists in other orders than by time, and searched for text. Finished runs of one kind, by which
// others of it are predicted.
constexpr const char* kVersion10 = R"sql(
ALTER TABLE runs ADD COLUMN kind TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN crossing_model TEXT NOT NULL DEFAULT '';
CREATE INDEX runs_by_kind ON runs(kind, ended_utc)
  WHERE state = 'succeeded' AND time_to_accuracy IS NOT NULL;
CREATE INDEX runs_all_by_end ON runs(ifnull(ended_utc, 9e99), number, state);
CREATE INDEX runs_all_by_accuracy ON runs(ifnull(time_to_accuracy, 9e99), number, state);
CREATE INDEX runs_all_by_name ON runs(name, number, state);
CREATE INDEX runs_by_end ON runs(archived, ifnull(ended_utc, 9e99), number, state);
CREATE INDEX runs_by_accuracy ON runs(archived, ifnull(time_to_accuracy, 9e99), number, state);
CREATE INDEX runs_by_archived_name ON runs(archived, name, number, state);
CREATE INDEX runs_text ON runs(created_utc, number, archived, state, name, id, error);
)sql";

// What happened, and who asked for it. When a run was found that the store did not know.
constexpr const char* kEventTable = R"sql(
ALTER TABLE runs ADD COLUMN found_utc REAL;
CREATE TABLE events (
  number INTEGER PRIMARY KEY,
  utc REAL NOT NULL,
  kind TEXT NOT NULL,
  run TEXT NOT NULL,
  launch INTEGER, attempt INTEGER, step INTEGER,
  checkpoint TEXT NOT NULL,
  node TEXT NOT NULL,
  actor TEXT NOT NULL,
  words TEXT NOT NULL
);
CREATE INDEX events_by_kind ON events(kind, number);
CREATE INDEX events_by_run ON events(run, number) WHERE run <> '';
CREATE INDEX events_by_node ON events(node, number) WHERE node <> '';
CREATE INDEX events_by_actor ON events(actor, number) WHERE actor <> '';
CREATE TRIGGER events_stay BEFORE UPDATE ON events
BEGIN
  SELECT raise(ABORT, 'events do not change');
END;
)sql";

// Who submitted a run, what people wrote on it, and which nodes it had.
constexpr const char* kLabelTables = R"sql(
ALTER TABLE runs ADD COLUMN owner TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN tags TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN note TEXT NOT NULL DEFAULT '';
CREATE INDEX runs_by_owner ON runs(owner, created_utc) WHERE owner <> '';
CREATE TABLE run_tags (
  tag TEXT NOT NULL,
  run INTEGER NOT NULL,
  PRIMARY KEY (tag, run)
) WITHOUT ROWID;
CREATE INDEX tags_of_run ON run_tags(run);
CREATE TABLE run_nodes (
  node TEXT NOT NULL,
  run INTEGER NOT NULL,
  PRIMARY KEY (node, run)
) WITHOUT ROWID;
CREATE INDEX nodes_of_run ON run_nodes(run);
)sql";

// Reference curves; lists of numbers are JSON.
constexpr const char* kReferenceTable = R"sql(
CREATE TABLE reference_curves(
  name TEXT PRIMARY KEY, submitter TEXT NOT NULL, system TEXT NOT NULL, round TEXT NOT NULL,
  division TEXT NOT NULL, status TEXT NOT NULL, chips INTEGER, global_batch INTEGER,
  threshold REAL NOT NULL, run_seconds REAL, time_to_accuracy REAL,
  evaluation_count INTEGER NOT NULL, imported_utc REAL NOT NULL, seconds TEXT NOT NULL,
  point_values TEXT NOT NULL, samples TEXT NOT NULL) WITHOUT ROWID;
)sql";

// Where a run lies, relative to the runs directory, which may be moved: which runs lie there only
// Store::place_runs() knows.
constexpr const char* kRelativeDirectories = "";

// Blocks of steps (step_blocks.h), which are made of the rows that are there; what the steps of a
// run are kept in, and how often that was judged since which end of it.
constexpr const char* kStepBlockTables = R"sql(
CREATE TABLE step_blocks (
  attempt INTEGER NOT NULL,
  level INTEGER NOT NULL,
  sequence INTEGER NOT NULL, last_sequence INTEGER NOT NULL,
  cursor INTEGER NOT NULL,
  step INTEGER NOT NULL, last_step INTEGER NOT NULL,
  rows INTEGER NOT NULL,
  seconds REAL NOT NULL, last_seconds REAL NOT NULL,
  figures BLOB NOT NULL,
  PRIMARY KEY (attempt, level, sequence)
);
CREATE TABLE run_resolutions (
  run INTEGER PRIMARY KEY,
  resolution INTEGER NOT NULL,
  ended_utc REAL,
  stage INTEGER NOT NULL
);
)sql";

// What was told of each node last (slurm/node_changes.h).
constexpr const char* kNodeStandings = R"sql(
CREATE TABLE node_standings (
  node TEXT PRIMARY KEY,
  present INTEGER NOT NULL,
  down INTEGER NOT NULL,
  silent INTEGER NOT NULL,
  drained INTEGER NOT NULL,
  reason TEXT NOT NULL,
  since_utc REAL NOT NULL,
  counted_utc REAL NOT NULL,
  changes INTEGER NOT NULL
) WITHOUT ROWID;
)sql";

// How far each webhook has been told (store/webhooks.h).
constexpr const char* kWebhookPlaces = R"sql(
CREATE TABLE webhooks (
  name TEXT PRIMARY KEY,
  address TEXT NOT NULL,
  position INTEGER NOT NULL,
  delivered INTEGER NOT NULL,
  delivered_utc REAL NOT NULL,
  failures INTEGER NOT NULL,
  failing_since_utc REAL NOT NULL,
  next_try_utc REAL NOT NULL,
  dead INTEGER NOT NULL,
  error TEXT NOT NULL
) WITHOUT ROWID;
)sql";

// Runs whose file was changed, or that continue another one's checkpoint; and which requests that
// change a run were carried out. The time limit that a job was told.
constexpr const char* kChangeTable = R"sql(
ALTER TABLE runs ADD COLUMN changed_utc REAL;
ALTER TABLE runs ADD COLUMN forked_from TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN forked_checkpoint TEXT NOT NULL DEFAULT '';
ALTER TABLE launches ADD COLUMN time_limit INTEGER;
CREATE TABLE changes (
  idempotency_key TEXT PRIMARY KEY,
  run INTEGER NOT NULL,
  body_digest TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX changes_of_run ON changes(run);
)sql";

// Steps that were read before have none.
constexpr const char* kLearningRate = R"sql(
ALTER TABLE steps ADD COLUMN learning_rate REAL;
)sql";

// The orders of lists with all that their filters look at: a filter that few runs pass reads an
// index, and no rows, until the page is full.
constexpr const char* kListIndexes = R"sql(
DROP INDEX runs_all_by_end;
DROP INDEX runs_all_by_accuracy;
DROP INDEX runs_all_by_name;
DROP INDEX runs_by_end;
DROP INDEX runs_by_accuracy;
DROP INDEX runs_by_archived_name;
DROP INDEX runs_text;
CREATE INDEX runs_all_by_end
  ON runs(ifnull(ended_utc, 9e99), number, state, created_utc, owner, name);
CREATE INDEX runs_all_by_accuracy
  ON runs(ifnull(time_to_accuracy, 9e99), number, state, created_utc, owner, name);
CREATE INDEX runs_all_by_name ON runs(name, number, state, created_utc, owner);
CREATE INDEX runs_by_end
  ON runs(archived, ifnull(ended_utc, 9e99), number, state, created_utc, owner, name);
CREATE INDEX runs_by_accuracy
  ON runs(archived, ifnull(time_to_accuracy, 9e99), number, state, created_utc, owner, name);
CREATE INDEX runs_by_archived_name ON runs(archived, name, number, state, created_utc, owner);
CREATE INDEX runs_text ON runs(created_utc, number, archived, state, name, id, error, owner);
)sql";

// How often that changed which lists of runs go by: a total that was counted since is still right.
// Tags change with their run's row, and a run loses nodes only with itself.
constexpr const char* kListGeneration = R"sql(
CREATE TABLE list_generation (
  row INTEGER PRIMARY KEY,  -- 1
  number INTEGER NOT NULL
);
INSERT INTO list_generation(row, number) VALUES (1, 0);
CREATE TRIGGER listed_by_insertion AFTER INSERT ON runs BEGIN
  UPDATE list_generation SET number = number + 1 WHERE row = 1;
END;
CREATE TRIGGER listed_by_removal AFTER DELETE ON runs BEGIN
  UPDATE list_generation SET number = number + 1 WHERE row = 1;
END;
CREATE TRIGGER listed_by_change
AFTER UPDATE OF id, name, state, created_utc, archived, owner, error, tags ON runs
WHEN old.state IS NOT new.state OR old.archived IS NOT new.archived
  OR old.error IS NOT new.error OR old.owner IS NOT new.owner OR old.name IS NOT new.name
  OR old.created_utc IS NOT new.created_utc OR old.id IS NOT new.id
  OR old.tags IS NOT new.tags BEGIN
  UPDATE list_generation SET number = number + 1 WHERE row = 1;
END;
CREATE TRIGGER listed_by_node AFTER INSERT ON run_nodes BEGIN
  UPDATE list_generation SET number = number + 1 WHERE row = 1;
END;
)sql";

// What tasks other than pre-training are judged by. `value`: of the run's metric; what older
// versions could have was one of two.
constexpr const char* kEvaluationMetrics = R"sql(
ALTER TABLE evaluations ADD COLUMN value REAL;
ALTER TABLE evaluations ADD COLUMN metrics TEXT NOT NULL DEFAULT '{}';
UPDATE evaluations SET value =
  CASE (SELECT metric FROM runs WHERE number = evaluations.run)
    WHEN 'mlm_loss' THEN mlm_loss ELSE mlm_accuracy END;
)sql";

// What each rank did in the newest step that tells.
constexpr const char* kRankTable = R"sql(
CREATE TABLE rank_shares (
  attempt INTEGER PRIMARY KEY,
  step INTEGER NOT NULL,
  tokens TEXT NOT NULL,
  compute_seconds TEXT NOT NULL
);
)sql";

// Steps that were read before have none.
constexpr const char* kBubbles = R"sql(
ALTER TABLE steps ADD COLUMN bubble REAL;
ALTER TABLE steps ADD COLUMN bubble_predicted REAL;
)sql";

// Of batches that grow.
constexpr const char* kGrowingBatches = R"sql(
ALTER TABLE runs ADD COLUMN progress REAL;
ALTER TABLE runs ADD COLUMN batch_size INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN batches TEXT NOT NULL DEFAULT '';
)sql";

// Benches of nodes; bench: its JSON.
constexpr const char* kNodeBenches = R"sql(
CREATE TABLE node_benches (
  number INTEGER PRIMARY KEY,
  node TEXT NOT NULL,
  id TEXT NOT NULL,
  utc REAL NOT NULL,
  added_utc REAL NOT NULL,
  machine_kind TEXT NOT NULL,
  workload INTEGER NOT NULL,
  bench TEXT NOT NULL,
  UNIQUE (node, id)
);
CREATE INDEX node_benches_by_time ON node_benches(node, utc, id);
)sql";

constexpr const char* kVersions[] = {kVersion1,        kVersion2,
                                     kVersion3,        kVersion4,
                                     kVersion5,        kVersion6,
                                     kVersion7,        kVersion8,
                                     kVersion9,        kVersion10,
                                     kEventTable,      kLabelTables,
                                     kReferenceTable,  kRelativeDirectories,
                                     kStepBlockTables, kNodeStandings,
                                     kWebhookPlaces,   kChangeTable,
                                     kLearningRate,    kListIndexes,
                                     kListGeneration,  kEvaluationMetrics,
                                     kRankTable,       kBubbles,
                                     kGrowingBatches,  kNodeBenches};
// Their rows are numbered across all of them.
constexpr const char* kTablesWithCursor[] = {"steps", "evaluations", "checkpoints", "warnings"};
constexpr int kStepBlocksVersion = 15;
constexpr int kLabelTablesVersion = 12;
constexpr int kEvaluationMetricsVersion = 22;
constexpr int kSchemaVersion = static_cast<int>(std::size(kVersions));

}  // namespace regatta::orchestrator::store
