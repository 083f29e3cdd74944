// The machines as GET /nodes has them, and what happened to one.
import type { RunEvent } from "../base/api";
import { get } from "../base/request";

export const kNodeStates = [
  "idle",
  "mixed",
  "allocated",
  "completing",
  "reserved",
  "draining",
  "drained",
  "down",
  "error",
  "failing",
  "invalid",
  "maintenance",
  "not_responding",
  "rebooting",
  "blocked",
  "powering_up",
  "powering_down",
  "powered_down",
  "future",
  "unknown",
] as const;

export interface SlimNode {
  name: string;
  state: string;
  usable: boolean;
  reason: string | null;
  cpus: number | null;
  cpus_allocated: number | null;
  memory_bytes: number | null;
  memory_free_bytes: number | null;
  gpus: { count: number; types: Record<string, number> } | null;
  gpus_allocated: number | null;
  partitions: string[];
  runs: string[]; // ids of open ones
  suspicion: number;
  bench_slow: string; // what it is slow in, by its newest bench; "" for nothing
}
// Of one part of a machine: below 0 is slower.
export interface BenchChange {
  part: string;
  change: number;
  noise: number;
  figures: number;
  slower: boolean;
}
export interface BenchReport {
  id: string;
  at: string;
  machine_kind: string;
  load_average: number;
  disturbed: boolean;
  fleet_nodes: number;
  against_fleet: BenchChange[];
  earlier: number;
  drift: BenchChange[];
  slow: string;
}
export interface FullNode extends SlimNode {
  slurm_state: string;
  action: string; // what to do; "" for nothing
  features: string[];
  suspicion_why: string;
  bench: BenchReport | null;
}
export interface Reservation {
  name: string;
  starts_at: string;
  ends_at: string;
  seconds: number;
  nodes: string;
  maintenance: boolean;
}
export interface NodePage<Shown extends SlimNode = SlimNode> {
  scheduler: string;
  taken_at: string | null; // null: nobody has asked Slurm yet
  age_seconds: number | null;
  trouble: string | null;
  reservations: Reservation[];
  total: number;
  next: string | null; // what `after` takes to get the page behind this one
  nodes: Shown[];
}
// What is wrong with a machine or the fabric, as `regatta doctor` says it.
export interface Finding {
  id: string;
  severity: "note" | "warning" | "error";
  subject: string;
  words: string;
  evidence: { path: string; value: string }[];
  cost_gb_per_s: number | null;
  cost_milliseconds: number | null;
  remedy: string;
  node: string | null; // that it is of, if it is of one
}
export interface FindingPage {
  total: number;
  findings: Finding[]; // worst first
}
export interface NodeEvent extends RunEvent {
  run: string | null;
}
export interface NodeEventPage {
  events: NodeEvent[]; // the oldest first
  more: boolean;
}

const kMostPages = 32; // of a thousand

// Newest answers of several pages: the same object again while every page is the same.
const kMostJoined = 4;
const joined = new Map<string, { pages: NodePage[]; all: NodePage }>();

function join(path: string, pages: NodePage[]): NodePage {
  const old = joined.get(path);
  const isSame = old?.pages.length === pages.length;
  if (old && isSame && pages.every((page, index) => page === old.pages[index])) return old.all;
  const [first, last] = [pages[0], pages[pages.length - 1]];
  const nodes = pages.flatMap((page) => page.nodes);
  const all = { ...first!, nodes, next: last?.next ?? null };
  joined.delete(path);
  joined.set(path, { pages, all });
  const oldest = joined.keys().next();
  if (joined.size > kMostJoined && !oldest.done) joined.delete(oldest.value);
  return all;
}

export const nodesApi = {
  page: (query: string, signal: AbortSignal) => get<NodePage<FullNode>>(`nodes?${query}`, signal),
  // Every node that passes the filters, slim.
  async all(signal: AbortSignal, filters = ""): Promise<NodePage> {
    const path = `nodes?limit=1000${filters && `&${filters}`}`;
    const first = await get<NodePage>(path, signal);
    if (first.next == null) return first;
    const pages = [first];
    let next: string | null = first.next;
    while (next != null && pages.length < kMostPages) {
      const page: NodePage = await get<NodePage>(`${path}&after=${encodeURIComponent(next)}`, signal);
      pages.push(page);
      next = page.next;
    }
    return join(path, pages);
  },
  // null: there is none of this name; undefined: nobody has asked Slurm yet.
  async one(name: string, signal: AbortSignal): Promise<FullNode | null | undefined> {
    const { nodes, taken_at } = await get<NodePage<FullNode>>(
      `nodes?full=true&name=${encodeURIComponent(name)}`,
      signal,
    );
    return nodes.find((node) => node.name === name) ?? (taken_at == null ? undefined : null);
  },
  findings: (signal: AbortSignal) => get<FindingPage>("topology/findings", signal),
  events: (name: string, limit: number, signal: AbortSignal) =>
    get<NodeEventPage>(`events?node=${encodeURIComponent(name)}&limit=${limit}`, signal),
};
