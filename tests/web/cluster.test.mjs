// The overview of the cluster: its sums, and the page over the seeded controller, held against what
// the API says run by run. Slurm's nodes and live runs are made up on the way.
import assert from "node:assert/strict";
import { after, before, test as plainTest } from "node:test";
import { findings } from "./axe.mjs";
import { kHostile } from "./fixture.mjs";
import { Seeded, missingController, seededTest } from "./seeded.mjs";
import { Visitor, launch } from "./setup.mjs";
import { sourcesOf } from "./sources.mjs";

const sums = await sourcesOf(`export * from "./src/cluster/sums";
      export * from "./src/base/device"; export * as show from "./src/base/format";`);
const { show } = sums;

const skip = missingController();
const test = seededTest(skip);
let seeded, browser;
before(async () => {
  if (skip) return;
  seeded = await new Seeded({ runs: 60 }).start();
  await settled();
  browser = await launch();
});
// Journals are read after their runs were found: until nothing changes.
async function settled() {
  for (let before = ""; ; ) {
    const now = JSON.stringify(await seeded.ask("runs?limit=1000&full=true"));
    if (now === before) return;
    before = now;
    await new Promise((done) => setTimeout(done, 1500));
  }
}
after(async () => {
  await browser?.close();
  await seeded?.stop();
});

const arrive = (place, options = {}) => Visitor.arrive(browser, seeded.link(place), options);
const plain = (text) => text.replaceAll("\u202f", " ").trim();
const part = (page, title) =>
  page.locator("section.cluster-part", { has: page.locator("h2", { hasText: title }) });
// Cells of the row of this name in the table of this caption.
const cells = (page, caption, name) =>
  page
    .getByRole("region", { name: caption })
    .locator(`tr[data-name="${name}"] td`)
    .evaluateAll((all) => all.map((one) => one.textContent.replaceAll("\u202f", " ")));

const at = (minute) => new Date(Date.UTC(2026, 0, 1, 0, minute)).toISOString();
const second = (minute) => Date.UTC(2026, 0, 1, 0, minute) / 1000;
const run = (fields) => ({
  id: "a",
  state: "succeeded",
  step: 5,
  created_at: at(0),
  started_at: at(10),
  ended_at: at(30),
  training_seconds: 900,
  ranks: 8,
  target_reached: true,
  owner: "ada",
  error: null,
  ...fields,
});

plainTest("what ran and waited at each moment", () => {
  const runs = [
    run(),
    run({ created_at: at(5), started_at: null, ended_at: at(20), state: "failed" }), // never began
    run({ created_at: at(15), started_at: at(25), ended_at: null, state: "running", ranks: 4 }),
    run({ created_at: at(35), started_at: null, ended_at: null, state: "queued", ranks: null }),
    run({ created_at: null }),
  ];
  const all = sums.history(runs, second(8), second(40));
  const text = all.map((one) => [(one.at - second(0)) / 60, one.waiting, one.running, one.ranks]);
  assert.deepEqual(text, [
    [8, 2, 0, 0],
    [10, 1, 1, 8],
    [15, 2, 1, 8],
    [20, 1, 1, 8],
    [25, 0, 2, 12],
    [30, 0, 1, 4],
    [35, 1, 1, 4],
    [40, 1, 1, 4],
  ]);
});

plainTest("hours, and whose they were", () => {
  const runs = [
    run(),
    run({ state: "failed", training_seconds: 3600, target_reached: false, error: "rank 5: gone" }),
    run({ state: "failed", training_seconds: 1800, target_reached: false, error: "rank 7: gone" }),
    run({ ranks: null, owner: null }),
    run({ state: "queued", step: 0, training_seconds: 0, ranks: null, target_reached: false }),
  ];
  assert.deepEqual(
    sums.byOutcome(runs).map(({ name, runs: n, hours, unknown }) => [name, n, hours, unknown]),
    [
      ["failed", 2, 12, 0],
      ["reached the target", 2, 2, 1],
      ["not over", 1, 0, 0],
    ],
  );
  const ada = sums.byOwner(runs).find(({ name }) => name === "ada");
  assert.deepEqual([ada.hours, ada.lost, ada.unknown], [14, 12, 0]);
  assert.deepEqual(
    sums.byCause(runs).map(({ name, runs: n, hours }) => [name, n, hours]),
    [["rank …: gone", 2, 12]],
  );
});

