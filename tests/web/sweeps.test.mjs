// Sweeps: the list, one of them as a drawing and as tables, its stop, and what each says while
// something is missing, conditional, failed or hostile.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { Inspection, assertPlain, kLooks } from "./axe.mjs";
import { kHostile, standardRuns } from "./fixture.mjs";
import { Visitor, launch, missingBrowser, pageTestWith } from "./setup.mjs";
import { sourcesOf } from "./sources.mjs";
import { ashaTrials, makeSweep, makeSweeps, makeTrial, manySweeps, parameter } from "./sweeps.mjs";

const page = await sourcesOf(`
  export * from "./src/sweeps/axes";
  export * from "./src/sweeps/layout";
  export * from "./src/sweeps/objective";
  export * from "./src/sweeps/trials";
  export { parseRoute } from "./src/base/route";
`);
const kSweep = "lr-sweep-4f2a91";
const axisOf = (axes, key) => axes.find((axis) => axis.key === key);
const numbersOf = (trials) => trials.map(({ number }) => number);

test("a log axis, choices and a lane for what is not active", () => {
  const sweep = makeSweep(kSweep);
  const axes = page.axesOf(sweep);
  assert.deepEqual(
    axes.map(({ key, scale, lane }) => [key, scale, lane]),
    [
      ["optimizer.learning_rate", "log", null],
      ["batch.size", "log", null],
      ["optimizer.name", "choice", null],
      ["optimizer.beta2", "linear", "not active"],
      ["optimizer.weight_decay", "linear", null],
      ["", "linear", "no result"],
    ],
  );
  const trial = makeTrial(1, {
    values: { "optimizer.learning_rate": 10 ** -3.5, "optimizer.name": "lamb" },
  });
  const place = (key) => page.placeOf(axisOf(axes, key), trial);
  assert.ok(Math.abs(place("optimizer.learning_rate") - 0.5) < 1e-9);
  assert.equal(place("optimizer.name"), 0.5);
  assert.equal(place("optimizer.beta2"), page.kLane);
  assert.equal(place(""), page.kLane);
  const [rate] = axes;
  assert.deepEqual(rate.marks.map(({ text }) => text).slice(0, 2), ["1e-5", "0.01"]);
});

test("the best is at the top, whichever way is better, and a failed trial has no result", () => {
  const trials = [0.5, 0.1, 0.3].map((objective, i) => makeTrial(i + 1, { objective }));
  trials.push(makeTrial(4, { objective: 0.01, state: "failed" }));
  for (const [direction, best] of [["minimize", 2], ["maximize", 1]]) {
    const objective = { kind: "metric", metric: "mlm_loss", direction };
    const axis = axisOf(page.axesOf(makeSweep(kSweep, { trials, objective })), "");
    const places = trials.map((trial) => page.placeOf(axis, trial));
    assert.equal(places.indexOf(1), best - 1);
    assert.equal(places[3], page.kLane);
    const shades = page.shadesOf(axis, trials);
    assert.equal(shades.get(best), page.kShades - 1);
    assert.deepEqual([...shades.keys()].sort(), [1, 2, 3]);
  }
});

test("one that went wild leaves the others their colours and their room", () => {
  const objective = { kind: "metric", metric: "mlm_loss", direction: "minimize" };
  const values = [2.7, 2.9, 156, 2.8, 3.1, 3, 2.6, 3.2, 4, 3.3, 3.4, 3.5];
  const trials = values.map((value, i) => makeTrial(i + 1, { objective: value }));
  const shades = page.shadesOf(axisOf(page.axesOf(makeSweep(kSweep, { trials, objective })), ""), trials);
  const counts = Array.from({ length: page.kShades }, (_, shade) =>
    [...shades.values()].filter((one) => one === shade).length);
  assert.deepEqual(counts, [2, 2, 2, 2, 2, 2]);
  assert.equal(shades.get(3), 0);
  assert.equal(shades.get(7), page.kShades - 1);
  assert.deepEqual(page.rangeOf(objective, values), [2.6, 3.4]);
  assert.deepEqual(page.rangeOf({ ...objective, direction: "maximize" }, [-90, 1, 2, 3]), [1, 3]);
  assert.equal(page.rangeOf(objective, []), null);
});

