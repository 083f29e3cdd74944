// What a node's state means for who wants to start something: one of six, each with a shape and a
// colour of its own. The state's own word always stands beside them.
import type { SlimNode } from "./nodes_api";

export const kStandings = ["free", "busy", "held", "drained", "down", "unknown"] as const;
export type Standing = (typeof kStandings)[number];

export const kStandingNames: Record<Standing, string> = {
  free: "free",
  busy: "in use",
  held: "reserved, in maintenance or powered down",
  drained: "drained",
  down: "down or failing",
  unknown: "not known",
};

const kOfState: Record<string, Standing> = {
  idle: "free",
  mixed: "busy",
  allocated: "busy",
  completing: "busy",
  reserved: "held",
  maintenance: "held",
  rebooting: "held",
  "powering up": "held",
  "powering down": "held",
  "powered down": "held",
  future: "held",
  draining: "drained",
  drained: "drained",
  down: "down",
  error: "down",
  failing: "down",
  invalid: "down",
  "not responding": "down",
  blocked: "held",
};

// "down, drained" is down.
export function standingOf(state: string): Standing {
  const word = state.split(",")[0]?.trim() ?? "";
  return Object.hasOwn(kOfState, word) ? (kOfState[word] ?? "unknown") : "unknown";
}

export const kAvoided = 0.9; // of suspicion: new attempts are kept away from then on

export function isSuspect(node: Pick<SlimNode, "suspicion">): boolean {
  return node.suspicion >= kAvoided;
}

// All of it can be given to a run now.
export function isFree(node: Pick<SlimNode, "state" | "usable" | "suspicion">): boolean {
  return node.usable && standingOf(node.state) === "free" && !isSuspect(node);
}

interface Totals {
  nodes: number;
  free: number;
  suspects: number;
  states: [string, number][]; // the most frequent first
  gpus: number | null; // of all nodes that tell
  gpusAllocated: number | null;
}

export function totalsOf(nodes: SlimNode[]): Totals {
  const states = new Map<string, number>();
  const add = (a: number | null, b: number | null | undefined) => (b == null ? a : (a ?? 0) + b);
  let gpus: number | null = null;
  let gpusAllocated: number | null = null;
  for (const node of nodes) {
    states.set(node.state, (states.get(node.state) ?? 0) + 1);
    gpus = add(gpus, node.gpus?.count);
    gpusAllocated = add(gpusAllocated, node.gpus && node.gpus_allocated);
  }
  return {
    nodes: nodes.length,
    free: nodes.filter(isFree).length,
    suspects: nodes.filter(isSuspect).length,
    states: [...states].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)),
    gpus,
    gpusAllocated,
  };
}
