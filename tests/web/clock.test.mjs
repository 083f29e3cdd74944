// A browser whose clock is off: what the page tells of time is the controller's.
import assert from "node:assert/strict";
import { test } from "node:test";
import { makeRun } from "./fixture.mjs";
import { makeNodes, makeTopology } from "./machines.mjs";
import { Visitor, browser, pageTests } from "./setup.mjs";
import { sourcesOf } from "./sources.mjs";

const clock = await sourcesOf(`export * from "./src/base/clock";`);
const kHour = 3_600_000;

test("the clock is off by what the Date of an answer says, within its seconds", () => {
  const sent = Date.now();
  const note = (ahead, took = 100) =>
    clock.noteDate(new Date(sent + took / 2 - ahead).toUTCString(), sent, sent + took);
  const isOff = (by) => Math.abs(Date.now() - by - clock.now()) < 1500;
  let told = 0;
  const forget = clock.onClock(() => (told += 1));
  note(1200);
  assert.ok(isOff(0), "what seconds cannot tell is nothing");
  note(5 * kHour);
  assert.ok(isOff(5 * kHour));
  assert.equal(Math.round(clock.clockError() / kHour), 5);
  note(5 * kHour + 900);
  note(5 * kHour + 4000, 9000);
  assert.equal(told, 1, "it does not jitter, nor by an answer that was long on its way");
  note(30_000);
  assert.ok(isOff(30_000));
  assert.equal(clock.clockError(), null, "of half a minute nobody is told");
  note(-72 * kHour);
  assert.equal(Math.round(clock.clockError() / kHour), -72);
  for (const bad of [null, "", "yesterday"]) clock.noteDate(bad, sent, sent);
  clock.noteDate(new Date(sent).toUTCString(), sent, sent - 1);
  assert.equal(told, 3);
  note(0);
  assert.ok(isOff(0));
  forget();
});

const pageTest = pageTests();

const iso = (before) => new Date(Date.now() - before).toISOString();
function entries() {
  const run = (id, before) => ({
    run: makeRun(id, { created_at: iso(before) }),
    metrics: { steps: [], evaluations: [], checkpoints: [], timeline: null, prediction: null },
    log: "",
  });
  return [run("young-000001", 10 * 60_000), run("older-000002", 7 * kHour)];
}

async function arriveWith(error, fixture, place) {
  const context = await browser.newContext();
  await context.addInitScript((by) => {
    const Real = Date;
    const off = () => Real.now() + by;
    globalThis.Date = class extends Real {
      constructor(...given) {
        super(...(given.length > 0 ? given : [off()]));
      }
      static now() {
        return off();
      }
    };
  }, error);
  return Visitor.arrive(context, `${fixture.url}${place}`);
}
const plain = async (locator) => (await locator.innerText()).replaceAll("\u202f", " ");

for (const [words, error, told] of [
  ["5 h ahead", 5 * kHour, "5 h 00 min ahead of"],
  ["3 days behind", -72 * kHour, "3 d 0 h behind"],
]) {
  pageTest(`a clock that is ${words} does not falsify ages`, entries, async (fixture) => {
    fixture.nodes = makeNodes(8);
    fixture.topology = makeTopology({ leaves: 1, perLeaf: 8 });
    fixture.nodeAnswer = { taken_at: iso(4 * 60_000), age_seconds: 240 };
    const visitor = await arriveWith(error, fixture, "#/");
    const { page } = visitor;
    const created = page.locator("td.cell-created");
    await created.first().waitFor();
    assert.deepEqual(
      (await created.allInnerTexts()).map((text) => text.replaceAll("\u202f", " ")),
      ["10 min ago", "7 h ago"],
    );
    assert.match(await plain(page.locator("footer.clock")), new RegExp(`is ${told} the controller’s`));
    await page.getByRole("link", { name: "Nodes" }).click();
    await page.locator(".node-summary time").waitFor();
    assert.equal(await plain(page.locator(".node-summary time")), "4 min ago");
    await visitor.leave();
  });
}

pageTest("of a clock that is right nothing is said", entries, async (fixture) => {
  const visitor = await arriveWith(20_000, fixture, "#/");
  await visitor.page.locator("td.cell-created").first().waitFor();
  assert.equal(await visitor.page.locator("footer.clock").count(), 0);
  await visitor.leave();
});
