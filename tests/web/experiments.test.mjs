// Experiments: the list, one of them as tables and as a drawing, and what each says while it trains,
// where a run failed, where layouts do not agree, or where texts are hostile.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Inspection, assertPlain, kLooks } from "./axe.mjs";
import {
  kLayouts,
  kNothing,
  makeExperiment,
  makeExperiments,
  makeRun,
  manyExperiments,
  published,
  runningExperiment,
} from "./experiments.mjs";
import { kHostile, standardRuns } from "./fixture.mjs";
import { Visitor, browser, pageTests } from "./setup.mjs";
import { sourcesOf } from "./sources.mjs";

const page = await sourcesOf(`
  export * from "./src/experiments/figures";
  export { parseRoute } from "./src/base/route";
`);

// The rows of TableText.ShowsTwoDigitsOfTheDeviation in tests/orchestrator/experiments.
test("a mean has as many digits as its deviation allows, as the command line prints it", () => {
  const rows = [
    [71.2345, 0.4123, "71.23 ± 0.41"],
    [71.2345, 12.3, "71 ± 12"],
    [7.07e-5, 1.2e-6, "0.0000707 ± 0.0000012"],
    [1_234_567, 4321, "1234567 ± 4321"],
    [2.5, 0, "2.500 ± 0.000"],
    [0, 0, "0 ± 0"],
  ];
  for (const [mean, deviation, text] of rows) {
    assert.equal(page.meanParts(mean, deviation).join(" ± "), text);
    assert.equal(page.meanText("samples_per_second", { mean, deviation, runs: 2 }), text);
  }
  assert.deepEqual(page.meanParts(37.98, null), ["37.98", null]);
  assert.deepEqual(page.meanParts(0.0001116, null), ["0.0001116", null]);
  assert.equal(page.meanText("mfu", { mean: 0.312, deviation: 0.004, runs: 3 }), "31.20 ± 0.40\u202f%");
  assert.equal(page.meanText("mfu", null), "–");
  const told = published().layouts.flatMap(({ figures }) =>
    Object.entries(figures).map(([key, value]) => page.publishedText(key, value)),
  );
  assert.deepEqual(told, ["3688", "37.98", "0.6027", "94.96\u202f%", "0.01627", "0.6179", "70.4", "0.0000707", "0.0049",
    "116.27", "0.0001116", "0.0129"]);
});

test("the best of a column is the best mean, where a layout changes the figure", () => {
  const { layouts } = makeExperiment("e");
  const names = (key) => page.bestOf(key, layouts).map(({ name }) => name);
  const extreme = (key, better) => {
    const means = layouts.flatMap(({ figures }) => figures[key]?.mean ?? []);
    return layouts.filter(({ figures }) => figures[key]?.mean === better(...means)).map(({ name }) => name);
  };
  assert.deepEqual(names("samples_per_second"), ["data4"]);
  for (const [key, better] of [["run_seconds", Math.min], ["goodput", Math.max], ["mfu", Math.max], ["bubble", Math.min]]) {
    assert.deepEqual(names(key), extreme(key, better), key);
  }
  for (const key of ["validation_loss", "noise_scale", "efficiency"]) assert.deepEqual(names(key), [], key);
  assert.deepEqual(page.bestOf("goodput", layouts.slice(0, 1)), [], "one alone is not the best of any");
});

test("an experiment runs, waits for its command, or is done", () => {
  const rows = [
    [{ runs: 5, finished: 4, planned: 9 }, "running"],
    [{ runs: 4, finished: 4, planned: 9 }, "waits"],
    [{ runs: 9, finished: 9, planned: 9 }, "done"],
    [{ runs: 10, finished: 9, planned: 9 }, "running"],
    [{ runs: 2, finished: 2, planned: null }, "done"],
  ];
  for (const [counts, expected] of rows) assert.equal(page.progressOf(counts), expected, JSON.stringify(counts));
  assert.deepEqual(page.parseRoute("#/experiments/a%2Fb").id, "a/b");
  assert.equal(page.parseRoute("#/experiments").page, "experiments");
  assert.equal(page.parseRoute("#/experiments/%").page, "none");
});

test("the drawing has every seed that counts, within its range", () => {
  const experiment = runningExperiment("e");
  const lanes = page.lanesOf(experiment, "utilisation");
  assert.deepEqual(lanes.map(({ points }) => points.length), [1, 1, 1]);
  assert.ok(Math.abs(lanes[0].points[0].value - 100 * experiment.runs[1].figures.utilisation) < 1e-9);
  const scale = page.scaleOf(lanes, "utilisation");
  const values = lanes.flatMap(({ points }) => points.map(({ value }) => value));
  assert.ok(values.every((value) => value > scale.low && value < scale.high));
  assert.ok(scale.marks.length > 1 && scale.marks.every((mark) => mark >= scale.low && mark <= scale.high));
  const one = page.scaleOf(lanes.slice(0, 1), "utilisation");
  assert.ok(one.low < values[0] && values[0] < one.high);
  assert.equal(page.scaleOf(page.lanesOf(experiment, "bubble").slice(0, 1), "bubble"), null);
  assert.equal(page.tableOfLanes(lanes, "utilisation").rows.length, 3);
});

