#!/usr/bin/env python3
"""A day of a cluster in some minutes: everything that users, operators and Slurm do to jobs, at random and on
top of each other, while 20 runs train. All end with the weights of a run that nothing befell; no two jobs of a run
are at work at once, and none becomes a process of the controller's machine.

    tests/slurm/gameday_test.py

Only with REGATTA_REPETITIONS=100 (all tests); REGATTA_SEED (a number) repeats the order of what happens.
"""
import collections
import http.client
import os
import random
import re
import sys
import time

from chaos_test import operator
from cluster import PERCENT, SEED, SKIPPED, Cases, Cluster, need_slurm, wait
from controller import OVER, TRAINER, make_data, weights
from noop import NoopController, accounted

RUNS = int(os.environ.get("GAMEDAY_RUNS", "20"))
SECONDS = int(os.environ.get("GAMEDAY_SECONDS", "420"))  # of trouble; then everybody may finish
STEPS = 4000
NODES = 8
PARTITIONS = ("main", "cancels")  # a more important job requeues what it preempts, or cancels it


def run_file(cluster, number):
    """A run of two ranks on two nodes, about a minute of work beside the others; each fourth under a QOS with limits."""
    slurm = {"nodes": 2, "ranks_per_node": 1, "time_limit": 30, "partition": PARTITIONS[number % 2], "requeue": number % 3 != 0}
    if number % 4 == 0:
        slurm["qos"] = "narrow"
    return {"name": f"day-{number}", "data": {"path": str(cluster.work / "data"), "max_length": 48},
            "model": {"preset": "tiny", "layers": 2, "hidden": 32, "heads": 2, "feed_forward": 64, "max_positions": 64},
            "batch": {"size": 16}, "optimizer": {"learning_rate": 0.003}, "threads": 1, "ranks": 2, "steps": STEPS,
            "checkpoint": {"every": 500, "keep_last": 2}, "slurm": slurm}


class Day:
    """What can happen. Each of these returns what it did, or None where there was nothing to do it to."""

    def __init__(self, cluster, controller, dice):
        self.cluster, self.controller, self.dice = cluster, controller, dice
        self.happened = collections.Counter()

    def a_job(self):
        done = self.cluster.run("squeue", "-h", "-t", "R", "-p", ",".join(PARTITIONS), "-o", "%i", timeout=20)
        jobs = done.stdout.split()
        return self.dice.choice(jobs) if jobs else None

    def scontrol(self, *words):
        return self.cluster.run("scontrol", *words, timeout=30)

    def to_a_job(self, *words):
        job = self.a_job()
        if job is None:
            return None
        self.scontrol("update", f"jobid={job}", *words)
        return f"{job} {words}"

    def a_lowered_limit(self):
        return self.to_a_job("timelimit=1")

    def a_new_name(self):
        return self.to_a_job(f"name=renamed-{self.dice.randrange(100)}", "comment=mine")

    def a_node(self, state, seconds):
        node = f"node{self.dice.randrange(1, NODES + 1):02}"
        self.scontrol("update", f"nodename={node}", f"state={state}", "reason=a game day")
        time.sleep(seconds)  # what happens
        self.scontrol("update", f"nodename={node}", "state=resume")
        return node

    def a_node_down(self):
        return self.a_node("down", 3)

    def a_node_drained(self):
        return self.a_node("drain", 6)

    def a_qos_limit(self):
        def change(most):
            self.cluster.run("sacctmgr", "-i", "modify", "qos", "narrow", "set", f"MaxSubmitJobsPerUser={most}", timeout=60)
        change(1)
        time.sleep(self.dice.uniform(3, 10))  # what happens
        change(-1)
        return "narrow"

    def a_silent(self, daemon):
        with self.cluster.paused(daemon):
            time.sleep(self.dice.uniform(5, 20))  # what happens
        return daemon

    def a_silent_slurmctld(self):
        return self.a_silent("slurmctld")

    def a_silent_munged(self):
        return self.a_silent("munged")

    def a_dead_controller(self):
        self.controller.kill()
        time.sleep(self.dice.uniform(0, 4))  # what happens
        self.controller.start()
        return "started again"

    def a_preemption(self):
        node = f"node{self.dice.randrange(1, NODES + 1):02}"
        self.cluster.sbatch("sleep 2", "-p", "high", "-w", node, "--exclusive", "-t", "2")
        return node

    def a_suspension(self):
        job = self.a_job()
        if job is None:
            return None
        self.scontrol("suspend", job)
        time.sleep(self.dice.uniform(2, 8))  # what happens
        self.scontrol("resume", job)
        return job

    def a_signal(self):
        job = self.a_job()
        if job is None:
            return None
        self.cluster.run("scancel", "--signal=TERM", job, timeout=30)
        return job

    KINDS = (a_lowered_limit, a_new_name, a_node_down, a_node_drained, a_qos_limit, a_silent_slurmctld, a_silent_munged,
             a_dead_controller, a_preemption, a_suspension, a_signal)

    def pass_by(self, is_over):
        """Every kind once in an order of its own, then at random."""
        kinds = list(self.KINDS)
        self.dice.shuffle(kinds)
        look, begun = operator(self.cluster), time.monotonic()
        while time.monotonic() - begun < SECONDS and not is_over():
            kind = kinds.pop() if kinds else self.dice.choice(self.KINDS)
            done = kind(self)
            print(f"{time.monotonic() - begun:6.1f} s  {kind.__name__}: {done}", flush=True)
            self.happened[kind.__name__] += done is not None
            look()
            time.sleep(self.dice.uniform(0, 4))  # what happens overlaps, but not all of it


