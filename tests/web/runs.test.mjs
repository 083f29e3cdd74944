// The list of runs over a store of many: filters, order, pages, columns, selection, keys.
import assert from "node:assert/strict";
import { after, before } from "node:test";
import { Seeded, missingController, seededTest } from "./seeded.mjs";
import { Visitor, launch } from "./setup.mjs";

const skip = missingController();
const test = seededTest(skip);
const kRuns = 130;
let seeded, browser;
before(async () => {
  if (skip) return;
  seeded = await new Seeded({ runs: kRuns }).start();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await seeded?.stop();
});

const arrive = (place = "", options = {}) => Visitor.arrive(browser, seeded.link(place), options);
const rows = (page) => page.locator("table.runs tbody tr");
const hash = (page) => new URL(page.url()).hash;

test("a page has a hundred runs, and says how many there are", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await visitor.sees(`100 of ${kRuns}`);
  assert.equal(await rows(page).count(), 100);
  const first = await rows(page).first().getAttribute("data-run");
  await page.getByRole("button", { name: "Next" }).click();
  await visitor.sees(`101–${kRuns} of ${kRuns}`);
  assert.equal(await rows(page).count(), kRuns - 100);
  await page.reload();
  await visitor.sees(`101–${kRuns} of ${kRuns}`);
  await page.getByRole("button", { name: "Previous" }).click(); // this tab has come from there
  await visitor.sees(`100 of ${kRuns}`);
  assert.equal(await rows(page).first().getAttribute("data-run"), first);
  await visitor.leave();
});

// What is shown is of this address, not of the one before.
const answered = (page) => page.locator(".stale").waitFor({ state: "detached" });

test("filters and order stand in the address and hold what they say", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  const { runs } = await seeded.ask("runs?state=failed&limit=1000");
  await page.getByText("State", { exact: true }).first().waitFor();
  await page.locator("summary", { hasText: "State" }).click();
  await page.getByRole("checkbox", { name: "failed" }).check();
  await page.getByRole("button", { name: "Remove the filter state failed" }).waitFor();
  assert.equal(hash(page), "#/?state=failed");
  await answered(page);
  await page.keyboard.press("Escape");
  const shown = await rows(page).evaluateAll((all) => all.map((row) => row.dataset.run));
  assert.deepEqual(shown, runs.map((run) => run.id));
  for (const text of await rows(page).locator(".badge").allInnerTexts()) assert.equal(text, "failed");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.locator('th[aria-sort="ascending"]', { hasText: "Run" }).waitFor();
  await answered(page);
  const names = await rows(page).locator(".row-link").evaluateAll((all) =>
    all.map((link) => link.getAttribute("aria-label")),
  );
  assert.deepEqual(names, names.slice().sort());
  await page.getByRole("textbox", { name: /Search/ }).fill("no checkpoint could");
  await page.waitForFunction(() => location.hash.includes("text=no+checkpoint+could"));
  await page.waitForFunction(
    () =>
      document.querySelectorAll("table.runs tbody tr").length > 0 &&
      [...document.querySelectorAll("table.runs .why")].every((why) =>
        why.textContent.includes("no checkpoint could"),
      ),
  );
  await page.reload();
  await visitor.sees("text: no checkpoint could");
  await page.getByRole("textbox", { name: /Search/ }).fill("<b>nobody</b>");
  await visitor.sees("No run is like that");
  await page.getByRole("button", { name: "Show all runs" }).click();
  await visitor.sees(`100 of ${kRuns}`);
  await visitor.leave();
});

test("columns are chosen once for every visit", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  const header = (name) => page.locator("table.runs th", { hasText: name });
  await header("Owner").waitFor();
  assert.equal(await header("Samples/s").count(), 0);
  await page.locator("summary", { hasText: "Columns" }).click();
  await page.getByRole("checkbox", { name: "Owner" }).uncheck();
  await page.getByRole("checkbox", { name: "Samples/s" }).check();
  await header("Samples/s").waitFor();
  await page.reload();
  await header("Samples/s").waitFor();
  assert.equal(await header("Owner").count(), 0);
  await visitor.leave();
});

