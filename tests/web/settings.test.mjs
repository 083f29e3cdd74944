// The settings, with the real controller and a receiver of its events that first takes none.
import assert from "node:assert/strict";
import { chmodSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { after, before } from "node:test";
import { kHostile } from "./fixture.mjs";
import { Seeded, missingController, seededTest } from "./seeded.mjs";
import { Visitor, launch } from "./setup.mjs";

const skip = missingController();
const test = seededTest(skip);
let seeded, browser, receiver;
let takes = false; // whether the receiver takes what comes
const came = [];
before(async () => {
  if (skip) return;
  receiver = createServer((asked, answer) => {
    asked.resume();
    if (takes) came.push(Number(asked.headers["x-regatta-number"]));
    answer.writeHead(takes ? 200 : 500).end();
  });
  await new Promise((done) => receiver.listen(0, "127.0.0.1", done));
  seeded = await new Seeded({ runs: 3, prepare: configure }).start();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await seeded?.stop();
  receiver?.close();
});

function configure(folder) {
  const secret = join(folder, "secret");
  writeFileSync(secret, "0123456789abcdef0123456789abcdef\n");
  chmodSync(secret, 0o600);
  const { port } = receiver.address();
  const text = `webhooks:
  - name: pager
    url: http://127.0.0.1:${port}/hooks
    secret_file: ${secret}
    kinds: [run.labelled]
    allow_private: true
`;
  const config = join(folder, "config.yaml");
  writeFileSync(config, text);
  chmodSync(config, 0o600);
  process.env.REGATTA_CONFIG = config; // of the controller, which begins with this environment
}

const arrive = (place = "/settings", options = {}) =>
  Visitor.arrive(browser, seeded.link(place), options);
async function label(note) {
  const [run] = (await seeded.ask("runs?limit=1")).runs;
  await seeded.ask(`runs/${run.id}/labels`, { method: "POST", body: { note } });
}
async function hook(good) {
  for (;;) {
    const [one] = (await seeded.ask("webhooks")).webhooks;
    if (good(one)) return one;
    await new Promise((done) => setTimeout(done, 100));
  }
}

test("a webhook that fails is tried again at once, or its event is skipped", async () => {
  await label("first");
  const before = await hook((one) => one.failures >= 3);
  const visitor = await arrive();
  const { page } = visitor;
  const row = page.locator(".webhooks tbody tr");
  await row.getByText("retrying").waitFor();
  const text = await row.innerText();
  assert.ok(text.includes("pager") && text.includes(before.url) && text.includes("run.labelled"));
  assert.match(text, /\d+ failures since/);
  await visitor.keepPicture("settings");
  takes = true;
  await row.getByRole("button", { name: "Try again now" }).focus();
  await page.keyboard.press("Enter");
  const done = await hook((one) => one.state === "idle" && one.waiting === 0);
  assert.deepEqual(came, [done.delivered]);
  await row.getByText("idle").waitFor();
  assert.ok((await row.innerText()).includes(`event ${done.delivered}`));
  assert.equal(await row.getByRole("button").count(), 0);
  const focus = () => page.evaluate(() => document.activeElement.dataset.name);
  assert.equal(await focus(), "State"); // of the button that is gone

  takes = false;
  await label("second");
  await hook((one) => one.failures >= 1);
  await row.getByRole("button", { name: "Skip the event" }).click();
  const dialog = page.getByRole("dialog", { name: "Skip an event for pager?" });
  await dialog.getByRole("button", { name: "Skip the event" }).click();
  await dialog.waitFor({ state: "detached" });
  await hook((one) => one.waiting === 0 && one.failures === 0);
  await row.getByText("idle").waitFor();
  assert.equal(await focus(), "State");
  const { events } = await seeded.ask("events?kind=webhook.skipped");
  assert.equal(events.length, 1);
  assert.equal(came.length, 1); // it was never sent
  await visitor.leave();
});

test("a refusal is told as one, and a lost answer as what may have happened", async () => {
  takes = false;
  await label("third");
  await hook((one) => one.failures >= 1);
  const visitor = await arrive();
  const { page } = visitor;
  let answer = (route) => route.abort("connectionreset");
  await page.route("**/redeliver**", (route) => answer(route));
  const row = page.locator(".webhooks tbody tr");
  const again = row.getByRole("button", { name: "Try again now" });
  await again.click();
  await row.getByText("No answer; it may have been tried: ").waitFor();
  await row.getByRole("button", { name: "Skip the event" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "Skip the event" }).click();
  await dialog.getByText("No answer; it may have been skipped: ").waitFor();
  answer = (route) => route.fulfill({ status: 409, json: { detail: "it is being sent\u202e" } });
  await dialog.getByRole("button", { name: "Skip the event" }).click();
  await dialog.getByText(/^Not skipped: it is being sent$/).waitFor();
  await page.keyboard.press("Escape");
  await again.click();
  await row.getByText(/^Not tried: it is being sent$/).waitFor();
  takes = true;
  await visitor.leave(/ERR_CONNECTION_RESET|status of 409/);
});

test("theme, columns, and what the controller is", async () => {
  const visitor = await arrive("/settings", { colorScheme: "light" });
  const { page } = visitor;
  const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
  await page.getByRole("radio", { name: "dark" }).check();
  assert.equal(await theme(), "dark");
  await page.getByRole("radio", { name: "as the system has it" }).check();
  assert.equal(await theme(), "light");
  const reset = page.getByRole("button", { name: "Reset the columns" });
  assert.equal(await reset.getAttribute("aria-disabled"), "true");
  await page.goto(new URL("#/", page.url()).href);
  await page.locator("summary", { hasText: "Columns" }).click();
  await page.getByRole("checkbox", { name: "Owner" }).uncheck();
  await page.getByRole("columnheader", { name: "Owner" }).waitFor({ state: "detached" });
  await page.goto(new URL("#/settings", page.url()).href);
  await reset.click();
  await page.getByText("They are as they were at first.").waitFor();
  const version = await seeded.ask("version");
  await visitor.sees(version.runs_directory);
  await visitor.sees("runs directory");
  const text = await page.locator(".settings").innerText();
  for (const part of [version.version, version.commit, version.runs_directory]) {
    assert.ok(text.includes(part), part);
  }
  for (const { name } of (await seeded.ask("health")).checks) {
    assert.ok(text.includes(name.replaceAll("_", " ")), name);
  }
  await page.goto(new URL("#/", page.url()).href);
  await page.getByRole("columnheader", { name: "Owner" }).waitFor();
  await visitor.leave();
});

test("the keys that are listed are those that the views have", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await page.locator(".key-tables").waitFor();
  const listed = await page.locator(".key-tables > div").evaluateAll((all) =>
    all.map((one) => [
      one.querySelector("h3").textContent,
      [...one.querySelectorAll(".keys > div")].map((row) => row.textContent),
    ]),
  );
  const { runs } = await seeded.ask("runs?limit=2");
  const [run] = runs;
  const places = {
    Everywhere: ["/settings", ".settings"],
    "The list of runs": ["/", "table.runs"],
    "A run": [`/runs/${run.id}`, ".tabs"],
    "Log of a run": [`/runs/${run.id}/log`, ".log-search"],
    Compare: [`/compare?runs=${runs.map(({ id }) => id)}`, ".figure-table"],
    Sweeps: ["/sweeps", "main h1"],
    "A sweep": ["/sweeps/none", ".empty"],
    Experiments: ["/experiments", "main h1"],
    "An experiment": ["/experiments/none", ".empty"],
    Nodes: ["/nodes", "table.nodes"],
    Events: ["/events", ".events"],
    Submit: ["/submit", ".submit-bar"],
  };
  assert.deepEqual(listed.map(([where]) => where), Object.keys(places));
  const of = (where) => listed.find(([name]) => name === where)[1].map((key) => key.toLowerCase());
  for (const [where, keys] of listed) {
    const [place, ready] = places[where];
    await page.goto(new URL(`#${place}`, page.url()).href);
    await page.locator(ready).first().waitFor();
    await page.getByRole("button", { name: "Keys", exact: true }).click();
    const dialog = page.getByRole("dialog", { name: "Keys" });
    await dialog.waitFor();
    const there = await dialog
      .locator(".keys > div")
      .evaluateAll((all) => all.map((row) => row.textContent.toLowerCase()));
    // Of one machine the nodes have no search, and none of them is open; there is no sweep with trials,
    // and no experiment with runs.
    const ofTrials = ["jNext trial", "kTrial before", "xSelect the trial", "cCompare the selected trials"];
    const ofRuns = where === "An experiment" ? ["jNext run", "kPrevious run"] : [];
    const away = ["/Search nodes", "EscClose the node", ...ofTrials, ...ofRuns];
    const isThere = (key) => there.includes(key.toLowerCase()) || away.includes(key);
    const missing = keys.filter((key) => !isThere(key));
    assert.deepEqual(missing, [], `${where}: ${there.join(", ")}`);
    const all = [where, "Everywhere", ...(where === "Log of a run" ? ["A run"] : [])].flatMap(of);
    const unlisted = there.filter((key) => !all.includes(key));
    assert.deepEqual(unlisted, [], where);
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
  }
  await visitor.leave(/status of 404/);
});

