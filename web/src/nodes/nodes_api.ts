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
}
export interface FullNode extends SlimNode {
  slurm_state: string;
  action: string; // what to do; "" for nothing
  features: string[];
  suspicion_why: string;
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
export interface NodeEvent extends RunEvent {
  run: string | null;
}
export interface NodeEventPage {
  events: NodeEvent[]; // the oldest first
  more: boolean;
}

const kMostPages = 32; // of a thousand

export const nodesApi = {
  page: (query: string, signal: AbortSignal) => get<NodePage<FullNode>>(`nodes?${query}`, signal),
  // Every node that passes the filters, slim.
  async all(signal: AbortSignal, filters = ""): Promise<NodePage> {
    const path = `nodes?limit=1000${filters && `&${filters}`}`;
    const first = await get<NodePage>(path, signal);
    if (first.next == null) return first;
    const nodes = first.nodes.slice();
    let next: string | null = first.next;
    for (let page = 1; next != null && page < kMostPages; page += 1) {
      const after: string = encodeURIComponent(next);
      const more: NodePage = await get<NodePage>(`${path}&after=${after}`, signal);
      nodes.push(...more.nodes);
      next = more.next;
    }
    return { ...first, nodes, next };
  },
  async one(name: string, signal: AbortSignal): Promise<FullNode | null> {
    const { nodes } = await get<NodePage<FullNode>>(
      `nodes?full=true&name=${encodeURIComponent(name)}`,
      signal,
    );
    return nodes.find((node) => node.name === name) ?? null;
  },
  events: (name: string, limit: number, signal: AbortSignal) =>
    get<NodeEventPage>(`events?node=${encodeURIComponent(name)}&limit=${limit}`, signal),
};
