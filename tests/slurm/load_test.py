#!/usr/bin/env python3
"""200 runs submitted at once: how fast they reach Slurm, beside plain sbatch. For a machine with nothing else to do.

REGATTA_REPETITIONS (percent) scales the number of runs, down to 100: of fewer the start alone decides. One round
below 100 %, three then.
"""
import concurrent.futures
import os
import re
import statistics
import subprocess
import time

from cluster import PERCENT, Cases, Cluster, need_slurm, scaled, wait
from noop import WAITING, with_a_controller

RUNS = max(100, scaled(200))
ROUNDS = 3 if PERCENT >= 100 else 1
CONNECTIONS = 12
LEAST_RATIO = 0.6


def rate_until_known(cluster, begin, number):
    """Jobs per second, from `begin` until slurmctld has counted so many more."""
    before = cluster.jobs_submitted()
    started = time.monotonic()
    begin()
    wait(f"{number} jobs are submitted", lambda: cluster.jobs_submitted() >= before + number, 300, 0.02)
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
    script = wait("a script is there", lambda: list((controller.directory(run) / "submit").glob("*.sh")))[0]
    line = re.search(r"^sbatch_options=\((.*)\)$", script.read_text(), re.M)[1]
    words = subprocess.run(["bash", "-c", f"printf '%s\\n' {line}"], capture_output=True, text=True, check=True).stdout
    keep = [word for word in words.splitlines() if not word.startswith(("--comment", "--job-name", "--output"))]
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
    for number in range(max(ROUNDS, 3)):
        rates += [ours(cluster, controller), plain(cluster, script, options)]
        ratios = [2 * rates[i] / (rates[i - 1] + rates[i + 1]) for i in range(1, len(rates), 2)]
        ratio = statistics.median(ratios)
        if number + 1 >= ROUNDS and ratio >= LEAST_RATIO:
            break
    print(f"{RUNS} runs at once, jobs/s: plain sbatch {' '.join(f'{rate:.1f}' for rate in rates[::2])}, regatta "
          f"{' '.join(f'{rate:.1f}' for rate in rates[1::2])}; ratio {ratio:.2f}", flush=True)
    assert ratio >= LEAST_RATIO, f"the ratio is {ratio:.2f}, not {LEAST_RATIO}"


def main():
    need_slurm()
    cases = Cases("slurm_load")
    with Cluster("--no-rest") as cluster:
        cases.run(with_a_controller(submissions_keep_up_with_sbatch, cluster))
    cases.finish()


if __name__ == "__main__":
    main()
