// What is computed for the view of time to accuracy. Pure, so that tests need no browser.
import type { Charts, EvaluationRow, Prediction, Run, Series } from "../base/api";
import { hoursIn, unitOf } from "../base/device";
import * as show from "../base/format";
import type { Branch, Placed } from "../parts/branches";
import { branchesOf } from "../parts/branches";
import type { Places } from "../parts/places";
import { placesIn } from "../parts/places";
import type { Kind, Strip } from "../run/strip";
import { moment } from "../run/strip";
import type { Earlier, Reference } from "./time_api";

// The clocks of the chart, as the API has them.
export const kAxes = {
  wall: {
    title: "since the first step",
    over: "since the first step",
    name: "Seconds since the first step",
    isClock: true,
  },
  wall_since_submission: {
    title: "since submission",
    over: "since submission",
    name: "Seconds since submission",
    isClock: true,
  },
  device_hours: { title: "GPU-hours", over: "by GPU-hours", name: "GPU-hours", isClock: false },
  samples: { title: "samples", over: "by samples", name: "Samples", isClock: false },
  step: { title: "steps", over: "by steps", name: "Step", isClock: false },
} as const;
export type AxisName = keyof typeof kAxes;
export const axisOf = (text: string | null): AxisName =>
  text != null && Object.hasOwn(kAxes, text) ? (text as AxisName) : "wall";

// The axis as it is named for a run: hours are those of its ranks, GPUs or not.
export function axisOfRun(axis: AxisName, run: Pick<Run, "device">) {
  if (axis !== "device_hours") return kAxes[axis];
  const hours = hoursIn(unitOf([run]));
  return { title: hours, over: `by ${hours}`, name: hours, isClock: false };
}

export type Point = [x: number, value: number];
export interface Curve {
  kept: Point[]; // what the newest weights have gone through
  abandoned: Point[]; // trained again since
  starts: { kept: number[]; abandoned: number[] }; // where pieces of them begin
  placesOf: (again: boolean) => Places;
}

export function curveOf(series: Series | undefined): Curve {
  const points: Placed[] = [];
  series?.buckets.forEach((bucket, index) => {
    const value = series.series.metric?.[index]?.[2];
    if (value == null) return;
    points.push({ x: bucket.to, value, attempt: bucket.attempt, again: bucket.abandoned });
  });
  const { kept, again } = branchesOf(points);
  const pointsOf = ({ x, y }: Branch) => x.map((at, i): Point => [at, y[i] ?? 0]);
  return {
    kept: pointsOf(kept),
    abandoned: pointsOf(again),
    starts: { kept: kept.starts, abandoned: again.starts },
    placesOf: (isAgain) => placesIn(series, "metric", isAgain),
  };
}
export const seriesOf = (charts: Charts | null, id: string): Series | undefined =>
  charts?.runs.find((one) => one.id === id)?.evaluations;

// A published curve on this axis; null where it has not got it.
export function referencePoints(reference: Reference, axis: AxisName): Point[] | null {
  if (axis === "wall") return reference.evaluations.map(([seconds, , value]) => [seconds, value]);
  if (axis !== "samples") return null;
  const points: Point[] = [];
  for (const [, samples, value] of reference.evaluations) {
    if (samples != null) points.push([samples, value]);
  }
  return points.length > 0 ? points : null;
}

// Curves of different places on one axis: each place once, in order, and null where a curve has
// none.
export function aligned(curves: Point[][]): [number[], ...(number | null)[][]] {
  const places = [...new Set(curves.flatMap((points) => points.map((point) => point[0])))];
  places.sort((a, b) => a - b);
  const index = new Map(places.map((place, i) => [place, i]));
  const columns = curves.map((points) => {
    const column: (number | null)[] = Array(places.length).fill(null);
    for (const [x, value] of points) column[index.get(x) ?? 0] = value;
    return column;
  });
  return [places, ...columns];
}

// Where the steps of its evaluations lie; found once, as each mark asks for it.
const places = new WeakMap<Series, Point[]>();
function placesOf(series: Series): Point[] {
  const known = places.get(series);
  if (known) return known;
  const at: Point[] = [];
  for (const bucket of series.buckets) {
    if (!bucket.abandoned) at.push([bucket.to_step, bucket.to]);
  }
  at.sort((a, b) => a[0] - b[0]);
  places.set(series, at);
  return at;
}

