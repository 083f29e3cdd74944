// Tasks of every day without a pointer: find the run that failed and why, compare two runs, cancel one.
// Pinning a checkpoint and forking from it is in checkpoints.test.mjs, submitting in submit.test.mjs.
import assert from "node:assert/strict";
import { after, before } from "node:test";
import { Seeded, missingController, seededTest } from "./seeded.mjs";
import { Visitor, launch } from "./setup.mjs";

const skip = missingController();
const test = seededTest(skip);
let seeded, browser;
before(async () => {
  if (skip) return;
  seeded = await new Seeded({ runs: 40 }).start();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await seeded?.stop();
});

// A page in which a press of a pointer is a failure.
async function arrive() {
  const visitor = await Visitor.arrive(browser, seeded.link());
  const { page } = visitor;
  await page.locator("table.runs tbody tr").first().waitFor();
  await page.evaluate(() => {
    for (const kind of ["pointerdown", "mousedown"]) {
      document.addEventListener(kind, () => console.error(`a ${kind}`), true);
    }
  });
  return visitor;
}
const focused = (page) =>
  page.evaluate(() => {
    const element = document.activeElement;
    return (element.ariaLabel ?? element.innerText ?? "").trim() || element.tagName;
  });
// Tab until that has the focus.
async function tabTo(page, name) {
  for (let presses = 0; presses < 60; presses += 1) {
    await page.keyboard.press("Tab");
    if (name.test(await focused(page))) return;
  }
  assert.fail(`Tab does not come to ${name}; the focus is on ${await focused(page)}`);
}
async function typed(page, keys) {
  for (const key of keys) await page.keyboard.press(key);
}

test("find the run that failed last, and why", async () => {
  const { runs } = await seeded.ask("runs?state=failed&limit=1");
  const told = await seeded.ask(`runs/${runs[0].id}/explain`);
  const visitor = await arrive();
  const { page } = visitor;
  await tabTo(page, /^State/);
  await page.keyboard.press("Enter");
  for (let presses = 0; presses < 9; presses += 1) {
    await page.keyboard.press("Tab");
    const label = await page.evaluate(() => document.activeElement.closest("label")?.innerText);
    if (label?.trim() === "failed") break;
  }
  await page.keyboard.press("Space");
  await page.waitForFunction(() => location.hash === "#/?state=failed");
  await page.keyboard.press("Escape");
  await page.waitForFunction(
    () => [...document.querySelectorAll("table.runs .badge")].every((one) => one.innerText === "failed"),
  );
  await typed(page, ["j", "Enter"]);
  await page.waitForFunction((id) => location.hash === `#/runs/${id}`, runs[0].id);
  await visitor.sees(told.launches.at(-1).what);
  await page.keyboard.press("l");
  await page.waitForFunction((id) => location.hash === `#/runs/${id}/log`, runs[0].id);
  await visitor.sees(runs[0].error.slice(0, 40));
  await visitor.leave(/status of 404/);
});

test("compare two runs", async () => {
  const { runs } = await seeded.ask("runs?limit=3");
  const visitor = await arrive();
  const { page } = visitor;
  await typed(page, ["j", "x", "j", "j", "x", "c"]);
  await page.getByRole("heading", { name: "Compare" }).waitFor();
  const chosen = decodeURIComponent(new URL(page.url()).hash.split("runs=")[1]).split("&")[0];
  assert.deepEqual(chosen.split(","), [runs[0].id, runs[2].id]);
  await page.keyboard.press("Escape");
  await visitor.leave(/status of 404/);
});

test("cancel a run", async () => {
  const failed = (await seeded.ask("runs?state=failed&limit=1")).runs[0];
  const body = { name: "to-cancel", data: { path: "/nonexistent" }, steps: 10 };
  const made = await seeded.ask(`runs?after=${failed.id}`, { method: "POST", body });
  assert.ok(made.id, JSON.stringify(made));
  const visitor = await arrive();
  const { page } = visitor;
  await page.locator(`tr[data-run="${made.id}"]`).waitFor();
  await typed(page, ["j", "Enter"]);
  await page.getByRole("heading", { name: "to-cancel" }).waitFor();
  await tabTo(page, /^Cancel run/);
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor();
  await tabTo(page, /^Cancel the run/);
  await page.keyboard.press("Enter");
  await page.locator(".run-state .badge", { hasText: "cancelled" }).waitFor();
  assert.equal((await seeded.ask(`runs/${made.id}`)).state, "cancelled");
  await visitor.leave(/status of 404/);
});