test("a session is forgotten in every tab of the browser", async () => {
  const context = await browser.newContext();
  const visitor = await Visitor.arrive(context, seeded.link("/settings"));
  const { page } = visitor;
  await page.locator(".settings").waitFor();
  // What was typed for the controller may be secret, too.
  await page.evaluate(() => sessionStorage.setItem("regatta.submit", '{"text":"secret"}'));
  await page.evaluate(() => sessionStorage.setItem("another", "stays"));
  const beside = await context.newPage();
  await beside.goto(new URL("#/", page.url()).href);
  await beside.locator("table.runs").waitFor();
  await page.getByRole("button", { name: "Forget the session" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Forget it" }).click();
  for (const one of [page, beside]) {
    await one.getByRole("heading", { name: "This page needs a link" }).waitFor();
    assert.equal(await one.evaluate(() => sessionStorage.getItem("regatta.session")), null);
    assert.equal(await one.evaluate(() => sessionStorage.getItem("regatta.submit")), null);
  }
  assert.equal(await page.evaluate(() => sessionStorage.getItem("another")), "stays");
  await page.reload();
  await page.getByRole("heading", { name: "This page needs a link" }).waitFor();
  await visitor.leave();
  await context.close();
});

test("who skips an event reads how many are behind it", async () => {
  const webhook = {
    ...{ name: "pager", url: "http://h:1", kinds: [], state: "dead", failures: 9, error: null },
    ...{ delivered: null, delivered_at: null, failing_since: null, next_try_at: null },
  };
  let waiting = 1;
  const visitor = await arrive("/");
  const { page } = visitor;
  const answer = () => ({ webhooks: [{ ...webhook, waiting }] });
  await page.route("**/api/v1/webhooks", (route) => route.fulfill({ json: answer() }));
  await page.evaluate(() => void (location.hash = "#/settings"));
  for (const [events, words] of [
    [1, "Nothing waits behind it."],
    [2, "The one behind it is sent next."],
    [1234, "The 1,233 behind it are sent next."],
  ]) {
    waiting = events;
    await page.locator('td[data-name="Waiting"]', { hasText: events.toLocaleString("en-US") }).waitFor();
    await page.getByRole("button", { name: "Skip the event" }).click();
    await visitor.sees(words);
    await page.keyboard.press("Escape");
  }
  await visitor.leave();
});

test("hostile text stays text, and nothing is wider than a phone", async () => {
  const bad = `${kHostile}\u001b[31mred\u001b[0m\u202e`;
  const webhook = {
    name: bad,
    url: "http://h:1",
    kinds: ["x".repeat(300), "\u001b[31m\u202ekind"],
    state: "dead",
    delivered: null,
    delivered_at: null,
    waiting: 10_000, // the API counts no further
    failures: 9,
    failing_since: "2026-11-29T10:00:00Z",
    next_try_at: null,
    error: bad.repeat(200),
  };
  for (const width of [1200, 390]) {
    const visitor = await arrive("/settings", { viewport: { width, height: 844 } });
    const { page } = visitor;
    const json = { webhooks: [webhook] };
    await page.route("**/api/v1/webhooks", (route) => route.fulfill({ json }));
    await visitor.isLetIn();
    await page.reload();
    await page.getByText("given up").waitFor();
    const text = await page.locator(".webhooks").innerText();
    assert.equal(text.split(`${kHostile}red`).length - 1, 201);
    assert.doesNotMatch(text, /\u001b|\u202e/);
    assert.match(text, /10,000 or more/);
    await page.getByRole("button", { name: "Skip the event" }).click();
    await visitor.sees("All that wait behind it are sent next.");
    await page.keyboard.press("Escape");
    assert.equal(await page.locator("#app img").count(), 0);
    assert.equal(await page.evaluate(() => window.stolen), undefined);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= width, `${wide} px`);
    await visitor.keepPicture(`settings-hostile-${width}`);
    await visitor.leave();
  }
});
