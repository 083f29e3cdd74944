// What all views are built on, without a browser: figures, addresses, the list's words, requests.
import assert from "node:assert/strict";
import { test } from "node:test";
import { sourcesOf } from "./sources.mjs";

process.env.TZ = "Asia/Tokyo"; // nine hours before UTC, without summer time
globalThis.window = { addEventListener() {} };
const base = await sourcesOf(`
  export * as show from "./src/base/format"; export { withQuery } from "./src/base/route";
  export { pauseAfter, withData } from "./src/base/poll"; export { get, NotYet } from "./src/base/request";
  export { shownKeys } from "./src/base/keys"; export { zoomed } from "./src/parts/chart_data";
  export { reasonOf, timeOf } from "./src/runs/columns";
  export { targetWord } from "./src/base/target";
  export { countText, listQuery, withOldRows } from "./src/runs/run_list"; export { curvesOf } from "./src/runs/sparks";
`);
const { show } = base;

const plain = (text) => text.replaceAll("\u202f", " ");
function table(name, call, rows) {
  test(name, () => {
    for (const [input, expected] of rows) {
      const found = call(input);
      assert.equal(found && plain(found), expected, JSON.stringify(input));
    }
  });
}

const year = new Date().getFullYear();
table("a moment of another year says which", show.when, [
  [`${year}-11-21T03:00:08Z`, "21 Nov, 12:00:08"],
  ["2019-11-21T03:00:08Z", "21 Nov 2019, 12:00:08"],
]);
const now = Date.UTC(2026, 10, 21, 12);
table("ages", (seconds) => show.ago(new Date(now - 1000 * seconds).toISOString(), now), [
  [-5, "just now"],
  [44, "just now"],
  [45, "1 min ago"],
  [3569, "59 min ago"],
  [3571, "1 h ago"],
  [84_599, "23 h ago"],
  [84_601, "1 d ago"],
  [3 * 86_400, "3 d ago"],
]);
table("a name is drawn without what is unseen, and cut in front of its end", show.drawnName, [
  ["wiki-base-0", "wiki-base-0"],
  ["\u001b[31mred\u202eeulb\u0000\n two", "redeulb two"],
  ["x".repeat(60), "x".repeat(60)],
  [`${"😀".repeat(60)}0123456789`, `${"😀".repeat(49)}…0123456789`],
]);
table("a metric that the page has no title for is a name", show.metricTitle, [
  ["mlm_accuracy", "Masked accuracy"],
  ["toString", "toString"],
  ["\u202eycarucca\u001b[0m", "ycarucca"],
]);
table(
  "a value and its target have the digits that tell them apart",
  ([name, value, target]) => `${show.metric(name, value, target)} of ${show.metric(name, target, value)}`,
  [
    [["mlm_accuracy", 0.69996, 0.7], "69.996 % of 70.000 %"],
    [["mlm_accuracy", 0.6996, 0.7], "69.96 % of 70.00 %"],
    [["mlm_accuracy", 0.66, 0.7], "66.0 % of 70.0 %"],
    [["mlm_accuracy", 0.7, 0.7], "70.0 % of 70.0 %"],
    [["mlm_loss", 2.5004, 2.5], "2.5004 of 2.5000"],
    [["mlm_loss", 0.0123401, 0.01234], "0.0123401 of 0.01234"],
    [["mlm_accuracy", null, 0.7], "– of 70.0 %"],
    [["mlm_accuracy", 0.7, 0.7 - 1e-15], "70.0 % of 70.0 %"],
  ],
);
table("small figures keep their digits", show.number, [
  [0, "0.00"],
  [0.0042, "0.0042"],
  [0.0123456, "0.0123"],
  [-0.05, "-0.05"],
  [0.0949, "0.0949"],
  [0.4, "0.40"],
  [4.2e-7, "4.20e-7"],
]);
table("keys as they stand on the keyboard", base.shownKeys, [
  ["mod+k", "Ctrl k"],
  ["mod+enter", "Ctrl Enter"],
  ["Escape", "Esc"],
  ["g r", "g r"],
]);
table("a changed filter keeps the others", (hash) => base.withQuery(hash, { name: "a" }), [
  ["", "#/?name=a"],
  ["#/", "#/?name=a"],
  ["#/?name=b&state=failed", "#/?name=a&state=failed"],
  ["#/?text=why?&state=failed", "#/?name=a&state=failed&text=why%3F"],
]);