plainTest("causes add up whatever the case", () => {
  for (const [error, cause] of [
    ["node gpu-017 went down in step 120", "node … went down in step …"],
    ["loss is not finite at step 73; the weight x came first", "loss is not finite at step …"],
    ["No space left on device: /scratch/runs", "No space left on device: …"],
    ["", "no reason told"],
    [null, "no reason told"],
    ["x".repeat(10_000), `${"x".repeat(99)}…`],
  ]) {
    assert.equal(sums.causeOf(error), cause);
  }
});

plainTest("quantiles are of the nearest rank", () => {
  const all = Array.from({ length: 20 }, (_, i) => 20 - i);
  assert.equal(sums.quantile(all, 0.5), 10);
  assert.equal(sums.quantile(all, 0.95), 19);
  assert.equal(sums.quantile(all, 1), 20);
  assert.equal(sums.quantile([7], 0.5), 7);
  assert.equal(sums.quantile([], 0.5), null);
});

plainTest("replayed hours are those of abandoned buckets, from the bucket before", () => {
  const buckets = [
    { from: 0.1, to: 1, abandoned: false },
    { from: 1.2, to: 1.5, abandoned: true },
    { from: 1.7, to: 3, abandoned: false },
    { from: 3, to: 3, abandoned: true },
  ];
  const hours = sums.replayedHours([{ steps: { buckets } }, { steps: { buckets: [] } }]);
  assert.ok(Math.abs(hours - 0.5) < 1e-12);
});

const row = (id, fields) => run({ id, ...fields });
plainTest("a history has what ran in it, whenever it was submitted", () => {
  const early = { created_at: at(0), started_at: at(1) };
  const now = [row("live", { ...early, ended_at: null, state: "running", ranks: 2 })];
  const ended = [50, 30].map((minute) => row(`e${minute}`, { ...early, ended_at: at(minute) }));
  const of = (next, from) => sums.historyOf(now, { runs: ended, next }, second(from));
  assert.deepEqual(of(null, 40).runs.map(({ id }) => id), ["live", "e50"]);
  assert.equal(of(null, 40).from, second(40));
  assert.equal(of("more", 40).from, second(40)); // the page reaches further back
  const cut = of("more", 20);
  assert.equal(cut.from, second(30)); // what ended before is on another page
  const { ranks } = sums.history(cut.runs, cut.from, second(60))[0];
  assert.equal(ranks, 2 + 8); // "e30" ends at that moment
});

plainTest("how long a queued run waits is told of those that have not trained", () => {
  const queued = [
    row("new", { started_at: null, since_submission_seconds: 60 }),
    row("again", { started_at: at(1), since_submission_seconds: 432_000 }),
  ];
  assert.equal(sums.longestWait(queued), 60);
  assert.equal(sums.longestWait(queued.slice(1)), null);
});

plainTest("many nodes at once count as many, and lists of nodes by their nodes", () => {
  const event = (kind, fields) => ({ kind, at: at(1), node: null, words: null, ...fields });
  const down = sums.nodeEvents([
    event("node.down", { words: "64 nodes (power: lost): n[01-64]" }),
    event("node.down", { node: "n02" }),
  ]);
  assert.deepEqual(
    down.map(({ name, count, nodes }) => [name, count, nodes.length, nodes[0]]),
    [["Node down", 65, 64, "n02"]],
  );
  const ended = sums.launchEnds([
    event("launch.ended", { node: "n[01-04]", words: "out of memory" }),
    event("launch.ended", { node: "n[02,05]", words: "out of memory" }),
  ]);
  assert.deepEqual([ended[0].count, ended[0].nodes[0], ended[0].nodes.length], [2, "n02", 5]);
});

plainTest("what no node says of GPUs is not zero", () => {
  const node = (gpus, gpus_allocated) => ({ state: "idle", suspicion: 0.9, gpus, gpus_allocated });
  const of = (...nodes) => sums.byNodeState(nodes).map((sum) => [sum.gpus, sum.allocated]);
  assert.deepEqual(of(node(null, null)), [[null, null]]);
  assert.deepEqual(of(node({ count: 8 }, null), node(null, null)), [[8, null]]);
  assert.deepEqual(of(node({ count: 8 }, 0), node({ count: 8 }, 3)), [[16, 3]]);
});

