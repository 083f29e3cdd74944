import type { State } from "../base/api";
import { Badge } from "../parts/icons";
import type { SweepState, SweepSummary, Trial } from "./sweeps_api";

// Looks of runs' states that mean the same here.
const kSweep: Record<SweepState, State> = {
  running: "running",
  done: "succeeded",
  stopped: "stopped",
};
const kTrial: Record<Trial["state"], State> = {
  running: "running",
  paused: "stopping", // two bars
  finished: "succeeded",
  failed: "failed",
  stopped: "stopped",
};

export function SweepBadge({ sweep }: { sweep: Pick<SweepSummary, "state" | "stops"> }) {
  const { state, stops } = sweep;
  if (state === "running" && stops) return <Badge shape="stopping" tone="stopping" word="stopping" />;
  const look = Object.hasOwn(kSweep, state) ? kSweep[state] : "queued";
  return <Badge shape={look} tone={look} word={state} />;
}

export function TrialBadge({ state }: { state: Trial["state"] }) {
  const look = Object.hasOwn(kTrial, state) ? kTrial[state] : "queued";
  return <Badge shape={look} tone={state === "paused" ? "" : look} word={state} />;
}
