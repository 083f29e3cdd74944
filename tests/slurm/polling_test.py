#!/usr/bin/env python3
"""How often Slurm is asked while many runs are open, and when none is: every command that the controller starts counts.

REGATTA_REPETITIONS (percent) scales the number of runs.
"""
import collections
import concurrent.futures
import re
import time

from cluster import Cases, Cluster, Recorded, need_slurm, scaled, side_by_side, wait
from noop import WAITING, NoopController

RUNS = max(100, scaled(300))
WINDOW_SECONDS = 70
BUSY_COMMANDS, IDLE_COMMANDS = 12, 6  # a minute


def stays_within(commands, a_minute, what, meanwhile=lambda: None):
    """No more commands than that in any minute of a window; how many in it, by what is asked."""
    begin = time.time()
    while time.time() < begin + WINDOW_SECONDS:
        meanwhile()
        time.sleep(2)
    asked = commands.asked(begin)
    most = max((sum(at <= other < at + 60 for other, _ in asked) for at, _ in asked), default=0)
    counts = collections.Counter(re.sub(r"--\S+ ", "", words)[:30] for _, words in asked)
    print(f"{what}: {most} commands in a minute: {dict(counts)}", flush=True)
    assert most <= a_minute, asked
    return counts


def many_open_runs(cluster):
    """While more come and all are looked at; and when all have ended, Slurm is asked nothing for them."""
    commands = Recorded(cluster.work / "busy-bin")
    controller = NoopController(cluster, "busy", commands.path)
    try:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda i: controller.submit(f"open{i}", options=[WAITING]), range(RUNS)))

        def ask_for_more():
            run = controller.submit("more", options=[WAITING])
            controller.runs()
            controller.explain(run)
            controller.request("GET", "/nodes")
        counts = stays_within(commands, BUSY_COMMANDS, f"{RUNS} open runs and more", ask_for_more)
        assert any(words.startswith("squeue") for words in counts), counts
        for run in controller.runs():
            controller.request("POST", f"/runs/{run}/cancel")
        wait("all are cancelled", lambda: all(run["state"] == "cancelled" for run in controller.runs().values()), 200, 1)
        stays_within(commands, IDLE_COMMANDS, "all runs have ended")
    finally:
        controller.kill()
        print(controller.told()[-1000:], flush=True)


def no_run_and_somebody_who_looks(cluster):
    """A page that shows nodes, on a controller that has never had a run."""
    commands = Recorded(cluster.work / "idle-bin")
    controller = NoopController(cluster, "idle", commands.path)
    try:
        wait("its nodes are known", lambda: controller.request("GET", "/nodes")["taken_at"], every=1)
        counts = stays_within(commands, IDLE_COMMANDS, "no run", lambda: controller.request("GET", "/nodes"))
        assert counts and not any(words.startswith("squeue") for words in counts), counts
    finally:
        controller.kill()


def main():
    need_slurm()
    cases = Cases("slurm_polling")
    with Cluster("--no-rest") as cluster:
        side_by_side(lambda: cases.run(many_open_runs, cluster), lambda: cases.run(no_run_and_somebody_who_looks, cluster))
    cases.finish()


if __name__ == "__main__":
    main()
