#!/usr/bin/env python3
"""Whatever is done to the name and the comment of a job: it stays the run's, and no second one starts beside it.
Slurm forgets ended jobs after seconds here, and its accounting keeps no comments.

    tests/slurm/names_test.py [CASE...]
"""
import concurrent.futures
import pathlib
import shutil
import sys
import time

from cluster import Cases, Cluster, Skip, need_slurm, wait
from noop import NoopController, ends_once, nothing_doubled

LATER = "--begin=now+1hour"
HOSTILE = "x,y --name=z 'q' $(touch canary) JobId=1 JobState=COMPLETED"

# What a site's plug-in may do at a submission.
PLUGIN = """function slurm_job_submit(job, partitions, user)
  if job.name == "plugged" or job.name == "stripped" or job.name == "lost" then
    if job.name == "stripped" then job.comment = "accounted by the site" end
    job.name = "site-" .. job.name
  end
  return slurm.SUCCESS
end
function slurm_job_modify(job, record, partitions, part, user)
  return slurm.SUCCESS
end
return slurm.SUCCESS
"""

# Before Slurm's own sbatch: of these runs the answer is lost once the job is there.
SBATCH = """#!/bin/bash -p
case " $* " in *" --job-name=lost "* | *" --job-name=forgotten "*)
  {sbatch} "$@" > /dev/null
  echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2
  exit 1 ;;
esac
exec {sbatch} "$@"
"""


def job_of(cluster, run, controller):
    """The number of the run's job, as soon as there is one."""
    wait(f"{run} is submitted", lambda: [launch for launch in controller.launches(run) if launch["handle"]], 240)
    return controller.launches(run)[-1]["handle"].split(":")[1]


def update(cluster, number, *changes):
    cluster.output("scontrol", "update", f"jobid={number}", *changes)


def ends_well(cluster, controller, run):
    """As one job from its first to its last word."""
    shown = controller.wait_all_over([run])[run]
    assert shown["state"] == "succeeded", (shown["state"], shown["error"])
    launches = controller.launches(run)
    assert len(launches) == 1 and launches[0]["handle"], launches
    ends_once(controller, run)
    nothing_doubled(cluster, controller, [run])


def is_running(controller, run):
    wait(f"{run} trains", lambda: controller.writers(run), 240)
    wait(f"{run} is shown so", lambda: controller.runs()[run]["state"] == "running", 240)


def its_job_has_its_name(cluster, controller):
    run = controller.submit("my-bert", options=[LATER])
    job = cluster.job(job_of(cluster, run, controller))
    token = controller.launches(run)[0]["token"]
    assert job["JobName"] == "my-bert" and job["Comment"] == f"regatta:{token}", job
    assert job["Command"].endswith(f"/submit/{token}.sh"), job
    controller.request("POST", f"/runs/{run}/cancel")
    assert controller.wait_all_over([run])[run]["state"] == "cancelled"


def renamed_while_it_waits(cluster, controller):
    run = controller.submit("waits", options=[LATER])
    number = job_of(cluster, run, controller)
    update(cluster, number, "jobname=another")
    time.sleep(70)  # as long as a job that is not found counts as lost
    update(cluster, number, "starttime=now")
    ends_well(cluster, controller, run)


def renamed_while_it_runs(cluster, controller):
    run = controller.submit("runs", steps=400, pause=0.2)
    is_running(controller, run)
    update(cluster, job_of(cluster, run, controller), f"jobname={HOSTILE}")
    ends_well(cluster, controller, run)


def robbed_of_name_and_comment(cluster, controller):
    run = controller.submit("robbed", steps=400, pause=0.2)
    is_running(controller, run)
    update(cluster, job_of(cluster, run, controller), "jobname=plain", "comment=words of my own")
    ends_well(cluster, controller, run)


def a_renamed_one_is_cancelled(cluster, controller):
    """With a request to save, whatever it is called now."""
    runs = {name: controller.submit(f"cancelled-{len(name)}", steps=3000) for name in ("short", HOSTILE, "")}
    for name, run in runs.items():
        is_running(controller, run)
        update(cluster, job_of(cluster, run, controller), f"jobname={name}")
    for run in runs.values():
        controller.request("POST", f"/runs/{run}/cancel")
    over = controller.wait_all_over(runs.values())
    for run in runs.values():
        end = controller.records(run, "end")[-1]
        assert over[run]["state"] == "cancelled" and end["exit_code"] == 24, (over[run], end)
    nothing_doubled(cluster, controller, runs.values())


def a_plug_in_renames_and_replaces_comments(cluster, controller):
    if not list(pathlib.Path("/usr/lib").glob("*/slurm*/job_submit_lua.so")):
        raise Skip("Slurm's job_submit/lua")
    runs = [controller.submit(name) for name in ("plugged", "stripped", "lost")]
    for run in runs:
        ends_well(cluster, controller, run)
    names = cluster.output("sacct", "-X", "-n", "-P", "-S", "now-1day", "-o", "JobName").split()
    assert {"site-plugged", "site-stripped", "site-lost"} <= set(names), names


def one_that_ended_unseen_is_found(cluster, controller):
    """Its answer was lost, its controller died, and slurmctld has forgotten it: sacct knows the line that made it."""
    other = NoopController(cluster, "other", f"{cluster.work}/bin:")
    try:
        run = other.submit("forgotten", steps=20)
        wait("it trains", lambda: other.writers(run), 240)
        other.kill()
        comment = f"regatta:{other.launches(run)[0]['token']}"
        wait("slurmctld has forgotten it", lambda: comment not in cluster.output("squeue", "-h", "-t", "all", "-o", "%k"))
        other.start()
        ends_well(cluster, other, run)
    finally:
        other.kill()


CASES = [its_job_has_its_name, renamed_while_it_waits, renamed_while_it_runs, robbed_of_name_and_comment,
         a_renamed_one_is_cancelled, a_plug_in_renames_and_replaces_comments, one_that_ended_unseen_is_found]


def prepare(cluster):
    """The plug-in, and an sbatch whose answers get lost."""
    if list(pathlib.Path("/usr/lib").glob("*/slurm*/job_submit_lua.so")):
        (cluster.directory / "job_submit.lua").write_text(PLUGIN)
        with open(cluster.directory / "slurm.conf", "a") as conf:
            conf.write("JobSubmitPlugins=lua\n")
        cluster.output("scontrol", "reconfigure")
    directory = cluster.work / "bin"
    directory.mkdir()
    (directory / "sbatch").write_text(SBATCH.format(sbatch=shutil.which("sbatch")))
    (directory / "sbatch").chmod(0o755)


def main():
    need_slurm()
    chosen = [case for case in CASES if not sys.argv[1:] or case.__name__ in sys.argv[1:]]
    cases = Cases("slurm_names")
    with Cluster("--no-rest", "--conf", "MinJobAge=5", "--conf", "AccountingStoreFlags=job_env") as cluster:
        prepare(cluster)
        controller = NoopController(cluster, "names", f"{cluster.work}/bin:")
        try:
            with concurrent.futures.ThreadPoolExecutor(len(chosen)) as pool:
                for case in chosen:
                    pool.submit(cases.run, case, cluster, controller)
        finally:
            controller.kill()
            print(controller.log.read_text()[-3000:])
    cases.finish()


if __name__ == "__main__":
    main()