const withPage = pageTests();

// A test over these experiments, at a place of the page.
function experimentTest(name, place, experiments, body, options = {}) {
  withPage(name, standardRuns, async (fixture) => {
    fixture.experiments = experiments();
    const visitor = await Visitor.arrive(browser, `${fixture.url}${place}`, options);
    await body({ fixture, visitor, page: visitor.page });
  });
}
const hash = (shown) => new URL(shown.url()).hash;
const isAt = (shown, wanted) => shown.waitForFunction((place) => location.hash === place, wanted);
const runs = (shown) => shown.locator("table.experiment-runs tbody tr");
const plain = (text) => text.replace(/\s+/g, " ");

experimentTest("the list says how far each has come; keys go through it and back", "#/experiments", makeExperiments,
  async ({ visitor, page: shown }) => {
    await visitor.sees("5 of 5 shown");
    const rows = (await shown.locator("table.experiments tbody tr").allInnerTexts()).map(plain);
    for (const word of ["4f2a91", "squad", "running", "data4, stages4, data2-stages2-gpipe", "4 / 9", "1 did not succeed"]) {
      assert.ok(rows[0].includes(word), word);
    }
    assert.match(rows[1], /77ab01 squad done .* 9 \/ 9/);
    assert.match(rows[3], /waits .* 2 \/ 9/);
    assert.equal(await shown.locator(".places [aria-current]").innerText(), "Experiments");
    await shown.keyboard.press("j");
    await shown.keyboard.press("j");
    await shown.keyboard.press("Enter");
    await isAt(shown, "#/experiments/77ab01");
    await runs(shown).first().waitFor();
    await shown.keyboard.press("Escape");
    await isAt(shown, "#/experiments");
    await visitor.sees("5 of 5 shown");
    await visitor.leave();
  });

experimentTest("pages of the list are the server's", "#/experiments", () => manyExperiments(60),
  async ({ visitor, page: shown }) => {
    await visitor.sees("50 of 60 shown");
    await shown.getByRole("button", { name: "Next" }).click();
    await visitor.sees("10 of 60 shown");
    assert.equal(hash(shown), "#/experiments?after=many-0049");
    await visitor.leave();
  });

experimentTest("an empty list says how an experiment begins", "#/", () => [], async ({ visitor, page: shown }) => {
  await shown.locator("table.runs").waitFor();
  await shown.keyboard.press("g");
  await shown.keyboard.press("x");
  await isAt(shown, "#/experiments");
  await visitor.sees("regatta experiment parallel FILE");
  await visitor.leave();
});

experimentTest("the table has means, deviations, the best and what was published", "#/experiments/77ab01", makeExperiments,
  async ({ fixture, visitor, page: shown }) => {
    await runs(shown).first().waitFor();
    const experiment = fixture.experiments[1];
    const bodies = shown.locator("table.layouts tbody");
    const rows = await bodies.first().locator("tr").all();
    assert.equal(rows.length, 3);
    for (const [i, layout] of experiment.layouts.entries()) {
      const text = plain(await rows[i].innerText());
      assert.ok(text.startsWith(`${layout.name} 4 ranks`), text);
      for (const key of ["samples_per_second", "validation_loss", "mfu"]) {
        const { mean, deviation } = page.cellOf(key, layout.figures[key]);
        assert.ok(text.includes(plain(`${mean} ${deviation}`)), `${mean} ${deviation} in ${text}`);
      }
    }
    const best = await shown.locator("td.best").evaluateAll((all) => all.map(({ dataset }) => dataset.name));
    assert.equal(best.length, 7, best.join());
    assert.equal(await rows[0].locator('[data-name="Samples/s"].best').count(), 1);
    const others = plain(await bodies.nth(1).innerText());
    for (const text of ["As published, not measured here: BERT-base", "4 A100 of 40 GB", "116.27", "0.0000707"]) {
      assert.ok(others.includes(text), text);
    }
    await visitor.sees("Its columns cannot be compared with each other");
    await visitor.sees("agree between layouts, as they must");
    const figures = plain(await shown.locator(".summary").innerText());
    assert.match(figures, /9 \/ 9 [Aa]ll of them succeeded/);
    assert.match(figures, /Noise scale agrees/);
    assert.match(figures, /Loss 0.00021/);
    assert.match(await shown.title(), /^9 \/ 9 Experiment 77ab01/);
    await visitor.leave();
  });

