// Time to accuracy: the curve by any clock, events and down time on it, other curves, predictions,
// and where the time went.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test as plainTest } from "node:test";
import { LiveRun } from "./live_run.mjs";
import { Seeded, missingController, seededTest } from "./seeded.mjs";
import { Visitor, kPatience, launch } from "./setup.mjs";
import { sourcesOf } from "./sources.mjs";

const pure = await sourcesOf(`
  export * from "./src/time/marks"; export * from "./src/time/time_parts";
  export * as figures from "./src/time/time_figures";
  export * as colours from "./src/base/colours";
  export * as show from "./src/base/format";
`);
const { colours, figures, show } = pure;

const plain = (text) => text.replaceAll("\u202f", " ");
const sum = (values) => values.reduce((all, one) => all + one, 0);
const near = (a, b, within = 1e-9) => assert.ok(Math.abs(a - b) <= within, `${a} is not ${b}`);

plainTest("rounded parts add up to the rounded whole", () => {
  assert.deepEqual(pure.apportioned([1 / 3, 1 / 3, 1 / 3], 0.001), [334, 333, 333]);
  assert.deepEqual(pure.apportioned([0.4, 0.4, 0.2], 1), [1, 0, 0]);
  assert.deepEqual(pure.apportioned([], 0.1), []);
  for (const values of [[0.05, 0.05, 0.9], [1e-9, 1 - 1e-9], [0.2495, 0.2495, 0.501]]) {
    assert.equal(sum(pure.apportioned(values, 0.001)), 1000);
  }
});

const bucket = (rows, abandoned = false) => ({
  ...{ rows, abandoned, attempt: 1 },
  ...{ from_step: 0, to_step: 0, from: 0, to: 0 },
});
const three = (value) => [value, value, value, 1];

plainTest("steps are split by their series, and all parts are the whole", () => {
  const steps = {
    rows: 10,
    buckets: [bucket(4), bucket(4, true), bucket(2)],
    series: {
      step_seconds: [three(1), three(1), three(2)],
      exposed_seconds: [three(0.25), three(0.5), three(0.5)],
    },
  };
  const shares = pure.stepShares(steps);
  // 4 + 4 + 4 seconds, of which 4 were lost; the others waited for 1 + 1.
  near(shares.again, 4 / 12);
  near(shares.exposed, 2 / 12);
  assert.equal(shares.sampled, true);
  const time = {
    whole_seconds: 30,
    waiting_seconds: 10,
    starting_seconds: 5,
    training_seconds: 12,
    other_seconds: 3,
  };
  const parts = pure.partsOf(time, shares, [{ stall_seconds: 0.5 }, { stall_seconds: null }]);
  const found = Object.fromEntries(parts.map((one) => [one.kind, one.seconds]));
  const steady = { waiting: 10, starting: 5, training: 6, exposed: 2 };
  const wanted = { ...steady, again: 4, saving: 0.5, other: 2.5 };
  assert.deepEqual(Object.keys(found), Object.keys(wanted));
  for (const [kind, seconds] of Object.entries(wanted)) near(found[kind], seconds);
  near(sum(parts.map((one) => one.seconds)), 30);
});

plainTest("a step waits no longer than it took", () => {
  const series = { step_seconds: [three(2)], exposed_seconds: [three(3)] }; // a clock that jumped
  near(pure.stepShares({ rows: 1, buckets: [bucket(1)], series }).exposed, 1);
});

plainTest("a predicted crossing and its interval move with the clock", () => {
  const made = { seconds: 100, low: 80, high: 130, confidence: 0.8, model: null };
  assert.deepEqual(figures.predictionOn("wall", 60, made), made);
  const later = { ...made, seconds: 160, low: 140, high: 190 };
  assert.deepEqual(figures.predictionOn("wall_since_submission", 60, made), later);
  assert.equal(figures.predictionOn("wall_since_submission", null, made), null);
  assert.equal(figures.predictionOn("step", 60, made), null);
});

plainTest("what no series says is not split, and what no part says is told", () => {
  const some = { waiting_seconds: 1, starting_seconds: null, training_seconds: 6 };
  const time = { whole_seconds: 10, ...some, other_seconds: 1 };
  const parts = pure.partsOf(time, null, []);
  assert.deepEqual(
    parts.map((one) => [one.kind, one.seconds]),
    [["waiting", 1], ["training", 6], ["other", 1], ["unknown", 2]],
  );
  assert.deepEqual(pure.partsOf({ ...time, whole_seconds: null }, null, []), []);
  const long = pure.partsOf({ ...time, whole_seconds: 8 }, null, [{ stall_seconds: 5 }]);
  assert.equal(long.find((one) => one.kind === "saving").seconds, 1); // no more than lies there
});

const kRun = { created_at: "2026-11-28T10:00:00Z", started_at: "2026-11-28T10:01:00Z" };
const event = (kind, at, fields = {}) => ({
  ...{ number: 1, kind, at, launch: null, attempt: null, step: null, checkpoint: null, node: null },
  ...{ by: null, words: null, ...fields },
});
const markSources = (fields) => ({
  ...{ run: kRun, events: [], told: { launches: [], attempts: [] }, checkpoints: [], steps: [] },
  ...{ series: undefined, ...fields },
});

