// The machines and their fabric: the rules by which devices and nodes are placed, against the
// command line's answers and figures that were computed by hand; and the run's Plan tab with them.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readdirSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { kHostile, makeEvent, makePlan, ranksRun } from "./fixture.mjs";
import { makeNodes, makeTopology } from "./machines.mjs";
import { Seeded, missingController, seededTest } from "./seeded.mjs";
import { Visitor, browser, pageTests } from "./setup.mjs";
import { sourcesOf } from "./sources.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
const { Graph, oddOf, matrixOf, fabric, hosts, map, measured } = await sourcesOf(`export { Graph, oddOf } from "./src/topology/graph";
      export { matrixOf } from "./src/topology/paths";
      export * as fabric from "./src/topology/fabric";
      export * as hosts from "./src/topology/hostlist";
      export * as map from "./src/topology/map_layout";
      export * as measured from "./src/plan/measured";`);
const plain = (text) => text.replaceAll("\u202f", " ");
const binary = process.env.REGATTA_BINARY ? resolve(process.env.REGATTA_BINARY) : null;
const examples = join(root, "topology", "examples");
const topo = (...words) => execFileSync(binary, ["topo", ...words], { encoding: "utf8" });

test("lists of hosts are read and written as Slurm has them", () => {
  const rows = [
    ["gpu-[016-017]", ["gpu-016", "gpu-017"]],
    ["a,b", ["a", "b"]],
    ["dgx[01-02,09],login", ["dgx01", "dgx02", "dgx09", "login"]],
    ["r[1-2]n[08-09]", ["r1n08", "r1n09", "r2n08", "r2n09"]],
    ["odd[x-y]", ["odd[x-y]"]],
    ["down[9-1]", ["down[9-1]"]],
    ["", []],
  ];
  for (const [text, names] of rows) assert.deepEqual(hosts.expandHosts(text), names, text);
  const written = [
    [["gpu-016", "gpu-017"], "gpu-[016-017]"],
    [["n1", "n2", "n4"], "n[1-2,4]"],
    [["login"], "login"],
    [["b", "a", "b"], "b,a"],
    [["leaf9", "leaf10"], "leaf9,leaf10"],
    [[], ""],
  ];
  for (const [names, text] of written) assert.equal(hosts.compressHosts(names), text);
  const names = Array.from({ length: 1024 }, (_, n) => `x${String(n).padStart(4, "0")}`);
  assert.deepEqual(hosts.expandHosts(hosts.compressHosts(names)), names);
});

test(
  "the matrix of each example is the command line's",
  { skip: binary ? false : "REGATTA_BINARY is not set" },
  () => {
    let cells = 0;
    for (const name of readdirSync(examples).filter((file) => file.endsWith(".yaml"))) {
      const graph = new Graph(JSON.parse(topo(join(examples, name), "-o", "json")));
      const lines = topo(join(examples, name)).split("\n");
      const first = lines.findIndex((line) => /^\s+GPU0/.test(line));
      const columns = lines[first].trim().split(/\s+/);
      const node = graph.ofKind("node")[0].id;
      const matrix = matrixOf(graph, node);
      assert.deepEqual([...matrix.columns.map(({ label }) => label), "NUMA"], columns, name);
      matrix.rows.forEach((row, i) => {
        const own = [row.label, ...row.cells.map(({ text }) => text.replace("–", "-")), row.numa];
        assert.deepEqual(own, lines[first + 1 + i].trim().split(/\s+/), `${name}, ${row.label}`);
        cells += row.cells.length;
      });
      const legend = lines.slice(first + matrix.rows.length + 2);
      assert.deepEqual(
        matrix.legend.map((words) => words.join("  ")),
        legend.slice(0, legend.findIndex((line) => !/^[A-Z0-9?]+ {2}/.test(line))),
        name,
      );
    }
    assert.ok(cells > 200, `${cells} cells`);
  },
);

