// Every view, in both themes, on a desk and on a phone: axe-core finds nothing, and nothing is wider
// than the screen.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, before } from "node:test";
import { fileURLToPath } from "node:url";
import { goTo, placesOf } from "./places.mjs";
import { Seeded, missingController, seededTest } from "./seeded.mjs";
import { Visitor, launch } from "./setup.mjs";

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
    const { violations } = await window.axe.run(document, { resultTypes: ["violations"] });
    return violations.map(({ id, impact, nodes }) => {
      const first = nodes.slice(0, 3).map((node) => `${node.target} ${node.failureSummary}`);
      return `${id} (${impact}): ${first.join("; ")}`;
    });
  });
}

for (const [theme, width] of [
  ["light", 1440],
  ["dark", 1440],
  ["light", 390],
  ["dark", 390],
]) {
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
}
