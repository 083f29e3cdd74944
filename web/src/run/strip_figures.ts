// The strips as text: sums, a table, an axis, and what arrow keys do.
import type { Table } from "../parts/chart_data";
import type { Kind, Mark, Strip } from "./strip";
import { kKinds } from "./strip";

export const named = (strip: Strip) => {
  if (strip.attempt != null) return `Attempt ${strip.attempt}`;
  return strip.isNext ? "Next attempt" : "No attempt";
};

export function tableOfStrips(list: Strip[]): Table {
  const round = (value: number) => Number(value.toFixed(3));
  return {
    columns: ["Attempt", "What", "From (s)", "To (s)", "Seconds", "Note"],
    rows: list.flatMap((strip) => [
      ...strip.segments.map((one) => [
        named(strip),
        one.kind,
        round(one.from),
        round(one.to),
        round(one.to - one.from),
        one.note,
      ]),
      ...strip.marks.map((mark) => [
        named(strip),
        mark.kind,
        round(mark.at),
        null,
        null,
        mark.note,
      ]),
      [named(strip), "outcome", null, round(strip.to), null, strip.outcome],
    ]),
  };
}

export interface Place {
  strip: number;
  segment: number;
}

// Arrow keys: through the segments of an attempt, and from attempt to attempt.
export function movedBy(key: string, from: Place | null, lengths: number[]): Place | null {
  if (lengths.length === 0) return null;
  const within = (strip: number, segment: number): Place => ({
    strip,
    segment: Math.max(0, Math.min((lengths[strip] ?? 1) - 1, segment)),
  });
  const at = from ?? { strip: lengths.length - 1, segment: -1 };
  if (key === "ArrowRight") return within(at.strip, at.segment + 1);
  if (key === "ArrowLeft") return within(at.strip, at.segment - 1);
  if (key === "ArrowUp") return within(Math.max(0, at.strip - 1), at.segment);
  if (key === "ArrowDown") return within(Math.min(lengths.length - 1, at.strip + 1), at.segment);
  if (key === "Home") return within(at.strip, 0);
  if (key === "End") return within(at.strip, Infinity);
  return null;
}

export interface Total {
  kind: Kind;
  seconds: number;
  count: number; // with those of no known length
  isAbout: boolean; // the length of one at least is estimated
}

const kMarked: Partial<Record<Kind, Mark["kind"]>> = {
  evaluating: "evaluation",
  checkpointing: "checkpoint",
};

// How long each kind took, in their order; checkpoints are written beside training.
export function totals(list: Strip[]): Total[] {
  const all = list.flatMap((one) => one.segments);
  const marks = list.flatMap((one) => one.marks);
  return kKinds.flatMap((kind) => {
    const of = all.filter((segment) => segment.kind === kind);
    if (of.length === 0) return [];
    const seconds = of.reduce((whole, segment) => whole + segment.to - segment.from, 0);
    const unmeasured = marks.filter((mark) => mark.kind === kMarked[kind]).length;
    const isAbout = of.some((segment) => segment.note.endsWith(", about"));
    return [{ kind, seconds, count: of.length + unmeasured, isAbout }];
  });
}

const kRound = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800,
  604800,
];

// Round times for the axis.
export function timeMarks(span: number, most: number): number[] {
  const step = kRound.find((one) => span / one <= most) ?? span / most;
  const marks: number[] = [];
  for (let at = 0; at <= span * 0.97; at += step) marks.push(at);
  return marks;
}
