// The page of a run: its pure parts in node, and the page over the seeded controller.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { kHostile } from "./fixture.mjs";
import { Seeded, missingController, seededTest } from "./seeded.mjs";
import { Visitor, launch } from "./setup.mjs";
import { sourcesOf } from "./sources.mjs";

const parts = ["run/strip", "run/strip_figures", "run/labels", "run/curve_rows", "run/extension"];
parts.push("run/words", "parts/chart_data", "run/standstill");
const page = await sourcesOf(`
  ${parts.map((part) => `export * from "./src/${part}";`).join("\n")}
  export { headline } from "./src/run/headline";
  export * as events from "./src/events/events";
  export { failureOf } from "./src/run/asking";
  export { Refusal } from "./src/base/request";
`);

// A share in as many digits as tell it from what stands beside it: value and target.
function percent(value, target) {
  for (let digits = value < 0.09995 ? 2 : 1; ; digits += 1) {
    const text = (100 * value).toFixed(digits);
    const isTold = target == null || value === target || text !== (100 * target).toFixed(digits);
    if (isTold) return `${text} %`;
  }
}

test("a label that has no room goes to the nearest line that has", () => {
  const frame = { left: 0, top: 0, width: 200, height: 100 };
  const box = (left, top) => ({ left, top, width: 80, height: 9 });
  const taken = [box(100, 80)];
  assert.deepEqual(page.freePlace(box(10, 80), taken, frame), box(10, 80)); // beside it
  assert.deepEqual(page.freePlace(box(110, 82), taken, frame), box(110, 62)); // two lines above
  assert.deepEqual(page.freePlace(box(110, 89), taken, frame), box(110, 89));
  assert.deepEqual(page.freePlace(box(110, 95), [], frame), box(110, 85)); // within the frame
  const full = Array.from({ length: 40 }, (_, i) => box(0, i * 2.5));
  assert.deepEqual(page.freePlace(box(0, 40), full, frame), box(0, 40));
});

test("a line of few points has dots, however many places the others have", () => {
  const one = [null, null, 0.3, null, null, null];
  assert.ok(page.areFew(one, 0, 5, 2));
  assert.ok(page.areFew([1, 2, null], 0, 2, 2));
  assert.ok(!page.areFew([1, 2, 3], 0, 2, 2));
  assert.ok(page.areFew([1, 2, 3], 1, 2, 2)); // of those in view
  assert.ok(!page.areFew([1], 0, 0, 0));
});

test("a logarithmic axis has marks within its ends, however narrow", () => {
  assert.deepEqual(page.logMarks(0.9, 120), [1, 2, 5, 10, 20, 50, 100]);
  assert.deepEqual(page.logMarks(2, 2.5), [2, 2.1, 2.2, 2.3, 2.4, 2.5]);
  assert.deepEqual(page.logMarks(1, 1e8).length, 9);
  for (const [low, high] of [[0, 1], [-1, 1], [2, 1], [1, 1]]) {
    assert.deepEqual(page.logMarks(low, high), []);
  }
  assert.deepEqual(page.logRange(2, 8, [1, 9]), [1, 9]);
  assert.deepEqual(page.logRange(2, 8, [0, 9]), [1.8, 9]);
  assert.deepEqual(page.logRange(null, null, [0, 1]), [0.1, 1]);
  assert.equal(page.canBeLogarithmic([[1, 2], [null, -1]]), false);
  assert.equal(page.canBeLogarithmic([[1, 2], [null, -1], [0, 0.1]]), true);
});

test("zooming stays within the whole and keeps the place", () => {
  const full = { min: 0, max: 100 };
  assert.deepEqual(page.zoomed(full, full, 50, 0.5), { min: 25, max: 75 });
  assert.deepEqual(page.zoomed(full, full, 0, 0.5), { min: 0, max: 50 });
  assert.deepEqual(page.zoomed({ min: 80, max: 100 }, full, 95, 2), { min: 60, max: 100 });
  assert.equal(page.zoomed({ min: 25, max: 75 }, full, 50, 2), null);
  const deep = page.zoomed({ min: 50, max: 50.001 }, full, 50, 0.5);
  assert.ok(deep.max - deep.min >= 0.001 - 1e-9);
  assert.deepEqual(page.withPlace({ min: 10, max: 20 }, full, 15), { min: 10, max: 20 });
  assert.deepEqual(page.withPlace({ min: 10, max: 20 }, full, 98), { min: 90, max: 100 });
});

test("keys lead from point to point and end at the ends", () => {
  for (const [key, from, expected] of [
    ["ArrowRight", null, 49],
    ["ArrowLeft", null, 49],
    ["ArrowRight", 49, 49],
    ["ArrowLeft", 0, 0],
    ["ArrowLeft", 7, 6],
    ["PageUp", 7, 12],
    ["PageDown", 7, 2],
    ["Home", 7, 0],
    ["End", 7, 49],
    ["x", 7, null],
  ]) {
    assert.equal(page.pointByKey(key, from, 50), expected, `${key} from ${from}`);
  }
  assert.equal(page.pointByKey("Home", null, 0), null);
  const moves = ["ArrowRight", "ArrowRight", "ArrowRight", "ArrowUp", "End", "ArrowDown"];
  let at = null;
  const places = moves.map((key) => (at = page.movedBy(key, at, [4, 2])));
  assert.deepEqual(
    places.map(({ strip, segment }) => [strip, segment]),
    [[1, 0], [1, 1], [1, 1], [0, 1], [0, 3], [1, 1]],
  );
  assert.equal(page.movedBy("Enter", null, [4]), null);
  assert.equal(page.movedBy("Home", null, []), null);
});

