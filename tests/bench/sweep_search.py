#!/usr/bin/env python3
"""TPE against random search on a real, small training problem, through a controller.

    tests/bench/sweep_search.py BUILD [--seeds 10] [--trials 50] [--output FILE]

For each seed two sweeps with the same space, budget and seed (so the first 10 trials are the same draws of random search, as the
paper has them): masked loss of a BERT of 1 × 32 after 60 steps on the texts of examples/make_data.py, where it is still far from
what can be learnt, over seven keys of the optimizer. Objectives are the same bits whatever else the machine does. Prints and writes
the best loss of both, and in how many seeds TPE's is lower.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from served import NO_DEFAULTS, server_of  # noqa: E402

FILE = """name: {method}-{seed}
data: {{path: data, max_length: 48}}
model: {{preset: tiny, layers: 1, hidden: 32, heads: 2, feed_forward: 64, max_positions: 64, dropout: 0, attention_dropout: 0}}
batch: {{size: 16}}
threads: 1
steps: 60
evaluate: {{every: 1000, samples: 256}}
checkpoint: {{every: 1000, keep_last: 1}}
statistics: {{every: 0}}
target: {{metric: mlm_loss, value: 0.01}}
sweep:
  method: {method}
  trials: {trials}
  concurrency: {slots}
  seed: {seed}
  objective: {{direction: minimize}}
  parameters:
    optimizer.learning_rate: {{kind: log_uniform, low: 1.0e-7, high: 10}}
    optimizer.beta1: {{kind: uniform, low: 0.5, high: 0.99}}
    optimizer.beta2: {{kind: uniform, low: 0.8, high: 0.999}}
    optimizer.weight_decay: {{kind: log_uniform, low: 1.0e-4, high: 1.0}}
    optimizer.warmup_steps: {{kind: integer, low: 0, high: 20}}
    optimizer.name: {{kind: choice, values: [adamw, lamb]}}
    clip.norm: {{kind: log_uniform, low: 0.05, high: 10}}
"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--slots", type=int, default=1, help="trials at once: with one, TPE knows all earlier results")
    parser.add_argument("--output", type=pathlib.Path)
    options = parser.parse_args()
    build = options.build.resolve()
    home = pathlib.Path(tempfile.mkdtemp(prefix="search-"))
    subprocess.run([sys.executable, ROOT / "examples" / "make_data.py", "register"], check=True, cwd=home)
    subprocess.run([build / "trainer" / "regatta-train", "prepare", "register.txt", "-o", "data", "--train-vocab", "600", "--held-out",
                    "0.1"], check=True, capture_output=True, cwd=home)
    regatta = build / "orchestrator" / "regatta"
    environment = {**os.environ, **NO_DEFAULTS, "REGATTA_SERVER": server_of(home / "state")}
    serve = subprocess.Popen([regatta, "serve", "--allow-privileged", "--port", "0", "--data", home / "state", "--scheduler", "local",
                              "--parallel", "4", "--trainer", build / "trainer" / "regatta-train"], stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, text=True, env=environment)
    serve.stdout.readline()

    def ask(*words):
        return subprocess.run([regatta, *words], capture_output=True, text=True, check=True, cwd=home, env=environment).stdout

    begun, waiting, results = time.monotonic(), [], []
    try:
        for seed in range(1, options.seeds + 1):
            for method in ("random", "tpe"):
                slots = 1 if method == "tpe" else options.slots
                text = FILE.format(method=method, seed=seed, trials=options.trials, slots=slots)
                (home / "file.yaml").write_text(text)
                waiting.append((seed, method, ask("sweep", "submit", "file.yaml").strip()))
                while len([0 for each in waiting if json.loads(ask("sweep", "show", each[2], "-o", "json"))["state"] == "running"]) >= 4:
                    time.sleep(1)
        found = {}
        for seed, method, sweep in waiting:
            while (shown := json.loads(ask("sweep", "show", sweep, "-o", "json")))["state"] == "running":
                time.sleep(1)
            assert shown["counts"]["failed"] == 0 and shown["counts"]["finished"] == options.trials, shown["counts"]
            found[seed, method] = shown["best"]["objective"]
        for seed in range(1, options.seeds + 1):
            results.append({"seed": seed, "random": found[seed, "random"], "tpe": found[seed, "tpe"]})
            print(f"seed {seed}: random {found[seed, 'random']:.4f}, tpe {found[seed, 'tpe']:.4f}")
    finally:
        serve.terminate()
        serve.wait()
    better = sum(each["tpe"] < each["random"] for each in results)
    print(f"TPE is better in {better} of {len(results)}, after {options.trials} trials")
    if options.output:
        options.output.write_text(json.dumps({"trials": options.trials, "seconds": round(time.monotonic() - begun), "better": better,
                                              "best": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
