// The page of a run in states and answers that the real controller seldom gives: against the
// fixture's API, and with some answers changed or held back on their way.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { follow, kHostile, makeEvent, makeRun, ranksRun, series, standardRuns } from "./fixture.mjs";
import { Visitor, browser, pageTests } from "./setup.mjs";

const pageTest = pageTests();

const kRun = "demo-4f2a91";
const kNothing = series({ steps: 0, stepSeconds: 1, evaluateEvery: 1 });
const one = (fields = {}, more = {}) => () => [
  { run: makeRun(kRun, fields), metrics: kNothing, log: "", events: [], ...more },
];
const arrive = (fixture, tab = "", options = {}) =>
  Visitor.arrive(browser, `${fixture.url}#/runs/${kRun}${tab}`, options);
const plain = (text) => text.replace(/\s+/g, " ").trim();
// A promise, and what keeps it.
function promise() {
  let keep;
  const kept = new Promise((done) => (keep = done));
  return { kept, keep };
}
const open = async (page, name) => {
  await page.locator("summary", { hasText: "Actions" }).click();
  await page.getByRole("button", { name, exact: true }).click();
};
const focused = (page) => page.evaluate(() => document.activeElement?.textContent ?? "");

const kEscaped = `${kHostile}\u001b[31mred\u001b[0m\u001b]0;title\u0007\u0000`;
pageTest(
  "errors, warnings and states lose their escape sequences, and stay text",
  one({
    state: "failed",
    state_text: kEscaped,
    error: kEscaped.replace("red", "crimson"),
    warnings: [kEscaped],
    directory: kEscaped,
    task: kEscaped,
    from: { path: kEscaped, run: null, checkpoint: null, optimizer: false },
    attempt: { number: 1, state: "ended", execution: null, exit_code: 1, reason: kEscaped },
  }),
  async (fixture) => {
    const visitor = await arrive(fixture, "/details");
    const { page } = visitor;
    await page.locator("dt", { hasText: "Directory" }).waitFor();
    const text = await page.locator("main").innerText();
    assert.equal(text.split(`${kHostile}red`).length - 1, 6, text);
    assert.equal(text.split(`${kHostile}crimson`).length - 1, 1, text);
    assert.doesNotMatch(text, /[\u0000-\u0008\u000b-\u001f\u007f]|title|\[31m/);
    assert.equal(await page.locator("#app img").count(), 0);
    const utc = await page.locator("dd time").first().getAttribute("title");
    assert.match(utc, /2026-11-21 12:00:00 UTC$/);
    await visitor.leave();
  },
);

pageTest(
  "a screen reader is told the state, not each step",
  one({ state_text: "training, step 412 of 4000" }),
  async (fixture) => {
    const visitor = await arrive(fixture);
    const { page } = visitor;
    await visitor.sees("training, step 412 of 4000");
    const told = await page.locator(".run-head [role=status]").allInnerTexts();
    assert.deepEqual(told.map(plain), ["running"]);
    await visitor.leave();
  },
);

// Eight attempts of 100 s, 20 s apart, of which each evaluates once.
function manyAttempts() {
  const at = (seconds) => new Date(Date.UTC(2026, 10, 21, 12, 0, seconds)).toISOString();
  const metrics = series({ steps: 0, stepSeconds: 1, evaluateEvery: 1 });
  const attempts = Array.from({ length: 8 }, (_, i) => ({
    ...{ attempt: i + 1, execution: String(i), launch: null, started_at: at(10 + 120 * i) },
    ...{ seconds: 100, first_step: 90 * i, host: "a", hosts: ["a"], ranks: 1, ranks_per_node: 1 },
    ...{ device: null, training_seconds: 90, exit_code: 22, reason: null, message: null },
  }));
  for (let i = 0; i < 8; i += 1) {
    for (let n = 1; n <= 90; n += 1) {
      metrics.steps.push([90 * i + n, 120 * i + 10 + n, 5, 5, 1, 1, null, null, null, false]);
    }
  }
  const run = makeRun(kRun, {
    ...{ state: "failed", state_text: "failed", attempts: 8, created_at: at(0) },
    ...{ started_at: at(10), ended_at: at(960) },
  });
  follow(run, metrics);
  return [{ run, metrics, log: "", events: [], attempts: { launches: [], attempts } }];
}

pageTest("the timeline tells of all attempts while it draws the last", manyAttempts, async (fixture) => {
  const visitor = await arrive(fixture);
  const { page } = visitor;
  const strip = page.locator("figure.strip");
  const label = strip.locator("[role=img]");
  await visitor.sees("The last 6 of 8 are drawn.");
  // 8 × 90 s of steps.
  const wanted = /^8 attempts since the submission: queued 10 s, .*training 12 min 00 s/;
  assert.match(plain(await label.getAttribute("aria-label")), wanted);
  const legend = plain(await strip.locator(".legend").innerText());
  assert.ok(legend.includes("training 12 min 00 s"), legend);
  await page.getByRole("button", { name: "Show all 8 attempts" }).click();
  await visitor.seesNoMore("The last 6 of 8 are drawn.");
  assert.equal(await strip.locator("svg.names text").count(), 8);
  const widths = await strip.locator("rect.training").evaluateAll((all) =>
    all.map((rect) => Number.parseFloat(rect.getAttribute("width"))),
  );
  for (const width of widths) assert.ok(Math.abs(width - (100 * 90) / 950) < 0.1, `${widths}`);
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute("role")), "application");
  assert.match(plain(await label.getAttribute("aria-label")), wanted);
  await visitor.leave();
});

