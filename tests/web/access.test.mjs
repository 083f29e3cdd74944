// Every view, in both themes, on a desk and on a phone: axe-core finds nothing, and nothing is wider
// than the screen.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, before } from "node:test";
import { fileURLToPath } from "node:url";
import { Seeded, missingController, seededTest } from "./seeded.mjs";
import { Visitor, launch } from "./setup.mjs";

const skip = missingController();
const test = seededTest(skip);
const modules = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "web", "node_modules");
const axe = skip ? "" : readFileSync(join(modules, "axe-core", "axe.min.js"), "utf8");

let seeded, browser, run, failed;
before(async () => {
  if (skip) return;
  seeded = await new Seeded({ runs: 30 }).start();
  run = (await seeded.ask("runs?state=succeeded&limit=1")).runs[0].id;
  failed = (await seeded.ask("runs?state=failed&limit=1")).runs[0].id;
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await seeded?.stop();
});

// Places, and what is seen there when all has come.
const places = () => [
  ["/", "table.runs tbody tr"],
  ["/?state=failed&text=nobody", ".empty"],
  [`/runs/${run}`, "figure.chart canvas"],
  [`/runs/${failed}`, ".tabs"],
  ...["time", "checkpoints", "plan", "log", "events", "details"].map((tab) => [
    `/runs/${run}/${tab}`,
    `.tabs [aria-current]`,
  ]),
  [`/compare?runs=${run},${failed}`, "main h1"],
  ...["nodes", "cluster", "events", "submit", "settings"].map((view) => [`/${view}`, "main h1"]),
];

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
    for (const [place, seen] of places()) {
      await page.goto(new URL(`#${place}`, page.url()).href);
      await page.locator(seen).first().waitFor();
      await page.waitForTimeout(400); // until what was asked for has come
      for (const text of await findings(page)) found.push(`${place}: ${text}`);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      if (wide > width) found.push(`${place}: ${wide} px wide`);
    }
    assert.deepEqual(found, []);
    await visitor.leave(/status of 404/); // a run without a plan
  });
}
