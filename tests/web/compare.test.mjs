// The comparison of runs: its pure parts, and the page over the seeded controller, held against
// what the API says of the same runs.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { after, before, test as plainTest } from "node:test";
import { fileURLToPath } from "node:url";
import { kHostile } from "./fixture.mjs";
import { Seeded, missingController, seededTest } from "./seeded.mjs";
import { Visitor, launch } from "./setup.mjs";

const web = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "web");
const { buildSync } = createRequire(join(web, "package.json"))("esbuild");
const bundle = buildSync({
  stdin: {
    contents: `export * from "./src/base/colours"; export * from "./src/compare/series";
      export * from "./src/compare/differences"; export * from "./src/compare/figures";
      export * as show from "./src/base/format";`,
    resolveDir: web,
  },
  absWorkingDir: web,
  bundle: true,
  format: "esm",
  write: false,
  platform: "browser",
  define: { BroadcastChannel: "undefined" }, // the session's would keep node waiting
});
const code = Buffer.from(bundle.outputFiles[0].contents).toString("base64");
const pure = await import(`data:text/javascript;base64,${code}`);
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

const kNoPlan = /status of 404/; // of runs without a plan: made-up ones have none
const arrive = (place, options = {}) => Visitor.arrive(browser, seeded.link(place), options);
const of = (ids, more = "") => `/compare?runs=${ids.join(",")}${more}`;
const named = (prefix, state = "succeeded") =>
  runs.filter((run) => run.id.startsWith(prefix) && run.state === state).map(({ id }) => id);
const plain = (text) => text.replaceAll("\u202f", " ").trim();
const cell = (page, id, key) =>
  page.locator(`.figure-table tr[data-run="${id}"] [data-key="${key}"]`);

