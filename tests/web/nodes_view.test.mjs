// What the nodes' view says while something is missing, wrong or one of several: before Slurm was asked,
// a page behind the last, two fabrics, a filter half typed; and where the focus goes.
import assert from "node:assert/strict";
import { kHostile } from "./fixture.mjs";
import { makeNode, makeNodes, makeTopology } from "./machines.mjs";
import { Visitor, browser, pageTests } from "./setup.mjs";

const pageTest = pageTests();

const arrive = (fixture, place = "#/nodes", options = {}) =>
  Visitor.arrive(browser, `${fixture.url}${place}`, options);
const hash = (page) => new URL(page.url()).hash;
const hasFocus = (page, selector) =>
  page.waitForFunction((which) => document.activeElement?.matches(which), selector);
const rows = (page) => page.locator("table.nodes tbody tr");

function site(fixture, count = 32) {
  fixture.nodes = makeNodes(count);
  fixture.topology = makeTopology({ leaves: count / 8, perLeaf: 8 });
}

// A second fabric, with one switch for these nodes.
function addFabric({ graph }, nodes) {
  const facts = (name) => [["name", name, 0]];
  const at = { kind: "fabric_switch", id: "switch:store1", parent: "fabric:store" };
  graph.vertices.push({ kind: "fabric", id: "fabric:store", facts: facts("store") });
  graph.vertices.push({ ...at, facts: facts("store1") });
  for (const node of nodes) {
    graph.links.push({ kind: "fabric", a: `${node}/nic:mlx5_1`, b: at.id, facts: [] });
  }
}

pageTest(
  "free nodes are those of a fabric that is named, and the others are told",
  () => [],
  async (fixture) => {
    site(fixture);
    for (const node of fixture.nodes) Object.assign(node, { state: "allocated", usable: true });
    fixture.nodes[3].state = "idle";
    const others = [makeNode(60, { name: "cpu-1" }), makeNode(64, { name: "cpu-2" })];
    for (const node of others) Object.assign(node, { state: "idle", usable: true, partitions: ["cpu"] });
    fixture.nodes.push(...others);
    addFabric(fixture.topology, ["gpu-001", "gpu-002"]);
    const visitor = await arrive(fixture);
    const { page } = visitor;
    const part = page.getByRole("region", { name: "Free nodes together" });
    await part.getByText("1 node of compute is free.").waitFor();
    await part.getByText("2 other nodes are free, but not of compute: not counted.").waitFor();
    await part.getByRole("combobox", { name: "Fabric" }).selectOption("store");
    await part.getByText("No node of store is free.").waitFor();
    await part.getByText("3 other nodes are free, but not of store").waitFor();
    assert.equal(hash(page), "#/nodes?fabric=fabric%3Astore");
    await page.getByRole("link", { name: "Fabric" }).click();
    await visitor.sees("store: 2 nodes in 1 group"); // the address names it
    await page.reload();
    await visitor.sees("store: 2 nodes in 1 group");
    await page.goto(`${fixture.url}#/nodes?partition=mai`);
    await part.getByText("There is no node in this partition.").waitFor();
    await visitor.leave();
  },
);

pageTest(
  "before Slurm was asked nothing is said of what there is",
  () => [],
  async (fixture) => {
    fixture.topology = makeTopology();
    fixture.nodeAnswer = { taken_at: null, age_seconds: null };
    const visitor = await arrive(fixture, "#/nodes?node=gpu-003");
    const { page } = visitor;
    const part = page.getByRole("region", { name: "Free nodes together" });
    await part.getByText("Asking Slurm for its nodes…").waitFor();
    const panel = page.getByRole("region", { name: "Node gpu-003" });
    await panel.getByText("Loading node…").waitFor();
    assert.equal(await page.getByText(/No node|does not list/).count(), 0);
    site(fixture);
    fixture.nodeAnswer = {};
    await panel.locator("dl").waitFor();
    await part.getByText(/^Up to \d free nodes of compute/).waitFor();
    await visitor.leave();
  },
);

pageTest(
  "a page behind the last says so",
  () => [],
  async (fixture) => {
    site(fixture);
    fixture.nodes[31].name = "zzz"; // the last: nothing comes after it
    const visitor = await arrive(fixture, "#/nodes?after=zzz");
    const { page } = visitor;
    await visitor.sees("No node comes after this place in the list.");
    assert.ok(await page.getByRole("button", { name: "Previous" }).isDisabled()); // came by no page
    await page.getByRole("button", { name: "First" }).click();
    await rows(page).first().waitFor();
    await visitor.leave();
  },
);

pageTest(
  "Slurm's trouble is told in every look at its nodes, and only while it lasts",
  () => [],
  async (fixture) => {
    site(fixture);
    fixture.nodeAnswer = { trouble: "scontrol: timed out" };
    const visitor = await arrive(fixture);
    const { page } = visitor;
    await visitor.sees("scontrol: timed out");
    await page.getByRole("link", { name: "Grid" }).click();
    await page.locator(".cells path.box").first().waitFor();
    await visitor.sees("scontrol: timed out");
    fixture.nodeAnswer = {};
    await visitor.seesNoMore("scontrol: timed out");
    fixture.nodeAnswer = { trouble: "scontrol: gone again" };
    await visitor.sees("scontrol: gone again");
    await visitor.leave();
  },
);

