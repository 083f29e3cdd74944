// Submitting from the page, with the real controller: the form and the text, what is refused and
// where, a run that trains to its end, and one run however often one presses.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, before, test as plainTest } from "node:test";
import { Seeded, missingController, seededTest } from "./seeded.mjs";
import { Visitor, kPatience, launch } from "./setup.mjs";
import { sourcesOf } from "./sources.mjs";

const { file, written, cost, schema, kAbout } = await sourcesOf(`
      export * as file from "./src/submit/run_file"; export { written } from "./src/submit/written";
      export * as cost from "./src/submit/cost";
      export * as schema from "./src/submit/schema"; export { kAbout } from "./src/submit/about";`);

const skip = missingController();
const test = seededTest(skip);
let seeded, browser, data;
before(async () => {
  if (skip) return;
  seeded = await new Seeded({ runs: 3, prepare: makeData }).start();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await seeded?.stop();
});

// A dataset of made-up sentences.
function makeData(folder) {
  const trainer = join(dirname(process.env.REGATTA_BINARY), "..", "trainer", "regatta-train");
  const words = "boat river wind sail oar crew race lake shore storm rope mast tide".split(" ");
  let state = 1;
  const word = () => words[(state = (state * 48271) % 2147483647) % words.length];
  const lines = Array.from({ length: 600 }, (_, n) => {
    const line = Array.from({ length: 8 }, word).join(" ");
    return `The ${line}.${n % 6 === 5 ? "\n" : ""}`;
  });
  mkdirSync(join(folder, "text"));
  writeFileSync(join(folder, "text", "a.txt"), lines.join("\n"));
  data = join(folder, "dataset");
  execFileSync(trainer, ["prepare", join(folder, "text"), "-o", data, "--train-vocab", "256"], {
    stdio: "ignore",
  });
}

const kRefused = /status of (422|404)/; // the browser tells each refusal in its console
const arrive = (place = "/submit", options = {}) =>
  Visitor.arrive(browser, seeded.link(place), options);
const area = (page) => page.getByRole("textbox", { name: "Run file, YAML or JSON" });
const field = (page, key) => page.locator(`#field-${key.replaceAll(".", "-")}`);
const submit = (page) => page.getByRole("button", { name: "Submit", exact: true });
const runs = async () => (await seeded.ask("runs?limit=1000&archived=all")).runs;
async function standing(page, text) {
  await page.locator(".submit-standing", { hasText: text }).waitFor();
}
const textNow = async (page) => JSON.parse(await area(page).inputValue());

const kTiny = (name, more = "") => `# a comment
name: ${name}
model: {preset: tiny, layers: 1, hidden: 32, heads: 2, feed_forward: 64}
data:
  path: ${data}
  max_length: 32
batch: {size: 4}
steps: 6
evaluate: {every: 3, samples: 8}
${more}`;

test("a run is submitted by keys alone, and trains to its end", async () => {
  const visitor = await arrive("");
  const { page } = visitor;
  const before = (await runs()).length;
  await page.locator("table.runs tbody tr").first().waitFor();
  await page.keyboard.press("g");
  await page.keyboard.press("s");
  await page.getByRole("heading", { name: "Submit a run" }).waitFor();
  const press = (key) => page.keyboard.press(key);
  await field(page, "name").waitFor();
  // By Tab from the top, as a reader without a mouse comes there.
  const reach = async (id) => {
    for (let n = 0; n < 120; n += 1) {
      if ((await page.evaluate(() => document.activeElement.id)) === id) return;
      await press("Tab");
    }
    assert.fail(`Tab does not come to ${id}`);
  };
  const type = async (key, text) => {
    await reach(`field-${key.replaceAll(".", "-")}`);
    await page.keyboard.type(text);
  };
  await page.locator("#main").focus();
  await type("name", "by-keys");
  await type("steps", "6");
  await type("data.path", data);
  await type("data.max_length", "32");
  await type("batch.size", "4");
  await type("evaluate.every", "3");
  await reach("submit-tags");
  await page.keyboard.type("keys, tiny");
  await standing(page, "Ready to submit.");
  await press("Control+Enter");
  await page.waitForFunction(() => location.hash.startsWith("#/runs/by-keys-"));
  const id = new URL(page.url()).hash.slice("#/runs/".length);
  await page.locator(".badge.succeeded").first().waitFor();
  const run = await seeded.ask(`runs/${id}`);
  assert.equal(run.state, "succeeded");
  assert.equal(run.step, 6);
  assert.deepEqual(run.tags, ["keys", "tiny"]);
  assert.equal(run.config.batch.size, 4);
  assert.equal(run.config.evaluate.every, 3);
  assert.equal(run.config.data.max_length, 32);
  assert.equal((await runs()).length, before + 1);
  await visitor.leave(kRefused);
});

