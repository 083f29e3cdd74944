// Compiles only where what the API answers, by its document, is what the page takes it for.
import type { components } from "../../examples/client/schema";
import type * as page from "../../web/src/base/api";
import type { NamedKind } from "../../web/src/events/events";

type Schemas = components["schemas"];

type Kind = Schemas["Event"]["kind"];
type Other = "controller" | "node" | "reference" | "sweep" | "webhook";
type KindOfRun = Exclude<Kind, `${Other}.${string}`> | "node.blamed" | "sweep.trial_failed";

export function takes(answer: {
  list: Schemas["RunList"];
  row: Schemas["SlimRun"];
  run: Schemas["Run"];
  metrics: Schemas["Metrics"];
  log: Schemas["Log"];
  checkpoints: Schemas["CheckpointList"];
  plan: Schemas["Plan"];
  events: Schemas["Events"];
}): [page.RunRow, page.Run, page.Metrics, page.Log, page.Checkpoint[], page.Plan, page.EventPage] {
  const { row, run, metrics, log, checkpoints, plan, events } = answer;
  return [row, run, metrics, log, checkpoints.checkpoints, plan, events];
}

// The page has words for each kind that an event of a run may have, and for no other.
export function names(kind: KindOfRun): NamedKind {
  return kind;
}
export function knows(kind: NamedKind): KindOfRun {
  return kind;
}
