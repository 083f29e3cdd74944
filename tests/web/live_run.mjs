// A run that was started by hand and trains on, for tests of what the page shows meanwhile: its
// journal grows by what the test says. Of the kind of seed.py's "books-small", so that a controller
// predicts its crossing from those.
import { appendFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const kStepSeconds = 0.8;
const kRunFile = {
  name: "live",
  steps: 200,
  batch: { size: 2560 },
  ranks: 16,
  ranks_per_node: 8,
  seed: 1,
  model: { preset: "small" },
  data: { path: "/data/wiki" },
  target: { value: 0.6 },
};
const kStart = {
  type: "start",
  attempt: 1,
  execution: "00000000000000aa",
  epoch: 1,
  process: 4711,
  host: "gpu-016",
  hosts: ["gpu-016", "gpu-017"],
  version: "0.1.0",
  parameters: 109514298,
  steps: 200,
  batch_size: 2560,
  ranks: 16,
  ranks_per_node: 8,
  device: "NVIDIA H100 80GB HBM3",
  peak_flops: 1.58e16,
  first_step: 0,
  checkpoint: "",
  metric: "mlm_accuracy",
  target: 0.6,
  baseline: 0.049,
};

export class LiveRun {
  // Its first step begins so many seconds before now. more: other values of its start, such as steps.
  constructor(folder, id, ago, more = {}) {
    const start = { ...kStart, ...more };
    const directory = join(folder, "runs", id);
    const attempt = join(directory, "attempts", `1-${start.execution}`);
    mkdirSync(attempt, { recursive: true, mode: 0o700 });
    writeFileSync(join(directory, "run.json"), JSON.stringify({ ...kRunFile, steps: start.steps }));
    this.id = id;
    this.journal = join(attempt, "journal.jsonl");
    this.begin = Date.now() / 1000 - ago;
    this.sequence = 0;
    this.step = 0;
    this.say(0, start);
  }
  say(seconds, record) {
    const head = { sequence: this.sequence, utc_seconds: this.begin + seconds, seconds };
    this.sequence += 1;
    appendFileSync(this.journal, `${JSON.stringify({ ...head, ...record })}\n`);
  }
  // Trains up to this step and evaluates each 20th; the accuracy is that of the seeded runs.
  train(last) {
    while (this.step < last) {
      this.step += 1;
      const [step, at] = [this.step, this.step * kStepSeconds];
      const loss = 2 + 8 * Math.exp(-at / 30);
      const times = { step_seconds: kStepSeconds, exposed_seconds: 0.05 * kStepSeconds };
      const figures = { loss, mlm_loss: loss - 0.4, samples: 2560, tokens: 310_000 };
      this.say(at, { type: "step", step, ...figures, ...times, learning_rate: 0.001 });
      if (step % 20 !== 0) continue;
      const mlm_accuracy = 0.61 * (1 - 0.93 * Math.exp(-at / 32));
      const judged = { mlm_accuracy, mlm_loss: loss - 0.5, samples: 1024, target_met: false };
      this.say(at + 0.3, { type: "eval", step, ...judged });
    }
  }
  get seconds() {
    return this.step * kStepSeconds;
  }
}