test("a pasted YAML text is sent as it is, fills the form, and comes back", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  const sent = [];
  page.on("request", (request) => {
    if (request.method() === "POST" && request.url().includes("/runs")) sent.push(request);
  });
  const text = kTiny("pasted", "optimizer: {learning_rate: 0.002} # warm\n");
  await area(page).fill(text);
  await standing(page, "Ready to submit.");
  assert.equal(sent.at(-1).postData(), text);
  assert.match(sent.at(-1).url(), /dry_run=true/);
  assert.equal(await field(page, "name").inputValue(), "pasted");
  assert.equal(await field(page, "optimizer.learning_rate").inputValue(), "0.002");
  assert.equal(await field(page, "model.hidden").inputValue(), "32");
  assert.equal(await field(page, "seed").inputValue(), ""); // as it is by itself
  // The controller's figures, as it tells them.
  const told = await seeded.ask("runs?dry_run=true", {
    method: "POST",
    body: { name: "pasted", data: { path: data } },
  });
  const detail = told.checks.find((one) => one.name === "dataset").detail;
  assert.ok((await page.locator(".checks").innerText()).includes(detail));
  // A change in the form makes JSON with the same meaning, and the old text can be had again.
  await field(page, "steps").fill("7");
  await standing(page, "Ready to submit.");
  const json = await textNow(page);
  assert.equal(json.steps, 7);
  assert.deepEqual(json.optimizer, { learning_rate: 0.002 });
  const preview = await seeded.ask("runs?dry_run=true", { method: "POST", body: json });
  assert.equal(preview.config.model.hidden, 32);
  assert.equal(preview.config.evaluate.samples, 8);
  await page.getByRole("button", { name: "Back to the text as it was" }).click();
  assert.equal(await area(page).inputValue(), text);
  await standing(page, "Ready to submit.");
  await visitor.keepPicture("submit");
  await visitor.leave();
});

test("what is refused is said above and at its field", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  const refusal = async (text, key, words) => {
    await area(page).fill(text);
    await page.locator(".notice.error", { hasText: words }).waitFor();
    assert.equal(await field(page, key).getAttribute("aria-invalid"), "true");
    assert.equal(await submit(page).getAttribute("aria-disabled"), "true");
  };
  const body = { data: { path: data } };
  await refusal(JSON.stringify({ ...body, steps: -1 }), "steps", "steps: is -1; use 1 to");
  const model = { hidden: 13 };
  await refusal(JSON.stringify({ ...body, model }), "model.preset", "multiple of 8");
  await refusal(
    JSON.stringify({ ...body, target: { value: 0.5, times_baseline: 2 } }),
    "target.times_baseline",
    "use exactly one",
  );
  const from = { run: "nobody" };
  await refusal(JSON.stringify({ ...body, from }), "from.run", "no run 'nobody'");
  await refusal(JSON.stringify({ steps: 3 }), "data.path", "name a dataset directory");
  // A key that no field has, with its line; the field of a folded one opens.
  await area(page).fill(`data: {path: ${data}}\nstepz: 3\n`);
  await page.locator(".notice.error", { hasText: "did you mean 'steps'?" }).waitFor();
  await page.getByRole("button", { name: "Show line 2" }).click();
  const chosen = await area(page).evaluate((one) =>
    one.value.slice(one.selectionStart, one.selectionEnd),
  );
  assert.equal(chosen, "stepz: 3");
  await area(page).fill(JSON.stringify({ ...body, watchdog: { seconds: -4 } }));
  await page.getByRole("button", { name: "Go to watchdog.seconds" }).click();
  assert.ok(await field(page, "watchdog.seconds").isVisible());
  assert.equal(await page.evaluate(() => document.activeElement.id), "field-watchdog-seconds");
  await field(page, "watchdog.seconds").fill("4");
  await standing(page, "Ready to submit.");
  assert.equal(await page.locator(".notice.error").count(), 0);
  await page.locator("#submit-after").fill("nobody");
  await page.locator(".field-row.bad", { hasText: "no run 'nobody'" }).waitFor();
  await page.locator("#submit-after").fill("");
  await standing(page, "Ready to submit.");
  await page.locator("#submit-tags").fill("bad&tag"); // nothing else is another
  await page.locator(".field-row.bad", { hasText: "tag" }).waitFor();
  await visitor.leave(kRefused);
});

