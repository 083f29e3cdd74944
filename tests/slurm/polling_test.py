#!/usr/bin/env python3
"""How often Slurm is asked while many runs are open, and when none is.

REGATTA_REPETITIONS (percent) scales the number of runs.
"""
import concurrent.futures
import math
import time

from cluster import Cases, Cluster, need_slurm, scaled, wait
from noop import WAITING, with_a_controller

RUNS = max(100, scaled(300))
WINDOW_SECONDS = 60
BUSY_CALLS, IDLE_CALLS = 12, 6  # a minute


def calls_within(cluster, a_minute, meanwhile=lambda: None):
    """Calls of a window by type, but those that the nodes, sbatch and this test itself make; and how many it may have."""
    before = cluster.calls()
    begin = time.monotonic()
    while time.monotonic() < begin + WINDOW_SECONDS:
        meanwhile()
        time.sleep(2)
    others = ("REQUEST_STATS_INFO", "REQUEST_SUBMIT", "MESSAGE_", "REQUEST_PING", "ACCOUNTING")
    calls = {name: count - before.get(name, 0) for name, count in cluster.calls().items()
             if count > before.get(name, 0) and not name.startswith(others)}
    return calls, math.ceil(a_minute * (time.monotonic() - begin) / 60)


def polling_stays_within_its_budget(cluster, controller):
    """While runs come and are looked at, and when all have ended. One squeue makes several calls, each of its type."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: controller.submit(f"open{i}", options=[WAITING]), range(RUNS)))

    def ask_for_more():
        controller.submit("more", options=[WAITING])
        controller.runs()
    calls, most = calls_within(cluster, BUSY_CALLS, ask_for_more)
    print(f"{len(controller.runs())} open runs: {calls} in {WINDOW_SECONDS} s", flush=True)
    assert 1 <= max(calls.values()) <= most, (calls, most)
    for run in controller.runs():
        controller.request("POST", f"/runs/{run}/cancel")
    wait("all are cancelled", lambda: all(run["state"] == "cancelled" for run in controller.runs().values()), 200, 1)
    calls, most = calls_within(cluster, IDLE_CALLS)
    print(f"no open runs: {calls} in {WINDOW_SECONDS} s", flush=True)
    assert max(calls.values(), default=0) <= most, (calls, most)


def main():
    need_slurm()
    cases = Cases("slurm_polling")
    with Cluster("--no-rest") as cluster:
        cases.run(with_a_controller(polling_stays_within_its_budget, cluster))
    cases.finish()


if __name__ == "__main__":
    main()
