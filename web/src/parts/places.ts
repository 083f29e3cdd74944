// At which step, and in which attempt, what a chart shows at a place of its axis was measured: what
// its table says of each run beside the values.
import type { Series } from "../base/api";
import type { Table } from "./chart_data";

export type Places = ReadonlyMap<number, { step: number; attempt: number }>; // by place

// Of the values of one series that count, or of those that were trained again since.
export function placesIn(series: Series | undefined, name: string, again: boolean): Places {
  const found = new Map<number, { step: number; attempt: number }>();
  series?.buckets.forEach(({ to, to_step: step, attempt, abandoned }, index) => {
    if (abandoned !== again || found.has(to)) return;
    if (series.series[name]?.[index]?.[2] != null) found.set(to, { step, attempt });
  });
  return found;
}

// Along steps the place is the step.
export function withPlaces(
  { columns, rows }: Table,
  along: ArrayLike<number>,
  lines: { name: string; places: Places }[],
  isBySteps: boolean,
): Table {
  const told = lines.filter(({ places }) => places.size > 0);
  const heads = isBySteps ? ["Attempt"] : ["Step", "Attempt"];
  const named = ({ name }: { name: string }) =>
    told.length === 1 ? heads : heads.map((head) => `${name}: ${head.toLowerCase()}`);
  const cells = (row: number) =>
    told.flatMap(({ places }) => {
      const place = places.get(along[row] ?? Number.NaN);
      const attempt = place?.attempt ?? null;
      return isBySteps ? [attempt] : [place?.step ?? null, attempt];
    });
  return {
    columns: [...columns, ...told.flatMap(named)],
    rows: rows.map((row, index) => [...row, ...cells(index)]),
  };
}
