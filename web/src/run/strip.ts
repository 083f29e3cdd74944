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
import { hasEnded, isSuspended } from "../base/api";
import { waits } from "./standstill";

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
  isNext?: boolean; // which may begin yet
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

// In seconds since 1970.
export const moment = (iso: string | null | undefined): number | null => {
  const time = iso ? Date.parse(iso) : NaN;
  return Number.isFinite(time) ? time / 1000 : null;
};

type Done = [step: number, seconds: number, ...rest: unknown[]];

const kOddStep = 3; // times as long as the middle one

// How long a step usually takes: the mean, without what stood still. An evaluation lies between some
// rows, of which then only the time since its end counts.
export function usualStep(rows: StepRow[], evaluations: EvaluationRow[] = []): number | null {
  const each: { steps: number; seconds: number }[] = [];
  let next = 0;
  for (let i = 1; i < rows.length; i += 1) {
    const [before, b] = [rows[i - 1], rows[i]];
    if (!before || !b) continue;
    let a: Done = before;
    for (let one = evaluations[next]; one && one[1] <= b[1]; one = evaluations[++next]) {
      if (one[1] > before[1]) a = one;
    }
    const [steps, seconds] = [b[0] - a[0], b[1] - a[1]];
    if (steps > 0 && seconds > 0) each.push({ steps, seconds });
  }
  const rates = each.map(({ steps, seconds }) => seconds / steps).sort((a, b) => a - b);
  const middle = rates[Math.floor(rates.length / 2)];
  if (middle == null) return null;
  const usual = each.filter(({ steps, seconds }) => seconds <= kOddStep * middle * steps);
  const sum = (of: "steps" | "seconds") => usual.reduce((whole, one) => whole + one[of], 0);
  return sum("seconds") / sum("steps");
}

interface Work {
  segments: Segment[];
  marks: Mark[];
  begun: number | null; // of the first step
  last: number | null;
}

interface Stretch {
  rows: StepRow[]; // of one attempt
  evaluations: EvaluationRow[]; // likewise
  from: number; // its begin, on the run's own clock
  first: number; // the step that it goes on from
  reached: number; // by attempts before
  usual: number | null; // of the whole run, for an attempt of one row
  clock: number; // where the run's own clock begins
}

// The time of the steps of one attempt: what was trained, or trained again, and what stood between.
function workOf({ rows, evaluations, from, first, reached, usual: others, clock }: Stretch): Work {
  const work: Work = { segments: [], marks: [], begun: null, last: null };
  const start = rows[0];
  if (!start) return work;
  const usual = usualStep(rows, evaluations) ?? others ?? start[1] - from;
  const add = (kind: Kind, from: number, to: number, note = "") => {
    const before = work.segments[work.segments.length - 1];
    if (before && before.kind === kind && before.note === note) before.to = to;
    else if (to > from) work.segments.push({ kind, from, to, note });
  };
  let at = Math.max(0, from, start[1] - usual * Math.max(1, start[0] - first));
  work.begun = clock + at;
  let step = first;
  let most = reached;
  let next = 0;
  // The evaluations up to then. Where the row of an evaluation's step is not here, as of a thinned
  // series, its begin follows from the steps since the row before; one that would be of no length
  // is returned.
  const judge = (until: number): number | null => {
    let unmeasured: number | null = null;
    for (let one = evaluations[next]; one && one[1] <= until; one = evaluations[++next]) {
      const steps = one[0] - step;
      const begin = at + steps * usual;
      if (steps < 0 || one[1] <= begin) {
        unmeasured = one[0];
        work.marks.push({ kind: "evaluation", at: clock + one[1], note: `step ${one[0]}` });
        continue;
      }
      if (steps > 0) add(one[0] <= most ? "replaying" : "training", clock + at, clock + begin);
      const note = `after step ${one[0]}${steps > 0 ? ", about" : ""}`;
      add("evaluating", clock + begin, clock + one[1], note);
      [at, step, most] = [one[1], one[0], Math.max(most, one[0])];
    }
    return unmeasured;
  };
  for (const row of rows) {
    const judged = judge(row[1]);
    const rest = usual * Math.max(1, row[0] - step);
    const gap = row[1] - at;
    if (gap > rest + Math.max(kLeastStall, kStepsOfStall * usual)) {
      const [kind, note]: [Kind, string] =
        judged == null
          ? ["stalled", `no step after step ${step}`]
          : ["evaluating", `after step ${judged}, about`];
      add(kind, clock + at, clock + row[1] - rest, note);
      at = row[1] - rest;
    }
    add(row[0] <= most ? "replaying" : "training", clock + at, clock + row[1]);
    [at, step, most] = [row[1], row[0], Math.max(most, row[0])];
  }
  judge(Infinity);
  work.last = clock + at;
  return work;
}

// Whether more may come of the newest attempt, as the API's figures have it (goes_on() of
// accuracy_json.cc): while the next launch waits in the queue, the attempt before is over.
function goesOn(run: Run, told: Attempts, attempt: AttemptRow): boolean {
  if (run.state !== "running" && run.state !== "stopping") return false;
  if (attempt.exit_code != null) return false;
  const newest = told.launches[told.launches.length - 1];
  return newest == null || (newest.ended_at == null && newest.launch === attempt.launch);
}

