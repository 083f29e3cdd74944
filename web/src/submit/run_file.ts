// A run file's values between its text, the form and the controller.
import type { Field, Kind, Schema } from "./schema";
import type { Written } from "./written";
import { written } from "./written";

export type Values = Record<string, unknown>;

function isTable(value: unknown): value is Values {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function same(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (Array.isArray(a) && Array.isArray(b)) {
    return a.length === b.length && a.every((one, index) => same(one, b[index]));
  }
  if (!isTable(a) || !isTable(b)) return false;
  const keys = Object.keys(a);
  return (
    keys.length === Object.keys(b).length &&
    keys.every((key) => Object.hasOwn(b, key) && same(a[key], b[key]))
  );
}

// Of two ways to write a thing, the one that the form has.
function normalised(values: Values): Values {
  const next = { ...values };
  if (Array.isArray(next.data)) next.data = { mixture: next.data };
  if (typeof next.from === "string") {
    next.from = next.from.includes("/") ? { path: next.from } : { run: next.from };
  }
  return next;
}

// A text that is JSON as its values; null: it is none, and may be YAML. Whole numbers that a
// browser would round stay as text, which the controller reads as the key wants it.
export function parsed(text: string): Values | null {
  if (text.trim() === "") return {};
  const exact = text.replace(
    /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g,
    (part) => (/^-?\d{16,}$/.test(part) ? `"${part}"` : part),
  );
  try {
    const value: unknown = JSON.parse(exact);
    return isTable(value) ? normalised(value) : null;
  } catch {
    return null;
  }
}

export function asText(values: Values): string {
  return Object.keys(values).length === 0 ? "" : `${JSON.stringify(values, null, 2)}\n`;
}

export function valueAt(values: Values, key: string): unknown {
  let at: unknown = values;
  for (const part of key.split(".")) {
    if (!isTable(at) || !Object.hasOwn(at, part)) return undefined;
    at = at[part];
  }
  return at;
}

// With another value at the key; undefined takes it out, and tables that become empty with it.
export function withValue(values: Values, key: string, value: unknown): Values {
  const [first = "", ...rest] = key.split(".");
  const next = { ...values };
  const inner = Object.hasOwn(values, first) ? values[first] : undefined;
  const changed =
    rest.length === 0 ? value : withValue(isTable(inner) ? inner : {}, rest.join("."), value);
  if (changed === undefined || (rest.length > 0 && same(changed, {}))) delete next[first];
  else next[first] = changed;
  return next;
}

// Their defaults depend on the task, whatever the schema says.
const kOfTask = new Set(["evaluate.samples", "target.metric"]);

function prunedTable(config: Values, schema: Schema, prefix: string, task: unknown): Values {
  const kept: Values = {};
  for (const [name, value] of Object.entries(config)) {
    const key = prefix === "" ? name : `${prefix}.${name}`;
    const own = schema.properties?.[name] ?? {};
    if (isTable(value)) {
      const inner = prunedTable(value, own, key, task);
      if (Object.keys(inner).length > 0) kept[name] = inner;
      continue;
    }
    const empty = value === "" || (Array.isArray(value) && value.length === 0);
    if (empty && prefix.split(".")[0] === "slurm") continue;
    const sure = !kOfTask.has(key) || task === "pretraining";
    if (sure && own.default !== undefined && same(value, own.default)) continue;
    if (isRounded(value)) continue; // see notCarried
    kept[name] = value;
  }
  return kept;
}

const kEnvironment = "slurm.environment";

// Layers and width of each preset (docs/formats/run_file.md); the first is the default.
const kPresets: Record<string, [number, number]> = {
  tiny: [2, 128],
  mini: [4, 256],
  small: [4, 512],
  medium: [8, 512],
  base: [12, 768],
  large: [24, 1024],
};
const kSizes = ["layers", "hidden", "heads", "feed_forward"];

// A model whose sizes are those of a preset, which a configuration has in their place.
function withPreset(values: Values): Values {
  const { model } = values;
  if (!isTable(model)) return values;
  const found = Object.entries(kPresets).find(([, [layers, hidden]]) =>
    same(kSizes.map((name) => model[name]), [layers, hidden, hidden / 64, 4 * hidden]),
  );
  if (!found) return values;
  const rest = Object.entries(model).filter(([name]) => !kSizes.includes(name));
  const preset = found[0] === "tiny" ? undefined : found[0];
  const next = withValue(values, "model", rest.length > 0 ? Object.fromEntries(rest) : undefined);
  return preset == null ? next : withValue(next, "model.preset", preset);
}

// A run's configuration without what is so by itself, and without what notCarried() names.
export function pruned(config: Values, schema: Schema): Values {
  // A run that was submitted with the defaults of a site has them in it: an empty value is one
  // that nobody has set. A variable may well be empty.
  const kept = withPreset(prunedTable(config, schema, "", config.task ?? "pretraining"));
  const all = valueAt(config, kEnvironment);
  const told = isTable(all) ? Object.entries(all).filter(([, value]) => value !== null) : [];
  const environment = told.length > 0 ? Object.fromEntries(told) : undefined;
  return normalised(withValue(kept, kEnvironment, environment));
}

// Keys whose values do not come over: whole numbers that a browser rounds, and variables, whose
// values the controller tells nobody. Left out they are the defaults; a variable of the defaults of
// the site comes by itself.
export function notCarried(config: Values): string[] {
  const all = valueAt(config, kEnvironment);
  const hidden = isTable(all) ? Object.keys(all).filter((name) => all[name] === null) : [];
  return [...roundedIn(config), ...hidden.map((name) => `${kEnvironment}.${name}`)];
}

// Of these those that this text, which is no JSON, seems to set: it has their names.
export function namedIn(text: string, keys: string[]): string[] {
  return keys.filter((key) => text.includes(key.slice(key.lastIndexOf(".") + 1)));
}

const isRounded = (value: unknown) =>
  typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);

