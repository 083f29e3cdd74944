import { useMemo, useState } from "preact/hooks";
import type { Attempts, Charts, Checkpoint, Run, RunEvent } from "../base/api";
import { api, hasEnded } from "../base/api";
import { usePoll } from "../base/poll";
import { setQuery, useRoute } from "../base/route";
import { DataTable } from "../parts/data_table";
import { ErrorPanel } from "../parts/notices";
import type { History } from "../run/history";
import { strips } from "../run/strip";
import { CurveMenu } from "./curve_menu";
import { ReachedTable } from "./reached_table";
import type { Reference, TimeToAccuracy } from "./time_api";
import { kMostEvents, timeApi } from "./time_api";
import type { OtherCurve } from "./time_chart";
import { TimeChart } from "./time_chart";
import type { AxisName, Mark } from "./time_figures";
import {
  axisOf,
  curveOf,
  idleOf,
  kAxes,
  marksOf,
  placeOfStep,
  referencePoints,
  seriesOf,
  tableOfMarks,
  thresholds,
} from "./time_figures";
import { WhereItWent } from "./where_it_went";

const kMostOthers = 9; // runs beside this one

const words = (text: string | null) => (text ?? "").split(",").filter((word) => word !== "");

interface Told {
  time: TimeToAccuracy;
  attempts: Attempts;
  events: RunEvent[];
}

// What is known of the run beside its curves; it changes less often than these.
function useTold(run: Run) {
  const [told, setTold] = useState<Told | null>(null);
  const asked = thresholds(run.metric, run.value, run.target, run.baseline);
  const key = `${run.id} ${run.state} ${run.attempts} ${asked.join(",")}`;
  const health = usePoll(key, hasEnded(run) ? 30_000 : 5000, async (signal) => {
    const [time, attempts, page] = await Promise.all([
      timeApi.told(run.id, asked, signal),
      api.attempts(run.id, signal),
      timeApi.events(run.id, signal),
    ]);
    setTold({ time, attempts, events: page.events });
  });
  return { told, health };
}

// The curves at this axis, of this run and of those that are chosen.
function useCurves(run: Run, axis: AxisName, ids: string[]) {
  const [charts, setCharts] = useState<{ key: string; charts: Charts } | null>(null);
  const key = `${run.id} ${axis} ${ids.join(",")}`;
  const health = usePoll(key, hasEnded(run) ? 30_000 : 2000, async (signal) => {
    const found = await timeApi.charts([run.id, ...ids], axis, signal);
    setCharts({ key, charts: found });
  });
  return { charts: charts?.key === key ? charts.charts : null, health };
}

function useReferences(names: string[]): Reference[] {
  const [found, setFound] = useState<Reference[]>([]);
  const missing = names.filter((name) => !found.some((one) => one.name === name));
  usePoll(missing.length > 0 ? missing.join(",") : null, 5000, async (signal) => {
    const come = await Promise.all(missing.map((name) => timeApi.reference(name, signal)));
    setFound((known) => [...known, ...come]);
  });
  return found.filter((one) => names.includes(one.name));
}

function AxisChoice({ axis }: { axis: AxisName }) {
  return (
    <fieldset class="axis-choice">
      <legend>By</legend>
      {(Object.keys(kAxes) as AxisName[]).map((name) => (
        <label key={name}>
          <input
            type="radio"
            name="time-axis"
            checked={name === axis}
            onChange={() => setQuery({ x: name === "wall" ? null : name }, "replace")}
          />
          {kAxes[name].title}
        </label>
      ))}
    </fieldset>
  );
}

function Marks({ marks, axis, cut }: { marks: Mark[]; axis: AxisName; cut: boolean }) {
  const [open, setOpen] = useState(false);
  if (marks.length === 0) return null;
  return (
    <section class="time-part" aria-label="Events on the curve">
      <button type="button" class="quiet" aria-expanded={open} onClick={() => setOpen(!open)}>
        {open ? "Hide" : "List"} the {marks.length === 1 ? "event" : `${marks.length} events`} on the
        curve
      </button>
      {cut && <span class="small"> Older events than the newest {kMostEvents} are left out.</span>}
      {open && <DataTable caption="Events on the curve" table={tableOfMarks(marks, axis)} />}
    </section>
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
  const axis = axisOf(query.get("x"));
  const ids = words(query.get("with")).slice(0, kMostOthers);
  const names = words(query.get("reference")).map(decodeURIComponent);
  const { told, health } = useTold(run);
  const { charts, health: curves } = useCurves(run, axis, ids);
  const references = useReferences(names);
  const series = seriesOf(charts, run.id);
  const curve = useMemo(() => curveOf(series), [series]);
  const marks = useMemo(
    () => (told ? marksOf(told.events, run, axis, series) : []),
    [told, run.created_at, run.started_at, axis, series],
  );
  const idle = useMemo(() => {
    if (!told) return [];
    const { steps, evaluations } = history;
    const known = { run, told: told.attempts, steps, evaluations, checkpoints, requeues: [] };
    return idleOf(strips(known), run, axis);
  }, [told, run, history, checkpoints, axis]);
  const others = useMemo<OtherCurve[]>(
    () => [
      ...ids.map((id) => ({ name: id, points: curveOf(seriesOf(charts, id)).kept })),
      ...references.flatMap((reference) => {
        const points = run.metric === "mlm_accuracy" ? referencePoints(reference, axis) : null;
        return points ? [{ name: reference.name, points }] : [];
      }),
    ],
    [charts, references, ids.join(","), axis, run.metric],
  );
  const refusal = health.refusal ?? curves.refusal;
  const reached = reachedOn(axis, run, told?.time ?? null, series);
  const left = references.length + ids.length - others.length;
  return (
    <>
      {refusal && <ErrorPanel title="The controller refused" text={refusal.message} />}
      <div class="curves-head">
        <AxisChoice axis={axis} />
        <CurveMenu run={run} ids={ids} names={names} />
      </div>
      {left > 0 && (
        <p class="small">
          {left === 1 ? "One curve has" : `${left} curves have`} nothing on this axis.
        </p>
      )}
      {curve.kept.length === 0 && charts ? (
        <p class="nothing">No evaluation yet: the curve begins with the first one.</p>
      ) : (
        <TimeChart {...{ run, history, axis, curve, others, idle, marks, reached }} />
      )}
      {idle.length > 0 && (
        <p class="small">
          Shaded: {[...new Set(idle.map((one) => one.kind))].join(", ")} (nothing is trained).
        </p>
      )}
      <Marks marks={marks} axis={axis} cut={(told?.events.length ?? 0) >= kMostEvents} />
      {told && <ReachedTable run={run} time={told.time} />}
      {told && <WhereItWent run={run} time={told.time} />}
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
