// The axes of a sweep's drawing: a parameter each, and the objective as the last one. A place on an
// axis goes from 0 to 1; who has no value there stands in a lane below it. Pure, for tests.
import { logMarks, roundMarks } from "../parts/chart_data";
import { drawnName } from "../base/format";
import { figureText, objectiveOf, objectiveText, objectiveTitle, valueText } from "./objective";
import type { Objective, Parameter, Sweep, Trial, Value } from "./sweeps_api";

export interface Axis {
  key: string; // of the run file; "" is the objective
  title: string;
  scale: "linear" | "log" | "choice";
  low: number;
  high: number;
  isInverted: boolean; // the low end is at 1
  choices: Value[];
  lane: string | null; // what it is called; null: everybody has a value
  marks: { at: number; text: string; full: string }[];
  text: (value: number) => string;
}

export const kLane = -0.17;
export const kLaneEnd = -0.24; // where what can be chosen of an axis with a lane begins
const kLaneTop = -0.1;
const kMostChoices = 12; // that have their names on the axis
const kMostLetters = 14; // of a name there
const kLeastApart = 0.12; // of an axis, between its marks
const kWide = 50; // an objective that spreads over more than this ratio is drawn by its logarithm

const clamped = (place: number) => Math.max(0, Math.min(1, place));

// The ends first, then powers of ten and what lies between, not too near to what stands there.
function spacedMarks(axis: Axis, between: number[]): Axis["marks"] {
  const round = between.filter((value) => Number.isInteger(Math.log10(value)));
  const all = [axis.low, axis.high, ...round, ...between].map((value) => {
    const text = axis.text(value);
    return { at: placeOfNumber(axis, value), text, full: text };
  });
  return apart(all, kLeastApart);
}

// Those of the marks that are at least so far from those before them.
export function apart(marks: Axis["marks"], least: number): Axis["marks"] {
  const kept: Axis["marks"] = [];
  for (const mark of marks) {
    if (kept.every(({ at }) => Math.abs(at - mark.at) >= least)) kept.push(mark);
  }
  return kept;
}

export function placeOfNumber(axis: Axis, value: number): number {
  const { low, high } = axis;
  if (!(high > low)) return 0.5;
  const share =
    axis.scale === "log"
      ? Math.log(Math.max(value, low) / low) / Math.log(high / low)
      : (value - low) / (high - low);
  return clamped(axis.isInverted ? 1 - share : share);
}

function numberAt(axis: Axis, place: number): number {
  const share = clamped(axis.isInverted ? 1 - place : place);
  const { low, high } = axis;
  return axis.scale === "log" ? low * (high / low) ** share : low + (high - low) * share;
}

const cut = (text: string) => {
  const letters = Array.from(text);
  return letters.length > kMostLetters ? `${letters.slice(0, kMostLetters - 1).join("")}…` : text;
};

function choiceAxis(axis: Axis, choices: Value[]): Axis {
  const every = Math.ceil(choices.length / kMostChoices);
  const marks = choices.flatMap((value, index) => {
    if (index % every !== 0) return [];
    const full = valueText(value);
    return [{ at: (index + 0.5) / choices.length, text: cut(full), full }];
  });
  return { ...axis, scale: "choice", choices, marks };
}

function parameterAxis(parameter: Parameter, trials: Trial[]): Axis {
  const { key, low, high, kind } = parameter;
  const isMissing = trials.some(({ values }) => values[key] === undefined);
  const isConditional = Object.keys(parameter.when ?? {}).length > 0;
  const isLog = (kind === "log_uniform" || parameter.log) && low != null && low > 0;
  const axis: Axis = {
    key,
    title: drawnName(key),
    scale: isLog ? "log" : "linear",
    low: low ?? 0,
    high: high ?? 1,
    isInverted: false,
    choices: [],
    lane: isConditional ? "not active" : isMissing ? "no value" : null,
    marks: [],
    text: kind === "integer" ? (value) => figureText(Math.round(value)) : figureText,
  };
  if (kind === "choice") return choiceAxis(axis, parameter.choices ?? []);
  const between = isLog ? logMarks(axis.low, axis.high) : roundMarks(axis.low, axis.high);
  return { ...axis, marks: spacedMarks(axis, between) };
}