plainTest("marks have a word, and lie where their clock says", () => {
  const at = "2026-11-28T10:02:30Z";
  const cases = [
    [event("attempt.warning", at, { step: 7, words: "rolled back to step 5" }), "rollback"],
    [event("attempt.warning", at, { step: 7, words: "the loss is not finite" }), "divergence"],
    [event("attempt.warning", at, { words: "straggler: rank 3" }), "straggler"],
    [event("attempt.warning", at, { words: "thermal throttling of GPU 3" }), "thermal"],
    [event("attempt.warning", at, { words: "the clock is late" }), "warning"],
    [event("plan.tried", at), "plan change"],
    [event("plan.input", at), "data loading"],
    [event("attempt.batch_grown", at, { step: 41, words: "16 samples a step" }), "larger batch"],
    [event("attempt.alarm", at, { step: 41, words: "The gradient's norm was 50" }), "alarm"],
    [event("attempt.loss_scale", at, { step: 41, words: "65536 → 32768" }), "loss scale"],
    [event("attempt.corruption", at, { step: 41, node: "n2", words: "rank 1 …" }), "corruption"],
    [event("node.blamed", at), "node suspected"],
    [event("run.requeue_asked", at, { by: "uid 7" }), "requeue"],
  ];
  for (const [one, word] of cases) {
    const [mark] = pure.marksOf(markSources({ events: [one] }), "wall");
    assert.equal(mark.word, word);
    assert.equal(mark.x, 90);
    assert.equal(pure.marksOf(markSources({ events: [one] }), "wall_since_submission")[0].x, 150);
  }
  assert.deepEqual(pure.marksOf(markSources({ events: [event("toString", at)] }), "wall"), []);
  const early = event("plan.tried", "2026-11-28T10:00:30Z");
  assert.deepEqual(pure.marksOf(markSources({ events: [early] }), "wall"), []);
  // Without a step of its own, by the step that was done then: 40 at 80 s, and the next at 100 s.
  const steps = [[40, 80], [50, 100]];
  const planned = markSources({ events: [event("plan.tried", at)], steps });
  assert.equal(pure.marksOf(planned, "step")[0].x, 40);
  const launches = (fields) => ({
    attempts: [],
    launches: [
      {
        ...{ launch: 1, ended_at: at, exit_code: 1, signal: null, cause: null, what: null },
        ...{ nodes: "", ...fields },
      },
    ],
  });
  for (const [fields, word] of [
    [{ cause: "node failure" }, "node lost"],
    [{ cause: "preempted" }, "preempted"],
    [{}, "failed"],
    [{ exit_code: 0 }, undefined],
    [{ exit_code: 23 }, "replaced"],
    [{ exit_code: 24 }, "stopped"],
    [{ exit_code: 25 }, "time over"],
    [{ exit_code: 24, cause: "time limit" }, "time limit"],
    [{ exit_code: null, signal: 9 }, "failed"],
    [{ exit_code: null }, "failed"],
    [{ exit_code: null, ended_at: null }, undefined],
  ]) {
    assert.equal(pure.marksOf(markSources({ told: launches(fields) }), "wall")[0]?.word, word);
  }
});

plainTest("marks on each other stand together, named by the worst", () => {
  const mark = (x, word, tone, isCheckpoint = false) => ({ x, word, tone, isCheckpoint });
  const all = [
    mark(0, "checkpoint", "muted", true),
    mark(3, "node lost", "bad"),
    mark(4, "checkpoint", "muted", true),
    mark(10, "attempt 2", "warn"),
  ];
  const groups = pure.clusters(all, 5);
  assert.deepEqual(groups.map((group) => group.length), [3, 1]);
  assert.equal(pure.worstOf(groups[0]).word, "node lost");
  assert.equal(pure.wordsOf(groups[0]), "2 × checkpoint, node lost");
  assert.deepEqual(pure.clusters(all, 0).map((group) => group.length), [1, 1, 1, 1]);
});

plainTest("a step lies between the evaluations around it, and goes on behind the last", () => {
  const at = (to_step, to, abandoned = false) => ({ ...bucket(1, abandoned), to_step, to });
  const series = { buckets: [at(10, 100), at(30, 900, true), at(20, 300)] };
  for (const [step, place] of [[5, 50], [10, 100], [15, 200], [20, 300], [25, 400]]) {
    assert.equal(figures.placeOfStep(series, step), place);
  }
  assert.equal(figures.placeOfStep(undefined, 5), null);
});

plainTest("evaluations whose steps were trained again are a curve of their own", () => {
  const at = (to, abandoned) => ({ ...bucket(1, abandoned), to });
  const series = {
    buckets: [at(10, false), at(30, true), at(20, true), at(40, false), at(50, false)],
    series: { metric: [three(0.1), three(0.3), three(0.2), three(0.25), [null, null, null, 0]] },
  };
  const { kept, abandoned, starts } = figures.curveOf(series);
  assert.deepEqual(kept, [[10, 0.1], [40, 0.25]]);
  assert.deepEqual(abandoned, [[20, 0.2], [30, 0.3]]);
  assert.deepEqual(starts, { kept: [40], abandoned: [] });
});

plainTest("curves of other places share an axis, each with gaps where it has no point", () => {
  const curves = [[[1, 10], [3, 30]], [[2, 20], [3, 33]]];
  assert.deepEqual(figures.aligned(curves), [[1, 2, 3], [10, null, 30], [null, 20, 33]]);
});

