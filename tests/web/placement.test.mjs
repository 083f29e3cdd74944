// What the page says of runs and machines, without a browser: on which node a rank is, how a run lies,
// what is free, and which answers are the same again.
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { makePlan } from "./fixture.mjs";
import { makeNodes, makeTopology } from "./machines.mjs";
import { sourcesOf } from "./sources.mjs";

const page = await sourcesOf(`export { nodeOfRank, nodesOf } from "./src/plan/placement";
      export { ownCut, unplannedText } from "./src/plan/plan";
      export { barsOf, farAbove, spreadOf } from "./src/plan/rank_shares";
      export { farText } from "./src/plan/rank_bars";
      export { isOtherCut, compare } from "./src/plan/measured";
      export { placementText } from "./src/topology/fabric_view";
      export { fabricsOf } from "./src/topology/fabric";
      export { Graph } from "./src/topology/graph";
      export { expandHosts } from "./src/topology/hostlist";
      export { freeText } from "./src/nodes/free_together";
      export { nodesApi } from "./src/nodes/nodes_api";
      export { isFree, isSuspect, standingOf, kStandingNames } from "./src/nodes/standing";
      export { get, getOnce } from "./src/base/request";`);
const plain = (text) => text.replaceAll("\u202f", " ");

test("ranks that a tenth more than the mean is computed on are those that are waited for", () => {
  const values = [1, 1.3, null, 0.9, 1.5, 1];
  assert.deepEqual(page.spreadOf(values), { least: 0.9, most: 1.5, mean: 1.14, worst: 4 });
  assert.deepEqual(page.farAbove(values), [4, 1]);
  assert.deepEqual(page.farAbove([2, 2.2, 2]), []); // 2.2 is 1.06 of the mean
  assert.deepEqual([page.spreadOf([]), page.spreadOf([null])], [null, null]);
  assert.deepEqual([page.farAbove([0, 0]), page.farAbove([null])], [[], []]);
});

test("three of those that are waited for are named, and the others counted", () => {
  const shares = (slow) => ({ compute_seconds: [...Array(20).fill(1), ...Array(slow).fill(2)] });
  const named = (slow) => page.farText(shares(slow), undefined).match(/rank \d+/g).length;
  assert.equal(page.farText(shares(0)), "No rank computes a tenth longer than the mean.");
  assert.equal(named(2), 2);
  assert.doesNotMatch(page.farText(shares(3)), /more/);
  const text = page.farText(shares(4));
  assert.match(text, /^The others wait for rank 20 \(1\.71 × the mean\), .* and 1 more\.$/);
  assert.equal(named(4), 3);
});

test("a bar is as high as its rank's share of the most", () => {
  const { all, far } = page.barsOf([1, null, 4], new Set([2]), { width: 30, height: 40 });
  assert.equal(all, "M0.00 40v-10.00h9.00V40z");
  assert.equal(far, "M20.00 40v-40.00h9.00V40z");
  assert.deepEqual(page.barsOf([0, 0], new Set(), { width: 30, height: 40 }), { all: "", far: "" });
  const many = page.barsOf(Array(1024).fill(1), new Set(), { width: 320, height: 40 }).all;
  assert.equal(many.split("M").length - 1, 1024);
});

test("a rank is on the node that the journal names, whatever was planned", () => {
  const attempt = { attempt: 2, hosts: ["gpu-017", "gpu-009"], ranks_per_node: 4 };
  assert.deepEqual(
    [0, 3, 4, 7, 8].map((rank) => page.nodeOfRank(rank, attempt)),
    ["gpu-017", "gpu-017", "gpu-009", "gpu-009", null],
  );
  assert.equal(page.nodeOfRank(1, undefined), null);
  assert.equal(page.nodeOfRank(1, { ...attempt, ranks_per_node: 0 }), null);
});