test("the best so far is a step at each trial that is better", () => {
  const objective = { kind: "time_to_accuracy", metric: null, direction: "minimize" };
  const values = [null, 9, 12, 7, null, 8];
  const trials = values.map((value, i) => makeTrial(i + 1, { objective: value })).reverse();
  const steps = page.bestSoFar(objective, trials);
  assert.deepEqual(steps.map(({ best }) => best), [null, 9, 9, 7, 7, 7]);
  assert.deepEqual(steps.map(({ bestTrial }) => bestTrial), [null, 2, 2, 4, 4, 4]);
});

test("rungs count results and promotions, and failed trials in none", () => {
  const sweep = makeSweep(kSweep);
  const rungs = page.rungsOf(sweep.objective, sweep.rungs, sweep.trials);
  const told = rungs.map(({ budget, results, running, promoted }) => [budget, results, running, promoted]);
  assert.deepEqual(told, [
    [100, 9, 2, 3],
    [300, 2, 1, 1],
    [900, 1, 0, null],
  ]);
  assert.equal(rungs[2].best.trial, 3);
});

test("a brush keeps what lies in it, lanes and choices too", () => {
  const sweep = makeSweep(kSweep);
  const axes = page.axesOf(sweep);
  const passing = (key, low, high) => {
    const brushes = new Map([[key, page.brushOf(axisOf(axes, key), low, high)]]);
    return numbersOf(sweep.trials.filter((trial) => page.passes(axes, brushes, trial)));
  };
  const named = (name) =>
    numbersOf(sweep.trials.filter(({ values }) => values["optimizer.name"] === name));
  assert.deepEqual(passing("optimizer.name", 0, 1 / 3), named("adamw"));
  assert.deepEqual(passing("optimizer.beta2", 0, 1), named("adamw"));
  assert.equal(passing("optimizer.beta2", -1, -0.1).length, 12 - named("adamw").length);
  assert.equal(page.brushOf(axes[0], 1.4, -0.2), null); // all of it
  const choice = axisOf(axes, "optimizer.name");
  const brush = page.brushOf(choice, 1 / 3, 1);
  assert.equal(page.brushText(choice, brush), "optimizer.name: lamb to sgd");
  assert.equal(page.movedEnd(choice, "low", 0, 1), 1 / 3);
  const beta = axisOf(axes, "optimizer.beta2");
  assert.ok(page.movedEnd(beta, "low", 0, -1) < page.kLane);
  assert.ok(page.movedEnd(beta, "high", 0, -1) > page.kLane);
  assert.equal(page.movedEnd(beta, "low", page.kLane, 1), 0);
  assert.equal(page.brushText(beta, page.brushOf(beta, -1, -0.1)), "optimizer.beta2: not active");
});

test("odd spaces have axes all the same", () => {
  const parameters = [
    { key: "one", kind: "uniform", low: 2, high: 2 },
    { key: "none", kind: "choice", choices: [] },
    { key: "flag", kind: "choice", choices: [true, false] },
    { key: "below", kind: "uniform", low: -3, high: 0, log: true },
  ].map(parameter);
  const values = { one: 2, none: "gone", flag: false, below: -1 };
  const trials = [makeTrial(1, { values, objective: 1e30 }), makeTrial(2, { values, objective: 1e-3 })];
  const axes = page.axesOf(makeSweep(kSweep, { parameters, trials }));
  const places = axes.map((axis) => page.placeOf(axis, trials[0]));
  assert.deepEqual(places.slice(0, 3), [0.5, page.kLane, 0.75]);
  assert.ok(places.every(Number.isFinite));
  assert.deepEqual(axes.map(({ scale }) => scale), ["linear", "choice", "choice", "linear", "log"]);
});

