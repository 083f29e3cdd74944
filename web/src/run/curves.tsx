import { useCallback, useMemo, useState } from "preact/hooks";
import type uPlot from "uplot";
import type { AttemptRow, EvaluationRow, Run, StepRow } from "../base/api";
import { hasEnded } from "../base/api";
import * as show from "../base/format";
import { usePreference } from "../base/preferences";
import { againLine, branchesOf, kAgainName } from "../parts/branches";
import type { Line, Pen, Span } from "../parts/chart";
import { Chart, kStepAxis, kTimeAxis } from "../parts/chart";
import { Choice } from "../parts/choice";
import type { Place } from "./attempts";
import { placesOf } from "./attempts";
import { Labels, checkpointMarks, crossing, dot, forecast, level } from "./curve_marks";
import type { By } from "./curve_rows";
import {
  amountOf,
  fullSpan,
  pastSpan,
  placeOf,
  reachedAt,
  roomFor,
  rowsBy,
  tableOfRows,
} from "./curve_rows";
import { firstEvaluationText } from "./headline";
import type { History } from "./history";
import { trains } from "./standstill";

const kValue = 5; // of an evaluation: of the run's metric

function accuracySummary(run: Run, by: By, rows: number): string {
  const parts = [`${show.metricTitle(run.metric)} over ${kOver[by]}, ${rows} evaluations`];
  if (run.value != null) parts.push(`now ${show.metric(run.metric, run.value, run.target)}`);
  if (run.target != null) parts.push(`target ${show.metric(run.metric, run.target, run.value)}`);
  if (run.baseline != null && !show.isLoss(run.metric))
    parts.push(`best constant guess ${show.metric(run.metric, run.baseline)}`);
  if (run.time_to_accuracy_seconds != null) {
    parts.push(`target reached after ${show.duration(run.time_to_accuracy_seconds)}`);
  }
  return parts.join(", ");
}

// "400 steps", "2,000 of 100,000 steps"
function stepsText(rows: History["steps"]): string {
  const { shown, steps } = amountOf(rows);
  const all = `${show.count(shown < steps ? steps : rows.length)} steps`;
  return shown < steps ? `${show.count(shown)} of ${all}` : all;
}

const kOver: Record<By, string> = { time: "time", step: "steps" };
const kChoices = Object.entries(kOver) as [By, string][];
const axisOf = (by: By) => (by === "time" ? kTimeAxis : kStepAxis);

interface CurveProps {
  run: Run;
  attempts: AttemptRow[];
  history: History;
  by: By;
  zoom: Span | null;
  onZoom: (span: Span | null) => void;
  full: Span;
}

// Columns of rows as a chart takes them: of each what counts, and, where there is any, what was
// trained again since; with the table that tells both.
function curvesOf<R extends StepRow | EvaluationRow>(
  by: By,
  rows: R[],
  places: Place[],
  lines: (Line & { of: (row: R) => number | null })[],
) {
  const xs = rows.map((row) => placeOf(by, row));
  const found: { line: Line; values: (number | null)[] }[] = [];
  for (const { of, ...line } of lines) {
    const points = rows.map((row, i) => ({
      ...{ x: xs[i] ?? 0, value: of(row) },
      ...(places[i] ?? { attempt: null, again: false }),
    }));
    const { kept, again } = branchesOf(points);
    const column = (wanted: boolean) =>
      points.map((point) => (point.again === wanted ? point.value : null));
    found.push({ line: { ...line, starts: kept.starts }, values: column(false) });
    if (again.x.length === 0) continue;
    const dashed = { ...againLine(line), name: "", starts: again.starts };
    found.push({ line: dashed, values: column(true) });
  }
  return {
    data: [xs, ...found.map(({ values }) => values)] as uPlot.AlignedData,
    lines: found.map(({ line }) => line),
    table: () =>
      tableOfRows(by, rows, places, lines.map(({ name, of }) => ({ name: name ?? "", of }))),
  };
}

