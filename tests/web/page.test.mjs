// The built page in a real browser, against the fixture's API.
import assert from "node:assert/strict";
import { Fixture, judgedRun, kHostile, makeRun, ranksRun, standardRuns } from "./fixture.mjs";
import { Visitor, browser, kPatience, pageTests } from "./setup.mjs";

const pageTest = pageTests();

async function until(condition, what) {
  const end = Date.now() + kPatience;
  while (!(await condition())) {
    assert.ok(Date.now() < end, `never: ${what}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

const rowOf = (page, id) => page.locator(`table.runs tr[data-run="${id}"]`);
const atRow = (visitor, id) => rowOf(visitor.page, id).waitFor();

pageTest(
  "the list shows every run with state, progress, metric, time and reason",
  standardRuns,
  async (fixture) => {
    const visitor = await Visitor.arrive(browser, fixture.url);
    await atRow(visitor, "demo-4f2a91");
    const rows = await visitor.page.locator("table.runs tbody tr").allInnerTexts();
    assert.equal(rows.length, fixture.entries.length);
    const flat = rows.map((row) => row.replace(/\s+/g, " "));
    for (const [index, words] of [
      [0, ["running", "demo", "22 %", "7.47 % of 9.80 %", "≈ 1 min 00 s left to target"]],
      [1, ["succeeded", "45 %", "10.1 % ≥ 9.80 %", "2 min 33 s to target"]],
      [2, ["queued", "0 %", "since submission", kHostile]],
      [3, ["failed", "1 %", "vocabulary fingerprint differs; prepare it again"]],
      [4, ["cancelled", "3.95 % no target"]],
      [5, ["starting", "–", "waiting for the first step"]],
    ]) {
      for (const word of words) assert.ok(flat[index].includes(word), `${word} in: ${flat[index]}`);
    }
    const steps = await visitor.page
      .locator("table.runs progress")
      .evaluateAll((all) => all.map((one) => one.getAttribute("aria-label")));
    assert.deepEqual(steps.slice(0, 4), [
      "step 900 of 4000",
      "step 1800 of 4000",
      "step 0 of 4000",
      "step 40 of 4000",
    ]);
    await visitor.page.locator("summary", { hasText: "Columns" }).click();
    await visitor.page.getByRole("checkbox", { name: "Samples/s" }).check();
    const speed = fixture.entry("demo-4f2a91").run.samples_per_second;
    await rowOf(visitor.page, "demo-4f2a91").getByText(String(Math.round(speed))).waitFor();
    await visitor.keepPicture("list");
    await visitor.leave();
  },
);

pageTest("list, run, back, reload: the hash keeps the place", standardRuns, async (fixture) => {
  const visitor = await Visitor.arrive(browser, fixture.url);
  const { page } = visitor;
  await page.getByRole("link", { name: "demo", exact: true }).click();
  await visitor.sees("Predicted time to target");
  assert.equal(new URL(page.url()).hash, "#/runs/demo-4f2a91");
  await page.getByRole("link", { name: "Log" }).click();
  await visitor.sees("step 400 loss");
  await page.reload();
  await visitor.sees("step 400 loss");
  await page.goBack();
  await visitor.waitForPixels(0, "accent", 500);
  await page.getByRole("link", { name: "Checkpoints" }).click();
  await visitor.sees("/srv/regatta/runs/demo-4f2a91/checkpoints/step-000000900");
  await page.getByRole("link", { name: "← All runs" }).click();
  await atRow(visitor, "perl-doc-77ab01");
  await visitor.leave();
});

pageTest(
  "a running run shows curve, target, baseline, forecast and figures",
  standardRuns,
  async (fixture) => {
    const visitor = await Visitor.arrive(browser, `${fixture.url}#/runs/demo-4f2a91`);
    const { page } = visitor;
    await visitor.sees("training, step 900 of 4000");
    const curve = await visitor.waitForPixels(0, "accent", 500);
    assert.ok(curve.right - curve.left > curve.width / 2, "the curve and its forecast are wide");
    const target = await visitor.waitForPixels(0, "good", 300);
    assert.ok(target.right - target.left > target.width * 0.8, "the target line crosses the chart");
    await visitor.waitForPixels(0, "muted", 100);
    await visitor.waitForPixels(1, "accent", 100);
    await visitor.waitForPixels(2, "accent", 100);
    await visitor.sees("Checkpoints (8)");
    const summary = await page
      .getByRole("img", { name: /over time, 18 eval/ })
      .getAttribute("aria-label");
    assert.match(summary, /18 evaluations, now 7\.47.%, target 9\.80.%, best constant guess 4\.90/);
    await visitor.keepPicture("running");
    const curves = await page.locator("main").innerText();
    await page.getByRole("link", { name: "Checkpoints" }).click();
    await visitor.sees("13.4 MB");
    const text = (curves + (await page.locator("main").innerText())).replace(/\s+/g, " ");
    for (const word of [
      "≈ 1 min 00 s",
      "Between 45 s and 1 min 22 s",
      "900 / 4,000",
      "7.47 %",
      "9.80 %",
      "4.90 %",
      "best constant guess",
      "tokens/s",
      "1 min 21 s",
      "clock of the attempt is 2.4 s behind",
      "Checkpoints (8)",
      "One older checkpoint was removed",
      "13.4 MB",
      "41 ms 419 MB/s",
      "no room: 4 kB are free, 13 MB needed",
    ]) {
      assert.ok(text.includes(word), `${word} in: ${text}`);
    }
    const row = page.locator(".checkpoints tr", { hasText: "newest" });
    await row.getByText(/stalled 4.ms/).waitFor();
    await row.getByText(/write 20.ms, sync 12.ms, copy 4/).waitFor();
    assert.equal(await page.locator(".checkpoints tr.failed").count(), 1);
    await visitor.leave();
  },
);

pageTest(
  "runs that are judged by other metrics are drawn as theirs",
  () => [judgedRun("f1", 0.5, 0.9), judgedRun("matthews", -0.2, 0.6), judgedRun("loss", 3, 1)],
  async (fixture) => {
    const visitor = await Visitor.arrive(browser, fixture.url);
    const { page } = visitor;
    await atRow(visitor, "f1-3b8d11");
    await page.locator("table.runs th", { hasText: "Metric" }).waitFor();
    for (const [id, words] of [
      ["f1-3b8d11", /^F1 over time, 8 evaluations, now 62\.\d.%, target 90\.0.%, best .* 50\.0.%$/],
      ["matthews-3b8d11", /^Matthews correlation over time, .*, target 0\.60, best .* guess -0\.20$/],
      ["loss-3b8d11", /^Evaluation loss over time, .* now 2\.\d\d, target 1\.00$/],
    ]) {
      await page.goto(`${fixture.url}#/runs/${id}`);
      const chart = page.getByRole("img", { name: words });
      await chart.waitFor();
      await visitor.waitForPixels(0, "accent", 100);
    }
    await visitor.leave();
  },
);

pageTest(
  "a run on several ranks shows how they do and the newest step's buckets",
  () => [ranksRun()],
  async (fixture) => {
    const visitor = await Visitor.arrive(browser, `${fixture.url}#/runs/ranks-5c1e07`);
    const { page } = visitor;
    const panel = page.getByRole("region", { name: "Ranks and communication" });
    await panel.waitFor();
    const text = (await panel.innerText()).replace(/\s+/g, " ");
    for (const words of [
      "Ranks 8 4 per node, NVIDIA H100 80GB HBM3",
      "MFU 31.2 % of 7.91 PFLOP/s",
      "Utilisation 94.3 %",
      "Exposed communication 11.4 % of the step",
      "Goodput 253 of 283 samples/s",
      "Statistical efficiency 87.1 %",
      "Noise scale 1,240 samples, 1,010 to 1,590",
      "Imbalance 1.0123 largest / mean tokens",
      "Samples moved 48.2 kB per step",
      "Furthest behind Rank 5 backward for 31 ms, 0.6 s ago",
      "Reductions of step 600",
      "12 buckets of 59.6 MB, 12.5 ms of 110 ms exposed",
    ]) {
      assert.ok(text.includes(words), `${words} in: ${text}`);
    }
    assert.match(
      await panel.locator("div", { hasText: "MFU" }).first().getAttribute("title"),
      /FLOP/,
    );
    for (const figure of await panel.locator("dl.figures > div").all()) {
      assert.ok((await figure.getAttribute("title"))?.length > 15, await figure.innerText());
    }
    const drawing = panel.getByRole("img");
    const summary = await drawing.getAttribute("aria-label");
    assert.match(summary, /12 buckets; backward ends at 86.0.ms, the last reduction at 98.5.ms/);
    // All but the last bucket begin before backward's end, the last three go on after it.
    assert.equal(await drawing.locator("rect.hidden").count(), 11);
    assert.equal(await drawing.locator("rect.exposed").count(), 3);
    const box = (kind) => drawing.locator(`rect.${kind}`).last().boundingBox();
    const [backward, exposed, wait] = [
      await box("backward"),
      await box("exposed"),
      await box("wait"),
    ];
    const near = (one, other) => assert.ok(Math.abs(one - other) < 1.5, `${one} ~ ${other}`);
    near(exposed.x, backward.x + backward.width);
    near(wait.x, exposed.x);
    near(wait.width, exposed.width);
    near(backward.width / exposed.width, 0.055 / 0.0125);
    await visitor.waitForPixels(2, "good", 200); // goodput beside throughput
    await visitor.sees("goodput 253");

    const { metrics, run } = fixture.entries[0];
    metrics.timeline = {
      ...metrics.timeline,
      step: 601,
      buckets: [[0, null, 0.02, 0.03]],
      bucket_count: 1,
    };
    metrics.steps.push([601, 67, 6, 5, 280, 33_000, 250, 1241, 0.3]);
    run.slowest = null;
    await visitor.sees("Reductions of step 601");
    await panel.getByText("Furthest behind").waitFor({ state: "hidden" });
    assert.equal(await drawing.locator("rect.hidden").count(), 1);
    assert.equal(await drawing.locator("rect.wait").count(), 0);
    await visitor.leave();
  },
);

pageTest("a Slurm that does not answer is told", standardRuns, async (fixture) => {
  const entry = fixture.entry("demo-4f2a91");
  entry.run.slurm = {
    answered_at: "2026-11-21T12:04:31.000Z",
    age_seconds: 190,
    trouble: `squeue did not answer in time ${kHostile}`,
    cancel_waits_since: "2026-11-21T12:05:10.000Z",
  };
  const visitor = await Visitor.arrive(browser, `${fixture.url}#/runs/demo-4f2a91`);
  await visitor.sees("Slurm has not answered since 21 Nov");
  await visitor.sees("The cancellation waits since 21 Nov");
  await visitor.sees("squeue did not answer in time");
  entry.run.slurm = { ...entry.run.slurm, trouble: null, cancel_waits_since: null };
  await visitor.page.getByText("Slurm has not answered").waitFor({ state: "hidden" });
  await visitor.leave();
});

pageTest("a run that says nothing of ranks shows no panel", standardRuns, async (fixture) => {
  const entry = fixture.entry("demo-4f2a91");
  const visitor = await Visitor.arrive(browser, `${fixture.url}#/runs/demo-4f2a91`);
  const { page } = visitor;
  await visitor.waitForPixels(2, "accent", 100);
  assert.equal(await page.locator("section.ranks").count(), 0);
  assert.equal((await visitor.pixels(2, "good")).count, 0);
  // Nor does a controller that does not know the fields.
  for (const key of ["ranks", "mfu", "slowest", "device"]) delete entry.run[key];
  delete entry.metrics.timeline;
  entry.run.state_text = "asked again";
  await visitor.sees("asked again");
  assert.equal(await page.locator("section.ranks").count(), 0);
  // One rank has a device and its use, and nothing of communication.
  Object.assign(entry.run, { ranks: 1, device: "cpu", mfu: 0.5, utilisation: 0.97 });
  const panel = page.getByRole("region", { name: "Device" });
  await panel.waitFor();
  assert.match(await panel.innerText(), /cpu[^]*MFU[^]*50\.0[^]*97\.0/);
  assert.equal(await panel.getByText("Goodput").count(), 0);
  await visitor.leave();
});

pageTest(
  "strange ranks and timelines break nothing, also on a phone",
  () => {
    const entry = ranksRun(512);
    Object.assign(entry.run, { name: "strange", device: kHostile.repeat(3), imbalance: 1e9 });
    entry.run.slowest = {
      rank: 4095,
      step: 1,
      phase: kHostile,
      phase_seconds: null,
      age_seconds: null,
    };
    return [entry];
  },
  async (fixture) => {
    for (const width of [320, 390]) {
      const options = { viewport: { width, height: 800 } };
      const visitor = await Visitor.arrive(browser, `${fixture.url}#/runs/ranks-5c1e07`, options);
      const { page } = visitor;
      await visitor.sees("Rank 4095");
      await visitor.sees("512 buckets");
      const overflow = await page.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
      );
      assert.equal(overflow, 0);
      assert.ok((await page.getByRole("img").last().boundingBox()).height < 400);
      assert.equal(await page.locator("#app img").count(), 0);
      assert.equal(await page.evaluate(() => window.stolen), undefined);
      await visitor.keepPicture(`ranks-${width}`);
      await visitor.leave();
    }
    const { metrics, run } = fixture.entries[0];
    const visitor = await Visitor.arrive(browser, `${fixture.url}#/runs/ranks-5c1e07`);
    const nothing = { ...metrics.timeline, step_seconds: null, data_seconds: null, buckets: [] };
    for (const [step, timeline] of [
      [
        700,
        {
          ...metrics.timeline,
          buckets: [
            [0, 1, null, 0.1],
            [1, null, 0.2, null],
          ],
        },
      ],
      [701, { ...nothing, forward_seconds: null, backward_seconds: null, optimizer_seconds: 0 }],
      [
        702,
        {
          ...nothing,
          buckets: [
            [0, 5, -1, -0.5],
            [1, 5, 0, 0],
          ],
        },
      ],
      [
        703,
        {
          ...nothing,
          buckets: [
            [0, 5, 3e5, 2e5],
            [1, 5, 1e300, 1e301],
          ],
        },
      ],
      [704, null],
    ]) {
      metrics.timeline = timeline && { ...timeline, step };
      metrics.steps.push([step, 100 + step, 6, 5, 280, 33_000, null, null, null]);
      run.state_text = `strange step ${step}`;
      await visitor.sees(`strange step ${step}`);
    }
    await visitor.sees("Rank 4095");
    assert.equal(await visitor.page.locator(".ranks .timeline").count(), 0);
    await visitor.leave();
  },
);