test("speeds of a matrix are those of the narrowest part", () => {
  const { graph: file } = makeTopology({ leaves: 1, perLeaf: 1 });
  const matrix = matrixOf(new Graph(file), "gpu-001");
  const cell = (row, label) => {
    const at = matrix.columns.findIndex((column) => column.label === label);
    const { text, gbPerSecond } = matrix.rows[row].cells[at];
    return [text, gbPerSecond];
  };
  assert.deepEqual(cell(0, "GPU7"), ["NV18", 450]); // 18 links together
  assert.deepEqual(cell(0, "mlx5_0"), ["PIX", 50]); // the port's 400 Gbit/s, not the slot's 63 GB/s
  assert.deepEqual(cell(0, "mlx5_4"), ["SYS", 22]); // between the sockets
  assert.deepEqual(cell(4, "mlx5_5"), ["PHB", 50]);
});

test("what a source says of a device that is not well stands beside it", () => {
  const file = {
    regatta_graph: 1,
    sources: [{ source: "derived", place: "" }, { source: "nvml", place: "a" }],
    vertices: [],
    links: [],
  };
  const graph = new Graph(file);
  const odd = (kind, ...facts) => oddOf(graph, { kind, id: "x", facts });
  assert.deepEqual(odd("gpu", ["nvlinks_down", 2, 1]), ["2 NVLinks are down"]);
  assert.deepEqual(odd("gpu", ["pcie_width", 8, 1], ["pcie_max_width", 16, 0]), ["PCIe ×8 of ×16"]);
  assert.deepEqual(odd("nic", ["state", "down", 1]), ["port is down"]);
  assert.deepEqual(odd("nic", ["state", "active", 1], ["gdr", 1, 1]), []);
  // The more trusted source counts, in whichever order they stand.
  const facts = [
    ["nvlinks", 18, 0],
    ["nvlinks", 17, 1],
  ];
  assert.equal(graph.number({ facts }, "nvlinks"), 17);
  assert.equal(graph.number({ facts: facts.reverse() }, "nvlinks"), 17);
});

const small = () => {
  const { graph } = makeTopology({ leaves: 4, perLeaf: 4, gpus: 2 });
  return fabric.fabricsOf(new Graph(graph))[0];
};

test("nodes are grouped by their leaves, which the spines join", () => {
  const found = small();
  assert.deepEqual(found.groups.map(({ name }) => name), ["leaf1", "leaf2", "leaf3", "leaf4"]);
  assert.deepEqual(found.groups[1].nodes, ["gpu-005", "gpu-006", "gpu-007", "gpu-008"]);
  const spines = { level: 1, name: "spine[1-2]", switches: 2, groups: [0, 1, 2, 3] };
  assert.deepEqual(found.tiers, [spines]);
  assert.deepEqual(found.between[0], [1, 3, 3, 3]); // itself; leaf, spine, leaf
});

test("a placement counts pairs by switches and how often a ring leaves a leaf", () => {
  const at = fabric.placementOf(small(), ["gpu-001", "gpu-005", "gpu-002", "gpu-006", "elsewhere"]);
  assert.deepEqual(at.groups.map(({ index, nodes }) => [index, nodes.length]), [[0, 2], [1, 2]]);
  // 4 nodes have 6 pairs: 2 within a leaf, 4 between them.
  assert.deepEqual(at.pairs, [{ switches: 1, count: 2 }, { switches: 3, count: 4 }]);
  assert.deepEqual([at.changes, at.leastChanges, at.missing], [4, 2, ["elsewhere"]]);
  const better = fabric.placementOf(small(), ["gpu-001", "gpu-002", "gpu-005", "gpu-006"]);
  assert.equal(better.changes, 2);
  assert.equal(fabric.placementOf(small(), ["gpu-001", "gpu-002"]).changes, 0);
});

test("free nodes together say which sizes start now", () => {
  const free = new Set(["gpu-001", "gpu-002", "gpu-003", "gpu-005", "gpu-006", "gpu-009"]);
  const told = (name) => (name === "gpu-016" ? null : free.has(name));
  const found = fabric.segmentsOf(small(), told);
  assert.deepEqual([found.free, found.largest, found.unknown], [6, 3, 1]);
  // Of 3, 2 and 1 free nodes: 6 runs of one, 2 of two, none of four.
  assert.deepEqual(found.sizes, [
    { size: 1, segments: 6 },
    { size: 2, segments: 2 },
    { size: 4, segments: 0 },
  ]);
  const none = fabric.segmentsOf(small(), () => false);
  assert.deepEqual([none.free, none.largest], [0, 0]);
});

