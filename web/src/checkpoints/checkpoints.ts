// What is computed about checkpoints.
import type { Run } from "../base/api";
import { hasEnded } from "../base/api";
import * as show from "../base/format";
import type { CheckpointDetails, CheckpointRow, Cleanup, ForkBody } from "./checkpoints_api";

// How fast it reached the disk, in bytes a second.
export function writeRate(row: CheckpointRow): number | null {
  const seconds = (row.write_seconds ?? 0) + (row.sync_seconds ?? 0);
  return seconds > 0 && row.bytes ? row.bytes / seconds : null;
}

// What is there, as a word; absent of a run whose directory says nothing of it.
export function conditionOf(row: CheckpointRow): string {
  if (row.status !== "written") return row.status;
  return row.condition ?? row.status;
}
// Its files are there, or some of them.
export function isStored(row: CheckpointRow): boolean {
  return row.status === "written" && row.condition != null && row.condition !== "removed";
}

// When it goes: a training run cleans up behind each checkpoint that it writes. One that stays only
// for being among the latest goes when enough others are written.
export function whenItGoes(row: CheckpointRow, run: Pick<Run, "state">): string | null {
  if (!isStored(row)) return null;
  if (row.pinned) return "not while pinned";
  if (row.goes) return `at the next ${hasEnded(run) ? "" : "checkpoint or "}clean-up`;
  const [reason, ...others] = row.kept_because ?? [];
  const match = /^latest (\d+) of (\d+)$/.exec(reason ?? "");
  if (!match || others.length > 0) return null;
  const left = Number(match[2]) - Number(match[1]) + 1;
  return left === 1 ? "when one more is written" : `when ${left} more are written`;
}

// What a clean-up frees, by the list's sizes; how many of them it does not know.
export function freed(removed: Cleanup["removed"], rows: CheckpointRow[]) {
  const sizes = new Map(rows.map((row) => [row.name, row.bytes]));
  let bytes = 0;
  let unknown = 0;
  for (const { name } of removed) {
    const size = sizes.get(name);
    if (size == null) unknown += 1;
    else bytes += size;
  }
  return { bytes, unknown };
}

export const kMostReason = 500; // bytes
export function bytesOf(text: string): number {
  return new TextEncoder().encode(text).length;
}

export interface ForkFields {
  name: string;
  steps: string;
  target: string;
  seed: string;
  json: string; // further changes
}
type ForkAnswer = { body: ForkBody; problem: null } | { body: null; problem: string };

// A whole number of a JSON text that the browser would send as another.
function roundedIn(text: string): string | undefined {
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g) ?? [];
  return tokens.find((one) => /^-?\d+$/.test(one) && !Number.isSafeInteger(Number(one)));
}
const tooLarge = (what: string, value: string) =>
  `${what} ${value}; the page sends whole numbers up to ${Number.MAX_SAFE_INTEGER}, ` +
  "`regatta fork` sends any";

function parsedChanges(text: string): Record<string, unknown> | string {
  if (text.trim() === "") return {};
  const rounded = roundedIn(text);
  if (rounded != null) return tooLarge("the changes have", rounded);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return `Changes are no JSON: ${error instanceof Error ? error.message : String(error)}`;
  }
  if (value == null || typeof value !== "object" || Array.isArray(value)) {
    return 'Changes are a mapping, such as {"optimizer": {"learning_rate": 0.0005}}';
  }
  return value as Record<string, unknown>;
}

