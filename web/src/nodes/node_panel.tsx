import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import * as show from "../base/format";
import { useShortcuts } from "../base/keys";
import { usePoll } from "../base/poll";
import { runHash } from "../base/route";
import { titleOf } from "../events/kinds";
import { ErrorPanel } from "../parts/notices";
import { When } from "../parts/when";
import { DeviceMatrix } from "../topology/matrix";
import type { Known } from "../topology/topology_api";
import { FindingsOf } from "./findings";
import { NodeBench } from "./node_bench";
import { RunLinks, SuspicionText, cpuText, gpuText, gpuTypes, memoryText } from "./node_table";
import type { FindingPage, FullNode, NodeEvent, NodeEventPage } from "./nodes_api";
import { nodesApi } from "./nodes_api";
import { NodeState } from "./state_icon";

const clean = show.withoutEscapes;
const kFirstEvents = 20;
const kOlder = 100;
const kMostEvents = 1000; // of one answer

function EventRow({ event }: { event: NodeEvent }) {
  return (
    <tr>
      <td>
        <When at={event.at} />
      </td>
      <td data-name="What">{clean(titleOf(event.kind))}</td>
      <td class={event.run == null ? "none" : undefined} data-name="Run">
        {event.run != null && <a href={runHash(event.run)}>{clean(event.run)}</a>}
      </td>
      <td class="reason">
        {event.words != null && clean(event.words)}
        {event.by != null && <span class="small"> by {clean(event.by)}</span>}
      </td>
    </tr>
  );
}

function NodeEvents({ name }: { name: string }) {
  const [room, setRoom] = useState(kFirstEvents);
  const [page, setPage] = useState<NodeEventPage | null>(null);
  const health = usePoll(`${name} ${room}`, 5000, async (signal) => {
    setPage(await nodesApi.events(name, room, signal));
  });
  if (health.refusal) {
    return <ErrorPanel title="The events cannot be shown" text={clean(health.refusal.message)} />;
  }
  if (!page) return <p class="loading">Loading events…</p>;
  if (page.events.length === 0) return <p class="nothing">No events of this node are recorded.</p>;
  return (
    <>
      <div class="scroll node-events" tabIndex={0} role="group" aria-label="Events of the node">
        <table class="cards">
          <caption class="visually-hidden">What happened to the node, the newest first</caption>
          <thead>
            <tr>
              <th scope="col">When</th>
              <th scope="col">What</th>
              <th scope="col">Run</th>
              <th scope="col">Details</th>
            </tr>
          </thead>
          <tbody>
            {page.events
              .slice()
              .reverse()
              .map((event) => (
                <EventRow key={event.number} event={event} />
              ))}
          </tbody>
        </table>
      </div>
      {page.more && room < kMostEvents && (
        <button type="button" onClick={() => setRoom(Math.min(kMostEvents, room + kOlder))}>
          Older events
        </button>
      )}
    </>
  );
}

function Facts({ node }: { node: FullNode }) {
  const rows: [string, ComponentChildren][] = [
    ["State", <NodeState state={node.state} />],
    ["Slurm's state", node.slurm_state === "" ? null : <code>{clean(node.slurm_state)}</code>],
    ["May get work", node.usable ? "yes" : "no"],
    ["Reason", node.reason && clean(node.reason)],
    ["What to do", node.action === "" ? null : clean(node.action)],
    [
      "Suspicion",
      node.suspicion > 0 ? <SuspicionText node={node} why={node.suspicion_why} /> : "none",
    ],
    ["GPUs in use", node.gpus && `${gpuText(node)} ${gpuTypes(node)}`],
    ["CPUs in use", node.cpus == null ? null : cpuText(node)],
    ["Memory free", node.memory_bytes == null ? null : memoryText(node)],
    ["Partitions", node.partitions.map(clean).join(", ") || null],
    ["Features", node.features.map(clean).join(", ") || null],
    [
      "Runs",
      node.runs.length > 0 ? <RunLinks runs={node.runs} most={20} /> : "none of this controller",
    ],
  ];
  return (
    <dl class="details">
      {rows.map(
        ([name, value]) =>
          value != null &&
          value !== "" && (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ),
      )}
    </dl>
  );
}

// All that is known of one node, beside the list.
export function NodePanel({
  name,
  machines,
  findings,
  onClose,
}: {
  name: string;
  machines: Known;
  findings: FindingPage | null;
  onClose: () => void;
}) {
  const [node, setNode] = useState<FullNode | null | undefined>(undefined);
  const title = useRef<HTMLHeadingElement>(null);
  useShortcuts([{ keys: "Escape", does: "Close the node", act: onClose }]);
  const health = usePoll(name, 5000, async (signal) => setNode(await nodesApi.one(name, signal)));
  // As it appears, lest the focus be taken from what a quick user has gone on to.
  useLayoutEffect(() => {
    setNode(undefined);
    title.current?.focus();
  }, [name]);
  const described = machines?.graph.find(name)?.kind === "node";
  return (
    <section class="node-panel" aria-label={`Node ${clean(name)}`}>
      <div class="node-head">
        <h2 ref={title} tabIndex={-1}>
          Node {clean(name)}
        </h2>
        <button type="button" onClick={onClose}>
          Close
        </button>
      </div>
      {health.refusal && (
        <ErrorPanel title="The node cannot be shown" text={clean(health.refusal.message)} />
      )}
      {node === undefined && !health.refusal && <p class="loading">Loading node…</p>}
      {node === null && <p class="nothing">The scheduler does not list a node of this name.</p>}
      {node && <Facts node={node} />}
      {node?.bench && <NodeBench report={node.bench} />}
      <FindingsOf key={`found ${name}`} node={name} page={findings} />
      {described && machines && (
        <>
          <h3>GPUs and NICs</h3>
          <DeviceMatrix graph={machines.graph} node={name} />
        </>
      )}
      <h3>What happened</h3>
      <NodeEvents key={name} name={name} />
    </section>
  );
}
