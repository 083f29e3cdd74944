import { useRef, useState } from "preact/hooks";
import type { Charts } from "../base/api";
import { api, hasEnded } from "../base/api";
import type { Health } from "../base/poll";
import { usePoll } from "../base/poll";
import { Refusal } from "../base/request";
import type { Axis, Known, SeriesName } from "./compare_api";
import { charts, planOf } from "./compare_api";

// ms; what is over may still be resumed or extended
const kEvery = { growing: 5000, over: 15_000 };

export interface Runs {
  known: Map<string, Known>; // by what was asked for
  missing: Map<string, string>; // why there is none
}

const pause = (runs: Iterable<Known>) =>
  [...runs].every(({ run }) => hasEnded(run)) ? kEvery.over : kEvery.growing;

async function ask(
  id: string,
  before: Known | undefined,
  withPlan: boolean,
  signal: AbortSignal,
): Promise<Known> {
  const run = await api.run(id, signal);
  const same = before?.run.attempts === run.attempts; // it may come with an attempt
  const askPlan = withPlan && !(same && before?.plan !== undefined);
  const [{ attempts }, plan] = await Promise.all([
    api.attempts(id, signal),
    askPlan ? planOf(id, signal) : before?.plan,
  ]);
  const known = { run, attempts, plan };
  return before && isSame(before, known) ? before : known;
}

// The request layer gives the same object for the same answer.
function isSame(a: Known, b: Known): boolean {
  return a.run === b.run && a.plan === b.plan && a.attempts === b.attempts;
}
const alike = (a: Map<string, unknown>, b: Map<string, unknown>) =>
  a.size === b.size && [...a].every(([key, value]) => b.get(key) === value);

// What the controller says of these runs. Plans only where they are wanted: whether a run has one
// is known only by asking, and the browser tells each 404 in its console.
export function useRuns(ids: string[], withPlans: boolean): [Runs, Health] {
  const [runs, setRuns] = useState<Runs>({ known: new Map(), missing: new Map() });
  const latest = useRef(runs);
  const key = ids.length > 0 ? `${ids.join(",")} ${withPlans}` : null;
  const health = usePoll(key, pause(runs.known.values()), async (signal) => {
    const before = latest.current;
    const next: Runs = { known: new Map(), missing: new Map() };
    let failure: unknown = null;
    const one = async (id: string) => {
      const old = before.known.get(id);
      try {
        next.known.set(id, await ask(id, old, withPlans, signal));
      } catch (error) {
        if (error instanceof Refusal) return void next.missing.set(id, error.message);
        failure = error;
        if (old) next.known.set(id, old);
      }
    };
    await Promise.all(ids.map(one));
    if (signal.aborted) return;
    if (!alike(before.known, next.known) || !alike(before.missing, next.missing)) {
      latest.current = next;
      setRuns(next);
    }
    if (failure != null) throw failure;
  });
  return [runs, health];
}

export interface Drawn {
  axis: Axis;
  series: SeriesName[];
  charts: Charts;
}

// The series of these runs; what is drawn stays until others have come.
export function useCharts(
  known: Known[],
  axis: Axis,
  series: SeriesName[],
): [Drawn | null, Health] {
  const [drawn, setDrawn] = useState<Drawn | null>(null);
  const ids = known.map(({ run }) => run.id);
  const key = `${ids.join(",")} ${axis} ${series.join(",")}`;
  const health = usePoll(ids.length > 0 ? key : null, pause(known), async (signal) => {
    const answer = await charts(ids, axis, series, signal);
    setDrawn((old) => (old?.charts === answer ? old : { axis, series, charts: answer }));
  });
  return [drawn, health];
}
