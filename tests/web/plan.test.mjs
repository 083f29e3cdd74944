// The tab that shows a run's plan, in a real browser, against the fixture's API.
import assert from "node:assert/strict";
import { kHostile, makePlan, manyRun, ranksRun } from "./fixture.mjs";
import { makeNodes, makeTopology } from "./machines.mjs";
import { Visitor, browser, pageTests } from "./setup.mjs";

const pageTest = pageTests();

const kPath = "/api/v1/runs/ranks-5c1e07/plan";
const arrive = (fixture, options) =>
  Visitor.arrive(browser, `${fixture.url}#/runs/${fixture.entries[0].run.id}/plan`, options);
const flat = async (locator) => (await locator.innerText()).replace(/\s+/g, " ");
const overflow = (page) =>
  page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

// ranksRun(), its plan with other fields.
function planned(fields, options) {
  const entry = ranksRun();
  Object.assign(entry, { plan: { ...makePlan(options), ...fields } });
  return entry;
}

pageTest(
  "a plan shows its reason, its figures and the predicted step",
  () => [ranksRun()],
  async (fixture) => {
    const visitor = await Visitor.arrive(browser, `${fixture.url}#/runs/ranks-5c1e07`);
    const { page } = visitor;
    await page.getByRole("link", { name: "Log" }).waitFor();
    assert.equal(fixture.count("GET", kPath), 0); // nobody has looked at it
    await page.getByRole("link", { name: "Plan" }).click();
    assert.equal(new URL(page.url()).hash, "#/runs/ranks-5c1e07/plan");
    const panel = page.getByRole("region", { name: "Plan", exact: true });
    await panel.waitFor();
    const text = await flat(panel);
    for (const words of [
      "predicted 109 ms, measured 113 ms (+4.0 %)",
      "(12 buckets, 109 ms a step) saves 10.8 % of the step on average over 25 MB (2 buckets",
      "Predicted step 109 ms",
      "Exposed communication 11.3 ms 10.4 % of the step",
      "Measured step 113 ms newest 20 steps",
      "Buckets 12 of 59.6 MB",
      "Basis modelled by NCCL's model",
      "79.6 % of 55.3 ms communication hidden",
      "ready, waits for the bucket before",
    ]) {
      assert.ok(text.includes(words), `${words} in: ${text}`);
    }

    const drawing = panel.getByRole("img");
    const summary = await drawing.getAttribute("aria-label");
    assert.match(summary, /12 buckets; backward ends at 86\.9.ms, .* 11\.3.ms are exposed/);
    const { timeline } = fixture.entries[0].plan;
    const late = (bucket) => bucket.end_seconds > timeline.compute_seconds;
    const waits = (bucket) => bucket.start_seconds > bucket.ready_seconds;
    assert.equal(
      await drawing.locator("rect.exposed").count(),
      timeline.buckets.filter(late).length,
    );
    assert.equal(
      await drawing.locator("rect.waiting").count(),
      timeline.buckets.filter(waits).length,
    );
    assert.equal(await drawing.locator("g > title").count(), 12 + 3);
    const title = await drawing.locator("g > title").last().textContent();
    assert.match(title, /^Bucket 12 of 12, 13\.4.MB: ready at 86\.9.ms, /);
    assert.match(title, /, from 87\.9.ms to 98\.2.ms$/);
    // The drawing is the plan's: each length over the whole is the share of its time.
    const whole = (await drawing.locator("svg.bars").boundingBox()).width;
    const near = async (kind, seconds) => {
      const { width } = await drawing.locator(`rect.${kind}`).last().boundingBox();
      const share = seconds / timeline.step_seconds;
      assert.ok(Math.abs(width / whole - share) < 0.003, `${kind}: ${width / whole} ~ ${share}`);
    };
    await near("forward", timeline.forward_seconds);
    await near("backward", timeline.compute_seconds - timeline.forward_seconds);
    await near("optimizer", timeline.tail_seconds);
    await near("wait", timeline.exposed_seconds);
    await visitor.keepPicture("plan");
    await visitor.leave();
  },
);