plainTest("levels go up to the best, not to the newest", () => {
  const rows = [0.5, 0.71, null, 0.58].map((value, i) => [i, i, null, null, false, value, {}]);
  assert.equal(figures.bestOf("f1", rows), 0.71);
  assert.equal(figures.bestOf("mlm_loss", rows), 0.5);
  assert.equal(figures.bestOf("f1", []), null);
  const levels = figures.thresholds("f1", figures.bestOf("f1", rows), null, 0.05);
  assert.ok(levels.includes(0.6) && levels.includes(0.7));
});

plainTest("levels are round and hold the target", () => {
  const levels = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7];
  assert.deepEqual(figures.thresholds("f1", 0.71, 0.7, 0.05), levels);
  const low = [0.05, 0.06, 0.07, 0.08, 0.09, 0.0981];
  assert.deepEqual(figures.thresholds("mlm_accuracy", 0.098, 0.0981, 0.049), low);
  assert.deepEqual(figures.thresholds("mlm_loss", 2.5, 2.4, null), [2.4]);
  assert.deepEqual(figures.thresholds("f1", null, null, null), []);
});

plainTest("predictions are those nearest to 5, 20 and 50 % of the way", () => {
  const made = [2, 6, 11, 21, 43, 80].map((made_at_seconds) => ({ made_at_seconds }));
  const found = figures.tellingPredictions(made, 100);
  assert.deepEqual(found.map((one) => one.made.made_at_seconds), [6, 21, 43]);
  const late = { made_at_seconds: 90 };
  assert.deepEqual(figures.tellingPredictions([late], 100), [{ share: 0.9, made: late }]);
  assert.deepEqual(figures.tellingPredictions(made, null), []);
  // Each for the share that it is nearest to: not the one at 77 for half of the time.
  const few = [8, 16, 31, 77].map((made_at_seconds) => ({ made_at_seconds }));
  const shares = figures.tellingPredictions(few, 100).map((one) => one.share);
  assert.deepEqual(shares, [0.08, 0.16, 0.31]);
});

const skip = missingController();
const test = seededTest(skip);
const kReference = "mlperf-5.1_16-gpus";
const kPoints = Array.from({ length: 12 }, (_, i) => {
  const n = i + 1;
  return [20 * n, 30_000 * n, 0.05 * n];
});
const kHostile =
  "<img src=x onerror=alert(1)>\u001b[31mred\u001b[0m \u202eright to left " + "x".repeat(10_000);
let seeded, browser, id, live;
before(async () => {
  if (skip) return;
  const prepare = (folder) => {
    live = new LiveRun(folder, "live-0000aa", 66);
    live.train(60);
  };
  seeded = await new Seeded({ runs: 60, prepare }).start();
  await adopted(61);
  id = await runThatReplays();
  const about = { submitter: "Ada", chips: 16 };
  const body = { name: kReference, threshold: 0.6, evaluations: kPoints, ...about };
  assert.equal((await seeded.ask("references", { method: "POST", body })).name, kReference);
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await seeded?.stop();
});

// All of so many runs, with all of their journals.
async function adopted(count) {
  const end = Date.now() + kPatience;
  for (;;) {
    const { adoption } = await seeded.ask("version");
    const { total } = await seeded.ask("runs?limit=1&total=true");
    if (adoption.done && total === count) return;
    assert.ok(Date.now() < end, `${total} of ${count} runs are adopted`);
    await new Promise((done) => setTimeout(done, 200));
  }
}
// The run whose second attempt has trained most steps again.
async function runThatReplays() {
  const end = Date.now() + kPatience; // what is adopted is read beside the tests
  for (;;) {
    const { runs } = await seeded.ask("runs?limit=1000");
    let [most, found] = [0, null];
    for (const run of runs.filter((one) => one.attempts === 2)) {
      const { rows } = await seeded.ask(`runs/${run.id}/history?limit=10000`);
      const again = rows.filter((row) => row.type === "step" && row.abandoned).length;
      if (again > most) [most, found] = [again, run.id];
    }
    if (most >= 5) return found;
    assert.ok(Date.now() < end, `a seeded run trains ${most} steps again`);
    await new Promise((done) => setTimeout(done, 200));
  }
}

const arrive = (place = `/runs/${id}/time`, options = {}) =>
  Visitor.arrive(browser, seeded.link(place), options);
const evaluations = async (run = id) => (await seeded.ask(`runs/${run}/evaluations`)).evaluations;
const textsOf = async (locator) =>
  (await locator.allInnerTexts()).map((text) => plain(text).trim());

// The rows of a table as texts.
async function rowsOf(table) {
  const rows = [];
  for (const row of await table.locator("tbody tr").all()) {
    rows.push(await textsOf(row.locator("th, td")));
  }
  return rows;
}
const chartTable = async (page) => {
  const button = page.getByRole("button", { name: /^Table: Masked accuracy/ });
  if ((await button.getAttribute("aria-expanded")) === "false") await button.click();
  return page.locator("figure.chart .data-table table");
};
// Answers that are changed on their way.
const answers = (page, address, change) =>
  page.route(address, async (route) => {
    const headers = { ...route.request().headers() };
    delete headers["if-none-match"];
    const response = await route.fetch({ headers });
    return route.fulfill({ json: change(await response.json()) });
  });
