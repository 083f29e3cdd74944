#!/usr/bin/env python3
"""Everything that Slurm can do to a job: each trouble is made for real, and `regatta explain` tells it.

    tests/slurm/trouble_test.py [CASE...]

All cases go on at once, on one cluster, with a trainer that only misbehaves, or one that saves when it is asked to stop.
"""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import shutil
import sys

from cluster import Cases, Cluster, Skip, need_slurm, wait
from controller import OVER, Controller
from noop import NoopController

# What it does is said by a variable of the run. The word in the file decides, as from regatta-train.
TRAINER = """#!/usr/bin/env python3
import os, signal, sys, time
def end(code):
    if os.environ.get("SLURM_PROCID") == "0":
        open(os.environ["REGATTA_EXIT_FILE"], "w").write(str(code))
    sys.exit(0)
signal.signal(signal.SIGUSR1, lambda *_: end(24))
first = not os.path.exists("started")
if os.environ.get("SLURM_PROCID") == "0": open("started", "a")
trouble = os.environ["TROUBLE"]
print("trouble:", trouble, flush=True)
if trouble == "memory":
    hoard = []
    while len(hoard) < 60:
        hoard.append(bytearray(10 << 20))
        time.sleep(0.2)
if trouble == "bad_alloc":
    print("terminate called after throwing an instance of 'std::bad_alloc'", file=sys.stderr, flush=True)
    os.abort()
if trouble == "killed" and first:
    os.kill(os.getpid(), signal.SIGKILL)
if trouble == "idle" or (trouble == "idle once" and first):
    while True: time.sleep(0.2)
end(0)
"""

RUN = """name: {name}
model: {{preset: tiny, layers: 2, hidden: 32, heads: 2, feed_forward: 64, max_positions: 64}}
data: {{path: {data}, max_length: 48}}
batch: {{size: 96}}
ranks: {ranks}
steps: 1
slurm: {slurm}
"""

# Fails on the first node of two partitions.
PROLOG = """#!/bin/sh
case $SLURM_JOB_PARTITION-$SLURMD_NODENAME in fragile-node03 | frail-node05) exit 1 ;; esac
"""
NODES = 12


