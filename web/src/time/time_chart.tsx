import { useCallback, useMemo, useState } from "preact/hooks";
import type uPlot from "uplot";
import type { Run } from "../base/api";
import { hasEnded } from "../base/api";
import * as show from "../base/format";
import type { Pen, Span } from "../parts/chart";
import { Chart } from "../parts/chart";
import { Labels, crossing, forecast, level } from "../run/curve_marks";
import type { History } from "../run/history";
import type { AxisName, Curve, Idle, Mark, Point } from "./time_figures";
import { aligned, clusters, kAxes } from "./time_figures";

export interface OtherCurve {
  name: string;
  points: Point[];
}

const kDashes = [[6, 4], [2, 3], [8, 3, 2, 3], [1, 4], [12, 4]];
const kMarkWidth = 16; // px; marks nearer than that stand together

// The metric by one of the clocks, with what happened meanwhile.
export interface TimeChartProps {
  run: Run;
  history: History;
  axis: AxisName;
  curve: Curve;
  others: OtherCurve[];
  idle: Idle[];
  marks: Mark[];
  reached: number | null; // on this axis
}

function spanOf({ run, history, axis, curve, others }: TimeChartProps): Span {
  const ends = [curve.kept, curve.abandoned, ...others.map((other) => other.points)].map(
    (points) => points[points.length - 1]?.[0] ?? 0,
  );
  const now = Math.max(...ends, axis === "device_hours" ? 1e-6 : 1);
  const isAhead = axis === "wall" && !hasEnded(run) && !run.target_reached && history.prediction;
  const ahead = isAhead ? Math.min(history.prediction!.high * 1.02, now * 4) : 0;
  return { min: 0, max: Math.max(now * 1.015, ahead) };
}

function shade(pen: Pen, idle: Idle[]) {
  const { context, box } = pen;
  context.save();
  context.beginPath();
  context.rect(box.left, box.top, box.width, box.height);
  context.clip();
  context.globalAlpha = 0.12;
  for (const { from, to, kind } of idle) {
    context.fillStyle = pen.colour(kind === "starting" ? "muted" : "warn");
    context.fillRect(pen.x(from), box.top, Math.max(1, pen.x(to) - pen.x(from)), box.height);
  }
  context.restore();
}

// A line down from the top with a word; of several events the first one's and how many more.
function drawMarks(pen: Pen, labels: Labels, marks: Mark[], unit: number) {
  const { context, box, ratio } = pen;
  for (const group of clusters(marks, unit * kMarkWidth)) {
    const first = group[0];
    if (!first) continue;
    const x = Math.round(pen.x(first.x)) + 0.5;
    if (x < box.left || x > box.left + box.width) continue;
    context.save();
    context.strokeStyle = pen.colour(first.tone);
    context.lineWidth = ratio;
    context.setLineDash([3 * ratio, 3 * ratio]);
    context.beginPath();
    context.moveTo(x, box.top);
    context.lineTo(x, box.top + box.height);
    context.stroke();
    context.restore();
    const more = group.length > 1 ? ` +${group.length - 1}` : "";
    labels.put(first.word + more, x + 3 * ratio, box.top + 14 * ratio, first.tone, "left");
  }
}

function useDrawing(props: TimeChartProps, span: Span) {
  const { run, history, axis, curve, idle, marks, reached } = props;
  return useCallback(
    (pen: Pen) => {
      const labels = new Labels(pen);
      shade(pen, idle);
      if (run.target != null) {
        const text = `target ${show.metric(run.metric, run.target)}`;
        const look = { colour: "good", pattern: [], side: "left" as const };
        level(pen, labels, { value: run.target, text, ...look });
      }
      if (reached != null) crossing(pen, labels, reached, placeText(axis, reached));
      const unit = ((span.max - span.min) / pen.box.width) * pen.ratio;
      drawMarks(pen, labels, marks, unit);
      const newest = curve.kept[curve.kept.length - 1];
      const open = axis === "wall" && run.target != null && reached == null && !hasEnded(run);
      if (open && newest && history.prediction) {
        forecast(pen, labels, newest, run.target ?? 0, history.prediction);
      }
    },
    [run, history.prediction, axis, curve, idle, marks, reached, span.min, span.max],
  );
}

export function placeText(axis: AxisName, place: number): string {
  if (kAxes[axis].isClock) return show.clock(place);
  return axis === "device_hours" ? `${show.number(place)} GPU-hours` : show.count(place);
}

function summaryOf({ run, axis, curve, others, marks }: TimeChartProps): string {
  const last = curve.kept[curve.kept.length - 1];
  const parts = [`${show.metricTitle(run.metric)} ${kAxes[axis].over}`];
  if (last) {
    parts.push(`now ${show.metric(run.metric, last[1])} at ${placeText(axis, last[0])}`);
  }
  if (run.target != null) parts.push(`target ${show.metric(run.metric, run.target)}`);
  if (others.length > 0) parts.push(`beside it ${others.map((one) => one.name).join(", ")}`);
  if (marks.length > 0) parts.push(`${marks.length} events`);
  return parts.join(", ");
}

export function TimeChart(props: TimeChartProps) {
  const { run, axis, curve, others } = props;
  const [zoom, setZoom] = useState<Span | null>(null);
  const full = useMemo(() => spanOf(props), [props.history, axis, curve, others, run]);
  const overlay = useDrawing(props, zoom ?? full);
  const data = useMemo(
    () =>
      aligned([
        curve.kept,
        curve.abandoned,
        ...others.map((other) => other.points),
      ]) as uPlot.AlignedData,
    [curve, others],
  );
  const lines = [
    { name: run.name, colour: "accent", width: 2.25, points: 60 },
    { name: "trained again since", colour: "accent", width: 1, opacity: 0.45, dash: [3, 3] },
    ...others.map(({ name }, i) => ({
      name,
      colour: "muted",
      width: 1.5,
      dash: kDashes[i % kDashes.length] ?? [],
    })),
  ];
  if (curve.abandoned.length === 0) lines[1] = { ...lines[1]!, name: "" };
  const values = useCallback(
    (low: number | null, high: number | null): [number, number] => {
      const all = [low, high, run.target].filter((value) => value != null);
      const top = Math.max(...all, 0.01) * 1.12;
      if (show.isLoss(run.metric)) return [Math.min(...all, top) * 0.9, top];
      return [Math.max(Math.min(...all, 0) * 1.12, -1), Math.min(top, 1)];
    },
    [run.target, run.metric],
  );
  const readout = (index: number | null) => {
    const at = data[0][index ?? -1] ?? curve.kept[curve.kept.length - 1]?.[0];
    if (at == null) return null;
    const row = index ?? data[0].indexOf(at);
    const said = lines.flatMap(({ name }, i) => {
      const value = data[i + 1]?.[row];
      return value == null || name === "" ? [] : [`${name} ${show.metric(run.metric, value)}`];
    });
    return (
      <>
        {placeText(axis, at)}: <b>{said.join(", ")}</b>
      </>
    );
  };
  return (
    <Chart
      title={`${show.metricTitle(run.metric)} ${kAxes[axis].over}`}
      summary={summaryOf(props)}
      readout={readout}
      height={340}
      data={data}
      lines={lines}
      full={full}
      values={values}
      format={(value) =>
        show.isFraction(run.metric) ? `${Number((value * 100).toFixed(2))} %` : String(value)
      }
      overlay={overlay}
      zoom={zoom}
      onZoom={setZoom}
      x={kAxes[axis]}
      sync={null}
      file={run.id}
    />
  );
}
