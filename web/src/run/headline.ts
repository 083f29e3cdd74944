import type { Run } from "../base/api";
import { hasEnded, isSuspended } from "../base/api";
import * as show from "../base/format";
import { secondsLeft, stepsDone } from "../base/speed";
import { kReachedBefore, targetWord } from "../base/target";
import { nextEvaluation, trainsOn } from "./curve_rows";
import type { History } from "./history";
import { trains, waits } from "./standstill";
import { sentence } from "./words";

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
  "past runs": "earlier runs of this kind",
  mlperf: "MLPerf's runs",
  "own curve": "this curve alone",
};
export const modelOf = (name: string) =>
  Object.hasOwn(kModels, name) ? (kModels[name] ?? name) : show.withoutEscapes(name);

export function firstEvaluationText(run: Run): string {
  const first = nextEvaluation(run);
  if (first == null) return "";
  return run.step >= first
    ? `The first, after step ${show.count(first)}, is under way.`
    : `The first is due after step ${show.count(first)}.`;
}

function ended(run: Run, value: string, target: string | null): Headline {
  const goal = target == null ? "no target was set" : `the target is ${target}`;
  const caption = target == null ? "no evaluation" : "target not reached";
  const tone: Headline["tone"] = target == null && run.state !== "failed" ? "" : "missed";
  const shared = { caption, tone };
  const where = `${run.state} at step ${show.count(run.step)}`;
  if (run.value == null) {
    const figure = run.step > 0 ? `step ${show.count(run.step)}` : "no step";
    const note = `${run.state} before its first evaluation; ${goal}.`;
    return { ...shared, figure, note, shows: "step" };
  }
  return { ...shared, figure: value, note: `${where}; ${goal}.`, shows: "value" };
}

// It has not trained yet.
function waiting(run: Run, note: string): Headline {
  const figure = show.duration(run.since_submission_seconds);
  const caption = run.state === "queued" ? "waiting since submission" : "since submission";
  return { figure, caption, note, tone: "", shows: "since_submission" };
}

// What was predicted to be left counts from its newest row on, while nothing is trained.
function standing(run: Run, history: History): Headline {
  const ends = [history.steps, history.evaluations].map((rows) => rows[rows.length - 1]?.[1] ?? 0);
  const past = Math.max(0, ...ends);
  const shared = { tone: "" as const, shows: null };
  const state = isSuspended(run) ? "Suspended" : sentence(run.state);
  if (run.silent_seconds != null || !history.prediction || past === 0) {
    const why = run.silent_seconds != null ? "the run is silent" : `it is ${state.toLowerCase()}`;
    const note = `Nothing is predicted while ${why}.`;
    return { ...shared, figure: show.kDash, caption: "predicted time to target", note };
  }
  const figure = `≈ ${show.duration(history.prediction.seconds - past)}`;
  const caption = "of training left, as predicted";
  return { ...shared, figure, caption, note: `${state}: nothing is trained now.` };
}

// What is predicted, or why nothing is yet.
function ahead(run: Run, history: History, target: string): Headline {
  if (waits(run) && run.step === 0) {
    return waiting(run, "The time to the target is predicted once training has begun.");
  }
  if (!trains(run)) return standing(run, history);
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
  const from = prediction?.model == null ? "" : `, from ${modelOf(prediction.model)}`;
  const note = prediction
    ? `Between ${show.duration(prediction.low - now)} and ${show.duration(prediction.high - now)} ` +
      `(${Math.round(100 * prediction.confidence)}\u202f%${from}).`
    : `Target ${target}.`;
  return { figure: `≈ ${show.duration(left)}`, caption, note, tone: "", shows: null };
}

// A run that was not to stop at its target trains on.
function onward(run: Run): string {
  if (!trains(run) || stepsDone(run) >= run.steps || !trainsOn(run)) return "";
  const seconds = secondsLeft(run);
  const left = seconds == null ? "" : `, ≈ ${show.duration(seconds)} left`;
  const end = run.progress == null ? `to step ${show.count(run.steps)}`
    : `until its steps are worth ${show.count(run.steps)}`;
  return ` It trains on ${end}${left}.`;
}

function reached(run: Run, value: string, target: string): Headline {
  const figure = show.duration(run.time_to_accuracy_seconds);
  if (run.value != null && targetWord(run) === kReachedBefore) {
    const then = `Target ${target} was reached after that time; now it is missed, with ${value}.`;
    const note = then + onward(run);
    return { figure, caption: "reached before", note, tone: "", shows: null };
  }
  const note = `Target ${target} reached; counted from the first step.${onward(run)}`;
  return { figure, caption: "time to accuracy", note, tone: "reached", shows: null };
}

export function headline(run: Run, history: History): Headline {
  const value = show.metric(run.metric, run.value, run.target);
  const target = show.target(run);
  if (target == null) {
    if (waits(run) && run.step === 0) return waiting(run, "No target set.");
    if (hasEnded(run) && run.value == null) return ended(run, value, target);
    const caption = show.metricTitle(run.metric);
    return { figure: value, caption, note: "No target set.", tone: "", shows: "value" };
  }
  if (run.time_to_accuracy_seconds != null) return reached(run, value, target);
  return hasEnded(run) ? ended(run, value, target) : ahead(run, history, target);
}
