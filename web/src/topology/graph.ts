// The graph of machines and fabrics (docs/formats/topology.md), ready to be asked. Nothing here
// draws, and no name is trusted to be more than a text.

export type Fact = [key: string, value: number | string, source: number];
export interface Vertex {
  kind: string;
  id: string;
  parent?: string;
  facts: Fact[];
}
export interface Link {
  kind: string;
  a: string;
  b: string;
  facts: Fact[];
}
export interface GraphFile {
  regatta_graph: number;
  sources: { source: string; place: string }[];
  vertices: Vertex[];
  links: Link[];
}

// The most trusted first, where sources disagree (topology/graph/graph.h).
const kTrust = [
  "measured",
  "user",
  "sysfs",
  "nvml",
  "nvidia-smi",
  "nccl-xml",
  "nccl-graph",
  "ibnetdiscover",
  "slurm",
  "derived",
];

export class Graph {
  private readonly byId = new Map<string, Vertex>();
  private readonly inside = new Map<string, Vertex[]>(); // children, in the file's order
  private readonly ofNode = new Map<string, Link[]>(); // links of what is in a node
  private readonly trust: number[];

  constructor(readonly file: GraphFile) {
    this.trust = file.sources.map(({ source }) => {
      const place = kTrust.indexOf(source);
      return place < 0 ? kTrust.length : place;
    });
    for (const vertex of file.vertices) {
      this.byId.set(vertex.id, vertex);
      if (vertex.parent != null) push(this.inside, vertex.parent, vertex);
    }
    for (const link of file.links) {
      const [a, b] = [this.nodeOf(link.a), this.nodeOf(link.b)];
      if (a != null) push(this.ofNode, a, link);
      if (b != null && b !== a) push(this.ofNode, b, link);
    }
  }

  find(id: string): Vertex | undefined {
    return this.byId.get(id);
  }
  children(id: string): Vertex[] {
    return this.inside.get(id) ?? [];
  }
  ofKind(kind: string): Vertex[] {
    return this.file.vertices.filter((vertex) => vertex.kind === kind);
  }
  // All of a kind within it, however deep.
  below(id: string, kind: string): Vertex[] {
    return this.children(id).flatMap((child) => [
      ...(child.kind === kind ? [child] : []),
      ...this.below(child.id, kind),
    ]);
  }
  // The node that contains it, or that it is.
  nodeOf(id: string): string | null {
    for (let at = this.byId.get(id); at; at = this.parent(at)) {
      if (at.kind === "node") return at.id;
    }
    return null;
  }
  parent(vertex: Vertex): Vertex | undefined {
    return vertex.parent == null ? undefined : this.byId.get(vertex.parent);
  }
  linksOf(node: string): Link[] {
    return this.ofNode.get(node) ?? [];
  }

  // What the most trusted source says.
  fact({ facts }: { facts: Fact[] }, key: string): number | string | null {
    let best: Fact | null = null;
    for (const fact of facts) {
      if (fact[0] !== key) continue;
      if (!best || this.rank(fact) < this.rank(best)) best = fact;
    }
    return best ? best[1] : null;
  }
  number(of: { facts: Fact[] }, key: string): number | null {
    const value = this.fact(of, key);
    return typeof value === "number" ? value : null;
  }
  text(of: { facts: Fact[] }, key: string): string | null {
    const value = this.fact(of, key);
    return typeof value === "string" && value !== "" ? value : null;
  }
  private rank(fact: Fact): number {
    return this.trust[fact[2]] ?? kTrust.length;
  }
}

export function push<K, V>(map: Map<K, V[]>, key: K, value: V) {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}

// What of a device stands out from what it should be, in words; what no source says does not.
export function oddOf(graph: Graph, vertex: Vertex): string[] {
  const odd: string[] = [];
  const number = (key: string) => graph.number(vertex, key);
  const down = number("nvlinks_down");
  if (down === 1) odd.push("1 NVLink is down");
  if (down != null && down > 1) odd.push(`${down} NVLinks are down`);
  const state = graph.text(vertex, "state");
  const isUp = state == null || /active|up/i.test(state);
  if (vertex.kind === "nic" && !isUp) odd.push(`port is ${state}`);
  const [width, full] = [number("pcie_width"), number("pcie_max_width")];
  if (width != null && full != null && width < full) odd.push(`PCIe ×${width} of ×${full}`);
  if (number("gdr") === 0) odd.push("no GPUDirect RDMA");
  if (vertex.kind === "pci" && number("acs") === 1) {
    odd.push("ACS redirects peer traffic through the CPU");
  }
  return odd;
}
