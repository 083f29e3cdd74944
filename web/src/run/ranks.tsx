import type { Run, Timeline } from "../base/api";
import { Bars } from "../parts/bars";
import { Figure } from "../parts/figure";
import * as show from "../base/format";
import type { Part } from "../parts/timeline";

interface Entry {
  name: string;
  value: string;
  note?: string | undefined;
  help: string;
}

// A share of a peak above the whole is no feat: then the peak is not the devices'.
function mfuEntry(run: Run): Entry {
  const peak = run.peak_flops == null ? null : show.flops(run.peak_flops);
  const isDeclared = declaredPeak(run) != null;
  const source = isDeclared
    ? "statistics.peak_tflops of the run file"
    : "a square matrix product that was timed at the start";
  const isWrong = run.mfu != null && run.mfu > 1;
  const note = peak == null ? undefined : `of ${peak}, ${isDeclared ? "declared" : "measured"}`;
  return {
    name: "MFU",
    value: show.percent(run.mfu),
    note: isWrong ? `above 100\u202f%: the peak${peak ? ` of ${peak}` : ""} is too low` : note,
    help:
      `Model FLOP utilisation: the model's own FLOPs over the peak of all ranks' devices, by ` +
      `${source}.${isWrong ? " That peak is wrong: set statistics.peak_tflops." : ""}`,
  };
}

// Of one rank's device, as the run file says it.
function declaredPeak(run: Run): number | null {
  const statistics = run.config?.["statistics"];
  if (statistics == null || typeof statistics !== "object") return null;
  const peak = "peak_tflops" in statistics ? statistics.peak_tflops : null;
  return typeof peak === "number" && peak > 0 ? peak : null;
}

// Only what the journal says: an old one, or one rank, says little.
function entries(run: Run): Entry[] {
  const list: Entry[] = [];
  const several = run.ranks != null && run.ranks > 1;
  if (several) {
    const spread =
      run.ranks_per_node == null
        ? null
        : run.ranks_per_node < run.ranks!
          ? `${run.ranks_per_node} per node`
          : "on one node";
    list.push({
      name: "Ranks",
      value: show.count(run.ranks),
      note: [spread, run.device].filter((part) => part).join(", "),
      help: "Processes that train together",
    });
  } else if (run.device) {
    list.push({ name: "Device", value: run.device, help: "What the run computes on" });
  }
  if (run.mfu != null) list.push(mfuEntry(run));
  if (run.utilisation != null) {
    list.push({
      name: "Utilisation",
      value: show.percent(run.utilisation),
      note: "of the time computing",
      help: "Share of the step in which rank 0 computed, however slowly; MFU says how fast",
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
  const [scale, low, high] = [run.noise_scale, run.noise_scale_low, run.noise_scale_high];
  if (scale != null || low != null) {
    const range = low == null ? "" : high == null ? `above ${show.number(low)}` : `${show.number(low)} to ${show.number(high)}`;
    list.push({
      name: "Noise scale",
      value: scale == null ? range : show.number(scale),
      note: scale == null || !range ? "samples" : `samples, ${range}`,
      help: "Gradient noise scale: the batch at which half of a step is noise; with 95 % confidence",
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

// The step as its phases follow one another; with several micro-batches each stands for their sum.
function phases(timeline: Timeline): Part[] {
  const parts: Part[] = [];
  let begin = 0;
  const add = (kind: Part["kind"], seconds: number | null) => {
    const end = begin + Math.max(0, seconds ?? 0);
    if (end > begin) parts.push({ kind, name: kind, begin, end });
    begin = end;
  };
  add("data", timeline.data_seconds);
  add("forward", timeline.forward_seconds);
  add("backward", timeline.backward_seconds);
  begin += Math.max(0, timeline.reduce_seconds ?? 0);
  add("optimizer", timeline.optimizer_seconds);
  return parts;
}

function Buckets({ timeline }: { timeline: Timeline }) {
  const buckets = timeline.buckets.flatMap(([index, size, launched, finished]) =>
    launched == null || finished == null ? [] : [{ index, size, launched, finished }],
  );
  const compute = phases(timeline);
  const last = Math.max(0, ...buckets.map((bucket) => bucket.finished));
  const span = Math.max(last, timeline.step_seconds ?? 0, ...compute.map((part) => part.end));
  if (buckets.length === 0 || !(span > 0)) return null;

  const backward = compute.find((part) => part.kind === "backward");
  const covered = backward?.end ?? span;
  const bytes = buckets.reduce((sum, bucket) => sum + (bucket.size ?? 0), 0);
  const exposed = show.milliseconds(timeline.exposed_seconds);
  const whole = show.milliseconds(timeline.step_seconds);
  const amount = timeline.bucket_count === 1 ? "one bucket" : `${timeline.bucket_count} buckets`;
  const summary =
    `Step ${show.count(timeline.step)}: ${amount}; ` +
    `backward ends at ${show.milliseconds(covered)}, ` +
    `the last reduction at ${show.milliseconds(last)}; ${exposed} of ${whole} exposed`;
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
      <Bars
        head="rank 0"
        parts={compute}
        rows={buckets.map(({ index, size, launched, finished }) => ({
          key: index,
          label: size == null ? `bucket ${index + 1}` : show.bytes(size),
          title:
            `Bucket ${index + 1} of ${timeline.bucket_count}, ${show.bytes(size)}: ` +
            `from ${show.milliseconds(launched)} to ${show.milliseconds(finished)}`,
          start: launched,
          end: finished,
        }))}
        covered={covered}
        span={span}
        summary={summary}
        title={`Reductions of step ${show.count(timeline.step)}`}
      />
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
      {run.mfu != null && run.mfu > 1 && (
        <p class="small warning-line" role="note">
          An MFU above 100&nbsp;% means that the peak is wrong, not that the run is fast: set{" "}
          <code>statistics.peak_tflops</code> of the run file to one device’s peak.
        </p>
      )}
      {timeline && <Buckets timeline={timeline} />}
    </section>
  );
}
