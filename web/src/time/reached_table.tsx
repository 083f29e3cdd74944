import type { Prediction, Run } from "../base/api";
import { hasEnded } from "../base/api";
import * as show from "../base/format";
import { modelOf } from "../run/headline";
import { trains } from "../run/standstill";
import type { Earlier, TimeToAccuracy } from "./time_api";
import { tellingPredictions } from "./time_figures";

function Predicted({ share, made, isOpen }: { share: number; made: Earlier; isOpen: boolean }) {
  const held = made.held == null ? "not known yet" : made.held ? "held" : "did not hold";
  return (
    <tr>
      <td class="num">
        {Math.round(100 * share)}&#8239;% {isOpen ? "so far" : ""}
      </td>
      <td class="num">{show.clock(made.made_at_seconds ?? 0)}</td>
      <td class="num">{made.seconds == null ? show.kDash : show.clock(made.seconds)}</td>
      <td class="num">
        {made.low == null || made.high == null
          ? show.kDash
          : `${show.clock(made.low)} to ${show.clock(made.high)}`}
      </td>
      <td class={made.held === false ? "missed" : undefined}>{held}</td>
      <td>{modelOf(made.model)}</td>
    </tr>
  );
}

// Where the target is expected to be met, in words.
export function Expected({ run, prediction }: { run: Run; prediction: Prediction | null }) {
  if (run.target == null || hasEnded(run) || run.target_reached) return null;
  if (!trains(run)) return <p class="small">No predicted crossing while nothing is trained.</p>;
  if (!prediction) {
    return <p class="small">No predicted crossing: the curve does not say enough yet.</p>;
  }
  const { seconds, low, high, confidence, model } = prediction;
  return (
    <p class="expected">
      Predicted crossing of {show.metric(run.metric, run.target, run.value)}: <b>{show.clock(seconds)}</b>,
      between {show.clock(low)} and {show.clock(high)} ({Math.round(100 * confidence)}&#8239;%
      interval), since the first step
      {model != null && `; from ${modelOf(model)}`}.
    </p>
  );
}

// What the table counts, and all that were made.
function outcomeText(shown: Earlier[], all: Earlier[]): string {
  const text = "Shown: the predictions made nearest to 5, 20 and 50\u202f% of the time. ";
  const known = (list: Earlier[]) => list.filter((one) => one.held != null);
  const held = (list: Earlier[]) => list.filter((one) => one.held).length;
  const [of, ofAll] = [known(shown), known(all)];
  if (ofAll.length === 0) return text;
  const here = of.length > 0 ? `Of these, ${held(of)} of ${of.length} held; of` : "Of";
  return `${text}${here} all, ${held(ofAll)} of ${ofAll.length} (80\u202f% should). `;
}

function Predictions({
  run,
  time,
  elapsed,
}: {
  run: Run;
  time: TimeToAccuracy;
  elapsed: number | null;
}) {
  const crossed = time.time_to_accuracy_seconds;
  const all = time.earlier_predictions;
  const telling = tellingPredictions(all, crossed ?? elapsed);
  if (run.target == null || telling.length === 0) return null;
  const shown = telling.map(({ made }) => made);
  return (
    <section class="time-part" aria-labelledby="predictions">
      <h2 id="predictions">How predictions turned out</h2>
      <div class="scroll" tabIndex={0} role="region" aria-label="How predictions turned out, table">
        <table class="figures-table">
          <thead>
            <tr>
              <th scope="col" class="num">
                Of the time
              </th>
              <th scope="col" class="num">
                Made at
              </th>
              <th scope="col" class="num">
                Crossing said
              </th>
              <th scope="col" class="num">
                80&#8239;% interval
              </th>
              <th scope="col">Outcome</th>
              <th scope="col">From</th>
            </tr>
          </thead>
          <tbody>
            {telling.map(({ share, made }) => (
              <Predicted
                key={share}
                share={share}
                made={made}
                isOpen={crossed == null && !hasEnded(run)}
              />
            ))}
          </tbody>
        </table>
      </div>
      <p class="small">
        {outcomeText(shown, all)}
        {crossed != null && `The target was met ${show.clock(crossed)} after the first step.`}
      </p>
    </section>
  );
}

// When each level was reached first, on the clock of time to accuracy.
export function ReachedTable({
  run,
  time,
  elapsed,
}: {
  run: Run;
  time: TimeToAccuracy;
  elapsed: number | null; // since the first step
}) {
  const first = show.isLoss(time.metric) ? "at or below" : "at or above";
  return (
    <div class="levels">
      {time.reached.length > 0 && (
        <section class="time-part" aria-labelledby="reached">
          <h2 id="reached">Time to each level</h2>
          <div class="scroll" tabIndex={0} role="region" aria-label="Time to each level, table">
            <table class="figures-table">
              <thead>
                <tr>
                  <th scope="col" class="num">
                    {show.metricTitle(time.metric)} {first}
                  </th>
                  <th scope="col" class="num">
                    Since the first step
                  </th>
                  <th scope="col" class="num">
                    Step
                  </th>
                </tr>
              </thead>
              <tbody>
                {time.reached.map((one) => (
                  <tr key={one.value}>
                    <td class="num">
                      {show.metric(time.metric, one.value)}
                      {one.value === run.target && <span class="mark">target</span>}
                    </td>
                    <td class="num">
                      {one.seconds == null ? "not reached" : show.duration(one.seconds)}
                    </td>
                    <td class="num">{show.count(one.step)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </section>
      )}
      <Predictions run={run} time={time} elapsed={elapsed} />
    </div>
  );
}
