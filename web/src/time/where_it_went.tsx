import type { Run } from "../base/api";
import { hasEnded } from "../base/api";
import * as show from "../base/format";
import type { TimeToAccuracy } from "./time_api";
import { sharesOf } from "./time_figures";

// The time since the submission in parts that add up to it.
export function WhereItWent({ run, time }: { run: Run; time: TimeToAccuracy }) {
  const shares = sharesOf(time.time);
  if (shares.length === 0) return null;
  const percent = (share: number) => `${(100 * share).toFixed(1)}\u202f%`;
  const summary = shares.map((one) => `${one.name} ${percent(one.share)}`).join(", ");
  let at = 0;
  const exposed = run.exposed_share;
  return (
    <section class="time-part where" aria-labelledby="where">
      <h2 id="where">Where the time went</h2>
      <svg class="where-bar" role="img" aria-label={summary} height={22}>
        {shares.map((one) => {
          const x = at;
          at += one.share;
          return (
            <rect
              key={one.kind}
              class={one.kind}
              x={percentOf(x)}
              width={percentOf(one.share)}
              height={22}
            />
          );
        })}
      </svg>
      <table class="figures-table">
        <thead>
          <tr>
            <th scope="col">Part</th>
            <th scope="col" class="num">
              Time
            </th>
            <th scope="col" class="num">
              Share
            </th>
          </tr>
        </thead>
        <tbody>
          {shares.map((one) => (
            <tr key={one.kind}>
              <td>
                <span class={`part-swatch ${one.kind}`} aria-hidden="true" />
                {one.name} <span class="small">{one.help}</span>
              </td>
              <td class="num">{show.duration(one.seconds)}</td>
              <td class="num">{percent(one.share)}</td>
            </tr>
          ))}
        </tbody>
        <tfoot>
          <tr>
            <th scope="row">Since submission{hasEnded(run) ? ", to its end" : ""}</th>
            <td class="num">{show.duration(time.time.whole_seconds)}</td>
            <td class="num">{percent(shares.reduce((sum, one) => sum + one.share, 0))}</td>
          </tr>
        </tfoot>
      </table>
      <p class="small">
        {exposed != null &&
          `Of its newest steps ${show.percent(exposed)} wait for communication that nothing hides. `}
        Replayed steps are part of training.
      </p>
    </section>
  );
}

const percentOf = (share: number) => `${(100 * share).toFixed(4)}%`;
