// Compiles only where what the API answers, by its document, is what the page takes it for.
import type { components } from "../../examples/client/schema";
import type * as page from "../../web/src/api";

type Schemas = components["schemas"];

export function takes(answer: {
  list: Schemas["RunList"];
  row: Schemas["SlimRun"];
  run: Schemas["Run"];
  metrics: Schemas["Metrics"];
  log: Schemas["Log"];
  checkpoints: Schemas["CheckpointList"];
  plan: Schemas["Plan"];
}): [page.RunRow, page.Run, page.Metrics, page.Log, page.Checkpoint[], page.Plan] {
  return [answer.row, answer.run, answer.metrics, answer.log, answer.checkpoints.checkpoints, answer.plan];
}