test("a CSV keeps figures whole and texts harmless", () => {
  const table = {
    columns: ["Step", 'a "b", c'],
    rows: [
      [1, 0.1 + 0.2],
      [2, null],
      [3, NaN],
      ['=HYPERLINK("x")', "two\nlines"],
      ["-1", "plain"],
    ],
  };
  const text = page.csvOf(table);
  assert.equal(
    text,
    'Step,"a ""b"", c"\r\n1,0.30000000000000004\r\n2,\r\n3,\r\n' +
      '"\'=HYPERLINK(""x"")","two\nlines"\r\n\'-1,plain\r\n',
  );
  const hostile = [
    ["\u202e=1+1", "'=1+1"],
    ["\u001b[0m@SUM(A1)", "'@SUM(A1)"],
    ["  +1", "'  +1"],
    ["\uff1d1", "'\uff1d1"],
    ["\tx", "'\tx"],
    ["\n=1", `"'\n=1"`],
    ["\u202egnp.\u0007exe", "gnp.exe"],
    ["\u2212 3 %", "\u2212 3 %"], // a minus sign is no hyphen
    [-1, "-1"],
  ];
  for (const [cell, written] of hostile) {
    assert.equal(page.csvOf({ columns: [cell], rows: [] }), `${written}\r\n`);
  }
  assert.equal(page.fileName("Größe / ../../etc: 1", "csv"), "gro-e-..-..-etc-1.csv");
  assert.equal(page.fileName("///", "png"), "chart.png");
});

test("a smoothed line is a ghost and a curve, and one row of the table", () => {
  const lines = [{ name: "loss", colour: "accent", width: 2, smooth: true }, { colour: "good", width: 1 }];
  const data = [[1, 2, 3], [4, null, 6], [7, 8, 9]];
  const drawn = page.drawnLines(lines, data, true);
  assert.equal(drawn.lines.length, 3);
  assert.deepEqual(drawn.data[1], [4, null, 6]);
  assert.ok(drawn.lines[0].opacity < 1 && drawn.lines[1].opacity == null);
  assert.equal(page.drawnLines(lines, data, false).lines.length, 2);
  const rows = [[1, 4, 7], [2, null, 8], [3, 6, 9]];
  const columns = ["Step", "loss", "Series 2"];
  assert.deepEqual(page.tableOf({ name: "Step" }, lines, data, "Title"), { columns, rows });
  const hours = { name: "Step", cell: (value) => `${value} h` };
  assert.deepEqual(page.tableOf(hours, lines, data, "Title").rows[0], ["1 h", 4, 7]);
});

test("by steps, what was trained again stands once, as it was trained last", () => {
  const rows = [[1, 1], [2, 2], [3, 3], [2, 10], [3, 11], [4, 12]];
  assert.deepEqual(page.rowsBy("step", rows), [[1, 1], [2, 10], [3, 11], [4, 12]]);
  assert.equal(page.rowsBy("time", rows), rows);
  const sorted = rows.slice(0, 3);
  assert.equal(page.rowsBy("step", sorted), sorted); // the same, so that charts rest
});

test("what is typed into the fields is what is asked for", () => {
  for (const [fields, expected, field] of [
    [["500", "", false], { steps: 500 }],
    [["", "0.8", false], { target: 0.8 }],
    [["", "0.8", true], { target: { value: 0.8, stop: false } }],
    [["500", "", true], { steps: 500, target: { stop: false } }],
    [["", " -0.5e-1 ", false], { target: -0.05 }],
    [["", "", false], null],
    [["5.5", "", false], null, "steps"],
    [["-1", "", false], null, "steps"],
    [["0", "", false], null, "steps"],
    [["5,000", "", false], null, "steps"],
    [["0x10", "", false], null, "steps"],
    [["1e3", "", true], null, "steps"],
    [["5", "a", false], null, "target"],
    [["5", "0,7", false], null, "target"],
    [["", "0x1", false], null, "target"],
  ].map(([fields, expected, field]) => [fields, expected, field ? [field] : []])) {
    const { asked, wrong } = page.extensionOf(...fields);
    assert.deepEqual(asked, expected, JSON.stringify(fields));
    assert.deepEqual(Object.keys(wrong), field, JSON.stringify(fields));
  }
});

test("a summary is told without the error above it, commands as such", () => {
  assert.equal(page.beside("it failed: no room; 14 steps are lost", "no room"), "14 steps are lost");
  assert.equal(page.beside("it failed: no room", "no room"), "");
  assert.equal(page.beside("it failed: another", "no room"), "it failed: another");
  assert.equal(page.beside("waits", null), "waits");
  const said = page.quoted("then `regatta resume x` lets");
  assert.deepEqual(said.map((part) => part.isCode), [false, true, false]);
  assert.equal(page.quoted("one ` alone").length, 1);
});

// A run of two attempts: the first is killed, the second trains 20 steps again. Seconds since the
// submission, at 12:00; the first step begins at 100.
const at = (seconds) => new Date(Date.UTC(2026, 10, 21, 12, 0, 0) + 1000 * seconds).toISOString();
function known(fields = {}) {
  const steps = [];
  for (let step = 1; step <= 50; step += 1) steps.push([step, step]); // 1 s each, to 150
  for (let step = 31; step <= 60; step += 1) steps.push([step, 200 + step - 30]); // from 300
  const attempt = { launch: null, host: "a", hosts: ["a"], ranks: 1, exit_code: null };
  return {
    run: {
      state: "succeeded",
      state_text: "",
      created_at: at(0),
      started_at: at(100),
      ended_at: at(335),
      since_submission_seconds: 335,
      silent_seconds: null,
      attempt: { state: "ended" },
    },
    told: {
      launches: [],
      attempts: [
        { ...attempt, attempt: 1, started_at: at(90), seconds: 62, first_step: 0, message: "killed" },
        { ...attempt, attempt: 2, started_at: at(280), seconds: 55, first_step: 30, exit_code: 0 },
      ],
    },
    steps,
    evaluations: [[50, 51.5], [60, 233]],
    checkpoints: [{ step: 30, name: "c", status: "written", seconds: 4, at: at(135) }],
    requeues: [],
    ...fields,
  };
}
const flat = (strip) =>
  strip.segments.map((one) => [one.kind, Math.round(10 * one.from) / 10, Math.round(10 * one.to) / 10]);

