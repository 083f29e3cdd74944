import type { Charts, RunEvent, State } from "../base/api";
import { hasEnded, kStates } from "../base/api";
import { titleOf } from "../events/kinds";
import type { SlimNode } from "../nodes/nodes_api";
import { isSuspect } from "../nodes/standing";
import { expandHosts } from "../topology/hostlist";
import type { FullPage, FullRow } from "./cluster_api";

// Sums over runs and nodes. What a run does not say is counted as unknown, never as nothing.
const time = (iso: string | null) => (iso == null ? null : new Date(iso).getTime() / 1000);
const min = (at: number | null, most: number) => (at == null ? null : Math.min(at, most));

export function countStates(runs: FullRow[]): [State, number][] {
  return kStates
    .map((state): [State, number] => [state, runs.filter((run) => run.state === state).length])
    .filter(([, count]) => count > 0);
}

// Of training steps: ranks of the newest attempt × hours in steps of all attempts. null: not known.
export function gpuHours(run: FullRow): number | null {
  if (run.step === 0 && !run.training_seconds) return 0;
  if (run.ranks == null || run.training_seconds == null) return null;
  return (run.ranks * run.training_seconds) / 3600;
}

export interface Sum {
  name: string;
  runs: number;
  hours: number;
  unknown: number; // runs that do not say
  lost: number; // hours of runs that failed or were cancelled
}

function addTo(sums: Map<string, Sum>, name: string, run: FullRow) {
  const sum = sums.get(name) ?? { name, runs: 0, hours: 0, unknown: 0, lost: 0 };
  const hours = gpuHours(run);
  sum.runs += 1;
  if (hours == null) sum.unknown += 1;
  sum.hours += hours ?? 0;
  if (run.state === "failed" || run.state === "cancelled") sum.lost += hours ?? 0;
  sums.set(name, sum);
}

function sumBy(runs: FullRow[], nameOf: (run: FullRow) => string): Sum[] {
  const sums = new Map<string, Sum>();
  for (const run of runs) addTo(sums, nameOf(run), run);
  return [...sums.values()].sort((a, b) => b.hours - a.hours || b.runs - a.runs);
}

export function outcomeOf(run: FullRow): string {
  if (!hasEnded(run)) return "not over";
  if (run.state === "succeeded" && run.target_reached) return "reached the target";
  if (run.state === "succeeded") return "trained all steps";
  return run.state;
}
export const byOutcome = (runs: FullRow[]) => sumBy(runs, outcomeOf);
export const byOwner = (runs: FullRow[]) => sumBy(runs, (run) => run.owner ?? "not known");

// The begin of an error without what differs from case to case, so that equal causes add up.
export function causeOf(error: string | null): string {
  const first = (error ?? "").split(/[;\n]/)[0]?.trim() ?? "";
  if (first === "") return "no reason told";
  const plain = first
    .replace(/\b[\w.-]*-\d+\b/g, "…") // names that end in numbers: nodes, runs
    .replace(/\/\S+/g, "…") // paths
    .replace(/\d+(\.\d+)?/g, "…");
  const letters = Array.from(plain);
  return letters.length > 100 ? `${letters.slice(0, 99).join("")}…` : plain;
}
export const byCause = (runs: FullRow[]) =>
  sumBy(
    runs.filter((run) => run.state === "failed"),
    (run) => causeOf(run.error),
  );

interface Wait {
  count: number;
  median: number | null;
  p95: number | null;
  longest: number | null;
}

// The value below which this share of all lies: the nearest rank.
export function quantile(values: number[], share: number): number | null {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? null;
}

// From submission to the first step.
export function waits(runs: FullRow[]): Wait {
  const seconds: number[] = [];
  for (const run of runs) {
    const [created, started] = [time(run.created_at), time(run.started_at)];
    if (created != null && started != null) seconds.push(Math.max(0, started - created));
  }
  return {
    count: seconds.length,
    median: quantile(seconds, 0.5),
    p95: quantile(seconds, 0.95),
    longest: quantile(seconds, 1),
  };
}

export interface Moment {
  at: number; // seconds since 1970
  waiting: number;
  running: number;
  ranks: number; // of those that run
}

// An older answer beside what is not over by a newer one: what is no longer there has ended since.
export function endedSince(runs: FullRow[], active: FullPage | undefined, at: number): FullRow[] {
  if (!active || active.next != null) return runs;
  const ids = new Set(active.runs.map(({ id }) => id));
  const ended_at = new Date(1000 * at).toISOString();
  return runs.map((run) =>
    hasEnded(run) || ids.has(run.id) ? run : { ...run, state: "stopped" as const, ended_at },
  );
}

