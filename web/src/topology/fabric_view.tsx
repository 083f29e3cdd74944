import { useMemo, useState } from "preact/hooks";
import * as show from "../base/format";
import type { SlimNode } from "../nodes/nodes_api";
import type { Standing } from "../nodes/standing";
import type { Fabric } from "./fabric";
import { placementOf } from "./fabric";
import { useFabric } from "./fabric_choice";
import { compressHosts } from "./hostlist";
import { NodeMap, standingIn } from "./node_map";
import type { Machines } from "./topology_api";

const clean = show.withoutEscapes;
const kMostGroups = 512; // rows of the table
const kMostMissing = 64; // nodes, by name

export interface MarkedRun {
  nodes: string[];
  isInOrder: boolean; // of its ranks
  as: string; // "of this run"
}

const amount = (count: number, one: string, many = `${one}s`) =>
  `${show.count(count)} ${count === 1 ? one : many}`;

// What the drawing shows, in words.
function fabricText(fabric: Fabric): string {
  const nodes = fabric.groups.reduce((sum, group) => sum + group.nodes.length, 0);
  const kind = amount(fabric.groups.length, fabric.isBlock ? "block" : "group");
  const tiers = fabric.tiers.map(
    (tier) => `level ${tier.level}: ${amount(tier.switches, "switch", "switches")}`,
  );
  return [`${clean(fabric.name)}: ${amount(nodes, "node")} in ${kind}`, ...tiers].join(", ");
}

// How the run's nodes lie, as sentences.
export function placementText(
  fabric: Fabric,
  { nodes, isInOrder }: Pick<MarkedRun, "nodes" | "isInOrder">,
): string[] {
  const at = placementOf(fabric, nodes);
  const word = fabric.isBlock ? "block" : "leaf group";
  const lines: string[] = [];
  if (at.nodes > 0) {
    const all = amount(fabric.groups.length, word);
    lines.push(`${amount(at.nodes, "node")} in ${at.groups.length} of ${all}.`);
  }
  const pairs = at.pairs.map(({ switches, count }) =>
    switches == null
      ? `${amount(count, "pair")} without a known way`
      : `${amount(count, "pair")} over ${amount(switches, "switch", "switches")}`,
  );
  if (pairs.length > 0) lines.push(`Between its nodes: ${pairs.join(", ")}.`);
  if (isInOrder && at.groups.length > 1) {
    lines.push(
      `A ring in the order of its ranks leaves a ${word} ${amount(at.changes, "time")}; ` +
        `the least possible is ${at.leastChanges}.`,
    );
  }
  if (at.missing.length > 0) {
    const more = at.missing.length - kMostMissing;
    const rest = more > 0 ? ` and ${show.count(more)} more` : "";
    const some = compressHosts(at.missing.slice(0, kMostMissing));
    lines.push(`Not in this fabric: ${clean(some)}${rest}.`);
  }
  return lines;
}

function GroupTable({
  fabric,
  nodes,
  run,
}: {
  fabric: Fabric;
  nodes: Map<string, SlimNode>;
  run: MarkedRun | undefined;
}) {
  const marked = new Set(run?.nodes);
  const count = (names: string[], ...of: Standing[]) =>
    names.filter((name) => of.includes(standingIn(nodes, name))).length;
  return (
    <>
      <div class="scroll">
        <table class="group-table cards">
          <caption class="visually-hidden">Nodes of {clean(fabric.name)} by their leaves</caption>
          <thead>
            <tr>
              <th scope="col">{fabric.isBlock ? "Block" : "Leaves"}</th>
              <th scope="col">Nodes</th>
              <th scope="col" class="num">Free</th>
              <th scope="col" class="num">In use</th>
              <th scope="col" class="num">Drained or down</th>
              <th scope="col" class="num">Other</th>
              {run && <th scope="col" class="num">{run.as}</th>}
            </tr>
          </thead>
          <tbody>
            {fabric.groups.slice(0, kMostGroups).map((group, index) => (
              <tr key={index}>
                <td>
                  {clean(group.name)}
                  {group.leaves.length > 1 && (
                    <span class="small"> {clean(compressHosts(group.leaves))}</span>
                  )}
                </td>
                <td class="names" data-name="Nodes">
                  {show.count(group.nodes.length)}{" "}
                  <span class="small">{clean(compressHosts(group.nodes))}</span>
                </td>
                <td class="num" data-name="Free">{count(group.nodes, "free")}</td>
                <td class="num" data-name="In use">{count(group.nodes, "busy")}</td>
                <td class="num" data-name="Drained or down">
                  {count(group.nodes, "drained", "down")}
                </td>
                <td class="num" data-name="Other">{count(group.nodes, "held", "unknown")}</td>
                {run && (
                  <td class="num" data-name={run.as}>
                    {group.nodes.filter((name) => marked.has(name)).length}
                  </td>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {fabric.groups.length > kMostGroups && (
        <p class="small">
          And {fabric.groups.length - kMostGroups} more groups, which are not listed.
        </p>
      )}
    </>
  );
}

// The fabric as a tree of switches, leaves and nodes, which carry their states and a run's marks.
export function FabricView({
  machines,
  nodes,
  run,
  onOpen,
}: {
  machines: Machines;
  nodes: Map<string, SlimNode>;
  run?: MarkedRun;
  onOpen: (node: string) => void;
}) {
  const { fabric, choice } = useFabric(machines.fabrics);
  const [table, setTable] = useState(false);
  const groups = useMemo(
    () =>
      fabric?.groups.map(({ name, leaves, nodes: list }) => ({
        name,
        title: leaves.length > 1 ? `${name}: ${leaves.join(", ")}` : name,
        nodes: list,
      })) ?? [],
    [fabric],
  );
  const names = run?.nodes.join("\n");
  const marked = useMemo(() => new Set(names?.split("\n")), [names]);
  if (!fabric) {
    const nodesText = amount(machines.topology.nodes, "node");
    return <p class="nothing">No fabric is described, only {nodesText}.</p>;
  }
  const summary = fabricText(fabric);
  return (
    <div class="fabric">
      <div class="fabric-head">
        {choice}
        <span class="small fabric-text">{summary}</span>
        <button type="button" aria-expanded={table} onClick={() => setTable(!table)}>
          {table ? "Hide the table" : "As a table"}
        </button>
      </div>
      {run && <p class="placement">{placementText(fabric, run).join(" ")}</p>}
      <NodeMap
        label={`Nodes by fabric. ${summary}`}
        groups={groups}
        tiers={fabric.tiers}
        nodes={nodes}
        onOpen={onOpen}
        {...(run && { marked, markedAs: run.as })}
      />
      {fabric.tiers.length > 0 && (
        <p class="small">
          On the left, switches above the leaves:{" "}
          {fabric.tiers.map((tier) => `level ${tier.level}, ${clean(tier.name)}`).join("; ")}
        </p>
      )}
      {table && <GroupTable fabric={fabric} nodes={nodes} run={run} />}
    </div>
  );
}