plainTest("the newest moment has what is so now, whatever the clocks of runs say", () => {
  const ahead = [
    run({ id: "a", state: "running", started_at: at(70), ended_at: null, ranks: 4 }),
    run({ id: "b", started_at: at(70), ended_at: at(90), ranks: 2 }), // is over
    run({ id: "c", state: "queued", created_at: at(65), started_at: null, ended_at: null }),
  ];
  const [newest] = sums.history(ahead, second(0), second(60)).slice(-1);
  assert.deepEqual(newest, { at: second(60), waiting: 1, running: 1, ranks: 4 });
  const other = [
    run({ state: "queued", ended_at: null, ranks: 8 }), // between two attempts
    run({ id: "b", state: "running", started_at: null, ended_at: null, ranks: 2 }), // no step yet
    run({ id: "c", state: "stopping", ended_at: null, ranks: 1 }),
  ];
  const [before, now] = sums.history(other, second(0), second(60)).slice(-2);
  assert.deepEqual(before, { at: second(10), waiting: 1, running: 2, ranks: 9 });
  assert.deepEqual(now, { at: second(60), waiting: 1, running: 2, ranks: 3 });
  const stale = [run({ state: "running", ended_at: null }), run({ id: "b", ended_at: at(20) })];
  const active = { runs: [], next: null };
  const states = (page) => sums.endedSince(stale, page, second(40)).map((one) => one.state);
  assert.deepEqual(states(active), ["stopped", "succeeded"]);
  assert.deepEqual(states({ ...active, next: "x" }), ["running", "succeeded"]);
  assert.deepEqual(states({ ...active, runs: [{ id: "a" }] }), ["running", "succeeded"]);
  assert.deepEqual(states(undefined), ["running", "succeeded"]);
});

plainTest("ranks are called GPUs where they are some", () => {
  const unit = (hasGpus, ...devices) => sums.unitOf(devices.map((device) => ({ device })), hasGpus);
  assert.equal(unit(false, "NVIDIA H100 80GB HBM3", null), "GPU");
  assert.equal(unit(true, "CPU, 2 threads, avx512"), "rank");
  assert.equal(unit(true, "H100", "cpu"), "rank");
  assert.equal(unit(true, null), "GPU");
  assert.equal(unit(false), "rank");
});

test("GPU-hours by outcome, owner and cause are the API's, and all add up", async () => {
  const { runs } = await seeded.ask("runs?limit=1000&archived=all&full=true");
  const week = runs.filter((one) => Date.parse(one.created_at) > Date.now() - 7 * 86_400_000);
  const hours = (some) =>
    some.reduce((sum, one) => sum + (one.ranks * one.training_seconds) / 3600, 0);
  const visitor = await arrive("/cluster");
  const { page } = visitor;
  await visitor.sees("By owner");
  await visitor.sees(`all ${week.length} runs submitted in the last 7 days`);
  const failed = week.filter((one) => one.state === "failed");
  const [count, shown, share] = await cells(page, /^By how the runs ended/, "failed");
  assert.equal(count, String(failed.length));
  assert.equal(shown, plain(show.number(hours(failed))));
  assert.equal(share, plain(show.percent(hours(failed) / hours(week))));
  for (const owner of new Set(week.map((one) => one.owner))) {
    const own = week.filter((one) => one.owner === owner);
    const lost = own.filter((one) => ["failed", "cancelled"].includes(one.state));
    const text = await cells(page, /^By owner/, owner);
    assert.equal(text[0], String(own.length));
    assert.equal(text[1], plain(show.number(hours(own))));
    assert.ok(text[3].startsWith(plain(show.number(hours(lost)))), text[3]);
  }
  const causes = page.getByRole("region", { name: /^By why runs failed/ }).locator("tbody tr");
  const counts = await causes.evaluateAll((all) =>
    all.map((row) => Number(row.children[1].textContent)),
  );
  assert.equal(counts.reduce((sum, one) => sum + one, 0), failed.length);
  const seconds = week
    .map((one) => (Date.parse(one.started_at) - Date.parse(one.created_at)) / 1000)
    .sort((a, b) => a - b);
  const median = seconds[Math.ceil(seconds.length / 2) - 1];
  const wait = plain(await part(page, "Queue wait").innerText()).replaceAll("\u202f", " ");
  assert.ok(wait.includes(plain(show.duration(median))), `${median} in ${wait}`);
  await visitor.leave();
});

