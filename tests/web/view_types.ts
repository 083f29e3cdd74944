// Compiles only where what the API answers to the views, by its document, is what they take it for.
import type { components } from "../../examples/client/schema";
import type * as base from "../../web/src/base/api";
import type * as checkpoints from "../../web/src/checkpoints/checkpoints_api";
import type * as cluster from "../../web/src/cluster/cluster_api";
import type * as environment from "../../web/src/environment/environment_api";
import type * as events from "../../web/src/events/events_api";
import type * as experiments from "../../web/src/experiments/experiments_api";
import type * as logs from "../../web/src/logs/logs_api";
import type * as run from "../../web/src/run/run_api";
import type * as settings from "../../web/src/settings/settings_api";
import type * as submit from "../../web/src/submit/submit_api";
import type * as sweeps from "../../web/src/sweeps/sweeps_api";
import type * as time from "../../web/src/time/time_api";

type Schemas = components["schemas"];
type Kept<Sweep> = Sweep & { id: string }; // all but a dry run's

// Each line: an answer of the API as a view has it.
export const takes = {
  charts: (answer: Schemas["Charts"]): base.Charts => answer,
  list: (answer: { runs: Schemas["SlimRun"][]; next: string | null }): base.RunPage => answer,
  attempts: (answer: Schemas["Attempts"]): base.Attempts => answer,
  explanation: (answer: Schemas["Explanation"]): run.Explanation => answer,
  removal: (answer: Schemas["Removal"]): run.Removal => answer,
  archival: (answer: Schemas["Archival"]): run.Archival => answer,
  environment: (answer: Schemas["Environment"]): environment.Environment => answer,
  time: (answer: Schemas["TimeToAccuracy"]): time.TimeToAccuracy => answer,
  reference: (answer: Schemas["Reference"]): time.Reference => answer,
  checkpoint: (answer: Schemas["CheckpointDetails"]): checkpoints.CheckpointDetails => answer,
  verification: (answer: Schemas["Verification"]): checkpoints.Verification => answer,
  cleanup: (answer: Schemas["Collection"]): checkpoints.Cleanup => answer,
  exported: (answer: Schemas["Export"]): checkpoints.Export => answer,
  files: (answer: Schemas["LogFiles"]): { files: logs.LogFile[]; more: boolean } => answer,
  found: (answer: Schemas["LogSearch"]): logs.SearchPage => answer,
  log: (answer: Schemas["Log"]): logs.LogPart => answer,
  full: (answer: { runs: Schemas["RunRow"][]; next: string | null }): cluster.FullPage => answer,
  health: (answer: Schemas["Health"]): base.ControllerHealth => answer,
  version: (answer: Schemas["Version"]): base.Version => answer,
  events: (answer: Schemas["Events"]): events.AnyEventPage => answer,
  webhook: (answer: Schemas["Webhook"]): settings.Webhook => answer,
  sweep: (answer: Kept<Schemas["Sweep"]>): sweeps.Sweep => answer,
  listed: (answer: Kept<Schemas["SweepSummary"]>): sweeps.SweepSummary => answer,
  experiment: (answer: Schemas["Experiment"]): experiments.Experiment => answer,
  experiments: (answer: Schemas["ExperimentList"]): experiments.ExperimentPage => answer,
  preview: (answer: Schemas["RunPreview"]): submit.Preview => answer,
};

// What a view sends is what the API takes.
export const sends = {
  extension: (body: run.Extension): Schemas["Extension"] => body,
  fork: (body: checkpoints.ForkBody): Schemas["Fork"] => body,
  labels: (body: base.LabelChanges): Schemas["Labels"] => body,
};
