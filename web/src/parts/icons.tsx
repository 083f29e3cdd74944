import type { Run, State } from "../base/api";
import { isSuspended } from "../base/api";

export function Sail() {
  return (
    <svg class="sail" viewBox="0 0 32 32" width="22" height="22" aria-hidden="true">
      <path d="M17 2c7 6 10 12 11 19H17zM14 7v14H5c2-6 5-10 9-14z" />
      <path d="M3 24h26c-2 4-5 6-9 6h-8c-4 0-7-2-9-6z" />
    </svg>
  );
}

// A shape for every state, so that colour is never the only sign.
const kShapes: Record<State, string> = {
  queued: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM8 5v3.2l2.2 1.6",
  starting: "M8 2.5a5.5 5.5 0 1 0 5.5 5.5",
  running: "M5 3.2v9.6L13 8z",
  stopping: "M5.5 3.5v9M10.5 3.5v9",
  succeeded: "M3 8.5l3.4 3.4L13 4.8",
  stopped: "M4 4h8v8H4z",
  failed: "M4 4l8 8M12 4l-8 8",
  cancelled: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM4.2 11.8l7.6-7.6",
};
const kFilled = new Set<State>(["running", "stopped"]);

interface MarkProps {
  word: string;
  tone: string; // its class
  path: string;
  isFilled?: boolean;
}
function Mark({ word, tone, path, isFilled = false }: MarkProps) {
  return (
    <span class={`badge ${tone}`}>
      <svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
        <path d={path} class={isFilled ? "filled" : "line"} />
      </svg>
      {word}
    </span>
  );
}

// A shape and a word: of a run's state, or of what else has states, in the colour of one or in none.
export function Badge({ shape, tone, word }: { shape: State; tone: string; word: string }) {
  return <Mark word={word} tone={tone} path={kShapes[shape]} isFilled={kFilled.has(shape)} />;
}

export function StateBadge({ state }: { state: State }) {
  const known = Object.hasOwn(kShapes, state) ? state : "queued";
  return <Badge shape={known} tone={known} word={state} />;
}

// A run's state, or that Slurm has suspended it, which the API calls running.
const kSuspended = "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM6.4 6v4M9.6 6v4";
export function RunBadge({ run }: { run: Pick<Run, "state" | "state_text"> }) {
  if (!isSuspended(run)) return <StateBadge state={run.state} />;
  return <Mark word="suspended" tone="suspended" path={kSuspended} />;
}
