#!/usr/bin/env python3
"""Whether `regatta advise` puts ranks and batches in the order in which they really reach a target, on CPU ranks.

    tests/bench/advice_order.py BUILD CORPUS_DATA [--ranks 1,2,4] [--batches 16,64,256] [--seeds 2] [--output FILE]

CORPUS_DATA: a dataset as `regatta-train prepare` makes it. A pilot run with the middle batch tells the noise scale and the samples to
the target; short runs tell the steps; `advise` predicts. Then each number of ranks with each batch trains to the target, with a learning
rate that grows with the root of the batch. Printed and written: both times of each, of how many pairs the order is the same, and of
those whose measured times are more than a tenth apart.
"""
import argparse
import itertools
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from served import NO_DEFAULTS, serve_here, server_of  # noqa: E402

RUN = """name: {name}
model: {{preset: tiny, max_positions: 128, dropout: 0, attention_dropout: 0}}
data: {{path: {data}, max_length: 64}}
optimizer: {{name: adamw, learning_rate: {rate}, schedule: constant, warmup_steps: {warmup}}}
batch: {{size: {batch}}}
ranks: {ranks}
seed: {seed}
steps: {steps}
evaluate: {{every: {every}, samples: 256}}
checkpoint: {{every: 1000000, keep_last: 1}}
statistics: {{every: {look}}}
target: {{metric: mlm_loss, value: {target}}}
threads: 1
"""
EVALUATE_EVERY = 512  # samples
MOST = 200_000        # samples
RATE, WARMUP = 1e-3, 512  # at the middle batch; samples


def run_file(data, batch, middle, ranks, seed, target, look=0):
    return RUN.format(name=f"r{ranks}b{batch}s{seed}", data=data, rate=RATE * math.sqrt(batch / middle), batch=batch, ranks=ranks,
                      seed=seed, warmup=max(1, WARMUP // batch), steps=MOST // batch, every=max(1, EVALUATE_EVERY // batch),
                      target=target, look=look)


def same_order(pairs):
    return sum((a[0] - b[0]) * (a[1] - b[1]) > 0 for a, b in pairs)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--batches", default="16,64,256")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--target", type=float, default=6.3, help="masked loss")
    parser.add_argument("--output", type=pathlib.Path)
    options = parser.parse_args()
    build, data = options.build.resolve(), options.data.resolve()
    batches, ranks = ([int(text) for text in each.split(",")] for each in (options.batches, options.ranks))
    middle = batches[len(batches) // 2]
    with tempfile.TemporaryDirectory(prefix="advice-") as home:
        home = pathlib.Path(home)
        environment = {**os.environ, **NO_DEFAULTS, "REGATTA_SERVER": server_of(home / "controller")}
        process = serve_here(build, home / "controller")

        def regatta(*words):
            done = subprocess.run([build / "orchestrator" / "regatta", *map(str, words)], env=environment, capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"regatta {' '.join(map(str, words))}: {done.stderr}")
            return done.stdout

        def train(batch, count, seed, look=0):
            file = home / "run.yaml"
            file.write_text(run_file(data, batch, middle, count, seed, options.target, look))
            name = regatta("submit", file, "--wait", "-o", "name").split()[-1]
            run = json.loads(regatta("show", name, "-o", "json"))
            seconds = run["time_to_accuracy_seconds"]
            print(f"{name}: {count} ranks, batch {batch}: {seconds} s, {run['step'] * batch} samples", file=sys.stderr, flush=True)
            return name, seconds, run["step"] * batch
        try:
            pilot, _, _ = train(middle, 2, 1, look=4)
            (home / "run.yaml").write_text(run_file(data, middle, middle, 1, 1, options.target))
            advice = json.loads(regatta("advise", home / "run.yaml", "--probe", "--ranks", options.ranks, "--batches", options.batches,
                                        "--run", pilot, "-o", "json"))
            rows = []
            for row in advice["rows"]:
                results = [train(row["batch"], row["ranks"], seed) for seed in range(1, options.seeds + 1)]
                rows.append({"ranks": row["ranks"], "batch": row["batch"], "predicted_seconds": row["seconds"],
                             "predicted_samples": row["samples"], "measured_seconds": [each[1] for each in results],
                             "measured_samples": [each[2] for each in results]})
        finally:
            process.terminate()
            process.wait(120)
    points = [(row["predicted_seconds"]["value"], sum(row["measured_seconds"]) / options.seeds) for row in rows]
    pairs = list(itertools.combinations(points, 2))
    apart = [(a, b) for a, b in pairs if abs(math.log(a[1] / b[1])) > math.log(1.1)]
    result = {"what": "order of time to a target, predicted and measured", "cores": os.cpu_count(), "target": options.target,
              "noise_scale": advice["noise_scale"], "rows": rows, "pairs": len(pairs), "same_order": same_order(pairs),
              "pairs_apart": len(apart), "same_order_apart": same_order(apart)}
    print("| ranks | batch | predicted, s | measured, s | predicted, samples | measured, samples |\n|---|---|---|---|---|---|")
    for row in rows:
        mean = [sum(row[key]) / options.seeds for key in ("measured_seconds", "measured_samples")]
        print(f"| {row['ranks']} | {row['batch']} | {row['predicted_seconds']['value']:.1f} | {mean[0]:.1f} | "
              f"{row['predicted_samples']['value']:.0f} | {mean[1]:.0f} |")
    print(f"\norder as predicted in {result['same_order']} of {len(pairs)} pairs, and in {result['same_order_apart']} of the "
          f"{len(apart)} that are more than a tenth apart")
    if options.output:
        options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
