#!/usr/bin/env python3
"""Writes run directories as a team of a few weeks would leave them, for the page's tests and pictures.

    tests/web/seed.py RUNS [--runs N] [--now SECONDS]

The same arguments give the same files. A controller that is started with `--runs RUNS` adopts them; what
is in them is made up, the format is that of docs/formats/run_directory.md and controller.md.
"""
import argparse
import json
import math
import pathlib
import random

OWNERS = ["ada", "grace", "edsger", "barbara-liskov-of-the-language-group"]
FAMILIES = [  # name, preset, steps, step seconds, limit of the metric, target
    ("wiki-base", "base", 400, 4.1, 0.712, 0.70),
    ("wiki-large-unpadded-presorted", "large", 300, 9.3, 0.731, 0.72),
    ("books-small", "small", 200, 0.8, 0.61, 0.60),
    ("squad-tiny", "tiny", 120, 0.2, 0.55, 0.50),
    ("lamb-vs-adam-batch-8192-warm-up-0.1-seed", "base", 250, 5.5, 0.70, 0.69),
]
FAULTS = [
    ("node gpu-017 went down in the middle of step 120", 1, "node_fail"),
    ("loss is not finite at step 73; the weight encoder.layer.3.output.dense.weight came first", 30, ""),
    ("out of memory: rank 5 asked for 1.2 GB of 79.1 GB, 640 MB are free; lower tokens_per_rank", 40, ""),
    ("no checkpoint could be written: No space left on device: /scratch/runs", 41, ""),
]
EARLIEST_END = 4500  # s; the newest run takes less, so that all are over
TAGS = [["baseline"], ["sweep", "lr=0.001"], ["paper"], [], [], []]


EVALUATION_SECONDS = 2.0  # training stands still meanwhile
CHECKPOINT = {"stall_seconds": 0.32, "copy_seconds": 0.3, "write_seconds": 2.4, "sync_seconds": 0.4}
CHECKPOINT_SECONDS = 3.12  # stall, write and sync: what is written beside training


def lines(records):
    """A journal: what was over first comes first."""
    ordered = sorted(records, key=lambda record: record["seconds"])
    return "".join(json.dumps({"sequence": i, **record}) + "\n" for i, record in enumerate(ordered))


def curve(limit, seconds, scale):
    """A masked accuracy that rises towards its limit."""
    return limit * (1 - 0.93 * math.exp(-seconds / scale))


