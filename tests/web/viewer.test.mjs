// Somebody who may look and not act: each action of the page, with the real controller behind something
// that answers 403 to whatever changes anything, as a site's proxy does for people who only read. The
// page says why, stays as it is and goes on; the controller has the same before and after.
import assert from "node:assert/strict";
import { after, before } from "node:test";
import { Seeded, missingController, seededTest } from "./seeded.mjs";
import { Visitor, kPatience, launch } from "./setup.mjs";
import { train } from "./trained.mjs";

const skip = missingController();
const test = seededTest(skip);
const kRun = "trained-00abcd";
const kWhy = "you may look at runs here, and not change them";
let seeded, browser;
before(async () => {
  if (skip) return;
  const prepare = (folder) => train(folder, [[kRun, "keep_last: 4"]]);
  seeded = await new Seeded({ runs: 12, prepare }).start();
  await seeded.ask(`runs/${kRun}/checkpoints/4/pin`, { method: "POST", body: { reason: "kept" } });
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await seeded?.stop();
});

// All that an action could have changed.
async function everything() {
  const { runs } = await seeded.ask("runs?limit=1000&archived=all");
  const { checkpoints } = await seeded.ask(`runs/${kRun}/checkpoints`);
  const made = await seeded.ask(`runs/${kRun}/checkpoints/10/export`);
  const { events } = await seeded.ask("events?limit=1000");
  const pins = checkpoints.map(({ name, pinned }) => ({ name, pinned }));
  const known = runs.map(({ id, state, tags, note, archived, steps }) =>
    JSON.stringify({ id, state, tags, note, archived, steps }),
  );
  return { known, pins, made: made.state ?? made.code, events: events.length };
}

// A page whose changes are refused on the way. asked: the requests that were.
async function arrive(place) {
  const visitor = await Visitor.arriveAt(browser, seeded.link(place));
  await visitor.isLetIn();
  const asked = [];
  await visitor.page.route("**/api/v1/**", (route) => {
    const request = route.request();
    const path = new URL(request.url()).pathname + new URL(request.url()).search;
    if (request.method() === "GET" || path.includes("dry_run=true")) return route.continue();
    asked.push(`${request.method()} ${path}`);
    const json = { type: "about:blank", title: "Forbidden", status: 403, code: "forbidden", detail: kWhy };
    return route.fulfill({ status: 403, contentType: "application/problem+json", json });
  });
  return { visitor, page: visitor.page, asked };
}
// What was refused is said in `place`, once for each action; nobody is sent out.
async function isTold(page, place, words) {
  await place.getByText(`${words}${kWhy}`).first().waitFor();
  assert.notEqual(await page.evaluate(() => sessionStorage.getItem("regatta.session")), null);
}
const dialogOf = (page) => page.getByRole("dialog");
async function close(page) {
  await page.keyboard.press("Escape");
  await page.locator("dialog").waitFor({ state: "detached" }); // a closed one has no role any more
}
async function press(page, name) {
  await dialogOf(page).getByRole("button", { name, exact: typeof name === "string" }).press("Enter");
}

test("the list's actions are refused with the reason, and nothing is changed", async () => {
  const failed = (await seeded.ask("runs?state=failed&limit=1")).runs[0];
  const body = { name: "waits", data: { path: "/nonexistent" }, steps: 10 };
  const waiting = await seeded.ask(`runs?after=${failed.id}`, { method: "POST", body });
  const known = await everything();
  const { visitor, page, asked } = await arrive("/");
  const select = async (id) => {
    await page.locator(`tr[data-run="${id}"] input`).click();
    await visitor.sees("1 selected");
  };
  await select(failed.id);
  await page.getByRole("button", { name: "Tag…" }).click();
  await page.getByRole("textbox", { name: "Add tags" }).fill("mine");
  await press(page, "Tag 1 run");
  await dialogOf(page).getByText("0 tagged, 1 not:").waitFor();
  await isTold(page, dialogOf(page), "");
  await close(page);
  await page.getByRole("button", { name: "Archive…" }).click();
  await press(page, "Archive 1 run");
  await dialogOf(page).getByText("0 archived, 1 not:").waitFor();
  await isTold(page, dialogOf(page), "");
  await close(page);
  await page.keyboard.press("Escape");
  await select(waiting.id);
  await page.getByRole("button", { name: "Cancel…" }).click();
  await press(page, "Cancel 1 run");
  await dialogOf(page).getByText("0 asked to stop, 1 not:").waitFor();
  await isTold(page, dialogOf(page), "");
  assert.equal(asked.length, 3, asked.join());
  assert.deepEqual(await everything(), known);
  await visitor.leave(/status of 403/);
});