pageTest(
  "a fabric that does not come is told over the nodes, too",
  () => [],
  async (fixture) => {
    site(fixture);
    const { topology } = fixture;
    fixture.topology = { status: 503, detail: `${kHostile} is away` };
    const visitor = await arrive(fixture, "#/nodes?view=fabric");
    await visitor.sees(`The fabric cannot be loaded: ${kHostile} is away. Trying again.`);
    fixture.topology = topology;
    await visitor.sees("compute: 32 nodes in 4 groups");
    await visitor.leave(/status of 503/);
  },
);

pageTest(
  "what takes itself away hands the focus to the search",
  () => [],
  async (fixture) => {
    site(fixture);
    const visitor = await arrive(fixture, "#/nodes?state=drained&text=ecc");
    const { page } = visitor;
    await rows(page).first().waitFor();
    await page.getByRole("button", { name: "Remove the filter state drained" }).focus();
    await page.keyboard.press("Enter");
    await hasFocus(page, ".filters .search");
    await page.waitForFunction(() => location.hash === "#/nodes?text=ecc");
    await page.getByRole("button", { name: "Remove all filters" }).focus();
    await page.keyboard.press("Enter");
    await hasFocus(page, ".filters .search");
    await page.waitForFunction(() => location.hash === "#/nodes");
    await page.keyboard.type("nowhere");
    await page.getByRole("button", { name: "Show all nodes" }).focus();
    await page.keyboard.press("Enter");
    await hasFocus(page, ".filters .search");
    await visitor.leave();
  },
);

pageTest(
  "Escape closes a node, and is nobody's while none is open",
  () => [],
  async (fixture) => {
    site(fixture);
    const visitor = await arrive(fixture);
    const { page } = visitor;
    await rows(page).first().waitFor();
    const listed = async () => {
      await page.keyboard.press("?");
      const dialog = page.getByRole("dialog");
      await dialog.getByText("Next node").waitFor();
      const count = await dialog.getByText("Close the node").count();
      await page.keyboard.press("Escape");
      await dialog.waitFor({ state: "detached" });
      return count;
    };
    assert.equal(await listed(), 0);
    await page.goto(`${fixture.url}#/nodes?node=gpu-006`);
    const panel = page.getByRole("region", { name: "Node gpu-006" });
    await panel.locator("dl").waitFor();
    assert.equal(await listed(), 1);
    await page.keyboard.press("Escape");
    await panel.waitFor({ state: "detached" });
    await visitor.leave();
  },
);

pageTest(
  "a list of nodes half typed is wrong at its field, and nothing cries out",
  () => [],
  async (fixture) => {
    site(fixture);
    const visitor = await arrive(fixture);
    const { page } = visitor;
    await rows(page).first().waitFor();
    await page.locator("summary", { hasText: "Filters" }).click();
    const field = page.getByRole("textbox", { name: "Nodes", exact: true });
    fixture.refusalOfNodes = "nodes: gpu-[00: a bracket is open";
    fixture.parameterOfNodes = "nodes";
    await field.fill("gpu-[00");
    await page.locator(".wrong", { hasText: "a bracket is open" }).waitFor();
    assert.equal(await field.getAttribute("aria-invalid"), "true");
    const described = await field.getAttribute("aria-describedby");
    const text = await page.locator(`[id="${described}"]`).innerText();
    assert.equal(text, fixture.refusalOfNodes);
    assert.equal(await page.getByRole("alert").count(), 0);
    fixture.refusalOfNodes = null;
    await field.fill("gpu-[001-002]");
    await page.locator(".wrong").waitFor({ state: "detached" });
    await page.waitForFunction(
      () => document.querySelectorAll("table.nodes tbody tr").length === 2,
    );
    assert.equal(await field.getAttribute("aria-invalid"), null);
    await visitor.leave(/status of 400/);
  },
);

pageTest(
  "cells are read out as keys lead to them, not as the pointer passes",
  () => [],
  async (fixture) => {
    site(fixture);
    fixture.nodes[2].gpus_allocated = 3;
    const visitor = await arrive(fixture, "#/nodes?view=grid");
    const { page } = visitor;
    await page.locator(".cells path.box").first().waitFor();
    const live = () => page.locator(".map-readout").getAttribute("aria-live");
    await page.locator(".cells").hover({ position: { x: 30, y: 12 } });
    await page.locator(".map-readout", { hasText: "gpu-002" }).waitFor();
    assert.equal(await live(), "off");
    await page.locator(".cells").focus();
    await page.keyboard.press("ArrowRight");
    await page.locator(".map-readout", { hasText: "gpu-003" }).waitFor();
    assert.equal(await live(), "polite");
    const { state, gpus, gpus_allocated: used } = fixture.nodes[2];
    const words = `gpu-003: ${state} · ${used} of ${gpus.count} GPUs in use`;
    assert.ok((await page.locator(".map-readout").innerText()).startsWith(words), words);
    await visitor.leave();
  },
);