def submit(controller, body):
    """The key makes it one run, however often the controller is killed meanwhile."""
    def attempt():
        try:
            return controller.request("POST", "/runs", body, {"Idempotency-Key": body["name"]})["id"]
        except (OSError, http.client.HTTPException):
            return None
    return wait(f"{body['name']} is taken", attempt, 120, 0.2)


def states(controller):
    try:
        return {run["id"]: run for run in controller.request("GET", "/runs?limit=100")["runs"]}
    except (OSError, http.client.HTTPException):
        return {}


def no_two_at_once(cluster, controller, runs):
    """Of the jobs that Slurm's accounting has under the tokens of a run."""
    jobs = accounted(cluster)
    for run in runs:
        executions = []
        for launch in controller.launches(run):
            assert not launch["handle"] or launch["handle"].startswith("slurm:"), f"{run}: {launch}"
            executions += [(begin, end) for _, begin, end in jobs.get(launch["token"], [])
                           if begin not in ("None", "Unknown")]
        executions.sort()
        overlap = [pair for pair in zip(executions, executions[1:]) if pair[1][0] < pair[0][1]]
        assert executions and not overlap, f"jobs of {run}: {executions}"


def a_day(cluster, controller):
    dice = random.Random(SEED)
    whole = submit(controller, {**run_file(cluster, 1), "name": "whole"})
    wait("a run that nothing befalls ends", lambda: states(controller).get(whole, {}).get("state") == "succeeded", 300, 1)
    undisturbed = weights(controller.directory(whole))
    runs = [submit(controller, run_file(cluster, number)) for number in range(RUNS)]
    day = Day(cluster, controller, dice)

    def over():
        now = states(controller)
        return bool(now) and all(now[run]["state"] in OVER for run in runs) and now
    day.pass_by(over)
    look = operator(cluster)
    now = wait("all runs end", lambda: look() or over(), 900, 1)
    for run in runs:
        shown = now[run]
        assert shown["state"] == "succeeded", f"{run} is {shown['state']}: {shown.get('error')}"
        assert shown["scheduler"] == "slurm", shown["scheduler"]
        assert weights(controller.directory(run)) == undisturbed, f"{run} has other weights"
        hosts = {record["host"] for record in controller.records(run, "start")}
        isolated = "its own hostname" in cluster.told
        assert not isolated or all(re.match(r"node\d\d", host) for host in hosts), f"{run} trained on {hosts}"
        ends = [record for record in controller.records(run, "end") if record["exit_code"] == 0]
        assert len(ends) == 1, f"{run} came to its end {len(ends)} times"
    wait("sacct knows the ends", lambda: not cluster.run("squeue", "-h", "-p", ",".join(PARTITIONS)).stdout, 120, 1)
    no_two_at_once(cluster, controller, runs)
    attempts = sum(len(controller.records(run, "start")) for run in runs)
    launches = sum(len(controller.launches(run)) for run in runs)
    print(f"{len(runs)} runs, {attempts} attempts, {launches} launches; happened: {dict(day.happened)}", flush=True)
    assert RUNS < 20 or attempts > RUNS, "nothing disturbed any run"


def prepare(cluster):
    cluster.output("sacctmgr", "-i", "add", "account", "day")
    cluster.output("sacctmgr", "-i", "add", "user", cluster.user, "account=day")
    cluster.output("sacctmgr", "-i", "add", "qos", "narrow")
    cluster.output("sacctmgr", "-i", "modify", "user", "where", f"name={cluster.user}", "set", "qos+=narrow")
    cluster.output("scontrol", "create", "partitionname=cancels", "state=up", "nodes=ALL", "preemptmode=cancel")


def main():
    if PERCENT < 100:
        print("needs REGATTA_REPETITIONS=100: it takes ten minutes")
        sys.exit(SKIPPED)
    need_slurm()
    cases = Cases("slurm_gameday")
    print(f"REGATTA_SEED={SEED}", flush=True)
    with Cluster("--no-rest", "--nodes", NODES, "--conf", "AccountingStorageEnforce=associations,limits,qos") as cluster:
        prepare(cluster)
        make_data(cluster.work)
        controller = NoopController(cluster, "gameday", trainer=TRAINER)
        try:
            cases.run(a_day, cluster, controller)
        finally:
            controller.kill()
            print(controller.log.read_text(errors="replace")[-4000:], flush=True)
    cases.finish()


if __name__ == "__main__":
    main()
