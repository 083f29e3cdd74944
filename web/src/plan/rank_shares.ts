// What each rank did in one step. Nothing here draws.
import type { RankShares } from "../base/api";

export type Quantity = "tokens" | "compute_seconds";

export interface Spread {
  least: number;
  most: number;
  mean: number;
  worst: number; // rank with the most
}

// null where no rank tells.
export function spreadOf(values: (number | null)[]): Spread | null {
  let worst = -1;
  let [least, sum, count] = [Infinity, 0, 0];
  values.forEach((value, rank) => {
    if (value == null) return;
    least = Math.min(least, value);
    sum += value;
    count += 1;
    if (worst < 0 || value > (values[worst] ?? -Infinity)) worst = rank;
  });
  const most = values[worst];
  return most == null ? null : { least, most, mean: sum / count, worst };
}

const kFar = 1.1; // of the mean: a tenth of all ranks' time

// The ranks that the others wait for, most of all first: with a tenth more than the mean.
export function farAbove(values: (number | null)[]): number[] {
  const spread = spreadOf(values);
  if (!spread || !(spread.mean > 0)) return [];
  const of = (rank: number) => values[rank] ?? 0;
  return values
    .map((_, rank) => rank)
    .filter((rank) => of(rank) > kFar * spread.mean)
    .sort((a, b) => of(b) - of(a));
}

// As bars on a ground of this size: one path of all but these ranks, and one of them.
export function barsOf(
  values: (number | null)[],
  marked: Set<number>,
  { width, height }: { width: number; height: number },
): { all: string; far: string } {
  const most = spreadOf(values)?.most ?? 0;
  const each = width / Math.max(1, values.length);
  const gap = each >= 3 ? 1 : 0;
  const bars = { all: "", far: "" };
  values.forEach((value, rank) => {
    if (value == null || !(most > 0)) return;
    const high = (height * Math.max(0, value)) / most;
    const [x, wide] = [(each * rank).toFixed(2), Math.max(0.5, each - gap).toFixed(2)];
    const bar = `M${x} ${height}v${(-high).toFixed(2)}h${wide}V${height}z`;
    if (marked.has(rank)) bars.far += bar;
    else bars.all += bar;
  });
  return bars;
}

export const isTold = (shares: RankShares | null | undefined): shares is RankShares =>
  shares != null && shares.tokens.length > 1;
