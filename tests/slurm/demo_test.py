#!/usr/bin/env python3
"""`deploy/demo.sh --slurm` with a small dataset: it reaches its target on two nodes, and whatever ends it,
nothing of its cluster is left.

    tests/slurm/demo_test.py [CASE...]
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from cluster import ROOT, Cases, need_slurm, processes_of, wait, work_place
from controller import make_data
from served import NO_DEFAULTS

RUN = """name: demo
model: {{preset: tiny, layers: 2, hidden: 32, heads: 2, feed_forward: 64, max_positions: 64}}
data:
  path: dataset
  max_length: 48
batch: {{size: 16}}
optimizer: {{learning_rate: 0.003}}
steps: 100000
evaluate: {{every: 50, samples: 32}}
target: {{metric: mlm_loss, value: {target}}}
checkpoint: {{every: 1000}}
"""


def start(work, name, target):
    """The demo in a directory of that name, in a process group of its own, as a terminal starts it."""
    directory = work / name
    directory.mkdir()
    shutil.copytree(work / "data", directory / "dataset")
    (work / f"{name}.yaml").write_text(RUN.format(target=target))
    output = open(work / f"{name}.log", "wb")
    return directory, subprocess.Popen(
        [ROOT / "deploy" / "demo.sh", "--slurm", "--no-wait", "--directory", directory, "--port", "0", "--run-file", work / f"{name}.yaml"],
        stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, env={**os.environ, **NO_DEFAULTS, "REGATTA_SKIP_BUILD": "1"})


def told(directory):
    return directory.with_name(directory.name + ".log").read_text(errors="replace")


def records(directory, kind):
    found = []
    for path in directory.glob("runs/*/attempts/*/journal.jsonl"):
        lines = path.read_text().splitlines(keepends=True)
        found += [json.loads(line) for line in lines if line.endswith("\n")]
    return [record for record in found if record["type"] == kind]


def ends(directory, process, expected):
    """With that exit code, and nothing is left: no process, no cluster."""
    try:
        code = process.wait(timeout=600)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    assert code == expected, f"exit code {code}, expected {expected}:\n{told(directory)[-1500:]}"
    cluster = pathlib.Path(re.search(r"== slurm in (\S+)", told(directory))[1])
    assert str(cluster).startswith("/tmp/regatta-demo-") and not cluster.exists(), sorted(cluster.rglob("*"))
    wait("its processes end", lambda: not processes_of(directory) and not processes_of(cluster))


def reaches_its_target(work):
    """In a directory whose name no file of Slurm's could hold."""
    directory, process = start(work, "the demo", 3.0)
    ends(directory, process, 0)
    first = records(directory, "start")[0]
    assert (first["ranks"], first["ranks_per_node"], first["host"]) == (2, 1, "node01"), first
    assert records(directory, "eval")[-1]["target_met"] and "dashboard: http://127.0.0.1:" in told(directory)


def interrupted_while_training(work):
    """Ctrl-C: the ranks save, and the cluster goes."""
    directory, process = start(work, "training", 0.0001)
    wait("training starts", lambda: len(records(directory, "step")) > 20 or process.poll() is not None)
    os.killpg(process.pid, signal.SIGINT)
    ends(directory, process, 130)
    end = records(directory, "end")
    assert end and end[-1]["reason"] == "stopped", end
    assert list(directory.glob("runs/*/checkpoints/*/manifest.json")), "no checkpoint"


def interrupted_in_between(work):
    """Ctrl-C while the cluster starts, and after it is up but before anything runs."""
    moments = {"begins": "== slurm", "submitted": "dashboard", "up": "to use them", "served": "== run"}
    for name, words in list(moments.items())[:4 if int(os.environ.get("REGATTA_REPETITIONS", "100")) >= 100 else 2]:
        directory, process = start(work, name, 0.0001)
        wait(words, lambda: words in told(directory) or process.poll() is not None, every=0.01)
        time.sleep(0.3 if name == "begins" else 0)  # some daemons are there, some are not
        os.killpg(process.pid, signal.SIGINT)
        ends(directory, process, 130)


CASES = [reaches_its_target, interrupted_while_training, interrupted_in_between]


def main():
    # A shell's background jobs ignore Ctrl-C, and so would every child.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    need_slurm()
    cases = Cases("slurm_demo")
    work = pathlib.Path(tempfile.mkdtemp(prefix="regatta-slurm-", dir=work_place()))
    work.chmod(0o755)
    try:
        make_data(work)
        for case in CASES:
            if not sys.argv[1:] or case.__name__ in sys.argv[1:]:
                cases.run(case, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    cases.finish()


if __name__ == "__main__":
    main()
