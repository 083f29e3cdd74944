// The controller's API as this page uses it: docs/api.md is the contract.
import { get, post, postLong } from "./request";

export const kStates = [
  "queued",
  "starting",
  "running",
  "stopping",
  "succeeded",
  "stopped",
  "failed",
  "cancelled",
] as const;
export type State = (typeof kStates)[number];

export interface Attempt {
  number: number;
  execution: string | null;
  state: string;
  exit_code: number | null;
  process: number | null;
  reason: string | null;
}

// The rank that was furthest behind, at the newest heartbeat.
export interface Slowest {
  rank: number;
  step: number;
  phase: string;
  phase_seconds: number | null;
  age_seconds: number | null;
}

// Whether Slurm answers what it is asked about jobs.
export interface Slurm {
  answered_at: string | null;
  age_seconds: number | null;
  trouble: string | null;
  cancel_waits_since: string | null;
}

// What a run began with: a model elsewhere, a checkpoint of another run, or a copy of one (no path).
export interface Start {
  path: string | null;
  run: string | null;
  checkpoint: string | null;
  optimizer: boolean;
}

export interface Run {
  id: string;
  name: string;
  state: State;
  state_text: string;
  created_at: string | null;
  started_at: string | null;
  ended_at: string | null;
  directory: string;
  after: string[]; // ids of runs that must have succeeded before it begins
  archived: boolean;
  owner: string | null;
  tags: string[];
  note: string | null;
  silent_seconds: number | null; // since its journal grew, where that is suspicious
  attempts: number;
  attempt: Attempt | null;
  step: number;
  steps: number;
  samples: number;
  progress: number | null; // of a batch that grows: steps of its first batch that `step` are worth
  batch_size: number; // samples of a step now; 0: not known
  metric: string;
  value: number | null;
  target: number | null; // null: none, or not known before training begins
  target_times_baseline: number | null; // the target as a multiple of the best constant guess
  baseline: number | null;
  target_reached: boolean;
  time_to_accuracy_seconds: number | null;
  training_seconds: number | null;
  since_submission_seconds: number | null;
  predicted_seconds_to_target: number | null;
  samples_per_second: number | null;
  tokens_per_second: number | null;
  loss: number | null;
  ranks: number | null;
  ranks_per_node: number | null;
  device: string | null;
  peak_flops: number | null;
  mfu: number | null;
  utilisation: number | null;
  noise_scale: number | null;
  noise_scale_low: number | null; // 95 % confidence
  noise_scale_high: number | null; // null: it may be endless
  efficiency: number | null;
  goodput: number | null;
  exposed_share: number | null;
  imbalance: number | null;
  moved_bytes: number | null;
  slowest: Slowest | null;
  checkpoint: { step: number; name: string; path: string } | null;
  error: string | null;
  // Absent in lists.
  slurm?: Slurm | null; // null where no Slurm has to be asked
  warnings?: string[];
  config?: Record<string, unknown> | null;
  task?: string;
  from?: Start | null;
}

// What a list has of a run.
export type RunRow = Pick<
  Run,
  | "id"
  | "name"
  | "state"
  | "state_text"
  | "created_at"
  | "started_at"
  | "ended_at"
  | "after"
  | "archived"
  | "owner"
  | "tags"
  | "silent_seconds"
  | "attempts"
  | "step"
  | "steps"
  | "samples"
  | "progress"
  | "batch_size"
  | "metric"
  | "value"
  | "target"
  | "target_times_baseline"
  | "target_reached"
  | "time_to_accuracy_seconds"
  | "training_seconds"
  | "since_submission_seconds"
  | "predicted_seconds_to_target"
  | "samples_per_second"
  | "loss"
  | "error"
>;

export interface RunPage {
  runs: RunRow[];
  next: string | null; // what `before` takes to get the page behind this one
  total?: number | null; // of all pages, where it was asked for
}

export interface LabelChanges {
  tags?: string[];
  add_tags?: string[];
  remove_tags?: string[];
  note?: string | null;
}

