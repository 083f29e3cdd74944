import type { Checkpoint, Run, Series, Timeline } from "../base/api";
import { hasEnded } from "../base/api";
import * as show from "../base/format";
import type { TimeToAccuracy } from "./time_api";
import type { Part, StepShares } from "./time_parts";
import { apportioned, partsOf, stepShares } from "./time_parts";

const kShareUnit = 0.001;

function Bar({ parts, whole, label }: { parts: Part[]; whole: number; label: string }) {
  let at = 0;
  return (
    <svg class="where-bar" role="img" aria-label={label} height={24}>
      {parts.map((one) => {
        const x = at;
        at += one.seconds / whole;
        return (
          <rect
            key={one.kind}
            class={one.kind}
            x={percentOf(x)}
            width={percentOf(one.seconds / whole)}
            height={24}
          />
        );
      })}
    </svg>
  );
}

// What stands in no part, because the API does not say it.
function NotSplit({
  shares,
  isKnown,
  timeline,
}: {
  shares: StepShares | null;
  isKnown: boolean;
  timeline: Timeline | null;
}) {
  const step = timeline?.step_seconds;
  const of = (seconds: number | null | undefined) =>
    seconds == null || step == null || !(step > 0) ? null : show.percent(seconds / step);
  const parts = [
    ["input", of(timeline?.data_seconds)],
    ["forward", of(timeline?.forward_seconds)],
    ["backward", of(timeline?.backward_seconds)],
    ["optimizer", of(timeline?.optimizer_seconds)],
    ["exposed communication", of(timeline?.exposed_seconds)],
  ].filter((part) => part[1] != null);
  return (
    <ul class="small where-notes">
      {!isKnown && <li>How the steps split is not known yet.</li>}
      {isKnown && shares?.exposed == null && (
        <li>No step of this run says how long it waited for communication.</li>
      )}
      {shares?.exposed != null && shares.sampled && (
        <li>The split of the steps is estimated from a sample of them.</li>
      )}
      <li>
        Input and optimizer have no total: they are part of the steps. Evaluations have no length of
        their own: they are part of what lies between steps. Idle nodes of the allocation are not
        recorded.
      </li>
      {timeline && parts.length > 0 && (
        <li>
          Newest step ({show.count(timeline.step)}, {show.duration(step)}):{" "}
          {parts.map(([name, share]) => `${name} ${share}`).join(", ")}.
        </li>
      )}
    </ul>
  );
}

// The time since the submission in parts that add up to it, as drawn and as printed.
export function WhereItWent({
  run,
  time,
  steps,
  checkpoints,
  timeline,
}: {
  run: Run;
  time: TimeToAccuracy;
  steps: Series | null | undefined; // undefined: not known yet
  checkpoints: Checkpoint[];
  timeline: Timeline | null;
}) {
  const shares = stepShares(steps ?? null);
  const parts = partsOf(time.time, shares, checkpoints);
  const whole = parts.reduce((sum, part) => sum + part.seconds, 0);
  if (!(whole > 0)) return null;
  const unit = whole < 10_000 ? 0.1 : 1;
  const seconds = apportioned(parts.map((part) => part.seconds), unit);
  const ofWhole = apportioned(parts.map((part) => part.seconds / whole), kShareUnit);
  const text = (count: number) => (count * unit).toLocaleString("en-US", digits(unit));
  const share = (count: number) => `${(count * kShareUnit * 100).toFixed(1)}\u202f%`;
  const sum = (counts: number[]) => counts.reduce((all, one) => all + one, 0);
  const label = parts.map((one, i) => `${one.name} ${share(ofWhole[i] ?? 0)}`).join(", ");
  return (
    <section class="time-part where" aria-labelledby="where">
      <h2 id="where">Where the time went</h2>
      <Bar parts={parts} whole={whole} label={label} />
      <table class="figures-table">
        <thead>
          <tr>
            <th scope="col">Part</th>
            <th scope="col" class="num wide-only">
              Time
            </th>
            <th scope="col" class="num">
              Seconds
            </th>
            <th scope="col" class="num">
              Share
            </th>
          </tr>
        </thead>
        <tbody>
          {parts.map((one, i) => (
            <tr key={one.kind} data-part={one.kind}>
              <th scope="row">
                <span class={`part-swatch ${one.kind}`} aria-hidden="true" />
                {one.name} <span class="small">{one.help}</span>
              </th>
              <td class="num wide-only">{show.duration(one.seconds)}</td>
              <td class="num">{text(seconds[i] ?? 0)}</td>
              <td class="num">{share(ofWhole[i] ?? 0)}</td>
            </tr>
          ))}
        </tbody>
        <tfoot>
          <tr>
            <th scope="row">Since submission{hasEnded(run) ? ", to its end" : ", until now"}</th>
            <td class="num wide-only">{show.duration(whole)}</td>
            <td class="num">{text(sum(seconds))}</td>
            <td class="num">{share(sum(ofWhole))}</td>
          </tr>
        </tfoot>
      </table>
      <NotSplit shares={shares} isKnown={steps !== undefined} timeline={timeline} />
    </section>
  );
}

const percentOf = (share: number) => `${(100 * share).toFixed(4)}%`;
const digits = (unit: number) => {
  const decimals = unit < 1 ? 1 : 0;
  return { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
};