pageTest(
  "without the forecast the curve ends at its newest point",
  standardRuns,
  async (fixture) => {
    fixture.entry("demo-4f2a91").metrics.prediction = null;
    fixture.entry("demo-4f2a91").run.predicted_seconds_to_target = null;
    fixture.entry("demo-4f2a91").run.target = null;
    const visitor = await Visitor.arrive(browser, `${fixture.url}#/runs/demo-4f2a91`);
    await visitor.sees("No target set.");
    await visitor.waitForPixels(0, "accent", 300);
    assert.equal((await visitor.pixels(0, "good")).count, 0);
    await visitor.leave();
  },
);

pageTest("a reached target shows the time to accuracy", standardRuns, async (fixture) => {
  const visitor = await Visitor.arrive(browser, `${fixture.url}#/runs/perl-doc-77ab01`);
  await visitor.sees("Time to accuracy");
  const headline = (await visitor.page.locator(".headline").innerText()).replace(/\s+/g, " ");
  assert.match(headline, /2 min 33 s/);
  await visitor.waitForPixels(0, "good", 300);
  assert.equal(await visitor.page.getByRole("button", { name: "Cancel run" }).count(), 0);
  await visitor.keepPicture("reached");
  await visitor.leave();
});

pageTest(
  "new figures arrive while one looks, from the cursor on",
  standardRuns,
  async (fixture) => {
    const entry = fixture.entry("demo-4f2a91");
    const held = entry.metrics.steps.splice(600);
    const heldEvaluations = entry.metrics.evaluations.splice(12);
    entry.metrics.prediction = null;
    const visitor = await Visitor.arrive(browser, `${fixture.url}#/runs/demo-4f2a91`);
    await visitor.sees("at step 600");
    await visitor.waitForPixels(0, "accent", 200);
    entry.metrics.steps.push(...held);
    entry.metrics.evaluations.push(...heldEvaluations);
    await visitor.page.getByRole("img", { name: /18 evaluations/ }).waitFor();
    await visitor.page.getByText("at step 900").waitFor();
    entry.run.value = 0.0912;
    await visitor.page.waitForFunction(() => /^9\.12.% demo · Regatta$/.test(document.title));
    assert.equal(fixture.cursors[0], 0);
    assert.equal(
      fixture.cursors.filter((cursor) => cursor === 0).length,
      1,
      "history is sent once",
    );
    await visitor.leave();
  },
);

