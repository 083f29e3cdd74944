import type { Run } from "../base/api";
import * as show from "../base/format";

export function DetailsTab({ run }: { run: Run }) {
  const attempt = run.attempt;
  const rows: [string, string][] = [
    ["Run", run.id],
    ["Directory", run.directory],
    ["Submitted", show.when(run.created_at)],
    ["First step", show.when(run.started_at)],
    ["Ended", show.when(run.ended_at)],
    ["Samples seen", show.count(run.samples)],
    ["Training loss", show.number(run.loss)],
  ];
  if (attempt) {
    rows.push([
      "Attempt",
      `${attempt.number}, ${attempt.state}, execution ${attempt.execution ?? show.kDash}`,
    ]);
    if (attempt.process != null) rows.push(["Process", String(attempt.process)]);
    if (attempt.exit_code != null) rows.push(["Exit code", String(attempt.exit_code)]);
    if (attempt.reason) rows.push(["Reason", attempt.reason]);
  }
  return (
    <>
      <dl class="details">
        {rows.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <h2>Run file</h2>
      <pre class="log config" tabIndex={0}>
        {JSON.stringify(run.config, null, 2)}
      </pre>
    </>
  );
}