test("trials are sorted either way, those without a value last", () => {
  const trials = [3, null, 10, 1].map((objective, i) =>
    makeTrial(i + 1, { objective, values: { name: `v${[10, 9, 2, 1][i]}` } }),
  );
  assert.deepEqual(numbersOf(page.sorted(trials, "objective", false)), [4, 1, 3, 2]);
  assert.deepEqual(numbersOf(page.sorted(trials, "objective", true)), [3, 1, 4, 2]);
  assert.deepEqual(numbersOf(page.sorted(trials, "value.name", false)), [4, 3, 2, 1]);
  assert.deepEqual(numbersOf(page.sorted(trials, "value.absent", false)), [1, 2, 3, 4]);
});

test("the nearest line is found, and none out of reach", () => {
  const lines = [{ points: [[0, 0], [100, 0]] }, { points: [[0, 50], [100, 90]] }];
  assert.equal(page.nearest(lines, [50, 10], 24), lines[0]);
  assert.equal(page.nearest(lines, [50, 60], 24), lines[1]);
  assert.equal(page.nearest(lines, [50, 36], 24), null);
  assert.equal(page.layoutOf(1300, 6, true).isRows, false);
  assert.equal(page.layoutOf(330, 6, true).isRows, true);
});

test("figures of a space are short and tell trials apart", () => {
  const told = [512, 3.14159e-4, 0.25, 12_345.678, 1_048_576, 1e-5].map(page.figureText);
  assert.deepEqual(told, ["512", "3.142e-4", "0.25", "12350", "1,048,576", "1e-5"]);
  assert.deepEqual(page.parseRoute("#/sweeps/a%2Fb").id, "a/b");
  assert.equal(page.parseRoute("#/sweeps/%").page, "none");
});

const skip = missingBrowser() ?? false;
let browser;
before(async () => {
  if (!skip) browser = await launch();
});
after(() => browser?.close());
const withPage = pageTestWith({ skip });

// A test over these sweeps, at a place of the page.
function sweepTest(name, place, sweeps, body, options = {}) {
  withPage(name, standardRuns, async (fixture) => {
    fixture.sweeps = sweeps();
    const visitor = await Visitor.arrive(browser, `${fixture.url}${place}`, options);
    await body({ fixture, visitor, page: visitor.page });
  });
}
const hash = (shown) => new URL(shown.url()).hash;
const isAt = (shown, wanted) => shown.waitForFunction((place) => location.hash === place, wanted);
const rows = (shown) => shown.locator("table.trials tbody tr");
const drawing = (shown) => shown.getByRole("application", { name: /^Trials by/ });
const one = `#/sweeps/${kSweep}`;

sweepTest("the list says state, objective, progress and the best with its run", "#/sweeps", makeSweeps,
  async ({ visitor, page: shown }) => {
    await visitor.sees("4 of 4 shown");
    const [first, , still] = await shown.locator("table.sweeps tbody tr").allInnerTexts();
    for (const word of ["lr-sweep", "running", "ASHA", "Masked accuracy", "higher is better", "12 / 27",
      "3 running, 1 failed", "63.42", "trial 9", "uid 1000"]) assert.ok(first.includes(word), word);
    assert.match(still, /running[\s\S]*the disk is full[\s\S]*lower is better/);
    assert.equal(await shown.locator(".places [aria-current]").innerText(), "Sweeps");
    await shown.getByRole("combobox", { name: "State" }).selectOption("stopped");
    await visitor.sees("1 of 1 shown");
    assert.equal(hash(shown), "#/sweeps?state=stopped");
    await shown.reload();
    await visitor.sees("1 of 1 shown");
    await shown.getByRole("combobox", { name: "State" }).selectOption("");
    await shown.getByRole("link", { name: /run lr-sweep-000009/ }).first().click();
    await isAt(shown, "#/runs/lr-sweep-000009");
    await shown.goto(`${shown.url().split("#")[0]}#/sweeps?state=odd`);
    await visitor.sees("state is 'odd'");
    await visitor.leave(/status of 40[04]/);
  });

