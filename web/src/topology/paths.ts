// How the GPUs and NICs of a node reach each other, in NCCL's words: the rules of
// topology/graph/paths.h. The way with the best type counts, then the one with the fewest steps.
import type { Graph, Link, Vertex } from "./graph";
import { push } from "./graph";

// Nearer first.
const kPathTypes = [
  "LOC",
  "NVL",
  "NVB",
  "C2C",
  "PIX",
  "PXB",
  "P2C",
  "PXN",
  "PHB",
  "SYS",
  "NET",
  "DIS",
] as const;
type PathType = (typeof kPathTypes)[number];
const rank = (type: PathType) => kPathTypes.indexOf(type);

interface Path {
  type: PathType;
  isKnown: boolean; // false: no source says where both are
  gbPerSecond: number | null; // of the narrowest part, one direction
  nvlinks: number | null;
  isXgmi: boolean;
}

interface Way {
  to: string;
  kind: string;
  speed: number | null;
  count: number | null;
}
interface Label {
  type: PathType;
  hops: number;
  speed: number | null;
  count: number | null;
  before: string | null;
  kind: string | null; // of the way that led here
  done: boolean;
}

const kNoPath: Path = {
  type: "DIS",
  isKnown: true,
  gbPerSecond: null,
  nvlinks: null,
  isXgmi: false,
};
const kStart: Label = {
  type: "LOC",
  hops: 0,
  speed: null,
  count: null,
  before: null,
  kind: null,
  done: false,
};

const isDevice = (kind: string) => kind === "gpu" || kind === "nic";
const narrower = (a: number | null, b: number | null) =>
  a == null || b == null ? null : Math.min(a, b);
const sum = (a: number | null, b: number | null) => (a == null || b == null ? null : a + b);
const worse = (a: PathType, b: PathType) => (rank(a) > rank(b) ? a : b);

function isBetter(a: Label, b: Label): boolean {
  if (a.type !== b.type) return rank(a.type) < rank(b.type);
  if (a.hops !== b.hops) return a.hops < b.hops;
  return (a.speed ?? 0) > (b.speed ?? 0);
}

// "NV12", "NODE", "SOC" of nvidia-smi, and NCCL's own names.
function parseType(text: string | null): PathType | null {
  if (text === "NODE") return "PHB";
  if (text === "SOC") return "SYS";
  if (text != null && /^NV\d+$/.test(text)) return "NVL";
  return kPathTypes.find((type) => type === text) ?? null;
}

export class Paths {
  private readonly ways = new Map<string, Way[]>();
  private readonly numas: number;

  constructor(
    private readonly graph: Graph,
    private readonly node: string,
  ) {
    this.numas = graph.below(node, "numa").length;
    for (const link of graph.linksOf(node)) this.addLink(link);
    this.addContainment(node);
  }

  between(a: Vertex, b: Vertex): Path {
    if (a.id === b.id) return { ...kNoPath, type: "LOC" };
    if (a.kind === "nic" && b.kind === "gpu") return this.between(b, a);
    const { path, via } = this.search(a.id, b.id);
    if (rank(path.type) > rank("C2C")) {
      const overNode = via.some((id) => this.kind(id) === "node");
      const isVague = overNode && !(this.isBelowNuma(a) && this.isBelowNuma(b));
      const isExact = this.isPlaced(a) && this.isPlaced(b) && !isVague;
      const told = isExact ? null : this.told(a, b);
      if (told) return { ...path, type: told, isKnown: true, gbPerSecond: null, nvlinks: null };
      path.isKnown = !isVague || this.numas === 1;
    }
    if (path.type === "DIS") return path;
    for (const end of [a, b]) {
      const port = this.graph.number(end, "mbit_per_s");
      if (port != null && port > 0) path.gbPerSecond = narrower(path.gbPerSecond, port / 8000);
    }
    return path;
  }

  private kind(id: string): string {
    return this.graph.find(id)?.kind ?? "";
  }

  // NCCL takes all NVSwitches of a node for one, so that links to them add up.
  private merged(id: string): string | null {
    const vertex = this.graph.find(id);
    if (vertex?.kind !== "nvswitch" || vertex.parent == null) return id;
    const beside = this.graph.children(vertex.parent).filter(({ kind }) => kind === "nvswitch");
    // One that stands for others which a better source names: its links are theirs, listed twice.
    if (id.endsWith("/nvswitch#0") && beside.length > 1) return null;
    return beside[0]?.id ?? id;
  }

