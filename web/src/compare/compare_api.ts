// What a comparison asks for beside the calls of every page.
import type { AttemptRow, Charts, Plan, Run } from "../base/api";
import { api } from "../base/api";
import { Refusal, messageOf } from "../base/request";
import type { Told } from "../environment/environment_api";
import { environmentOf } from "../environment/environment_api";

// What the page has of one run.
export interface Known {
  run: Run;
  attempts: AttemptRow[];
  plan: Plan | null | undefined; // null: it has none; undefined: nobody has asked
  environment?: Told | undefined; // of the newest attempt; undefined: nobody has asked
}

// A run without a plan is nothing wrong.
export async function planOf(id: string, signal: AbortSignal): Promise<Plan | null> {
  try {
    return await api.plan(id, signal);
  } catch (error) {
    if (error instanceof Refusal && error.status === 404) return null;
    throw error;
  }
}

// Whatever keeps it away takes nothing else of the comparison away.
export async function toldEnvironment(run: Run, signal: AbortSignal): Promise<Told> {
  if (run.attempts === 0) return { kind: "none", why: "no attempt has begun yet" };
  try {
    return await environmentOf(run.id, null, signal);
  } catch (error) {
    if (signal.aborted) throw error;
    return { kind: "away", why: messageOf(error) };
  }
}

export const kAxes = {
  wall: "time since the first step",
  wall_since_submission: "time since submission",
  step: "steps",
  samples: "samples",
  device_hours: "GPU-hours",
} as const;
export type Axis = keyof typeof kAxes;
export const kIsClock: Record<string, boolean> = { wall: true, wall_since_submission: true };
export const axisOf = (text: string | null): Axis =>
  text != null && Object.hasOwn(kAxes, text) ? (text as Axis) : "wall";

// What can be drawn, in the order of the menu; `evaluation`: comes with the evaluations.
export const kSeries = {
  metric: { title: "Metric", evaluation: true },
  loss: { title: "Training loss", evaluation: false },
  samples_per_second: { title: "Samples per second", evaluation: false },
  tokens_per_second: { title: "Tokens per second", evaluation: false },
  goodput: { title: "Goodput (samples/s)", evaluation: false },
  mfu: { title: "Model FLOP utilisation", evaluation: false },
  utilisation: { title: "GPU utilisation", evaluation: false },
  step_seconds: { title: "Seconds per step", evaluation: false },
  exposed_seconds: { title: "Exposed communication (s per step)", evaluation: false },
  imbalance: { title: "Imbalance", evaluation: false },
  learning_rate: { title: "Learning rate", evaluation: false },
  noise_scale: { title: "Gradient noise scale (samples)", evaluation: false },
  efficiency: { title: "Statistical efficiency", evaluation: false },
  evaluation_loss: { title: "Evaluation loss", evaluation: true },
} as const;
export type SeriesName = keyof typeof kSeries;
export const kDefaultSeries: SeriesName[] = ["metric", "loss"];
export function seriesOf(text: string | null): SeriesName[] {
  const words = (text ?? "").split(",");
  const names = (Object.keys(kSeries) as SeriesName[]).filter((name) => words.includes(name));
  return names.length > 0 ? names : kDefaultSeries;
}

const kBuckets = 400; // 10 runs × 14 series × 400 stay below what the API answers
export function charts(ids: string[], x: Axis, series: SeriesName[], signal: AbortSignal) {
  const runs = ids.map(encodeURIComponent).join(",");
  const query = `runs=${runs}&series=${series.join(",")}&x=${x}&buckets=${kBuckets}`;
  return api.charts(query, signal) as Promise<Charts>;
}
