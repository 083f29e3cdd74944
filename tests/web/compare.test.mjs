// The comparison of runs over the seeded controller, held against what the API says of the same
// runs. Its pure parts: compared.test.mjs.
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before } from "node:test";
import { kHostile } from "./fixture.mjs";
import { Seeded, missingController, seededTest } from "./seeded.mjs";
import { Visitor, launch } from "./setup.mjs";
import { sourcesOf } from "./sources.mjs";

const pure = await sourcesOf(`export { slotsOf } from "./src/base/colours";
      export * as show from "./src/base/format";`);
const { show } = pure;

const skip = missingController();
const test = seededTest(skip);
let seeded, browser, runs;
before(async () => {
  if (skip) return;
  seeded = await new Seeded({ runs: 40 }).start();
  await settled();
  browser = await launch();
});
// Journals are read after their runs were found: until nothing changes.
async function settled() {
  for (let before = ""; ; ) {
    ({ runs } = await seeded.ask("runs?limit=1000"));
    const now = JSON.stringify(runs);
    if (now === before) return;
    before = now;
    await new Promise((done) => setTimeout(done, 1500));
  }
}
after(async () => {
  await browser?.close();
  await seeded?.stop();
});

const kNone = /status of 404/; // of a run, or a plan, that there is not
const arrive = (place, options = {}) => Visitor.arrive(browser, seeded.link(place), options);
const of = (ids, more = "") => `/compare?runs=${ids.join(",")}${more}`;
const named = (prefix, state = "succeeded") =>
  runs.filter((run) => run.id.startsWith(prefix) && run.state === state).map(({ id }) => id);
const plain = (text) => text.replaceAll("\u202f", " ").trim();
const cell = (page, id, key) =>
  page.locator(`.figure-table tr[data-run="${id}"] [data-key="${key}"]`);

test("runs are selected by key and compared, with the API's figures", async () => {
  const visitor = await arrive("/?state=succeeded");
  const { page } = visitor;
  await page.locator("table.runs tbody tr").nth(3).waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("x");
  const compare = page.getByRole("button", { name: "Compare", exact: true });
  assert.equal(await compare.isDisabled(), true); // one run alone
  await page.keyboard.press("c");
  assert.ok(page.url().includes("state=succeeded"));
  await page.keyboard.press("j");
  await page.keyboard.press("x");
  await visitor.sees("2 selected");
  await page.keyboard.press("c");
  await page.getByRole("heading", { name: "Compare" }).waitFor();
  const ids = new URLSearchParams(page.url().split("?")[1]).get("runs").split(",");
  assert.equal(ids.length, 2);
  for (const id of ids) {
    const run = await seeded.ask(`runs/${id}`);
    const { attempts } = await seeded.ask(`runs/${id}/attempts`);
    const hours = attempts.reduce((sum, one) => sum + (one.ranks * one.seconds) / 3600, 0);
    await cell(page, id, "value").waitFor();
    const text = async (key) => plain(await cell(page, id, key).innerText());
    assert.equal(await text("value"), plain(show.metric(run.metric, run.value, run.target)));
    assert.equal(await text("time"), plain(show.duration(run.time_to_accuracy_seconds)));
    assert.equal(await text("speed"), plain(show.number(run.samples_per_second)));
    assert.equal(await text("hours"), plain(show.number(hours)));
    assert.equal(await text("attempts"), String(run.attempts));
    const line = page.locator(`.legend-table tr[data-subject="${id}"]`);
    assert.ok(plain(await line.innerText()).includes(await text("value")));
  }
  await page.keyboard.press("Escape");
  await page.locator("table.runs").waitFor();
  await visitor.leave();
});