test("replayed steps are those of the runs' own histories", async () => {
  const { runs } = await seeded.ask("runs?limit=1000&archived=all&full=true");
  let hours = 0;
  for (const { id, attempts, ranks } of runs) {
    if (attempts < 2) continue;
    const { rows } = await seeded.ask(`runs/${id}/history?limit=10000`);
    const steps = rows.filter((row) => row.type === "step");
    steps.forEach((row, index) => {
      const from = steps[index - 1]?.at_seconds; // evaluations lie between them
      if (row.abandoned) hours += (ranks * (row.at_seconds - from)) / 3600;
    });
  }
  assert.ok(hours > 0.1);
  const visitor = await arrive("/cluster?days=30");
  assert.equal(await visitor.page.getByRole("combobox").inputValue(), "30");
  await visitor.sees(/runs submitted in the last 30 days/);
  const text = await visitor.page.locator(".replayed strong").innerText();
  assert.ok(Math.abs(Number(text) - hours) < 0.02, `${text} of ${hours}`);
  await visitor.leave();
});

test("without Slurm there are no nodes, and the range is the reader's", async () => {
  const visitor = await arrive("/cluster");
  const { page } = visitor;
  await visitor.sees("This controller runs without Slurm");
  assert.equal(await page.getByText("Questions to Slurm").count(), 0);
  await visitor.sees("No run is queued or running.");
  const [machine] = (await seeded.ask("nodes")).nodes;
  const gpus = machine.gpus ? String(machine.gpus.count) : "–";
  assert.deepEqual(await cells(page, "By state", "idle"), ["1", gpus, "–", "0"]);
  assert.equal((await cells(page, "Checks of the controller", "store"))[0], "✓ good");
  await page.getByRole("combobox").selectOption("1");
  await page.waitForFunction(() => location.hash.includes("days=1"));
  const { total } = await seeded.ask(
    `runs?archived=all&total=true&limit=1&since=${new Date(Date.now() - 86_400_000).toISOString()}`,
  );
  await visitor.sees(`all ${total} runs submitted in the last 24 hours`);
  await page.getByRole("button", { name: "Table: GPUs over time" }).press("Enter");
  const shown = await page
    .getByRole("region", { name: "GPUs over time, table" })
    .locator("tbody tr")
    .evaluateAll((all) => all.map((row) => [...row.children].map((one) => one.textContent)));
  assert.ok(shown.length > 2);
  const day = [Date.now() - 86_400_000 - 120_000, Date.now() + 5000];
  for (const [at, ranks] of shown) {
    assert.ok(Date.parse(at) >= day[0] && Date.parse(at) <= day[1], at); // a moment, in UTC
    assert.equal(Number(ranks) % 16, 0, ranks); // each run has 16 ranks
  }
  await visitor.waitForPixels(0, "accent", 50);
  await visitor.leave();
});

test("where all run on CPUs nothing is told of GPUs over time", async () => {
  const visitor = await arrive("/settings");
  const { page } = visitor;
  await page.route("**/api/v1/runs?*", async (route) => {
    const json = await seeded.ask(route.request().url().split("/api/v1/")[1]);
    const runs = json.runs.map((one) => ({ ...one, device: "CPU, 2 threads" }));
    await route.fulfill({ json: { ...json, runs } });
  });
  await page.evaluate(() => (location.hash = "#/cluster"));
  await visitor.sees("Runs and ranks over time");
  await page.getByRole("heading", { name: "Ranks over time", exact: true }).waitFor();
  await page.getByRole("heading", { name: "Rank-hours" }).waitFor();
  await visitor.sees("ranks of running runs");
  assert.equal(await page.getByText(/GPU-hours|GPUs over|GPUs of running/).count(), 0);
  await visitor.leave();
});

test("runs of an earlier submission are in the charts of days in which none was submitted", async () => {
  const visitor = await arrive("/settings");
  const { page } = visitor;
  const json = { runs: [], next: null, total: 0 };
  await page.route("**/api/v1/runs?since=*", (route) => route.fulfill({ json }));
  await page.evaluate(() => (location.hash = "#/cluster"));
  await visitor.sees("No run was submitted in the last 7 days.");
  await visitor.sees("Runs and GPUs over time");
  await visitor.waitForPixels(0, "accent", 50);
  assert.equal(await part(page, "GPU-hours").count(), 0);
  await page.route("**/api/v1/runs?state=*", (route) => route.fulfill({ json }));
  await page.reload();
  await visitor.sees("No run was submitted in the last 7 days.");
  assert.equal(await page.getByText("over time").count(), 0);
  await visitor.leave();
});

