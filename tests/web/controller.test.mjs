// The page as the real controller serves it. REGATTA_BINARY names a built `regatta`; the controller
// finds a finished run in its runs directory, adopts it, and the page shows it.
// REGATTA_RUN_DIRECTORY (optional) names the directory of a real run, shown as well.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { series } from "./fixture.mjs";
import { Visitor, kPatience, launch, missingBrowser } from "./setup.mjs";

const binary = process.env.REGATTA_BINARY ? resolve(process.env.REGATTA_BINARY) : null;
if (!binary) console.error("SKIPPED: REGATTA_BINARY does not name a built regatta");
const skip = missingBrowser() ?? (binary ? false : "REGATTA_BINARY is not set");
const kRun = "adopted-4f2a91";
const kTarget = 0.098;
const kBaseline = 0.049;
let folder, controller, url, browser;
let complaints = "";

// A finished attempt in the format of trainer/contract: what a trainer would have left behind.
function writeFinishedRun(runs) {
  const run = join(runs, kRun);
  const execution = "0123456789abcdef";
  const attempt = join(run, "attempts", `1-${execution}`);
  for (const path of [join(attempt, "logs"), join(run, "checkpoints"), join(run, "epoch")]) {
    mkdirSync(path, { recursive: true, mode: 0o700 });
  }
  writeFileSync(join(run, "epoch", "1"), "");
  const config = {
    name: "adopted",
    model: { layers: 2, hidden: 128, heads: 2, vocabulary: 4000 },
    data: { path: "/nonexistent/dataset", max_length: 128 },
    steps: 4000,
    batch: { size: 32 },
    target: { metric: "mlm_accuracy", value: kTarget },
  };
  writeFileSync(join(run, "run.json"), JSON.stringify(config));

  const { steps, evaluations } = series({ steps: 1600, stepSeconds: 0.1, evaluateEvery: 50 });
  const begin = Date.now() / 1000 - 600;
  const start = 1.5; // seconds from the attempt's start to its first step
  const lines = [];
  const record = (seconds, type, body) => {
    const head = { sequence: lines.length, utc_seconds: begin + seconds, seconds, type };
    lines.push(JSON.stringify({ ...head, ...body }));
  };
  record(0.2, "start", {
    attempt: 1,
    execution,
    epoch: 1,
    process: 2 ** 22 + 1,
    host: "node1",
    version: "0.1.0",
    parameters: 1_000_000,
    steps: 4000,
    batch_size: 32,
    ranks: 4,
    ranks_per_node: 2,
    device: "cpu",
    peak_flops: 4e11,
    bucket_bytes: [4_000_000, 1_000_000],
    first_step: 0,
    checkpoint: "",
    metric: "mlm_accuracy",
    target: kTarget,
    baseline: kBaseline,
  });
  record(0.3, "phase", { phase: "training" });
  record(0.4, "warning", { message: "<b>a warning</b> of the trainer" });
  let crossing = null;
  let newest = 0;
  for (const [number, seconds, loss] of steps) {
    const stepSeconds = seconds - newest;
    newest = seconds;
    record(start + seconds, "step", {
      step: number,
      loss,
      mlm_loss: loss - 0.6,
      nsp_loss: 0.6,
      learning_rate: 1e-3,
      gradient_norm: 1,
      samples: 32,
      tokens: 3744,
      masked: 560,
      step_seconds: stepSeconds,
      forward_seconds: stepSeconds * 0.3,
      backward_seconds: stepSeconds * 0.5,
      exposed_seconds: stepSeconds * 0.1,
      bucket_launched: [stepSeconds * 0.5, stepSeconds * 0.8],
      bucket_finished: [stepSeconds * 0.7, stepSeconds * 0.9],
      imbalance: 1.0625,
      noise_scale: 640,
      noise_scale_low: 520,
      efficiency: 0.75,
      goodput: (0.75 * 32) / stepSeconds,
      mfu: 0.25,
      utilisation: 0.9,
    });
    const evaluation = evaluations.find((row) => row[0] === number);
    if (!evaluation) continue;
    const met = evaluation[2] >= kTarget;
    record(start + seconds + 0.01, "eval", {
      step: number,
      mlm_accuracy: evaluation[2],
      mlm_loss: evaluation[3],
      nsp_accuracy: 0.6,
      samples: 1024,
      eval_seconds: 0.01,
      target_met: met,
    });
    if (!met) continue;
    crossing = { step: number, seconds: seconds + 0.01, value: evaluation[2] };
    const name = `step-${String(number).padStart(9, "0")}`;
    record(start + seconds + 0.05, "checkpoint", {
      step: number,
      name,
      status: "written",
      bytes: 13_420_544,
      checkpoint_seconds: 0.04,
      stall_seconds: 0.006,
      copy_seconds: 0.005,
      write_seconds: 0.02,
      sync_seconds: 0.0125,
      message: "",
    });
    record(start + seconds + 0.055, "checkpoint", {
      step: number,
      name: "",
      status: "failed",
      message: "older checkpoints <b>stay</b>",
    });
    record(start + seconds + 0.06, "end", {
      reason: "target",
      step: number,
      exit_code: 0,
      message: "target reached",
    });
    break;
  }
  assert.ok(crossing, "the made-up curve reaches its target");
  writeFileSync(join(attempt, "journal.jsonl"), `${lines.join("\n")}\n`);
  return { ...crossing, checkpoint: join(run, "checkpoints") };
}

