#!/usr/bin/env python3
"""A day of a cluster in some minutes: everything that users, operators and Slurm do to jobs, at random and on
top of each other, while 20 runs train. All end with the weights of a run that nothing befell; no two jobs of a run
are at work at once, and none becomes a process of the controller's machine.

    tests/slurm/gameday_test.py

Only with REGATTA_REPETITIONS=100 (all tests); REGATTA_SEED (a number) repeats the order of what happens.
"""
import collections
import contextlib
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
HELD_BACK = 3  # of the runs under the QOS: those that are submitted while it takes none


def is_narrow(number):
    return number % 4 == 0


def run_file(cluster, number):
    """A run of two ranks on two nodes, about a minute of work beside the others; each fourth under a QOS with limits."""
    slurm = {"nodes": 2, "ranks_per_node": 1, "time_limit": 30, "partition": PARTITIONS[number % 2], "requeue": number % 3 != 0}
    if is_narrow(number):
        slurm["qos"] = "narrow"
    return {"name": f"day-{number}", "data": {"path": str(cluster.work / "data"), "max_length": 48},
            "model": {"preset": "tiny", "layers": 2, "hidden": 32, "heads": 2, "feed_forward": 64, "max_positions": 64},
            "batch": {"size": 16}, "optimizer": {"learning_rate": 0.003}, "threads": 1, "ranks": 2, "steps": STEPS,
            "checkpoint": {"every": 500, "keep_last": 2}, "slurm": slurm}


class Day:
    """What can happen. Each of these returns what it did, or None where there was nothing to do it to, or where that
    was over before it could be done."""

    def __init__(self, cluster, controller, dice, later):
        self.cluster, self.controller, self.dice = cluster, controller, dice
        self.later = later  # numbers of runs that are not submitted yet
        self.runs = []  # that were submitted since
        self.refused = False  # the last of them, at first
        self.happened, self.missed = collections.Counter(), collections.Counter()

    def a_job(self, *partitions):
        done = self.cluster.run("squeue", "-h", "-t", "R", "-p", ",".join(partitions or PARTITIONS), "-o", "%i", timeout=20)
        jobs = done.stdout.split()
        return self.dice.choice(jobs) if jobs else None

    def is_done(self, *command):
        """Whether Slurm did it; a job may have ended and a node come back a moment before."""
        done = self.cluster.run(*command, timeout=60)
        if done.returncode != 0:
            print(f"        {' '.join(command)}: {done.stderr.strip()}", flush=True)
        return done.returncode == 0

    def to_a_job(self, *words):
        job = self.a_job()
        done = job is not None and self.is_done("scontrol", "update", f"jobid={job}", *words)
        return f"{job} {words}" if done else None

    def a_lowered_limit(self):
        return self.to_a_job("timelimit=1")

    def a_new_name(self):
        return self.to_a_job(f"name=renamed-{self.dice.randrange(100)}", "comment=mine")

    def a_node(self, state, seconds):
        node = f"node{self.dice.randrange(1, NODES + 1):02}"
        done = self.is_done("scontrol", "update", f"nodename={node}", f"state={state}", "reason=a game day")
        time.sleep(seconds)  # what happens
        # One that was down may be back by itself: what counts is that it is.
        self.is_done("scontrol", "update", f"nodename={node}", "state=resume")
        wait(f"{node} is back", lambda: not re.search(r"State=\S*(DOWN|DRAIN)", self.cluster.run(
            "scontrol", "show", "node", "-o", node).stdout), 60, 0.5)
        return node if done else None

    def a_node_down(self):
        return self.a_node("down", 3)

    def a_node_drained(self):
        return self.a_node("drain", 6)

    def a_qos_limit(self):
        """It takes no job while a run comes that wants it, until that run has been refused."""
        if not self.later:
            return None

        def change(most):
            assert self.is_done("sacctmgr", "-i", "modify", "qos", "narrow", "set", f"MaxSubmitJobsPerUser={most}")
        change(0)
        try:
            run = submit(self.controller, run_file(self.cluster, self.later.pop()))
            self.runs.append(run)

            def answered():  # by a job where slurmctld had not heard of the limit in time
                told = self.controller.explain(run)
                self.refused = "QOSMaxSubmitJobPerUserLimit" in told["summary"]
                return self.refused or told["launches"] and told["launches"][-1]["job"]
            wait(f"{run} is refused or submitted", answered, 120, 0.5)
        finally:
            change(-1)
        return run if self.refused else None

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

    def a_preemption(self, partition):
        """Of a job of the partition, on one of its nodes; done when Slurm says of it that it was preempted."""
        job = self.a_job(partition)
        node = job and self.cluster.job(job).get("BatchHost")
        if not node:
            return None
        log = self.cluster.directory / "log" / "slurmctld.log"
        before = log.stat().st_size
        self.cluster.sbatch("sleep 2", "-p", "high", "-w", node, "--exclusive", "-t", "2")

        def is_preempted():  # in its grace time the job has the time of it; afterwards the log tells
            with open(log, "rb") as file:
                file.seek(before)
                return (f"preempted JobId={job} ".encode() in file.read()
                        or self.cluster.job(job).get("PreemptTime", "None") not in ("None", "Unknown"))
        with contextlib.suppress(AssertionError):  # it ended before
            wait(f"{job} is preempted", is_preempted, 20, 0.3)
            return f"{job} on {node}"

    def a_preemption_that_requeues(self):
        return self.a_preemption("main")

    def a_preemption_that_cancels(self):
        return self.a_preemption("cancels")

    def a_suspension(self):
        job = self.a_job()
        if job is None or not self.is_done("scontrol", "suspend", job):
            return None
        time.sleep(self.dice.uniform(2, 8))  # what happens
        assert self.is_done("scontrol", "resume", job) or self.cluster.job(job).get("JobState") != "SUSPENDED"
        return job

    def a_signal(self):
        job = self.a_job()
        return job if job is not None and self.is_done("scancel", "--signal=TERM", job) else None

    KINDS = (a_lowered_limit, a_new_name, a_node_down, a_node_drained, a_qos_limit, a_silent_slurmctld, a_silent_munged,
             a_dead_controller, a_preemption_that_requeues, a_preemption_that_cancels, a_suspension, a_signal)

    def pass_by(self, is_over):
        """Every kind once in an order of its own, one that could not be done again after the others; then at random."""
        kinds = list(self.KINDS)
        self.dice.shuffle(kinds)
        look, begun = operator(self.cluster), time.monotonic()
        while time.monotonic() - begun < SECONDS:
            if is_over():
                if not self.later:
                    break
                kinds.append(Day.a_qos_limit)  # which submits one more
            first = bool(kinds)
            kind = kinds.pop() if first else self.dice.choice(self.KINDS)
            done = kind(self)
            print(f"{time.monotonic() - begun:6.1f} s  {kind.__name__}: {done}", flush=True)
            (self.missed if done is None else self.happened)[kind.__name__] += 1
            if first and done is None:
                kinds.insert(0, kind)
            look()
            time.sleep(self.dice.uniform(0, 4))  # what happens overlaps, but not all of it
        while self.later:
            self.runs.append(submit(self.controller, run_file(self.cluster, self.later.pop())))


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


