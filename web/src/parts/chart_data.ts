// What a chart does with its figures beside drawing them: ranges, the point that keys move to, its
// table and its CSV. Pure, so that tests need no browser.
import { withoutEscapes } from "../base/format";
import { smooth } from "./smooth";

export interface Span {
  min: number;
  max: number;
}

type Figures = ArrayLike<number | null | undefined>;
export type Series = readonly [ArrayLike<number>, ...Figures[]];

export interface Line {
  colour: string; // name of a custom property of style.css
  width: number;
  points?: number; // dots while at most so many are in view
  opacity?: number;
  name?: string; // in the table and the CSV; "" leaves it out of them
  smooth?: boolean; // drawn as its smoothed curve over a ghost of what was measured
  dash?: number[];
  shape?: "steps" | "points"; // a value holds until the next one, or stands alone
  starts?: number[]; // places where a piece begins that does not go on from the point before
}

// Beyond what a single-precision number can be, and what a chart's range can hold.
const kMostDrawn = 3.5e38;
export const isDrawn = (value: number) => Math.abs(value) < kMostDrawn;

// The figures without those that no chart can show, and how many these are.
export function drawable(data: Series): { data: Series; left: number } {
  let left = 0;
  const columns = data.slice(1).map((values): Figures => {
    const isOdd = (one: number | null | undefined) => one != null && !isDrawn(one);
    const odd = Array.prototype.filter.call(values, isOdd).length;
    left += odd;
    return odd === 0 ? values : Array.from(values, (one) => (isOdd(one) ? null : one));
  });
  return { data: left === 0 ? data : [data[0], ...columns], left };
}

// Of the first places that are at these or behind them.
function indicesOf(xs: ArrayLike<number>, starts: readonly number[]): number[] {
  let index = 0;
  return starts.map((start) => {
    while (index < xs.length && (xs[index] ?? 0) < start) index += 1;
    return index;
  });
}

// The lines as they are drawn: a smoothed one is two, the ghost and the curve on top.
export function drawnLines(
  lines: Line[],
  data: Series,
  isSmoothed: boolean,
): { lines: Line[]; data: [ArrayLike<number>, ...Figures[]] } {
  const drawn: { line: Line; values: Figures }[] = [];
  lines.forEach((line, i) => {
    const values = data[i + 1] ?? [];
    if (!line.smooth || !isSmoothed) return void drawn.push({ line, values });
    const ghost = { ...line, width: 1, opacity: 0.28 * (line.opacity ?? 1), points: 0 };
    drawn.push({ line: ghost, values });
    const curve = smooth(Array.from(values), indicesOf(data[0], line.starts ?? []));
    drawn.push({ line: { ...line, points: 0 }, values: curve });
  });
  return {
    lines: drawn.map(({ line }) => line),
    data: [data[0], ...drawn.map(({ values }) => values)],
  };
}

export const canBeLogarithmic = ([, ...columns]: Series): boolean =>
  columns.some((values) => Array.prototype.some.call(values, (one) => one != null && one > 0));

// Whether there are at most so many values from one place to another: the places may be other lines'.
export function areFew(values: Figures, first: number, last: number, most: number): boolean {
  let count = 0;
  for (let i = first; i <= last && count <= most; i += 1) if (values[i] != null) count += 1;
  return count <= most;
}

// The ends of a logarithmic axis: those of the linear one where these are above zero.
export function logRange(
  low: number | null,
  high: number | null,
  [from, to]: [number, number],
): [number, number] {
  const top = to > 0 ? to : high != null && high > 0 ? high * 1.1 : 1;
  const bottom = from > 0 ? from : low != null && low > 0 ? Math.min(low, top) * 0.9 : top / 10;
  return bottom < top ? [bottom, top] : [top / 10, top];
}

// Round steps between the ends, about four.
export function roundMarks(low: number, high: number): number[] {
  if (!(high > low)) return [low];
  const rough = (high - low) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough) ?? rough;
  const marks: number[] = [];
  for (let i = Math.ceil(low / step); i * step <= high; i += 1) {
    marks.push(Number((i * step).toPrecision(12)));
  }
  return marks;
}

