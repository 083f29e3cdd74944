// The shape of a fabric: which nodes share their leaf switches, what joins these, and how a set of
// nodes lies in it. Nothing here draws.
import type { Graph, Vertex } from "./graph";
import { push } from "./graph";
import { compressHosts } from "./hostlist";

// Nodes that hang at the same leaves: those of a leaf, of a rail group, or of Slurm's block.
interface NodeGroup {
  name: string;
  leaves: string[]; // names
  nodes: string[];
}
// Switches of one level that reach the same groups.
export interface Tier {
  level: number;
  name: string;
  switches: number;
  groups: number[]; // indices, growing
}
export interface Fabric {
  id: string;
  name: string;
  isBlock: boolean; // Slurm's block topology: groups are blocks, not switches
  blockSizes: number[];
  groups: NodeGroup[];
  tiers: Tier[]; // the lowest level first; leaves are with the groups
  switches: number;
  between: (number | null)[][]; // switches on the shortest way from group to group; null: none
}

interface Net {
  leavesOf: Map<string, Set<string>>; // by node
  beside: Map<string, string[]>; // switch → switches
  switches: Map<string, Vertex>;
}

function netOf(graph: Graph, fabric: string): Net {
  const switches = new Map(
    graph
      .below(fabric, "fabric_switch")
      .map((vertex) => [vertex.id, vertex] as [string, Vertex]),
  );
  const leavesOf = new Map<string, Set<string>>();
  const beside = new Map<string, string[]>();
  for (const { kind, a, b } of graph.file.links) {
    if (kind !== "fabric") continue;
    if (switches.has(a) && switches.has(b)) {
      push(beside, a, b);
      push(beside, b, a);
      continue;
    }
    const [leaf, end] = switches.has(a) ? [a, b] : [b, a];
    const node = switches.has(leaf) ? graph.nodeOf(end) : null;
    if (node == null) continue;
    const leaves = leavesOf.get(node);
    if (leaves) leaves.add(leaf);
    else leavesOf.set(node, new Set([leaf]));
  }
  return { leavesOf, beside, switches };
}

const nameOf = (graph: Graph, vertex: Vertex) =>
  graph.text(vertex, "name") ?? vertex.id.replace(/^[a-z_]+:/, "");

const inOrder = new Intl.Collator("en", { numeric: true }).compare;

// How many switches lie between, from a set of leaves to every switch; both ends count.
function distances(leaves: string[], beside: Net["beside"]): Map<string, number> {
  const found = new Map(leaves.map((leaf) => [leaf, 1]));
  let edge = leaves;
  while (edge.length > 0) {
    const next: string[] = [];
    for (const at of edge) {
      for (const to of beside.get(at) ?? []) {
        if (found.has(to)) continue;
        found.set(to, (found.get(at) ?? 0) + 1);
        next.push(to);
      }
    }
    edge = next;
  }
  return found;
}

interface Grouped {
  ids: string[]; // of the leaves
  group: NodeGroup;
}

function groupsOf(graph: Graph, net: Net, isBlock: boolean): Grouped[] {
  const byLeaves = new Map<string, { ids: string[]; nodes: string[] }>();
  for (const [node, leaves] of net.leavesOf) {
    const ids = [...leaves].sort(inOrder);
    const key = ids.join("\n");
    const found = byLeaves.get(key);
    if (found) found.nodes.push(node);
    else byLeaves.set(key, { ids, nodes: [node] });
  }
  const sorted = [...byLeaves.values()];
  for (const { nodes } of sorted) nodes.sort(inOrder);
  sorted.sort((a, b) => inOrder(a.nodes[0] ?? "", b.nodes[0] ?? ""));
  return sorted.map(({ ids, nodes }, index) => {
    const leaves = ids.map((id) => nameOf(graph, net.switches.get(id)!));
    const [only] = leaves;
    const several = `${leaves.length} ${isBlock ? "blocks" : "leaves"}`;
    const name = leaves.length === 1 && only ? only : `Group ${index + 1} (${several})`;
    return { ids, group: { name, leaves, nodes } };
  });
}

// The switches above the leaves, joined where they reach the same groups.
function tiersOf(graph: Graph, net: Net, grouped: Grouped[]): Tier[] {
  const leaves = new Set(grouped.flatMap(({ ids }) => ids));
  const height = distances([...leaves], net.beside);
  const level = (id: string) =>
    graph.number(net.switches.get(id)!, "level") ?? (height.get(id) ?? 1) - 1;
  const reach = new Map<string, Set<number>>();
  grouped.forEach(({ ids }, index) => {
    for (const id of ids) reach.set(id, (reach.get(id) ?? new Set()).add(index));
  });
  const upper = [...net.switches.keys()].filter((id) => !leaves.has(id));
  upper.sort((a, b) => level(a) - level(b) || inOrder(a, b));
  const boxes = new Map<string, { level: number; names: string[]; groups: number[] }>();
  for (const id of upper) {
    const own = reach.get(id) ?? new Set<number>();
    for (const below of net.beside.get(id) ?? []) {
      if (level(below) < level(id)) for (const group of reach.get(below) ?? []) own.add(group);
    }
    reach.set(id, own);
    const groups = [...own].sort((a, b) => a - b);
    const key = `${level(id)} ${groups.join(",")}`;
    const box = boxes.get(key) ?? { level: level(id), names: [], groups };
    box.names.push(nameOf(graph, net.switches.get(id)!));
    boxes.set(key, box);
  }
  return [...boxes.values()].map(({ level: at, names, groups }) => ({
    level: at,
    name: compressHosts(names),
    switches: names.length,
    groups,
  }));
}

