import type { ComponentChildren } from "preact";
import { useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { count, drawnName } from "../base/format";
import { usePreference } from "../base/preferences";
import { onTheme } from "../base/theme";
import type { Cell, Line, Series, Span, Table } from "./chart_data";
import {
  canBeLogarithmic,
  drawable,
  drawnLines,
  pointByKey,
  tableOf,
  withPlace,
  zoomed,
} from "./chart_data";
import type { Drawn, Pen } from "./chart_plot";
import { plotOptions } from "./chart_plot";
import { pictureOfCanvas } from "./picture";
import { useSeen } from "./seen";
import { useTwin } from "./twin";

export type { Line, Span } from "./chart_data";
export type { Pen } from "./chart_plot";

export interface Axis {
  name: string; // with its unit, at the head of the table
  isClock: boolean; // seconds, shown as 1:02:00; else a figure
  text?: (value: number) => string; // of a mark of the axis, where it is neither
  cell?: (value: number) => Cell; // in the table, where it is not the value itself
}
export const kTimeAxis: Axis = { name: "Time (s)", isClock: true };
export const kStepAxis: Axis = { name: "Step", isClock: false };

export interface ChartProps {
  title: string;
  summary: string; // for readers who cannot see the canvas
  readout: (index: number | null) => ComponentChildren; // beside the title; null: newest
  height: number;
  data: uPlot.AlignedData; // the x-axis first: seconds, unless `x` says otherwise
  lines: Line[];
  full: Span; // of the x-axis, when not zoomed
  values: (low: number | null, high: number | null) => [number, number];
  format: (value: number) => string;
  overlay?: (pen: Pen) => void; // below the lines
  marks?: (pen: Pen) => void; // on top of them
  zoom: Span | null;
  onZoom: (span: Span | null) => void;
  x?: Axis;
  sync?: string | null; // charts of one name share the cursor ("run"); null: none
  file?: string; // how the names of its files begin
  of?: string; // whose figures they are, in the title of its picture
  table?: () => Table; // where it has more columns than the lines
  onCursor?: ((index: number | null) => void) | undefined;
}

const kZoomStep = 0.5;
const kHelp =
  "Arrow keys move through the points, Home and End to the ends, plus and minus zoom, " +
  "0 shows all.";

// Asks for another drawing where the figures are no longer the same, and for another plot where
// what a plot keeps for good is another: its lines and the kind of its axes.
function usePlot(
  props: ChartProps,
  drawn: { lines: Line[]; data: ReturnType<typeof drawnLines>["data"] },
  isLogarithmic: boolean,
  setIndex: (index: number | null) => void,
) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const { zoom, full, height, values, format, overlay, marks, onZoom } = props;
  const latest = useRef<Drawn>(null as unknown as Drawn);
  const span = zoom ?? full;
  const along = props.x?.text;
  latest.current = { height, span, isLogarithmic, values, format, along, overlay, marks, onZoom };
  const data = drawn.data as uPlot.AlignedData;
  const newest = useRef(data);
  newest.current = data;
  const axis = props.x ?? kTimeAxis;
  const sync = props.sync === undefined ? "run" : props.sync;

  useLayoutEffect(() => {
    const element = place.current;
    if (!element) return;
    const width = () => Math.max(120, element.clientWidth);
    const made = { width: width(), lines: drawn.lines, sync, isClock: axis.isClock };
    const chart = new uPlot(plotOptions(latest, made, setIndex), newest.current, element);
    plot.current = chart;
    const resize = new ResizeObserver(() => {
      if (width() !== chart.width) chart.setSize({ width: width(), height: latest.current.height });
    });
    resize.observe(element);
    const forgetTheme = onTheme(() => chart.redraw(false, true));
    return () => {
      forgetTheme();
      resize.disconnect();
      chart.destroy();
      plot.current = null;
    };
    // The lines' own figures come with the data; only their looks make another plot.
  }, [JSON.stringify(drawn.lines), isLogarithmic, axis.isClock, sync]);

  const draw = useSeen(place, () => {
    const chart = plot.current;
    if (!chart) return;
    chart.batch(() => {
      chart.setData(newest.current, false);
      chart.setScale("x", latest.current.span);
    });
    chart.redraw(false, true); // the overlay may change while data and scale do not
  });
  useEffect(draw, [drawn.data, zoom, full.min, full.max, overlay, marks]);
  return { place, plot };
}

// uPlot's types leave out that it tells the charts that share the cursor.
interface Pointer {
  setCursor(at: { left: number; top: number }, fires: boolean, tells: boolean): void;
}

function pointTo(plot: uPlot | null, index: number | null) {
  const at = index == null ? null : plot?.data[0][index];
  const left = at == null ? -10 : (plot?.valToPos(at, "x") ?? -10);
  const pointer = plot as unknown as Pointer | null;
  pointer?.setCursor({ left, top: at == null ? -10 : 10 }, true, true);
}

