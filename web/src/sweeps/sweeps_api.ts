// What the views of sweeps ask of the API.
import { get, post } from "../base/request";
import type { State } from "../base/api";

export const kSweepStates = ["running", "done", "stopped"] as const;
export type SweepState = (typeof kSweepStates)[number];

export type Value = number | string | boolean;
export type Values = Record<string, Value>;

export interface Objective {
  kind: "metric" | "time_to_accuracy" | "goodput";
  metric: string | null;
  direction: "minimize" | "maximize";
}

// How far trials train.
export interface Budget {
  unit: "steps" | "samples";
  min: number | null;
  max: number | null;
  factor: number | null;
}

export interface SweepSummary {
  id: string;
  name: string;
  state: SweepState;
  stops: boolean; // somebody wants it to end
  reason: string | null; // why it stands still
  created: string | null;
  ended: string | null;
  owner: string | null;
  method: "grid" | "random" | "asha" | "tpe";
  objective: Objective;
  budget: Budget;
  concurrency: number;
  seed: number;
  counts: {
    planned: number;
    tried: number;
    running: number;
    paused: number;
    finished: number;
    failed: number;
    stopped: number;
  };
  best: { trial: number; run: string; objective: number; values: Values } | null;
}

export interface Parameter {
  key: string;
  kind: "uniform" | "log_uniform" | "integer" | "choice";
  low: number | null;
  high: number | null;
  log: boolean;
  choices: Value[] | null;
  when: Record<string, Value[]> | null;
}

export interface Trial {
  number: number;
  run: string | null;
  run_state: State | "removed" | null;
  state: "running" | "paused" | "finished" | "failed" | "stopped";
  reason: string | null;
  values: Values;
  goal: number | null; // null: as far as its file says
  rank: number | null;
  objective: number | null; // null: none yet, or not finite
  budget: number | null; // that it has reached
  reports: { budget: number; objective: number | null }[];
  started: string | null;
  ended: string | null;
}

export interface Sweep extends SweepSummary {
  parameters: Parameter[];
  rungs: number[];
  config: Record<string, unknown> | null;
  trials: Trial[];
}

export interface SweepPage {
  sweeps: SweepSummary[];
  total: number;
  next: string | null;
  left_out?: string[]; // files that are damaged: why, and what to do
}

const sweep = (id: string) => `sweeps/${encodeURIComponent(id)}`;

export const trialsPath = (id: string) => `${sweep(id)}/trials.csv`;

export const sweepsApi = {
  list: (query: string, signal: AbortSignal) => get<SweepPage>(`sweeps?${query}`, signal),
  sweep: (id: string, signal: AbortSignal) => get<Sweep>(sweep(id), signal),
  stop: (id: string, key: string) =>
    post<SweepSummary & Partial<Sweep>>(`${sweep(id)}/stop`, undefined, key),
};
