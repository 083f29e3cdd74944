// Made-up sweeps, and how the controller answers for them.
const kKeys = [
  { key: "optimizer.learning_rate", kind: "log_uniform", low: 1e-5, high: 1e-2, log: true },
  { key: "batch.size", kind: "integer", low: 8, high: 512, log: true },
  { key: "optimizer.name", kind: "choice", choices: ["adamw", "lamb", "sgd"] },
  { key: "optimizer.beta2", kind: "uniform", low: 0.9, high: 0.999, when: { "optimizer.name": ["adamw"] } },
  { key: "optimizer.weight_decay", kind: "uniform", low: 0, high: 0.1 },
];
const kRungs = [100, 300, 900];

// A number from 0 to 1 that depends on nothing but these.
const draw = (trial, parameter) => {
  const value = Math.sin(trial * 12.9898 + parameter * 78.233) * 43_758.5453;
  return value - Math.floor(value);
};

const at = (minutes) => new Date(Date.UTC(2026, 10, 21, 12, minutes)).toISOString();

export const parameter = (fields) => ({
  ...{ low: null, high: null, log: false, choices: null, when: {} },
  ...fields,
});

function valuesOf(number) {
  const values = {
    "optimizer.learning_rate": 10 ** (-5 + 3 * draw(number, 1)),
    "batch.size": Math.round(8 * 64 ** draw(number, 2)),
    "optimizer.name": kKeys[2].choices[Math.floor(3 * draw(number, 3))],
    "optimizer.weight_decay": 0.1 * draw(number, 5),
  };
  if (values["optimizer.name"] === "adamw") values["optimizer.beta2"] = 0.9 + 0.099 * draw(number, 4);
  return values;
}

// The nearer the rate is to 4e-4, the better; more steps help all.
function accuracyOf(values, budget) {
  const off = Math.log10(values["optimizer.learning_rate"]) + 3.4;
  const late = values["optimizer.name"] === "sgd" ? 0.12 : 0;
  return Number((0.72 - 0.09 * off * off - late - 12 / (budget + 40)).toFixed(5));
}

export function makeTrial(number, fields = {}) {
  const run = `lr-sweep-${String(number).padStart(6, "0")}`;
  const state = fields.state ?? "finished";
  return {
    ...{ number, run, run_state: state === "running" ? "running" : "succeeded", state },
    ...{ reason: null, values: valuesOf(number), goal: 100, rank: null, objective: null },
    ...{ budget: null, reports: [], started: at(number), ended: null },
    ...fields,
  };
}

function reached(trial, budget) {
  const reports = kRungs
    .filter((one) => one <= budget)
    .map((one) => ({ budget: one, objective: accuracyOf(trial.values, one) }));
  return { ...trial, budget, reports, objective: reports.at(-1)?.objective ?? null };
}

// Twelve of twenty-seven tried, at all that may happen to one.
export function ashaTrials() {
  const goals = [100, 100, 900, 100, 300, 100, 100, 100, 300, 100, 100, 100];
  const trials = goals.map((goal, i) => reached(makeTrial(i + 1, { goal, state: "paused" }), goal));
  const oom = "CUDA error: out of memory on gpu-017; the batch of 431 does not fit";
  const change = (number, fields) => Object.assign(trials[number - 1], fields);
  change(3, { state: "finished", ended: at(40) });
  change(4, { state: "failed", run_state: "failed", reason: oom, objective: null, reports: [] });
  change(9, { state: "running", run_state: "running", budget: 100 });
  change(9, reached(trials[8], 100));
  const nothing = { objective: null, budget: null, reports: [] };
  change(11, { ...nothing, state: "running", run_state: "running" });
  change(12, {
    ...{ ...nothing, state: "running", run_state: "queued", started: null },
    reason: "waits for a free place: 4 of 4 are used",
  });
  return ranked(trials);
}

// By the objective, the highest first.
export function ranked(trials) {
  const order = trials.filter(({ objective }) => objective != null);
  order.sort((one, other) => other.objective - one.objective);
  order.forEach((trial, i) => (trial.rank = i + 1));
  return trials;
}

