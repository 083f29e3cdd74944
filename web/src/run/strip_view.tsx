import { useId, useMemo, useRef, useState } from "preact/hooks";
import type { Checkpoint, Run } from "../base/api";
import * as show from "../base/format";
import { ErrorPanel } from "../parts/notices";
import { pictureOfDrawing } from "../parts/picture";
import { useTwin } from "../parts/twin";
import type { ToldAttempts } from "./attempts";
import type { History } from "./history";
import type { Segment, Strip } from "./strip";
import { strips } from "./strip";
import type { Place } from "./strip_figures";
import { movedBy, named, tableOfStrips, timeMarks, totals } from "./strip_figures";

const kRow = 22; // px
const kGap = 8; // px
const kShown = 6; // attempts, until all are asked for
const kTitle = "Timeline of attempts";

const clean = show.withoutEscapes;
const shortName = (strip: Strip) => (strip.isNext ? "next" : named(strip).toLowerCase());

function segmentText(segment: Segment): string {
  const note = segment.note ? ` (${clean(segment.note)})` : "";
  return (
    `${segment.kind} for ${show.duration(segment.to - segment.from)}, ` +
    `from ${show.clock(segment.from)} to ${show.clock(segment.to)}${note}`
  );
}

function Row({
  strip,
  y,
  span,
  chosen,
}: {
  strip: Strip;
  y: number;
  span: number;
  chosen: number;
}) {
  const at = (seconds: number) => `${((100 * seconds) / span).toFixed(3)}%`;
  const width = (one: Segment) =>
    `${Math.max(0.15, (100 * (one.to - one.from)) / span).toFixed(3)}%`;
  return (
    <>
      {strip.segments.map((one, i) => {
        const beside = one.kind === "checkpointing"; // training goes on
        const height = beside ? 5 : kRow;
        const wide = (one.to - one.from) / span > 0.016 * one.kind.length;
        return (
          <g key={i}>
            <rect
              class={`${one.kind} ${i === chosen ? "chosen" : ""}`}
              x={at(one.from)}
              width={width(one)}
              y={beside ? y + kRow - height : y}
              height={height}
            />
            {wide && !beside && (
              <text class={`on-${one.kind}`} x={at((one.from + one.to) / 2)} y={y + kRow / 2}>
                {one.kind}
              </text>
            )}
            <title>{segmentText(one)}</title>
          </g>
        );
      })}
      {strip.marks.map((mark, i) => (
        <g key={`m${i}`}>
          <rect
            class={`mark-${mark.kind}`}
            x={at(mark.at)}
            width={1.5}
            y={mark.kind === "evaluation" ? y - 3 : y + kRow - 3}
            height={6}
          />
          <title>{`${mark.kind}, ${clean(mark.note)}, at ${show.clock(mark.at)}`}</title>
        </g>
      ))}
    </>
  );
}

// A text at an edge lies within it.
const sideOf = (mark: number, span: number) =>
  mark === 0 ? "first" : mark > 0.9 * span ? "last" : "";

function Drawing({ list, chosen }: { list: Strip[]; chosen: Place | null }) {
  const span = Math.max(1, ...list.map((strip) => strip.to));
  const marks = timeMarks(span, 5);
  const height = list.length * (kRow + kGap) + kGap;
  const at = (seconds: number) => `${((100 * seconds) / span).toFixed(3)}%`;
  return (
    <>
      <svg class="names" height={height + 18} aria-hidden="true">
        {list.map((strip, i) => (
          <text key={i} x="100%" y={kGap + i * (kRow + kGap) + kRow / 2}>
            {shortName(strip)}
          </text>
        ))}
      </svg>
      <svg class="bars" height={height + 18} aria-hidden="true">
        {marks.map((mark) => (
          <line key={mark} x1={at(mark)} x2={at(mark)} y1={0} y2={height} />
        ))}
        {list.map((strip, i) => (
          <Row
            key={i}
            strip={strip}
            y={kGap + i * (kRow + kGap)}
            span={span}
            chosen={chosen?.strip === i ? chosen.segment : -1}
          />
        ))}
        {marks.map((mark) => (
          <text key={mark} class={sideOf(mark, span)} x={at(mark)} y={height + 10}>
            {show.clock(mark)}
          </text>
        ))}
      </svg>
    </>
  );
}

