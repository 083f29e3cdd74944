#!/usr/bin/env python3
"""What befalls a run of hours on a real cluster, each time with other nodes: its time is over, a more
important job wants its nodes, a node is lost for good, a rank stands still. All runs train at once.

    tests/slurm/lifecycle_test.py [CASE...]
"""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import signal
import sys

from cluster import Cases, Cluster, need_slurm, wait
from controller import OVER, Controller, checkpoints, make_data, succeeds, tail_of, weights

LIMITS = 2 if int(os.environ.get("REGATTA_REPETITIONS", "100")) >= 100 else 1  # time limits that a run crosses
FEWER_STEPS = 4000  # at the first 200 a node is lost, which takes seconds on a busy machine
EVERY = 100  # steps between two checkpoints
NODES = 12
SHARED = (1, 2, 11, 12)  # of the runs that disturb nobody; two of them get suspicious, and are avoided
SECONDS = 400  # the deadline of what takes a minute


def endless(controller, name, nodes, slurm="time_limit: 10", every=EVERY):
    """A run of two ranks on two of the nodes that is far from its end when the test is over."""
    others = [f"node{number:02}" for number in range(1, NODES + 1) if number not in nodes]
    return controller.submit(name, 1000000, every, ranks=2, keep_last=100000,
                             slurm=f"exclude: [{', '.join(others)}]\n  {slurm}")


def starts(controller, run):
    return controller.records(run, "start")


def wait_attempt(controller, run, number, seconds=SECONDS):
    """Until the attempt trains; its start record."""
    def found():
        shown = controller.show(run)
        assert shown["state"] not in OVER, f"{shown['state']}: {shown.get('error')}; {tail_of(controller, run)}"
        return len(starts(controller, run)) >= number
    wait(f"run {run} begins attempt {number}", found, seconds, 0.5)
    return starts(controller, run)[number - 1]


def same_as_undisturbed(controller, run, begun, whole):
    """The first checkpoint after the step at which the last attempt began has the bits of a run that nothing befell."""
    def common():
        later = [step for step in checkpoints(controller.directory(run)) if step > begun and step % EVERY == 0]
        return later and min(later) in checkpoints(controller.directory(whole)) and min(later)
    step = wait("both runs save the same step", common, SECONDS, 0.5)
    assert weights(controller.directory(run), step) == weights(controller.directory(whole), step), f"not at {step}"


def cancel(controller, run):
    assert controller.call("cancel", run).returncode == 0
    state, error = controller.wait_over(run)
    assert state == "cancelled", f"{state}: {error}"


def ranks_of(directory):
    """Processes of a run's ranks: rank to pid."""
    found = {}
    for place in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, KeyError):
            words = place.joinpath("cmdline").read_bytes().split(b"\0")
            if words[1:4] != [b"run", b"--directory", str(directory).encode()]:
                continue
            items = place.joinpath("environ").read_bytes().split(b"\0")
            variables = dict(item.split(b"=", 1) for item in items if b"=" in item)
            found[int(variables[b"SLURM_PROCID"])] = int(place.name)
    return found


def a_time_limit_is_no_end(cluster, controller, whole):
    """A minute at a time: saved before each limit, and the same weights."""
    run = endless(controller, "limited", SHARED, "time_limit: 1")
    for number in range(LIMITS):
        begun = wait_attempt(controller, run, number + 2)
        end = controller.records(run, "end")[number]
        assert end["reason"] == "deadline" and end["exit_code"] == 25, end
        assert begun["first_step"] == end["step"] > 0, "nothing was lost"
    same_as_undisturbed(controller, run, begun["first_step"], whole)
    cancel(controller, run)


def a_more_important_job_goes_first(cluster, controller, whole):
    """Preempted, the run saves, waits, and goes on where it was."""
    run = endless(controller, "preempted", (3, 4))
    controller.wait_step(run, 2 * EVERY)
    urgent = cluster.sbatch("sleep 3", "-p", "high", "-w", "node[03-04]", "--exclusive", "-t", "5")
    assert cluster.wait_job(urgent, seconds=SECONDS) == "COMPLETED"
    begun = wait_attempt(controller, run, 2)
    end = controller.records(run, "end")[0]
    assert end["reason"] == "stopped" and end["exit_code"] == 24, end
    assert begun["first_step"] == end["step"] >= 2 * EVERY, "nothing was lost"
    same_as_undisturbed(controller, run, begun["first_step"], whole)
    cancel(controller, run)


def a_signal_before_the_end_saves(cluster, controller, whole):
    """A run with a longer limit has asked for USR2 before its end. At a preemption Slurm sends that first, and TERM
    when the grace time is over: the run saves twice."""
    run = endless(controller, "signalled", (9, 10), "time_limit: 30", 20 * EVERY)
    controller.wait_step(run, EVERY)
    told = controller.steps(run)
    urgent = cluster.sbatch("sleep 1", "-p", "high", "-w", "node[09-10]", "--exclusive", "-t", "5")
    assert cluster.wait_job(urgent, seconds=SECONDS) == "COMPLETED"
    begun = wait_attempt(controller, run, 2)
    first = min(controller.directory(run).glob("attempts/1-*")) / "journal.jsonl"
    saved = [step for step, path in checkpoints(controller.directory(run)).items() if step <= begun["first_step"]]
    assert begun["first_step"] >= told and len(saved) >= 2, (begun["first_step"], told, saved, first.read_text()[-2000:])
    same_as_undisturbed(controller, run, begun["first_step"], whole)
    cancel(controller, run)