  private addLink(link: Link) {
    if (link.kind === "fabric") return;
    const [a, b] = [this.merged(link.a), this.merged(link.b)];
    if (a == null || b == null || a === b) return;
    const speed = this.graph.number(link, "gb_per_s");
    const count = this.graph.number(link, "count");
    this.addWay(a, { to: b, kind: link.kind, speed, count });
    this.addWay(b, { to: a, kind: link.kind, speed, count });
  }
  private addWay(from: string, way: Way) {
    const same = this.ways.get(from)?.find((one) => one.to === way.to && one.kind === way.kind);
    if (!same) return push(this.ways, from, way);
    same.speed = sum(same.speed, way.speed);
    same.count = sum(same.count, way.count);
  }
  // What lies in something reaches it, also where no source describes the link.
  private addContainment(id: string) {
    for (const child of this.graph.children(id)) {
      const told = this.ways.get(child.id)?.some((way) => way.to === id && way.kind === "pcie");
      const kind = child.kind === "numa" ? "smp" : "pcie";
      const belongs = isDevice(child.kind) || child.kind === "pci" || child.kind === "numa";
      if (belongs && !(kind === "pcie" && told)) {
        this.addWay(id, { to: child.id, kind, speed: null, count: null });
        this.addWay(child.id, { to: id, kind, speed: null, count: null });
      }
      this.addContainment(child.id);
    }
  }

  // The type of a path that goes on this way; null where none can.
  private step(at: Label, from: string, way: Way, target: string): PathType | null {
    const [here, there] = [this.kind(from), this.kind(way.to)];
    const passes = there === "gpu" && way.kind !== "pcie";
    if (isDevice(there) && way.to !== target && !passes) return null;
    let type: PathType = "PIX";
    if (way.kind === "nvlink" || way.kind === "xgmi") type = "NVL";
    else if (way.kind === "c2c") type = "C2C";
    else if (way.kind === "smp") type = "SYS";
    else if (here === "numa" || there === "numa") {
      const isDirect = at.type === "C2C" && here === "numa" && this.kind(target) === "nic";
      type = isDirect ? "P2C" : "PHB";
    } else if (here === "node" || there === "node") type = this.numas > 1 ? "SYS" : "PHB";
    else if (here === "pci" && there === "pci") type = "PXB";
    if (at.hops > 0 && isDevice(here)) {
      // GPUs pass on what comes over one NVLink and leaves over another, NICs nothing.
      const comesByNvlink = here === "gpu" && at.type === "NVL" && at.hops === 1;
      const relays = comesByNvlink && type === "NVL" && way.to === target && there === "gpu";
      if (!relays) return null;
      type = "NVB";
    }
    return worse(at.type, type);
  }

  private search(a: string, b: string): { path: Path; via: string[] } {
    const labels = new Map<string, Label>([[a, { ...kStart }]]);
    for (;;) {
      let at: string | null = null;
      for (const [id, label] of labels) {
        if (!label.done && (at == null || isBetter(label, labels.get(at)!))) at = id;
      }
      if (at == null) break;
      const label = labels.get(at)!;
      label.done = true;
      if (at === b) break;
      for (const way of this.ways.get(at) ?? []) {
        const type = this.step(label, at, way, b);
        if (type == null) continue;
        const first = at === a;
        const narrowest = Math.min(label.count ?? Infinity, way.count ?? Infinity);
        const next: Label = {
          type,
          hops: label.hops + 1,
          speed: first ? way.speed : narrower(label.speed, way.speed),
          count: first || label.count == null || way.count == null ? way.count : narrowest,
          before: at,
          kind: way.kind,
          done: false,
        };
        const old = labels.get(way.to);
        if (!old || (!old.done && isBetter(next, old))) labels.set(way.to, next);
      }
    }
    return this.pathTo(b, labels);
  }

  private pathTo(b: string, labels: Map<string, Label>): { path: Path; via: string[] } {
    const end = labels.get(b);
    const path: Path = { ...kNoPath };
    if (!end?.done) return { path, via: [] };
    path.type = end.type;
    path.gbPerSecond = end.speed;
    if (end.type === "NVL" || end.type === "NVB") path.nvlinks = end.count;
    const via: string[] = [];
    for (let at: string | null = b; at != null; ) {
      const label: Label | undefined = labels.get(at);
      via.push(at);
      if (label?.kind === "xgmi") path.isXgmi = true;
      at = label?.before ?? null;
    }
    return { path, via };
  }

