// What the list of runs has room for: why a run failed is in sight, and cards of a phone line up.
import assert from "node:assert/strict";
import { makeRun, series, follow } from "./fixture.mjs";
import { Visitor, browser, pageTests } from "./setup.mjs";

const pageTest = pageTests();

// The longest words that a row may have, beside ordinary ones.
export function entries() {
  const add = (id, steps, fields) => {
    const metrics = series({ steps, stepSeconds: 0.2, evaluateEvery: 10, limit: 0.7 });
    return { run: { ...follow(makeRun(id, { target: 0.7 }), metrics), ...fields }, metrics, log: "" };
  };
  const failed = { state: "failed", state_text: "failed", owner: "uid 1000", tags: ["baseline"] };
  const error = "CUDA error: an illegal memory access was encountered on rank 12 of gpu-017";
  return [
    add("wiki-large-unpadded-presorted-0aaccb", 4000, {
      ...failed,
      error,
      value: 0.66,
      target_reached: true,
      time_to_accuracy_seconds: 36_252,
      attempts: 3,
    }),
    add("wiki-base-lamb-batch-4096-000002", 1200, { ...failed, error, value: 0.651 }),
    add("wiki-base-000003", 0, { ...failed, error, since_submission_seconds: 93_000 }),
    add("wiki-small-000004", 3400, { value: 0.651, predicted_seconds_to_target: 3725 }),
    add("wiki-tiny-000005", 0, { state: "queued", state_text: "waits for a free slot" }),
  ];
}

const kColumns = { 1000: 8, 1150: 9, 1200: 10, 1280: 10, 1440: 10, 1920: 10 }; // owner, then curve yield
for (const [width, columns] of Object.entries(kColumns).map((one) => one.map(Number))) {
  pageTest(`why a run failed is in sight at ${width} px`, entries, async (fixture) => {
    const visitor = await Visitor.arrive(browser, fixture.url, { viewport: { width, height: 800 } });
    const { page } = visitor;
    await page.locator(".spark").first().waitFor({ state: "attached" });
    const found = await page.evaluate(() => {
      const list = document.querySelector(".list");
      const why = document.querySelector(".cell-reason .why").getBoundingClientRect();
      const { right } = list.getBoundingClientRect();
      return {
        beyond: list.scrollWidth - list.clientWidth,
        seen: Math.min(right, why.right) - why.left,
        tall: Math.max(...[...document.querySelectorAll("tbody tr")].map((row) => row.offsetHeight)),
        columns: [...document.querySelectorAll("thead th")].filter((th) => th.offsetWidth > 0).length,
      };
    });
    assert.equal(found.beyond, 0);
    assert.equal(found.columns, columns);
    assert.ok(found.seen >= 150, `${found.seen} px of the reason are seen`);
    assert.ok(found.tall <= 52, `a row is ${found.tall} px high`);
    await visitor.keepPicture(`list-room-${width}`);
    await visitor.leave();
  });
}

for (const width of [390, 720]) {
  pageTest(`cards of ${width} px line up and say what they are sorted by`, entries, async (fixture) => {
    const visitor = await Visitor.arrive(browser, fixture.url, { viewport: { width, height: 900 } });
    const { page } = visitor;
    await page.locator(".spark").first().waitFor();
    const of = (selector) =>
      page.evaluate((which) => {
        const boxes = [...document.querySelectorAll(which)].map((one) => one.getBoundingClientRect());
        return boxes.map(({ left, width }) => [Math.round(left), Math.round(width)]);
      }, selector);
    const states = (await of("tbody .badge")).map(([left]) => left);
    assert.equal(new Set(states).size, 1, `states begin at ${states}`);
    const bars = (await of("tbody progress")).map(String);
    assert.equal(new Set(bars).size, 1, `bars are ${bars}`);
    assert.ok((await of("tbody .cell-created time")).every(([, wide]) => wide > 0));
    assert.ok((await of("tbody .cell-owner .cut")).every(([, wide]) => wide > 0));
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
    const cut = await page.locator(".tag").evaluateAll((all) => all.some((one) => one.scrollWidth > one.clientWidth));
    assert.equal(cut, false, "a tag is whole");
    await visitor.keepPicture(`list-room-${width}`);
    await visitor.leave();
  });
}

pageTest("what is selected is so after a comparison, until it was seen", entries, async (fixture) => {
  const visitor = await Visitor.arrive(browser, fixture.url);
  const { page } = visitor;
  for (const name of ["wiki-small", "wiki-tiny"]) await page.getByLabel(`Select ${name}`).check();
  await page.getByRole("button", { name: "Compare" }).click();
  await page.getByRole("heading", { name: /Compar/ }).first().waitFor();
  await page.goBack();
  await visitor.sees("2 selected");
  await page.getByRole("link", { name: "Settings" }).click();
  await page.getByRole("heading", { name: "Settings" }).waitFor();
  await page.goBack();
  await page.locator("table.runs").waitFor();
  assert.equal(await page.locator(".selection").count(), 0);
  await visitor.leave(/404/);
});

// What the style sheet hides for want of room; the menu says so of what is ticked alone.
const kNoRoom = { 390: ["Loss"], 1000: ["Curve", "Owner"], 1150: ["Owner"], 1200: [] };
for (const [width, missing] of Object.entries(kNoRoom)) {
  pageTest(`the menu of columns says which have no room at ${width} px`, entries, async (fixture) => {
    const viewport = { width: Number(width), height: 800 };
    const visitor = await Visitor.arrive(browser, fixture.url, { viewport });
    const { page } = visitor;
    await page.locator("table.runs tbody tr").first().waitFor();
    await page.locator("summary", { hasText: "Columns" }).press("Enter");
    const box = (name) => page.getByRole("checkbox", { name: new RegExp(`^${name}`) });
    await box("Loss").press("Space");
    await page.locator("td.cell-loss").first().waitFor({ state: "attached" });
    const told = await page.evaluate(() =>
      [...document.querySelectorAll(".menu label")]
        .filter((label) => label.innerText.includes("no room here"))
        .map((label) => label.firstElementChild.nextSibling.textContent),
    );
    assert.deepEqual(told, missing);
    const hidden = await page.evaluate(() => {
      const cells = [...document.querySelectorAll("tbody tr:first-child td[class*=cell-]")];
      const unseen = cells.filter((cell) => getComputedStyle(cell).display === "none");
      return unseen.map((cell) => cell.className.match(/cell-(\w+)/)[1]);
    });
    assert.deepEqual(hidden.sort(), missing.map((name) => name.toLowerCase()).sort());
    for (const name of missing) {
      assert.ok(await page.getByRole("checkbox", { name: `${name} no room here` }).isChecked());
    }
    await visitor.leave();
  });
}