pageTest(
  "a failed run shows its error; a run that nobody knows says so",
  standardRuns,
  async (fixture) => {
    const visitor = await Visitor.arrive(browser, `${fixture.url}#/runs/broken-000002`);
    await visitor.sees("vocabulary fingerprint differs; prepare it again");
    assert.equal(await visitor.page.getByRole("alert").count(), 1);
    await visitor.page.goto(`${fixture.url}#/runs/nobody`);
    await visitor.sees("No such run");
    await visitor.leave(/status of 404/);
  },
);

pageTest("hostile text stays text", standardRuns, async (fixture) => {
  const visitor = await Visitor.arrive(browser, fixture.url);
  const { page } = visitor;
  await page.getByRole("link", { name: kHostile }).click();
  await page.getByRole("heading", { name: kHostile }).waitFor();
  await page.getByText(kHostile).nth(1).waitFor(); // also in its state and its warning
  await page.getByRole("link", { name: "Log" }).click();
  await page.locator("pre.log", { hasText: "onerror" }).waitFor();
  await page.getByRole("link", { name: "Details" }).click();
  await page.getByRole("button", { name: "Cancel run" }).click();
  await page.getByRole("dialog").waitFor();
  assert.equal(await page.locator("#app img").count(), 0);
  assert.equal(await page.evaluate(() => window.stolen), undefined);
  await visitor.leave();
});

