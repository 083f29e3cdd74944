// A page that is left open does not grow: heap, nodes and listeners (the browser's protocol) while runs
// train. tests/bench/page.mjs measures it for longer, and with the time that it costs.
import assert from "node:assert/strict";
import { after, before } from "node:test";
import { LiveRun } from "./live_run.mjs";
import { Seeded, missingController, seededTest } from "./seeded.mjs";
import { Visitor, launch, sizesOf } from "./setup.mjs";

const kWarm = 15_000; // ms; what is shown at first, and compiled
const kWatched = 25_000;
const kLooks = 3;
const skip = missingController();
const test = seededTest(skip);
const runs = [];
let seeded, browser, growing;
before(async () => {
  if (skip) return;
  const prepare = (folder) => {
    for (const last of ["1", "2", "3"]) {
      const more = { execution: `00000000000000b${last}`, steps: 100_000 };
      runs.push(new LiveRun(folder, `live-00000${last}`, 160, more));
      runs.at(-1).train(200);
    }
  };
  seeded = await new Seeded({ runs: 30, prepare }).start();
  growing = setInterval(() => runs.forEach((run) => run.train(run.step + 2)), 500);
  browser = await launch();
});
after(async () => {
  clearInterval(growing);
  await browser?.close();
  await seeded?.stop();
});

function growth(place, was, is) {
  const told = `${place}: ${JSON.stringify(was)} → ${JSON.stringify(is)}`;
  const has =
    is.heap > was.heap * 1.1 + 500_000 ||
    is.nodes > was.nodes * 1.03 + 60 ||
    is.listeners > was.listeners * 1.03 + 10;
  return has ? [told] : [];
}

test("pages of runs that train do not grow", async () => {
  const [a, b, c] = runs.map(({ id }) => id);
  const places = [
    "/",
    `/runs/${a}`,
    `/runs/${a}/time`,
    `/runs/${b}/log`,
    `/compare?runs=${a},${b},${c}`,
    "/nodes",
    "/cluster",
    `/runs/${c}/plan`,
  ];
  const visitors = [];
  for (const place of places) visitors.push(await Visitor.arrive(browser, seeded.link(place)));
  const pages = visitors.map(({ page }) => page);
  const all = () => Promise.all(pages.map(sizesOf));
  const stepOf = () => pages[1].evaluate(() => document.querySelector("main").innerText);
  await pages[1].locator("figure.chart canvas").first().waitFor();
  await pages[4].locator("figure.chart canvas").first().waitFor();
  await pages[0].waitForTimeout(kWarm);
  let [was, seen] = [await all(), await stepOf()];
  let grown = [];
  // What leaks grows in each look; a slow machine may still load in the first.
  for (let look = 0; look < kLooks; look += 1) {
    await pages[0].waitForTimeout(kWatched);
    const [is, now] = [await all(), await stepOf()];
    assert.notEqual(now, seen, "the page shows what is new");
    grown = places.flatMap((place, index) => growth(place, was[index], is[index]));
    if (grown.length === 0) break;
    console.log(`look ${look + 1}:`, grown);
    [was, seen] = [is, now];
  }
  assert.deepEqual(grown, []);
  for (const visitor of visitors) await visitor.leave(/status of 404/);
});
