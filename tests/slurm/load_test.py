#!/usr/bin/env python3
"""200 runs submitted at once: how fast they reach Slurm, beside plain sbatch, and how often Slurm is asked afterwards.

    tests/slurm/load_test.py [CASE...]

REGATTA_REPETITIONS (percent) scales the number of runs, down to 100: of fewer the start alone decides.
"""
import concurrent.futures
import os
import re
import statistics
import subprocess
import sys
import time

from cluster import Cases, Cluster, need_slurm, wait
from noop import NoopController

RUNS = max(100, 200 * int(os.environ.get("REGATTA_REPETITIONS", "100")) // 100)
ROUNDS = 3
CONNECTIONS = 12
LEAST_RATIO = 0.6
WINDOW_SECONDS = 60
BUSY_CALLS, IDLE_CALLS = 12, 6  # a minute
# Jobs of both kinds wait, so that what is measured is submission, not how jobs share two cores.
WAITING = "--begin=now+1hour"


def counts(cluster):
    """(jobs submitted, calls by type) as slurmctld itself counts them."""
    text = cluster.output("sdiag")
    calls = {name: int(count) for name, count in re.findall(r"^\t(REQUEST_\w+|MESSAGE_\w+)\s.*count:(\d+)", text, re.M)}
    return int(re.search(r"Jobs submitted:\s*(\d+)", text)[1]), calls


def rate_until_known(cluster, begin, number):
    """Jobs per second, from `begin` until slurmctld has counted so many more."""
    before, _ = counts(cluster)
    started = time.monotonic()
    begin()
    wait(f"{number} jobs are submitted", lambda: counts(cluster)[0] >= before + number, 300, 0.02)
    return number / (time.monotonic() - started)


def plain(cluster, script, options):
    """The same number by a shell loop of sbatch."""
    loop = 'number=$1; shift; for ((i = 0; i < number; i++)); do sbatch "$@" > /dev/null || exit; done'

    def begin():
        subprocess.run(["bash", "-c", loop, "loop", str(RUNS), *options, script], check=True, timeout=300,
                       cwd=cluster.jobs, env={**os.environ, **cluster.environment})
    rate = rate_until_known(cluster, begin, RUNS)
    cluster.output("scancel", "--name=plain")
    return rate


def example(controller):
    """Script and options of a job as the controller submits it."""
    run = controller.submit("example", options=[WAITING])
    script = wait("a script is there", lambda: list((controller.directory(run) / "submit").glob("*.sh")), 30)[0]
    line = re.search(r"^sbatch_options=\((.*)\)$", script.read_text(), re.M)[1]
    words = subprocess.run(["bash", "-c", f"printf '%s\\n' {line}"], capture_output=True, text=True, check=True).stdout
    keep = [word for word in words.splitlines() if not word.startswith(("--job-name", "--output"))]
    return script, [*keep, "--job-name=plain", "--output=/dev/null"]


def ours(cluster, controller):
    def begin():
        with concurrent.futures.ThreadPoolExecutor(CONNECTIONS) as pool:
            list(pool.map(lambda i: controller.submit(f"load{i}", options=[WAITING]), range(RUNS)))
    return rate_until_known(cluster, begin, RUNS)


def submissions_keep_up_with_sbatch(cluster, controller):
    """The median of some rounds, each between two of plain sbatch: other work comes and goes on a small machine."""
    script, options = example(controller)
    rates = [plain(cluster, script, options)]
    for _ in range(ROUNDS):
        rates += [ours(cluster, controller), plain(cluster, script, options)]
    ratios = [2 * rates[i] / (rates[i - 1] + rates[i + 1]) for i in range(1, len(rates), 2)]
    ratio = statistics.median(ratios)
    print(f"{RUNS} runs at once, jobs/s: plain sbatch {' '.join(f'{rate:.1f}' for rate in rates[::2])}, regatta "
          f"{' '.join(f'{rate:.1f}' for rate in rates[1::2])}; ratio {ratio:.2f}", flush=True)
    assert ratio >= LEAST_RATIO, f"the ratio is {ratio:.2f}, not {LEAST_RATIO}"


def calls_within(cluster, seconds, meanwhile=lambda: None):
    """Calls of the window by type, but those that the nodes, sbatch and this test itself make."""
    _, before = counts(cluster)
    begin = time.monotonic()
    while time.monotonic() < begin + seconds:
        meanwhile()
        time.sleep(2)
    _, after = counts(cluster)
    others = ("REQUEST_STATS_INFO", "REQUEST_SUBMIT", "MESSAGE_", "REQUEST_PING", "ACCOUNTING")
    return {name: count - before.get(name, 0) for name, count in after.items()
            if count > before.get(name, 0) and not name.startswith(others)}


def polling_stays_within_its_budget(cluster, controller):
    """While runs come and are looked at, and when all have ended. One squeue makes several calls, each of its type."""
    def ask_for_more():
        controller.submit("more", options=[WAITING])
        controller.runs()
    busy = calls_within(cluster, WINDOW_SECONDS, ask_for_more)
    print(f"{len(controller.runs())} open runs: {busy} in {WINDOW_SECONDS} s", flush=True)
    assert 1 <= max(busy.values()) <= BUSY_CALLS * WINDOW_SECONDS / 60, busy
    for run in controller.runs():
        controller.request("POST", f"/runs/{run}/cancel")
    wait("all are cancelled", lambda: all(run["state"] == "cancelled" for run in controller.runs().values()), 200, 1)
    idle = calls_within(cluster, WINDOW_SECONDS)
    print(f"no open runs: {idle} in {WINDOW_SECONDS} s", flush=True)
    assert max(idle.values(), default=0) <= IDLE_CALLS * WINDOW_SECONDS / 60, idle


CASES = [submissions_keep_up_with_sbatch, polling_stays_within_its_budget]


def main():
    need_slurm()
    chosen = [case for case in CASES if not sys.argv[1:] or case.__name__ in sys.argv[1:]]
    cases = Cases("slurm_load")
    with Cluster("--no-rest") as cluster:
        controller = NoopController(cluster, "load")
        try:
            for case in chosen:
                cases.run(case, cluster, controller)
        finally:
            controller.kill()
            if cases.counts["failed"]:
                print(controller.log.read_text()[-3000:])
    cases.finish()


if __name__ == "__main__":
    main()
