// What a node's newest bench says: against nodes of its kind, and against its own earlier ones.
import * as show from "../base/format";
import { When } from "../parts/when";
import type { BenchChange, BenchReport } from "./nodes_api";

const clean = show.withoutEscapes;

function Change({ change }: { change: BenchChange | undefined }) {
  if (!change) return <td class="num none">–</td>;
  return (
    <td class="num">
      <span class={change.slower ? "suspect" : undefined}>
        {show.change(change.change)}
        {change.slower && " slower"}
      </span>
      <span class="small"> ± {show.percent(change.noise)}</span>
    </td>
  );
}

// In the order of the bench; a part may be in one of the lists only.
export function partsOf(report: Pick<BenchReport, "against_fleet" | "drift">): string[] {
  return [...new Set([...report.against_fleet, ...report.drift].map(({ part }) => part))];
}

function unjudged(report: BenchReport): string {
  const reasons: string[] = [];
  if (report.against_fleet.length === 0) {
    reasons.push(`nodes of its kind with a bench: ${report.fleet_nodes}, and 3 are needed to compare`);
  }
  if (report.drift.length === 0) {
    reasons.push(`earlier benches of its own: ${report.earlier}, and 2 are needed`);
  }
  if (report.disturbed) {
    reasons.push(`the machine had other work (load ${show.number(report.load_average)}), so nothing is judged`);
  }
  return reasons.join("; ");
}

export function NodeBench({ report }: { report: BenchReport }) {
  const parts = partsOf(report);
  const find = (changes: BenchChange[], part: string) => changes.find((one) => one.part === part);
  const why = unjudged(report);
  const judged = parts.length > 0 && !report.disturbed;
  return (
    <section class="node-bench" aria-label="Newest bench of the node">
      <h3>Newest bench</h3>
      <p>
        <When at={report.at} /> on {clean(report.machine_kind)}.{" "}
        {report.slow !== "" && <b class="suspect">{clean(report.slow)}</b>}
        {report.slow === "" && judged && "Nothing in it is slow."}
      </p>
      {why !== "" && <p class="small">Not judged: {clean(why)}.</p>}
      {parts.length > 0 && (
        <div class="scroll" tabIndex={0} role="group" aria-label="Changes by part">
          <table class="bench-parts">
            <caption class="visually-hidden">
              How fast each part of the node is, against others and against before
            </caption>
            <thead>
              <tr>
                <th scope="col">Part</th>
                <th scope="col" class="num">
                  Against {show.count(report.fleet_nodes)} nodes
                </th>
                <th scope="col" class="num">
                  Against {show.count(report.earlier)} earlier
                </th>
              </tr>
            </thead>
            <tbody>
              {parts.map((part) => (
                <tr key={part}>
                  <th scope="row">{clean(part)}</th>
                  <Change change={find(report.against_fleet, part)} />
                  <Change change={find(report.drift, part)} />
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
