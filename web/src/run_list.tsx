import { useEffect } from "preact/hooks";
import type { RunRow } from "./api";
import { hasEnded } from "./api";
import * as show from "./format";
import { StateBadge } from "./icons";
import { Connection, ErrorPanel } from "./notices";
import type { Health } from "./poll";
import { runHash } from "./route";

// Done steps; for a run with a target also how far the metric has come.
export function Progress({ run, label = true }: { run: RunRow; label?: boolean }) {
  const steps = Math.max(run.step, run.steps); // an attempt goes on as it began, past a lowered end
  const share = steps > 0 ? run.step / steps : 0;
  return (
    <div class={`progress ${run.state}`}>
      <progress max={1} value={share} aria-label={`step ${run.step} of ${steps}`} />
      {label && (
        <span class="small">
          {show.count(run.step)} / {show.count(steps)}
        </span>
      )}
    </div>
  );
}

function timeCell(run: RunRow) {
  if (run.time_to_accuracy_seconds != null) {
    return { main: show.duration(run.time_to_accuracy_seconds), note: "to target" };
  }
  if (!hasEnded(run) && run.predicted_seconds_to_target != null) {
    return {
      main: show.duration(run.training_seconds),
      note: `≈ ${show.duration(run.predicted_seconds_to_target)} left to target`,
    };
  }
  if (run.step > 0) return { main: show.duration(run.training_seconds), note: "training" };
  return { main: show.duration(run.since_submission_seconds), note: "since submission" };
}

function Row({ run }: { run: RunRow }) {
  const time = timeCell(run);
  const target = show.target(run);
  return (
    <tr>
      <td class="cell-state" title={run.state_text}>
        <StateBadge state={run.state} />
      </td>
      <td class="cell-name">
        <a class="row-link" href={runHash(run.id)}>
          {run.name}
        </a>
        <span class="small id">{run.id}</span>
      </td>
      <td class="cell-progress">
        <Progress run={run} />
      </td>
      <td class="cell-metric num">
        <span class={run.target_reached ? "reached" : undefined}>
          {show.metric(run.metric, run.value)}
        </span>
        <span class="small">
          {target == null ? "no target" : `${run.target_reached ? "reached" : "of"} ${target}`}
        </span>
      </td>
      <td class="cell-speed num">
        {show.number(run.samples_per_second)}
        <span class="small">samples/s</span>
      </td>
      <td class="cell-time num">
        {time.main}
        <span class="small">{time.note}</span>
      </td>
    </tr>
  );
}

const kCommands = `regatta-train prepare my-text/ --train-vocab 4000 --output dataset
regatta submit run.yaml`;

function Empty() {
  return (
    <section class="empty">
      <h2>No runs yet</h2>
      <p>Turn text into a dataset, then submit a run; it shows up here within a second.</p>
      <pre>
        <code>{kCommands}</code>
      </pre>
    </section>
  );
}

export function RunList({ runs, health }: { runs: RunRow[] | null; health: Health }) {
  const active = runs?.filter((run) => !hasEnded(run)).length ?? 0;
  useEffect(() => {
    document.title = active > 0 ? `(${active}) Regatta` : "Regatta";
  }, [active]);
  return (
    <>
      <Connection health={health} />
      {health.refusal && (
        <ErrorPanel title="The controller refused the list of runs" text={health.refusal.message} />
      )}
      {runs == null ? (
        !health.failure && !health.refusal && <p class="loading">Loading runs…</p>
      ) : runs.length === 0 ? (
        <Empty />
      ) : (
        <>
          <div class="heading">
            <h1>Runs</h1>
            <span class="small">
              {active > 0 ? `${active} active, ` : ""}
              {runs.length} shown
            </span>
          </div>
          <table class="runs">
            <thead>
              <tr>
                <th scope="col">State</th>
                <th scope="col">Run</th>
                <th scope="col">Step</th>
                <th scope="col" class="num">
                  {runs.every((run) => show.isAccuracy(run.metric)) ? "Accuracy" : "Metric"}
                </th>
                <th scope="col" class="num">
                  Speed
                </th>
                <th scope="col" class="num">
                  Time
                </th>
              </tr>
            </thead>
            <tbody>
              {runs.map((run) => (
                <Row key={run.id} run={run} />
              ))}
            </tbody>
          </table>
        </>
      )}
    </>
  );
}
