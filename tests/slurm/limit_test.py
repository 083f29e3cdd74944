#!/usr/bin/env python3
"""`regatta change RUN --time-limit`: what slurmctld then shows of the job, and what it says when it refuses.

    tests/slurm/limit_test.py
"""
import json
import shutil

from cluster import Cases, Cluster, need_slurm, wait
from controller import Controller, make_data

NOBODY = 65534


def limits(cluster):
    """Time limits of all jobs in the queue, as Slurm shows them."""
    return sorted(cluster.output("squeue", "--noheader", "--format=%l").split())


def change(controller, run, limit):
    return controller.call("change", run, "--time-limit", limit)


def cancel(controller, run):
    assert controller.call("cancel", run).returncode == 0
    controller.wait_over(run)


def a_job_gets_the_limit_that_its_run_has(cluster):
    """One that runs, one that waits, and the next of the first."""
    controller = Controller(cluster, "limits")
    try:
        run = controller.submit("runs", 10**6, 1000, ranks=1, slurm="time_limit: 10")
        controller.wait_step(run, 5)
        assert limits(cluster) == ["10:00"], limits(cluster)
        for limit, shown in (("7", "7:00"), ("0:20:00", "20:00")):  # the second is more: the user is an operator
            done = change(controller, run, limit)
            assert done.returncode == 0 and "Slurm gave its job" in done.stderr, done.stderr
            assert limits(cluster) == [shown], limits(cluster)
        waiting = controller.submit("waits", 10**6, 1000, ranks=1, slurm="time_limit: 10\n  options: [--begin=now+1hour]")
        wait("its job waits", lambda: limits(cluster) == ["10:00", "20:00"], every=0.5)
        controller.kill()
        controller.start()
        done = change(controller, waiting, "30")
        assert done.returncode == 0 and "Slurm gave its job 30 minutes" in done.stderr, done.stderr
        assert limits(cluster) == ["20:00", "30:00"], limits(cluster)
        cancel(controller, waiting)
        cancel(controller, run)
        assert controller.call("resume", run).returncode == 0
        wait("the next job is there", lambda: limits(cluster) == ["20:00"], every=0.5)
        cancel(controller, run)
    finally:
        controller.kill()


def a_refusal_is_told_in_slurms_words(cluster):
    """scontrol is called as a user whose job it is not."""
    folder = cluster.work / "as-nobody"
    folder.mkdir()
    (folder / "scontrol").write_text(
        f'#!/bin/sh\nexec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups -- {shutil.which("scontrol")} "$@"\n')
    (folder / "scontrol").chmod(0o755)
    controller = Controller(cluster, "refused", f"{folder}:")
    try:
        run = controller.submit("refused", 10**6, 1000, ranks=1, slurm="time_limit: 10")
        controller.wait_step(run, 5)
        done = change(controller, run, "7")
        assert done.returncode == 5, done
        assert "Slurm refused to give its job 7 minutes: " in done.stderr, done.stderr
        assert "nvalid user id" in done.stderr, done.stderr
        assert limits(cluster) == ["10:00"], limits(cluster)
        events = json.loads(controller.call("events", run, "-o", "json").stdout)["events"]
        (event,) = [event for event in events if event["kind"] == "launch.limit_refused"]
        assert "nvalid user id" in event["words"], event
        cancel(controller, run)
        assert controller.call("resume", run).returncode == 0
        wait("the next job has it", lambda: limits(cluster) == ["7:00"], every=0.5)
        cancel(controller, run)
    finally:
        controller.kill()


def main():
    need_slurm()
    cases = Cases("slurm_limit")
    with Cluster("--nodes", "2") as cluster:
        make_data(cluster.work)
        cases.run(a_job_gets_the_limit_that_its_run_has, cluster)
        cases.run(a_refusal_is_told_in_slurms_words, cluster)
    cases.finish()


if __name__ == "__main__":
    main()