pageTest(
  "an id with odd characters is one path segment",
  () => [
    {
      run: makeRun("a b/..%2f?#é", { name: "odd", state_text: "odd indeed" }),
      log: "",
      metrics: { steps: [], evaluations: [], checkpoints: [], prediction: null },
    },
  ],
  async (fixture) => {
    const visitor = await Visitor.arrive(browser, fixture.url);
    await visitor.page.getByRole("link", { name: "odd", exact: true }).click();
    await visitor.sees("odd indeed");
    await visitor.sees("Once training has begun.");
    await visitor.leave();
  },
);

pageTest("cancel asks, posts once, and shows the new state", standardRuns, async (fixture) => {
  const path = "/api/v1/runs/demo-4f2a91/cancel";
  const visitor = await Visitor.arrive(browser, `${fixture.url}#/runs/demo-4f2a91`);
  const { page } = visitor;
  await page.getByRole("button", { name: "Cancel run" }).click();
  await page.getByRole("button", { name: "Leave it" }).click();
  await page.getByRole("dialog").waitFor({ state: "hidden" });
  assert.equal(fixture.count("POST", path), 0);

  await page.getByRole("button", { name: "Cancel run" }).click();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "hidden" });
  assert.equal(fixture.count("POST", path), 0);

  await page.getByRole("button", { name: "Cancel run" }).click();
  await page.getByRole("button", { name: "Cancel the run" }).evaluate((button) => {
    button.click();
    button.click();
  });
  await visitor.sees("stopping, writing a checkpoint");
  await page.getByRole("dialog").waitFor({ state: "hidden" });
  assert.ok(await page.getByRole("button", { name: "Stopping…" }).isDisabled());
  assert.equal(fixture.count("POST", path), 1);
  await visitor.leave();
});

