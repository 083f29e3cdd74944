// Figures as people read them. Every function takes what the API may send, null included.
import type { Run } from "./api";
import { now as clockNow } from "./clock";

export const kDash = "–";
const kNarrowSpace = "\u202f";

export function duration(seconds: number | null | undefined): string {
  if (seconds == null || !Number.isFinite(seconds)) return kDash;
  const s = Math.max(0, seconds);
  const unit = (value: number | string, name: string) => `${value}${kNarrowSpace}${name}`;
  if (s < 0.0005) return unit(0, "s");
  if (s < 0.0995) return unit(Math.round(s * 1000), "ms");
  if (s < 59.95) return unit(s < 9.95 ? s.toFixed(1) : Math.round(s), "s");
  const whole = Math.round(s);
  const two = (value: number) => String(value).padStart(2, "0");
  if (whole < 3600) {
    return `${unit(Math.floor(whole / 60), "min")} ${unit(two(whole % 60), "s")}`;
  }
  const minutes = Math.round(s / 60);
  if (minutes < 24 * 60) {
    return `${unit(Math.floor(minutes / 60), "h")} ${unit(two(minutes % 60), "min")}`;
  }
  const hours = Math.round(s / 3600);
  return `${unit(Math.floor(hours / 24), "d")} ${unit(hours % 24, "h")}`;
}

// For axes and cursors: 0:30, 12:05, 1:02:00.
export function clock(seconds: number): string {
  const sign = seconds < 0 ? "−" : "";
  const whole = Math.abs(Math.round(seconds));
  const two = (value: number) => String(value).padStart(2, "0");
  const h = Math.floor(whole / 3600);
  const m = Math.floor((whole % 3600) / 60);
  const s = two(whole % 60);
  return sign + (h > 0 ? `${h}:${two(m)}:${s}` : `${m}:${s}`);
}

export function percent(fraction: number | null | undefined, more = 0): string {
  if (fraction == null || !Number.isFinite(fraction)) return kDash;
  const value = fraction * 100;
  return `${value.toFixed((Math.abs(value) < 9.995 ? 2 : 1) + more)}${kNarrowSpace}%`;
}

export function number(value: number | null | undefined, digits = 3): string {
  if (value == null || !Number.isFinite(value)) return kDash;
  const magnitude = Math.abs(value);
  if (magnitude > 0 && magnitude < 1e-6) return value.toPrecision(digits);
  if (magnitude > 0 && magnitude < 0.095) {
    return value.toLocaleString("en-US", { maximumSignificantDigits: digits });
  }
  if (magnitude >= 1e6) return `${number(value / 1e6, digits)}${kNarrowSpace}M`;
  const decimals = magnitude >= 100 ? 0 : magnitude >= 10 ? digits - 2 : digits - 1;
  return value.toLocaleString("en-US", {
    minimumFractionDigits: Math.max(0, decimals),
    maximumFractionDigits: Math.max(0, decimals),
  });
}

export function count(value: number | null | undefined): string {
  return value == null ? kDash : value.toLocaleString("en-US", { maximumFractionDigits: 0 });
}