// Where a step lies on the axis, by the evaluations around it and behind the last one as before it;
// null where there are none.
export function placeOfStep(series: Series | undefined, step: number): number | null {
  const at = series ? placesOf(series) : [];
  if (at.length === 0) return null;
  const next = at.findIndex(([to]) => to >= step);
  const index = next < 0 ? at.length - 1 : next;
  const right = at[index] ?? [0, 0];
  const left = at[index - 1] ?? [0, 0];
  if (!(right[0] > left[0])) return right[1];
  return left[1] + ((step - left[0]) * (right[1] - left[1])) / (right[0] - left[0]);
}

// From the submission to the first step; null: not known, or not yet.
export function waitOf(run: Pick<Run, "created_at" | "started_at">): number | null {
  const [submitted, first] = [moment(run.created_at), moment(run.started_at)];
  return submitted == null || first == null ? null : first - submitted;
}

// A prediction counts from the first step; null on an axis that is no time.
export function predictionOn(
  axis: AxisName,
  wait: number | null,
  prediction: Prediction | null,
): Prediction | null {
  if (!prediction || axis === "wall") return prediction;
  if (axis !== "wall_since_submission" || wait == null) return null;
  const { seconds, low, high } = prediction;
  return { ...prediction, seconds: seconds + wait, low: low + wait, high: high + wait };
}

// Stretches of time in which nothing was trained, on the axis; none where it is no time.
const kIdle: readonly Kind[] = ["queued", "requeued", "starting", "stalled"];
export interface Idle {
  from: number;
  to: number;
  kind: Kind;
}
export function idleOf(
  list: Strip[],
  run: Pick<Run, "created_at" | "started_at">,
  axis: AxisName,
): Idle[] {
  if (axis !== "wall" && axis !== "wall_since_submission") return [];
  const offset = axis === "wall" ? (waitOf(run) ?? 0) : 0;
  return list.flatMap((strip) =>
    strip.segments
      .filter((one) => kIdle.includes(one.kind) && one.to - offset > 0)
      .map((one) => ({
        from: Math.max(0, one.from - offset),
        to: one.to - offset,
        kind: one.kind,
      })),
  );
}

// The best of what was evaluated; less is better of a loss.
export function bestOf(metric: string, evaluations: EvaluationRow[]): number | null {
  const values = evaluations.flatMap((row) => (row[5] == null ? [] : [row[5]]));
  const better = show.isLoss(metric) ? Math.min : Math.max;
  return values.length > 0 ? values.reduce((best, one) => better(best, one)) : null;
}

// Round values of the metric below the best one and the target, for the table of when each was
// reached.
export function thresholds(
  metric: string,
  best: number | null,
  target: number | null,
  baseline: number | null,
): number[] {
  if (show.isLoss(metric) || best == null) return target == null ? [] : [target];
  const low = Math.max(0, baseline ?? 0);
  const high = Math.max(best, target ?? 0);
  const size = [0.01, 0.02, 0.05, 0.1, 0.2].find((one) => (high - low) / one <= 8) ?? 0.25;
  const found = new Set<number>();
  for (let i = Math.floor(low / size) + 1; i * size <= high; i += 1) {
    found.add(Number((i * size).toFixed(6)));
  }
  if (target != null) found.add(target);
  return [...found].sort((a, b) => a - b);
}

// The predictions that were made nearest to these shares of the time to the crossing, or so far;
// each once, for the share that it is nearest to.
const kShares = [0.05, 0.2, 0.5];
export function tellingPredictions(
  earlier: Earlier[],
  whole: number | null,
): { share: number; made: Earlier }[] {
  if (whole == null || whole <= 0) return [];
  const made = earlier.flatMap((one) => {
    const share = (one.made_at_seconds ?? 0) / whole;
    return share > 0 && share < 1 ? [{ share, made: one }] : [];
  });
  // A prediction twice as early or late tells nothing of a share.
  const pairs = kShares.flatMap((wanted) =>
    made
      .filter((one) => Math.abs(Math.log(one.share / wanted)) < Math.log(2))
      .map((one) => ({ one, wanted, off: Math.abs(one.share - wanted) })),
  );
  const found = new Map<number, (typeof made)[number]>();
  for (const { one, wanted } of pairs.sort((a, b) => a.off - b.off)) {
    if (found.has(wanted) || [...found.values()].includes(one)) continue;
    found.set(wanted, one);
  }
  return [...found.values()].sort((a, b) => a.share - b.share);
}
