#!/usr/bin/env python3
"""Which scheduler a run belongs to: a controller that cannot see Slurm starts no process in a job's place."""
import time

from cluster import Cases, Cluster, need_slurm, wait
from controller import Controller, checkpoints, make_data, succeeds, weights

ENDLESS = 10**7  # steps
BLIND_SECONDS = 15  # in which a controller that starts processes would have started one


def attempts(controller, run):
    return sorted(path.name for path in (controller.directory(run) / "attempts").glob("*"))


def is_left_alone(controller, run, why):
    """It goes on, nothing begins beside it, and it is told why nothing is done about it."""
    before, step = attempts(controller, run), controller.steps(run)
    wait("it is told why", lambda: why in controller.call("explain", run).stdout, 30, 0.5)
    time.sleep(BLIND_SECONDS)
    assert controller.show(run)["state"] in ("running", "starting"), controller.show(run)
    assert attempts(controller, run) == before and len(before) == 1, attempts(controller, run)
    assert controller.steps(run) > step, "it stands still"


def a_run_stays_a_job(cluster):
    """Through controllers that find Slurm silent, not set up, or are told to start processes."""
    controller = Controller(cluster)
    try:
        undisturbed = controller.submit("undisturbed", ENDLESS, every=1000, ranks=1, keep_last=100000)
        controller.kill()
        # What the controller's environment says to sbatch reaches no job, and that is said.
        controller.start("auto", {"SBATCH_PARTITION": "nowhere", "SBATCH_TIMELIMIT": "1"})
        assert "SBATCH_PARTITION, SBATCH_TIMELIMIT of the environment is ignored" in (cluster.work / "serve.log").read_text()
        run = controller.submit("run", ENDLESS, every=1000, ranks=1, keep_last=100000)
        controller.wait_step(run, 500)
        controller.kill()
        controller.start("local")
        is_left_alone(controller, run, "belongs to Slurm")
        controller.kill()
        controller.start("auto", {"SLURM_CONF": None})
        log = (cluster.work / "serve.log").read_text()
        assert "runs of this controller belong to Slurm" in log, log[-2000:]
        is_left_alone(controller, run, "")
        controller.kill()
        with cluster.paused("slurmctld"):
            controller.start("auto")
            assert "runs wait for Slurm" in (cluster.work / "serve.log").read_text()
            later = controller.submit("later", 100, ranks=1)
            is_left_alone(controller, run, "")
            waits = controller.call("explain", later).stdout
            assert "Slurm has not answered yet" in waits, waits
            assert attempts(controller, later) == []
        succeeds(controller, later)
        step = max(checkpoints(controller.directory(run)))
        wait("both have saved that step", lambda: step in checkpoints(controller.directory(undisturbed)), 120, 0.5)
        assert weights(controller.directory(run), step) == weights(controller.directory(undisturbed), step)
        for each in (run, undisturbed):
            assert controller.call("cancel", each).returncode == 0
            assert controller.wait_over(each)[0] == "cancelled"
        for each in (run, later, undisturbed):
            assert controller.show(each)["attempts"] == 1, controller.show(each)
            assert controller.show(each)["scheduler"] == "slurm"
    finally:
        controller.kill()


def a_cancelled_run_is_resumed(cluster):
    """It ends with the weights of one that nobody cancelled, though not by the job that was cancelled."""
    controller = Controller(cluster)
    try:
        undisturbed = controller.submit("whole", 6000, every=1000, ranks=1)
        run = controller.submit("parts", 6000, every=1000, ranks=1)
        controller.wait_step(run, 1500)
        assert controller.call("cancel", run).returncode == 0
        assert controller.wait_over(run)[0] == "cancelled"
        assert f"regatta resume {run}" in controller.call("explain", run).stdout
        resumed = controller.call("resume", run)
        assert resumed.returncode == 0 and resumed.stdout.split() == [run, "queued"], resumed
        for each in (undisturbed, run):
            succeeds(controller, each)
        assert controller.show(run)["attempts"] == 2, controller.show(run)
        assert weights(controller.directory(run)) == weights(controller.directory(undisturbed))
        again = controller.call("resume", run)
        assert again.returncode == 5 and "reached its end" in again.stderr, again
    finally:
        controller.kill()


def main():
    need_slurm()
    cases = Cases("slurm_scheduler")
    with Cluster("--nodes", "3", "--no-rest") as cluster:
        make_data(cluster.work)
        cases.run(a_run_stays_a_job, cluster)
        cases.run(a_cancelled_run_is_resumed, cluster)
    cases.finish()


if __name__ == "__main__":
    main()
