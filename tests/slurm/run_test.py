#!/usr/bin/env python3
"""Runs through a real Slurm: submitted by the controller, trained by four ranks on four nodes.

    tests/slurm/run_test.py [CASE...]

The cases go on side by side, each with a controller of its own; one kills a node, and has eight for itself.
"""
import functools
import sys

from cluster import Cases, Cluster, need_slurm, side_by_side, wait
from controller import Controller, make_data, succeeds, weights


# Nodes 9 to 12.
SAFE = 'time_limit: 10\n  exclude: ["node[01-08]"]'


def four_ranks_reach_the_target(cluster, controller):
    run = controller.submit("target", 3000, more="target: {metric: mlm_loss, value: 3.0}", slurm=SAFE)
    succeeds(controller, run)
    directory = controller.directory(run)
    starts = controller.records(run, "start")
    assert len(starts) == 1 and starts[0]["ranks"] == 4 and starts[0]["ranks_per_node"] == 1, starts
    assert starts[0]["host"] == "node09", starts[0]["host"]
    end = controller.records(run, "end")[-1]
    assert end["reason"] == "target", end
    assert weights(directory)[0] > 0
    assert list((directory / "submit").glob("*.sh")) and list((directory / "submit").glob("*.out"))
    shown = controller.show(run)
    assert shown["time_to_accuracy_seconds"] > 0, shown


def goes_on_without_the_controller(cluster, controller):
    run = controller.submit("alone", 800, slurm=SAFE)
    wait("a job is submitted", lambda: "alone" in cluster.output("squeue", "-h", "-o", "%j").split())
    controller.kill()
    wait("the run ends", lambda: controller.records(run, "end"), 300)
    controller.start()
    succeeds(controller, run)
    assert len(controller.records(run, "start")) == 1, "one attempt, though two controllers saw it"


def a_lost_node_is_survived(cluster, controller):
    """slurmd of a node and all on it die: the run resumes, and ends as an undisturbed one."""
    whole = controller.submit("whole", 1600, slurm='time_limit: 10\n  exclude: ["node[01-04]", "node[09-12]"]')
    run = controller.submit("lost", 1600, slurm='time_limit: 10\n  requeue: true\n  exclude: ["node[05-12]"]')
    controller.wait_step(run, 200)
    cluster.kill("node03")
    wait("the other ranks end", lambda: controller.records(run, "end") or len(controller.records(run, "start")) > 1, 120)
    cluster.start("node03")
    succeeds(controller, run)
    succeeds(controller, whole)
    assert weights(controller.directory(run)) == weights(controller.directory(whole)), "other bits"
    assert len(controller.records(run, "start")) >= 2


def begins_after_another(cluster, controller):
    """No job of it is submitted before the other has succeeded, and one then, whatever becomes of the controller."""
    first = controller.submit("first", 1500, slurm=SAFE)
    second = controller.submit("second", 100, slurm=SAFE, options=("--after", first))
    controller.wait_step(first, 100)
    wait("it says what it waits for", lambda: f"waits for {first}, which is" in controller.show(second)["state_text"])
    assert f"waits for {first}" in controller.call("explain", second).stdout
    refused = controller.call("rm", first, "--yes")
    assert refused.returncode == 5 and "is not over" in refused.stderr, refused.stderr
    controller.kill()
    controller.start()
    assert not controller.records(second, "start"), "begun too early"
    names = cluster.output("squeue", "-h", "-o", "%j").split()
    assert not any("second" in name for name in names), names
    succeeds(controller, first)
    succeeds(controller, second)
    ended, began = controller.records(first, "end"), controller.records(second, "start")
    assert len(controller.records(first, "start")) == 1 and len(began) == 1, began
    assert ended[-1]["utc_seconds"] < began[0]["utc_seconds"], (ended, began)
    assert len(list((controller.directory(second) / "launches").glob("*.json"))) == 1
    removed = controller.call("rm", first, second, "--yes")
    assert removed.returncode == 0, removed.stderr
    assert not controller.directory(first).exists() and not controller.directory(second).exists()


CASES = [four_ranks_reach_the_target, goes_on_without_the_controller, a_lost_node_is_survived, begins_after_another]


def with_a_controller(cases, cluster, case):
    controller = Controller(cluster, case.__name__)
    try:
        cases.run(case, cluster, controller)
    finally:
        controller.kill()
        controller.tell()


def main():
    need_slurm()
    chosen = [case for case in CASES if not sys.argv[1:] or case.__name__ in sys.argv[1:]]
    cases = Cases("slurm_run")
    with Cluster("--no-rest", "--nodes", 12) as cluster:
        make_data(cluster.work)
        side_by_side(*[functools.partial(with_a_controller, cases, cluster, case) for case in chosen])
    cases.finish()


if __name__ == "__main__":
    main()
