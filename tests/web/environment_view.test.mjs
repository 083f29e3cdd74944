// Environments of attempts in a real browser, against the fixture's API: the Details tab of a run, and
// the comparison of runs.
import assert from "node:assert/strict";
import { Inspection, assertPlain, kLooks } from "./axe.mjs";
import { hostileEnvironment, makeEnvironment } from "./environments.mjs";
import { follow, kHostile, makeRun, series } from "./fixture.mjs";
import { Visitor, browser, pageTests } from "./setup.mjs";

const pageTest = pageTests();

// Of a run that has trained, or trains.
function entryOf(id, fields = {}, more = {}) {
  const metrics = series({ steps: 200, stepSeconds: 0.1, evaluateEvery: 50 });
  const run = makeRun(id, { state: "succeeded", state_text: "done", ...fields });
  return { run: follow(run, metrics), metrics, log: "", events: [], ...more };
}
const kRun = "demo-4f2a91";
const kPath = `/api/v1/runs/${kRun}/environment`;
const details = (fixture, more = "", options = {}) =>
  Visitor.arrive(browser, `${fixture.url}#/runs/${kRun}/details${more}`, options);
const flat = async (locator) => (await locator.innerText()).replace(/\s+/g, " ").trim();
const part = (page, name) => page.locator(`.env-part[data-part="${name}"]`);
const region = (page) => page.getByRole("region", { name: "Environment", exact: true });
const polls = (fixture) => fixture.count("GET", `/api/v1/runs/${kRun}`);

async function pollsGoOn(fixture, times = 2) {
  const before = polls(fixture);
  while (polls(fixture) < before + times) await new Promise((done) => setTimeout(done, 200));
}

pageTest(
  "the Details tab tells what an attempt was built of and ran on, and asks once",
  () => [entryOf(kRun, { state: "running" }, { environment: makeEnvironment() })],
  async (fixture) => {
    const visitor = await Visitor.arrive(browser, `${fixture.url}#/runs/${kRun}`);
    const { page } = visitor;
    await page.getByRole("link", { name: "Log" }).waitFor();
    assert.equal(fixture.count("GET", kPath), 0, "nobody has looked at it");
    await page.getByRole("link", { name: "Details", exact: true }).click();
    const { environment } = fixture.entries[0];
    await visitor.sees(environment.fingerprint.slice(0, 8));
    const names = await page.locator(".env-part").evaluateAll((all) =>
      all.map((one) => one.dataset.part),
    );
    assert.deepEqual(
      names.join(" "),
      "build machine devices fabric variables numerics randomness data model configuration " +
        "attempt training",
    );
    const machine = await flat(part(page, "machine"));
    assert.match(machine, /^Machine AMD EPYC 9654 96-Core Processor, 192 cores, 811 GB, limited to/);
    assert.ok(machine.endsWith(environment.machine.digest.slice(0, 8)), machine);
    assert.match(await flat(part(page, "training")), /3\.20 GHz at the end, not throttled$/);
    const printed = page.locator(".env-print code");
    assert.equal(await printed.getAttribute("title"), environment.fingerprint);
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await page.getByRole("button", { name: /^Copy fingerprint/ }).click();
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    assert.equal(copied, environment.fingerprint);

    // By keys alone: a part opens, is a table, and closes.
    assert.equal(await page.locator(".env-facts").count(), 0);
    const summary = part(page, "variables").locator("summary");
    await part(page, "fabric").locator("summary").focus();
    await page.keyboard.press("Tab");
    assert.ok(await summary.evaluate((one) => one === document.activeElement));
    await page.keyboard.press("Enter");
    const table = part(page, "variables").getByRole("table", { name: "Variables" });
    await table.waitFor();
    const rows = await table.locator("tbody tr").allInnerTexts();
    assert.deepEqual(
      rows.map((row) => row.replace(/\s+/g, " ").trim()),
      ["NCCL_AUTH not shown", "OMP_NUM_THREADS 12", "OMP_PROC_BIND close"],
    );
    await part(page, "variables").getByText(environment.variables.digest).waitFor();
    await page.keyboard.press("Enter");
    await table.waitFor({ state: "detached" });

    await pollsGoOn(fixture);
    assert.equal(fixture.count("GET", kPath), 1, "asked once");
    await visitor.sees(`regatta show ${kRun} --environment`);
    await visitor.leave();
  },
);