sweepTest("files that are damaged are told above the list", "#/sweeps", makeSweeps,
  async ({ fixture, visitor, page: shown }) => {
    await visitor.sees("4 of 4 shown");
    assert.equal(await shown.locator(".notice").count(), 0);
    fixture.leftOut = [`bad-1.json is left out: it is damaged${kHostile}\u001b[31m`];
    const notice = shown.locator(".notice");
    await notice.waitFor();
    assert.match(await notice.innerText(), /^bad-1\.json is left out: it is damaged/);
    assert.doesNotMatch(await notice.innerText(), /\u001b/);
    assert.equal(await shown.evaluate(() => window.stolen), undefined);
    fixture.leftOut = [];
    await notice.waitFor({ state: "detached" });
  });

sweepTest("pages of the list are the server's; keys go through it and back", "#/sweeps",
  () => manySweeps(60), async ({ visitor, page: shown }) => {
    await visitor.sees("50 of 60 shown");
    await shown.getByRole("button", { name: "Next" }).click();
    await visitor.sees("10 of 60 shown");
    assert.equal(hash(shown), "#/sweeps?after=50");
    await shown.keyboard.press("j");
    await shown.keyboard.press("j");
    await shown.keyboard.press("Enter");
    await isAt(shown, "#/sweeps/many-000051");
    await rows(shown).first().waitFor();
    await shown.keyboard.press("Escape");
    await isAt(shown, "#/sweeps");
    await visitor.leave();
  });

sweepTest("an empty list says how a sweep begins", "#/sweeps", () => [], async ({ visitor, page: shown }) => {
  await visitor.sees("regatta sweep submit FILE");
  await shown.keyboard.press("g");
  await shown.keyboard.press("r");
  await isAt(shown, "#/");
  await shown.keyboard.press("g");
  await shown.keyboard.press("w");
  await isAt(shown, "#/sweeps");
  await visitor.leave();
});

sweepTest("a sweep shows its best, rungs, and why trials failed or wait", one, makeSweeps,
  async ({ visitor, page: shown }) => {
    await visitor.sees("Best Masked accuracy so far");
    assert.match(await shown.locator(".headline").innerText(), /63.42[\s\S]*[Tt]rial 9 of 12 tried, lr-sweep-000009/);
    assert.match(await shown.title(), /^63\.42/);
    const rungs = await shown.locator("table.rungs tbody tr").allInnerTexts();
    assert.match(rungs[0].replace(/\s+/g, " "), /1 100 steps 9 2 3 63.42 %, trial 9/);
    assert.match(await rows(shown).filter({ hasText: "failed" }).innerText(), /out of memory on gpu-017/);
    await visitor.sees("run queued: waits for a free place");
    assert.equal(await shown.locator(".trial-line").count(), 12);
    assert.equal(await shown.locator(".trial-line.failed.no-result").count(), 1);
    const lanes = await shown.locator(".axis text").allTextContents();
    assert.ok(lanes.includes("not active") && lanes.includes("no result"));
    await visitor.waitForPixels(0, "accent", 200); // the best so far
    await shown.getByText("Search space and run file").click();
    await visitor.sees("optimizer.name is adamw");
    await rows(shown).first().getByRole("link").click();
    await isAt(shown, "#/runs/lr-sweep-000009");
    await visitor.leave(/status of 404/);
  });

