// Made-up experiments, and how the controller answers for them: means and deviations as
// orchestrator/experiments/layout_table.cc has them.
export const kFigureKeys = [
  ...["run_seconds", "samples_per_second", "tokens_per_second", "validation_loss", "utilisation", "mfu"],
  ...["noise_scale", "efficiency", "goodput", "bubble", "bubble_predicted"],
];
export const kLayouts = [
  { name: "data4", ranks: 4, data: 4, pipeline: 1, schedule: null },
  { name: "stages4", ranks: 4, data: 1, pipeline: 4, schedule: "1f1b" },
  { name: "data2-stages2-gpipe", ranks: 4, data: 2, pipeline: 2, schedule: "gpipe" },
];
const kRates = { data4: 71.2, stages4: 58.9, "data2-stages2-gpipe": 64.4 };
const kNote =
  "Its columns cannot be compared with each other, nor with those above: samples/s seems to be of one process of four " +
  "in the first and of the job in the others.";

// The table of docs/layouts.md, as published.
export const published = () => ({
  what: "BERT-base, fine-tuned on SQuAD v2",
  hardware: "4 A100 of 40 GB",
  layouts: [
    {
      name: "data parallel",
      figures: {
        ...{ run_seconds: 3688, samples_per_second: 37.98, validation_loss: 0.6027, utilisation: 0.9496 },
        ...{ efficiency: 0.01627, goodput: 0.6179 },
      },
    },
    { name: "2 stages", figures: { samples_per_second: 70.4, efficiency: 0.0000707, goodput: 0.0049 } },
    { name: "4 stages", figures: { samples_per_second: 116.27, efficiency: 0.0001116, goodput: 0.0129 } },
  ],
  note: kNote,
  link: "docs/metrics.md",
});

// Of a layout and a seed, depending on nothing else.
export function figuresOf(layout, seed) {
  const off = Math.sin(seed * 12.9898 + layout.name.length * 78.233);
  const rate = (Object.hasOwn(kRates, layout.name) ? kRates[layout.name] : 50) + 0.4 * off;
  const isCut = layout.pipeline > 1;
  return {
    run_seconds: 960 / rate,
    samples_per_second: rate,
    tokens_per_second: 118 * rate,
    validation_loss: 2.4137 + 0.02 * seed + 0.0001 * off,
    utilisation: 0.81 + 0.01 * off,
    mfu: 0.31 + 0.004 * off,
    noise_scale: 240 + 12 * off,
    efficiency: 0.94,
    goodput: 0.94 * rate,
    bubble: isCut ? 0.19 + 0.01 * off : null,
    bubble_predicted: isCut ? 0.1765 : null,
  };
}
export const kNothing = Object.fromEntries(kFigureKeys.map((key) => [key, null]));

export function makeRun(layout, seed, place, fields = {}) {
  const run = {
    id: `squad-${layout.name}-s${seed}-${String(place).padStart(6, "0")}`,
    ...{ state: "succeeded", layout: layout.name, seed, place, error: null },
    ...{ noise_scale_low: 210, noise_scale_high: 280, figures: figuresOf(layout, seed) },
    ...fields,
  };
  if (run.state !== "succeeded") Object.assign(run, { figures: kNothing, noise_scale_low: null, noise_scale_high: null });
  return run;
}

function meanOf(values) {
  if (values.length === 0) return null;
  const mean = values.reduce((sum, one) => sum + one, 0) / values.length;
  const squares = values.reduce((sum, one) => sum + (one - mean) ** 2, 0);
  return { mean, deviation: values.length > 1 ? Math.sqrt(squares / (values.length - 1)) : null, runs: values.length };
}

function layoutOf(layout, runs) {
  const own = runs.filter((run) => run.layout === layout.name);
  const good = own.filter(({ state }) => state === "succeeded");
  const isOver = ({ state }) => ["succeeded", "failed", "stopped", "cancelled"].includes(state);
  return {
    ...layout,
    succeeded: good.length,
    failed: own.filter((run) => isOver(run) && run.state !== "succeeded").map(({ id }) => id),
    figures: Object.fromEntries(
      kFigureKeys.map((key) => [key, meanOf(good.flatMap(({ figures }) => figures[key] ?? []))]),
    ),
  };
}

// Seed after seed, each with all layouts.
export function runsOf(layouts, seeds) {
  let place = 0;
  return seeds.flatMap((seed) => layouts.map((layout) => makeRun(layout, seed, (place += 1))));
}

