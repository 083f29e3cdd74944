// All events of the controller, in a real browser: filters, what comes in, pages, many, hostile
// text.
import assert from "node:assert/strict";
import { Agent, request } from "node:http";
import { after, before } from "node:test";
import { kHostile } from "./fixture.mjs";
import { Seeded, missingController, seededTest } from "./seeded.mjs";
import { Visitor, kPatience, launch } from "./setup.mjs";

const skip = missingController();
const test = seededTest(skip);
// A page costs the same however many there are; 10,000 of them take minutes to make on a busy disk.
const kMany = Number(process.env.MANY_EVENTS ?? 1500);
let seeded, browser, run, other;
before(async () => {
  if (skip) return;
  seeded = await new Seeded({ runs: 12 }).start();
  [run, other] = (await seeded.ask("runs?limit=2")).runs;
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await seeded?.stop();
});

// A note is an event; several at once, as the controller takes them.
async function happen(count, id = run.id, from = 0) {
  const agent = new Agent({ keepAlive: true, maxSockets: 6 });
  const note = (n) =>
    new Promise((done, fail) => {
      const asked = request(
        {
          agent,
          socketPath: seeded.server.slice("unix:".length),
          path: `/api/v1/runs/${id}/labels`,
          method: "POST",
          headers: { "content-type": "application/json" },
        },
        (answer) => answer.resume().on("end", () => done(answer.statusCode)),
      );
      asked.on("error", fail).end(JSON.stringify({ note: `note ${n}` }));
    });
  let next = from;
  const work = async () => {
    while (next < from + count) assert.equal(await note(next++), 200);
  };
  await Promise.all(Array.from({ length: 6 }, work));
  agent.destroy();
}

const arrive = (place = "/events", options = {}) =>
  Visitor.arrive(browser, seeded.link(place), options);
const rows = (page) => page.locator(".all-events tbody tr");
const numbers = (page) =>
  rows(page).evaluateAll((all) => all.map((row) => Number(row.dataset.event)));
const told = async (query) =>
  (await seeded.ask(`events?${query}`)).events.map((event) => event.number).reverse();
const kNone = "–";
const hash = (page) => new URL(page.url()).hash;

test("the newest events come first, as the API tells them, with links", async () => {
  await happen(3);
  const visitor = await arrive("/events", { timezoneId: "Asia/Tokyo" });
  const { page } = visitor;
  await rows(page).first().waitFor();
  assert.deepEqual(await numbers(page), await told("limit=100"));
  const [event] = (await seeded.ask("events?limit=1")).events;
  const cells = rows(page).first().locator("td");
  const time = cells.nth(0).locator("time");
  const here = new Date(event.at).toLocaleString("en-GB", {
    timeZone: "Asia/Tokyo",
    day: "numeric",
    month: "short",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
  });
  assert.equal(await time.innerText(), here);
  const utc = `${event.at.slice(0, 19).replace("T", " ")} UTC`;
  assert.ok((await time.getAttribute("title")).endsWith(utc));
  assert.match(await cells.nth(1).innerText(), /Tags or note changed/);
  assert.equal(await cells.nth(2).locator("a").getAttribute("href"), `#/runs/${run.id}`);
  assert.equal(await cells.nth(4).innerText(), kNone);
  assert.equal(await cells.nth(5).innerText(), event.by);
  const started = page.locator("tr", { hasText: "Controller started" });
  assert.equal(await started.count(), 1);
  await visitor.keepPicture("events-all");
  await visitor.leave();
});

test("filters stand in the address and hold what they say", async () => {
  await happen(2, other.id);
  const visitor = await arrive();
  const { page } = visitor;
  await rows(page).first().waitFor();
  await page.locator("summary", { hasText: "Kinds" }).click();
  await page.getByRole("checkbox", { name: "the controller" }).check();
  await page.getByRole("button", { name: "Remove the filter kind: controller" }).waitFor();
  assert.equal(hash(page), "#/events?kind=controller");
  await page.waitForFunction(() => document.querySelectorAll(".all-events tbody tr").length === 1);
  assert.deepEqual(await numbers(page), await told("kind=controller"));
  await page.getByRole("checkbox", { name: "runs" }).check();
  assert.match(decodeURIComponent(hash(page)), /kind=controller,run$/);
  await page.keyboard.press("Escape");
  await page.getByLabel("Run", { exact: true }).fill(other.id);
  await page.waitForFunction((id) => location.hash.includes(`run=${id}`), other.id);
  const expected = await told(`kind=controller,run&run=${other.id}`);
  await page.waitForFunction(
    (count) => document.querySelectorAll(".all-events tbody tr").length === count,
    expected.length,
  );
  assert.deepEqual(await numbers(page), expected);
  await page.reload();
  await rows(page).first().waitFor();
  assert.deepEqual(await numbers(page), expected);
  for (const [label, text] of [["Node", "gpu-001"], ["Asked by", "token"]]) {
    await page.getByLabel(label, { exact: true }).fill(text);
    await page.waitForFunction((word) => location.hash.includes(`=${word}`), text);
  }
  await page.getByRole("button", { name: "Only problems" }).click();
  await page.getByText("No event passes all of these filters.").waitFor();
  await page.getByRole("button", { name: "Remove all filters" }).click();
  await rows(page).nth(expected.length).waitFor();
  assert.equal(hash(page), "#/events");
  // What the API refuses is said, and another filter mends it.
  await page.getByLabel("Run", { exact: true }).fill("nobody");
  await page.getByText("no run 'nobody'").waitFor();
  await page.getByRole("button", { name: "Remove the filter run: nobody" }).click();
  await page.locator(".notice.error").waitFor({ state: "detached" });
  await rows(page).first().waitFor();
  await visitor.leave(/status of 404/);
});