pageTest(
  "what training adds comes when the run has ended",
  () => [
    entryOf(kRun, { state: "starting", step: 0 }, { environment: null }),
  ],
  async (fixture) => {
    const [entry] = fixture.entries;
    const visitor = await details(fixture);
    const { page } = visitor;
    await visitor.sees("No environment: attempt 1 of run demo-4f2a91 has no environment.json");
    entry.environment = makeEnvironment({}, { training: null });
    entry.run.state = "running";
    await part(page, "training").waitFor();
    assert.match(await flat(part(page, "training")), /are told when the attempt has ended$/);
    await part(page, "machine").locator("summary").click();
    entry.environment = makeEnvironment();
    entry.run.state = "succeeded";
    await page.locator('details[data-part="training"]').waitFor();
    assert.equal(await page.locator(".env-facts").count(), 1, "what was open stays so");
    assert.equal(fixture.count("GET", kPath), 3);
    await visitor.leave(/status of 404/);
  },
);

pageTest(
  "each attempt has its own, by the address",
  () => [
    entryOf(
      kRun,
      { attempts: 3 },
      {
        environments: {
          1: makeEnvironment({ machine: { kernel: "Linux 5.4" } }, { training: null }),
          2: null,
          3: makeEnvironment({}, { attempt: { number: 3 } }),
        },
        attempts: {
          launches: [],
          attempts: [1, 2, 3].map((attempt) => ({
            attempt,
            started_at: `2026-11-21T12:0${attempt}:00Z`,
            hosts: [],
            ranks: 1,
            seconds: 5,
            first_step: 0,
          })),
        },
      },
    ),
  ],
  async (fixture) => {
    const [entry] = fixture.entries;
    entry.run.attempt.number = 3;
    const visitor = await details(fixture);
    const { page } = visitor;
    await page.locator('details[data-part="attempt"]', { hasText: "3 on node03" }).waitFor();
    const choice = page.getByLabel("Environment of");
    await choice.locator("option").nth(2).waitFor({ state: "attached" });
    const options = await choice.locator("option").allInnerTexts();
    assert.equal(options[0], "Newest attempt (3)");
    assert.match(options[1], /^Attempt 2, begun 21 Nov/);
    assert.match(options[2], /^Attempt 1, begun 21 Nov/);
    await choice.focus();
    await choice.selectOption("1");
    const first = entry.environments[1];
    await page.locator(".env-print code", { hasText: first.fingerprint.slice(0, 8) }).waitFor();
    assert.ok(page.url().endsWith("/details?attempt=1"), page.url());
    assert.match(await flat(part(page, "training")), /was killed, or lost its machine$/);
    await visitor.sees(`regatta show ${kRun} --environment --attempt 1`);
    assert.ok(await choice.evaluate((one) => one === document.activeElement));
    await page.reload();
    await page.locator(".env-print code", { hasText: first.fingerprint.slice(0, 8) }).waitFor();
    await page.getByLabel("Environment of").selectOption("2");
    await visitor.sees("No environment: attempt 2 of run");
    await page.goBack();
    await page.locator(".env-print").waitFor();
    await page.goto(`${fixture.url}#/runs/${kRun}/details?attempt=9`);
    await visitor.sees("has no attempt 9");
    await page.getByLabel("Environment of").selectOption("");
    await page.locator('details[data-part="attempt"]', { hasText: "3 on node03" }).waitFor();
    assert.equal(new URL(page.url()).hash, `#/runs/${kRun}/details`);
    await visitor.leave(/status of 404/);
  },
);

pageTest(
  "why there is no environment is told",
  () => [entryOf(kRun, { attempts: 0, attempt: null, state: "queued" })],
  async (fixture) => {
    const [entry] = fixture.entries;
    const visitor = await details(fixture);
    const { page } = visitor;
    await visitor.sees("No environment: no attempt has begun yet");
    assert.equal(fixture.count("GET", kPath), 0, "the run says so");
    entry.damagedEnvironment = `${kRun}/environment.json is damaged: section machine`;
    Object.assign(entry.run, { attempts: 1, attempt: { number: 1, execution: "a", state: "running" } });
    await page.getByRole("alert").getByText("is damaged: section machine").waitFor();
    await region(page).getByText("The environment cannot be shown").waitFor();
    await pollsGoOn(fixture);
    assert.equal(fixture.count("GET", kPath), 1, "it stays damaged");
    await visitor.leave(/status of 500/);
  },
);