function fabricOf(graph: Graph, vertex: Vertex): Fabric {
  const net = netOf(graph, vertex.id);
  const isBlock = graph.text(vertex, "topology") === "block";
  const grouped = groupsOf(graph, net, isBlock);
  const between = grouped.map(({ ids }) => {
    const far = distances(ids, net.beside);
    return grouped.map((other) => {
      const ways = other.ids.flatMap((id) => far.get(id) ?? []);
      return ways.length > 0 ? Math.min(...ways) : null;
    });
  });
  const sizes = String(graph.fact(vertex, "block_sizes") ?? "");
  return {
    id: vertex.id,
    name: nameOf(graph, vertex),
    isBlock,
    blockSizes: sizes.split(",").map(Number).filter((size) => size > 0),
    groups: grouped.map(({ group }) => group),
    tiers: tiersOf(graph, net, grouped),
    switches: net.switches.size,
    between,
  };
}

// Those that join nodes, the one with the most switches first: storage has fewer than training.
export function fabricsOf(graph: Graph): Fabric[] {
  const all = graph.ofKind("fabric").map((vertex) => fabricOf(graph, vertex));
  return all
    .filter((fabric) => fabric.groups.length > 0)
    .sort((a, b) => b.switches - a.switches || inOrder(a.id, b.id));
}

export interface Placement {
  nodes: number; // of these that the fabric has
  missing: string[]; // the fabric has not
  groups: { index: number; nodes: string[] }[];
  // Pairs of nodes by how many switches lie between them; null: no way is known.
  pairs: { switches: number | null; count: number }[];
  changes: number; // of the group along the ring of nodes in their order
  leastChanges: number; // with the nodes in the best order
}

// How these nodes, in the order of their ranks, lie in the fabric.
export function placementOf(fabric: Fabric, nodes: string[]): Placement {
  const where = new Map<string, number>();
  fabric.groups.forEach((group, index) => group.nodes.forEach((node) => where.set(node, index)));
  const distinct = [...new Set(nodes)];
  const known = distinct.filter((node) => where.has(node));
  const byGroup = new Map<number, string[]>();
  for (const node of known) push(byGroup, where.get(node)!, node);
  const groups = [...byGroup].sort((a, b) => a[0] - b[0]);
  const pairs = new Map<number | null, number>();
  const add = (switches: number | null, count: number) => {
    if (count > 0) pairs.set(switches, (pairs.get(switches) ?? 0) + count);
  };
  groups.forEach(([a, own], index) => {
    add(1, (own.length * (own.length - 1)) / 2);
    for (const [b, other] of groups.slice(index + 1)) {
      add(fabric.between[a]?.[b] ?? null, own.length * other.length);
    }
  });
  const order = known.map((node) => where.get(node));
  const changes = order.filter((group, i) => group !== order[(i + 1) % order.length]).length;
  return {
    nodes: known.length,
    missing: distinct.filter((node) => !where.has(node)),
    groups: groups.map(([index, list]) => ({ index, nodes: list })),
    pairs: [...pairs]
      .map(([switches, count]) => ({ switches, count }))
      .sort((a, b) => (a.switches ?? Infinity) - (b.switches ?? Infinity)),
    changes,
    leastChanges: groups.length > 1 ? groups.length : 0,
  };
}

export interface Segments {
  groups: { name: string; nodes: number; free: string[] }[];
  free: number;
  largest: number; // free nodes of one group
  // How many runs of so many nodes, each within one group, could begin side by side.
  sizes: { size: number; segments: number }[];
  unknown: number; // nodes of the fabric whose state nobody tells
}

// Sizes are Slurm's own of blocks, or else powers of two up to the largest group.
export function segmentsOf(
  fabric: Pick<Fabric, "groups" | "blockSizes">,
  isFree: (node: string) => boolean | null,
): Segments {
  let unknown = 0;
  const groups = fabric.groups.map(({ name, nodes }) => {
    unknown += nodes.filter((node) => isFree(node) == null).length;
    return { name, nodes: nodes.length, free: nodes.filter((node) => isFree(node) === true) };
  });
  const most = Math.max(0, ...groups.map(({ nodes }) => nodes));
  const powers: number[] = [];
  for (let size = 1; size <= most; size *= 2) powers.push(size);
  const own = fabric.blockSizes.filter((size) => size <= most);
  const sizes = [...new Set([...(own.length > 0 ? [1, ...own] : powers)])].sort((a, b) => a - b);
  return {
    groups,
    free: groups.reduce((total, { free }) => total + free.length, 0),
    largest: Math.max(0, ...groups.map(({ free }) => free.length)),
    sizes: sizes.map((size) => ({
      size,
      segments: groups.reduce((total, { free }) => total + Math.floor(free.length / size), 0),
    })),
    unknown,
  };
}
