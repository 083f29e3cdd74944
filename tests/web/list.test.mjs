// The list of runs where things go wrong: what is done to several runs, pages and filters while answers
// are late, hostile texts, and where the focus is.
import assert from "node:assert/strict";
import { after, before } from "node:test";
import { follow, makeRun, series, standardRuns } from "./fixture.mjs";
import { Seeded, missingController, seededTest } from "./seeded.mjs";
import { Visitor, kPatience, launch, missingBrowser, pageTestWith } from "./setup.mjs";

const skip = missingController();
const test = seededTest(skip);
const pageTest = pageTestWith({ skip: missingBrowser() ?? false });
const kRuns = 230; // three pages
let seeded, browser;
before(async () => {
  if (!missingBrowser()) browser = await launch();
  if (!skip) seeded = await new Seeded({ runs: kRuns }).start();
});
after(async () => {
  await browser?.close();
  await seeded?.stop();
});

const arrive = (place = "", options = {}) => Visitor.arrive(browser, seeded.link(place), options);
const rows = (page) => page.locator("table.runs tbody tr");
const hash = (page) => new URL(page.url()).hash;
const button = (page, name) => page.getByRole("button", { name, exact: true });
const focused = (page) =>
  page.evaluate(() => {
    const { tagName, id, className } = document.activeElement;
    return `${tagName}${id && `#${id}`}${className && `.${className.split(" ")[0]}`}`;
  });

// Runs that wait for one that failed.
async function queued(count, name) {
  const failed = (await seeded.ask("runs?state=failed&limit=1")).runs[0];
  const made = [];
  for (let i = 0; i < count; i += 1) {
    const body = { name: `${name}-${i}`, data: { path: "/nonexistent" }, steps: 10 };
    made.push((await seeded.ask(`runs?after=${failed.id}`, { method: "POST", body })).id);
  }
  return made;
}
async function allBecome(ids, expected) {
  for (const end = Date.now() + kPatience; ; await new Promise((done) => setTimeout(done, 200))) {
    const runs = await Promise.all(ids.map((id) => seeded.ask(`runs/${id}`)));
    const states = runs.map((run) => run.state).sort();
    if (states.join() === expected.join()) return;
    if (Date.now() > end) assert.deepEqual(states, expected);
  }
}

// Requests whose address matches wait until it is called with how many may go; null: all from now on.
async function gate(page, pattern) {
  const waiting = [];
  let isOpen = false;
  await page.route(pattern, async (route) => {
    if (!isOpen) await new Promise((go) => waiting.push(go));
    await route.continue().catch(() => undefined); // its view was left
  });
  return async (count = null) => {
    if (count == null) {
      isOpen = true;
      for (const go of waiting.splice(0)) go();
    }
    for (let i = 0; i < count; i += 1) {
      while (waiting.length === 0) await page.waitForTimeout(20);
      waiting.shift()();
    }
  };
}

test("who stops a cancellation of several in the middle stops it", async () => {
  const ids = await queued(3, "bulk");
  const visitor = await arrive("/?name=bulk-&state=queued");
  const { page } = visitor;
  await rows(page).nth(2).waitFor();
  await page.getByRole("checkbox", { name: "Select all runs of this page" }).check();
  await page.getByRole("button", { name: "Cancel…" }).click();
  const dialog = page.getByRole("dialog", { name: "Cancel 3 runs?" });
  const letThrough = await gate(page, /\/cancel$/);
  await dialog.getByRole("button", { name: "Cancel 3 runs" }).click();
  await letThrough(1);
  await rows(page).nth(2).waitFor({ state: "detached" }); // the first has left the filter
  await dialog.getByRole("button", { name: "Stop after this one" }).click();
  await letThrough(1);
  await dialog.getByText("2 asked to stop; 1 left as it is").waitFor();
  await letThrough();
  await page.waitForTimeout(500);
  await allBecome(ids, ["cancelled", "cancelled", "queued"]);

  // Its own success empties the list, and it stays as it was read.
  await dialog.getByRole("button", { name: "Close" }).click();
  await page.getByRole("button", { name: "Cancel…" }).click();
  await page.getByRole("button", { name: "Cancel 1 run", exact: true }).click();
  await page.getByText("No run is like that").waitFor();
  const last = page.getByRole("dialog", { name: "Cancel 1 run?" });
  await last.getByText("1 asked to stop").waitFor();
  assert.equal(await last.locator(".names li").count(), 1);
  await allBecome(ids, ["cancelled", "cancelled", "cancelled"]);
  await visitor.leave();
});