const kNode = { usable: true, gpus: { count: 8 }, gpus_allocated: 0, runs: [], suspicion: 0 };

test("Slurm's nodes, live runs and faults are added up, as text", async () => {
  const visitor = await arrive("/settings", { viewport: { width: 390, height: 844 } });
  const { page } = visitor;
  const nodes = [
    { ...kNode, name: "n1", state: "allocated", gpus_allocated: 8 },
    { ...kNode, name: "n2", state: "mixed", gpus_allocated: 3, suspicion: 0.95 },
    { ...kNode, name: "n3", state: "mixed", gpus_allocated: 4 },
    { ...kNode, name: "n4", state: kHostile, gpus: null, gpus_allocated: null },
  ];
  const answer = (json) => (route) => route.fulfill({ json });
  const trouble = "sinfo: timed out";
  const slurm = { scheduler: "slurm_cli", taken_at: at(0), age_seconds: 12, trouble };
  const pages = [nodes.slice(0, 2), nodes.slice(2)];
  const first = answer({ ...slurm, total: 4, next: "n2", nodes: pages[0] });
  const second = answer({ ...slurm, total: 4, next: null, nodes: pages[1] });
  await page.route("**/api/v1/nodes?limit=1000", first);
  await page.route("**/api/v1/nodes?limit=1000&after=n2", second);
  await page.route("**/api/v1/version", async (route) => {
    const { "if-none-match": _, ...headers } = route.request().headers(); // a view asked before
    const response = await route.fetch({ headers });
    await route.fulfill({ json: { ...(await response.json()), scheduler: "slurm_cli" } });
  });
  const polling = { calls: 7, most_calls: 12, call_seconds: 0.25, paused_seconds: 90 };
  await page.route("**/api/v1/health", answer({ status: "ok", checks: [], polling }));
  const [row] = (await seeded.ask("runs?limit=1&full=true")).runs;
  const now = new Date().toISOString();
  const live = { ...row, state: "running", ended_at: null, ranks: 16 };
  const owner = `${kHostile}\u202eowner${"y".repeat(10_000)}`;
  const bad = { ...row, id: "bad", state: "failed", owner, error: owner, created_at: now };
  await page.route("**/api/v1/runs?state=**", answer({
    runs: [
      live,
      { ...live, id: "q", state: "queued", started_at: null, since_submission_seconds: 7500 },
      { ...live, id: "again", state: "queued", since_submission_seconds: 450_000 },
    ],
    next: "x",
    total: 3000,
  }));
  await page.route("**/api/v1/runs?since=**", answer({ runs: [bad], next: "x", total: 70_000 }));
  const event = { at: now, launch: 1, attempt: null, run: "bad", words: null, by: null };
  await page.route("**/api/v1/events?**", answer({
    events: [
      { ...event, number: 1, kind: "node.not_responding", node: "n7" },
      { ...event, number: 2, kind: "node.not_responding", node: "n8" },
      { ...event, number: 3, kind: "node.not_responding", node: "n8" },
      { ...event, number: 4, kind: "launch.ended", node: "n1", words: "node failure" },
      { ...event, number: 5, kind: "launch.ended", node: "n1", words: null },
    ],
    next: 5,
    more: false,
  }));
  await page.evaluate(() => (location.hash = "#/cluster"));
  await visitor.sees("By state");
  assert.deepEqual(await cells(page, "By state", "mixed"), ["2", "16", "7", "1"]);
  assert.deepEqual(await cells(page, "By state", "allocated"), ["1", "8", "8", "0"]);
  const present = plain(await part(page, "Now").innerText());
  for (const text of [
    "15 of 24",
    "3,000 runs are not over; what follows is of the newest 3.",
    "new ones longest for 2 h 05 min",
    "16\nof running runs", // and none of those that wait
  ]) {
    assert.ok(present.replaceAll("\u202f", " ").includes(text), `${text} in ${present}`);
  }
  await visitor.sees("the newest 1 of 70,000 runs submitted in the last 7 days");
  await visitor.sees("sinfo: timed out");
  // By the moment that Slurm said it, not by an age that stands still while nothing changes.
  const days = Math.round((Date.now() - Date.parse(at(0))) / 86_400_000);
  const said = plain(await page.getByRole("region", { name: "Nodes", exact: true }).innerText());
  assert.ok(said.includes(`Of all 4 nodes, as Slurm said ${days} d ago`), said);
  await visitor.sees(/newest answer about nodes came \d+.d ago/);
  const asking = plain(await part(page, "Controller").innerText()).replaceAll("\u202f", " ");
  for (const text of ["7 of 12", "0.3 s", "asked too often: no question for 1 min 30 s"]) {
    assert.ok(asking.includes(text), `${text} in ${asking}`);
  }
  const states = page.getByRole("list", { name: "Runs that are not over, by state" });
  const link = states.getByRole("link");
  assert.equal((await link.first().innerText()).replace(/\s+/g, " "), "2 queued");
  assert.ok((await link.first().boundingBox()).height >= 24);
  const state = page.getByRole("region", { name: "By state" }).getByRole("link", { name: "mixed" });
  assert.equal(await state.getAttribute("href"), "#/nodes?state=mixed");
  const fault = await cells(page, "Events of nodes", "Node does not respond");
  assert.deepEqual([fault[0], fault[2]], ["3", "n8, n7"]);
  assert.equal((await cells(page, "Launches that ended with a reason", "node failure"))[0], "1");
  const table = page.getByRole("region", { name: "By owner" });
  assert.ok((await table.innerText()).includes(`<img src=x onerror="window.stolen=1">`));
  assert.equal(await page.evaluate(() => window.stolen), undefined);
  assert.equal(await page.locator("main img").count(), 0);
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(width <= 390, `${width} px`);
  assert.deepEqual(await findings(page), []);
  await visitor.keepPicture("cluster-narrow");
  await visitor.leave();
});