test("runs are selected by key, tagged and archived together", async () => {
  const visitor = await arrive("/?state=failed");
  const { page } = visitor;
  await rows(page).first().waitFor();
  const ids = await rows(page).evaluateAll((all) => all.slice(0, 3).map((row) => row.dataset.run));
  await page.keyboard.press("j");
  await page.keyboard.press("x");
  await page.keyboard.press("j");
  await page.keyboard.press("x");
  await visitor.sees("2 selected");
  await page.keyboard.press("k");
  await page.keyboard.press("x");
  await visitor.sees("1 selected");
  await page.keyboard.press("Escape");
  await visitor.seesNoMore("1 selected");
  const box = (id) => page.locator(`tr[data-run="${id}"] input`);
  await box(ids[0]).click();
  await box(ids[2]).click({ modifiers: ["Shift"] });
  await visitor.sees("3 selected");
  await page.getByRole("button", { name: "Tag…" }).click();
  await page.getByRole("textbox", { name: "Add tags" }).fill("looked-at bad&tag");
  await page.getByRole("button", { name: "Tag 3 runs" }).click();
  await visitor.sees("0 tagged, 3 not:");
  await page.getByRole("button", { name: "Close" }).click();
  await page.getByRole("button", { name: "Tag…" }).click();
  await page.getByRole("textbox", { name: "Add tags" }).fill("looked-at");
  await page.getByRole("button", { name: "Tag 3 runs" }).click();
  await visitor.sees("3 tagged");
  await page.getByRole("button", { name: "Close" }).click();
  for (const id of ids) {
    assert.ok((await seeded.ask(`runs/${id}`)).tags.includes("looked-at"), id);
    await page.locator(`tr[data-run="${id}"] .tag`, { hasText: "looked-at" }).waitFor();
  }
  await page.getByRole("button", { name: "Archive…" }).click();
  await page.getByRole("button", { name: "Archive 3 runs" }).click();
  await visitor.sees("3 archived");
  await page.getByRole("button", { name: "Close" }).click();
  await page.locator(`tr[data-run="${ids[0]}"]`).waitFor({ state: "detached" });
  for (const id of ids) assert.equal((await seeded.ask(`runs/${id}`)).archived, true);
  await visitor.leave(/status of 422/);
});

test("keys lead to a run and back, and are told", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await rows(page).first().waitFor();
  await page.keyboard.press("?");
  const keys = page.getByRole("dialog", { name: "Keys" });
  await keys.getByText("Next run").waitFor();
  await page.keyboard.press("Escape");
  await keys.waitFor({ state: "detached" });
  await page.keyboard.press("j");
  const id = await page.evaluate(() => document.activeElement.closest("tr").dataset.run);
  await page.keyboard.press("Enter");
  await page.getByRole("navigation", { name: "Run details" }).waitFor();
  assert.equal(hash(page), `#/runs/${id}`);
  await page.keyboard.press("l");
  await page.waitForFunction((run) => location.hash === `#/runs/${run}/log`, id);
  await page.keyboard.press("Escape");
  await rows(page).first().waitFor();
  await page.keyboard.press("Control+k");
  const palette = page.getByRole("dialog", { name: "Find a run or a view" });
  await palette.getByRole("combobox").fill("books");
  await palette.getByRole("option", { name: /books-small/ }).first().waitFor();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "books-small", exact: true }).waitFor();
  await page.keyboard.press("g");
  await page.keyboard.press("r");
  await rows(page).first().waitFor();
  await visitor.leave();
});

test("curves are drawn for runs with evaluations", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await page.locator("svg.spark polyline").nth(50).waitFor({ state: "attached" });
  const label = await page.locator("svg.spark").first().getAttribute("aria-label");
  assert.match(label, /^Masked accuracy \d+\.\d+.% at step [\d,]+$/);
  await visitor.leave();
});

test("the theme is the reader's, and stays", async () => {
  const visitor = await arrive("", { colorScheme: "light" });
  const { page } = visitor;
  const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
  await rows(page).first().waitFor();
  assert.equal(await theme(), "light");
  await page.getByRole("button", { name: /Theme/ }).click();
  await page.getByRole("button", { name: /Theme/ }).click();
  assert.equal(await theme(), "dark");
  await page.reload();
  await rows(page).first().waitFor();
  assert.equal(await theme(), "dark");
  await visitor.leave();
});

test("nothing is wider than a phone", async () => {
  const visitor = await arrive("", { viewport: { width: 390, height: 844 } });
  const { page } = visitor;
  await rows(page).first().waitFor();
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(width <= 390, `${width} px`);
  await visitor.keepPicture("runs-narrow");
  await visitor.leave();
});
