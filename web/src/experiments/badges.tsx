import type { State } from "../base/api";
import * as show from "../base/format";
import { Badge } from "../parts/icons";
import type { Progress } from "./figures";

const kLooks: Record<Progress, State> = { running: "running", waits: "queued", done: "succeeded" };

export const ExperimentBadge = ({ progress }: { progress: Progress }) => (
  <Badge shape={kLooks[progress]} tone={kLooks[progress]} word={progress} />
);

// Runs that are over, of those planned.
export function Done({ finished, all, progress, label = true }: {
  finished: number;
  all: number;
  progress: Progress;
  label?: boolean;
}) {
  const text = `${show.count(finished)} of ${show.count(all)} runs are over`;
  return (
    <div class={`progress ${kLooks[progress]}`} title={text}>
      <progress max={1} value={all > 0 ? Math.min(1, finished / all) : 0} aria-label={text} />
      {label && (
        <span class="small">
          {show.count(finished)} / {show.count(all)}
        </span>
      )}
    </div>
  );
}
