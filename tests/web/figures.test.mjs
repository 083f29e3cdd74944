// The page's pure parts without a browser: figures as text, routes, and the growing series.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { sourcesOf } from "./sources.mjs";

const web = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "web");
const { show, history, plan, timeline, fullSpan, parseRoute, runHash } = await sourcesOf(`export * as show from "./src/base/format"; export * as history from "./src/run/history";
      export * as plan from "./src/plan/plan"; export * as timeline from "./src/parts/timeline";
      export { parseRoute, runHash } from "./src/base/route"; export { fullSpan } from "./src/run/curve_rows";`);

const plain = (text) => text.replaceAll("\u202f", " ");

function table(name, call, rows) {
  test(name, () => {
    for (const [input, expected] of rows) assert.equal(plain(call(input)), expected, String(input));
  });
}

table("durations", show.duration, [
  [0, "0 s"],
  [0.0412, "41 ms"],
  [0.0999, "0.1 s"],
  [1, "1.0 s"],
  [9.94, "9.9 s"],
  [9.96, "10 s"],
  [41.5, "42 s"],
  [59.94, "60 s"],
  [59.96, "1 min 00 s"],
  [106, "1 min 46 s"],
  [3599.4, "59 min 59 s"],
  [3599.6, "1 h 00 min"],
  [7500, "2 h 05 min"],
  [86_399, "1 d 0 h"],
  [273_600, "3 d 4 h"],
  [-3, "0 s"],
  [null, "–"],
  [undefined, "–"],
  [NaN, "–"],
  [Infinity, "–"],
]);
table("clock times", show.clock, [
  [0, "0:00"],
  [59.6, "1:00"],
  [90, "1:30"],
  [3725, "1:02:05"],
  [-30, "−0:30"],
]);
table("percentages", show.percent, [
  [0, "0.00 %"],
  [0.0831, "8.31 %"],
  [0.09996, "10.0 %"],
  [0.72, "72.0 %"],
  [1, "100.0 %"],
  [null, "–"],
  [NaN, "–"],
]);
table("numbers", show.number, [
  [0, "0.00"],
  [6.1, "6.10"],
  [34.25, "34.3"],
  [341, "341"],
  [40_100, "40,100"],
  [2_500_000, "2.50 M"],
  [null, "–"],
  [-0.5, "-0.50"],
]);
table("bytes", show.bytes, [
  [0, "0 bytes"],
  [999, "999 bytes"],
  [1000, "1.00 kB"],
  [13_420_544, "13.4 MB"],
  [1.34e9, "1.34 GB"],
  [9.1e15, "9,100 TB"],
  [null, "–"],
]);
table("times within a step", show.milliseconds, [
  [0, "0.00 ms"],
  [0.0004, "0.40 ms"],
  [0.0125, "12.5 ms"],
  [0.11, "110 ms"],
  [2.5, "2,500 ms"],
  [null, "–"],
  [NaN, "–"],
]);
table("FLOP rates", show.flops, [
  [0, "0.00 FLOP/s"],
  [999, "999 FLOP/s"],
  [4e11, "400 GFLOP/s"],
  [7.912e15, "7.91 PFLOP/s"],
  [3e22, "30,000 EFLOP/s"],
  [null, "–"],
  [undefined, "–"],
]);
table("times of a call", show.microseconds, [
  [0, "0.00 µs"],
  [61.2, "61.2 µs"],
  [7390, "7,390 µs"],
  [null, "–"],
]);
table("changes", show.change, [
  [0.0488, "+4.9 %"],
  [-0.031, "−3.1 %"],
  [0, "0.0 %"],
  [0.0004, "0.0 %"],
  [-0.0004, "0.0 %"],
  [1.87, "+187 %"],
  [0.99951, "+100 %"],
  [null, "–"],
  [NaN, "–"],
  [Infinity, "–"],
]);
table("moments that are none", show.when, [
  [null, "–"],
  ["", "–"],
  ["yesterday", "–"],
]);
table("logs lose what a terminal would act on", show.withoutEscapes, [
  ["plain\n", "plain\n"],
  ["\u001b[31mred\u001b[0m", "red"],
  ["10 %\r20 %\r30 %\n", "30 %\n"],
  ["a\r\nb\r\n", "a\nb\n"],
  ["\u001b]0;title\u0007x", "x"],
  ["a\u0000\u0007b\tc", "ab\tc"],
  ["50 %\r", "50 %"],
  ["10 %\r20 %\r\r\nnext\r\n\rlast", "20 %\nnext\nlast"],
  ["a\u202egnp.exe\u202c b\u2066c\u2069\u200e\u200f\u202a\u202b\u202d\u2067\u2068d", "agnp.exe bcd"],
  ["a\u009b\u0085\u061c\u2028\ufeffb", "ab"],
]);
test("any text loses it in time that grows with the text alone", () => {
  const long = 1_000_000; // characters; quadratic would be hours
  for (const part of ["x", "\r", "x\r", "\u001b]", "\u001b[0", "\u001b[0 ", "\r\n", "\u202e"]) {
    const begin = performance.now();
    show.withoutEscapes(part.repeat(long / part.length));
    const seconds = (performance.now() - begin) / 1000;
    assert.ok(seconds < 10, `${JSON.stringify(part)}: ${seconds} s`);
  }
});