// The keys of a chart that has the focus; what they point at is told.
function useKeys(props: ChartProps, plot: { current: uPlot | null }) {
  const [point, setPoint] = useState<number | null>(null);
  const { zoom, full, data } = props;
  const span = zoom ?? full;
  const xs = data[0];
  const leave = () => {
    setPoint(null);
    pointTo(plot.current, null);
  };
  const zoomBy = (factor: number) => {
    const around = (point == null ? null : xs[point]) ?? (span.min + span.max) / 2;
    props.onZoom(zoomed(span, full, around, factor));
  };
  // After a zoom the point lies elsewhere.
  useEffect(() => {
    if (point != null) pointTo(plot.current, point);
  }, [point, zoom]);
  const press = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const next = pointByKey(event.key, point, xs.length);
    const at = next == null ? null : xs[next];
    if (next != null && at != null) {
      if (zoom) {
        const moved = withPlace(zoom, full, at);
        if (moved !== zoom) props.onZoom(moved);
      }
      setPoint(next);
    } else if (event.key === "+" || event.key === "=") zoomBy(kZoomStep);
    else if (event.key === "-") zoomBy(1 / kZoomStep);
    else if (event.key === "0") props.onZoom(null);
    else if (event.key === "Escape" && (point != null || zoom)) {
      if (point == null) props.onZoom(null);
      leave();
    } else return;
    event.preventDefault();
    event.stopPropagation(); // "+" and the like are nobody else's while a chart has the focus
  };
  return { point, press, leave, zoomBy };
}

// What a reader may choose of a chart, in its menu.
function Choices(props: {
  isLogarithmic: boolean;
  canBeLogarithmic: boolean;
  onLogarithmic: (wanted: boolean) => void;
  hasSmooth: boolean;
  isSmoothed: boolean;
  onSmoothed: (wanted: boolean) => void;
  isZoomed: boolean;
  zoomBy: (factor: number) => void;
}) {
  return (
    <>
      <label>
        <input
          type="checkbox"
          checked={props.isLogarithmic}
          disabled={!props.canBeLogarithmic}
          onChange={(event) => props.onLogarithmic(event.currentTarget.checked)}
        />
        Log axis
      </label>
      {props.hasSmooth && (
        <label>
          <input
            type="checkbox"
            checked={props.isSmoothed}
            onChange={(event) => props.onSmoothed(event.currentTarget.checked)}
          />
          Smoothing, in all charts
        </label>
      )}
      <button type="button" onClick={() => props.zoomBy(kZoomStep)}>
        Zoom in
      </button>
      <button
        type="button"
        disabled={!props.isZoomed}
        onClick={() => props.zoomBy(1 / kZoomStep)}
      >
        Zoom out
      </button>
    </>
  );
}

export function Chart(props: ChartProps) {
  const [index, setIndex] = useState<number | null>(null);
  const [wantsLog, setWantsLog] = useState(false);
  const [smoothing, setSmoothing] = usePreference("smoothing"); // "off", or null
  const isSmoothed = smoothing !== "off";
  const series = props.data as unknown as Series;
  const shown = useMemo(() => drawable(series), [props.data]);
  const drawn = useMemo(
    () => drawnLines(props.lines, shown.data, isSmoothed),
    [props.data, JSON.stringify(props.lines), isSmoothed],
  );
  const isPositive = useMemo(() => canBeLogarithmic(shown.data), [shown]);
  const isLogarithmic = wantsLog && isPositive;
  const onCursor = useRef(props.onCursor);
  onCursor.current = props.onCursor;
  const follow = (at: number | null) => {
    setIndex(at);
    onCursor.current?.(at);
  };
  const { place, plot } = usePlot(props, drawn, isLogarithmic, follow);
  const { point, press, leave, zoomBy } = useKeys(props, plot);
  const help = useId();
  const { title } = props;
  const showAll = () => {
    place.current?.parentElement?.focus(); // the button goes
    props.onZoom(null);
  };
  const twin = useTwin({
    title,
    file: props.file,
    table: props.table ?? (() => tableOf(props.x ?? kTimeAxis, props.lines, series, title)),
    picture: () => {
      const canvas = place.current?.querySelector("canvas");
      const head = props.of ? `${title} · ${drawnName(props.of)}` : title;
      return canvas ? pictureOfCanvas(head, canvas) : Promise.resolve(null);
    },
    children: (
      <Choices
        isLogarithmic={isLogarithmic}
        canBeLogarithmic={isPositive}
        onLogarithmic={setWantsLog}
        hasSmooth={props.lines.some((line) => line.smooth)}
        isSmoothed={isSmoothed}
        onSmoothed={(wanted) => setSmoothing(wanted ? null : "off")}
        isZoomed={props.zoom != null}
        zoomBy={zoomBy}
      />
    ),
  });
  return (
    <figure class="chart">
      <figcaption>
        <h2>{title}</h2>
        <span class="readout">{props.readout(index)}</span>
        {props.zoom && (
          <button type="button" class="quiet" onClick={showAll}>
            Show all
          </button>
        )}
        {twin.tools}
      </figcaption>
      <div
        class="plot"
        role="application"
        aria-roledescription="chart"
        aria-label={title}
        aria-describedby={help}
        tabIndex={0}
        onKeyDown={press}
        onBlur={leave}
      >
        <div
          ref={place}
          role="img"
          aria-label={props.summary}
          style={{ height: `${props.height}px` }}
        />
        <span id={help} hidden>
          {kHelp}
        </span>
        <span class="visually-hidden" aria-live="polite">
          {point != null && props.readout(point)}
        </span>
      </div>
      {shown.left > 0 && (
        <p class="small">
          {shown.left === 1 ? "1 value is" : `${count(shown.left)} values are`} not drawn: too large
          for a chart. The table has {shown.left === 1 ? "it" : "them"}.
        </p>
      )}
      {twin.table}
    </figure>
  );
}