test("a run's nodes are its newest launch's, in the order of their ranks where that is known", () => {
  const launches = [
    { launch: 1, nodes: "n[1-3]" },
    { launch: 2, nodes: "n[10,12]" },
  ];
  const attempt = (launch, hosts) => ({ launch, hosts });
  const of = (some, attempts, plan = null) => page.nodesOf({ launches: some, attempts }, plan);
  assert.deepEqual(of(launches, []), {
    names: ["n10", "n12"],
    isInOrder: false,
    from: "of its newest launch",
  });
  const ordered = of(launches, [attempt(1, ["n3", "n1", "n2"]), attempt(2, ["n12", "n10"])]);
  assert.deepEqual([ordered.names, ordered.isInOrder], [["n12", "n10"], true]);
  // Hosts that Slurm calls otherwise, and those of another launch, say nothing of the order.
  assert.equal(of(launches, [attempt(2, ["n12.site", "n10.site"])]).isInOrder, false);
  assert.equal(of(launches, [attempt(1, ["n12", "n10"])]).isInOrder, false);
  const waiting = of([...launches, { launch: 3, nodes: "" }], []);
  assert.deepEqual(
    [waiting.names, waiting.from],
    [["n10", "n12"], "of launch 2, as launch 3 has none yet"],
  );
  assert.equal(of([], [], makePlan()).from, "that the plan names");
  assert.equal(of([], []), null);
});

const [fabric] = page.fabricsOf(new page.Graph(makeTopology({ leaves: 4, perLeaf: 4, gpus: 2 }).graph));

test("a ring is told of nodes in the order of their ranks alone", () => {
  const nodes = ["gpu-001", "gpu-005", "gpu-002", "gpu-006"];
  const ring = /A ring in the order of its ranks leaves a leaf group 4 times/;
  assert.match(page.placementText(fabric, { nodes, isInOrder: true }).join(" "), ring);
  const other = page.placementText(fabric, { nodes, isInOrder: false }).join(" ");
  assert.doesNotMatch(other, /ring/);
  assert.match(other, /4 nodes in 2 of 4 leaf groups/);
});

test("of nodes that a fabric has not, those that are not named are counted", () => {
  const nodes = Array.from({ length: 200 }, (_, n) => `x${String(n + 1).padStart(3, "0")}`);
  const text = (some) => page.placementText(fabric, { nodes: some, isInOrder: true }).join(" ");
  assert.equal(text(nodes), "Not in this fabric: x[001-064] and 136 more.");
  assert.equal(text(nodes.slice(0, 64)), "Not in this fabric: x[001-064].");
});

test("what is free names its fabric", () => {
  const text = (free, largest, isBlock = false) =>
    plain(page.freeText({ name: "ib-a", isBlock }, free, largest));
  assert.equal(text(0, 0), "No node of ib-a is free.");
  assert.equal(text(1, 1), "1 node of ib-a is free.");
  assert.equal(text(4, 4), "All 4 free nodes of ib-a lie in one leaf group.");
  assert.match(text(9, 3, true), /^Up to 3 free nodes of ib-a lie in one block; a run on up to 9 /);
  assert.match(text(3, 1), /^Up to 1 free node of ib-a lies in one leaf group/);
});

test("a list of hosts that would be endless stays one name", () => {
  const begin = performance.now();
  const text = "a[1-60000]b[1-60000]";
  assert.deepEqual(page.expandHosts(text), [text]);
  assert.equal(page.expandHosts("a[1-200]b[1-200]").length, 40_000);
  assert.ok(performance.now() - begin < 2000);
});

test("a step with as many buckets of other sizes is cut otherwise", () => {
  const bucket = (bytes) => ({ bytes, ready_seconds: 0, start_seconds: 1, end_seconds: 2 });
  const step = { compute_seconds: 3, buckets: [bucket(4), bucket(8)] };
  const timeline = (a, b) => ({ bucket_count: 2, buckets: [[0, a, 1, 3], [1, b, 2, 3]] });
  for (const [a, b, isOther] of [
    [4, 8, false],
    [8, 4, true],
    [4, 7, true],
    [null, null, false], // an old journal has no sizes
  ]) {
    assert.equal(page.isOtherCut(step, timeline(a, b)), isOther, `${a} ${b}`);
    assert.equal(page.compare(step, timeline(a, b)) == null, isOther, `${a} ${b}`);
  }
});

