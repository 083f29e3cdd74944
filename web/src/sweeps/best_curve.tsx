import { useMemo, useState } from "preact/hooks";
import type uPlot from "uplot";
import * as show from "../base/format";
import type { Axis, Line, Span } from "../parts/chart";
import { Chart } from "../parts/chart";
import { Swatch } from "../parts/swatch";
import { bestSoFar, objectiveText, objectiveTitle, rangeOf } from "./objective";
import type { Sweep } from "./sweeps_api";

const kTrialAxis: Axis = { name: "Trial", isClock: false };
const kBest: Line = { name: "Best so far", colour: "accent", width: 2.25, shape: "steps" };
const kEach: Line = {
  ...{ name: "Each trial", colour: "muted", width: 1 },
  ...{ shape: "points", points: 2000 },
};
const kRoom = 0.08; // of the range, above and below

// What each trial came to, and the best up to there.
export function BestCurve({ sweep }: { sweep: Sweep }) {
  const { objective, trials } = sweep;
  const [zoom, onZoom] = useState<Span | null>(null);
  const steps = useMemo(() => bestSoFar(objective, trials), [sweep]);
  const data = useMemo(
    () =>
      [
        steps.map(({ number }) => number),
        steps.map(({ objective: value }) => value),
        steps.map(({ best }) => best),
      ] as uPlot.AlignedData,
    [steps],
  );
  const last = steps[steps.length - 1];
  const full = useMemo(
    () => ({ min: 0.5, max: Math.max(2, (last?.number ?? 1) + 0.5) }),
    [last?.number],
  );
  if (last?.best == null) return null;
  const title = `Best ${objectiveTitle(objective)} so far`;
  const text = (value: number | null) => objectiveText(objective, value);
  return (
    <Chart
      title={title}
      summary={
        `${title}: ${text(last.best)} of trial ${last.bestTrial} ` +
        `after ${show.count(last.number)} trials`
      }
      readout={(index) => {
        const step = index == null ? last : steps[index];
        return (
          step && (
            <>
              <span class="line-key">
                <Swatch look={{ colour: "accent", dash: [] }} /> best <b>{text(step.best)}</b>
              </span>
              trial {show.count(step.number)}: {text(step.objective)}
            </>
          )
        );
      }}
      height={220}
      data={data}
      lines={[kEach, kBest]}
      full={full}
      values={(low, high) => {
        const near = rangeOf(objective, steps.flatMap((step) => step.objective ?? []));
        const from = Math.max(low ?? 0, near?.[0] ?? -Infinity);
        const to = Math.max(from, Math.min(high ?? 1, near?.[1] ?? Infinity));
        const room = kRoom * (to > from ? to - from : Math.abs(to) || 1);
        return [from - room, to + room];
      }}
      format={(value) => text(value)}
      x={kTrialAxis}
      sync={null}
      zoom={zoom}
      onZoom={onZoom}
      file={sweep.id}
      of={sweep.name}
    />
  );
}
