import { useCallback, useMemo, useState } from "preact/hooks";
import type uPlot from "uplot";
import type { Run } from "../base/api";
import { hasEnded } from "../base/api";
import type { Pen, Span } from "../parts/chart";
import { Chart } from "../parts/chart";
import * as show from "../base/format";
import type { History } from "./history";
import { removedNames, smooth } from "./history";

type Values = (number | null)[];

const kValue = 5; // of an evaluation: of the run's metric

function lastSeconds(history: History): number {
  const last = (rows: [number, number, ...unknown[]][]) => rows[rows.length - 1]?.[1] ?? 0;
  return Math.max(last(history.steps), last(history.evaluations));
}

function pastSpan(history: History): Span {
  return { min: 0, max: Math.max(lastSeconds(history) * 1.015, 10) };
}

// From the start to now, and on to the predicted crossing unless that would squeeze the curve into
// a corner.
function fullSpan(run: Run, history: History): Span {
  const now = Math.max(lastSeconds(history), 1);
  const prediction = hasEnded(run) || run.target_reached ? null : history.prediction;
  const ahead = prediction ? Math.min(prediction.high * 1.02, Math.max(now * 4, 60)) : 0;
  return { min: 0, max: Math.max(pastSpan(history).max, ahead) };
}

function dashed(pen: Pen, colour: string, pattern: number[], width: number, draw: () => void) {
  const { context, ratio } = pen;
  context.save();
  context.beginPath();
  context.rect(pen.box.left, pen.box.top, pen.box.width, pen.box.height);
  context.clip();
  context.strokeStyle = pen.colour(colour);
  context.lineWidth = width * ratio;
  context.setLineDash(pattern.map((part) => part * ratio));
  context.beginPath();
  draw();
  context.stroke();
  context.restore();
}

function label(
  pen: Pen,
  text: string,
  x: number,
  y: number,
  colour: string,
  align: CanvasTextAlign,
) {
  const { context } = pen;
  context.save();
  context.font = pen.font(11, 500);
  context.textAlign = align;
  context.textBaseline = "bottom";
  context.lineJoin = "round";
  context.strokeStyle = pen.colour("surface");
  context.lineWidth = 4 * pen.ratio;
  context.strokeText(text, x, y);
  context.fillStyle = pen.colour(colour);
  context.fillText(text, x, y);
  context.restore();
}

// The curve leaves the baseline early and meets the target late, so each label stands where the
// curve is not: the baseline's on the right, the target's on the left.
function level(
  pen: Pen,
  value: number,
  colour: string,
  pattern: number[],
  text: string,
  side: "left" | "right",
) {
  // Whole pixels, so that the line is crisp.
  const width = Math.round((pattern.length > 0 ? 1 : 1.5) * pen.ratio);
  const y = Math.round(pen.y(value)) + (width % 2) / 2;
  dashed(pen, colour, pattern, width / pen.ratio, () => {
    pen.context.moveTo(pen.box.left, y);
    pen.context.lineTo(pen.box.left + pen.box.width, y);
  });
  const inset = 8 * pen.ratio;
  const x = side === "left" ? pen.box.left + inset : pen.box.left + pen.box.width - inset;
  label(pen, text, x, y - 3 * pen.ratio, colour, side);
}

// A fan from the newest evaluation to where the target is expected to be met.
function forecast(
  pen: Pen,
  from: [number, number],
  target: number,
  at: { seconds: number; low: number; high: number },
) {
  const { context } = pen;
  const [x, y] = [pen.x(from[0]), pen.y(from[1])];
  const level = pen.y(target);
  context.save();
  context.beginPath();
  context.rect(pen.box.left, pen.box.top, pen.box.width, pen.box.height);
  context.clip();
  context.fillStyle = pen.colour("accent");
  context.globalAlpha = 0.12;
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(pen.x(at.low), level);
  context.lineTo(pen.x(at.high), level);
  context.closePath();
  context.fill();
  context.globalAlpha = 0.35; // the interval itself, on the target line
  context.fillRect(
    pen.x(at.low),
    level - 2 * pen.ratio,
    pen.x(at.high) - pen.x(at.low),
    4 * pen.ratio,
  );
  context.restore();
  dashed(pen, "accent", [5, 4], 1.75, () => {
    context.moveTo(x, y);
    context.lineTo(pen.x(at.seconds), level);
  });
  const crossing = pen.x(at.seconds);
  const right = pen.box.left + pen.box.width;
  if (crossing <= right && crossing >= pen.box.left) {
    dot(pen, crossing, level, "accent", false);
    const text = `≈ ${show.clock(at.seconds)}`;
    label(
      pen,
      text,
      Math.min(crossing, right - 24 * pen.ratio),
      level - 8 * pen.ratio,
      "accent",
      "center",
    );
  }
}

