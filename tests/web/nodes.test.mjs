// The nodes: table, grid and fabric over made-up answers of Slurm (the fixture), whose filters and
// figures are computed here another way; and what the controller says of a machine without Slurm.
import assert from "node:assert/strict";
import { after, before } from "node:test";
import { findings } from "./axe.mjs";
import { kHostile, makeEvent, ranksRun } from "./fixture.mjs";
import { makeNode, makeNodes, makeTopology } from "./machines.mjs";
import { Seeded, missingController, seededTest } from "./seeded.mjs";
import { Visitor, browser, pageTests } from "./setup.mjs";

const pageTest = pageTests();

const plain = (text) => text.replaceAll("\u202f", " ").replace(/[^\S\n]+/g, " ");
const arrive = (fixture, place = "#/nodes", options = {}) =>
  Visitor.arrive(browser, `${fixture.url}${place}`, options);
const rows = (page) => page.locator("table.nodes tbody tr");
const names = (page) => rows(page).evaluateAll((all) => all.map((row) => row.dataset.node));
const hash = (page) => new URL(page.url()).hash;
const overflow = (page) =>
  page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
const isFree = (node) => node.usable && node.state === "idle" && node.suspicion < 0.9;

// 32 nodes below four leaves; a run on two, a suspect, and one that failed.
function site(fixture, count = 32) {
  fixture.nodes = makeNodes(count);
  fixture.topology = makeTopology({ leaves: count / 8, perLeaf: 8 });
  const busy = fixture.nodes.filter((node) => node.state === "allocated");
  for (const node of busy.slice(0, 2)) node.runs = ["bert-4f2a91"];
  const suspect = fixture.nodes.find((node) => node.state === "idle");
  suspect.suspicion = 0.93;
  suspect.suspicion_why = "node failed under bert-4f2a91 12 min ago";
  fixture.nodeEvents = [
    makeEvent(0, "node.drained", { node: "gpu-006", words: "ECC errors on GPU 3" }),
    makeEvent(1, "node.resumed", { node: "gpu-006", words: "after 2 h of drained" }),
    makeEvent(2, "node.blamed", {
      node: "gpu-006",
      run: "bert-4f2a91",
      words: "killed by signal 9",
    }),
    makeEvent(3, "node.down", { node: "gpu-008", words: "Not responding" }),
  ];
  return { busy, suspect };
}

pageTest(
  "the table has each node with what Slurm says of it",
  () => [],
  async (fixture) => {
    const { busy, suspect } = site(fixture);
    const visitor = await arrive(fixture);
    const { page } = visitor;
    await visitor.sees("32 nodes");
    assert.deepEqual(await names(page), fixture.nodes.map(({ name }) => name));
    const text = plain(await page.locator(`tr[data-node="${busy[0].name}"]`).innerText());
    assert.match(text, /allocated/);
    assert.match(text, /8 \/ 8/);
    assert.match(text, /112 \/ 112/);
    assert.match(text, /400 GB of 2\.10 TB/);
    const row = page.locator(`tr[data-node="${busy[0].name}"]`);
    const run = row.getByRole("link", { name: "bert-4f2a91" });
    assert.equal(await run.getAttribute("href"), "#/runs/bert-4f2a91");
    const blamed = plain(await page.locator(`tr[data-node="${suspect.name}"]`).innerText());
    assert.match(blamed, /0\.93 avoided node failed under bert-4f2a91 12 min ago/);
    const gpus = fixture.nodes.reduce((sum, node) => sum + node.gpus_allocated, 0);
    const states = new Map();
    for (const { state } of fixture.nodes) states.set(state, (states.get(state) ?? 0) + 1);
    const summary = plain(await page.locator(".node-summary").innerText());
    for (const [state, count] of states) assert.ok(summary.includes(`${count} ${state}`), summary);
    assert.ok(summary.includes(`GPUs: ${gpus} of 256 in use`), summary);
    assert.ok(summary.includes("1 avoided because suspected"), summary);
    await visitor.keepPicture("nodes");
    await visitor.leave();
  },
);

