import type { Run, Timeline } from "./api";
import { Figure } from "./figure";
import * as show from "./format";

interface Entry {
  name: string;
  value: string;
  note?: string | undefined;
  help: string;
}

// Only what the journal says: an old one, or one rank, says little.
function entries(run: Run): Entry[] {
  const list: Entry[] = [];
  const several = run.ranks != null && run.ranks > 1;
  if (several) {
    const spread =
      run.ranks_per_node != null && run.ranks_per_node < run.ranks!
        ? `${run.ranks_per_node} per node`
        : "on one node";
    list.push({
      name: "Ranks",
      value: show.count(run.ranks),
      note: run.device ? `${spread}, ${run.device}` : spread,
      help: "Processes that train together",
    });
  } else if (run.device) {
    list.push({ name: "Device", value: run.device, help: "What the run computes on" });
  }
  if (run.mfu != null) {
    list.push({
      name: "MFU",
      value: show.percent(run.mfu),
      note: run.peak_flops == null ? undefined : `of ${show.flops(run.peak_flops)}`,
      help: "Model FLOP utilisation: the model's own FLOPs over the devices' peak",
    });
  }
  if (run.utilisation != null) {
    list.push({
      name: "Utilisation",
      value: show.percent(run.utilisation),
      note: "of the time computing",
      help: "Share of the step in which rank 0 computed, however slowly",
    });
  }
  if (run.exposed_share != null) {
    list.push({
      name: "Exposed communication",
      value: show.percent(run.exposed_share),
      note: "of the step",
      help: "Share of the step in which nothing was left to do but to wait for reductions",
    });
  }
  if (run.goodput != null) {
    list.push({
      name: "Goodput",
      value: show.number(run.goodput),
      note: `of ${show.number(run.samples_per_second)} samples/s`,
      help: "Samples per second times statistical efficiency (Pollux, OSDI 2021)",
    });
  }
  if (run.efficiency != null) {
    list.push({
      name: "Statistical efficiency",
      value: show.percent(run.efficiency),
      note: "against the base batch",
      help: "Progress per sample against training with the base batch size",
    });
  }
  if (run.noise_scale != null) {
    list.push({
      name: "Noise scale",
      value: show.number(run.noise_scale),
      note: "samples",
      help: "Gradient noise scale: the batch at which half of a step is noise",
    });
  }
  if (run.imbalance != null) {
    list.push({
      name: "Imbalance",
      value: run.imbalance.toFixed(4),
      note: "largest / mean tokens",
      help: "Tokens of the rank with most of them over the mean of all ranks; 1 is perfect balance",
    });
  }
  if (run.moved_bytes != null && run.moved_bytes > 0) {
    list.push({
      name: "Samples moved",
      value: show.bytes(run.moved_bytes),
      note: "per step",
      help: "Bytes of samples that went from rank to rank for balance",
    });
  }
  const slowest = run.slowest;
  if (several && slowest) {
    const since = show.duration(slowest.phase_seconds);
    list.push({
      name: "Furthest behind",
      value: `Rank ${slowest.rank}`,
      note: `${slowest.phase} for ${since}, ${show.duration(slowest.age_seconds)} ago`,
      help: "The slowest rank and the phase of the step that it was in, at the newest heartbeat",
    });
  }
  return list;
}

const kLabelHeight = 15; // px
const kRowsHeight = 260; // px, at most
const kAxisHeight = 20; // px

interface Bar {
  name: string;
  begin: number;
  end: number;
}

// The step as its phases follow one another; with several micro-batches each stands for their sum.
function phases(timeline: Timeline): Bar[] {
  const bars: Bar[] = [];
  let begin = 0;
  const add = (name: string, seconds: number | null) => {
    const end = begin + Math.max(0, seconds ?? 0);
    if (end > begin) bars.push({ name, begin, end });
    begin = end;
  };
  add("data", timeline.data_seconds);
  add("forward", timeline.forward_seconds);
  add("backward", timeline.backward_seconds);
  begin += Math.max(0, timeline.reduce_seconds ?? 0);
  add("optimizer", timeline.optimizer_seconds);
  return bars;
}

function tickStep(span: number): number {
  const rough = span / 6;
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((digit) => digit * power).find((step) => step >= rough) ?? rough;
}

