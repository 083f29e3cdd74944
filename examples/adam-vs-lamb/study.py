#!/usr/bin/env python3
"""AdamW against LAMB over global batches, each with settings found by search on an equal budget.

    study.py [--output RESULTS.json] [--optimizers adamw,lamb] [--batches 16,64,256,1024] [--seeds 1,2,3] [--target 0.14]
             [--clip-batches 64,1024] [--sweep sweep.yaml]

Through the controller that REGATTA_SERVER names, with the `regatta` of PATH. For each optimizer and batch it submits the
sweep of sweep.yaml and waits; then it trains the best settings of each cell with each seed, without a target, to the last
rung; then the better optimizer of each of two batches on 2 ranks with each way of clipping. Every submission has a key, so the
command may be typed again after an end of any kind and goes on. Prints two tables in Markdown; --output has all of it.
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
OVER = ("succeeded", "stopped", "failed", "cancelled")
CLIPS = ("none", "global", "bucket", "rank")


def regatta(*words, text=None):
    done = subprocess.run(["regatta", *words], input=text, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"regatta {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def answer(*words, text=None):
    return json.loads(regatta(*words, "-o", "json", text=text))


def cell_file(text, optimizer, batch):
    """sweep.yaml of this optimizer and batch; its intervals count for 64 samples, so they are converted here."""
    every = int(re.search(r"every: (\d+) +# steps of 64", text)[1])
    text = text.replace("name: adamw-64", f"name: {optimizer}-{batch}", 1)
    text = text.replace("  name: adamw\n", f"  name: {optimizer}\n", 1)
    text = text.replace("  size: 64\n", f"  size: {batch}\n", 1)
    return text.replace(f"every: {every} ", f"every: {max(1, round(every * 64 / batch))} ", 1)


def wait_for_sweeps(ids):
    while True:
        sweeps = {sweep_id: answer("sweep", "show", sweep_id) for sweep_id in ids}
        if all(sweep["state"] != "running" for sweep in sweeps.values()):
            return sweeps
        time.sleep(2)


def wait_for_runs(ids):
    runs = {}
    for run_id in ids:
        while (run := answer("show", run_id))["state"] not in OVER:
            time.sleep(1)
        if run["state"] != "succeeded":
            print(f"{run_id} {run['state']}: {run['error']}", file=sys.stderr)
        runs[run_id] = run
    return runs


def moment(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def evaluations(run_id):
    lines = regatta("export", run_id, "--series", "evaluations", "-o", "jsonl").splitlines()
    return [json.loads(line) for line in lines]


def figures(run, target):
    """The best accuracy, and the samples after which the target was met first (None: it was not)."""
    batch = run["config"]["batch"]["size"]
    rows = evaluations(run["id"])
    met = [row["step"] * batch for row in rows if row["value"] >= target]
    return {"run": run["id"], "best": max((row["value"] for row in rows), default=None), "samples_to_target": min(met, default=None),
            "samples": run["step"] * batch, "state": run["state"], "ended": run["ended_at"]}


def submit(config, name, key, **changes):
    """An ordinary run of this configuration with some keys changed ("a.b": value)."""
    config = json.loads(json.dumps(config))
    config["name"] = name
    for path, value in changes.items():
        at = config
        *above, last = path.split("__")
        for part in above:
            at = at.setdefault(part, {})
        at[last] = value
    return regatta("submit", "-", "--idempotency-key", key, "-o", "name", text=json.dumps(config)).strip()


def mean_text(values, digits):
    values = [value for value in values if value is not None]
    if not values:
        return "–"
    deviation = statistics.stdev(values) if len(values) > 1 else 0
    return f"{statistics.mean(values):,.{digits}f} ± {deviation:,.{digits}f}"


def row_of(name, results):
    reached = [each["samples_to_target"] for each in results]
    count = sum(value is not None for value in reached)
    return (f"| {name} | {mean_text([each['best'] for each in results], 4)} | "
            f"{mean_text(reached, 0)}{'' if count == len(reached) else f' ({count} of {len(reached)})'} |")


def tables(study):
    lines = [f"| optimizer, batch | best accuracy at {study['samples']:,} samples | samples to {study['target']} | learning rate | "
             "warm-up | betas | decay | clip |", "|---|---|---|---|---|---|---|---|"]
    for cell in study["cells"]:
        values = cell["values"]
        lines.append(row_of(f"{cell['optimizer']}, {cell['batch']}", cell["seeds"]) +
                     f" {values['optimizer.learning_rate']:.2g} | {values['optimizer.warmup_steps']} | {values['optimizer.beta1']}, "
                     f"{values['optimizer.beta2']} | {values['optimizer.weight_decay']} | {values['clip.mode']} |")
    lines += ["", "| batch, optimizer, clip on 2 ranks | best accuracy | samples to target |", "|---|---|---|"]
    for each in study["clips"]:
        lines.append(row_of(f"{each['batch']}, {each['optimizer']}, {each['clip']}", each["seeds"]))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sweep", default=HERE / "sweep.yaml", type=pathlib.Path)
    parser.add_argument("--optimizers", default="adamw,lamb")
    parser.add_argument("--batches", default="16,64,256,1024")
    parser.add_argument("--clip-batches", default="64,1024")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--target", type=float, default=0.14)
    parser.add_argument("--key", default="study", help="of the submissions: another one begins the study anew")
    parser.add_argument("--output", type=pathlib.Path)
    options = parser.parse_args()
    seeds = [int(seed) for seed in options.seeds.split(",")]
    text = options.sweep.read_text()
    os.chdir(options.sweep.parent)  # its paths are relative to it
    cells = [(optimizer, int(batch)) for batch in options.batches.split(",") for optimizer in options.optimizers.split(",")]
    sweeps = {}
    for optimizer, batch in cells:  # one after the other: all have the whole machine
        name = answer("sweep", "submit", "-", "--idempotency-key", f"{options.key}-{optimizer}-{batch}",
                      text=cell_file(text, optimizer, batch))["id"]
        sweeps[optimizer, batch] = wait_for_sweeps([name])[name]
        best = sweeps[optimizer, batch]["best"]
        print(f"{optimizer}, {batch}: {best and best['objective']}", file=sys.stderr)
    study = {"began": min(sweep["created"] for sweep in sweeps.values()), "target": options.target, "cells": [], "clips": []}
    for (optimizer, batch), sweep in sweeps.items():
        if not sweep["best"]:
            sys.exit(f"no trial of {sweep['id']} has an objective")
        config = answer("show", sweep["best"]["run"])["config"]
        config["steps"] = -(-sweep["budget"]["max"] // batch)
        study["samples"] = sweep["budget"]["max"]
        ids = [submit(config, f"{optimizer}-{batch}-s{seed}", f"{options.key}-{optimizer}-{batch}-{seed}", seed=seed)
               for seed in seeds]
        runs = wait_for_runs(ids)
        study["cells"].append({"optimizer": optimizer, "batch": batch, "sweep": sweep["id"], "counts": sweep["counts"],
                               "values": sweep["best"]["values"], "searched": sweep["best"]["objective"],
                               "seeds": [figures(runs[each], options.target) for each in ids], "config": config})
    for batch in [int(each) for each in options.clip_batches.split(",") if each]:
        best = max((cell for cell in study["cells"] if cell["batch"] == batch),
                   key=lambda cell: statistics.mean(each["best"] or 0 for each in cell["seeds"]))
        for clip in CLIPS:
            ids = [submit(best["config"], f"clip-{clip}-{batch}-s{seed}", f"{options.key}-clip-{clip}-{batch}-{seed}", seed=seed, ranks=2,
                          clip__mode=clip) for seed in seeds]
            runs = wait_for_runs(ids)
            study["clips"].append({"batch": batch, "optimizer": best["optimizer"], "clip": clip,
                                   "seeds": [figures(runs[each], options.target) for each in ids]})
    # Of all that was trained, however often the command was typed; with the time between.
    study["ended"] = max(seed["ended"] for each in study["cells"] + study["clips"] for seed in each["seeds"])
    study["seconds"] = round((moment(study["ended"]) - moment(study["began"])).total_seconds())
    for cell in study["cells"]:
        del cell["config"]
    if options.output:
        options.output.write_text(json.dumps(study, indent=1) + "\n")
    print(tables(study))


if __name__ == "__main__":
    main()