test("a pinned baseline stays in the address, and differences are from it", async () => {
  const [a, b] = [named("wiki-base")[0], named("books-small")[0]];
  const visitor = await arrive(of([a, b]));
  const { page } = visitor;
  await cell(page, b, "time").waitFor();
  assert.ok(!(await cell(page, b, "time").innerText()).includes("−"));
  const line = page.locator(`tr[data-subject="${a}"]`);
  await line.getByRole("button", { name: /^Baseline/ }).press("Enter");
  await page.waitForFunction((id) => location.hash.includes(`base=${id}`), a);
  await page.reload();
  const [one, other] = [await seeded.ask(`runs/${a}`), await seeded.ask(`runs/${b}`)];
  const share = other.time_to_accuracy_seconds / one.time_to_accuracy_seconds - 1;
  await page.locator(".figure-table .mark", { hasText: "baseline" }).waitFor();
  const text = plain(await cell(page, b, "time").locator(".small").innerText());
  assert.equal(text, `−${Math.abs(share * 100).toFixed(1)} %`);
  const points = (other.value - one.value) * 100;
  assert.equal(
    plain(await cell(page, b, "value").locator(".small").innerText()),
    `−${Math.abs(points).toFixed(2)} points`,
  );
  assert.equal(await cell(page, a, "value").locator(".small").count(), 0);
  // With another baseline the others are marked, and it goes from the address with its run.
  const lineB = page.locator(`tr[data-subject="${b}"]`);
  const last = lineB.getByRole("button", { name: /^Baseline/ });
  assert.equal(await last.getAttribute("aria-pressed"), "false");
  await last.press("Enter");
  await page.waitForFunction((id) => location.hash.includes(`base=${id}`), b);
  assert.equal(await last.getAttribute("aria-pressed"), "true");
  const marked = page.locator(".differences tbody tr").first().locator("td");
  await marked.nth(0).locator("text=≠").waitFor();
  assert.equal(await marked.nth(1).locator("text=≠").count(), 0);
  await lineB.getByRole("button", { name: /^Take .* out$/ }).press("Enter");
  await page.waitForFunction((id) => !location.hash.includes(id), b);
  await visitor.leave();
});

// Another way to the paths of a configuration than the page's.
const leaves = (config) => {
  const found = {};
  const walk = (value, path) => {
    const inner = value !== null && typeof value === "object" ? Object.keys(value) : [];
    if (inner.length === 0) found[path] = JSON.stringify(value);
    for (const key of inner) {
      const step = Array.isArray(value) ? `[${key}]` : `.${key}`;
      walk(value[key], path + (path === "" && !Array.isArray(value) ? key : step));
    }
  };
  walk(config, "");
  return found;
};

test("only differences are shown until all are asked for", async () => {
  const ids = [named("wiki-base")[0], named("books-small")[0], named("squad-tiny")[0]];
  const configs = [];
  for (const id of ids) {
    const { name, ...config } = (await seeded.ask(`runs/${id}`)).config;
    assert.ok(name); // which stands above the column
    configs.push(leaves(config));
  }
  const all = [...new Set(configs.flatMap(Object.keys))].sort();
  const differing = all.filter((key) => configs.some((one) => one[key] !== configs[0][key]));
  assert.ok(differing.length > 3 && differing.length < all.length);
  const visitor = await arrive(of(ids));
  const { page } = visitor;
  const table = page.getByRole("region", { name: /^Configuration/ }).last();
  const keys = () =>
    table.locator("tbody tr").evaluateAll((rows) => rows.map((row) => row.dataset.key));
  await table.locator("tbody tr").first().waitFor();
  assert.deepEqual(await keys(), differing);
  await visitor.sees(`${differing.length} of ${all.length} differ`);
  const marked = await table.locator('tr[data-key="seed"] td.other').count();
  assert.equal(marked, configs.slice(1).filter((one) => one.seed !== configs[0].seed).length);
  await page.keyboard.press("d");
  await table.locator(`tr[data-key="${all.find((key) => !differing.includes(key))}"]`).waitFor();
  assert.deepEqual(await keys(), all);
  assert.ok(page.url().includes("all=1"));
  await visitor.leave();
});

