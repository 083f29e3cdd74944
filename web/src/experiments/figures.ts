// Figures of layouts, and how far an experiment has come. Pure, for tests.
import * as show from "../base/format";
import type { Table } from "../parts/chart_data";
import { roundMarks } from "../parts/chart_data";
import type {
  Experiment,
  ExperimentRun,
  ExperimentSummary,
  FigureKey,
  Layout,
  Mean,
} from "./experiments_api";
import { kFigureKeys } from "./experiments_api";

interface FigureKind {
  title: string;
  isShare?: boolean; // shown in percent
  better?: "higher" | "lower"; // none: a layout does not change it
}
export const kFigures: Record<FigureKey, FigureKind> = {
  run_seconds: { title: "Run time,\u00a0s", better: "lower" },
  samples_per_second: { title: "Samples/s", better: "higher" },
  tokens_per_second: { title: "Tokens/s", better: "higher" },
  validation_loss: { title: "Validation loss" },
  utilisation: { title: "Utilisation", isShare: true, better: "higher" },
  mfu: { title: "Model FLOP utilisation", isShare: true, better: "higher" },
  noise_scale: { title: "Noise scale, samples" },
  efficiency: { title: "Statistical efficiency" },
  goodput: { title: "Goodput, samples/s", better: "higher" },
  bubble: { title: "Bubble", isShare: true, better: "lower" },
  bubble_predicted: { title: "Bubble, predicted", isShare: true, better: "lower" },
};
export const isFigure = (key: string | null): key is FigureKey =>
  kFigureKeys.some((one) => one === key);

const kMostDecimals = 8;
const unitOf = (key: FigureKey) => (kFigures[key].isShare ? "\u202f%" : "");
const scaled = (key: FigureKey, value: number) => (kFigures[key].isShare ? 100 * value : value);

// Decimals by which so many digits of it are shown.
function decimalsOf(value: number, digits: number): number {
  if (value === 0 || !Number.isFinite(value)) return 0;
  const magnitude = Math.floor(Math.log10(Math.abs(value)));
  return Math.max(0, Math.min(kMostDecimals, digits - 1 - magnitude));
}

// As `regatta experiment show` has it: two digits of the deviation and as many decimals of the mean;
// without one, the mean with four digits.
export function meanParts(mean: number, deviation: number | null): [string, string | null] {
  if (deviation == null) return [mean.toFixed(decimalsOf(mean, 4)), null];
  const decimals = deviation > 0 ? decimalsOf(deviation, 2) : decimalsOf(mean, 4);
  return [mean.toFixed(decimals), deviation.toFixed(decimals)];
}

export function cellOf(key: FigureKey, { mean, deviation }: Mean): { mean: string; deviation: string } {
  const spread = deviation == null ? null : scaled(key, deviation);
  const [text, around] = meanParts(scaled(key, mean), spread);
  return { mean: `${text}${unitOf(key)}`, deviation: around == null ? "" : `± ${around}` };
}

export function meanText(key: FigureKey, one: Mean | null): string {
  if (!one) return show.kDash;
  const { mean, deviation } = cellOf(key, one);
  const unit = unitOf(key);
  return deviation === "" ? mean : `${mean.replace(unit, "")} ${deviation}${unit}`;
}

// Of one run.
export function figureText(key: FigureKey, value: number | null): string {
  if (value == null) return show.kDash;
  const one = scaled(key, value);
  return `${one.toFixed(decimalsOf(one, 4))}${unitOf(key)}`;
}

// As somebody published it: no digit more than it has.
export function publishedText(key: FigureKey, value: number | undefined): string {
  if (value == null) return show.kDash;
  const one = scaled(key, value);
  const text = one.toFixed(decimalsOf(one, 6));
  return `${text.includes(".") ? text.replace(/\.?0+$/, "") : text}${unitOf(key)}`;
}

// What is too large for a number is none in JSON.
export function meanOf({ figures }: Layout, key: FigureKey): Mean | null {
  const mean = figures[key];
  return mean != null && Number.isFinite(mean.mean) ? mean : null;
}

