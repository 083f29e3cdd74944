import { useState } from "preact/hooks";
import * as show from "../base/format";
import { usePoll } from "../base/poll";
import { Refusal } from "../base/request";
import { nodeHash } from "./node_table";
import type { Finding, FindingPage } from "./nodes_api";
import { nodesApi } from "./nodes_api";

const clean = show.withoutEscapes;
const kEvery = 5000; // ms, until there is an answer
const kFirst = 8;

// What the doctor finds in the machines that the controller was told of, where there are some; null:
// not known. Asked once, as those change only with another start of the controller.
export function useFindings(areThere: boolean): FindingPage | null {
  const [page, setPage] = useState<FindingPage | null>(null);
  const [isOld, setIsOld] = useState(false); // the controller, older than this question
  usePoll(areThere && !page && !isOld ? "findings" : null, kEvery, async (signal) => {
    try {
      setPage(await nodesApi.findings(signal));
    } catch (error) {
      if (!(error instanceof Refusal && error.status === 404)) throw error;
      setIsOld(true);
    }
  });
  return page;
}

const kWords = { error: "Error", warning: "Warning", note: "Note" } as const;
const kSigns = { error: "✕", warning: "⚠", note: "·" } as const;
const kOrder = ["error", "warning", "note"] as const;

// "2 errors, 1 note"
export function countText(findings: Finding[]): string {
  return kOrder
    .map((severity) => {
      const count = findings.filter((one) => one.severity === severity).length;
      if (count === 0) return "";
      return `${show.count(count)} ${severity}${count === 1 ? "" : "s"}`;
    })
    .filter((text) => text !== "")
    .join(", ");
}

function costText({ cost_gb_per_s: rate, cost_milliseconds: time }: Finding): string | null {
  if (rate == null) return null;
  const more = time == null ? "" : `, ${show.number(time)} ms for a gradient of BERT-Large`;
  return `costs about ${show.number(rate)} GB/s${more}`;
}

function Item({ finding }: { finding: Finding }) {
  const cost = costText(finding);
  return (
    <li class={`finding ${finding.severity}`}>
      <span class="finding-head">
        <span aria-hidden="true">{kSigns[finding.severity]}</span> {kWords[finding.severity]}
      </span>
      <div>
        {clean(finding.words)}
        {finding.node != null && (
          <>
            {" "}
            <a href={nodeHash(finding.node)}>{clean(finding.node)}</a>
          </>
        )}
        {cost != null && <span class="small"> {cost}</span>}
        <p class="small">{clean(finding.remedy)}</p>
      </div>
    </li>
  );
}

function List({ findings }: { findings: Finding[] }) {
  const [all, setAll] = useState(false);
  const shown = all ? findings : findings.slice(0, kFirst);
  return (
    <>
      <ul class="findings">
        {shown.map((finding, index) => (
          <Item key={index} finding={finding} />
        ))}
      </ul>
      {findings.length > kFirst && (
        <button type="button" aria-expanded={all} onClick={() => setAll(!all)}>
          {all ? "Only the worst" : `All ${show.count(findings.length)}`}
        </button>
      )}
    </>
  );
}

// Of all machines, worst first.
export function FindingsPart({ page }: { page: FindingPage | null }) {
  if (!page || page.findings.length === 0) return null;
  const { findings, total } = page;
  const cut = total > findings.length ? `, the worst ${show.count(findings.length)} of ${show.count(total)}` : "";
  return (
    <section class="doctor" aria-label="What the doctor finds">
      <h2>
        What the doctor finds <span class="small">{countText(findings) + cut}</span>
      </h2>
      <p class="small">
        In the machines as the controller was told of them. <code>regatta doctor</code> on a node
        sees more.
      </p>
      <List findings={findings} />
    </section>
  );
}

// Of one node, beside it.
export function FindingsOf({ node, page }: { node: string; page: FindingPage | null }) {
  const own = page?.findings.filter((finding) => finding.node === node) ?? [];
  if (own.length === 0) return null;
  return (
    <>
      <h3>
        What the doctor finds <span class="small">{countText(own)}</span>
      </h3>
      <List findings={own} />
    </>
  );
}
