import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Launch, Run } from "../base/api";
import { hasEnded } from "../base/api";
import * as show from "../base/format";
import { usePoll } from "../base/poll";
import { ErrorPanel } from "../parts/notices";
import { When } from "../parts/when";
import type { Explanation } from "./run_api";
import { runApi } from "./run_api";
import { failed, trains } from "./standstill";
import { beside, quoted, sentence } from "./words";

const kEvery = 5000; // ms

// A run whose state alone does not say why it is there.
export function needsExplaining(run: Run): boolean {
  if (run.state === "running") return !trains(run);
  return run.state !== "succeeded";
}

const kClears: Record<string, string> = {
  "by itself": "It goes on by itself.",
  perhaps: "It may go on by itself.",
  never: "It does not go on until somebody acts.",
};

function titleOf(run: Run): string {
  if (run.state === "failed") return "After the failure";
  if (run.state === "queued") return "Why it waits";
  if (run.state === "starting") return "Why it has not begun";
  if (run.state === "stopping") return "Why it stops";
  return hasEnded(run) ? "After its end" : "Why it stands still";
}

function Entry({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

const clean = show.withoutEscapes;

// Commands in it, which the controller puts between backquotes, look like such.
function Words({ text }: { text: string }) {
  const parts = quoted(sentence(clean(text)));
  return (
    <>
      {parts.map(({ text: part, isCode }, i) => (isCode ? <code key={i}>{part}</code> : part))}
    </>
  );
}

const kNarrow = 3; // launches that are told of

function Times({ waiting }: { waiting: Explanation["waiting"] }) {
  if (!waiting) return null;
  const { expected_start: expected, next_start: next } = waiting;
  return (
    <Entry name="When">
      {next != null && (
        <>
          Tried again at <When at={next} />.{" "}
        </>
      )}
      {expected != null && (
        <>
          Slurm expects the start at <When at={expected} />, which it may move.
        </>
      )}
      {next == null && expected == null && "No start time is known."}
    </Entry>
  );
}

// Its cause and last words, unless the run's own error says the same.
function whyOf(one: Launch, error: string | null): string {
  const what = one.what === error ? null : one.what;
  const words = [one.cause, what].filter((text) => text != null && text !== "");
  return words.length > 0 ? `: ${clean(words.join("; "))}` : "";
}

function Failures({ run, told }: { run: Run; told: Explanation }) {
  const bad = told.launches.filter(failed);
  const newest = bad.slice(-kNarrow).reverse();
  if (newest.length === 0) return null;
  return (
    <Entry name={bad.length === 1 ? "Launch that failed" : "Launches that failed"}>
      {newest.map((one) => (
        <p key={one.launch}>
          Launch {one.launch}, <When at={one.ended_at} />
          {one.nodes && ` on ${clean(one.nodes)}`}
          {whyOf(one, run.error)}
          {one.exit_code != null && ` (exit code ${one.exit_code})`}
          {one.signal != null && ` (signal ${one.signal})`}
          {one.action && <span class="small"><Words text={one.action} /></span>}
        </p>
      ))}
      {bad.length > newest.length && <p class="small">and {bad.length - newest.length} before</p>}
    </Entry>
  );
}

function Answers({ run, told }: { run: Run; told: Explanation }) {
  const { waiting } = told;
  const summary = clean(beside(told.summary, run.error));
  const action = waiting?.action ?? "";
  return (
    <dl class="details">
      {waiting && (
        <Entry name="Reason">
          <Words text={waiting.sentence} />
          <span class="small">{kClears[waiting.clears] ?? clean(waiting.clears)}</span>
        </Entry>
      )}
      {summary && (!waiting || !summary.includes(waiting.sentence)) && (
        <Entry name={waiting || summary !== clean(told.summary) ? "So far" : "Reason"}>
          <Words text={summary} />
        </Entry>
      )}
      {action && (
        <Entry name="What to do">
          <Words text={action} />
        </Entry>
      )}
      <Entry name="Next">
        <Words text={told.next} />
      </Entry>
      <Times waiting={waiting} />
      <Failures run={run} told={told} />
      {told.failures_in_a_row > 1 && (
        <Entry name="In a row">{told.failures_in_a_row} failures without progress</Entry>
      )}
      {told.avoided_nodes.length > 0 && (
        <Entry name="Nodes it avoids">
          {told.avoided_nodes.map((one) => `${clean(one.node)}: ${clean(one.why)}`).join("; ")}
        </Entry>
      )}
    </dl>
  );
}

// Why a run is where it is, what happens next and when.
export function Standing({ run }: { run: Run }) {
  // What was said of a state before explains nothing of this one.
  const [known, setKnown] = useState<{ state: string; told: Explanation } | null>(null);
  const { state } = run;
  const health = usePoll(`${run.id} ${state} ${run.attempts}`, kEvery, async (signal) => {
    setKnown({ state, told: await runApi.explain(run.id, signal) });
  });
  const told = known?.state === state ? known.told : null;
  if (health.refusal && !told) {
    return <ErrorPanel title="The reason cannot be shown" text={health.refusal.message} />;
  }
  return (
    <section class="reason-panel" aria-label={titleOf(run)} aria-busy={told == null}>
      <h2>{titleOf(run)}</h2>
      {told ? <Answers run={run} told={told} /> : <p class="small">Asking the controller…</p>}
    </section>
  );
}