test("a dataset that is not there fails a check, and is asked about first", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  const before = (await runs()).length;
  await field(page, "data.path").fill("/nowhere/at/all");
  await standing(page, "Valid, but a check fails.");
  await page.locator(".checks .bad", { hasText: "dataset" }).waitFor();
  assert.equal(await field(page, "data.path").getAttribute("aria-invalid"), "true");
  await submit(page).click();
  const dialog = page.getByRole("dialog", { name: "Submit although checks fail?" });
  await dialog.getByText("/nowhere/at/all").first().waitFor();
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  assert.equal((await runs()).length, before);
  await visitor.leave(kRefused);
});

test("pressing twice and a lost answer make one run", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  const before = (await runs()).length;
  const keys = [];
  let losing = true;
  await page.route(/\/api\/v1\/runs(\?|$)/, async (route) => {
    const request = route.request();
    if (request.method() !== "POST" || request.url().includes("dry_run")) return route.continue();
    keys.push(request.headers()["idempotency-key"]);
    if (!losing) return route.continue();
    await route.fetch(); // it arrives, and its answer does not
    await route.abort("connectionreset");
  });
  await area(page).fill(kTiny("once"));
  await standing(page, "Ready to submit.");
  await submit(page).evaluate((button) => {
    button.click();
    button.click();
  });
  await page.getByText("makes no second run").waitFor();
  assert.equal(keys.length, 1);
  assert.equal((await runs()).length, before + 1);
  await page.reload();
  losing = false;
  await standing(page, "Ready to submit.");
  await submit(page).click();
  await page.waitForFunction(() => location.hash.startsWith("#/runs/once-"));
  assert.equal(keys.length, 2);
  assert.equal(keys[0], keys[1]);
  assert.match(keys[0], /^[0-9a-f]{32}$/);
  assert.equal((await runs()).filter((run) => run.name === "once").length, 1);
  // The form begins anew, with a key of its own.
  await page.goto(new URL("#/submit", page.url()).href);
  await area(page).waitFor();
  assert.equal(await area(page).inputValue(), "");
  await area(page).fill(kTiny("twice"));
  await standing(page, "Ready to submit.");
  await submit(page).click();
  await page.waitForFunction(() => location.hash.startsWith("#/runs/twice-"));
  assert.notEqual(keys[2], keys[0]);
  await visitor.leave(/ERR_CONNECTION_RESET/);
});

