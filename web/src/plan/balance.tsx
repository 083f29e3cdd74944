import { useRef, useState } from "preact/hooks";
import type { Decision, Plan, Run, Series } from "../base/api";
import { api, hasEnded } from "../base/api";
import * as show from "../base/format";
import { usePoll } from "../base/poll";
import { Figure } from "../parts/figure";
import { ErrorPanel } from "../parts/notices";
import { useWidth } from "../parts/width";

const clean = show.withoutEscapes;
const kBuckets = 200;
const kHeight = 90; // px, of the strip over steps

// The predicted step by the ways to balance, as bars from zero.
function Strategies({ decision }: { decision: Decision }) {
  const longest = Math.max(...decision.options.map((option) => option.step_seconds));
  if (decision.options.length === 0 || !(longest > 0)) return null;
  return (
    <table class="strategies">
      <caption class="visually-hidden">Predicted step by balancing strategy</caption>
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

// On which node of the plan's seats a rank is; by the ranks of a node where there are no seats.
export function nodeOfRank(rank: number, plan: Plan | null): string | null {
  let first = 0;
  for (const { node, gpus } of plan?.seats ?? []) {
    if (rank < first + gpus.length) return node;
    first += gpus.length;
  }
  return null;
}

// All ranks side by side, parted by node; the one that is furthest behind is marked.
function RankStrip({ run, plan }: { run: Run; plan: Plan | null }) {
  const place = useRef<HTMLDivElement>(null);
  const width = useWidth(place);
  const { ranks, ranks_per_node: perNode, slowest } = run;
  if (ranks == null || ranks < 2 || !slowest || slowest.rank >= ranks) return null;
  const node = nodeOfRank(slowest.rank, plan);
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

function Steps({ points }: { points: Point[] }) {
  const place = useRef<HTMLDivElement>(null);
  const width = useWidth(place);
  const [table, setTable] = useState(false);
  const [first, last] = [points[0], points[points.length - 1]];
  if (!first || !last) return <p class="nothing">No step says how its tokens were spread.</p>;
  const worst = points.reduce((a, b) => (b.most > a.most ? b : a));
  const high = Math.max(1.01, worst.most);
  const span = Math.max(1, last.to - first.from);
  const x = (step: number) => 2 + ((width - 4) * (step - first.from)) / span;
  const y = (value: number) => 4 + ((kHeight - 8) * (high - value)) / (high - 1);
  const line = (of: (point: Point) => number) =>
    points.map((point) => `${x(point.to).toFixed(1)},${y(of(point)).toFixed(1)}`).join(" ");
  const steps = ({ from, to }: Point) =>
    from === to ? show.count(to) : `${show.count(from)} to ${show.count(to)}`;
  const text =
    `Largest over mean tokens of a rank: at most ${worst.most.toFixed(4)}, ` +
    `in steps ${steps(worst)}; newest ${last.last.toFixed(4)}. 1 is perfect balance`;
  return (
    <div class="over-steps" ref={place}>
      <p>{text}.</p>
      {width > 0 && (
        <svg width={width} height={kHeight} role="img" aria-label={text}>
          <line x1={2} x2={width - 2} y1={y(1)} y2={y(1)} />
          <polyline class="most" points={line((point) => point.most)} />
          <polyline class="last" points={line((point) => point.last)} />
        </svg>
      )}
      <p class="legend">
        <span class="last-key">newest of its steps</span>
        <span class="most-key">largest of them</span>
      </p>
      <button type="button" aria-expanded={table} onClick={() => setTable(!table)}>
        {table ? "Hide the table" : "As a table"}
      </button>
      {table && (
        <div class="scroll against-table" tabIndex={0} role="group" aria-label="Imbalance by steps">
          <table>
            <caption class="visually-hidden">Largest over mean tokens of a rank</caption>
            <thead>
              <tr>
                <th scope="col" class="num">Steps</th>
                <th scope="col" class="num">Largest</th>
                <th scope="col" class="num">Newest</th>
              </tr>
            </thead>
            <tbody>
              {points.map((point, index) => (
                <tr key={index}>
                  <td class="num">{steps(point)}</td>
                  <td class="num">{point.most.toFixed(4)}</td>
                  <td class="num">{point.last.toFixed(4)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
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
    return <ErrorPanel title="The balance cannot be shown" text={health.refusal.message} />;
  }
  return points ? <Steps points={points} /> : <p class="loading">Loading steps…</p>;
}

// How evenly the ranks are loaded: what the planner expects of each strategy, what the steps say,
// and who is behind now. Tokens of each rank are not told.
export function Balance({ run, plan }: { run: Run; plan: Plan | null }) {
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
      <RankStrip run={run} plan={plan} />
      <button type="button" aria-expanded={open} onClick={() => setOpen(!open)}>
        {open ? "Hide the steps" : "Imbalance by step"}
      </button>
      {open && <BySteps run={run} />}
    </section>
  );
}