pageTest(
  "an explanation is of the state that it was asked for",
  one({ state: "queued", state_text: "waits for a free place" }),
  async (fixture) => {
    const [entry] = fixture.entries;
    const visitor = await arrive(fixture);
    const { page } = visitor;
    const panel = page.locator(".reason-panel");
    await panel.getByText("Waits for a free place").waitFor();
    const answer = promise();
    await page.route("**/explain", async (route) => {
      await answer.kept;
      await route.continue();
    });
    Object.assign(entry.run, { state: "stopping", state_text: "writes a checkpoint and stops" });
    await page.getByRole("heading", { name: "Why it stops" }).waitFor();
    assert.equal(await panel.getByText("Waits for a free place").count(), 0);
    answer.keep();
    await panel.getByText("Writes a checkpoint and stops").waitFor();
    Object.assign(entry.run, { state: "running", state_text: "suspended by Slurm, step 5 of 10" });
    await page.getByRole("heading", { name: "Why it stands still" }).waitFor();
    await panel.getByText("Suspended by Slurm").waitFor();
    await visitor.leave();
  },
);

pageTest(
  "a run that Slurm has suspended has a word, a shape and a colour of its own",
  () => {
    const texts = ["training, step 5 of 10", "suspended by Slurm, step 5 of 10"];
    return texts.map((state_text, i) => {
      const metrics = series({ steps: 5 });
      const run = { ...follow(makeRun(`run-${i}`), metrics), state: "running", state_text };
      return { run, metrics, log: "", events: [] };
    });
  },
  async (fixture) => {
    const visitor = await Visitor.arrive(browser, fixture.url);
    const { page } = visitor;
    const badgeOf = (place) =>
      page.locator(`${place} .badge`).evaluate((badge) => ({
        word: badge.textContent,
        shape: badge.querySelector("path").getAttribute("d"),
        colour: getComputedStyle(badge).color,
      }));
    const row = (id) => `tbody tr:has(a[href="#/runs/${id}"])`;
    await page.locator(row("run-1")).waitFor();
    const [running, suspended] = [await badgeOf(row("run-0")), await badgeOf(row("run-1"))];
    assert.deepEqual([running.word, suspended.word], ["running", "suspended"]);
    assert.notEqual(running.shape, suspended.shape);
    assert.notEqual(running.colour, suspended.colour);
    await page.locator('a[href="#/runs/run-1"]').click();
    await page.locator(".run-state .badge").waitFor();
    assert.deepEqual(await badgeOf(".run-state"), suspended);
    await visitor.leave();
  },
);