test("curves are the API's along any axis, and their table says so", async () => {
  const ids = [named("squad-tiny")[0], named("books-small")[0]];
  const visitor = await arrive(of(ids, "&x=step"));
  const { page } = visitor;
  const slots = pure.slotsOf(ids);
  for (const id of ids) await visitor.waitForPixels(0, `run-${slots.get(id)}`, 40);
  await page.getByRole("button", { name: "Table: Masked accuracy" }).press("Enter");
  const lines = page.locator('.compared[data-series="metric"] tbody tr');
  await lines.first().waitFor();
  const rows = await lines.evaluateAll((all) =>
    all.map((row) => [...row.children].map((one) => one.textContent)),
  );
  let compared = 0;
  for (const [index, id] of ids.entries()) {
    const { evaluations } = await seeded.ask(`runs/${id}/evaluations`);
    for (const { step, value, abandoned, attempt } of evaluations) {
      const row = rows.find(([at]) => at === show.count(step));
      if (abandoned || !row) continue;
      assert.equal(Number(row[1 + index]), Number(value.toPrecision(6)), `${id} at ${step}`);
      assert.equal(Number(row[1 + ids.length + index]), attempt, `attempt of ${id} at ${step}`);
      compared += 1;
    }
  }
  assert.ok(compared > 8, `${compared} points`);
  await page.locator(".compare-tools select").selectOption("device_hours");
  await page.waitForFunction(() => location.hash.includes("x=device_hours"));
  const metric = page.locator('.compared[data-series="metric"]');
  await metric.locator("thead th", { hasText: "GPU-hours" }).waitFor();
  const { runs: drawn } = await seeded.ask(`metrics?runs=${ids[0]}&x=device_hours&series=metric`);
  const end = drawn[0].evaluations.buckets.at(-1).to;
  const shown = await lines.evaluateAll((all) => all.map((row) => row.children[0].textContent));
  assert.ok(shown.includes(String(Number(end.toPrecision(6)))), `${end} in ${shown}`);
  await page.locator("summary", { hasText: "Series" }).click();
  await page.getByRole("checkbox", { name: "Samples per second" }).check();
  await page.getByRole("heading", { name: "Samples per second" }).waitFor();
  await page.reload();
  await page.getByRole("heading", { name: "Samples per second" }).waitFor();
  await visitor.leave();
});

test("the cursor is one for all charts and the legend", async () => {
  const ids = [named("squad-tiny")[0], named("books-small")[0]];
  const visitor = await arrive(of(ids, "&x=step"));
  const { page } = visitor;
  await visitor.waitForPixels(1, `run-${pure.slotsOf(ids).get(ids[1])}`, 40);
  const box = await page.locator(".compared .u-over").nth(1).boundingBox();
  await page.mouse.move(box.x + box.width / 3, box.y + box.height / 2);
  const caption = page.locator(".legend-table caption", { hasText: "values at step" });
  await caption.waitFor();
  const step = Number((await caption.innerText()).match(/step ([\d,]+)/)[1].replaceAll(",", ""));
  const query = `metrics?runs=${ids[1]}&x=step&series=loss&buckets=2000`;
  const [{ steps }] = (await seeded.ask(query)).runs;
  const at = steps.buckets.findIndex((one) => one.to_step === step && !one.abandoned);
  assert.ok(at >= 0, `step ${step}`);
  const line = page.locator(`tr[data-subject="${ids[1]}"] td[data-name="Training loss"]`);
  assert.equal(plain(await line.innerText()), plain(show.number(steps.series.loss[at][2])));
  await visitor.leave();
});