pageTest(
  "a plan's alternatives, decisions, NCCL ranges and seats are tables",
  () => [ranksRun()],
  async (fixture) => {
    const visitor = await arrive(fixture);
    const { page } = visitor;
    const rows = async (name) => {
      const part = page.getByRole("region", { name, exact: true });
      await part.waitFor();
      const list = await part.locator("tbody tr").allInnerTexts();
      return list.map((row) => row.replace(/\s+/g, " ").trim());
    };
    const cuts = await rows("Alternatives");
    assert.equal(cuts.length, 4);
    assert.match(cuts[0], /^programme chosen 12 109.ms 110.ms –$/);
    assert.match(cuts[1], /^as ready 23 112.ms 113.ms \+3\.1.%$/);
    assert.match(cuts[3], /^one bucket 1 138.ms 140.ms \+27\.9.%$/);
    assert.equal(await page.locator("tr.chosen").count(), 1);

    const decisions = await rows("Decisions");
    assert.equal(decisions.length, 3);
    assert.match(decisions[0], /^hierarchical false true differs 4\.50.% 4\.89.ms true would/);
    assert.match(decisions[0], /false 109.ms · true 104.ms$/);
    assert.match(decisions[1], /^balance\.strategy global_presort global_presort – global_presort/);
    assert.equal(await page.getByText("differs", { exact: true }).count(), 1);

    assert.deepEqual(await rows("NCCL"), [
      "AllReduce 65.5 kB to 1.05 MB Tree / LL128 61.2 µs −18.3 % 74.9 µs measured",
      "AllReduce from 8.39 MB Ring / Simple 16 channels 7,390 µs – modelled",
    ]);
    const seats = await rows("Seats");
    assert.equal(seats.length, 2);
    const part = page.getByRole("region", { name: "Seats", exact: true });
    await part.getByText("as planned; the scheduler chooses the nodes").waitFor();
    await part.getByRole("group", { name: "Planned seats by node" }).waitFor();
    assert.match(seats[1], /^node02 4–7 4 → GPU 0, mlx5_0 .* 7 → GPU 3, mlx5_3$/);
    assert.equal(await page.locator("details:not(.menu)").count(), 0);
    await visitor.leave();
  },
);

pageTest(
  "a plan is asked for once, whatever else is asked and looked at",
  () => [ranksRun()],
  async (fixture) => {
    const visitor = await arrive(fixture);
    const { page } = visitor;
    await visitor.sees("The predicted step");
    await page.getByRole("link", { name: "Log" }).click();
    await visitor.sees("The log is empty.");
    await page.getByRole("link", { name: "Plan" }).click();
    await visitor.sees("The predicted step");
    fixture.entries[0].run.state_text = "asked again";
    await visitor.sees("asked again");
    assert.equal(fixture.count("GET", kPath), 1);
    await visitor.leave();
  },
);

pageTest(
  "a run without a plan says so in one line",
  () => [{ ...ranksRun(), plan: undefined }],
  async (fixture) => {
    const visitor = await arrive(fixture);
    await visitor.sees("No plan; default gradient buckets (4 MiB on CPU, 25 MiB on GPU).");
    fixture.entries[0].run.state_text = "asked again";
    await visitor.sees("asked again");
    assert.equal(fixture.count("GET", kPath), 1);
    assert.equal(await visitor.page.locator(".plan, .plan-part").count(), 0);
    await visitor.leave(/status of 404/);
  },
);

pageTest(
  "a plan that cannot be read says why, and is asked for again",
  () => [{ ...ranksRun(), damage: "plan.json: buckets must grow; plan again" }],
  async (fixture) => {
    const visitor = await arrive(fixture);
    await visitor.sees("The plan cannot be shown");
    await visitor.sees("buckets must grow; plan again");
    delete fixture.entries[0].damage;
    await visitor.sees("The predicted step");
    await visitor.seesNoMore("The plan cannot be shown");
    await visitor.leave(/status of 400/);
  },
);

pageTest(
  "what a plan does not say is not shown",
  () => [planned({})],
  async (fixture) => {
    const entry = fixture.entries[0];
    const { ranks, bucket_ends } = entry.plan;
    entry.plan = { ranks, bucket_ends, why: "by hand", measured: true };
    entry.run.samples_per_second = null;
    const visitor = await arrive(fixture);
    const panel = visitor.page.getByRole("region", { name: "Plan", exact: true });
    await panel.waitFor();
    assert.match(await flat(panel), /^Plan by hand Buckets 12 Basis measured$/i);
    assert.equal(await visitor.page.locator(".plan .timeline, .plan-part").count(), 0);
    await visitor.leave();
  },
);

