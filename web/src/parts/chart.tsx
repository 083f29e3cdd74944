import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { clock } from "../base/format";
import { onTheme } from "../base/theme";

export interface Span {
  min: number;
  max: number;
}

export interface Line {
  colour: string; // name of a custom property of style.css
  width: number;
  points?: number; // dots while at most so many are in view
  opacity?: number;
  dash?: number[];
}

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

export interface ChartProps {
  title: string;
  summary: string; // for readers who cannot see the canvas
  readout: (index: number | null) => ComponentChildren; // beside the title; null: newest
  height: number;
  data: uPlot.AlignedData; // seconds first
  lines: Line[];
  full: Span; // of time, when not zoomed
  values: (low: number | null, high: number | null) => [number, number];
  format: (value: number) => string;
  overlay?: (pen: Pen) => void; // below the lines
  marks?: (pen: Pen) => void; // on top of them
  zoom: Span | null;
  onZoom: (span: Span | null) => void;
  along?: (value: number) => string; // on the x-axis, where that is no time
  onCursor?: (index: number | null) => void;
}

// Steps that fit a clock: seconds, minutes, hours, days.
const kTimeSteps = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800,
  432800, 864000,
];
const kFont = 'ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';

function colourOf(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim() || "#888";
}

function options(
  latest: { current: ChartProps },
  width: number,
  setIndex: (index: number | null) => void,
): uPlot.Options {
  const props = latest.current;
  const axis = {
    stroke: () => colourOf("muted"),
    font: `11px ${kFont}`,
    grid: { stroke: () => colourOf("grid"), width: 1 },
    ticks: { show: false },
  };
  const pen = (u: uPlot): Pen => {
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
  };
  return {
    width,
    height: props.height,
    padding: [10, 12, 0, 0],
    legend: { show: false },
    cursor: {
      sync: { key: "run", setSeries: false },
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
      x: {
        time: false,
        range: () => {
          const span = latest.current.zoom ?? latest.current.full;
          return [span.min, span.max];
        },
      },
      y: { range: (_u, low, high) => latest.current.values(low, high) },
    },
    axes: [
      {
        ...axis,
        ...(!props.along && { incrs: kTimeSteps }),
        space: 70,
        size: 30,
        values: (_u, ticks) => ticks.map((tick) => (latest.current.along ?? clock)(tick)),
      },
      {
        ...axis,
        size: 52,
        gap: 8,
        space: 28,
        values: (_u, ticks) => ticks.map((tick) => latest.current.format(tick)),
      },
    ],
    series: [
      {},
      ...props.lines.map((line) => ({
        stroke: () => colourOf(line.colour),
        width: line.width,
        alpha: line.opacity ?? 1,
        ...(line.dash && line.dash.length > 0 && { dash: line.dash }),
        spanGaps: true,
        points: {
          show: (_u: uPlot, _series: number, first: number, last: number) =>
            last - first < (line.points ?? 0),
          size: 5,
          fill: () => colourOf(line.colour),
        },
      })),
    ],
    hooks: {
      drawAxes: [(u) => latest.current.overlay?.(pen(u))],
      draw: [(u) => latest.current.marks?.(pen(u))],
      setCursor: [
        (u) => {
          setIndex(u.cursor.idx ?? null);
          latest.current.onCursor?.(u.cursor.idx ?? null);
        },
      ],
      setSelect: [
        (u) => {
          if (u.select.width < 8) return;
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

export function Chart(props: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const [index, setIndex] = useState<number | null>(null);

  useLayoutEffect(() => {
    const element = place.current;
    if (!element) return;
    const chart = new uPlot(
      options(latest, Math.max(120, element.clientWidth), setIndex),
      latest.current.data,
      element,
    );
    plot.current = chart;
    const resize = new ResizeObserver(() => {
      const width = Math.max(120, element.clientWidth);
      if (width !== chart.width) chart.setSize({ width, height: latest.current.height });
    });
    resize.observe(element);
    const forgetTheme = onTheme(() => chart.redraw(false, true));
    return () => {
      forgetTheme();
      resize.disconnect();
      chart.destroy();
      plot.current = null;
    };
  }, []);

  useEffect(() => {
    const chart = plot.current;
    if (!chart) return;
    const span = props.zoom ?? props.full;
    chart.batch(() => {
      chart.setData(props.data, false);
      chart.setScale("x", span);
    });
    chart.redraw(false, true); // the overlay may change while data and scale do not
  }, [props.data, props.zoom, props.full.min, props.full.max, props.overlay, props.marks]);

  return (
    <figure class="chart">
      <figcaption>
        <h2>{props.title}</h2>
        <span class="readout">{props.readout(index)}</span>
        {props.zoom && (
          <button type="button" class="quiet" onClick={() => props.onZoom(null)}>
            Show all
          </button>
        )}
      </figcaption>
      <div
        ref={place}
        role="img"
        aria-label={props.summary}
        style={{ height: `${props.height}px` }}
      />
    </figure>
  );
}
