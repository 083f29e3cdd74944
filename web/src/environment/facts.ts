// What an environment says, as lines of a table and in few words.
import * as show from "../base/format";
import { textOf, withUnseen } from "../parts/values";
import type { SectionName } from "./environment_api";

export interface Fact {
  key: string; // nested keys joined by spaces
  text: string | null; // null: it was set, and is not shown
}

const kMostLevels = 8; // of keys; the rest is shown as JSON
const kShownDigits = 8;

export const firstDigits = (digest: unknown) => textOf(digest ?? "").slice(0, kShownDigits);

export const isObject = (value: unknown): value is Record<string, unknown> =>
  value != null && typeof value === "object" && !Array.isArray(value);
const isSingle = (value: unknown) => value == null || typeof value !== "object";
const singleText = (value: unknown) => (value == null ? "not shown" : withUnseen(textOf(value)));

// As orchestrator/text/environment_text.cc: "caches 1 bytes" of caches[0].bytes.
function addFacts(key: string, value: unknown, level: number, into: Fact[]) {
  if (value == null) {
    into.push({ key, text: null });
  } else if (isSingle(value) || level === kMostLevels) {
    into.push({ key, text: withUnseen(textOf(value)) });
  } else if (isObject(value)) {
    for (const [name, below] of Object.entries(value)) {
      addFacts(`${key} ${withUnseen(name)}`, below, level + 1, into);
    }
  } else if (Array.isArray(value) && value.every(isSingle)) {
    into.push({ key, text: value.map(singleText).join(" ") });
  } else if (Array.isArray(value)) {
    value.forEach((one, index) => addFacts(`${key} ${index + 1}`, one, level + 1, into));
  }
}

// Of a section, of `attempt` or of `training`.
export function factsOf(part: unknown): Fact[] {
  const facts: Fact[] = [];
  if (!isObject(part)) return facts;
  for (const [key, value] of Object.entries(part)) {
    if (key !== "digest") addFacts(withUnseen(key), value, 0, facts);
  }
  return facts;
}

// What lies there, as text; null where nothing does, or more than one thing.
function at(value: unknown, ...keys: string[]): string | null {
  let found = value;
  for (const key of keys) {
    found = isObject(found) && Object.hasOwn(found, key) ? found[key] : null;
  }
  return found == null || !isSingle(found) ? null : withUnseen(textOf(found));
}
const figure = (value: unknown, ...keys: string[]): number | null => {
  const text = at(value, ...keys);
  const number = Number(text);
  return text == null || text === "" || !Number.isFinite(number) ? null : number;
};
const joined = (parts: (string | null | undefined)[], by = ", ") => parts.filter(Boolean).join(by);
const amount = (count: number | null, one: string, many = `${one}s`) =>
  count == null ? null : `${show.count(count)} ${count === 1 ? one : many}`;

const kCommitDigits = 12;
function commitOf(build: unknown): string {
  const commit = at(build, "commit");
  if (commit == null) return "no commit";
  const [digits = "", ...rest] = commit.split("-");
  return `commit ${[digits.slice(0, kCommitDigits), ...rest].join("-")}`;
}

function processorOf(machine: unknown): string {
  const name = isObject(machine) && isObject(machine.processor) ? machine.processor.name : null;
  if (Array.isArray(name)) return `${amount(name.length, "kind")} of processors`;
  return at(machine, "processor", "name") ?? "processor not told";
}

function limitsOf(machine: unknown): string | null {
  const processors = at(machine, "limits", "processors");
  const memory = figure(machine, "limits", "memory_bytes");
  if (processors == null && memory == null) return null;
  const parts = [
    processors && `${processors} ${processors === "1" ? "processor" : "processors"}`,
    memory == null ? null : show.bytes(memory),
  ];
  return `limited to ${joined(parts, " and ")}`;
}

const kNamedVariables = 3;
function variablesOf(variables: unknown): string {
  const facts = factsOf(variables);
  if (facts.length === 0) return "none is set";
  const names = facts.slice(0, kNamedVariables).map(({ key }) => key);
  const more = facts.length - names.length;
  return joined([...names, more > 0 ? `${more} more` : null]);
}

function productsOf(numerics: unknown): string | null {
  const kinds = ["forward", "input_gradients", "weight_gradients"];
  const who = kinds.map((kind) => at(numerics, "products", kind)).filter((one) => one != null);
  return who.length === 0 ? null : `products ${[...new Set(who)].join(" / ")}`;
}