// Series of several runs in buckets (GET /metrics).
export interface Bucket {
  attempt: number;
  abandoned: boolean;
  rows: number;
  from_step: number;
  to_step: number;
  from: number;
  to: number;
}
export interface Series {
  rows: number;
  buckets: Bucket[];
  // [minimum, maximum, last, how many rows say it], one a bucket
  series: Record<string, [number | null, number | null, number | null, number][]>;
}
export interface Charts {
  x: string;
  runs: { id: string; resolution_seconds: number; steps: Series; evaluations: Series }[];
}

// [step, seconds, loss, mlm_loss, samples_per_second, tokens_per_second, goodput, noise_scale, mfu,
//  abandoned]
// A value that is no finite number, or not known, comes as null.
type Value = number | null;
export type StepRow = [
  number,
  number,
  Value,
  Value,
  Value,
  Value,
  Value,
  Value,
  Value,
  boolean,
];
// [step, seconds, mlm_accuracy, mlm_loss, abandoned, value of the run's metric, all others by name]
export type EvaluationRow = [
  number,
  number,
  Value,
  Value,
  boolean,
  Value,
  Record<string, Value>,
];
// [step, seconds, name, status]
export type CheckpointRow = [number, number, string, string];

export interface Prediction {
  seconds: number;
  low: number;
  high: number;
  confidence: number; // share of such intervals that hold
  model: string | null;
}

// The newest step's buckets, in seconds since its begin.
export interface Timeline {
  step: number;
  step_seconds: Value;
  data_seconds: Value;
  forward_seconds: Value;
  backward_seconds: Value;
  reduce_seconds: Value;
  optimizer_seconds: Value;
  exposed_seconds: Value;
  bucket_count: number;
  buckets: [number, Value, Value, Value][]; // [index, bytes, launched, finished]
}

// What each rank of the newest attempt did in the newest step that tells, in their order.
export interface RankShares {
  step: number;
  tokens: Value[];
  compute_seconds: Value[]; // forward and backward
}

export interface Metrics {
  cursor: number;
  steps: StepRow[];
  evaluations: EvaluationRow[];
  checkpoints: CheckpointRow[];
  timeline: Timeline | null;
  rank_shares: RankShares | null;
  prediction: Prediction | null;
}

export interface Checkpoint {
  step: number;
  name: string;
  path: string;
  bytes: number | null;
  seconds: number | null; // from the step's end until it was whole
  // Of these: training stood still; copying; and beside training writing, syncing.
  stall_seconds?: Value;
  copy_seconds?: Value;
  write_seconds?: Value;
  sync_seconds?: Value;
  status: string;
  message?: string | null;
  at: string | null;
  // What the directory says; absent when it knows nothing of it.
  pinned?: { reason: string; at: string } | null;
  goes?: boolean;
  kept_because?: string[];
}

// plan.json as topology/README.md describes it; it never changes. What a plan has not is absent.
export interface PlannedBucket {
  bytes: number;
  ready_seconds: number;
  start_seconds: number;
  end_seconds: number;
}

export interface PlannedStep {
  step_seconds: number;
  forward_seconds: number;
  compute_seconds: number; // end of backward
  communication_seconds: number;
  exposed_seconds: number;
  tail_seconds: number;
  buckets: PlannedBucket[];
}

export interface Alternative {
  name: string;
  buckets: number;
  step_seconds: number;
  mean_step_seconds: number;
}

export interface Decision {
  key: string;
  choice: string;
  run_file: string;
  why: string;
  options: { value: string; step_seconds: number }[];
}

export interface TunedRange {
  collective: string;
  from_bytes: number;
  to_bytes?: number; // absent: any size
  algorithm: string;
  protocol: string;
  channels: number; // 0: NCCL's
  us: number; // 0: not known
  default_us: number; // of NCCL's own way; 0: not known
  measured: boolean;
}

// Of consecutive ranks on one node.
export interface Seats {
  node: string;
  gpus: number[];
  nics: string[]; // "" is not known
}

export interface Plan {
  ranks: number;
  bucket_ends: number[];
  cut?: string; // name of the chosen alternative
  why: string;
  measured: boolean;
  topology?: string; // fingerprint of the one that it was made for
  alternatives?: Alternative[];
  timeline?: PlannedStep;
  decisions?: Decision[];
  nccl?: { ranges: TunedRange[] };
  seats?: Seats[];
}

