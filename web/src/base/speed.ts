import type { Run } from "./api";

// Of a step, over the newest 20, whose rate the API gives. Of a batch that grows, with what a step
// has now.
export function measuredStep(
  run: Pick<Run, "step" | "samples" | "batch_size" | "samples_per_second">,
): number | null {
  const rate = run.samples_per_second;
  if (rate == null || !(rate > 0) || !(run.step > 0) || !(run.samples > 0)) return null;
  return (run.batch_size > 0 ? run.batch_size : run.samples / run.step) / rate;
}

// How far a run is in the steps that `steps` counts: with a batch that grows, those of its first
// batch that its own steps are worth.
export function stepsDone(run: Pick<Run, "step" | "progress">): number {
  return run.progress == null ? run.step : Math.floor(run.progress);
}

// Until the run has done its steps; null where nobody knows: a batch that grows takes fewer.
export function secondsLeft(
  run: Pick<Run, "step" | "steps" | "samples" | "batch_size" | "progress" | "samples_per_second">,
): number | null {
  const each = measuredStep(run);
  const rest = run.steps - run.step;
  return each == null || run.progress != null || !(rest > 0) ? null : each * rest;
}