test("routes", () => {
  for (const hash of ["", "#", "#/", "#/runs", "#/runs/"]) {
    const { query, ...route } = parseRoute(hash);
    assert.deepEqual(route, { page: "runs" }, hash);
    assert.equal(query.toString(), "");
  }
  for (const id of ["demo-4f2a91", "a b/..%2f?#é"]) {
    for (const tab of ["curves", "time", "checkpoints", "plan", "log", "events", "details"]) {
      const { query, ...route } = parseRoute(runHash(id, tab));
      assert.deepEqual(route, { page: "run", id, tab });
      assert.equal(query.toString(), "");
    }
  }
  const nowhere = [
    ["#/nothing", "/nothing", null],
    ["#/runs/x/unknown", "/runs/x/unknown", "x"],
    ["#/runs/x/log/9", "/runs/x/log/9", null],
    ["#/runs/%E0%A4%A", "/runs/%E0%A4%A", null],
  ];
  for (const [hash, path, run] of nowhere) {
    const { query, ...route } = parseRoute(hash);
    assert.deepEqual(route, { page: "none", path, run });
  }
  assert.equal(parseRoute("#/?state=failed&text=a").query.get("state"), "failed");
});

const step = (number, seconds) => [number, seconds, 6, 5, 300, 30_000];
const answer = (fields) => ({
  cursor: 0,
  steps: [],
  evaluations: [],
  checkpoints: [],
  timeline: null,
  prediction: null,
  ...fields,
});

test("series grow, repeated steps stay, time never goes back", () => {
  let kept = history.extend(
    history.emptyHistory(),
    answer({
      cursor: 3,
      steps: [step(1, 1), step(2, 2), step(3, 3)],
      evaluations: [[2, 2.1, 0.05, 6, false, 0.05, {}]],
    }),
  );
  kept = history.extend(kept, answer({ cursor: 5, steps: [step(2, 9), step(3, 8), step(3, 10)] }));
  assert.deepEqual(
    kept.steps.map((row) => row[1]),
    [1, 2, 3, 9, 10],
  );
  assert.equal(kept.evaluations.length, 1);
  assert.equal(kept.cursor, 5);
});

test("an answer without rows keeps the arrays, so that charts rest", () => {
  const first = history.extend(history.emptyHistory(), answer({ cursor: 1, steps: [step(1, 1)] }));
  const second = history.extend(first, answer({ cursor: 1 }));
  assert.equal(second.steps, first.steps);
});

test("rows and events that come twice are kept once", () => {
  const twice = answer({
    cursor: 2,
    steps: [step(1, 1), step(2, 2)],
    evaluations: [[2, 2.5, 0.05, 6, false, 0.05, {}]],
    checkpoints: [
      [2, 2.6, "a", "written"],
      [2, 2.6, "b", "removed"],
    ],
  });
  const kept = history.extend(history.extend(history.emptyHistory(), twice), twice);
  assert.deepEqual(
    [kept.steps.length, kept.evaluations.length, kept.checkpoints.length],
    [2, 1, 2],
  );
});

