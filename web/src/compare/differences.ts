import type { AttemptRow, Plan, Run } from "../base/api";
import * as show from "../base/format";
import { kRounded, textOf } from "../parts/values";
import type { Known } from "./compare_api";

// One line of a table of differences: what each run has; null: it has no such thing, undefined:
// that is not known.
export interface Row {
  key: string;
  values: (string | null | undefined)[];
  differs: boolean;
  mayDiffer: boolean; // two read the same, and that says nothing
}

type Flat = Map<string, string>;

// The controller keeps the values of variables to itself: they come as null.
const kVariables = "slurm.environment";
const isVariable = (key: string) => key === kVariables || key.startsWith(`${kVariables}.`);
const kHidden = "hidden";

// Nested keys as the run file's reader names them: model.hidden, evaluations[3].
export function flatten(value: unknown, key = "", into: Flat = new Map()): Flat {
  if (Array.isArray(value) && value.length > 0) {
    value.forEach((one, index) => flatten(one, `${key}[${index}]`, into));
  } else if (value != null && typeof value === "object" && Object.keys(value).length > 0) {
    for (const [name, one] of Object.entries(value)) {
      flatten(one, key === "" ? name : `${key}.${name}`, into);
    }
  } else if (key !== "") {
    into.set(key, value == null && isVariable(key) ? kHidden : textOf(value));
  }
  return into;
}

function rowOf(key: string, values: Row["values"]): Row {
  const told = values.filter((value) => value !== undefined);
  const differs = told.some((value) => value !== told[0]);
  const vague = told.filter((value) =>
    isVariable(key) ? value === kHidden : kRounded.test(value ?? ""),
  );
  return { key, values, differs, mayDiffer: new Set(vague).size < vague.length };
}

// null: nothing is known of this one.
export function rowsOf(flats: (Flat | null)[]): Row[] {
  const keys = [...new Set(flats.flatMap((flat) => [...(flat?.keys() ?? [])]))].sort();
  return keys.map((key) =>
    rowOf(
      key,
      flats.map((flat) => (flat ? (flat.get(key) ?? null) : undefined)),
    ),
  );
}

// The name stands above its column.
export function configRows(known: Known[]): Row[] {
  const flats = known.map(({ run }) => (run.config == null ? null : flatten(run.config)));
  return rowsOf(flats).filter(({ key }) => key !== "name");
}

const counted = (value: number | null) => (value == null ? null : show.count(value));
function beginning({ from }: Run): string {
  if (!from) return "new weights";
  return from.path ?? [from.run, from.checkpoint].filter((part) => part != null).join(" ");
}

const kNames: [string, (run: Run, last: AttemptRow | undefined) => string | null][] = [
  ["device", (run) => run.device],
  ["ranks", (run) => counted(run.ranks)],
  ["ranks per node", (run) => counted(run.ranks_per_node)],
  ["peak of all ranks", (run) => (run.peak_flops == null ? null : show.flops(run.peak_flops))],
  ["nodes", (_run, last) => (last && last.hosts.length > 0 ? last.hosts.join(", ") : null)],
  ["task", (run) => run.task ?? null],
  ["began with", beginning],
];

// Of the newest attempt.
export function environmentRows(known: Known[]): Row[] {
  return kNames.map(([key, of]) =>
    rowOf(
      key,
      known.map(({ run, attempts }) => of(run, attempts[attempts.length - 1])),
    ),
  );
}

function planFlat(plan: Plan): Flat {
  const flat: Flat = new Map();
  const put = (key: string, value: string | null | undefined) => {
    if (value != null) flat.set(key, value);
  };
  put("cut", plan.cut);
  put("buckets", show.count(plan.bucket_ends.length));
  put("ranks", show.count(plan.ranks));
  put("topology", plan.topology);
  put("from measurements", plan.measured ? "yes" : "no");
  if (plan.timeline) {
    put("predicted step", show.milliseconds(plan.timeline.step_seconds));
    put("predicted exposed communication", show.milliseconds(plan.timeline.exposed_seconds));
  }
  for (const { key, choice } of plan.decisions ?? []) put(`setting ${key}`, choice);
  for (const range of plan.nccl?.ranges ?? []) {
    const to = range.to_bytes == null ? "any size" : show.bytes(range.to_bytes);
    const key = `NCCL ${range.collective} ${show.bytes(range.from_bytes)} to ${to}`;
    put(key, `${range.algorithm} ${range.protocol}`);
  }
  const seats = plan.seats ?? [];
  if (seats.length > 0) put("nodes", seats.map(({ node }) => node).join(", "));
  return flat;
}

export function planRows(known: Known[]): Row[] {
  return rowsOf(known.map(({ plan }) => (plan ? planFlat(plan) : new Map())));
}

// Runs that differ by `seed` alone, as far as is known: values of variables are not. A name says
// nothing about training. Those that have not succeeded stay by themselves: a mean over them would
// be of different steps. A group keeps the order of its members, and groups have two or more.
const kApart = new Set(["seed", "name"]);

export function seedGroups(runs: Run[]): Run[][] {
  const groups = new Map<string, Run[]>();
  for (const run of runs) {
    if (run.config == null || run.config.seed == null || run.state !== "succeeded") continue;
    const rest = [...flatten(run.config)].filter(([key]) => !kApart.has(key)).sort();
    const key = JSON.stringify([run.task ?? "", run.from ?? null, rest]);
    groups.set(key, [...(groups.get(key) ?? []), run]);
  }
  const seeds = (group: Run[]) => new Set(group.map((run) => String(run.config?.seed))).size;
  return [...groups.values()].filter((group) => seeds(group) > 1);
}

export const hasHidden = (run: Run): boolean =>
  [...flatten(run.config)].some(([key, value]) => isVariable(key) && value === kHidden);