// The request to fork, of what was typed; or what is wrong with that.
export function forkBody(checkpoint: string, fields: ForkFields): ForkAnswer {
  const no = (problem: string): ForkAnswer => ({ body: null, problem });
  const changes = parsedChanges(fields.json);
  if (typeof changes === "string") return no(changes);
  for (const key of ["steps", "seed"] as const) {
    const text = fields[key].trim();
    if (text === "") continue;
    if (!/^\d+$/.test(text)) return no(`${key} is '${text}'; it takes a whole number`);
    if (!Number.isSafeInteger(Number(text))) return no(tooLarge(`${key} is`, text));
    if (key in changes) return no(`${key} is both in the field and in the changes; leave one out`);
    changes[key] = Number(text);
  }
  const target = fields.target.trim();
  if (target !== "") {
    if (!Number.isFinite(Number(target))) {
      return no(`target is '${target}'; it takes a number`);
    }
    if ("target" in changes) {
      return no("target is both in the field and in the changes; leave one out");
    }
    changes.target = { value: Number(target) };
  }
  const body: ForkBody = { checkpoint };
  if (fields.name.trim() !== "") body.name = fields.name.trim();
  if (Object.keys(changes).length > 0) body.changes = changes;
  return { body, problem: null };
}

// What two checkpoints differ in, as far as their manifests and the heads of their files say.
export interface Fact {
  name: string;
  a: string;
  b: string;
}
export interface Comparison {
  unknown: number[]; // steps whose manifests cannot be read: then nothing else is known
  isEqual: boolean; // every file has the same digest
  facts: Fact[]; // of the manifest, that differ
  files: { name: string; verdict: string; a: number | null; b: number | null }[];
  tensors: { both: number; different: Fact[] };
  unread: string[]; // files whose tensors are not known, and why
}

const kNotFacts = new Set(["format", "files", "digest", "utc_seconds", "metric", "value", "step"]);

function facts(details: CheckpointDetails): Map<string, string> {
  const found = new Map([["step", show.count(details.step)]]);
  if (details.value != null) {
    found.set(show.metricTitle(details.metric), show.metric(details.metric, details.value));
  }
  const add = (name: string, value: unknown) =>
    found.set(name, typeof value === "string" ? value : JSON.stringify(value));
  for (const [name, value] of Object.entries(details.manifest ?? {})) {
    if (kNotFacts.has(name)) continue;
    if (name === "versions" && value != null && typeof value === "object") {
      for (const [part, version] of Object.entries(value)) add(part, version);
    } else add(name.replaceAll("_", " "), value);
  }
  return found;
}

function differing(a: Map<string, string>, b: Map<string, string>): Fact[] {
  const names = [...new Set([...a.keys(), ...b.keys()])];
  return names
    .filter((name) => a.get(name) !== b.get(name))
    .map((name) => ({ name, a: a.get(name) || show.kDash, b: b.get(name) || show.kDash }));
}

function tensors(details: CheckpointDetails): Map<string, string> {
  const found = new Map<string, string>();
  for (const file of Object.values(details.files)) {
    for (const { name, dtype, shape } of file.tensors ?? []) {
      found.set(name, `${dtype} [${shape.join(", ")}]`);
    }
  }
  return found;
}

// A name is whatever a manifest says, "__proto__" as well.
const fileOf = ({ files }: CheckpointDetails, name: string) =>
  Object.hasOwn(files, name) ? files[name] : undefined;

export function compare(a: CheckpointDetails, b: CheckpointDetails): Comparison {
  const names = [...new Set([...Object.keys(a.files), ...Object.keys(b.files)])].sort();
  const files = names.map((name) => {
    const [left, right] = [fileOf(a, name), fileOf(b, name)];
    const verdict =
      left == null ? "only in B"
      : right == null ? "only in A"
      : left.digest == null || right.digest == null ? "not known"
      : left.digest === right.digest ? "same"
      : "different";
    return { name, verdict, a: left?.bytes ?? null, b: right?.bytes ?? null };
  });
  const [left, right] = [tensors(a), tensors(b)];
  const unread = [a, b].flatMap((one) =>
    Object.entries(one.files)
      .filter(([, file]) => file.error != null)
      .map(([name, file]) => `${name} of step ${one.step}: ${file.error}`),
  );
  return {
    unknown: [a, b].filter(({ manifest }) => manifest == null).map(({ step }) => step),
    isEqual: files.length > 0 && files.every(({ verdict }) => verdict === "same"),
    facts: differing(facts(a), facts(b)),
    files,
    tensors: {
      both: [...left.keys()].filter((name) => right.has(name)).length,
      different: differing(left, right),
    },
    unread,
  };
}
