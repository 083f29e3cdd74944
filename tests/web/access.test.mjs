// Every view, and what opens over one, in both themes, on a desk and on a phone: axe-core finds nothing,
// and nothing is wider than the screen.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, before } from "node:test";
import { fileURLToPath } from "node:url";
import { goTo, placesOf } from "./places.mjs";
import { Seeded, missingController, seededTest } from "./seeded.mjs";
import { Visitor, kAll, launch } from "./setup.mjs";

const skip = missingController();
const test = seededTest(skip);
const modules = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "web", "node_modules");
const axe = skip ? "" : readFileSync(join(modules, "axe-core", "axe.min.js"), "utf8");

let seeded, browser, places;
before(async () => {
  if (skip) return;
  seeded = await new Seeded({ runs: 30 }).start();
  places = await placesOf(seeded);
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await seeded?.stop();
});

async function findings(page) {
  await page.evaluate(axe);
  return page.evaluate(async () => {
    const rules = { "target-size": { enabled: true } }; // 2.5.8, which is off by default
    const { violations } = await window.axe.run(document, { resultTypes: ["violations"], rules });
    return violations.map(({ id, impact, nodes }) => {
      const first = nodes.slice(0, 3).map((node) => `${node.target} ${node.failureSummary}`);
      return `${id} (${impact}): ${first.join("; ")}`;
    });
  });
}

// What is to be looked at of a page: [name, how it is opened, how it is closed].
const escape = (page) => page.keyboard.press("Escape");
const closed = (page) => page.getByRole("dialog").waitFor({ state: "detached" });
const byKey = (key, title) => async (page) => {
  await page.keyboard.press(key);
  await page.getByRole("dialog", { name: title }).waitFor();
};
const dialogGone = async (page) => {
  await escape(page);
  await closed(page);
};
const menu = (name) => (page) => page.locator("main summary", { hasText: name }).first().click();
const press = (name) => async (page) => {
  await page.getByRole("button", { name }).click();
  await page.getByRole("dialog").waitFor();
};
const kOpened = [
  ["the menu of states", menu("State"), escape],
  ["the menu of filters", menu("Filters"), escape],
  ["the menu of columns", menu("Columns"), escape],
  ["the keys", byKey("?", "Keys"), dialogGone],
  ["the palette", byKey("Control+k", "Find a run or a view"), dialogGone],
  [
    "the bar of the selection",
    async (page) => {
      await page.locator("table.runs tbody input").first().check();
      await page.locator(".selection").waitFor();
    },
    () => undefined,
  ],
  ["the dialog of tags", press("Tag…"), dialogGone],
  ["the dialog of archiving", press("Archive…"), dialogGone],
  [
    "a notice",
    async (page) => {
      await page.route(/api\/v1\/runs\?/, (route) => route.abort());
      await page.getByText("Controller unreachable").waitFor();
    },
    (page) => page.unroute(/api\/v1\/runs\?/),
  ],
];

const looks = [
  ["dark", 1440],
  ["light", 320],
  ["light", 1440],
  ["dark", 390],
];
for (const [theme, width] of kAll ? looks : looks.slice(0, 2)) {
  test(`axe finds nothing in ${theme} at ${width} px`, async () => {
    const options = { colorScheme: theme, viewport: { width, height: 900 } };
    const visitor = await Visitor.arrive(browser, seeded.link(), options);
    const { page } = visitor;
    await page.locator("table.runs tbody tr").first().waitFor();
    const found = [];
    for (const [name, place] of places) {
      await goTo(page, place);
      for (const text of await findings(page)) found.push(`${name}: ${text}`);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      if (wide > width) found.push(`${name}: ${wide} px wide`);
    }
    assert.deepEqual(found, []);
    await visitor.leave(/status of 404/); // a run without a plan
  });
  test(`axe finds nothing in what opens, in ${theme} at ${width} px`, async () => {
    const options = { colorScheme: theme, viewport: { width, height: 900 } };
    const found = [];
    const look = async (page, name) => {
      await page.waitForTimeout(300);
      for (const text of await findings(page)) found.push(`${name}: ${text}`);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      if (wide > width) found.push(`${name}: ${wide} px wide`);
    };
    const stranger = await Visitor.arriveAt(browser, seeded.url, options);
    await stranger.sees("This page needs a link");
    await look(stranger.page, "the login");
    await stranger.leave();
    const visitor = await Visitor.arrive(browser, seeded.link("/?state=failed"), options);
    const { page } = visitor;
    await page.locator("table.runs tbody tr").first().waitFor();
    for (const [name, open, close] of kOpened) {
      await open(page);
      await look(page, name);
      await close(page);
    }
    assert.deepEqual(found, []);
    await visitor.leave(/ERR_FAILED/);
  });
}
