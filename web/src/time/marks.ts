// Events as marks on the curve: where they lie on the axis, a word for each, and which of them
// stand together. Pure, so that tests need no browser.
import type {
  AttemptRow,
  Attempts,
  CheckpointRow,
  Launch,
  Run,
  RunEvent,
  Series,
  StepRow,
} from "../base/api";
import * as show from "../base/format";
import type { Table } from "../parts/chart_data";
import { failed } from "../run/standstill";
import { moment } from "../run/strip";
import type { AxisName } from "./time_figures";
import { axisOfRun, kAxes, placeOfStep, waitOf } from "./time_figures";

export type Tone = "bad" | "warn" | "muted";
export interface Mark {
  x: number;
  word: string; // what happened, in a word or two
  tone: Tone;
  text: string; // all that is known of it
  at: string | null; // null: a checkpoint's, which the run's own clock tells
  isCheckpoint: boolean;
}

export interface MarkSources {
  run: Pick<Run, "created_at" | "started_at">;
  events: RunEvent[];
  told: Attempts;
  checkpoints: CheckpointRow[];
  steps: StepRow[];
  series: Series | undefined; // evaluations at this axis
}

// Kinds of events that may bend a curve. Ends of jobs, begins of attempts and checkpoints are known
// in more detail, and of runs that were found on disk as well, by other routes.
export const kKinds: Record<string, [string, Tone]> = {
  "attempt.alarm": ["alarm", "warn"],
  "attempt.batch_grown": ["larger batch", "muted"],
  "attempt.corruption": ["corruption", "bad"],
  "attempt.loss_scale": ["loss scale", "muted"],
  "launch.limited": ["time limit changed", "muted"],
  "node.blamed": ["node suspected", "bad"],
  "plan.input": ["data loading", "muted"],
  "plan.tried": ["plan change", "muted"],
  "run.cancel_asked": ["cancel", "warn"],
  "run.changed": ["settings changed", "muted"],
  "run.extend_asked": ["extended", "muted"],
  "run.requeue_asked": ["requeue", "warn"],
  "run.resume_asked": ["resume", "muted"],
};

// Why a launch ended, in the API's words.
const kCauses: Record<string, [string, Tone]> = {
  "node failure": ["node lost", "bad"],
  "launch failure": ["start failed", "bad"],
  "out of memory": ["out of memory", "bad"],
  preempted: ["preempted", "warn"],
  "time limit": ["time limit", "warn"],
  deadline: ["deadline", "warn"],
  cancelled: ["cancelled", "warn"],
};

// What a trainer returns that has not failed (trainer/contract/exit_code.h).
const kEnds: Record<string, [string, Tone]> = {
  "23": ["replaced", "muted"],
  "24": ["stopped", "warn"],
  "25": ["time over", "muted"],
};

const known = <T>(table: Record<string, T>, key: string): T | undefined =>
  Object.hasOwn(table, key) ? table[key] : undefined;

// The API has one kind for all that a trainer warns of. A divergence is the one that names a step;
// the rest says in its text what it is about.
function wordOf(event: RunEvent): [string, Tone] | undefined {
  if (event.kind !== "attempt.warning") return known(kKinds, event.kind);
  const text = event.words ?? "";
  if (event.step != null) {
    return [/roll(ed|s|ing)?[ -]?back|goes back/i.test(text) ? "rollback" : "divergence", "bad"];
  }
  if (/straggl/i.test(text)) return ["straggler", "warn"];
  if (/thermal|throttl/i.test(text)) return ["thermal", "warn"];
  return ["warning", "warn"];
}

// The step that was done at a time of the run's own clock.
export function stepAt(steps: StepRow[], seconds: number): number | null {
  let [low, high] = [0, steps.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((steps[middle]?.[1] ?? Infinity) <= seconds) low = middle + 1;
    else high = middle;
  }
  return steps[low - 1]?.[0] ?? (steps.length > 0 && seconds >= 0 ? 0 : null);
}

// Where moments, seconds of the run's own clock, and steps lie on the axis; null: nowhere.
function placesOn(axis: AxisName, { run, steps, series }: MarkSources) {
  const [submitted, first] = [moment(run.created_at), moment(run.started_at)];
  const wait = waitOf(run);
  const ofStep = (step: number) => (axis === "step" ? step : placeOfStep(series, step));
  const ofSeconds = (seconds: number): number | null => {
    if (axis === "wall") return seconds;
    if (axis === "wall_since_submission") return wait == null ? null : seconds + wait;
    const step = stepAt(steps, seconds);
    return step == null ? null : ofStep(step);
  };
  const ofMoment = (at: string | null): number | null => {
    const time = moment(at);
    if (time == null) return null;
    if (axis === "wall_since_submission") return submitted == null ? null : time - submitted;
    return first == null ? null : ofSeconds(time - first);
  };
  return { ofStep, ofSeconds, ofMoment, isTime: kAxes[axis].isClock };
}

