// Every view, and what opens over one, in both themes, on a desk and on a phone: axe-core finds nothing,
// and nothing is wider than the screen.
import { after, before } from "node:test";
import { Inspection, kLooks } from "./axe.mjs";
import { makeEnvironment } from "./environments.mjs";
import { goTo, placesOf } from "./places.mjs";
import { Seeded, missingController, seededTest } from "./seeded.mjs";
import { Visitor, launch } from "./setup.mjs";

const skip = missingController();
const test = seededTest(skip);

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

// Runs that were made by hand have no environments; each gets one of its own.
const withEnvironments = (page) =>
  page.route(/\/environment$/, (route) => {
    const kernel = route.request().url();
    return route.fulfill({ json: makeEnvironment({ machine: { kernel } }) });
  });
async function openEnvironment(page) {
  await page.locator(".env-part summary").first().waitFor();
  for (const summary of await page.locator(".env-part summary").all()) await summary.click();
}

for (const [theme, width] of kLooks) {
  test(`axe finds nothing in ${theme} at ${width} px`, async () => {
    const options = { colorScheme: theme, viewport: { width, height: 900 } };
    const visitor = await Visitor.arrive(browser, seeded.link(), options);
    const { page } = visitor;
    await page.locator("table.runs tbody tr").first().waitFor();
    await withEnvironments(page);
    const inspection = new Inspection(width);
    for (const [name, place] of places) {
      await goTo(page, place);
      await inspection.look(page, name);
      if (name !== "run-details") continue;
      await openEnvironment(page);
      await inspection.look(page, `${name}, opened`);
    }
    inspection.end();
    await visitor.leave(/status of 404/); // a run without a plan
  });
  test(`axe finds nothing in what opens, in ${theme} at ${width} px`, async () => {
    const options = { colorScheme: theme, viewport: { width, height: 900 } };
    const inspection = new Inspection(width);
    const stranger = await Visitor.arriveAt(browser, seeded.url, options);
    await stranger.sees("This page needs a link");
    await inspection.look(stranger.page, "the login");
    await stranger.leave();
    const visitor = await Visitor.arrive(browser, seeded.link("/?state=failed"), options);
    const { page } = visitor;
    await page.locator("table.runs tbody tr").first().waitFor();
    for (const [name, open, close] of kOpened) {
      await open(page);
      await inspection.look(page, name);
      await close(page);
    }
    inspection.end();
    await visitor.leave(/ERR_FAILED/);
  });
}
