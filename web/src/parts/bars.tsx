import { useRef } from "preact/hooks";
import * as show from "../base/format";
import type { Cell, Table } from "./chart_data";
import { pictureOfDrawing } from "./picture";
import type { Part, Stretch, Sum } from "./timeline";
import { rowLayout, stretch, sumBars, ticks } from "./timeline";
import { useTwin } from "./twin";

const kAxisHeight = 20; // px

export interface BarRow extends Sum {
  key: number;
  label: string;
  title: string;
}

// The same as figures: what begins and ends when, in milliseconds.
export function tableOfBars(head: string, parts: Part[], rows: BarRow[], covered: number): Table {
  const ms = (seconds: number | undefined): Cell => (seconds == null ? null : seconds * 1000);
  const exposed = ({ start, end }: BarRow) => Math.max(0, end - Math.max(start, covered));
  return {
    columns: ["What", "Ready (ms)", "Begin (ms)", "End (ms)", "Exposed (ms)"],
    rows: [
      ...parts.map((part) => [`${head}: ${part.name}`, null, ms(part.begin), ms(part.end), null]),
      ...rows.map((row) => [
        `${row.key + 1}: ${row.label}`,
        ms(row.ready),
        ms(row.start),
        ms(row.end),
        ms(exposed(row)),
      ]),
    ],
  };
}

// A step: what a rank computes, and below it a row for each reduction. Lengths are in percent, so
// that it fits any width without a script.
export function Bars({
  head,
  parts,
  rows,
  covered,
  span,
  summary,
  title = "Reductions",
}: {
  head: string;
  parts: Part[];
  rows: BarRow[];
  covered: number; // the end of backward: later than this nothing hides a reduction
  span: number;
  summary: string;
  title?: string; // of its table and files
}) {
  const place = useRef<HTMLDivElement>(null);
  const twin = useTwin({
    title,
    table: () => tableOfBars(head, parts, rows, covered),
    picture: async () => place.current && pictureOfDrawing(title, place.current),
  });
  const { row, top, bottom, every } = rowLayout(rows.length);
  const last = Math.max(0, ...rows.map((one) => one.end));
  const bar = (kind: string, place: Stretch | null, y: number, height: number) =>
    place && <rect class={kind} {...place} y={y} height={height} />;
  const marks = ticks(span);
  const at = (seconds: number) => `${((100 * seconds) / span).toFixed(3)}%`;
  const gap = Math.min(2, row / 8);
  const thick = Math.max(1.5, row - 2 * gap); // what is thinner than a pixel is but a shade
  const line = Math.min(2, row / 3); // of a wait
  return (
    <>
    <div class="timeline" role="img" aria-label={summary} ref={place}>
      <svg class="names" aria-hidden="true" height={bottom + kAxisHeight}>
        <text x="100%" y={10}>
          {head}
        </text>
        {rows.map(
          (one, position) =>
            position % every === 0 && (
              <text key={one.key} x="100%" y={top + row * (position + 0.5)}>
                {one.label}
              </text>
            ),
        )}
      </svg>
      <svg class="bars" aria-hidden="true" height={bottom + kAxisHeight}>
        {marks.map((tick) => (
          <line key={tick} x1={at(tick)} x2={at(tick)} y1={0} y2={bottom} />
        ))}
        {bar("wait", stretch(covered, last, span), 0, bottom)}
        {parts.map((part) => (
          <g key={part.name}>
            {bar(part.kind, stretch(part.begin, part.end, span), 2, 16)}
            <title>{`${part.name}: ${show.milliseconds(part.end - part.begin)}`}</title>
            {part.end - part.begin > span * Math.max(0.22, 0.03 * part.name.length) && (
              <text class={`inside in-${part.kind}`} x={at((part.begin + part.end) / 2)} y={10}>
                {part.name}
              </text>
            )}
          </g>
        ))}
        {rows.map((one, position) => {
          const y = top + row * position;
          const { waiting, hidden, exposed } = sumBars(one, covered, span);
          return (
            <g key={one.key}>
              {bar("waiting", waiting, y + (row - line) / 2, line)}
              {bar("hidden", hidden, y + gap, thick)}
              {bar("exposed", exposed, y + gap, thick)}
              <title>{one.title}</title>
            </g>
          );
        })}
        {marks.map((tick, index) => (
          <text key={tick} class={index === 0 ? "first" : ""} x={at(tick)} y={bottom + 12}>
            {index === 0 ? "0" : `${Number((tick * 1000).toPrecision(6))} ms`}
          </text>
        ))}
      </svg>
    </div>
    <div class="bars-tools">{twin.tools}</div>
    {twin.table}
    </>
  );
}