// Whether a key that the text does not set may yet be in the configuration without its defaults:
// by a preset, the task, or the files of the site and the user.
function comesByItself(key: string, set: Written): boolean {
  const [table = "", name = ""] = key.split(".");
  const isSize = table === "model" && ["preset", ...kSizes].includes(name);
  const setsSize = () => ["preset", ...kSizes].some((one) => set.has(`model.${one}`));
  return table === "slurm" || kOfTask.has(key) || (isSize && setsSize());
}

function leavesOf(values: Values, prefix = ""): string[] {
  return Object.entries(values).flatMap(([name, value]) =>
    isTable(value) ? leavesOf(value, `${prefix}${name}.`) : [prefix + name],
  );
}

// The value of a key that a text sets: the controller's, or the text's own where a configuration
// has not the one that was written.
function valueWritten(key: string, text: string | null, config: Values, short: Values): unknown {
  const value = valueAt(config, key);
  if (key === "model.preset") return text ?? undefined;
  if (isTable(value)) return valueAt(short, key);
  if (value === null) return key.startsWith(`${kEnvironment}.`) ? (text ?? undefined) : undefined;
  if (!isRounded(value)) return value;
  return text != null && /^-?\d+$/.test(text) && Number(text) === value ? text : undefined;
}

// What a YAML text sets, as the controller has read it, and keys whose values do not come over.
export function valuesWritten(
  text: string,
  config: Values,
  schema: Schema,
): { values: Values; loses: string[] } {
  const short = pruned(config, schema);
  const byConfig = { values: short, loses: namedIn(text, notCarried(config)) };
  const keys = written(text);
  if (!keys) return byConfig;
  let values: Values = {};
  const loses: string[] = [];
  for (const [key, plain] of keys) {
    const value = valueWritten(key, plain, config, short);
    if (value === undefined) loses.push(key);
    else values = withValue(values, key, value);
  }
  const known = normalised(values);
  const isWhole = leavesOf(short).every(
    (key) => valueAt(known, key) !== undefined || comesByItself(key, keys),
  );
  const isLost = (key: string) => notCarried(config).includes(key);
  return isWhole && loses.every(isLost) ? { values: known, loses } : byConfig;
}

