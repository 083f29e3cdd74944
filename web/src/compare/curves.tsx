import { useCallback, useMemo } from "preact/hooks";
import type uPlot from "uplot";
import type { Unit } from "../base/device";
import { againLine, kAgainName } from "../parts/branches";
import type { Line, Pen, Span } from "../parts/chart";
import { Chart } from "../parts/chart";
import { tableOf } from "../parts/chart_data";
import { withPlaces } from "../parts/places";
import type { Axis } from "./compare_api";
import { kIsClock, kSeries } from "./compare_api";
import type { Drawing, Subject } from "./drawing";
import { alongText, axisTitle, placeText, targetText, valueText } from "./drawing";
import type { Curve } from "./series";
import { joined, newestOf, rangeOf, valueAt } from "./series";

function bands(pen: Pen, curves: Curve[], subjects: Subject[], only: string | null) {
  const { context, box } = pen;
  context.save();
  context.beginPath();
  context.rect(box.left, box.top, box.width, box.height);
  context.clip();
  curves.forEach(({ key, x, y, deviation }, index) => {
    const subject = subjects[index];
    if (!deviation || x.length < 2 || !subject) return;
    context.fillStyle = pen.colour(subject.look.colour);
    context.globalAlpha = only != null && only !== key ? 0.05 : 0.22;
    context.beginPath();
    x.forEach((at, i) => context.lineTo(pen.x(at), pen.y((y[i] ?? 0) + (deviation[i] ?? 0))));
    for (let i = x.length - 1; i >= 0; i -= 1) {
      context.lineTo(pen.x(x[i] ?? 0), pen.y((y[i] ?? 0) - (deviation[i] ?? 0)));
    }
    context.closePath();
    context.fill();
  });
  context.restore();
}

function targetLine(pen: Pen, value: number, text: string) {
  const { context, box, ratio } = pen;
  const y = Math.round(pen.y(value)) + 0.5;
  if (y < box.top || y > box.top + box.height) return;
  context.save();
  context.strokeStyle = pen.colour("good");
  context.lineWidth = 1.5 * ratio;
  context.beginPath();
  context.moveTo(box.left, y);
  context.lineTo(box.left + box.width, y);
  context.stroke();
  context.font = pen.font(11, 500);
  context.fillStyle = pen.colour("good");
  context.textAlign = "left"; // the axis has left its own
  context.textBaseline = "bottom";
  context.fillText(text, box.left + 8 * ratio, y - 3 * ratio);
  context.restore();
}

function summaryOf(drawing: Drawing, subjects: Subject[], by: string): string {
  const ends = drawing.curves.map((curve, index) => {
    const last = newestOf(curve).value;
    const subject = subjects[index];
    const what = last == null ? "nothing" : `${valueText(drawing, last, subject)} at the end`;
    return `${subject?.name}: ${what}`;
  });
  return `${drawing.title} by ${by}. ${ends.join("; ")}`;
}

interface CurvesProps {
  drawing: Drawing;
  subjects: Subject[];
  axis: Axis;
  unit: Unit; // of hours
  only: string | null; // the subject that is isolated
  full: Span;
  zoom: Span | null;
  onZoom: (span: Span | null) => void;
  onCursor: ((x: number | null) => void) | undefined;
}

// For readers who hear where the cursor is: the legend, which has the values, does not speak.
function valuesText(drawing: Drawing, subjects: Subject[], x: number): string {
  const values = drawing.curves.map((curve, index) => {
    const subject = subjects[index];
    return `${subject?.name} ${valueText(drawing, valueAt(curve, x), subject)}`;
  });
  return `: ${values.join("; ")}`;
}

// Of each subject what counts; behind all of them what was trained again.
function linesOf({ curves }: Drawing, subjects: Subject[], only: string | null) {
  const lines: Line[] = curves.map(({ key, starts }, index) => {
    const { name = "", look } = subjects[index] ?? {};
    return {
      ...{ name, colour: look?.colour ?? "muted", points: 2, dash: look?.dash ?? [] },
      width: only === key ? 2.75 : 2,
      opacity: only == null || only === key ? 1 : 0.13,
      ...(starts && { starts }),
    };
  });
  const again = curves.flatMap(({ again: points }, index) => {
    const line = lines[index];
    if (!points || !line) return [];
    const { starts = [] } = points;
    const name = `${line.name}, ${kAgainName}`;
    return [{ points, line: { ...againLine(line), name, starts } }];
  });
  return {
    data: joined([...curves, ...again.map(({ points }) => points)]),
    lines: [...lines, ...again.map(({ line }) => line)],
  };
}

// The values of all subjects; of those that are a run, also the step and the attempt.
export function tableOfCurves(
  { curves, title }: Drawing,
  { data, lines }: ReturnType<typeof linesOf>,
  x: { name: string; axis: Axis },
) {
  const places = [false, true].flatMap((again) =>
    curves.flatMap(({ placesOf }, index) => {
      const name = lines[index]?.name ?? "";
      if (!placesOf) return [];
      return [{ name: again ? `${name}, ${kAgainName}` : name, places: placesOf(again) }];
    }),
  );
  return withPlaces(tableOf(x, lines, data, title), data[0], places, x.axis === "step");
}

// One series of all subjects. The legend is the page's, beside all charts.
export function SeriesChart(props: CurvesProps) {
  const { drawing, subjects, axis, unit, only, full, zoom, onZoom, onCursor } = props;
  const drawn = useMemo(
    () => linesOf(drawing, subjects, only),
    [drawing.curves, JSON.stringify(subjects), only],
  );
  const { data, lines } = drawn;
  const target = drawing.target;
  const overlay = useCallback(
    (pen: Pen) => {
      bands(pen, drawing.curves, subjects, only);
      const text = targetText(drawing, subjects);
      if (target != null && text != null) targetLine(pen, target, text);
    },
    [drawing, subjects, only],
  );
  const time = kIsClock[axis] === true;
  const by = axisTitle(axis, unit);
  const name = time ? `${by} (s)` : by;
  return (
    <div class="compared" data-series={drawing.name}>
      <Chart
        title={drawing.title}
        summary={summaryOf(drawing, subjects, by)}
        readout={(index) => {
          const x = index == null ? null : data[0][index];
          if (data[0].length === 0) return "no run has values of it";
          if (x == null) return `by ${by}`;
          return (
            <>
              <b>{placeText(axis, unit, x)}</b>
              <span class="visually-hidden">{valuesText(drawing, subjects, x)}</span>
            </>
          );
        }}
        height={kSeries[drawing.name].evaluation ? 320 : 240}
        data={data as uPlot.AlignedData}
        lines={lines}
        table={() => tableOfCurves(drawing, drawn, { name, axis })}
        full={full}
        values={(low, high) => rangeOf(drawing.curves, [low, high, target])}
        format={(value) =>
          drawing.isFraction
            ? `${Number((value * 100).toFixed(2))} %`
            : String(Number(value.toPrecision(4)))
        }
        overlay={overlay}
        zoom={zoom}
        onZoom={onZoom}
        x={{
          name,
          isClock: time,
          ...(!time && { text: (x: number) => alongText(axis, x) }),
        }}
        {...(onCursor && {
          onCursor: (index: number | null) =>
            onCursor(index == null ? null : (data[0][index] ?? null)),
        })}
      />
    </div>
  );
}