test("a press on a name shows it alone", async () => {
  const ids = [named("wiki-base")[0], named("books-small")[0]];
  const visitor = await arrive(of(ids));
  const { page } = visitor;
  const slots = pure.slotsOf(ids);
  const other = `run-${slots.get(ids[1])}`;
  await visitor.waitForPixels(0, other, 40);
  await page.getByRole("button", { name: "Table: Masked accuracy" }).press("Enter");
  const table = page.locator('.compared[data-series="metric"] tbody tr');
  await table.first().waitFor();
  const name = page.locator(`tr[data-subject="${ids[0]}"] .isolate`);
  await name.press("Enter");
  assert.equal(await name.getAttribute("aria-pressed"), "true");
  await page.waitForFunction((id) => location.hash.includes(`only=${id}`), ids[0]);
  await visitor.waitForPixels(0, `run-${slots.get(ids[0])}`, 40);
  assert.equal((await visitor.pixels(0, other)).count, 0);
  assert.ok((await table.count()) > 0, "the chart's table stays");
  await page.keyboard.press("Escape");
  await visitor.waitForPixels(0, other, 40);
  await visitor.leave();
});

test("runs that differ by seed are one line, and their figures have a deviation", async () => {
  const seeds = named("lamb-vs-adam").slice(0, 3);
  assert.equal(seeds.length, 3);
  const broken = runs.find((run) => run.id.startsWith("lamb-vs-adam") && run.state === "failed");
  const ids = [...seeds, named("wiki-base")[0], ...(broken ? [broken.id] : [])];
  const visitor = await arrive(of(ids));
  const { page } = visitor;
  const mean = page.locator(`tr[data-mean="${seeds[0]}"]`);
  await mean.waitFor();
  assert.equal(await page.locator(".legend-table tbody tr").count(), ids.length - 2);
  const values = await Promise.all(seeds.map(async (id) => (await seeded.ask(`runs/${id}`)).value));
  const middle = values.reduce((sum, one) => sum + one, 0) / 3;
  const around = Math.sqrt(values.reduce((sum, one) => sum + (one - middle) ** 2, 0) / 2);
  const text = plain(await mean.locator('[data-key="value"]').innerText()).replace(/\s+/g, " ");
  const wanted = `${plain(show.percent(middle))} ± ${plain(show.percent(around))}`;
  assert.equal(text, wanted);
  const legend = page.locator(`.legend-table tr[data-subject="${seeds[0]}"]`);
  await legend.locator("td", { hasText: "±" }).first().waitFor(); // the curves have come
  const told = plain(await legend.innerText());
  assert.ok(told.includes(wanted), `${wanted} in ${told}`);
  await page.getByRole("checkbox", { name: "Mean over seeds" }).uncheck();
  await page.waitForFunction(
    (count) => document.querySelectorAll(".legend-table tbody tr").length === count,
    ids.length,
  );
  assert.ok(page.url().includes("seeds=apart"));
  await visitor.leave();
});

test("runs are added and taken out by keyboard alone", async () => {
  const [a, b] = [named("wiki-base")[0], named("books-small")[0]];
  const visitor = await arrive("/compare");
  const { page } = visitor;
  await visitor.sees("No runs to compare yet");
  await page.keyboard.press("a");
  const dialog = page.getByRole("dialog", { name: "Add a run" });
  await dialog.waitFor();
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Add a run…" }).press("Enter");
  for (const id of [a, b]) {
    await dialog.getByRole("textbox").fill(id);
    const found = dialog.getByRole("button", { name: new RegExp(`^Add .* ${id}$`) });
    await found.waitFor();
    await page.keyboard.press("Tab");
    assert.ok(await found.evaluate((button) => button === document.activeElement));
    await page.keyboard.press("Enter");
    await dialog.getByRole("button", { name: /is compared$/ }).waitFor();
    const has = await page.evaluate(() => document.activeElement.getAttribute("aria-label"));
    assert.match(has ?? "", /is compared$/); // the focus stays where it was
  }
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  // Its opener is gone.
  await page.waitForFunction(() => document.activeElement.tagName === "H1");
  await cell(page, b, "value").waitFor();
  const line = page.locator(`tr[data-subject="${a}"]`);
  await line.getByRole("button", { name: /^Take .* out$/ }).press("Enter");
  await cell(page, a, "value").waitFor({ state: "detached" });
  assert.equal(new URLSearchParams(page.url().split("?")[1]).get("runs"), b);
  assert.equal(await page.evaluate(() => document.activeElement.tagName), "H1");
  await visitor.leave();
});

