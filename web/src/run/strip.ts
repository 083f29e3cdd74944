// What each attempt did when, as far as the API tells it. Times are in seconds since the
// submission.
import type {
  AttemptRow,
  Attempts,
  Checkpoint,
  EvaluationRow,
  Run,
  RunEvent,
  StepRow,
} from "../base/api";
import { hasEnded } from "../base/api";

export const kKinds = [
  "queued",
  "requeued",
  "starting",
  "training",
  "replaying",
  "stalled",
  "evaluating",
  "checkpointing",
  "ending",
] as const;
export type Kind = (typeof kKinds)[number];

export interface Segment {
  kind: Kind;
  from: number;
  to: number;
  note: string; // what else is known of it
}
// A moment of which no length is known.
export interface Mark {
  kind: "evaluation" | "checkpoint";
  at: number;
  note: string;
}
export interface Strip {
  attempt: number | null; // null: the wait for one that has not begun
  where: string; // its hosts
  from: number;
  to: number;
  segments: Segment[];
  marks: Mark[];
  outcome: string;
}

export interface Known {
  run: Run;
  told: Attempts;
  steps: StepRow[];
  evaluations: EvaluationRow[];
  checkpoints: Checkpoint[];
  requeues: RunEvent[];
}

const kLeastStall = 30; // s, as the controller has it for a run that is silent
const kStepsOfStall = 5;

const seconds = (iso: string | null | undefined): number | null => {
  const time = iso ? Date.parse(iso) : NaN;
  return Number.isFinite(time) ? time / 1000 : null;
};

// How long a step usually takes: the middle one of the differences.
export function usualStep(rows: StepRow[]): number | null {
  const each: number[] = [];
  for (let i = 1; i < rows.length; i += 1) {
    const [a, b] = [rows[i - 1], rows[i]];
    if (a && b && b[0] > a[0]) each.push((b[1] - a[1]) / (b[0] - a[0]));
  }
  if (each.length === 0) return null;
  return each.sort((a, b) => a - b)[Math.floor(each.length / 2)] ?? null;
}

interface Work {
  segments: Segment[];
  marks: Mark[];
  begun: number | null; // of the first step
  last: number | null;
}

// The time of the steps of one attempt: what was trained, or trained again, and what stood between.
function workOf(
  rows: StepRow[],
  evaluations: EvaluationRow[],
  first: number,
  reached: number,
  clock: number,
): Work {
  const work: Work = { segments: [], marks: [], begun: null, last: null };
  const [start, end] = [rows[0], rows[rows.length - 1]];
  if (!start || !end) return work;
  const usual = usualStep(rows) ?? start[1];
  const add = (kind: Kind, from: number, to: number, note = "") => {
    const before = work.segments[work.segments.length - 1];
    if (before && before.kind === kind && before.note === note) before.to = to;
    else if (to > from) work.segments.push({ kind, from, to, note });
  };
  let at = Math.max(0, start[1] - usual * Math.max(1, start[0] - first));
  work.begun = clock + at;
  let step = first;
  let next = 0;
  for (const row of rows) {
    for (let one = evaluations[next]; one && one[1] <= row[1]; one = evaluations[++next]) {
      // Its length is known only where the step before it is here.
      if (one[0] === step && one[1] > at) {
        add("evaluating", clock + at, clock + one[1], `after step ${one[0]}`);
        at = one[1];
      } else work.marks.push({ kind: "evaluation", at: clock + one[1], note: `step ${one[0]}` });
    }
    const rest = usual * Math.max(1, row[0] - step);
    const gap = row[1] - at;
    if (gap > rest + Math.max(kLeastStall, kStepsOfStall * usual)) {
      add("stalled", clock + at, clock + row[1] - rest, `no step after step ${step}`);
      at = row[1] - rest;
    }
    add(row[0] <= reached ? "replaying" : "training", clock + at, clock + row[1]);
    [at, step] = [row[1], row[0]];
  }
  for (let one = evaluations[next]; one; one = evaluations[++next]) {
    if (one[0] === step && one[1] > at) {
      add("evaluating", clock + at, clock + one[1], `after step ${one[0]}`);
      at = one[1];
    } else work.marks.push({ kind: "evaluation", at: clock + one[1], note: `step ${one[0]}` });
  }
  work.last = clock + at;
  return work;
}

// How it ended, in the API's words.
function outcomeOf(attempt: AttemptRow, told: Attempts, isOpen: boolean): string {
  const launch = told.launches.find((one) => one.launch === attempt.launch);
  const what = attempt.message ?? launch?.what ?? attempt.reason;
  if (what) return what;
  if (isOpen) return "under way";
  return attempt.exit_code == null ? "left no exit code" : `returned ${attempt.exit_code}`;
}

