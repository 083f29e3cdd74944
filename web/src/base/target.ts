import type { RunRow } from "./api";
import * as show from "./format";

export const kReachedBefore = "reached before; target";

// What is between the newest value and its target; that it was reached once may be long ago.
export function targetWord(
  run: Pick<RunRow, "metric" | "value" | "target" | "target_reached">,
): string {
  const { value, target } = run;
  const loss = show.isLoss(run.metric);
  if (value != null && target != null && (loss ? value <= target : value >= target)) {
    return loss ? "≤" : "≥";
  }
  if (run.target_reached) return kReachedBefore;
  return loss ? "target" : "of";
}
