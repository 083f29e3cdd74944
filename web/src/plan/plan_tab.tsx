import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { Decision, Plan, PlannedStep, Run, Seats, TunedRange } from "../base/api";
import { api } from "../base/api";
import { Refusal } from "../base/request";
import { Bars } from "../parts/bars";
import { Figure } from "../parts/figure";
import * as show from "../base/format";
import { ErrorPanel } from "../parts/notices";
import { usePoll } from "../base/poll";
import type { History } from "../run/history";
import { Balance } from "./balance";
import { Measured } from "./measured_part";
import { WaysBySize } from "./nccl_strip";
import { PlacementPart } from "./placement_part";
import * as planned from "./plan";

// A plan may come from anywhere, and so may the names in it.
const clean = show.withoutEscapes;
const kMostBuckets = 512; // drawn
const kMostRanges = 256; // in the table
const kMostNodes = 1024; // in the table
const kOpenNodes = 8; // with more of them the seats are folded

function amountOf(count: number, one: string): string {
  return count === 1 ? `1 ${one}` : `${show.count(count)} ${one}s`;
}

function LeftOut({ count, what }: { count: number; what: string }) {
  return count > 0 ? (
    <p class="small">
      And {show.count(count)} more {what}; plan.json has them all.
    </p>
  ) : null;
}

function Figures({ plan, measured }: { plan: Plan; measured: number | null }) {
  const step = plan.timeline;
  const predicted = planned.predictedStep(plan);
  const bytes = step?.buckets.reduce((sum, bucket) => sum + bucket.bytes, 0) ?? 0;
  return (
    <dl class="figures">
      {predicted != null && (
        <Figure
          name="Predicted step"
          value={show.milliseconds(predicted)}
          help="From the step's start to the end of the optimizer"
        />
      )}
      {step && (
        <Figure
          name="Exposed communication"
          value={show.milliseconds(step.exposed_seconds)}
          note={
            step.step_seconds > 0
              ? `${show.percent(step.exposed_seconds / step.step_seconds)} of the step`
              : undefined
          }
          help="From the end of backward to that of the last reduction: nothing hides it"
        />
      )}
      {measured != null && (
        <Figure
          name="Measured step"
          value={show.milliseconds(measured)}
          note="newest 20 steps"
          help="Mean over the newest steps of this run"
        />
      )}
      <Figure
        name="Buckets"
        value={show.count(plan.bucket_ends.length)}
        note={bytes > 0 ? `of ${show.bytes(bytes)}` : undefined}
        help="Slices of the gradient that are reduced one after the other"
      />
      <Figure
        name="Basis"
        value={plan.measured ? "measured" : "modelled"}
        note={step ? (plan.measured ? "on such machines" : "by NCCL's model") : undefined}
        help="Where the plan has the times of the reductions from"
      />
    </dl>
  );
}

function Gantt({ step }: { step: PlannedStep }) {
  const span = planned.spanOf(step);
  if (!(span > 0)) return null;
  const buckets = step.buckets.slice(0, kMostBuckets);
  const ms = show.milliseconds;
  const amount = step.buckets.length === 1 ? "one bucket" : `${step.buckets.length} buckets`;
  const hidden = step.communication_seconds - step.exposed_seconds;
  const summary =
    `Predicted step: ${amount}; backward ends at ${ms(step.compute_seconds)}, ` +
    `reductions take ${ms(step.communication_seconds)}, of which ${ms(step.exposed_seconds)} ` +
    `are exposed; the step ends at ${ms(step.step_seconds)}`;
  return (
    <div class="buckets">
      <div class="buckets-head">
        <h3>The predicted step</h3>
        {step.communication_seconds > 0 && (
          <span class="readout">
            <b>{show.percent(Math.max(0, hidden / step.communication_seconds))}</b> of{" "}
            {ms(step.communication_seconds)} communication hidden
          </span>
        )}
      </div>
      <Bars
        head="compute"
        parts={planned.computeParts(step)}
        rows={buckets.map((bucket, index) => ({
          key: index,
          label: show.bytes(bucket.bytes),
          title:
            `Bucket ${index + 1} of ${step.buckets.length}, ${show.bytes(bucket.bytes)}: ` +
            `ready at ${ms(bucket.ready_seconds)}, from ${ms(bucket.start_seconds)} ` +
            `to ${ms(bucket.end_seconds)}`,
          ready: bucket.ready_seconds,
          start: bucket.start_seconds,
          end: bucket.end_seconds,
        }))}
        covered={step.compute_seconds}
        span={span}
        summary={summary}
      />
      <p class="legend">
        {buckets.some((bucket) => bucket.start_seconds > bucket.ready_seconds) && (
          <span class="waiting">ready, waits for the bucket before</span>
        )}
        <span class="hidden">reduction during backward</span>
        {step.exposed_seconds > 0 && <span class="exposed">after it: exposed</span>}
        <span class="backward">computing</span>
      </p>
      <LeftOut count={step.buckets.length - buckets.length} what="buckets" />
    </div>
  );
}