// What the chart of the accuracy draws besides: the levels, the forecast, where it was reached.
function useMarks({ run, history, by }: CurveProps, rows: History["evaluations"]) {
  const baseline = show.isLoss(run.metric) ? null : run.baseline; // a guess has no loss
  const isAhead = trains(run);
  const reached = reachedAt(run, history);
  const place = reached && (by === "time" ? reached.seconds : reached.step);
  const overlay = useCallback(
    (pen: Pen) => {
      const labels = new Labels(pen);
      checkpointMarks(pen, by, history.checkpoints);
      if (run.target != null) {
        const text = `target ${show.metric(run.metric, run.target, run.value)}`;
        const at = { value: run.target, text, colour: "good", pattern: [], side: "left" as const };
        level(pen, labels, at);
      }
      if (baseline != null) {
        const text = `best constant guess ${show.metric(run.metric, baseline)}`;
        const look = { colour: "muted", pattern: [2, 4], side: "right" as const };
        level(pen, labels, { value: baseline, text, ...look });
      }
      if (place != null) {
        const text = by === "time" ? show.clock(place) : `step ${show.count(place)}`;
        crossing(pen, labels, place, text);
      }
      const newest = rows[rows.length - 1];
      const value = newest?.[kValue];
      if (by === "step" || run.target == null || place != null || !isAhead) return;
      if (newest && value != null && history.prediction) {
        forecast(pen, labels, [newest[1], value], run.target, history.prediction);
      }
    },
    [history, rows, isAhead, place, baseline, run.target, run.metric, by],
  );
  const height = reached?.value;
  const marks = useCallback(
    (pen: Pen) => {
      if (place != null && height != null) dot(pen, pen.x(place), pen.y(height), "good", true);
    },
    [place, height],
  );
  return { overlay, marks, baseline };
}

function AccuracyChart(props: CurveProps) {
  const { run, history, by, zoom, onZoom, full, attempts } = props;
  const rows = useMemo(() => rowsBy(by, history.evaluations), [by, history.evaluations]);
  const { overlay, marks, baseline } = useMarks(props, rows);
  const places = useMemo(
    () => placesOf(rows, { run, attempts, later: history.steps, said: (row) => row[4] }),
    [rows, attempts, run.started_at, history.steps],
  );
  const { data, lines, table } = useMemo(() => {
    const look = { colour: "accent", width: 2.25, points: 60 };
    const of = (row: EvaluationRow) => row[kValue];
    return curvesOf(by, rows, places, [{ name: run.metric, ...look, of }]);
  }, [by, rows, places, run.metric]);
  const values = useMemo(
    () => roomFor(run.metric, [run.target, baseline]),
    [run.target, baseline, run.metric],
  );
  const readout = (index: number | null) => {
    const at = index ?? rows.length - 1;
    const row = rows[at];
    if (!row) return null;
    return (
      <>
        <b>{show.metric(run.metric, row[kValue], run.target)}</b> at {show.clock(row[1])}, step{" "}
        {show.count(row[0])}
        {places[at]?.again && `, ${kAgainName}`}
      </>
    );
  };
  return (
    <Chart
      title={`${show.metricTitle(run.metric)} over ${kOver[by]}`}
      summary={accuracySummary(run, by, rows.length)}
      readout={readout}
      height={320}
      data={data}
      lines={lines}
      table={table}
      full={full}
      values={values}
      format={(value) =>
        show.isFraction(run.metric) ? `${Number((value * 100).toFixed(2))} %` : String(value)
      }
      overlay={overlay}
      marks={marks}
      zoom={zoom}
      onZoom={onZoom}
      x={axisOf(by)}
      file={run.id}
      of={run.name}
    />
  );
}

// Steps with where each belongs.
function useSteps({ run, history, by, attempts }: CurveProps) {
  const rows = useMemo(() => rowsBy(by, history.steps), [by, history.steps]);
  const places = useMemo(
    () => placesOf(rows, { run, attempts, said: (row) => row[9] }),
    [rows, attempts, run.started_at],
  );
  return { rows, places };
}

function LossChart(props: CurveProps) {
  const { run, by, zoom, onZoom, full } = props;
  const { rows, places } = useSteps(props);
  const { data, lines, table } = useMemo(() => {
    const of = (row: StepRow) => row[2];
    const look = { colour: "accent", width: 1.75, smooth: true };
    return curvesOf(by, rows, places, [{ name: "loss", ...look, of }]);
  }, [by, rows, places]);
  const readout = (index: number | null) => {
    const at = index ?? rows.length - 1;
    const row = rows[at];
    if (!row) return "no step yet";
    return (
      <>
        <b>{show.number(row[2])}</b> at step {show.count(row[0])}
        {places[at]?.again && `, ${kAgainName}`}
      </>
    );
  };
  return (
    <Chart
      title="Training loss"
      summary={`Training loss over ${kOver[by]}, ${stepsText(rows)}`}
      readout={readout}
      height={200}
      data={data}
      lines={lines}
      table={table}
      full={full}
      values={padded}
      format={(value) => String(Number(value.toPrecision(4)))}
      zoom={zoom}
      onZoom={onZoom}
      x={axisOf(by)}
      file={run.id}
      of={run.name}
    />
  );
}

function padded(low: number | null, high: number | null): [number, number] {
  if (low == null || high == null) return [0, 1];
  const margin = Math.max((high - low) * 0.08, Math.abs(high) * 0.01, 1e-6);
  return [low - margin, high + margin];
}