const figure = (text) => Number(text.replaceAll(",", ""));

test("the curve by any clock is what the evaluations say", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  const run = await seeded.ask(`runs/${id}`);
  const all = (await evaluations()).filter((one) => !one.abandoned);
  const wait = (Date.parse(run.started_at) - Date.parse(run.created_at)) / 1000;
  const first = all.filter((one) => one.attempt === 1).length;
  const clocks = [
    ["since the first step", "Seconds since the first step", (one) => one.at_seconds, all.length],
    ["since submission", "Seconds since submission", (one) => one.at_seconds + wait, all.length],
    ["samples", "Samples", (one) => one.step * 2560, all.length],
    ["steps", "Step", (one) => one.step, all.length],
    // In the first attempt 16 ranks have run since the first step.
    ["GPU-hours", "GPU-hours", (one) => (16 * one.at_seconds) / 3600, first],
  ];
  for (const [choice, head, placeOf, count] of clocks) {
    await page.getByRole("radio", { name: choice }).check();
    await page.getByRole("heading", { name: /^Masked accuracy (by|since)/ }).waitFor();
    const table = await chartTable(page);
    await table.locator("thead th:first-child", { hasText: head }).waitFor();
    const heads = await textsOf(table.locator("thead th"));
    const column = (word) => heads.findIndex((one, i) => i > 1 && one.toLowerCase().endsWith(word));
    assert.equal(column("step") > 0, choice !== "steps", `${choice}: ${heads}`);
    const rows = (await rowsOf(table)).filter((row) => row[1] !== show.kDash).slice(0, count);
    assert.equal(rows.length, count, choice);
    rows.forEach((row, i) => {
      near(figure(row[0]), placeOf(all[i]), 1e-5 * placeOf(all[i]) + 2e-3);
      near(figure(row[1]), all[i].value, 1e-6);
      assert.equal(figure(row[column("attempt")]), all[i].attempt, choice);
      if (choice !== "steps") assert.equal(figure(row[column("step")]), all[i].step, choice);
    });
  }
  assert.match(page.url(), /x=device_hours/);
  await page.reload();
  assert.ok(await page.getByRole("radio", { name: "GPU-hours" }).isChecked());
  await visitor.leave();
});

test("events lie on the curve, and keys lead through them", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  const { launches, attempts } = await seeded.ask(`runs/${id}/attempts`);
  const { checkpoints } = await seeded.ask(`runs/${id}/checkpoints`);
  const run = await seeded.ask(`runs/${id}`);
  const since = (iso) => (Date.parse(iso) - Date.parse(run.started_at)) / 1000;
  const lane = page.getByRole("toolbar", { name: "Events on the curve" });
  const lost = lane.getByRole("button", { name: /failed/ });
  await lost.waitFor();
  const ended = show.clock(since(launches[0].ended_at));
  assert.equal(await lost.getAttribute("aria-label"), `${ended}: failed`);
  const second = lane.getByRole("button", { name: /attempt 2/ });
  // Both in the place that the axis has for them.
  const boxes = await Promise.all([lane, lost, second].map((one) => one.boundingBox()));
  const [bar, one, two] = boxes;
  const whole = run.time_to_accuracy_seconds;
  const between = (two.x - one.x) / bar.width;
  const wanted = since(attempts[1].started_at) - since(launches[0].ended_at);
  near(between, wanted / (whole * 1.02), 0.02);
  assert.ok(one.width >= 24 && one.height >= 24);
  // And below the line that is drawn for it: the leftmost of what has its colour.
  const { left, width } = await visitor.waitForPixels(0, "warn", 20);
  const canvas = await page.locator("figure.chart canvas").boundingBox();
  near(canvas.x + ((left + 0.5) / width) * canvas.width, two.x + two.width / 2, 1.5);

  const buttons = await lane.getByRole("button").count();
  assert.equal(await lane.locator('[tabindex="0"]').count(), 1);
  await lane.locator('[tabindex="0"]').focus();
  await page.keyboard.press("End");
  await page.keyboard.press("ArrowRight"); // there is no further one
  assert.equal(await lane.getByRole("button").last().getAttribute("tabindex"), "0");
  await page.keyboard.press("Home");
  const index = (await lane.getByRole("button").evaluateAll((all) =>
    all.findIndex((button) => /failed/.test(button.ariaLabel ?? button.getAttribute("aria-label"))),
  ));
  assert.ok(index > 0 && index < buttons);
  for (let i = 0; i < index; i += 1) await page.keyboard.press("ArrowRight");
  await page.keyboard.press("Enter");
  const told = page.locator(".picked");
  await told.waitFor();
  assert.match(await told.innerText(), new RegExp(launches[0].what));
  await page.keyboard.press("Escape");
  await told.waitFor({ state: "detached" });
  assert.ok(page.url().includes(`/runs/${id}/time`), "Escape closes what is open, and no more");
  const focused = await page.evaluate(() => document.activeElement.getAttribute("aria-label"));
  assert.match(focused, /failed/);

  const written = checkpoints.filter((row) => row.status === "written").length;
  await page.getByRole("button", { name: `List the ${written + 2} events` }).click();
  const listed = page.getByRole("region", { name: "Events on the curve, table" });
  const rows = await rowsOf(listed.locator("table"));
  assert.equal(rows.length, written + 2);
  const failed = rows.find((row) => row[2].startsWith("failed"));
  near(figure(failed[0]), since(launches[0].ended_at), 0.01);
  assert.ok(rows.some((row) => /^attempt 2: gpu-016, gpu-017, from step \d+$/.test(row[2])));
  await visitor.leave();
});