test(
  "Slurm's trees and blocks are fabrics, too",
  { skip: binary ? false : "REGATTA_BINARY is not set" },
  () => {
    const read = (text) => {
      const place = join(process.env.TMPDIR ?? "/tmp", `topology-${process.pid}.txt`);
      writeFileSync(place, text);
      return fabric.fabricsOf(new Graph(JSON.parse(topo(place, "-o", "json"))))[0];
    };
    const tree = read(
      "SwitchName=l1 Nodes=n[1-2]\nSwitchName=l2 Nodes=n[3-4]\nSwitchName=l3 Nodes=n[5-6]\n" +
        "SwitchName=s1 Switches=l[1-2]\nSwitchName=s2 Switches=l3\n" +
        "SwitchName=core Switches=s[1-2]\n",
    );
    assert.deepEqual(tree.tiers.map(({ level, name, groups }) => [level, name, groups]), [
      [1, "s1", [0, 1]],
      [1, "s2", [2]],
      [2, "core", [0, 1, 2]],
    ]);
    assert.deepEqual(tree.between[0], [1, 3, 5]);
    const blocks = read("BlockName=b1 Nodes=n[1-8]\nBlockName=b2 Nodes=n[9-16]\nBlockSizes=4,8\n");
    assert.ok(blocks.isBlock);
    const found = fabric.segmentsOf(blocks, (name) => Number(name.slice(1)) <= 13);
    assert.deepEqual(found.sizes, [
      { size: 1, segments: 13 },
      { size: 4, segments: 3 },
      { size: 8, segments: 1 },
    ]);
  },
);

test("a thousand nodes are grouped and laid out quickly", () => {
  const { graph: file } = makeTopology({ leaves: 32, perLeaf: 32 });
  const begin = performance.now();
  const graph = new Graph(file);
  const [found] = fabric.fabricsOf(graph);
  const layout = map.layoutMap(found.groups, found.tiers, 1072);
  const milliseconds = performance.now() - begin;
  console.log(`1,024 nodes, ${file.vertices.length} vertices: ${milliseconds.toFixed(0)} ms`);
  assert.equal(layout.cells.length, 1024);
  assert.ok(milliseconds < 5000, `${milliseconds} ms`);
});

test("cells lie in rows of groups, and arrow keys lead from one to the next", () => {
  const groups = [
    { name: "a", nodes: ["a1", "a2", "a3", "a4", "a5"] },
    { name: "b", nodes: ["b1"] },
  ];
  const tier = { level: 1, name: "s", switches: 1, groups: [0, 1] };
  const layout = map.layoutMap(groups, [tier], 30 + 120 + 4 * map.kPitch + 5);
  assert.equal(layout.perLine, 4);
  const names = (key, from) => layout.cells[map.neighbour(layout.cells, from, key)].node;
  assert.equal(names("ArrowRight", 0), "a2");
  assert.equal(names("ArrowLeft", 0), "a1");
  assert.equal(names("ArrowDown", 3), "a5");
  assert.equal(names("ArrowDown", 4), "b1");
  assert.equal(names("ArrowUp", 5), "a5");
  assert.equal(names("End", 0), "b1");
  for (const cell of layout.cells) {
    assert.equal(layout.cells[map.cellAt(layout.cells, cell.x + 1, cell.y + 1)].node, cell.node);
    assert.ok(cell.x + map.kCell <= layout.width, cell.node);
  }
  assert.equal(map.cellAt(layout.cells, 1, 1), null);
  const [bar] = layout.bars;
  assert.ok(bar.y <= layout.labels[0].y && bar.y + bar.height >= layout.labels[1].y);
  const nodes = Array.from({ length: 5000 }, (_, n) => `n${n}`);
  const many = map.layoutMap([{ name: "", nodes }], [], 390);
  assert.equal(many.cells.length + many.leftOut, 5000);
  assert.ok(many.leftOut > 0);
});

