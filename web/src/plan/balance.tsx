import { useMemo, useRef, useState } from "preact/hooks";
import type { AlignedData } from "uplot";
import type { Decision, Plan, RankShares, Run, Series } from "../base/api";
import { api, hasEnded } from "../base/api";
import * as show from "../base/format";
import { usePoll } from "../base/poll";
import type { Line, Span } from "../parts/chart";
import { Chart } from "../parts/chart";
import { Figure } from "../parts/figure";
import { ErrorPanel } from "../parts/notices";
import { Swatch } from "../parts/swatch";
import { useWidth } from "../parts/width";
import type { Placed } from "./placement";
import { nodeOfRank } from "./placement";
import { RankBars } from "./rank_bars";
import { isTold } from "./rank_shares";

const clean = show.withoutEscapes;
const kBuckets = 200;

// The predicted step by the ways to balance, as bars from zero.
function Strategies({ decision }: { decision: Decision }) {
  const longest = Math.max(...decision.options.map((option) => option.step_seconds));
  if (decision.options.length === 0 || !(longest > 0)) return null;
  return (
    <table class="strategies">
      <caption class="visually-hidden">Predicted step by balancing strategy</caption>
      <thead>
        <tr>
          <th scope="col">Strategy</th>
          <th scope="col">
            <span class="visually-hidden">As a bar</span>
          </th>
          <th scope="col" class="num">
            Predicted step
          </th>
        </tr>
      </thead>
      <tbody>
        {decision.options.map(({ value, step_seconds: seconds }, index) => (
          <tr key={index}>
            <th scope="row">
              {clean(value)}
              {value === decision.run_file && <span class="small"> in the run file</span>}
            </th>
            <td class="wide">
              <span
                class={value === decision.run_file ? "length used" : "length"}
                style={{ width: `${((100 * Math.max(0, seconds)) / longest).toFixed(1)}%` }}
              />
            </td>
            <td class="num">{show.milliseconds(seconds)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

// The newest attempt as its journal has it; asked for once, where a rank's place is to be told.
function useAttempt(run: Run): Placed | undefined {
  const [found, setFound] = useState<Placed | undefined>(undefined);
  const number = run.attempt?.number;
  const own = found?.attempt === number ? found : undefined;
  const wanted = number != null && !own;
  usePoll(wanted ? `${run.id} ${number}` : null, 5000, async (signal) => {
    const { attempts } = await api.attempts(run.id, signal);
    setFound(attempts.find(({ attempt }) => attempt === number));
  });
  return own;
}

// All ranks side by side, parted by node; the one that is furthest behind is marked.
function RankStrip({ run, attempt }: { run: Run; attempt: Placed | undefined }) {
  const place = useRef<HTMLDivElement>(null);
  const width = useWidth(place);
  const { ranks, ranks_per_node: perNode, slowest } = run;
  if (ranks == null || ranks < 2 || !slowest || slowest.rank >= ranks) return null;
  const node = nodeOfRank(slowest.rank, attempt);
  const where = node == null ? "" : ` on ${clean(node)}`;
  const since = show.duration(slowest.phase_seconds);
  const text =
    `Rank ${slowest.rank} of ${show.count(ranks)}${where} is furthest behind: ` +
    `${clean(slowest.phase)} of step ${show.count(slowest.step)} for ${since}, as of ` +
    `${show.duration(slowest.age_seconds)} ago`;
  const each = (width - 2) / ranks;
  const parts: number[] = [];
  if (perNode != null && perNode > 0 && each * perNode >= 3) {
    for (let rank = perNode; rank < ranks; rank += perNode) parts.push(rank);
  }
  const x = 1 + each * slowest.rank;
  return (
    <div class="rank-strip" ref={place}>
      <p>{text}.</p>
      {width > 0 && (
        <svg width={width} height={32} role="img" aria-label={text}>
          <rect class="all" x={1} y={10} width={width - 2} height={14} rx={3} />
          <path
            class="parts"
            d={parts.map((rank) => `M${(1 + each * rank).toFixed(1)} 8v18`).join("")}
          />
          <rect class="behind" x={x} y={10} width={Math.max(2, each)} height={14} />
          <path class="behind" d={`M${x + each / 2 - 5} 1h10l-5 7z`} />
        </svg>
      )}
    </div>
  );
}

interface Point {
  from: number;
  to: number;
  most: number;
  last: number;
}
export function pointsOf(chart: Series | undefined): Point[] {
  const rows = chart?.series.imbalance ?? [];
  return rows.flatMap(([, most, last], i): Point[] => {
    const bucket = chart?.buckets[i];
    if (!bucket || bucket.abandoned || most == null || last == null) return [];
    return [{ from: bucket.from_step, to: bucket.to_step, most, last }];
  });
}

const kNewest: Line = { name: "Newest", colour: "accent", width: 1.5 };
const kLargest: Line = { name: "Largest", colour: "muted", width: 1.5, dash: [3, 3] };
const kSteps = { name: "Steps up to", isClock: false };

function Steps({ points }: { points: Point[] }) {
  const [zoom, setZoom] = useState<Span | null>(null);
  const data = useMemo(() => {
    const of = (value: (point: Point) => number) => points.map(value);
    return [of(({ to }) => to), of(({ last }) => last), of(({ most }) => most)] as AlignedData;
  }, [points]);
  const [first, last] = [points[0], points[points.length - 1]];
  if (!first || !last) return <p class="nothing">No step says how its tokens were spread.</p>;
  const worst = points.reduce((a, b) => (b.most > a.most ? b : a));
  const steps = ({ from, to }: Point) =>
    from === to ? show.count(to) : `${show.count(from)} to ${show.count(to)}`;
  const text =
    `Largest over mean tokens of a rank: at most ${worst.most.toFixed(4)}, ` +
    `in steps ${steps(worst)}; newest ${last.last.toFixed(4)}. 1 is perfect balance`;
  return (
    <div class="over-steps">
      <p>{text}.</p>
      <Chart
        title="Imbalance by step"
        summary={text}
        readout={(index) => {
          const point = (index == null ? null : points[index]) ?? last;
          return (
            <>
              <span class="line-key">
                <Swatch look={{ colour: kNewest.colour, dash: [] }} />
                <b>{point.last.toFixed(4)}</b> newest
              </span>{" "}
              <span class="line-key">
                <Swatch look={{ colour: kLargest.colour, dash: [3, 3] }} />
                <b>{point.most.toFixed(4)}</b> largest
              </span>{" "}
              of steps {steps(point)}
            </>
          );
        }}
        height={140}
        data={data}
        lines={[kNewest, kLargest]}
        full={{ min: first.from, max: Math.max(last.to, first.from + 1) }}
        values={(_low, high) => [1, Math.max(1.01, high ?? 1)]}
        format={(value) => value.toFixed(3)}
        x={kSteps}
        sync={null}
        zoom={zoom}
        onZoom={setZoom}
      />
    </div>
  );
}

function BySteps({ run }: { run: Run }) {
  const [points, setPoints] = useState<Point[] | null>(null);
  const query = `runs=${encodeURIComponent(run.id)}&series=imbalance&x=step&buckets=${kBuckets}`;
  const health = usePoll(query, hasEnded(run) ? 15_000 : 5000, async (signal) => {
    const charts = await api.charts(query, signal);
    setPoints(pointsOf(charts.runs[0]?.steps));
  });
  if (health.refusal) {
    return <ErrorPanel title="The balance cannot be shown" text={clean(health.refusal.message)} />;
  }
  return points ? <Steps points={points} /> : <p class="loading">Loading steps…</p>;
}

function RankParts({ run, shares }: { run: Run; shares: RankShares | null }) {
  const attempt = useAttempt(run);
  return (
    <>
      <RankStrip run={run} attempt={attempt} />
      {isTold(shares) && <RankBars run={run} shares={shares} attempt={attempt} />}
    </>
  );
}

// How evenly the ranks are loaded: what the planner expects of each strategy, what the steps say,
// who is behind now, and what each rank had to do.
export function Balance({
  run,
  plan,
  shares,
}: {
  run: Run;
  plan: Plan | null;
  shares: RankShares | null;
}) {
  const [open, setOpen] = useState(false);
  const decision = plan?.decisions?.find(({ key }) => key === "balance.strategy");
  const several = run.ranks != null && run.ranks > 1;
  if (!several || (run.imbalance == null && run.slowest == null && !decision)) return null;
  return (
    <section class="plan-more balance" aria-label="Balancing">
      <h2>
        Balancing <span class="small">of tokens over ranks</span>
      </h2>
      {(run.imbalance != null || run.moved_bytes != null) && (
        <dl class="figures">
          {run.imbalance != null && (
            <Figure
              name="Imbalance"
              value={run.imbalance.toFixed(4)}
              note="largest / mean tokens"
              help="Newest 20 steps; 1 is perfect balance"
            />
          )}
          {run.moved_bytes != null && (
            <Figure name="Samples moved" value={show.bytes(run.moved_bytes)} note="per step" />
          )}
        </dl>
      )}
      {decision && <Strategies decision={decision} />}
      <RankParts run={run} shares={shares} />
      <button type="button" aria-expanded={open} onClick={() => setOpen(!open)}>
        {open ? "Hide the steps" : "Imbalance by step"}
      </button>
      {open && <BySteps run={run} />}
    </section>
  );
}
