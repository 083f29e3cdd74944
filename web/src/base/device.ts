// What a rank of these runs is, which charts, axes and tables are named by: a GPU, unless some of them
// run on CPUs, or none says on what and there are no GPUs.
import type { Run } from "./api";

export type Unit = "GPU" | "rank";
export function unitOf(runs: Pick<Run, "device">[], hasGpus = true): Unit {
  const devices = runs.flatMap(({ device }) => device ?? []);
  if (devices.length === 0) return hasGpus ? "GPU" : "rank";
  return devices.some((device) => /^cpu\b/i.test(device)) ? "rank" : "GPU";
}

export const hoursIn = (unit: Unit) => (unit === "GPU" ? "GPU-hours" : "rank-hours");