export interface Log {
  text: string;
  next: number;
}

// What happened to a run. Numbers grow; the time is when it happened, not when it was learned of.
export interface RunEvent {
  number: number;
  at: string | null;
  kind: string;
  launch: number | null;
  attempt: number | null;
  step: number | null;
  checkpoint: string | null;
  node: string | null;
  by: string | null; // "uid 1000", "token"; null: nobody asked for it
  words: string | null;
}

export interface EventPage {
  events: RunEvent[]; // the oldest first
  next: number; // what `since` takes to get what comes after these
  more: boolean; // there are others on the side that was asked for
}

// What was started for a run, and what trained in it.
export interface Launch {
  launch: number;
  submitted_at: string | null;
  ended_at: string | null;
  exit_code: number | null;
  signal: number | null;
  cause: string | null;
  what: string | null;
  action: string;
  nodes: string;
  gpus: number | null;
}

export interface AttemptRow {
  attempt: number;
  launch: number | null;
  started_at: string | null;
  seconds: number | null; // from its begin to its end or now
  first_step: number;
  host: string | null;
  hosts: string[];
  ranks: number;
  ranks_per_node: number;
  device: string | null;
  training_seconds: number | null;
  exit_code: number | null;
  reason: string | null;
  message: string | null;
}

export interface Attempts {
  launches: Launch[];
  attempts: AttemptRow[];
}

export interface Version {
  version: string;
  commit: string | null;
  scheduler: string | null;
  runs_directory: string;
  adoption: { done: boolean; found: number; read: number };
}
export interface ControllerHealth {
  status: "ok" | "degraded";
  checks: { name: string; good: boolean; detail: string }[];
  polling: Polling | null; // null: nobody has to be asked
}
// What asking Slurm costs it: calls of the last minute, of those that the controller allows itself.
export interface Polling {
  calls: number;
  most_calls: number;
  call_seconds: number; // of an answer; 0: none has come
  paused_seconds: number; // still, because Slurm said that it is asked too often
}

export function hasEnded(run: Pick<Run, "state">): boolean {
  return ["succeeded", "stopped", "failed", "cancelled"].includes(run.state);
}

// By Slurm. The API has no field for it; its text begins so.
export const isSuspended = (run: Pick<Run, "state" | "state_text">) =>
  run.state === "running" && run.state_text.startsWith("suspended");

const run = (id: string) => `runs/${encodeURIComponent(id)}`;

export const api = {
  runs: (query: string, signal: AbortSignal) => get<RunPage>(`runs?${query}`, signal),
  run: (id: string, signal: AbortSignal) => get<Run>(run(id), signal),
  metrics: (id: string, since: number, signal: AbortSignal) =>
    get<Metrics>(`${run(id)}/metrics?since=${since}`, signal),
  charts: (query: string, signal: AbortSignal) => get<Charts>(`metrics?${query}`, signal),
  checkpoints: (id: string, signal: AbortSignal) =>
    get<{ checkpoints: Checkpoint[] }>(`${run(id)}/checkpoints`, signal),
  attempts: (id: string, signal: AbortSignal) => get<Attempts>(`${run(id)}/attempts`, signal),
  version: (signal: AbortSignal) => get<Version>("version", signal),
  health: (signal: AbortSignal) => get<ControllerHealth>("health", signal),
  plan: (id: string, signal: AbortSignal) => get<Plan>(`${run(id)}/plan`, signal),
  // `which`: "limit=N", "since=N" or "before=N".
  events: (id: string, which: string, signal: AbortSignal) =>
    get<EventPage>(`events?run=${encodeURIComponent(id)}&${which}`, signal),
  cancel: (id: string) => post<Run>(`${run(id)}/cancel`),
  resume: (id: string) => post<Run>(`${run(id)}/resume`),
  // The controller takes up to a minute for it, and some seconds more while it starts.
  archive: (id: string) =>
    postLong<{ bytes: number }>(`${run(id)}/archive`, { milliseconds: 75_000 }),
  label: (id: string, changes: LabelChanges) => post<Run>(`${run(id)}/labels`, changes),
};