pageTest(
  "curves of a thinned series say what they leave out",
  () => {
    const metrics = series({ steps: 4000, stepSeconds: 0.1, evaluateEvery: 500 });
    metrics.steps = metrics.steps.filter(([step]) => step % 50 === 0);
    return [{ run: follow(makeRun(kRun), metrics), metrics, log: "", events: [] }];
  },
  async (fixture) => {
    const visitor = await arrive(fixture);
    const { page } = visitor;
    await page.route(/runs\/[^/]+\/metrics/, async (route) => {
      const response = await route.fetch();
      const json = { ...(await response.json()), resolution_seconds: 60 };
      await route.fulfill({ response, json });
    });
    await visitor.sees("80 of 4,000 steps are in the curves, tables and files");
    await page.reload();
    await visitor.sees("Older rows are means of 1 min 00 s.");
    const chart = page.locator("figure.chart", { hasText: "Training loss" });
    const label = await chart.locator("[role=img]").getAttribute("aria-label");
    assert.match(label, /^Training loss over time, 80 of 4,000 steps/);
    await chart.getByRole("button", { name: /^Table/ }).click();
    await chart.getByText("Rows 1 to 80 of 80").waitFor();
    await visitor.leave();
  },
);

const failures = (count) =>
  Array.from({ length: count }, (_, i) => ({
    ...{ launch: i + 1, job: null, nodes: `node0${i + 1}`, gpus: 1, exit_code: 1, signal: null },
    ...{ submitted_at: "2026-11-21T12:00:00Z", ended_at: "2026-11-21T12:01:00Z", cause: null },
    ...{ what: `reason ${i + 1};`, action: null },
  }));
pageTest(
  "of many failures the newest are told",
  one({ state: "failed", state_text: "failed after 5 attempts" }),
  async (fixture) => {
    fixture.entries[0].explanation = {
      ...{ summary: "it failed", next: "nothing", waiting: null, failures_in_a_row: 5 },
      ...{ launches: failures(5), avoided_nodes: [] },
    };
    const visitor = await arrive(fixture);
    const { page } = visitor;
    const panel = page.getByRole("region", { name: "After the failure" });
    await panel.getByText("and 2 before").waitFor();
    const text = await panel.innerText();
    assert.deepEqual(text.match(/reason \d/g), ["reason 5", "reason 4", "reason 3"]);
    await visitor.leave();
  },
);

pageTest("the rates of a step are told while the cursor is on it", standardRuns, async (fixture) => {
  const { metrics } = fixture.entry(kRun);
  const visitor = await arrive(fixture);
  const { page } = visitor;
  const chart = page.locator("figure.chart", { hasText: "Samples per second" });
  const readout = chart.locator(".readout");
  await readout.getByText("tokens/s").waitFor();
  const newest = await readout.innerText();
  await chart.getByRole("application").focus();
  await page.keyboard.press("Home");
  const [, , , , samples, tokens] = metrics.steps[0];
  const figure = (value) => Math.round(value).toLocaleString("en-US");
  const words = `${figure(samples)} samples/s, ${figure(tokens)} tokens/s`;
  await chart.locator("[aria-live]").getByText(words).waitFor({ state: "attached" });
  assert.equal(plain(await readout.innerText()), words);
  await page.getByRole("link", { name: "← All runs" }).focus();
  await chart.locator("[aria-live]:empty").waitFor({ state: "attached" });
  assert.equal(await readout.innerText(), newest);
  await visitor.leave();
});