def all_ends(cluster):
    """What accounting knows, once it has the end of every execution: of one that lasts it says Unknown."""
    def ended():
        jobs = accounted(cluster)
        return all(end != "Unknown" for rows in jobs.values() for _, _, end in rows) and jobs
    return wait("sacct knows the ends", ended, 180, 1)


def no_two_at_once(cluster, controller, runs):
    """Of the jobs that Slurm's accounting has under the tokens of a run; and it has none under any other token."""
    jobs = all_ends(cluster)
    launches = {run: controller.launches(run) for run in runs}
    known = {launch["token"] for each in launches.values() for launch in each}
    assert set(jobs) <= known, f"jobs of no launch: {set(jobs) - known}"
    for run, each in launches.items():
        executions = []
        for launch in each:
            assert not launch["handle"] or launch["handle"].startswith("slurm:"), f"{run}: {launch}"
            executions += [(begin, end) for _, begin, end in jobs.get(launch["token"], [])
                           if begin not in ("None", "Unknown")]
        executions.sort()
        overlap = [pair for pair in zip(executions, executions[1:]) if pair[1][0] < pair[0][1]]
        assert executions and not overlap, f"jobs of {run}: {executions}"


def check_end(run, attempts):
    """It has come to its end, and nothing was trained behind that. Slurm may start a job once more that was about to
    leave: what has no steps left then ends again at once."""
    ended = [any(record["type"] == "end" and record["exit_code"] == 0 for record in attempt) for attempt in attempts]
    assert any(ended), f"{run} has no attempt that came to its end"
    for attempt in attempts[ended.index(True) + 1:]:
        steps = [record["step"] for record in attempt if record["type"] == "step"]
        assert not steps, f"{run} had come to its end, and trained steps {steps}"


def a_day(cluster, controller):
    dice = random.Random(SEED)
    whole = submit(controller, {**run_file(cluster, 1), "name": "whole"})
    wait("a run that nothing befalls ends", lambda: states(controller).get(whole, {}).get("state") == "succeeded", 300, 1)
    undisturbed = weights(controller.directory(whole))
    later = [number for number in range(RUNS) if is_narrow(number)][-HELD_BACK:]
    first = [submit(controller, run_file(cluster, number)) for number in range(RUNS) if number not in later]
    day = Day(cluster, controller, dice, later)

    def over():
        now = states(controller)
        return bool(now) and all(now[run]["state"] in OVER for run in first + day.runs) and now
    day.pass_by(over)
    look = operator(cluster)
    now = wait("all runs end", lambda: look() or over(), 900, 1)
    runs = first + day.runs
    assert len(runs) == RUNS, runs
    for run in runs:
        shown = now[run]
        assert shown["state"] == "succeeded", f"{run} is {shown['state']}: {shown.get('error')}"
        assert shown["scheduler"] == "slurm", shown["scheduler"]
        assert weights(controller.directory(run)) == undisturbed, f"{run} has other weights"
        hosts = {record["host"] for record in controller.records(run, "start")}
        isolated = "its own hostname" in cluster.told
        assert not isolated or all(re.match(r"node\d\d", host) for host in hosts), f"{run} trained on {hosts}"
        check_end(run, controller.attempts(run))
    no_two_at_once(cluster, controller, [*runs, whole])
    attempts = sum(len(controller.records(run, "start")) for run in runs)
    launches = sum(len(controller.launches(run)) for run in runs)
    print(f"{len(runs)} runs, {attempts} attempts, {launches} launches; happened: {dict(day.happened)}; "
          f"could not: {dict(day.missed)}", flush=True)
    if RUNS >= 20:  # a full day
        never = [kind.__name__ for kind in Day.KINDS if not day.happened[kind.__name__]]
        assert not never, f"never happened: {never}"
        assert attempts > RUNS, "nothing disturbed any run"


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