test("buckets are compared where the step was cut as planned", () => {
  const bucket = (n) => ({ bytes: n, ready_seconds: 0, start_seconds: n, end_seconds: n + 1 });
  const step = { compute_seconds: 3, buckets: [bucket(1), bucket(2)] };
  const timeline = { bucket_count: 2, buckets: [[0, 1, 1, 3], [1, 2, 2, 2.5]] };
  const found = measured.compare(step, timeline);
  assert.deepEqual(found.pairs.map(({ change }) => change), [1, -0.5]);
  const { predictedSum, measuredSum, median, span } = found;
  assert.deepEqual([predictedSum, measuredSum, median, span], [2, 2.5, 0.5, 3]);
  assert.equal(measured.compare(step, { ...timeline, bucket_count: 3 }), null);
  const lost = { bucket_count: 2, buckets: [[0, 1, null, 3], [1, 2, 2, 2.5]] };
  assert.deepEqual(measured.compare(step, lost).pairs.map(({ index }) => index), [1]);
});

test("a bucket goes the way that NCCL is told for its size", () => {
  const ranges = makePlan().nccl.ranges;
  const way = (bytes) => measured.wayOf(ranges, "AllReduce", bytes)?.algorithm ?? null;
  assert.deepEqual([65_535, 65_536, 1_048_575, 1_048_576, 8_388_608, 2 ** 40].map(way), [
    null,
    "Tree",
    "Tree",
    null,
    "Ring",
    "Ring",
  ]);
  assert.equal(measured.wayOf(ranges, "Broadcast", 65_536), null);
  const sizes = [9e6, 5e6, 4e6].map((bytes) => ({ bytes }));
  const ways = measured.waysOf(ranges, "AllReduce", sizes);
  assert.deepEqual(
    ways.map(({ buckets, least, most, range }) => [buckets, least, most, range?.protocol]),
    [
      [2, 4e6, 5e6, undefined],
      [1, 9e6, 9e6, "Simple"],
    ],
  );
});

// The Plan tab in a browser.
const pageTest = pageTests();
const arrive = (fixture, options) =>
  Visitor.arrive(browser, `${fixture.url}#/runs/${fixture.entries[0].run.id}/plan`, options);
const flat = async (locator) => plain((await locator.innerText()).replace(/[^\S\u202f]+/g, " "));
const overflow = (page) =>
  page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

pageTest(
  "each bucket's reduction stands beside its prediction",
  () => [ranksRun()],
  async (fixture) => {
    const visitor = await arrive(fixture);
    const { page } = visitor;
    const part = page.getByRole("region", { name: "Predicted against measured" });
    await part.waitFor();
    const { plan, metrics } = fixture.entries[0];
    const sum = plan.timeline.communication_seconds * 1000;
    const text = await flat(part);
    assert.ok(text.includes(`take ${sum.toFixed(1)} ms as predicted, 150 ms as measured`), text);
    assert.equal(await part.locator("table").count(), 0);
    await part.getByRole("button", { name: "Table: Predicted against measured" }).focus();
    await page.keyboard.press("Enter");
    const rows = await part.locator("tbody tr").allInnerTexts();
    assert.equal(rows.length, 12);
    const last = plain(rows[11]).split("\t");
    const bucket = plan.timeline.buckets[11];
    const length = bucket.end_seconds - bucket.start_seconds;
    const near = (cell, figure) => assert.ok(Math.abs(Number(cell) / figure - 1) < 1e-4, cell);
    assert.equal(last[0], "12");
    near(last[2], 1000 * bucket.start_seconds);
    near(last[6], 1000 * length);
    near(last[7], 12.5);
    near(last[8], 100 * (0.0125 / length - 1));
    await part.locator("summary", { hasText: "Options" }).click();
    const [picture] = await Promise.all([
      page.waitForEvent("download"),
      part.getByRole("button", { name: "Save as PNG" }).click(),
    ]);
    assert.equal(picture.suggestedFilename(), "predicted-against-measured.png");
    // The drawing's bars end where the longest of them does.
    const ends = await part.locator("path.measured").evaluate((path) => {
      const box = path.getBBox();
      return [box.x + box.width, path.ownerSVGElement.width.baseVal.value];
    });
    const span = Math.max(...metrics.timeline.buckets.map(([, , , end]) => end));
    const whole = Math.max(span, bucket.end_seconds);
    assert.ok(Math.abs(ends[0] - (64 + ((ends[1] - 68) * span) / whole)) < 1.5, `${ends}`);
    await visitor.leave();
  },
);

