// Where the drawing of a sweep has its axes and lines: side by side, or on a narrow screen one
// below the other, which is the same turned by a quarter.
import type { Axis } from "./axes";
import { kLaneEnd, placeOf } from "./axes";
import type { Trial } from "./sweeps_api";

export interface Layout {
  isRows: boolean;
  width: number;
  height: number;
  gap: number; // between axes
  across: (index: number) => number; // where an axis lies
  along: (place: number) => number; // where on it a place is
  placeAt: (x: number, y: number) => number;
}

export type Point = readonly [x: number, y: number];

const kLeastGap = 108; // px between axes side by side, with their marks and titles
const kHeight = 380; // px
const kHead = 58; // px, of titles and the upper handles
const kFoot = 28; // px, of the lower handles
const kSides = 80; // px beside the outer axes
const kRow = 88; // px between axes one below the other
const kRowHead = 36;
const kRowFoot = 26; // px, of marks
const kSide = 28;

export function layoutOf(width: number, axes: number, hasLane: boolean): Layout {
  const between = Math.max(1, axes - 1);
  const gap = (width - 2 * kSides) / between;
  const isRows = gap < kLeastGap;
  const [from, to] = isRows ? [kSide, width - kSide] : [kHeight - kFoot, kHead];
  const first = hasLane ? kLaneEnd : 0; // the place at `from`
  const size = (to - from) / (1 - first);
  const along = (place: number) => from + (place - first) * size;
  const back = (at: number) => first + (at - from) / size;
  return isRows
    ? {
        ...{ isRows, width, gap: kRow, along },
        height: kRowHead + (axes - 1) * kRow + kRowFoot,
        across: (index) => kRowHead + index * kRow,
        placeAt: (x) => back(x),
      }
    : {
        ...{ isRows, width, gap, along, height: kHeight },
        across: (index) => kSides + index * gap,
        placeAt: (_x, y) => back(y),
      };
}

export function pointAt(layout: Layout, index: number, place: number): Point {
  const [across, along] = [layout.across(index), layout.along(place)];
  return layout.isRows ? [along, across] : [across, along];
}

export const pointsOf = (layout: Layout, axes: Axis[], trial: Trial): Point[] =>
  axes.map((axis, index) => pointAt(layout, index, placeOf(axis, trial)));

export const wayOf = (points: Point[]) =>
  `M${points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L")}`;

function distance([x, y]: Point, [ax, ay]: Point, [bx, by]: Point): number {
  const [dx, dy] = [bx - ax, by - ay];
  const square = dx * dx + dy * dy;
  const share = square === 0 ? 0 : ((x - ax) * dx + (y - ay) * dy) / square;
  const t = Math.max(0, Math.min(1, share));
  return Math.hypot(x - ax - t * dx, y - ay - t * dy);
}

// The line that is nearest to a point, and within reach.
export function nearest<Line extends { points: Point[] }>(
  lines: Line[],
  at: Point,
  reach: number,
): Line | null {
  let found: Line | null = null;
  let least = reach;
  for (const line of lines) {
    for (let i = 1; i < line.points.length; i += 1) {
      const [a, b] = [line.points[i - 1], line.points[i]];
      const far = a && b ? distance(at, a, b) : Infinity;
      if (far >= least) continue;
      least = far;
      found = line;
    }
  }
  return found;
}
