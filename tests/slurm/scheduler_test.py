#!/usr/bin/env python3
"""Which scheduler a run belongs to: a controller that cannot see Slurm starts no process in a job's place. And what
becomes of runs that are over: resumed, archived, removed.

    tests/slurm/scheduler_test.py [CASE...]
"""
import functools
import json
import sys
import threading
import time

from cluster import Cases, Cluster, need_slurm, side_by_side, wait
from controller import Controller, checkpoints, make_data, succeeds, weights

ENDLESS = 10**7  # steps
ENDED = threading.Event()  # what another case ends has ended, and slurmctld may be stopped
BLIND_SECONDS = 15  # in which a controller that starts processes would have started one


def attempts(controller, run):
    return sorted(path.name for path in (controller.directory(run) / "attempts").glob("*"))


def is_left_alone(controller, run, why):
    """It goes on, nothing begins beside it, and it is told why nothing is done about it."""
    before, step = attempts(controller, run), controller.steps(run)
    wait("it is told why", lambda: why in controller.call("explain", run).stdout, every=0.5)
    time.sleep(BLIND_SECONDS)
    assert controller.show(run)["state"] in ("running", "starting"), controller.show(run)
    assert attempts(controller, run) == before and len(before) == 1, attempts(controller, run)
    assert controller.steps(run) > step, "it stands still"


def a_run_stays_a_job(cluster):
    """Through controllers that find Slurm silent, not set up, or are told to start processes."""
    controller = Controller(cluster, "stays")
    try:
        undisturbed = controller.submit("undisturbed", ENDLESS, every=1000, ranks=1, keep_last=100000)
        # Where the controller is killed before sbatch, the next one first asks Slurm for a minute.
        controller.wait_step(undisturbed, 1)
        controller.kill()
        # What the controller's environment says to sbatch reaches no job, and that is said.
        controller.start("auto", {"SBATCH_PARTITION": "nowhere", "SBATCH_TIMELIMIT": "1"})
        assert "SBATCH_PARTITION, SBATCH_TIMELIMIT of the environment is ignored" in controller.told()
        run = controller.submit("run", ENDLESS, every=1000, ranks=1, keep_last=100000)
        controller.wait_step(run, 500)
        controller.kill()
        controller.start("local")
        is_left_alone(controller, run, "belongs to Slurm")
        controller.kill()
        controller.start("auto", {"SLURM_CONF": None})
        log = controller.told()
        assert "runs of this controller belong to Slurm" in log, log[-2000:]
        is_left_alone(controller, run, "Slurm has not answered yet: squeue ended with code 1")  # it finds no configuration
        controller.kill()
        assert ENDED.wait(400), "another case ends its runs"
        with cluster.paused("slurmctld"):
            controller.start("auto")
            assert "runs wait for Slurm" in controller.told()
            later = controller.submit("later", 100, ranks=1)
            is_left_alone(controller, run, "Slurm has not answered yet: scontrol ")
            waits = controller.call("explain", later).stdout
            assert "Slurm has not answered yet" in waits, waits
            assert attempts(controller, later) == []
        succeeds(controller, later)
        told = controller.call("explain", run).stdout
        assert "belongs to" not in told and "not answered" not in told, told
        step = max(checkpoints(controller.directory(run)))
        wait("both have saved that step", lambda: step in checkpoints(controller.directory(undisturbed)), 240, 0.5)
        assert weights(controller.directory(run), step) == weights(controller.directory(undisturbed), step)
        for each in (run, undisturbed):
            assert controller.call("cancel", each).returncode == 0
            assert controller.wait_over(each)[0] == "cancelled"
        for each in (run, later, undisturbed):
            assert controller.show(each)["attempts"] == 1, controller.show(each)
            assert controller.show(each)["scheduler"] == "slurm"
    finally:
        controller.kill()


def end_of(controller, run, how, state):
    """Ends the run's job in that way once it has saved something, and waits for what it is then."""
    controller.wait_step(run, 1500)
    how()
    assert controller.wait_over(run)[0] == state, controller.show(run)
    assert f"regatta resume {run}" in controller.call("explain", run).stdout
    resumed = controller.call("resume", run)
    assert resumed.returncode == 0 and resumed.stdout.split() == [run, "queued"], resumed


def runs_are_resumed_archived_and_removed(cluster):
    """One that was cancelled and one that somebody's scancel stopped end with the weights of one that nobody touched,
    though not by the jobs that were ended."""
    controller = Controller(cluster, "resumed")
    try:
        undisturbed, cancelled, stopped = [controller.submit(name, 9000, every=1000, ranks=1, keep_last=5)
                                           for name in ("whole", "cancelled", "stopped")]
        try:
            side_by_side(
                lambda: end_of(controller, cancelled, lambda: controller.call("cancel", cancelled), "cancelled"),
                lambda: end_of(controller, stopped, lambda: cluster.output("scancel", launched(controller, stopped)), "stopped"))
        finally:
            ENDED.set()
        for each in (undisturbed, cancelled, stopped):
            succeeds(controller, each)
        for each in (cancelled, stopped):
            assert controller.show(each)["attempts"] == 2, controller.show(each)
            assert launched(controller, each, 1) != launched(controller, each, 2)
            assert weights(controller.directory(each)) == weights(controller.directory(undisturbed))
        again = controller.call("resume", cancelled)
        assert again.returncode == 5 and "reached its end" in again.stderr, again
        frees_what_it_says(controller, stopped)
    finally:
        controller.kill()