const sentence = (...parts: (string | null | undefined)[]) =>
  show.clipped(parts.filter((part) => part != null && part !== "").join(": "));

function endOf(launch: Launch): [string, Tone] | undefined {
  const cause = launch.cause == null ? undefined : known(kCauses, launch.cause);
  if (cause) return cause;
  if (launch.ended_at == null) return undefined;
  if (!failed(launch)) return known(kEnds, String(launch.exit_code));
  return [launch.cause ? "ended" : "failed", "bad"];
}

const whereOf = (attempt: AttemptRow) =>
  attempt.hosts.length > 0 ? attempt.hosts.join(", ") : attempt.host;

export function marksOf(sources: MarkSources, axis: AxisName): Mark[] {
  const places = placesOn(axis, sources);
  const marks: Mark[] = [];
  const add = (x: number | null, [word, tone]: [string, Tone], text: string, at: string | null) => {
    if (x == null || !(x >= 0)) return;
    marks.push({ x, word, tone, text, at, isCheckpoint: false });
  };
  for (const event of sources.events) {
    const word = wordOf(event);
    if (!word) continue;
    const byStep = !places.isTime && event.step != null ? places.ofStep(event.step) : null;
    const of = event.step == null ? null : `step ${show.count(event.step)}`;
    // A warning's text says by itself what it is about.
    const head = event.kind === "attempt.warning" ? null : word[0];
    const text = sentence(head, of, event.node, event.words, event.by && `by ${event.by}`);
    add(byStep ?? places.ofMoment(event.at), word, text, event.at);
  }
  for (const launch of sources.told.launches) {
    const word = endOf(launch);
    if (!word) continue;
    const why = launch.what ?? launch.cause ?? `exit code ${launch.exit_code ?? show.kDash}`;
    const text = sentence(word[0], `launch ${launch.launch} on ${launch.nodes || "no node"}`, why);
    add(places.ofMoment(launch.ended_at), word, text, launch.ended_at);
  }
  for (const attempt of sources.told.attempts) {
    if (attempt.attempt < 2) continue;
    const text = sentence(`attempt ${attempt.attempt}`, whereOf(attempt));
    const goesOn = `${text}, from step ${show.count(attempt.first_step)}`;
    const word = `attempt ${attempt.attempt}`;
    add(places.ofMoment(attempt.started_at), [word, "warn"], goesOn, attempt.started_at);
  }
  for (const [step, seconds, name, status] of sources.checkpoints) {
    if (status !== "written" && status !== "failed") continue;
    const x = places.isTime ? places.ofSeconds(seconds) : places.ofStep(step);
    if (x == null || !(x >= 0)) continue;
    const failed = status === "failed";
    const word = failed ? "checkpoint failed" : "checkpoint";
    const text = sentence(word, name || `step ${show.count(step)}`);
    marks.push({ x, word, tone: failed ? "bad" : "muted", text, at: null, isCheckpoint: !failed });
  }
  return marks.sort((a, b) => a.x - b.x);
}

// Marks that would lie on each other stand together: none of a group is further than `width` from
// its first.
export function clusters(marks: Mark[], width: number): Mark[][] {
  const groups: Mark[][] = [];
  for (const mark of marks) {
    const last = groups[groups.length - 1];
    if (last?.[0] && mark.x - last[0].x < width) last.push(mark);
    else groups.push([mark]);
  }
  return groups;
}

const kWeight: Record<Tone, number> = { bad: 3, warn: 2, muted: 1 };
// The mark that a group is named by.
export function worstOf(group: Mark[]): Mark | undefined {
  const weight = (mark: Mark) => (mark.isCheckpoint ? 0 : kWeight[mark.tone]);
  return group.reduce<Mark | undefined>(
    (worst, mark) => (worst && weight(worst) >= weight(mark) ? worst : mark),
    undefined,
  );
}

// "node lost, attempt 2, 3 × checkpoint"
export function wordsOf(group: Mark[]): string {
  const counts = new Map<string, number>();
  for (const { word } of group) counts.set(word, (counts.get(word) ?? 0) + 1);
  return [...counts].map(([word, n]) => (n > 1 ? `${n} × ${word}` : word)).join(", ");
}

export function tableOfMarks(
  marks: Mark[],
  axis: AxisName,
  run: Pick<Run, "device">,
): Table {
  return {
    columns: [axisOfRun(axis, run).name, "Time", "Event"],
    rows: marks.map((mark) => [
      Number(mark.x.toFixed(3)),
      mark.at == null ? null : show.utc(mark.at),
      mark.text,
    ]),
  };
}