pageTest(
  "while nothing answers that is told, and what was shown stays",
  () => [entryOf(kRun, { state: "running" }, { environment: makeEnvironment({}, { training: null }) })],
  async (fixture) => {
    const [entry] = fixture.entries;
    const visitor = await details(fixture, "");
    const { page } = visitor;
    await part(page, "build").waitFor();
    await page.route("**/environment", (route) => route.abort());
    entry.run.state = "succeeded";
    await visitor.sees("This may have changed since; asking again.");
    assert.equal(await part(page, "build").count(), 1);
    await page.reload();
    await visitor.sees("Not here yet; asking again.");
    let answer = null;
    await page.unroute("**/environment");
    await page.route("**/environment", (route) => {
      answer = () => route.continue();
    });
    await page.reload();
    await visitor.sees("Loading environment…");
    while (!answer) await page.waitForTimeout(50);
    await answer();
    await part(page, "build").waitFor();
    assert.equal(await region(page).getByText(/asking again|Loading/).count(), 0);
    await visitor.leave(/ERR_FAILED/);
  },
);

const kTurned = `${kHostile}\u202e\u001b[2Jdrow\u0007`;
pageTest(
  "hostile text of an environment stays text and widens nothing",
  () => [
    entryOf(kRun, {}, { environment: hostileEnvironment(kTurned) }),
    entryOf("other-000001", {}, { environment: makeEnvironment() }),
  ],
  async (fixture) => {
    const width = 390;
    const options = { viewport: { width, height: 844 } };
    const visitor = await details(fixture, "", options);
    const { page } = visitor;
    await part(page, "build").waitFor();
    for (const summary of await page.locator(".env-part > summary").all()) await summary.click();
    await part(page, "build").getByText("\\u202e\\u001b[2Jdrow\\u0007").first().waitFor();
    const wide = await page.locator(".env-part *").evaluateAll((all, most) =>
      all.filter((one) => one.getBoundingClientRect().right > most).map((one) => one.className), width);
    assert.deepEqual(wide, []);
    await assertPlain(page, width);
    const more = part(page, "build").getByRole("button", { name: "Show all" }).first();
    await more.click();
    await assertPlain(page, width);
    await visitor.keepPicture("environment-hostile");
    await page.goto(`${fixture.url}#/compare?runs=${kRun},other-000001&environments=1`);
    await page.locator("tbody[data-section]").first().waitFor();
    await assertPlain(page, width);
    await visitor.keepPicture("environment-hostile-compared");
    await visitor.leave();
  },
);

const compared = () => [
  entryOf(kRun, {}, { environment: makeEnvironment() }),
  entryOf("other-000001", {}, {
    environment: makeEnvironment({
      configuration: { seed: 8 },
      data: { fingerprint: "ff" },
      machine: { kernel: "Linux 5.4", limits: undefined },
      variables: { OMP_NUM_THREADS: "6" },
    }),
  }),
];
const sectionsOf = (page) =>
  page.locator("tbody[data-section]").evaluateAll((all) => all.map((one) => one.dataset.section));
const keysOf = (page, name) =>
  page
    .locator(`tbody[data-section="${name}"] tr[data-key]`)
    .evaluateAll((all) => all.map((one) => one.dataset.key));

pageTest("environments are compared when one asks", compared, async (fixture) => {
  const visitor = await Visitor.arrive(browser, `${fixture.url}#/compare?runs=${kRun},other-000001`);
  const { page } = visitor;
  const button = page.getByRole("button", { name: "Compare the environments" });
  await button.waitFor();
  assert.equal(fixture.count("GET", kPath), 0);
  await button.press("Enter");
  await page.waitForFunction(() => location.hash.includes("environments=1"));
  await page.locator("tbody[data-section]").first().waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Fingerprints");
  assert.deepEqual(await sectionsOf(page), ["data", "machine", "variables"]);
  await visitor.sees("Equal: model, numerics, randomness, build, devices and fabric.");
  await visitor.sees("Values that are not shown may differ, too: variables NCCL_AUTH.");
  assert.deepEqual(await keysOf(page, "machine"), ["limits processors", "kernel"]);
  assert.deepEqual(await keysOf(page, "variables"), ["NCCL_AUTH", "OMP_NUM_THREADS"]);
  const row = page.locator('tbody[data-section="machine"] tr[data-key="limits processors"]');
  assert.equal(await flat(row), "limits processors 48 ≠ differs: not set");
  const head = page.locator('tbody[data-section="machine"] .section-row');
  assert.match(await flat(head), /^machine 2 of 35 differ [0-9a-f]{8} ≠ differs: [0-9a-f]{8}$/);
  await page.keyboard.press("d");
  await page.locator('tbody[data-section="numerics"]').waitFor();
  assert.equal((await sectionsOf(page)).join(" "),
    "data model numerics randomness build devices machine fabric variables");
  assert.ok((await keysOf(page, "numerics")).includes("products forward"));
  await page.keyboard.press("d");
  await page.locator('tbody[data-section="numerics"]').waitFor({ state: "detached" });
  await page.reload();
  await page.locator("tbody[data-section]").first().waitFor();
  const asked = fixture.count("GET", kPath);
  await page.waitForTimeout(500);
  assert.equal(fixture.count("GET", kPath), asked, "asked once a visit");
  await visitor.leave();
});

