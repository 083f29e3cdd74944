// What the views of experiments ask of the API.
import type { State } from "../base/api";
import { get } from "../base/request";

export const kFigureKeys = [
  "run_seconds",
  "samples_per_second",
  "tokens_per_second",
  "validation_loss",
  "utilisation",
  "mfu",
  "noise_scale",
  "efficiency",
  "goodput",
  "bubble",
  "bubble_predicted",
] as const;
export type FigureKey = (typeof kFigureKeys)[number];

export interface ExperimentSummary {
  id: string;
  name: string | null; // of the run file
  planned: number | null; // runs; null: none says
  runs: number; // that were made
  finished: number;
  states: Partial<Record<State, number>>;
  layouts: string[];
  begun: string | null;
  changed: string | null;
}

export interface ExperimentPage {
  experiments: ExperimentSummary[];
  total: number;
  next: string | null;
}

export interface Mean {
  mean: number;
  deviation: number | null; // of the sample; null of one run
  runs: number;
}

export interface Layout {
  name: string;
  ranks: number;
  data: number;
  pipeline: number; // stages
  schedule: string | null; // null: there is nothing to schedule
  succeeded: number;
  failed: string[]; // ids
  figures: Record<FigureKey, Mean | null>;
}

export interface ExperimentRun {
  id: string;
  state: State;
  layout: string;
  seed: number;
  place: number | null; // in the order in which runs follow each other, from 1 on
  noise_scale_low: number | null; // 95 % confidence
  noise_scale_high: number | null;
  error: string | null;
  figures: Record<FigureKey, number | null>;
}

export interface Published {
  what: string;
  hardware: string;
  layouts: { name: string; figures: Partial<Record<FigureKey, number>> }[];
  note: string;
  link: string;
}

export interface Experiment {
  experiment: string; // its id
  runs_planned: number | null;
  batch_size: number | null;
  device: string | null;
  hosts: string[];
  loss_samples: number | null; // after which the validation losses are
  layouts: Layout[];
  runs: ExperimentRun[];
  agreement: {
    noise_scale: boolean | null; // null: not known
    loss_difference: number | null;
    sentences: string[];
  };
  notes: string[];
  published: Published;
}

export const experimentPath = (id: string) => `experiments/${encodeURIComponent(id)}`;
export const markdownPath = (id: string) => `${experimentPath(id)}/table.md`;

export const experimentsApi = {
  list: (query: string, signal: AbortSignal) => get<ExperimentPage>(`experiments?${query}`, signal),
  experiment: (id: string, signal: AbortSignal) => get<Experiment>(experimentPath(id), signal),
};
