// Made-up machines for the fixture: nodes as Slurm has them, a fabric, the API's answers of both.
// Slurm's nodes: leaves × nodes on each, of two partitions, in states that follow a pattern.
const kPattern = ["idle", "idle", "allocated", "mixed", "idle", "drained", "idle", "down"];
const nameOfNode = (n) => `gpu-${String(n + 1).padStart(3, "0")}`;
export function makeNode(n, fields = {}) {
  const state = kPattern[(n + (n >> 4)) % kPattern.length];
  const used = { allocated: 8, mixed: 3 }[state] ?? 0;
  return {
    name: nameOfNode(n),
    state,
    slurm_state: state === "drained" ? "IDLE+DRAIN" : state.toUpperCase(),
    usable: !["drained", "down"].includes(state),
    reason: state === "drained" ? "ECC errors on GPU 3 [ops@2026-11-20T08:00:00]" : null,
    action: state === "drained" ? "resume it when it was repaired" : "",
    cpus: 112,
    cpus_allocated: 14 * used,
    memory_bytes: 2.1e12,
    memory_free_bytes: 2e12 - 2e11 * used,
    gpus: { count: 8, types: { h100: 8 } },
    gpus_allocated: used,
    features: ["ib", "nvlink"],
    partitions: [n % 2 === 0 ? "main" : "spot"],
    runs: [],
    suspicion: 0,
    suspicion_why: "",
    bench: null,
    bench_slow: "",
    ...fields,
  };
}
export function makeNodes(count) {
  return Array.from({ length: count }, (_, n) => makeNode(n));
}

const kModel = "NVIDIA H100 80GB HBM3";
function addNode(add, join, { node, gpus, leaf }) {
  const slot = { gb_per_s: 63 };
  add("node", node, null, { name: node, model: "DGX H100" });
  for (const numa of [0, 1]) add("numa", `${node}/numa:${numa}`, node, { index: numa });
  for (let index = 0; index < gpus; index += 1) {
    const numa = `${node}/numa:${index < gpus / 2 ? 0 : 1}`;
    const [pci, gpu] = [`${node}/pci#${index}`, `${node}/gpu#${index}`];
    const nic = `${node}/nic:mlx5_${index}`;
    add("pci", pci, numa);
    add("gpu", gpu, pci, { index, model: kModel });
    add("nic", nic, pci, { name: `mlx5_${index}`, mbit_per_s: 400_000 });
    join("pcie", gpu, pci, slot);
    join("pcie", nic, pci, slot);
    join("pcie", numa, pci, slot);
    join("nvlink", gpu, `${node}/nvswitch#0`, { count: 18, gb_per_s: 450 });
    join("fabric", nic, `switch:leaf${leaf}`, { gb_per_s: 50 });
  }
  add("nvswitch", `${node}/nvswitch#0`, node, { count: 4 });
  join("smp", `${node}/numa:0`, `${node}/numa:1`, { gb_per_s: 22 });
}

