import uPlot from "uplot";
import { clock } from "../base/format";
import { onTheme } from "../base/theme";
import { piecesOf } from "./branches";
import type { Line, Span } from "./chart_data";
import { areFew, logMarks, logRange } from "./chart_data";

// What an overlay draws with: pixels of the canvas, colours by name.
export interface Pen {
  context: CanvasRenderingContext2D;
  x: (seconds: number) => number;
  y: (value: number) => number;
  box: { left: number; top: number; width: number; height: number };
  ratio: number; // canvas pixels per CSS pixel
  colour: (name: string) => string;
  font: (size: number, weight?: number) => string;
}

// What the plot asks for whenever it draws, so that it need not be made again.
export interface Drawn {
  height: number;
  span: Span;
  isLogarithmic: boolean;
  values: (low: number | null, high: number | null) => [number, number];
  format: (value: number) => string;
  along?: ((value: number) => string) | undefined; // text of a mark of the x-axis
  overlay?: ((pen: Pen) => void) | undefined;
  marks?: ((pen: Pen) => void) | undefined;
  onZoom: (span: Span | null) => void;
}

// Steps that fit a clock: seconds, minutes, hours, days.
const kTimeSteps = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800,
  432000, 864000,
];
const kFont = 'ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
const kLeastDrag = 8; // px
const kHalfLabel = 28; // px: the last one of the x-axis may stand at its end ("1000:00:00")

// Colours of the theme by name; a chart asks for dozens each time it is drawn.
const colours = new Map<string, string>();
onTheme(() => colours.clear());

function colourOf(name: string): string {
  const known = colours.get(name);
  if (known != null) return known;
  const style = getComputedStyle(document.documentElement);
  const colour = style.getPropertyValue(`--${name}`).trim() || "#888";
  colours.set(name, colour);
  return colour;
}

function penOf(u: uPlot): Pen {
  const ratio = uPlot.pxRatio;
  return {
    context: u.ctx,
    x: (seconds) => u.valToPos(seconds, "x", true),
    y: (value) => u.valToPos(value, "y", true),
    box: u.bbox,
    ratio,
    colour: colourOf,
    font: (size, weight = 400) => `${weight} ${size * ratio}px ${kFont}`,
  };
}

function axesOf(latest: { current: Drawn }, isClock: boolean): uPlot.Axis[] {
  const axis = {
    stroke: () => colourOf("muted"),
    font: `11px ${kFont}`,
    grid: { stroke: () => colourOf("grid"), width: 1 },
    ticks: { show: false },
  };
  const whole = (tick: number) => tick.toLocaleString("en-US", { maximumFractionDigits: 4 });
  const text = (tick: number) => (latest.current.along ?? (isClock ? clock : whole))(tick);
  const values = (_u: uPlot, ticks: number[]) => ticks.map(text);
  const logarithmic = latest.current.isLogarithmic && {
    splits: (_u: uPlot, _axis: number, low: number, high: number) => logMarks(low, high),
    filter: (_u: uPlot, splits: number[]) => splits,
  };
  return [
    { ...axis, ...(isClock && { incrs: kTimeSteps }), space: 70, size: 30, values },
    {
      ...axis,
      ...logarithmic,
      size: 52,
      gap: 8,
      space: 28,
      values: (_u, ticks) => ticks.map((tick) => latest.current.format(tick)),
    },
  ];
}

function pathsOf({ shape }: Line): Pick<uPlot.Series, "paths"> {
  if (shape === "points") return { paths: () => null };
  const steps = shape === "steps" ? uPlot.paths.stepped?.({ align: 1 }) : undefined;
  return steps ? { paths: steps } : {};
}

// isClock: pieces have gaps between them; on other axes nothing lies there.
function seriesOf(line: Line, isClock: boolean): uPlot.Series {
  const starts = isClock ? (line.starts ?? []) : [];
  const pieces = (u: uPlot, series: number) =>
    piecesOf(u.data[0], u.data[series] ?? [], starts);
  return {
    stroke: () => colourOf(line.colour),
    width: line.width,
    alpha: line.opacity ?? 1,
    spanGaps: starts.length === 0, // what is missing within a piece is bridged by gaps() as well
    gaps: (u, series) => {
      const at = (index: number) => u.valToPos(u.data[0][index] ?? 0, "x", true);
      const all = pieces(u, series);
      return all.slice(1).map(([first], i) => [at(all[i]?.[1] ?? 0), at(first)]);
    },
    ...(line.dash && { dash: line.dash }),
    ...pathsOf(line),
    points: {
      show: (u: uPlot, series: number, first: number, last: number) =>
        areFew(u.data[series] ?? [], first, last, line.points ?? 0),
      // A piece of one point has no line.
      filter: (u: uPlot, series: number, isShown: boolean) => {
        const alone = isShown ? [] : pieces(u, series).filter(([first, last]) => first === last);
        return alone.length > 0 ? alone.map(([first]) => first) : null;
      },
      size: 5,
      fill: () => colourOf(line.colour),
    },
  };
}

export function plotOptions(
  latest: { current: Drawn },
  made: { width: number; lines: Line[]; sync: string | null; isClock: boolean },
  setIndex: (index: number | null) => void,
): uPlot.Options {
  const { height, isLogarithmic } = latest.current;
  return {
    width: made.width,
    height,
    padding: [10, kHalfLabel, 0, 0],
    legend: { show: false },
    cursor: {
      ...(made.sync != null && { sync: { key: made.sync, setSeries: false } }),
      drag: { x: true, y: false, setScale: false },
      points: { size: 7, width: 2 },
      bind: {
        dblclick: () => () => {
          latest.current.onZoom(null);
          return null;
        },
      },
    },
    scales: {
      x: { time: false, range: () => [latest.current.span.min, latest.current.span.max] },
      y: {
        ...(isLogarithmic && { distr: 3 as const }),
        range: (_u, low, high) => {
          const range = latest.current.values(low, high);
          return isLogarithmic ? logRange(low, high, range) : range;
        },
      },
    },
    axes: axesOf(latest, made.isClock),
    series: [{}, ...made.lines.map((line) => seriesOf(line, made.isClock))],
    hooks: {
      drawAxes: [(u) => latest.current.overlay?.(penOf(u))],
      draw: [(u) => latest.current.marks?.(penOf(u))],
      setCursor: [(u) => setIndex(u.cursor.idx ?? null)],
      setSelect: [
        (u) => {
          if (u.select.width < kLeastDrag) return;
          latest.current.onZoom({
            min: u.posToVal(u.select.left, "x"),
            max: u.posToVal(u.select.left + u.select.width, "x"),
          });
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        },
      ],
    },
  };
}
