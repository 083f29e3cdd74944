import { useMemo, useState } from "preact/hooks";
import type {
  Attempts,
  Charts,
  Checkpoint,
  Run,
  RunEvent,
  Series,
} from "../base/api";
import { api, hasEnded } from "../base/api";
import { lookOf, slotsOf } from "../base/colours";
import { drawnName } from "../base/format";
import { usePoll } from "../base/poll";
import { Refusal } from "../base/request";
import { setQuery, useRoute } from "../base/route";
import type { Table } from "../parts/chart_data";
import { Choice } from "../parts/choice";
import { DataTable } from "../parts/data_table";
import { ErrorPanel } from "../parts/notices";
import type { History } from "../run/history";
import { trains } from "../run/standstill";
import { strips } from "../run/strip";
import { CurveMenu, kMostBeside } from "./curve_menu";
import type { Mark } from "./marks";
import { marksOf, tableOfMarks } from "./marks";
import { Expected, ReachedTable } from "./reached_table";
import type { TimeToAccuracy } from "./time_api";
import { kMostEvents, timeApi } from "./time_api";
import type { OtherCurve } from "./time_chart";
import { TimeChart } from "./time_chart";
import type { AxisName } from "./time_figures";
import {
  axisOf,
  axisOfRun,
  bestOf,
  curveOf,
  idleOf,
  kAxes,
  placeOfStep,
  predictionOn,
  referencePoints,
  seriesOf,
  thresholds,
  waitOf,
} from "./time_figures";
import { WhereItWent } from "./where_it_went";

const kBesideEvery = 10_000; // ms; a run that is laid beside may train on
const kAxisNames = Object.keys(kAxes) as AxisName[];
const kDashes = [[6, 4], [2, 3], [8, 3, 2, 3], [1, 4], [12, 4]];

// A list in the address: no word twice, and what is no such list has none of them.
function wordsIn(text: string | null): string[] {
  const found = (text ?? "").split(",").flatMap((word) => {
    try {
      return word === "" ? [] : [decodeURIComponent(word)];
    } catch {
      return [];
    }
  });
  return [...new Set(found)].slice(0, kMostBeside);
}

interface Told {
  time: TimeToAccuracy;
  attempts: Attempts;
  events: RunEvent[];
}

// What is known of the run beside its curves; it changes less often than these.
function useTold(run: Run, history: History) {
  const [told, setTold] = useState<Told | null>(null);
  const best = bestOf(run.metric, history.evaluations) ?? run.value;
  const asked = thresholds(run.metric, best, run.target, run.baseline);
  const key = `${run.id} ${run.state} ${run.attempts} ${asked.join(",")}`;
  const health = usePoll(key, hasEnded(run) ? 15_000 : 5000, async (signal) => {
    const [time, attempts, page] = await Promise.all([
      timeApi.told(run.id, asked, signal),
      api.attempts(run.id, signal),
      timeApi.events(run.id, signal),
    ]);
    setTold({ time, attempts, events: page.events });
  });
  return { told, health };
}

// The run's evaluations; until those at another axis have come, the ones before.
function useCurve(run: Run, axis: AxisName) {
  const [known, setKnown] = useState<{ axis: AxisName; charts: Charts } | null>(null);
  const health = usePoll(`${run.id} ${axis}`, hasEnded(run) ? 15_000 : 2000, async (signal) => {
    const charts = await timeApi.charts(run.id, axis, signal);
    setKnown({ axis, charts });
  });
  return { known, health };
}

// How long the steps took; undefined: not known yet. Of a run that is over it is asked once.
function useSteps(run: Run) {
  const over = hasEnded(run);
  const [known, setKnown] = useState<{ steps: Series | null; final: boolean } | null>(null);
  const key = known?.final && over ? null : `${run.id} ${over}`;
  usePoll(key, 15_000, async (signal) => {
    const charts = await timeApi.steps(run.id, over, signal);
    setKnown({ steps: charts.runs[0]?.steps ?? null, final: over });
  });
  return known?.steps;
}

