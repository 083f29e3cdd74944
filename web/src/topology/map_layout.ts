// Where the cells of a map of nodes lie: a row of cells for each group, wrapped to the width, and
// before it the switches that join the groups, the highest level on the left.
import type { Tier } from "./fabric";

export const kPitch = 24; // px from cell to cell, the least size of a target
export const kCell = 20;
const kBar = 16;
const kBarGap = 14;
const kLabel = 112; // of a group
const kGroupGap = 6;
const kMostCells = 4096;

export interface MapGroup {
  name: string;
  title?: string; // all of it, where the name is short
  nodes: string[];
}
interface Placed {
  node: string;
  group: number;
  x: number;
  y: number;
}
export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}
export interface MapLayout {
  cells: Placed[];
  labels: (Box & { group: number })[];
  bars: (Box & { tier: number })[];
  wires: { x1: number; x2: number; y: number }[];
  width: number;
  height: number;
  left: number; // where cells begin
  perLine: number;
  leftOut: number; // nodes that are not drawn
}

export function layoutMap(groups: MapGroup[], tiers: Tier[], width: number): MapLayout {
  const levels = [...new Set(tiers.map((tier) => tier.level))].sort((a, b) => b - a);
  const named = groups.length > 1 || (groups[0]?.name ?? "") !== "";
  const labelAt = levels.length * (kBar + kBarGap);
  const left = labelAt + (named ? kLabel + 8 : 0);
  const perLine = Math.max(1, Math.floor((width - left) / kPitch));
  const cells: Placed[] = [];
  const labels: MapLayout["labels"] = [];
  let y = 0;
  let leftOut = 0;
  groups.forEach(({ nodes }, group) => {
    const room = Math.max(0, kMostCells - cells.length);
    const shown = nodes.slice(0, room);
    leftOut += nodes.length - shown.length;
    if (shown.length === 0) return;
    shown.forEach((node, i) => {
      const [column, line] = [i % perLine, Math.floor(i / perLine)];
      cells.push({ node, group, x: left + column * kPitch, y: y + line * kPitch });
    });
    const lines = Math.ceil(shown.length / perLine);
    if (named) labels.push({ group, x: labelAt, y, width: kLabel, height: kCell });
    y += lines * kPitch + (named ? kGroupGap : 0);
  });
  const bars: MapLayout["bars"] = [];
  const wires: MapLayout["wires"] = [];
  tiers.forEach((tier, index) => {
    const joined = labels.filter(({ group }) => tier.groups.includes(group));
    const [first, last] = [joined[0], joined[joined.length - 1]];
    if (!first || !last) return;
    const x = levels.indexOf(tier.level) * (kBar + kBarGap);
    bars.push({ tier: index, x, y: first.y, width: kBar, height: last.y + kCell - first.y });
    const lowest = tiers.every((other) => other.level >= tier.level);
    const to = lowest ? labelAt : x + kBar + kBarGap;
    for (const { y: top } of joined) wires.push({ x1: x + kBar, x2: to, y: top + kCell / 2 });
  });
  return { cells, labels, bars, wires, width, height: Math.max(kCell, y), left, perLine, leftOut };
}

// The cell that an arrow key leads to from this one.
export function neighbour(cells: Placed[], from: number, key: string): number {
  const here = cells[from];
  if (!here) return 0;
  if (key === "Home") return 0;
  if (key === "End") return cells.length - 1;
  if (key === "ArrowRight") return Math.min(cells.length - 1, from + 1);
  if (key === "ArrowLeft") return Math.max(0, from - 1);
  const down = key === "ArrowDown";
  const beyond = cells.filter(({ y }) => (down ? y > here.y : y < here.y));
  if (beyond.length === 0) return from;
  const line = down ? Math.min(...beyond.map(({ y }) => y)) : Math.max(...beyond.map(({ y }) => y));
  const best = beyond
    .filter(({ y }) => y === line)
    .reduce((a, b) => (Math.abs(b.x - here.x) < Math.abs(a.x - here.x) ? b : a));
  return cells.indexOf(best);
}

// The cell at a point, if one is there.
export function cellAt(cells: Placed[], x: number, y: number): number | null {
  const found = cells.findIndex(
    (cell) => x >= cell.x && x < cell.x + kPitch && y >= cell.y && y < cell.y + kPitch,
  );
  return found < 0 ? null : found;
}