test("a run's configuration is edited and submitted again", async () => {
  const body = { name: "first", data: { path: data, max_length: 32 }, steps: 4, seed: 9,
    model: { layers: 1, hidden: 32, heads: 2, feed_forward: 64 }, batch: { size: 4 } };
  const first = await seeded.ask("runs?tags=one,two", { method: "POST", body });
  const visitor = await arrive(`/submit?from=${first.id}`);
  const { page } = visitor;
  await standing(page, "Ready to submit.");
  const { config } = await seeded.ask(`runs/${first.id}`);
  const again = await seeded.ask("runs?dry_run=true", {
    method: "POST",
    body: await textNow(page),
  });
  assert.deepEqual(again.config, config); // what is left out is so by itself
  assert.ok((await area(page).inputValue()).length < 500);
  assert.equal(await page.locator("#submit-tags").inputValue(), "one, two");
  await field(page, "seed").fill("18446744073709551615");
  await field(page, "name").fill("second");
  await page.reload(); // what was typed is still there
  await standing(page, "Ready to submit.");
  assert.equal(await field(page, "seed").inputValue(), "18446744073709551615");
  await submit(page).click();
  await page.waitForFunction(() => location.hash.startsWith("#/runs/second-"));
  const id = new URL(page.url()).hash.slice("#/runs/".length);
  const shown = seeded.regatta("show", id, "-o", "json");
  assert.match(shown, /"seed": ?18446744073709551615/);

  // Another run does not take the place of what was typed, unless one says so.
  await page.goto(new URL("#/submit", page.url()).href);
  await field(page, "name").fill("typed");
  await page.goto(new URL(`#/submit?from=${first.id}`, page.url()).href);
  await page.getByText("Something else was typed here").waitFor();
  assert.equal(await field(page, "name").inputValue(), "typed");
  await page.getByRole("button", { name: `fill from ${first.id}` }).click();
  await page.waitForFunction(() => document.querySelector("#field-name").value === "first");
  await page.getByRole("button", { name: "Throw away" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Throw away" }).click();
  await page.waitForFunction(() => document.querySelector("#field-name").value === "");
  assert.equal(new URL(page.url()).hash, "#/submit");
  assert.equal(await page.evaluate(() => sessionStorage.getItem("regatta.submit")), null);
  await visitor.leave(kRefused);
});

test("a file is opened, and one is dropped", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await area(page).waitFor();
  const buffer = Buffer.from(kTiny("from-file"));
  await page
    .getByLabel("Open a file")
    .setInputFiles({ name: "run.yaml", mimeType: "application/yaml", buffer });
  await standing(page, "Ready to submit.");
  assert.equal(await area(page).inputValue(), kTiny("from-file"));
  await drop(page, "other.yaml", kTiny("dropped"));
  await page.waitForFunction(() => document.querySelector("#field-name").value === "dropped");
  await visitor.leave();
});

const goTo = (page, place) => page.goto(new URL(`#${place}`, page.url()).href);
const drop = (page, name, text) =>
  area(page).evaluate(
    (element, [file, content]) => {
      const dataTransfer = new DataTransfer();
      dataTransfer.items.add(new File([content], file));
      element.dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
    },
    [name, text],
  );
const kSeed = "9007199254740993"; // 2^53 + 1: a browser's number is one less
const kVariable = "slurm: {environment: {API_KEY: abc}}\n";

test("what the form cannot carry over is said before and after, until it is set again", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  // By an anchor, which the page does not read: it has the values that the controller tells.
  const text = kTiny("carried", `seed: &one ${kSeed}\n${kVariable}`);
  await area(page).fill(text);
  await standing(page, "Ready to submit.");
  await visitor.sees("A change here would lose seed, slurm.environment.API_KEY");
  const notice = page.locator(".notice.warning", { hasText: "Set again" });
  assert.equal(await notice.count(), 0);
  await field(page, "steps").fill("7");
  await notice.waitFor();
  await standing(page, "Set seed and slurm.environment.API_KEY again, or leave them out.");
  const before = (await runs()).length;
  assert.equal(await submit(page).getAttribute("aria-disabled"), "true");
  await submit(page).evaluate((button) => button.click());
  await page.keyboard.press("Control+Enter");
  assert.match(await notice.innerText(), /Set again: seed, slurm\.environment\.API_KEY\./);
  const json = await textNow(page);
  assert.equal(json.seed, undefined);
  assert.equal(json.slurm.environment, undefined);
  await page.getByRole("button", { name: "Back to the text as it was" }).click();
  assert.equal(await area(page).inputValue(), text);
  await notice.waitFor({ state: "detached" });
  assert.equal(await page.evaluate(() => document.activeElement.tagName), "TEXTAREA");
  await standing(page, "Ready to submit.");
  await field(page, "steps").fill("6");
  await notice.waitFor();
  await page.reload(); // it is said as long as it is so
  await notice.waitFor();
  await field(page, "seed").fill(kSeed);
  await page.waitForFunction(() =>
    /Set again: slurm/.test(document.querySelector(".notice.warning")?.innerText));
  await standing(page, "Set slurm.environment.API_KEY again, or leave it out.");
  assert.equal((await runs()).length, before);
  await page.locator("details", { hasText: "switches" }).first().evaluate((one) => (one.open = true));
  await field(page, "slurm.environment").fill("API_KEY=xyz");
  await notice.waitFor({ state: "detached" });
  await standing(page, "Ready to submit.");
  await submit(page).click();
  await page.waitForFunction(() => location.hash.startsWith("#/runs/carried-"));
  const id = new URL(page.url()).hash.slice("#/runs/".length);
  const kept = readFileSync(join(seeded.runs, id, "run.json"), "utf8");
  assert.match(kept, /"seed": ?9007199254740993\b/);
  assert.match(kept, /"API_KEY": ?"xyz"/);
  await visitor.leave(kRefused);
});

test("a change in the form leaves the rest of a YAML text as it was written", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  const model = "model: {preset: tiny, max_positions: 64, gelu: tanh, dropout: 0.2}";
  const yaml = kTiny("as-written", `seed: ${kSeed}\n${kVariable}`).replace(/^model:.*$/m, model);
  await area(page).fill(yaml);
  await standing(page, "Ready to submit.");
  assert.equal(await page.getByText("A change here would lose").count(), 0);
  assert.equal(await field(page, "model.preset").inputValue(), "tiny");
  assert.equal(await field(page, "seed").inputValue(), kSeed);
  const folded = page.locator("fieldset", { hasText: "preset" }).locator("summary");
  assert.match(await folded.innerText(), /more settings, 3 set$/);
  await field(page, "steps").fill("5");
  await standing(page, "Ready to submit.");
  assert.equal(await page.locator(".notice.warning").count(), 0);
  const json = await textNow(page);
  assert.deepEqual(json.model, { preset: "tiny", max_positions: 64, gelu: "tanh", dropout: 0.2 });
  assert.deepEqual([json.seed, json.steps], [kSeed, 5]);
  assert.deepEqual(json.slurm, { environment: { API_KEY: "abc" } });
  // Without a model none comes into the text.
  await page.getByRole("button", { name: "Back to the text as it was" }).click();
  await area(page).fill(kTiny("by-itself").replace(/^model:.*\n/m, ""));
  await standing(page, "Ready to submit.");
  assert.doesNotMatch(await folded.innerText(), /set$/);
  await field(page, "steps").fill("5");
  await standing(page, "Ready to submit.");
  assert.equal((await textNow(page)).model, undefined);
  await visitor.leave();
});