function SpeedChart(props: CurveProps) {
  const { run, by, zoom, onZoom, full } = props;
  const { rows, places } = useSteps(props);
  const { data, lines, table } = useMemo(() => {
    const look = { width: 1.75, smooth: true };
    const speed = { name: "samples/s", colour: "accent", of: (row: StepRow) => row[4] ?? null };
    const goodput = {
      ...{ name: "goodput (samples/s)", colour: "good" },
      of: (row: StepRow) => row[6] ?? null,
    };
    const has = rows.some((row) => row[6] != null) ? [speed, goodput] : [speed];
    return curvesOf(by, rows, places, has.map((line) => ({ ...look, ...line })));
  }, [by, rows, places]);
  // Of the step under the cursor; else what the figures above say, which one step would contradict.
  const readout = (index: number | null) => {
    const row = index == null ? null : rows[index];
    if (!row && run.samples_per_second == null) return rows.length > 0 ? null : "no step yet";
    const [samples, tokens, goodput] = row
      ? [row[4], row[5], row[6]]
      : [run.samples_per_second, run.tokens_per_second, run.goodput];
    return (
      <>
        <b>{show.number(samples)}</b> samples/s, {show.count(tokens)} tokens/s
        {goodput != null && (
          <>
            , <span class="reached">goodput {show.number(goodput)}</span>
          </>
        )}
      </>
    );
  };
  return (
    <Chart
      title="Samples per second"
      summary={`Samples per second over ${kOver[by]}, ${stepsText(rows)}`}
      readout={readout}
      height={200}
      data={data}
      lines={lines}
      table={table}
      full={full}
      values={(_low, high) => [0, (high ?? 1) * 1.12 || 1]}
      format={(value) => show.count(value)}
      zoom={zoom}
      onZoom={onZoom}
      x={axisOf(by)}
      file={run.id}
      of={run.name}
    />
  );
}

// What stands in the place of a chart without a point.
export function NoEvaluation({ run }: { run: Run }) {
  const title = show.metricTitle(run.metric);
  return (
    <section class="chart no-chart">
      <h2>{title}</h2>
      <p class="small">
        {hasEnded(run)
          ? `The run ended at step ${show.count(run.step)} without an evaluation.`
          : `No evaluation yet. ${firstEvaluationText(run)}`}
      </p>
    </section>
  );
}

// What the curves, their tables and files leave out, or have only the means of.
function Sampled({ run, history }: { run: Run; history: History }) {
  const { shown, steps } = amountOf(history.steps);
  const { resolution } = history;
  if (shown >= steps && resolution === 0) return null;
  return (
    <span class="small">
      {shown < steps && (
        <>
          {stepsText(history.steps)} are in the curves, tables and files; all records are in{" "}
          <code>GET /api/v1/runs/{run.id}/history</code>.{" "}
        </>
      )}
      {resolution > 0 && `Older rows are means of ${show.duration(resolution)}.`}
    </span>
  );
}

// The three curves share cursor and zoom; only the first looks ahead.
export function Curves({
  run,
  history,
  attempts,
}: {
  run: Run;
  history: History;
  attempts: AttemptRow[];
}) {
  const [choice, choose] = usePreference("curves.by");
  const by: By = choice === "step" ? "step" : "time";
  const [zoom, setZoom] = useState<{ by: By; span: Span } | null>(null);
  const onZoom = useCallback((span: Span | null) => setZoom(span && { by, span }), [by]);
  const span = zoom?.by === by ? zoom.span : null; // seconds are no steps
  const props = { run, attempts, history, by, zoom: span, onZoom };
  const past = pastSpan(by, history);
  const repeated = history.steps.length - rowsBy(by, history.steps).length;
  return (
    <>
      <div class="curves-head">
        <Choice
          legend="Curves by"
          group="curves-by"
          of={kChoices}
          chosen={by}
          onChoose={(next) => choose(next === "step" ? "step" : null)}
        />
        {repeated > 0 && (
          <span class="small">
            {show.count(repeated)} rows of steps that were trained again are left out.
          </span>
        )}
        {by === "time" && run.attempts > 1 && (
          <span class="small">
            Dashed: {kAgainName}. There is a gap wherever an attempt ended.
          </span>
        )}
        <Sampled run={run} history={history} />
      </div>
      {history.evaluations.length > 0 ? (
        <AccuracyChart {...props} full={fullSpan(by, run, history)} />
      ) : (
        <NoEvaluation run={run} />
      )}
      <div class="pair">
        <LossChart {...props} full={past} />
        <SpeedChart {...props} full={past} />
      </div>
    </>
  );
}