test("a run that was over before it was cancelled is told as that", async () => {
  const [id] = await queued(1, "over");
  const visitor = await arrive("/?name=over-");
  const { page } = visitor;
  await page.route(/\/cancel$/, async (route) =>
    route.fulfill({ json: { ...(await seeded.ask(`runs/${id}`)), state: "succeeded" } }),
  );
  await page.locator(`tr[data-run="${id}"] input`).check();
  await page.getByRole("button", { name: "Cancel…" }).click();
  await page.getByRole("button", { name: "Cancel 1 run", exact: true }).click();
  await visitor.sees("0 asked to stop, 1 not:");
  await visitor.sees("over-0: it is over: succeeded");
  await visitor.leave();
  await seeded.ask(`runs/${id}/cancel`, { method: "POST" });
});

test("a second press of Next before the answer leads no further, and back is back", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await rows(page).first().waitFor();
  const first = await rows(page).first().getAttribute("data-run");
  const letThrough = await gate(page, /before=/);
  await button(page, "Next").click();
  await page.waitForFunction(() => location.hash.includes("before="));
  const second = hash(page);
  await page.waitForTimeout(200); // it is drawn for the new address
  await button(page, "Next").click({ force: true });
  await letThrough();
  await page.locator(".stale").waitFor({ state: "detached" });
  assert.equal(hash(page), second);
  await page.keyboard.press("Enter"); // the button has kept the focus
  await page.waitForFunction((was) => location.hash !== was, second);
  await page.locator(".stale").waitFor({ state: "detached" });
  await visitor.sees(`${(await seeded.ask("runs?limit=1&total=true")).total - 200} of`);
  assert.equal(await button(page, "Next").getAttribute("aria-disabled"), "true");
  assert.equal(await focused(page), "BUTTON");
  await button(page, "Previous").click();
  await page.waitForFunction((was) => location.hash === was, second);
  await page.locator(".stale").waitFor({ state: "detached" });
  await button(page, "Previous").click();
  await page.waitForFunction(() => location.hash === "#/");
  await page.locator(`tr[data-run="${first}"]`).waitFor();
  await visitor.leave();
});

test("a date is a filter once it is one, and is the reader's", async () => {
  const visitor = await arrive("", { timezoneId: "Asia/Tokyo" });
  const { page } = visitor;
  const asked = [];
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (url.pathname.endsWith("/runs")) asked.push(url.searchParams.get("since"));
  });
  await rows(page).first().waitFor();
  await page.locator("summary", { hasText: "Filters" }).click();
  await page.getByLabel("Created from").pressSequentially("2026-01-0", { delay: 200 });
  await page.waitForTimeout(400);
  assert.equal(hash(page), "#/");
  await page.getByLabel("Created from").pressSequentially("5");
  await page.getByRole("button", { name: "Remove the filter since 2026-01-05" }).waitFor();
  await page.locator(".stale").waitFor({ state: "detached" });
  assert.deepEqual(new Set(asked), new Set([null, "2026-01-04T15:00:00.000Z"]));
  await visitor.leave(); // with no refusal
});

test("the focus is on something wherever one goes", async () => {
  const visitor = await arrive("/?state=failed");
  const { page } = visitor;
  await rows(page).nth(4).waitFor();
  for (let i = 0; i < 4; i += 1) await page.keyboard.press("j");
  const id = await page.evaluate(() => document.activeElement.closest("tr").dataset.run);
  await page.keyboard.press("Enter");
  await page.getByRole("navigation", { name: "Run details" }).waitFor();
  assert.equal(await focused(page), "MAIN#main");
  await page.goBack();
  await page.waitForFunction(
    (run) => document.activeElement.closest("tr")?.dataset.run === run,
    id, // the row that one came from
  );
  await page.keyboard.press("c");
  await visitor.sees("Select 2 to 10 runs to compare");
  await page.keyboard.press("x");
  await visitor.seesNoMore("Select 2 to 10 runs to compare");
  await button(page, "Clear").click();
  await visitor.seesNoMore("1 selected");
  assert.equal(await focused(page), "MAIN#main");
  await page.getByRole("button", { name: "Remove the filter state failed" }).click();
  await page.waitForFunction(() => location.hash === "#/");
  assert.equal(await focused(page), "SUMMARY.button");
  await page.getByRole("textbox", { name: /Search/ }).fill("nobody at all");
  await page.getByRole("button", { name: "Show all runs" }).click();
  await rows(page).first().waitFor();
  assert.equal(await focused(page), "MAIN#main");
  await page.keyboard.press("g");
  await page.keyboard.press("n");
  await page.getByRole("heading", { name: "Nodes" }).waitFor();
  assert.equal(await focused(page), "MAIN#main");
  await visitor.leave(/status of 404/);
});

