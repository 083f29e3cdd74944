// Checkpoints of a run that the real trainer has made: what the list says, and each action.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before } from "node:test";
import { Seeded, missingController, seededTest } from "./seeded.mjs";
import { Visitor, launch } from "./setup.mjs";
import { editRunFile, train } from "./trained.mjs";

const skip = missingController();
const test = seededTest(skip);
const kRun = "trained-00abcd";
const kOther = "cleaned-00abce"; // from which something is removed
const kBroken = "broken-00abcf";
const kHostile = `<img src=x onerror="window.stolen=1"> \u001b[31mred\u001b[0m \u202egnp.exe\u202c`;
let seeded, browser;
before(async () => {
  if (skip) return;
  const prepare = (folder) => {
    train(folder, [
      [kRun, "keep_last: 4"],
      [kOther, "keep_last: 10"],
      [kBroken, "keep_last: 10"],
    ]);
    editRunFile(folder, kOther, (run) => (run.checkpoint.keep_last = 2));
  };
  seeded = await new Seeded({ runs: 3, prepare }).start();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await seeded?.stop();
});

const arrive = (run = kRun, options = {}) =>
  Visitor.arrive(browser, seeded.link(`/runs/${run}/checkpoints`), options);
const rowsOf = async (run = kRun) => (await seeded.ask(`runs/${run}/checkpoints`)).checkpoints;
const rowAt = async (step, run = kRun) => (await rowsOf(run)).find((row) => row.step === step);
const row = (page, step) => page.locator(`tr[data-checkpoint^="step-${String(step).padStart(10, "0")}"]`);
const button = (page, step, name) => row(page, step).getByRole("button", { name });
const squeezed = (text) => text.replace(/\s+/g, " ").trim();

test("the list says of each checkpoint what the API says", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  const stored = (await rowsOf()).filter((one) => one.status === "written" && one.condition === "valid");
  assert.deepEqual(stored.map(({ step }) => step), [4, 6, 8, 10]);
  for (const one of stored) {
    const text = squeezed(await row(page, one.step).innerText());
    const size = `${Math.round(one.bytes / 1000)} kB`;
    const accuracy = `${(one.value * 100).toFixed(one.value < 0.09995 ? 2 : 1)} %`;
    for (const word of ["valid", size, accuracy, one.kept_because.join(", ")]) {
      assert.ok(text.includes(word), `${word} in: ${text}`);
    }
    const left = 4 - Number(/latest (\d) of 4/.exec(text)[1]) + 1;
    assert.ok(text.includes(left === 1 ? "when one more is" : `when ${left} more are`), text);
    assert.match(text, /, stalled .* write .*, sync .*, copy /);
  }
  assert.match(await row(page, 10).innerText(), /newest/);
  await visitor.sees((await rowAt(10)).path);
  await visitor.sees("One older checkpoint was removed");
  await visitor.leave();
});

test("a checkpoint is verified, and known as such while the page is open", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await button(page, 8, /Verify/).click();
  await row(page, 8).getByText(/verified .*every byte is as it was written/).waitFor();
  const { files } = await seeded.ask(`runs/${kRun}/checkpoints/8`);
  const bytes = Object.values(files).reduce((sum, file) => sum + file.bytes, 0);
  const text = squeezed(await row(page, 8).innerText());
  assert.ok(text.includes(`${Math.round(bytes / 1000)} kB in `), text);
  await page.getByRole("link", { name: "Curves" }).click();
  await page.getByRole("link", { name: "Checkpoints" }).click();
  await row(page, 8).getByText(/verified /).waitFor();
  await visitor.leave();
});

test("checkpoints are verified one behind the other", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  let letGo;
  const gate = new Promise((done) => (letGo = done));
  const asked = [];
  await page.route("**/verify", async (route) => {
    asked.push(route.request().url());
    if (asked.length === 1) await gate;
    await route.continue();
  });
  await button(page, 4, /Verify/).click();
  await row(page, 4).getByText(/^Reading/).waitFor();
  await button(page, 10, /Verify/).click();
  await row(page, 10).getByText("Waits for the one that is read…").waitFor();
  await page.getByRole("link", { name: "Curves" }).click();
  await page.getByRole("link", { name: "Checkpoints" }).click();
  await row(page, 10).getByText("Waits for the one that is read…").waitFor();
  assert.equal(asked.length, 1);
  letGo();
  await row(page, 4).getByText(/verified .*every byte is as it was written/).waitFor();
  await row(page, 10).getByText(/verified .*every byte is as it was written/).waitFor();
  assert.equal(asked.length, 2);
  await visitor.leave();
});

