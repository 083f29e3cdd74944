// What happened to a run, in a real browser, against the fixture's API.
import assert from "node:assert/strict";
import { kHostile, makeEvent, makeRun, series } from "./fixture.mjs";
import { Visitor, browser, pageTests } from "./setup.mjs";

const pageTest = pageTests();

const kRun = "demo-4f2a91";
const kPath = "/api/v1/events";

// One run with these events, in the API's order: the oldest first.
function runWith(events) {
  const metrics = series({ steps: 0, stepSeconds: 1, evaluateEvery: 1 });
  return () => [{ run: makeRun(kRun), metrics, log: "", events }];
}
const warning = (n) => makeEvent(n, "attempt.warning", { words: `number ${n};` });
const warnings = (count) => Array.from({ length: count }, (_, n) => warning(n));

const arrive = (fixture, options) =>
  Visitor.arrive(browser, `${fixture.url}#/runs/${kRun}/events`, options);
const sectionOf = (page) => page.getByRole("region", { name: "What happened", exact: true });
async function rowsOf(page) {
  const rows = await sectionOf(page).locator("tbody tr").allInnerTexts();
  return rows.map((row) => row.replace(/\s+/g, " ").trim());
}
// Of the warnings that are shown, in the order of the page.
async function numbersOf(page) {
  return (await rowsOf(page)).map((row) => Number(/number (\d+);/.exec(row)?.[1]));
}
const down = (from, to) => Array.from({ length: from - to + 1 }, (_, i) => from - i);

pageTest(
  "a run's newest events come first, with who asked and where",
  runWith([
    makeEvent(0, "run.submitted", { by: "uid 1000" }),
    makeEvent(1, "launch.ended", { launch: 1, node: "node[03-04]", words: "killed by signal 9" }),
    makeEvent(2, "checkpoint.pinned", {
      attempt: 2,
      step: 1200,
      checkpoint: "step-000001200",
      by: "token",
    }),
    makeEvent(3, "attempt.ended", { attempt: 2, step: 1234, at: null }),
    makeEvent(4, "run.painted"), // of a controller that is newer than the page
  ]),
  async (fixture) => {
    const visitor = await arrive(fixture);
    const { page } = visitor;
    await visitor.sees("run.painted");
    const rows = await rowsOf(page);
    assert.equal(rows.length, 5);
    assert.match(rows[0], /^21 Nov, \d\d:\d\d:16 · run\.painted – – –$/);
    assert.equal(rows[1], "– · Attempt ended attempt 2, step 1,234 – –");
    assert.match(rows[2], /:08 · Checkpoint pinned attempt 2, step-000001200 – token$/);
    assert.match(rows[3], /:04 · Job or process ended killed by signal 9 launch 1 node\[03-04\] –$/);
    assert.match(rows[4], /:00 · Submitted – – uid 1000$/);
    const heads = await sectionOf(page).getByRole("columnheader").allInnerTexts();
    assert.deepEqual(heads, ["Time", "Event", "Where", "Node", "Asked by"]);
    const link = sectionOf(page).getByRole("link", { name: "node[03-04]" });
    assert.equal(await link.getAttribute("href"), "#/nodes?nodes=node%5B03-04%5D");
    const buttons = await sectionOf(page).getByRole("button").allInnerTexts();
    assert.deepEqual(buttons, ["Pause", "UTC and API words"]);
    await visitor.keepPicture("events");
    await visitor.leave();
  },
);

// Titles are for those who point with a mouse.
pageTest(
  "UTC and the words of the API are reached by key and by touch",
  runWith([
    makeEvent(0, "launch.ended", { launch: 1, words: "killed by signal 9" }),
    makeEvent(1, "run.painted", { at: null }), // without a time, of a newer controller
  ]),
  async (fixture) => {
    const phone = { viewport: { width: 390, height: 800 }, hasTouch: true };
    for (const [options, press] of [
      [{}, (button) => button.press("Enter")],
      [phone, (button) => button.tap()],
    ]) {
      const visitor = await arrive(fixture, options);
      const { page } = visitor;
      await visitor.sees("run.painted");
      const button = sectionOf(page).getByRole("button", { name: "UTC and API words" });
      assert.equal(await sectionOf(page).getByText("UTC", { exact: false }).count(), 1); // itself
      await press(button);
      assert.equal(await button.getAttribute("aria-pressed"), "true");
      await sectionOf(page).getByText("launch.ended", { exact: true }).waitFor();
      const at = new Date(fixture.entries[0].events[0].at).toISOString();
      await visitor.sees(`${at.slice(0, 10)} ${at.slice(11, 19)} UTC`);
      assert.equal(await sectionOf(page).locator(".utc").count(), 1);
      await press(button);
      assert.equal(await sectionOf(page).locator(".utc").count(), 0);
      await page.getByRole("link", { name: "Details", exact: true }).click();
      const { created_at: created } = fixture.entries[0].run;
      const utc = new Date(created).toISOString().slice(0, 19).replace("T", " ");
      await page.locator(".details").getByText(`${utc} UTC`).waitFor();
      await visitor.leave();
    }
  },
);