function summaryOf(list: Strip[]): string {
  const parts = totals(list).map(
    ({ kind, seconds, isAbout }) => `${kind} ${isAbout ? "about " : ""}${show.duration(seconds)}`,
  );
  const amount = list.filter((strip) => strip.attempt != null).length;
  const attempts = amount === 1 ? "1 attempt" : `${amount} attempts`;
  return `${attempts} since the submission: ${parts.join(", ")}`;
}

// Of marks, which have no length.
const kMarks = [
  ["evaluation", "marks above: evaluations"],
  ["checkpoint", "marks below: checkpoints"],
] as const;

function Legend({ list }: { list: Strip[] }) {
  const marks = list.flatMap((strip) => strip.marks);
  return (
    <p class="legend strip-legend">
      {totals(list).map(({ kind, seconds, count, isAbout }) => (
        <span key={kind} class={kind}>
          {kind} {isAbout && "about "}
          {show.duration(seconds)}
          {kind === "checkpointing" && " (of those still there)"}
          {count > 1 && kind !== "training" && `, ${count} times`}
        </span>
      ))}
      {kMarks
        .filter(([kind]) => marks.some((mark) => mark.kind === kind))
        .map(([kind, text]) => (
          <span key={kind} class={`mark-${kind}`}>
            {text}
          </span>
        ))}
    </p>
  );
}

function StripFigure({ all, file, name }: { all: Strip[]; file: string; name: string }) {
  const [every, setEvery] = useState(false);
  const [chosen, setChosen] = useState<Place | null>(null);
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<HTMLDivElement>(null);
  const help = useId();
  const list = every ? all : all.slice(-kShown);
  const picture = async () =>
    place.current && pictureOfDrawing(`${kTitle} · ${show.drawnName(name)}`, place.current);
  const twin = useTwin({ title: kTitle, file, table: () => tableOfStrips(all), picture });
  const showAll = () => {
    setEvery(true);
    plot.current?.focus(); // the button that had the focus goes
  };
  const press = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const next = movedBy(event.key, chosen, list.map((strip) => strip.segments.length));
    if (next) setChosen(next);
    else if (event.key === "Escape" && chosen) setChosen(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const strip = chosen && list[chosen.strip];
  const segment = chosen && strip?.segments[chosen.segment];
  return (
    <figure class="chart strip">
      <figcaption>
        <h2>{kTitle}</h2>
        <span class="readout" aria-live="polite">
          {strip && segment ? `${named(strip)}: ${segmentText(segment)}` : ""}
        </span>
        {twin.tools}
      </figcaption>
      <div
        class="plot"
        role="application"
        aria-roledescription="timeline"
        aria-label={kTitle}
        aria-describedby={help}
        tabIndex={0}
        ref={plot}
        onKeyDown={press}
        onBlur={() => setChosen(null)}
      >
        <div class="timeline" role="img" aria-label={summaryOf(all)} ref={place}>
          <Drawing list={list} chosen={chosen} />
        </div>
        <span id={help} hidden>
          Arrow keys move through the parts of an attempt, and up and down from attempt to attempt.
        </span>
      </div>
      <Legend list={all} />
      {!every && all.length > kShown && (
        <p class="small">
          The last {kShown} of {all.length} are drawn.{" "}
          <button type="button" class="quiet" onClick={showAll}>
            Show all {all.length} attempts
          </button>
        </p>
      )}
      {twin.table}
    </figure>
  );
}

// Where the run was since its submission, attempt by attempt.
export function StripView({
  run,
  history,
  checkpoints,
  attempts: { told, requeues, health },
}: {
  run: Run;
  history: History;
  checkpoints: Checkpoint[];
  attempts: ToldAttempts;
}) {
  const list = useMemo(() => {
    if (!told) return [];
    const { steps, evaluations } = history;
    return strips({ run, told, steps, evaluations, checkpoints, requeues });
  }, [run, told, history, checkpoints, requeues]);
  if (health.refusal) {
    return <ErrorPanel title="The timeline cannot be shown" text={health.refusal.message} />;
  }
  if (!told || list.length === 0) return null;
  return <StripFigure all={list} file={run.id} name={run.name} />;
}