test("time without training is shaded where the axis has time", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await visitor.sees("Shaded: ");
  const { time } = await seeded.ask(`runs/${id}/time_to_accuracy`);
  const { attempts } = await seeded.ask(`runs/${id}/attempts`);
  const run = await seeded.ask(`runs/${id}`);
  const queued = (Date.parse(attempts[0].started_at) - Date.parse(run.created_at)) / 1000;
  const first = (Date.parse(run.started_at) - Date.parse(attempts[0].started_at)) / 1000;
  const still = time.waiting_seconds - queued + time.starting_seconds - first;
  const label = plain(await page.locator(".plot [role=img]").getAttribute("aria-label"));
  assert.match(label, /shaded .* without training/);
  const [, minutes, seconds] = /shaded (\d+) min (\d+) s/.exec(label);
  // What lies between the attempts; the page takes the last step for the end of the first one.
  near(60 * Number(minutes) + Number(seconds), still, 0.1 * still);
  await page.getByRole("radio", { name: "samples" }).check();
  await visitor.seesNoMore("Shaded: ");
  await visitor.leave();
});

test("levels and predictions are those of the evaluations and the API", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  const table = page.getByRole("region", { name: "Time to each level, table" });
  await table.waitFor();
  const all = await evaluations();
  for (const [value, seconds, step] of await rowsOf(table)) {
    const level = Number(/^[\d.]+/.exec(value)[0]) / 100;
    const met = all.find((one) => one.value >= level - 1e-9);
    assert.equal(seconds, plain(show.duration(met.at_seconds)), value);
    assert.equal(step, String(met.step));
  }
  const answer = await seeded.ask(`runs/${id}/time_to_accuracy`);
  const known = answer.earlier_predictions;
  const whole = answer.time_to_accuracy_seconds;
  const turnedOut = page.getByRole("region", { name: "How predictions turned out, table" });
  const rows = await rowsOf(turnedOut);
  assert.ok(rows.length > 0);
  for (const [share, made, said, interval, outcome] of rows) {
    const one = known.find((row) => show.clock(row.made_at_seconds) === made);
    assert.equal(share, `${Math.round((100 * one.made_at_seconds) / whole)} %`);
    assert.equal(said, show.clock(one.seconds));
    assert.equal(interval, `${show.clock(one.low)} to ${show.clock(one.high)}`);
    assert.equal(outcome, one.low <= whole && whole <= one.high ? "held" : "did not hold");
  }
  const held = known.filter((one) => one.low <= whole && whole <= one.high).length;
  const here = rows.filter((row) => row[4] === "held").length;
  await visitor.sees(`Of these, ${here} of ${rows.length} held; of all, ${held} of ${known.length}`);
  await visitor.leave();
});

// All predictions of the seeded runs hold, so that the answer is changed on its way.
test("a prediction that missed, and one whose outcome is open, are told as such", async () => {
  const visitor = await arrive(`/runs/${id}/events`);
  const { page } = visitor;
  await page.route(/time_to_accuracy/, async (route) => {
    const response = await route.fetch();
    if (!response.ok()) return route.fulfill({ response });
    const body = await response.json();
    const made = (at, held) => ({ ...body.earlier_predictions[0], made_at_seconds: at, held });
    const whole = body.time_to_accuracy_seconds;
    const places = [made(0.05 * whole, false), made(0.2 * whole, null), made(whole, true)];
    body.earlier_predictions = places;
    return route.fulfill({ response, json: body });
  });
  await page.getByRole("link", { name: "Time", exact: true }).click();
  const turnedOut = page.getByRole("region", { name: "How predictions turned out, table" });
  await turnedOut.waitFor();
  const rows = await rowsOf(turnedOut);
  // The one at the crossing is twice as late as half of the time, and tells nothing of it.
  assert.deepEqual(rows.map((row) => [row[0], row[4]]), [
    ["5 %", "did not hold"],
    ["20 %", "not known yet"],
  ]);
  await visitor.sees("Of these, 0 of 1 held; of all, 1 of 2");
  await visitor.leave();
});

