// On paper: light, whole, and nothing to press.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { ranksRun, standardRuns } from "./fixture.mjs";
import { Visitor, browser, kOut, pageTests } from "./setup.mjs";

const pageTest = pageTests();
const entries = () => [...standardRuns(), ranksRun()];

// A4 across, less its margins, at 96 dots per inch.
const kPaper = { width: 1032, height: 703 };

const seen = (page) =>
  page.evaluate(() => {
    const isShown = (one) => one.checkVisibility() && one.getClientRects().length > 0;
    const pressed = "nav, button:not(.sort, .chip), input, summary, .top-tools";
    const wide = [...document.querySelectorAll(".scroll, figure, main, canvas")];
    return {
      toPress: [...document.querySelectorAll(pressed)].filter(isShown).map((one) => one.outerHTML),
      theme: document.documentElement.dataset.theme,
      beyond: wide.filter((one) => one.getBoundingClientRect().right > innerWidth + 1).length,
      inner: wide.filter((one) => /auto|scroll/.test(getComputedStyle(one).overflowX)).length,
      split: [...document.querySelectorAll("figure.chart")].filter(
        (one) => getComputedStyle(one).breakInside !== "avoid",
      ).length,
    };
  });

for (const place of ["#/", "#/runs/ranks-5c1e07", "#/runs/demo-4f2a91/time"]) {
  pageTest(`${place} is made for paper, from the dark theme`, entries, async (fixture) => {
    const visitor = await Visitor.arrive(browser, `${fixture.url}${place}`, {
      colorScheme: "dark",
    });
    const { page } = visitor;
    await page.locator(place === "#/" ? "table.runs" : "figure.chart canvas").first().waitFor();
    await page.emulateMedia({ media: "print" });
    await page.setViewportSize(kPaper);
    await page.waitForFunction(() => document.documentElement.dataset.theme === "light");
    assert.deepEqual(await seen(page), { toPress: [], theme: "light", beyond: 0, inner: 0, split: 0 });
    await visitor.keepPicture(`print-${place.replace(/\W+/g, "-")}`);
    mkdirSync(kOut, { recursive: true });
    const name = `print-${place.replace(/\W+/g, "-")}`;
    await page.emulateMedia({ media: "screen", colorScheme: "dark" });
    await page.waitForFunction(() => document.documentElement.dataset.theme === "dark");
    await page.pdf({ path: join(kOut, `${name}.pdf`), preferCSSPageSize: true, printBackground: true });
    await page.waitForFunction(() => document.documentElement.dataset.theme === "dark");
    await visitor.leave(/404/); // this controller knows no times
  });
}