function numericsOf(numerics: unknown): string {
  const types = ["activations", "weights", "gradients_between_ranks"].map((key) =>
    at(numerics, key),
  );
  const [activations, weights, gradients] = types;
  const isOne = types.every((type) => type != null && type === activations);
  const named = [
    activations && `activations ${activations}`,
    weights && `weights ${weights}`,
    gradients && gradients !== weights ? `gradients ${gradients}` : null,
  ];
  return joined([
    isOne ? `all ${activations}` : joined(named),
    at(numerics, "tf32") === "true" ? "TF32" : null,
    at(numerics, "instruction_set"),
    productsOf(numerics),
  ]);
}

function modelOf(model: unknown): string {
  const from = at(model, "begins_with");
  const begin = from == null || from === "new weights" ? from : `begins with ${from}`;
  return joined([amount(figure(model, "parameters"), "parameter"), begin]);
}

function datasetsOf(data: unknown): string | null {
  const sets = isObject(data) && Array.isArray(data.datasets) ? data.datasets.length : 1;
  return sets === 1 ? null : amount(sets, "dataset");
}

const kWords: Record<SectionName, (section: unknown) => string> = {
  build: (build) => joined([`version ${at(build, "version") ?? show.kDash}`, commitOf(build)]),
  machine: (machine) =>
    joined([
      processorOf(machine),
      amount(figure(machine, "cores"), "core") ?? amount(figure(machine, "threads"), "thread"),
      figure(machine, "memory_bytes") == null ? null : show.bytes(figure(machine, "memory_bytes")),
      limitsOf(machine),
    ]),
  devices: (devices) =>
    at(devices, "of_rank_0", "model") ?? at(devices, "of_rank_0", "description") ?? show.kDash,
  fabric: (fabric) =>
    joined([
      joined(
        [
          amount(figure(fabric, "ranks"), "rank"),
          (figure(fabric, "hosts") ?? 1) > 1 ? amount(figure(fabric, "hosts"), "host") : null,
        ],
        " on ",
      ),
      at(fabric, "transport"),
    ]),
  variables: variablesOf,
  numerics: numericsOf,
  randomness: (randomness) => `seed ${at(randomness, "seed") ?? show.kDash}`,
  data: (data) =>
    joined([`fingerprint ${firstDigits(at(data, "fingerprint") ?? show.kDash)}`, datasetsOf(data)]),
  model: modelOf,
  configuration: () => "run file of this attempt",
};

const kMostLetters = 200;
const short = (text: string) => {
  const letters = Array.from(text.slice(0, 2 * kMostLetters));
  return text.length > kMostLetters ? `${letters.slice(0, kMostLetters).join("")}…` : text;
};

// What counts most in a section.
export const aboutSection = (name: SectionName, section: unknown) => short(kWords[name](section));

export function aboutAttempt(attempt: unknown): string {
  const host = at(attempt, "host");
  const started = at(attempt, "started");
  const resumed = at(attempt, "resumed_from");
  return short(
    joined([
      joined([at(attempt, "number") ?? show.kDash, host && `on ${host}`], " "),
      started && `begun ${show.when(started)}`,
      resumed && `resumed from ${resumed}`,
    ]),
  );
}

const clockOf = (part: unknown) => {
  const mhz = figure(part, "clocks", "mean_mhz");
  return mhz == null ? null : `${show.number(mhz / 1000)}\u202fGHz`;
};

// "not throttled", or how often which part of the processors was.
function throttledText(training: unknown): string | null {
  const counts = ["core", "package"].map(
    (part) => [part, figure(training, "throttled", `${part}_throttle_count`)] as const,
  );
  const told = counts.filter(([, count]) => count != null);
  if (told.length === 0) return null;
  const some = told.filter(([, count]) => count !== 0);
  if (some.length === 0) return "not throttled";
  return joined(some.map(([part, count]) => `${part}s throttled ${amount(count, "time")}`));
}

// Clocks at both ends, and what happened between.
export function aboutTraining(training: unknown, attempt: unknown): string {
  const ended = at(training, "ended");
  const [before, after] = [clockOf(attempt), clockOf(training)];
  return joined([
    ended && `ended ${show.when(ended)}`,
    before && after ? `${before} at the begin, ${after} at the end` : after,
    throttledText(training),
  ]);
}