test("how a gradient is cut without a plan, or against it", () => {
  const of = (buckets) => ({ config: buckets && { buckets } });
  const kDefault = "No plan; default gradient buckets (4 MiB on CPU, 25 MiB on GPU).";
  const kOwn = "No plan; gradient buckets as in the run file.";
  for (const [buckets, own, text] of [
    [null, null, kDefault],
    [{}, null, kDefault],
    [{ by: "plan", bytes: 0 }, null, kDefault],
    [{ by: "bytes", bytes: 0 }, "bytes", kDefault],
    [{ by: "plan", bytes: 1e6 }, null, kOwn],
    [{ by: "per_layer" }, "per_layer", kOwn],
    ["odd", null, kDefault],
  ]) {
    assert.equal(page.ownCut(of(buckets)), own, JSON.stringify(buckets));
    assert.equal(page.unplannedText(of(buckets)), text, JSON.stringify(buckets));
  }
});

test("a node is avoided from the controller's limit on", () => {
  const node = (suspicion) => ({ state: "idle", usable: true, suspicion });
  for (const [suspicion, isAvoided] of [[0, false], [0.89, false], [0.9, true], [1, true]]) {
    assert.equal(page.isSuspect(node(suspicion)), isAvoided, `${suspicion}`);
    assert.equal(page.isFree(node(suspicion)), !isAvoided, `${suspicion}`);
  }
});

test("a legend's words hold for all of its states", () => {
  const name = (state) => page.kStandingNames[page.standingOf(state)];
  assert.match(name("powered down"), /powered down/);
  assert.match(name("failing"), /failing/);
  assert.doesNotMatch(name("blocked"), /down or/); // it waits for another node's job
});

// An API of pages with the ETags of their texts; `asked` has what came with each request.
function serve(answers) {
  const asked = [];
  globalThis.fetch = async (path, { headers }) => {
    const text = JSON.stringify(answers(path));
    const known = headers["if-none-match"];
    asked.push([path.replace("api/v1/", ""), known != null]);
    const options = { headers: { etag: text } };
    return known === text
      ? new Response(null, { status: 304, ...options })
      : new Response(text, { status: 200, ...options });
  };
  return asked;
}
const signal = new AbortController().signal;

test("nodes on several pages that are the same as before are the same object", async () => {
  const nodes = makeNodes(5);
  const asked = serve((path) => {
    const query = new URLSearchParams(path.split("?")[1]);
    const state = query.get("state");
    const of = nodes.filter((node) => state == null || node.state === state);
    const begin = of.findIndex(({ name }) => name === query.get("after")) + 1;
    const some = of.slice(begin, begin + 2);
    const next = begin + 2 < of.length ? some.at(-1).name : null;
    return { taken_at: "2026-11-30T00:00:00Z", total: of.length, next, nodes: some };
  });
  const all = () => page.nodesApi.all(signal);
  const first = await all();
  assert.deepEqual(first.nodes, nodes);
  assert.equal(first.next, null);
  const idle = await page.nodesApi.all(signal, "state=idle");
  assert.equal(await all(), first); // other filters between do not matter
  assert.equal(await page.nodesApi.all(signal, "state=idle"), idle);
  nodes[4].gpus_allocated = 7; // of the last page alone
  const last = await all();
  assert.notEqual(last, first);
  assert.equal(last.nodes[4].gpus_allocated, 7);
  assert.ok(asked.length > 9);
});

test("no node of a name is told once Slurm was asked, and not before", async () => {
  let taken_at = null;
  serve(() => ({ taken_at, total: 0, next: null, nodes: [] }));
  assert.equal(await page.nodesApi.one("n1", signal), undefined);
  taken_at = "2026-11-30T00:00:00Z";
  assert.equal(await page.nodesApi.one("n1", signal), null);
});

test("what is asked once is not kept", async () => {
  const asked = serve((path) => ({ path }));
  for (const ask of [page.get, page.getOnce]) {
    for (let n = 0; n < 2; n += 1) await ask(`once/${ask === page.get}`, signal, 1000);
  }
  assert.deepEqual(asked.map(([, known]) => known), [false, true, false, false]);
});