test("a run with variables and a large seed is filled from, and the page says what is missing", async () => {
  const yaml = kTiny("hidden", `seed: ${kSeed}\n${kVariable}`).replace("steps: 6", "steps: 5");
  const path = join(seeded.folder, "hidden.yaml");
  writeFileSync(path, yaml);
  seeded.regatta("submit", path);
  const { id } = (await runs()).find((run) => run.name === "hidden");
  const visitor = await arrive(`/submit?from=${id}`);
  const { page } = visitor;
  await standing(page, "Set seed and slurm.environment.API_KEY again, or leave them out.");
  const notice = page.locator(".notice.warning", { hasText: "Set again" });
  assert.match(await notice.innerText(), /Set again: seed, slurm\.environment\.API_KEY\./);
  assert.equal(new URL(page.url()).hash, "#/submit");
  await page.reload();
  await notice.waitFor();
  await visitor.sees("filled from");
  // Again from the same run: nothing was typed, so nobody is asked; then something was.
  await goTo(page, `/submit?from=${id}`);
  await page.waitForFunction(() => location.hash === "#/submit");
  assert.equal(await page.getByText("Something else was typed here").count(), 0);
  await field(page, "batch.size").fill("3");
  await goTo(page, "/events");
  await page.locator(".events").waitFor();
  await goTo(page, `/submit?from=${id}`);
  await page.getByText("Something else was typed here").waitFor();
  assert.equal(await field(page, "batch.size").inputValue(), "3");
  await page.getByRole("button", { name: "Keep it" }).focus();
  await page.keyboard.press("Enter");
  await page.getByText("Something else was typed here").waitFor({ state: "detached" });
  assert.equal(await page.evaluate(() => document.activeElement.tagName), "H1");
  assert.equal(await field(page, "batch.size").inputValue(), "3");
  await goTo(page, `/submit?from=${id}`);
  await page.getByRole("button", { name: `fill from ${id}` }).click();
  await page.waitForFunction(() => document.querySelector("#field-batch-size").value === "4");
  // Left out on purpose, it is no longer asked for.
  await page.getByRole("button", { name: "Leave them out" }).click();
  await notice.waitFor({ state: "detached" });
  await standing(page, "Ready to submit.");
  assert.equal(await page.evaluate(() => document.activeElement.tagName), "H1");
  assert.equal(await submit(page).getAttribute("aria-disabled"), "false");
  await visitor.leave(kRefused);
});

test("on a phone the way to paste a run file is above the form", async () => {
  const visitor = await arrive("/submit", { viewport: { width: 390, height: 800 } });
  const { page } = visitor;
  const way = page.getByRole("button", { name: "Paste or open a run file" });
  await way.waitFor();
  assert.ok((await way.boundingBox()).y < 400);
  await way.click();
  assert.equal(await page.evaluate(() => document.activeElement.tagName), "TEXTAREA");
  const { y } = await area(page).boundingBox();
  assert.ok(y > 0 && y < 400, `${y} px`);
  assert.ok(await page.getByLabel("Open a file").evaluate(
    (one) => one.parentElement.getBoundingClientRect().top >= 0));
  await page.setViewportSize({ width: 1280, height: 800 });
  await way.waitFor({ state: "hidden" });
  await visitor.leave();
});

test("a file in place of a filled form can be taken back", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await field(page, "name").fill("typed");
  await field(page, "data.path").fill(data);
  const before = await area(page).inputValue();
  await drop(page, "other.yaml", kTiny("dropped"));
  await page.waitForFunction(() => document.querySelector("#field-name").value === "dropped");
  await visitor.sees("A file has taken the place of the text.");
  await page.reload();
  await page.getByRole("button", { name: "Back to the text as it was" }).click();
  assert.equal(await area(page).inputValue(), before);
  assert.equal(await field(page, "name").inputValue(), "typed");
  await page.getByRole("button", { name: "Throw away" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Throw away" }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Throw away");
  await visitor.leave(kRefused);
});