function Part({
  title,
  note,
  children,
}: {
  title: string;
  note?: string | undefined;
  children: ComponentChildren;
}) {
  return (
    <section class="plan-part" aria-label={title}>
      <h2>
        {title} {note && <span class="small">{note}</span>}
      </h2>
      {children}
    </section>
  );
}

function Alternatives({ plan }: { plan: Plan }) {
  const rows = planned.rivals(plan);
  if (rows.length === 0) return null;
  const compared = rows.some((row) => row.isChosen);
  return (
    <Part title="Alternatives" note="ways to cut the gradient, the fastest first">
      <div class="scroll">
        <table class="alternatives">
          <thead>
            <tr>
              <th scope="col">Cut</th>
              <th scope="col" class="num if-wide">
                Buckets
              </th>
              <th scope="col" class="num">
                Predicted step
              </th>
              <th scope="col" class="num">
                Mean over jitter
              </th>
              {compared && (
                <th scope="col" class="num">
                  Against the chosen
                </th>
              )}
            </tr>
          </thead>
          <tbody>
            {rows.map(({ alternative, isChosen, against }, index) => (
              <tr key={index} class={isChosen ? "chosen" : ""}>
                <td>
                  {clean(alternative.name)} {isChosen && <span class="mark">chosen</span>}
                  <span class="small if-narrow">{amountOf(alternative.buckets, "bucket")}</span>
                </td>
                <td class="num if-wide">{show.count(alternative.buckets)}</td>
                <td class="num">{show.milliseconds(alternative.step_seconds)}</td>
                <td class="num">{show.milliseconds(alternative.mean_step_seconds)}</td>
                {compared && <td class="num">{isChosen ? show.kDash : show.change(against)}</td>}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="small">
        Mean over jitter: over ready times and curves that vary; the planner goes by it, and so does
        the comparison.
      </p>
    </Part>
  );
}

function DecisionRow({ decision }: { decision: Decision }) {
  const differs = decision.choice !== decision.run_file;
  const gain = planned.gainOf(decision);
  const times = decision.options.map(
    (option) => `${clean(option.value)} ${show.milliseconds(option.step_seconds)}`,
  );
  return (
    <tr class={differs ? "differs" : ""}>
      <td>
        <code>{clean(decision.key)}</code>
      </td>
      <td data-name="Run file">{clean(decision.run_file)}</td>
      <td data-name="Planner">
        {clean(decision.choice)} {differs && <span class="mark">differs</span>}
      </td>
      <td class={gain ? "num" : "num none"} data-name="Gain">
        {gain ? show.percent(gain.share) : show.kDash}
        {gain && <span class="small">{show.milliseconds(gain.seconds)}</span>}
      </td>
      <td class="reason">
        {clean(decision.why)}
        {times.length > 0 && <span class="small">{times.join(" · ")}</span>}
      </td>
    </tr>
  );
}

function Decisions({ decisions }: { decisions: Decision[] }) {
  return (
    <Part title="Decisions" note="the run file's setting holds">
      <div class="scroll">
        <table class="decisions cards">
          <thead>
            <tr>
              <th scope="col">Setting</th>
              <th scope="col">Run file has</th>
              <th scope="col">Planner would choose</th>
              <th scope="col" class="num">
                Gain
              </th>
              <th scope="col">Why</th>
            </tr>
          </thead>
          <tbody>
            {decisions.map((decision, index) => (
              <DecisionRow key={index} decision={decision} />
            ))}
          </tbody>
        </table>
      </div>
    </Part>
  );
}

function RangeRow({ range }: { range: TunedRange }) {
  const us = (value: number) => (value > 0 ? show.microseconds(value) : show.kDash);
  const known = range.us > 0 && range.default_us > 0;
  return (
    <tr>
      <td>{clean(range.collective)}</td>
      <td data-name="Bytes of a call">
        {range.to_bytes == null
          ? `from ${show.bytes(range.from_bytes)}`
          : `${show.bytes(range.from_bytes)} to ${show.bytes(range.to_bytes)}`}
      </td>
      <td data-name="Algorithm / protocol">
        {clean(range.algorithm)} / {clean(range.protocol)}
        {range.channels > 0 && <span class="small">{amountOf(range.channels, "channel")}</span>}
      </td>
      <td class="num" data-name="Time">
        {us(range.us)}
        {known && <span class="small">{show.change(range.us / range.default_us - 1)}</span>}
      </td>
      <td class="num" data-name="NCCL's own">
        {us(range.default_us)}
      </td>
      <td data-name="Basis">{range.measured ? "measured" : "modelled"}</td>
    </tr>
  );
}

function Ranges({ ranges, plan }: { ranges: TunedRange[]; plan: Plan }) {
  return (
    <Part title="NCCL" note="what it is told; all other calls go its own way">
      <WaysBySize
        ranges={ranges.slice(0, kMostRanges)}
        buckets={plan.timeline?.buckets.slice(0, kMostBuckets) ?? []}
      />
      <div class="scroll">
        <table class="ranges cards">
          <thead>
            <tr>
              <th scope="col">Collective</th>
              <th scope="col">Bytes of a call</th>
              <th scope="col">Algorithm / protocol</th>
              <th scope="col" class="num">
                Time
              </th>
              <th scope="col" class="num">
                NCCL's own
              </th>
              <th scope="col">Basis</th>
            </tr>
          </thead>
          <tbody>
            {ranges.slice(0, kMostRanges).map((range, index) => (
              <RangeRow key={index} range={range} />
            ))}
          </tbody>
        </table>
      </div>
      <p class="small">Times are of a call of the least bytes; NCCL's own, of the same call.</p>
      <LeftOut count={ranges.length - kMostRanges} what="ranges" />
    </Part>
  );
}

function SeatTable({ nodes }: { nodes: ReturnType<typeof planned.seatsByNode> }) {
  return (
    <>
      <div class="scroll seats" tabIndex={0} role="group" aria-label="Planned seats by node">
        <table>
          <thead>
            <tr>
              <th scope="col">Node</th>
              <th scope="col">Ranks</th>
              <th scope="col" class="wide">
                Rank → GPU, NIC
              </th>
            </tr>
          </thead>
          <tbody>
            {nodes.slice(0, kMostNodes).map(({ node, seats }) => (
              <tr key={node}>
                <td>{clean(node)}</td>
                <td>{planned.rankText(seats.map((seat) => seat.rank))}</td>
                <td>
                  <span class="pairs">
                    {seats.map(({ rank, gpu, nic }) => (
                      <span key={rank}>
                        {rank} → {nic === "" ? `GPU ${gpu}` : `GPU ${gpu}, ${clean(nic)}`}
                      </span>
                    ))}
                  </span>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <LeftOut count={nodes.length - kMostNodes} what="nodes" />
    </>
  );
}

function SeatList({ seats }: { seats: Seats[] }) {
  const [open, setOpen] = useState(false);
  const nodes = useMemo(() => planned.seatsByNode(seats), [seats]);
  const ranks = nodes.reduce((sum, one) => sum + one.seats.length, 0);
  const amount =
    `${amountOf(ranks, "rank")} on ${amountOf(nodes.length, "node")} as planned; ` +
    "the scheduler chooses the nodes";
  if (nodes.length <= kOpenNodes) {
    return (
      <Part title="Seats" note={amount}>
        <SeatTable nodes={nodes} />
      </Part>
    );
  }
  return (
    <Part title="Seats">
      <details class="fold" onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>{amount}</summary>
        {open && <SeatTable nodes={nodes} />}
      </details>
    </Part>
  );
}

function Tables({ plan }: { plan: Plan }) {
  return (
    <>
      <Alternatives plan={plan} />
      {plan.decisions?.length ? <Decisions decisions={plan.decisions} /> : null}
      {plan.nccl?.ranges.length ? <Ranges ranges={plan.nccl.ranges} plan={plan} /> : null}
      {plan.seats?.length ? <SeatList seats={plan.seats} /> : null}
    </>
  );
}

// Of the newest steps that tell.
type Newest = Pick<History, "timeline" | "shares">;

function PlanView({ run, plan, history }: { run: Run; plan: Plan; history: Newest }) {
  const { timeline, shares } = history;
  // The run is asked for every second; what the plan says stays.
  const drawing = useMemo(() => plan.timeline && <Gantt step={plan.timeline} />, [plan]);
  const tables = useMemo(() => <Tables plan={plan} />, [plan]);
  const why = useMemo(() => clean(plan.why), [plan]);
  const other = run.ranks != null && run.ranks !== plan.ranks;
  const own = other ? null : planned.ownCut(run);
  // A plan is for steps of the batch that the run begins with.
  const isOther = other || own != null || run.progress != null;
  const measured = isOther ? null : planned.measuredStep(run);
  const predicted = planned.predictedStep(plan);
  const off = planned.difference(measured, predicted);
  return (
    <>
      {other && (
        <section class="notice warning">
          <strong>The plan is for another number of ranks</strong>
          <p>
            It is for {amountOf(plan.ranks, "rank")}, the run has {show.count(run.ranks)}: the
            trainer leaves it out.
          </p>
        </section>
      )}
      {own != null && (
        <section class="notice warning">
          <strong>The plan's buckets are not used</strong>
          <p>The run file cuts the gradient by {clean(own)}; the trainer leaves them out.</p>
        </section>
      )}
      <section class="ranks plan" aria-label="Plan">
        <div class="buckets-head">
          <h2>Plan</h2>
          {predicted != null && (
            <span class="readout">
              predicted <b>{show.milliseconds(predicted)}</b>
              {off != null && (
                <>
                  , measured <b>{show.milliseconds(measured)}</b> ({show.change(off)})
                </>
              )}
            </span>
          )}
        </div>
        <p class="why">{why}</p>
        <Figures plan={plan} measured={measured} />
        {drawing}
      </section>
      {!other && own == null && plan.timeline && timeline && (
        <Measured run={run.id} step={plan.timeline} timeline={timeline} />
      )}
      {tables}
      <Balance run={run} plan={plan} shares={shares} />
      <PlacementPart run={run} plan={plan} />
    </>
  );
}

// The plan never changes, so once it is here nothing asks again. `keep` holds it while one looks at
// another tab.
export function PlanTab({
  run,
  plan,
  keep,
  history,
}: {
  run: Run;
  plan: Plan | null;
  keep: (plan: Plan) => void;
  history: Newest;
}) {
  const [none, setNone] = useState(false);
  const health = usePoll(plan || none ? null : run.id, 1000, async (signal) => {
    try {
      keep(await api.plan(run.id, signal));
    } catch (error) {
      if (!(error instanceof Refusal && error.status === 404)) throw error;
      setNone(true);
    }
  });
  if (plan) return <PlanView run={run} plan={plan} history={history} />;
  if (none) {
    return (
      <>
        <p class="nothing">{planned.unplannedText(run)}</p>
        <Balance run={run} plan={null} shares={history.shares} />
        <PlacementPart run={run} plan={null} />
      </>
    );
  }
  if (health.refusal) {
    return <ErrorPanel title="The plan cannot be shown" text={clean(health.refusal.message)} />;
  }
  return <p class="loading">Loading plan…</p>;
}