def a_signal_to_a_rank_is_no_cancel(cluster, controller, whole):
    """Somebody's TERM, or that of a node that shuts down: all ranks save, and the run goes on."""
    run = endless(controller, "terminated", SHARED)
    controller.wait_step(run, EVERY)
    ranks = wait("both ranks are found", lambda: len(found := ranks_of(controller.directory(run))) == 2 and found)
    os.kill(ranks[1], signal.SIGTERM)
    begun = wait_attempt(controller, run, 2)
    end = controller.records(run, "end")[0]
    assert end["exit_code"] == 24 and begun["first_step"] == end["step"] >= EVERY, (end, begun)
    assert json.loads(controller.call("explain", run, "-o", "json").stdout)["failures_in_a_row"] == 0
    same_as_undisturbed(controller, run, begun["first_step"], whole)
    cancel(controller, run)


def fewer_nodes_are_enough(cluster, controller, whole):
    """A node is lost and does not come back: the run goes on without it, with fewer ranks, to its end."""
    run = controller.submit("fewer", FEWER_STEPS, slurm='exclude: ["node[01-04]", "node[09-12]"]\n  time_limit: 10', nodes="2..4")
    controller.wait_step(run, 200)
    cluster.kill("node07")
    begun = wait_attempt(controller, run, 2)
    first = starts(controller, run)[0]
    assert first["ranks"] == 4 and begun["ranks"] == 3, (first["ranks"], begun["ranks"])
    assert begun["first_step"] > 0, "it resumed"

    def suspicions():
        told = json.loads(controller.call("nodes", "-o", "json").stdout)["nodes"]
        return {node["name"]: node["suspicion"] for node in told if node["name"] in ("node05", "node06", "node07", "node08")}
    wait("the dead node alone is suspected", lambda: (found := suspicions())["node07"] > 0.9 and sum(found.values()) < 1.1, 120, 2)
    succeeds(controller, run)
    assert controller.steps(run) == FEWER_STEPS


def stands_still(controller, whole, rank):
    """A stopped rank: the other tells who it is and has all stacks taken; the job starts again by itself."""
    run = endless(controller, f"hung-{rank}", SHARED)
    controller.wait_step(run, 2 * EVERY)
    directory = controller.directory(run)
    wait("a checkpoint", lambda: checkpoints(directory), SECONDS)
    ranks = wait("both ranks are found", lambda: len(found := ranks_of(directory)) == 2 and found)
    os.kill(ranks[rank], signal.SIGSTOP)
    begun = wait_attempt(controller, run, 2)
    first = starts(controller, run)[0]
    assert len(set(first["hosts"])) == 2, first["hosts"]
    hang = json.loads((min(directory.glob("attempts/1-*")) / "hang.json").read_text())
    node = first["hosts"][rank]
    assert (hang["rank"], hang["host"], hang["told_by"]) == (rank, node, 1 - rank), hang
    assert hang["seconds"] > 5 and hang["phase"] and f"rank {rank} has not been heard of" in hang["why"], hang
    stacks = min((directory / "submit").glob("*.stacks")).read_text()
    assert all(f"rank {r}, node {first['hosts'][r]}" in stacks for r in (0, 1)), stacks[:2000] + tail_of(controller, run)
    stopped = stacks[stacks.index(f"rank {rank}, node {node}"):].splitlines()[0]
    assert "state T (stopped)" in stopped, stopped
    assert "thread" in stacks and ("eu-stack" in stacks or "gdb" in stacks or "no user stacks" in stacks), stacks[:2000]
    assert begun["first_step"] > 0, "it resumed"
    assert not list((directory / "submit").glob("*.dump")), "the request is gone"
    log = min((directory / "submit").glob("*.out")).read_text()
    assert "step ended with 22" in log and "restart 1" in log and "successor" not in log, log
    same_as_undisturbed(controller, run, begun["first_step"], whole)
    cancel(controller, run)
    return run


def a_rank_that_stands_still_is_dumped_and_left(cluster, controller, whole):
    run = stands_still(controller, whole, 1)
    end = controller.records(run, "end")[0]
    assert end["exit_code"] == 22 and "rank 1 has not been heard of" in end["message"], end


def rank_0_that_stands_still_is_dumped_and_left(cluster, controller, whole):
    """It alone writes the journal and leaves the exit code otherwise."""
    stands_still(controller, whole, 0)


CASES = [a_time_limit_is_no_end, a_more_important_job_goes_first, a_signal_before_the_end_saves,
         a_signal_to_a_rank_is_no_cancel, fewer_nodes_are_enough, a_rank_that_stands_still_is_dumped_and_left,
         rank_0_that_stands_still_is_dumped_and_left]


def main():
    need_slurm()
    chosen = [case for case in CASES if not sys.argv[1:] or case.__name__ in sys.argv[1:]]
    cases = Cases("slurm_lifecycle")
    # What is asked to end has time to, however many train beside it.
    with Cluster("--no-rest", "--nodes", NODES, "--conf", "KillWait=30") as cluster:
        make_data(cluster.work)
        controller = Controller(cluster)
        try:
            whole = endless(controller, "whole", SHARED)
            with concurrent.futures.ThreadPoolExecutor(len(chosen)) as pool:
                for case in chosen:
                    pool.submit(cases.run, case, cluster, controller, whole)
        finally:
            controller.kill()
            controller.tell()
    cases.finish()


if __name__ == "__main__":
    main()
