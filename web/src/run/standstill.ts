// Whether a run trains now, as only then what is predicted of it comes nearer; and which launches
// have failed.
import type { Launch, Run } from "../base/api";
import { isSuspended } from "../base/api";

export type Standing = Pick<Run, "state" | "state_text" | "silent_seconds">;

export const waits = (run: Pick<Run, "state">) =>
  run.state === "queued" || run.state === "starting";

export const trains = (run: Standing) =>
  (run.state === "running" || run.state === "stopping") &&
  run.silent_seconds == null &&
  !isSuspended(run);

// What a trainer returns that has not failed: finished, another attempt has the run, was asked to
// stop and saved, its time was over and it saved (trainer/contract/exit_code.h).
const kNoFailure = new Set([0, 23, 24, 25]);
const kNoFault = new Set(["cancelled", "preempted", "time limit"]);

// By its exit code; by what befell it; or by a signal, or without a trace.
export function failed(one: Pick<Launch, "ended_at" | "exit_code" | "signal" | "cause">): boolean {
  if (one.ended_at == null) return false;
  if (one.signal == null && one.exit_code != null && kNoFailure.has(one.exit_code)) return false;
  return !one.cause || !kNoFault.has(one.cause);
}
