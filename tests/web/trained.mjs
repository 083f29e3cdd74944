// A run that the real trainer has made, with checkpoints that can be read, for tests of the page: a
// tiny model on made-up sentences, under a second. REGATTA_BINARY names `regatta`; the trainer lies
// in the same build.
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";

const kWords = "sail wind mast harbour tide keel rope crew race buoy north storm calm shore deck";

function corpus() {
  const words = kWords.split(" ");
  let state = 1;
  const word = () => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return words[(state >> 8) % words.length];
  };
  const sentence = () => `${Array.from({ length: 12 }, word).join(" ")}.`;
  const document = () => Array.from({ length: 12 }, sentence).join("\n");
  return Array.from({ length: 60 }, document).join("\n\n");
}

const runFile = (name, dataset, checkpoint) => `name: ${name}
steps: 10
batch: {size: 4}
seed: 7
threads: 1
model:
  {layers: 1, hidden: 32, heads: 2, feed_forward: 64, max_positions: 64, dropout: 0.0,
   attention_dropout: 0.0}
data: {path: ${dataset}, max_length: 32}
optimizer: {name: adamw, learning_rate: 0.001, warmup_steps: 2}
evaluate: {every: 2, samples: 16}
checkpoint: {every: 2, ${checkpoint}}
`;

// Below folder/runs, as Seeded's prepare: runs with these ids, each [id, what its file says of
// checkpoints].
export function train(folder, runs) {
  const binary = resolve(process.env.REGATTA_BINARY);
  const trainer = join(dirname(binary), "..", "trainer", "regatta-train");
  const call = (...words) =>
    execFileSync("nice", ["-n", "19", trainer, ...words], { stdio: ["ignore", "pipe", "pipe"] });
  const dataset = join(folder, "dataset");
  mkdirSync(join(folder, "corpus"));
  writeFileSync(join(folder, "corpus", "sentences.txt"), corpus());
  const small = ["--train-vocab", "256", "--threads", "1"];
  call("prepare", join(folder, "corpus"), "--output", dataset, ...small);
  for (const [id, checkpoint] of runs) {
    const file = join(folder, `${id}.yaml`);
    writeFileSync(file, runFile(id.slice(0, -7), dataset, checkpoint));
    call("run", file, "--directory", join(folder, "runs", id));
  }
}

// A run file's value, as if somebody had changed it by hand while no controller ran.
export function editRunFile(folder, id, edit) {
  const path = join(folder, "runs", id, "run.json");
  const run = JSON.parse(readFileSync(path, "utf8"));
  edit(run);
  writeFileSync(path, `${JSON.stringify(run)}\n`);
}