experimentTest("one that trains says which run is under way, what failed and why", "#/experiments/4f2a91", makeExperiments,
  async ({ fixture, visitor, page: shown }) => {
    await visitor.sees("Run 5 of 9");
    const experiment = fixture.experiments[0];
    const current = shown.locator(".under-way");
    assert.match(plain(await current.innerText()), /Run 5 of 9 data4, seed 2 running squad-data4-s2-000005/);
    const failed = plain(await runs(shown).nth(2).innerText());
    assert.match(failed, /3 data2-stages2-gpipe 1 failed .*the loss is not finite at step 31/);
    assert.equal(await shown.getByText("Left out: ").count(), 0, "it is told once");
    await visitor.sees("4 of 9 are to come");
    await visitor.sees("4 of 9 runs are over; the others are not in the table.");
    // The run ends, and the next one begins.
    const next = makeExperiment("4f2a91", {
      notes: [],
      runs: [...experiment.runs.slice(0, 4), makeRun(kLayouts[0], 2, 5), makeRun(kLayouts[1], 2, 6, { state: "starting" })],
    });
    fixture.experiments[0] = next;
    await visitor.sees("Run 6 of 9");
    assert.match(await shown.title(), /^5 \/ 9/);
    await shown.locator(".under-way a").click();
    await isAt(shown, "#/runs/squad-stages4-s2-000006");
    await visitor.leave(/status of 404/);
  });

experimentTest("one whose command has ended says how it goes on; one that is new has no figures", "#/experiments/waits", makeExperiments,
  async ({ fixture, visitor, page: shown }) => {
    await visitor.sees("regatta experiment parallel FILE --id waits");
    await visitor.sees("7 of 9 runs are to come");
    await shown.goto(`${fixture.url}#/experiments/new`);
    await visitor.sees("Run 1 of 9");
    assert.equal(await shown.locator("figure.chart").count(), 0);
    await shown.goto(`${fixture.url}#/experiments/none`);
    await visitor.sees("No such experiment");
    await shown.goto(`${fixture.url}#/experiments/apart`);
    await visitor.sees("The layouts did not train the same");
    assert.match(await shown.getByRole("alert").innerText(), /seed 2: data4 115 to 125, stages4 126 to 130/);
    assert.match(plain(await shown.locator(".summary").innerText()), /Noise scale DOES NOT AGREE/);
    await visitor.leave(/status of 404/);
  });

experimentTest("the drawing has all seeds of the chosen figure, as a table too", "#/experiments/77ab01", makeExperiments,
  async ({ fixture, visitor, page: shown }) => {
    const dots = shown.locator(".seeds path");
    await dots.first().waitFor();
    assert.equal(await dots.count(), 9);
    assert.equal(await shown.locator(".seeds .mean").count(), 3);
    // Places go as values do.
    const { runs: all } = fixture.experiments[1];
    const xs = await dots.evaluateAll((paths) => paths.map((path) => path.getBBox().x + path.getBBox().width / 2));
    const byLayout = kLayouts.flatMap(({ name }) => all.filter((run) => run.layout === name));
    const values = byLayout.map(({ figures }) => figures.samples_per_second);
    const factor = (xs[3] - xs[0]) / (values[3] - values[0]);
    for (const [i, value] of values.entries()) {
      assert.ok(Math.abs(xs[i] - xs[0] - factor * (value - values[0])) < 0.5, `${i}: ${xs[i]}`);
    }
    await shown.getByRole("combobox", { name: "Figure" }).selectOption("bubble");
    await isAt(shown, "#/experiments/77ab01?figure=bubble");
    await shown.waitForFunction(() => document.querySelectorAll(".seeds path").length === 6);
    await visitor.sees("no run has it");
    await shown.reload();
    await shown.waitForFunction(() => document.querySelectorAll(".seeds path").length === 6);
    await shown.getByRole("button", { name: "Table: Bubble by layout" }).click();
    const table = shown.getByRole("region", { name: "Bubble by layout, table" });
    assert.equal(await table.locator("tbody tr").count(), 6);
    await shown.goto(`${fixture.url}#/experiments/77ab01?figure=odd`);
    await shown.waitForFunction(() => document.querySelectorAll(".seeds path").length === 9);
    await visitor.leave();
  });