test("the row with the focus is not below the bar of the selection", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await rows(page).nth(80).waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("x");
  await rows(page).nth(60).locator(".row-link").focus();
  await page.locator(".selection").waitFor();
  for (let i = 0; i < 45; i += 1) {
    await page.keyboard.press("k");
    const hidden = await page.evaluate(() => {
      const row = document.activeElement.getBoundingClientRect();
      const bar = document.querySelector(".selection").getBoundingClientRect();
      return row.top < bar.bottom && row.bottom > bar.top;
    });
    assert.ok(!hidden, `row ${60 - i}`);
  }
  await visitor.leave();
});

test("Enter in the palette opens what was typed, not what was there before", async () => {
  const { runs } = await seeded.ask("runs?text=books-small&limit=1");
  const visitor = await arrive();
  const { page } = visitor;
  await rows(page).first().waitFor();
  const newest = await rows(page).first().getAttribute("data-run");
  assert.notEqual(newest, runs[0].id);
  await page.keyboard.press("Control+k");
  const palette = page.getByRole("dialog", { name: "Find a run or a view" });
  await palette.getByRole("option").first().waitFor();
  await page.keyboard.type("books-small");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => location.hash.startsWith("#/runs/"));
  assert.equal(hash(page), `#/runs/${runs[0].id}`);
  await visitor.leave(/status of 404/);
});

test("a view whose script is late is not the one before, nor one that is missing the next", async () => {
  const visitor = await arrive("/nodes");
  const { page } = visitor;
  const heading = (name) => page.getByRole("heading", { name, level: 1 });
  await heading("Nodes").waitFor();
  const letThrough = await gate(page, /cluster_view/);
  await page.getByRole("link", { name: "Cluster" }).click();
  await page.getByText("Loading…").waitFor();
  assert.equal(await heading("Nodes").count(), 0);
  await letThrough();
  await heading("Cluster").waitFor();
  await page.route(/settings_view/, (route) => route.abort());
  await page.getByRole("link", { name: "Settings" }).click();
  await visitor.sees("A part of the page could not be loaded");
  await page.getByRole("link", { name: "Nodes" }).click();
  await heading("Nodes").waitFor();
  await visitor.seesNoMore("A part of the page could not be loaded");
  await page.route(/palette/, (route) => route.abort());
  await page.keyboard.press("?");
  const missing = page.getByRole("dialog", { name: /could not be loaded/ });
  await missing.getByRole("button", { name: "Close" }).click();
  await missing.waitFor({ state: "detached" });
  await visitor.leave(/Failed to load resource|ERR_FAILED/);
});

test("a view whose script failed once comes by itself", async () => {
  const visitor = await arrive("/nodes");
  const { page } = visitor;
  const heading = (name) => page.getByRole("heading", { name, level: 1 });
  await heading("Nodes").waitFor();
  await page.route(/settings_view/, (route) => route.abort(), { times: 1 });
  await page.getByRole("link", { name: "Settings" }).click();
  await heading("Settings").waitFor();
  assert.equal(hash(page), "#/settings");
  await visitor.leave(/Failed to load resource|ERR_FAILED/);
});

test("where nobody answers a missing script is told, and the page stays", async () => {
  const visitor = await arrive("/nodes");
  const { page } = visitor;
  await page.getByRole("heading", { name: "Nodes", level: 1 }).waitFor();
  let asked = 0;
  const isPage = (url) => url.pathname === "/";
  await page.route(/settings_view/, (route) => route.abort(), { times: 2 });
  await page.route(isPage, (route) => {
    asked += 1;
    return route.abort();
  });
  await page.getByRole("link", { name: "Settings" }).click();
  await visitor.sees("A part of the page could not be loaded");
  await page.waitForTimeout(500);
  assert.equal(asked, 1, "whether somebody answers; then it is not loaded anew");
  await page.unroute(isPage);
  await page.getByRole("button", { name: "Reload" }).click(); // and loads itself anew once more
  await page.getByRole("heading", { name: "Settings", level: 1 }).waitFor();
  await visitor.leave(/Failed to load resource|ERR_FAILED/);
});

