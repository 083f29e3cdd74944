// How the curve of a resumed run is drawn, the same in every view: what counts is a solid line, and
// what was trained again since a thin dashed one. Neither goes on from one attempt to the next, nor
// over what was trained again: along a clock there is a gap, as nothing that counts was measured.
import type { Line } from "./chart_data";

export interface Placed {
  x: number;
  value: number | null;
  attempt: number | null; // null: not known
  again: boolean; // trained again since
}

export interface Branch {
  x: number[]; // growing
  y: (number | null)[];
  starts: number[]; // where a piece begins that does not go on from the point before
}

export const kAgainName = "trained again since";

// The line of what was trained again, beside that of what counts.
export const againLine = (line: Line): Line => ({
  ...line,
  ...{ width: 1, opacity: 0.6 * (line.opacity ?? 1), dash: [3, 3] },
});

// Points in the order in which they were measured, as the two lines.
export function branchesOf(points: Placed[]): { kept: Branch; again: Branch } {
  let piece = 0;
  const placed = points.map((point, i) => {
    const before = points[i - 1];
    if (before && (before.attempt !== point.attempt || before.again !== point.again)) piece += 1;
    return { ...point, piece };
  });
  const branch = (again: boolean): Branch => {
    const of = placed.filter((point) => point.again === again).sort((a, b) => a.x - b.x);
    const found: Branch = { x: [], y: [], starts: [] };
    let last: number | null = null;
    for (const { x, value, piece } of of) {
      if (found.x.length > 0 && !(x > (found.x[found.x.length - 1] ?? x))) continue;
      if (last != null && piece !== last) found.starts.push(x);
      found.x.push(x);
      found.y.push(value);
      last = piece;
    }
    return found;
  };
  return { kept: branch(false), again: branch(true) };
}

// First and last index of each piece that has a value.
export function piecesOf(
  xs: ArrayLike<number>,
  values: ArrayLike<number | null | undefined>,
  starts: readonly number[],
): [number, number][] {
  const pieces: [number, number][] = [];
  let next = 0;
  let isNew = true;
  for (let i = 0; i < xs.length; i += 1) {
    if (values[i] == null) continue;
    while (next < starts.length && (starts[next] ?? 0) <= (xs[i] ?? 0)) {
      isNew = true;
      next += 1;
    }
    const piece = pieces[pieces.length - 1];
    if (isNew || !piece) pieces.push([i, i]);
    else piece[1] = i;
    isNew = false;
  }
  return pieces;
}