pageTest(
  "equal attempts are told so, and runs without an environment why",
  () => [
    ...compared(),
    entryOf("twin-000002", {}, { environment: makeEnvironment() }),
    entryOf("longer-000007", {}, {
      environment: makeEnvironment({ configuration: { steps: 8000 } }),
    }),
    entryOf("none-000004", { state: "failed" }, { environment: null }),
    entryOf("broken-000005", { state: "failed" }, { damagedEnvironment: "it is damaged" }),
    entryOf("queued-000006", { attempts: 0, attempt: null, state: "queued" }),
  ],
  async (fixture) => {
    const visitor = await Visitor.arrive(browser, `${fixture.url}#/`);
    const { page } = visitor;
    const text = async (...ids) => {
      await page.goto(`${fixture.url}#/compare?runs=${ids.join(",")}&environments=1`);
      const place = page.locator(".fingerprints");
      await page.locator(".figure-table tbody tr").nth(ids.length - 1).waitFor();
      await place.locator(".loading").waitFor({ state: "detached" });
      await place.locator("p, ul").first().waitFor();
      return flat(place);
    };
    const same = "have the same fingerprint: what differs in their results is chance or the";
    const equal = await text(kRun, "twin-000002");
    assert.ok(equal.includes(`These attempts ${same} machine's state.`), equal);
    assert.ok(!equal.includes("Equal:"), equal);
    assert.equal(await page.locator("tbody[data-section]").count(), 0);
    const longer = await text(kRun, "longer-000007");
    assert.ok(longer.includes("differ in the configuration alone, which is compared above"), longer);
    const mixed = await text(kRun, "other-000001", "twin-000002", "none-000004");
    assert.ok(mixed.includes(`demo and twin ${same}`), mixed);
    assert.ok(mixed.includes("none is left out: attempt 1 of run none-000004 has no env"), mixed);
    const row = page.locator('tbody[data-section="data"] tr[data-key="fingerprint"]');
    assert.match(await flat(row), /not known$/);
    const alone = await text(kRun, "broken-000005", "queued-000006");
    assert.ok(alone.includes("broken is left out: it is damaged"), alone);
    assert.ok(alone.includes("queued is left out: no attempt has begun yet"), alone);
    assert.ok(alone.includes("Only one of these runs has an environment"), alone);
    assert.ok((await text("broken-000005", "none-000004")).includes("None of these runs"));
    await visitor.leave(/status of (404|500)/);
  },
);

pageTest("one environment that does not come keeps no other back", compared, async (fixture) => {
  fixture.entries[0].run.state = "running"; // so that it is soon asked again
  const visitor = await Visitor.arrive(browser, `${fixture.url}#/`);
  const { page } = visitor;
  await page.route("**/other-000001/environment", (route) => route.abort());
  await page.goto(`${fixture.url}#/compare?runs=${kRun},other-000001&environments=1`);
  await visitor.sees(/^other is left out: .*; asking again$/);
  await page.unroute("**/other-000001/environment");
  await page.locator('tbody[data-section="data"]').waitFor(); // within its next round
  await visitor.leave(/ERR_FAILED/);
});

for (const [theme, width] of kLooks) {
  pageTest(`axe finds nothing in environments, in ${theme} at ${width} px`, compared, async (fixture) => {
    const options = { colorScheme: theme, viewport: { width, height: 900 } };
    const inspection = new Inspection(width);
    const visitor = await details(fixture, "", options);
    const { page } = visitor;
    await part(page, "build").waitFor();
    await inspection.look(page, "closed");
    for (const summary of await page.locator(".env-part > summary").all()) await summary.click();
    await inspection.look(page, "opened");
    await page.goto(`${fixture.url}#/compare?runs=${kRun},other-000001`);
    await page.getByRole("button", { name: "Compare the environments" }).waitFor();
    await inspection.look(page, "to be compared");
    await page.getByRole("button", { name: "Compare the environments" }).click();
    await page.locator("tbody[data-section]").first().waitFor();
    await inspection.look(page, "compared");
    inspection.end();
    await visitor.leave();
  });
}