test("where the time went adds up to the whole, as the journal's rows do", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  const { time } = await seeded.ask(`runs/${id}/time_to_accuracy`);
  const { rows } = await seeded.ask(`runs/${id}/history?limit=10000`);
  const steps = rows.filter((row) => row.type === "step");
  const kept = steps.filter((row) => !row.abandoned);
  const secondsOf = (list, key) => sum(list.map((row) => row[key] ?? 0));
  const exposed = secondsOf(kept, "exposed_seconds");
  const saving = secondsOf(rows.filter((row) => row.type === "checkpoint"), "stall_seconds");
  const wanted = {
    waiting: time.waiting_seconds,
    starting: time.starting_seconds,
    training: secondsOf(kept, "step_seconds") - exposed,
    exposed,
    again: secondsOf(steps, "step_seconds") - secondsOf(kept, "step_seconds"),
    saving,
    other: time.other_seconds - saving,
  };
  assert.ok(wanted.again > 1, "the run has trained some steps twice");
  const section = page.locator("section.where");
  await section.locator('[data-part="exposed"]').waitFor();
  const shown = {};
  for (const row of await section.locator("tbody tr").all()) {
    const [, , seconds, share] = await textsOf(row.locator("th, td"));
    shown[await row.getAttribute("data-part")] = [figure(seconds), Number(share.replace(" %", ""))];
  }
  assert.deepEqual(Object.keys(shown), Object.keys(wanted));
  for (const [kind, seconds] of Object.entries(wanted)) near(shown[kind][0], seconds, 0.11);
  const tenths = (value) => Math.round(10 * value);
  const foot = await textsOf(section.locator("tfoot td"));
  assert.equal(sum(Object.values(shown).map((one) => tenths(one[0]))), tenths(figure(foot[1])));
  assert.equal(tenths(figure(foot[1])), tenths(time.whole_seconds));
  assert.equal(sum(Object.values(shown).map((one) => tenths(one[1]))), 1000);
  const widths = await section.locator("svg rect").evaluateAll((all) =>
    all.map((rect) => Number.parseFloat(rect.getAttribute("width"))),
  );
  near(sum(widths), 100, 0.001);
  await visitor.leave();
});

test("other curves are chosen by key and stay in the address; a lost one is told", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  const { runs } = await seeded.ask("runs?state=succeeded&limit=30");
  const other = runs.find((run) => run.id !== id && run.metric === "mlm_accuracy").id;
  await page.locator("summary", { hasText: "Beside it" }).focus();
  await page.keyboard.press("Enter");
  const pick = async (name) => {
    const box = page.getByRole("checkbox", { name });
    await box.waitFor();
    await box.focus();
    await page.keyboard.press("Space");
  };
  await pick(new RegExp(kReference));
  await page.waitForFunction((name) => location.hash.includes(`reference=${name}`), kReference);
  await pick(new RegExp(other));
  await page.waitForFunction((name) => location.hash.includes(`with=${name}`), other);
  await page.reload();
  const table = await chartTable(page);
  const columns = () => textsOf(table.locator("thead th"));
  await table.locator("th", { hasText: kReference }).waitFor();
  const names = await columns();
  assert.ok(names.includes(other));
  const rows = await rowsOf(table);
  const at = (name) => rows.filter((row) => row[names.indexOf(name)] !== show.kDash);
  assert.deepEqual(
    at(kReference).map((row) => [figure(row[0]), figure(row[names.indexOf(kReference)])]),
    kPoints.map(([seconds, , value]) => [seconds, Number(value.toPrecision(6))]),
  );
  assert.equal(at(other).length, (await evaluations(other)).filter((one) => !one.abandoned).length);
  const legend = page.locator(".time-legend");
  assert.equal(await legend.locator("li").count(), 3);
  assert.equal((await legend.locator("svg").first().boundingBox()).width, 30);
  const look = colours.lookOf(colours.slotsOf([id, other]).get(id));
  const line = legend.locator("svg line").first();
  assert.equal(await line.getAttribute("stroke-dasharray"), look.dash.join(" "));
  await page.getByRole("radio", { name: "GPU-hours" }).check();
  await visitor.sees(`Not drawn: ${kReference} has nothing on this axis`);
  const stale = `#/runs/${id}/time?with=gone-1,%25E0,${id}&reference=no`;
  await page.evaluate((hash) => void (location.hash = hash), stale);
  await visitor.sees("Not drawn: gone-1 is not known");
  await table.locator("th", { hasText: other }).first().waitFor({ state: "detached" });
  assert.ok(!(await columns()).includes(id), "it is not beside itself");
  await page.locator("figure.chart canvas").waitFor();
  await visitor.leave(/status of 40[04]/);
});

test("the script of the tab comes with the tab", async () => {
  const visitor = await arrive(`/runs/${id}/events`);
  const { page } = visitor;
  const scripts = () =>
    page.evaluate(() => performance.getEntriesByType("resource").map((one) => one.name).join(" "));
  await page.locator(".tabs [aria-current]").waitFor();
  await page.locator("section.events").waitFor();
  assert.doesNotMatch(await scripts(), /time_tab/);
  await page.getByRole("link", { name: "Time", exact: true }).click();
  await visitor.sees("Where the time went");
  assert.match(await scripts(), /time_tab/);
  await visitor.leave();
});