test("the bar says what came of it: refused, without an answer, sent while somebody types", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  let answer = (route) => route.continue();
  let silent = false;
  await page.route(/\/api\/v1\/runs\?/, (route) => (silent ? route.abort() : route.continue()));
  await page.route(/\/api\/v1\/runs$/, (route) => answer(route));
  await area(page).fill(kTiny("typed-on"));
  await standing(page, "Ready to submit.");
  answer = (route) => route.fulfill({ status: 409, json: { detail: "the queue is full" } });
  await submit(page).click();
  await standing(page, "The controller refused this.");
  await visitor.sees("the queue is full");
  silent = true;
  await area(page).fill(kTiny("typed-on", "\n"));
  await standing(page, "Not checked: no answer. Trying again…");
  silent = false;
  await standing(page, "Ready to submit.");
  let go;
  const typed = new Promise((done) => (go = done));
  answer = async (route) => {
    await typed;
    await route.continue();
  };
  await submit(page).click();
  await page.getByRole("button", { name: "Submitting…" }).waitFor();
  await field(page, "steps").fill("9");
  go();
  await page.waitForFunction(() => location.hash.startsWith("#/runs/typed-on-"));
  await goTo(page, "/submit");
  await area(page).waitFor();
  assert.equal((await textNow(page)).steps, 9);
  await visitor.leave(/status of (409|404|422)|ERR_FAILED/);
});

test("a YAML text that is refused leads to its line, not to a field that cannot be reached", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await area(page).fill(`data: {path: ${data}}\nsteps: -1\n`);
  await page.locator(".notice.error", { hasText: "steps: is -1" }).waitFor();
  await page.getByRole("button", { name: "Show line 2" }).waitFor();
  assert.ok(await field(page, "steps").isDisabled());
  assert.equal(await page.getByRole("button", { name: "Go to steps" }).count(), 0);
  await visitor.leave(kRefused);
});

test("an address that names no run is shown as a short text", async () => {
  const bad = `<img src=x onerror=window.stolen=1>\u001b[31m\u202e${"x".repeat(5000)}`;
  const visitor = await arrive("/submit");
  const { page } = visitor;
  await field(page, "name").fill("typed");
  await goTo(page, `/submit?${new URLSearchParams({ from: bad })}`);
  const fill = page.getByRole("button", { name: /^Throw it away and fill from <img src=x/ });
  assert.ok((await fill.innerText()).length < 250);
  assert.doesNotMatch(await fill.innerText(), /\u001b|\u202e/);
  await fill.click();
  const title = page.locator(".notice.error strong");
  assert.match(await title.innerText(), /^Not filled from <img src=x onerror/);
  assert.ok((await title.innerText()).length < 250);
  assert.doesNotMatch(await page.locator(".submit").innerText(), /\u001b|\u202e/);
  assert.equal(await page.locator("#app img").count(), 0);
  // What is typed now is checked as ever.
  await field(page, "data.path").fill(data);
  await standing(page, "Ready to submit.");
  await visitor.leave(/status of 414/);
});

// With the answers of a controller of a Slurm cluster that has a plan.
const kHostile = "<img src=x onerror=window.stolen=1>\u001b[31mred\u001b[0m\u202e";
test("what the preview says is shown, and hostile text stays text", async () => {
  const preview = {
    dry_run: true, name: "x", scheduler: "slurm_cli", directory: kHostile, after: [kHostile],
    config: { name: "x", steps: 1000, device: "cuda", data: { path: "/d" },
      slurm: { nodes: "2..8", time_limit: "1-12:00:00" } },
    defaults: kHostile, command: ["srun", "it's", kHostile], script: `#!/bin/bash\n${kHostile}\n`,
    plan: { ranks: 16, bucket_ends: [1], why: kHostile, measured: true, cut: "25 MB",
      timeline: { step_seconds: 0.5 }, alternatives: [
        { name: "25 MB", buckets: 50, step_seconds: 0.5, mean_step_seconds: 0.51 },
        { name: kHostile, buckets: 3, step_seconds: 0.75, mean_step_seconds: 0.8 }] },
    checks: [{ name: "dataset", good: true, detail: kHostile },
      { name: "memory", good: null, detail: "x".repeat(10_000) },
      { name: "nodes", good: false, detail: "no node has 16 GPUs" }],
  };
  for (const width of [1440, 390]) {
    const visitor = await arrive("/submit", { viewport: { width, height: 900 } });
    const { page } = visitor;
    await page.route("**/api/v1/runs?*", (route) => route.fulfill({ json: preview }));
    await area(page).fill('{"data": {"path": "/d"}}');
    await standing(page, "Valid, but a check fails.");
    for (const summary of ["Batch script", "Command", "Configuration"]) {
      await page.locator(".preview summary", { hasText: summary }).click();
    }
    const text = await page.locator(".preview").innerText();
    // 1,000 steps of 0.5 s on 16 GPUs; 8 nodes for 36 h.
    const plain = text.replaceAll("\u202f", " ");
    for (const part of ["8 min 20 s", "2.22", "288 node-hours", "750 ms", "'it'\\''s'"]) {
      assert.ok(plain.includes(part), `${part} in ${plain.slice(0, 3000)}`);
    }
    assert.match(plain, /nodes bad/);
    assert.match(plain, /memory not known now/);
    assert.doesNotMatch(text, /\u001b/);
    assert.equal(await page.locator("#app img").count(), 0);
    assert.equal(await page.evaluate(() => window.stolen), undefined);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= width, `${wide} px`);
    await visitor.keepPicture(`submit-preview-${width}`);
    await visitor.leave();
  }
});