experimentTest("the table is copied and downloaded as Markdown and as JSON", "#/experiments/77ab01", makeExperiments,
  async ({ fixture, visitor, page: shown }) => {
    await shown.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    const pasted = () => shown.evaluate(() => navigator.clipboard.readText());
    await shown.getByRole("button", { name: "Copy Markdown of the table" }).click();
    await shown.getByRole("button", { name: "Copied of the table" }).waitFor();
    assert.match(await pasted(), /^# Experiment 77ab01\n/);
    await shown.getByRole("button", { name: "Copy JSON of the table" }).click();
    await shown.waitForFunction(async () => (await navigator.clipboard.readText()).startsWith("{"));
    assert.deepEqual(JSON.parse(await pasted()), fixture.experiments[1]);
    for (const [kind, name] of [["Markdown", "experiment-77ab01.md"], ["JSON", "experiment-77ab01.json"]]) {
      const button = shown.getByRole("button", { name: `Download ${kind} of the table` });
      const [file] = await Promise.all([shown.waitForEvent("download"), button.click()]);
      assert.equal(file.suggestedFilename(), name);
      const text = readFileSync(await file.path(), "utf8");
      if (kind === "JSON") assert.deepEqual(JSON.parse(text), fixture.experiments[1]);
      else assert.match(text, /^# Experiment/);
    }
    await visitor.leave();
  });

experimentTest("a run's tag leads to its experiment", "#/runs/demo-4f2a91", makeExperiments,
  async ({ fixture, visitor, page: shown }) => {
    fixture.entry("demo-4f2a91").run.tags = ["experiment-77ab01", "layout-1-data4", "run-1-of-9"];
    await shown.getByRole("link", { name: "experiment-77ab01" }).click();
    await isAt(shown, "#/experiments/77ab01");
    await runs(shown).first().waitFor();
    await visitor.leave(/status of 404/);
  });

// Every text that a person may have chosen is hostile, and long where it may be.
function hostile() {
  const layouts = [`${kHostile}${"x".repeat(80)}`, "\u202eturned", "__proto__"].map((name) => ({
    ...{ name, ranks: 2, data: 1, pipeline: 2, schedule: kHostile },
  }));
  const runsOfAll = layouts.flatMap((layout, i) => [
    makeRun(layout, 1, 2 * i + 1),
    makeRun(layout, 2, 2 * i + 2, { id: `${kHostile}-${i}`, state: "failed", error: kHostile.repeat(30) }),
  ]);
  runsOfAll.push(makeRun(layouts[1], 3, 7, { id: `${kHostile}-now`, state: "running" }));
  const agreement = { noise_scale: false, loss_difference: 1e30, sentences: [`DO NOT AGREE ${kHostile.repeat(40)}`] };
  const texts = { agreement, notes: [kHostile, "y".repeat(5000)], hosts: [kHostile, "z".repeat(300)], device: kHostile };
  return [makeExperiment("hostile", { ...texts, layouts, runs: runsOfAll, name: kHostile })];
}

for (const width of [1200, 390]) {
  experimentTest(`hostile texts of an experiment are texts, at ${width} px`, "#/experiments", hostile,
    async ({ visitor, page: shown }) => {
      await shown.locator("table.experiments .row-link").click();
      await runs(shown).first().waitFor();
      await shown.locator(".seeds path").first().waitFor();
      await shown.getByRole("button", { name: /^Table:/ }).click();
      await assertPlain(shown, width);
      await visitor.leave();
    }, { viewport: { width, height: 900 } });
}

for (const [colorScheme, width] of kLooks) {
  experimentTest(`axe finds nothing in experiments, ${colorScheme} at ${width} px`, "#/experiments", makeExperiments,
    async ({ fixture, visitor, page: shown }) => {
      const inspection = new Inspection(width);
      const look = (name) => inspection.look(shown, name);
      await visitor.sees("5 of 5 shown");
      await look("list");
      for (const { experiment } of fixture.experiments) {
        await shown.goto(`${fixture.url}#/experiments/${experiment}`);
        await shown.getByRole("heading", { name: `Experiment ${experiment}` }).waitFor();
        await look(experiment);
      }
      await shown.goto(`${fixture.url}#/experiments/77ab01`);
      await shown.getByRole("button", { name: /^Table:/ }).click();
      await look("the drawing as a table");
      inspection.end();
      await visitor.leave();
    }, { colorScheme, viewport: { width, height: 900 } });
}

experimentTest("a hundred runs are shown at first, and the others when they are asked for", "#/experiments/large", () => {
  const seeds = Array.from({ length: 50 }, (_, i) => i + 1);
  const all = seeds.flatMap((seed, i) => kLayouts.map((layout, k) => makeRun(layout, seed, 3 * i + k + 1)));
  all[140] = { ...all[140], state: "failed", error: "out of memory", figures: kNothing };
  return [makeExperiment("large", { runs: all, runs_planned: 150 })];
}, async ({ visitor, page: shown }) => {
  await visitor.sees("100 of 150 shown");
  await shown.getByRole("button", { name: "Show 50 more" }).click();
  await shown.waitForFunction(() => document.querySelectorAll("table.experiment-runs tbody tr").length === 150);
  await visitor.sees("out of memory");
  await visitor.leave();
});
