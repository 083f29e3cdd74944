// Time to accuracy: what is computed, and the tab over a real controller.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { after, before, test as plain } from "node:test";
import { fileURLToPath } from "node:url";
import { Seeded, missingController, seededTest } from "./seeded.mjs";
import { Visitor, launch } from "./setup.mjs";

const web = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "web");
const { build } = createRequire(join(web, "package.json"))("esbuild");
const bundle = await build({
  absWorkingDir: web,
  entryPoints: ["src/time/time_figures.ts"],
  bundle: true,
  write: false,
  format: "esm",
});
const figures = await import(`data:text/javascript,${encodeURIComponent(bundle.outputFiles[0].text)}`);

const skip = missingController();
const test = seededTest(skip);
let seeded, browser, retried;
before(async () => {
  if (skip) return;
  seeded = await new Seeded({ runs: 60 }).start();
  const { runs } = await seeded.ask("runs?state=succeeded&limit=1000");
  retried = runs.find((run) => run.attempts === 2 && run.time_to_accuracy_seconds != null);
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await seeded?.stop();
});
const arrive = (place, options = {}) => Visitor.arrive(browser, seeded.link(place), options);
const flat = (text) => text.replace(/\s+/g, " ").trim();

plain("the parts of the time add up to the whole, and what no part tells is one", () => {
  const time = {
    whole_seconds: 1000,
    waiting_seconds: 100,
    starting_seconds: 20,
    training_seconds: 600,
    other_seconds: null,
  };
  const shares = figures.sharesOf(time);
  assert.deepEqual(shares.map((one) => one.kind), ["waiting", "starting", "training", "unknown"]);
  assert.equal(shares.reduce((sum, one) => sum + one.seconds, 0), 1000);
  assert.ok(Math.abs(shares.reduce((sum, one) => sum + one.share, 0) - 1) < 1e-12);
  const told = figures.sharesOf({ ...time, other_seconds: 280 });
  assert.deepEqual(told.map((one) => one.seconds), [100, 20, 600, 280]);
  assert.deepEqual(figures.sharesOf({ ...time, whole_seconds: null }), []);
});

plain("curves of other places share an axis, each with gaps where it has no point", () => {
  const [places, one, other] = figures.aligned([
    [[1, 10], [3, 30]],
    [[2, 20], [3, 33]],
  ]);
  assert.deepEqual(places, [1, 2, 3]);
  assert.deepEqual(one, [10, null, 30]);
  assert.deepEqual(other, [null, 20, 33]);
});

plain("a step lies between the evaluations around it", () => {
  const bucket = (to_step, to, abandoned = false) => ({ to_step, to, abandoned });
  const series = { buckets: [bucket(15, 999, true), bucket(10, 100), bucket(20, 300)] };
  assert.equal(figures.placeOfStep(series, 10), 100);
  assert.equal(figures.placeOfStep(series, 15), 200);
  assert.equal(figures.placeOfStep(series, 5), 50);
  assert.equal(figures.placeOfStep(series, 21), null);
  assert.equal(figures.placeOfStep(undefined, 1), null);
});

plain("marks that lie on each other stand together", () => {
  const mark = (x) => ({ x });
  const groups = figures.clusters([0, 1, 2, 10, 11, 30].map(mark), 3);
  assert.deepEqual(groups.map((group) => group.map((one) => one.x)), [[0, 1, 2], [10, 11], [30]]);
});

plain("events lie on the clock of the axis, or at their step", () => {
  const run = { created_at: "2026-11-27T10:00:00Z", started_at: "2026-11-27T10:01:00Z" };
  const event = { kind: "node.blamed", at: "2026-11-27T10:02:30Z", step: 5, node: "n1", words: "x" };
  const series = { buckets: [{ to_step: 10, to: 640, abandoned: false }] };
  const place = (axis) => figures.marksOf([event], run, axis, series)[0]?.x;
  assert.equal(place("wall"), 90);
  assert.equal(place("wall_since_submission"), 150);
  assert.equal(place("samples"), 320);
  assert.equal(figures.marksOf([{ ...event, step: null }], run, "step", series).length, 0);
  assert.equal(figures.marksOf([{ ...event, kind: "run.labelled" }], run, "wall", series).length, 0);
});

plain("levels are round and hold the target", () => {
  assert.deepEqual(figures.thresholds("f1", 0.71, 0.7, 0.05), [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]);
  assert.deepEqual(figures.thresholds("mlm_accuracy", 0.098, 0.0981, 0.049), [
    0.05, 0.06, 0.07, 0.08, 0.09, 0.0981,
  ]);
  assert.deepEqual(figures.thresholds("mlm_loss", 2.5, 2.4, null), [2.4]);
  assert.deepEqual(figures.thresholds("f1", null, null, null), []);
});

plain("predictions are those nearest to 5, 20 and 50 % of the way", () => {
  const made = [2, 6, 11, 21, 43, 80].map((made_at_seconds) => ({ made_at_seconds }));
  const found = figures.tellingPredictions(made, 100);
  assert.deepEqual(found.map((one) => one.made.made_at_seconds), [6, 21, 43]);
  assert.deepEqual(figures.tellingPredictions([{ made_at_seconds: 90 }], 100), [
    { share: 0.9, made: { made_at_seconds: 90 } },
  ]);
  assert.deepEqual(figures.tellingPredictions(made, null), []);
});

