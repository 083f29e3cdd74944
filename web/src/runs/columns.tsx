import type { ComponentChildren } from "preact";
import type { RunRow } from "../base/api";
import { hasEnded } from "../base/api";
import * as show from "../base/format";
import { runHash } from "../base/route";
import { secondsLeft, stepsDone } from "../base/speed";
import { targetWord } from "../base/target";
import { RunBadge } from "../parts/icons";
import { Name } from "../parts/name";
import { When } from "../parts/when";
import type { Curve } from "./sparks";
import { Spark } from "./sparks";

// Done steps of those that are asked for; in a list as a share.
export function Progress({ run, label = true }: { run: RunRow; label?: boolean | "share" }) {
  const done = stepsDone(run);
  const steps = Math.max(done, run.steps); // an attempt goes on as it began, past a lowered end
  const share = steps > 0 ? done / steps : 0;
  return (
    <div class={`progress ${run.state}`} title={`step ${done} of ${steps}`}>
      <progress max={1} value={share} aria-label={`step ${done} of ${steps}`} />
      {label && (
        <span class="small">
          {label === "share"
            ? `${Math.floor(100 * share)}\u202f%`
            : `${show.count(done)} / ${show.count(steps)}`}
        </span>
      )}
    </div>
  );
}

// The one figure of time that counts now.
export function timeOf(run: RunRow): { text: string; note: string } {
  if (run.time_to_accuracy_seconds != null) {
    return { text: show.duration(run.time_to_accuracy_seconds), note: "to target" };
  }
  if (!hasEnded(run) && run.predicted_seconds_to_target != null) {
    return { text: `≈ ${show.duration(run.predicted_seconds_to_target)}`, note: "left to target" };
  }
  const left = secondsLeft(run); // null while it is silent
  if (run.state === "running" && left != null) {
    return { text: `≈ ${show.duration(left)}`, note: "left to its last step" };
  }
  if (run.step > 0) return { text: show.duration(run.training_seconds), note: "trained" };
  return { text: show.duration(run.since_submission_seconds), note: "since submission" };
}

const isThere = (run: RunRow) => ["≤", "≥"].includes(targetWord(run));

// What `running` and `succeeded` do not say.
const kOdd = /^(suspended|finished without|ended at an earlier)/;

// Why it failed, or where it is; null where its state says all.
export function reasonOf(run: RunRow): string | null {
  if (run.error != null) return show.clipped(run.error);
  if (run.silent_seconds != null) return `silent for ${show.duration(run.silent_seconds)}`;
  const told = run.state_text.trim();
  const says = run.state === "running" || run.state === "succeeded" || told === run.state;
  return says && !kOdd.test(told) ? null : show.clipped(told);
}

export interface Column {
  name: string;
  title: string;
  help?: string;
  sort?: "created" | "ended" | "name" | "time_to_accuracy"; // as the API sorts by it
  figures?: true; // aligned right
  hidden?: true; // until somebody chooses it
  cell: (run: RunRow, curve: Curve | undefined) => ComponentChildren;
}

export const kColumns: Column[] = [
  {
    name: "state",
    title: "State",
    cell: (run) => (
      <span title={show.clipped(run.state_text)}>
        <RunBadge run={run} />
        {run.attempts > 1 && (
          <span class="small" title={`${run.attempts} attempts`}>
            {" "}
            ×{run.attempts}
          </span>
        )}
      </span>
    ),
  },
  {
    name: "run",
    title: "Run",
    sort: "name",
    cell: (run) => (
      <div class="run-line">
        <a class="row-link" href={runHash(run.id)} aria-label={show.drawnName(run.name)} title={run.id}>
          <Name text={run.name} />
        </a>
        {run.tags.map((tag) => (
          <span key={tag} class="tag" title={tag}>
            {tag}
          </span>
        ))}
      </div>
    ),
  },
  { name: "progress", title: "Step", cell: (run) => <Progress run={run} label="share" /> },
  {
    name: "metric",
    title: "Metric",
    figures: true,
    help: "the newest evaluation, and the target",
    cell: (run) => {
      const target = show.target(run);
      return (
        <>
          <span class={isThere(run) ? "reached" : undefined} title={run.metric}>
            {show.metric(run.metric, run.value, run.target)}
          </span>{" "}
          <span class="small">
            {target == null ? "no target" : `${targetWord(run)} ${target}`}
          </span>
        </>
      );
    },
  },
  {
    name: "curve",
    title: "Curve",
    help: "the metric by steps, and its target",
    cell: (run, curve) => <Spark run={run} curve={curve} />,
  },
  {
    name: "time",
    title: "Time",
    figures: true,
    sort: "time_to_accuracy",
    help: "to the target; before that, what is left as predicted",
    cell: (run) => {
      const { text, note } = timeOf(run);
      return (
        <>
          {text} <span class="small">{note}</span>
        </>
      );
    },
  },
  {
    name: "speed",
    title: "Samples/s",
    figures: true,
    hidden: true,
    cell: (run) => show.number(run.samples_per_second),
  },
  { name: "loss", title: "Loss", figures: true, hidden: true, cell: (run) => show.number(run.loss) },
  {
    name: "attempts",
    title: "Attempts",
    figures: true,
    hidden: true,
    cell: (run) => run.attempts,
  },
  {
    name: "owner",
    title: "Owner",
    cell: (run) => <Name text={run.owner ?? show.kDash} />,
  },
  { name: "created", title: "Created", sort: "created", cell: (run) => <When at={run.created_at} ago /> },
  {
    name: "ended",
    title: "Ended",
    sort: "ended",
    hidden: true,
    cell: (run) => <When at={run.ended_at} ago />,
  },
  { name: "id", title: "Id", hidden: true, cell: (run) => <Name text={run.id} /> },
  {
    name: "reason",
    title: "Why",
    help: "why it failed or waits",
    cell: (run) => {
      const reason = reasonOf(run);
      return (
        reason != null && (
          <span class={`why ${run.error != null ? "failure" : ""}`} title={reason}>
            {reason}
          </span>
        )
      );
    },
  },
];

const kFixed = new Set(["state", "run"]); // always there

// The columns that are shown, of the reader's choice: "-speed,loss" hides one and shows another.
export function shownColumns(choice: string | null): Column[] {
  const words = new Set((choice ?? "").split(","));
  return kColumns.filter(({ name, hidden }) => {
    if (kFixed.has(name)) return true;
    return hidden ? words.has(name) : !words.has(`-${name}`);
  });
}
export function choiceWith(choice: string | null, column: Column, shown: boolean): string | null {
  const words = new Set((choice ?? "").split(",").filter((word) => word !== ""));
  const word = column.hidden ? column.name : `-${column.name}`;
  if (shown === Boolean(column.hidden)) words.add(word);
  else words.delete(word);
  return words.size > 0 ? [...words].sort().join(",") : null;
}
export const isFixed = (column: Column) => kFixed.has(column.name);