test("a loss that is not a number leaves a gap", () => {
  assert.deepEqual(history.smooth([null, 4, null, 4]), [null, 4, null, 4]);
});

test("a long series is thinned and keeps its ends", () => {
  let kept = history.emptyHistory();
  for (let start = 0; start < 20_000; start += 500) {
    const steps = Array.from({ length: 500 }, (_, i) => step(start + i + 1, start + i + 1));
    kept = history.extend(kept, answer({ cursor: start + 500, steps }));
    assert.ok(kept.steps.length <= 4001);
  }
  assert.equal(kept.steps[0][0], 1);
  assert.equal(kept.steps.at(-1)[0], 20_000);
});

test("smoothing keeps levels and slopes, without lag, and takes noise away", () => {
  assert.deepEqual(history.smooth([]), []);
  assert.ok(history.smooth(Array(500).fill(4)).every((value) => Math.abs(value - 4) < 1e-9));
  const line = Array.from({ length: 500 }, (_, i) => 10 - i / 100);
  history.smooth(line).forEach((value, i) => assert.ok(Math.abs(value - line[i]) < 1e-9, `${i}`));
  const noisy = history.smooth(line.map((value, i) => value + (i % 2 ? 0.5 : -0.5)));
  noisy.slice(5, -5).forEach((value, i) => assert.ok(Math.abs(value - line[i + 5]) < 0.1, `${i}`));
  noisy.forEach((value, i) => assert.ok(Math.abs(value - line[i]) < 0.25, `ends, too: ${i}`));
});

test("one odd value at the end moves the end of a smoothed curve little", () => {
  const line = Array.from({ length: 500 }, (_, i) => 10 - i / 100);
  line[499] += 1;
  const smoothed = history.smooth(line);
  assert.ok(smoothed[499] - (10 - 4.99) < 0.35, `${smoothed[499]}`);
  assert.ok(Math.abs(smoothed[499] - smoothed[498]) < 0.1);
});

test("a target that is not known yet is told as what it is a multiple of", () => {
  const run = { metric: "mlm_accuracy", target: null, target_times_baseline: null };
  assert.equal(show.target(run), null);
  assert.equal(show.target({ ...run, target_times_baseline: 1.2 }), "1.2 × baseline");
  assert.equal(show.target({ ...run, target: 0.0834, target_times_baseline: 1.2 }), "8.34\u202f%");
});

test("a metric is told as a share, a correlation or a loss", () => {
  for (const [metric, text, title] of [
    ["mlm_accuracy", "8.34\u202f%", "Masked accuracy"],
    ["accuracy", "8.34\u202f%", "Accuracy"],
    ["f1", "8.34\u202f%", "F1"],
    ["exact", "8.34\u202f%", "Exact match"],
    ["matthews", "0.0834", "Matthews correlation"],
    ["pearson", "0.0834", "Pearson correlation"],
    ["spearman", "0.0834", "Spearman correlation"],
    ["mlm_loss", "0.0834", "Masked loss"],
    ["loss", "0.0834", "Evaluation loss"],
    ["constructor", "0.0834", "constructor"],
  ]) {
    assert.equal(show.metric(metric, 0.0834), text, metric);
    assert.equal(show.metricTitle(metric), title);
    assert.equal(show.isLoss(metric), metric.endsWith("loss"));
    assert.equal(show.metric(metric, null), show.kDash);
  }
  const run = { metric: "f1", target: 0.88, target_times_baseline: null };
  assert.equal(show.target(run), "88.0\u202f%");
  assert.equal(show.metric("matthews", -0.5), "-0.50");
});