// Those that a layout or a published row has.
export function figuresOf({ layouts, published }: Experiment): FigureKey[] {
  return kFigureKeys.filter(
    (key) =>
      layouts.some((layout) => meanOf(layout, key) != null) ||
      published.layouts.some(({ figures }) => figures[key] != null),
  );
}

// Those with the best mean, where it is another one than that of some other layout.
export function bestOf(key: FigureKey, layouts: Layout[]): Layout[] {
  const { better } = kFigures[key];
  const means = layouts.flatMap((layout) => meanOf(layout, key)?.mean ?? []);
  const best = better === "lower" ? Math.min(...means) : Math.max(...means);
  if (!better || means.every((mean) => mean === best)) return [];
  return layouts.filter((layout) => meanOf(layout, key)?.mean === best);
}

export type Progress = "running" | "waits" | "done";
// Waits: nobody submits the next run, since its command has ended or is about to.
export function progressOf(counts: { runs: number; finished: number; planned: number | null }): Progress {
  if (counts.finished < counts.runs) return "running";
  return counts.finished < (counts.planned ?? 0) ? "waits" : "done";
}

const isOver = ({ state }: ExperimentRun) =>
  state === "succeeded" || state === "failed" || state === "stopped" || state === "cancelled";
export const underWay = ({ runs }: Experiment) => runs.filter((run) => !isOver(run));
export const notGood = ({ runs }: Experiment) =>
  runs.filter((run) => isOver(run) && run.state !== "succeeded");

export function countsOf(experiment: Experiment) {
  const { runs, runs_planned: planned } = experiment;
  const finished = runs.length - underWay(experiment).length;
  return { runs: runs.length, finished, planned, all: Math.max(planned ?? 0, runs.length) };
}

export function goneWrong({ states }: ExperimentSummary): number {
  return (states.failed ?? 0) + (states.stopped ?? 0) + (states.cancelled ?? 0);
}

// What is said of runs that are left out has a table of its own.
export const notesOf = ({ notes }: Experiment) =>
  notes.filter((note) => !note.startsWith("Left out: "));

export interface Lane {
  layout: Layout;
  points: { run: ExperimentRun; value: number }[];
  mean: Mean | null;
}

// Of each layout the runs that succeeded and have the figure.
export function lanesOf({ layouts, runs }: Experiment, key: FigureKey): Lane[] {
  return layouts.map((layout) => ({
    layout,
    mean: meanOf(layout, key),
    points: runs.flatMap((run) => {
      const value = run.figures[key];
      const isIn = run.layout === layout.name && run.state === "succeeded" && value != null;
      return isIn ? [{ run, value: scaled(key, value) }] : [];
    }),
  }));
}

const kRoom = 0.05; // of the range, at either end

// The range of a drawing, with its marks; null: there is nothing to draw.
export function scaleOf(lanes: Lane[], key: FigureKey): { low: number; high: number; marks: number[] } | null {
  const ends = lanes.flatMap(({ points, mean }) => {
    const spread = mean?.deviation ?? 0;
    const around = mean ? [mean.mean - spread, mean.mean + spread] : [];
    return [...points.map(({ value }) => value), ...around.map((value) => scaled(key, value))];
  });
  if (ends.length === 0) return null;
  const [least, most] = [Math.min(...ends), Math.max(...ends)];
  const room = most > least ? kRoom * (most - least) : Math.abs(most) * kRoom || 1;
  const [low, high] = [least - room, most + room];
  return { low, high, marks: roundMarks(low, high) };
}

export function tableOfLanes(lanes: Lane[], key: FigureKey): Table {
  const { title, isShare } = kFigures[key];
  return {
    columns: ["Layout", "Seed", "Run", `${title}${isShare ? ", %" : ""}`],
    rows: lanes.flatMap(({ layout, points }) =>
      points.map(({ run, value }) => [layout.name, String(run.seed), run.id, value]),
    ),
  };
}
