// What a sweep looks for, and figures of its trials as people read them.
import * as show from "../base/format";
import type { Objective, Trial, Value } from "./sweeps_api";

const clean = show.withoutEscapes;

export function objectiveTitle({ kind, metric }: Objective): string {
  if (kind === "time_to_accuracy") return "Time to accuracy";
  return kind === "goodput" ? "Goodput" : show.metricTitle(metric ?? "metric");
}

export function objectiveText({ kind, metric }: Objective, value: number | null): string {
  if (kind === "time_to_accuracy") return show.duration(value);
  if (kind === "metric") {
    return show.isFraction(metric ?? "") ? show.percent(value, 1) : show.number(value, 4);
  }
  return value == null ? show.kDash : `${show.number(value)}\u202fsamples/s`;
}

export const directionText = ({ direction }: Objective) =>
  direction === "minimize" ? "lower is better" : "higher is better";

export const isBetter = ({ direction }: Objective, one: number, other: number) =>
  direction === "minimize" ? one < other : one > other;

// Four digits of a number, enough to tell trials apart; small ones by their power of ten.
export function figureText(value: number): string {
  if (!Number.isFinite(value)) return show.kDash;
  if (Number.isInteger(value)) return show.count(value);
  const size = Math.abs(value);
  if (size < 1e-3) return Number(value.toPrecision(4)).toExponential();
  return size < 1e6 ? String(Number(value.toPrecision(4))) : show.number(value);
}

export function valueText(value: Value | undefined): string {
  if (value === undefined) return show.kDash;
  return typeof value === "number" ? figureText(value) : clean(String(value));
}

// A trial that failed counts as tried and as nothing else.
export function objectiveOf(trial: Trial): number | null {
  const { objective } = trial;
  return trial.state !== "failed" && objective != null && Number.isFinite(objective)
    ? objective
    : null;
}

export interface Step {
  number: number;
  objective: number | null;
  best: number | null; // of this trial and those before it
  bestTrial: number | null;
}

// The best so far, trial by trial in the order of their numbers.
export function bestSoFar(objective: Objective, trials: Trial[]): Step[] {
  let best: number | null = null;
  let bestTrial: number | null = null;
  return [...trials]
    .sort((one, other) => one.number - other.number)
    .map((trial) => {
      const value = objectiveOf(trial);
      if (value != null && (best == null || isBetter(objective, value, best))) {
        best = value;
        bestTrial = trial.number;
      }
      return { number: trial.number, objective: value, best, bestTrial };
    });
}

const kShown = 0.75; // of the results, the best
// The values that a drawing of results is about: a few that went wild would leave no room for the
// others. Null: there are none.
export function rangeOf(objective: Objective, values: number[]): [number, number] | null {
  const sorted = [...values].sort((a, b) => (isBetter(objective, a, b) ? -1 : 1));
  const shown = sorted.slice(0, Math.max(1, Math.ceil(sorted.length * kShown)));
  return shown.length === 0 ? null : [Math.min(...shown), Math.max(...shown)];
}

export interface Rung {
  number: number;
  budget: number;
  results: number;
  running: number; // that train towards its budget
  promoted: number | null; // null: nothing is above it
  best: { trial: number; objective: number | null } | null;
}

// ASHA's rungs: who has come so far, and who went on.
export function rungsOf(objective: Objective, budgets: number[], trials: Trial[]): Rung[] {
  const counted = trials.filter(({ state }) => state !== "failed");
  return budgets.map((budget, index) => {
    const found = counted.flatMap((trial) => {
      const report = trial.reports.find((one) => one.budget === budget);
      return report ? [{ trial: trial.number, objective: report.objective }] : [];
    });
    const finite = found.filter((one) => one.objective != null);
    finite.sort((one, other) =>
      isBetter(objective, one.objective ?? 0, other.objective ?? 0) ? -1 : 1,
    );
    const isAt = ({ state, goal, reports }: Trial) =>
      state === "running" && goal === budget && !reports.some((one) => one.budget === budget);
    return {
      number: index + 1,
      budget,
      results: found.length,
      running: counted.filter(isAt).length,
      promoted:
        index + 1 < budgets.length ? counted.filter(({ goal }) => (goal ?? 0) > budget).length : null,
      best: finite[0] ?? null,
    };
  });
}
