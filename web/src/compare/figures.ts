import type { Run } from "../base/api";
import type { Unit } from "../base/device";
import { hoursIn } from "../base/device";
import * as show from "../base/format";
import type { Known } from "./compare_api";
import { deviation, mean } from "./series";

// The figures of a run that are compared, and how they differ from those of a baseline.
export interface Figure {
  key: string;
  title: string;
  help: string;
  of: (known: Known) => number | null;
  text: (value: number | null, run: Run) => string;
  against: "share" | "points" | "count"; // how a difference is told
}

// Ranks times hours of every attempt from its begin to its end; null where one does not say.
export function gpuHours({ attempts }: Pick<Known, "attempts">): number | null {
  let hours = 0;
  for (const { ranks, seconds } of attempts) {
    if (ranks == null || seconds == null) return null;
    hours += (ranks * seconds) / 3600;
  }
  return attempts.length > 0 ? hours : null;
}

const plain = (value: number | null) => show.number(value);

const kFigures: Figure[] = [
  {
    key: "value",
    title: "Metric",
    help: "of the newest evaluation",
    of: ({ run }) => run.value,
    text: (value, run) => show.metric(run.metric, value, run.target),
    against: "points",
  },
  {
    key: "time",
    title: "Time to accuracy",
    help: "from the first step until the target was reached, down time included",
    of: ({ run }) => run.time_to_accuracy_seconds,
    text: show.duration,
    against: "share",
  },
  {
    key: "speed",
    title: "Samples/s, 20 steps",
    help: "mean of the newest 20 steps; the legend's are of the newest step",
    of: ({ run }) => run.samples_per_second,
    text: plain,
    against: "share",
  },
  {
    key: "hours",
    title: "GPU-hours with start", // figuresIn() names it by what a rank is
    help: "",
    of: gpuHours,
    text: plain,
    against: "share",
  },
  {
    key: "training",
    title: "In steps",
    help: "time in training steps, without evaluations, checkpoints and waiting",
    of: ({ run }) => run.training_seconds,
    text: show.duration,
    against: "share",
  },
  {
    key: "since",
    title: "Since submission",
    help: "until the target was reached, else the end, else now",
    of: ({ run }) => run.since_submission_seconds,
    text: show.duration,
    against: "share",
  },
  {
    key: "loss",
    title: "Loss",
    help: "of the newest step",
    of: ({ run }) => run.loss,
    text: plain,
    against: "share",
  },
  {
    key: "mfu",
    title: "MFU, 20 steps",
    help: "model FLOP utilisation: of the peak of all ranks, mean of the newest 20 steps",
    of: ({ run }) => run.mfu,
    text: (value) => show.percent(value),
    against: "points",
  },
  {
    key: "steps",
    title: "Steps",
    help: "that count now",
    of: ({ run }) => run.step,
    text: show.count,
    against: "count",
  },
  {
    key: "attempts",
    title: "Attempts",
    help: "how often its training began",
    of: ({ run }) => run.attempts,
    text: show.count,
    against: "count",
  },
];

export function figuresIn(unit: Unit): Figure[] {
  const isGpu = unit === "GPU";
  const rank = isGpu ? "" : "; on CPU runs a rank is a process";
  const help =
    `ranks × hours of all attempts from begin to end (the axis ${hoursIn(unit)} begins with the ` +
    `first step of each)${rank}`;
  return kFigures.map((one) =>
    one.key === "hours" ? { ...one, title: `${isGpu ? "GPU" : "Rank"}-hours with start`, help } : one,
  );
}

function signed(value: number, text: string): string {
  return value > 0 ? `+${text}` : value < 0 ? `−${text}` : text;
}

// How much more than the baseline: +4.9 %, −0.41 points, +2; null where one of them is not known.
export function against(figure: Figure, known: Known, base: Known): string | null {
  const [value, other] = [figure.of(known), figure.of(base)];
  if (value == null || other == null) return null;
  const more = value - other;
  if (figure.against === "count") return signed(more, show.count(Math.abs(more)));
  if (figure.against === "share") return other === 0 ? null : show.change(more / Math.abs(other));
  if (figure.key === "value") {
    if (known.run.metric !== base.run.metric) return null; // of another kind
    if (!show.isFraction(known.run.metric)) return signed(more, show.number(Math.abs(more)));
  }
  const points = (100 * Math.abs(more)).toFixed(2);
  return `${signed(points === "0.00" ? 0 : more, points)} points`;
}

// Mean and deviation over runs, and of how many where some have no such figure.
export function spread(figure: Figure, group: Known[]): { mean: string; around: string } {
  const values = group.map(figure.of).filter((value) => value != null);
  const run = group[0]?.run;
  if (!run || values.length === 0) return { mean: show.kDash, around: "" };
  const around = deviation(values);
  const text = figure.against === "count" ? plain : (value: number) => figure.text(value, run);
  const of = values.length < group.length ? ` (${values.length} of ${group.length})` : "";
  return {
    mean: text(mean(values)),
    around: (around == null ? "" : `± ${text(around)}`) + of,
  };
}