test("a strip says what each attempt did, and steps that were trained again", () => {
  const [first, second, ...others] = page.strips(known());
  assert.deepEqual(others, []);
  assert.deepEqual(flat(first), [
    ["queued", 0, 90],
    ["starting", 90, 100],
    ["training", 100, 150],
    ["evaluating", 150, 151.5],
    ["ending", 151.5, 152],
    ["checkpointing", 131, 135],
  ]);
  assert.deepEqual(flat(second), [
    ["requeued", 152, 280],
    ["starting", 280, 300],
    ["replaying", 300, 320],
    ["training", 320, 330],
    ["evaluating", 330, 333],
    ["ending", 333, 335],
  ]);
  assert.equal(first.outcome, "killed");
  assert.match(second.segments[0].note, /killed/);
  const sums = Object.fromEntries(page.totals([first, second]).map((one) => [one.kind, one.seconds]));
  const { checkpointing, ...others2 } = sums; // beside training
  const whole = Object.values(others2).reduce((sum, one) => sum + one, 0);
  assert.equal(Math.round(checkpointing), 4);
  assert.ok(Math.abs(whole - 335) < 1e-6, `${whole}`); // they add up to the whole
});

test("a strip tells a stall, an open attempt, a request and a wait", () => {
  const stalled = known();
  // Steps 6 to 48 of the first attempt took no time; the 49th came 43 s late.
  stalled.steps = stalled.steps
    .filter(([step, seconds]) => seconds > 100 || step <= 5 || step > 48)
    .map(([step, seconds]) => (seconds > 100 ? [step, seconds] : [step > 48 ? step - 43 : step, seconds]));
  stalled.told.attempts[1].first_step = 7;
  assert.deepEqual(flat(page.strips(stalled)[0]).slice(2, 5), [
    ["training", 100, 105],
    ["stalled", 105, 148],
    ["training", 148, 150],
  ]);
  const open = known();
  Object.assign(open.run, { state: "running", ended_at: null, since_submission_seconds: 400 });
  open.run.attempt.state = "running";
  open.told.attempts[1].exit_code = null;
  open.told.attempts[1].seconds = null;
  assert.deepEqual(flat(page.strips(open)[1]).at(-1), ["training", 333, 400]);
  open.run.silent_seconds = 67;
  assert.deepEqual(flat(page.strips(open)[1]).at(-1), ["stalled", 333, 400]);
  const asked = known({ requeues: [{ at: at(149), by: "uid 7" }] });
  assert.equal(page.strips(asked)[1].segments[0].note, "asked for by uid 7");
  const waiting = known();
  Object.assign(waiting.run, { state: "queued", ended_at: null, since_submission_seconds: 500 });
  const last = page.strips(waiting).at(-1);
  assert.equal(last.attempt, null);
  assert.deepEqual(flat(last), [["requeued", 335, 500]]);
  const none = known({ told: { launches: [], attempts: [] }, steps: [], evaluations: [] });
  Object.assign(none.run, { state: "queued", ended_at: null, since_submission_seconds: 12 });
  assert.deepEqual(page.strips(none).map(flat), [[["queued", 0, 12]]]);
});

// The first attempt is dead, without a record of its end, and the next launch waits in the queue.
test("while the next launch waits, the attempt before is over", () => {
  const run = known();
  const ended = { launch: 1, ended_at: at(160), exit_code: null, signal: null, cause: "node failure" };
  const waits = { ...ended, launch: 2, ended_at: null, cause: null };
  run.told.launches = [ended, waits];
  run.told.attempts = [{ ...run.told.attempts[0], launch: 1, message: null }];
  run.steps = run.steps.slice(0, 50);
  run.evaluations = run.evaluations.slice(0, 1);
  for (const state of ["queued", "starting"]) {
    const now = { state, ended_at: null, since_submission_seconds: 9000 };
    Object.assign(run.run, now, { attempt: { state: "starting" } });
    const [first, next, ...others] = page.strips(run);
    assert.deepEqual(others, []);
    assert.deepEqual(flat(first).at(-2), ["ending", 151.5, 152]);
    assert.equal(first.outcome, "left no exit code");
    assert.deepEqual([next.attempt, ...flat(next)], [null, ["requeued", 152, 9000]]);
  }
  // The same attempt, of a launch that is not over.
  run.told.launches = [{ ...ended, ended_at: null }];
  Object.assign(run.run, { state: "running", attempt: { state: "running" } });
  const [open] = page.strips(run);
  assert.deepEqual(flat(open).at(-2), ["training", 151.5, 9000]);
  assert.equal(open.outcome, "under way");
});

// 1,000 steps of 1 s; 60 s for each evaluation, after each 120 steps. Each 50th row is here.
function longRun(isEvaluated) {
  const long = known({ evaluations: [], checkpoints: [] });
  let seconds = 0;
  long.steps = [];
  for (let step = 1; step <= 1000; step += 1) {
    seconds += 1;
    if (step % 50 === 0) long.steps.push([step, seconds]);
    if (step % 120 !== 0) continue;
    seconds += 60;
    if (isEvaluated) long.evaluations.push([step, seconds]);
  }
  long.told.attempts = [{ ...long.told.attempts[0], started_at: at(100), seconds, exit_code: 0 }];
  Object.assign(long.run, { ended_at: at(100 + seconds), since_submission_seconds: 100 + seconds });
  return long;
}

test("in a thinned series an evaluation is no stall, and a stall is one", () => {
  const kinds = (long) => Object.fromEntries(page.totals(page.strips(long)).map((one) => [one.kind, one]));
  const judged = kinds(longRun(true));
  assert.equal(judged.stalled, undefined);
  assert.equal(judged.evaluating.count, 8);
  assert.ok(Math.abs(judged.evaluating.seconds - 480) < 1, `${judged.evaluating.seconds}`);
  const still = kinds(longRun(false));
  assert.equal(still.evaluating, undefined);
  assert.equal(still.stalled.count, 8);
});

