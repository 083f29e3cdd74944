import { useRef, useState } from "preact/hooks";
import type { Charts, Run } from "../base/api";
import { api, hasEnded } from "../base/api";
import type { Health } from "../base/poll";
import { usePoll } from "../base/poll";
import { Refusal } from "../base/request";
import type { Axis, Known, SeriesName } from "./compare_api";
import { charts, planOf, toldEnvironment } from "./compare_api";

// ms; what is over may still be resumed or extended
const kEvery = { growing: 5000, over: 15_000 };

export interface Runs {
  known: Map<string, Known>; // by what was asked for
  missing: Map<string, string>; // why there is none
}

const pause = (runs: Iterable<Known>) =>
  [...runs].every(({ run }) => hasEnded(run)) ? kEvery.over : kEvery.growing;

// What is asked for beside the run, where the reader wants it.
export interface Wanted {
  plans: boolean;
  environments: boolean;
}

// An environment comes when training begins, and has more when it has ended.
const stageOf = ({ attempts, attempt, state, step }: Run) =>
  [attempts, attempt?.execution, state, step > 0].join(" ");

function hasEnvironment(before: Known | undefined, run: Run): boolean {
  const told = before?.environment;
  if (!before || !told || ("kind" in told && told.kind === "away")) return false;
  return stageOf(before.run) === stageOf(run);
}

async function ask(
  id: string,
  before: Known | undefined,
  wanted: Wanted,
  signal: AbortSignal,
): Promise<Known> {
  const run = await api.run(id, signal);
  const same = before?.run.attempts === run.attempts; // it may come with an attempt
  const askPlan = wanted.plans && !(same && before?.plan !== undefined);
  const askEnvironment = wanted.environments && !hasEnvironment(before, run);
  const [{ attempts }, plan, environment] = await Promise.all([
    api.attempts(id, signal),
    askPlan ? planOf(id, signal) : before?.plan,
    askEnvironment ? toldEnvironment(run, signal) : before?.environment,
  ]);
  const known = { run, attempts, plan, environment };
  return before && isSame(before, known) ? before : known;
}

// The request layer gives the same object for the same answer.
function isSame(a: Known, b: Known): boolean {
  const [one, other] = [a.environment, b.environment];
  const isTold = one === other || JSON.stringify(one) === JSON.stringify(other);
  return a.run === b.run && a.plan === b.plan && a.attempts === b.attempts && isTold;
}
const alike = (a: Map<string, unknown>, b: Map<string, unknown>) =>
  a.size === b.size && [...a].every(([key, value]) => b.get(key) === value);

// What the controller says of these runs. Plans and environments only where they are wanted: whether a
// run has one is known only by asking, and the browser tells each 404 in its console.
export function useRuns(ids: string[], wanted: Wanted): [Runs, Health] {
  const [runs, setRuns] = useState<Runs>({ known: new Map(), missing: new Map() });
  const latest = useRef(runs);
  const key = ids.length > 0 ? `${ids.join(",")} ${wanted.plans} ${wanted.environments}` : null;
  const health = usePoll(key, pause(runs.known.values()), async (signal) => {
    const before = latest.current;
    const next: Runs = { known: new Map(), missing: new Map() };
    let failure: unknown = null;
    const one = async (id: string) => {
      const old = before.known.get(id);
      try {
        next.known.set(id, await ask(id, old, wanted, signal));
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