test("of what is too large for a request the command is said, and works", async () => {
  const visitor = await arrive(kOther);
  const { page } = visitor;
  await page.route(`**/api/v1/runs/${kOther}/checkpoints`, async (route) => {
    const answer = await seeded.ask(`runs/${kOther}/checkpoints`);
    for (const one of answer.checkpoints) one.bytes = 1_300_000_000;
    await route.fulfill({ json: answer });
  });
  await row(page, 10).getByText("1.30\u202fGB").waitFor();
  await button(page, 10, /Verify/).press("Enter");
  const dialog = page.getByRole("dialog");
  const command = dialog.locator(".command code");
  const { path, name } = await rowAt(10, kOther);
  const directory = path.slice(0, path.indexOf("/checkpoints/"));
  assert.equal(await command.innerText(), `regatta ckpt verify --directory ${directory} ${name}`);
  const words = (await command.innerText()).split(" ").slice(1);
  const said = execFileSync(process.env.REGATTA_BINARY, words, { encoding: "utf8" });
  assert.match(said, /every byte is as it was written/);
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Clean up…" }).click();
  await dialog.getByText("3 checkpoints would go").waitFor();
  assert.equal(await command.innerText(), `regatta ckpt gc --directory ${directory}`);
  assert.equal(await dialog.getByRole("button", { name: /^Remove/ }).count(), 0);
  const gc = [...(await command.innerText()).split(" ").slice(1), "--dry-run"];
  assert.match(execFileSync(process.env.REGATTA_BINARY, gc, { encoding: "utf8" }), /step-0+6\b|\b6\b/);
  await visitor.leave();
});

test("a byte that was changed makes a checkpoint damaged, and no run forks from it", async () => {
  const { path } = await rowAt(6, kBroken);
  const file = join(path, "model.safetensors");
  const bytes = readFileSync(file);
  bytes[bytes.length - 1] ^= 1;
  writeFileSync(file, bytes);
  const visitor = await arrive(kBroken);
  const { page } = visitor;
  await button(page, 6, /Fork/).waitFor();
  await button(page, 6, /Verify/).click();
  await row(page, 6).getByText(/found damaged/).waitFor();
  await row(page, 6).locator(".condition-damaged").waitFor();
  assert.equal((await rowAt(6, kBroken)).condition, "damaged");
  assert.equal(await button(page, 6, /Fork/).count(), 0);
  assert.equal(await button(page, 4, /Fork/).count(), 1);
  await visitor.leave();
});

test("by keys alone: a checkpoint is pinned, and a run forked from it", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await button(page, 6, /Pin/).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("dialog", { name: /Pin the checkpoint of step 6/ }).waitFor();
  await page.keyboard.type("the paper's");
  await page.keyboard.press("Enter");
  await row(page, 6).getByText("Pinned", { exact: true }).waitFor();
  assert.equal((await rowAt(6)).pinned.reason, "the paper's");
  assert.match(squeezed(await row(page, 6).innerText()), /: the paper's goes not while pinned/);
  await page.waitForFunction(() => document.querySelector("dialog") == null);
  await button(page, 6, /Fork/).focus();
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog", { name: /Fork from step 6/ });
  await dialog.waitFor();
  await page.keyboard.type("forked");
  await page.keyboard.press("Tab");
  await page.keyboard.type("eight");
  await page.keyboard.press("Enter");
  await dialog.getByText("steps is 'eight'; it takes a whole number").waitFor();
  await page.keyboard.press("Control+A");
  await page.keyboard.type("8");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await page.keyboard.type("11");
  await page.keyboard.press("Tab");
  await page.keyboard.type('{"optimizer": {"learning_rate": 0.002}}');
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => location.hash.startsWith("#/runs/forked-"));
  const id = new URL(page.url()).hash.slice("#/runs/".length);
  const fork = await seeded.ask(`runs/${id}`);
  assert.equal(fork.forked_from, kRun);
  assert.equal(fork.forked_checkpoint, (await rowAt(6)).name);
  assert.equal(fork.config.steps, 8);
  assert.equal(fork.config.seed, 11);
  assert.equal(fork.config.optimizer.learning_rate, 0.002);
  await visitor.leave();
});