test("a checkpoint that was removed is one entry, a rewritten one is there again", () => {
  const row = (number, status, size = 10) => ({
    step: number,
    name: `step-${number}`,
    path: "",
    bytes: size,
    seconds: 1,
    status,
    at: "",
  });
  const entries = history.currentCheckpoints([
    row(1, "written"),
    row(2, "written"),
    row(1, "removed", 0),
    row(3, "failed"),
    row(2, "removed", 0),
    row(2, "written", 12),
    row(4, "removed", 0),
  ]);
  assert.deepEqual(
    entries.map((one) => [one.step, one.status, one.bytes]),
    [
      [1, "removed", 10],
      [2, "written", 12],
      [3, "failed", 10],
      [4, "removed", 0],
    ],
  );
  const removed = history.removedNames([
    [1, 1, "a", "written"],
    [2, 2, "b", "written"],
    [3, 3, "a", "removed"],
    [4, 4, "b", "removed"],
    [5, 5, "b", "written"],
  ]);
  assert.deepEqual([...removed], ["a"]);
});

test("a stretch of the step is a share of the drawing, and stays within it", () => {
  for (const [begin, end, span, expected] of [
    [0, 0.05, 0.1, { x: "0.000%", width: "50.000%" }],
    [0.025, 0.1, 0.1, { x: "25.000%", width: "75.000%" }],
    [0.05, 0.05, 0.1, null], // takes no time
    [0.06, 0.05, 0.1, null],
    [0, 1e-9, 0.1, { x: "0.000%", width: "0.150%" }], // short, and still seen
    [0.1, 0.1 + 1e-9, 0.1, { x: "99.850%", width: "0.150%" }], // also at the edge
    [-1, 0.05, 0.1, { x: "0.000%", width: "50.000%" }],
    [0.09, 1e301, 0.1, { x: "90.000%", width: "10.000%" }],
    [0, 1, 0, null],
    [NaN, 1, 1, null],
  ]) {
    assert.deepEqual(timeline.stretch(begin, end, span), expected, `${begin} to ${end} of ${span}`);
  }
});

test("a reduction waits, is covered by backward, and is exposed after it", () => {
  const bars = (ready, start, end) => {
    const { waiting, hidden, exposed } = timeline.sumBars({ ready, start, end }, 0.6, 1);
    return [waiting, hidden, exposed].map((one) => one && `${one.x} ${one.width}`);
  };
  for (const [times, expected] of [
    [[0.2, 0.2, 0.5], [null, "20.000% 30.000%", null]],
    [[0.2, 0.3, 0.5], ["20.000% 10.000%", "30.000% 20.000%", null]],
    [[0.2, 0.5, 0.9], ["20.000% 30.000%", "50.000% 10.000%", "60.000% 30.000%"]],
    [[0.6, 0.6, 0.9], [null, null, "60.000% 30.000%"]],
    [[0.6, 0.7, 0.9], ["60.000% 10.000%", null, "70.000% 20.000%"]],
    [[undefined, 0.5, 0.6], [null, "50.000% 10.000%", null]],
    [[0.2, 0.5, 0.4], ["20.000% 30.000%", null, null]],
  ]) {
    assert.deepEqual(bars(...times), expected, String(times));
  }
});

test("an axis has few round marks, none where the unit would be cut off", () => {
  const marks = (span) => timeline.ticks(span).map((mark) => Number((mark * 1e3).toPrecision(6)));
  assert.deepEqual(marks(0.11), [0, 20, 40, 60, 80, 100]);
  assert.deepEqual(marks(0.1), [0, 20, 40, 60, 80]);
  assert.deepEqual(marks(0.0403), [0, 10, 20, 30]);
  for (const span of [5e-324, 1e-9, 3e-4, 0.02, 7, 1e6, 1e308, Infinity]) {
    const { length } = timeline.ticks(span);
    assert.ok(length > 0 && length <= 7, `${span}: ${length}`);
  }
});

test("many rows take no more room than a few, and share labels", () => {
  assert.deepEqual(timeline.rowLayout(2), { row: 18, top: 24, bottom: 64, every: 1 });
  for (const rows of [14, 40, 512]) {
    const { row, bottom, every } = timeline.rowLayout(rows);
    assert.ok(bottom <= 290, `${rows} rows: ${bottom} px`);
    assert.ok(every * row >= 13, `${rows} rows: a label for ${every * row} px`);
  }
  assert.equal(timeline.rowLayout(0).bottom, 28);
});