pageTest(
  "a plan for another number of ranks is left out, and the page says so",
  () => [planned({}, { nodes: 3 })],
  async (fixture) => {
    const visitor = await arrive(fixture);
    await visitor.sees("The plan is for another number of ranks");
    await visitor.sees("It is for 12 ranks, the run has 8: the trainer leaves it out.");
    const panel = visitor.page.getByRole("region", { name: "Plan", exact: true });
    assert.ok(!(await flat(panel)).includes("measured"));
    await visitor.leave();
  },
);

pageTest(
  "a run that cuts its gradient itself is not compared with its plan",
  () => [ranksRun()],
  async (fixture) => {
    const { run } = fixture.entries[0];
    run.config.buckets = { by: "per_layer" };
    const visitor = await arrive(fixture);
    await visitor.sees("The run file cuts the gradient by per_layer; the trainer leaves them out.");
    const panel = visitor.page.getByRole("region", { name: "Plan", exact: true });
    assert.ok(!(await flat(panel)).includes("measured 113"));
    assert.equal(await visitor.page.getByText("Predicted against measured").count(), 0);
    await visitor.leave();
  },
);

const kEscaped = "\u001b[31mred\u001b[0m\u001b]0;title\u0007\u0000";
pageTest(
  "hostile text in a plan stays text",
  () => {
    const bad = `${kHostile}${kEscaped}`;
    const { alternatives, decisions, nccl, seats } = makePlan();
    return [
      planned({
        cut: bad,
        why: `${bad} saves nothing`,
        alternatives: alternatives.map((one) => ({ ...one, name: bad })),
        decisions: decisions.map(({ options, ...one }) => ({
          ...Object.fromEntries(Object.keys(one).map((key) => [key, bad])),
          options: options.map((option) => ({ ...option, value: bad })),
        })),
        nccl: {
          ...nccl,
          ranges: nccl.ranges.map((one) => ({
            ...one,
            collective: bad,
            algorithm: bad,
            protocol: bad,
          })),
        },
        seats: seats.map((one) => ({ ...one, node: bad, nics: one.nics.map(() => bad) })),
      }),
    ];
  },
  async (fixture) => {
    for (const width of [1200, 360]) {
      const visitor = await arrive(fixture, { viewport: { width, height: 800 } });
      const { page } = visitor;
      await visitor.sees("saves nothing");
      await page.locator(".plan-part", { hasText: "onerror" }).last().waitFor();
      const text = await page.locator("main").innerText();
      assert.ok(text.includes(`${kHostile}red saves nothing`), text);
      assert.doesNotMatch(text, /[\u0000-\u0008\u000b-\u001f\u007f]|title/);
      assert.equal(await page.locator("#app img").count(), 0);
      assert.equal(await page.evaluate(() => window.stolen), undefined);
      assert.equal(await overflow(page), 0);
      await visitor.leave();
    }
  },
);

pageTest(
  "512 buckets and 1,024 nodes stay light",
  () => [manyRun()],
  async (fixture) => {
    const visitor = await arrive(fixture);
    const { page } = visitor;
    const panel = page.getByRole("region", { name: "Plan", exact: true });
    await panel.waitFor();
    const drawing = panel.getByRole("img");
    assert.ok((await drawing.boundingBox()).height < 400);
    assert.equal(await drawing.locator("rect.hidden").count(), 511);
    const elements = await page.evaluate(() => document.querySelectorAll("#app *").length);
    assert.ok(elements < 3500, `${elements} elements`);
    const last = await drawing.locator("svg.bars g").last().locator("title").textContent();
    assert.match(last, /^Bucket 512 of 512/);

    // What the plan draws is not drawn again when the run's figures change.
    await drawing.locator("rect.hidden").first().evaluate((bar) => bar.setAttribute("y", "7"));
    fixture.entries[0].run.state_text = "asked again";
    await visitor.sees("asked again");
    assert.equal(await drawing.locator("rect.hidden").first().getAttribute("y"), "7");

    const seats = page.getByRole("region", { name: "Seats", exact: true });
    assert.equal(await seats.locator("tr").count(), 0);
    await seats.getByText("8,192 ranks on 1,024 nodes as planned").click();
    await seats.getByText("8191 → GPU 7, mlx5_7").waitFor({ state: "attached" });
    assert.equal(await seats.locator("tbody tr").count(), 1024);
    assert.ok((await seats.boundingBox()).height < 560);
    await visitor.keepPicture("plan-many");
    await visitor.leave();
  },
);

