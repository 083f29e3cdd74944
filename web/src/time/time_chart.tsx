import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import type uPlot from "uplot";
import type { Prediction, Run } from "../base/api";
import { hasEnded } from "../base/api";
import * as show from "../base/format";
import { againLine, kAgainName } from "../parts/branches";
import type { Line, Pen, Span } from "../parts/chart";
import { Chart } from "../parts/chart";
import type { Series, Table } from "../parts/chart_data";
import { tableOf } from "../parts/chart_data";
import { Name } from "../parts/name";
import type { Places } from "../parts/places";
import { withPlaces } from "../parts/places";
import { Swatch } from "../parts/swatch";
import { Labels, crossing, diamond, forecast, level } from "../run/curve_marks";
import { roomFor } from "../run/curve_rows";
import { EventLane, kMarkWidth } from "./lane";
import type { Mark } from "./marks";
import { clusters, worstOf } from "./marks";
import type { AxisName, Curve, Idle, Point } from "./time_figures";
import { aligned, axisOfRun, kAxes } from "./time_figures";

export interface OtherCurve {
  name: string;
  points: Point[];
  starts?: number[]; // of a run: where pieces begin
  placesOf?: (again: boolean) => Places; // likewise
  colour: string;
  dash: number[];
}

// The metric by one of the clocks, with what happened meanwhile.
export interface TimeChartProps {
  run: Run;
  axis: AxisName;
  curve: Curve;
  others: OtherCurve[];
  idle: Idle[];
  marks: Mark[];
  own: { colour: string; dash: number[] }; // of this run
  reached: number | null; // on this axis
  prediction: Prediction | null; // likewise; null: none, or the axis has no time
  now: number; // where the run's time ends on the axis; 0: not known
}