test("what is not there, and what is too much, is said", async () => {
  const ids = runs.slice(0, 12).map(({ id }) => id);
  const visitor = await arrive(of(["nobody-000000", ...ids]));
  const { page } = visitor;
  await visitor.sees("9 of 10 runs, the first 10 of 13");
  await visitor.sees("nobody-000000 is not compared");
  await cell(page, ids[0], "value").waitFor();
  assert.equal(await page.locator(".figure-table tr[data-run]").count(), 9);
  const colours = await page
    .locator(".figure-table tr[data-run] .swatch line")
    .evaluateAll((all) => all.map((line) => getComputedStyle(line).stroke));
  assert.equal(new Set(colours).size, 9);
  await page.getByRole("button", { name: "Add a run…" }).press("Enter");
  await visitor.sees("Ten runs are compared");
  const others = page.locator('.add-run li button:not([aria-label$="is compared"])');
  assert.equal(await others.first().getAttribute("aria-disabled"), "true");
  await others.first().focus();
  await page.keyboard.press("Enter");
  await page.keyboard.press("Escape");
  assert.ok(page.url().includes("nobody-000000"));
  await page.getByRole("button", { name: "Take out", exact: true }).click();
  await cell(page, ids[9], "value").waitFor();
  await visitor.leave(kNone);
});

test("a plan's differences are told where there is one", async () => {
  const ids = [named("wiki-base")[0], named("books-small")[0]];
  const visitor = await arrive("/compare");
  const { page } = visitor;
  const plan = { ranks: 16, bucket_ends: [3, 9], cut: "25 MB", why: "", measured: true };
  await page.route(`**/runs/${ids[0]}/plan`, (route) =>
    route.fulfill({
      json: { ...plan, decisions: [{ key: "hierarchical", choice: "true", why: "", options: [] }] },
    }),
  );
  await page.evaluate((hash) => (location.hash = hash), `#${of(ids)}`);
  // Whether there is a plan is known only by asking, which is done for who wants to know.
  const asked = [];
  page.on("request", (request) => /plan$/.test(request.url()) && asked.push(request.url()));
  const ask = page.getByRole("button", { name: "Compare the plans" });
  await ask.waitFor();
  await page.locator(".compared canvas").first().waitFor();
  assert.deepEqual(asked, []);
  await ask.click();
  const value = page.locator('tr[data-key="setting hierarchical"] td').first();
  assert.equal(await value.innerText(), "true");
  assert.ok((await page.locator('tr[data-key="buckets"]').innerText()).includes("not set"));
  await visitor.leave(kNone);
});

test("what is not compared is told of the runs that the address names, and of no others", async () => {
  const [id] = named("wiki-base");
  const visitor = await arrive(of(["nope", id]));
  const { page } = visitor;
  await visitor.sees("nope is not compared");
  await cell(page, id, "value").waitFor();
  await page.evaluate((hash) => (location.hash = hash), `#${of(["nope", id], "&series=noise_scale")}`);
  await visitor.sees("no run has values of it");
  await page.waitForFunction(() => document.title === "Compare 1 run · Regatta");
  await page.evaluate(() => (location.hash = "#/compare"));
  await visitor.sees("No runs to compare yet");
  assert.equal(await page.getByText("nope is not compared").count(), 0);
  assert.equal(await page.title(), "Compare runs · Regatta");
  await visitor.leave(kNone);
});

test("the target's name is whole, right of the axis", async () => {
  for (const [width, scale] of [[1280, 1], [390, 2]]) {
    const options = { viewport: { width, height: 900 }, deviceScaleFactor: scale };
    const visitor = await arrive("/compare", options);
    const { page } = visitor;
    await page.evaluate((hash) => {
      const { fillText } = CanvasRenderingContext2D.prototype;
      CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...rest) {
        if (text.startsWith("target")) window.target = [this.textAlign, x / devicePixelRatio];
        return fillText.call(this, text, x, y, ...rest);
      };
      location.hash = hash;
    }, `#${of(named("wiki-base").slice(0, 1))}`);
    const [align, left] = await (await page.waitForFunction(() => window.target)).jsonValue();
    assert.equal(align, "left");
    assert.ok(left >= 52, `${left} px`); // the axis is that wide
    await visitor.leave();
  }
});

