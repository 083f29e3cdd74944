import { useRef } from "preact/hooks";
import * as show from "../base/format";
import { useShortcuts } from "../base/keys";
import { runHash, withQuery } from "../base/route";
import { Name } from "../parts/name";
import { stepRows } from "../parts/rows";
import type { FullNode, SlimNode } from "./nodes_api";
import { isSuspect, kAvoided } from "./standing";
import { NodeState } from "./state_icon";

const clean = show.withoutEscapes;

// The address with this node opened beside what is there.
export const nodeHash = (name: string) => withQuery(location.hash || "#/nodes", { node: name });

export function gpuText(node: SlimNode): string {
  if (!node.gpus) return show.kDash;
  return `${node.gpus_allocated ?? show.kDash} / ${node.gpus.count}`;
}
export function gpuTypes(node: SlimNode): string {
  return Object.keys(node.gpus?.types ?? {}).map(clean).join(", ");
}
export function cpuText(node: SlimNode): string {
  if (node.cpus == null) return show.kDash;
  return `${node.cpus_allocated ?? show.kDash} / ${show.count(node.cpus)}`;
}
export function memoryText(node: SlimNode): string {
  if (node.memory_bytes == null) return show.kDash;
  if (node.memory_free_bytes == null) return show.bytes(node.memory_bytes);
  return `${show.bytes(node.memory_free_bytes)} of ${show.bytes(node.memory_bytes)}`;
}

export function RunLinks({ runs, most = 3 }: { runs: string[]; most?: number }) {
  return (
    <>
      {runs.slice(0, most).map((id, index) => (
        <span key={id}>
          {index > 0 && ", "}
          <a href={runHash(id)}>{clean(id)}</a>
        </span>
      ))}
      {runs.length > most && <span class="small"> and {runs.length - most} more</span>}
    </>
  );
}

export function SuspicionText({ node, why }: { node: SlimNode; why: string }) {
  if (!(node.suspicion > 0)) return null;
  const word = isSuspect(node) ? "avoided" : "watched";
  return (
    <>
      <b class={isSuspect(node) ? "suspect" : undefined}>
        {node.suspicion.toFixed(2)} {word}
      </b>
      {why !== "" && <span class="small"> {clean(why)}</span>}
    </>
  );
}

function Row({ node }: { node: FullNode }) {
  const none = (empty: boolean, name: string) => (empty ? `${name} none` : name);
  return (
    <tr data-node={node.name}>
      <td>
        <a class="row-link" href={nodeHash(node.name)} aria-label={clean(node.name)}>
          <Name text={clean(node.name)} />
        </a>
        {node.partitions.length > 0 && (
          <span class="small partitions"> {node.partitions.map(clean).join(", ")}</span>
        )}
      </td>
      <td data-name="State" title={clean(node.slurm_state)}>
        <NodeState state={node.state} />
      </td>
      <td class={none(!node.gpus, "num")} data-name="GPUs in use" title={gpuTypes(node)}>
        {gpuText(node)}
      </td>
      <td class={none(node.cpus == null, "num")} data-name="CPUs in use">
        {cpuText(node)}
      </td>
      <td class={none(node.memory_bytes == null, "num")} data-name="Memory free">
        {memoryText(node)}
      </td>
      <td class={none(node.runs.length === 0, "on")} data-name="Runs">
        <RunLinks runs={node.runs} />
      </td>
      <td
        class={none(!(node.suspicion > 0) && node.bench_slow === "", "blame")}
        data-name="Suspicion"
      >
        <span class="clamp" title={clean(`${node.suspicion_why}\n${node.bench_slow}`.trim())}>
          <SuspicionText node={node} why={node.suspicion_why} />
          {node.bench_slow !== "" && <span class="small"> {clean(node.bench_slow)}</span>}
        </span>
      </td>
      <td class={none(!node.reason && node.action === "", "reason")} data-name="Reason">
        <span class="clamp" title={clean(`${node.reason ?? ""}\n${node.action}`.trim())}>
          {node.reason && <span>{clean(node.reason)}</span>}
          {node.action !== "" && <span class="small"> {clean(node.action)}</span>}
        </span>
      </td>
    </tr>
  );
}

export function NodeTable({ nodes }: { nodes: FullNode[] }) {
  const place = useRef<HTMLTableElement>(null);
  useShortcuts([
    { keys: "j", does: "Next node", act: () => stepRows(place.current, 1) },
    { keys: "k", does: "Node before", act: () => stepRows(place.current, -1) },
  ]);
  return (
    <div class="scroll list" tabIndex={0} role="group" aria-label="List of nodes">
      <table class="nodes cards" ref={place}>
        <caption class="visually-hidden">Nodes by name</caption>
        <thead>
          <tr>
            <th scope="col">Node</th>
            <th scope="col">State</th>
            <th scope="col" class="num">GPUs in use</th>
            <th scope="col" class="num">CPUs in use</th>
            <th scope="col" class="num">Memory free</th>
            <th scope="col">Runs</th>
            <th scope="col">Suspicion</th>
            <th scope="col">Reason</th>
          </tr>
        </thead>
        <tbody>
          {nodes.map((node) => (
            <Row key={node.name} node={node} />
          ))}
        </tbody>
      </table>
      <p class="small">
        In use: given to jobs, of all. From a suspicion of {kAvoided} on, new attempts are kept away
        from a node.
      </p>
    </div>
  );
}