pageTest("a cancel that fails says why and can be tried again", standardRuns, async (fixture) => {
  const visitor = await Visitor.arrive(browser, `${fixture.url}#/runs/demo-4f2a91`);
  const { page } = visitor;
  await page.getByRole("button", { name: "Cancel run" }).click();
  fixture.refusal = "the scheduler is busy; try again";
  await page.getByRole("button", { name: "Cancel the run" }).click();
  await visitor.sees("Not cancelled: the scheduler is busy; try again");
  fixture.refusal = null;
  await page.getByRole("button", { name: "Cancel the run" }).click();
  await visitor.sees("stopping, writing a checkpoint");
  assert.equal(fixture.count("POST", "/api/v1/runs/demo-4f2a91/cancel"), 2);
  await visitor.leave(/status of 409/);
});

pageTest("what is over and not done can be resumed", standardRuns, async (fixture) => {
  const over = fixture.entries.find((entry) => entry.run.state === "cancelled").run.id;
  const done = fixture.entries.find((entry) => entry.run.state === "succeeded").run.id;
  const visitor = await Visitor.arrive(browser, `${fixture.url}#/runs/${over}`);
  const { page } = visitor;
  const button = page.getByRole("button", { name: "Resume run" });
  fixture.refusal = "run is stopping";
  await button.click();
  await visitor.sees("Not resumed: run is stopping");
  fixture.refusal = null;
  await button.evaluate((element) => {
    element.click();
    element.click();
  });
  await visitor.sees("was resumed");
  assert.equal(fixture.count("POST", `/api/v1/runs/${over}/resume`), 2);
  await page.getByRole("button", { name: "Cancel run" }).waitFor();
  await page.goto(`${fixture.url}#/runs/${done}`);
  await visitor.sees(done.slice(0, done.lastIndexOf("-")));
  assert.equal(await button.count(), 0);
  await visitor.leave(/status of 409/);
});

