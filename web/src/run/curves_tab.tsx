import type { AttemptRow, Checkpoint, Run } from "../base/api";
import { hasEnded } from "../base/api";
import { useAttempts } from "./attempts";
import { Curves } from "./curves";
import type { History } from "./history";
import { Ranks } from "./ranks";
import { Standing, needsExplaining } from "./standing";
import { StripView } from "./strip_view";

const kNone: AttemptRow[] = [];

// Why it is where it is, where it was, how it learns, and how its ranks do.
export function CurvesTab({
  run,
  history,
  checkpoints,
}: {
  run: Run;
  history: History;
  checkpoints: Checkpoint[];
}) {
  const attempts = useAttempts(run);
  const hasSteps = history.steps.length > 0 || history.evaluations.length > 0;
  return (
    <>
      {needsExplaining(run) && <Standing run={run} />}
      <StripView run={run} history={history} checkpoints={checkpoints} attempts={attempts} />
      {hasSteps ? (
        <Curves run={run} history={history} attempts={attempts.told?.attempts ?? kNone} />
      ) : (
        <p class="nothing">
          {hasEnded(run)
            ? "It ended before its first step: there are no curves."
            : "Curves appear with the first step."}
        </p>
      )}
      <Ranks run={run} timeline={history.timeline} />
    </>
  );
}