function freePort() {
  return new Promise((done, fail) => {
    const probe = createServer();
    probe.once("error", fail);
    probe.listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => done(port));
    });
  });
}

const server = () => `unix:${join(folder, "store", "controller.sock")}`;
const regatta = (...words) =>
  execFileSync(binary, [...words, "--server", server()], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
  });
// A link of `regatta open`, to a place of the page such as "/runs/<id>".
const linkTo = (place = "") => regatta("open").trim() + place;

async function serve(runs, port) {
  const sibling = join(dirname(binary), "..", "trainer", "regatta-train");
  const trainer = existsSync(sibling) ? sibling : process.execPath; // nothing is started here
  const options = [
    "serve",
    "--port",
    String(port),
    "--data",
    join(folder, "store"),
    "--runs",
    runs,
    "--trainer",
    trainer,
  ];
  if (process.getuid() === 0) options.push("--allow-privileged");
  controller = spawn(binary, options, { stdio: ["ignore", "pipe", "pipe"] });
  for (const stream of [controller.stdout, controller.stderr]) {
    stream.on("data", (text) => (complaints += text));
  }
  url = `http://127.0.0.1:${port}/`;
  const end = Date.now() + kPatience;
  for (;;) {
    try {
      return void regatta("show", kRun);
    } catch {
      // not yet
    }
    const gone = controller.exitCode ?? controller.signalCode;
    assert.ok(gone == null, `the controller ended (${gone}): ${complaints}`);
    assert.ok(Date.now() < end, `the controller adopts no run: ${complaints}`);
    await new Promise((done) => setTimeout(done, 100));
  }
}

let expected;
before(async () => {
  if (skip) return;
  folder = mkdtempSync(join(tmpdir(), "regatta-page-"));
  const runs = join(folder, "runs");
  mkdirSync(runs, { mode: 0o700 });
  expected = writeFinishedRun(runs);
  const real = process.env.REGATTA_RUN_DIRECTORY;
  if (real) {
    const checkpoints = join(resolve(real), "checkpoints");
    cpSync(real, join(runs, basename(resolve(real))), {
      recursive: true,
      filter: (path) => !path.startsWith(`${checkpoints}/`), // large, and only listed
    });
  }
  await serve(runs, await freePort());
  browser = await launch();
});
async function endController() {
  if (!controller || controller.exitCode != null) return;
  const ended = new Promise((done) => controller.once("exit", done));
  controller.kill("SIGTERM");
  const late = setTimeout(() => controller.kill("SIGKILL"), 10_000);
  await ended;
  clearTimeout(late);
}
after(async () => {
  await browser?.close();
  await endController();
  if (folder) rmSync(folder, { recursive: true, force: true });
});