// Marks of a logarithmic axis: 1, 2, 5 of each decade, or round steps where there is less than one.
export function logMarks(low: number, high: number): number[] {
  if (!(low > 0) || !(high > low)) return [];
  const decades = Math.log10(high / low);
  const digits = decades > 6 ? [1] : decades > 3 ? [1, 3] : [1, 2, 5];
  const marks: number[] = [];
  if (decades >= 1) {
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
      for (const digit of digits) marks.push(Number(`${digit}e${power}`));
    }
  } else {
    const rough = (high - low) / 5;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough) ?? rough;
    const first = Math.ceil(low / step);
    for (let i = first; i * step <= high; i += 1) marks.push(Number((i * step).toPrecision(12)));
  }
  return marks.filter((mark) => mark >= low && mark <= high);
}

// The span around a place, or around its middle where the place is not in it, this much wider; null
// where it would be as wide as all.
export function zoomed(now: Span, full: Span, around: number, factor: number): Span | null {
  const width = (now.max - now.min) * factor;
  const all = full.max - full.min;
  if (!(width < all) || !(all > 0)) return null;
  const least = all / 1e5;
  const isInside = around >= now.min && around <= now.max;
  const at = isInside ? around : (now.min + now.max) / 2;
  const share = (at - now.min) / (now.max - now.min);
  const size = Math.max(width, least);
  const min = Math.min(Math.max(full.min, at - size * share), full.max - size);
  return { min, max: min + size };
}

// The span moved so far that a place is in it.
export function withPlace(now: Span, full: Span, place: number): Span {
  const width = now.max - now.min;
  if (place >= now.min && place <= now.max) return now;
  const min = Math.max(full.min, Math.min(place - width / 2, full.max - width));
  return { min, max: min + width };
}

const kPage = 0.1; // of the points
// Where a key leads from a point; null: it is no key of a chart.
export function pointByKey(key: string, from: number | null, count: number): number | null {
  if (count === 0) return null;
  const page = Math.max(1, Math.round(count * kPage));
  const moves: Record<string, number> = {
    ArrowRight: 1,
    ArrowLeft: -1,
    PageUp: page,
    PageDown: -page,
  };
  if (key === "Home") return 0;
  if (key === "End") return count - 1;
  const by = moves[key];
  if (by == null) return null;
  if (from == null) return count - 1; // the newest comes first
  return Math.max(0, Math.min(count - 1, from + by));
}

export type Cell = number | string | null;
export interface Table {
  columns: string[];
  rows: Cell[][];
}

// The figures of a chart; those that are drawn twice, or that have no name, once or not at all.
export function tableOf(
  x: { name: string; cell?: (value: number) => Cell },
  lines: Line[],
  data: Series,
  title: string,
): Table {
  const shown = lines.flatMap((line, i) =>
    line.name === "" ? [] : [{ name: line.name ?? nameOf(title, lines, i), values: data[i + 1] }],
  );
  return {
    columns: [x.name, ...shown.map(({ name }) => name)],
    rows: Array.from(data[0], (at, row) => [
      x.cell ? x.cell(at) : at,
      ...shown.map(({ values }) => values?.[row] ?? null),
    ]),
  };
}

function nameOf(title: string, lines: Line[], index: number): string {
  return lines.length === 1 ? title : `Series ${index + 1}`;
}

// What a spreadsheet takes for the begin of a formula, as OWASP lists it: "CSV Injection".
const kFormula = /^\s*[=+\-@\uff0b\uff0d\uff1d\uff20]|^[\t\n]/;

// A text loses what it loses on the page, and one that would be a formula begins with an apostrophe.
function csvCell(cell: Cell): string {
  if (cell == null) return "";
  if (typeof cell === "number") return Number.isFinite(cell) ? String(cell) : "";
  const clean = withoutEscapes(cell);
  const text = kFormula.test(clean) ? `'${clean}` : clean;
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function csvOf({ columns, rows }: Table): string {
  return [columns, ...rows].map((row) => `${row.map(csvCell).join(",")}\r\n`).join("");
}

// A title as the name of a file.
export function fileName(text: string, extension: string): string {
  const name = text
    .normalize("NFKD")
    .toLowerCase()
    .replace(/[^a-z0-9._-]+/g, "-")
    .replace(/^[-.]+|[-.]+$/g, "")
    .slice(0, 80);
  return `${name || "chart"}.${extension}`;
}