class Troubled(Controller):
    """With the misbehaving trainer, which lies where each node has files of its own."""

    def submit(self, name, trouble, ranks=1, **slurm):
        """Node 2 has no trainer, so it is excluded where nothing else is said."""
        wanted = {"time_limit": 10, "nodes": ranks, "ranks_per_node": 1, "exclude": ["node02"],
                  "memory_per_node": "200M", "environment": {"TROUBLE": trouble}, **slurm}
        path = self.cluster.work / f"{name}.yaml"
        path.write_text(RUN.format(name=name, data=self.cluster.work / "data", ranks=ranks, slurm=json.dumps(wanted)))
        done = self.call("submit", path, "-o", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["id"]

    def explain(self, run):
        done = self.call("explain", run, "-o", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def wait_told(self, run, what, condition, seconds=400):
        """The first explanation that fulfils the condition."""
        told = {}

        def good():
            told.update(self.explain(run))
            return condition(told)
        try:
            wait(f"run {run}: {what}", good, seconds, 1)
        except AssertionError as error:
            raise AssertionError(f"{error}; told: {json.dumps(told)}") from None
        return told

    def wait_state(self, run, state):
        told = self.wait_told(run, "is over", lambda told: told["state"] in OVER)
        assert told["state"] == state, json.dumps(told)
        return told

    def wait_waiting(self, run, category):
        return self.wait_told(run, f"waits, {category}",
                              lambda told: (told["waiting"] or {}).get("category") == category)

    def job(self, run):
        return int(self.wait_told(run, "has a job", lambda told: told["launches"] and told["launches"][-1]["job"])
                   ["launches"][-1]["job"])

    def wait_running(self, run):
        """The number of the job whose trainer has begun."""
        wait(f"the trainer of {run} begins", (self.directory(run) / "started").exists, 400)
        return self.job(run)


def holds(text, *parts):
    for part in parts:
        assert part in text, f"'{part}' is not in '{text}'"


def memory_that_slurm_ends(cluster, controller):
    """With as much memory it would end so again; with more, which is told how to ask for, it does not."""
    run = controller.submit("memory", "memory")
    told = controller.wait_state(run, "failed")
    last = told["launches"][-1]
    assert last["cause"] == "out of memory" and len(told["launches"]) == 1, told
    assert last["nodes"].startswith("node0"), last
    holds(last["what"], "more memory")
    holds(last["action"], "regatta resume --set slurm.memory_per_node=")
    holds(told["summary"], "more memory", "slurm.memory_per_node")
    done = controller.call("resume", run, "--set", "slurm.memory_per_node=2G")
    assert done.returncode == 0, done
    assert len(controller.wait_state(run, "succeeded")["launches"]) == 2


def memory_that_a_rank_lacks(cluster, controller):
    told = controller.wait_state(controller.submit("bad_alloc", "bad_alloc"), "failed")
    assert told["launches"][-1]["cause"] == "out of memory" and len(told["launches"]) == 1, told


def a_rank_that_is_killed(cluster, controller):
    """By whom, nobody knows: it is tried again."""
    told = controller.wait_state(controller.submit("killed", "killed"), "succeeded")
    first, second = told["launches"]
    assert first["signal"] == 9 and first["cause"] is None, first
    assert second["exit_code"] == 0, second


def a_node_without_the_trainer(cluster, controller):
    """It is named, and the next launch goes to another."""
    if not isolated(cluster):
        raise Skip("nodes with files of their own")
    told = controller.wait_state(controller.submit("launch", "none", partition="torn", exclude=[]), "succeeded")
    first, second = told["launches"]
    assert first["cause"] == "launch failure" and first["nodes"] == "node02", first
    holds(first["what"], "node node02 cannot read and run")
    holds(first["action"], "operators")
    assert second["nodes"] == "node04", second
    assert [node["node"] for node in told["avoided_nodes"]] == ["node02"], told["avoided_nodes"]


def a_prolog_that_fails(cluster, controller):
    """Slurm drains the node and holds the job for ever: another job takes its place."""
    run = controller.submit("prolog", "none", partition="fragile")
    told = controller.wait_state(run, "succeeded")
    first, last = told["launches"][0], told["launches"][-1]
    assert first["cause"] == "launch failure" and len(told["launches"]) == 2, told
    holds(first["what"], "prolog failed")
    holds(first["action"], "operators")
    assert last["nodes"] == "node04" and last["job"] != first["job"], last
    holds(cluster.output("sinfo", "-h", "-n", "node03", "-o", "%T %E"), "drain", "Prolog error")


def a_prolog_that_fails_without_requeueing(cluster, controller):
    """Slurm cancels such a job itself, which is nobody's wish."""
    run = controller.submit("cancelled-prolog", "none", partition="frail", requeue=False)
    told = controller.wait_state(run, "succeeded")
    first, second = told["launches"]
    assert first["nodes"] == "node05" and first["cause"] == "launch failure", first
    holds(first["what"], "prolog failed")
    assert second["nodes"] == "node06", second


def is_held_and_released(cluster, controller, name, hold, sentence):
    run = controller.submit(name, "none", options=["--begin=now+1hour"])
    job = controller.job(run)
    cluster.output("scontrol", hold, job)
    told = controller.wait_waiting(run, "held")
    waiting = told["waiting"]
    assert told["state"] == "queued" and waiting["clears"] == "never" and waiting["expected_start"] is None, told
    holds(waiting["sentence"], sentence)
    holds(waiting["action"], f"scontrol release {job}")
    holds(told["next"], "until it is released")
    cluster.output("scontrol", "update", f"jobid={job}", "starttime=now")
    cluster.output("scontrol", "release", job)
    told = controller.wait_state(run, "succeeded")
    assert len(told["launches"]) == 1 and told["launches"][0]["job"] == str(job), told


def a_job_that_its_owner_holds(cluster, controller):
    is_held_and_released(cluster, controller, "held", "uhold", "its owner holds it")


def a_job_that_an_operator_holds(cluster, controller):
    if os.getuid() != 0:
        raise Skip("root, whose hold is not the owner's")
    is_held_and_released(cluster, controller, "operator", "hold", "an operator holds it")


def a_job_that_is_requeued_and_held(cluster, controller):
    run = controller.submit("requeued", "idle once")
    job = controller.wait_running(run)
    cluster.output("scontrol", "requeuehold", job)
    told = controller.wait_waiting(run, "held")
    holds(told["waiting"]["sentence"], "requeued and held")
    holds(told["waiting"]["action"], f"scontrol release {job}")
    cluster.output("scontrol", "release", job)
    told = controller.wait_state(run, "succeeded")
    assert len(told["launches"]) == 1, told


def a_job_that_somebody_cancels(cluster, controller):
    waits = controller.submit("cancelled-waiting", "idle", options=["--begin=now+1hour"])
    runs = controller.submit("cancelled-running", "idle")
    cluster.output("scancel", controller.job(waits))
    cluster.output("scancel", controller.wait_running(runs))
    for run in (waits, runs):
        told = controller.wait_state(run, "stopped")
        assert [launch["cause"] for launch in told["launches"]] == ["cancelled"], told
        holds(told["launches"][0]["what"], "its job was cancelled")
        holds(told["summary"], "somebody cancelled its job")


REFUSED = {
    # name: (what is asked for, parts of what is told)
    "partition": ({"partition": "nosuch"}, ["Invalid partition", "`sinfo`"]),
    "account": ({"account": "nosuch"}, ["Invalid account", "sacctmgr show associations"]),
    "qos": ({"qos": "nosuch"}, ["Invalid qos", "sacctmgr show associations"]),
    "gpus": ({"gpus_per_rank": 64}, ["node configuration is not available", "64 GPUs a node, and no node of the cluster has more than"]),
    "disk": ({"options": ["--tmp=1T"]}, ["node configuration is not available", "--tmp=1T", "TmpDisk"]),
    "memory": ({"memory_per_node": "900T"}, ["emory", "of memory a node, and no node of the cluster has more than"]),
    "feature": ({"constraint": "warp"}, ["Invalid feature", "`regatta nodes`"]),
    "reservation": ({"reservation": "nosuch"}, ["reservation is invalid", "name a reservation"]),
    "excluded": ({"exclude": [f"node[01-{NODES}]"]}, ["node configuration is not available", f"slurm.exclude leaves 0 of the {NODES} nodes"]),
    "unknown-node": ({"exclude": ["node99"]}, ["Invalid node name", "name nodes of this cluster"]),
}


def requests_that_are_refused(cluster, controller):
    assert controller.call("nodes").returncode == 0  # what no node has is told where nodes are known
    runs = {name: controller.submit(f"refused-{name}", "none", **asked) for name, (asked, _) in REFUSED.items()}
    for name, (_, parts) in REFUSED.items():
        told = controller.wait_state(runs[name], "failed")
        assert len(told["launches"]) == 1 and told["launches"][0]["job"] is None, told
        holds(told["summary"], *parts)
        holds(told["launches"][0]["what"], *parts)


def a_refusal_is_told_by_submit(cluster, controller):
    """And so is the job of what is not refused."""
    def submit(name, **slurm):
        controller.submit(name, "none", **slurm)  # leaves the run file
        return controller.call("submit", cluster.work / f"{name}.yaml")
    # It waits some seconds for Slurm's answer, which on a busy machine may not be enough.
    done = wait("the refusal is told", lambda: (d := submit("told-refused", partition="nosuch")).returncode and d, 240)
    assert done.returncode == 7 and done.stdout.startswith("told-refused-"), done
    holds(done.stderr, "failed", "Invalid partition", "`sinfo`")
    done = wait("the job is told", lambda: "\nsubmitted as job " in (d := submit("told-taken")).stderr and d, 240)
    holds(done.stderr, "regatta: warning: no dataset in ")
    assert done.returncode == 0, done


IMPOSSIBLE = {
    "nodes": ({"ranks": 96}, ["more or fewer nodes", "number of nodes"]),
    "time": ({"partition": "brief", "time_limit": 30}, ["time limit is above", "lower the time limit"]),
}


def requests_that_never_start(cluster, controller):
    runs = {name: controller.submit(f"impossible-{name}", "none", **asked) for name, (asked, _) in IMPOSSIBLE.items()}
    for name, (_, parts) in IMPOSSIBLE.items():
        # Slurm's first word may be that the partition's configuration is against it.
        told = controller.wait_told(runs[name], f"waits for ever: {parts}", lambda told: told["waiting"] and all(
            part in f"{told['waiting']['sentence']}; {told['waiting']['action']}" for part in parts))
        waiting = told["waiting"]
        assert waiting["category"] == "impossible" and told["state"] == "queued", told
        assert waiting["clears"] == "never" and waiting["expected_start"] is None, told
        holds(told["next"], "until somebody changes")
        assert controller.call("cancel", runs[name]).returncode == 0
        controller.wait_state(runs[name], "cancelled")


def nodes_that_are_not_there(cluster, controller):
    """More than are up: it waits, and says for what."""
    cluster.output("scontrol", "update", "nodename=node07", "state=drain", "reason=a test")
    run = controller.submit("drained", "none", partition="drained", exclude=[])
    told = controller.wait_waiting(run, "broken")
    assert told["waiting"]["clears"] == "perhaps", told
    cluster.output("scontrol", "update", "nodename=node07", "state=resume")
    controller.wait_state(run, "succeeded")


def a_time_limit_that_the_trainer_misses(cluster, controller):
    """A minute and Slurm's own delays: only when everything is tested in full."""
    if int(os.environ.get("REGATTA_REPETITIONS", "10")) < 100:
        raise Skip("REGATTA_REPETITIONS=100")
    run = controller.submit("limited", "idle once", time_limit=1)
    told = controller.wait_told(run, "goes on", lambda told: len(told["launches"]) > 1, 300)
    assert told["launches"][0]["cause"] == "time limit", told
    holds(told["launches"][0]["what"], "its time limit of 1 min")
    controller.wait_state(run, "succeeded")


def trains(controller, name, **slurm):
    """A run of the no-op trainer that trains until it is asked to stop, and the number of its job."""
    run = controller.submit(name, steps=10**6, pause=0.2, **slurm)
    wait(f"run {run} trains", lambda: controller.steps(run) > 2, 400)
    handle = wait("its launch is written down", lambda: controller.launches(run)[-1]["handle"])
    return run, int(handle.split(":")[1])


def resumes(controller, run):
    """Where it had saved before something ended it, and no failure is counted; what is told of it then."""
    wait(f"run {run} trains again", lambda: len(controller.records(run, "start")) > 1, 240, 0.5)
    end, begun = controller.records(run, "end")[0], controller.records(run, "start")[1]
    assert end["exit_code"] == 24 and begun["first_step"] == end["step"] > 0, (end, begun)
    told = controller.explain(run)
    assert told["failures_in_a_row"] == 0, told
    cancel(controller, run)
    return told


def goes_on(controller, run, cause, *parts):
    """In another launch."""
    told = resumes(controller, run)
    assert len(told["launches"]) == 2 and told["launches"][0]["cause"] == cause, told
    holds(told["launches"][0]["what"], *parts)


def cancel(controller, run):
    controller.request("POST", f"/runs/{run}/cancel")
    assert controller.wait_all_over([run])[run]["state"] == "cancelled"


def goes_first(cluster, node):
    """A job of higher priority that wants the node."""
    job = cluster.sbatch("sleep 1", "-p", "high", "-w", node, "--exclusive", "-t", "5")
    assert cluster.wait_job(job) == "COMPLETED"


def a_preemption_that_cancels(cluster, controller):
    run, _ = trains(controller, "cancels", partition="cancels")
    goes_first(cluster, "node08")
    goes_on(controller, run, "preempted", "preempted")


def a_preemption_that_cancels_after_a_grace_time(cluster, controller):
    """The job requeues itself."""
    run, _ = trains(controller, "lapses", partition="lapses")
    goes_first(cluster, "node12")
    assert len(resumes(controller, run)["launches"]) == 1


def a_preemption_without_requeueing(cluster, controller):
    """Within the grace time the job ends by itself, and Slurm shows no more than that it failed."""
    run, _ = trains(controller, "yields", partition="yields", requeue=False)
    goes_first(cluster, "node09")
    goes_on(controller, run, "preempted", "preempted")


def a_node_set_down_without_requeueing(cluster, controller):
    run, _ = trains(controller, "downed", partition="downed", requeue=False)
    cluster.output("scontrol", "update", "nodename=node10", "state=down", "reason=a test")
    wait("the launch is over", lambda: controller.launches(run)[0]["over"], 120)
    cluster.run("scontrol", "update", "nodename=node10", "state=resume")  # it may be back by itself
    goes_on(controller, run, "node failure", "node10 failed")


def a_time_limit_that_is_lowered(cluster, controller):
    """The trainer was told a later end."""
    run, job = trains(controller, "lowered")
    cluster.output("scontrol", "update", f"jobid={job}", "timelimit=1")
    goes_on(controller, run, "time limit", "its time limit of 1 min")


def a_signal_to_the_ranks(cluster, controller):
    """No cancel of the run, whoever sent it."""
    run, job = trains(controller, "signalled")
    cluster.output("scancel", "--signal=TERM", job)
    goes_on(controller, run, None, "was asked to stop, and saved")


def a_job_that_is_suspended(cluster, controller):
    """It is shown as such, nothing is started beside it, and it goes on."""
    run, job = trains(controller, "suspended")
    cluster.output("scontrol", "suspend", job)
    told = wait("its suspension is told", lambda: (told := controller.explain(run))["state"] == "running" and
                (told["waiting"] or {}).get("category") == "suspended" and told, 400, 0.5)
    holds(told["summary"], "suspended by Slurm", "stand still")
    holds(told["waiting"]["action"], f"scontrol resume {job}")
    steps = controller.steps(run)
    cluster.output("scontrol", "resume", job)
    wait("it goes on", lambda: controller.steps(run) > steps + 3, 400)
    wait("that is told", lambda: controller.explain(run)["waiting"] is None, 400, 0.5)
    assert len(controller.launches(run)) == 1 and len(controller.records(run, "start")) == 1
    cancel(controller, run)


def a_cancel_of_what_has_saved(cluster, controller):
    run, job = trains(controller, "cancelled-saved")
    cluster.output("scancel", job)
    assert controller.wait_all_over([run])[run]["state"] == "stopped"
    assert controller.records(run, "end")[0]["exit_code"] == 24
    told = controller.explain(run)
    assert [launch["cause"] for launch in told["launches"]] == ["cancelled"], told


def wait_refused(controller, run, *parts):
    def refused():
        told = controller.explain(run)
        return told["state"] == "queued" and "refused" in told["summary"] and told
    told = wait(f"run {run} is refused", refused, 400, 0.5)
    holds(told["summary"], *parts)
    assert told["failures_in_a_row"] == 0, told


def a_limit_on_submitted_jobs(cluster, controller):
    first, _ = trains(controller, "first", qos="narrow")
    second = controller.submit("second", qos="narrow")
    wait_refused(controller, second, "QOSMaxSubmitJobPerUserLimit", "refused for now")
    cancel(controller, first)
    assert controller.wait_all_over([second])[second]["state"] == "succeeded"


def a_qos_that_is_taken_away(cluster, controller):
    """From a run that has trained."""
    run, job = trains(controller, "lent", qos="lent")
    cluster.output("sacctmgr", "-i", "modify", "user", "where", f"name={cluster.user}", "set", "qos-=lent")
    cluster.output("scancel", "--signal=TERM", job)
    wait_refused(controller, run, "Invalid qos", "refused, and asked for again")
    cluster.output("sacctmgr", "-i", "modify", "user", "where", f"name={cluster.user}", "set", "qos+=lent")
    wait(f"run {run} trains again", lambda: len(controller.records(run, "start")) > 1, 400, 0.5)
    cancel(controller, run)


def a_deadline_that_is_over(cluster, controller):
    cluster.output("scontrol", "update", "nodename=node11", "state=drain", "reason=a test")
    run = controller.submit("deadline", partition="late", time_limit=1, options=["--deadline=now+90"])
    assert controller.wait_all_over([run])[run]["state"] == "failed"
    told = controller.explain(run)
    assert [launch["cause"] for launch in told["launches"]] == ["deadline"], told
    holds(told["summary"], "--deadline", "later")


CASES = [memory_that_slurm_ends, memory_that_a_rank_lacks, a_rank_that_is_killed, a_node_without_the_trainer,
         a_prolog_that_fails, a_prolog_that_fails_without_requeueing, a_job_that_its_owner_holds,
         a_job_that_an_operator_holds, a_job_that_is_requeued_and_held, a_job_that_somebody_cancels,
         requests_that_are_refused, a_refusal_is_told_by_submit, requests_that_never_start, nodes_that_are_not_there,
         a_time_limit_that_the_trainer_misses]
# With the no-op trainer.
SAVING = [a_preemption_that_cancels, a_preemption_that_cancels_after_a_grace_time, a_preemption_without_requeueing,
          a_node_set_down_without_requeueing, a_time_limit_that_is_lowered, a_signal_to_the_ranks,
          a_job_that_is_suspended, a_cancel_of_what_has_saved, a_limit_on_submitted_jobs, a_qos_that_is_taken_away, a_deadline_that_is_over]


def isolated(cluster):
    return "its own hostname" in cluster.told


@contextlib.contextmanager
def trainer_on_all_nodes_but(cluster, node):
    """Its path; below /dev/shm, where each node has files of its own."""
    path = pathlib.Path("/dev/shm") / cluster.work.name / "trainer"
    path.parent.mkdir(mode=0o755)
    try:
        original = cluster.work / "trainer"
        original.write_text(TRAINER)
        original.chmod(0o755)
        shutil.copy(original, path)
        if isolated(cluster):
            cluster.output("srun", "-p", "high", "--mpi=none", f"-N{NODES}", "--ntasks-per-node=1", "sh", "-c",
                           f"mkdir {path.parent} && [ $SLURMD_NODENAME = {node} ] || cp {original} {path}")
        yield path
    finally:
        shutil.rmtree(path.parent)


def prepare(cluster):
    """Partitions for cases that must not meet others, a user that may submit, a prolog that fails."""
    cluster.output("sacctmgr", "-i", "add", "account", "trouble")
    cluster.output("sacctmgr", "-i", "add", "user", cluster.user, "account=trouble")
    for qos in ("narrow MaxSubmitJobsPerUser=1", "lent"):
        cluster.output("sacctmgr", "-i", "add", "qos", *qos.split())
    cluster.output("sacctmgr", "-i", "modify", "user", "where", f"name={cluster.user}", "set", "qos+=narrow,lent")
    cluster.output("scontrol", "update", "partitionname=main", "nodes=node[01-07]")
    for partition in ("fragile nodes=node[03-04]", "frail nodes=node[05-06]", "torn nodes=node[02,04]",
                      "brief nodes=node01 maxtime=5", "drained nodes=node07", "cancels nodes=node08 preemptmode=cancel",
                      "lapses nodes=node12 preemptmode=cancel gracetime=10", "downed nodes=node10", "late nodes=node11",
                      "yields nodes=node09 preemptmode=requeue gracetime=10"):
        cluster.output("scontrol", "create", *f"partitionname={partition} state=up".split())
    hook = cluster.directory / "hooks" / "prolog"
    hook.write_text(PROLOG)


def main():
    need_slurm()
    chosen = [case for case in CASES + SAVING if not sys.argv[1:] or case.__name__ in sys.argv[1:]]
    cases = Cases("slurm_trouble")
    # Some 25 come at once: an answer that is late would be lost, and its job looked for.
    settings = ("JobAcctGatherParams=OverMemoryKill", "JobAcctGatherFrequency=1", "MessageTimeout=60",
                "AccountingStorageEnforce=associations,limits,qos")
    options = [word for setting in settings for word in ("--conf", setting)]
    with Cluster("--no-rest", "--nodes", NODES, *options) as cluster:
        prepare(cluster)
        with trainer_on_all_nodes_but(cluster, "node02") as trainer:
            controllers = Troubled(cluster, trainer=trainer), NoopController(cluster, "saving")
            try:
                wait("the nodes are known", lambda: controllers[0].call("nodes").returncode == 0, 120)
                with concurrent.futures.ThreadPoolExecutor(len(chosen)) as pool:
                    for case in chosen:
                        pool.submit(cases.run, case, cluster, controllers[case in SAVING])
            finally:
                for controller in controllers:
                    controller.kill()
                    print(controller.told()[-3000:])
    cases.finish()


if __name__ == "__main__":
    main()