// Palette: sRGB to linear light, to Lab; and as people see who lack the cones for red, green, blue
// (Machado, Oliveira, Fernandes 2009, severity 1).
const kCones = {
  red: [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.052],
  green: [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881],
  blue: [1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.3039],
};
const linear = (hex) =>
  [1, 3, 5].map((at) => {
    const part = parseInt(hex.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
const luminance = ([r, g, b]) => 0.2126 * r + 0.7152 * g + 0.0722 * b;
function lab([r, g, b]) {
  const f = (t) => (t > 0.008856 ? Math.cbrt(t) : 7.787 * t + 16 / 116);
  const x = f((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505);
  const y = f(luminance([r, g, b]));
  const z = f((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089);
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}
const without = (cone, rgb) =>
  [0, 3, 6].map((row) => {
    const value = rgb.reduce((sum, part, i) => sum + part * kCones[cone][row + i], 0);
    return Math.min(1, Math.max(0, value));
  });
const far = (a, b) => Math.hypot(...a.map((value, i) => value - b[i]));

plainTest("ten colours are told apart in both themes, also without one kind of cone", () => {
  const css = readFileSync(join(web, "src", "base", "colours.css"), "utf8");
  const found = [...css.matchAll(/--run-\d: (#[0-9a-f]{6});/g)].map(([, hex]) => linear(hex));
  assert.equal(found.length, 20);
  for (const [colours, surface] of [
    [found.slice(0, 10), "#ffffff"],
    [found.slice(10), "#161c24"],
  ]) {
    const back = luminance(linear(surface));
    colours.forEach((a, i) => {
      const light = luminance(a);
      const contrast = (Math.max(light, back) + 0.05) / (Math.min(light, back) + 0.05);
      assert.ok(contrast >= 3, `${surface} ${i}: contrast ${contrast}`);
      colours.slice(0, i).forEach((b, j) => {
        const apart = { all: far(lab(a), lab(b)) };
        for (const cone of Object.keys(kCones)) {
          apart[cone] = far(lab(without(cone, a)), lab(without(cone, b)));
        }
        const what = `${surface} ${i} and ${j}: ${JSON.stringify(apart)}`;
        assert.ok(apart.all >= 35 && apart.red >= 22 && apart.green >= 22, what);
        assert.ok(apart.blue >= 17, what);
        const { dash } = pure.lookOf(i);
        if (dash === pure.lookOf(j).dash) assert.ok(Math.min(...Object.values(apart)) >= 37, what);
      });
    });
  }
});

plainTest("a run keeps its colour, and ten runs have ten", () => {
  const ids = Array.from({ length: 10 }, (_, i) => `demo-${i}`);
  const all = pure.slotsOf(ids);
  assert.equal(new Set(all.values()).size, 10);
  for (let n = 1; n < 10; n += 1) {
    const some = pure.slotsOf(ids.slice(0, n));
    for (const [id, slot] of some) assert.equal(slot, all.get(id), id);
  }
  // FNV-1a's published value for "a".
  assert.equal(pure.slotsOf(["a"]).get("a"), 0xe40c292c % 10);
  assert.equal(pure.slotsOf(["a", "a"]).size, 1);
});

plainTest("nested keys are joined, and differences found", () => {
  const a = pure.flatten({ model: { hidden: 768 }, evaluations: [{ every: 5 }, {}], x: null });
  assert.deepEqual([...a], [
    ["model.hidden", "768"],
    ["evaluations[0].every", "5"],
    ["evaluations[1]", "{}"],
    ["x", "null"],
  ]);
  const rows = pure.rowsOf([a, pure.flatten({ model: { hidden: 768 }, x: "null", y: [] })]);
  assert.deepEqual(
    rows.map(({ key, values, differs }) => [key, values[1], differs]),
    [
      ["evaluations[0].every", null, true],
      ["evaluations[1]", null, true],
      ["model.hidden", "768", false],
      ["x", "null", false],
      ["y", "[]", true],
    ],
  );
});

plainTest("runs that differ by seed alone are a group", () => {
  const run = (id, seed, more = {}, fields = {}) => ({
    id,
    state: "succeeded",
    task: "pretraining",
    from: null,
    config: { name: id, seed, batch: { size: 8 }, ...more },
    ...fields,
  });
  const groups = (all) => pure.seedGroups(all).map((group) => group.map(({ id }) => id));
  const runs = [run("a", 1), run("b", 2), run("c", 3, { batch: { size: 9 } }), run("d", 4)];
  assert.deepEqual(groups(runs), [["a", "b", "d"]]);
  assert.deepEqual(groups([run("a", 1), run("b", 1)]), []); // a repetition is no other seed
  assert.deepEqual(groups([run("a", 1), run("b", 2, {}, { state: "failed" })]), []);
  assert.deepEqual(groups([run("a", 1), run("b", 2, {}, { task: "classification" })]), []);
  assert.deepEqual(groups([run("a", 1), run("b", 2, {}, { config: null })]), []);
});

plainTest("means and deviations are of what all have", () => {
  const a = { x: [0, 10, 20], y: [0, 10, 20] };
  const b = { x: [5, 15], y: [7, 17] };
  const { x, y, deviation, ends } = pure.meanOf("a", [a, b]);
  assert.deepEqual([x, y], [[5, 10, 15], [6, 11, 16]]);
  for (const one of deviation) assert.ok(Math.abs(one - Math.SQRT2) < 1e-12); // of v and v + 2
  assert.deepEqual(ends, [20, 17]);
  assert.deepEqual(pure.newestOf({ key: "", x, y, ends }).value, 18.5);
  assert.equal(pure.deviation([1, 2, 3, 4]), Math.sqrt(5 / 3));
  assert.equal(pure.deviation([1]), null);
  assert.deepEqual(pure.meanOf("a", [a, { x: [], y: [] }]).x, []);
  assert.equal(pure.valueAt(a, 4), 4);
  assert.equal(pure.valueAt(a, 20), 20);
  assert.equal(pure.valueAt(a, 20.1), null);
  assert.equal(pure.valueAt(a, -1), null);
  assert.deepEqual(pure.joined([a, b]), [
    [0, 5, 10, 15, 20],
    [0, null, 10, null, 20],
    [null, 7, null, 17, null],
  ]);
});

plainTest("steps that were trained again are in no line", () => {
  const bucket = (to, value, abandoned = false) => ({ to, abandoned, value });
  const all = [bucket(1, 9), bucket(2, 8), bucket(3, 7, true), bucket(2.5, 6)];
  all.push(bucket(3, null), bucket(4, 5));
  const steps = { buckets: all, series: { loss: all.map(({ value }) => [0, 9, value, 1]) } };
  const points = pure.pointsOf({ runs: [{ id: "a", steps }] }, "a", "loss");
  assert.deepEqual(points, { x: [1, 2, 2.5, 4], y: [9, 8, 6, 5] });
});

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
    assert.equal(await text("value"), plain(show.percent(run.value)));
    assert.equal(await text("time"), plain(show.duration(run.time_to_accuracy_seconds)));
    assert.equal(await text("speed"), plain(show.number(run.samples_per_second)));
    assert.equal(await text("hours"), plain(show.number(hours)));
    assert.equal(await text("attempts"), String(run.attempts));
    const line = page.locator(`.legend-table tr[data-subject="${id}"]`);
    assert.ok(plain(await line.innerText()).includes(plain(show.percent(run.value))));
  }
  await page.keyboard.press("Escape");
  await page.locator("table.runs").waitFor();
  await visitor.leave(kNoPlan);
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
  await visitor.leave(kNoPlan);
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
  for (const id of ids) configs.push(leaves((await seeded.ask(`runs/${id}`)).config));
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
  await visitor.leave(kNoPlan);
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
    for (const { step, value, abandoned } of evaluations) {
      const row = rows.find(([at]) => at === show.count(step));
      if (abandoned || !row) continue;
      assert.equal(Number(row[1 + index]), Number(value.toPrecision(6)), `${id} at ${step}`);
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
  await visitor.leave(kNoPlan);
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
  await visitor.leave(kNoPlan);
});

test("a press on a name shows it alone", async () => {
  const ids = [named("wiki-base")[0], named("books-small")[0]];
  const visitor = await arrive(of(ids));
  const { page } = visitor;
  const slots = pure.slotsOf(ids);
  const other = `run-${slots.get(ids[1])}`;
  await visitor.waitForPixels(0, other, 40);
  const name = page.locator(`tr[data-subject="${ids[0]}"] .isolate`);
  await name.press("Enter");
  assert.equal(await name.getAttribute("aria-pressed"), "true");
  await page.waitForFunction((id) => location.hash.includes(`only=${id}`), ids[0]);
  await visitor.waitForPixels(0, `run-${slots.get(ids[0])}`, 40);
  assert.equal((await visitor.pixels(0, other)).count, 0);
  await page.keyboard.press("Escape");
  await visitor.waitForPixels(0, other, 40);
  await visitor.leave(kNoPlan);
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
  assert.ok(plain(await legend.innerText()).includes(wanted));
  await page.getByRole("checkbox", { name: "Mean over seeds" }).uncheck();
  await page.waitForFunction(
    (count) => document.querySelectorAll(".legend-table tbody tr").length === count,
    ids.length,
  );
  assert.ok(page.url().includes("seeds=apart"));
  await visitor.leave(kNoPlan);
});

test("runs are added and taken out by keyboard alone", async () => {
  const [a, b] = [named("wiki-base")[0], named("books-small")[0]];
  const visitor = await arrive("/compare");
  const { page } = visitor;
  await visitor.sees("No runs to compare yet");
  await page.keyboard.press("a");
  const dialog = page.getByRole("dialog", { name: "Add a run" });
  for (const id of [a, b]) {
    await dialog.getByRole("textbox").fill(id);
    const found = dialog.getByRole("button", { name: new RegExp(`^Add .* ${id}$`) });
    await found.waitFor();
    await page.keyboard.press("Tab");
    assert.ok(await found.evaluate((button) => button === document.activeElement));
    await page.keyboard.press("Enter");
    await dialog.getByRole("button", { name: /is compared$/ }).waitFor();
  }
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  await cell(page, b, "value").waitFor();
  const line = page.locator(`tr[data-subject="${a}"]`);
  await line.getByRole("button", { name: /^Take .* out$/ }).press("Enter");
  await cell(page, a, "value").waitFor({ state: "detached" });
  assert.equal(new URLSearchParams(page.url().split("?")[1]).get("runs"), b);
  assert.equal(await page.evaluate(() => document.activeElement.tagName), "H1");
  await visitor.leave(kNoPlan);
});

test("what is not there, and what is too much, is said", async () => {
  const ids = runs.slice(0, 12).map(({ id }) => id);
  const visitor = await arrive(of(["nobody-000000", ...ids]));
  const { page } = visitor;
  await visitor.sees("the first 10 of 13");
  await visitor.sees("nobody-000000 is not compared");
  await cell(page, ids[0], "value").waitFor();
  assert.equal(await page.locator(".figure-table tr[data-run]").count(), 9);
  const colours = await page
    .locator(".figure-table tr[data-run] .swatch line")
    .evaluateAll((all) => all.map((line) => getComputedStyle(line).stroke));
  assert.equal(new Set(colours).size, 9);
  assert.equal(await page.getByRole("button", { name: "Add a run…" }).isDisabled(), true);
  await page.getByRole("button", { name: "Take out", exact: true }).click();
  await cell(page, ids[9], "value").waitFor();
  await visitor.leave(kNoPlan);
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
  const value = page.locator('tr[data-key="setting hierarchical"] td').first();
  assert.equal(await value.innerText(), "true");
  assert.ok((await page.locator('tr[data-key="buckets"]').innerText()).includes("not set"));
  await visitor.leave(kNoPlan);
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
  await visitor.leave(kNoPlan);
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