test("an attempt of one row, or of none, begins where it began", () => {
  const short = known();
  short.steps = [...short.steps.slice(0, 50), [31, 220]]; // at 320, 40 s after its begin
  short.evaluations = [];
  assert.deepEqual(flat(page.strips(short)[1]), [
    ["requeued", 152, 280],
    ["starting", 280, 319],
    ["replaying", 319, 320],
    ["ending", 320, 335],
  ]);
  // No other attempt says how long a step takes.
  const alone = known({ steps: [[31, 7200]], evaluations: [], checkpoints: [] });
  alone.told.attempts = [{ ...alone.told.attempts[1], started_at: at(7000), seconds: 400 }];
  Object.assign(alone.run, { ended_at: at(7400), since_submission_seconds: 7400 });
  assert.deepEqual(flat(page.strips(alone)[0]), [
    ["queued", 0, 7000],
    ["training", 7000, 7300],
    ["ending", 7300, 7400],
  ]);
  const none = known({ evaluations: [] });
  none.steps = none.steps.slice(0, 50);
  Object.assign(none.told.attempts[1], { first_step: 60, training_seconds: 20 });
  assert.deepEqual(flat(page.strips(none)[1]).slice(1), [
    ["starting", 280, 315],
    ["training", 315, 335],
  ]);
});

test("what is trained behind the target is drawn, too", () => {
  const on = known({ evaluations: [] });
  const more = Array.from({ length: 500 }, (_, i) => [61 + i, 231 + i]); // to 831 of the submission
  on.steps = [...on.steps, ...more];
  const met = { state: "running", ended_at: null, since_submission_seconds: 335 };
  Object.assign(on.run, met, { attempt: { state: "running" } });
  Object.assign(on.told.attempts[1], { exit_code: null, seconds: 551 });
  const strip = page.strips(on)[1];
  assert.equal(Math.round(strip.to), 830);
  assert.deepEqual(flat(strip).at(-1), ["training", 320, 830]);
});

test("steps that a rollback repeats are replayed ones", () => {
  const back = known({ evaluations: [], checkpoints: [] });
  const steps = [1, 2, 3, 4, 5, 3, 4, 5, 6, 7];
  back.steps = steps.map((step, i) => [step, i + 1]);
  back.told.attempts = [{ ...back.told.attempts[0], seconds: 20 }];
  Object.assign(back.run, { ended_at: at(110), since_submission_seconds: 110 });
  assert.deepEqual(flat(page.strips(back)[0]).slice(2), [
    ["training", 100, 105],
    ["replaying", 105, 108],
    ["training", 108, 110],
  ]);
});

test("the end of an open attempt is what it does: evaluating, or suspended", () => {
  const open = known();
  Object.assign(open.run, { state: "running", ended_at: null, since_submission_seconds: 400 });
  open.told.attempts[1].exit_code = null;
  open.run.state_text = "evaluating, step 60 of 400";
  assert.deepEqual(flat(page.strips(open)[1]).at(-1), ["evaluating", 333, 400]);
  open.run.state_text = "suspended by Slurm, step 60 of 400";
  const strip = page.strips(open)[1];
  assert.deepEqual(flat(strip).at(-1), ["stalled", 333, 400]);
  assert.equal(strip.segments.at(-1).note, "suspended by Slurm");
  const nobody = known({ requeues: [{ at: at(149), by: null }] });
  assert.equal(page.strips(nobody)[1].segments[0].note, "a requeue was asked for");
});

test("a launch has failed by its code, its cause, a signal, or without a trace", () => {
  const launch = { ended_at: at(1), exit_code: null, signal: null, cause: null };
  for (const [fields, expected] of [
    [{ exit_code: 1 }, true],
    [{ signal: 9 }, true],
    [{}, true],
    [{ cause: "node failure" }, true],
    [{ exit_code: 24, signal: 9 }, true],
    [{ exit_code: 0 }, false],
    [{ exit_code: 23 }, false],
    [{ exit_code: 24 }, false],
    [{ exit_code: 25 }, false],
    [{ cause: "preempted" }, false],
    [{ cause: "time limit", exit_code: 1 }, false],
    [{ ended_at: null }, false],
  ]) {
    assert.equal(page.failed({ ...launch, ...fields }), expected, JSON.stringify(fields));
  }
});

// A run at step 900 whose target is predicted for 720 s after its newest row, at 3,000 s.
const past = {
  steps: [[900, 3000]],
  evaluations: [],
  prediction: { seconds: 3720, low: 3500, high: 4000, confidence: 0.8, model: "own curve" },
};
const stands = {
  ...{ state: "running", state_text: "training, step 900 of 4000", silent_seconds: null },
  ...{ metric: "mlm_accuracy", value: 0.08, target: 0.1, target_times_baseline: null, step: 900 },
  ...{ steps: 4000, time_to_accuracy_seconds: null, since_submission_seconds: 9999 },
  ...{ predicted_seconds_to_target: 0, target_reached: false, config: null },
};
const headed = (fields, history = past) => {
  const head = page.headline({ ...stands, ...fields }, history);
  return [head.figure, head.caption, head.note].map((text) => text.replaceAll("\u202f", " "));
};

test("nothing counts down while nothing is trained", () => {
  for (const [fields, note] of [
    [{ state: "queued" }, "Queued: nothing is trained now."],
    [{ state: "starting" }, "Starting: nothing is trained now."],
    [{ state_text: "suspended by Slurm, step 900" }, "Suspended: nothing is trained now."],
  ]) {
    const wanted = ["≈ 12 min 00 s", "of training left, as predicted", note];
    assert.deepEqual(headed(fields), wanted);
    assert.equal(page.fullSpan("time", { ...stands, ...fields }, past).max, 3000 * 1.015);
  }
  const [figure, , note] = headed({ silent_seconds: 400, predicted_seconds_to_target: null });
  assert.deepEqual([figure, note], ["–", "Nothing is predicted while the run is silent."]);
  const lost = headed({ state: "queued" }, { ...past, prediction: null });
  assert.deepEqual([lost[0], lost[2]], ["–", "Nothing is predicted while it is queued."]);
  assert.equal(headed({ predicted_seconds_to_target: 60 })[0], "≈ 1 min 00 s");
  assert.ok(page.fullSpan("time", stands, past).max > 4000);
});