test("the predicted step: forward, backward, a wait, norm and optimizer", () => {
  const step = {
    step_seconds: 10,
    forward_seconds: 3,
    compute_seconds: 7,
    exposed_seconds: 2,
    tail_seconds: 1,
    buckets: [{ end_seconds: 5 }, { end_seconds: 9 }],
  };
  const shown = (one) => plan.computeParts(one).map((part) => [part.kind, part.begin, part.end]);
  assert.deepEqual(shown(step), [
    ["forward", 0, 3],
    ["backward", 3, 7],
    ["optimizer", 9, 10],
  ]);
  assert.deepEqual(shown({ ...step, forward_seconds: 0, step_seconds: 9 }), [["backward", 0, 7]]);
  assert.equal(plan.spanOf(step), 10);
  assert.equal(plan.spanOf({ ...step, buckets: [{ end_seconds: 12 }] }), 12);
  assert.equal(plan.spanOf({ ...step, buckets: [] }), 10);
});

test("differences", () => {
  assert.equal(plan.difference(43, 40), 43 / 40 - 1);
  for (const [value, base] of [[null, 1], [1, null], [1, 0], [1, -1], [NaN, 1], [undefined, 1]]) {
    assert.equal(plan.difference(value, base), null, `${value} against ${base}`);
  }
});

test("a measured step is the batch over the newest rate", () => {
  const run = { step: 600, samples: 600 * 32, samples_per_second: 320 };
  assert.equal(plan.measuredStep(run), 0.1);
  for (const fields of [{ step: 0 }, { samples: 0 }, { samples_per_second: null }]) {
    assert.equal(plan.measuredStep({ ...run, ...fields }), null, JSON.stringify(fields));
  }
  // Of a batch that has grown to 64.
  assert.equal(plan.measuredStep({ ...run, batch_size: 64 }), 0.2);
});

const cut = (name, buckets, mean) => ({
  name,
  buckets,
  step_seconds: mean * 0.98,
  mean_step_seconds: mean,
});

test("the chosen cut is the one that the plan names", () => {
  const made = (cut, alternatives) => ({ cut, why: "25 MB", alternatives, bucket_ends: [1, 2] });
  const cuts = [cut("25 MB", 2, 4), cut("programme", 2, 3), cut("programme by node", 2, 5)];
  const name = (...args) => plan.chosenOf(made(...args))?.name;
  assert.equal(name("programme", cuts), "programme");
  assert.equal(name("programme by node", cuts), "programme by node");
  assert.equal(name("another", cuts), undefined);
  assert.equal(name(undefined, cuts), undefined);
  assert.equal(name("25 MB", undefined), undefined);

  const rows = plan.rivals(made("programme", [cuts[0], cuts[2], cuts[1]]));
  assert.deepEqual(
    rows.map((row) => [row.alternative.name, row.isChosen, row.against]),
    [
      ["programme", true, 0],
      ["25 MB", false, 4 / 3 - 1],
      ["programme by node", false, 5 / 3 - 1],
    ],
  );
  const unmarked = plan.rivals(made("another", cuts));
  assert.ok(unmarked.every((row) => !row.isChosen && row.against == null));
});

test("alternatives stand in the order of their means, which the planner goes by", () => {
  const lucky = { ...cut("lucky", 2, 5), step_seconds: 1 };
  const rows = plan.rivals({ cut: "b", alternatives: [lucky, cut("a", 2, 4), cut("b", 2, 3)] });
  assert.deepEqual(rows.map((row) => row.alternative.name), ["b", "a", "lucky"]);
});

test("a chart looks ahead to the target until it is reached", () => {
  const rows = { steps: [[100, 50, 5]], evaluations: [[100, 50, 0, 0, false, 0.1]] };
  const known = { ...rows, prediction: { seconds: 90, low: 80, high: 100 } };
  const run = { state: "running", state_text: "training", silent_seconds: null };
  const end = (fields) => fullSpan("time", { ...run, target_reached: false, ...fields }, known).max;
  assert.equal(end({}), 102);
  assert.equal(end({ target_reached: true }), 50 * 1.015);
});