pageTest("what happens while one looks comes on top", runWith(warnings(3)), async (fixture) => {
  const { events } = fixture.entries[0];
  const visitor = await arrive(fixture);
  const { page } = visitor;
  await visitor.sees("number 2;");
  const asked = fixture.count("GET", kPath);
  events.push(warning(3));
  await visitor.sees("number 3;");
  assert.deepEqual(await numbersOf(page), down(3, 0));
  assert.ok(fixture.count("GET", kPath) > asked);

  // The list does not grow while nobody asks for more, and what it drops can be had again.
  events.push(...warnings(20).slice(4));
  await visitor.sees("number 19;");
  assert.deepEqual(await numbersOf(page), down(19, 12));
  await page.getByRole("button", { name: "Older events" }).click();
  await visitor.sees("number 0;");
  assert.deepEqual(await numbersOf(page), down(19, 0));
  await visitor.leave();
});

pageTest("older events come by the button, none twice", runWith(warnings(70)), async (fixture) => {
  const { events } = fixture.entries[0];
  const visitor = await arrive(fixture);
  const { page } = visitor;
  const button = page.getByRole("button", { name: "Older events" });
  await visitor.sees("number 62;");
  assert.deepEqual(await numbersOf(page), down(69, 62));
  await button.evaluate((element) => {
    element.click();
    element.click();
  });
  await visitor.sees("number 12;");
  assert.deepEqual(await numbersOf(page), down(69, 12));
  // New ones and old ones at the same time.
  events.push(warning(70));
  await button.click();
  await visitor.sees("number 0;");
  await visitor.sees("number 70;");
  assert.deepEqual(await numbersOf(page), down(70, 0));
  await button.waitFor({ state: "hidden" });
  await visitor.leave();
});

pageTest(
  "after more news than an answer has, the newest are read again",
  runWith(warnings(3)),
  async (fixture) => {
    const { events } = fixture.entries[0];
    const visitor = await arrive(fixture);
    const { page } = visitor;
    await visitor.sees("number 2;");
    events.push(...warnings(400).slice(3));
    await visitor.sees("number 399;");
    assert.deepEqual(await numbersOf(page), down(399, 392));
    await page.getByRole("button", { name: "Older events" }).click();
    await visitor.sees("number 342;");
    assert.deepEqual(await numbersOf(page), down(399, 342));
    await visitor.leave();
  },
);

pageTest("a run without events says so", runWith([]), async (fixture) => {
  const visitor = await arrive(fixture);
  const { page } = visitor;
  await visitor.sees("No events of this run are recorded.");
  assert.equal(await sectionOf(page).getByRole("table").count(), 0);
  fixture.entries[0].events.push(makeEvent(0, "run.archived", { by: "token" }));
  await visitor.sees("Archived");
  await visitor.seesNoMore("No events of this run are recorded.");
  await visitor.leave();
});

pageTest(
  "events that are refused say why, and are asked for again",
  runWith(warnings(1)),
  async (fixture) => {
    fixture.refusalOfEvents = "the store is being restored";
    const visitor = await arrive(fixture);
    await visitor.sees("The events cannot be shown");
    await visitor.sees("the store is being restored");
    fixture.refusalOfEvents = null;
    await visitor.sees("number 0;");
    await visitor.seesNoMore("The events cannot be shown");
    await visitor.leave(/status of 409/);
  },
);

const kEscaped = "\u001b[31mred\u001b[0m\u001b]0;title\u0007\u0000\u202e";
const kLong = "x".repeat(500);
const bad = `${kHostile}${kEscaped}`;
pageTest(
  "hostile text in events stays text",
  runWith([
    makeEvent(0, bad, { checkpoint: bad, node: bad, by: bad, words: bad }),
    makeEvent(1, "run.failed", { checkpoint: kLong, node: kLong, by: kLong, words: kLong }),
    makeEvent(2, "run.failed", { words: kLong, by: "uid 1000" }),
  ]),
  async (fixture) => {
    for (const width of [1200, 360, 320]) {
      const visitor = await arrive(fixture, { viewport: { width, height: 800 } });
      const { page } = visitor;
      const section = sectionOf(page);
      await section.getByText("uid 1000").waitFor();
      const text = await section.innerText();
      assert.equal(text.split(`${kHostile}red`).length - 1, 5, text);
      assert.doesNotMatch(text, /[\u0000-\u0008\u000b-\u001f\u007f]|title/);
      assert.equal(await page.locator("#app img").count(), 0);
      assert.equal(await page.evaluate(() => window.stolen), undefined);
      const wider = await page.evaluate(() => {
        const parts = [document.documentElement, document.querySelector(".events .scroll")];
        return parts.map((part) => part.scrollWidth - part.clientWidth);
      });
      assert.deepEqual(wider, [0, 0]);
      await visitor.keepPicture(`events-hostile-${width}`);
      await visitor.leave();
    }
  },
);
