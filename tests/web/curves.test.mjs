// What a resumed or long run's timeline and curves are made of, without a browser.
import assert from "node:assert/strict";
import { test } from "node:test";
import { sourcesOf } from "./sources.mjs";

const page = await sourcesOf(`export { strips } from "./src/run/strip";
  export { named, totals } from "./src/run/strip_figures";
  export { emptyHistory, extend } from "./src/run/history";`);

const at = (seconds) => new Date(Date.UTC(2026, 10, 21, 12, 0, 0) + 1000 * seconds).toISOString();

// Steps of 0.1 s, the longer ones of 0.2, and 0.42 s for each evaluation after 50 of them: as the page
// has them while it asks each second, and as the controller thins them for a page that is opened late.
function longRun(until, { every = 1, polled = true } = {}) {
  const told = { steps: [], evaluations: [], checkpoints: [], timeline: null, prediction: null };
  let history = page.emptyHistory();
  let [seconds, cursor] = [0, 0];
  let part = structuredClone(told);
  for (let step = 1; step <= until; step += 1) {
    seconds += step % 7 === 0 ? 0.2 : 0.1;
    if (step % every === 0 || step === until) part.steps.push([step, seconds]);
    if (step % 50 === 0) {
      seconds += 0.42;
      part.evaluations.push([step, seconds]);
    }
    if ((polled && step % 10 === 0) || step === until) {
      history = page.extend(history, { ...part, cursor: (cursor += 1) });
      part = structuredClone(told);
    }
  }
  const run = {
    ...{ state: "running", state_text: "training", created_at: at(0), started_at: at(0) },
    ...{ ended_at: null, since_submission_seconds: seconds, silent_seconds: null },
  };
  const attempt = { attempt: 1, launch: null, started_at: at(0), first_step: 0, exit_code: null };
  const attempts = [{ ...attempt, hosts: ["a"], seconds }];
  const { steps, evaluations } = history;
  return {
    ...{ run, steps, evaluations, checkpoints: [], requeues: [] },
    told: { launches: [], attempts },
  };
}

for (const [name, until, options] of [
  ["each row", 3000, {}],
  ["rows that the page has thinned", 4050, {}],
  ["more of them", 6787, {}],
  ["rows that are thinned twice", 17_000, {}],
  ["rows that the controller has thinned", 6787, { every: 4, polled: false }],
  ["a row for each 120 steps", 17_000, { every: 120, polled: false }],
]) {
  test(`evaluations are summed wholly, of ${name}`, () => {
    const all = page.totals(page.strips(longRun(until, options)));
    const of = all.find((one) => one.kind === "evaluating");
    const count = Math.floor(until / 50);
    assert.equal(of.count, count);
    assert.ok(Math.abs(of.seconds / (0.42 * count) - 1) < 0.1, `${of.seconds} of ${0.42 * count}`);
    assert.equal(of.isAbout, name !== "each row");
    const whole = all.reduce((sum, one) => sum + one.seconds, 0);
    const [strip] = page.strips(longRun(until, options));
    assert.ok(Math.abs(whole - strip.to) < 1e-6, `${whole} of ${strip.to}`);
  });
}

test("checkpoints of no known length count as well", () => {
  const known = longRun(500);
  known.checkpoints = [3, null, 2].map((seconds, i) => {
    return { step: 100 * i, name: `c${i}`, status: "written", seconds, at: at(20 + 10 * i) };
  });
  const of = page.totals(page.strips(known)).find((one) => one.kind === "checkpointing");
  assert.deepEqual([of.seconds, of.count], [5, 3]);
});

test("a run that is over without an attempt has no next one", () => {
  for (const [state, name] of [["failed", "No attempt"], ["queued", "Next attempt"]]) {
    const known = longRun(1);
    Object.assign(known.run, { state, ended_at: state === "failed" ? at(9) : null });
    known.told.attempts = [];
    assert.deepEqual(page.strips(known).map(page.named), [name]);
  }
});
