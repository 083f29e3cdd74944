// What a resumed or long run's timeline and curves are made of, without a browser.
import assert from "node:assert/strict";
import { test } from "node:test";
import { sourcesOf } from "./sources.mjs";

const page = await sourcesOf(`export { strips } from "./src/run/strip";
  export { named, totals } from "./src/run/strip_figures";
  export * from "./src/parts/branches"; export { drawable, drawnLines } from "./src/parts/chart_data";
  export { smooth } from "./src/parts/smooth"; export { placesOf } from "./src/run/attempts";
  export { tableOfRows } from "./src/run/curve_rows"; export { headline } from "./src/run/headline";
  export { beginOf } from "./src/parts/long_text"; export { emptyHistory, extend } from "./src/run/history";`);

const at = (seconds) => new Date(Date.UTC(2026, 10, 21, 12, 0, 0) + 1000 * seconds).toISOString();

// Steps of 0.1 s, the longer ones of 0.2, and 0.42 s for each evaluation after 50 of them: as the page
// has them while it asks each second, and as the controller thins them for a page that is opened late.
function longRun(until, { every = 1, polled = true } = {}) {
  const told = { steps: [], evaluations: [], checkpoints: [], timeline: null, prediction: null };
  let history = page.emptyHistory();
  let [seconds, cursor] = [0, 0];
  let part = structuredClone(told);
  for (let step = 1; step <= until; step += 1) {
    seconds += step % 7 === 0 ? 0.2 : 0.1;
    if (step % every === 0 || step === until) part.steps.push([step, seconds]);
    if (step % 50 === 0) {
      seconds += 0.42;
      part.evaluations.push([step, seconds]);
    }
    if ((polled && step % 10 === 0) || step === until) {
      history = page.extend(history, { ...part, cursor: (cursor += 1) });
      part = structuredClone(told);
    }
  }
  const run = {
    ...{ state: "running", state_text: "training", created_at: at(0), started_at: at(0) },
    ...{ ended_at: null, since_submission_seconds: seconds, silent_seconds: null },
  };
  const attempt = { attempt: 1, launch: null, started_at: at(0), first_step: 0, exit_code: null };
  const attempts = [{ ...attempt, hosts: ["a"], seconds }];
  const { steps, evaluations } = history;
  return {
    ...{ run, steps, evaluations, checkpoints: [], requeues: [] },
    told: { launches: [], attempts },
  };
}

for (const [name, until, options] of [
  ["each row", 3000, {}],
  ["rows that the page has thinned", 4050, {}],
  ["more of them", 6787, {}],
  ["rows that are thinned twice", 17_000, {}],
  ["rows that the controller has thinned", 6787, { every: 4, polled: false }],
  ["a row for each 120 steps", 17_000, { every: 120, polled: false }],
]) {
  test(`evaluations are summed wholly, of ${name}`, () => {
    const all = page.totals(page.strips(longRun(until, options)));
    const of = all.find((one) => one.kind === "evaluating");
    const count = Math.floor(until / 50);
    assert.equal(of.count, count);
    assert.ok(Math.abs(of.seconds / (0.42 * count) - 1) < 0.1, `${of.seconds} of ${0.42 * count}`);
    assert.equal(of.isAbout, name !== "each row");
    const whole = all.reduce((sum, one) => sum + one.seconds, 0);
    const [strip] = page.strips(longRun(until, options));
    assert.ok(Math.abs(whole - strip.to) < 1e-6, `${whole} of ${strip.to}`);
  });
}

test("checkpoints of no known length count as well", () => {
  const known = longRun(500);
  known.checkpoints = [3, null, 2].map((seconds, i) => {
    return { step: 100 * i, name: `c${i}`, status: "written", seconds, at: at(20 + 10 * i) };
  });
  const of = page.totals(page.strips(known)).find((one) => one.kind === "checkpointing");
  assert.deepEqual([of.seconds, of.count], [5, 3]);
});

test("a run that is over without an attempt has no next one", () => {
  for (const [state, name] of [["failed", "No attempt"], ["queued", "Next attempt"]]) {
    const known = longRun(1);
    Object.assign(known.run, { state, ended_at: state === "failed" ? at(9) : null });
    known.told.attempts = [];
    assert.deepEqual(page.strips(known).map(page.named), [name]);
  }
});

test("smoothing begins anew with an attempt, and its last point is where it was", () => {
  const values = [...Array(200).fill(10), ...Array(200).fill(2)];
  const across = page.smooth(values);
  assert.ok(across[199] < 9.9, `${across[199]}`);
  const apart = page.smooth(values, [200]);
  apart.forEach((value, i) => assert.ok(Math.abs(value - values[i]) < 1e-9, `${i}: ${value}`));
  const slope = values.map((_, i) => i);
  page.smooth(slope, [7, 200]).forEach((value, i) => assert.ok(Math.abs(value - i) < 1e-9));
  // As drawn: pieces of what counts, and of what was trained again.
  const line = { name: "loss", colour: "accent", width: 1, smooth: true, starts: [200] };
  const { data } = page.drawnLines([line], [slope, values], true);
  assert.ok(Math.abs(data[2][199] - 10) < 1e-9 && Math.abs(data[2][200] - 2) < 1e-9);
});