export function makeSweep(id, { trials = ashaTrials(), ...fields } = {}) {
  const of = (state) => trials.filter((trial) => trial.state === state).length;
  const best = trials.find(({ rank }) => rank === 1);
  return {
    id,
    name: id.replace(/-[^-]*$/, ""),
    ...{ state: "running", stops: false, reason: null, created: at(0), ended: null, owner: "uid 1000" },
    method: "asha",
    objective: { kind: "metric", metric: "mlm_accuracy", direction: "maximize" },
    budget: { unit: "steps", min: 100, max: 900, factor: 3 },
    ...{ concurrency: 4, seed: 1 },
    counts: {
      ...{ planned: fields.state === "done" ? trials.length : 27, tried: trials.length, running: of("running"), paused: of("paused") },
      ...{ finished: of("finished"), failed: of("failed"), stopped: of("stopped") },
    },
    best: best
      ? { trial: best.number, run: best.run, objective: best.objective, values: best.values }
      : null,
    parameters: kKeys.map(parameter),
    rungs: kRungs,
    config: { name: id, sweep: { method: "asha", trials: 27 } },
    trials,
    ...fields,
  };
}

// One of each kind, the newest first.
export function makeSweeps() {
  const over = (trial) => ({ ...trial, rank: null, state: "finished", ended: at(50) });
  const done = ranked(ashaTrials().filter(({ state }) => state === "paused").map(over));
  const metric = { kind: "metric", metric: "mlm_loss", direction: "minimize" };
  return [
    makeSweep("lr-sweep-4f2a91"),
    makeSweep("decay-77ab01", { trials: done, state: "done", method: "tpe", ended: at(90), rungs: [] }),
    makeSweep("batch-000003", {
      ...{ trials: [], method: "grid", objective: metric, rungs: [] },
      reason: "cannot write /srv/runs/.sweeps/batch-000003.json: the disk is full",
    }),
    makeSweep("seeds-000004", {
      ...{ trials: ranked([reached(makeTrial(1), 300)]), state: "stopped", method: "random" },
      ...{ stops: true, ended: at(8), rungs: [] },
    }),
  ];
}

export const manySweeps = (count) =>
  Array.from({ length: count }, (_, i) => makeSweep(`many-${String(i).padStart(6, "0")}`));

const summaryOf = ({ parameters, rungs, config, trials, ...summary }) => summary;
const refusal = (status, code, detail, parameter = null) => ({
  status,
  body: { status, code, detail, ...(parameter && { parameter }) },
});

function csvOf({ trials }) {
  return ["number,state,objective", ...trials.map((one) => [one.number, one.state, one.objective])].join("\n");
}

function listOf(fixture, asked) {
  const state = asked.get("state");
  const states = ["running", "done", "stopped"];
  if (state && !states.includes(state)) {
    return refusal(400, "user", `state is '${state}'; use ${states.join(", ")}`, "state");
  }
  const found = fixture.sweeps.filter((sweep) => state == null || sweep.state === state);
  const from = Number(asked.get("after") ?? 0);
  const to = from + Number(asked.get("limit") ?? 100);
  const next = to < found.length ? String(to) : null;
  return { status: 200, body: { sweeps: found.slice(from, to).map(summaryOf), total: found.length, next, left_out: fixture.leftOut ?? [] } };
}

// {status, body} of a JSON answer, or {text} of a file; null: no route of sweeps.
export function answerOfSweeps(fixture, url) {
  const match = /^\/api\/v1\/sweeps(?:\/([^/]+)(?:\/(stop|trials\.csv))?)?$/.exec(url.pathname);
  if (!match) return null;
  const [, id, part] = match;
  if (!id) return listOf(fixture, url.searchParams);
  const sweep = fixture.sweeps.find((one) => one.id === decodeURIComponent(id));
  if (!sweep) return refusal(404, "not_found", `no sweep ${id}`);
  if (part === "trials.csv") return { text: csvOf(sweep), type: "text/csv; charset=utf-8" };
  if (part == null) return { status: 200, body: sweep };
  if (fixture.refusal) return refusal(409, "conflict", fixture.refusal);
  Object.assign(sweep, { state: "stopped", stops: true });
  return { status: 202, body: summaryOf(sweep) };
}