pageTest("a picture of a drawing has all of it", manyAttempts, async (fixture) => {
  const visitor = await arrive(fixture);
  const { page } = visitor;
  const strip = page.locator("figure.strip");
  await strip.locator("summary", { hasText: "Options" }).click();
  const download = page.waitForEvent("download");
  await strip.getByRole("button", { name: "Save as PNG" }).click();
  const bytes = readFileSync(await (await download).path());
  // The last column and the last row with another colour than the corner's, as shares of the picture.
  const [right, bottom] = await page.evaluate(async (base64) => {
    const data = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    const image = await createImageBitmap(new Blob([data], { type: "image/png" }));
    const { width, height } = image;
    const context = new OffscreenCanvas(width, height).getContext("2d");
    context.drawImage(image, 0, 0);
    const pixels = new Uint32Array(context.getImageData(0, 0, width, height).data.buffer);
    let [column, row] = [0, 0];
    pixels.forEach((pixel, i) => {
      if (pixel === pixels[0]) return;
      column = Math.max(column, i % width);
      row = Math.max(row, Math.floor(i / width));
    });
    return [column / width, row / height];
  }, bytes.toString("base64"));
  assert.ok(right > 0.9 && bottom > 0.8, `${right} ${bottom}`);
  await visitor.leave();
});

pageTest("what was asked before an action does not undo its answer", one(), async (fixture) => {
  const visitor = await arrive(fixture);
  const { page } = visitor;
  const button = page.getByRole("button", { name: "Cancel run" });
  await button.click();
  await page.getByRole("dialog").waitFor();
  const answer = promise();
  const asked = promise();
  let held = 0;
  await page.route(`**/api/v1/runs/${kRun}`, async (route) => {
    held += 1;
    if (held > 1) return route.continue();
    const response = await route.fetch(); // as it is before the action
    asked.keep();
    await answer.kept;
    await route.fulfill({ response });
  });
  await asked.kept;
  await page.getByRole("button", { name: "Cancel the run" }).click();
  await page.getByRole("button", { name: "Stopping…" }).waitFor();
  const come = page.waitForResponse((response) => response.url().endsWith(kRun));
  answer.keep();
  await come;
  for (let i = 0; i < 10; i += 1) {
    await page.waitForTimeout(50);
    assert.equal(await button.count(), 0, "the older answer is not shown");
  }
  await visitor.leave();
});

pageTest(
  "the focus stays where the button of an action has gone",
  one({ state: "failed", state_text: "failed after 1 attempt" }),
  async (fixture) => {
    const visitor = await arrive(fixture);
    const { page } = visitor;
    await page.getByRole("button", { name: "Resume run" }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Cancel run" }).waitFor();
    await page.waitForFunction(() => document.activeElement.textContent === "Actions");
    await page.getByRole("button", { name: "Cancel run" }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").waitFor();
    await page.keyboard.press("Tab");
    assert.equal(await focused(page), "Cancel the run");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Stopping…" }).waitFor();
    await page.waitForFunction(() => document.activeElement.textContent === "Actions");
    await visitor.leave();
  },
);

const over = { state: "cancelled", state_text: "cancelled at step 300" };
const removal = {
  ...{ bytes: 1000, freed: { checkpoints: 1000 }, files: 1, pinned: [], had_directory: true },
  left: null,
};
// Answers what is asked of a run by DELETE; keys: the Idempotency-Keys that came.
async function answerRemovals(page, answer) {
  const keys = [];
  await page.route(/\/api\/v1\/runs\/[^/]+(\?.*)?$/, async (route) => {
    const request = route.request();
    if (request.method() !== "DELETE") return route.fallback();
    if (request.url().includes("dry_run")) return route.fulfill({ json: removal });
    keys.push(request.headers()["idempotency-key"]);
    return answer(route, keys.length);
  });
  return keys;
}

pageTest("an action without an answer may be done, and is asked again as the same", one(over), async (fixture) => {
  const visitor = await arrive(fixture);
  const { page } = visitor;
  const answer = (route, n) => (n === 1 ? route.abort() : route.fulfill({ json: removal }));
  const keys = await answerRemovals(page, answer);
  await open(page, "Remove…");
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: /^Remove it and free/ }).click();
  await dialog.getByText(/^No answer \(.*\); it may have been done/).waitFor();
  await dialog.getByRole("button", { name: /^Remove it and free/ }).click();
  await page.locator("table.runs").waitFor();
  assert.equal(keys.length, 2);
  assert.match(keys[0], /^[0-9a-f]{32}$/);
  assert.equal(keys[1], keys[0]);
  await visitor.leave(/ERR_FAILED/);
});