pageTest(
  "a lost controller is announced, data stay, and it recovers",
  standardRuns,
  async (fixture) => {
    const visitor = await Visitor.arrive(browser, `${fixture.url}#/runs/demo-4f2a91`);
    const { page } = visitor;
    await visitor.waitForPixels(0, "accent", 500);
    const port = fixture.port;
    await fixture.stop();
    await page.getByText(/Controller unreachable, last data .+ ago/).waitFor();
    await visitor.sees("900 / 4,000");
    await visitor.waitForPixels(0, "accent", 500);
    await visitor.keepPicture("lost");

    const again = new Fixture(fixture.entries);
    again.sessions = fixture.sessions; // it was away, not restarted
    await again.start(port);
    again.entry("demo-4f2a91").run.state_text = "training, step 901 of 4000";
    try {
      await visitor.sees("training, step 901 of 4000");
      await visitor.seesNoMore("Controller unreachable");
      await visitor.leave(/ERR_|Failed to load resource/);
    } finally {
      await again.stop();
    }
  },
);

pageTest(
  "a controller that cannot write its store says that figures stand still",
  standardRuns,
  async (fixture) => {
    const visitor = await Visitor.arrive(browser, `${fixture.url}#/runs/demo-4f2a91`);
    await visitor.sees("900 / 4,000");
    await visitor.seesNoMore("Figures stand still");
    fixture.trouble = "the controller cannot write its store: its disk is full; free some space";
    await visitor.sees("Figures stand still");
    await visitor.sees("its disk is full; free some space. Runs go on.");
    await visitor.keepPicture("store-trouble");
    await visitor.page.goto(`${fixture.url}#/`);
    await visitor.sees("Figures stand still");
    fixture.trouble = null;
    await visitor.seesNoMore("Figures stand still");
    await visitor.leave();
  },
);

pageTest(
  "no runs: the page says how to start one",
  () => [],
  async (fixture) => {
    const visitor = await Visitor.arrive(browser, fixture.url);
    await visitor.sees("There are none, or all of them are archived");
    await visitor.sees("regatta submit");
    await visitor.sees("regatta-train prepare");
    await visitor.keepPicture("empty");
    await visitor.leave();
  },
);

