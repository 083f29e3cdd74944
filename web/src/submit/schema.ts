// The fields of the form, made of the run file's JSON Schema.
import { count } from "../base/format";
import { kAbout } from "./about";

export interface Schema {
  type?: string | string[];
  enum?: string[];
  default?: unknown;
  minimum?: number;
  exclusiveMinimum?: number;
  maximum?: number;
  exclusiveMaximum?: number;
  description?: string;
  deprecated?: boolean;
  properties?: Record<string, Schema>;
  items?: Schema;
  additionalProperties?: boolean | Schema;
}

export type Kind =
  "text" | "long" | "whole" | "number" | "truth" | "choice" | "list" | "map" | "mixture";

export interface Field {
  key: string; // "model.hidden"
  name: string; // within its group
  kind: Kind;
  choices: string[];
  standard: unknown; // the default, where it depends on no other key
  range: string;
  about: string;
}

export interface Group {
  key: string; // "" has the keys at the top
  title: string;
  usual: Field[];
  rest: Field[];
}

const kTitles: Record<string, string> = {
  "": "Run",
  data: "Data",
  model: "Model",
  optimizer: "Optimizer",
  batch: "Batch",
  target: "Target",
  evaluate: "Evaluation",
  checkpoint: "Checkpoints",
  from: "Begin with a model",
  determinism: "Determinism",
  slurm: "Slurm",
};
const kUsual = new Set(
  `name task steps seed device dtype ranks data.path data.max_length model.preset optimizer.name
  optimizer.learning_rate optimizer.warmup_steps batch.size target.metric target.value
  target.times_baseline evaluate.every checkpoint.every slurm.partition slurm.account slurm.nodes
  slurm.gpus_per_rank slurm.time_limit`.split(/\s+/),
);

function kindOf(key: string, schema: Schema): Kind {
  const types = [schema.type ?? []].flat();
  if (schema.enum) return "choice";
  if (schema.items?.properties) return "mixture";
  if (types.includes("array")) return "list";
  if (types.includes("object")) return "map";
  if (types.includes("string")) return key === "slurm.setup" ? "long" : "text";
  if (types.includes("integer")) return "whole";
  return types.includes("number") ? "number" : "truth";
}

const figure = (value: number) =>
  Number.isInteger(value) && Math.abs(value) < 1e15 ? count(value) : String(value);

function rangeOf(schema: Schema): string {
  const { minimum, exclusiveMinimum, maximum, exclusiveMaximum } = schema;
  const low = minimum ?? exclusiveMinimum;
  const high = maximum ?? exclusiveMaximum;
  const more = exclusiveMinimum != null ? `more than ${figure(exclusiveMinimum)}` : null;
  const less = exclusiveMaximum != null ? `less than ${figure(exclusiveMaximum)}` : null;
  if (low == null && high == null) return "";
  if (high == null) return more ?? `at least ${figure(low ?? 0)}`;
  if (low == null) return less ?? `at most ${figure(high)}`;
  if (!more && !less) return `${figure(low)} to ${figure(high)}`;
  return `${more ?? `from ${figure(low)}`}, ${less ?? `up to ${figure(high)}`}`;
}

function fieldsOf(schema: Schema, prefix: string, group: string): Field[] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, one]): Field[] => {
    const key = prefix === "" ? name : `${prefix}.${name}`;
    if (one.deprecated) return [];
    if (one.properties) return prefix === "" ? [] : fieldsOf(one, key, group);
    return [
      {
        key,
        name: group === "" ? key : key.slice(group.length + 1),
        kind: kindOf(key, one),
        choices: one.enum ?? [],
        standard: one.default,
        range: rangeOf(one),
        about: one.description ?? kAbout[key] ?? "",
      },
    ];
  });
}

// The groups that most runs set something of come first.
export function groupsOf(schema: Schema): Group[] {
  const tables = Object.entries(schema.properties ?? {}).filter(([, one]) => one.properties);
  const all = ["", ...tables.map(([key]) => key)];
  const known = Object.keys(kTitles);
  const order = (key: string) => (known.includes(key) ? known.indexOf(key) : known.length);
  all.sort((a, b) => order(a) - order(b));
  return all.map((key) => {
    const table = key === "" ? schema : (schema.properties?.[key] ?? {});
    const fields = fieldsOf(table, key, key);
    return {
      key,
      title: kTitles[key] ?? key,
      usual: fields.filter((field) => kUsual.has(field.key)),
      rest: fields.filter((field) => !kUsual.has(field.key)),
    };
  });
}

// The key of the field that shows what is wrong at this key: "data.mixture[1].path" is one's of
// "data.mixture". null: no field has it.
export function fieldAt(groups: Group[], key: string | null): Field | null {
  const fields = groups.flatMap((group) => [...group.usual, ...group.rest]);
  let rest = key ?? "";
  while (rest !== "") {
    const found = fields.find((field) => field.key === rest);
    if (found) return found;
    rest = rest.replace(/(\[\d+\]|(^|\.)[^.[]*)$/, "");
  }
  // A table as a whole, as an impossible model: its first field.
  return fields.find((field) => key != null && field.key.startsWith(`${key}.`)) ?? null;
}