test("a run that trains has its predicted crossing, and its events as they come", async () => {
  const options = { viewport: { width: 390, height: 844 } };
  const visitor = await arrive(`/runs/${live.id}/events`, options);
  const { page } = visitor;
  // Its journal may have stood still for so long that nothing is predicted any more.
  await answers(page, new RegExp(`/runs/${live.id}$`), (run) => ({ ...run, silent_seconds: null }));
  await page.getByRole("link", { name: "Time", exact: true }).click();
  const metrics = await seeded.ask(`runs/${live.id}/metrics`);
  const { seconds, low, high } = metrics.prediction;
  const expected = page.locator(".expected");
  await expected.waitFor();
  const [said, text] = [show.clock(seconds), plain(await expected.innerText())];
  const band = `between ${show.clock(low)} and ${show.clock(high)} (80 %`;
  assert.ok(text.includes(`: ${said}, ${band}`), text);
  // Told after the controller has found the run, so that they are events.
  const now = Date.now() / 1000 - live.begin;
  live.say(now, { type: "warning", message: "straggler: rank 5 is 1.4 times as slow" });
  live.say(now + 0.1, { type: "warning", message: kHostile });
  live.say(now + 0.2, {
    ...{ type: "divergence", step: 61, quantity: "gradient", tensor: "x", rank: 0 },
    ...{ action: "rollback", checkpoint: "step-000000060", checkpoint_step: 60, rollbacks: 1 },
    ...{ skipped_steps: 1, message: "the loss is not finite; rolled back to step 60" },
  });
  const lane = page.getByRole("toolbar", { name: "Events on the curve" });
  const group = lane.getByRole("button", { name: /straggler, warning, rollback/ });
  await group.waitFor({ timeout: kPatience });
  assert.equal(await group.innerText(), "3");
  await group.click();
  const told = page.locator(".picked");
  await told.getByText("rank 5 is 1.4 times as slow").waitFor();
  const words = await told.innerText();
  assert.ok(words.includes("<img src=x onerror=alert(1)>red"), "as text, without escapes");
  assert.equal(await told.locator("img").count(), 0);
  await page.getByRole("button", { name: /^List the/ }).click();
  await page.locator(".data-table", { hasText: "onerror" }).waitFor();
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 390);
  await page.locator("summary", { hasText: "Beside it" }).click();
  const panel = await page.locator(".time-head .panel").boundingBox();
  assert.ok(panel.x >= 0 && panel.x + panel.width <= 390, JSON.stringify(panel));
  await visitor.keepPicture("time-narrow");
  await visitor.leave();
});

test("what is chosen beside the curve keeps its place and the focus; no answer is told", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await page.locator("figure.chart canvas").waitFor();
  await page.locator("summary", { hasText: "Beside it" }).click();
  const box = page.getByRole("checkbox", { name: new RegExp(kReference) });
  await box.focus();
  await page.keyboard.press("Space");
  await page.waitForFunction((name) => location.hash.includes(name), kReference);
  const focused = () => page.evaluate(() => document.activeElement.closest("label")?.innerText);
  assert.ok((await focused())?.includes(kReference), "the focus stays on the box");
  assert.ok(await box.isChecked());
  assert.equal(await box.count(), 1);
  await page.keyboard.press("Space");
  await page.waitForFunction((name) => !location.hash.includes(name), kReference);
  // All of the seeded ones have reached theirs.
  await answers(page, /\/runs\?/, ({ runs, ...rest }) => ({
    ...rest,
    runs: runs.map((run) => ({ ...run, time_to_accuracy_seconds: null })),
  }));
  await page.getByLabel("Earlier runs that have succeeded").fill("wiki");
  const label = page.locator(".choices label", { hasText: "wiki" }).first();
  await label.getByText("target not reached").waitFor();
  await page.unroute(/\/runs\?/);
  await page.route(/\/runs\?/, (route) =>
    route.fulfill({ status: 400, json: { detail: "text is too long" } }),
  );
  await page.getByLabel("Earlier runs that have succeeded").fill("longer");
  await page.getByText("No answer: text is too long").waitFor();
  await visitor.leave(/status of 400/);
});

test("hostile and long names of curves are cut where they are drawn, read out and saved", async () => {
  const bad = "\u202e=HYPERLINK(\u001b[31m1)\u0007" + "x".repeat(200);
  const clean = `=HYPERLINK(1)${"x".repeat(36)}…${"x".repeat(10)}`;
  const visitor = await arrive(`/runs/${id}/events`);
  const { page } = visitor;
  await answers(page, new RegExp(`/runs/${id}$`), (run) => ({ ...run, name: bad }));
  const beside = new URLSearchParams({ reference: encodeURIComponent(bad), with: "\u202enone" });
  await page.route(/\/references\/./, (route) =>
    route.fulfill({ json: { name: bad, threshold: 0.6, evaluations: kPoints } }),
  );
  await page.evaluate((to) => (location.hash = to), `#/runs/${id}/time?${beside}`);
  await page.locator("h1", { hasText: "=HYPERLINK" }).waitFor(); // of the next round
  await page.locator(".time-legend").waitFor();
  await page.getByText("Not drawn: none is not known.").waitFor();
  await page.locator("h1", { hasText: "HYPERLINK" }).waitFor(); // asked again, if it came before
  assert.equal(await page.locator("h1").innerText(), `=HYPERLINK(1)${"x".repeat(200)}`);
  const legend = await page.locator(".time-legend li").allTextContents();
  assert.equal(legend[0], clean);
  assert.equal(legend.at(-1), clean);
  const summary = await page.locator('figure.chart [role="img"]').getAttribute("aria-label");
  assert.ok(summary.includes(`beside it ${clean}`), summary);
  assert.ok((await page.locator(".readout").innerText()).includes(clean));
  assert.ok((await page.title()).includes(clean));
  await page.locator(".time-chart summary", { hasText: "Options" }).click();
  const [file] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Save as CSV" }).click(),
  ]);
  const head = readFileSync(await file.path(), "utf8").split("\r\n")[0].split(",");
  assert.equal(head[1], `'${clean}`);
  await visitor.leave(/status of 40[04]/);
});