const row = (fields) => ({
  state: "running",
  state_text: "training, step 10 of 4000",
  metric: "mlm_accuracy",
  value: 0.095,
  target: 0.098,
  target_reached: false,
  time_to_accuracy_seconds: null,
  predicted_seconds_to_target: null,
  silent_seconds: null,
  step: 3010,
  steps: 4000,
  samples: 3010 * 32,
  samples_per_second: 32 / 4.1,
  training_seconds: 41, // a fork: of its own ten steps
  since_submission_seconds: 60,
  error: null,
  ...fields,
});
const loss = { metric: "mlm_loss", target: 2.1 };
table("the sign between value and target is that of the figures", (f) => base.targetWord(row(f)), [
  [{}, "of"],
  [{ value: 0.099, target_reached: true }, "≥"],
  [{ value: 0.095, target_reached: true }, "reached before; target"],
  [{ value: null }, "of"],
  [{ ...loss, value: 2.31 }, "target"],
  [{ ...loss, value: 2.31, target_reached: true }, "reached before; target"],
  [{ ...loss, value: 2.05, target_reached: true }, "≤"],
]);
table("why a run waits or failed", (fields) => base.reasonOf(row(fields)), [
  [{}, null],
  [{ state: "succeeded", state_text: "finished, step 10 of 10" }, null],
  [{ state_text: "suspended by Slurm, step 9 of 10" }, "suspended by Slurm, step 9 of 10"],
  [
    { state: "succeeded", state_text: "finished without reaching its target, step 10 of 10" },
    "finished without reaching its target, step 10 of 10",
  ],
  [
    { state: "succeeded", state_text: "ended at an earlier target, step 9 of 10" },
    "ended at an earlier target, step 9 of 10",
  ],
  [{ silent_seconds: 75 }, "silent for 1 min 15 s"],
  [{ error: "\u001b[31mOOM\u001b[0m" }, "OOM"],
  [{ error: "x".repeat(16_384) }, `${"x".repeat(1000)}…`],
  [{ state: "queued", state_text: "\u001b[2Jwaits" }, "waits"],
]);
table("the time that counts", (f) => Object.values(base.timeOf(row(f))).join(" "), [
  [{}, "≈ 1 h 08 min left to its last step"], // 990 steps of 4.1 s
  [{ predicted_seconds_to_target: 90 }, "≈ 1 min 30 s left to target"],
  [{ time_to_accuracy_seconds: 90 }, "1 min 30 s to target"],
  [{ samples_per_second: null }, "41 s trained"], // silent
  [{ step: 0, samples_per_second: null }, "1 min 00 s since submission"],
  [{ batch_size: 32 }, "≈ 1 h 08 min left to its last step"],
  [{ progress: 3500.5, batch_size: 64 }, "41 s trained"], // nobody knows how many steps are left
]);

test("a part of the list does not speak for all of it", () => {
  const page = (active, ended, total) => ({
    runs: [
      ...Array(active).fill({ state: "running" }),
      ...Array(ended).fill({ state: "succeeded" }),
    ],
    total,
  });
  assert.equal(base.countText(page(5, 95, 1300)), "100 of 1,300 shown, 5 of these active");
  assert.equal(base.countText(page(0, 100, 1300)), "100 of 1,300 shown");
  const inside = { ...page(0, 100, 272), next: "c" };
  assert.equal(base.countText(inside, 100), "101–200 of 272 shown");
  assert.equal(base.countText(inside, null), "100 of 272 shown", "where in it nobody knows");
  assert.equal(base.countText({ ...page(2, 70, 272), next: null }, null), "201–272 of 272 shown, 2 of these active");
  assert.equal(base.countText(page(2, 4, 6)), "6, 2 active");
  assert.equal(base.countText(page(0, 0, 0)), "0");
});

test("rows of a list that are as they were are the objects that they were", () => {
  const row = (id, step) => ({ id, step, tags: ["a"] });
  const old = { runs: [row("a", 1), row("b", 1)], total: 2, next: null };
  const page = base.withOldRows({ runs: [row("c", 1), row("b", 1), row("a", 2)], total: 3, next: "x" }, old);
  assert.deepEqual(page, { runs: [row("c", 1), row("b", 1), row("a", 2)], total: 3, next: "x" });
  assert.equal(page.runs[1], old.runs[1]);
  assert.notEqual(page.runs[2], old.runs[0]);
  assert.deepEqual(base.withOldRows(old, undefined), old);
});

test("a date of a filter begins where the reader is", () => {
  const asked = (query) => new URLSearchParams(base.listQuery(new URLSearchParams(query)));
  const since = (text) => asked({ since: text }).get("since");
  assert.equal(since("2026-11-27"), "2026-11-26T15:00:00.000Z");
  assert.equal(since("2026-11-27T10:30:00Z"), "2026-11-27T10:30:00Z");
  assert.equal(since("2026-13-45"), "2026-13-45", "the API says what is wrong with it");
  assert.equal(asked({ until: "2026-11-27" }).get("until"), "2026-11-26T15:00:00.000Z");
  assert.equal(asked({ name: "2026-11-27" }).get("name"), "2026-11-27");
});