test("a pin is taken away after a question; a long reason is refused here", async () => {
  await seeded.ask(`runs/${kRun}/checkpoints/4/pin`, { method: "POST", body: { reason: kHostile } });
  const visitor = await arrive();
  const { page } = visitor;
  await row(page, 4).getByText("gnp.exe").waitFor();
  assert.equal(await page.locator("#app img").count(), 0);
  assert.equal(await page.evaluate(() => window.stolen), undefined);
  assert.doesNotMatch(await row(page, 4).innerText(), /\u001b|\[31m/);
  await button(page, 4, /Unpin/).click();
  await page.getByRole("button", { name: "Keep it pinned" }).click();
  assert.notEqual((await rowAt(4)).pinned, null);
  await button(page, 4, /Unpin/).click();
  await page.getByRole("button", { name: "Unpin", exact: true }).click();
  await button(page, 4, /^Pin/).waitFor();
  assert.equal((await rowAt(4)).pinned, null);
  await button(page, 4, /^Pin/).click();
  await page.getByRole("textbox").fill("ü".repeat(251));
  await visitor.sees("2 bytes too long");
  assert.ok(await page.getByRole("button", { name: "Pin", exact: true }).isDisabled());
  await page.keyboard.press("Escape");
  await visitor.leave();
});

test("after a lost answer nothing is said to have failed for sure", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await page.route("**/pin", (route) => route.abort());
  await button(page, 8, /^Pin/).click();
  await page.getByRole("button", { name: "Pin", exact: true }).press("Enter");
  await visitor.sees("Perhaps not pinned: Failed to fetch");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Pin");
  await visitor.leave(/ERR_FAILED/);
});

test("a closed dialog's fork does not change the place", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  let letGo;
  const gate = new Promise((done) => (letGo = done));
  await page.route("**/fork", async (route) => {
    await gate;
    await route.fulfill({ status: 201, json: { id: "nobody-000000" } });
  });
  await button(page, 8, /Fork/).click();
  await page.getByRole("button", { name: "Fork", exact: true }).click();
  await visitor.sees("It goes on when this is closed");
  await page.getByRole("dialog").getByRole("button", { name: "Close" }).click();
  await page.getByRole("link", { name: "Log", exact: true }).click();
  const answered = page.waitForResponse("**/fork");
  letGo();
  await (await answered).finished();
  await page.waitForTimeout(300);
  assert.ok(page.url().includes(`${kRun}/log`), page.url());
  await visitor.leave();
});

test("an answer that is overtaken is dropped, and a failure ends with the next answer", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await row(page, 8).waitFor();
  let letGo;
  const gate = new Promise((done) => (letGo = done));
  let held = 0;
  await page.route(`**/api/v1/runs/${kRun}/checkpoints`, async (route) => {
    const old = await seeded.ask(`runs/${kRun}/checkpoints`);
    if (held++ > 0) return route.fulfill({ json: old });
    await gate;
    return route.fulfill({ json: old });
  });
  const poll = () =>
    page.evaluate(() => void document.dispatchEvent(new Event("visibilitychange")));
  const list = (sent) => sent.url().endsWith(`${kRun}/checkpoints`);
  const asked = page.waitForRequest(list);
  await poll();
  await asked;
  await button(page, 8, /^Pin/).click();
  await page.getByRole("button", { name: "Pin", exact: true }).click();
  await row(page, 8).getByText("Pinned", { exact: true }).waitFor();
  const late = page.waitForResponse(list);
  letGo();
  await (await late).finished();
  await page.waitForTimeout(300);
  assert.equal(await row(page, 8).getByText("Pinned", { exact: true }).count(), 1);
  await seeded.ask(`runs/${kRun}/checkpoints/8/unpin`, { method: "POST" });
  await page.unroute(`**/api/v1/runs/${kRun}/checkpoints`);
  await page.route(`**/api/v1/runs/${kRun}/checkpoints`, (route) => route.abort());
  await button(page, 8, /Files/).click();
  await page.getByRole("dialog").getByText("XXH3-128").waitFor();
  await page.keyboard.press("Escape");
  await visitor.sees("The checkpoints on disk cannot be listed");
  await page.unroute(`**/api/v1/runs/${kRun}/checkpoints`);
  await poll();
  await visitor.seesNoMore("The checkpoints on disk cannot be listed");
  await visitor.leave(/ERR_FAILED/);
});