test("a run's actions are refused with the reason, and nothing is changed", async () => {
  const failed = (await seeded.ask("runs?state=failed&limit=1")).runs[0];
  const body = { name: "ends-here", data: { path: "/nonexistent" }, steps: 10 };
  const made = await seeded.ask(`runs?after=${failed.id}`, { method: "POST", body });
  await seeded.ask(`runs/${made.id}/cancel`, { method: "POST" });
  const end = Date.now() + kPatience;
  while ((await seeded.ask(`runs/${made.id}`)).state !== "cancelled") {
    assert.ok(Date.now() < end, "it is not cancelled");
    await new Promise((done) => setTimeout(done, 100));
  }
  const known = await everything();
  const { visitor, page, asked } = await arrive(`/runs/${kRun}`);
  const open = async (name) => {
    await page.locator(".run-actions summary").press("Enter");
    await page.getByRole("button", { name }).press("Enter");
    await dialogOf(page).waitFor();
  };
  await open("Tags and note…");
  await dialogOf(page).getByRole("textbox", { name: "Note" }).fill("mine");
  await press(page, "Save");
  await isTold(page, dialogOf(page), "Not done: ");
  const note = await dialogOf(page).getByRole("textbox", { name: "Note" }).inputValue();
  assert.equal(note, "mine", "what was typed is still there");
  await close(page);
  await open("Extend…");
  await dialogOf(page).getByRole("textbox", { name: /^Steps in all/ }).fill("20");
  await press(page, "Extend the run");
  await isTold(page, dialogOf(page), "Not done: ");
  await close(page);
  await page.goto(`${seeded.url}#/runs/${made.id}`);
  await page.getByRole("heading", { name: "ends-here" }).waitFor();
  await open("Archive…");
  await press(page, /^Archive it and free/);
  await isTold(page, dialogOf(page), "Not done: ");
  await close(page);
  await open("Remove…");
  await press(page, /^Remove it and free/);
  await isTold(page, dialogOf(page), "Not done: ");
  await close(page);
  await page.getByRole("button", { name: /^Resume/ }).first().press("Enter");
  await isTold(page, page, "Not resumed: ");
  assert.equal(asked.length, 5, asked.join());
  assert.deepEqual(await everything(), known);
  await visitor.leave(/status of 403/);
});

test("actions on checkpoints are refused with the reason, and nothing is changed", async () => {
  const known = await everything();
  const { visitor, page, asked } = await arrive(`/runs/${kRun}/checkpoints`);
  const row = (step) => page.locator(`tr[data-checkpoint^="step-${String(step).padStart(10, "0")}"]`);
  const button = (step, name) => row(step).getByRole("button", { name });
  await button(8, /^Pin/).press("Enter");
  await press(page, "Pin");
  await isTold(page, dialogOf(page), "Not pinned: ");
  await close(page);
  await button(4, /Unpin/).press("Enter");
  await press(page, "Unpin");
  await isTold(page, dialogOf(page), "Not unpinned: ");
  await close(page);
  await button(8, /Verify/).press("Enter");
  await isTold(page, row(8), "");
  await button(10, /Export/).press("Enter");
  await press(page, "Export");
  await isTold(page, dialogOf(page), "Not exported: ");
  await close(page);
  await button(8, /Fork/).press("Enter");
  await press(page, "Fork");
  await isTold(page, dialogOf(page), "Not forked: ");
  await close(page);
  assert.equal(asked.length, 5, asked.join());
  assert.deepEqual(await everything(), known);
  await visitor.leave(/status of (403|404)/);
});

test("a submission is checked, then refused with the reason, and its text stays", async () => {
  const known = await everything();
  const { visitor, page, asked } = await arrive(`/submit?from=${kRun}`);
  await visitor.sees("filled from");
  await page.locator("#field-name").fill("mine");
  await page.getByText("Ready to submit.").waitFor();
  await page.getByRole("button", { name: "Submit", exact: true }).press("Enter");
  await page.locator(".submit-standing").getByText("The controller refused this.").waitFor();
  const panel = page.getByRole("alert").filter({ hasText: "The controller refused this" });
  await panel.getByText(kWhy, { exact: true }).waitFor();
  assert.deepEqual(asked, ["POST /api/v1/runs"]);
  assert.equal(await page.locator("#field-name").inputValue(), "mine");
  await page.goto(`${seeded.url}#/`);
  await page.locator(`tr[data-run="${kRun}"]`).waitFor(); // who may look still does
  assert.deepEqual(await everything(), known);
  await visitor.leave(/status of 403/);
});