test("a predicted step comes from the timeline, or else from the chosen cut", () => {
  const made = { cut: "25 MB", bucket_ends: [1], alternatives: [cut("25 MB", 1, 4)] };
  assert.equal(plan.predictedStep(made), 4 * 0.98);
  assert.equal(plan.predictedStep({ ...made, timeline: { step_seconds: 3 } }), 3);
  assert.equal(plan.predictedStep({ ...made, alternatives: [] }), null);
});

test("a decision gains what its options differ by", () => {
  const decision = (run_file, choice) => ({
    run_file,
    choice,
    options: [
      { value: "a", step_seconds: 0.04 },
      { value: "b", step_seconds: 0.03 },
    ],
  });
  const { seconds, share } = plan.gainOf(decision("a", "b"));
  assert.ok(Math.abs(seconds - 0.01) < 1e-12 && Math.abs(share - 0.25) < 1e-12);
  assert.equal(plan.gainOf(decision("a", "a")), null);
  assert.equal(plan.gainOf(decision("a", "unknown")), null);
  assert.equal(plan.gainOf(decision("unknown", "b")), null);
});

test("seats are folded by node, and ranks into stretches", () => {
  const folded = plan.seatsByNode([
    { node: "a", gpus: [1, 0], nics: ["x", ""] },
    { node: "b", gpus: [0], nics: ["y"] },
    { node: "a", gpus: [2], nics: ["z"] },
  ]);
  assert.deepEqual(
    folded.map(({ node, seats }) => [node, seats.map(({ rank, gpu, nic }) => [rank, gpu, nic])]),
    [
      [
        "a",
        [
          [0, 1, "x"],
          [1, 0, ""],
          [3, 2, "z"],
        ],
      ],
      ["b", [[2, 0, "y"]]],
    ],
  );
  assert.equal(plan.rankText([0, 1, 3]), "0–1, 3");
  assert.equal(plan.rankText([8, 9, 10, 11]), "8–11");
  assert.equal(plan.rankText([]), "");
});

// All sheets are one: what a view's sheet begins with is its own, or the page's (style.css).
test("no two views style the same class", () => {
  const src = join(web, "src");
  const owners = new Map();
  for (const name of readdirSync(src, { recursive: true })) {
    if (!name.endsWith(".css") || name === "style.css" || name === "print.css") continue;
    const sheet = readFileSync(join(src, name), "utf8").replace(/\/\*[\s\S]*?\*\//g, "");
    for (const [, selectors] of sheet.matchAll(/([^{}]+)\{/g)) {
      for (const selector of selectors.split(",")) {
        const first = /^\s*\.([\w-]+)/.exec(selector)?.[1];
        if (first) owners.set(first, new Set(owners.get(first)).add(name));
      }
    }
  }
  const shared = [...owners].filter(([, names]) => names.size > 1);
  assert.deepEqual(shared.map(([name, names]) => `${name}: ${[...names].join(" and ")}`), []);
});

// What a visit of a view loads: the page, what that imports, and the view's own script with its.
test("no view loads more than 120 kB of script, and the page 15 kB of style", () => {
  const assets = join(web, "dist", "assets");
  const names = readdirSync(assets);
  const zipped = (name) => gzipSync(readFileSync(join(assets, name)), { level: 9 }).length;
  const imports = (name) => [
    ...readFileSync(join(assets, name), "utf8").matchAll(/(?:from|import)"\.\/([\w.-]+\.js)"/g),
  ].map((match) => match[1]);
  const loaded = (name, known = new Set()) => {
    if (known.has(name)) return known;
    known.add(name);
    for (const other of imports(name)) loaded(other, known);
    return known;
  };
  const page = loaded(names.find((name) => /^app-.*\.js$/.test(name)));
  const views = names.filter((name) => /_(view|tab|list)-.*\.js$/.test(name));
  assert.ok(views.length >= 13, `${views.length} views`);
  for (const view of views) {
    const all = loaded(view, new Set(page));
    const bytes = [...all].reduce((sum, name) => sum + zipped(name), 0);
    assert.ok(bytes <= 120_000, `${view}: ${bytes} bytes`);
  }
  const style = names.filter((name) => name.endsWith(".css")).reduce((sum, name) => sum + zipped(name), 0);
  assert.ok(style <= 15_000, `style: ${style} bytes`);
});
