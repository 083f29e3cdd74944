import { useMemo, useRef, useState } from "preact/hooks";
import type { PlannedStep, Timeline } from "../base/api";
import { api } from "../base/api";
import * as show from "../base/format";
import { usePoll } from "../base/poll";
import type { Table } from "../parts/chart_data";
import { pictureOfDrawing } from "../parts/picture";
import { rowLayout, ticks } from "../parts/timeline";
import { useTwin } from "../parts/twin";
import { useWidth } from "../parts/width";
import type { Comparison } from "./measured";
import { compare, isOtherCut } from "./measured";

const ms = show.milliseconds;
const kAxis = 20; // px
const kTitle = "Predicted against measured";

function summaryOf(found: Comparison, step: PlannedStep, timeline: Timeline): string {
  const change = show.change(found.measuredSum / found.predictedSum - 1);
  return (
    `Reductions of ${found.pairs.length} buckets take ${ms(found.predictedSum)} as predicted, ` +
    `${ms(found.measuredSum)} as measured in step ${show.count(timeline.step)} (${change}); ` +
    `exposed ${ms(step.exposed_seconds)} predicted, ${ms(timeline.exposed_seconds)} measured` +
    (found.median == null ? "" : `; half of them are off by ${show.percent(found.median)} or less`)
  );
}

// Of each bucket two bars, above the predicted, below the measured one; all of a kind are a path.
function Drawing({ found, width, summary }: { found: Comparison; width: number; summary: string }) {
  const { row, bottom, every } = rowLayout(found.pairs.length);
  const top = 4;
  const height = bottom - 20;
  const label = 64;
  const x = (seconds: number) => label + ((width - label - 4) * Math.max(0, seconds)) / found.span;
  const half = Math.max(0.75, row / 2 - 1);
  const bar = ({ start, end }: { start: number; end: number }, y: number) => {
    const from = x(start).toFixed(1);
    const to = Math.max(x(start) + 0.8, x(end)).toFixed(1);
    return `M${from} ${y.toFixed(1)}H${to}v${half.toFixed(2)}H${from}z`;
  };
  let predicted = "";
  let measured = "";
  found.pairs.forEach((pair, i) => {
    const y = top + row * i;
    predicted += bar(pair.predicted, y);
    measured += bar(pair.measured, y + half);
  });
  const marks = ticks(found.span);
  return (
    <svg class="against" width={width} height={height + kAxis} role="img" aria-label={summary}>
      {marks.map((tick) => (
        <line key={tick} x1={x(tick)} x2={x(tick)} y1={0} y2={height} />
      ))}
      {found.pairs.map(
        (pair, i) =>
          i % every === 0 && (
            <text key={pair.index} class="name" x={label - 6} y={top + row * (i + 0.5) - 1}>
              {show.bytes(pair.bytes)}
            </text>
          ),
      )}
      <path class="predicted" d={predicted} />
      <path class="measured" d={measured} />
      {marks.map((tick, i) => (
        <text key={tick} class={i === 0 ? "first" : ""} x={x(tick)} y={height + 12}>
          {i === 0 ? "0" : `${Number((tick * 1000).toPrecision(6))} ms`}
        </text>
      ))}
    </svg>
  );
}

const kMs = 1000;

function tableOf(found: Comparison): Table {
  return {
    columns: [
      "Bucket",
      "Bytes",
      "Predicted begin (ms)",
      "Predicted end (ms)",
      "Measured begin (ms)",
      "Measured end (ms)",
      "Predicted length (ms)",
      "Measured length (ms)",
      "Difference (%)",
    ],
    rows: found.pairs.map(({ index, bytes, predicted, measured, change }) => [
      index + 1,
      bytes,
      kMs * predicted.start,
      kMs * predicted.end,
      kMs * measured.start,
      kMs * measured.end,
      kMs * (predicted.end - predicted.start),
      kMs * (measured.end - measured.start),
      change == null ? null : 100 * change,
    ]),
  };
}

// What the run's own trial of cuts chose, where it made one.
function Tried({ run }: { run: string }) {
  const [words, setWords] = useState<string | null>(null);
  usePoll(run, 15_000, async (signal) => {
    const { events } = await api.events(run, "kind=plan.tried&limit=1", signal);
    setWords(events[events.length - 1]?.words ?? null);
  });
  return words && <p class="small">Its trial of cuts {show.withoutEscapes(words)}.</p>;
}

// The newest step of the run beside the step that the plan foresaw.
export function Measured({
  run,
  step,
  timeline,
}: {
  run: string;
  step: PlannedStep;
  timeline: Timeline;
}) {
  const place = useRef<HTMLDivElement>(null);
  const width = useWidth(place);
  const found = useMemo(() => compare(step, timeline), [step, timeline]);
  const twin = useTwin({
    title: kTitle,
    table: () => (found ? tableOf(found) : { columns: [], rows: [] }),
    picture: async () => place.current && pictureOfDrawing(kTitle, place.current),
  });
  if (!found && !isOtherCut(step, timeline)) return null;
  const text = found ? summaryOf(found, step, timeline) : "";
  return (
    <section class="plan-more" aria-label={kTitle}>
      <h2>{kTitle}</h2>
      {!found && (
        <p class="nothing">
          The newest step was reduced in {show.count(timeline.bucket_count)} buckets, the plan
          has {show.count(step.buckets.length)}
          {timeline.bucket_count === step.buckets.length && " of other sizes"}: they cannot be
          compared one by one.
        </p>
      )}
      {!found && <Tried run={run} />}
      {found && (
        <>
          <p class="against-text">{text}.</p>
          <div ref={place}>
            {width > 0 && <Drawing found={found} width={width} summary={text} />}
          </div>
          <p class="legend">
            <span class="predicted-key">predicted</span>
            <span class="measured-key">measured, with the time that loading data took before</span>
          </p>
          {found.pairs.length < timeline.bucket_count && (
            <p class="small">
              {found.pairs.length} of {show.count(timeline.bucket_count)} buckets, spread evenly.
            </p>
          )}
          <div class="bars-tools">{twin.tools}</div>
          {twin.table}
        </>
      )}
    </section>
  );
}