plainTest("every key of the schema has a field that says what it is", { skip }, async () => {
  const groups = schema.groupsOf(await seeded.ask("run_file_schema"));
  const fields = groups.flatMap((group) => [...group.usual, ...group.rest]);
  assert.ok(fields.length > 100);
  const silent = fields.filter((one) => !Object.hasOwn(kAbout, one.key)).map((one) => one.key);
  assert.deepEqual(silent, []);
  const known = new Set(fields.map((one) => one.key));
  assert.deepEqual(Object.keys(kAbout).filter((key) => !known.has(key)), []);
  const at = (key) => schema.fieldAt(groups, key)?.key ?? null;
  assert.equal(at("data.mixture[1].path"), "data.mixture");
  assert.equal(at("slurm.environment.HOME"), "slurm.environment");
  assert.equal(at("stepz"), null);
  assert.equal(fields.find((one) => one.key === "steps").range, "1 to 1,000,000,000");
  assert.equal(fields.find((one) => one.key === "data.mask_fraction").range,
    "more than 0, less than 1");
});

plainTest("values come back from how they are typed", () => {
  for (const [kind, text, value] of [
    ["whole", "12", 12],
    ["whole", "18446744073709551615", "18446744073709551615"],
    ["whole", "1x", "1x"],
    ["number", "1e-3", 0.001],
    ["number", ".5", 0.5],
    ["truth", "false", false],
    ["text", " a b ", "a b"],
    ["text", "", undefined],
    ["list", "a\n\n b\n", ["a", "b"]],
    ["map", "A=1=2\nB=\nC", { A: "1=2", B: "", C: null }],
    ["mixture", "/a b * 2\n/c", [{ path: "/a b", weight: 2 }, { path: "/c" }]],
  ]) {
    assert.deepEqual(file.valueOf(text, kind), value, `${kind} ${text}`);
    const back = file.textOf(value, kind);
    assert.deepEqual(file.valueOf(back, kind), value, `${kind} ${back}`);
  }
  assert.equal(file.textOf({ A: "two\nlines" }, "map"), null);
  assert.equal(file.textOf({ a: 1 }, "text"), null);
});

plainTest("texts that are JSON are read, exactly", () => {
  assert.deepEqual(file.parsed('{"seed": 18446744073709551615, "a": "12345678901234567890"}'), {
    seed: "18446744073709551615",
    a: "12345678901234567890",
  });
  assert.deepEqual(file.parsed('{"a": 0.12345678901234567890}'), { a: 0.12345678901234568 });
  assert.equal(file.parsed("steps: 3"), null);
  assert.equal(file.parsed("[1]"), null);
  assert.deepEqual(file.parsed(""), {});
  assert.deepEqual(file.parsed('{"data": [{"path": "/a"}], "from": "RUN@best"}'), {
    data: { mixture: [{ path: "/a" }] },
    from: { run: "RUN@best" },
  });
});

plainTest("what is so by itself is left out, and what is not stays", () => {
  const table = (properties) => ({ type: "object", properties });
  const known = table({
    steps: { default: 10 },
    evaluate: table({ samples: { default: 1024 } }),
    slurm: table({ partition: {}, environment: table({}) }),
  });
  const config = {
    steps: 10,
    evaluate: { samples: 1024 },
    slurm: { partition: "", environment: { A: null, B: "" } },
    seed: 2 ** 60,
  };
  const environment = { B: "" }; // the value of A is told to nobody, and null is refused
  assert.deepEqual(file.pruned(config, known), { slurm: { environment } });
  const hidden = { ...config, slurm: { partition: "", environment: { A: null } } };
  assert.deepEqual(file.pruned(hidden, known), {});
  const task = "classification";
  assert.deepEqual(file.pruned({ ...config, task }, known), {
    evaluate: { samples: 1024 }, // of a task all samples are the default
    task,
    slurm: { environment },
  });
  assert.deepEqual(file.notCarried(config), ["seed", "slurm.environment.A"]);
  assert.deepEqual(file.notCarried({ ...config, seed: 2 ** 53 - 1, slurm: {} }), []);
  const keys = ["seed", "slurm.environment.A_KEY", "slurm.environment.OF_SITE"];
  assert.deepEqual(file.namedIn("seed: 1\nslurm: {environment: {A_KEY: x}}", keys), keys.slice(0, 2));
  assert.deepEqual(file.withValue({ a: { b: 1 } }, "a.b", undefined), {});
  assert.deepEqual(file.withValue({ a: 3 }, "a.b.c", 1), { a: { b: { c: 1 } } });
});

