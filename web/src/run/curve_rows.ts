// The rows of a run on the axis that the reader has chosen.
import type { Run } from "../base/api";
import { hasEnded } from "../base/api";
import type { Span } from "../parts/chart_data";
import type { History } from "./history";

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
// a corner. A prediction is of time, so that steps have none.
export function fullSpan(by: By, run: Run, history: History): Span {
  const past = pastSpan(by, history);
  if (by === "step") return past;
  const now = Math.max(last(by, history), 1);
  const prediction = hasEnded(run) || run.target_reached ? null : history.prediction;
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

// The step after which a run is evaluated first, by its run file; null where that does not say.
export function firstEvaluation(run: Pick<Run, "config" | "steps">): number | null {
  const evaluate = run.config?.["evaluate"];
  const every =
    evaluate != null && typeof evaluate === "object" && "every" in evaluate ? evaluate.every : null;
  if (typeof every !== "number" || !(every > 0)) return null;
  return run.steps > 0 ? Math.min(every, run.steps) : every; // also after the last step
}