pageTest(
  "the strip of ranks is drawn when somebody is behind, however late",
  () => [ranksRun()],
  async (fixture) => {
    const { run } = fixture.entries[0];
    const { slowest } = run;
    run.slowest = null;
    const visitor = await arrive(fixture);
    const balance = visitor.page.getByRole("region", { name: "Balancing" });
    await balance.waitFor();
    assert.equal(await balance.locator("rect.behind").count(), 0);
    run.slowest = slowest;
    await balance.locator("rect.behind").waitFor();
    run.slowest = null;
    await balance.locator("rect.behind").waitFor({ state: "detached" });
    run.slowest = slowest;
    await balance.locator("rect.behind").waitFor();
    const width = async () => (await balance.locator("rect.all").boundingBox()).width;
    const before = await width();
    await visitor.page.setViewportSize({ width: 700, height: 900 });
    await visitor.page.waitForFunction(
      (was) => document.querySelector("rect.all").getBoundingClientRect().width < was - 100,
      before,
    );
    await visitor.leave();
  },
);

pageTest(
  "a fabric that cannot be loaded says so, and comes when it can",
  () => [ranksRun()],
  async (fixture) => {
    fixture.nodes = makeNodes(32);
    fixture.topology = { status: 503, detail: "the proxy has no controller" };
    const visitor = await arrive(fixture);
    await visitor.page.getByRole("button", { name: "Show the nodes in the fabric" }).click();
    await visitor.sees("The fabric cannot be loaded: the proxy has no controller. Trying again.");
    fixture.topology = makeTopology();
    await visitor.sees("Marked: the nodes that the plan names.");
    await visitor.leave(/status of 503/);
  },
);

pageTest(
  "on a phone each collective's bar has its name",
  () => [ranksRun()],
  async (fixture) => {
    const { ranges } = fixture.entries[0].plan.nccl;
    ranges.push({ ...ranges[0], collective: "ReduceScatter" });
    const visitor = await arrive(fixture, { viewport: { width: 390, height: 844 } });
    const nccl = visitor.page.getByRole("region", { name: "NCCL", exact: true });
    const names = nccl.locator("svg text.name");
    await names.first().waitFor();
    assert.deepEqual(await names.allTextContents(), ["AllReduce", "ReduceScatter"]);
    const bars = await nccl.locator("rect.own").all();
    for (const [row, bar] of bars.entries()) {
      const [name, box] = [await names.nth(row).boundingBox(), await bar.boundingBox()];
      assert.ok(name.y + name.height <= box.y + 2 && name.y + name.height > box.y - 12, `${row}`);
    }
    await visitor.keepPicture("plan-ways-390");
    await visitor.leave();
  },
);

for (const width of [320, 360]) {
  pageTest(
    `a plan does not scroll sideways at ${width} pixels`,
    () => [ranksRun()],
    async (fixture) => {
      const visitor = await arrive(fixture, { viewport: { width, height: 800 } });
      const { page } = visitor;
      await visitor.sees("The predicted step");
      assert.equal(await overflow(page), 0);
      if (width === 360) {
        const inner = await page
          .locator(".plan-part .scroll")
          .evaluateAll((all) => all.map((one) => one.scrollWidth - one.clientWidth));
        assert.deepEqual(inner, [0, 0, 0, 0]);
      }
      await visitor.keepPicture(`plan-${width}`);
      await visitor.leave();
    },
  );
}

pageTest(
  "dark mode recolours a plan",
  () => [ranksRun()],
  async (fixture) => {
    const visitor = await arrive(fixture, { colorScheme: "light" });
    const { page } = visitor;
    await visitor.sees("The predicted step");
    const colours = () =>
      page.evaluate(() =>
        ["rect.hidden", "rect.exposed", "rect.waiting", "rect.backward"].map(
          (part) => getComputedStyle(document.querySelector(`.plan ${part}`)).fill,
        ),
      );
    const marks = () =>
      page.evaluate(() =>
        [".chosen .mark", ".differs .mark", ".plan .why"].map(
          (part) => getComputedStyle(document.querySelector(part)).color,
        ),
      );
    const light = [...(await colours()), ...(await marks())];
    await page.emulateMedia({ colorScheme: "dark" });
    await page.waitForFunction(() => document.documentElement.dataset.theme === "dark");
    const dark = [...(await colours()), ...(await marks())];
    light.forEach((colour, i) => assert.notEqual(dark[i], colour, `${i}`));
    assert.equal(new Set(dark.slice(0, 3)).size, 3);
    await visitor.keepPicture("plan-dark");
    await visitor.leave();
  },
);
