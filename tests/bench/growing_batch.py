#!/usr/bin/env python3
"""A batch that grows beside constant ones, on a small model: docs/growing_batch.md has what came of it.

    tests/bench/growing_batch.py REGATTA_TRAIN TEXT [--seeds 1,2,3] [--work DIRECTORY] [-o RESULTS.json]

TEXT is a corpus with blank lines between documents, of which the first 6 MB are taken. Some 20 s of one core for each of
the 12 runs. Prints the optimizer steps and the last loss of each, and the samples and steps until TARGET, between
evaluations by a straight line. Only Python's own library is needed.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

TARGET = 6.5
BYTES = 6_000_000
RUN = """name: growing
model: {{preset: tiny, hidden: 64, heads: 2, feed_forward: 256, max_positions: 64, dropout: 0, attention_dropout: 0}}
data: {{path: {data}, max_length: 32}}
optimizer: {{learning_rate: {rate:g}, warmup_steps: {warmup}}}
batch: {{{batch}, micro: 8}}
steps: {steps}
evaluate: {{every: {every}, samples: 256}}
statistics: {{every: 5, base_batch: 8}}
checkpoint: {{every: 100000, keep_last: 1}}
seed: {seed}
threads: 1
"""
WAYS = {
    "8": {"batch": "size: 8", "rate": 1e-3, "warmup": 200, "steps": 2500, "every": 50},
    "64": {"batch": "size: 64", "rate": 1e-3 * math.sqrt(8), "warmup": 25, "steps": 313, "every": 10},
    "square_root": {"batch": "size: 8, growth: square_root, max_size: 64", "rate": 1e-3, "warmup": 200, "steps": 2500,
                    "every": 20},
    "adascale": {"batch": "size: 8, growth: adascale, max_size: 64", "rate": 1e-3, "warmup": 200, "steps": 2500,
                 "every": 20},
}


def figures_of(journal):
    """Samples are those of the step records."""
    found = {"samples": 0, "steps": 0, "batches": [], "samples_to_target": None, "steps_to_target": None}
    before = None
    for line in journal.read_text().splitlines():
        record = json.loads(line)
        if record["type"] == "step":
            found["samples"] += record["samples"]
            found["steps"] = record["step"]
        elif record["type"] == "batch":
            found["batches"].append([record["step"], record["size"], round(record["noise_scale_low"])])
        elif record["type"] == "eval":
            now = (found["samples"], found["steps"], record["mlm_loss"])
            if found["samples_to_target"] is None and before and now[2] <= TARGET:
                share = (before[2] - TARGET) / (before[2] - now[2])
                found["samples_to_target"] = round(before[0] + share * (now[0] - before[0]))
                found["steps_to_target"] = round(before[1] + share * (now[1] - before[1]))
            before = now
            found["loss"] = round(record["mlm_loss"], 4)
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("trainer")
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("-o", "--output", type=pathlib.Path)
    options = parser.parse_args()
    work = options.work or pathlib.Path(tempfile.mkdtemp(prefix="growing-batch-"))
    work.mkdir(parents=True, exist_ok=True)
    (work / "corpus.txt").write_bytes(options.text.read_bytes()[:BYTES])
    subprocess.run([options.trainer, "prepare", work / "corpus.txt", "--output", work / "data", "--train-vocab", "4000",
                    "--threads", "1", "--force"], check=True, stdout=subprocess.DEVNULL)
    results = []
    for seed in options.seeds.split(","):
        for name, way in WAYS.items():
            run = work / f"{name}-{seed}"
            run.with_suffix(".yaml").write_text(RUN.format(data=work / "data", seed=seed, **way))
            subprocess.run([options.trainer, "run", "--directory", run, run.with_suffix(".yaml")], check=True,
                           stderr=subprocess.DEVNULL)
            journal, = run.glob("attempts/*/journal.jsonl")
            results.append({"batch": name, "seed": int(seed), **figures_of(journal)})
            print(json.dumps(results[-1]), flush=True)
    if options.output:
        options.output.write_text(json.dumps({"target_loss": TARGET, "runs": results}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
