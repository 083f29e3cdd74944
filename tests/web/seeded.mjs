// The real controller over made-up runs (seed.py) for the page's tests and pictures. REGATTA_BINARY
// names a built `regatta`; the page is web/dist. Run by itself it serves them until Ctrl-C:
//   REGATTA_BINARY=build/release/orchestrator/regatta node tests/web/seeded.mjs [RUNS]
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { request } from "node:http";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { kDist } from "./fixture.mjs";
import { Visitor, kPatience, missingBrowser } from "./setup.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const binary = process.env.REGATTA_BINARY ? resolve(process.env.REGATTA_BINARY) : null;

// A reason to skip, or false.
export function missingController() {
  if (!binary) console.error("SKIPPED: REGATTA_BINARY does not name a built regatta");
  return missingBrowser() ?? (binary ? false : "REGATTA_BINARY is not set");
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

export class Seeded {
  // runs: how many are made up. prepare(folder) may add to folder/runs before the controller begins.
  // options: more of `regatta serve`.
  constructor({ runs = 60, prepare = () => undefined, options = [] } = {}) {
    this.count = runs;
    this.options = options;
    this.prepare = prepare;
    this.complaints = "";
  }
  async start() {
    this.folder = mkdtempSync(join(tmpdir(), "regatta-seeded-"));
    this.runs = join(this.folder, "runs");
    mkdirSync(this.runs, { mode: 0o700 });
    const now = String(Math.floor(Date.now() / 1000));
    const seed = [join(here, "seed.py"), this.runs, "--runs", String(this.count), "--now", now];
    execFileSync("python3", seed);
    await this.prepare(this.folder);
    await this.serve(await freePort());
    return this;
  }
  async serve(port) {
    const trainer = join(dirname(binary), "..", "trainer", "regatta-train");
    const options = ["serve", "--port", String(port), "--data", join(this.folder, "data")];
    options.push("--runs", this.runs, "--page-directory", kDist, "--scheduler", "local");
    options.push("--trainer", existsSync(trainer) ? trainer : process.execPath);
    options.push(...this.options);
    if (process.getuid() === 0) options.push("--allow-privileged");
    this.process = spawn(binary, options, { stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [this.process.stdout, this.process.stderr]) {
      stream.on("data", (text) => (this.complaints += text));
    }
    this.url = `http://127.0.0.1:${port}/`;
    const end = Date.now() + kPatience;
    while (!(await this.hasAdopted())) {
      const gone = this.process.exitCode ?? this.process.signalCode;
      assert.ok(gone == null, `the controller ended (${gone}): ${this.complaints}`);
      assert.ok(Date.now() < end, `the controller adopts nothing: ${this.complaints}`);
      await new Promise((done) => setTimeout(done, 100));
    }
  }
  async hasAdopted() {
    try {
      const total = (await this.ask("runs?limit=1&total=true&archived=all")).total;
      return total >= this.count;
    } catch {
      return false;
    }
  }
  get server() {
    return `unix:${join(this.folder, "data", "controller.sock")}`;
  }
  // What the command line says to these words.
  regatta(...words) {
    return execFileSync(binary, [...words, "--server", this.server], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
    });
  }
  // The API's answer, asked for beside the page.
  ask(path, { method = "GET", body } = {}) {
    return new Promise((done, fail) => {
      const asked = request({
        socketPath: this.server.slice("unix:".length),
        path: `/api/v1/${path}`,
        method,
        headers: { host: "localhost", "content-type": "application/json" },
      });
      asked.on("error", fail);
      asked.on("response", async (response) => {
        try {
          let text = "";
          response.setEncoding("utf8");
          for await (const part of response) text += part;
          done(JSON.parse(text));
        } catch (error) {
          fail(error);
        }
      });
      asked.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }
  // A link to a place of the page such as "/runs/<id>".
  link(place = "") {
    return this.regatta("open").trim() + place;
  }
  async stop() {
    if (this.process && this.process.exitCode == null && this.process.signalCode == null) {
      const ended = new Promise((done) => this.process.once("exit", done));
      this.process.kill("SIGTERM");
      const late = setTimeout(() => this.process.kill("SIGKILL"), 10_000);
      await ended;
      clearTimeout(late);
    }
    if (this.folder) rmSync(this.folder, { recursive: true, force: true });
  }
}

// A test of the page that keeps a picture of what failed.
export function seededTest(skip) {
  return (name, body) => test(name, { skip }, () => Visitor.explain(name, body));
}

if (process.argv[1] && pathToFileURL(process.argv[1]).href === import.meta.url) {
  const seeded = await new Seeded({ runs: Number(process.argv[2] ?? 240) }).start();
  console.log(`${seeded.link()}\nregatta open --server ${seeded.server}`);
  process.on("SIGINT", () => void seeded.stop().then(() => process.exit(0)));
}