for (const width of [320, 400]) {
  pageTest(`nothing scrolls sideways at ${width} pixels`, standardRuns, async (fixture) => {
    const options = { viewport: { width, height: 800 } };
    const visitor = await Visitor.arrive(browser, fixture.url, options);
    for (const [hash, text] of [
      ["#/", "perl-doc"],
      ["#/runs/hostile-000001", "once training has begun."],
      ["#/runs/hostile-000001", "Why it waits"],
      ["#/runs/broken-000002", "After the failure"],
      ["#/runs/demo-4f2a91", "Timeline of attempts"],
      ["#/runs/demo-4f2a91/checkpoints", "13.4 MB"],
      ["#/runs/demo-4f2a91/log", "step 400 loss"],
      ["#/runs/demo-4f2a91/details", "Run file"],
    ]) {
      await visitor.page.goto(`${fixture.url}${hash}`);
      await visitor.sees(text);
      const overflow = await visitor.page.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
      );
      assert.equal(overflow, 0, hash);
    }
    await visitor.keepPicture(`narrow-${width}`);
    await visitor.leave();
  });
}

pageTest("dark mode recolours page and charts", standardRuns, async (fixture) => {
  const url = `${fixture.url}#/runs/demo-4f2a91`;
  const visitor = await Visitor.arrive(browser, url, { colorScheme: "light" });
  await visitor.waitForPixels(0, "accent", 500);
  const back = () => visitor.page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  const light = await back();
  await visitor.page.emulateMedia({ colorScheme: "dark" });
  await visitor.page.waitForFunction(() => document.documentElement.dataset.theme === "dark");
  await visitor.waitForPixels(0, "accent", 500); // --accent is another colour now
  assert.notEqual(await back(), light);
  await visitor.keepPicture("dark");
  await visitor.leave();
});

pageTest("everything is reached by keyboard", standardRuns, async (fixture) => {
  const visitor = await Visitor.arrive(browser, fixture.url);
  const { page } = visitor;
  await atRow(visitor, "demo-4f2a91");
  const focused = () => page.evaluate(() => document.activeElement?.textContent ?? "");
  for (let i = 0; i < 40 && (await focused()) !== "demo"; i += 1) await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await visitor.sees("Predicted time to target");
  for (let i = 0; i < 20 && (await focused()) !== "Cancel run"; i += 1) {
    await page.keyboard.press("Tab");
  }
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor();
  assert.equal(await focused(), "Leave it"); // the harmless answer comes first
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor({ state: "hidden" });
  assert.equal(await focused(), "Cancel run");
  await visitor.leave();
});

pageTest(
  "dragging zooms all curves, and the zoom survives new data",
  standardRuns,
  async (fixture) => {
    const visitor = await Visitor.arrive(browser, `${fixture.url}#/runs/demo-4f2a91`);
    const { page } = visitor;
    const before = await visitor.waitForPixels(0, "accent", 500);
    const box = await page.locator("figure.chart .u-over").first().boundingBox();
    await page.mouse.move(box.x + box.width * 0.1, box.y + 80);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.4, box.y + 90, { steps: 4 });
    await page.mouse.up();
    await page.getByRole("button", { name: "Show all" }).first().waitFor();
    assert.equal(await page.getByRole("button", { name: "Show all" }).count(), 3);
    const polls = () => fixture.count("GET", "/api/v1/runs/demo-4f2a91/metrics");
    const seen = polls();
    await until(() => polls() > seen + 1, "two more polls");
    // What was dragged over lies within the curve, so the curve now reaches the right edge.
    const zoomed = await visitor.pixels(0, "accent");
    assert.ok(zoomed.right > before.right + 20, `${zoomed.right} > ${before.right}`);
    assert.equal(await page.getByRole("button", { name: "Show all" }).count(), 3);
    await page.getByRole("button", { name: "Show all" }).first().click();
    await page.getByRole("button", { name: "Show all" }).first().waitFor({ state: "hidden" });
    await visitor.leave();
  },
);