function Buckets({ timeline }: { timeline: Timeline }) {
  const buckets = timeline.buckets.flatMap(([index, size, launched, finished]) =>
    launched == null || finished == null ? [] : [{ index, size, launched, finished }],
  );
  const compute = phases(timeline);
  const last = Math.max(0, ...buckets.map((bucket) => bucket.finished));
  const span = Math.max(last, timeline.step_seconds ?? 0, ...compute.map((bar) => bar.end));
  if (buckets.length === 0 || !(span > 0)) return null;

  const backward = compute.find((bar) => bar.name === "backward");
  const covered = backward?.end ?? span; // later than this nothing hides a reduction
  const row = Math.min(18, kRowsHeight / buckets.length);
  const top = 24; // of the first bucket
  const bottom = top + row * buckets.length + 4;
  const every = Math.ceil(kLabelHeight / row);
  const at = (seconds: number) => `${(100 * Math.max(0, Math.min(1, seconds / span))).toFixed(3)}%`;
  const bar = (kind: string, begin: number, end: number, y: number, height: number) =>
    end > begin && (
      <rect class={kind} x={at(begin)} width={at(end - begin)} y={y} height={height} />
    );
  const ticks: number[] = [];
  const step = tickStep(span);
  for (let tick = 0; tick <= span * 0.96; tick += step) ticks.push(tick);

  const bytes = buckets.reduce((sum, bucket) => sum + (bucket.size ?? 0), 0);
  const exposed = show.milliseconds(timeline.exposed_seconds);
  const whole = show.milliseconds(timeline.step_seconds);
  const amount = timeline.bucket_count === 1 ? "one bucket" : `${timeline.bucket_count} buckets`;
  const summary =
    `Step ${show.count(timeline.step)}: ${amount}; ` +
    `backward ends at ${show.milliseconds(covered)}, ` +
    `the last reduction at ${show.milliseconds(last)}; ${exposed} of ${whole} exposed`;
  const label = (position: number) => top + row * (position + 0.5);
  return (
    <div class="buckets">
      <div class="buckets-head">
        <h3>Reductions of step {show.count(timeline.step)}</h3>
        <span class="readout">
          {amount}
          {bytes > 0 &&
            buckets.length === timeline.bucket_count &&
            ` of ${show.bytes(bytes)}`}, <b>{exposed}</b> of {whole} exposed
        </span>
      </div>
      <div class="timeline" role="img" aria-label={summary}>
        <svg class="names" aria-hidden="true" height={bottom + kAxisHeight}>
          <text x="100%" y={10}>
            rank 0
          </text>
          {buckets.map(
            (bucket, position) =>
              position % every === 0 && (
                <text key={bucket.index} x="100%" y={label(position)}>
                  {bucket.size == null ? `bucket ${bucket.index + 1}` : show.bytes(bucket.size)}
                </text>
              ),
          )}
        </svg>
        <svg class="bars" aria-hidden="true" height={bottom + kAxisHeight}>
          {ticks.map((tick) => (
            <line key={tick} x1={at(tick)} x2={at(tick)} y1={0} y2={bottom} />
          ))}
          {bar("wait", covered, last, 0, bottom)}
          {compute.map((phase) => (
            <g key={phase.name}>
              {bar(phase.name, phase.begin, phase.end, 2, 16)}
              <title>{`${phase.name}: ${show.milliseconds(phase.end - phase.begin)}`}</title>
              {phase.end - phase.begin > span * 0.22 && (
                <text
                  class={`inside in-${phase.name}`}
                  x={at((phase.begin + phase.end) / 2)}
                  y={10}
                >
                  {phase.name}
                </text>
              )}
            </g>
          ))}
          {buckets.map((bucket, position) => {
            const y = top + row * position + Math.min(2, row / 8);
            const height = row - 2 * Math.min(2, row / 8);
            const split = Math.max(bucket.launched, Math.min(bucket.finished, covered));
            return (
              <g key={bucket.index}>
                {bar("hidden", bucket.launched, split, y, height)}
                {bar("exposed", split, bucket.finished, y, height)}
                <title>
                  {`Bucket ${bucket.index + 1} of ${timeline.bucket_count}, ` +
                    `${show.bytes(bucket.size)}: from ${show.milliseconds(bucket.launched)} ` +
                    `to ${show.milliseconds(bucket.finished)}`}
                </title>
              </g>
            );
          })}
          {ticks.map((tick, index) => (
            <text key={tick} class={index === 0 ? "first" : ""} x={at(tick)} y={bottom + 12}>
              {index === 0 ? "0" : `${Number((tick * 1000).toPrecision(6))} ms`}
            </text>
          ))}
        </svg>
      </div>
      <p class="legend">
        <span class="hidden">reduction during backward</span>
        <span class="exposed">after it: exposed</span>
        <span class="backward">computing on rank 0</span>
      </p>
    </div>
  );
}

export function Ranks({ run, timeline }: { run: Run; timeline: Timeline | null }) {
  const list = entries(run);
  if (list.length === 0 && !timeline) return null;
  const title = run.ranks != null && run.ranks > 1 ? "Ranks and communication" : "Device";
  return (
    <section class="ranks" aria-label={title}>
      <h2>{title}</h2>
      <dl class="figures">
        {list.map((entry) => (
          <Figure key={entry.name} {...entry} />
        ))}
      </dl>
      {timeline && <Buckets timeline={timeline} />}
    </section>
  );
}