// The API's answer about a run, changed; without a tag, so that it comes whole each time.
const answersWith = (page, id, change) =>
  page.route(`**/api/v1/runs/${id}`, async (route) => {
    const run = await seeded.ask(`runs/${id}`);
    await route.fulfill({ json: change(run) });
  });

test("runs that read the same are told apart, and what is hidden may differ", async () => {
  const ids = [named("wiki-base")[0], named("books-small")[0]];
  const visitor = await arrive("/compare");
  const { page } = visitor;
  for (const id of ids) {
    await answersWith(page, id, (run) => ({
      ...run,
      name: "demo",
      metric: id === ids[0] ? "f1" : run.metric,
      config: { ...run.config, slurm: { environment: { ALGO: null } } },
    }));
  }
  await page.evaluate((hash) => (location.hash = hash), `#${of(ids)}`);
  for (const id of ids) {
    await page.locator(`.figure-table tr[data-run="${id}"] th`, { hasText: `(${id})` }).waitFor();
    await page.getByRole("button", { name: `Baseline demo (${id})`, exact: true }).waitFor();
    await page.locator(`.differences thead th`, { hasText: `(${id})` }).first().waitFor();
  }
  assert.equal(await cell(page, ids[0], "value").locator(".small").innerText(), "F1");
  assert.equal(await cell(page, ids[1], "value").locator(".small").innerText(), "Masked accuracy");
  const row = page.locator('.differences tr[data-key="slurm.environment.ALGO"]');
  assert.match(await row.innerText(), /what reads alike may differ\s+hidden\s+hidden/);
  assert.equal(await row.locator(".other").count(), 0);
  await page.getByText(/\d+ of \d+ differ, 1 may/).waitFor();
  await page.locator("summary", { hasText: "What the figures are" }).press("Enter");
  await visitor.sees("until the target was reached, else the end, else now");
  await visitor.leave();
});

test("a run that is resumed, and one that is removed, are told", async () => {
  const ids = [named("wiki-base")[0], named("books-small")[0]];
  const visitor = await arrive("/compare");
  const { page } = visitor;
  let answer = "failed";
  await page.route(`**/api/v1/runs/${ids[0]}`, async (route) => {
    if (answer === "removed") {
      await route.fulfill({ status: 404, json: { detail: "no such \u001b[31mrun" } });
    } else {
      await route.fulfill({ json: { ...(await seeded.ask(`runs/${ids[0]}`)), state: answer } });
    }
  });
  await page.evaluate((hash) => (location.hash = hash), `#${of(ids)}`);
  const state = page.locator(`.figure-table tr[data-run="${ids[0]}"] td[data-name="State"]`);
  await state.getByText("failed").waitFor();
  answer = "running"; // somebody has resumed it
  await state.getByText("running").waitFor();
  answer = "removed";
  await visitor.sees(`${ids[0]} is not compared`);
  await visitor.sees("no such run");
  await state.waitFor({ state: "detached" });
  await visitor.leave(kNone);
});

