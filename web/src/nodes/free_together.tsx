import { useMemo } from "preact/hooks";
import * as show from "../base/format";
import type { Fabric, Segments } from "../topology/fabric";
import { segmentsOf } from "../topology/fabric";
import { NoFabric, useFabric } from "../topology/fabric_choice";
import { compressHosts } from "../topology/hostlist";
import type { Known, Machines } from "../topology/topology_api";
import type { SlimNode } from "./nodes_api";
import { isFree } from "./standing";

const clean = show.withoutEscapes;
const kMostRows = 256;

// What starts now without leaving a switch or a block, in a sentence.
export function freeText(
  { name, isBlock }: Pick<Fabric, "name" | "isBlock">,
  free: number,
  largest: number,
): string {
  const place = isBlock ? "block" : "leaf group";
  const of = `of ${clean(name)}`;
  if (free === 0) return `No node ${of} is free.`;
  const node = largest === 1 ? "node" : "nodes";
  const lie = largest === 1 ? "lies" : "lie";
  if (free === 1) return `1 node ${of} is free.`;
  if (largest === free) return `All ${show.count(free)} free nodes ${of} lie in one ${place}.`;
  return (
    `Up to ${show.count(largest)} free ${node} ${of} ${lie} in one ${place}; ` +
    `a run on up to ${show.count(free)} spans several.`
  );
}

function Sizes({ sizes }: { sizes: Segments["sizes"] }) {
  return (
    <div class="scroll">
      <table>
        <caption class="visually-hidden">Runs that could begin now, each in one group</caption>
        <thead>
          <tr>
            <th scope="col" class="num">
              Nodes of a run
            </th>
            <th scope="col" class="num">
              Such runs start now
            </th>
          </tr>
        </thead>
        <tbody>
          {sizes.map(({ size, segments }) => (
            <tr key={size}>
              <td class="num">{size}</td>
              <td class="num">{segments}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Groups({ fabric, rows }: { fabric: Fabric; rows: Segments["groups"] }) {
  const place = fabric.isBlock ? "Block" : "Leaves";
  return (
    <div
      class="scroll segment-groups"
      tabIndex={0}
      role="group"
      aria-label="Free nodes by group"
    >
      <table>
        <caption class="visually-hidden">Free nodes by {place.toLowerCase()}</caption>
        <thead>
          <tr>
            <th scope="col">{place}</th>
            <th scope="col" class="num">Free</th>
            <th scope="col">Which</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((group, index) => (
            <tr key={index}>
              <td>{clean(group.name)}</td>
              <td class="num">
                {group.free.length} / {group.nodes}
              </td>
              <td>{group.free.length > 0 ? clean(compressHosts(group.free)) : show.kDash}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Tables({
  fabric,
  nodes,
  partition,
}: {
  fabric: Fabric;
  nodes: Map<string, SlimNode>;
  partition: string | null;
}) {
  const { found, outside } = useMemo(() => {
    const counts = (node: SlimNode) =>
      isFree(node) && (partition == null || node.partitions.includes(partition));
    const inside = new Set(fabric.groups.flatMap((group) => group.nodes));
    return {
      found: segmentsOf(fabric, (name) => {
        const node = nodes.get(name);
        return node ? counts(node) : null;
      }),
      outside: [...nodes.values()].filter((node) => !inside.has(node.name) && counts(node)).length,
    };
  }, [fabric, nodes, partition]);
  const rows = found.groups
    .slice()
    .sort((a, b) => b.free.length - a.free.length)
    .slice(0, kMostRows);
  return (
    <>
      <p class="starts">{freeText(fabric, found.free, found.largest)}</p>
      <div class="segment-tables">
        <Sizes sizes={found.sizes} />
        <Groups fabric={fabric} rows={rows} />
      </div>
      {found.groups.length > rows.length && (
        <p class="small">
          And {found.groups.length - rows.length} more groups with no more free nodes than these.
        </p>
      )}
      {outside > 0 && (
        <p class="small">
          {outside === 1 ? "1 other node is" : `${show.count(outside)} other nodes are`} free, but
          not of {clean(fabric.name)}: not counted.
        </p>
      )}
      {found.unknown > 0 && (
        <p class="small">
          Of {show.count(found.unknown)} nodes of the description the scheduler tells no state;
          they do not count.
        </p>
      )}
    </>
  );
}

interface Props {
  machines: Known;
  failure: string | null; // why the fabric is not here
  nodes: Map<string, SlimNode>;
  isAsked: boolean; // whether Slurm has told its nodes
  partition: string | null;
}

function Described({ machines, nodes, partition }: Props & { machines: Machines }) {
  const { fabric, choice } = useFabric(machines.fabrics);
  if (!fabric) return <p class="nothing">The description of the machines has no fabric.</p>;
  const isIn = (node: SlimNode) => partition == null || node.partitions.includes(partition);
  if (![...nodes.values()].some(isIn)) {
    const where = partition == null ? "that Slurm lists" : "in this partition";
    return <p class="nothing">There is no node {where}.</p>;
  }
  return (
    <>
      {choice}
      <Tables fabric={fabric} nodes={nodes} partition={partition} />
    </>
  );
}

// How many free nodes lie together, so which size starts now.
export function FreeTogether(props: Props) {
  const { machines, isAsked } = props;
  return (
    <section class="free-together" aria-label="Free nodes together">
      <h2>
        Free nodes together{" "}
        <span class="small">
          {props.partition == null ? "in all partitions" : `in partition ${clean(props.partition)}`}; idle,
          usable and not suspected
        </span>
      </h2>
      {machines === undefined && <NoFabric {...props} />}
      {machines === null && (
        <p class="nothing">
          Which nodes share a switch is not known: start the controller with{" "}
          <code>--cluster FILE</code>, such as the text of <code>scontrol show topology</code>.
        </p>
      )}
      {machines && !isAsked && <p class="loading">Asking Slurm for its nodes…</p>}
      {machines && isAsked && <Described {...props} machines={machines} />}
      {machines && (
        <p class="small">
          Slurm may still hold free nodes back, for a reservation or a job of higher priority.
        </p>
      )}
    </section>
  );
}