function spanOf({ run, axis, curve, others, prediction, now, marks }: TimeChartProps): Span {
  const ends = [curve.kept, curve.abandoned, ...others.map((other) => other.points)].map(
    (points) => points[points.length - 1]?.[0] ?? 0,
  );
  // Events behind the end of the run, as changes of what is over, do not squeeze the curve.
  const inTime = kAxes[axis].isClock ? [] : marks.map((mark) => mark.x);
  const end = Math.max(...ends, ...inTime, now, axis === "device_hours" ? 1e-6 : 1);
  const isAhead = prediction && !hasEnded(run) && !run.target_reached;
  const ahead = isAhead ? Math.min(prediction.high * 1.02, end * 4) : 0;
  return { min: 0, max: Math.max(end * 1.015, ahead) };
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

function stroke(pen: Pen, x: number, colour: string, dash: number[], width: number) {
  const { context, box, ratio } = pen;
  context.save();
  context.strokeStyle = pen.colour(colour);
  context.lineWidth = width * ratio;
  context.setLineDash(dash.map((one) => one * ratio));
  context.beginPath();
  context.moveTo(x, box.top);
  context.lineTo(x, box.top + box.height);
  context.stroke();
  context.restore();
}

// A line down from the top with a word; of several events the worst one's and how many more.
function drawMarks(pen: Pen, labels: Labels, marks: Mark[], unit: number) {
  const { box, ratio } = pen;
  const lines = marks.filter((mark) => !mark.isCheckpoint);
  for (const group of clusters(lines, unit * kMarkWidth)) {
    const [first, worst] = [group[0], worstOf(group)];
    if (!first || !worst) continue;
    const x = Math.round(pen.x(first.x)) + 0.5;
    if (x < box.left || x > box.left + box.width) continue;
    stroke(pen, x, worst.tone, [3, 3], 1);
    const more = group.length > 1 ? ` +${group.length - 1}` : "";
    labels.put(worst.word + more, x + 3 * ratio, box.top + 14 * ratio, worst.tone, "left");
  }
}

// Checkpoints are many: small diamonds that stand on the axis.
function drawCheckpoints(pen: Pen, marks: Mark[]) {
  for (const mark of marks) if (mark.isCheckpoint) diamond(pen, mark.x, "muted");
}

interface Box {
  left: number;
  width: number;
}

// Where the plot lies, as its newest drawing had it.
function useBox(): [Box, (box: Box) => void] {
  const [box, setBox] = useState<Box>({ left: 0, width: 0 });
  const known = useRef(box);
  const follow = useCallback((next: Box) => {
    if (next.left === known.current.left && next.width === known.current.width) return;
    known.current = next;
    setBox(next);
  }, []);
  return [box, follow];
}

function useDrawing(
  props: TimeChartProps,
  span: Span,
  picked: number | null,
  onBox: (box: Box) => void,
) {
  const { run, axis, curve, idle, marks, reached, prediction } = props;
  return useCallback(
    (pen: Pen) => {
      const labels = new Labels(pen);
      const { box, ratio } = pen;
      onBox({ left: box.left / ratio, width: box.width / ratio });
      shade(pen, idle);
      if (picked != null) stroke(pen, Math.round(pen.x(picked)) + 0.5, "accent", [], 2);
      if (run.target != null) {
        const text = `target ${show.metric(run.metric, run.target, run.value)}`;
        const look = { colour: "good", pattern: [], side: "left" as const };
        level(pen, labels, { value: run.target, text, ...look });
      }
      if (reached != null) crossing(pen, labels, reached, placeText(axis, run, reached));
      drawCheckpoints(pen, marks);
      drawMarks(pen, labels, marks, ((span.max - span.min) / box.width) * ratio);
      const newest = curve.kept[curve.kept.length - 1];
      const open = run.target != null && reached == null && !hasEnded(run);
      if (open && newest && prediction) {
        forecast(pen, labels, newest, run.target ?? 0, prediction);
      }
    },
    [run, prediction, axis, curve, idle, marks, reached, span.min, span.max, picked],
  );
}

export function placeText(axis: AxisName, run: Pick<Run, "device">, place: number): string {
  if (kAxes[axis].isClock) return show.clock(place);
  if (axis === "device_hours") return `${show.number(place)} ${axisOfRun(axis, run).name}`;
  return `${show.count(place)} ${axis === "step" ? "steps" : "samples"}`;
}

function summaryOf({ run, axis, curve, others, marks, idle }: TimeChartProps): string {
  const last = curve.kept[curve.kept.length - 1];
  const parts = [`${show.metricTitle(run.metric)} ${axisOfRun(axis, run).over}`];
  if (last) {
    const at = placeText(axis, run, last[0]);
    parts.push(`now ${show.metric(run.metric, last[1], run.target)} at ${at}`);
  }
  if (run.target != null) parts.push(`target ${show.metric(run.metric, run.target, run.value)}`);
  if (others.length > 0) parts.push(`beside it ${others.map((one) => one.name).join(", ")}`);
  if (marks.length > 0) parts.push(`${marks.length} events`);
  const still = idle.reduce((sum, one) => sum + one.to - one.from, 0);
  if (still > 0) parts.push(`shaded ${show.duration(still)} without training`);
  return parts.join(", ");
}

function linesOf({ run, curve, others, own }: TimeChartProps): Line[] {
  const { colour, dash } = own;
  const line = { name: show.drawnName(run.name), colour, width: 2.25, points: 60, dash };
  const name = curve.abandoned.length > 0 ? kAgainName : "";
  return [
    { ...line, starts: curve.starts.kept },
    { ...againLine(line), name, starts: curve.starts.abandoned },
    ...others.map((one) => ({
      ...{ name: one.name, colour: one.colour, dash: one.dash, width: 1.5 },
      ...(one.starts && { starts: one.starts }),
    })),
  ];
}

// The values of all curves; of runs also the step and the attempt.
function tableOfCurves(props: TimeChartProps, lines: Line[], data: Series, title: string): Table {
  const { run, axis, curve, others } = props;
  const places = [
    { name: lines[0]?.name ?? "", places: curve.placesOf(false) },
    { name: kAgainName, places: curve.placesOf(true) },
    ...others.flatMap(({ name, placesOf }) => (placesOf ? [{ name, places: placesOf(false) }] : [])),
  ];
  return withPlaces(
    tableOf(axisOfRun(axis, run), lines, data, title),
    data[0],
    places,
    axis === "step",
  );
}

function Legend({ lines }: { lines: Line[] }) {
  const named = lines.filter((line) => line.name !== "");
  if (named.length < 2) return null;
  return (
    <ul class="time-legend">
      {named.map(({ name, colour, dash }, i) => (
        <li key={i}>
          <Swatch look={{ colour, dash: dash ?? [] }} />
          <Name text={name ?? ""} />
        </li>
      ))}
    </ul>
  );
}

export function TimeChart(props: TimeChartProps) {
  const { run, axis, curve, others, marks } = props;
  const [zoom, setZoom] = useState<Span | null>(null);
  const [picked, setPicked] = useState<number | null>(null);
  const [box, follow] = useBox();
  useEffect(() => setZoom(null), [axis]); // a part of one axis is none of another
  const full = useMemo(() => spanOf(props), [axis, curve, others, marks, run, props.prediction]);
  const overlay = useDrawing(props, zoom ?? full, picked, follow);
  const data = useMemo(
    () =>
      aligned([
        curve.kept,
        curve.abandoned,
        ...others.map((other) => other.points),
      ]) as uPlot.AlignedData,
    [curve, others],
  );
  const lines = linesOf(props);
  const title = `${show.metricTitle(run.metric)} ${axisOfRun(axis, run).over}`;
  const values = useMemo(() => roomFor(run.metric, [run.target]), [run.target, run.metric]);
  const readout = (index: number | null) => {
    const newest = curve.kept[curve.kept.length - 1]?.[0];
    const row = index ?? (newest == null ? -1 : data[0].indexOf(newest));
    const at = data[0][row];
    if (at == null) return null;
    const said = lines.flatMap(({ name }, i) => {
      const value = data[i + 1]?.[row];
      return value == null || name === "" ? [] : [`${name} ${show.metric(run.metric, value, run.target)}`];
    });
    return (
      <>
        {placeText(axis, run, at)}: <b>{said.join(", ")}</b>
      </>
    );
  };
  return (
    <div class="time-chart">
      <Chart
        title={title}
        summary={summaryOf(props)}
        readout={readout}
        height={340}
        data={data}
        lines={lines}
        table={() => tableOfCurves(props, lines, data as unknown as Series, title)}
        full={full}
        values={values}
        format={(value) =>
          show.isFraction(run.metric) ? `${Number((value * 100).toFixed(2))} %` : String(value)
        }
        overlay={overlay}
        zoom={zoom}
        onZoom={setZoom}
        x={axisOfRun(axis, run)}
        sync={null}
        file={run.id}
        of={run.name}
      />
      <EventLane
        marks={marks}
        span={zoom ?? full}
        box={box}
        place={(x) => placeText(axis, run, x)}
        onPick={setPicked}
      />
      <Legend lines={lines} />
    </div>
  );
}
