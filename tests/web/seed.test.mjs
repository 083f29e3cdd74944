// The made-up runs of seed.py fit together: what takes time has it, and all of it is over.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const kNow = 1795000000;
const kRounding = 0.002; // s; times have three digits

function journalsOf(folder) {
  const found = [];
  for (const run of readdirSync(folder)) {
    for (const attempt of readdirSync(join(folder, run, "attempts"))) {
      const text = readFileSync(join(folder, run, "attempts", attempt, "journal.jsonl"), "utf8");
      found.push({ run, attempt, records: text.trim().split("\n").map((line) => JSON.parse(line)) });
    }
  }
  return found;
}

test("steps, evaluations and checkpoints of a journal do not lie on each other", (context) => {
  const folder = mkdtempSync(join(tmpdir(), "regatta-seed-"));
  context.after(() => rmSync(folder, { recursive: true }));
  const options = ["--runs", "60", "--now", String(kNow)];
  execFileSync("python3", [join(here, "seed.py"), folder, ...options]);
  const journals = journalsOf(folder);
  assert.ok(journals.length > 60, `${journals.length} journals`);
  const long = { step: "step_seconds", eval: "eval_seconds", checkpoint: "checkpoint_seconds" };
  for (const { run, attempt, records } of journals) {
    const where = ({ sequence, type }) => `${run} ${attempt}: ${type} ${sequence}`;
    const ends = new Map(); // of the steps
    let free = 0; // when training can go on
    records.forEach((record, index) => {
      assert.equal(record.sequence, index, where(record));
      assert.ok(record.seconds >= (records[index - 1]?.seconds ?? 0), `${where(record)} goes back`);
      const began = record.seconds - (record[long[record.type]] ?? 0) + kRounding;
      if (record.type === "step") ends.set(record.step, record.seconds);
      const since = record.type === "checkpoint" ? ends.get(record.step) : free;
      assert.ok(began >= since, `${where(record)} begins at ${began}, and not before ${since}`);
      if (record.type === "checkpoint") {
        const { stall_seconds: stall, copy_seconds: copy, write_seconds, sync_seconds } = record;
        assert.ok(stall >= copy, where(record)); // which it includes
        assert.ok(record.checkpoint_seconds >= copy + write_seconds + sync_seconds, where(record));
      } else {
        free = record.seconds;
      }
    });
    assert.ok(records.at(-1).utc_seconds < kNow, `${where(records.at(-1))} ends ahead of now`);
  }
});
