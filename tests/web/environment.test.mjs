// What the page makes of an environment: its lines, its summaries, and what two of them differ in.
import assert from "node:assert/strict";
import { test } from "node:test";
import { makeEnvironment } from "./environments.mjs";
import { sourcesOf } from "./sources.mjs";

const pure = await sourcesOf(`export * from "./src/environment/facts";
      export * from "./src/environment/environment_api";
      export * from "./src/compare/fingerprints"; export * from "./src/parts/values";`);
const plain = (text) => text.replaceAll("\u202f", " ");

test("a section has a line for each key, as the command prints it", () => {
  const facts = pure.factsOf({
    digest: "d",
    version: "0.1.0",
    libraries: { glibc: "2.36", none: {} },
    sets: ["avx", "avx2", null],
    caches: [{ level: 1, bytes: 49152 }, { level: 2 }, "odd", [1, 2]],
    quota: 1.5,
    off: false,
    key: null,
    empty: [],
    blank: "",
    seed: JSON.parse("12345678901234567890"),
  });
  assert.deepEqual(
    facts.map(({ key, text }) => [key, text]),
    [
      ["version", "0.1.0"],
      ["libraries glibc", "2.36"],
      ["sets", "avx avx2 not shown"],
      ["caches 1 level", "1"],
      ["caches 1 bytes", "49152"],
      ["caches 2 level", "2"],
      ["caches 3", "odd"],
      ["caches 4", "1 2"],
      ["quota", "1.5"],
      ["off", "false"],
      ["key", null],
      ["empty", ""],
      ["blank", ""],
      ["seed", "about 12345678901234567000 (rounded)"],
    ],
  );
  for (const odd of [null, undefined, "text", 7, [1]]) assert.deepEqual(pure.factsOf(odd), []);
});

test("keys are joined eight deep, and what is not seen is told", () => {
  let deep = "end";
  for (let level = 12; level > 0; level -= 1) deep = { [`k${level}`]: deep };
  const [{ key, text }] = pure.factsOf(deep);
  assert.equal(key, "k1 k2 k3 k4 k5 k6 k7 k8 k9");
  assert.equal(text, '{"k10":{"k11":{"k12":"end"}}}');
  const [odd] = pure.factsOf({ "a\u202eb": "\u001b[2J\u200bx\ny" });
  assert.deepEqual(odd, { key: "a\\u202eb", text: "\\u001b[2J\\u200bx\ny" });
});

test("a summary says what counts most in a section", () => {
  const environment = makeEnvironment();
  const said = Object.fromEntries(
    pure.kSections.map((name) => [name, plain(pure.aboutSection(name, environment[name]))]),
  );
  assert.deepEqual(said, {
    build: "version 0.1.0, commit ccb8dac31891",
    machine: "AMD EPYC 9654 96-Core Processor, 192 cores, 811 GB, limited to 48 processors",
    devices: "CPU, 12 threads, avx512, oneDNN 2.6.3",
    fabric: "8 ranks on 2 hosts, MPI",
    variables: "NCCL_AUTH, OMP_NUM_THREADS, OMP_PROC_BIND",
    numerics: "all float32, avx512, products built in / oneDNN",
    randomness: "seed 7",
    data: "fingerprint 086e1c57",
    model: "109,514,298 parameters, new weights",
    configuration: "run file of this attempt",
  });
});

test("a summary leaves out what is not told", () => {
  const about = (name, section) => plain(pure.aboutSection(name, section));
  for (const [name, section, words] of [
    ["build", { version: "1.0", commit: `${"ab12".repeat(10)}-dirty` }, "version 1.0, commit ab12ab12ab12-dirty"],
    ["build", { version: "1.0" }, "version 1.0, no commit"],
    ["machine", {}, "processor not told"],
    ["machine", { processor: { name: ["a", "b"] }, threads: 1 }, "2 kinds of processors, 1 thread"],
    ["machine", { limits: { memory_bytes: 8e9, processors: 1 } }, "processor not told, limited to 1 processor and 8.00 GB"],
    ["devices", { of_rank_0: { model: "NVIDIA H200", description: "x" } }, "NVIDIA H200"],
    ["devices", { of_rank_0: null }, "–"],
    ["fabric", { ranks: 1, ranks_per_node: 1, hosts: 1 }, "1 rank"],
    ["fabric", { ranks: 4, hosts: 1, transport: "NCCL" }, "4 ranks, NCCL"],
    ["variables", {}, "none is set"],
    ["variables", { A: "1", B: null, C: "", D: "4", E: "5" }, "A, B, C, 2 more"],
    ["numerics", { activations: "bfloat16", weights: "float32", gradients_between_ranks: "float32", tf32: true, products: { forward: "cuBLASLt" } },
      "activations bfloat16, weights float32, TF32, products cuBLASLt"],
    ["numerics", {}, ""],
    ["data", { fingerprint: "ab".repeat(16), datasets: [{}, {}] }, "fingerprint abababab, 2 datasets"],
    ["model", { parameters: 7, begins_with: "/srv/bert" }, "7 parameters, begins with /srv/bert"],
    ["model", { parameters: "many", begins_with: { x: 1 } }, ""],
    ["randomness", { seed: 3, digest: "d" }, "seed 3"],
  ]) {
    assert.equal(about(name, section), words, name);
  }
  for (const name of pure.kSections) {
    for (const odd of [null, undefined, 7, "text", [null]]) pure.aboutSection(name, odd);
    const long = { version: "v".repeat(9000), of_rank_0: { model: "m".repeat(9000) } };
    assert.ok(about(name, long).length < 250, name);
  }
});

