// Requests of the page without a browser.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const web = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "web");
const { buildSync } = createRequire(join(web, "package.json"))("esbuild");
const bundle = buildSync({
  stdin: { contents: `export * from "./src/base/request";`, resolveDir: web },
  absWorkingDir: web,
  bundle: true,
  format: "esm",
  write: false,
  platform: "browser",
});
delete globalThis.BroadcastChannel; // of other tabs; an open one keeps this process
const code = Buffer.from(bundle.outputFiles[0].contents).toString("base64");
const { get, messageOf, postLong } = await import(`data:text/javascript;base64,${code}`);

// As fetch does it: nothing comes until somebody gives up, and then their reason.
globalThis.fetch = (_, { signal }) =>
  new Promise((_, fail) => signal.addEventListener("abort", () => fail(signal.reason)));

test("an answer that does not come in time is told as that", async () => {
  const asked = postLong("runs/x/checkpoints/gc", { milliseconds: 50 });
  const error = await asked.catch((one) => one);
  assert.equal(messageOf(error), "no answer within 0.05 s");
});

test("what its view gives up is no answer that came late", async () => {
  const stop = new AbortController();
  const asked = get("runs", stop.signal);
  stop.abort();
  const error = await asked.catch((one) => one);
  assert.equal(error.name, "AbortError");
});