test("files are downloaded as they are, and the command is said", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  const details = await seeded.ask(`runs/${kRun}/checkpoints/8`);
  await button(page, 8, /Files/).click();
  await visitor.sees(details.files["model.safetensors"].digest);
  await visitor.sees(`${details.files["model.safetensors"].tensors.length} tensors`);
  await visitor.sees(`regatta ckpt download ${kRun} ${details.name}`);
  const [one] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Download model.safetensors", exact: true }).click(),
  ]);
  assert.equal(one.suggestedFilename(), "model.safetensors");
  const bytes = readFileSync(await one.path());
  assert.ok(bytes.equals(readFileSync(join(details.path, "model.safetensors"))));
  const [archive] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: /Download all files/ }).click(),
  ]);
  assert.equal(archive.suggestedFilename(), `${details.name}.tar`);
  const tar = readFileSync(await archive.path());
  assert.equal(tar.subarray(257, 262).toString(), "ustar");
  assert.ok(tar.includes(bytes), "the archive has the file");
  await visitor.leave();
});

test("an export is made, followed, downloaded and removed", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await button(page, 10, /Export/).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("combobox", { name: "Model" }).selectOption("encoder");
  await dialog.getByRole("button", { name: "Export", exact: true }).click();
  await dialog.getByText("The export is there.").waitFor();
  const made = await seeded.ask(`runs/${kRun}/checkpoints/10/export`);
  assert.equal(made.state, "done");
  const names = await dialog.locator("table.files tbody tr td:first-child").allInnerTexts();
  assert.deepEqual(names.sort(), made.files.map(({ name }) => name).sort());
  const [config] = await Promise.all([
    page.waitForEvent("download"),
    dialog.getByRole("button", { name: "Download config.json" }).click(),
  ]);
  const text = readFileSync(await config.path(), "utf8");
  assert.equal(text, readFileSync(join(made.path, "config.json"), "utf8"));
  assert.equal(JSON.parse(text).hidden_size, 32);
  await dialog.getByText(`download ${kRun} ${made.name} --export`).waitFor();
  const inDialog = () => page.evaluate(() => document.activeElement.closest("dialog") != null);
  await dialog.getByRole("button", { name: "Remove the export" }).press("Enter");
  await dialog.getByText(/^Remove the export\? Its .* are gone then/).waitFor();
  assert.ok(await inDialog());
  await dialog.getByRole("button", { name: "Keep it" }).press("Enter");
  await dialog.getByText("The export is there.").waitFor();
  assert.equal((await seeded.ask(`runs/${kRun}/checkpoints/10/export`)).state, "done");
  await dialog.getByRole("button", { name: "Remove the export" }).press("Enter");
  await dialog.getByRole("button", { name: /^Remove \d/ }).press("Enter");
  await dialog.getByRole("button", { name: "Export", exact: true }).waitFor();
  assert.ok(await inDialog());
  assert.equal((await seeded.ask(`runs/${kRun}/checkpoints/10/export`)).status, 404);
  await visitor.leave(/status of 404/);
});

