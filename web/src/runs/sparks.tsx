import { useRef, useState } from "preact/hooks";
import type { Charts, RunRow } from "../base/api";
import { api } from "../base/api";
import * as show from "../base/format";
import { usePoll } from "../base/poll";

// The small curves of a list: a run's metric by steps, in as many buckets as have room.
export interface Curve {
  step: number; // of the run when it was asked for
  points: [number, number][]; // [step, value], in order
}

const kBuckets = 24;
const kMostRuns = 16; // of a request
const kEvery = 5000; // ms

export function curvesOf(charts: Charts): Map<string, [number, number][]> {
  const found = new Map<string, [number, number][]>();
  for (const { id, evaluations } of charts.runs) {
    const points: [number, number][] = [];
    evaluations.buckets.forEach((bucket, index) => {
      const last = evaluations.series.metric?.[index]?.[2];
      if (!bucket.abandoned && last != null) points.push([bucket.to_step, last]);
    });
    found.set(id, points.sort((a, b) => a[0] - b[0]));
  }
  return found;
}

// The curves of these runs; those of a run that goes on are asked for again now and then.
export function useCurves(runs: RunRow[], wanted: boolean): Map<string, Curve> {
  const [curves, setCurves] = useState(new Map<string, Curve>());
  const latest = useRef({ runs, curves });
  latest.current = { runs, curves };
  const first = runs.find((run) => run.value != null && !curves.has(run.id));
  usePoll(wanted ? `curves ${first?.id ?? ""}` : null, kEvery, async (signal) => {
    const { runs: rows, curves: known } = latest.current;
    const stale = rows.filter(
      (run) => run.value != null && known.get(run.id)?.step !== run.step,
    );
    const next = new Map<string, Curve>();
    for (const run of rows) {
      const curve = known.get(run.id);
      if (curve) next.set(run.id, curve);
    }
    for (let i = 0; i < stale.length; i += kMostRuns) {
      const some = stale.slice(i, i + kMostRuns);
      const ids = some.map((run) => encodeURIComponent(run.id)).join(",");
      const query = `runs=${ids}&series=metric&x=step&buckets=${kBuckets}`;
      const found = curvesOf(await api.charts(query, signal));
      for (const run of some) next.set(run.id, { step: run.step, points: found.get(run.id) ?? [] });
    }
    if (stale.length > 0) setCurves(next);
  });
  return curves;
}

const kWidth = 84;
const kHeight = 20;
const kMargin = 2;

export function Spark({ run, curve }: { run: RunRow; curve: Curve | undefined }) {
  const points = curve?.points ?? [];
  const last = points[points.length - 1];
  if (!last) return null;
  const values = points.map((point) => point[1]);
  if (run.target != null) values.push(run.target);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const from = Math.min(points[0]?.[0] ?? 0, last[0]);
  const x = (step: number) =>
    kMargin + ((kWidth - 2 * kMargin) * (step - from)) / Math.max(1, last[0] - from);
  const y = (value: number) =>
    kHeight - kMargin - ((kHeight - 2 * kMargin) * (value - low)) / (high - low || 1);
  const line = points.map(([step, value]) => `${x(step).toFixed(1)},${y(value).toFixed(1)}`);
  const text =
    `${show.metricTitle(run.metric)} ${show.metric(run.metric, last[1], run.target)} ` +
    `at step ${show.count(last[0])}`;
  return (
    <svg class="spark" width={kWidth} height={kHeight} role="img" aria-label={text}>
      {run.target != null && (
        <line x1={0} x2={kWidth} y1={y(run.target)} y2={y(run.target)} class="target" />
      )}
      {points.length > 1 && <polyline points={line.join(" ")} />}
      <circle cx={x(last[0])} cy={y(last[1])} r={2} />
    </svg>
  );
}
