// What a sample takes each of two runs, and why: Compare against the fixture's API.
import assert from "node:assert/strict";
import { test } from "node:test";
import { follow, kHostile, makeRun, series } from "./fixture.mjs";
import { Visitor, browser, pageTests } from "./setup.mjs";
import { sourcesOf } from "./sources.mjs";

const pageTest = pageTests();
const { speedVerdictOf, millisecondsOf } = await sourcesOf(
  `export { speedVerdictOf, millisecondsOf } from "./src/compare/speed_part";`,
);
const plain = (text) => text.replaceAll("\u202f", " ");

const attempt = (run, more) => ({
  run,
  attempt: 1,
  first_step: 21,
  last_step: 200,
  samples_per_second: 2000,
  ...more,
});
// A takes 0.5 ms for a sample, of which 0.4 are compute, B 0.25 ms more for it.
const speed = (fields) => ({
  attempts: [attempt("one-000001"), attempt("two-000002", { attempt: 3 })],
  seconds_per_sample: [0.0005, 0.00075],
  difference: 0.00025,
  noise: 0.00001,
  equally_fast: false,
  parts: [
    { part: "compute", seconds_per_sample: [0.0004, 0.0006], difference: 0.0002 },
    { part: "bubble", seconds_per_sample: [0, 0], difference: 0 },
    { part: "input", seconds_per_sample: [0.00001, 0.00008], difference: 0.00007 },
    { part: "other", seconds_per_sample: [0.00009, 0.00007], difference: -0.00002 },
  ],
  causes: [
    {
      part: "compute",
      seconds_per_sample: 0.0002,
      what: "another number of threads",
      evidence: [{ key: `numerics ${kHostile}`, values: [2, 1] }],
    },
    {
      part: "input",
      seconds_per_sample: 0.00007,
      what: "other settings of data",
      evidence: [
        { key: "configuration seed", values: [1234567, 7654321] },
        { key: "share of steps that waited for samples", values: [0, 0.123456] },
      ],
    },
  ],
  ...fields,
});

test("how fast two runs are is one sentence", () => {
  const less = { seconds_per_sample: [0.0005, 0.00025], difference: -0.00025 };
  const cases = [
    [{}, "A sample takes B 50.0 % longer than A."],
    [less, "A sample takes B 50.0 % less than A."],
    [{ equally_fast: true, difference: 0.000005 }, "Equally fast: 1.00 % is within what steps differ by."],
  ];
  for (const [fields, text] of cases) assert.equal(plain(speedVerdictOf(speed(fields))), text);
});

test("milliseconds have as many decimals as the smaller whole needs, and add up", () => {
  for (const scale of [1e-4, 1e-2, 1, 1e3]) {
    const scaled = speed({ seconds_per_sample: [0.5 * scale, 0.75 * scale] });
    const ms = millisecondsOf(scaled);
    const value = (text) => Number(text.replaceAll(",", "").replace("−", "-"));
    const parts = [0.4, 0.01, 0.09].map((one) => value(ms(one * scale)));
    const whole = value(ms(0.5 * scale));
    assert.ok(Math.abs(parts.reduce((a, b) => a + b) / whole - 1) < 1e-3, String(scale));
    assert.equal(value(ms(-0.25 * scale)), -value(ms(0.25 * scale)));
  }
});

function entryOf(id, more = {}) {
  const metrics = series({ steps: 200, stepSeconds: 0.1, evaluateEvery: 50 });
  const run = makeRun(id, { state: "succeeded", state_text: "done" });
  return { run: follow(run, metrics), metrics, log: "", events: [], ...more };
}

pageTest(
  "Compare tells of two runs what a sample takes each, and why, when one asks",
  () => [
    entryOf("one-000001"),
    entryOf("two-000002", { speed: speed() }),
    entryOf("three-000003", { speed: speed({ equally_fast: true, difference: 0, causes: [] }) }),
    entryOf("four-000004"),
  ],
  async (fixture) => {
    const visitor = await Visitor.arrive(browser, `${fixture.url}#/compare?runs=one-000001,two-000002`);
    const { page } = visitor;
    const path = "/api/v1/runs/two-000002/speed";
    await page.getByRole("heading", { name: "Speed", exact: true }).waitFor();
    assert.equal(fixture.count("GET", path), 0, "nobody has asked");
    await page.getByRole("button", { name: "Compare their speed" }).focus();
    await page.keyboard.press("Enter");
    await visitor.sees(/^A sample takes B 50.* longer than A\.$/);
    await page.waitForFunction(() => document.activeElement?.textContent === "Speed");
    assert.equal(fixture.count("GET", path), 1);
    assert.ok(page.url().includes("speed=1"));
    const place = page.locator(".compare-part.speed");
    const rows = await place.locator("tbody tr").allInnerTexts();
    assert.deepEqual(
      rows.map((row) => row.replace(/\s+/g, " ").trim()),
      [
        "compute 0.4000 0.6000 +0.2000",
        "input 0.0100 0.0800 +0.0700",
        "other 0.0900 0.0700 −0.0200",
        "all 0.5000 0.7500 +0.2500",
      ],
    );
    const text = (await place.innerText()).replace(/\s+/g, " ");
    assert.ok(text.includes("+0.2000 ms compute: another number of threads"), text);
    assert.ok(text.includes("1234567 | 7654321"), text);
    assert.ok(text.includes("waited for samples: 0 | 0.123"), text);
    assert.ok(text.includes("Of attempts 1 and 3, steps 21 to 200 and 21 to 200."), text);
    assert.equal(await page.evaluate(() => window.stolen), undefined);
    await visitor.keepPicture("compare-speed");

    await page.goto(`${fixture.url}#/compare?runs=one-000001,three-000003&speed=1`);
    await visitor.sees(/^Equally fast: 0/);
    assert.equal(await place.locator("li").count(), 0);
    await page.goto(`${fixture.url}#/compare?runs=three-000003,four-000004&speed=1`);
    await visitor.sees("Not compared: run four-000004 has no attempt with steps yet");
    await page.goto(`${fixture.url}#/compare?runs=one-000001,two-000002,three-000003&speed=1`);
    await page.locator(".figure-table tbody tr").nth(2).waitFor();
    assert.equal(await place.count(), 0, "of three runs nothing is told");
    await visitor.leave(/status of 404/);
  },
);