test("many events stay quick, and new ones leave the reader's place", async () => {
  await happen(kMany);
  const visitor = await arrive();
  const { page } = visitor;
  await rows(page).nth(99).waitFor();
  assert.equal(await rows(page).count(), 100);
  // Pages: each event once, and back again.
  const first = await numbers(page);
  const all = await told("limit=300");
  assert.deepEqual(first, all.slice(0, 100));
  const turn = async (name, top) => {
    const began = Date.now();
    await page.getByRole("button", { name, exact: true }).click();
    await page.locator(`tr[data-event="${top}"]`).waitFor();
    return Date.now() - began;
  };
  const times = [await turn("Older", all[100]), await turn("Older", all[200])];
  assert.deepEqual(await numbers(page), all.slice(200, 300));
  await page.reload();
  await rows(page).nth(99).waitFor();
  assert.deepEqual(await numbers(page), all.slice(200, 300));
  times.push(await turn("Newer", all[100]));
  assert.deepEqual(await numbers(page), all.slice(100, 200));
  times.push(await turn("Newest", all[0]));
  console.log(`a page of events in ${times.join(", ")} ms`);
  // At the top, new ones come in by themselves.
  await happen(1, run.id, 77_001);
  const newest = (await told("limit=1"))[0];
  await page.locator(`tr[data-event="${newest}"]`).waitFor();
  assert.equal((await numbers(page))[0], newest);
  // Further down they wait, and nothing moves.
  await page.evaluate(() => window.scrollTo(0, 1500));
  const place = () =>
    page.evaluate(() => {
      const row = document.querySelectorAll(".all-events tbody tr")[40];
      return [row.dataset.event, Math.round(row.getBoundingClientRect().top)];
    });
  const [number] = await place();
  await happen(5, run.id, 78_001);
  const button = page.getByRole("button", { name: "Show 5 new events" });
  await button.waitFor();
  assert.equal((await place())[0], number);
  const still = await place();
  await happen(1, run.id, 79_001);
  await page.getByRole("button", { name: "Show 6 new events" }).waitFor();
  assert.deepEqual(await place(), still);
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press(".");
  const top = (await told("limit=1"))[0];
  await page.locator(`tr[data-event="${top}"]`).waitFor();
  assert.deepEqual((await numbers(page)).slice(0, 6), await told("limit=6"));
  assert.equal(await rows(page).count(), 100);
  // Of an older page, a line says how many, too.
  await page.getByRole("button", { name: "Older", exact: true }).click();
  await page.waitForFunction(() => location.hash.includes("before="));
  await page.waitForTimeout(500);
  await happen(2, run.id, 80_001);
  await page.getByRole("button", { name: "Show 2 new events" }).click();
  await page.waitForFunction(() => !location.hash.includes("before="));
  const now = (await told("limit=1"))[0];
  await page.locator(`tr[data-event="${now}"]`).waitFor();
  await visitor.leave();
});

test("hostile text stays text, and nothing is wider than a phone", async () => {
  const bad = `${kHostile}\u001b[31mred\u001b[0m\u001b]0;title\u0007\u0000\u202e`;
  const event = (number, text) => ({
    number,
    at: "2026-11-29T10:00:00Z",
    kind: text,
    run: text,
    launch: 1,
    attempt: null,
    step: null,
    checkpoint: text,
    node: text,
    by: text,
    words: text,
  });
  const events = [event(1, bad), event(2, "x".repeat(10_000)), event(3, "__proto__")];
  for (const width of [1200, 390, 320]) {
    const visitor = await arrive("/events", { viewport: { width, height: 800 } });
    const { page } = visitor;
    await page.route("**/api/v1/events?*", (route) =>
      route.fulfill({ json: { events, next: 3, more: false, oldest: 1 } }),
    );
    await visitor.isLetIn();
    await page.reload();
    await rows(page).nth(2).waitFor();
    assert.match(await rows(page).first().innerText(), /__proto__/);
    const text = await page.locator("#main").innerText();
    assert.equal(text.split(`${kHostile}red`).length - 1, 6);
    assert.doesNotMatch(text, /[\u0000-\u0008\u000b-\u001f\u007f]|title/);
    assert.equal(await page.locator("#app img").count(), 0);
    assert.equal(await page.evaluate(() => window.stolen), undefined);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= width, `${wide} px`);
    await visitor.leave();
  }
});

