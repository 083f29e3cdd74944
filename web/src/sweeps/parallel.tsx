import type { RefObject } from "preact";
import { useId, useMemo, useRef, useState } from "preact/hooks";
import * as show from "../base/format";
import { go, runHash } from "../base/route";
import { pictureOfDrawing } from "../parts/picture";
import { useTwin } from "../parts/twin";
import { useWidth } from "../parts/width";
import type { Axis, Brush, Brushes } from "./axes";
import { apart, brushText, kLane, kShades, passes, shadesOf } from "./axes";
import { AxisBrush } from "./brushes";
import type { Layout, Point } from "./layout";
import { layoutOf, nearest, pointAt, pointsOf, wayOf } from "./layout";
import { directionText, objectiveText, objectiveTitle, valueText } from "./objective";
import { KeyText } from "./key_text";
import type { Sweep, Trial } from "./sweeps_api";
import { byRank, trialTable } from "./trials";

const kReach = 24; // px from a line
const kLeastMark = 58; // px between marks of a row
const kMostLines = 1000;
const kHelp =
  "Arrow keys go from trial to trial, the best first; Enter opens the run of one, Escape leaves " +
  "it. The ends of each axis choose a part of it.";

interface Line {
  trial: Trial;
  points: Point[];
  way: string;
  shade: number | null;
  isIn: boolean;
}

export interface ParallelProps {
  sweep: Sweep;
  axes: Axis[];
  brushes: Brushes;
  onBrush: (key: string, brush: Brush | null) => void;
  onShowAll: () => void;
  picked: number | null; // a trial's number
  onPick: (trial: number | null) => void;
  pointed: number | null; // in the table, by pointer or focus
}

const lineClass = ({ trial, shade, isIn }: Line) =>
  [
    "trial-line",
    shade == null ? "no-result" : `shade-${shade}`,
    ...(trial.state === "failed" ? ["failed"] : []),
    ...(isIn ? [] : ["out"]),
  ].join(" ");

// The best are drawn last, on top of the others.
function linesOf(sweep: Sweep, axes: Axis[], layout: Layout, brushes: Brushes): Line[] {
  const objective = axes[axes.length - 1];
  const all = [...sweep.trials].sort(byRank).slice(0, kMostLines).reverse();
  const shades = objective ? shadesOf(objective, all) : new Map<number, number>();
  const lines = all.map((trial) => {
    const points = pointsOf(layout, axes, trial);
    const shade = shades.get(trial.number) ?? null;
    return { trial, points, way: wayOf(points), shade, isIn: passes(axes, brushes, trial) };
  });
  return [...lines.filter(({ isIn }) => !isIn), ...lines.filter(({ isIn }) => isIn)];
}

function AxisView({ axis, index, layout }: { axis: Axis; index: number; layout: Layout }) {
  const [from, to] = [pointAt(layout, index, 0), pointAt(layout, index, 1)];
  const { isRows } = layout;
  // In a row the lane's name ends where that of the lowest value begins.
  const sideOf = (at: number) => {
    if (at === kLane || at > 0.94) return "end";
    return at < 0.06 ? "start" : "middle";
  };
  const mark = (at: number, text: string, full: string, key: string) => {
    const [x, y] = pointAt(layout, index, at);
    const aside = { start: -6, end: at === kLane ? 18 : 6, middle: 0 }[sideOf(at)];
    const place = isRows ? { x: x + aside, y: y + 17 } : { x: x - 9, y: y + 4 };
    return (
      <text key={key} {...place} style={{ textAnchor: isRows ? sideOf(at) : "end" }}>
        {full !== text && <title>{full}</title>}
        {text}
      </text>
    );
  };
  const size = layout.along(1) - layout.along(0);
  const marks = isRows ? apart(axis.marks, kLeastMark / size) : axis.marks;
  const [laneX, laneY] = pointAt(layout, index, kLane);
  const lane = isRows
    ? { x1: laneX, x2: laneX, y1: laneY - 7, y2: laneY + 7 }
    : { x1: laneX - 7, x2: laneX + 7, y1: laneY, y2: laneY };
  return (
    <g class="axis">
      <line x1={from[0]} y1={from[1]} x2={to[0]} y2={to[1]} />
      {marks.map(({ at, text, full }, i) => mark(at, text, full, String(i)))}
      {axis.lane != null && <line class="lane" {...lane} />}
      {axis.lane != null && mark(kLane, axis.lane, axis.lane, "lane")}
    </g>
  );
}

