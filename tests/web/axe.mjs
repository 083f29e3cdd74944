// What axe-core finds on a page, and which looks of it are tried.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { kAll } from "./setup.mjs";

const modules = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "web", "node_modules");
let axe = null; // read when it is needed: without a browser it may not be there

// A line for each rule that the page breaks.
export async function findings(page) {
  axe ??= readFileSync(join(modules, "axe-core", "axe.min.js"), "utf8");
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

// Themes and widths: both themes on a desk and on a phone, with --all.
const looks = [
  ["dark", 1440],
  ["light", 320],
  ["light", 1440],
  ["dark", 390],
];
export const kLooks = kAll ? looks : looks.slice(0, 2);

// Looks at a page of this width as often as it is asked to; end() tells what was found.
export class Inspection {
  constructor(width) {
    this.width = width;
    this.found = [];
  }
  async look(page, name) {
    await page.waitForTimeout(300); // what moves has come to rest
    for (const text of await findings(page)) this.found.push(`${name}: ${text}`);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    if (wide > this.width) this.found.push(`${name}: ${wide} px wide`);
  }
  end() {
    assert.deepEqual(this.found, []);
  }
}

// Texts of a stranger are texts: nothing ran, nothing was fetched, and none hides or widens anything.
export async function assertPlain(page, width) {
  const found = await page.evaluate(() => ({
    stolen: window.stolen ?? null,
    images: document.querySelectorAll("main img").length,
    hidden: /\u202e/.test(document.body.innerText),
    wide: document.documentElement.scrollWidth,
  }));
  assert.deepEqual(found, { stolen: null, images: 0, hidden: false, wide: width });
}