function objectiveAxis(objective: Objective, trials: Trial[]): Axis {
  const values = trials.map(objectiveOf).filter((value) => value != null);
  const low = values.length > 0 ? Math.min(...values) : 0;
  const high = values.length > 0 ? Math.max(...values) : 1;
  const isLog = low > 0 && high / low > kWide;
  const axis: Axis = {
    key: "",
    title: objectiveTitle(objective),
    scale: isLog ? "log" : "linear",
    low,
    high,
    isInverted: objective.direction === "minimize",
    choices: [],
    lane: values.length < trials.length ? "no result" : null,
    marks: [],
    text: (value) => objectiveText(objective, value),
  };
  if (values.length === 0) return axis;
  const between = isLog ? logMarks(low, high) : roundMarks(low, high);
  return { ...axis, marks: spacedMarks(axis, between) };
}

export function axesOf({ parameters, objective, trials }: Sweep): Axis[] {
  return [
    ...parameters.map((parameter) => parameterAxis(parameter, trials)),
    objectiveAxis(objective, trials),
  ];
}

export function placeOf(axis: Axis, trial: Trial): number {
  const value = axis.key === "" ? objectiveOf(trial) : trial.values[axis.key];
  if (value == null) return kLane;
  if (axis.scale !== "choice") {
    return typeof value === "number" ? placeOfNumber(axis, value) : kLane;
  }
  const index = axis.choices.indexOf(value);
  return index < 0 ? kLane : (index + 0.5) / axis.choices.length;
}

// A part of an axis that trials must be in.
export interface Brush {
  low: number;
  high: number;
}
export type Brushes = ReadonlyMap<string, Brush>;

const kNear = 1e-9;

export const wholeOf = (axis: Axis): Brush => ({ low: axis.lane == null ? 0 : kLaneEnd, high: 1 });

// Both ends within the axis and in order; null: all of it.
export function brushOf(axis: Axis, one: number, other: number): Brush | null {
  const whole = wholeOf(axis);
  const within = (place: number) => Math.max(whole.low, Math.min(whole.high, place));
  const low = within(Math.min(one, other));
  const high = within(Math.max(one, other));
  const isAll = low <= whole.low + kNear && high >= whole.high - kNear;
  return isAll ? null : { low, high };
}

export function passes(axes: Axis[], brushes: Brushes, trial: Trial): boolean {
  return axes.every((axis) => {
    const brush = brushes.get(axis.key);
    if (!brush) return true;
    const at = placeOf(axis, trial);
    return at >= brush.low - kNear && at <= brush.high + kNear;
  });
}

// By how much a key moves an end: one choice, or a twentieth.
export const stepOf = (axis: Axis) =>
  axis.scale === "choice" && axis.choices.length > 0 ? 1 / axis.choices.length : 0.05;

// The lowest place of an end: of the lower one below the lane, of the upper one above it.
export const lowestEnd = (axis: Axis, end: keyof Brush) =>
  axis.lane == null ? 0 : end === "low" ? kLaneEnd : kLaneTop;

// Where an end goes by a step; the lane, if there is one, is one step below the axis.
export function movedEnd(axis: Axis, end: keyof Brush, place: number, by: number): number {
  const step = stepOf(axis);
  if (place < 0) return by > 0 ? 0 : lowestEnd(axis, end);
  const next = Math.round(place / step + by) * step;
  if (next < -kNear) return lowestEnd(axis, end);
  return Math.min(1, Math.abs(next) < kNear ? 0 : next);
}

export function endText(axis: Axis, place: number, end: keyof Brush): string {
  if (place < 0) return axis.lane ?? "";
  if (axis.scale !== "choice") return axis.text(numberAt(axis, place));
  const count = axis.choices.length;
  const at = place * count - 0.5;
  const index = end === "low" ? Math.ceil(at - kNear) : Math.floor(at + kNear);
  const choice = axis.choices[Math.max(0, Math.min(count - 1, index))];
  return choice === undefined ? "" : valueText(choice);
}

export function brushText(axis: Axis, { low, high }: Brush): string {
  if (high < 0) return `${axis.title}: ${axis.lane}`;
  const [from, to] = [endText(axis, low, "low"), endText(axis, high, "high")];
  return from === to ? `${axis.title}: ${from}` : `${axis.title}: ${from} to ${to}`;
}

export const kShades = 6;
// How good each is among the others, as one of six colours, by trial. By their order, not by their
// values: one that went wild would leave a single colour for all others. None for those without a
// result.
export function shadesOf(objective: Axis, trials: Trial[]): Map<number, number> {
  const placed = trials
    .map((trial) => ({ number: trial.number, at: placeOf(objective, trial) }))
    .filter(({ at }) => at !== kLane)
    .sort((one, other) => other.at - one.at);
  return new Map(
    placed.map(({ number }, i) => [
      number,
      kShades - 1 - Math.floor((i * kShades) / placed.length),
    ]),
  );
}
