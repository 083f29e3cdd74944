// What the view of time to accuracy asks of the API.
import type { Charts, EventPage, RunPage } from "../base/api";
import { get } from "../base/request";
import { kKinds } from "./marks";

export interface Reached {
  value: number;
  seconds: number | null;
  step: number | null;
}
export interface Earlier {
  made_at_seconds: number | null;
  seconds: number | null;
  low: number | null;
  high: number | null;
  model: string;
  held: boolean | null; // whether the crossing lay inside; null: not known yet
}
export interface TimeToAccuracy {
  metric: string;
  target: number | null;
  time_to_accuracy_seconds: number | null;
  time: {
    whole_seconds: number | null;
    waiting_seconds: number | null;
    starting_seconds: number | null;
    training_seconds: number | null;
    other_seconds: number | null;
  };
  reached: Reached[];
  earlier_predictions: Earlier[];
}

export interface ReferenceRow {
  name: string;
  submitter: string | null;
  system: string | null;
  round: string | null;
  chips: number | null;
  global_batch: number | null;
  time_to_accuracy_seconds: number | null;
}
export interface Reference extends ReferenceRow {
  evaluations: [number, number | null, number][]; // [seconds, samples, masked accuracy]
}

// Of the curve alone: a long run's checkpoints would fill the answer.
const kKindsOfMarks = ["attempt.warning", ...Object.keys(kKinds)].join(",");
const run = (id: string) => `runs/${encodeURIComponent(id)}`;
export const kOffered = 100; // runs to lay beside, before those of other metrics are left out
export const kMostEvents = 1000; // the API's limit of an answer
const kBuckets = 500;
const kStepBuckets = 2000; // the API's limit: of fewer steps each is looked at

export const timeApi = {
  told: (id: string, thresholds: number[], signal: AbortSignal) => {
    const query = thresholds.length > 0 ? `?thresholds=${thresholds.join(",")}` : "";
    return get<TimeToAccuracy>(`${run(id)}/time_to_accuracy${query}`, signal);
  },
  charts: (id: string, x: string, signal: AbortSignal) => {
    const query = `runs=${encodeURIComponent(id)}&series=metric&x=${x}&buckets=${kBuckets}`;
    return get<Charts>(`metrics?${query}`, signal);
  },
  steps: (id: string, isOver: boolean, signal: AbortSignal) => {
    const buckets = isOver ? kStepBuckets : kBuckets;
    const series = "series=step_seconds,exposed_seconds&x=step";
    return get<Charts>(
      `metrics?runs=${encodeURIComponent(id)}&${series}&buckets=${buckets}`,
      signal,
    );
  },
  events: (id: string, signal: AbortSignal) =>
    get<EventPage>(
      `events?run=${encodeURIComponent(id)}&kind=${kKindsOfMarks}&limit=${kMostEvents}`,
      signal,
    ),
  references: (signal: AbortSignal) =>
    get<{ references: ReferenceRow[] }>("references?limit=1000", signal),
  reference: (name: string, signal: AbortSignal) =>
    get<Reference>(`references/${encodeURIComponent(name)}`, signal),
  // Runs that have succeeded, the newest first.
  others: (text: string, signal: AbortSignal) => {
    const which = { state: "succeeded", limit: String(kOffered) };
    const query = new URLSearchParams({ ...which, ...(text && { text }) });
    return get<RunPage>(`runs?${query}`, signal);
  },
};