function controllerTest(name, body) {
  test(name, { skip }, () => Visitor.explain(name, body));
}

controllerTest("the controller serves the page under its policy", async () => {
  const page = await fetch(url, { headers: { accept: "text/html" } });
  assert.equal(page.status, 200);
  assert.match(page.headers.get("content-security-policy") ?? "", /default-src 'self'/);
  const html = await page.text();
  const script = /src="([^"]+\.js)"/.exec(html)?.[1];
  assert.ok(script, `the page names its script (was web/dist built before regatta?): ${html}`);
  const asset = await fetch(new URL(script, url));
  assert.equal(asset.status, 200);
  assert.match(asset.headers.get("content-type"), /javascript/);
  assert.match(asset.headers.get("cache-control"), /immutable/);
});

controllerTest("an adopted run shows its curve, target and time to accuracy", async () => {
  const visitor = await Visitor.arrive(browser, linkTo());
  const { page } = visitor;
  await page.getByRole("link", { name: "adopted", exact: true }).click();
  await visitor.sees("Time to accuracy");
  const curve = await visitor.waitForPixels(0, "accent", 500);
  assert.ok(curve.right - curve.left > curve.width / 2, "the curve spans the chart");
  const target = await visitor.waitForPixels(0, "good", 300);
  assert.ok(target.right - target.left > target.width * 0.8, "the target line crosses the chart");
  await visitor.waitForPixels(1, "accent", 100);
  await visitor.waitForPixels(2, "accent", 100);
  await visitor.sees("Checkpoints (1)");
  const curves = await page.locator("main").innerText();
  await visitor.keepPicture("controller");
  await page.getByRole("link", { name: "Checkpoints" }).click();
  await visitor.sees("13.4 MB");
  const text = (curves + (await page.locator("main").innerText())).replace(/\s+/g, " ");
  const whole = Math.round(expected.seconds);
  const time = `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
  for (const word of [
    "succeeded",
    "9.80 %",
    "4.90 %",
    `${(expected.value * 100).toFixed(2)} %`,
    "4,000",
    time,
    "<b>a warning</b> of the trainer",
    "Checkpoints (1)",
    "1,500 newest written – 13.4 MB",
    "40 ms 413 MB/s, stalled 6 ms",
    `checkpoint of step ${expected.step}: older checkpoints <b>stay</b>`,
    expected.checkpoint,
  ]) {
    assert.ok(text.includes(word), `${word} in: ${text}`);
  }
  const steps = expected.step.toLocaleString("en-US");
  assert.ok(text.includes(`${steps} / 4,000`), `${steps} in: ${text}`);
  await page.getByRole("link", { name: "Log" }).click();
  await visitor.sees("The log is empty.");
  await page.getByRole("link", { name: "Details" }).click();
  await visitor.sees("/nonexistent/dataset");
  await visitor.sees("No environment:");
  await visitor.leave(/status of 404/); // its attempt was made by hand
});

controllerTest("an adopted run shows its ranks and buckets", async () => {
  const visitor = await Visitor.arrive(browser, linkTo(`/runs/${kRun}`));
  const panel = visitor.page.getByRole("region", { name: "Ranks and communication" });
  await panel.waitFor();
  const text = (await panel.innerText()).replace(/\s+/g, " ");
  for (const words of [
    "Ranks 4 2 per node, cpu",
    "MFU 25.0 % of 400 GFLOP/s",
    "Utilisation 90.0 %",
    "Exposed communication 10.0 % of the step",
    "Statistical efficiency 75.0 %",
    "Noise scale 640 samples, above 520",
    "Imbalance 1.0625",
    `Reductions of step ${expected.step.toLocaleString("en-US")}`,
    "2 buckets of 5.00 MB",
  ]) {
    assert.ok(text.includes(words), `${words} in: ${text}`);
  }
  assert.ok(!text.includes("Furthest behind"), "the run is over");
  assert.equal(await panel.locator("rect.hidden").count(), 1);
  assert.equal(await panel.locator("rect.exposed").count(), 1);
  await visitor.leave();
});

controllerTest("the page may post, and cancelling an ended run changes nothing", async () => {
  const visitor = await Visitor.arrive(browser, linkTo(`/runs/${kRun}`));
  await visitor.sees("Time to accuracy");
  await visitor.isLetIn(); // the tabs are there before
  const answer = await visitor.page.evaluate(async (id) => {
    const headers = { authorization: `Bearer ${sessionStorage.getItem("regatta.session")}` };
    const response = await fetch(`api/v1/runs/${id}/cancel`, { method: "POST", headers });
    return { status: response.status, state: (await response.json()).state };
  }, kRun);
  assert.deepEqual(answer, { status: 200, state: "succeeded" });
  await visitor.leave();
});

controllerTest("a link is used once, and a restarted controller asks for another", async () => {
  const link = regatta("open", kRun).trim();
  const visitor = await Visitor.arrive(browser, link);
  await visitor.sees("Time to accuracy");
  assert.equal(new URL(visitor.page.url()).hash, `#/runs/${kRun}`);
  const second = await Visitor.arrive(browser, link);
  await second.sees("this link was used already");
  await second.leave(/status of 401/);
  await visitor.page.reload();
  await visitor.sees("Time to accuracy");
  await visitor.page.getByRole("link", { name: "← All runs" }).click(); // the list is always asked for
  await endController();
  await visitor.sees("Controller unreachable");
  await serve(join(folder, "runs"), Number(new URL(url).port));
  await visitor.sees("no longer knows this page's session");
  await visitor.page.goto(regatta("open", kRun).trim());
  await visitor.sees("Time to accuracy");
  await visitor.leave(/status of 401|ERR_/);
});

