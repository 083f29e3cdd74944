// Kinds of events, of runs and of everything else.
import { nameOf } from "./events";

const kOthers: Record<string, string> = {
  "node.down": "Node down",
  "node.not_responding": "Node does not respond",
  "node.drained": "Node drained",
  "node.resumed": "Node usable again",
  "node.appeared": "Node is new",
  "node.disappeared": "Node has disappeared",
  "node.flapping": "Node changes often",
  "node.benched": "Bench of the node kept",
  "node.bench_removed": "Bench of the node removed",
  "webhook.dead": "Webhook given up",
  "webhook.revived": "Webhook tried again",
  "webhook.skipped": "Event skipped for a webhook",
  "sweep.submitted": "Sweep submitted",
  "sweep.stop_asked": "Sweep to be stopped",
  "sweep.stopped": "Sweep stopped",
  "sweep.done": "Sweep done",
  "sweep.removed": "Sweep forgotten",
  "reference.added": "Reference curve added",
  "reference.removed": "Reference curve removed",
  "controller.started": "Controller started",
  "controller.ended": "Controller ended",
};

export function titleOf(kind: string): string {
  return Object.hasOwn(kOthers, kind) ? (kOthers[kind] ?? kind) : nameOf(kind);
}

// What a kind begins with, which is a filter of the API as well.
export const kGroups = [
  ["run", "runs"],
  ["launch", "jobs and processes"],
  ["attempt", "attempts"],
  ["checkpoint", "checkpoints"],
  ["plan", "plans"],
  ["sweep", "sweeps"],
  ["node", "nodes"],
  ["webhook", "webhooks"],
  ["reference", "reference curves"],
  ["controller", "the controller"],
] as const;

// What somebody who looks after all of it wants to see first.
export const kProblems = [
  "run.failed",
  "attempt.warning",
  "attempt.alarm",
  "attempt.corruption",
  "checkpoint.failed",
  "launch.limit_refused",
  "sweep.trial_failed",
  "node.blamed",
  "node.down",
  "node.not_responding",
  "node.drained",
  "node.disappeared",
  "node.flapping",
  "webhook.dead",
].join(",");
const kBad = new Set([...kProblems.split(",")]);
const kGood = new Set(["run.succeeded", "run.target_reached", "sweep.done", "node.resumed", "webhook.revived"]);

export function toneOf(kind: string): "bad" | "good" | "" {
  return kBad.has(kind) ? "bad" : kGood.has(kind) ? "good" : "";
}

// A node alone has a panel of its own, a list of them is a filter.
export function nodeHash(node: string): string {
  const key = /[[,]/.test(node) ? "nodes" : "node";
  return `#/nodes?${new URLSearchParams({ [key]: node })}`;
}