  // nvidia-smi's matrix.
  private told(a: Vertex, b: Vertex): PathType | null {
    const one = parseType(this.graph.text(a, `path.${b.id}`));
    return one ?? parseType(this.graph.text(b, `path.${a.id}`));
  }
  private isPlaced({ id, parent }: Vertex): boolean {
    if (parent == null) return false;
    if (this.kind(parent) === "pci") return true;
    return this.graph.linksOf(this.node).some(({ kind, a, b }) => {
      return kind === "pcie" && (a === id ? b === parent : b === id && a === parent);
    });
  }
  private isBelowNuma(vertex: Vertex): boolean {
    for (let at: Vertex | undefined = vertex; at; at = this.graph.parent(at)) {
      if (at.kind === "numa") return true;
    }
    return false;
  }
}

export interface Device {
  vertex: Vertex;
  label: string;
}
export interface Cell {
  text: string; // "NV18", "PIX", "–"
  meaning: string;
  type: PathType;
  gbPerSecond: number | null;
}
export interface Matrix {
  rows: (Device & { numa: string | null; cells: Cell[] })[];
  columns: Device[];
  legend: [string, string][]; // word, meaning; the nearest first
}

const kMeanings: Record<PathType, string> = {
  LOC: "the same device",
  NVL: "NVLink (NV#: that many of them)",
  NVB: "NVLink over another GPU",
  C2C: "the chip-to-chip link of GPU and CPU",
  PIX: "one PCIe bridge",
  PXB: "several PCIe bridges",
  P2C: "the CPU that the GPU has a chip-to-chip link to",
  PXN: "NVLink to a GPU near the NIC",
  PHB: "the CPU",
  SYS: "several CPUs",
  NET: "the network",
  DIS: "no connection is known",
};

function labelOf(graph: Graph, vertex: Vertex): string {
  const index = graph.number(vertex, "index");
  if (vertex.kind === "gpu" && index != null) return `GPU${index}`;
  const name = vertex.kind === "nic" ? graph.text(vertex, "name") : null;
  return name ?? vertex.id.slice(vertex.id.lastIndexOf("/") + 1);
}

// Names with their numbers in order: mlx5_2 before mlx5_10.
function devices(graph: Graph, node: string, kind: string): Device[] {
  const list = graph.below(node, kind).map((vertex) => ({ vertex, label: labelOf(graph, vertex) }));
  return list.sort((a, b) => a.label.length - b.label.length || (a.label < b.label ? -1 : 1));
}

function numaOf(graph: Graph, vertex: Vertex): string | null {
  const told = graph.number(vertex, "numa");
  if (told != null && told >= 0) return String(told);
  for (let at: Vertex | undefined = vertex; at; at = graph.parent(at)) {
    if (at.kind === "numa") return at.id.slice(at.id.lastIndexOf(":") + 1);
  }
  return null;
}

function cellOf(path: Path): { cell: Cell; word: string } {
  const make = (text: string, word: string, meaning: string) => ({
    cell: { text, meaning, type: path.type, gbPerSecond: path.gbPerSecond },
    word,
  });
  if (!path.isKnown) return make("?", "?", "no source says");
  const count = path.type === "NVL" && path.nvlinks != null ? String(path.nvlinks) : "";
  if (path.isXgmi && path.type === "NVB") return make("XGB", "XGB", "xGMI over another GPU");
  if (path.isXgmi && path.type === "NVL") {
    return make(`XGMI${count}`, "XGMI", "xGMI (XGMI#: that many links)");
  }
  const text = count === "" ? path.type : `NV${count}`;
  return make(text, path.type, kMeanings[path.type]);
}

// A row for each GPU, a column for each GPU and NIC; null where no GPU is known.
export function matrixOf(graph: Graph, node: string): Matrix | null {
  const gpus = devices(graph, node, "gpu");
  if (gpus.length === 0) return null;
  const columns = [...gpus, ...devices(graph, node, "nic")];
  const paths = new Paths(graph, node);
  const legend = new Map<string, { meaning: string; order: number }>();
  const rows = gpus.map((gpu) => ({
    ...gpu,
    numa: numaOf(graph, gpu.vertex),
    cells: columns.map((column) => {
      const path = paths.between(gpu.vertex, column.vertex);
      const { cell, word } = cellOf(path);
      if (path.type === "LOC") return { ...cell, text: "–" };
      const order = path.isKnown ? rank(path.type) : kPathTypes.length;
      legend.set(word, { meaning: cell.meaning, order });
      return cell;
    }),
  }));
  const sorted = [...legend].sort((a, b) => a[1].order - b[1].order);
  return { rows, columns, legend: sorted.map(([word, { meaning }]) => [word, meaning]) };
}
