import type { Charts } from "../base/api";
import type { Branch, Placed } from "../parts/branches";
import { branchesOf } from "../parts/branches";
import { isDrawn } from "../parts/chart_data";
import type { Places } from "../parts/places";
import { placesIn } from "../parts/places";
import type { SeriesName } from "./compare_api";
import { kIsClock, kSeries } from "./compare_api";

// Curves as they are drawn and read: by x, each with points of its own.
export interface Points {
  x: number[]; // growing
  y: number[];
  starts?: number[]; // where, along a clock, a piece begins that does not go on from before
  again?: Points; // what was trained again since
}

// What one line shows: a run, or the mean of runs that differ by seed only.
export interface Curve extends Points {
  key: string; // id of the run, of a group's first run
  deviation?: number[]; // sample standard deviation at each x, of a group
  placesOf?: (again: boolean) => Places; // of a run
  ends?: number[]; // newest values of its members; those without points have none
}

export const kNoPoints: Points = { x: [], y: [] };

const chartOf = (charts: Charts, id: string, name: SeriesName) =>
  charts.runs.find((one) => one.id === id)?.[kSeries[name].evaluation ? "evaluations" : "steps"];

// One series of one run, with what was trained again after a resume beside it.
export function pointsOf(charts: Charts, id: string, name: SeriesName): Points {
  const chart = chartOf(charts, id, name);
  const found: Placed[] = [];
  chart?.buckets.forEach(({ to: x, attempt, abandoned: again }, index) => {
    const value = chart.series[name]?.[index]?.[2];
    if (value != null) found.push({ x, value, attempt, again });
  });
  const { kept, again } = branchesOf(found);
  const of = ({ x, y, starts }: Branch): Points => {
    const points = { x, y: y.map((value) => value ?? 0) };
    return kIsClock[charts.x] && starts.length > 0 ? { ...points, starts } : points;
  };
  return again.x.length > 0 ? { ...of(kept), again: of(again) } : of(kept);
}

export function curveOf(charts: Charts, id: string, name: SeriesName): Curve {
  const placesOf = (again: boolean) => placesIn(chartOf(charts, id, name), name, again);
  return { key: id, ...pointsOf(charts, id, name), placesOf };
}

// The index of the last x that is at most this; −1: none is.
function indexAt(x: number[], at: number): number {
  let [low, high] = [0, x.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((x[middle] ?? Infinity) <= at) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

// The value on the straight line between the points around x; null outside of them, and where the
// line has a gap.
export function valueAt({ x, y, starts }: Points, at: number): number | null {
  const i = indexAt(x, at);
  const [x0, y0, x1, y1] = [x[i], y[i], x[i + 1], y[i + 1]];
  if (x0 == null || y0 == null) return null;
  if (x0 === at) return y0;
  if (x1 == null || y1 == null || starts?.includes(x1)) return null;
  return y0 + ((y1 - y0) * (at - x0)) / (x1 - x0);
}

export function mean(values: number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
// Of a sample: divided by n − 1. null where there is only one value.
export function deviation(values: number[]): number | null {
  if (values.length < 2) return null;
  const middle = mean(values);
  const squares = values.reduce((sum, value) => sum + (value - middle) ** 2, 0);
  return Math.sqrt(squares / (values.length - 1));
}

const kMostPlaces = 400;

// Mean and deviation where all that have points have a value: between the last begin and the first
// end.
export function meanOf(key: string, all: Points[]): Curve {
  const members = all.filter(({ x }) => x.length > 0);
  const ends = members.map(({ y }) => y[y.length - 1]).filter((value) => value != null);
  const none = (): number[] => [];
  const curve = { key, x: none(), y: none(), deviation: none(), starts: none(), ends };
  if (members.length === 0) return curve;
  const from = Math.max(...members.map(({ x }) => x[0] ?? Infinity));
  const to = Math.min(...members.map(({ x }) => x[x.length - 1] ?? -Infinity));
  const places = [...new Set(members.flatMap(({ x }) => x))].sort((a, b) => a - b);
  const inside = places.filter((x) => x >= from && x <= to);
  const every = Math.ceil(inside.length / kMostPlaces);
  let isGap = false;
  inside.forEach((x, index) => {
    if (index % every !== 0 && index !== inside.length - 1) return;
    const values = members.map((points) => valueAt(points, x)).filter((y) => y != null);
    if (values.length < members.length) {
      isGap = true;
      return;
    }
    if (isGap && curve.x.length > 0) curve.starts.push(x);
    isGap = false;
    curve.x.push(x);
    curve.y.push(mean(values));
    curve.deviation.push(deviation(values) ?? 0);
  });
  return curve;
}

// The newest value; of a group the mean of its members' newest, and the deviation of these.
export function newestOf({ y, ends }: Curve): { value: number | null; around: number | null } {
  if (!ends) return { value: y[y.length - 1] ?? null, around: null };
  return { value: ends.length > 0 ? mean(ends) : null, around: deviation(ends) };
}

// All curves over one x, as the chart takes them: null where a curve has no point of its own.
export function joined(curves: Points[]): [number[], ...(number | null)[][]] {
  const places = Float64Array.from(curves.flatMap((curve) => curve.x)).sort();
  const x = Array.from(places.filter((at, index) => index === 0 || at !== places[index - 1]));
  const columns = curves.map((curve) => {
    const column: (number | null)[] = Array(x.length).fill(null);
    let row = 0;
    curve.x.forEach((at, index) => {
      while ((x[row] ?? at) < at) row += 1;
      column[row] = curve.y[index] ?? null;
    });
    return column;
  });
  return [x, ...columns];
}

// Of the axis of values: what is drawn on it, with deviations around curves, and a margin.
export function rangeOf(curves: Curve[], values: (number | null)[]): [number, number] {
  let [least, most] = [Infinity, -Infinity];
  const add = (value: number) => {
    if (!isDrawn(value)) return;
    least = Math.min(least, value);
    most = Math.max(most, value);
  };
  for (const value of values) if (value != null) add(value);
  for (const { y, deviation } of curves) {
    deviation?.forEach((one, i) => {
      add((y[i] ?? 0) - one);
      add((y[i] ?? 0) + one);
    });
  }
  if (least > most) return [0, 1];
  const margin = Math.max((most - least) * 0.08, Math.abs(most) * 0.01, 1e-9);
  return [least - margin, most + margin];
}