test("levels, parts and predictions are what the API says", async () => {
  const visitor = await arrive(`/runs/${retried.id}/time`);
  const { page } = visitor;
  await visitor.sees("Where the time went");
  const levels = page.getByRole("region", { name: "Time to each level, table" });
  const shown = (await levels.locator("tbody tr").allInnerTexts()).map(flat);
  const asked = shown.map((row) => Number.parseFloat(row) / 100);
  const told = await seeded.ask(`runs/${retried.id}/time_to_accuracy?thresholds=${asked.join(",")}`);
  assert.equal(told.reached.length, shown.length);
  told.reached.forEach(({ step }, i) => assert.ok(shown[i].endsWith(` ${step}`), `${step}: ${shown[i]}`));
  assert.ok(shown.some((row) => row.includes("target")));
  const parts = page.locator(".where tbody tr");
  const kinds = (await parts.locator("td:first-child").allInnerTexts()).map(flat);
  assert.deepEqual(kinds.map((kind) => kind.split(" ")[0]), ["Waiting", "Starting", "Training", "Other"]);
  const widths = await page.locator(".where-bar rect").evaluateAll((all) =>
    all.map((one) => Number.parseFloat(one.getAttribute("width"))),
  );
  const { time } = told;
  const names = ["waiting_seconds", "starting_seconds", "training_seconds", "other_seconds"];
  names.forEach((name, i) => {
    assert.ok(Math.abs(widths[i] - (100 * time[name]) / time.whole_seconds) < 0.01, name);
  });
  assert.ok(Math.abs(widths.reduce((sum, one) => sum + one, 0) - 100) < 0.02);
  assert.match(flat(await page.locator(".where tfoot").innerText()), /100\.0.%$/);
  await visitor.leave();
});

test("each clock has the curve that the API has for it", async () => {
  const visitor = await arrive(`/runs/${retried.id}/time`);
  const { page } = visitor;
  const query = `runs=${retried.id}&series=metric&buckets=500`;
  for (const [axis, name] of [
    ["wall", "since the first step"],
    ["wall_since_submission", "since submission"],
    ["device_hours", "GPU-hours"],
    ["samples", "samples"],
    ["step", "steps"],
  ]) {
    await page.getByRole("radio", { name, exact: true }).check();
    await page.getByRole("button", { name: /^Table: Masked accuracy/ }).click();
    const { runs } = await seeded.ask(`metrics?${query}&x=${axis}`);
    const { buckets } = runs[0].evaluations;
    const rows = page.locator(".data-table tbody tr");
    await rows.first().waitFor();
    assert.equal(await rows.count(), buckets.length, axis);
    const last = flat(await rows.last().innerText()).split(" ")[0].replaceAll(",", "");
    const to = buckets.at(-1).to;
    assert.ok(Math.abs(Number(last) - to) <= 1e-4 * to + 1e-5, `${axis}: ${last} for ${to}`);
    await page.getByRole("button", { name: /^Table: Masked accuracy/ }).click();
  }
  assert.match(page.url(), /x=step/);
  await page.reload();
  await visitor.sees("Masked accuracy by steps");
  await visitor.leave();
});

test("other runs and published results lie beside it, and stay", async () => {
  const reference = {
    name: "them <b>bold</b>",
    threshold: 0.72,
    submitter: "Them",
    chips: 8,
    evaluations: [[60, 25_600, 0.3], [600, 256_000, 0.6], [1200, 512_000, 0.725]],
  };
  await seeded.ask("references", { method: "POST", body: reference });
  const { runs } = await seeded.ask("runs?state=succeeded&limit=30");
  const other = runs.find((run) => run.id !== retried.id);
  const visitor = await arrive(`/runs/${retried.id}/time`);
  const { page } = visitor;
  await page.locator("summary", { hasText: "Beside it" }).click();
  await page.getByRole("checkbox", { name: new RegExp(other.id.slice(-10)) }).check();
  await page.getByRole("checkbox", { name: /them <b>bold/ }).check();
  await page.keyboard.press("Escape");
  const summary = page.locator("figure.chart [role=img]").first();
  await page.waitForFunction(
    () => /beside it .*, them <b>bold/.test(document.querySelector("figure.chart [role=img]").ariaLabel),
  );
  assert.ok((await summary.getAttribute("aria-label")).includes(other.id));
  await page.reload();
  await page.locator("summary", { hasText: "Beside it: 2" }).waitFor();
  await page.getByRole("button", { name: /^Table: Masked accuracy/ }).click();
  const head = await page.locator(".data-table thead th").allInnerTexts();
  assert.deepEqual(head.slice(2).map(flat), [other.id, "them <b>bold</b>"]);
  await page.getByRole("radio", { name: "GPU-hours" }).check();
  await visitor.sees("One curve has nothing on this axis.");
  await visitor.leave();
});

test("down time is shaded and events are listed", async () => {
  const visitor = await arrive(`/runs/${retried.id}/time?x=wall_since_submission`);
  const { page } = visitor;
  await visitor.sees(/Shaded: .*requeued/);
  await page.getByRole("button", { name: /^List the/ }).click();
  const { events } = await seeded.ask(`events?run=${retried.id}&limit=1000`);
  const rows = (await page.locator(".time-part .data-table tbody tr").allInnerTexts()).map(flat);
  assert.ok(rows.length > 0 && rows.length <= events.length);
  await visitor.leave();
});