// GET /topology: a fat tree of leaves below two spines, each node with GPUs, NICs and NVSwitches.
export function makeTopology({ leaves = 4, perLeaf = 8, gpus = 8 } = {}) {
  const sources = [{ source: "user", place: "cluster.yaml" }];
  const vertices = [];
  const links = [];
  const told = (facts) => Object.entries(facts).map(([key, value]) => [key, value, 0]);
  const add = (kind, id, parent, facts = {}) =>
    vertices.push({ kind, id, ...(parent && { parent }), facts: told(facts) });
  const join = (kind, a, b, facts = {}) => links.push({ kind, a, b, facts: told(facts) });
  for (let n = 0; n < leaves * perLeaf; n += 1) {
    addNode(add, join, { node: nameOfNode(n), gpus, leaf: Math.floor(n / perLeaf) + 1 });
  }
  add("fabric", "fabric:compute", null, { name: "compute" });
  const spines = ["spine1", "spine2"];
  const addSwitch = (name, level) =>
    add("fabric_switch", `switch:${name}`, "fabric:compute", { name, level });
  for (let leaf = 1; leaf <= leaves; leaf += 1) {
    addSwitch(`leaf${leaf}`, 0);
    for (const spine of spines) {
      join("fabric", `switch:leaf${leaf}`, `switch:${spine}`, { gb_per_s: 400 });
    }
  }
  for (const spine of spines) addSwitch(spine, 1);
  const nodes = leaves * perLeaf;
  return {
    fingerprint: "61c2e2f66cbe93e70158688b66bdd2df",
    nodes,
    kinds: [
      {
        nodes,
        names: `gpu-[001-${String(nodes).padStart(3, "0")}]`,
        model: "DGX H100",
        gpus,
        gpu_models: [kModel],
        gpu_links: "nvlink",
        nics: [{ count: gpus, model: null, gbit_per_s: 400 }],
      },
    ],
    fabrics: [
      {
        name: "compute",
        switches: leaves + 2,
        tiers: [
          { level: 0, switches: leaves },
          { level: 1, switches: 2 },
        ],
      },
    ],
    sources,
    measured: [],
    graph: { regatta_graph: 1, sources, vertices, links },
  };
}

// Of lists of nodes only "a", "a,b" and "a[1-4]" are known here.
function isIn(list, name) {
  const [, head, low, high] = /^(.*)\[(\d+)-(\d+)\]$/.exec(list) ?? [];
  if (head == null) return list.split(",").includes(name);
  const number = Number(name.slice(head.length));
  return name.startsWith(head) && number >= Number(low) && number <= Number(high);
}

function passes(node, asked) {
  const states = (asked.get("state") ?? "").split(",").filter(Boolean);
  const own = node.state.split(", ").map((state) => state.replaceAll(" ", "_"));
  const text = asked.get("text")?.toLowerCase() ?? "";
  return (
    (states.length === 0 || own.some((state) => states.includes(state))) &&
    (!asked.has("usable") || String(node.usable) === asked.get("usable")) &&
    node.name.startsWith(asked.get("name") ?? "") &&
    (!asked.has("nodes") || isIn(asked.get("nodes"), node.name)) &&
    (!asked.has("partition") || node.partitions.includes(asked.get("partition"))) &&
    `${node.name}\n${node.reason ?? ""}`.toLowerCase().includes(text)
  );
}

// GET /nodes as orchestrator/api/node_json.cc answers it, and GET /topology; a problem has `status`.
export function answerOfMachines(fixture, { pathname, searchParams: asked }) {
  const none = { status: 404, code: "not_found", detail: "no --cluster" };
  if (pathname.endsWith("/topology")) return fixture.topology ?? none;
  if (pathname.endsWith("/findings")) {
    return fixture.findings ?? (fixture.topology ? { total: 0, findings: [] } : none);
  }
  const refusal = fixture.refusalOfNodes;
  const parameter = fixture.parameterOfNodes ?? null; // that is at fault
  if (refusal) return { status: 400, code: "user", detail: refusal, parameter };
  const found = fixture.nodes.filter((node) => passes(node, asked));
  const limit = Number(asked.get("limit") ?? 100);
  const after = asked.get("after");
  const begin = after == null ? 0 : found.findIndex(({ name }) => name === after) + 1;
  const nodes = found.slice(begin, begin + limit);
  const slim = ({ slurm_state, action, features, suspicion_why, bench, ...rest }) => rest;
  return {
    scheduler: "slurm_cli",
    taken_at: new Date(Date.now() - 12_000).toISOString(),
    age_seconds: 12,
    trouble: null,
    reservations: [],
    total: found.length,
    next: begin + limit < found.length ? nodes.at(-1).name : null,
    nodes: asked.get("full") === "true" ? nodes : nodes.map(slim),
    ...fixture.nodeAnswer,
  };
}