test("a move of the pointer draws the legend, and no table", async () => {
  const ids = [named("squad-tiny")[0], named("books-small")[0]];
  const visitor = await arrive(of(ids, "&x=step&all=1"));
  const { page } = visitor;
  await visitor.waitForPixels(1, `run-${pure.slotsOf(ids).get(ids[1])}`, 40);
  await page.evaluate(() => {
    const { replace } = String.prototype;
    window.replaced = 0;
    String.prototype.replace = function (...words) {
      window.replaced += 1;
      return replace.apply(this, words);
    };
  });
  const box = await page.locator(".compared .u-over").nth(1).boundingBox();
  const captions = [];
  const counts = [];
  for (const share of [0.3, 0.5, 0.7, 0.9]) {
    await page.evaluate(() => (window.replaced = 0));
    await page.mouse.move(box.x + box.width * share, box.y + box.height / 2);
    const caption = page.locator(".legend-table caption", { hasText: "values at step" });
    await caption.waitFor();
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done))));
    captions.push(await caption.innerText());
    counts.push(await page.evaluate(() => window.replaced));
  }
  assert.ok(new Set(captions).size > 2, String(captions));
  const cells = await page.locator(".differences td").count();
  assert.ok(cells > 20);
  // Each cell of a table cleans its text; a poll may draw all of them in one of the moves.
  assert.ok(Math.min(...counts) < cells, `${counts} for ${cells} cells`);
  await visitor.leave();
});

test("who walks along a chart by keys hears the values", async () => {
  const ids = [named("squad-tiny")[0], named("books-small")[0]];
  const visitor = await arrive(of(ids, "&x=step"));
  const { page } = visitor;
  const chart = page.locator('.compared[data-series="metric"]');
  await chart.locator(".plot").focus();
  await page.keyboard.press("Home");
  const live = chart.locator("[aria-live]");
  await page.waitForFunction((place) => /step/.test(place.textContent), await live.elementHandle());
  const said = plain(await live.evaluate((place) => place.textContent));
  const step = Number(/^step ([\d,]+):/.exec(said)[1].replaceAll(",", ""));
  let heard = 0;
  for (const id of ids) {
    const { name } = await seeded.ask(`runs/${id}`);
    const { evaluations } = await seeded.ask(`runs/${id}/evaluations`);
    const here = evaluations.find((one) => one.step === step && !one.abandoned);
    if (!here) continue;
    assert.ok(said.includes(`${name} ${plain(show.percent(here.value))}`), `${name} in: ${said}`);
    heard += 1;
  }
  assert.ok(heard > 0, said);
  await visitor.leave();
});

test("hostile text stays text, and nothing is wider than a phone", async () => {
  const ids = [named("wiki-base")[0], named("books-small")[0]];
  const visitor = await arrive("/compare", { viewport: { width: 390, height: 844 } });
  const { page } = visitor;
  const bad = `${kHostile}\u001b[31mred\u202egnirts${"x".repeat(10_000)}`;
  await page.route(`**/api/v1/runs/${ids[0]}`, async (route) => {
    const answer = await route.fetch();
    const run = await answer.json();
    run.name = bad;
    run.device = bad;
    run.config = { ...run.config, [bad.slice(0, 400)]: bad, data: { path: bad } };
    await route.fulfill({ json: run });
  });
  await page.evaluate((hash) => (location.hash = hash), `#${of(ids, "&all=1")}`);
  await page.locator('tr[data-key="data.path"] summary').first().waitFor();
  const text = await page.locator('tr[data-key="data.path"] td').first().innerText();
  assert.ok(text.includes(`<img src=x onerror="window.stolen=1">`) && !text.includes("\u001b"));
  assert.equal(await page.evaluate(() => window.stolen), undefined);
  assert.equal(await page.locator("main img").count(), 0);
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(width <= 390, `${width} px`);
  await visitor.keepPicture("compare-narrow");
  await visitor.leave();
});

test("old figures stay while the controller is away", async () => {
  const ids = [named("wiki-base")[0], named("books-small")[0]];
  const visitor = await arrive(of(ids));
  const { page } = visitor;
  await cell(page, ids[0], "value").waitFor();
  await page.route("**/api/v1/**", (route) => route.abort());
  await page.locator(".compare-tools select").selectOption("samples");
  await page.waitForFunction(() => location.hash.includes("x=samples"));
  await visitor.sees("Controller unreachable");
  assert.equal(await cell(page, ids[0], "value").count(), 1);
  await page.unroute("**/api/v1/**");
  await page.locator(".compared .readout", { hasText: "by samples" }).first().waitFor();
  await visitor.leave(/status of 404|ERR_FAILED/);
});