sweepTest("a drag along an axis filters drawing and table", one, makeSweeps,
  async ({ visitor, page: shown }) => {
    await rows(shown).first().waitFor();
    const grip = await shown.locator('.grip[data-axis="optimizer.name"]').boundingBox();
    const x = grip.x + grip.width / 2;
    await shown.mouse.move(x, grip.y + grip.height - 2);
    await shown.mouse.down();
    await shown.mouse.move(x, grip.y + grip.height * 0.68, { steps: 4 });
    await shown.mouse.up();
    await visitor.sees("4 of 12 trials pass");
    const names = await rows(shown).locator('td[data-name="optimizer.name"]').allInnerTexts();
    assert.deepEqual(names, Array(4).fill("adamw"));
    assert.equal(await shown.locator(".trial-line.out").count(), 8);
    await shown.getByRole("button", { name: "Remove the filter optimizer.name: adamw" }).click();
    await visitor.seesNoMore("trials pass");
    assert.equal(await rows(shown).count(), 12);
    const end = (name) => shown.getByRole("slider", { name: `optimizer.beta2, ${name} end` });
    const says = (name, text) =>
      shown.locator(`[aria-label="optimizer.beta2, ${name} end"][aria-valuetext="${text}"]`).waitFor();
    await end("upper").press("Home"); // only the lane
    await says("upper", "not active");
    await visitor.sees("8 of 12 trials pass");
    await end("upper").press("End");
    await visitor.seesNoMore("trials pass");
    await end("lower").press("ArrowUp");
    await says("lower", "0.9");
    const lower = end("lower");
    await visitor.sees("4 of 12 trials pass");
    await lower.press("Escape");
    await visitor.seesNoMore("trials pass");
    assert.equal(hash(shown), one); // Escape took the filter, and did not leave
    await visitor.leave();
  });

sweepTest("trials are picked by pointer and by keys", one, makeSweeps, async ({ visitor, page: shown }) => {
  await drawing(shown).focus();
  await shown.keyboard.press("ArrowRight");
  const picked = shown.locator(".picked-trial");
  await picked.getByText(/^Trial 9, rank 1, running: Masked accuracy 63.42/).waitFor();
  await shown.keyboard.press("ArrowRight");
  await picked.getByText(/^Trial 7, rank 2/).waitFor();
  assert.equal(await shown.locator(".trial-line.marked").count(), 1);
  assert.equal(await shown.locator("tr.picked th").innerText(), "7");
  await shown.keyboard.press("End");
  await picked.getByText(/^Trial 12, running/).waitFor();
  await shown.keyboard.press("Escape");
  await picked.getByText("Point at a line").waitFor();
  const place = await shown.locator(".trial-line").last().evaluate((line) => {
    const at = line.getPointAtLength(line.getTotalLength() * 0.5);
    const frame = line.ownerSVGElement.getBoundingClientRect();
    return [frame.left + at.x, frame.top + at.y];
  });
  await shown.mouse.move(...place);
  await shown.locator(".trial-line.marked").waitFor({ state: "attached" });
  await shown.mouse.move(5, 5);
  await shown.locator(".trial-line.marked").waitFor({ state: "detached" });
  await shown.mouse.click(...place);
  await shown.mouse.move(5, 5);
  await shown.locator(".trial-line.marked").waitFor({ state: "attached" });
  await drawing(shown).focus();
  await shown.keyboard.press("Home");
  await shown.keyboard.press("Enter");
  await isAt(shown, "#/runs/lr-sweep-000009");
  await visitor.leave(/status of 404/);
});

sweepTest("the table sorts by any column, and what is selected is compared", one, makeSweeps,
  async ({ visitor, page: shown }) => {
    await rows(shown).first().waitFor();
    const begins = (trial) =>
      shown.waitForFunction(
        (text) => document.querySelector("table.trials tbody th").innerText === text,
        trial,
      );
    await begins("9");
    await shown.getByRole("button", { name: "batch.size" }).click();
    await begins("1");
    await shown.getByRole("button", { name: "batch.size" }).click();
    await isAt(shown, `${one}?order=descending&sort=value.batch.size`);
    await begins("4");
    assert.equal(await shown.locator('th[aria-sort="descending"]').innerText(), "batch.size ↓");
    await shown.keyboard.press("j");
    await shown.keyboard.press("x");
    await visitor.sees("1 selected");
    await shown.keyboard.press("c");
    await visitor.sees("Select 2 to 10 runs to compare");
    await shown.getByLabel("Select trial 9", { exact: true }).check();
    await shown.getByRole("button", { name: "Compare their runs" }).click();
    await isAt(shown, "#/compare?runs=lr-sweep-000004%2Clr-sweep-000009");
    await visitor.leave(/status of 404/);
  });

