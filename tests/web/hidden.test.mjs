// Characters that are not seen, or that turn what is around them, reach the page from nowhere.
import assert from "node:assert/strict";
import { makeExperiment, makeRun } from "./experiments.mjs";
import { kHostile, ranksRun } from "./fixture.mjs";
import { Visitor, browser, pageTests } from "./setup.mjs";
import { makeSweep, makeTrial, parameter } from "./sweeps.mjs";

const pageTest = pageTests();

const kHidden = `H100\u202e\u200b\u2060\u001b[31mred\u001b[0m${kHostile}`;
function entries() {
  const entry = ranksRun();
  const slowest = { ...entry.run.slowest, phase: kHidden };
  const texts = { owner: kHidden, device: kHidden, name: kHidden, note: kHidden, error: kHidden };
  Object.assign(entry.run, texts, { slowest, state_text: kHidden, warnings: [kHidden] });
  entry.run.config = { name: kHidden };
  return [entry];
}

function hiddenSweeps() {
  const parameters = [parameter({ key: kHidden, kind: "choice", choices: [kHidden] })];
  const trials = [makeTrial(1, { values: { [kHidden]: kHidden }, objective: 1, reason: kHidden })];
  const texts = { name: kHidden, owner: kHidden, reason: kHidden, config: { name: kHidden } };
  return [makeSweep("hidden-000001", { ...texts, parameters, trials })];
}

function hiddenExperiments() {
  const layout = { name: kHidden, ranks: 2, data: 1, pipeline: 2, schedule: kHidden };
  const runs = [makeRun(layout, 1, 1), makeRun(layout, 2, 2, { id: kHidden, state: "failed", error: kHidden })];
  const agreement = { noise_scale: false, loss_difference: 1, sentences: [`DO NOT AGREE ${kHidden}`] };
  const texts = { agreement, notes: [kHidden], hosts: [kHidden], device: kHidden, name: kHidden };
  return [makeExperiment("hidden", { ...texts, layouts: [layout], runs })];
}

pageTest("no view shows hidden characters", entries, async (fixture) => {
  fixture.sweeps = hiddenSweeps();
  fixture.experiments = hiddenExperiments();
  const visitor = await Visitor.arrive(browser, `${fixture.url}#/`);
  const { page } = visitor;
  const places = {
    "#/sweeps": "table.sweeps",
    "#/sweeps/hidden-000001": "table.trials tbody tr",
    "#/experiments": "table.experiments",
    "#/experiments/hidden": "table.experiment-runs tbody tr",
    "#/": "table.runs",
    "#/runs/ranks-5c1e07": ".ranks",
    "#/runs/ranks-5c1e07/details": "pre.config",
    "#/runs/ranks-5c1e07/events": ".tabs",
  };
  for (const [place, selector] of Object.entries(places)) {
    await page.goto(`${fixture.url}${place}`);
    await page.locator(selector).first().waitFor();
    const found = await page.evaluate(() => {
      const hidden = /[\u001b\u200b\u202a-\u202e\u2060-\u2069]/;
      const texts = [document.title, document.body.innerText];
      for (const one of document.querySelectorAll("body *")) {
        texts.push(...["title", "aria-label", "placeholder"].map((name) => one.getAttribute(name)));
      }
      return texts.filter((text) => text != null && hidden.test(text)).map((text) => escape(text));
    });
    assert.deepEqual(found, [], place);
  }
  assert.match(await page.locator("body").innerText(), /H100red/);
  await visitor.leave(/404/);
});
