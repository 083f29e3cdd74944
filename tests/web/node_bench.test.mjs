// What the page says of a node's newest bench (the fixture's answers).
import assert from "node:assert/strict";
import { findings } from "./axe.mjs";
import { kHostile } from "./fixture.mjs";
import { makeNodes, makeTopology } from "./machines.mjs";
import { Visitor, browser, pageTests } from "./setup.mjs";

const pageTest = pageTests();
const plain = (text) => text.replaceAll("\u202f", " ").replace(/\s+/g, " ");

const report = (more = {}) => ({
  id: "0123456789ab",
  at: "2026-11-20T10:00:00.000Z",
  machine_kind: "Some Processor, 8 threads",
  load_average: 0.1,
  disturbed: false,
  fleet_nodes: 8,
  against_fleet: [
    { part: "product", change: 0.012, noise: 0.01, figures: 6, slower: false },
    { part: "memory", change: -0.12, noise: 0.008, figures: 3, slower: true },
  ],
  earlier: 3,
  drift: [{ part: "memory", change: -0.002, noise: 0.01, figures: 3, slower: false }],
  slow: "12 % slower than the median of 8 nodes of its kind in memory",
  ...more,
});

// One node of eight has a bench.
function benched(fixture, bench) {
  fixture.nodes = makeNodes(8);
  fixture.topology = makeTopology({ leaves: 1, perLeaf: 8 });
  const node = fixture.nodes[3];
  node.bench = bench;
  node.bench_slow = bench.slow;
  return node;
}
const arrive = (fixture, name, options = {}) =>
  Visitor.arrive(browser, `${fixture.url}#/nodes?node=${encodeURIComponent(name)}`, options);

pageTest(
  "a slow node says in what, in the list and beside it",
  () => [],
  async (fixture) => {
    const node = benched(fixture, report());
    const visitor = await arrive(fixture, node.name);
    const { page } = visitor;
    const panel = page.locator(".node-bench");
    await panel.waitFor();
    const text = plain(await panel.innerText());
    assert.match(text, /Some Processor, 8 threads/);
    assert.match(text, /12 % slower than the median of 8 nodes of its kind in memory/);
    assert.doesNotMatch(text, /Not judged/);
    const cells = await panel
      .locator("tbody tr")
      .evaluateAll((rows) => rows.map((row) => [...row.cells].map((cell) => cell.innerText)));
    const [product, memory] = cells.map((row) => row.map(plain));
    assert.equal(product[0], "product");
    assert.match(product[1], /1\.2/);
    assert.doesNotMatch(product[1], /slower/);
    assert.equal(product[2], "–", "no earlier bench has it");
    assert.equal(memory[0], "memory");
    assert.match(memory[1], /12\.0.*slower/);
    assert.doesNotMatch(memory[2], /slower/);
    const row = plain(await page.locator(`tr[data-node="${node.name}"]`).innerText());
    assert.match(row, /12 % slower than the median/);
    const other = plain(await page.locator(`tr[data-node="${fixture.nodes[0].name}"]`).innerText());
    assert.doesNotMatch(other, /slower/);
    assert.deepEqual(await findings(page), []);
    await visitor.leave();
  },
);

pageTest(
  "what cannot be judged is said with the reason",
  () => [],
  async (fixture) => {
    const lonely = { fleet_nodes: 2, against_fleet: [], earlier: 1, drift: [], slow: "" };
    const node = benched(fixture, report({ ...lonely, disturbed: true, load_average: 5.25 }));
    const visitor = await arrive(fixture, node.name);
    const text = plain(await visitor.page.locator(".node-bench").innerText());
    assert.doesNotMatch(text, /slow/, "it is not known");
    assert.match(text, /nodes of its kind with a bench: 2, and 3 are needed/);
    assert.match(text, /earlier benches of its own: 1, and 2 are needed/);
    assert.match(text, /other work \(load 5\.25\)/);
    assert.equal(await visitor.page.locator(".bench-parts").count(), 0);
    await visitor.leave();
  },
);

pageTest(
  "that nothing is slow is said of a bench with others to compare",
  () => [],
  async (fixture) => {
    const even = [{ part: "memory", change: 0.01, noise: 0.008, figures: 3, slower: false }];
    const node = benched(fixture, report({ slow: "", against_fleet: even, drift: [], earlier: 0 }));
    const visitor = await arrive(fixture, node.name);
    const text = plain(await visitor.page.locator(".node-bench").innerText());
    assert.match(text, /Nothing in it is slow\./);
    assert.match(text, /earlier benches of its own: 0, and 2 are needed/);
    await visitor.leave();
  },
);

pageTest(
  "a node without a bench shows none, and hostile text stays text",
  () => [],
  async (fixture) => {
    const bad = `${kHostile}\u001b[31mred\u202eturned`;
    const one = { part: bad, change: -0.5, noise: 0.01, figures: 1, slower: true };
    const node = benched(fixture, report({ machine_kind: bad, slow: bad, against_fleet: [one] }));
    for (const width of [1200, 390]) {
      const visitor = await arrive(fixture, node.name, { viewport: { width, height: 844 } });
      const { page } = visitor;
      await page.locator(".node-bench").waitFor();
      assert.equal(await page.evaluate(() => window.stolen), undefined);
      assert.doesNotMatch(await page.locator(".node-bench").innerText(), /[\u001b\u202e]/);
      await page.goto(`${fixture.url}#/nodes?node=${fixture.nodes[0].name}`);
      await page.locator(".node-panel dl").waitFor();
      assert.equal(await page.locator(".node-bench").count(), 0);
      await visitor.leave();
    }
  },
);