// The moment when the target was reached.
function crossing(pen: Pen, reached: number) {
  const { context, box, ratio } = pen;
  const x = Math.round(pen.x(reached)) + 0.5;
  dashed(pen, "good", [2, 3], 1, () => {
    context.moveTo(x, box.top);
    context.lineTo(x, box.top + box.height);
  });
  const near = x > box.left + box.width - 130 * ratio;
  const side = near ? -8 : 8;
  const bottom = box.top + box.height - 14 * ratio;
  const text = `reached at ${show.clock(reached)}`;
  label(pen, text, x + side * ratio, bottom, "good", near ? "right" : "left");
}

function dot(pen: Pen, x: number, y: number, colour: string, filled: boolean) {
  const { context, ratio } = pen;
  context.save();
  context.beginPath();
  context.arc(x, y, 4.5 * ratio, 0, 2 * Math.PI);
  context.fillStyle = pen.colour(filled ? colour : "surface");
  context.fill();
  context.strokeStyle = pen.colour(colour);
  context.lineWidth = 2 * ratio;
  context.stroke();
  context.restore();
}

// Checkpoints: diamonds that stand on the time axis, faint once they were removed.
function checkpointMarks(pen: Pen, history: History) {
  const bottom = pen.box.top + pen.box.height;
  const removed = removedNames(history.checkpoints);
  for (const [, seconds, name, status] of history.checkpoints) {
    if (status !== "written" && status !== "failed") continue;
    const x = pen.x(seconds);
    if (x < pen.box.left || x > pen.box.left + pen.box.width) continue;
    const { context, ratio } = pen;
    context.save();
    context.fillStyle = pen.colour(status === "failed" ? "bad" : "muted");
    context.globalAlpha = status === "written" && removed.has(name) ? 0.35 : 1;
    context.beginPath();
    context.moveTo(x, bottom - 8 * ratio);
    context.lineTo(x + 4 * ratio, bottom - 4 * ratio);
    context.lineTo(x, bottom);
    context.lineTo(x - 4 * ratio, bottom - 4 * ratio);
    context.closePath();
    context.fill();
    context.restore();
  }
}

function accuracySummary(run: Run, rows: number): string {
  const parts = [`${show.metricTitle(run.metric)} over time, ${rows} evaluations`];
  if (run.value != null) parts.push(`now ${show.metric(run.metric, run.value)}`);
  if (run.target != null) parts.push(`target ${show.metric(run.metric, run.target)}`);
  if (run.baseline != null && !show.isLoss(run.metric))
    parts.push(`best constant guess ${show.metric(run.metric, run.baseline)}`);
  if (run.time_to_accuracy_seconds != null) {
    parts.push(`target reached after ${show.duration(run.time_to_accuracy_seconds)}`);
  }
  return parts.join(", ");
}

interface CurveProps {
  run: Run;
  history: History;
  zoom: Span | null;
  onZoom: (span: Span | null) => void;
  full: Span;
}