// Null: the controller does not know it.
type Found<T> = ReadonlyMap<string, T | null>;

// Each of the names is asked for by itself, so that one that is gone does not take the others away.
// `every`: after so many milliseconds again; null: what they are does not change.
function useEach<T>(
  kind: string,
  names: string[],
  every: number | null,
  ask: (name: string, signal: AbortSignal) => Promise<T>,
): Found<T> {
  const [found, setFound] = useState<{ kind: string; all: Found<T> }>({ kind, all: new Map() });
  const all: Found<T> = found.kind === kind ? found.all : new Map();
  const missing = names.filter((name) => !all.has(name));
  const isNew = missing.length > 0;
  const wanted = isNew ? missing : every == null ? [] : names;
  const key = wanted.length > 0 ? `${kind} ${isNew} ${wanted.join(",")}` : null;
  usePoll(key, isNew ? 5000 : (every ?? 5000), async (signal) => {
    const come = await Promise.all(
      wanted.map(async (name): Promise<[string, T | null]> => {
        const one = await ask(name, signal).catch((error: unknown) => {
          if (error instanceof Refusal) return null;
          throw error;
        });
        return [name, one];
      }),
    );
    setFound((old) => ({
      kind,
      all: new Map([...(old.kind === kind ? old.all : []), ...come]),
    }));
  });
  return all;
}

function Marks({
  marks,
  table,
  cut,
}: {
  marks: Mark[];
  table: () => Table;
  cut: boolean;
}) {
  const [open, setOpen] = useState(false);
  if (marks.length === 0) return null;
  return (
    <section class="time-part" aria-label="Events on the curve">
      <button type="button" class="quiet" aria-expanded={open} onClick={() => setOpen(!open)}>
        {open ? "Hide" : "List"} the {marks.length === 1 ? "event" : `${marks.length} events`} on
        the curve
      </button>
      {cut && <span class="small"> Older events than the newest {kMostEvents} are left out.</span>}
      {open && <DataTable caption="Events on the curve" table={table()} />}
    </section>
  );
}

// The curves that the reader has chosen, and what is to be said of those that are not drawn.
function useOthers(run: Run, axis: AxisName, ids: string[], names: string[]) {
  const series = useEach(axis, ids, kBesideEvery, (id, signal) => timeApi.charts(id, axis, signal));
  const references = useEach("reference", names, null, timeApi.reference);
  return useMemo(() => {
    const slots = slotsOf([run.id, ...ids]);
    const curves: OtherCurve[] = [];
    const notes: string[] = [];
    const add = (curve: OtherCurve, why: string) => {
      if (curve.points.length > 0) curves.push(curve);
      else notes.push(`${curve.name} ${why}`);
    };
    for (const id of ids) {
      const charts = series.get(id);
      const name = drawnName(id);
      if (charts === null) notes.push(`${name} is not known`);
      if (!charts) continue;
      const { kept: points, starts, placesOf } = curveOf(charts.runs[0]?.evaluations);
      const look = lookOf(slots.get(id) ?? 0);
      add({ name, points, starts: starts.kept, placesOf, ...look }, "has no evaluation");
    }
    names.forEach((whole, i) => {
      const reference = references.get(whole);
      const name = drawnName(whole);
      if (reference === null) notes.push(`${name} is not known`);
      if (!reference) return;
      const points = run.metric === "mlm_accuracy" ? referencePoints(reference, axis) : null;
      const dash = kDashes[i % kDashes.length] ?? [];
      add({ name, points: points ?? [], colour: "muted", dash }, "has nothing on this axis");
    });
    const own = ids.length > 0 ? lookOf(slots.get(run.id) ?? 0) : { colour: "accent", dash: [] };
    return { curves, notes, own };
  }, [series, references, ids.join(","), names.join(","), axis, run.id, run.metric]);
}

function Nothing({ run }: { run: Run }) {
  return (
    <p class="nothing">
      {hasEnded(run)
        ? "It ended before its first evaluation: there is no curve."
        : "No evaluation yet: the curve begins with the first one."}
    </p>
  );
}

