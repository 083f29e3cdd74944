import type { ComponentChildren } from "preact";
import type { Run } from "../base/api";
import * as show from "../base/format";
import { EnvironmentPart } from "../environment/environment_part";
import { withUnseen } from "../parts/values";
import { When } from "../parts/when";

export function DetailsTab({ run }: { run: Run }) {
  const attempt = run.attempt;
  const rows: [string, ComponentChildren][] = [
    ["Run", run.id],
    ["Directory", run.directory],
    ["Submitted", <When at={run.created_at} full />],
    ["First step", <When at={run.started_at} full />],
    ["Ended", <When at={run.ended_at} full />],
    ["Samples seen", show.count(run.samples)],
    ...(run.progress == null
      ? []
      : ([["Samples of a step now", show.count(run.batch_size)]] as [string, ComponentChildren][])),
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
            <dd>{typeof value === "string" ? show.withoutEscapes(value) : value}</dd>
          </div>
        ))}
      </dl>
      <h2>Run file</h2>
      <pre class="log config" tabIndex={0}>
        {withUnseen(JSON.stringify(run.config, null, 2))}
      </pre>
      <EnvironmentPart run={run} />
    </>
  );
}