function AccuracyChart({ run, history, zoom, onZoom, full }: CurveProps) {
  const baseline = show.isLoss(run.metric) ? null : run.baseline; // a guess has no loss
  const rows = history.evaluations;
  const data = useMemo<uPlot.AlignedData>(
    () => [rows.map((row) => row[1]), rows.map((row) => row[kValue])],
    [rows],
  );
  const values = useCallback(
    (low: number | null, high: number | null): [number, number] => {
      const all = [low, high, run.target, baseline].filter((value) => value != null);
      const top = Math.max(...all, 0.01) * 1.12;
      if (show.isLoss(run.metric)) return [Math.min(...all, top) * 0.9, top];
      return [Math.max(Math.min(...all, 0) * 1.12, -1), Math.min(top, 1)];
    },
    [run.target, baseline, run.metric],
  );
  const ended = hasEnded(run);
  const reached = run.time_to_accuracy_seconds;
  const overlay = useCallback(
    (pen: Pen) => {
      checkpointMarks(pen, history);
      if (reached != null) crossing(pen, reached);
      if (baseline != null) {
        const text = `best constant guess ${show.metric(run.metric, baseline)}`;
        level(pen, baseline, "muted", [2, 4], text, "right");
      }
      if (run.target == null) return;
      const text = `target ${show.metric(run.metric, run.target)}`;
      level(pen, run.target, "good", [], text, "left");
      const newest = rows[rows.length - 1];
      const value = newest?.[kValue];
      if (newest && value != null && history.prediction && reached == null && !ended) {
        forecast(pen, [newest[1], value], run.target, history.prediction);
      }
    },
    [history, rows, ended, reached, baseline, run.target, run.metric],
  );
  const marks = useCallback(
    (pen: Pen) => {
      const height = rows.find((row) => reached != null && row[1] >= reached - 0.5)?.[kValue];
      if (reached != null && height != null) dot(pen, pen.x(reached), pen.y(height), "good", true);
    },
    [rows, reached],
  );
  const readout = (index: number | null) => {
    const row = rows[index ?? rows.length - 1];
    if (!row) return ended ? "no evaluation" : "no evaluation yet";
    return (
      <>
        <b>{show.metric(run.metric, row[kValue])}</b> at {show.clock(row[1])}, step{" "}
        {show.count(row[0])}
      </>
    );
  };
  return (
    <Chart
      title={`${show.metricTitle(run.metric)} over time`}
      summary={accuracySummary(run, rows.length)}
      readout={readout}
      height={320}
      data={data}
      lines={[{ colour: "accent", width: 2.25, points: 60 }]}
      full={full}
      values={values}
      format={(value) =>
        show.isFraction(run.metric) ? `${Number((value * 100).toFixed(2))} %` : String(value)
      }
      overlay={overlay}
      marks={marks}
      zoom={zoom}
      onZoom={onZoom}
    />
  );
}

function LossChart({ history, zoom, onZoom, full }: CurveProps) {
  const rows = history.steps;
  const data = useMemo<uPlot.AlignedData>(() => {
    const loss = rows.map((row) => row[2]);
    return [rows.map((row) => row[1]), loss, smooth(loss)];
  }, [rows]);
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
      summary={`Training loss over time, ${rows.length} steps`}
      readout={readout}
      height={200}
      data={data}
      lines={[
        { colour: "accent", width: 1, opacity: 0.28 },
        { colour: "accent", width: 1.75 },
      ]}
      full={full}
      values={padded}
      format={(value) => String(Number(value.toPrecision(4)))}
      zoom={zoom}
      onZoom={onZoom}
    />
  );
}

function padded(low: number | null, high: number | null): [number, number] {
  if (low == null || high == null) return [0, 1];
  const margin = Math.max((high - low) * 0.08, Math.abs(high) * 0.01, 1e-6);
  return [low - margin, high + margin];
}

function SpeedChart({ run, history, zoom, onZoom, full }: CurveProps) {
  const rows = history.steps;
  const data = useMemo<uPlot.AlignedData>(() => {
    const speed: Values = rows.map((row) => row[4] ?? null);
    const goodput: Values = rows.map((row) => row[6] ?? null);
    return [rows.map((row) => row[1]), speed, smooth(speed), smooth(goodput)];
  }, [rows]);
  // Of the step under the cursor; else what the figures above say, which one step would contradict.
  const readout = (index: number | null) => {
    const row = index == null ? null : rows[index];
    if (!row && run.samples_per_second == null) return "no step yet";
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
      summary={`Samples per second over time, ${rows.length} steps`}
      readout={readout}
      height={200}
      data={data}
      lines={[
        { colour: "accent", width: 1, opacity: 0.28 },
        { colour: "accent", width: 1.75 },
        { colour: "good", width: 1.75 }, // goodput
      ]}
      full={full}
      values={(_low, high) => [0, (high ?? 1) * 1.12 || 1]}
      format={(value) => show.count(value)}
      zoom={zoom}
      onZoom={onZoom}
    />
  );
}

// The three curves share cursor and zoom; only the first looks ahead.
export function Curves({ run, history }: { run: Run; history: History }) {
  const [zoom, onZoom] = useState<Span | null>(null);
  const props = { run, history, zoom, onZoom };
  const past = pastSpan(history);
  return (
    <>
      <AccuracyChart {...props} full={fullSpan(run, history)} />
      <div class="pair">
        <LossChart {...props} full={past} />
        <SpeedChart {...props} full={past} />
      </div>
    </>
  );
}