pageTest(
  "filters stand in the address and hold what they say",
  () => [],
  async (fixture) => {
    site(fixture);
    const visitor = await arrive(fixture);
    const { page } = visitor;
    const expect = async (which) => {
      const wanted = fixture.nodes.filter(which).map(({ name }) => name);
      await page.waitForFunction(
        (list) => {
          const shown = [...document.querySelectorAll("table.nodes tbody tr")];
          return shown.map((row) => row.dataset.node).join() === list;
        },
        wanted.join(),
      );
    };
    await rows(page).first().waitFor();
    await page.locator("summary", { hasText: "State" }).click();
    await page.getByRole("checkbox", { name: "drained" }).check();
    await page.getByRole("checkbox", { name: "down", exact: true }).check();
    await expect(({ state }) => ["drained", "down"].includes(state));
    assert.equal(hash(page), "#/nodes?state=drained%2Cdown");
    await page.keyboard.press("Escape");
    await page.keyboard.press("/");
    await page.keyboard.type("ecc");
    await expect(({ state }) => state === "drained");
    await page.reload();
    await expect(({ state }) => state === "drained");
    await page.getByRole("button", { name: "Remove all filters" }).click();
    await page.locator("summary", { hasText: "Filters" }).click();
    await page.getByRole("textbox", { name: "Partition" }).fill("spot");
    await expect(({ partitions }) => partitions.includes("spot"));
    await page.getByRole("textbox", { name: "Nodes", exact: true }).fill("gpu-[001-006]");
    await expect(({ name, partitions }) => partitions.includes("spot") && name <= "gpu-006");
    await page.getByRole("combobox", { name: "Usable" }).selectOption("false");
    await expect(
      ({ name, partitions, usable }) => partitions.includes("spot") && name <= "gpu-006" && !usable,
    );
    await page.keyboard.press("Escape");
    await page.getByRole("textbox", { name: /Search/ }).fill("nowhere");
    await visitor.sees("No node is like that");
    await page.getByRole("button", { name: "Show all nodes" }).click();
    await expect(() => true);
    await visitor.leave();
  },
);

pageTest(
  "a list that the API refuses says why",
  () => [],
  async (fixture) => {
    site(fixture);
    fixture.refusalOfNodes = "nodes: gpu-[3-1]: the range goes backwards";
    const visitor = await arrive(fixture, "#/nodes?nodes=gpu-%5B3-1%5D");
    await visitor.sees("the range goes backwards");
    fixture.refusalOfNodes = null;
    await visitor.sees("No node is like that");
    await visitor.leave(/status of 400/);
  },
);

pageTest(
  "pages go on by the API's cursor",
  () => [],
  async (fixture) => {
    site(fixture, 256);
    const visitor = await arrive(fixture);
    const { page } = visitor;
    await visitor.sees("100 of 256 nodes");
    await page.getByRole("button", { name: "Next" }).click();
    await page.locator('tr[data-node="gpu-101"]').waitFor();
    assert.equal(hash(page), "#/nodes?after=gpu-100");
    await page.getByRole("button", { name: "Next" }).click();
    await page.locator('tr[data-node="gpu-201"]').waitFor();
    assert.deepEqual(await names(page), fixture.nodes.slice(200).map(({ name }) => name));
    await page.getByRole("button", { name: "Previous" }).click();
    await page.locator('tr[data-node="gpu-101"]').waitFor();
    await page.getByRole("button", { name: "First" }).click();
    await page.locator('tr[data-node="gpu-001"]').waitFor();
    await visitor.leave();
  },
);

pageTest(
  "a node is opened by key, says what happened to it, and gives the focus back",
  () => [],
  async (fixture) => {
    site(fixture);
    const visitor = await arrive(fixture);
    const { page } = visitor;
    await rows(page).first().waitFor();
    for (let n = 0; n < 6; n += 1) await page.keyboard.press("j");
    await page.keyboard.press("Enter");
    const panel = page.getByRole("region", { name: "Node gpu-006" });
    await panel.getByText("Failure attributed to the node").waitFor();
    assert.equal(hash(page), "#/nodes?node=gpu-006");
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Node gpu-006");
    const events = await panel.locator(".node-events tbody tr").allInnerTexts();
    const told = events.map((row) => plain(row).replace(/^.*?:\d\d:\d\d /, ""));
    assert.deepEqual(told, [
      "Failure attributed to the node bert-4f2a91 killed by signal 9",
      "Node usable again after 2 h of drained",
      "Node drained ECC errors on GPU 3",
    ]);
    const facts = plain(await panel.locator("dl").innerText());
    const action = "resume it when it was repaired";
    for (const words of ["IDLE+DRAIN", "May get work", action, "ib, nvlink"]) {
      assert.ok(facts.includes(words), facts);
    }
    const row = plain(await panel.locator("table.matrix tbody tr").first().innerText());
    const shown = /^GPU0\s+–\s+NV18\s+450\s.*PIX\s+50\.0\s+PHB\s+50\.0\s.*SYS\s+22\.0/s;
    assert.match(row, shown);
    await page.keyboard.press("Escape");
    await panel.waitFor({ state: "detached" });
    await page.waitForFunction(
      () => document.activeElement.closest("tr")?.dataset.node === "gpu-006",
    );
    await page.goto(`${fixture.url}#/nodes?node=nobody`);
    await visitor.sees("The scheduler does not list a node of this name.");
    await visitor.leave();
  },
);