// What an attempt under way does since its newest row.
function tailOf(run: Run): [Kind, string] {
  if (isSuspended(run)) return ["stalled", "suspended by Slurm"];
  if (run.silent_seconds != null) return ["stalled", "its journal is silent"];
  return [run.state_text.startsWith("evaluating") ? "evaluating" : "training", ""];
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
    const end = moment(one.at);
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

// Where the newest of the rows ends on the run's own clock.
const newestOf = (rows: [number, number, ...unknown[]][]) => rows[rows.length - 1]?.[1] ?? 0;

// The moments of a run, in seconds since its submission.
interface Clocks {
  zero: number; // of the submission, since 1970
  clock: number; // where the run's own seconds begin
  end: number; // of the run, or now
}

function clocksOf({ run, steps, evaluations }: Known): Clocks | null {
  const zero = moment(run.created_at);
  if (zero == null) return null;
  const clock = (moment(run.started_at) ?? zero) - zero;
  const ended = moment(run.ended_at);
  if (hasEnded(run) && ended != null) return { zero, clock, end: ended - zero };
  // By the controller's clock, as its other times are: the reader's may be another. It stops at the
  // target; what came behind that is as late as its newest row.
  const newest = Math.max(newestOf(steps), newestOf(evaluations));
  const last = newest > 0 ? clock + newest : 0;
  return { zero, clock, end: Math.max(run.since_submission_seconds ?? 0, last) };
}

// Since an attempt's end, or the submission.
function waitOf(known: Known, before: Strip | undefined, zero: number, to: number): Segment[] {
  const from = before?.to ?? 0;
  if (!(to > from)) return [];
  if (!before) return [{ kind: "queued", from, to, note: "" }];
  const asked = known.requeues.find((event) => {
    const at = moment(event.at);
    return at != null && at - zero >= before.from && at - zero <= to;
  });
  const request = asked?.by ? `asked for by ${asked.by}` : "a requeue was asked for";
  return [{ kind: "requeued", from, to, note: asked ? request : `after: ${before.outcome}` }];
}

// `until`: the begin of the next one, or the end of all.
function stripOf(
  known: Known,
  attempt: AttemptRow,
  { zero, clock, end }: Clocks,
  at: { begin: number; until: number; isOpen: boolean; reached: number; before: Strip | undefined },
): Strip & { most: number } {
  const { begin, until, isOpen, reached, before } = at;
  const from = begin - clock;
  const rows = within(known.steps, from, until - clock);
  const evaluations = within(known.evaluations, from, until - clock);
  const usual = usualStep(known.steps, known.evaluations);
  const first = attempt.first_step;
  const work = workOf({ rows, evaluations, from, first, reached, usual, clock });
  const stop = isOpen ? end : Math.min(until, begin + (attempt.seconds ?? until - begin));
  const last = Math.max(begin, work.last ?? begin);
  const close = Math.max(stop, last);
  const segments = waitOf(known, before, zero, begin);
  // An attempt whose steps are none of a thinned series has trained, too.
  const unseen = work.begun == null ? Math.min(attempt.training_seconds ?? 0, close - begin) : 0;
  const starts = work.begun ?? close - unseen;
  if (starts > begin) segments.push({ kind: "starting", from: begin, to: starts, note: "" });
  if (unseen > 0) {
    const kind = first < reached ? "replaying" : "training";
    segments.push({ kind, from: starts, to: close, note: "none of its steps is shown" });
  }
  segments.push(...work.segments);
  if (work.begun != null && close > last) {
    const [kind, note]: [Kind, string] = isOpen ? tailOf(known.run) : ["ending", ""];
    segments.push({ kind, from: last, to: close, note });
  }
  const saved = checkpointParts(known.checkpoints, zero, begin, close + 1);
  return {
    attempt: attempt.attempt,
    where: attempt.hosts.length > 0 ? attempt.hosts.join(", ") : (attempt.host ?? ""),
    from: before?.to ?? 0,
    to: close,
    segments: [...segments, ...saved.segments],
    marks: [...work.marks, ...saved.marks],
    outcome: outcomeOf(attempt, known.told, isOpen),
    most: rows.reduce((most, row) => Math.max(most, row[0]), reached),
  };
}

export function strips(known: Known): Strip[] {
  const { run, told } = known;
  const clocks = clocksOf(known);
  if (!clocks) return [];
  const { zero, end } = clocks;
  const list: Strip[] = [];
  let reached = 0;
  const attempts = told.attempts
    .filter((one) => moment(one.started_at) != null)
    .sort((a, b) => a.attempt - b.attempt);
  attempts.forEach((attempt, index) => {
    const next = moment(attempts[index + 1]?.started_at);
    const { most, ...strip } = stripOf(known, attempt, clocks, {
      begin: (moment(attempt.started_at) ?? zero) - zero,
      until: next == null ? end : next - zero,
      isOpen: index === attempts.length - 1 && goesOn(run, told, attempt),
      reached,
      before: list[list.length - 1],
    });
    list.push(strip);
    reached = most;
  });
  if (waits(run) || list.length === 0) {
    const before = list[list.length - 1];
    const segments = waitOf(known, before, zero, end);
    const outcome = hasEnded(run) ? run.state : "waiting";
    const from = before?.to ?? 0;
    list.push({
      ...{ attempt: null, where: "", from, to: Math.max(from, end), segments, marks: [] },
      outcome,
      isNext: !hasEnded(run),
    });
  }
  return list;
}