class Writer:
    def __init__(self, runs, number, now):
        self.random = random.Random(number)
        self.family = FAMILIES[number % len(FAMILIES)]
        self.number = number
        self.created = now - EARLIEST_END - number * 5400 * (1 + 0.3 * self.random.random())
        self.id = f"{self.family[0]}-{self.random.randrange(1 << 24):06x}"
        self.directory = runs / self.id

    def file(self, name, value):
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_text(value if isinstance(value, str) else json.dumps(value) + "\n")

    def attempt(self, number, begin, first, last, how):
        """The journal of steps first + 1 to last; when it ended."""
        name, _, steps, step_seconds, limit, target = self.family
        execution = f"{self.random.getrandbits(64):016x}"
        records = []
        each = step_seconds * (1 + 0.05 * self.random.random())
        offset = 12 + 8 * self.random.random()
        total = steps * step_seconds / 5
        still = 0.0  # of evaluations and checkpoints so far

        def at(step, more=0.0):
            seconds = offset + (step - first) * each + still + more
            return {"utc_seconds": begin + seconds, "seconds": round(seconds, 3)}

        records.append({"utc_seconds": begin, "seconds": 0, "type": "start", "attempt": number, "execution": execution,
                        "epoch": number, "process": 4711, "host": "gpu-016", "hosts": ["gpu-016", "gpu-017"],
                        "version": "0.1.0", "parameters": 109514298, "steps": steps, "batch_size": 2560, "ranks": 16,
                        "ranks_per_node": 8, "device": "NVIDIA H100 80GB HBM3", "peak_flops": 1.58e16,
                        "first_step": first, "checkpoint": f"step-{first:09d}" if first else "",
                        "metric": "mlm_accuracy", "target": target, "baseline": 0.049})
        reached = False
        every = max(1, steps // 400)
        for step in range(first + every, last + 1, every):
            loss = 2.1 + 8.2 * math.exp(-step * each / total) + 0.06 * self.random.gauss(0, 1)
            compute = each * 0.9
            records.append({**at(step), "type": "step", "step": step, "loss": loss, "mlm_loss": loss - 0.4,
                            "nsp_loss": 0.4, "learning_rate": 1e-3 * min(1, step / 20) * (1 - step / (steps * 1.05)),
                            "gradient_norm": 1 + 0.2 * self.random.random(), "samples": 2560, "tokens": 310_000,
                            "masked": 46_000, "step_seconds": each, "data_seconds": 0.004 * each,
                            "forward_seconds": 0.3 * compute, "backward_seconds": 0.62 * compute,
                            "reduce_seconds": 0.2 * each, "optimizer_seconds": 0.05 * each,
                            "exposed_seconds": 0.06 * each, "imbalance": 1.01, "moved_bytes": 120_000,
                            "mfu": 0.41, "utilisation": 0.93})
            if step % (every * 20) == 0:
                accuracy = curve(limit, step * step_seconds, total) + 0.003 * self.random.gauss(0, 1)
                reached = reached or accuracy >= target
                records.append({**at(step, EVALUATION_SECONDS), "type": "eval", "step": step,
                                "mlm_accuracy": accuracy, "mlm_loss": loss - 0.5, "nsp_accuracy": 0.9, "samples": 1024,
                                "eval_seconds": EVALUATION_SECONDS, "target_met": accuracy >= target})
                still += EVALUATION_SECONDS
                records.append({**at(step, CHECKPOINT_SECONDS), "type": "checkpoint", "step": step,
                                "name": f"step-{step:09d}", "status": "written", "bytes": 1_314_000_000,
                                "checkpoint_seconds": CHECKPOINT_SECONDS, **CHECKPOINT})
                still += CHECKPOINT["stall_seconds"]
            if reached and how == "target":
                last = step
                break
        newest = max(record["seconds"] for record in records)  # a checkpoint may be behind the last step
        end = at(last, max(0.0, newest - at(last)["seconds"]) + 1.5)
        if how != "killed":
            code = {"target": 0, "steps": 0, "stopped": 0}.get(how, 1)
            reason = how if how in ("target", "steps", "stopped") else "failed"
            records.append({**end, "type": "end", "reason": reason, "step": last, "exit_code": code,
                            "message": "" if code == 0 else how})
        directory = f"attempts/{number}-{execution}"
        self.file(f"{directory}/journal.jsonl", lines(records))
        log = "\n".join(f"regatta-train: step {step} loss {2.1 + 8 * math.exp(-step / 90):.3f}"
                        for step in range(first, last, max(1, steps // 60)))
        self.file(f"{directory}/logs/rank-0.log", log + "\n")
        return end["utc_seconds"], last

    def launch(self, number, begin, end, code, what):
        self.file(f"launches/{number}.json", {
            "number": number, "token": f"{self.random.getrandbits(64):016x}", "handle": "",
            "attempts_before": number - 1, "started_utc": begin, "over": True, "exit_code": code, "ended_utc": end,
            "gpus": 16, "nodes": "gpu-[016-017]", **({"words": what} if what else {})})
        self.file(f"launches/{number}.log", f"regatta-train: {what}\n" if what else "")

    def write(self):
        name, preset, steps, _, _, target = self.family
        kind = self.random.choices(["target", "steps", "failed", "stopped", "retried"], [50, 12, 14, 10, 14])[0]
        fault, code, _ = self.random.choice(FAULTS)
        config = {"name": name + (f"-{self.number}" if name.endswith("seed") else ""), "steps": steps, "batch": {"size": 2560},
                  "ranks": 16, "ranks_per_node": 8, "seed": self.number, "model": {"preset": preset},
                  "data": {"path": "/data/wiki"}, "target": {"value": target}}
        self.file("run.json", config)
        begin = self.created + 40 + 600 * self.random.random()
        launches = []
        if kind == "retried":
            end, step = self.attempt(1, begin, 0, int(steps * (0.3 + 0.4 * self.random.random())), "killed")
            launches.append((begin, end + 30, 1, "node gpu-017 went down"))
            begin = end + 240
            end, _ = self.attempt(2, begin, step // 20 * 20, steps, "target")
            launches.append((begin, end, 0, ""))
        else:
            share = 1.0 if kind in ("target", "steps") else 0.1 + 0.6 * self.random.random()
            how = fault if kind == "failed" else kind
            end, _ = self.attempt(1, begin, 0, int(steps * share), how)
            launches.append((begin, end, code if kind == "failed" else 0, fault if kind == "failed" else ""))
        for number, (start, stop, status, what) in enumerate(launches, 1):
            self.launch(number, start, stop, status, what)
        state = {"failed": "failed", "stopped": "cancelled"}.get(kind, "succeeded")
        self.file("state.json", {"state": state, "error": fault if kind == "failed" else "", "ended_utc": end,
                                 "failures": 1 if kind == "failed" else 0, "progress_step": -1, "launch": len(launches)})
        self.file("submission.json", {
            "id": self.id, "created_utc": self.created, "wanted": "cancel" if state == "cancelled" else "run",
            "body_digest": "", "owner": self.random.choice(OWNERS), "tags": self.random.choice(TAGS)})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=240)
    parser.add_argument("--now", type=float, default=1795000000.0, help="when it is, in seconds since 1970")
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    for number in range(options.runs):
        Writer(options.directory, number, options.now).write()


if __name__ == "__main__":
    main()
