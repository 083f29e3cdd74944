// From which step on two runs learn differently: the sentence of it, and Compare against the fixture's API.
import assert from "node:assert/strict";
import { test } from "node:test";
import { follow, kHostile, makeRun, series } from "./fixture.mjs";
import { Visitor, browser, pageTests } from "./setup.mjs";
import { sourcesOf } from "./sources.mjs";

const pageTest = pageTests();
const { verdictOf } = await sourcesOf(`export { verdictOf } from "./src/compare/learning_part";`);
const plain = (text) => text.replaceAll("\u202f", " ");

const at = (step, a, b) => ({ step, loss: [a, b], relative: Math.abs(a - b) / Math.max(a, b) });
const readable = (run) => ({ run, damaged: 0, environment_fault: null });
const learned = (fields) => ({
  runs: [readable("one-000001"), readable("two-000002")],
  common: 200,
  equal: false,
  first: at(1, 5, 5),
  other_bits: null,
  beyond_rounding: null,
  last: at(200, 3, 3),
  rounding: 3e-7,
  known: true,
  causes: [],
  ...fields,
});

test("where two runs part is one sentence", () => {
  const cases = [
    [{ equal: true }, "Equal in every bit of loss and gradient norm."],
    [{ common: 0, first: null, last: null }, "They have no step in common."],
    [
      { other_bits: at(4, 5, 5) },
      "Other bits from step 4 on, never apart by more than rounding (3.0e-7).",
    ],
    [
      { other_bits: at(4, 5, 5), beyond_rounding: at(4, 5, 4) },
      "Other bits from step 4 on, at once by more than rounding (3.0e-7).",
    ],
    [
      { other_bits: at(4, 5, 5), beyond_rounding: at(1200, 5, 4) },
      "Other bits from step 4 on, by more than rounding from step 1,200 on.",
    ],
  ];
  for (const [fields, text] of cases) assert.equal(plain(verdictOf(learned(fields))), text);
});

function entryOf(id, more = {}) {
  const metrics = series({ steps: 200, stepSeconds: 0.1, evaluateEvery: 50 });
  const run = makeRun(id, { state: "succeeded", state_text: "done" });
  return { run: follow(run, metrics), metrics, log: "", events: [], ...more };
}
const seed = {
  kind: "random numbers",
  what: "another seed",
  evidence: [{ key: `randomness ${kHostile}`, values: [1, 2] }],
};
const damaged = { run: "four-000004", damaged: 2, environment_fault: `environment.json is damaged${kHostile}\u001b[31m` };
const apart = learned({ other_bits: at(1, 5, 4), beyond_rounding: at(1, 5, 4), causes: [seed] });

pageTest(
  "Compare tells of two runs where they part, when one asks, and the command that replays",
  () => [entryOf("one-000001"), entryOf("two-000002", { learning: apart }), entryOf("three-000003"),
    entryOf("four-000004", { learning: learned({ equal: true, runs: [readable("one-000001"), damaged] }) })],
  async (fixture) => {
    const visitor = await Visitor.arrive(browser, `${fixture.url}#/compare?runs=one-000001,two-000002`);
    const { page } = visitor;
    const path = "/api/v1/runs/two-000002/learning";
    await page.getByRole("heading", { name: "Learning", exact: true }).waitFor();
    assert.equal(fixture.count("GET", path), 0, "nobody has asked");
    await page.getByRole("button", { name: "Compare what they learned" }).click();
    await visitor.sees(/^Other bits from step 1 on, at once by more than rounding/);
    assert.equal(fixture.count("GET", path), 1);
    const place = page.locator(".learning");
    const text = (await place.innerText()).replace(/\s+/g, " ");
    assert.equal(await place.locator(".failure").count(), 0);
    assert.ok(text.includes("random numbers: another seed"), text);
    assert.ok(text.includes("regatta compare one-000001 two-000002 --replay"), text);
    assert.equal(await page.evaluate(() => window.stolen), undefined);
    await page.goto(`${fixture.url}#/compare?runs=one-000001,two-000002,three-000003&learning=1`);
    await page.locator(".figure-table tbody tr").nth(2).waitFor();
    assert.equal(await place.count(), 0, "of three runs nothing is told");
    await page.goto(`${fixture.url}#/compare?runs=one-000001,four-000004&learning=1`);
    await visitor.sees("The journal of four-000004 has 2 damaged lines");
    assert.match(await place.innerText(), /environment\.json is damaged/);
    assert.doesNotMatch(await place.innerText(), /\u001b/);
    assert.equal(await page.evaluate(() => window.stolen), undefined);
    await page.goto(`${fixture.url}#/compare?runs=two-000002,three-000003&learning=1`);
    await visitor.sees("Not compared: run three-000003 has no attempt with steps yet");
    await visitor.leave(/status of 404/);
  },
);
