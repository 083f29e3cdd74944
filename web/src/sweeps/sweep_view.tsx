import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import * as show from "../base/format";
import { useShortcuts } from "../base/keys";
import { usePoll } from "../base/poll";
import { go } from "../base/route";
import { Connection, ErrorPanel } from "../parts/notices";
import type { Brush, Brushes } from "./axes";
import { axesOf, passes } from "./axes";
import { BestCurve } from "./best_curve";
import { objectiveText, valueText } from "./objective";
import { BrushChips, ParallelCoordinates } from "./parallel";
import { RungTable } from "./rung_table";
import { SweepHeader } from "./sweep_header";
import type { Parameter, Sweep } from "./sweeps_api";
import { sweepsApi } from "./sweeps_api";
import { TrialList } from "./trial_list";

const clean = show.withoutEscapes;
const kEvery = 2000; // ms
const kEveryOver = 15_000;

function useSweep(id: string) {
  const [sweep, setSweep] = useState<Sweep | null>(null);
  const acted = useRef(0); // how often the reader has changed it
  const isOver = sweep != null && sweep.state !== "running";
  const health = usePoll(id, isOver ? kEveryOver : kEvery, async (signal) => {
    const actions = acted.current;
    const next = await sweepsApi.sweep(id, signal);
    // What was asked before an action is older than what that has answered.
    if (actions === acted.current) setSweep(next);
  });
  const change = (next: Partial<Sweep>) => {
    acted.current += 1;
    setSweep((old) => old && { ...old, ...next });
  };
  return { sweep, health, change };
}

const kNone: Brushes = new Map();

function useBrushes() {
  const [brushes, setBrushes] = useState<Brushes>(kNone);
  const set = useCallback((key: string, brush: Brush | null) => {
    setBrushes((old) => {
      const next = new Map(old);
      if (brush) next.set(key, brush);
      else next.delete(key);
      return next;
    });
  }, []);
  return { brushes, set, clear: useCallback(() => setBrushes(kNone), []) };
}

function rangeText({ kind, low, high, log, choices }: Parameter): string {
  if (kind === "choice") return (choices ?? []).map(valueText).join(", ");
  const scale = kind === "log_uniform" || log ? ", logarithmic" : "";
  const whole = kind === "integer" ? ", whole numbers" : "";
  return `${valueText(low ?? undefined)} to ${valueText(high ?? undefined)}${scale}${whole}`;
}

const whenText = ({ when }: Parameter) =>
  Object.entries(when ?? {})
    .map(([key, values]) => `${clean(key)} is ${values.map(valueText).join(" or ")}`)
    .join(" and ");

const escaped = (letter: string) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`;

function SearchSpace({ sweep }: { sweep: Sweep }) {
  return (
    <details class="fold">
      <summary>Search space and run file</summary>
      <div class="scroll view-part" tabIndex={0} role="region" aria-label="Search space, table">
        <table class="space dense cards">
          <thead>
            <tr>
              <th scope="col">Parameter</th>
              <th scope="col">Values</th>
              <th scope="col">Only when</th>
            </tr>
          </thead>
          <tbody>
            {sweep.parameters.map((parameter) => (
              <tr key={parameter.key}>
                <th scope="row">{clean(parameter.key)}</th>
                <td data-name="Values">{rangeText(parameter)}</td>
                <td data-name="Only when">{whenText(parameter) || "always"}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <pre class="log config" tabIndex={0} aria-label="Run file">
        {JSON.stringify(sweep.config, null, 2).replace(show.kUnseen, escaped)}
      </pre>
    </details>
  );
}

function NoSweep({ id }: { id: string }) {
  return (
    <section class="empty">
      <h1>No such sweep</h1>
      <p>
        The controller does not know the sweep <code>{clean(id)}</code>.{" "}
        <a href="#/sweeps">All sweeps</a>
      </p>
    </section>
  );
}

function Shown({ sweep, query }: { sweep: Sweep; query: URLSearchParams }) {
  const { brushes, set, clear } = useBrushes();
  const [picked, setPicked] = useState<number | null>(null);
  const [pointed, setPointed] = useState<number | null>(null);
  const axes = useMemo(() => axesOf(sweep), [sweep]);
  const trials = useMemo(
    () => sweep.trials.filter((trial) => passes(axes, brushes, trial)),
    [sweep, axes, brushes],
  );
  return (
    <>
      {sweep.trials.length > 0 && (
        <>
          <ParallelCoordinates
            {...{ sweep, axes, brushes, picked, pointed }}
            onBrush={set}
            onShowAll={clear}
            onPick={setPicked}
          />
          <BrushChips
            {...{ axes, brushes }}
            passing={trials.length}
            of={sweep.trials.length}
            onBrush={set}
            onShowAll={clear}
          />
          <BestCurve sweep={sweep} />
        </>
      )}
      <RungTable sweep={sweep} />
      <TrialList {...{ sweep, trials, query, picked }} onPoint={setPointed} />
      <SearchSpace sweep={sweep} />
    </>
  );
}

export function SweepView({ id, query }: { id: string; query: URLSearchParams }) {
  const { sweep, health, change } = useSweep(id);
  const isGone = health.refusal?.status === 404;
  const best = sweep?.best;
  useEffect(() => {
    const figure = sweep && best ? `${objectiveText(sweep.objective, best.objective)} ` : "";
    const name = sweep ? show.drawnName(sweep.name) : isGone ? "No such sweep" : "Sweep";
    document.title = `${figure}${name} · Regatta`;
  }, [sweep?.name, best?.objective, isGone]);
  useShortcuts([{ keys: "Escape", does: "Back to the sweeps", act: () => go("#/sweeps") }]);
  if (isGone) return <NoSweep id={id} />;
  return (
    <div class="wide-view sweep">
      <a class="back" href="#/sweeps">
        ← All sweeps
      </a>
      <Connection health={health} />
      {health.refusal && (
        <ErrorPanel title="The controller refused" text={clean(health.refusal.message)} />
      )}
      {!sweep && !health.failure && !health.refusal && <p class="loading">Loading sweep…</p>}
      {sweep && (
        <>
          <SweepHeader sweep={sweep} onChange={change} />
          {sweep.state === "running" && sweep.reason && (
            <ErrorPanel title="The sweep stands still" text={sweep.reason} />
          )}
          <Shown sweep={sweep} query={query} />
        </>
      )}
    </div>
  );
}