test("lines have a gap between attempts, and around what was trained again", () => {
  const points = [[1, 1], [2, 1], [3, 1, true], [4, 1, true], [9, 2], [10, 2], [11, 3]].map(
    ([x, attempt, again = false]) => ({ x, value: 10 * x, attempt, again }),
  );
  const { kept, again } = page.branchesOf(points);
  assert.deepEqual(kept, { x: [1, 2, 9, 10, 11], y: [10, 20, 90, 100, 110], starts: [9, 11] });
  assert.deepEqual(again, { x: [3, 4], y: [30, 40], starts: [] });
  const xs = points.map(({ x }) => x);
  const column = points.map((point) => (point.again ? null : point.value));
  assert.deepEqual(page.piecesOf(xs, column, kept.starts), [[0, 1], [4, 5], [6, 6]]);
  assert.deepEqual(page.piecesOf(xs, column, []), [[0, 6]]);
  assert.deepEqual(page.piecesOf(xs, xs.map(() => null), kept.starts), []);
});

// The first attempt ends at step 4, and the second goes on from step 2; evaluated after 2, 4, 3.
test("rows know their attempt, and whether they were trained again, whatever is thinned", () => {
  const run = { started_at: at(100) };
  const attempts = [
    { attempt: 1, started_at: at(90), first_step: 0 },
    { attempt: 2, started_at: at(150), first_step: 2 },
  ];
  const of = (places) => places.map(({ attempt, again }) => [attempt, again]);
  const said = () => false; // when they came
  const steps = [[1, 1], [2, 2], [3, 3], [4, 4], [4, 62]]; // step 3 of the second is left out
  const expected = [[1, false], [1, false], [1, true], [1, true], [2, false]];
  assert.deepEqual(of(page.placesOf(steps, { run, attempts, said })), expected);
  const evaluations = [[2, 2.5], [4, 4.5], [3, 61.5]];
  const places = page.placesOf(evaluations, { run, attempts, later: steps, said });
  assert.deepEqual(of(places), [[1, false], [1, true], [2, false]]);
  const unknown = page.placesOf(evaluations, { run, attempts: [], later: steps, said });
  assert.deepEqual(of(unknown), [[null, false], [null, true], [null, false]]);
  const columns = [{ name: "loss", of: (row) => 10 * row[0] }];
  const table = page.tableOfRows("time", steps.slice(2, 3), [{ attempt: 1, again: true }], columns);
  assert.deepEqual(table, {
    columns: ["Time (s)", "Step", "Attempt", "Trained again since", "loss"],
    rows: [[3, 3, 1, "yes", 30]],
  });
});

test("what no chart can show is left out of the lines, and counted", () => {
  const data = [[1, 2, 3, 4], [5, 1e308, null, -1e308], [1, 2, 3, Infinity]];
  const { data: shown, left } = page.drawable(data);
  assert.equal(left, 3);
  assert.deepEqual(shown, [[1, 2, 3, 4], [5, null, null, null], [1, 2, 3, null]]);
  const fine = [[1, 2], [3, -3.4e38]];
  assert.equal(page.drawable(fine).data, fine);
});

test("a target that was met and is missed again is told as the list does", () => {
  const run = {
    ...{ state: "running", state_text: "training", silent_seconds: null, step: 400, steps: 1000 },
    ...{ samples: 4000, samples_per_second: 20, metric: "mlm_accuracy", value: 0.66, target: 0.7 },
    ...{ target_reached: true, time_to_accuracy_seconds: 56, config: { target: { value: 0.7 } } },
  };
  const told = (fields) => {
    const { caption, note, tone } = page.headline({ ...run, ...fields }, page.emptyHistory());
    return [caption, note.replaceAll("\u202f", " "), tone];
  };
  const missed = "Target 70.0 % was reached after that time; now it is missed, with 66.0 %.";
  assert.deepEqual(told({ state: "succeeded" }), ["reached before", missed, ""]);
  const met = "Target 70.0 % reached; counted from the first step.";
  assert.deepEqual(told({ value: 0.71 }), ["time to accuracy", met, "reached"]);
  // 600 steps of 10 samples at 20 of them a second.
  const on = " It trains on to step 1,000, ≈ 5 min 00 s left.";
  const config = { target: { value: 0.7, stop: false } };
  assert.equal(told({ value: 0.71, config })[1], met + on);
  assert.equal(told({ config })[1], missed + on);
  assert.equal(told({ value: 0.71, config, state: "succeeded" })[1], met);
  // Steps of a batch that has grown are worth several each.
  const grown = { value: 0.71, config, progress: 800.5, batch_size: 40 };
  assert.equal(told(grown)[1], `${met} It trains on until its steps are worth 1,000.`);
  assert.equal(told({ ...grown, progress: 1000 })[1], met);
});

test("of a long text its begin is shown, by lines and by characters", () => {
  assert.equal(page.beginOf("short\ntext"), "short\ntext");
  assert.equal(page.beginOf("a\n".repeat(50)), "a\na\na\na\na\na");
  assert.equal(page.beginOf("é".repeat(3000)).length, 500);
  assert.equal(page.beginOf(`${"a".repeat(499)}😀${"b".repeat(9)}`).length, 499);
});