pageTest(
  "a step that was cut otherwise is not compared",
  () => [ranksRun()],
  async (fixture) => {
    fixture.entries[0].metrics.timeline.bucket_count = 3;
    const words = ["chose 25 MB: 2 buckets", `chose ${kHostile}: 3 buckets`];
    fixture.entries[0].events = words.map((text, n) => makeEvent(n, "plan.tried", { words: text }));
    const visitor = await arrive(fixture);
    await visitor.sees("was reduced in 3 buckets, the plan has 12: they cannot");
    await visitor.sees(`Its trial of cuts chose ${kHostile}: 3 buckets.`);
    const { timeline, steps } = fixture.entries[0].metrics;
    const train = () => {
      const [step, seconds, ...rest] = steps.at(-1);
      steps.push([step + 1, seconds + 0.11, ...rest]);
    };
    timeline.bucket_count = 12;
    timeline.buckets[3][1] += 4;
    train();
    await visitor.sees("was reduced in 12 buckets, the plan has 12 of other sizes: they cannot");
    timeline.buckets[3][1] -= 4;
    train();
    await visitor.page.locator("svg.against").waitFor(); // drawn late as well
    await visitor.leave();
  },
);

pageTest(
  "algorithm and protocol by size, balancing and who is behind",
  () => [ranksRun()],
  async (fixture) => {
    // Slurm gave other nodes than the plan was made on.
    const attempt = { attempt: 1, launch: 1, hosts: ["gpu-011", "gpu-007"], ranks_per_node: 4 };
    fixture.entries[0].attempts = { launches: [], attempts: [attempt] };
    fixture.entries[0].metrics.rank_shares = {
      step: 601,
      tokens: [4000, 4010, 3990, 4000, 4000, 4000, 4040, null],
      compute_seconds: [0.1, 0.1, 0.1, 0.1, 0.1, 0.15, 0.1, 0.1],
    };
    const visitor = await arrive(fixture);
    const { page } = visitor;
    const nccl = page.getByRole("region", { name: "NCCL", exact: true });
    await nccl.waitFor();
    const text = await flat(nccl);
    const bytes = fixture.entries[0].plan.timeline.buckets.map((bucket) => bucket.bytes);
    const large = bytes.filter((size) => size >= 8_388_608).length;
    assert.equal(large, 1);
    await nccl.getByText("NCCL's own, of the same call.").waitFor(); // no title holds it alone
    const ways = "11 buckets of 4.19 MB: NCCL's own choice; 1 bucket of 13.4 MB: Ring / Simple.";
    assert.ok(text.includes(ways), text);
    assert.equal(await nccl.locator("rect.told").count(), 2);
    const balance = page.getByRole("region", { name: "Balancing" });
    const said = await flat(balance);
    assert.match(said, /Imbalance 1\.0123 largest \/ mean tokens/);
    assert.match(said, /global_presort in the run file 109 ms/);
    await visitor.sees(/^Rank 5 of 8 on gpu-007 is furthest behind: backward of step 601 for 31.ms/);
    const heads = await balance.locator("table.strategies th[scope=col]").allInnerTexts();
    assert.deepEqual(heads.map((head) => head.trim().toLowerCase()), [
      "strategy",
      "as a bar",
      "predicted step",
    ]);
    const mark = await balance.locator("rect.behind").boundingBox();
    const all = await balance.locator("rect.all").boundingBox();
    assert.ok(Math.abs((mark.x - all.x) / all.width - 5 / 8) < 0.01);
    // What each rank did, as bars and as a table.
    const bars = balance.getByRole("figure");
    await bars.getByRole("heading", { name: "Ranks in step 601" }).waitFor();
    await bars.getByText(/^The others wait for rank 5 on gpu-007 \(1\.41 × the mean\)\.$/).waitFor();
    await bars.getByText(/^Tokens of each rank: 3,990 to 4,040, mean 4,006$/).waitFor();
    const slow = await bars.locator("path.behind").last().boundingBox();
    const ground = await bars.locator("svg").last().boundingBox();
    assert.ok(Math.abs((slow.x - ground.x) / ground.width - 5 / 8) < 0.01);
    assert.ok(Math.abs(slow.height - ground.height) < 1, "it is the highest");
    await bars.getByRole("button", { name: "Table: Ranks in step 601" }).press("Enter");
    const row = bars.locator("tbody tr").nth(5).locator("th, td");
    assert.deepEqual(await row.allInnerTexts(), ["5", "gpu-007", "4,000", "0.15"]);
    // The hosts of GPUs tell no seconds, and no rank is called as fast as the others for that.
    const { rank_shares: shares, steps } = fixture.entries[0].metrics;
    Object.assign(shares, { step: 602, compute_seconds: [] });
    const [step, seconds, ...rest] = steps.at(-1);
    steps.push([step + 1, seconds + 0.11, ...rest]);
    await bars.getByText(/^How long each computed is not known: .* GPU only enqueues\.$/).waitFor();
    assert.equal(await bars.locator("svg").count(), 1, "of tokens");
    await visitor.leave();
  },
);