def bytes_below(directory):
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def frees_what_it_says(controller, run):
    """`archive` and then `rm`, byte for byte of what was there."""
    directory = controller.directory(run)
    sizes = {path.name: bytes_below(path) for path in checkpoints(directory).values()}
    newest = checkpoints(directory)[max(checkpoints(directory))].name
    done = controller.call("archive", run, "-o", "json")
    assert done.returncode == 0, done.stderr
    archived = json.loads(done.stdout)[0]
    removed, kept = [{row["name"]: row["bytes"] for row in archived[what]} for what in ("removed", "kept")]
    assert len(removed) >= 2 and newest in kept and {**removed, **kept} == sizes, (archived, sizes)
    assert archived["bytes"] == sum(removed.values()), archived
    assert {path.name for path in checkpoints(directory).values()} == set(kept), archived
    size, files = bytes_below(directory), sum(path.is_file() for path in directory.rglob("*"))
    for options in (("--dry-run",), ("--yes",)):
        assert directory.exists()
        done = controller.call("rm", run, "-o", "json", *options)
        assert done.returncode == 0, done.stderr
        gone = json.loads(done.stdout)[0]
        assert (gone["bytes"], gone["files"]) == (size, files) and sum(gone["freed"].values()) == size, (gone, size, files)
    assert not directory.exists() and not list(directory.parent.glob(".removed-*"))
    assert controller.call("show", run).returncode == 3


def a_failed_run_is_resumed(cluster):
    """Once what it failed for is there: the same run, in its directory."""
    missing = cluster.work / "missing"
    controller = Controller(cluster, "failed")
    try:
        run = controller.submit("failed", 100, ranks=1, slurm=f"time_limit: 10\n  setup: test -e {missing}")
        assert controller.wait_over(run)[0] == "failed", controller.show(run)
        told = json.loads(controller.call("explain", run, "-o", "json").stdout)
        assert [launch["exit_code"] for launch in told["launches"]] == [20], told
        missing.touch()
        resumed = controller.call("resume", run)
        assert resumed.returncode == 0 and resumed.stdout.split() == [run, "queued"], resumed
        succeeds(controller, run)
        assert controller.steps(run) == 100 and len(controller.records(run, "start")) == 1
        assert launched(controller, run, 1) != launched(controller, run, 2)
    finally:
        controller.kill()


def site_and_user_say_what_a_run_does_not(cluster):
    """What the job asks for is the run's before the user's before the site's; a wrong file refuses the submission."""
    site, user = cluster.work / "site.yaml", cluster.work / "user.yaml"
    site.write_text("slurm: {partition: high, time_limit: 30, gpu_type: h100, options: [--begin=now+1hour, --nice=5],"
                    " environment: {FROM: site}}\n")
    user.write_text("slurm: {time_limit: 20, setup: export FROM_SETUP=user}\n")
    controller = Controller(cluster, "defaults")
    try:
        controller.kill()
        controller.start(environment={"REGATTA_SITE_CONFIG": str(site), "REGATTA_CONFIG": str(user)})
        run = controller.submit("filled", 10, ranks=1, slurm="gpus_per_rank: 2\n  options: [--nice=7]")
        job = cluster.job(wait("it is a job", lambda: launched(controller, run)))
        assert (job["Partition"], job["TimeLimit"], job["Nice"]) == ("high", "00:20:00", "7"), job
        assert job["TresPerNode"] == "gres:gpu:h100:2" and job["JobState"] == "PENDING", job
        kept = controller.show(run)["config"]["slurm"]
        assert kept["setup"] == "export FROM_SETUP=user" and list(kept["environment"]) == ["FROM"], kept
        log = controller.told()
        assert f"slurm.gpu_type, slurm.options.begin, slurm.partition from {site}" in log, log[-2000:]
        bare = controller.submit("bare", 10, ranks=1, slurm="defaults: false\n  options: [--begin=now+1hour]")
        job = cluster.job(wait("that, too", lambda: launched(controller, bare)))
        assert job["Partition"] == "main" and "h100" not in job.get("TresPerNode", ""), job
        user.write_text("slurm:\n  partitoin: x\n")
        refused = controller.call("submit", cluster.work / "filled.yaml")
        assert refused.returncode == 7 and f"{user}:2: slurm.partitoin" in refused.stderr, refused
        assert refused.stderr.count("\n") == 1, refused
        for each in (run, bare):
            assert controller.call("cancel", each).returncode == 0
            assert controller.wait_over(each)[0] == "cancelled"
    finally:
        controller.kill()


def launched(controller, run, number=1):
    """Which job that launch is, as soon as there is one."""
    for path in controller.directory(run).glob(f"launches/{number}.json"):
        handle = json.loads(path.read_text())["handle"]
        return handle and handle.split(":")[1]
    return None


# Side by side, each with a controller of its own. While one has slurmctld stopped, the others wait for it.
CASES = [a_run_stays_a_job, runs_are_resumed_archived_and_removed, a_failed_run_is_resumed, site_and_user_say_what_a_run_does_not]


def main():
    need_slurm()
    chosen = [case for case in CASES if not sys.argv[1:] or case.__name__ in sys.argv[1:]]
    cases = Cases("slurm_scheduler")
    if runs_are_resumed_archived_and_removed not in chosen:
        ENDED.set()
    with Cluster("--nodes", "3", "--no-rest") as cluster:
        make_data(cluster.work)
        side_by_side(*[functools.partial(cases.run, case, cluster) for case in chosen])
    cases.finish()


if __name__ == "__main__":
    main()