// What waited and ran: from submission to the first step, and from there to the end. A moment for
// each change between from and to, and for both ends; it holds until the next. Nothing happens
// after `to`, whatever the clock of a run says: the last moment is what is so now.
export function history(runs: FullRow[], from: number, to: number): Moment[] {
  const changes = new Map<number, [number, number, number]>(); // more waiting, running, ranks
  const change = (at: number, ...more: [number, number, number]) => {
    const key = Math.max(from, at);
    const old = changes.get(key) ?? [0, 0, 0];
    if (at <= to) changes.set(key, [old[0] + more[0], old[1] + more[1], old[2] + more[2]]);
  };
  for (const run of runs) {
    const [created, started, end] = [run.created_at, run.started_at, run.ended_at].map(
      (moment) => min(time(moment), to),
    );
    const ended = hasEnded(run) ? end : Infinity;
    if (created == null || ended == null) continue;
    const first = Math.min(started ?? ended, ended);
    const ranks = run.ranks ?? 0;
    change(created, 1, 0, 0);
    change(first, -1, 1, ranks);
    change(ended, 0, -1, -ranks);
    if (hasEnded(run)) continue;
    // What is so now is the state's to say: a run waits between attempts, and before its first step
    // it is called running.
    const runs = run.state === "running" || run.state === "stopping";
    if (runs && first > to) change(to, -1, 1, ranks);
    if (!runs && first <= to) change(to, 1, -1, -ranks);
  }
  for (const end of [from, to]) changes.set(end, changes.get(end) ?? [0, 0, 0]);
  const sum = { waiting: 0, running: 0, ranks: 0 };
  const sorted = [...changes].sort((a, b) => a[0] - b[0]);
  return sorted.map(([at, [waiting, running, ranks]]) => {
    sum.waiting += waiting;
    sum.running += running;
    sum.ranks += ranks;
    return { at, ...sum };
  });
}

// The runs of a history from this moment on: what is not over, and what ended since. Where the
// newest of these are more than a page, it begins with the oldest of the page.
export function historyOf(
  now: FullRow[],
  ended: FullPage,
  from: number,
): { runs: FullRow[]; from: number } {
  const since = ended.runs.filter(({ ended_at }) => (time(ended_at) ?? 0) >= from);
  const [oldest] = ended.next == null ? [] : ended.runs.slice(-1);
  const runs = new Map([...now, ...since].map((run) => [run.id, run]));
  return { runs: [...runs.values()], from: Math.max(from, time(oldest?.ended_at ?? null) ?? 0) };
}

// How long those have waited that have not trained yet; of others the wait is not told.
export function longestWait(queued: FullRow[]): number | null {
  const waits = queued.flatMap(({ started_at, since_submission_seconds: seconds }) =>
    started_at == null && seconds != null ? [seconds] : [],
  );
  return waits.length > 0 ? Math.max(...waits) : null;
}

// GPU-hours of steps that were trained again since, and of what lay between them, from series along
// GPU-hours.
export function replayedHours(runs: Charts["runs"]): number {
  let hours = 0;
  for (const { steps } of runs) {
    const buckets = [...steps.buckets].sort((a, b) => a.to - b.to);
    buckets.forEach((bucket, index) => {
      if (bucket.abandoned) hours += bucket.to - (buckets[index - 1]?.to ?? 0);
    });
  }
  return hours;
}

interface NodeSum {
  state: string;
  nodes: number;
  gpus: number | null; // null: none of them says
  allocated: number | null;
  suspected: number;
}

export function byNodeState(nodes: SlimNode[]): NodeSum[] {
  const sums = new Map<string, NodeSum>();
  const add = (a: number | null, b: number | null | undefined) => (b == null ? a : (a ?? 0) + b);
  for (const node of nodes) {
    const { state } = node;
    const sum = sums.get(state) ?? { state, nodes: 0, gpus: null, allocated: null, suspected: 0 };
    sum.nodes += 1;
    sum.gpus = add(sum.gpus, node.gpus?.count);
    sum.allocated = add(sum.allocated, node.gpus_allocated);
    if (isSuspect(node)) sum.suspected += 1;
    sums.set(state, sum);
  }
  return [...sums.values()].sort((a, b) => b.nodes - a.nodes);
}

export interface EventSum {
  name: string;
  count: number;
  newest: string | null;
  nodes: string[]; // with most of them first
}

// Many nodes at once are one event, which says "64 nodes (why): node[01-64]".
const several = ({ kind, node, words }: RunEvent) =>
  kind.startsWith("node.") && !node ? /^(\d+) nodes\b.*?: ([^:]*)$/s.exec(words ?? "") : null;
const timesOf = (event: RunEvent) => Number(several(event)?.[1] ?? 1);
const nodesOf = (event: RunEvent) => expandHosts(event.node ?? several(event)?.[2] ?? "");

function sumEvents(events: RunEvent[], nameOf: (event: RunEvent) => string): EventSum[] {
  const sums = new Map<string, EventSum & { each: Map<string, number> }>();
  for (const event of events) {
    const name = nameOf(event);
    const sum = sums.get(name) ?? { name, count: 0, newest: null, nodes: [], each: new Map() };
    sum.count += timesOf(event);
    if (event.at != null && (sum.newest == null || event.at > sum.newest)) sum.newest = event.at;
    for (const node of nodesOf(event)) sum.each.set(node, (sum.each.get(node) ?? 0) + 1);
    sums.set(name, sum);
  }
  const sorted = [...sums.values()].sort((a, b) => b.count - a.count);
  return sorted.map(({ each, ...sum }) => {
    const nodes = [...each].sort((a, b) => b[1] - a[1]).map(([node]) => node);
    return { ...sum, nodes };
  });
}

export function nodeEvents(events: RunEvent[]): EventSum[] {
  const some = events.filter(({ kind }) => kind.startsWith("node."));
  return sumEvents(some, ({ kind }) => titleOf(kind));
}
// Launches that ended with a reason, which those that went well do not have.
export function launchEnds(events: RunEvent[]): EventSum[] {
  const some = events.filter(({ kind, words }) => kind === "launch.ended" && words);
  return sumEvents(some, ({ words }) => causeOf(words));
}