pageTest(
  "the run's nodes are marked in the fabric, by key alone",
  () => {
    const entry = ranksRun();
    entry.launches = [
      { launch: 1, nodes: "gpu-[001-002]" },
      { launch: 2, nodes: "gpu-[008-009]" },
    ];
    return [entry];
  },
  async (fixture) => {
    fixture.nodes = makeNodes(32);
    fixture.topology = makeTopology();
    const visitor = await arrive(fixture);
    const { page } = visitor;
    const part = page.getByRole("region", { name: "Placement" });
    const open = part.getByRole("button", { name: "Show the nodes in the fabric" });
    await open.waitFor();
    assert.equal(fixture.count("GET", "/api/v1/topology"), 0); // nobody has looked at it
    await open.focus();
    await page.keyboard.press("Enter");
    await visitor.sees("2 nodes in 2 of 4 leaf groups.");
    await visitor.sees("Between its nodes: 1 pair over 3 switches.");
    await visitor.sees("the nodes of its newest launch");
    const marks = await part.locator("path.marks").getAttribute("d");
    assert.equal(marks.split("M").length - 1, 2);
    const cells = part.getByRole("application");
    await cells.focus();
    for (let n = 0; n < 8; n += 1) await page.keyboard.press("ArrowRight");
    await part.getByText(/^gpu-009: /).waitFor();
    await part.getByText("leaf2", { exact: true }).last().waitFor();
    await page.keyboard.press("Enter");
    const matrix = part.getByRole("region", { name: "Devices of gpu-009" });
    const row = await matrix.locator("tbody tr").first().innerText();
    assert.match(plain(row), /^GPU0\s+–\s+NV18\s*450/);
    await part.getByRole("button", { name: "As a table" }).focus();
    await page.keyboard.press("Enter");
    const rows = await part.locator(".group-table tbody tr").allInnerTexts();
    assert.deepEqual(rows.map((line) => line.trim().split(/\s+/).at(-1)), ["1", "1", "0", "0"]);
    assert.equal(fixture.count("GET", "/api/v1/topology"), 1);
    await visitor.keepPicture("plan-placement");
    await visitor.leave();
  },
);

for (const width of [390, 1440]) {
  pageTest(
    `the tab with all of its parts fits ${width} pixels`,
    () => [ranksRun()],
    async (fixture) => {
      fixture.topology = makeTopology();
      const visitor = await arrive(fixture, { viewport: { width, height: 844 } });
      const { page } = visitor;
      await page.getByRole("button", { name: "Show the nodes in the fabric" }).click();
      await visitor.sees("Not in this fabric: node[01-02].");
      for (const name of ["As a table", /^Table: /]) {
        const tables = page.getByRole("button", { name });
        for (const button of await tables.all()) await button.click();
      }
      await page.getByRole("region", { name: /by size of a call, table/ }).waitFor();
      assert.equal(await overflow(page), 0);
      await visitor.keepPicture(`plan-parts-${width}`);
      await visitor.leave();
    },
  );
}

