// Made-up environments of attempts (docs/formats/environment.md), and the fixture's answers to who asks
// for them. Digests are of the right form and differ where sections do; they are not XXH3.
import { createHash } from "node:crypto";

const digestOf = (value) =>
  createHash("sha256").update(JSON.stringify(value)).digest("hex").slice(0, 32);

const cache = (level, type, bytes, threads) => ({ level, type, bytes, threads });

const sections = () => ({
  build: {
    version: "0.1.0",
    commit: "ccb8dac31891",
    program_xxh3_128: "4a6c807a3c5d53a4f85b3c89c26f2b42",
    compiler: "gcc 12.2.0",
    type: "Release",
    flags: "-O2 -DNDEBUG",
    libraries: { glibc: "2.36", oneDNN: "2.6.3", "Open MPI": "v4.1.4" },
  },
  machine: {
    processor: {
      name: "AMD EPYC 9654 96-Core Processor",
      vendor: "AuthenticAMD",
      family: "25",
      model: "17",
      stepping: "1",
      microcode: "0xa101148",
    },
    sockets: 2,
    cores: 192,
    threads: 384,
    usable_threads: 96,
    instruction_sets: [
      ..."avx avx2 avx512_bf16 avx512_bitalg avx512_vbmi2 avx512_vnni avx512_vpopcntdq".split(" "),
      ..."avx512bw avx512cd avx512dq avx512f avx512ifma avx512vbmi avx512vl bmi2 erms".split(" "),
      ..."f16c fma gfni movbe sse sse2 sse4_1 sse4_2 sse4a ssse3 vaes".split(" "),
    ],
    hypervisor: false,
    caches: [cache(1, "Data", 32_768, 2), cache(2, "Unified", 1_048_576, 2)],
    numa_nodes: [
      { node: "node0", threads: 192, bytes: 405_404_000_256 },
      { node: "node1", threads: 192, bytes: 405_404_000_256 },
    ],
    frequency: { driver: "acpi-cpufreq", governor: "performance", maximum_khz: 3_700_000 },
    memory_bytes: 810_808_000_512,
    huge_pages: { enabled: "madvise", defrag: "madvise" },
    limits: { processors: 48 },
    kernel: "Linux 6.1.0-28-amd64",
    operating_system: "Debian GNU/Linux 12 (bookworm)",
  },
  devices: { of_rank_0: { kind: "cpu", description: "CPU, 12 threads, avx512, oneDNN 2.6.3" } },
  fabric: { ranks: 8, ranks_per_node: 4, hosts: 2, transport: "MPI", hierarchical: false },
  variables: { NCCL_AUTH: null, OMP_NUM_THREADS: "12", OMP_PROC_BIND: "close" },
  numerics: {
    activations: "float32",
    tf32: false,
    sums: "float32",
    weights: "float32",
    optimizer_state: "float32",
    gradients_between_ranks: "float32",
    instruction_set: "avx512",
    products: {
      forward: "built in",
      input_gradients: "built in",
      weight_gradients: "oneDNN",
    },
    attention: "built in",
    gelu: "erf",
    threads: 12,
    determinism: "run",
  },
  randomness: {
    generator: "Philox4x32-10, counter = (block, ordinal, step, site)",
    seed: 7,
  },
  data: {
    fingerprint: "086e1c57f6fa5bef27a3b05ef960e7e7",
    datasets: [
      {
        fingerprint: "086e1c57f6fa5bef27a3b05ef960e7e7",
        vocabulary: { pieces: 30_522, xxh3_128: "444bf404cd9163a1e3f1e2cca90195a1" },
        tokenizer: { lower_case: true, word_limit: 200 },
        corpus_xxh3_128: "6f6ee3d7d4163e8448f2eb92e653f324",
      },
    ],
  },
  model: {
    fingerprint: "75c27ba853d8cd453c6533a94350d7dc",
    parameters: 109_514_298,
    begins_with: "new weights",
  },
  configuration: { steps: 4000, batch: { size: 32, micro: 0 }, seed: 7 },
});

// With other values in its sections: {machine: {kernel: "Linux 5.4"}}; undefined takes a key out.
export function makeEnvironment(changes = {}, { attempt = {}, training = {} } = {}) {
  const made = { format: 2, fingerprint: "" };
  const lines = Object.entries(sections()).map(([name, plain]) => {
    const section = JSON.parse(JSON.stringify({ ...plain, ...changes[name] }));
    made[name] = { digest: digestOf([name, section]), ...section };
    return `${name} ${made[name].digest}\n`;
  });
  made.fingerprint = digestOf(lines);
  made.attempt = {
    number: 1,
    execution: "0123456789abcdef",
    host: "node03",
    program: "/usr/lib/regatta/regatta-train",
    started: "2026-11-21T12:00:06.236Z",
    clocks: {
      mean_mhz: 3_541.13,
      throttled: { core_throttle_count: 12, package_throttle_count: 0 },
      processor_pressure: 1.98,
    },
    ...attempt,
  };
  if (training == null) return made;
  made.training = {
    ended: "2026-11-21T12:03:00.092Z",
    clocks: { mean_mhz: 3_201.9, processor_pressure: 2.4 },
    throttled: { core_throttle_count: 0, package_throttle_count: 0 },
    ...training,
  };
  return made;
}

// Whatever text this is, in each place that takes one.
export function hostileEnvironment(text) {
  const long = `${text}${"x".repeat(10_000)}`;
  return makeEnvironment(
    {
      build: { version: text, commit: long, flags: long, [long]: text },
      machine: { processor: { name: long }, kernel: { [text]: [{ [text]: long }, [long, null]] } },
      devices: { of_rank_0: { description: long } },
      fabric: { ranks: text, hosts: { x: 1 }, transport: long },
      variables: { [text]: long, [`${text}2`]: null },
      numerics: { activations: long, products: text },
      randomness: { seed: long },
      data: { fingerprint: text, datasets: text },
      model: { parameters: long, begins_with: long },
      configuration: { name: text },
    },
    { attempt: { host: long, started: text }, training: { ended: text, clocks: text } },
  );
}

// Of an entry: `environment` (null: its attempt has not begun to train), `environments` by attempt,
// `damagedEnvironment`: why it cannot be read.
export function answerOfEnvironment({ run, environment, environments, damagedEnvironment }, asked) {
  const refused = (status, code, detail) => ({ status, body: { status, code, detail } });
  if (damagedEnvironment) return refused(500, "operator", damagedEnvironment);
  const number = Number(asked ?? run.attempt?.number ?? 1);
  const none = `attempt ${number} of run ${run.id} has no environment.json: it has not begun to train`;
  const found = environments
    ? environments[number]
    : environment === undefined
      ? makeEnvironment()
      : environment;
  if (found === undefined) {
    return refused(404, "not_found", `run ${run.id} has no attempt ${number}`);
  }
  return found == null ? refused(404, "not_found", none) : { status: 200, body: found };
}