export function bytes(value: number | null | undefined): string {
  if (value == null || !Number.isFinite(value)) return kDash;
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let size = value;
  let unit = 0;
  while (size >= 999.5 && unit + 1 < units.length) {
    size /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? size : number(size)}${kNarrowSpace}${units[unit]}`;
}

// Finer than duration(): what happens within a step.
export function milliseconds(seconds: number | null | undefined): string {
  if (seconds == null || !Number.isFinite(seconds)) return kDash;
  return `${number(seconds * 1000)}${kNarrowSpace}ms`;
}

export function microseconds(value: number | null | undefined): string {
  if (value == null || !Number.isFinite(value)) return kDash;
  return `${number(value)}${kNarrowSpace}µs`;
}

// How much more or less: +5.2 %, −3.1 %.
export function change(fraction: number | null | undefined): string {
  if (fraction == null || !Number.isFinite(fraction)) return kDash;
  const percent = Math.abs(fraction * 100);
  const digits = percent < 99.95 ? percent.toFixed(1) : count(percent);
  const sign = digits === "0.0" ? "" : fraction < 0 ? "−" : "+";
  return `${sign}${digits}${kNarrowSpace}%`;
}

export function flops(value: number | null | undefined): string {
  if (value == null || !Number.isFinite(value)) return kDash;
  const units = ["", "k", "M", "G", "T", "P", "E"];
  let rate = value;
  let unit = 0;
  while (rate >= 999.5 && unit + 1 < units.length) {
    rate /= 1000;
    unit += 1;
  }
  return `${number(rate)}${kNarrowSpace}${units[unit]}FLOP/s`;
}

// A metric is a loss, a correlation (−1 to 1) or a fraction; the API names it.
export function isLoss(metric: string): boolean {
  return metric.endsWith("loss");
}
function isAccuracy(metric: string): boolean {
  return metric.endsWith("accuracy");
}
export function isFraction(metric: string): boolean {
  return isAccuracy(metric) || metric === "f1" || metric === "exact";
}
const kMostDigits = 9; // more than the usual ones
// `beside` is what stands beside it: with as many digits as tell the two apart.
export function metric(
  name: string,
  value: number | null | undefined,
  beside: number | null | undefined = null,
): string {
  const text = (one: typeof value, more: number) =>
    isFraction(name) ? percent(one, more) : number(one, 3 + more);
  let more = 0;
  if (value != null && beside != null && value !== beside) {
    while (more < kMostDigits && text(value, more) === text(beside, more)) more += 1;
    if (more === kMostDigits) more = 0;
  }
  return text(value, more);
}
// The target as its figure or, before that is known, as what it is a multiple of; null: none.
export function target(
  run: Pick<Run, "metric" | "target" | "target_times_baseline"> & Partial<Pick<Run, "value">>,
) {
  if (run.target != null) return metric(run.metric, run.target, run.value);
  if (run.target_times_baseline == null) return null;
  return `${run.target_times_baseline} × baseline`;
}
const kMetricTitles: Record<string, string> = {
  mlm_accuracy: "Masked accuracy",
  mlm_loss: "Masked loss",
  exact: "Exact match",
  f1: "F1",
  accuracy: "Accuracy",
  matthews: "Matthews correlation",
  pearson: "Pearson correlation",
  spearman: "Spearman correlation",
  loss: "Evaluation loss",
};
export function metricTitle(name: string): string {
  return Object.hasOwn(kMetricTitles, name) ? (kMetricTitles[name] ?? name) : drawnName(name);
}

export function when(iso: string | null | undefined): string {
  const time = iso ? new Date(iso) : null;
  if (!time || Number.isNaN(time.getTime())) return kDash;
  return time.toLocaleString("en-GB", {
    day: "numeric",
    month: "short",
    ...(time.getFullYear() !== new Date(clockNow()).getFullYear() && { year: "numeric" }),
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
  });
}

export function utc(iso: string): string {
  const time = new Date(iso);
  if (Number.isNaN(time.getTime())) return kDash;
  return `${time.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

// "3 h ago"; a moment that lies ahead of it is now.
export function ago(iso: string, now: number): string {
  const time = new Date(iso).getTime();
  if (Number.isNaN(time)) return kDash;
  const seconds = Math.max(0, (now - time) / 1000);
  if (seconds < 45) return "just now";
  const unit = (value: number, name: string) => `${value}${kNarrowSpace}${name} ago`;
  const minutes = Math.max(1, Math.round(seconds / 60));
  if (minutes < 60) return unit(minutes, "min");
  const hours = Math.round(seconds / 3600);
  return hours < 24 ? unit(hours, "h") : unit(Math.round(seconds / 86400), "d");
}

// What is not seen, or would turn the direction in which what is around it is read; but not what
// joins letters, which some writings and pictures are made with.
export const kUnseen =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

// A line that was written anew, as progress bars are, is what was written last.
function lastState(line: string): string {
  return (
    line
      .split("\r")
      .filter((state) => state !== "")
      .pop() ?? ""
  );
}

// Logs may carry escape sequences of a terminal; they mean nothing here. In time that grows with
// the text alone, whatever is in it: names and notes are drawn often.
export function withoutEscapes(text: string): string {
  const told = text
    .replace(/\u001b\[[0-9;?]*[ -/]*[@-~]/g, "")
    .replace(/\u001b\][^\u0007\u001b]*(\u0007|\u001b\\)/g, "");
  const lines = told.includes("\r") ? told.split("\n").map(lastState).join("\n") : told;
  return lines.replace(kUnseen, "");
}

export const kNameEnd = 10; // characters of a name that always show; ends often tell runs apart
const kMostOfName = 60;
// A name as it is drawn or read out, where no style sheet can cut it: in front of its end.
export function drawnName(name: string): string {
  const letters = Array.from(withoutEscapes(name).replace(/\s+/g, " "));
  if (letters.length <= kMostOfName) return letters.join("");
  const head = letters.slice(0, kMostOfName - kNameEnd - 1);
  return `${head.join("")}…${letters.slice(-kNameEnd).join("")}`;
}

const kMostText = 1000; // characters; who wants all finds it in the log or on the run's page
export function clipped(text: string): string {
  const clean = withoutEscapes(text.slice(0, 2 * kMostText));
  return clean.length > kMostText ? `${clean.slice(0, kMostText)}…` : clean;
}