test("the split of the steps is not told before it is known, and goes on after a resume", async () => {
  const { runs } = await seeded.ask("runs?state=failed&limit=100");
  const failed = runs.find((run) => run.value != null);
  const visitor = await arrive(`/runs/${failed.id}/events`);
  const { page } = visitor;
  let resumed = false;
  let asked = 0;
  let answer;
  const held = new Promise((done) => (answer = done));
  await page.route(/\/api\/v1\/metrics\?.*step_seconds/, async (route) => {
    asked += 1;
    await held;
    await route.continue();
  });
  const now = { state: "running", state_text: "training, step 5 of 10", error: null };
  await answers(page, new RegExp(`/runs/${failed.id}$`), (run) => (resumed ? { ...run, ...now } : run));
  await page.getByRole("link", { name: "Time", exact: true }).click();
  await visitor.sees("How the steps split is not known yet.");
  assert.equal(await page.getByText("No step of this run says").count(), 0);
  answer();
  await visitor.seesNoMore("How the steps split is not known yet.");
  await page.locator('[data-part="exposed"]').waitFor();
  assert.equal(asked, 1);
  resumed = true;
  await page.locator(".run-state .badge", { hasText: "running" }).waitFor();
  await page.waitForTimeout(1000);
  assert.equal(asked, 2, "a run that goes on is asked again");
  await visitor.leave();
});

test("the curve's events are asked for by kind, which no checkpoint is", async () => {
  const visitor = await arrive(`/runs/${id}/events`);
  const { page } = visitor;
  const asked = page.waitForRequest(/\/api\/v1\/events\?.*limit=1000/);
  await page.getByRole("link", { name: "Time", exact: true }).click();
  const kinds = new URL((await asked).url()).searchParams.get("kind").split(",");
  assert.ok(kinds.includes("attempt.warning") && kinds.includes("node.blamed"));
  assert.ok(!kinds.some((kind) => kind.startsWith("checkpoint")));
  await page.locator(".where").waitFor();
  await visitor.leave();
});

test("evaluations that were all trained again since are drawn, and no time is left to go", async () => {
  const { runs } = await seeded.ask("runs?state=failed&limit=100");
  const failed = runs.find((run) => run.value != null);
  const { time } = await seeded.ask(`runs/${failed.id}/time_to_accuracy`);
  const wait = (Date.parse(failed.started_at) - Date.parse(failed.created_at)) / 1000;
  const elapsed = time.whole_seconds - wait; // a prediction counts from the first step
  assert.ok(wait > 0.1 * time.whole_seconds, `${wait} of ${time.whole_seconds}`);
  const visitor = await arrive(`/runs/${failed.id}/events`);
  const { page } = visitor;
  await answers(page, /\/api\/v1\/metrics\?.*series=metric/, (body) => {
    const [run] = body.runs;
    for (const bucket of run.evaluations.buckets) bucket.abandoned = true;
    return body;
  });
  const made = { seconds: 900, low: 800, high: 1000, model: "own curve", held: null };
  await answers(page, /time_to_accuracy/, (body) => ({
    ...body,
    earlier_predictions: [{ ...made, made_at_seconds: 0.2 * elapsed }],
  }));
  await page.getByRole("link", { name: "Time", exact: true }).click();
  await page.locator("figure.chart canvas").waitFor();
  assert.equal(await page.getByText("there is no curve").count(), 0);
  const turnedOut = page.getByRole("region", { name: "How predictions turned out, table" });
  await turnedOut.waitFor();
  assert.equal((await rowsOf(turnedOut))[0][0], "20 %");
  await visitor.leave();
});

test("a mark keeps the focus and stays open when it joins the one before", async () => {
  const visitor = await arrive(`/runs/${id}/time`, { viewport: { width: 1400, height: 900 } });
  const { page } = visitor;
  const lane = page.getByRole("toolbar", { name: "Events on the curve" });
  await lane.getByRole("button").nth(2).waitFor();
  const count = await lane.getByRole("button").count();
  const second = lane.getByRole("button").nth(1);
  const name = await second.getAttribute("aria-label");
  await second.focus();
  await page.keyboard.press("Enter");
  const told = page.locator(".picked li");
  await told.first().waitFor();
  const before = await told.count();
  await page.setViewportSize({ width: 390, height: 844 });
  await page.waitForFunction(
    (most) => document.querySelectorAll(".lane button").length < most,
    count,
  );
  await page.waitForTimeout(300);
  assert.equal(await lane.getByRole("button", { name, exact: true }).count(), 0, "it has joined");
  assert.ok(await page.evaluate(() => document.activeElement.closest(".lane") != null));
  assert.ok((await told.count()) > before);
  await visitor.leave();
});

test("a run that is laid beside and trains on is drawn as far as it has come", async () => {
  const visitor = await arrive(`/runs/${id}/time?with=${live.id}`);
  const { page } = visitor;
  const table = await chartTable(page);
  await table.locator("th", { hasText: live.id }).first().waitFor();
  const column = (await textsOf(table.locator("thead th"))).indexOf(live.id);
  const points = async () =>
    (await rowsOf(table)).filter((row) => row[column] !== show.kDash).length;
  const before = await points();
  live.train(live.step + 40);
  const end = Date.now() + kPatience;
  while ((await points()) < before + 2) {
    assert.ok(Date.now() < end, `${before} points stay`);
    await page.waitForTimeout(500);
  }
  await visitor.leave();
});