sweepTest("the trials are a CSV file as well", one, makeSweeps, async ({ visitor, page: shown }) => {
  const button = shown.getByRole("button", { name: "Download CSV of all trials" });
  const [file] = await Promise.all([shown.waitForEvent("download"), button.click()]);
  assert.equal(file.suggestedFilename(), `${kSweep}-trials.csv`);
  assert.equal(readFileSync(await file.path(), "utf8").split("\n").length, 13);
  await visitor.leave();
});

sweepTest("a stop is asked once more, sent once, and told", one, makeSweeps,
  async ({ fixture, visitor, page: shown }) => {
    const stops = () => fixture.count("POST", `/api/v1/sweeps/${kSweep}/stop`);
    await shown.getByRole("button", { name: "Stop sweep" }).click();
    const dialog = shown.getByRole("dialog", { name: "Stop lr-sweep?" });
    await dialog.getByRole("button", { name: "Leave it" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.equal(stops(), 0);
    fixture.refusal = "the sweep is over";
    await shown.getByRole("button", { name: "Stop sweep" }).click();
    const press = dialog.getByRole("button", { name: "Stop the sweep" });
    await press.click();
    await dialog.getByText("Not stopped: the sweep is over").waitFor();
    fixture.refusal = null;
    await press.dblclick();
    await dialog.waitFor({ state: "detached" });
    await shown.locator(".run-state").getByText("stopped").waitFor();
    assert.equal(await shown.getByRole("button", { name: "Stop sweep" }).count(), 0);
    assert.equal(await shown.evaluate(() => document.activeElement.tagName), "H1");
    assert.equal(stops(), 2);
    await visitor.leave(/status of 409/);
  });

sweepTest("a running sweep goes on by itself, and filters stay", one, makeSweeps,
  async ({ fixture, visitor, page: shown }) => {
    await rows(shown).first().waitFor();
    await shown.getByRole("slider", { name: "optimizer.weight_decay, upper end" }).press("ArrowDown");
    await visitor.sees("11 of 12 trials pass");
    const sweep = fixture.sweeps[0];
    const values = { ...sweep.trials[0].values, "optimizer.weight_decay": 0.02 };
    sweep.trials.push(makeTrial(13, { values, state: "running", objective: 0.7, rank: 1, budget: 100 }));
    Object.assign(sweep.counts, { tried: 13, running: 4 });
    sweep.best = { trial: 13, run: sweep.trials[12].run, objective: 0.7, values };
    await visitor.sees("12 of 13 trials pass");
    assert.match(await shown.locator(".headline").innerText(), /70.00[\s\S]*[Tt]rial 13 of 13 tried/);
    await visitor.leave();
  });

sweepTest("sweeps without trials, results or an address say so", "#/sweeps/batch-000003", makeSweeps,
  async ({ fixture, visitor, page: shown }) => {
    await visitor.sees("The sweep stands still");
    await visitor.sees("the disk is full");
    await visitor.sees("No trial has begun yet.");
    assert.equal(await shown.locator("figure, table.rungs").count(), 0);
    const nothing = { objective: null, rank: null, reports: [] };
    const trials = ashaTrials().map((trial) => ({ ...trial, ...nothing }));
    fixture.sweeps.push(makeSweep("young-000009", { trials, best: null }));
    await shown.goto(`${fixture.url}#/sweeps/young-000009`);
    await visitor.sees("No result of 12 tried");
    assert.equal(await shown.locator(".trial-line.no-result").count(), 12);
    await shown.goto(`${fixture.url}#/sweeps/none`);
    await visitor.sees("No such sweep");
    await visitor.leave(/status of 404/);
  });

sweepTest("a run's tag leads to its sweep", "#/runs/demo-4f2a91", makeSweeps,
  async ({ fixture, visitor, page: shown }) => {
    fixture.entry("demo-4f2a91").run.tags = ["baseline", `sweep-${kSweep}`];
    await shown.getByRole("link", { name: `sweep-${kSweep}` }).click();
    await isAt(shown, one);
    await rows(shown).first().waitFor();
    assert.equal(await shown.locator(".places [aria-current]").count(), 0);
    await visitor.leave(/status of 404/);
  });

// Every text that a person may have chosen is hostile, and long where it may be.
function hostile() {
  const key = `${kHostile}.${"long_".repeat(20)}key`;
  const parameters = [
    { key, kind: "choice", choices: [kHostile, "x".repeat(300), "\u202eplain"] },
    { key: "__proto__", kind: "uniform", low: 0, high: 1 },
  ].map(parameter);
  const values = JSON.parse(`{"__proto__": 0.5}`);
  const trials = parameters[0].choices.map((choice, i) =>
    makeTrial(i + 1, {
      ...{ objective: i, rank: 3 - i, reason: kHostile.repeat(9), state: i === 0 ? "failed" : "finished" },
      values: Object.defineProperty({ ...values }, key, { value: choice, enumerable: true }),
    }),
  );
  const texts = { name: kHostile, owner: kHostile, reason: kHostile };
  const config = { name: kHostile, text: "\u202ehidden" };
  return [makeSweep("hostile-000001", { ...texts, parameters, trials, config })];
}

for (const width of [1200, 390]) {
  sweepTest(`hostile texts of a sweep are texts, at ${width} px`, "#/sweeps", hostile,
    async ({ visitor, page: shown }) => {
      await shown.locator("table.sweeps .row-link").click();
      await rows(shown).first().waitFor();
      await shown.getByText("Search space and run file").click();
      await drawing(shown).focus();
      await shown.keyboard.press("ArrowRight");
      await shown.keyboard.press("ArrowRight");
      await assertPlain(shown, width);
      await visitor.leave();
    }, { viewport: { width, height: 900 } });
}

for (const [colorScheme, width] of kLooks) {
  sweepTest(`axe finds nothing in sweeps, ${colorScheme} at ${width} px`, "#/sweeps", makeSweeps,
    async ({ fixture, visitor, page: shown }) => {
      const inspection = new Inspection(width);
      const look = (name) => inspection.look(shown, name);
      await visitor.sees("4 of 4 shown");
      await look("list");
      for (const { id } of fixture.sweeps) {
        await shown.goto(`${fixture.url}#/sweeps/${id}`);
        await shown.locator("table.trials").waitFor({ state: "attached" });
        await look(id);
      }
      await shown.goto(`${fixture.url}${one}`);
      await rows(shown).first().waitFor();
      await shown.getByRole("slider", { name: "batch.size, upper end" }).press("PageDown");
      await drawing(shown).press("ArrowRight");
      await shown.getByLabel("Select trial 9", { exact: true }).check();
      await shown.getByText("Search space and run file").click();
      await look("a filter, a pick and a selection");
      await shown.getByRole("button", { name: "Stop sweep" }).click();
      await look("the dialog of the stop");
      inspection.end();
      await visitor.leave();
    }, { colorScheme, viewport: { width, height: 900 } });
}

sweepTest("a finger picks a line on a phone", one, makeSweeps,
  async ({ visitor, page: shown }) => {
    await rows(shown).first().waitFor();
    const line = shown.locator(".trial-line.shade-5").first();
    const place = await line.evaluate((path) => {
      const frame = path.ownerSVGElement;
      frame.scrollIntoView({ block: "center" });
      const [a, b] = path.getAttribute("d").slice(1).split("L").map((pair) => pair.split(" ").map(Number));
      const { left, top } = frame.getBoundingClientRect();
      return [left + (a[0] + b[0]) / 2, top + (a[1] + b[1]) / 2];
    });
    await shown.touchscreen.tap(...place);
    await shown.locator(".picked-trial").getByText(/^Trial \d+, rank/).waitFor();
    assert.equal(await shown.locator(".axis-handle").count(), 12);
    await visitor.leave();
  }, { viewport: { width: 390, height: 844 }, hasTouch: true });