// Against the controller, with a description of its machines.
const noController = missingController();
const seededPage = seededTest(noController);
let seeded;
before(async () => {
  if (noController) return;
  const prepare = (folder) => {
    writeFileSync(
      join(folder, "cluster.yaml"),
      `cluster: seeded
nodes:
  box:
    names: gpu-[001-032]
    model: PCIe server
    gpus: {model: NVIDIA L40S, count: 8}
    cpus: {vendor: GenuineIntel, sockets: 2, cores_per_socket: 32, threads_per_core: 2}
    pcie: {generation: 4, width: 16, switches: 2}
    nics:
      compute: {model: ConnectX-6 Dx, count: 2, rate: 100GbE, near: gpus, fabric: ethernet}
fabrics:
  ethernet: {shape: fat_tree, rate: 100GbE, radix: 32}
`,
    );
    const plan = makePlan({ nodes: 2, ranksPerNode: 8 });
    for (const run of readdirSync(join(folder, "runs")).slice(0, 3)) {
      writeFileSync(join(folder, "runs", run, "plan.json"), JSON.stringify(plan));
    }
  };
  seeded = new Seeded({ runs: 8, prepare, options: [] });
  const serve = seeded.serve.bind(seeded);
  seeded.serve = (port) => {
    seeded.options.push("--cluster", join(seeded.folder, "cluster.yaml"));
    return serve(port);
  };
  await seeded.start();
});
after(() => seeded?.stop());

seededPage("a run of the controller lies in the fabric as its launch says", async () => {
  const { runs } = await seeded.ask("runs?limit=100");
  let id = null;
  for (const run of runs) {
    const plan = await seeded.ask(`runs/${run.id}/plan`);
    if (plan.bucket_ends) id ??= run.id;
  }
  assert.ok(id);
  const { graph: file } = await seeded.ask("topology?graph=true");
  const { launches } = await seeded.ask(`runs/${id}/attempts`);
  const names = hosts.expandHosts(launches.at(-1).nodes);
  // By the graph's own links: which leaf each node's first NIC is at.
  const leaf = (node) => {
    const isOf = ({ kind, a, b }) => kind === "fabric" && `${a} ${b}`.includes(`${node}/nic`);
    const { a, b } = file.links.find(isOf);
    return a.startsWith("switch") ? a : b;
  };
  const leaves = new Set(names.map(leaf));
  const visitor = await Visitor.arrive(browser, seeded.link(`/runs/${id}/plan`));
  const { page } = visitor;
  await page.getByRole("button", { name: "Show the nodes in the fabric" }).click();
  await visitor.sees(new RegExp(`^${names.length} nodes in ${leaves.size} of \\d+ leaf group`));
  await page.getByRole("button", { name: "Imbalance by step" }).click();
  const asked = `runs=${id}&series=imbalance&x=step&buckets=200`;
  const { runs: charts } = await seeded.ask(`metrics?${asked}`);
  const most = Math.max(...charts[0].steps.series.imbalance.map(([, high]) => high));
  await visitor.sees(`at most ${most.toFixed(4)}, in steps`);
  // The curve as figures, a row for each bucket of steps.
  await page.getByRole("button", { name: "Table: Imbalance by step" }).press("Enter");
  const points = charts[0].steps.buckets.filter((bucket, i) => {
    return !bucket.abandoned && charts[0].steps.series.imbalance[i][1] != null;
  });
  const last = page.getByRole("region", { name: "Imbalance by step, table" }).locator("tbody tr");
  const head = await last.first().locator("th").innerText();
  assert.equal(Number(head.replaceAll(",", "")), points[0].to_step);
  // And by key.
  const chart = page.getByRole("application", { name: "Imbalance by step" });
  await chart.focus();
  await page.keyboard.press("Home");
  await page.locator(".over-steps [aria-live=polite]", { hasText: "newest" }).waitFor();
  await visitor.keepPicture("plan-seeded");
  await visitor.leave();
});

seededPage("the fabric has as many nodes and switches as the controller says", async () => {
  const topology = await seeded.ask("topology");
  const visitor = await Visitor.arrive(browser, seeded.link("/nodes?view=fabric"));
  const { page } = visitor;
  const [first] = topology.fabrics;
  await visitor.sees(new RegExp(`^${first.name}: ${topology.nodes} nodes in \\d+ group`));
  const upper = first.tiers.filter(({ level }) => level > 0);
  const text = await page.locator(".fabric-text").innerText();
  for (const { level, switches } of upper) {
    assert.ok(text.includes(`level ${level}: ${switches} switch`), text);
  }
  await page.getByRole("button", { name: "As a table" }).click();
  const counts = await page.locator(".group-table td.names").allInnerTexts();
  assert.equal(counts.reduce((sum, words) => sum + parseInt(words, 10), 0), topology.nodes);
  await visitor.leave();
});