plainTest("the sizes of a preset are told by its name", { skip }, async () => {
  const known = await seeded.ask("run_file_schema");
  for (const preset of ["tiny", "mini", "small", "medium", "base", "large"]) {
    const body = { data: { path: "/d" }, model: { preset, dropout: 0.2 } };
    const { config } = await seeded.ask("runs?dry_run=true", { method: "POST", body });
    const named = preset === "tiny" ? {} : { preset };
    assert.deepEqual(file.pruned(config, known).model, { dropout: 0.2, ...named });
  }
});

plainTest("the keys of a YAML text are found, and what is not read is told", () => {
  const found = (text) => {
    const keys = written(text);
    return keys && Object.fromEntries(keys);
  };
  assert.deepEqual(found("---\n# c\nname: a b # c\r\nsteps: 7\n"), { name: "a b", steps: "7" });
  assert.deepEqual(found("a:\n  b: 'it''s'\n  c:\n    d: \"x#y\"\n\ne: 1\n"),
    { "a.b": "it's", "a.c.d": "x#y", e: "1" });
  assert.deepEqual(found("a: {b: 1, c: {d: x}, e: [1, {f: 2}], 'g': \"h, i\"} # c\nj: k"),
    { "a.b": "1", "a.c.d": "x", "a.e": null, "a.g": "h, i", j: "k" });
  assert.deepEqual(found("a: {b: 1, # c }\n  d: 2}\ne: 3"), { "a.b": "1", "a.d": "2", e: "3" });
  assert.deepEqual(found("a:\n- x: 1\n  y: 2\n- z\nb: |\n  c: d\n\n  e\nf: [\n 1]\ng: 2"),
    { a: null, b: null, f: null, g: "2" });
  assert.deepEqual(found('a: "x\\n"\nb:\nc: http://d\ne: {}'), { a: null, c: "http://d" });
  assert.deepEqual(found(""), {});
  for (const text of ["a: &b 1", "a: *b", "<<: {a: 1}", "a: !x 1", "a: b\n  c", "a:\n\tb: 1",
    "a: 1\n---\nb: 1", "a: 'b", "a: {b: 1", "a: {b}", "? a", "- a", "a: b: c", " a: 1\nb: 2",
    "a.b: 1", "a:\n    b: 1\n  c: 2", "text"]) {
    assert.equal(found(text), null, text);
  }
});

plainTest("what a run takes: its unit, and at most that where it begins with a checkpoint", () => {
  const preview = (config) => ({ config: { steps: 7200, ...config }, scheduler: "local",
    plan: { ranks: 8, timeline: { step_seconds: 0.5 } } });
  const told = (config) =>
    cost.costsOf(preview(config)).map(({ name, value }) => `${name} ${value.replaceAll("\u202f", " ")}`);
  assert.deepEqual(told({ device: "cuda" }).slice(1), ["Training 1 h 00 min", "GPU-hours 8"]);
  assert.deepEqual(told({ device: "auto" }).slice(1), ["Training 1 h 00 min", "GPU-hours 8"]);
  assert.deepEqual(told({ device: "cpu" }).slice(1), ["Training 1 h 00 min", "rank-hours 8"]);
  const from = { run: "RUN@newest", optimizer: true };
  assert.deepEqual(told({ device: "auto", from }).slice(1),
    ["Training at most 1 h 00 min", "GPU-hours at most 8"]);
});

plainTest("time limits, keys and lines of refusals", () => {
  for (const [limit, seconds] of [
    ["90", 5400],
    ["1:30:00", 5400],
    ["2-0:00:00", 172_800],
    ["1:30", null],
    ["", null],
  ]) {
    assert.equal(cost.secondsOfLimit(limit), seconds, limit);
  }
  assert.equal(file.keyIn("run file:3: model.hidden: is 13"), "model.hidden");
  assert.equal(file.keyIn("run file: from.run: no run 'x'"), "from.run");
  assert.equal(file.keyIn("run file:1: not valid YAML"), null);
  assert.equal(file.lineIn("run file:3: x"), 3);
  assert.deepEqual(file.lineRange("ab\ncd\ne", 2), [3, 5]);
});
