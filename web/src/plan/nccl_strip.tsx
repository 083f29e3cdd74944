import { useRef } from "preact/hooks";
import type { PlannedBucket, TunedRange } from "../base/api";
import * as show from "../base/format";
import type { Table } from "../parts/chart_data";
import { pictureOfDrawing } from "../parts/picture";
import { useTwin } from "../parts/twin";
import { useWidth } from "../parts/width";
import type { Way } from "./measured";
import { sizeAxis, waysOf } from "./measured";

const clean = show.withoutEscapes;
const kRow = 26; // px
const kBarHeight = 18;
const kAxis = 20;
const kAbove = 16; // of a name, where none fits beside its bar
const kMostRows = 8;
const kLetter = 6.6; // px, about, of a label

const way = (range: TunedRange) => `${clean(range.algorithm)} / ${clean(range.protocol)}`;

// Which way the buckets go, in words.
function waysText(ways: Way[]): string {
  return ways
    .map(({ buckets, least, most, range }) => {
      const [from, to] = [show.bytes(least), show.bytes(most)];
      const size = from === to ? from : `${from} to ${to}`;
      const amount = buckets === 1 ? "1 bucket" : `${show.count(buckets)} buckets`;
      return `${amount} of ${size}: ${range ? way(range) : "NCCL's own choice"}`;
    })
    .join("; ");
}

// Gradients are summed by one of these.
function collectiveOf(collectives: string[]): string | null {
  const sums = ["AllReduce", "ReduceScatter"].filter((name) => collectives.includes(name));
  return sums.length === 1 ? (sums[0] ?? null) : null;
}

// A collective: where NCCL is told something, on the stretch of all sizes.
function Row({
  name,
  ranges,
  y,
  left,
  right,
  x,
}: {
  name: string;
  ranges: TunedRange[];
  y: number;
  left: number;
  right: number;
  x: (bytes: number) => number;
}) {
  const bar = (from: number, to: number) => {
    return { x: from, y, width: Math.max(1, to - from), height: kBarHeight };
  };
  const middle = y + kBarHeight / 2;
  return (
    <g>
      <text
        class={left > 0 ? "name" : "name above"}
        x={left > 0 ? left - 6 : 2}
        y={left > 0 ? middle : y - kAbove / 2}
      >
        {clean(name)}
      </text>
      <rect class="own" {...bar(left + 2, right)} />
      {ranges.map((range, index) => {
        const [from, to] = [x(range.from_bytes), x(range.to_bytes ?? Infinity)];
        const label = way(range);
        return (
          <g key={index}>
            <rect class="told" {...bar(from, to)} />
            {to - from > label.length * kLetter && (
              <text class="in" x={(from + to) / 2} y={middle}>
                {label}
              </text>
            )}
          </g>
        );
      })}
    </g>
  );
}

const kTitle = "Algorithm and protocol by size of a call";

function tableOf(ranges: TunedRange[]): Table {
  return {
    columns: ["Collective", "From (bytes)", "To (bytes)", "Algorithm", "Protocol", "Channels"],
    rows: ranges.map((range) => [
      range.collective,
      range.from_bytes,
      range.to_bytes ?? null,
      range.algorithm,
      range.protocol,
      range.channels > 0 ? range.channels : null,
    ]),
  };
}

interface WaysProps {
  ranges: TunedRange[];
  buckets: PlannedBucket[];
}

// Sizes of calls along an axis, with the algorithm and protocol that NCCL is told for them; below,
// where the plan's buckets lie. The table beside it has all of its figures.
export function WaysBySize({ ranges, buckets }: WaysProps) {
  const place = useRef<HTMLDivElement>(null);
  const width = useWidth(place);
  const names = [...new Set(ranges.map(({ collective }) => collective))];
  const rows = names.slice(0, kMostRows);
  const summed = collectiveOf(names);
  const text = summed == null ? "" : waysText(waysOf(ranges, summed, buckets));
  const { at, ticks } = sizeAxis(ranges, buckets);
  const left = width < 500 ? 0 : 100;
  const x = (bytes: number) => left + 2 + (width - left - 4) * at(bytes);
  const pitch = left > 0 ? kRow : kRow + kAbove;
  const height = rows.length * pitch;
  const twin = useTwin({
    title: kTitle,
    table: () => tableOf(ranges),
    picture: async () => place.current && pictureOfDrawing(kTitle, place.current),
  });
  const summary = `${kTitle}${text === "" ? "" : `. ${text}`}`;
  return (
    <div class="ways">
      {text !== "" && <p class="ways-text">{text}.</p>}
      <div ref={place}>
        {width > 0 && (
          <svg width={width} height={height + kAxis} role="img" aria-label={summary}>
            {ticks.map((size) => (
              <line key={size} class="grid" x1={x(size)} x2={x(size)} y1={0} y2={height} />
            ))}
            {rows.map((name, row) => (
              <Row
                key={row}
                name={name}
                ranges={ranges.filter(({ collective }) => collective === name)}
                y={row * pitch + pitch - kRow + 2}
                left={left}
                right={width - 2}
                x={x}
              />
            ))}
            <path
              class="at"
              d={buckets.map(({ bytes }) => `M${x(bytes).toFixed(1)} ${height - 3}v7`).join("")}
            />
            {ticks
              .filter((size) => x(size) < width - 24)
              .map((size) => (
                <text key={size} class="size" x={Math.max(x(size), 18)} y={height + 14}>
                  {show.bytes(size).replace(/\.0+(?=\D)/, "")}
                </text>
              ))}
          </svg>
        )}
      </div>
      <p class="legend">
        <span class="told-key">told to NCCL</span>
        <span class="own-key">NCCL's own choice</span>
        {buckets.length > 0 && <span class="at-key">buckets of the plan</span>}
      </p>
      <div class="bars-tools">{twin.tools}</div>
      {twin.table}
      {names.length > rows.length && (
        <p class="small">And {names.length - rows.length} more collectives, which the table has.</p>
      )}
    </div>
  );
}
