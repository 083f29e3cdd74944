// A small stand-in for the controller: serves web/dist with production's headers and answers the
// API from plain objects that a test can change. Run by itself it is a playground:
//   node tests/web/fixture.mjs 8090
import { randomBytes } from "node:crypto";
import { createServer } from "node:http";
import { readFileSync, readdirSync } from "node:fs";
import { dirname, extname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { answerOfMachines, makeNodes, makeTopology } from "./machines.mjs";
import { answerOfEnvironment } from "./environments.mjs";
import { answerOfExperiments, makeExperiments } from "./experiments.mjs";
import { answerOfSweeps, makeSweeps } from "./sweeps.mjs";

const here = dirname(fileURLToPath(import.meta.url));
export const kDist = join(here, "..", "..", "web", "dist");
export const kHostile = `<img src=x onerror="window.stolen=1">'"&{}`;
// A ticket that works as often as it is used; fixture.makeTicket() makes those that work once.
export const kTicket = "f".repeat(32);
export const kSecurityHeaders = {
  "content-security-policy":
    "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
};
const kTypes = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

// A curve that rises from the baseline towards a limit, with noise that depends on nothing but i.
const wobble = (i) => Math.sin(i * 12.9898) * 0.5 + Math.sin(i * 4.1414) * 0.5;
export function series({
  steps,
  stepSeconds,
  evaluateEvery,
  low = 0.02,
  limit = 0.125,
  scale = 110,
}) {
  const metrics = {
    steps: [],
    evaluations: [],
    checkpoints: [],
    timeline: null,
    prediction: null,
  };
  let seconds = 0;
  for (let step = 1; step <= steps; step += 1) {
    seconds += stepSeconds * (1 + 0.1 * wobble(step));
    const loss = 6.15 + 2.2 * Math.exp(-seconds / 35) + 0.12 * wobble(step * 3);
    const speed = 32 / (stepSeconds * (1 + 0.1 * wobble(step)));
    metrics.steps.push([step, seconds, loss, loss - 0.6, speed, speed * 117, null, null, null]);
    if (step % evaluateEvery === 0) {
      const accuracy = low + (limit - low) * (1 - Math.exp(-seconds / scale));
      metrics.evaluations.push([step, seconds, accuracy, loss - 0.7, false, accuracy, {}]);
    }
    if (step % (evaluateEvery * 2) === 0) {
      const name = `step-${String(step).padStart(9, "0")}`;
      metrics.checkpoints.push([step, seconds, name, "written"]);
    }
  }
  return metrics;
}

export function makeRun(id, fields = {}) {
  return {
    id,
    name: id.replace(/-[^-]*$/, ""),
    state: "running",
    state_text: "training",
    created_at: "2026-11-21T12:00:00Z",
    started_at: "2026-11-21T12:00:08Z",
    ended_at: null,
    directory: `/srv/regatta/runs/${id}`,
    after: [],
    archived: false,
    owner: "uid 1000",
    tags: [],
    note: null,
    silent_seconds: null,
    target_times_baseline: null,
    attempts: 1,
    attempt: {
      number: 1,
      execution: "0123456789abcdef",
      state: "running",
      exit_code: null,
      process: 4711,
      reason: null,
    },
    step: 0,
    steps: 4000,
    samples: 0,
    metric: "mlm_accuracy",
    value: null,
    target: 0.098,
    baseline: 0.049,
    target_reached: false,
    time_to_accuracy_seconds: null,
    training_seconds: 0,
    since_submission_seconds: 8,
    predicted_seconds_to_target: null,
    samples_per_second: null,
    tokens_per_second: null,
    loss: null,
    ranks: null,
    ranks_per_node: null,
    device: null,
    peak_flops: null,
    mfu: null,
    utilisation: null,
    noise_scale: null,
    noise_scale_low: null,
    noise_scale_high: null,
    efficiency: null,
    goodput: null,
    exposed_share: null,
    imbalance: null,
    moved_bytes: null,
    slowest: null,
    checkpoint: null,
    slurm: null,
    warnings: [],
    error: null,
    config: { name: id, batch_size: 32, model: { layers: 2, hidden: 128 } },
    ...fields,
  };
}

// Fills a run's figures from its series.
export function follow(run, metrics) {
  const step = metrics.steps.at(-1);
  const evaluation = metrics.evaluations.at(-1);
  if (step) {
    run.step = step[0];
    run.samples = step[0] * 32;
    run.training_seconds = step[1];
    run.since_submission_seconds = step[1] + 8.6;
    run.loss = step[2];
    run.samples_per_second = step[4];
    run.tokens_per_second = step[5];
  }
  if (evaluation) run.value = evaluation[5];
  const checkpoint = metrics.checkpoints.findLast((row) => row[3] === "written");
  if (checkpoint) {
    const name = checkpoint[2];
    run.checkpoint = { step: checkpoint[0], name, path: `${run.directory}/checkpoints/${name}` };
  }
  return run;
}

// The predicted step of a cut into buckets of so many tensors each: the same model for all cuts, so
// that a made-up plan agrees with itself. Backward goes from 30 to 86 ms.
function predict(tensors, cut, latency) {
  const slowdown = 0.02; // of computing while a reduction runs
  const buckets = [];
  let first = 0;
  let communication = 0;
  for (const amount of cut) {
    const slice = tensors.slice(first, first + amount);
    first += amount;
    const bytes = slice.reduce((sum, tensor) => sum + tensor.bytes, 0);
    const ready = slice.at(-1).ready + slowdown * communication;
    const start = Math.max(ready, buckets.at(-1)?.end_seconds ?? 0);
    const end = start + latency + bytes / 1.5e9;
    buckets.push({ bytes, ready_seconds: ready, start_seconds: start, end_seconds: end });
    communication += end - start;
  }
  const compute = buckets.at(-1).ready_seconds;
  const exposed = Math.max(0, buckets.at(-1).end_seconds - compute);
  return {
    step_seconds: compute + exposed + 0.0105,
    forward_seconds: 0.03,
    compute_seconds: compute,
    communication_seconds: communication,
    exposed_seconds: exposed,
    tail_seconds: 0.0105,
    buckets,
  };
}

// Pairs of equal tensors and a large one at the end: 11 pairs for 12 buckets, as in ranksRun().
export function makePlan({ buckets = 12, nodes = 2, ranksPerNode = 4 } = {}) {
  const count = 2 * (buckets - 1) + 1;
  const tensors = Array.from({ length: count }, (_, i) => ({
    bytes: Math.round((4_194_304 * (i === count - 1 ? 3.2 : 0.5) * 12) / buckets),
    ready: 0.031 + 0.055 * ((i + 1) / count) ** 1.25,
  }));
  const pairs = [...Array(buckets - 1).fill(2), 1];
  const half = Math.ceil(count / 2);
  const cuts = [
    ["25 MB", [half, count - half]],
    ["one bucket", [count]],
    ["as ready", Array(count).fill(1)],
    ["programme", pairs],
  ];
  const latency = 0.0156 / buckets; // of a reduction
  const timeline = predict(tensors, pairs, latency);
  const alternatives = cuts.map(([name, cut]) => {
    const step_seconds = predict(tensors, cut, latency).step_seconds;
    const mean_step_seconds = step_seconds + 0.0009 + 0.002 / cut.length;
    return { name, buckets: cut.length, step_seconds, mean_step_seconds };
  });
  const [standard, , , chosen] = alternatives;
  const ms = (seconds) => `${(1e3 * seconds).toPrecision(3)} ms`;
  const saved = 100 * (1 - chosen.mean_step_seconds / standard.mean_step_seconds);
  const step = timeline.step_seconds;
  const ends = pairs.map((amount, i) => amount + 2 * i);
  return {
    ranks: nodes * ranksPerNode,
    topology: "61c2e2f66cbe93e70158688b66bdd2df",
    bucket_ends: ends,
    cut: chosen.name,
    why:
      `programme (${buckets} buckets, ${ms(step)} a step) saves ${saved.toPrecision(3)} % of the ` +
      `step on average over 25 MB (2 buckets, ${ms(standard.step_seconds)} a step); ` +
      `${ms(timeline.exposed_seconds)} wait for communication`,
    measured: false,
    alternatives,
    timeline,
    decisions: [
      {
        key: "hierarchical",
        choice: "true",
        run_file: "false",
        why: "true would save 4.5 % of the step; sums then add up in another order",
        options: [
          { value: "false", step_seconds: step },
          { value: "true", step_seconds: step * 0.955 },
        ],
      },
      {
        key: "balance.strategy",
        choice: "global_presort",
        run_file: "global_presort",
        why: "global_presort is the fastest by the model",
        options: [
          { value: "none", step_seconds: step * 1.21 },
          { value: "global_presort", step_seconds: step },
          { value: "packed", step_seconds: step * 1.004 },
        ],
      },
      {
        key: "clip.mode",
        choice: "global",
        run_file: "global",
        why: "bucket would save 0.8 % of the step, too little to change it",
        options: [
          { value: "global", step_seconds: step },
          { value: "bucket", step_seconds: step * 0.992 },
        ],
      },
    ],
    nccl: {
      ranks: nodes * ranksPerNode,
      nodes,
      version: 22809,
      ranges: [
        {
          collective: "AllReduce",
          from_bytes: 65_536,
          to_bytes: 1_048_576,
          algorithm: "Tree",
          protocol: "LL128",
          channels: 0,
          us: 61.2,
          default_us: 74.9,
          measured: true,
        },
        {
          collective: "AllReduce",
          from_bytes: 8_388_608,
          algorithm: "Ring",
          protocol: "Simple",
          channels: 16,
          us: 7_390,
          default_us: 0,
          measured: false,
        },
      ],
    },
    seats: Array.from({ length: nodes }, (_, node) => ({
      node: `node${String(node + 1).padStart(2, "0")}`,
      gpus: Array.from({ length: ranksPerNode }, (_, gpu) => gpu),
      nics: Array.from({ length: ranksPerNode }, (_, gpu) => `mlx5_${gpu}`),
    })),
  };
}

// A run on eight ranks: what the journal of several ranks adds. Backward ends at 86 ms.
export function ranksRun(buckets = 12) {
  const metrics = series({ steps: 600, stepSeconds: 0.11, evaluateEvery: 50 });
  for (const row of metrics.steps) {
    row[6] = row[4] * 0.871;
    row[7] = 400 + 1.4 * row[0];
    row[8] = 0.312;
  }
  metrics.timeline = {
    step: 600,
    step_seconds: 0.11,
    data_seconds: 0.001,
    forward_seconds: 0.03,
    backward_seconds: 0.055,
    reduce_seconds: 0.0125,
    optimizer_seconds: 0.0105,
    exposed_seconds: 0.0125,
    bucket_count: buckets,
    buckets: Array.from({ length: buckets }, (_, i) => {
      const launched = 0.036 + (0.05 * (i + 1)) / buckets;
      const bytes = Math.round(4_194_304 * (i === buckets - 1 ? 3.2 : 1));
      return [i, bytes, launched, launched + 0.0125];
    }),
  };
  const run = makeRun("ranks-5c1e07", {
    state_text: "training, step 600 of 4000",
    ranks: 8,
    ranks_per_node: 4,
    device: "NVIDIA H100 80GB HBM3",
    peak_flops: 7.912e15,
    mfu: 0.312,
    utilisation: 0.943,
    noise_scale: 1240,
    noise_scale_low: 1010,
    noise_scale_high: 1590,
    efficiency: 0.871,
    goodput: 253.4,
    exposed_share: 0.1136,
    imbalance: 1.0123,
    moved_bytes: 48_200,
    slowest: { rank: 5, step: 601, phase: "backward", phase_seconds: 0.031, age_seconds: 0.62 },
  });
  return { run: follow(run, metrics), metrics, log: "", plan: makePlan({ buckets }) };
}

// A run that is judged by another task's metric, which goes from one figure to the other.
export function judgedRun(metric, from, to, fields = {}) {
  const metrics = series({ steps: 400, stepSeconds: 0.1, evaluateEvery: 50, low: 0, limit: 1 });
  metrics.evaluations = metrics.evaluations.map(([step, seconds, share]) => {
    const value = from + (to - from) * share;
    return [step, seconds, null, null, false, value, { exact: 0.5, [metric]: value }];
  });
  const run = makeRun(`${metric}-3b8d11`, { metric, target: to, baseline: from, ...fields });
  return { run: follow(run, metrics), metrics, log: "" };
}

// A run on many nodes, its gradient cut as finely as plans go.
export function manyRun() {
  const metrics = series({ steps: 200, stepSeconds: 0.12, evaluateEvery: 50 });
  const run = makeRun("many-9d20b4", { ranks: 8192, ranks_per_node: 8, device: "NVIDIA H100" });
  const plan = makePlan({ buckets: 512, nodes: 1024, ranksPerNode: 8 });
  return { run: follow(run, metrics), metrics, log: "", plan };
}

// The n-th thing that happened to a run, some seconds after the one before.
export function makeEvent(n, kind, fields = {}) {
  const number = 1_793_000_000_000 + n;
  const at = new Date(Date.UTC(2026, 10, 21, 12, 0, 4 * n)).toISOString();
  const nowhere = { launch: null, attempt: null, step: null, checkpoint: null, node: null };
  return { number, at, kind, run: null, ...nowhere, by: null, words: null, ...fields };
}

function lifeOf(checkpoints) {
  const attempt = { attempt: 1 };
  return [
    ["run.submitted", { by: "uid 1000" }],
    ["run.queued", { words: "waits for a free slot" }],
    ["run.starting"],
    ["launch.submitted", { launch: 1, words: "process 4711" }],
    ["attempt.started", { ...attempt, step: 0, node: "node03", words: "4 ranks on node03" }],
    ["run.running"],
    ["run.labelled", { by: "token", words: "tags: baseline; first run on the new corpus" }],
    ["attempt.warning", { ...attempt, words: "clock is 2.4 s behind the controller's" }],
    ...checkpoints.map(([step, , checkpoint, status]) => [
      `checkpoint.${status}`,
      { ...attempt, step, checkpoint, words: status === "failed" ? "no room" : null },
    ]),
  ].map(([kind, fields], n) => makeEvent(n, kind, fields));
}

export function standardRuns() {
  const entries = [];
  const add = (run, metrics = series({ steps: 0, stepSeconds: 1, evaluateEvery: 1 }), log = "") => {
    entries.push({ run: follow(run, metrics), metrics, log, events: [] });
    return entries.at(-1);
  };
  const live = series({ steps: 900, stepSeconds: 0.09, evaluateEvery: 50 });
  live.checkpoints.push([900, 81.5, "step-000000100", "removed"]);
  live.checkpoints.push([900, 81.6, "step-000000900", "failed"]);
  live.prediction = { seconds: 141, low: 126, high: 163, confidence: 0.8, model: "own curve" };
  add(
    makeRun("demo-4f2a91", {
      state_text: "training, step 900 of 4000",
      predicted_seconds_to_target: 60,
      warnings: ["clock of the attempt is 2.4 s behind the controller's"],
    }),
    live,
    Array.from({ length: 400 }, (_, i) => `step ${i + 1} loss 6.${i % 10}`).join("\n") + "\n",
  ).events = lifeOf(live.checkpoints);
  const reached = series({ steps: 1800, stepSeconds: 0.09, evaluateEvery: 50 });
  const crossing = reached.evaluations.find((row) => row[2] >= 0.098);
  add(
    makeRun("perl-doc-77ab01", {
      state: "succeeded",
      state_text: "target reached at step 1500",
      target_reached: true,
      time_to_accuracy_seconds: crossing[1],
      ended_at: "2026-11-21T12:03:00Z",
    }),
    reached,
  );
  add(
    makeRun("hostile-000001", {
      name: kHostile,
      state: "queued",
      state_text: kHostile,
      warnings: [kHostile],
    }),
    undefined,
    `${kHostile}\n`,
  ).events = [makeEvent(0, "run.queued", { by: kHostile, words: kHostile, node: kHostile })];
  add(
    makeRun("broken-000002", {
      state: "failed",
      state_text: "failed after 1 attempt",
      error: "dataset: /srv/data/wiki: vocabulary fingerprint differs; prepare it again",
    }),
    series({ steps: 40, stepSeconds: 0.2, evaluateEvery: 100 }),
  );
  add(
    makeRun("stopped-000003", {
      state: "cancelled",
      state_text: "cancelled at step 300",
      target: null,
    }),
    series({ steps: 300, stepSeconds: 0.12, evaluateEvery: 50, limit: 0.09 }),
  );
  add(makeRun("starting-000004", { state: "starting", state_text: "waiting for the first step" }));
  return entries;
}

// What the controller says of a run that nothing else is said of.
function explanationOf(run) {
  const { id, state, error } = run;
  const summary = error ? `it failed: ${error}` : run.state_text;
  const nothing = { slurm: null, waiting: null, failures_in_a_row: 0 };
  const lists = { launches: [], attempts: [], avoided_nodes: [] };
  return { id, state, summary, next: "nothing; it is over", ...nothing, ...lists };
}

function attemptsOf(run) {
  if (run.step === 0) return { launches: [], attempts: [] };
  const open = run.state === "running";
  const attempt = {
    attempt: 1,
    execution: "0123456789abcdef",
    launch: null,
    started_at: run.created_at,
    seconds: open ? null : run.since_submission_seconds,
    first_step: 0,
    host: "node03",
    hosts: ["node03"],
    ranks: run.ranks ?? 1,
    ranks_per_node: run.ranks_per_node ?? 1,
    device: run.device,
    training_seconds: run.training_seconds,
    exit_code: open ? null : 0,
    reason: null,
    message: null,
  };
  return { launches: [], attempts: [attempt] };
}

function send(response, body, status) {
  response.writeHead(status, { ...kSecurityHeaders, "content-type": "application/json" });
  response.end(JSON.stringify(body));
}

export class Fixture {
  constructor(entries) {
    this.entries = entries;
    this.requests = []; // "METHOD /path"
    this.cursors = []; // of the requests for metrics
    this.tickets = new Set();
    this.sessions = new Set();
    this.refusal = null; // what a cancel or a resume is answered with, status 409
    this.refusalOfEvents = null;
    this.nodes = []; // of GET /nodes, full
    this.nodeAnswer = {}; // other fields of it
    this.nodeEvents = []; // what GET /events?node= chooses from
    this.topology = null; // GET /topology; null: the controller has none
    this.findings = null; // GET /topology/findings, likewise
    this.sweeps = []; // of GET /sweeps, each with its trials
    this.experiments = []; // of GET /experiments, each as its table
    this.server = createServer((request, response) => this.#answer(request, response));
    this.sockets = new Set();
    this.server.on("connection", (socket) => {
      this.sockets.add(socket);
      socket.on("close", () => this.sockets.delete(socket));
    });
  }
  entry(id) {
    return this.entries.find((entry) => entry.run.id === id);
  }
  makeTicket() {
    const ticket = randomBytes(16).toString("hex");
    this.tickets.add(ticket);
    return ticket;
  }
  // As when the controller is started again.
  forgetSessions() {
    this.tickets.clear();
    this.sessions.clear();
  }
  count(method, path) {
    return this.requests.filter((line) => line === `${method} ${path}`).length;
  }
  async start(port = 0) {
    await new Promise((done, fail) => {
      this.server.once("error", fail);
      this.server.listen(port, "127.0.0.1", done);
    });
    this.port = this.server.address().port;
    this.url = `http://127.0.0.1:${this.port}/`;
    return this;
  }
  async stop() {
    for (const socket of this.sockets) socket.destroy();
    await new Promise((done) => this.server.close(done));
  }

  #answer(request, response) {
    const url = new URL(request.url, "http://fixture");
    this.requests.push(`${request.method} ${url.pathname}`);
    if (url.pathname === "/api/v1/session") return void this.#session(request, response);
    const bearer = /^Bearer (.+)$/.exec(request.headers.authorization ?? "")?.[1];
    if (url.pathname.startsWith("/api") && !this.sessions.has(bearer)) {
      return this.#refuse(response, "run 'regatta open'");
    }
    if (this.trouble) response.setHeader("x-regatta-trouble", this.trouble);
    if (url.pathname === "/api/v1/events") return this.#events(url.searchParams, response);
    if (/\/logs\/files$/.test(url.pathname)) return send(response, { files: [], more: false }, 200);
    if (/^\/api\/v1\/(nodes|topology|topology\/findings)$/.test(url.pathname)) {
      const answer = answerOfMachines(this, url);
      return send(response, answer, answer.status ?? 200);
    }
    const ofMany = answerOfSweeps(this, url) ?? answerOfExperiments(this, url);
    if (ofMany?.text != null) {
      response.writeHead(200, { ...kSecurityHeaders, "content-type": ofMany.type });
      return response.end(ofMany.text);
    }
    if (ofMany) return send(response, ofMany.body, ofMany.status);
    if (url.pathname === "/api/v1/metrics") return this.#charts(url.searchParams, response);
    const api = /^\/api\/v1\/runs(?:\/([^/]+)(?:\/([a-z]+))?)?$/.exec(url.pathname);
    if (api) this.#api(request.method, api[1] && decodeURIComponent(api[1]), api[2], url, response);
    else this.#file(url.pathname, response);
  }
  // As orchestrator/api/event_api.cc answers it.
  #events(asked, response) {
    const json = (body, status = 200) => send(response, body, status);
    const refusal = this.refusalOfEvents;
    if (refusal) return json({ status: 409, code: "conflict", detail: refusal }, 409);
    const [node, kind] = [asked.get("node"), asked.get("kind")];
    const all =
      node != null
        ? this.nodeEvents.filter((event) => event.node === node)
        : (this.entry(asked.get("run"))?.events ?? []);
    const events = kind == null ? all : all.filter((event) => event.kind === kind);
    const limit = Number(asked.get("limit") ?? 100);
    const since = asked.has("since") ? Number(asked.get("since")) : null;
    const before = Number(asked.get("before") ?? Infinity);
    const found = events.filter(({ number }) => number > (since ?? 0) && number < before);
    const page = since == null ? found.slice(-limit) : found.slice(0, limit);
    const more = found.length > page.length;
    const isInside = page.length > 0 && (since == null ? asked.has("before") : more);
    const newest = Math.max(events.at(-1)?.number ?? 0, since ?? 0);
    const next = isInside ? page.at(-1).number : newest;
    json({ events: page, next, more, oldest: events[0]?.number ?? null });
  }
  // A bucket for each evaluation, of the series `metric` alone.
  #charts(asked, response) {
    const chartOf = (rows) => ({
      rows: rows.length,
      buckets: rows.map(([step]) => {
        const ends = { from_step: step, to_step: step, from: step, to: step };
        return { attempt: 1, abandoned: false, rows: 1, ...ends };
      }),
      series: { metric: rows.map((row) => [row[5], row[5], row[5], 1]) },
    });
    const runs = (asked.get("runs") ?? "").split(",").map((id) => ({
      id,
      resolution_seconds: 0,
      steps: chartOf([]),
      evaluations: chartOf(this.entry(id)?.metrics.evaluations ?? []),
    }));
    send(response, { x: asked.get("x") ?? "step", runs }, 200);
  }
  #refuse(response, message) {
    const type = { "content-type": "application/json", "www-authenticate": "Bearer" };
    response.writeHead(401, { ...kSecurityHeaders, ...type });
    response.end(JSON.stringify({ status: 401, code: "unauthorized", detail: message }));
  }
  async #session(request, response) {
    let body = "";
    for await (const chunk of request) body += chunk;
    const { ticket } = JSON.parse(body);
    if (!this.tickets.delete(ticket) && ticket !== kTicket) {
      return this.#refuse(response, "this link was used already or is older than a minute");
    }
    const token = randomBytes(32).toString("hex");
    this.sessions.add(token);
    response.writeHead(201, { ...kSecurityHeaders, "content-type": "application/json" });
    response.end(JSON.stringify({ token, idle_seconds: 43_200, seconds: 604_800 }));
  }
  #api(method, id, part, url, response) {
    const json = (body, status = 200) => send(response, body, status);
    if (!id) {
      const row = ({ warnings, config, ...rest }) => rest;
      const runs = this.entries.map((entry) => row(entry.run));
      return json({ runs, next: null, total: runs.length });
    }
    const entry = this.entry(id);
    if (!entry) return json({ status: 404, code: "not_found", detail: `no run ${id}` }, 404);
    const { run, metrics, log } = entry;
    if (method === "POST") {
      if (part !== "cancel" && part !== "resume") return json({ status: 400, code: "user", detail: "no" }, 400);
      if (this.refusal) {
        return json({ status: 409, code: "conflict", detail: this.refusal }, 409);
      }
      Object.assign(
        run,
        part === "cancel"
          ? { state: "stopping", state_text: "stopping, writing a checkpoint" }
          : { state: "queued", state_text: "was resumed" },
      );
      return json(run, 202);
    }
    const since = Number(url.searchParams.get("since") ?? 0);
    const fresh = (rows) => rows.filter((row) => row[0] > since);
    if (!part) return json(run);
    if (part === "metrics") {
      this.cursors.push(since);
      return json({
        cursor: metrics.steps.at(-1)?.[0] ?? 0,
        steps: fresh(metrics.steps),
        evaluations: fresh(metrics.evaluations),
        checkpoints: fresh(metrics.checkpoints),
        timeline: metrics.timeline,
        rank_shares: metrics.rank_shares ?? null,
        prediction: metrics.prediction,
      });
    }
    if (part === "explain") return json(entry.explanation ?? explanationOf(run));
    if (part === "attempts") {
      const { launches, attempts } = entry;
      return json(launches ? { launches, attempts: [] } : (attempts ?? attemptsOf(run)));
    }
    if (part === "environment") {
      const { status, body } = answerOfEnvironment(entry, url.searchParams.get("attempt"));
      return json(body, status);
    }
    if (part === "learning" || part === "speed") {
      const missing = `run ${id} has no attempt with steps yet`;
      if (entry[part]) return json(entry[part]);
      return json({ status: 404, code: "not_found", detail: missing }, 404);
    }
    if (part === "plan") {
      if (entry.damage) return json({ status: 400, code: "user", detail: entry.damage }, 400);
      const missing = { status: 404, code: "not_found", detail: `run ${id} has no plan` };
      return entry.plan ? json(entry.plan) : json(missing, 404);
    }
    if (part === "logs") {
      const offset = Number(url.searchParams.get("offset") ?? 0);
      const bytes = Buffer.from(log).subarray(offset, offset + 4096);
      return json({ text: bytes.toString(), next: offset + bytes.length });
    }
    if (part === "checkpoints") {
      return json({
        checkpoints: metrics.checkpoints.map(([step, seconds, name, status]) => ({
          step,
          name,
          path: `${run.directory}/checkpoints/${name}`,
          bytes: status === "failed" ? 0 : 13_420_544,
          seconds: 0.041,
          stall_seconds: 0.0043,
          copy_seconds: 0.004,
          write_seconds: 0.02,
          sync_seconds: 0.012,
          status,
          message: status === "failed" ? "no room: 4 kB are free, 13 MB needed" : null,
          at: new Date(Date.UTC(2026, 10, 21, 12, 0, seconds)).toISOString(),
        })),
      });
    }
    return json({ status: 404, code: "not_found", detail: "no such route" }, 404);
  }
  #file(path, response) {
    const name = path === "/" ? "index.html" : path.slice(1);
    if (!readdirSync(kDist, { recursive: true }).includes(name) || !extname(name)) {
      response.writeHead(404, kSecurityHeaders).end();
      return;
    }
    response.writeHead(200, { ...kSecurityHeaders, "content-type": kTypes[extname(name)] });
    response.end(readFileSync(join(kDist, name)));
  }
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const entries = [...standardRuns(), ranksRun(), manyRun()];
  const fixture = await new Fixture(entries).start(Number(process.argv[2] ?? 8090));
  fixture.nodes = makeNodes(64);
  fixture.topology = makeTopology({ leaves: 4, perLeaf: 16 });
  fixture.sweeps = makeSweeps();
  fixture.experiments = makeExperiments();
  console.log(`${fixture.url}#ticket=${kTicket}`);
}