pageTest(
  "free nodes together: which sizes start now, in all and in a partition",
  () => [],
  async (fixture) => {
    site(fixture);
    const visitor = await arrive(fixture);
    const { page } = visitor;
    const part = page.getByRole("region", { name: "Free nodes together" });
    const expect = async (which) => {
      const leaves = [0, 1, 2, 3].map((leaf) => {
        const own = fixture.nodes.slice(8 * leaf, 8 * leaf + 8);
        return own.filter((node) => isFree(node) && which(node)).length;
      });
      const free = leaves.reduce((a, b) => a + b);
      const most = Math.max(...leaves);
      const words =
        `Up to ${most} free nodes of compute lie in one leaf group; ` +
        `a run on up to ${free} spans`;
      await part.getByText(words).waitFor();
      const sizes = await part.locator("table").first().locator("tbody tr").allInnerTexts();
      const runsOf = (size) => leaves.reduce((sum, n) => sum + Math.floor(n / size), 0);
      assert.deepEqual(
        sizes.map((row) => row.trim().split(/\s+/).map(Number)),
        [1, 2, 4, 8].map((size) => [size, runsOf(size)]),
      );
    };
    await expect(() => true);
    await page.goto(`${fixture.url}#/nodes?partition=main`);
    await expect(({ partitions }) => partitions.includes("main"));
    await visitor.leave();
  },
);

pageTest(
  "without a description of the machines the page says what is missing",
  () => [],
  async (fixture) => {
    site(fixture);
    fixture.topology = null;
    const visitor = await arrive(fixture);
    await visitor.sees("Which nodes share a switch is not known");
    await visitor.page.getByRole("link", { name: "Fabric" }).click();
    await visitor.sees("The fabric is not known: start the controller with");
    await visitor.leave(/status of 404/);
  },
);

pageTest(
  "what Slurm does not answer, and what it reserves, is told",
  () => [],
  async (fixture) => {
    fixture.nodeAnswer = { taken_at: null, age_seconds: null };
    const visitor = await arrive(fixture);
    await visitor.sees("Asking Slurm for its nodes…");
    site(fixture);
    const times = {
      starts_at: "2026-11-30T08:00:00Z",
      ends_at: "2026-11-30T12:00:00Z",
      seconds: 14400,
    };
    fixture.nodeAnswer = {
      trouble: "scontrol: Unable to contact slurm controller",
      reservations: [{ name: "power", nodes: "gpu-[001-008]", maintenance: true, ...times }],
    };
    await visitor.sees("Unable to contact slurm controller");
    await visitor.sees("power (maintenance): gpu-[001-008]");
    const moments = visitor.page.locator(".reservations time");
    const [begin, end] = await moments.evaluateAll((all) => all.map((one) => one.dateTime));
    assert.deepEqual([begin, end], [times.starts_at, times.ends_at]);
    await visitor.leave(/status of 404/); // of the topology, which it has not yet
  },
);

