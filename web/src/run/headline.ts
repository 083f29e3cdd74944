import type { Run } from "../base/api";
import { hasEnded } from "../base/api";
import * as show from "../base/format";
import type { History } from "./history";

// The one figure that counts now.
export interface Headline {
  figure: string;
  caption: string;
  note: string;
  tone: "" | "reached" | "missed";
}

// What the interval of a prediction comes from.
const kModels: Record<string, string> = {
  "past runs": ", from earlier runs of this kind",
  mlperf: ", from MLPerf's runs",
  "own curve": ", from this curve alone",
};

export function headline(run: Run, history: History): Headline {
  const value = show.metric(run.metric, run.value);
  const target = show.target(run);
  if (target == null) {
    return {
      figure: value,
      caption: show.metricTitle(run.metric),
      note: "No target set.",
      tone: "",
    };
  }
  if (run.time_to_accuracy_seconds != null) {
    return {
      figure: show.duration(run.time_to_accuracy_seconds),
      caption: "time to accuracy",
      note: `Target ${target} reached, now ${value}.`,
      tone: "reached",
    };
  }
  if (hasEnded(run)) {
    return {
      figure: value,
      caption: "target not reached",
      note: `${run.state} at step ${show.count(run.step)}; the target is ${target}.`,
      tone: "missed",
    };
  }
  const left = run.predicted_seconds_to_target;
  if (left == null) {
    return {
      figure: show.kDash,
      caption: "predicted time to target",
      note: run.step > 0 ? "After a few more evaluations." : "Once training has begun.",
      tone: "",
    };
  }
  // The prediction's interval is on the run's clock; `left` counts from now on the same clock.
  const prediction = history.prediction;
  const now = prediction ? prediction.seconds - left : 0;
  const range = prediction
    ? `Between ${show.duration(prediction.low - now)} and ${show.duration(prediction.high - now)} ` +
      `(${Math.round(100 * prediction.confidence)}\u202f%${kModels[prediction.model ?? ""] ?? ""}).`
    : `Target ${target}.`;
  return {
    figure: `≈ ${show.duration(left)}`,
    caption: "predicted time to target",
    note: range,
    tone: "",
  };
}