test("a run without a target says how long it waited, or where it ended", () => {
  const none = { target: null, value: null };
  const waits = headed({ ...none, state: "queued", step: 0 });
  assert.deepEqual(waits, ["2 h 47 min", "waiting since submission", "No target set."]);
  const ended = headed({ ...none, state: "failed" });
  assert.equal(ended[0], "step 900");
  assert.equal(ended[2], "failed before its first evaluation; no target was set.");
  assert.equal(headed({ ...none, state: "failed", value: 0.08 })[0], "8.00 %");
});

test("a run is evaluated next at a multiple, wherever it began", () => {
  const config = { evaluate: { every: 400 } };
  for (const [step, steps, expected] of [
    [0, 4000, 400],
    [1001, 4000, 1200],
    [1200, 4000, 1200],
    [3999, 4000, 4000],
    [300, 350, 350],
    [1001, 0, 1200],
  ]) {
    assert.equal(page.nextEvaluation({ config, step, steps }), expected, `${step} of ${steps}`);
  }
  assert.equal(page.nextEvaluation({ config: {}, step: 5, steps: 10 }), null);
  const fork = { value: null, step: 1001, predicted_seconds_to_target: null, config };
  assert.match(headed(fork)[2], /The first is due after step 1,200\.$/);
});

test("how many steps rows are of is known where they are thinned", () => {
  const rows = [[1, 1], [51, 50], [101, 100], [51, 150], [101, 200], [151, 250]];
  assert.deepEqual(page.amountOf(rows), { shown: 4, steps: 151 });
  assert.deepEqual(page.amountOf([[30, 1], [31, 2], [32, 3]]), { shown: 3, steps: 3 });
  const thinned = Array.from({ length: 1050 }, (_, i) => [2 * (i + 1), i]);
  assert.deepEqual(page.amountOf(thinned), { shown: 1050, steps: 2100 });
  assert.deepEqual(page.amountOf([]), { shown: 0, steps: 0 });
});

test("no answer is no refusal", () => {
  const refusal = new page.Refusal(409, "it trains");
  assert.equal(page.failureOf(refusal, "Not resumed"), "Not resumed: it trains");
  const late = new DOMException("signal is aborted without reason", "AbortError");
  const text = "No answer; it may have been done. Press again: it is done once.";
  assert.equal(page.failureOf(late, "Not done"), text);
  const lost = page.failureOf(new Error("Failed to fetch"), "Not done");
  assert.match(lost, /^No answer \(Failed to fetch\); it may/);
});

test("events that bring nothing new are the same list", () => {
  const event = (number) => ({ number });
  const kept = { events: [event(3), event(2)], next: 3, more: true };
  const nothing = page.events.withNewer(kept, { events: [], next: 3, more: false }, 8);
  assert.equal(nothing.events, kept.events);
  const one = page.events.withNewer(kept, { events: [event(4)], next: 4, more: false }, 2);
  assert.deepEqual(one.events.map((each) => each.number), [4, 3]);
  assert.equal(page.events.withNewer(kept, { events: [], next: 3 }, 1).events.length, 1);
});

const skip = missingController();
const seededRun = seededTest(skip);
let seeded, browser, runs;
before(async () => {
  if (skip) return;
  seeded = await new Seeded({ runs: 40 }).start();
  browser = await launch();
  runs = (await seeded.ask("runs?limit=100")).runs;
});
after(async () => {
  await browser?.close();
  await seeded?.stop();
});

const arrive = (place, options = {}) => Visitor.arrive(browser, seeded.link(place), options);
const plain = (text) => text.replace(/\s+/g, " ").trim();
const seconds = (text) => {
  const unit = { d: 86400, h: 3600, min: 60, s: 1, ms: 0.001 };
  return [...plain(text).matchAll(/([\d.]+) (d|h|min|ms|s)\b/g)].reduce(
    (sum, [, figure, name]) => sum + Number(figure) * unit[name],
    0,
  );
};
// What a button of a chart's menu saves.
async function saved(chart, button) {
  const { page } = chart;
  await chart.locator("summary", { hasText: "Options" }).click();
  const download = page.waitForEvent("download");
  await chart.getByRole("button", { name: button }).click();
  const file = await download;
  await page.keyboard.press("Escape");
  return { name: file.suggestedFilename(), bytes: readFileSync(await file.path()) };
}
function chartOf(page, name) {
  const chart = page.locator("figure.chart", { hasText: name }).first();
  return Object.assign(chart, { page });
}
const rowsOfCsv = (bytes) =>
  bytes.toString().trim().split("\r\n").slice(1).map((row) => row.split(","));

seededRun("a retried run's strip says where its time went, as the API does", async () => {
  const run = runs.find((one) => one.attempts > 1);
  const { time } = await seeded.ask(`runs/${run.id}/time_to_accuracy`);
  const visitor = await arrive(`/runs/${run.id}`);
  const { page } = visitor;
  const strip = chartOf(page, "Timeline of attempts");
  await strip.waitFor();
  const legend = Object.fromEntries(
    (await strip.locator(".legend span").allInnerTexts()).map((text) => [
      plain(text).split(" ")[0],
      seconds(text),
    ]),
  );
  const near = (a, b, what) => assert.ok(Math.abs(a - b) <= 4, `${what}: ${a} is not ${b}`);
  near(legend.queued + legend.requeued, time.waiting_seconds, "waiting");
  near(legend.starting, time.starting_seconds, "starting");
  const rest = legend.training + legend.replaying + (legend.evaluating ?? 0) + (legend.ending ?? 0);
  near(rest, time.training_seconds + time.other_seconds, "training");

  const { name, bytes } = await saved(strip, "Save as CSV");
  assert.equal(name, `${run.id}-timeline-of-attempts.csv`);
  const rows = rowsOfCsv(bytes);
  const queued = rows.find((row) => row[1] === "queued");
  const { attempts } = await seeded.ask(`runs/${run.id}/attempts`);
  const { created_at } = await seeded.ask(`runs/${run.id}`);
  const begin = (Date.parse(attempts[0].started_at) - Date.parse(created_at)) / 1000;
  assert.ok(Math.abs(Number(queued[3]) - begin) < 0.01, `${queued}`);

  await strip.getByRole("application").focus();
  await page.keyboard.press("Home");
  const said = await strip.locator(".readout").innerText();
  assert.match(plain(said), /^Attempt 2: requeued for .*after: node gpu-017 went down/);
  await page.keyboard.press("ArrowUp");
  assert.match(plain(await strip.locator(".readout").innerText()), /^Attempt 1: queued for/);
  await strip.getByRole("button", { name: /^Table/ }).click();
  assert.equal(await strip.locator("tbody tr").count(), rows.length);
  await visitor.keepPicture("run-strip");
  await visitor.leave();
});