test("before Slurm was asked no figure of its nodes is told; a zoom is of a range", async () => {
  const visitor = await arrive("/settings");
  const { page } = visitor;
  let nodes = { taken_at: null, age_seconds: null, total: 0, nodes: [] };
  const unasked = { scheduler: "slurm_cli", trouble: null, next: null };
  await page.route("**/api/v1/nodes?**", (route) =>
    route.fulfill({ json: { ...unasked, ...nodes } }),
  );
  await page.route("**/api/v1/version", async (route) => {
    const { "if-none-match": _, ...headers } = route.request().headers();
    const response = await route.fetch({ headers });
    await route.fulfill({ json: { ...(await response.json()), scheduler: "slurm_cli" } });
  });
  await page.evaluate(() => (location.hash = "#/cluster?days=1"));
  await visitor.sees("Slurm has not been asked yet");
  assert.equal(await page.getByText("0 of 0").count(), 0);
  const chart = page.getByRole("application", { name: "Runs over time" });
  await chart.focus();
  await page.keyboard.press("+");
  await page.getByRole("button", { name: "Show all" }).first().waitFor();
  await page.getByRole("combobox").selectOption("30");
  await page.getByRole("button", { name: "Show all" }).first().waitFor({ state: "detached" });
  const cpu = { ...kNode, name: "c1", state: "idle", gpus: null, gpus_allocated: null };
  nodes = { taken_at: new Date().toISOString(), age_seconds: 0, total: 1, nodes: [cpu] };
  await visitor.sees("no node says it has any");
  await visitor.leave();
});

test("GPUs of a machine without Slurm are counted", async () => {
  const visitor = await arrive("/settings");
  const { page } = visitor;
  const node = { ...kNode, name: "box", state: "idle", gpus_allocated: null };
  const answer = { scheduler: "local", taken_at: new Date().toISOString(), age_seconds: 0 };
  await page.route("**/api/v1/nodes?**", (route) =>
    route.fulfill({ json: { ...answer, trouble: null, next: null, total: 1, nodes: [node] } }),
  );
  await page.evaluate(() => (location.hash = "#/cluster"));
  await visitor.sees("of the controller's machine");
  const present = plain(await part(page, "Now").innerText()).replace(/\s+/g, " ");
  assert.match(present, /GPUs 8 of the controller's machine/i);
  assert.deepEqual(await cells(page, "By state", "idle"), ["1", "8", "–", "0"]);
  await visitor.leave();
});
