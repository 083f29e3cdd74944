#!/usr/bin/env python3
"""slurmctld stopped and killed, the controller killed, sbatch hanging: no run is lost, none runs twice.

    tests/slurm/chaos_test.py [CASE...]

REGATTA_REPETITIONS (percent) scales how often something is killed; REGATTA_SEED (a number) repeats the moments.
"""
import concurrent.futures
import functools
import http.client
import random
import shutil
import sys
import time

from cluster import PERCENT, SEED, Cases, Cluster, need_slurm, scaled, side_by_side, wait
from noop import ends_once, nothing_doubled, with_a_controller

SUBMISSIONS_AT_ONCE = 8

# Before Slurm's own sbatch: writes every call down, and for two runs hangs once, after or before the job is there.
SBATCH = """#!/bin/bash -p
for word; do
  case $word in --comment=regatta:*) token=${{word#--comment=regatta:}} ;; --job-name=*) name=${{word#--job-name=}} ;; esac
done
echo "$token" >> {directory}/calls
case $name in
  hangs-after) mkdir {directory}/after 2> /dev/null && {{ {sbatch} "$@"; sleep 300; }} ;;
  hangs-before) mkdir {directory}/before 2> /dev/null && sleep 300 ;;
esac
exec {sbatch} "$@"
"""


def wrap_sbatch(cluster):
    """The first directory in the PATH of every controller."""
    directory = cluster.work / "bin"
    directory.mkdir()
    (directory / "sbatch").write_text(SBATCH.format(directory=directory, sbatch=shutil.which("sbatch")))
    (directory / "sbatch").chmod(0o755)


def operator(cluster, every=5):
    """What an operator does after a crash of slurmctld, which may give a number to a second job while the first still
    runs on a node: Slurm drains that node and holds that job. At most once in `every` seconds."""
    last = [time.monotonic()]

    def look():
        if time.monotonic() - last[0] < every:
            return
        last[0] = time.monotonic()
        for line in cluster.run("sinfo", "-h", "-N", "-p", "main", "-o", "%N %T").stdout.splitlines():
            node, state = line.split()
            if "drain" in state:
                print(f"resumes {node}: {cluster.run('sinfo', '-h', '-R', '-n', node, '-o', '%E').stdout.strip()}", flush=True)
                cluster.run("scontrol", "update", f"nodename={node}", "state=resume")
        for line in cluster.run("squeue", "-h", "-t", "PD", "-o", "%i %r").stdout.splitlines():
            job, _, reason = line.partition(" ")
            if reason == "launch failed requeued held":
                print(f"releases {job}: {reason}", flush=True)
                cluster.run("scontrol", "release", job)
    return look


def submit_until_taken(controller, name, **options):
    """As a client does whose controller comes and goes: the same key until there is an answer."""
    def attempt():
        try:
            return controller.submit(name, key=f"key-{name}", **options)
        except (OSError, http.client.HTTPException):
            return None
    return wait(f"{name} is taken", attempt, 120, 0.05)


def expect(controller, runs, states):
    """runs: name to id; states: name to what it must have become."""
    shown = controller.runs()
    assert set(shown) == controller.submitted, f"{set(shown) ^ controller.submitted}: lost, or never asked for"
    for name, run in runs.items():
        assert shown[run]["state"] == states[name], f"{run} is {shown[run]['state']}: {shown[run].get('error')}"
        # One that was cancelled while its ranks were starting has written nothing.
        if states[name] != "cancelled" or controller.writers(run):
            ends_once(controller, run)


def slurmctld_stops(cluster, controller):
    """While runs are submitted, run, and ask to be requeued."""
    seconds = 120 if PERCENT >= 100 else 40
    number = scaled(10)
    runs = {f"stop-before{i}": controller.submit(f"stop-before{i}", steps=10, pause=0.5, ends=("0", "22 0")[i % 2])
            for i in range(number)}
    wait("some run", lambda: any(controller.writers(run) for run in runs.values()), 240)
    with cluster.paused("slurmctld"):
        runs |= {f"stop-during{i}": controller.submit(f"stop-during{i}") for i in range(number)}
        time.sleep(seconds)  # what is tested
    controller.wait_all_over(runs.values(), meanwhile=operator(cluster))
    expect(controller, runs, dict.fromkeys(runs, "succeeded"))
    nothing_doubled(cluster, controller, runs.values())


def slurmctld_dies(cluster, controller):
    """Killed at some moment of two submissions, again and again; jobs of the rounds before run meanwhile."""
    dice = random.Random(SEED)
    runs = {}
    look = operator(cluster)
    for i in range(scaled(20)):
        moment = dice.uniform(0, 0.8)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            names = [f"dies-{i}-{which}" for which in "ab"]
            taken = [pool.submit(controller.submit, name, steps=10, pause=0.2) for name in names]
            time.sleep(moment)  # what is tested
            cluster.kill("slurmctld")
            cluster.start("slurmctld")
        runs |= {name: future.result() for name, future in zip(names, taken)}
        wait("slurmctld answers", lambda: cluster.run("scontrol", "ping").stdout.count(" UP"), 240)
        look()
    controller.wait_all_over(runs.values(), meanwhile=look)
    expect(controller, runs, dict.fromkeys(runs, "succeeded"))
    nothing_doubled(cluster, controller, runs.values(), slurm_forgot=True)