// Time to accuracy: by which clock, what happened meanwhile, against what, and where the time went.
export function TimeTab({
  run,
  history,
  checkpoints,
}: {
  run: Run;
  history: History;
  checkpoints: Checkpoint[];
}) {
  const { query } = useRoute();
  const asked = axisOf(query.get("x"));
  const ids = wordsIn(query.get("with")).filter((id) => id !== run.id);
  const names = wordsIn(query.get("reference")).slice(0, kMostBeside - ids.length);
  const { told, health } = useTold(run, history);
  const { known, health: curves } = useCurve(run, asked);
  const axis = known?.axis ?? asked; // of what is drawn
  const steps = useSteps(run);
  const prediction = trains(run) ? history.prediction : null;
  const others = useOthers(run, axis, ids, names);
  const series = known ? seriesOf(known.charts, run.id) : undefined;
  const curve = useMemo(() => curveOf(series), [series]);
  const marks = useMemo(() => {
    if (!told) return [];
    const { events, attempts } = told;
    const rows = { checkpoints: history.checkpoints, steps: history.steps };
    return marksOf({ run, events, told: attempts, series, ...rows }, axis);
  }, [told, run.created_at, run.started_at, history, axis, series]);
  const idle = useMemo(() => {
    if (!told) return [];
    const rows = { steps: history.steps, evaluations: history.evaluations, checkpoints };
    return idleOf(strips({ run, told: told.attempts, ...rows, requeues: [] }), run, axis);
  }, [told, run, history, checkpoints, axis]);
  const wait = waitOf(run);
  const whole = told?.time.time.whole_seconds ?? null;
  const elapsed = whole == null || wait == null ? null : whole - wait;
  const now = axis === "wall" ? elapsed : axis === "wall_since_submission" ? whole : null;
  const chart = {
    ...{ run, axis, curve, idle, marks, own: others.own, now: now ?? 0 },
    others: others.curves,
    reached: reachedOn(axis, run, told?.time ?? null, series),
    prediction: predictionOn(axis, wait, prediction),
  };
  const refusal = health.refusal ?? curves.refusal;
  const hasCurve = curve.kept.length > 0 || curve.abandoned.length > 0;
  const isCut = (told?.events.length ?? 0) >= kMostEvents;
  return (
    <>
      {refusal && <ErrorPanel title="The controller refused" text={refusal.message} />}
      <div class="curves-head time-head">
        <Choice
          legend="By"
          group="time-axis"
          of={kAxisNames.map((name) => [name, axisOfRun(name, run).title] as const)}
          chosen={asked}
          onChoose={(name) => setQuery({ x: name === "wall" ? null : name }, "replace")}
        />
        <CurveMenu run={run} ids={ids} names={names} />
      </div>
      {others.notes.length > 0 && <p class="small">Not drawn: {others.notes.join("; ")}.</p>}
      {known && !hasCurve && <Nothing run={run} />}
      {hasCurve && <TimeChart {...chart} />}
      {idle.length > 0 && (
        <p class="small">
          Shaded: {[...new Set(idle.map((one) => one.kind))].join(", ")} (nothing is trained).
        </p>
      )}
      <Expected run={run} prediction={prediction} />
      <Marks marks={marks} table={() => tableOfMarks(marks, axis, run)} cut={isCut} />
      {told && <ReachedTable run={run} time={told.time} elapsed={elapsed} />}
      {told && (
        <WhereItWent
          {...{ run, steps, checkpoints, time: told.time, timeline: history.timeline }}
        />
      )}
      {!told && !refusal && <p class="loading">Loading…</p>}
    </>
  );
}

// Where the target was met on this axis.
function reachedOn(
  axis: AxisName,
  run: Run,
  time: TimeToAccuracy | null,
  series: ReturnType<typeof seriesOf>,
): number | null {
  const seconds = run.time_to_accuracy_seconds;
  if (seconds == null) return null;
  if (axis === "wall") return seconds;
  const met = time?.reached.find((one) => one.value === run.target);
  return met?.step == null ? null : axis === "step" ? met.step : placeOfStep(series, met.step);
}