function checkpointParts(checkpoints: Checkpoint[], zero: number, from: number, to: number) {
  const segments: Segment[] = [];
  const marks: Mark[] = [];
  for (const one of checkpoints) {
    const end = seconds(one.at);
    if (end == null || one.status === "removed" || one.status === "skipped") continue;
    const at = end - zero;
    if (at < from || at > to) continue;
    const note = `${one.name || `step ${one.step}`}${one.status === "failed" ? ", failed" : ""}`;
    if (one.seconds == null || one.seconds <= 0) marks.push({ kind: "checkpoint", at, note });
    else {
      const begin = Math.max(from, at - one.seconds);
      segments.push({ kind: "checkpointing", from: begin, to: at, note });
    }
  }
  return { segments, marks };
}

// The rows that lie in an attempt's time, which starts at `from` on the clock of the submission.
function within<R extends [number, number, ...unknown[]]>(
  rows: R[],
  from: number,
  to: number,
): R[] {
  return rows.filter((row) => row[1] > from && row[1] <= to);
}

export function strips(known: Known): Strip[] {
  const { run, told } = known;
  const zero = seconds(run.created_at);
  if (zero == null) return [];
  // By the controller's clock, as its other times are: the reader's may be another.
  const now = run.since_submission_seconds ?? 0;
  const over = hasEnded(run);
  const ended = seconds(run.ended_at);
  const end = over && ended != null ? ended - zero : now;
  const clock = (seconds(run.started_at) ?? zero) - zero; // of the run's own seconds
  const list: Strip[] = [];
  let free = 0; // since when it has waited
  let reached = 0;
  const wait = (to: number): Segment[] => {
    if (!(to > free)) return [];
    if (list.length === 0) return [{ kind: "queued", from: free, to, note: "" }];
    const before = list[list.length - 1];
    const asked = known.requeues.find((event) => {
      const at = seconds(event.at);
      return at != null && before != null && at - zero >= before.from && at - zero <= to;
    });
    const note = asked ? `asked for by ${asked.by ?? "nobody"}` : `after: ${before?.outcome ?? ""}`;
    return [{ kind: "requeued", from: free, to, note }];
  };
  const attempts = told.attempts.slice().sort((a, b) => a.attempt - b.attempt);
  attempts.forEach((attempt, index) => {
    const started = seconds(attempt.started_at);
    if (started == null) return;
    const begin = started - zero;
    const isLast = index === attempts.length - 1;
    const isOpen = isLast && !over && attempt.exit_code == null && run.attempt?.state !== "ended";
    const next = seconds(attempts[index + 1]?.started_at);
    const limit = next == null ? end : next - zero;
    const stop = isOpen ? now : Math.min(limit, begin + (attempt.seconds ?? limit - begin));
    const [from, to] = [begin - clock, (isLast ? end : limit) - clock];
    const rows = within(known.steps, from, to);
    const judged = within(known.evaluations, from, to);
    const work = workOf(rows, judged, attempt.first_step, reached, clock);
    const segments = wait(begin);
    const last = Math.max(begin, work.last ?? begin);
    const close = Math.max(stop, last);
    const starts = work.begun ?? close;
    if (starts > begin) segments.push({ kind: "starting", from: begin, to: starts, note: "" });
    segments.push(...work.segments);
    if (work.begun != null && close > last) {
      const silent = isOpen && run.silent_seconds != null;
      const kind = !isOpen ? "ending" : silent ? "stalled" : "training";
      segments.push({ kind, from: last, to: close, note: silent ? "its journal is silent" : "" });
    }
    const saved = checkpointParts(known.checkpoints, zero, begin, close + 1);
    list.push({
      attempt: attempt.attempt,
      where: attempt.hosts.length > 0 ? attempt.hosts.join(", ") : (attempt.host ?? ""),
      from: free,
      to: close,
      segments: [...segments, ...saved.segments],
      marks: [...work.marks, ...saved.marks],
      outcome: outcomeOf(attempt, told, isOpen),
    });
    free = close;
    reached = Math.max(reached, rows.reduce((most, row) => Math.max(most, row[0]), 0));
  });
  const isWaiting = run.state === "queued" || (run.state === "starting" && attempts.length === 0);
  if (isWaiting || list.length === 0) {
    const segments = wait(end);
    const outcome = over ? run.state : "waiting";
    list.push({ attempt: null, where: "", from: free, to: end, segments, marks: [], outcome });
  }
  return list;
}