pageTest("a hidden page asks nothing", standardRuns, async (fixture) => {
  const visitor = await Visitor.arrive(browser, fixture.url);
  await atRow(visitor, "demo-4f2a91");
  const show = (hidden) =>
    visitor.page.evaluate((value) => {
      Object.defineProperty(document, "hidden", { value, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }, hidden);
  await show(true);
  await visitor.page.waitForTimeout(1200); // a poll that was under way
  const quiet = fixture.requests.length;
  await visitor.page.waitForTimeout(2500);
  assert.equal(fixture.requests.length, quiet);
  await show(false);
  await until(() => fixture.requests.length > quiet, "polls again");
  await visitor.leave();
});

pageTest(
  "an MFU above the whole is told as a wrong peak",
  () => [ranksRun()],
  async (fixture) => {
    const { run } = fixture.entries[0];
    const visitor = await Visitor.arrive(browser, `${fixture.url}#/runs/${run.id}`);
    const { page } = visitor;
    const panel = page.getByRole("region", { name: "Ranks and communication" });
    await panel.getByText("of 7.91 PFLOP/s, measured").waitFor();
    assert.equal(await panel.getByText("the peak is").count(), 0);
    Object.assign(run, { mfu: 1.09, config: { statistics: { peak_tflops: 989 } } });
    await panel.getByText("the peak of 7.91 PFLOP/s is too low").waitFor();
    await panel.getByText("means that the peak is wrong").waitFor();
    run.mfu = 0.9;
    await panel.getByText("of 7.91 PFLOP/s, declared").waitFor();
    assert.equal(await panel.getByText("the peak is wrong").count(), 0);
    await visitor.leave();
  },
);

pageTest(
  "hostile text in a reason and in attempts stays text, also on a phone",
  () => {
    const bad = `${kHostile}\u001b[31mred\u001b[0m\u202e${"x".repeat(10_000)}`;
    const run = makeRun("bad-000007", { state: "queued", state_text: "waits", note: bad, tags: ["a"] });
    const waiting = { category: bad, sentence: bad, action: `\`${bad}\``, clears: bad };
    const launch = { launch: 1, job: null, nodes: bad, gpus: 1, exit_code: 1, signal: null };
    const ended = { submitted_at: run.created_at, ended_at: run.started_at, cause: bad };
    const launches = [{ ...launch, ...ended, what: bad, action: bad }];
    const attempt = { attempt: 1, launch: 1, started_at: run.started_at, seconds: 1, first_step: 0 };
    const attempts = [{ ...attempt, host: bad, hosts: [bad], ranks: 1, exit_code: 1, message: bad }];
    run.since_submission_seconds = 60;
    const explanation = {
      summary: bad,
      next: bad,
      waiting: { ...waiting, expected_start: null, next_start: null },
      failures_in_a_row: 2,
      launches,
      avoided_nodes: [{ node: bad, score: 1, why: bad }],
    };
    const metrics = { steps: [], evaluations: [], checkpoints: [], timeline: null, prediction: null };
    return [{ run, metrics, log: "", events: [], explanation, attempts: { launches, attempts } }];
  },
  async (fixture) => {
    const options = { viewport: { width: 390, height: 844 } };
    const visitor = await Visitor.arrive(browser, `${fixture.url}#/runs/bad-000007`, options);
    const { page } = visitor;
    const panel = page.getByRole("region", { name: "Why it waits" });
    await panel.getByText("2 failures without progress").waitFor();
    const strip = page.locator("figure.strip");
    await strip.getByRole("button", { name: /^Table/ }).click();
    await strip.locator("tbody tr").first().waitFor();
    const text = await page.locator("main").innerText();
    assert.ok(text.split(`${kHostile}red`).length > 8, "it is shown, as text");
    assert.doesNotMatch(text, /[\u0000-\u0008\u000b-\u001f\u007f]/);
    assert.equal(await page.locator("#app img").count(), 0);
    assert.equal(await page.evaluate(() => window.stolen), undefined);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.equal(wide, 390);
    await visitor.leave();
  },
);
