// What a comparison draws, and its figures as text. Pure, so that tests need no browser.
import type { Look } from "../base/colours";
import type { Unit } from "../base/device";
import { hoursIn } from "../base/device";
import * as show from "../base/format";
import type { Axis, SeriesName } from "./compare_api";
import { kAxes } from "./compare_api";
import type { Curve } from "./series";
import { newestOf } from "./series";

// What a line is of: a run, or several that differ by seed only.
export interface Subject {
  key: string; // id of the (first) run
  name: string;
  seeds: number; // 1: a run by itself
  hasHidden: boolean; // several, and values of their variables are not known
  metric: string;
  target: number | null; // where all of its runs have the same
  look: Look;
}

export interface Drawing {
  name: SeriesName;
  title: string;
  isFraction: boolean;
  target: number | null; // where all of them have the same
  curves: Curve[]; // one a subject
}

export const axisTitle = (axis: Axis, unit: Unit): string =>
  axis === "device_hours" ? hoursIn(unit) : kAxes[axis];

// A place on the axis as text.
export function alongText(axis: Axis, x: number): string {
  if (axis === "wall" || axis === "wall_since_submission") return show.clock(x);
  if (axis === "device_hours") return String(Number(x.toPrecision(3)));
  return x >= 1e6 ? show.number(x) : show.count(x);
}
export function placeText(axis: Axis, unit: Unit, x: number): string {
  if (axis === "step") return `step ${show.count(x)}`;
  const units = { wall: "", wall_since_submission: " since submission", samples: " samples" };
  return alongText(axis, x) + (axis === "device_hours" ? ` ${hoursIn(unit)}` : units[axis]);
}

type Of = Pick<Subject, "metric" | "target">;
// A value of a subject; a metric with as many digits as tell it and its target apart.
export function valueText(drawing: Drawing, value: number | null, of: Of | undefined): string {
  const { name, isFraction } = drawing;
  const isMetric = name === "metric" && of && show.isFraction(of.metric) === isFraction;
  if (isMetric) return show.metric(of.metric, value, of.target);
  return aroundText(drawing, value);
}
// A deviation, which is compared with no target.
export function aroundText({ isFraction }: Drawing, value: number | null): string {
  return isFraction ? show.percent(value) : figure(value);
}
// Also of what is tiny, such as learning rates.
function figure(value: number | null): string {
  if (value == null || value === 0 || Math.abs(value) >= 0.01) return show.number(value);
  return value.toPrecision(3);
}

// The target beside the newest value that is nearest to it.
export function targetText({ curves, target }: Drawing, subjects: Of[]): string | null {
  const metric = subjects[0]?.metric;
  if (target == null || metric == null) return null;
  const newest = curves.flatMap((curve) => newestOf(curve).value ?? []);
  const far = (value: number) => Math.abs(value - target);
  newest.sort((a, b) => far(a) - far(b));
  return `target ${show.metric(metric, target, newest[0])}`;
}
