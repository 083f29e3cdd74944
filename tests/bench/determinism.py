#!/usr/bin/env python3
"""What each level of determinism costs: one run of each in turn, round after round (docs/determinism.md).

    tests/bench/determinism.py REGATTA_TRAIN TEXT [--rounds 5] [--steps 30] [--work DIRECTORY] [-o RESULTS.json]

TEXT is a corpus with blank lines between documents, of which the first 6 MB are taken. BERT 2 x 128, 48 samples of at most 128
tokens a step, one thread a rank, on 1 and on 2 ranks. A figure is a run's median time of a step over that of `run` in the same
round, and of the rounds the median: a machine that others use makes rounds slower, not the ratios. Only Python's own library is
needed; runs of two ranks need mpirun.
"""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

BYTES = 6_000_000
WARM_UP = 5  # steps of each run that do not count
RUN = """name: determinism
model: {{preset: tiny, max_positions: 128}}
data: {{path: {data}, max_length: 128}}
optimizer: {{learning_rate: 0.0003, warmup_steps: 10}}
batch: {{size: 48}}
steps: {steps}
evaluate: {{every: 100000, samples: 64}}
statistics: {{every: 0}}
checkpoint: {{every: 100000, keep_last: 1}}
threads: 1
ranks: {ranks}
determinism: {level}
"""
LEVELS = {
    "run": "run",
    "fast": "fast",
    "elastic": "elastic",
    "portable": "portable",
    "portable with 12 shards": "{level: portable, shards: 12}",
}


def step_seconds(run):
    journal = next(run.glob("attempts/*/journal.jsonl"))
    records = [json.loads(line) for line in journal.read_text().splitlines()]
    return [record["step_seconds"] for record in records if record["type"] == "step" and record["step"] > WARM_UP]


def train(trainer, work, level, ranks, steps):
    run = work / "run"
    shutil.rmtree(run, ignore_errors=True)
    file = work / "run.yaml"
    file.write_text(RUN.format(data=work / "data", steps=steps, ranks=ranks, level=level))
    subprocess.run([trainer, "run", file, "--directory", run], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return statistics.median(step_seconds(run))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("trainer")
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("-o", "--output", type=pathlib.Path)
    options = parser.parse_args()
    if options.steps <= WARM_UP or options.rounds < 1:
        sys.exit(f"a run needs more than {WARM_UP} steps, and there must be a round")
    work = options.work or pathlib.Path(tempfile.mkdtemp(prefix="determinism-"))
    work.mkdir(parents=True, exist_ok=True)
    (work / "corpus.txt").write_bytes(options.text.read_bytes()[:BYTES])
    subprocess.run([options.trainer, "prepare", work / "corpus.txt", "--output", work / "data", "--train-vocab", "4000",
                    "--threads", "1", "--force"], check=True, stdout=subprocess.DEVNULL)
    seconds = {ranks: {name: [] for name in LEVELS} for ranks in (1, 2)}
    for turn in range(options.rounds):
        for ranks, of_levels in seconds.items():
            for name, level in LEVELS.items():
                of_levels[name].append(train(options.trainer, work, level, ranks, options.steps))
        print(f"round {turn + 1} of {options.rounds}", file=sys.stderr)
    results = []
    for ranks, of_levels in seconds.items():
        for name, times in of_levels.items():
            ratios = [mine / run for mine, run in zip(times, of_levels["run"])]
            results.append({"ranks": ranks, "level": name, "time_of_a_step": round(statistics.median(ratios), 3),
                            "ratios_of_rounds": [round(ratio, 3) for ratio in ratios],
                            "seconds": [round(time, 4) for time in times]})
            print(f"{ranks} rank{'s' if ranks > 1 else ' '} {name:25} {results[-1]['time_of_a_step']:.2f} "
                  f"({min(ratios):.2f} to {max(ratios):.2f})")
    if options.output:
        options.output.write_text(json.dumps({
            "benchmark": "determinism", "rounds": options.rounds, "steps": options.steps - WARM_UP,
            "figure": "median over rounds of a run's median step time over that of level run in the same round",
            "results": results}, indent=1) + "\n")
    if options.work is None:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