pageTest(
  "the grid and the fabric draw a thousand nodes with few elements, and say what they are",
  () => [],
  async (fixture) => {
    fixture.nodes = makeNodes(1024);
    fixture.nodes[40].runs = ["bert-4f2a91"];
    fixture.nodes[900].runs = ["bert-4f2a91"];
    fixture.topology = makeTopology({ leaves: 32, perLeaf: 32 });
    const visitor = await arrive(fixture, "#/nodes?view=grid");
    const { page } = visitor;
    const elements = () => page.evaluate(() => document.querySelectorAll("#app *").length);
    const subpaths = (selector) =>
      page.locator(selector).evaluateAll((all) =>
        all.map((path) => path.getAttribute("d").split("M").length - 1).reduce((a, b) => a + b, 0),
      );
    await page.locator(".cells path.box").first().waitFor();
    assert.equal(await subpaths(".cells path.box"), 1024); // one for each node
    assert.ok((await elements()) < 1500, `${await elements()} elements`);
    const standings = { free: ["idle"], busy: ["mixed", "allocated"], down: ["down"] };
    for (const [standing, states] of Object.entries(standings)) {
      const wanted = fixture.nodes.filter(({ state }) => states.includes(state)).length;
      assert.equal(await subpaths(`.cells .${standing} path.box`), wanted, standing);
    }
    await page.locator("summary", { hasText: "State" }).click();
    await page.getByRole("checkbox", { name: "drained" }).check();
    await visitor.sees("128 of 1,024 nodes");
    assert.equal(await subpaths(".cells path.box"), 128);
    await page.getByRole("button", { name: "Remove all filters" }).click();
    await page.getByRole("link", { name: "Fabric" }).click();
    await visitor.sees("compute: 1,024 nodes in 32 groups, level 1: 2 switches");
    assert.equal(await subpaths(".cells path.box"), 1024);
    assert.ok((await elements()) < 1500, `${await elements()} elements`);
    await page.getByRole("combobox", { name: "Mark the nodes of" }).selectOption("bert-4f2a91");
    await visitor.sees("2 nodes in 2 of 32 leaf groups. Between its nodes: 1 pair over 3 switch");
    assert.equal(await subpaths(".cells path.marks"), 2);
    const cells = page.getByRole("application");
    await cells.focus();
    const press = () =>
      page.evaluate(async () => {
        const begin = performance.now();
        const how = { key: "ArrowRight", bubbles: true, cancelable: true };
        document.activeElement.dispatchEvent(new KeyboardEvent("keydown", how));
        await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
        return performance.now() - begin;
      });
    const times = [];
    for (let n = 0; n < 40; n += 1) times.push(await press());
    times.sort((a, b) => a - b);
    console.log(`an arrow key among 1,024 nodes: median ${times[20].toFixed(0)} ms`);
    await page.getByText(/^gpu-041: .*runs bert-4f2a91/).waitFor();
    await page.keyboard.press("Enter");
    await page.getByRole("region", { name: "Node gpu-041" }).waitFor();
    assert.match(hash(page), /node=gpu-041/);
    await page.getByRole("button", { name: "Close" }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("region", { name: "Node gpu-041" }).waitFor({ state: "detached" });
    await page.waitForFunction(() => document.activeElement.getAttribute("role") === "application");
    await page.getByRole("button", { name: "As a table" }).click();
    const row = plain(await page.locator(".group-table tbody tr").nth(1).innerText());
    const own = fixture.nodes.slice(32, 64);
    const count = (...states) => own.filter(({ state }) => states.includes(state)).length;
    const figures = [count("idle"), count("mixed", "allocated"), count("drained", "down"), 0, 1];
    assert.match(row, new RegExp(`^leaf2 32 gpu-\\[033-064\\] ${figures.join(" ")}$`));
    await visitor.keepPicture("nodes-fabric-1024");
    await visitor.leave();
  },
);

const kLong = "x".repeat(10_000);
pageTest(
  "hostile text in every field stays text",
  () => [],
  async (fixture) => {
    const bad = `${kHostile}\u001b[31mred\u001b[0m\u202eturned`;
    fixture.nodes = [
      makeNode(0, {
        name: bad,
        state: bad,
        slurm_state: bad,
        reason: `${bad}${kLong}`,
        action: bad,
        features: [bad],
        partitions: [bad],
        runs: [bad],
        gpus: { count: 8, types: { [bad]: 8 } },
        suspicion: 0.95,
        suspicion_why: bad,
      }),
      makeNode(1),
    ];
    fixture.topology = makeTopology({ leaves: 1, perLeaf: 2 });
    for (const vertex of fixture.topology.graph.vertices) {
      if (vertex.kind === "fabric_switch") vertex.facts = [["name", bad, 0]];
      if (vertex.kind === "node") vertex.facts = [["name", bad, 0]];
    }
    fixture.nodeEvents = [makeEvent(0, bad, { node: bad, run: bad, words: bad, by: bad })];
    fixture.nodeAnswer = {
      trouble: bad,
      reservations: [
        { name: bad, nodes: bad, maintenance: false, starts_at: bad, ends_at: bad, seconds: 1 },
      ],
    };
    for (const width of [1200, 390]) {
      const place = `#/nodes?node=${encodeURIComponent(bad)}`;
      for (const view of ["", "&view=fabric", "&view=grid"]) {
        const viewport = { width, height: 844 };
        const visitor = await arrive(fixture, `${place}${view}`, { viewport });
        const { page } = visitor;
        await page.locator(".node-panel dl").waitFor();
        await page.locator(".node-events tbody tr").waitFor();
        if (view !== "") await page.locator(".cells path.box").first().waitFor();
        const text = await page.locator("main").innerText();
        assert.ok(text.includes(`${kHostile}red`), text);
        assert.doesNotMatch(text, /[\u0000-\u0008\u000b-\u001f\u007f]/);
        assert.equal(await page.locator("#app img").count(), 0);
        assert.equal(await page.evaluate(() => window.stolen), undefined);
        assert.equal(await overflow(page), 0, `${width} ${view}`);
        await visitor.leave();
      }
    }
  },
);

for (const [width, colorScheme] of [
  [390, "light"],
  [390, "dark"],
  [1440, "dark"],
]) {
  pageTest(
    `nothing is wider than ${width} pixels, ${colorScheme}`,
    () => [],
    async (fixture) => {
      site(fixture);
      const visitor = await arrive(fixture, "#/nodes?node=gpu-006", {
        viewport: { width, height: 844 },
        colorScheme,
      });
      const { page } = visitor;
      await page.locator("table.matrix").waitFor();
      await visitor.sees("Free nodes together");
      assert.equal(await overflow(page), 0);
      await visitor.keepPicture(`nodes-${width}-${colorScheme}`);
      await page.getByRole("button", { name: "Close" }).click();
      await page.getByRole("link", { name: "Fabric" }).click();
      await page.locator(".cells path.box").first().waitFor();
      assert.equal(await overflow(page), 0);
      await visitor.keepPicture(`nodes-fabric-${width}-${colorScheme}`);
      await visitor.leave();
    },
  );
}

for (const colorScheme of ["light", "dark"]) {
  pageTest(
    `axe finds nothing in what only Slurm and a fabric show, ${colorScheme}`,
    () => [ranksRun()],
    async (fixture) => {
      site(fixture);
      const found = [];
      for (const width of [390, 1440]) {
        const viewport = { width, height: 900 };
        const visitor = await arrive(fixture, "#/nodes?node=gpu-006", { viewport, colorScheme });
        const { page } = visitor;
        const look = async (name) => {
          const texts = await findings(page);
          found.push(...texts.map((text) => `${name} at ${width} px: ${text}`));
        };
        await page.locator("table.matrix").waitFor();
        await look("table");
        await page.goto(`${fixture.url}#/nodes?view=grid`);
        await page.locator(".cells path.box").first().waitFor();
        await look("grid");
        await page.goto(`${fixture.url}#/nodes?view=fabric&run=bert-4f2a91`);
        await page.locator(".cells path.marks").waitFor();
        await page.getByRole("button", { name: "As a table" }).click();
        await look("fabric");
        await page.goto(`${fixture.url}#/runs/ranks-5c1e07/plan`);
        await page.getByRole("button", { name: "Show the nodes in the fabric" }).click();
        await page.locator(".cells path.box").first().waitFor();
        const tables = page.getByRole("button", { name: "As a table" });
        while ((await tables.count()) > 0) await tables.first().click();
        await page.getByRole("application").focus();
        await page.keyboard.press("Enter");
        await page.locator("table.matrix").waitFor();
        await look("plan");
        await visitor.leave();
      }
      assert.deepEqual(found, []);
    },
  );
}

// The controller, without Slurm.
const noController = missingController();
const seededPage = seededTest(noController);
let seeded;
before(async () => {
  if (!noController) seeded = await new Seeded({ runs: 3 }).start();
});
after(() => seeded?.stop());

seededPage("without Slurm the page shows the controller's own machine", async () => {
  const answer = await seeded.ask("nodes?full=true");
  const [node] = answer.nodes;
  const visitor = await Visitor.arrive(browser, seeded.link("/nodes"));
  const { page } = visitor;
  await visitor.sees("without Slurm: the machine of the controller");
  const row = page.locator(`tr[data-node="${node.name}"]`);
  await row.waitFor();
  assert.ok(plain(await row.innerText()).includes(`– / ${node.cpus}`));
  assert.equal(await page.getByRole("region", { name: "Free nodes together" }).count(), 0);
  await row.getByRole("link", { name: node.name }).click();
  const panel = page.getByRole("region", { name: `Node ${node.name}` });
  await panel.getByText("No events of this node are recorded.").waitFor();
  await visitor.keepPicture("nodes-local");
  await visitor.leave();
});
