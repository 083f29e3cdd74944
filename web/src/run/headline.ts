import type { Run } from "../base/api";
import { hasEnded } from "../base/api";
import * as show from "../base/format";
import { firstEvaluation } from "./curve_rows";
import type { History } from "./history";

// The one figure that counts now.
export interface Headline {
  figure: string;
  caption: string;
  note: string;
  tone: "" | "reached" | "missed";
  // Which of the run's figures this is: the others are shown beside it, it is not shown twice.
  shows: "value" | "step" | "since_submission" | null;
}

// What the interval of a prediction comes from.
const kModels: Record<string, string> = {
  "past runs": ", from earlier runs of this kind",
  mlperf: ", from MLPerf's runs",
  "own curve": ", from this curve alone",
};

export function firstEvaluationText(run: Run): string {
  const first = firstEvaluation(run);
  if (first == null) return "";
  return run.step >= first
    ? `The first, after step ${show.count(first)}, is under way.`
    : `The first is due after step ${show.count(first)}.`;
}

function ended(run: Run, value: string, target: string): Headline {
  const shared = { caption: "target not reached", tone: "missed" as const };
  const where = `${run.state} at step ${show.count(run.step)}`;
  if (run.value == null) {
    const figure = run.step > 0 ? `step ${show.count(run.step)}` : "no step";
    const note = `${run.state} before its first evaluation; the target is ${target}.`;
    return { ...shared, figure, note, shows: "step" };
  }
  return { ...shared, figure: value, note: `${where}; the target is ${target}.`, shows: "value" };
}

// What is predicted, or why nothing is yet.
function ahead(run: Run, history: History, target: string): Headline {
  const waits = run.state === "queued" || run.state === "starting";
  if (waits && run.step === 0) {
    const figure = show.duration(run.since_submission_seconds);
    const caption = run.state === "queued" ? "waiting since submission" : "since submission";
    const note = "The time to the target is predicted once training has begun.";
    return { figure, caption, note, tone: "", shows: "since_submission" };
  }
  const caption = "predicted time to target";
  const left = run.predicted_seconds_to_target;
  if (left == null) {
    let note = "Once training has begun.";
    if (run.step > 0) note = "After a few more evaluations.";
    if (run.step > 0 && run.value == null) note = `No evaluation yet. ${firstEvaluationText(run)}`;
    return { figure: show.kDash, caption, note, tone: "", shows: null };
  }
  // The prediction's interval is on the run's clock; `left` counts from now on the same clock.
  const prediction = history.prediction;
  const now = prediction ? prediction.seconds - left : 0;
  const note = prediction
    ? `Between ${show.duration(prediction.low - now)} and ${show.duration(prediction.high - now)} ` +
      `(${Math.round(100 * prediction.confidence)}\u202f%${kModels[prediction.model ?? ""] ?? ""}).`
    : `Target ${target}.`;
  return { figure: `≈ ${show.duration(left)}`, caption, note, tone: "", shows: null };
}

export function headline(run: Run, history: History): Headline {
  const value = show.metric(run.metric, run.value);
  const target = show.target(run);
  if (target == null) {
    const caption = show.metricTitle(run.metric);
    return { figure: value, caption, note: "No target set.", tone: "", shows: "value" };
  }
  if (run.time_to_accuracy_seconds != null) {
    return {
      figure: show.duration(run.time_to_accuracy_seconds),
      caption: "time to accuracy",
      note: `Target ${target} reached; counted from the first step.`,
      tone: "reached",
      shows: null,
    };
  }
  return hasEnded(run) ? ended(run, value, target) : ahead(run, history, target);
}