KINDS = [  # what a run is told, and what must become of it
    ({"ends": "0"}, "succeeded"),
    ({"ends": "22 0"}, "succeeded"),
    ({"ends": "20"}, "failed"),
    ({"ends": "25 0"}, "succeeded"),
    ({"ends": "0", "steps": 3000}, "cancelled"),
    ({"ends": "0", "steps": 40}, "succeeded"),
]


def within_a_submission(cluster, seconds):
    """Until so long after the next sbatch has begun, if one begins soon."""
    calls = cluster.work / "bin" / "calls"

    def size():
        return calls.stat().st_size if calls.exists() else 0
    before, deadline = size(), time.monotonic() + 3
    while size() == before and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(seconds)


def the_controller_dies(cluster, controller):
    dice = random.Random(SEED)
    number, kills = max(10, scaled(30)), scaled(20)
    names = {f"mixed-{i}": KINDS[i % len(KINDS)] for i in range(number)}

    def submit(name):
        time.sleep(random.Random(name).uniform(0, 1.2 * kills))  # all the time that the controller is killed
        return submit_until_taken(controller, name, **{"steps": 5, "pause": 0.2, **names[name][0]})

    def cancel(name, run):
        wait(f"{name} is cancelled", lambda: attempt_cancel(controller, run), 120, 0.5)

    with concurrent.futures.ThreadPoolExecutor(SUBMISSIONS_AT_ONCE) as pool:
        taken = {name: pool.submit(submit, name) for name in names}
        cancelled = []
        for i in range(kills):
            time.sleep(dice.uniform(0, 2.5))  # what is tested
            if i % 2:
                within_a_submission(cluster, dice.uniform(0, 0.03))
            controller.kill()
            controller.start()
            cancelled += [pool.submit(cancel, name, future.result()) for name, future in taken.items()
                          if i % 4 == 1 and names[name][1] == "cancelled" and future.done()]
        runs = {name: future.result() for name, future in taken.items()}
        cancelled += [pool.submit(cancel, name, run) for name, run in runs.items() if names[name][1] == "cancelled"]
    for future in cancelled:
        future.result()
    controller.wait_all_over(runs.values(), meanwhile=operator(cluster))
    expect(controller, runs, {name: state for name, (_, state) in names.items()})
    nothing_doubled(cluster, controller, runs.values())


def attempt_cancel(controller, run):
    try:
        return controller.request("POST", f"/runs/{run}/cancel")
    except (OSError, http.client.HTTPException):
        return None


def sbatch_hangs(cluster, controller):
    """It is killed by its deadline; whether there is a job, its token tells, and it is never just repeated."""
    runs = {name: controller.submit(name) for name in ("hangs-after", "hangs-before")}
    controller.wait_all_over(runs.values())
    expect(controller, runs, dict.fromkeys(runs, "succeeded"))
    handles = {name: [bool(launch["handle"]) for launch in controller.launches(run)] for name, run in runs.items()}
    assert handles == {"hangs-after": [True], "hangs-before": [False, True]}, handles
    nothing_doubled(cluster, controller, runs.values())


def no_token_is_submitted_twice(cluster):
    """In all cases of this cluster."""
    calls = (cluster.work / "bin" / "calls").read_text().split()
    assert len(calls) == len(set(calls)), sorted(call for call in calls if calls.count(call) > 1)
    print(f"{len(calls)} calls of sbatch")


# Each group on a cluster of its own, beside the others: whoever stops or kills slurmctld must do so alone. The cases of
# a group run at once, each with a controller of its own.
GROUPS = [[slurmctld_stops], [slurmctld_dies], [the_controller_dies, sbatch_hangs]]


def on_a_cluster(cases, group):
    with Cluster("--no-rest") as cluster:
        wrap_sbatch(cluster)
        with_controllers = [with_a_controller(case, cluster, f"{cluster.work}/bin:") for case in group]
        side_by_side(*[functools.partial(cases.run, case) for case in with_controllers])
        cases.run(no_token_is_submitted_twice, cluster)


def main():
    need_slurm()
    cases = Cases("slurm_chaos")
    print(f"REGATTA_SEED={SEED}", flush=True)
    chosen = [[case for case in group if not sys.argv[1:] or case.__name__ in sys.argv[1:]] for group in GROUPS]
    side_by_side(*[functools.partial(on_a_cluster, cases, group) for group in chosen if group])
    cases.finish()


if __name__ == "__main__":
    main()
