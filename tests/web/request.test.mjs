// Requests of the page without a browser.
import assert from "node:assert/strict";
import { test } from "node:test";
import { sourcesOf } from "./sources.mjs";

const { get, messageOf, postLong } = await sourcesOf(`export * from "./src/base/request";`);

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
