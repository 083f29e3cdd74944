import type { Run } from "./api";

// Of a step, over the newest 20, whose rate the API gives; the batch is the same in every step.
export function measuredStep(
  run: Pick<Run, "step" | "samples" | "samples_per_second">,
): number | null {
  const rate = run.samples_per_second;
  if (rate == null || !(rate > 0) || !(run.step > 0) || !(run.samples > 0)) return null;
  return run.samples / run.step / rate;
}