pageTest(
  "what is given and what is avoided is said below the table, not in a title alone",
  () => [],
  async (fixture) => {
    site(fixture);
    const visitor = await arrive(fixture, "#/nodes", { viewport: { width: 390, height: 844 } });
    await visitor.sees(/In use: given to jobs, of all\. From a suspicion of 0\.9 on/);
    await visitor.leave();
  },
);

const finding = (more = {}) => ({
  id: "nic.slow",
  severity: "warning",
  subject: "gpu-003/nic:mlx5_2",
  words: "The port runs at 200 Gbit/s, its like at 400.",
  evidence: [],
  cost_gb_per_s: 25,
  cost_milliseconds: null,
  remedy: "Clean or change the cable.",
  node: "gpu-003",
  ...more,
});

pageTest(
  "what the doctor finds stands below the nodes and beside its node, as text",
  () => [],
  async (fixture) => {
    site(fixture);
    const error = { severity: "error", words: kHostile, remedy: kHostile, node: null };
    const notes = Array.from({ length: 9 }, (_, i) =>
      finding({ severity: "note", words: `Note ${i}.`, node: `gpu-00${1 + (i % 2)}`, cost_gb_per_s: null }),
    );
    fixture.findings = { total: 1200, findings: [finding(error), finding(), ...notes] };
    const visitor = await arrive(fixture);
    const { page } = visitor;
    const part = page.getByRole("region", { name: "What the doctor finds" });
    await part.getByText("1 error, 1 warning, 9 notes, the worst 11 of 1,200").waitFor();
    const items = part.getByRole("listitem");
    assert.equal(await items.count(), 8);
    assert.match(await items.nth(1).innerText(), /Warning\s+The port runs at 200.*gpu-003 costs about 25/s);
    assert.equal(await page.locator("main img").count(), 0);
    await part.getByRole("button", { name: "All 11" }).press("Enter");
    assert.equal(await items.count(), 11);
    await items.nth(1).getByRole("link", { name: "gpu-003" }).press("Enter");
    const panel = page.getByRole("region", { name: "Node gpu-003" });
    await panel.getByRole("heading", { name: "What the doctor finds 1 warning" }).waitFor();
    assert.equal(await panel.getByText("Clean or change the cable.").count(), 1);
    await page.evaluate(() => (location.hash = "#/nodes?node=gpu-004"));
    await page.getByRole("heading", { name: "Node gpu-004" }).waitFor();
    const other = page.getByRole("region", { name: "Node gpu-004" });
    assert.equal(await other.getByText("What the doctor finds").count(), 0);
    await visitor.leave();
  },
);

pageTest("machines without a fault have no part for faults", () => [], async (fixture) => {
  site(fixture, 8);
  fixture.findings = { total: 0, findings: [] };
  const visitor = await arrive(fixture);
  await visitor.sees("Free nodes together");
  assert.equal(await visitor.page.getByText("What the doctor finds").count(), 0);
  await visitor.leave();
});

pageTest("a controller that knows no findings is asked for them once", () => [], async (fixture) => {
  site(fixture, 8);
  fixture.findings = { status: 404, code: "not_found", detail: "no such route" };
  const visitor = await arrive(fixture);
  await visitor.sees("Free nodes together");
  const asked = () => fixture.count("GET", "/api/v1/topology/findings");
  while (asked() === 0) await visitor.page.waitForTimeout(50);
  await visitor.page.waitForTimeout(500);
  await visitor.page.evaluate(() => void document.dispatchEvent(new Event("visibilitychange")));
  await visitor.page.waitForTimeout(500); // what is asked again is asked at once then
  assert.equal(asked(), 1);
  await visitor.leave(/status of 404/);
});

pageTest("a node's answer that comes late is not another node's", () => [], async (fixture) => {
  site(fixture);
  fixture.nodes[2].reason = "of the third";
  fixture.nodes[3].reason = "of the fourth";
  const visitor = await arrive(fixture, "#/nodes?view=grid");
  const { page } = visitor;
  await page.locator(".cells path.box").first().waitFor();
  let letGo;
  const held = new Promise((done) => (letGo = done));
  await page.route(/name=gpu-003/, async (route) => {
    const response = await route.fetch();
    await held;
    await route.fulfill({ response }).catch(() => undefined); // nobody waits for it any more
  });
  const asked = page.waitForRequest(/name=gpu-003/);
  await page.evaluate(() => void (location.hash = "#/nodes?view=grid&node=gpu-003"));
  await asked;
  await page.evaluate(() => void (location.hash = "#/nodes?view=grid&node=gpu-004"));
  const panel = page.getByRole("region", { name: "Node gpu-004" });
  await panel.getByText("of the fourth").waitFor();
  letGo();
  for (let i = 0; i < 10; i += 1) {
    await page.waitForTimeout(50);
    assert.equal(await panel.getByText("of the third").count(), 0);
  }
  await visitor.leave(/ERR_ABORTED/);
});