test("an API that is away is said, and what was shown stays", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await rows(page).first().waitFor();
  const shown = await numbers(page);
  await page.route("**/api/v1/events?*", (route) => route.abort());
  await page.getByText("Controller unreachable").waitFor({ timeout: kPatience });
  assert.deepEqual(await numbers(page), shown);
  await page.unroute("**/api/v1/events?*");
  await visitor.seesNoMore("Controller unreachable");
  await visitor.leave(/ERR_FAILED/);
});

// Answers of GET /events, changed or held back on their way.
const kEvents = "**/api/v1/events?*";
const made = (number) => ({
  ...{ number, at: "2026-11-29T10:00:00Z", kind: "attempt.warning", run: null, launch: null },
  ...{ attempt: null, step: null, checkpoint: null, node: null, by: null, words: `number ${number};` },
});
const madeFrom = (first, count) => Array.from({ length: count }, (_, i) => made(first + i));

test("a page of newer events that comes late leaves the reader where he is", async () => {
  await happen(310, run.id, 90_000);
  const all = await told("limit=300");
  const visitor = await arrive();
  const { page } = visitor;
  await rows(page).nth(99).waitFor();
  for (const top of [all[100], all[200]]) {
    await page.getByRole("button", { name: "Older", exact: true }).click();
    await page.locator(`tr[data-event="${top}"]`).waitFor();
  }
  let answer;
  const held = new Promise((done) => (answer = done));
  let asked;
  const isAsked = new Promise((done) => (asked = done));
  await page.route(kEvents, async (route) => {
    const url = new URL(route.request().url());
    // "Newer" asks for a page behind what is shown.
    if (url.searchParams.get("limit") !== "100" || !url.searchParams.has("since")) return route.continue();
    asked();
    await held;
    await route.continue();
  });
  await page.getByRole("button", { name: "Newer", exact: true }).click();
  await isAsked;
  await page.evaluate(() => void (location.hash = "#/nodes"));
  await page.getByRole("heading", { name: "Nodes", exact: true }).first().waitFor();
  const come = page.waitForResponse((response) => response.url().includes("since="));
  answer();
  await come;
  await page.waitForTimeout(300);
  assert.equal(hash(page), "#/nodes");
  await visitor.leave();
});

test("after more new events than an answer has, a list that fails to begin again goes on", async () => {
  const visitor = await arrive("/settings");
  const { page } = visitor;
  let known = madeFrom(1, 5);
  let fails = false;
  await page.route(kEvents, (route) => {
    const asked = new URL(route.request().url()).searchParams;
    const limit = Number(asked.get("limit"));
    if (asked.has("since")) {
      const since = Number(asked.get("since"));
      const events = known.filter(({ number }) => number > since).slice(0, limit);
      const more = (events.at(-1)?.number ?? since) < known.at(-1).number;
      const next = events.at(-1)?.number ?? since;
      return route.fulfill({ json: { events, next, more, oldest: 1 } });
    }
    if (fails) {
      fails = false;
      return route.fulfill({ status: 503, json: { detail: "busy" } });
    }
    const events = known.slice(-limit);
    return route.fulfill({ json: { events, next: known.at(-1).number, more: true, oldest: 1 } });
  });
  await page.evaluate(() => void (location.hash = "#/events"));
  await page.locator('tr[data-event="5"]').waitFor();
  fails = true;
  known = madeFrom(1, 1500);
  await page.locator('tr[data-event="1500"]').waitFor();
  assert.equal((await numbers(page))[0], 1500);
  assert.equal(await rows(page).count(), 100);
  known = madeFrom(1, 1501);
  await page.locator('tr[data-event="1501"]').waitFor();
  assert.equal((await numbers(page)).at(-1), 1402);
  // Standing still, and going on.
  await page.getByRole("button", { name: "Pause" }).click();
  known = madeFrom(1, 1503);
  await page.getByRole("button", { name: "Show 2 new events" }).click();
  await page.locator('tr[data-event="1503"]').waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Events");
  await visitor.leave(/status of 503/);
});

test("a run's name that is being typed is no fault", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await rows(page).first().waitFor();
  await page.getByLabel("Run", { exact: true }).fill("nobo");
  const line = page.locator("p[role=status]", { hasText: "no run 'nobo'" });
  await line.waitFor();
  assert.equal(await page.locator("[role=alert]").count(), 0);
  assert.ok((await rows(page).count()) > 0, "what was listed stays");
  await page.getByRole("button", { name: "Remove the filter run: nobo" }).focus();
  await page.keyboard.press("Enter");
  await line.waitFor({ state: "detached" });
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Events");
  await visitor.leave(/status of 404/);
});