pageTest("a removal that leaves files behind says so", one(over), async (fixture) => {
  const visitor = await arrive(fixture);
  const { page } = visitor;
  const left = "its files are still being removed, in /srv/runs/.removed-1\u001b[31m";
  await answerRemovals(page, (route) => route.fulfill({ status: 202, json: { ...removal, left } }));
  await open(page, "Remove…");
  await page.getByRole("button", { name: /^Remove it and free/ }).click();
  await page.getByRole("heading", { name: "The run is removed" }).waitFor();
  fixture.entries.length = 0;
  await visitor.sees("its files are still being removed, in /srv/runs/.removed-1");
  assert.equal(await focused(page), "The run is removed");
  await page.waitForTimeout(1500); // the run is asked for meanwhile, and is none
  await page.getByRole("heading", { name: "The run is removed" }).waitFor();
  await visitor.leave(/status of 404/);
});

pageTest(
  "a removal that ends late leaves the reader where he is",
  () => [...one(over)(), { ...one()()[0], run: makeRun("other-000001") }],
  async (fixture) => {
    const visitor = await arrive(fixture);
    const { page } = visitor;
    const answer = promise();
    const done = promise();
    await answerRemovals(page, async (route) => {
      await answer.kept;
      await route.fulfill({ json: removal });
      done.keep();
    });
    await open(page, "Remove…");
    await page.getByRole("button", { name: /^Remove it and free/ }).click();
    await page.getByRole("button", { name: "Removing…" }).waitFor();
    await page.keyboard.press("Escape");
    await page.evaluate(() => void (location.hash = "#/runs/other-000001"));
    await page.getByRole("heading", { name: "other", exact: true }).waitFor();
    answer.keep();
    await done.kept;
    await page.waitForTimeout(300);
    assert.match(page.url(), /#\/runs\/other-000001$/);
    await visitor.leave();
  },
);

pageTest("archiving tells exports by their size", one(over), async (fixture) => {
  const visitor = await arrive(fixture);
  const { page } = visitor;
  const row = { name: "step-000000300", step: 300, bytes: 1, reasons: [] };
  const told = { archived: false, bytes: 2.5e9, exports: 1.25e9, removed: [row], kept: [row, row] };
  await page.route("**/archive?dry_run=true", (route) => route.fulfill({ json: told }));
  await open(page, "Archive…");
  const text = page.getByRole("dialog").getByText(/^Frees/);
  await text.waitFor();
  const wanted = "Frees 2.50 GB: 1 checkpoint and 1.25 GB of exports to be removed, 2 checkpoints to stay.";
  assert.equal(plain(await text.innerText()), wanted);
  await visitor.leave();
});

pageTest("what is no figure is said at its field", one(over), async (fixture) => {
  const visitor = await arrive(fixture);
  const { page } = visitor;
  await open(page, "Extend…");
  const steps = page.getByRole("textbox", { name: /Steps in all/ });
  await steps.fill("5,000");
  await page.getByText("Use a whole number above 0, without commas.").waitFor();
  assert.equal(await steps.getAttribute("aria-invalid"), "true");
  const named = await steps.getAttribute("aria-describedby");
  assert.match(await page.locator(`[id="${named}"]`).innerText(), /whole number/);
  assert.ok(await page.getByRole("button", { name: "Extend the run" }).isDisabled());
  await steps.fill("5000");
  await visitor.seesNoMore("Use a whole number above 0, without commas.");
  assert.ok(await page.getByRole("button", { name: "Extend the run" }).isEnabled());
  await visitor.leave();
});

const warnings = (from, count) =>
  Array.from({ length: count }, (_, i) =>
    makeEvent(from + i, "attempt.warning", { words: `number ${from + i};` }),
  );
pageTest(
  "the events of a run stand still while the reader wants it",
  one({}, { events: warnings(0, 3) }),
  async (fixture) => {
    const { events } = fixture.entries[0];
    const visitor = await arrive(fixture, "/events");
    const { page } = visitor;
    await visitor.sees("number 2;");
    await page.getByRole("button", { name: "Pause" }).click();
    events.push(...warnings(3, 1));
    await page.waitForTimeout(2500); // more than a round
    assert.equal(await page.getByText("number 3;").count(), 0);
    await page.getByRole("button", { name: "Go on" }).click();
    await visitor.sees("number 3;");
    // With the last page the button goes that had the focus.
    events.push(...warnings(4, 20));
    await page.getByRole("button", { name: "Older events" }).focus();
    await page.keyboard.press("Enter");
    await visitor.sees("number 0;");
    await page.waitForFunction(() => document.activeElement.textContent === "What happened");
    await visitor.leave();
  },
);

pageTest(
  "a chart out of view is drawn when it comes, and for print",
  standardRuns,
  async (fixture) => {
    const entry = fixture.entry("demo-4f2a91");
    const held = entry.metrics.steps.splice(600);
    const visitor = await Visitor.arrive(browser, `${fixture.url}#/runs/demo-4f2a91`, {
      viewport: { width: 390, height: 150 },
    });
    const { page } = visitor;
    await visitor.sees("at step 600");
    await page.evaluate(() => {
      const { stroke } = CanvasRenderingContext2D.prototype;
      CanvasRenderingContext2D.prototype.stroke = function (...path) {
        this.canvas.dataset.drawn = "yes";
        return stroke.apply(this, path);
      };
    });
    const last = page.locator("figure.chart canvas").last();
    const grow = async (count) => {
      await page.evaluate(() => {
        for (const canvas of document.querySelectorAll("canvas")) delete canvas.dataset.drawn;
      });
      entry.metrics.steps.push(...held.splice(0, count));
      const step = entry.metrics.steps.at(-1)[0].toLocaleString("en-US");
      await page.getByText(`at step ${step}`).first().waitFor();
      await page.waitForTimeout(200);
    };
    await grow(100);
    assert.equal(await last.getAttribute("data-drawn"), null);
    await last.scrollIntoViewIfNeeded();
    await page.waitForFunction(
      () => [...document.querySelectorAll("figure.chart canvas")].at(-1).dataset.drawn === "yes",
    );
    await grow(100);
    assert.equal(await last.getAttribute("data-drawn"), "yes"); // as it is in view
    await page.evaluate(() => window.scrollTo(0, 0));
    await page.waitForTimeout(200);
    await grow(100);
    assert.equal(await last.getAttribute("data-drawn"), null);
    await page.evaluate(() => window.dispatchEvent(new Event("beforeprint")));
    await page.waitForTimeout(100);
    assert.equal(await last.getAttribute("data-drawn"), "yes");
    await visitor.leave();
  },
);

for (const [how, status] of [
  ["fails", 500],
  ["is refused", 404],
  ["is not answered", 503],
]) {
  pageTest(
    `a list of checkpoints that ${how} takes nothing else away, and is asked for again`,
    standardRuns,
    async (fixture) => {
      const { metrics } = fixture.entry(kRun);
      const visitor = await Visitor.arrive(browser, fixture.url);
      const { page } = visitor;
      await visitor.isLetIn();
      const list = `**/api/v1/runs/${kRun}/checkpoints`;
      let asked = 0;
      await page.route(list, (route) => {
        asked += 1;
        return route.fulfill({ status, json: { status, detail: "the disk does not answer" } });
      });
      await page.evaluate((to) => (location.hash = to), `#/runs/${kRun}`);
      await page.locator("figure.chart canvas").first().waitFor();
      const rounds = fixture.count("GET", `/api/v1/runs/${kRun}/metrics`);
      await page.waitForFunction(() => document.querySelectorAll("figure.chart canvas").length >= 3);
      // Rounds go on at their pace, and figures with them.
      const last = metrics.steps.at(-1);
      metrics.steps.push([last[0] + 1, last[1] + 1, ...last.slice(2)]);
      await visitor.sees(`at step ${(last[0] + 1).toLocaleString("en-US")}`);
      await page.waitForTimeout(2500);
      assert.ok(fixture.count("GET", `/api/v1/runs/${kRun}/metrics`) >= rounds + 3);
      assert.ok(asked >= 2, `asked ${asked} times`);
      for (const words of ["The controller refused", "No such run", "does not answer yet"]) {
        assert.equal(await page.getByText(words).count(), 0, words);
      }
      await page.getByRole("link", { name: "Checkpoints", exact: true }).click();
      await visitor.sees("The checkpoints on disk cannot be listed");
      await visitor.sees("the disk does not answer");
      await page.unroute(list);
      await page.getByRole("link", { name: /^Checkpoints \(\d+\)$/ }).waitFor();
      await visitor.seesNoMore("The checkpoints on disk cannot be listed");
      await page.locator("table.checkpoints tbody tr").first().waitFor();
      await visitor.leave(new RegExp(`status of ${status}`));
    },
  );
}

for (const [how, width] of [
  ["by key", 1200],
  ["by touch", 390],
]) {
  pageTest(
    `what a figure is is told ${how}, beneath it`,
    () => [ranksRun()],
    async (fixture) => {
      const { run } = fixture.entries[0];
      const options = { hasTouch: width < 800, viewport: { width, height: 900 } };
      const visitor = await Visitor.arrive(browser, `${fixture.url}#/runs/${run.id}`, options);
      const { page } = visitor;
      for (const [tab, least] of [
        ["", 12],
        ["/plan", 5],
      ]) {
        await page.evaluate((to) => (location.hash = to), `#/runs/${run.id}${tab}`);
        await page.locator(tab === "" ? ".ranks dl.figures" : ".plan dl.figures").waitFor();
        // A note that the pointer alone finds has a button, too.
        const figures = await page.locator("dl.figures > div[title]").all();
        assert.ok(figures.length >= least, `${figures.length} figures with a note`);
        for (const figure of figures) {
          const name = (await figure.locator("dt").innerText()).trim();
          const note = await figure.getAttribute("title");
          const button = figure.getByRole("button", { name: `About ${name}`, exact: true });
          const { width: wide, height: high } = await button.boundingBox();
          assert.ok(wide >= 24 && high >= 24, `${name}: ${wide} × ${high} px`);
          assert.ok(!(await figure.innerText()).includes(note));
          if (options.hasTouch) await button.tap();
          else {
            await button.focus();
            await page.keyboard.press("Enter");
          }
          await figure.getByText(note, { exact: true }).waitFor();
          assert.equal(await button.getAttribute("aria-expanded"), "true");
          const place = await button.getAttribute("aria-controls");
          assert.equal(await page.locator(`[id="${place}"]`).innerText(), note);
        }
        const width = await page.evaluate(() => document.documentElement.scrollWidth);
        assert.ok(width <= options.viewport.width, `${width} px`);
        for (const figure of figures) {
          await figure.getByRole("button").focus();
          await page.keyboard.press("Escape");
          assert.equal(await figure.locator(".help-note").count(), 0);
          const own = figure.locator("button:focus");
          assert.equal(await own.count(), 1, "the focus stays");
        }
        assert.ok(page.url().includes(run.id), "Escape leaves the text, not the run");
      }
      await page.evaluate(() => (location.hash = "#/"));
      await page.locator("summary", { hasText: "Columns" }).click();
      const columns = page.locator("table.runs th[title]");
      assert.ok((await columns.count()) >= 4);
      for (const column of await columns.all()) {
        const box = page.getByRole("checkbox", { name: (await column.textContent()).trim(), exact: true });
        const about = await box.getAttribute("aria-describedby");
        const told = page.locator(`[id="${about}"]`);
        assert.equal(await told.innerText(), await column.getAttribute("title"));
        assert.ok(await told.isVisible());
      }
      await visitor.leave();
    },
  );
}