test("an attempt and its end tell clocks and throttling", () => {
  const { attempt, training } = makeEnvironment();
  assert.match(pure.aboutAttempt(attempt), /^1 on node03, begun 21 Nov/);
  assert.match(pure.aboutAttempt({ resumed_from: "step-9" }), /^–, resumed from step-9$/);
  const about = (changes) => plain(pure.aboutTraining({ ...training, ...changes }, attempt));
  assert.match(about({}), /^ended 21 Nov.*, 3\.54 GHz at the begin, 3\.20 GHz at the end, not throttled$/);
  assert.match(about({ clocks: {} }), /^ended [^G]*, not throttled$/);
  const throttled = { core_throttle_count: 1, package_throttle_count: 1200 };
  assert.match(about({ throttled }), /, cores throttled 1 time, packages throttled 1,200 times$/);
  assert.ok(!about({ throttled: undefined }).includes("throttled"), "the kernel tells nothing");
});

const named = (sections) => sections.map(({ name }) => name);
const differing = (section) => section.rows.filter((row) => row.differs).map(({ key }) => key);

test("sections are compared in the order of what they decide, without the configuration", () => {
  const a = makeEnvironment();
  const b = makeEnvironment({
    configuration: { seed: 8 },
    variables: { OMP_NUM_THREADS: "6", OMP_PROC_BIND: undefined },
    data: { fingerprint: "ff" },
    machine: { limits: undefined, kernel: "Linux 5.4" },
  });
  const sections = pure.comparedSections([a, null, b]);
  assert.deepEqual(
    named(sections).join(" "),
    "data model numerics randomness build devices machine fabric variables",
  );
  const other = sections.filter(({ isEqual }) => !isEqual);
  assert.deepEqual(named(other), ["data", "machine", "variables"]);
  assert.deepEqual(other.map(differing), [
    ["fingerprint"],
    ["limits processors", "kernel"],
    ["OMP_NUM_THREADS", "OMP_PROC_BIND"],
  ]);
  const [data, machine, variables] = other;
  assert.deepEqual(data.digests, [a.data.digest.slice(0, 8), undefined, b.data.digest.slice(0, 8)]);
  const limits = machine.rows.find(({ key }) => key === "limits processors");
  assert.deepEqual(limits.values, ["48", undefined, null]);
  const hidden = variables.rows.find(({ key }) => key === "NCCL_AUTH");
  assert.deepEqual([hidden.differs, hidden.mayDiffer], [false, true]);
  const equal = sections.find(({ name }) => name === "numerics");
  assert.ok(equal.rows.length > 10 && equal.rows.every(({ differs }) => !differs));
});

test("what the browser has rounded may differ only where digests do", () => {
  const seeded = (digest) => {
    const one = makeEnvironment();
    one.randomness = { digest, seed: JSON.parse("12345678901234567890") };
    return one;
  };
  const rowOf = (...digests) =>
    pure.comparedSections(digests.map(seeded)).find(({ name }) => name === "randomness").rows[0];
  assert.deepEqual(rowOf("a", "a").mayDiffer, false);
  assert.deepEqual([rowOf("a", "b").differs, rowOf("a", "b").mayDiffer], [false, true]);
});

test("equal fingerprints are found, and what no digest tells", () => {
  const [a, b, c] = [makeEnvironment(), makeEnvironment(), makeEnvironment({ data: { x: 1 } })];
  assert.equal(a.fingerprint, b.fingerprint);
  const groups = (...all) =>
    pure.equalAttempts(all).map((places) => places.join(" "));
  assert.deepEqual(groups(a, c, null, b), ["0 3"]);
  assert.deepEqual(groups(a, c, null), []);
  assert.deepEqual(groups(null, null), []);
  const longer = makeEnvironment({ configuration: { steps: 5 } });
  assert.deepEqual(groups(a, longer, c, c), ["2 3"]);
  assert.deepEqual(pure.hiddenKeys([a, b]), ["variables NCCL_AUTH"]);
  assert.deepEqual(pure.hiddenKeys([a, null]), [], "one alone differs from nothing");
  const secret = () => makeEnvironment({ configuration: { slurm: { environment: { A: null } } } });
  assert.deepEqual(pure.hiddenKeys([secret(), secret()]), [
    "variables NCCL_AUTH",
    "configuration slurm environment A",
  ]);
});

test("of long texts the part that differs is shown", () => {
  const flags = "-O2 ".repeat(60);
  assert.equal(pure.commonBegin([`${flags}-g`, `${flags}-DX`]), 240 + 1 - 24);
  assert.equal(pure.commonBegin([`${flags}-g`, null, undefined, `${flags}-g`]), 0);
  assert.equal(pure.commonBegin([`${flags}-g`, null]), 0);
  assert.equal(pure.commonBegin([flags, `${flags}-g`]), 240 - 24);
  assert.equal(pure.commonBegin(["abc", "abd"]), 0);
});
