// Where the time since the submission went, in parts that add up to the whole. Pure, so that tests
// need no browser.
import type { Checkpoint, Series } from "../base/api";
import type { TimeToAccuracy } from "./time_api";

export interface Part {
  kind: string;
  name: string;
  help: string;
  seconds: number;
}

// What the steps' series say of the time in steps, as shares of it.
export interface StepShares {
  again: number; // steps that were trained once more since
  exposed: number | null; // of the others: communication while nothing else was left to do
  rows: number; // steps with a record
  sampled: boolean; // not each of these was looked at
}

export function stepShares(steps: Series | null): StepShares | null {
  if (!steps) return null;
  let [whole, again, exposed, saysExposed] = [0, 0, 0, false];
  steps.buckets.forEach((bucket, i) => {
    const step = steps.series.step_seconds?.[i]?.[2];
    if (step == null) return;
    whole += bucket.rows * step;
    if (bucket.abandoned) {
      again += bucket.rows * step;
      return;
    }
    const waits = steps.series.exposed_seconds?.[i]?.[2];
    if (waits == null) return;
    saysExposed = true;
    exposed += bucket.rows * Math.min(waits, step);
  });
  if (!(whole > 0)) return null;
  return {
    again: again / whole,
    exposed: saysExposed ? exposed / whole : null,
    rows: steps.rows,
    sampled: steps.buckets.some((bucket) => bucket.rows > 1),
  };
}

// How long training stood still for checkpoints; null: none says it. Of those that were removed the
// API says nothing any more.
function stalled(checkpoints: Pick<Checkpoint, "stall_seconds">[]): number | null {
  const each = checkpoints.flatMap(({ stall_seconds: one }) => (one == null ? [] : [one]));
  return each.length > 0 ? each.reduce((sum, one) => sum + one, 0) : null;
}

// Each of the API's four parts, those that can be split into what is known of them and the rest.
export function partsOf(
  time: TimeToAccuracy["time"],
  shares: StepShares | null,
  checkpoints: Pick<Checkpoint, "stall_seconds">[],
): Part[] {
  const whole = time.whole_seconds;
  if (whole == null || !(whole > 0)) return [];
  const parts: Part[] = [];
  const add = (kind: string, name: string, help: string, seconds: number | null) => {
    if (seconds != null) parts.push({ kind, name, help, seconds });
  };
  const training = time.training_seconds;
  const again = training != null && shares ? training * shares.again : 0;
  const exposed =
    training != null && shares?.exposed != null ? training * shares.exposed : null;
  const other = time.other_seconds;
  const stall = stalled(checkpoints);
  const saving = stall != null && other != null ? Math.min(stall, other) : null;
  add("waiting", "Waiting", "in the queue, or between attempts", time.waiting_seconds);
  add("starting", "Starting", "until an attempt's first step", time.starting_seconds);
  const rest = training == null ? null : training - again - (exposed ?? 0);
  if (exposed == null) add("training", "Steps", "computation, communication and input", rest);
  else add("training", "Computation and input", "steps without exposed communication", rest);
  add("exposed", "Exposed communication", "while nothing else was left to do", exposed);
  const lost = "trained, then lost; the second time counts as computation";
  if (again > 0) add("again", "Replayed steps", lost, again);
  add("saving", "Checkpoints still there", "training stood still for them", saving);
  const between = other == null ? null : other - (saving ?? 0);
  const what =
    saving == null ? "evaluations, checkpoints, pauses" : "evaluations, removed checkpoints, pauses";
  add("other", "Between steps", what, between);
  const missing = whole - parts.reduce((sum, part) => sum + part.seconds, 0);
  if (missing > 1e-6 * whole) add("unknown", "Not accounted for", "by any part", missing);
  return parts;
}

// The values in multiples of a unit, so rounded that they add up to their rounded sum: those with
// the largest remainders are rounded up.
export function apportioned(values: number[], unit: number): number[] {
  const exact = values.map((value) => value / unit);
  const whole = Math.round(exact.reduce((sum, value) => sum + value, 0));
  const down = exact.map(Math.floor);
  const missing = whole - down.reduce((sum, value) => sum + value, 0);
  const order = exact
    .map((value, i) => ({ i, rest: value - Math.floor(value) }))
    .sort((a, b) => b.rest - a.rest || a.i - b.i);
  for (const { i } of order.slice(0, missing)) down[i] = (down[i] ?? 0) + 1;
  return down;
}