test("a small curve leaves out what was trained again", () => {
  const bucket = (to_step, abandoned = false) => ({ to_step, abandoned });
  const buckets = [bucket(20), bucket(30, true), bucket(10), bucket(40)];
  const metric = [[1, 2, 3, 1], [4, 5, 6, 1], [0, 1, 2, 1], [null, null, null, 0]];
  const evaluations = { rows: 4, buckets, series: { metric } };
  const found = base.curvesOf({ x: "step", runs: [{ id: "a", evaluations }] });
  assert.deepEqual(found.get("a"), [[10, 2], [20, 3]]);
});

test("a zoom is around the point, or around the middle where that is out of view", () => {
  const full = { min: 0, max: 100 };
  assert.deepEqual(base.zoomed({ min: 0, max: 80 }, full, 20, 0.5), { min: 10, max: 50 });
  assert.deepEqual(base.zoomed({ min: 50, max: 60 }, full, 10, 0.5), { min: 52.5, max: 57.5 });
});

test("a pause doubles up to 15 s, and is never shorter than it was", () => {
  const pauses = (interval) => [0, 1, 2, 5].map((failures) => base.pauseAfter(failures, interval));
  assert.deepEqual(pauses(1000), [1000, 2000, 4000, 15_000]);
  assert.deepEqual(pauses(60_000), [60_000, 60_000, 60_000, 60_000]);
});

test("an answer like the one before is no news", () => {
  const well = base.withData({ lastData: null, failure: null, refusal: null, trouble: null }, 1, null);
  assert.equal(well.lastData, 1);
  const later = base.withData(well, 2, null);
  assert.equal(later, well, "the same object draws nothing");
  assert.equal(later.lastData, 2);
  const away = { ...well, failure: "away" };
  assert.deepEqual(base.withData(away, 3, null), { ...well, lastData: 3 });
  assert.equal(base.withData(well, 4, "the disk is full").trouble, "the disk is full");
});

// A controller that gives each address a tag.
function answering(answers = {}) {
  const asked = [];
  globalThis.fetch = async (path, { headers, signal }) => {
    signal.throwIfAborted();
    asked.push(headers["if-none-match"] ?? null);
    if (answers[path]) return answers[path]();
    const tag = `"${path}"`;
    const isKnown = headers["if-none-match"] === tag;
    return new Response(isKnown ? null : JSON.stringify({ path }), {
      status: isKnown ? 304 : 200,
      headers: { etag: tag },
    });
  };
  return asked;
}
const never = () => new AbortController().signal;

test("what is asked again and again is remembered beside answers that come once", async () => {
  const asked = answering();
  const first = await base.get("runs/a/checkpoints", never());
  for (let since = 0; since < 100; since += 1) {
    await base.get(`runs/a/metrics?since=${since}`, never());
    assert.equal(await base.get("runs/a/checkpoints", never()), first);
  }
  const tags = asked.filter((tag) => tag != null);
  assert.deepEqual([tags.length, new Set(tags).size], [100, 1]);
  for (let other = 0; other < 40; other += 1) {
    await base.get(`nodes/${other}`, never());
    await base.get("runs/a/checkpoints", never());
  }
  assert.equal(asked.at(-1), '"api/v1/runs/a/checkpoints"', "it is as new as its newest answer");
});

test("nothing is asked for a view that was left", async () => {
  const asked = answering();
  const left = new AbortController();
  left.abort();
  await assert.rejects(base.get("runs", left.signal), { name: "AbortError" });
  assert.deepEqual(asked, []);
});

test("an answer that is not the controller's is told as that", async () => {
  const json = (status, body) => () => new Response(JSON.stringify(body), { status });
  answering({
    "api/v1/starts": json(503, { detail: "it waits for Slurm's answer" }),
    "api/v1/login": () => new Response("<!doctype html>", { status: 200 }),
    "api/v1/hostile": json(409, { detail: "\u001b[31mno\u001b[0m" }),
  });
  const error = (path) => base.get(path, never()).catch((one) => one);
  const starts = await error("starts");
  assert.ok(starts instanceof base.NotYet);
  assert.equal(starts.message, "it waits for Slurm's answer");
  const login = await error("login");
  assert.ok(login instanceof base.NotYet);
  assert.match(login.message, /reload the page/);
  assert.equal((await error("hostile")).message, "no");
});
