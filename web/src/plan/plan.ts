// What a plan says, made ready to be shown. Nothing here draws.
import type { Alternative, Decision, Plan, PlannedStep, Run, Seats } from "../base/api";
import type { Part } from "../parts/timeline";

export { measuredStep } from "../base/speed";

// How much more `value` is than `base`, as a fraction of it.
export function difference(
  value: number | null | undefined,
  base: number | null | undefined,
): number | null {
  if (value == null || base == null || !(base > 0) || !Number.isFinite(value)) return null;
  return value / base - 1;
}

// How the run file cuts the gradient whatever the plan says; null: as the plan has it.
export function ownCut({ config }: Pick<Run, "config">): string | null {
  const by = bucketsOf(config)["by"];
  return typeof by === "string" && by !== "plan" ? by : null;
}
// What a run without a plan does.
export function unplannedText({ config }: Pick<Run, "config">): string {
  const { by, bytes } = bucketsOf(config);
  const isOwn = (typeof by === "string" && by !== "plan" && by !== "bytes") || Number(bytes) > 0;
  return isOwn
    ? "No plan; gradient buckets as in the run file."
    : "No plan; default gradient buckets (4 MiB on CPU, 25 MiB on GPU).";
}
function bucketsOf(config: Run["config"]): Record<string, unknown> {
  const buckets = config?.["buckets"];
  return buckets != null && typeof buckets === "object" ? { ...buckets } : {};
}

// The cut that the plan has; null where it is none that the planner looked at.
export function chosenOf(plan: Plan): Alternative | null {
  return (plan.alternatives ?? []).find((one) => one.name === plan.cut) ?? null;
}

interface Rival {
  alternative: Alternative;
  isChosen: boolean;
  against: number | null; // its mean over the chosen one's, as a difference
}

// The fastest first. By their means, which the planner goes by as well.
export function rivals(plan: Plan): Rival[] {
  const chosen = chosenOf(plan);
  const sorted = [...(plan.alternatives ?? [])].sort(
    (a, b) => a.mean_step_seconds - b.mean_step_seconds,
  );
  return sorted.map((alternative) => ({
    alternative,
    isChosen: alternative === chosen,
    against: difference(alternative.mean_step_seconds, chosen?.mean_step_seconds),
  }));
}

export function predictedStep(plan: Plan): number | null {
  return plan.timeline?.step_seconds ?? chosenOf(plan)?.step_seconds ?? null;
}

// What the step would be shorter by; null where both are the same or a time is not known.
export function gainOf(decision: Decision): { seconds: number; share: number } | null {
  if (decision.choice === decision.run_file) return null;
  const secondsOf = (value: string) =>
    decision.options.find((option) => option.value === value)?.step_seconds;
  const now = secondsOf(decision.run_file);
  const then = secondsOf(decision.choice);
  if (now == null || then == null || !(now > 0)) return null;
  return { seconds: now - then, share: 1 - then / now };
}

interface Seat {
  rank: number;
  gpu: number;
  nic: string;
}

// Seats come rank by rank; a node may come more than once.
export function seatsByNode(seats: Seats[]): { node: string; seats: Seat[] }[] {
  const nodes = new Map<string, Seat[]>();
  let rank = 0;
  for (const { node, gpus, nics } of seats) {
    const list = nodes.get(node) ?? [];
    nodes.set(node, list);
    gpus.forEach((gpu, i) => list.push({ rank: rank + i, gpu, nic: nics[i] ?? "" }));
    rank += gpus.length;
  }
  return [...nodes].map(([node, list]) => ({ node, seats: list }));
}

// "0–3, 8": ranks grow.
export function rankText(ranks: number[]): string {
  const stretches: [number, number][] = [];
  for (const rank of ranks) {
    const newest = stretches[stretches.length - 1];
    if (newest && newest[1] === rank - 1) newest[1] = rank;
    else stretches.push([rank, rank]);
  }
  return stretches.map(([a, b]) => (a === b ? `${a}` : `${a}–${b}`)).join(", ");
}

// What a rank computes in the predicted step. Between backward and the optimizer it waits.
export function computeParts(step: PlannedStep): Part[] {
  const { forward_seconds: forward, compute_seconds: backward } = step;
  const summed = backward + step.exposed_seconds;
  const parts: Part[] = [
    { kind: "forward", name: "forward", begin: 0, end: forward },
    { kind: "backward", name: "backward", begin: forward, end: backward },
    { kind: "optimizer", name: "norm, optimizer and other", begin: summed, end: step.step_seconds },
  ];
  return parts.filter((part) => part.end > part.begin);
}

// The width of the drawing: nothing lies behind it, whatever the plan says.
export function spanOf(step: PlannedStep): number {
  const ends = step.buckets.map((bucket) => bucket.end_seconds);
  return ends.reduce((most, end) => Math.max(most, end), step.step_seconds);
}