function Title({ axis, index, layout, note }: {
  axis: Axis;
  index: number;
  layout: Layout;
  note: string;
}) {
  const at = layout.across(index);
  const wide = Math.min(layout.gap - 10, 2 * at, 2 * (layout.width - at));
  const style = layout.isRows
    ? { left: "12px", top: `${at - 34}px` }
    : { left: `${at - wide / 2}px`, width: `${wide}px`, top: "0" };
  return (
    <span class={layout.isRows ? "axis-title rows" : "axis-title"} style={style} title={axis.title}>
      <KeyText text={axis.title} />
      {note && <span class="small"> {note}</span>}
    </span>
  );
}

function Legend({ hasOdd }: { hasOdd: boolean }) {
  return (
    <p class="shade-legend small">
      worst
      <svg width={kShades * 18} height="10" aria-hidden="true">
        {Array.from({ length: kShades }, (_, i) => (
          <rect key={i} class={`shade-${i}`} x={i * 18} width={18} height={10} />
        ))}
      </svg>
      best{hasOdd && "; dashed: failed, or no result yet"}
    </p>
  );
}

// What a trial is and has come to, in a line.
export function trialText({ objective, parameters }: Sweep, trial: Trial): string {
  const values = parameters.flatMap(({ key }) =>
    trial.values[key] === undefined
      ? []
      : [`${show.drawnName(key)} ${valueText(trial.values[key])}`],
  );
  const rank = trial.rank == null ? "" : `, rank ${trial.rank}`;
  const result = `${objectiveTitle(objective)} ${objectiveText(objective, trial.objective)}`;
  return `Trial ${trial.number}${rank}, ${trial.state}: ${[result, ...values].join("; ")}`;
}

function Picked({ sweep, trial }: { sweep: Sweep; trial: Trial | undefined }) {
  return (
    <p class="picked-trial small">
      {!trial && "Point at a line, or press one, to see its trial; drag along an axis to filter."}
      {trial && trialText(sweep, trial)}
      {trial?.run != null && (
        <>
          {" "}
          <a href={runHash(trial.run)}>{show.drawnName(trial.run)}</a>
        </>
      )}
    </p>
  );
}

