// The rows of a run on the axis that the reader has chosen.
import type { Run } from "../base/api";
import * as show from "../base/format";
import type { Span, Table } from "../parts/chart_data";
import type { History } from "./history";
import { trains } from "./standstill";

export type By = "time" | "step";
type Row = [step: number, seconds: number, ...rest: unknown[]];

// By steps a chart shows what was trained last: rows that a later attempt trained again are left
// out, as the axis has one place for each step.
export function rowsBy<R extends Row>(by: By, rows: R[]): R[] {
  if (by === "time") return rows;
  const kept: R[] = [];
  let least = Infinity;
  for (let i = rows.length - 1; i >= 0; i -= 1) {
    const row = rows[i];
    if (!row || row[0] >= least) continue;
    least = row[0];
    kept.push(row);
  }
  return kept.length === rows.length ? rows : kept.reverse();
}

// How many steps rows are of. Long series are thinned, and some journals say not every step. Of a
// thinned series the first step may be left out: a first row within its gaps stands for those before.
export function amountOf(rows: Row[]): { shown: number; steps: number } {
  const kept = rowsBy("step", rows);
  const [first, second, last] = [kept[0], kept[1], kept[kept.length - 1]];
  if (!first || !last) return { shown: 0, steps: 0 };
  const begin = second && first[0] <= second[0] - first[0] ? 1 : first[0];
  return { shown: kept.length, steps: last[0] - begin + 1 };
}

// Rows as a table, with what tells a step that was trained twice apart.
export function tableOfRows<R extends Row>(
  by: By,
  rows: R[],
  places: { attempt: number | null; again: boolean }[],
  columns: { name: string; of: (row: R) => number | null }[],
): Table {
  const head = by === "time" ? ["Time (s)", "Step"] : ["Step", "Time (s)"];
  return {
    columns: [...head, "Attempt", "Trained again since", ...columns.map(({ name }) => name)],
    rows: rows.map((row, i) => [
      ...(by === "time" ? [row[1], row[0]] : [row[0], row[1]]),
      places[i]?.attempt ?? null,
      places[i]?.again ? "yes" : "no",
      ...columns.map(({ of }) => of(row)),
    ]),
  };
}

// Room for a metric's curves and these levels.
export function roomFor(metric: string, levels: (number | null)[]) {
  return (low: number | null, high: number | null): [number, number] => {
    const all = [low, high, ...levels].filter((value) => value != null);
    const top = Math.max(...all, 0.01) * 1.12;
    if (show.isLoss(metric)) return [Math.min(...all, top) * 0.9, top];
    return [Math.max(Math.min(...all, 0) * 1.12, -1), Math.min(top, 1)];
  };
}

export const placeOf = (by: By, row: Row): number => (by === "time" ? row[1] : row[0]);

function last(by: By, history: History): number {
  const of = (rows: Row[]) => {
    const row = rows[rows.length - 1];
    return row ? placeOf(by, row) : 0;
  };
  return Math.max(of(history.steps), of(history.evaluations));
}

export function pastSpan(by: By, history: History): Span {
  return { min: 0, max: Math.max(last(by, history) * 1.015, 10) };
}

// From the start to now, and on to the predicted crossing unless that would squeeze the curve into
// a corner. A prediction is of time, so that steps have none, and of training, so that a run that
// stands still has none.
export function fullSpan(by: By, run: Run, history: History): Span {
  const past = pastSpan(by, history);
  if (by === "step") return past;
  const now = Math.max(last(by, history), 1);
  const prediction = !trains(run) || run.target_reached ? null : history.prediction;
  const ahead = prediction ? Math.min(prediction.high * 1.02, Math.max(now * 4, 60)) : 0;
  return { min: 0, max: Math.max(past.max, ahead) };
}

// When and at which step the target was met.
export function reachedAt(
  run: Run,
  history: History,
): { seconds: number; step: number | null; value: number | null } | null {
  const seconds = run.time_to_accuracy_seconds;
  if (seconds == null) return null;
  const row = history.evaluations.find((one) => one[1] >= seconds - 0.5);
  return { seconds, step: row?.[0] ?? null, value: row?.[5] ?? null };
}

// The step after which a run is evaluated next, by its run file; null where that does not say.
export function nextEvaluation(run: Pick<Run, "config" | "step" | "steps">): number | null {
  const evaluate = run.config?.["evaluate"];
  const every =
    evaluate != null && typeof evaluate === "object" && "every" in evaluate ? evaluate.every : null;
  if (typeof every !== "number" || !(every > 0)) return null;
  const next = Math.ceil(Math.max(1, run.step) / every) * every;
  return run.steps > 0 ? Math.min(next, run.steps) : next; // also after the last step
}

// Whether it was not to stop at its target, by its run file.
export function trainsOn(run: Pick<Run, "config">): boolean {
  const target = run.config?.["target"];
  return target != null && typeof target === "object" && "stop" in target && target.stop === false;
}
