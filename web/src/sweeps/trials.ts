// Orders of trials, and all of them as a table.
import { clipped } from "../base/format";
import type { Table } from "../parts/chart_data";
import { objectiveOf, objectiveTitle, valueText } from "./objective";
import type { Sweep, Trial, Value } from "./sweeps_api";

export const kValuePrefix = "value.";
const kSorts = ["rank", "trial", "state", "objective", "budget"];
export const isSortKey = (key: string) => kSorts.includes(key) || key.startsWith(kValuePrefix);

export function byRank(one: Trial, other: Trial): number {
  return (one.rank ?? Infinity) - (other.rank ?? Infinity) || one.number - other.number;
}

function cellOf(trial: Trial, key: string): Value | null {
  if (key.startsWith(kValuePrefix)) return trial.values[key.slice(kValuePrefix.length)] ?? null;
  if (key === "trial") return trial.number;
  if (key === "state") return trial.state;
  if (key === "objective") return objectiveOf(trial);
  return key === "budget" ? trial.budget : trial.rank;
}

function compareCells(one: Value, other: Value): number {
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one).localeCompare(String(other), "en", { numeric: true });
}

// What has no value there comes last in either order.
export function sorted(trials: Trial[], key: string, isDescending: boolean): Trial[] {
  const sign = isDescending ? -1 : 1;
  const rows = trials.map((trial) => ({ trial, cell: cellOf(trial, key) }));
  rows.sort((one, other) => {
    if (one.cell == null || other.cell == null) {
      if (one.cell == null && other.cell == null) return byRank(one.trial, other.trial);
      return one.cell == null ? 1 : -1;
    }
    return sign * compareCells(one.cell, other.cell) || byRank(one.trial, other.trial);
  });
  return rows.map(({ trial }) => trial);
}

// What a trial's state does not say: what its run does, and why.
export function reasonOf({ state, run_state, reason }: Trial): string | null {
  const runs = run_state != null && run_state !== "running" && state === "running";
  const told = reason ? clipped(reason) : "";
  if (!runs) return told || null;
  return told === "" ? `run ${run_state}` : `run ${run_state}: ${told}`;
}

export function trialTable({ objective, parameters, trials }: Sweep): Table {
  const keys = parameters.map(({ key }) => key);
  return {
    columns: ["Trial", "Rank", "State", ...keys, objectiveTitle(objective), "Budget", "Run", "Why"],
    rows: [...trials].sort(byRank).map((trial) => [
      trial.number,
      trial.rank,
      trial.state,
      ...keys.map((key) => {
        const value = trial.values[key];
        return typeof value === "number" ? value : value === undefined ? null : valueText(value);
      }),
      objectiveOf(trial),
      trial.budget,
      trial.run,
      reasonOf(trial),
    ]),
  };
}