function roundedIn(config: Values, prefix = ""): string[] {
  return Object.entries(config).flatMap(([name, value]): string[] => {
    if (isTable(value)) return roundedIn(value, `${prefix}${name}.`);
    return isRounded(value) ? [prefix + name] : [];
  });
}

const kNumber = /^-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/;

function numberOf(text: string, kind: Kind): unknown {
  const value = Number(text);
  // The controller says what is wrong with it.
  if (!kNumber.test(text) || !Number.isFinite(value)) return text;
  return kind === "whole" && Number.isInteger(value) && !Number.isSafeInteger(value) ? text : value;
}

const linesOf = (text: string) =>
  text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");

// What was typed as a value; undefined: nothing.
export function valueOf(text: string, kind: Kind): unknown {
  if (kind === "long") return text.trim() === "" ? undefined : text;
  if (kind === "list" || kind === "map" || kind === "mixture") {
    const lines = linesOf(text);
    if (lines.length === 0) return undefined;
    if (kind === "list") return lines;
    if (kind === "mixture") {
      return lines.map((line) => {
        const [, path = line, weight] = /^(.*\S)\s+\*\s*(\S+)$/.exec(line) ?? [];
        return weight == null ? { path } : { path, weight: numberOf(weight, "number") };
      });
    }
    return Object.fromEntries(
      lines.map((line) => {
        const at = line.indexOf("=");
        return at < 0 ? [line, null] : [line.slice(0, at), line.slice(at + 1)];
      }),
    );
  }
  const word = text.trim();
  if (word === "") return undefined;
  if (kind === "truth") return word === "true" ? true : word === "false" ? false : word;
  return kind === "whole" || kind === "number" ? numberOf(word, kind) : word;
}

// A value as it is typed; null: the form has no such form, and shows it as it is in the text.
export function textOf(value: unknown, kind: Kind): string | null {
  if (value === undefined) return "";
  let text: string | null = null;
  if (kind === "list") {
    text = Array.isArray(value) ? value.map(String).join("\n") : String(value);
  } else if (kind === "map") {
    if (!isTable(value)) return null;
    text = Object.entries(value)
      .map(([name, one]) => (one === null ? name : `${name}=${String(one)}`))
      .join("\n");
    return same(valueOf(text, kind), mapOf(value)) ? text : null;
  } else if (kind === "mixture") {
    if (!Array.isArray(value) || !value.every((one) => isTable(one) && one.path != null)) {
      return null;
    }
    text = value
      .map((one) => (one.weight == null ? String(one.path) : `${one.path} * ${one.weight}`))
      .join("\n");
  } else {
    return typeof value === "object" ? null : String(value);
  }
  return text;
}

const mapOf = (value: Values) =>
  Object.fromEntries(
    Object.entries(value).map(([name, one]) => [name, one === null ? null : String(one)]),
  );

// The field's default as one reads it.
export function standardText({ standard, kind }: Pick<Field, "standard" | "kind">): string {
  if (standard === undefined || kind === "list" || kind === "map") return "";
  return String(standard);
}

// The key that a refusal of a run file names in its words; answers about `from` have no other.
export function keyIn(message: string): string | null {
  return /^run file(?::\d+)?: ([a-z_]+(?:\.[A-Za-z0-9_]+|\[\d+\])*): /.exec(message)?.[1] ?? null;
}
export function lineIn(message: string): number | null {
  const line = /^run file:(\d+): /.exec(message)?.[1];
  return line == null ? null : Number(line);
}

// Where the n-th line of a text begins and ends.
export function lineRange(text: string, line: number): [number, number] {
  const lines = text.split("\n");
  const at = Math.max(0, Math.min(line, lines.length) - 1);
  const begin = lines.slice(0, at).reduce((sum, one) => sum + one.length + 1, 0);
  return [begin, begin + (lines[at] ?? "").length];
}
