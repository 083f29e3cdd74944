#!/usr/bin/env python3
"""What the guards of a run's numbers cost (docs/numerics.md): `regatta-train run` with and without, in turn.

    tests/bench/guard_cost.py TEXT [-o FILE] [--rounds 7] [--steps 100] [--every 10] [--layers 2] [--hidden 128]

One rank, one thread, on a dataset that is prepared from TEXT. Each round has a run without guards, one with alarms and one with
replays, in an order that turns. Alarms: of each step the least time that any round's run with them needed from the record before to its
own, all steps together, over the same of the runs without (all runs take the same steps, and others may use the machine). Replays: within one run, the seconds that
steps which are computed twice spend on that, over the median step that is not; with `guard.replay_every` N the cost is that over N.
"""
import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build" / "release"))
TRAINER = BUILD / "trainer" / "regatta-train"
RUN = """name: guard
model: {{layers: {layers}, hidden: {hidden}, heads: {heads}, feed_forward: {feed_forward}, max_positions: 128}}
data: {{path: {data}, max_length: 128}}
optimizer: {{learning_rate: 0.0005}}
batch: {{size: 16}}
steps: {steps}
threads: 1
evaluate: {{every: {steps}, samples: 1}}
checkpoint: {{every: {steps}}}
statistics: {{every: 0, peak_tflops: 1}}
guard: {{alarms: {alarms}, replay_every: {every}, on_corruption: stop}}
"""
KINDS = ("none", "alarms", "replays")
DEFAULT_EVERY = 200


def run(options, data, work, number, kind, steps):
    """Seconds from each step's record to the next, and what each step that was computed twice spent on that, in steps."""
    file = work / f"{number}.yaml"
    file.write_text(RUN.format(layers=options.layers, hidden=options.hidden, heads=max(1, options.hidden // 64),
                               feed_forward=4 * options.hidden, data=data, steps=steps,
                               alarms="true" if kind == "alarms" else "false",
                               every=options.every if kind == "replays" else 0))
    directory = work / f"{number}"
    with open(work / f"{number}.log", "w") as log:
        done = subprocess.run([TRAINER, "run", "--directory", directory, file], stdout=log, stderr=log)
    assert done.returncode == 0, (work / f"{number}.log").read_text()[-2000:]
    (journal,) = directory.glob("attempts/*/journal.jsonl")
    records = [json.loads(line) for line in journal.read_text().splitlines()]
    told = [record for record in records if record["type"] in ("alarm", "corruption")]
    assert not told, told
    taken = [record for record in records if record["type"] == "step"]
    gaps = [later["seconds"] - earlier["seconds"] for earlier, later in zip(taken, taken[1:])]
    taken = taken[1:]  # the first one fetches its memory
    spent = [record["statistics_seconds"] for record in taken if record["statistics_seconds"] > 0.2 * record["step_seconds"]]
    usual = statistics.median(record["step_seconds"] - record["statistics_seconds"] for record in taken)
    return gaps, [seconds / usual for seconds in spent]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("-o", "--output", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--hidden", type=int, default=128)
    options = parser.parse_args()
    if options.rounds < 1 or options.steps < 2 * options.every:
        sys.exit("--rounds has to be at least 1, and --steps twice --every or more")
    gaps = {kind: [] for kind in KINDS}
    replays = []
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        data = work / "data"
        subprocess.run([TRAINER, "prepare", options.text, "--output", data, "--train-vocab", "8000", "--threads", "1"],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for turn in range(options.rounds):
            for i in range(len(KINDS)):
                kind = KINDS[(i + turn) % len(KINDS)]
                of_steps, twice = run(options, data, work, f"{turn}-{kind}", kind, options.steps)
                gaps[kind].append(of_steps)
                replays += twice
            print(f"round {turn + 1} of {options.rounds}", file=sys.stderr)
    least = {kind: [min(of_step) for of_step in zip(*gaps[kind])] for kind in KINDS}
    ratios = [sum(alarms) / sum(none) for alarms, none in zip(gaps["alarms"], gaps["none"])]
    result = {"command": "tests/bench/guard_cost.py TEXT", "processor": platform.machine(), "layers": options.layers,
              "hidden": options.hidden, "batch": 16, "steps": options.steps, "rounds": options.rounds,
              "step_seconds": sum(least["none"]) / len(least["none"]),
              "alarms_share_of_step": sum(least["alarms"]) / sum(least["none"]) - 1, "alarms_ratios_of_rounds": ratios,
              "replay_in_steps": statistics.median(replays), "replays": len(replays),
              "share_at_default": statistics.median(replays) / DEFAULT_EVERY}
    text = json.dumps(result, indent=1) + "\n"
    if options.output:
        options.output.write_text(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