// Keys of the drawing that has the focus.
function usePress({ sweep, brushes, picked, onPick, onShowAll }: ParallelProps, lines: Line[]) {
  const order = useMemo(
    () =>
      lines
        .filter(({ isIn }) => isIn)
        .map(({ trial }) => trial)
        .sort(byRank),
    [lines],
  );
  return (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = order.findIndex(({ number }) => number === picked);
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const last = order.length - 1;
    const ends: Record<string, number> = { Home: 0, End: last };
    const next = by == null ? ends[event.key] : at < 0 ? 0 : Math.max(0, Math.min(last, at + by));
    const run = sweep.trials.find(({ number }) => number === picked)?.run;
    if (next != null) onPick(order[next]?.number ?? null);
    else if (event.key === "Enter" && run != null) go(runHash(run));
    else if (event.key === "Escape" && picked != null) onPick(null);
    else if (event.key === "Escape" && brushes.size > 0) onShowAll();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
}

function summaryOf({ sweep, axes }: ParallelProps): string {
  const { best, objective, trials } = sweep;
  const head = `${trials.length} trials over ${axes.map(({ title }) => title).join(", ")}`;
  if (!best) return `${head}; none has a result`;
  return `${head}; best ${objectiveText(objective, best.objective)} of trial ${best.trial}`;
}

interface DrawingProps extends ParallelProps {
  place: RefObject<HTMLDivElement | null>;
  width: number;
  layout: Layout;
  lines: Line[];
  marked: Line | undefined;
  onHover: (trial: number | null) => void;
}

// Lines and axes, and on top of them what chooses: no part of the picture for who reads it out.
function Drawing(props: DrawingProps) {
  const { sweep, axes, place, width, layout, lines, marked, onHover, onPick } = props;
  const drawn = useMemo(
    () =>
      lines.map((line) => <path key={line.trial.number} class={lineClass(line)} d={line.way} />),
    [lines],
  );
  const under = (event: PointerEvent): number | null => {
    const frame = place.current?.getBoundingClientRect();
    if (!frame) return null;
    const at: Point = [event.clientX - frame.left, event.clientY - frame.top];
    const inside = lines.filter(({ isIn }) => isIn);
    return nearest(inside, at, kReach)?.trial.number ?? null;
  };
  const each = axes.map((axis, index) => ({ key: axis.key, axis, index, layout }));
  const note = directionText(sweep.objective);
  return (
    <>
      {each.map((one) => (
        <Title {...one} key={one.key} note={one.key === "" ? note : ""} />
      ))}
      <svg width={width} height={layout.height} role="img" aria-label={summaryOf(props)}>
        {drawn}
        {marked && <path class={`${lineClass(marked)} marked`} d={marked.way} />}
        {each.map((one) => (
          <AxisView {...one} key={one.key} />
        ))}
      </svg>
      <svg
        class="axis-brushes"
        width={width}
        height={layout.height}
        onPointerMove={(event) => {
          if (event.pointerType === "mouse" && event.buttons === 0) onHover(under(event));
        }}
        onPointerLeave={() => onHover(null)}
        onPointerDown={(event) => onPick(under(event))}
      >
        {each.map((one) => (
          <AxisBrush
            {...one}
            key={one.key}
            brush={props.brushes.get(one.key)}
            onBrush={(brush) => props.onBrush(one.key, brush)}
          />
        ))}
      </svg>
    </>
  );
}

// Where axes and lines lie in the room that there is.
function useLines({ sweep, axes, brushes }: ParallelProps, width: number) {
  const hasLane = axes.some(({ lane }) => lane != null);
  const layout = useMemo(
    () => layoutOf(width, axes.length, hasLane),
    [width, axes.length, hasLane],
  );
  const lines = useMemo(
    () => linesOf(sweep, axes, layout, brushes),
    [sweep, axes, layout, brushes],
  );
  return { layout, lines };
}

export function ParallelCoordinates(props: ParallelProps) {
  const { sweep, picked, pointed } = props;
  const place = useRef<HTMLDivElement>(null);
  const width = useWidth(place);
  const [hovered, setHovered] = useState<number | null>(null);
  const help = useId();
  const { layout, lines } = useLines(props, width);
  const press = usePress(props, lines);
  const twin = useTwin({
    title: "Trials",
    file: sweep.id,
    table: () => trialTable(sweep),
    picture: () =>
      place.current
        ? pictureOfDrawing(`Trials · ${show.drawnName(sweep.name)}`, place.current)
        : Promise.resolve(null),
  });
  const shown = hovered ?? pointed ?? picked;
  const marked = lines.find(({ trial }) => trial.number === shown);
  const more = sweep.trials.length - lines.length;
  return (
    <figure class="chart parallel">
      <figcaption>
        <h2>Trials</h2>
        {twin.tools}
      </figcaption>
      <div
        class="plot"
        role="application"
        aria-roledescription="parallel coordinates"
        aria-label={`Trials by parameters and ${objectiveTitle(sweep.objective)}`}
        aria-describedby={help}
        tabIndex={0}
        onKeyDown={press}
      >
        <div class="parallel-drawing" ref={place} style={{ height: `${layout.height}px` }}>
          {width > 0 && (
            <Drawing
              {...props}
              {...{ place, width, layout, lines, marked }}
              onHover={setHovered}
            />
          )}
        </div>
        <span id={help} hidden>
          {kHelp}
        </span>
        <span class="visually-hidden" aria-live="polite">
          {picked != null && marked?.trial.number === picked && trialText(sweep, marked.trial)}
        </span>
      </div>
      <Legend hasOdd={lines.some(({ shade }) => shade == null)} />
      <Picked sweep={sweep} trial={marked?.trial} />
      {more > 0 && (
        <p class="small">
          The best {show.count(lines.length)} of {show.count(sweep.trials.length)} are drawn.
        </p>
      )}
      {twin.table}
    </figure>
  );
}

// What is filtered, each to be taken back.
export function BrushChips({ axes, brushes, passing, of, onBrush, onShowAll }: {
  axes: Axis[];
  brushes: Brushes;
  passing: number;
  of: number;
  onBrush: ParallelProps["onBrush"];
  onShowAll: () => void;
}) {
  return (
    <div class="chips">
      <span class="small" role="status">
        {brushes.size > 0 && `${show.count(passing)} of ${show.count(of)} trials pass`}
      </span>
      {axes.map((axis) => {
        const brush = brushes.get(axis.key);
        return (
          brush && (
            <button
              key={axis.key}
              type="button"
              class="chip"
              onClick={() => onBrush(axis.key, null)}
              aria-label={`Remove the filter ${brushText(axis, brush)}`}
            >
              <span class="cut">{brushText(axis, brush)}</span> <span aria-hidden="true">×</span>
            </button>
          )
        );
      })}
      {brushes.size > 0 && (
        <button type="button" class="quiet" onClick={onShowAll}>
          Show all trials
        </button>
      )}
    </div>
  );
}