export function makeExperiment(id, { layouts = kLayouts, runs = runsOf(layouts, [1, 2, 3]), ...fields } = {}) {
  return {
    experiment: id,
    runs_planned: 9,
    ...{ batch_size: 16, device: "cpu: AMD EPYC 7B13", hosts: ["node01"], loss_samples: 960 },
    layouts: layouts.map((layout) => layoutOf(layout, runs)),
    runs,
    agreement: {
      noise_scale: true,
      loss_difference: 0.000214,
      sentences: [
        "Noise scale and statistical efficiency agree between layouts, as they must: the 95 % intervals of each seed's runs have a common part (3 seeds).",
        "Validation losses of one seed, after 960 samples, differ between layouts by 0.00021 at most.",
      ],
    },
    notes: [],
    published: published(),
    ...fields,
  };
}

// One that is under way, with a run that failed.
export function runningExperiment(id) {
  const [data, stages, both] = kLayouts;
  const error = "the loss is not finite at step 31; look at the learning rate";
  const runs = [
    makeRun(stages, 1, 1),
    makeRun(data, 1, 2),
    makeRun(both, 1, 3, { state: "failed", error }),
    makeRun(both, 2, 4),
    makeRun(data, 2, 5, { state: "running" }),
  ];
  const notes = [
    `Left out: ${runs[2].id} (${both.name}, seed 1) failed: ${error}.`,
    "4 of 9 runs are over; the others are not in the table.",
  ];
  const agreement = { noise_scale: null, loss_difference: null, sentences: ["Whether noise scale and statistical efficiency agree is not known."] };
  return makeExperiment(id, { runs, notes, agreement });
}

// One of each kind, the newest first.
export function makeExperiments() {
  const apart =
    "Noise scale and statistical efficiency DO NOT AGREE between layouts, though a layout changes no gradient. Their 95 % " +
    "intervals, in samples, are apart: seed 2: data4 115 to 125, stages4 126 to 130.";
  const [data, stages] = kLayouts;
  const begun = [makeRun(data, 1, 1), makeRun(stages, 1, 2)];
  return [
    runningExperiment("4f2a91"),
    makeExperiment("77ab01"),
    makeExperiment("apart", {
      agreement: { noise_scale: false, loss_difference: 0.4, sentences: [apart] },
      notes: ["Runs ran on different nodes; that makes a difference, too."],
    }),
    makeExperiment("waits", { runs: begun, layouts: [data, stages] }),
    makeExperiment("new", {
      ...{ runs: [makeRun(data, 1, 1, { state: "queued" })], layouts: [data], device: null, hosts: [], loss_samples: null },
      agreement: { noise_scale: null, loss_difference: null, sentences: [] },
    }),
  ];
}

export const manyExperiments = (count) =>
  Array.from({ length: count }, (_, i) => makeExperiment(`many-${String(i).padStart(4, "0")}`));

export function summaryOf({ experiment, runs_planned, runs, layouts, name = "squad" }) {
  const states = {};
  for (const { state } of runs) states[state] = (states[state] ?? 0) + 1;
  const open = ["queued", "starting", "running", "stopping"];
  return {
    ...{ id: experiment, name, planned: runs_planned, runs: runs.length },
    finished: runs.filter(({ state }) => !open.includes(state)).length,
    states,
    layouts: layouts.map((layout) => layout.name),
    begun: "2026-11-21T12:00:00.000Z",
    changed: "2026-11-21T12:48:00.000Z",
  };
}

function listOf(fixture, asked) {
  const all = fixture.experiments.map(summaryOf);
  const from = asked.get("after") ? all.findIndex(({ id }) => id === asked.get("after")) + 1 : 0;
  const to = from + Number(asked.get("limit") ?? 100);
  const next = to < all.length ? all[to - 1].id : null;
  return { status: 200, body: { experiments: all.slice(from, to), total: all.length, next } };
}

// {status, body} of a JSON answer, or {text} of a file; null: no route of experiments.
export function answerOfExperiments(fixture, url) {
  const match = /^\/api\/v1\/experiments(?:\/([^/]+)(?:\/(table\.md))?)?$/.exec(url.pathname);
  if (!match) return null;
  const [, id, part] = match;
  if (!id) return listOf(fixture, url.searchParams);
  const found = fixture.experiments.find(({ experiment }) => experiment === decodeURIComponent(id));
  if (!found) {
    return { status: 404, body: { status: 404, code: "not_found", detail: `no run has the tag experiment-${id}` } };
  }
  if (part == null) return { status: 200, body: found };
  return { text: `# Experiment ${found.experiment}\n\n| figure | data4 |\n|---|---:|\n`, type: "text/markdown; charset=utf-8" };
}