controllerTest("what happened to a run is told, with who asked for it", async () => {
  const visitor = await Visitor.arrive(browser, linkTo(`/runs/${kRun}/events`));
  const section = visitor.page.getByRole("region", { name: "What happened" });
  const rows = section.locator("tbody tr");
  await visitor.sees("Job or process ended"); // the last of what its directory tells
  for (let i = 0; i < 10; i += 1) regatta("label", kRun, "--note", `note ${i} of <b>ten</b>`);
  await visitor.sees("note 9 of <b>ten</b>");
  const first = (await rows.first().innerText()).replace(/\s+/g, " ");
  assert.match(first, /Tags or note changed note 9 of <b>ten<\/b> – – uid \d+$/);
  await section.getByRole("button", { name: "Older events" }).click();
  await visitor.sees("Found in the runs directory");
  const notes = (await rows.allInnerTexts()).filter((row) => row.includes("of <b>ten</b>"));
  assert.equal(notes.length, 10);
  assert.equal(new Set(notes).size, 10);
  await visitor.keepPicture("controller-events");
  await visitor.leave();
});

controllerTest("an unknown run is said to be unknown", async () => {
  const visitor = await Visitor.arrive(browser, linkTo("/runs/nobody-000000"));
  await visitor.sees("No such run");
  await visitor.leave(/status of 404/);
});

const real = process.env.REGATTA_RUN_DIRECTORY;
async function showsRealRun() {
  const id = basename(resolve(real));
  const { name } = JSON.parse(readFileSync(join(real, "run.json"), "utf8"));
  const visitor = await Visitor.arrive(browser, linkTo(`/runs/${encodeURIComponent(id)}`));
  await visitor.page.getByRole("heading", { name, exact: true }).waitFor();
  await visitor.waitForPixels(0, "accent", 300);
  await visitor.waitForPixels(0, "good", 300);
  await visitor.keepPicture("real");
  await visitor.leave();
}
if (real) controllerTest("a real run shows its curve", showsRealRun);
