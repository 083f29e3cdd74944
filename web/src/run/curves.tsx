import { useCallback, useMemo, useState } from "preact/hooks";
import type uPlot from "uplot";
import type { Run } from "../base/api";
import { hasEnded } from "../base/api";
import * as show from "../base/format";
import { usePreference } from "../base/preferences";
import type { Pen, Span } from "../parts/chart";
import { Chart, kStepAxis, kTimeAxis } from "../parts/chart";
import { Choice } from "../parts/choice";
import { Labels, checkpointMarks, crossing, dot, forecast, level } from "./curve_marks";
import type { By } from "./curve_rows";
import { amountOf, fullSpan, pastSpan, placeOf, reachedAt, roomFor, rowsBy } from "./curve_rows";
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
  history: History;
  by: By;
  zoom: Span | null;
  onZoom: (span: Span | null) => void;
  full: Span;
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
  const { run, history, by, zoom, onZoom, full } = props;
  const rows = useMemo(() => rowsBy(by, history.evaluations), [by, history.evaluations]);
  const { overlay, marks, baseline } = useMarks(props, rows);
  const data = useMemo<uPlot.AlignedData>(
    () => [rows.map((row) => placeOf(by, row)), rows.map((row) => row[kValue])],
    [rows, by],
  );
  const values = useMemo(
    () => roomFor(run.metric, [run.target, baseline]),
    [run.target, baseline, run.metric],
  );
  const readout = (index: number | null) => {
    const row = rows[index ?? rows.length - 1];
    if (!row) return null;
    return (
      <>
        <b>{show.metric(run.metric, row[kValue], run.target)}</b> at {show.clock(row[1])}, step{" "}
        {show.count(row[0])}
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
      lines={[{ name: run.metric, colour: "accent", width: 2.25, points: 60 }]}
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
    />
  );
}

function LossChart({ run, history, by, zoom, onZoom, full }: CurveProps) {
  const rows = useMemo(() => rowsBy(by, history.steps), [by, history.steps]);
  const data = useMemo<uPlot.AlignedData>(
    () => [rows.map((row) => placeOf(by, row)), rows.map((row) => row[2])],
    [rows, by],
  );
  const readout = (index: number | null) => {
    const row = rows[index ?? rows.length - 1];
    if (!row) return "no step yet";
    return (
      <>
        <b>{show.number(row[2])}</b> at step {show.count(row[0])}
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
      lines={[{ name: "loss", colour: "accent", width: 1.75, smooth: true }]}
      full={full}
      values={padded}
      format={(value) => String(Number(value.toPrecision(4)))}
      zoom={zoom}
      onZoom={onZoom}
      x={axisOf(by)}
      file={run.id}
    />
  );
}

function padded(low: number | null, high: number | null): [number, number] {
  if (low == null || high == null) return [0, 1];
  const margin = Math.max((high - low) * 0.08, Math.abs(high) * 0.01, 1e-6);
  return [low - margin, high + margin];
}

function SpeedChart({ run, history, by, zoom, onZoom, full }: CurveProps) {
  const rows = useMemo(() => rowsBy(by, history.steps), [by, history.steps]);
  const hasGoodput = useMemo(() => rows.some((row) => row[6] != null), [rows]);
  const data = useMemo<uPlot.AlignedData>(() => {
    const speed = rows.map((row) => row[4] ?? null);
    const goodput = rows.map((row) => row[6] ?? null);
    const xs = rows.map((row) => placeOf(by, row));
    return hasGoodput ? [xs, speed, goodput] : [xs, speed];
  }, [rows, by, hasGoodput]);
  const lines = [
    { name: "samples/s", colour: "accent", width: 1.75, smooth: true },
    { name: "goodput (samples/s)", colour: "good", width: 1.75, smooth: true },
  ];
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
      lines={hasGoodput ? lines : lines.slice(0, 1)}
      full={full}
      values={(_low, high) => [0, (high ?? 1) * 1.12 || 1]}
      format={(value) => show.count(value)}
      zoom={zoom}
      onZoom={onZoom}
      x={axisOf(by)}
      file={run.id}
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
export function Curves({ run, history }: { run: Run; history: History }) {
  const [choice, choose] = usePreference("curves.by");
  const by: By = choice === "step" ? "step" : "time";
  const [zoom, setZoom] = useState<{ by: By; span: Span } | null>(null);
  const onZoom = useCallback((span: Span | null) => setZoom(span && { by, span }), [by]);
  const span = zoom?.by === by ? zoom.span : null; // seconds are no steps
  const props = { run, history, by, zoom: span, onZoom };
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
