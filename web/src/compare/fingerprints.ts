// What the fingerprints of attempts differ in, section by section.
import type { Environment, SectionName } from "../environment/environment_api";
import { factsOf, firstDigits } from "../environment/facts";
import { kRounded, textOf } from "../parts/values";
import type { Row } from "./differences";

// What decides most about the results comes first. The configuration is compared by itself.
export const kCompared: SectionName[] = [
  "data",
  "model",
  "numerics",
  "randomness",
  "build",
  "devices",
  "machine",
  "fabric",
  "variables",
];

const kNotShown = "not shown";

export interface ComparedSection {
  name: SectionName;
  digests: (string | undefined)[]; // undefined: no environment is known
  isEqual: boolean; // of those that are known
  rows: Row[];
}

const digestOf = (environment: Environment, name: SectionName) =>
  textOf(environment[name]?.digest ?? "");

// Digests leave out what is not shown, and tell apart what the browser has rounded.
function rowOf(key: string, values: Row["values"], isEqual: boolean): Row {
  const told = values.filter((value) => value !== undefined);
  const differs = told.some((value) => value !== told[0]);
  const isVague = (text: string | null) =>
    text === kNotShown || (!isEqual && kRounded.test(text ?? ""));
  const vague = told.filter(isVague);
  return { key, values, differs, mayDiffer: new Set(vague).size < vague.length };
}

const flatOf = (section: unknown) =>
  new Map(factsOf(section).map(({ key, text }) => [key, text ?? kNotShown]));

function sectionOf(name: SectionName, environments: (Environment | null)[]): ComparedSection {
  const digests = environments.map((one) => (one ? digestOf(one, name) : undefined));
  const isEqual = new Set(digests.filter((digest) => digest !== undefined)).size < 2;
  const flats = environments.map((one) => (one ? flatOf(one[name]) : null));
  const keys = [...new Set(flats.flatMap((flat) => [...(flat?.keys() ?? [])]))];
  const rows = keys.map((key) => {
    const values = flats.map((flat) => (flat ? (flat.get(key) ?? null) : undefined));
    return rowOf(key, values, isEqual);
  });
  return { name, digests: digests.map((one) => one && firstDigits(one)), isEqual, rows };
}

// null: there is none to compare.
export const comparedSections = (environments: (Environment | null)[]): ComparedSection[] =>
  kCompared.map((name) => sectionOf(name, environments));

// Places in the list of those, two and more, that have one fingerprint.
export function equalAttempts(environments: (Environment | null)[]): number[][] {
  const groups = new Map<string, number[]>();
  environments.forEach((one, index) => {
    if (!one) return;
    const fingerprint = textOf(one.fingerprint);
    groups.set(fingerprint, [...(groups.get(fingerprint) ?? []), index]);
  });
  return [...groups.values()].filter((places) => places.length > 1);
}

// Keys that two or more have without their values, which no digest tells.
export function hiddenKeys(environments: (Environment | null)[]): string[] {
  const count = new Map<string, number>();
  for (const name of [...kCompared, "configuration"] as const) {
    for (const one of environments) {
      for (const { key, text } of factsOf(one?.[name])) {
        const whole = `${name} ${key}`;
        if (text == null) count.set(whole, (count.get(whole) ?? 0) + 1);
      }
    }
  }
  return [...count].filter(([, times]) => times > 1).map(([key]) => key);
}

const kBefore = 24; // letters in front of what differs

// How many letters of these texts may be left out, so that what they differ in is seen early.
export function commonBegin(texts: (string | null | undefined)[]): number {
  const told = texts.filter((text) => text != null);
  const [first = "", ...rest] = told;
  if (rest.length === 0) return 0;
  let same = 0;
  while (same < first.length && rest.every((text) => text[same] === first[same])) same += 1;
  return same === first.length && rest.every((text) => text === first)
    ? 0
    : Math.max(0, same - kBefore);
}
