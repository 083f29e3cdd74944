// Where the bars of a step lie: shares of a drawing whose width is `span` seconds. Strange times (a
// plan from elsewhere, a clock that jumped) end at the drawing's edges.

export interface Part {
  kind: "data" | "forward" | "backward" | "optimizer";
  name: string;
  begin: number;
  end: number;
}

// A bucket's reduction, in seconds since the step's start.
export interface Sum {
  ready?: number; // its last gradient; absent where that is not known
  start: number;
  end: number;
}

// Lengths as SVG takes them.
export interface Stretch {
  x: string;
  width: string;
}

const kLeastShare = 0.0015; // so that what is short can be seen, unless it takes no time at all

export function stretch(begin: number, end: number, span: number): Stretch | null {
  if (!(end > begin) || !(span > 0)) return null;
  const share = (seconds: number) => Math.max(0, Math.min(1, seconds / span));
  const from = Math.min(share(begin), 1 - kLeastShare);
  const width = Math.max(kLeastShare, share(end) - from);
  const percent = (value: number) => `${(100 * value).toFixed(3)}%`;
  return { x: percent(from), width: percent(width) };
}

// The wait for the stream, the part that the backward pass covers, and the part after its end.
export function sumBars(
  { ready, start, end }: Sum,
  covered: number,
  span: number,
): { waiting: Stretch | null; hidden: Stretch | null; exposed: Stretch | null } {
  const split = Math.max(start, Math.min(end, covered));
  return {
    waiting: ready == null ? null : stretch(ready, start, span),
    hidden: stretch(start, split, span),
    exposed: stretch(split, end, span),
  };
}

const kMostTicks = 7;

// Round times for the axis, none at its right edge, where the unit would be cut off.
export function ticks(span: number): number[] {
  const rough = span / 6;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((digit) => digit * power).find((one) => one >= rough) ?? rough;
  return Array.from({ length: kMostTicks }, (_, i) => i * step).filter((at) => at <= span * 0.96);
}

export interface RowLayout {
  row: number; // px of a row
  top: number; // px, of the first one
  bottom: number;
  every: number; // one label for as many rows
}

const kRowHeight = 18; // px
const kRowsHeight = 260; // px, at most
const kLabelHeight = 15; // px
const kTop = 24; // px: the ranks' own row

export function rowLayout(rows: number): RowLayout {
  const row = Math.min(kRowHeight, kRowsHeight / Math.max(1, rows));
  const bottom = kTop + row * rows + 4;
  return { row, top: kTop, bottom, every: Math.ceil(kLabelHeight / row) };
}
