import { useMemo, useRef } from "preact/hooks";
import * as show from "../base/format";
import { setQuery } from "../base/route";
import { pictureOfDrawing } from "../parts/picture";
import { useTwin } from "../parts/twin";
import { useWidth } from "../parts/width";
import type { Experiment, FigureKey } from "./experiments_api";
import type { Lane } from "./figures";
import { figureText, isFigure, kFigures, lanesOf, meanText, scaleOf, tableOfLanes } from "./figures";

const kWide = 620; // px, from where names stand beside their lanes
const kNames = 190; // px, of these
const kLane = { wide: 44, narrow: 58 }; // px
const kFoot = 24; // px, of marks
const kSide = 14; // px beside the lanes
const kRadius = 4;
const kSpread = 16; // px, of seeds in a lane
const kMostLetters = 24;
const kLeastApart = 62; // px between marks

const dot = (x: number, y: number) =>
  `M${x - kRadius} ${y}a${kRadius} ${kRadius} 0 1 0 ${2 * kRadius} 0a${kRadius} ${kRadius} 0 1 0 ${-2 * kRadius} 0`;

// Seeds of about the same value are seen beside each other.
const asideOf = (i: number, count: number) =>
  count < 2 ? 0 : (i - (count - 1) / 2) * Math.min(kSpread / 2, kSpread / (count - 1));

function nameOf({ layout }: Lane): string {
  const letters = Array.from(show.drawnName(layout.name));
  return letters.length > kMostLetters ? `${letters.slice(0, kMostLetters - 1).join("")}…` : letters.join("");
}

const summaryOf = (lanes: Lane[], key: FigureKey) =>
  `${kFigures[key].title} of each seed, by layout: ` +
  lanes.map((lane) => `${show.drawnName(lane.layout.name)} ${meanText(key, lane.mean)}`).join("; ");

// A lane: seeds as dots, the mean as a line across, a deviation to either side of it as a bar.
function LaneView({ lane, figure, top, isWide, at }: {
  lane: Lane;
  figure: FigureKey;
  top: number;
  isWide: boolean;
  at: (value: number) => number;
}) {
  const { mean, points } = lane;
  const text = mean ? meanText(figure, mean) : "no run has it";
  const middle = top + (isWide ? kLane.wide / 2 : kLane.narrow - 18);
  const factor = kFigures[figure].isShare ? 100 : 1;
  const center = factor * (mean?.mean ?? 0);
  const spread = factor * (mean?.deviation ?? 0);
  const [left, right] = [at(center - spread), at(center + spread)];
  return (
    <g>
      <text class="lane-name" x={isWide ? 0 : kSide} y={isWide ? middle - 3 : top + 18}>
        {nameOf(lane)}
        {!isWide && (
          <tspan class="lane-value" dx={10}>
            {text}
          </tspan>
        )}
      </text>
      {isWide && (
        <text class="lane-value" x={0} y={middle + 13}>
          {text}
        </text>
      )}
      {mean && (
        <>
          <rect class="spread" x={left} y={middle - 8} width={Math.max(1, right - left)} height={16} />
          <line class="mean" x1={at(center)} x2={at(center)} y1={middle - 11} y2={middle + 11} />
        </>
      )}
      {points.map(({ run, value }, i) => (
        <path key={run.id} class="seed" d={dot(at(value), middle + asideOf(i, points.length))}>
          <title>{`seed ${run.seed}: ${figureText(figure, run.figures[figure])}, ${show.drawnName(run.id)}`}</title>
        </path>
      ))}
    </g>
  );
}

function Lanes({ lanes, figure, width }: { lanes: Lane[]; figure: FigureKey; width: number }) {
  const scale = scaleOf(lanes, figure);
  if (!scale) return <p class="small">No run that is over has this figure yet.</p>;
  const isWide = width >= kWide;
  const lane = isWide ? kLane.wide : kLane.narrow;
  const from = isWide ? kNames : kSide;
  const to = width - kSide;
  const at = (value: number) =>
    from + ((to - from) * (value - scale.low)) / (scale.high - scale.low);
  const bottom = lane * lanes.length;
  const every = Math.max(1, Math.ceil((kLeastApart * scale.marks.length) / Math.max(1, to - from)));
  const marks = scale.marks.filter((_, i) => i % every === 0);
  return (
    <svg width={width} height={bottom + kFoot} aria-hidden="true">
      {marks.map((mark) => (
        <g key={mark}>
          <line class="mark-line" x1={at(mark)} x2={at(mark)} y1={0} y2={bottom} />
          <text class="mark-text" x={at(mark)} y={bottom + 16}>
            {Number(mark.toPrecision(6))}
            {kFigures[figure].isShare ? " %" : ""}
          </text>
        </g>
      ))}
      {lanes.map((one, i) => (
        <LaneView key={one.layout.name} lane={one} top={i * lane} {...{ figure, isWide, at }} />
      ))}
    </svg>
  );
}

// A chosen figure of all seeds.
export function SeedDrawing({ experiment, figures, query }: {
  experiment: Experiment;
  figures: FigureKey[]; // that some layout has
  query: URLSearchParams;
}) {
  const asked = query.get("figure");
  const usual = figures.includes("samples_per_second") ? "samples_per_second" : figures[0];
  const figure = isFigure(asked) && figures.includes(asked) ? asked : (usual ?? "samples_per_second");
  const lanes = useMemo(() => lanesOf(experiment, figure), [experiment, figure]);
  const place = useRef<HTMLDivElement>(null);
  const width = useWidth(place);
  const title = `${kFigures[figure].title} by layout`;
  const twin = useTwin({
    title,
    file: `experiment-${experiment.experiment}`,
    table: () => tableOfLanes(lanes, figure),
    picture: async () => place.current && pictureOfDrawing(title, place.current),
  });
  return (
    <figure class="chart">
      <figcaption>
        <h2>Each seed</h2>
        <label class="small">
          Figure{" "}
          <select
            value={figure}
            onChange={(event) =>
              setQuery({ figure: event.currentTarget.value === usual ? null : event.currentTarget.value })
            }
          >
            {figures.map((key) => (
              <option key={key} value={key}>
                {kFigures[key].title}
              </option>
            ))}
          </select>
        </label>
        <span class="small">dot: a seed; line: the mean; bar: a deviation to either side</span>
        {twin.tools}
      </figcaption>
      <div class="seeds" ref={place} role="img" aria-label={summaryOf(lanes, figure)}>
        {width > 0 && <Lanes {...{ lanes, figure, width }} />}
      </div>
      {twin.table}
    </figure>
  );
}