test("two checkpoints are compared by their manifests", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await page.getByRole("button", { name: "Compare…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("2 of 2 files differ, by their manifests.").waitFor();
  const [a, b] = [await rowAt(8), await rowAt(10)];
  await dialog.getByText(`regatta ckpt diff ${kRun} ${a.name} ${b.name}`).waitFor();
  const details = await seeded.ask(`runs/${kRun}/checkpoints/8`);
  const count = Object.values(details.files).reduce((sum, file) => sum + file.tensors.length, 0);
  await dialog.getByText(`${count} tensors are in both; types and shapes are the same.`).waitFor();
  await dialog.getByRole("row", { name: /step 8 10/ }).waitFor();
  let letGo;
  const gate = new Promise((done) => (letGo = done));
  await page.route(`**/checkpoints/${b.name}`, async (route) => {
    await gate;
    await route.continue();
  });
  await dialog.getByRole("combobox", { name: "A" }).selectOption(b.name);
  await dialog.getByText("Reading the manifests…").waitFor(); // and nothing of the earlier pair
  assert.equal(await dialog.getByText("2 of 2 files differ").count(), 0);
  letGo();
  await dialog.getByText("Equal: every file has the same digest, by their manifests.").waitFor();
  await visitor.leave();
});

test("a clean-up says what would go, then removes just that", async () => {
  const visitor = await arrive(kOther);
  const { page } = visitor;
  const before = await rowsOf(kOther);
  const going = before.filter((one) => one.goes);
  assert.deepEqual(going.map(({ step }) => step), [2, 4, 6]);
  await row(page, 6).getByText("goes at the next clean-up").waitFor();
  await page.getByRole("button", { name: "Clean up…" }).click();
  const dialog = page.getByRole("dialog");
  const bytes = going.reduce((sum, one) => sum + one.bytes, 0);
  const size = `${Math.round(bytes / 1000)}\u202fkB`;
  await dialog.getByText(`3 checkpoints would go, which frees ${size}. The run keeps: keep_last 2.`).waitFor();
  assert.equal((await rowsOf(kOther)).filter((one) => one.condition === "valid").length, 5);
  await dialog.getByRole("button", { name: "Keep them" }).click();
  assert.equal((await rowsOf(kOther)).filter((one) => one.condition === "valid").length, 5);
  await page.getByRole("button", { name: "Clean up…" }).click();
  await dialog.getByRole("button", { name: "Remove 3 checkpoints" }).press("Enter");
  await dialog.getByText(`Removed 3 checkpoints; ${size} freed.`).waitFor();
  assert.ok(await page.evaluate(() => document.activeElement.closest("dialog") != null));
  const left = (await rowsOf(kOther)).filter((one) => one.condition === "valid");
  assert.deepEqual(left.map(({ step }) => step), [8, 10]);
  await dialog.getByRole("button", { name: "Close" }).click();
  await row(page, 6).waitFor({ state: "detached" });
  await visitor.sees("3 older checkpoints were removed");
  await visitor.leave();
});

test("a run that was cancelled is resumed beside its checkpoints", async () => {
  const body = { checkpoint: "10", name: "long", changes: { steps: 5_000_000, checkpoint: { every: 1_000_000 } } };
  const { id } = await seeded.ask(`runs/${kRun}/fork`, { method: "POST", body });
  const until = async (wanted) => {
    for (let tries = 0; tries < 300; ++tries) {
      const run = await seeded.ask(`runs/${id}`);
      if (wanted(run)) return run;
      await new Promise((done) => setTimeout(done, 100));
    }
    return assert.fail(`the run is ${(await seeded.ask(`runs/${id}`)).state_text}`);
  };
  await until((run) => run.step > 10);
  await seeded.ask(`runs/${id}/cancel`, { method: "POST", body: {} });
  await until((run) => run.state === "cancelled");
  const visitor = await arrive(id);
  const { page } = visitor;
  await page.locator(".checkpoint-tools").getByRole("button", { name: "Resume run" }).click();
  await until((run) => run.attempts === 2 && run.state === "running");
  await page.getByRole("button", { name: "Cancel run" }).waitFor();
  await seeded.ask(`runs/${id}/cancel`, { method: "POST", body: {} });
  await until((run) => run.state === "cancelled");
  await visitor.leave();
});

test("checkpoints whose directory nothing is known of have no actions", async () => {
  const { runs } = await seeded.ask("runs?limit=100");
  const made = runs.find(({ id }) => id.startsWith("wiki-base"));
  const visitor = await arrive(made.id);
  const { page } = visitor;
  await page.locator("table.checkpoints tbody tr").first().waitFor();
  assert.equal(await page.locator("table.checkpoints button").count(), 0);
  await visitor.leave();
});

for (const colorScheme of ["light", "dark"]) {
  test(`nothing is wider than a phone, ${colorScheme}`, async () => {
    const visitor = await arrive(kRun, { viewport: { width: 390, height: 844 }, colorScheme });
    const { page } = visitor;
    const fits = async (what) => {
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(width <= 390, `${what}: ${width} px`);
    };
    await row(page, 8).waitFor();
    await fits("list");
    for (const [name, text] of [
      [/Files/, "XXH3-128"],
      [/Fork/, "Train to step"],
    ]) {
      await button(page, 8, name).click();
      await visitor.sees(text);
      await fits(text);
      const inner = await page.evaluate(() => {
        const dialog = document.querySelector("dialog");
        return dialog.scrollWidth - dialog.clientWidth;
      });
      assert.ok(inner <= 0, `${text}: ${inner} px too wide`);
      await visitor.keepPicture(`checkpoint-${text.replace(/\W+/g, "-")}-narrow-${colorScheme}`);
      await page.keyboard.press("Escape");
    }
    await visitor.leave();
  });
}