seededRun("the figures of the header are the API's, none twice", async () => {
  for (const state of ["succeeded", "failed"]) {
    const run = await seeded.ask(`runs/${runs.find((one) => one.state === state && one.value).id}`);
    const visitor = await arrive(`/runs/${run.id}`);
    const { page } = visitor;
    await page.locator(".headline").waitFor();
    const names = await page.locator(".summary dt").allInnerTexts();
    assert.equal(new Set(names).size, names.length);
    const values = await page.locator(".summary dd").allInnerTexts();
    const of = Object.fromEntries(names.map((name, i) => [name, plain(values[i])]));
    const head = plain(await page.locator(".headline strong").innerText());
    if (state === "failed") {
      assert.equal(head, percent(run.value, run.target));
      assert.ok(!names.includes("Accuracy"), "the headline has it");
    } else {
      assert.equal(Math.round(seconds(head)), Math.round(run.time_to_accuracy_seconds));
      assert.equal(of.Accuracy, percent(run.value, run.target));
    }
    assert.equal(of.Target, percent(run.target, run.value));
    assert.ok(of.Step.startsWith(`${run.step} / ${run.steps}`), of.Step);
    const speed = Math.round(run.samples_per_second).toLocaleString("en-US");
    assert.ok(of["Samples/s"].startsWith(speed), of["Samples/s"]);
    const chart = chartOf(page, "Samples per second");
    assert.ok((await chart.locator(".readout").innerText()).startsWith(speed), "one rate");
    await visitor.leave();
  }
});

seededRun("a failed run says why, what comes next, and what it has lost", async () => {
  const { id, error } = runs.find((one) => one.state === "failed");
  const told = await seeded.ask(`runs/${id}/explain`);
  const visitor = await arrive(`/runs/${id}`);
  const { page } = visitor;
  const panel = page.getByRole("region", { name: "After the failure" });
  await panel.getByText("Next", { exact: true }).waitFor();
  const text = plain(await panel.innerText());
  const has = (words) => text.toLowerCase().includes(words.toLowerCase());
  assert.ok(has(told.next.replaceAll("`", "")), `${told.next} in: ${text}`);
  const rest = told.summary.slice(`it failed: ${error}; `.length);
  assert.ok(rest.length > 5 && has(rest), `${rest} in: ${text}`);
  const launched = told.launches.at(-1);
  assert.ok(text.includes(`exit code ${launched.exit_code}`), text);
  // The error stands on the page once, and not in two places with other words.
  const main = await page.locator("main").innerText();
  assert.equal(main.split(error).length - 1, 1);
  await page.getByRole("link", { name: "Log" }).click();
  await panel.waitFor({ state: "detached" });
  await page.getByRole("alert").getByText(error).waitFor();
  await visitor.leave();
});

