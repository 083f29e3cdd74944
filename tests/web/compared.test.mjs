// What is computed of compared runs and of checkpoints, also where something is not known: hidden
// and rounded values, curves that are missing, manifests that cannot be read.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { sourcesOf } from "./sources.mjs";

const web = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "web");
const pure = await sourcesOf(`export * from "./src/base/colours";
      export * from "./src/compare/series"; export * from "./src/compare/differences";
      export * from "./src/compare/figures"; export * from "./src/compare/names";
      export * from "./src/parts/values";
      export * from "./src/compare/drawing"; export * from "./src/base/device";
      export { axisOfRun } from "./src/time/time_figures"; export * from "./src/parts/places";
      export * as checkpoints from "./src/checkpoints/checkpoints";
      export { doing } from "./src/checkpoints/checkpoints_api";
      export { Refusal } from "./src/base/request";`);
const { checkpoints } = pure;

// Palette: sRGB to linear light, to Lab; and as people see who lack the cones for red, green, blue
// (Machado, Oliveira, Fernandes 2009, severity 1).
const kCones = {
  red: [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.052],
  green: [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881],
  blue: [1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.3039],
};
const linear = (hex) =>
  [1, 3, 5].map((at) => {
    const part = parseInt(hex.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
const luminance = ([r, g, b]) => 0.2126 * r + 0.7152 * g + 0.0722 * b;
function lab([r, g, b]) {
  const f = (t) => (t > 0.008856 ? Math.cbrt(t) : 7.787 * t + 16 / 116);
  const x = f((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505);
  const y = f(luminance([r, g, b]));
  const z = f((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089);
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}
const without = (cone, rgb) =>
  [0, 3, 6].map((row) => {
    const value = rgb.reduce((sum, part, i) => sum + part * kCones[cone][row + i], 0);
    return Math.min(1, Math.max(0, value));
  });
const far = (a, b) => Math.hypot(...a.map((value, i) => value - b[i]));

test("ten colours are told apart in both themes, also without one kind of cone", () => {
  const css = readFileSync(join(web, "src", "base", "colours.css"), "utf8");
  const found = [...css.matchAll(/--run-\d: (#[0-9a-f]{6});/g)].map(([, hex]) => linear(hex));
  assert.equal(found.length, 20);
  for (const [colours, surface] of [
    [found.slice(0, 10), "#ffffff"],
    [found.slice(10), "#161c24"],
  ]) {
    const back = luminance(linear(surface));
    colours.forEach((a, i) => {
      const light = luminance(a);
      const contrast = (Math.max(light, back) + 0.05) / (Math.min(light, back) + 0.05);
      assert.ok(contrast >= 3, `${surface} ${i}: contrast ${contrast}`);
      colours.slice(0, i).forEach((b, j) => {
        const apart = { all: far(lab(a), lab(b)) };
        for (const cone of Object.keys(kCones)) {
          apart[cone] = far(lab(without(cone, a)), lab(without(cone, b)));
        }
        const what = `${surface} ${i} and ${j}: ${JSON.stringify(apart)}`;
        assert.ok(apart.all >= 35 && apart.red >= 22 && apart.green >= 22, what);
        assert.ok(apart.blue >= 17, what);
        const { dash } = pure.lookOf(i);
        if (dash === pure.lookOf(j).dash) assert.ok(Math.min(...Object.values(apart)) >= 37, what);
      });
    });
  }
});

test("a run keeps its colour, and ten runs have ten", () => {
  const ids = Array.from({ length: 10 }, (_, i) => `demo-${i}`);
  const all = pure.slotsOf(ids);
  assert.equal(new Set(all.values()).size, 10);
  for (let n = 1; n < 10; n += 1) {
    const some = pure.slotsOf(ids.slice(0, n));
    for (const [id, slot] of some) assert.equal(slot, all.get(id), id);
  }
  // FNV-1a's published value for "a".
  assert.equal(pure.slotsOf(["a"]).get("a"), 0xe40c292c % 10);
  assert.equal(pure.slotsOf(["a", "a"]).size, 1);
});

test("nested keys are joined, and differences found", () => {
  const a = pure.flatten({ model: { hidden: 768 }, evaluations: [{ every: 5 }, {}], x: null });
  assert.deepEqual([...a], [
    ["model.hidden", "768"],
    ["evaluations[0].every", "5"],
    ["evaluations[1]", "{}"],
    ["x", "null"],
  ]);
  const rows = pure.rowsOf([a, pure.flatten({ model: { hidden: 768 }, x: "null", y: [] })]);
  assert.deepEqual(
    rows.map(({ key, values, differs }) => [key, values[1], differs]),
    [
      ["evaluations[0].every", null, true],
      ["evaluations[1]", null, true],
      ["model.hidden", "768", false],
      ["x", "null", false],
      ["y", "[]", true],
    ],
  );
});

test("runs that differ by seed alone are a group", () => {
  const run = (id, seed, more = {}, fields = {}) => ({
    id,
    state: "succeeded",
    task: "pretraining",
    from: null,
    config: { name: id, seed, batch: { size: 8 }, ...more },
    ...fields,
  });
  const groups = (all) => pure.seedGroups(all).map((group) => group.map(({ id }) => id));
  const runs = [run("a", 1), run("b", 2), run("c", 3, { batch: { size: 9 } }), run("d", 4)];
  assert.deepEqual(groups(runs), [["a", "b", "d"]]);
  assert.deepEqual(groups([run("a", 1), run("b", 1)]), []); // a repetition is no other seed
  assert.deepEqual(groups([run("a", 1), run("b", 2, {}, { state: "failed" })]), []);
  assert.deepEqual(groups([run("a", 1), run("b", 2, {}, { task: "classification" })]), []);
  assert.deepEqual(groups([run("a", 1), run("b", 2, {}, { config: null })]), []);
});

test("means and deviations are of what all have", () => {
  const a = { x: [0, 10, 20], y: [0, 10, 20] };
  const b = { x: [5, 15], y: [7, 17] };
  const { x, y, deviation, ends } = pure.meanOf("a", [a, b]);
  assert.deepEqual([x, y], [[5, 10, 15], [6, 11, 16]]);
  for (const one of deviation) assert.ok(Math.abs(one - Math.SQRT2) < 1e-12); // of v and v + 2
  assert.deepEqual(ends, [20, 17]);
  assert.deepEqual(pure.newestOf({ key: "", x, y, ends }).value, 18.5);
  assert.equal(pure.deviation([1, 2, 3, 4]), Math.sqrt(5 / 3));
  assert.equal(pure.deviation([1]), null);
  assert.equal(pure.valueAt(a, 4), 4);
  assert.equal(pure.valueAt(a, 20), 20);
  assert.equal(pure.valueAt(a, 20.1), null);
  assert.equal(pure.valueAt(a, -1), null);
  assert.deepEqual(pure.joined([a, b]), [
    [0, 5, 10, 15, 20],
    [0, null, 10, null, 20],
    [null, 7, null, 17, null],
  ]);
});

test("steps that were trained again are a line of their own, and no line crosses a pause", () => {
  const bucket = (to, value, abandoned = false) => ({ to, abandoned, value });
  const all = [bucket(1, 9), bucket(2, 8), bucket(3, 7, true), bucket(2.5, 6)];
  all.push(bucket(3, null), bucket(4, 5));
  const steps = { buckets: all, series: { loss: all.map(({ value }) => [0, 9, value, 1]) } };
  const points = pure.pointsOf({ runs: [{ id: "a", steps }] }, "a", "loss");
  const again = { x: [3], y: [7] };
  assert.deepEqual(points, { x: [1, 2, 2.5, 4], y: [9, 8, 6, 5], again });
  const paused = [{ ...bucket(1, 9), attempt: 1 }, { ...bucket(2, 8), attempt: 1 }];
  paused.push({ ...bucket(7, 7), attempt: 2 }, { ...bucket(8, 6), attempt: 2 });
  const chart = { buckets: paused, series: { loss: paused.map(({ value }) => [0, 9, value, 1]) } };
  const ofClock = (x) => pure.pointsOf({ x, runs: [{ id: "a", steps: chart }] }, "a", "loss");
  const wall = ofClock("wall");
  assert.deepEqual(wall.starts, [7]);
  assert.deepEqual([1.5, 2, 4, 7].map((at) => pure.valueAt(wall, at)), [8.5, 8, null, 7]);
  assert.equal(pure.valueAt(ofClock("step"), 4.5), 7.5);
});

test("a table tells the step and the attempt of each run's values", () => {
  const bucket = (to, to_step, attempt, abandoned = false) => ({ to, to_step, attempt, abandoned });
  const buckets = [bucket(1, 10, 1), bucket(3, 20, 1, true), bucket(5, 20, 2), bucket(6, 30, 2)];
  const last = [0.1, 0.2, 0.25, null];
  const series = { loss: last.map((value) => [0, 1, value, 1]) };
  const charts = { x: "wall", runs: [{ id: "a", steps: { buckets, series } }] };
  const curve = pure.curveOf(charts, "a", "loss");
  const [kept, again] = [curve.placesOf(false), curve.placesOf(true)];
  assert.deepEqual([...kept.keys()], [1, 5], "no value, no place");
  assert.deepEqual([...again], [[3, { step: 20, attempt: 1 }]]);
  const rows = [[1, 0.1, null], [3, null, 7], [5, 0.25, null]];
  const table = { columns: ["Time", "a", "b"], rows };
  const along = [1, 3, 5];
  const a = { name: "a", places: kept };
  assert.deepEqual(pure.withPlaces(table, along, [a, { name: "none", places: new Map() }], false), {
    columns: ["Time", "a", "b", "Step", "Attempt"],
    rows: [[1, 0.1, null, 10, 1], [3, null, 7, null, null], [5, 0.25, null, 20, 2]],
  });
  const b = { name: "b", places: again };
  assert.deepEqual(pure.withPlaces(table, along, [a, b], true), {
    columns: ["Time", "a", "b", "a: attempt", "b: attempt"],
    rows: [[1, 0.1, null, 1, null], [3, null, 7, null, 1], [5, 0.25, null, 2, null]],
  });
});

const known = (config, more = {}) => ({ run: { config, ...more }, attempts: [], plan: null });
const rowOf = (rows, key) => rows.find((row) => row.key === key);

test("variables whose values are hidden are not said to be equal", () => {
  const config = (names) => ({
    steps: 5,
    slurm: { environment: Object.fromEntries(names.map((name) => [name, null])) },
  });
  const rows = pure.configRows([known(config(["ALGO", "ONE"])), known(config(["ALGO"]))]);
  const hidden = rowOf(rows, "slurm.environment.ALGO");
  assert.deepEqual(hidden.values, ["hidden", "hidden"]);
  assert.deepEqual([hidden.differs, hidden.mayDiffer], [false, true]);
  const one = rowOf(rows, "slurm.environment.ONE");
  assert.deepEqual([one.values, one.differs, one.mayDiffer], [["hidden", null], true, false]);
  const three = [known(config(["ALGO"])), known(config(["ALGO"])), known({ steps: 5 })];
  const mixed = rowOf(pure.configRows(three), "slurm.environment.ALGO");
  assert.deepEqual([mixed.differs, mixed.mayDiffer], [true, true]);
  const steps = rowOf(rows, "steps");
  assert.deepEqual([steps.differs, steps.mayDiffer], [false, false]);
  // The whole mapping may be hidden as well; one run alone differs from nothing.
  const whole = { slurm: { environment: null } };
  const key = "slurm.environment";
  assert.equal(rowOf(pure.configRows([known(whole), known(whole)]), key).mayDiffer, true);
  assert.equal(rowOf(pure.configRows([known(whole)]), key).mayDiffer, false);
  assert.equal(pure.hasHidden({ config: config(["ALGO"]) }), true);
  assert.equal(pure.hasHidden({ config: { slurm: { partition: "hidden" } } }), false);
});

test("whole numbers that the browser has rounded are said to be so", () => {
  const large = JSON.parse("12345678901234567890");
  assert.equal(pure.textOf(large), "about 12345678901234567000 (rounded)");
  assert.equal(pure.textOf(2 ** 53 - 1), "9007199254740991");
  assert.equal(pure.textOf(1e30), "1e+30"); // a value of another kind
  const [row] = pure.configRows([known({ seed: large }), known({ seed: large })]);
  assert.deepEqual([row.differs, row.mayDiffer], [false, true]);
});

test("of a run without a configuration nothing is said", () => {
  const all = [known(null), known({ name: "a", steps: 5 }), known({ name: "b", steps: 5 })];
  const rows = pure.configRows(all);
  assert.deepEqual(rows.map(({ key }) => key), ["steps"]); // names stand above the columns
  assert.deepEqual(rows[0].values, [undefined, "5", "5"]);
  assert.deepEqual([rows[0].differs, rows[0].mayDiffer], [false, false]);
});

test("only what has succeeded is averaged over seeds", () => {
  const run = (id, seed, state) => ({ id, state, task: "", from: null, config: { seed } });
  for (const state of ["queued", "starting", "running", "stopping", "stopped", "failed"]) {
    const all = [run("a", 1, "succeeded"), run("b", 2, "succeeded"), run("c", 3, state)];
    const groups = pure.seedGroups(all).map((group) => group.map(({ id }) => id));
    assert.deepEqual(groups, [["a", "b"]], state);
  }
});

test("a mean leaves out who has no points, and counts the others", () => {
  const a = { x: [0, 10], y: [0.7, 0.71] };
  const b = { x: [0, 10], y: [0.7, 0.73] };
  const curve = pure.meanOf("a", [a, { x: [], y: [] }, b]);
  assert.deepEqual(curve.x, [0, 10]);
  assert.ok(Math.abs(curve.y[1] - 0.72) < 1e-12);
  assert.deepEqual(curve.ends, [0.71, 0.73]);
  const none = pure.meanOf("a", [{ x: [], y: [] }, { x: [], y: [] }]);
  assert.deepEqual([none.x, pure.newestOf(none).value], [[], null]);
});

test("the axis of values holds what is drawn on it", () => {
  const curve = { key: "a", x: [0, 1], y: [2, 4] };
  assert.deepEqual(pure.rangeOf([curve], [2, 4, null]), [2 - 0.16, 4 + 0.16]);
  assert.deepEqual(pure.rangeOf([{ ...curve, deviation: [1, 0] }], [2, 4, null]), [0.76, 4.24]);
  assert.deepEqual(pure.rangeOf([], [null, null, null]), [0, 1]);
  const wild = { ...curve, deviation: [1e308, 0] };
  assert.deepEqual(pure.rangeOf([wild], [-1e308, 1e308, 0]), [-0.32, 4.32], "none of these");
});

test("runs of one name are told apart by their ids", () => {
  const names = pure.namesOf([
    { id: "demo-1", name: "demo" },
    { id: "other-1", name: "other" },
    { id: "demo-2", name: "\u001b[1mdemo" },
  ]);
  assert.deepEqual([...names.values()], ["demo (demo-1)", "other", "demo (demo-2)"]);
  const long = (middle) => `${"x".repeat(60)}${middle}${"y".repeat(10)}`;
  const cut = `${"x".repeat(49)}…${"y".repeat(10)}`;
  const alike = pure.namesOf([{ id: "a", name: long("1") }, { id: "b", name: long("2") }]);
  assert.deepEqual([...alike.values()], [`${cut} (a)`, `${cut} (b)`]);
});

test("figures are called otherwise than what is counted in another way", () => {
  const figure = (key) => pure.figuresIn("GPU").find((one) => one.key === key);
  assert.notEqual(figure("hours").title, "GPU-hours"); // the axis, from each first step
  assert.match(figure("speed").title, /20 steps/);
  assert.match(figure("since").help, /target/); // run_json.cc since_submission()
});

test("hours are those of GPUs only where no run was on CPUs", () => {
  const gpu = { device: "NVIDIA H200" };
  const cpu = { device: "CPU (AVX-512)" };
  for (const [runs, hours, title] of [
    [[gpu], "GPU-hours", "GPU-hours with start"],
    [[cpu], "rank-hours", "Rank-hours with start"],
    [[gpu, cpu], "rank-hours", "Rank-hours with start"],
    [[{ device: null }], "GPU-hours", "GPU-hours with start"],
  ]) {
    const unit = pure.unitOf(runs);
    assert.equal(pure.axisTitle("device_hours", unit), hours);
    assert.equal(pure.placeText("device_hours", unit, 0.25), `0.25 ${hours}`);
    const figure = pure.figuresIn(unit).find(({ key }) => key === "hours");
    assert.equal(figure.title, title);
    assert.match(figure.help, new RegExp(`axis ${hours} `));
  }
  assert.equal(pure.axisOfRun("device_hours", cpu).over, "by rank-hours");
  assert.equal(pure.axisOfRun("device_hours", gpu).name, "GPU-hours");
  assert.equal(pure.axisTitle("step", "rank"), "steps");
});

test("a value just below its target is told from it, in the legend and on the line", () => {
  const plain = (text) => text.replaceAll("\u202f", " ");
  const of = (metric, target) => ({ metric, target });
  const drawing = (value, target, isFraction = true) => ({
    ...{ name: "metric", title: "", isFraction, target },
    curves: [{ key: "a", x: [1], y: [0.3] }, { key: "b", x: [1], y: [value] }],
  });
  const text = (value, subject, one = drawing(value, subject.target)) =>
    plain(pure.valueText(one, value, subject));
  const accuracy = of("mlm_accuracy", 0.7);
  assert.equal(text(0.69996, accuracy), "69.996 %");
  assert.equal(text(0.702, accuracy), "70.2 %");
  assert.equal(plain(pure.targetText(drawing(0.69996, 0.7), [accuracy])), "target 70.000 %");
  assert.equal(plain(pure.targetText(drawing(0.5, 0.7), [accuracy])), "target 70.0 %");
  assert.equal(pure.targetText(drawing(0.5, null), [accuracy]), null);
  const loss = of("mlm_loss", 2.5);
  assert.equal(text(2.5004, loss, drawing(2.5004, 2.5, false)), "2.5004");
  // Of several metrics the axis has plain figures; other series have no target.
  assert.equal(text(0.69996, accuracy, drawing(0.69996, null, false)), "0.70");
  const rate = { ...drawing(0.7, null, false), name: "learning_rate" };
  assert.equal(text(0.0001234, accuracy, rate), "0.000123");
  assert.equal(plain(pure.aroundText(drawing(0.7, 0.7), 0.7)), "70.0 %");
});

const kEmpty = { name: "", steps: "", target: "", seed: "", json: "" };
test("a fork's numbers are sent as they were typed, or not at all", () => {
  const fork = (fields) => checkpoints.forkBody("step-8", { ...kEmpty, ...fields });
  assert.deepEqual(fork({ seed: "9007199254740991" }).body.changes, { seed: 9007199254740991 });
  assert.match(fork({ seed: "9007199254740993" }).problem, /^seed is 9007199254740993; .*fork/);
  assert.match(fork({ json: '{"a": {"seed": 12345678901234567890}}' }).problem, /have 123456789/);
  assert.match(fork({ json: '{"a": [-9007199254740993]}' }).problem, /-9007199254740993/);
  for (const json of ['{"name": "12345678901234567890"}', '{"rate": 0.12345678901234567890}']) {
    assert.equal(fork({ json }).problem, null, json);
  }
  assert.deepEqual(fork({ target: "0.7" }).body.changes, { target: { value: 0.7 } });
});

const details = (step, files, manifest = {}) => ({ step, value: null, manifest, files });
test("checkpoints without a readable manifest are not compared", () => {
  const file = { bytes: 1, digest: "d", tensors: [] };
  assert.deepEqual(checkpoints.compare(details(1, {}, null), details(2, {}, null)).unknown, [1, 2]);
  assert.deepEqual(checkpoints.compare(details(1, { f: file }), details(2, {}, null)).unknown, [2]);
  const both = checkpoints.compare(details(1, { f: file }), details(2, { f: file }));
  assert.deepEqual([both.unknown, both.isEqual], [[], true]);
});

test("a file may be called as a property that every object has", () => {
  const odd = JSON.parse('{"__proto__": {"bytes": 7, "digest": "d", "tensors": []}}');
  const { files } = checkpoints.compare(details(1, odd), details(2, {}));
  assert.deepEqual(files, [{ name: "__proto__", verdict: "only in A", a: 7, b: null }]);
});

test("what goes, goes with the next checkpoint of a run that trains", () => {
  const row = { status: "written", condition: "valid", pinned: null, goes: true };
  const when = (state) => checkpoints.whenItGoes(row, { state });
  assert.equal(when("succeeded"), "at the next clean-up");
  assert.equal(when("running"), "at the next checkpoint or clean-up");
});

test("without an answer nothing is said to have failed for sure", async () => {
  const said = (error) =>
    pure.doing("pinned", Promise.reject(error)).catch(({ message }) => message);
  assert.equal(await said(new pure.Refusal(409, "it runs")), "Not pinned: it runs");
  assert.equal(await said(new Error("Failed to fetch")), "Perhaps not pinned: Failed to fetch");
  assert.equal(await pure.doing("pinned", Promise.resolve(5)), 5);
});