const kEscaped = "\u001b[31mOut of memory\u001b[0m";
function hostileRuns() {
  const entries = standardRuns();
  const { run } = entries.find((entry) => entry.run.state === "failed");
  run.error = `${kEscaped} ${"x".repeat(16_000)}`;
  run.state_text = `failed: ${run.error}`;
  return entries;
}

pageTest("a hostile and endless reason is cleaned and cut", hostileRuns, async (fixture) => {
  const options = { viewport: { width: 390, height: 844 } };
  const visitor = await Visitor.arrive(browser, fixture.url, options);
  const { page } = visitor;
  const row = page.locator('tr[data-run="broken-000002"]');
  await row.getByText("Out of memory").waitFor();
  const texts = await row.evaluate((element) => [
    element.textContent,
    ...[...element.querySelectorAll("[title]")].map((one) => one.title),
  ]);
  for (const text of texts) {
    assert.doesNotMatch(text, /\u001b|\[31m|\[0m/);
    assert.ok(text.length < 1300, `${text.length} characters`);
  }
  const { height } = await row.boundingBox();
  assert.ok(height < 220, `${height} px`);
  await visitor.leave();
});

pageTest("without a run in the list the archived ones can be found", () => [], async (fixture) => {
  const visitor = await Visitor.arrive(browser, fixture.url);
  const { page } = visitor;
  await page.getByRole("link", { name: "archived ones, too" }).click();
  await page.waitForFunction(() => location.hash === "#/?archived=all");
  await visitor.sees("No run is like that");
  await page.locator("summary", { hasText: "Filters: 1" }).waitFor();
  await visitor.leave();
});

pageTest("a controller that starts is not an unreachable one", standardRuns, async (fixture) => {
  const visitor = await Visitor.arrive(browser, fixture.url);
  const { page } = visitor;
  await rows(page).first().waitFor();
  const starts = { status: 503, detail: "it waits for Slurm's answer" };
  await page.route(/api\/v1\/runs\?/, (route) => route.fulfill({ status: 503, json: starts }));
  await visitor.sees("The controller does not answer yet");
  await visitor.sees(starts.detail);
  assert.ok((await rows(page).count()) > 0, "what was shown stays");
  await page.unroute(/api\/v1\/runs\?/);
  await visitor.seesNoMore("The controller does not answer yet");
  await visitor.leave(/status of 503/);
});

pageTest("what could not be copied is not called copied", standardRuns, async (fixture) => {
  const visitor = await Visitor.arrive(browser, `${fixture.url}#/runs/demo-4f2a91/checkpoints`);
  const { page } = visitor;
  const copy = page.getByRole("button", { name: /^Copy path/ }).first();
  await copy.waitFor();
  await page.evaluate(() => {
    navigator.clipboard.writeText = (text) => (window.copied = text, Promise.resolve());
  });
  await copy.click();
  await page.getByRole("status").getByText("Copied", { exact: true }).first().waitFor({ state: "attached" });
  assert.match(await page.evaluate(() => window.copied), /checkpoints\/step-/);
  await page.evaluate(() => {
    navigator.clipboard.writeText = () => Promise.reject(new Error("no"));
  });
  await copy.waitFor(); // it says Copy again
  await copy.click();
  await page.getByRole("button", { name: /^Not copied path/ }).waitFor();
  await visitor.leave(/status of 404/);
});

pageTest("keys do what they do beside a chosen radio button", standardRuns, async (fixture) => {
  const visitor = await Visitor.arrive(browser, fixture.url);
  const { page } = visitor;
  await rows(page).first().waitFor();
  await page.evaluate(() => {
    const radio = document.createElement("input");
    radio.type = "radio";
    document.querySelector("main").append(radio);
    radio.focus();
  });
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  await visitor.leave();
});

pageTest("what was closed a moment ago takes nothing with it", standardRuns, async (fixture) => {
  const visitor = await Visitor.arrive(browser, fixture.url);
  const { page } = visitor;
  await page.locator("table.runs tbody tr").first().waitFor();
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  // Escape and Ctrl+K in one task: the first dialog's event comes behind both.
  await page.evaluate(() => {
    document.querySelector("dialog[open]").close();
    const key = { key: "k", ctrlKey: true, bubbles: true, cancelable: true };
    document.dispatchEvent(new KeyboardEvent("keydown", key));
  });
  await page.getByRole("dialog", { name: "Find a run or a view" }).waitFor();
  await page.waitForTimeout(300);
  assert.equal(await page.getByRole("dialog", { name: "Find a run or a view" }).count(), 1);
  await visitor.leave();
});

pageTest("other filters begin at the first page; chips are clean", standardRuns, async (fixture) => {
  const bad = encodeURIComponent("\u001b[31mred\u202eder");
  const visitor = await Visitor.arrive(browser, `${fixture.url}#/?before=20261121&text=${bad}`);
  const { page } = visitor;
  await rows(page).first().waitFor();
  const chip = page.locator(".chip").first();
  assert.match(await chip.innerText(), /^text: redder/);
  assert.equal(await chip.getAttribute("aria-label"), "Remove the filter text redder");
  await chip.click();
  await page.waitForFunction(() => location.hash === "#/");
  await page.evaluate(() => void (location.hash = "#/?before=20261121"));
  await page.locator("summary", { hasText: "State" }).click();
  await page.getByRole("checkbox", { name: "failed" }).check();
  await page.waitForFunction(() => location.hash === "#/?state=failed");
  await visitor.leave();
});

const manyRuns = () =>
  Array.from({ length: 11 }, (_, i) => ({
    run: makeRun(`many-${String(i).padStart(6, "0")}`, { state: "succeeded" }),
    metrics: series({ steps: 0, stepSeconds: 1, evaluateEvery: 1 }),
    log: "",
  }));

pageTest("ten runs are compared, eleven are not", manyRuns, async (fixture) => {
  const visitor = await Visitor.arrive(browser, fixture.url);
  const { page } = visitor;
  await rows(page).nth(10).waitFor();
  const box = (n) => rows(page).nth(n).locator("input");
  await box(0).click();
  await box(9).click({ modifiers: ["Shift"] });
  await visitor.sees("10 selected");
  assert.equal(await button(page, "Compare").getAttribute("aria-disabled"), "false");
  await box(10).click();
  await visitor.sees("11 selected");
  assert.equal(await button(page, "Compare").getAttribute("aria-disabled"), "true");
  await page.keyboard.press("c");
  await visitor.sees("Select 2 to 10 runs to compare");
  await visitor.leave();
});

pageTest("what is selected has become another, and its curve goes on", standardRuns, async (fixture) => {
  const { run, metrics } = fixture.entry("demo-4f2a91");
  const visitor = await Visitor.arrive(browser, fixture.url);
  const { page } = visitor;
  const row = page.locator(`tr[data-run="${run.id}"]`);
  await row.getByRole("img", { name: / at step 900$/ }).waitFor();
  await row.locator("input").check();
  await page.locator("button:disabled", { hasText: "Archive…" }).waitFor();
  metrics.evaluations.push([950, 86, 0.081, 5, false, 0.081, {}]);
  Object.assign(follow(run, metrics), { step: 950, state: "succeeded", state_text: "finished" });
  await row.getByText("succeeded").waitFor();
  await row.getByRole("img", { name: /^Masked accuracy 8\.10.% at step 950$/ }).waitFor();
  await page.locator("button:disabled", { hasText: "Cancel…" }).waitFor();
  await page.locator("button:enabled", { hasText: "Archive…" }).waitFor();
  await visitor.leave();
});

pageTest("keys go round the palette, and say what they are on", standardRuns, async (fixture) => {
  const visitor = await Visitor.arrive(browser, fixture.url);
  const { page } = visitor;
  await rows(page).first().waitFor();
  await page.keyboard.press("Control+k");
  const options = page.getByRole("dialog").getByRole("option");
  await options.nth(fixture.entries.length - 1).waitFor();
  const isOn = async (option) => {
    const id = await option.getAttribute("id");
    await page.locator(`[id="${id}"][aria-selected="true"]`).waitFor();
    assert.equal(await page.getByRole("combobox").getAttribute("aria-activedescendant"), id);
  };
  await isOn(options.first());
  await page.keyboard.press("ArrowUp");
  await isOn(options.last());
  await page.keyboard.press("ArrowDown");
  await isOn(options.first());
  await visitor.leave();
});

pageTest("a menu closes behind the focus; a choice has its own keys", standardRuns, async (fixture) => {
  const visitor = await Visitor.arrive(browser, fixture.url);
  const { page } = visitor;
  await rows(page).first().waitFor();
  const menu = page.locator("details.menu", { hasText: "Archive" });
  await menu.locator("summary").press("Enter");
  await menu.locator("select").focus();
  await page.keyboard.press("?"); // letters choose in it
  await page.waitForTimeout(300);
  assert.equal(await page.getByRole("dialog").count(), 0);
  await page.keyboard.press("Escape");
  assert.equal(await menu.getAttribute("open"), null);
  assert.equal(await focused(page), "SUMMARY.button");
  await page.keyboard.press("Enter");
  await menu.locator("select").focus();
  await page.keyboard.press("Tab"); // out of it
  await page.waitForFunction(() => document.querySelector("details.menu[open]") == null);
  await visitor.leave();
});

pageTest("another tab's theme is this one's, too", standardRuns, async (fixture) => {
  const context = await browser.newContext({ colorScheme: "light" });
  const visitor = await Visitor.arrive(context, fixture.url);
  const { page } = visitor;
  await rows(page).first().waitFor();
  const beside = await context.newPage();
  await beside.goto(fixture.url);
  await beside.getByRole("button", { name: /^Theme/ }).waitFor();
  await page.getByRole("button", { name: /^Theme/ }).click(); // light
  await page.getByRole("button", { name: /^Theme/ }).click(); // dark
  await beside.waitForFunction(() => document.documentElement.dataset.theme === "dark");
  await beside.getByRole("button", { name: "Theme: dark" }).waitFor();
  await visitor.leave();
  await context.close();
});

pageTest("after failures the network comes back: at once, then each second", standardRuns, async (fixture) => {
  const visitor = await Visitor.arrive(browser, fixture.url);
  const { page } = visitor;
  await rows(page).first().waitFor();
  let lost = 0;
  await page.route(/api\/v1\/runs\?/, (route) => {
    lost += 1;
    return route.abort();
  });
  const end = Date.now() + kPatience;
  while (lost < 4 && Date.now() < end) await page.waitForTimeout(50); // after 1, 2 and 4 s
  await page.unroute(/api\/v1\/runs\?/);
  const asked = () => fixture.count("GET", "/api/v1/runs");
  const before = asked();
  const began = Date.now();
  await page.evaluate(() => void window.dispatchEvent(new Event("online")));
  await visitor.seesNoMore("Controller unreachable");
  assert.ok(Date.now() - began < 5000, "the pause would be 8 s");
  while (asked() < before + 4 && Date.now() < end) await page.waitForTimeout(50);
  assert.ok(Date.now() - began < 8000, "pauses are short again");
  await visitor.leave(/ERR_FAILED/);
});

pageTest("an age grows, whatever was looked at before", standardRuns, async (fixture) => {
  const visitor = await Visitor.arrive(browser, fixture.url);
  const { page } = visitor;
  await rows(page).first().locator("time").first().waitFor(); // has an age, and takes it away
  await page.evaluate(() => void (location.hash = "#/runs/demo-4f2a91"));
  await page.getByRole("navigation", { name: "Run details" }).waitFor();
  await page.route("**/api/v1/**", (route) => route.abort());
  await visitor.sees("Controller unreachable");
  const text = page.getByText(/last data \d+ s ago/);
  const age = async () => Number(/data (\d+) s/.exec(await text.innerText())[1]);
  const first = await age();
  await page.waitForTimeout(2500);
  assert.ok((await age()) > first);
  await visitor.leave(/ERR_FAILED/);
});

pageTest("a filter that is taken away while it is typed stays away", standardRuns, async (fixture) => {
  const visitor = await Visitor.arrive(browser, `${fixture.url}#/?text=dem`);
  const { page } = visitor;
  const field = page.getByRole("textbox", { name: /^Search/ });
  await page.getByRole("button", { name: "Remove all filters" }).waitFor();
  // In one task: the address follows a moment after the last letter.
  await field.evaluate((input) => {
    input.value = "demo";
    input.dispatchEvent(new Event("input", { bubbles: true }));
    document.querySelector(".chips .quiet").click();
  });
  await page.waitForFunction(() => location.hash === "#/");
  await page.waitForTimeout(500);
  assert.equal(hash(page), "#/");
  assert.equal(await field.inputValue(), "");
  await visitor.leave();
});