seededRun("a run that waits says for what, instead of empty charts", async () => {
  const failed = runs.filter((one) => one.state === "failed").at(-1);
  const body = {
    name: "waits",
    model: { layers: 2, hidden: 128, heads: 2, vocabulary: 4000 },
    data: { path: "/nonexistent" },
    steps: 100,
    target: { value: 0.5 },
  };
  const made = await seeded.ask(`runs?after=${failed.id}`, { method: "POST", body });
  const visitor = await arrive(`/runs/${made.id}`, { viewport: { width: 390, height: 844 } });
  const { page } = visitor;
  const panel = page.getByRole("region", { name: "Why it waits" });
  await panel.getByText("What to do").waitFor();
  const { waiting, next } = await seeded.ask(`runs/${made.id}/explain`);
  const text = plain(await panel.innerText());
  for (const words of [waiting.sentence, waiting.action.replaceAll("`", ""), next]) {
    assert.ok(text.toLowerCase().includes(words.toLowerCase()), `${words} in: ${text}`);
  }
  assert.ok(text.includes("It does not go on until somebody acts."), text);
  await visitor.sees("Curves appear with the first step.");
  assert.equal(await page.locator("canvas").count(), 0);
  assert.match(await page.locator(".headline").innerText(), /waiting since submission/i);
  const strip = chartOf(page, "Timeline of attempts");
  assert.match(plain(await strip.locator(".legend").innerText()), /^queued \d+.* s$/);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.equal(wide, 390);
  // A requeue of what waits to be started as it is changes nothing, and is asked once.
  await page.locator("summary", { hasText: "Actions" }).click();
  await page.getByRole("button", { name: "Requeue…" }).click();
  await page.getByRole("button", { name: "Requeue the run" }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  assert.equal((await seeded.ask(`runs/${made.id}`)).state, "queued");
  await visitor.keepPicture("run-waits");
  await seeded.ask(`runs/${made.id}/cancel`, { method: "POST", body: {} });
  await visitor.sees("After its end");
  await visitor.leave();
});

seededRun("keys move through the points of a chart, zoom it, and show all again", async () => {
  const run = runs.find((one) => one.state === "succeeded");
  const { evaluations } = await seeded.ask(`runs/${run.id}/metrics`);
  const visitor = await arrive(`/runs/${run.id}`);
  const { page } = visitor;
  const chart = chartOf(page, "Masked accuracy over time");
  await visitor.waitForPixels(0, "accent", 100);
  const plot = chart.getByRole("application");
  await plot.focus();
  const said = async () => plain(await plot.locator("[aria-live]").innerText());
  const words = (row) => `${percent(row[5], run.target)} at `;
  await page.keyboard.press("ArrowRight");
  assert.ok((await said()).startsWith(words(evaluations.at(-1))), await said());
  await page.keyboard.press("ArrowLeft");
  assert.ok((await said()).startsWith(words(evaluations.at(-2))), await said());
  await page.keyboard.press("Home");
  assert.ok((await said()).endsWith(`step ${evaluations[0][0]}`), await said());
  // The other charts point at the same moment.
  const loss = chartOf(page, "Training loss");
  const near = async () =>
    Number(/at step (\d+)$/.exec(plain(await loss.locator(".readout").innerText()))[1]);
  const isNear = async () => Math.abs((await near()) - evaluations[0][0]) <= 2;
  for (const end = Date.now() + 10_000; !(await isNear()) && Date.now() < end; ) await page.waitForTimeout(50);
  assert.ok(await isNear(), String(await near()));
  const all = page.getByRole("button", { name: "Show all" });
  await page.keyboard.press("+");
  await all.first().waitFor();
  assert.equal(await all.count(), 3);
  await page.keyboard.press("End"); // what lies outside is brought into view
  assert.ok((await said()).startsWith(words(evaluations.at(-1))), await said());
  const shown = await visitor.pixels(0, "good");
  assert.ok(shown.count > 0);
  await page.keyboard.press("-");
  await all.first().waitFor({ state: "detached" });
  await page.keyboard.press("+");
  await page.keyboard.press("0");
  await all.first().waitFor({ state: "detached" });
  await page.keyboard.press("Escape"); // leaves the point, not the run
  assert.equal(await said(), "");
  const { steps } = await seeded.ask(`runs/${run.id}/metrics`);
  const newest = `at step ${steps.at(-1)[0]}`;
  assert.ok(plain(await loss.locator(".readout").innerText()).endsWith(newest));
  assert.ok(new URL(page.url()).hash.includes(run.id));
  await visitor.leave();
});

seededRun("a chart's table and CSV are the API's rows, its PNG is a picture", async () => {
  const run = runs.find((one) => one.state === "succeeded" && one.steps === 400);
  const { steps, evaluations } = await seeded.ask(`runs/${run.id}/metrics`);
  const visitor = await arrive(`/runs/${run.id}`);
  const { page } = visitor;
  await visitor.waitForPixels(1, "accent", 100);
  const accuracy = chartOf(page, "Masked accuracy over time");
  const csv = await saved(accuracy, "Save as CSV");
  assert.equal(csv.name, `${run.id}-masked-accuracy-over-time.csv`);
  assert.deepEqual(
    rowsOfCsv(csv.bytes).map((row) => [...row.slice(0, 3).map(Number), row[3], Number(row[4])]),
    evaluations.map((row) => [row[1], row[0], 1, "no", row[5]]),
  );
  assert.match(
    csv.bytes.toString(),
    /^Time \(s\),Step,Attempt,Trained again since,mlm_accuracy\r\n/,
  );
  const png = await saved(accuracy, "Save as PNG");
  assert.equal(png.bytes.subarray(1, 4).toString(), "PNG");
  const [width, height] = [png.bytes.readUInt32BE(16), png.bytes.readUInt32BE(20)];
  assert.ok(width > 700 && height > 320, `${width} × ${height}`);
  assert.ok(png.bytes.length > 5000, `${png.bytes.length} bytes`);

  const loss = chartOf(page, "Training loss");
  await loss.getByRole("button", { name: /^Table/ }).click();
  await loss.getByText(`Rows 1 to 100 of ${steps.length}`).waitFor();
  await loss.getByRole("button", { name: "Next rows" }).click();
  await loss.getByText(`Rows 101 to 200 of ${steps.length}`).waitFor();
  const cells = await loss.locator("tbody tr").first().locator("th, td").allInnerTexts();
  const shown = [0, 4].map((i) => Number(cells[i]));
  assert.deepEqual(shown, [steps[100][1], steps[100][2]].map((one) => Number(one.toPrecision(6))));
  assert.equal(await loss.locator("tbody tr").count(), 100);
  await visitor.leave();
});

seededRun("axes and smoothing are the reader's choice", async () => {
  const run = runs.find((one) => one.attempts > 1);
  const { steps } = await seeded.ask(`runs/${run.id}/metrics`);
  const visitor = await arrive(`/runs/${run.id}`);
  const { page } = visitor;
  await visitor.waitForPixels(1, "accent", 100);
  const loss = chartOf(page, "Training loss");
  const picture = () =>
    loss.locator("canvas").evaluate(async (canvas) => {
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      return canvas.toDataURL();
    });
  const option = async (name, checked) => {
    await loss.locator("summary", { hasText: "Options" }).click();
    await loss.getByRole("checkbox", { name }).setChecked(checked);
    await page.keyboard.press("Escape");
    await page.mouse.move(0, 0);
  };
  const before = await picture();
  await option("Log axis", true);
  const logarithmic = await picture();
  assert.notEqual(logarithmic, before);
  await option("Log axis", false);
  assert.equal(await picture(), before);
  await option(/Smoothing/, false);
  assert.notEqual(await picture(), before);
  await option(/Smoothing/, true);
  assert.equal(await picture(), before);

  await page.getByRole("radio", { name: "steps" }).check();
  await page.getByRole("heading", { name: "Masked accuracy over steps" }).waitFor();
  const once = new Set(steps.map((row) => row[0]));
  assert.ok(once.size < steps.length, "some steps were trained again");
  await visitor.sees(`${steps.length - once.size} rows of steps that were trained again`);
  const rows = rowsOfCsv((await saved(loss, "Save as CSV")).bytes);
  assert.deepEqual(rows.map((row) => Number(row[0])), [...once].sort((a, b) => a - b));
  await page.reload();
  await page.getByRole("heading", { name: "Masked accuracy over steps" }).waitFor();
  await visitor.leave();
});

seededRun("tags and a note are changed by keyboard alone", async () => {
  const run = runs.find((one) => one.state === "succeeded" && one.tags.length > 0);
  const visitor = await arrive(`/runs/${run.id}`);
  const { page } = visitor;
  await page.locator("summary", { hasText: "Actions" }).waitFor();
  const focused = () => page.evaluate(() => document.activeElement?.textContent ?? "");
  for (let i = 0; i < 20 && (await focused()) !== "Actions"; i += 1) await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.keyboard.press("Tab");
  assert.equal(await focused(), "Tags and note…");
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog", { name: /^Tags and note of/ });
  await dialog.waitFor();
  await seeded.ask(`runs/${run.id}/labels`, { method: "POST", body: { add_tags: ["meanwhile"] } });
  await page.locator(".run-labels", { hasText: "meanwhile" }).waitFor();
  await page.keyboard.press("Control+a");
  await page.keyboard.type("kept bad&tag");
  await page.keyboard.press("Enter");
  await dialog.getByRole("alert").waitFor(); // the API's own words
  await dialog.getByRole("textbox", { name: /Tags/ }).focus();
  await page.keyboard.press("Control+a");
  await page.keyboard.type("kept");
  await page.keyboard.press("Tab");
  await page.keyboard.type(`${kHostile} second`);
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await dialog.waitFor({ state: "detached" });
  assert.equal(await focused(), "Actions", "the focus comes back");
  const now = await seeded.ask(`runs/${run.id}`);
  assert.deepEqual(now.tags.slice().sort(), ["kept", "meanwhile"]); // not what another has added
  assert.equal(now.note, `${kHostile} second`);
  await page.locator(".run-labels", { hasText: kHostile }).waitFor();
  assert.equal(await page.locator("#app img").count(), 0);
  assert.equal(await page.evaluate(() => window.stolen), undefined);
  await visitor.leave(/status of 422/);
});

seededRun("a dialog that was closed a moment ago does not close the next one", async () => {
  const run = runs.find((one) => one.state === "succeeded");
  const visitor = await arrive(`/runs/${run.id}`);
  const { page } = visitor;
  await page.locator("summary", { hasText: "Actions" }).click();
  await page.getByRole("button", { name: "Tags and note…" }).click();
  await page.getByRole("dialog", { name: /^Tags and note of/ }).waitFor();
  // Both in one task: the first dialog's event comes behind the press.
  await page.evaluate(() => {
    document.querySelector("dialog[open]").close();
    const buttons = [...document.querySelectorAll(".run-actions button")];
    buttons.find((one) => one.textContent === "Extend…").click();
  });
  const next = page.getByRole("dialog", { name: /^Extend/ });
  await next.waitFor();
  await page.waitForTimeout(300);
  assert.equal(await next.count(), 1);
  await visitor.leave();
});

seededRun("archiving and removing say what they free, and do it", async () => {
  const [first, second] = runs.filter((one) => one.state === "cancelled");
  const bytes = (size) => (size < 1000 ? `${size} bytes` : `${(size / 1000).toPrecision(3)} kB`);
  const visitor = await arrive(`/runs/${first.id}`);
  const { page } = visitor;
  const open = async (name) => {
    await page.locator("summary", { hasText: "Actions" }).click();
    await page.getByRole("button", { name }).click();
  };
  await open("Extend…");
  const extend = page.getByRole("button", { name: "Extend the run" });
  assert.ok(await extend.isDisabled());
  await page.getByRole("textbox", { name: /Steps in all/ }).fill("999");
  await extend.click();
  await page.getByText(/Not done: .*has no checkpoint/).waitFor(); // those of the seed are no files
  await page.keyboard.press("Escape");
  await open("Archive…");
  await page.getByText(/Frees .*: 0 checkpoints to be removed, 0 checkpoints to stay/).waitFor();
  await page.getByRole("button", { name: /^Archive it and free/ }).click();
  await page.locator(".run-labels", { hasText: "archived" }).waitFor();
  assert.equal((await seeded.ask(`runs/${first.id}`)).archived, true);

  await page.goto(`${seeded.url}#/runs/${second.id}`);
  await page.getByRole("heading", { name: second.name, exact: true }).waitFor();
  const dry = await seeded.ask(`runs/${second.id}?dry_run=true`, { method: "DELETE" });
  await open("Remove…");
  const dialog = page.getByRole("dialog");
  await dialog.getByText("Frees").waitFor();
  const text = plain(await dialog.innerText());
  assert.ok(text.includes(`Frees ${bytes(dry.bytes)} in ${dry.files} files`), text);
  assert.ok(text.includes(`journal: ${bytes(dry.freed.journal)}`), text);
  await dialog.getByRole("button", { name: "Keep it" }).click();
  await dialog.waitFor({ state: "detached" });
  assert.equal((await seeded.ask(`runs/${second.id}`)).id, second.id);
  await open("Remove…");
  await dialog.getByRole("button", { name: /^Remove it and free/ }).click();
  await page.locator("table.runs").waitFor();
  assert.equal((await seeded.ask(`runs/${second.id}`)).status, 404);
  await visitor.leave(/status of 40[49]/);
});

for (const colorScheme of ["light", "dark"]) {
  seededRun(`the page of a run fits a phone, ${colorScheme}`, async () => {
    const { id } = runs.find((one) => one.attempts > 1);
    const options = { colorScheme, viewport: { width: 390, height: 844 } };
    const visitor = await arrive(`/runs/${id}`, options);
    const { page } = visitor;
    await visitor.waitForPixels(2, "accent", 50);
    for (const chart of await page.locator("figure.chart").all()) {
      await chart.getByRole("button", { name: /^Table/ }).click();
      await chart.locator("summary", { hasText: "Options" }).click();
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.equal(wide, 390);
      await page.keyboard.press("Escape");
    }
    // Each target is as large as a finger needs.
    const small = await page.locator("main button, main summary, main .tabs a, main .back").evaluateAll((all) =>
      all
        .filter((one) => one.checkVisibility())
        .filter((one) => one.getBoundingClientRect().height < 24)
        .map((one) => one.textContent),
    );
    assert.deepEqual(small, []);
    await visitor.keepPicture(`run-narrow-${colorScheme}`);
    await visitor.leave();
  });
}
