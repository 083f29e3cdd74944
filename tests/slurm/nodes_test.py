#!/usr/bin/env python3
"""`regatta nodes` on a real Slurm: what is free, what is wrong, who runs where, and what asking costs.

    tests/slurm/nodes_test.py [CASE...]
"""
import contextlib
import datetime
import functools
import json
import re
import sys
import time

from cluster import Cases, Cluster, Recorded, need_slurm, side_by_side, wait
from controller import Controller

HOSTILE = "bad \x1b[31mState=IDLE NodeName=evil\nNodeName=worse State=IDLE | \u2603 <b>"
# From Slurm's return to what is told then: a question is put every 30 s and waits for 20, and the others follow it.
HEARD_SECONDS = 80  # 49 were needed among five clusters on two cores; with pauses that double it would be minutes
QUESTIONS = ("squeue", "show node")  # that are put while a run is open, whoever looks
# The run's job stays in `setup`: its nodes are allocated, and nothing is computed.
WAITING_RUN = """name: waits
data: {path: /nowhere}
steps: 10
ranks: 2
slurm: {nodes: 2, ranks_per_node: 1, gpus_per_rank: 4, time_limit: 10, setup: sleep 600}
"""


def nodes(controller, *names):
    """Rows of `regatta nodes -o json` by name."""
    def fresh():  # a question may come late on a busy machine
        done = controller.call("nodes", *names, "-o", "json")
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        assert answer["scheduler"] == "slurm_cli", answer
        return answer["age_seconds"] <= 60 and answer
    answer = wait("nodes are known", fresh, every=1)
    return {node["name"]: node for node in answer["nodes"]}


def ask_anew(controller):
    """A controller that has just started asks at once, where another one has up to a minute of time."""
    controller.kill()
    controller.start()


def wait_state(cluster, name, *words):
    """Until Slurm itself says so of the node."""
    def state():
        return cluster.output("scontrol", "show", "node", "-o", name).split(" State=")[1].split()[0]
    wait(f"{name} is {' and '.join(words)}", lambda: all(word in state() for word in words))


def text(controller):
    done = controller.call("nodes")
    assert done.returncode == 0, done.stderr
    return done.stdout


def all_idle(controller):
    """All four rows, once no slurmd is late with its answer."""
    def idle():
        rows = nodes(controller)
        return all(row["state"] == "idle" for row in rows.values()) and rows
    return wait("all nodes are idle", idle, every=2)


def all_are_usable(cluster, controller):
    rows = all_idle(controller)
    assert sorted(rows) == ["node01", "node02", "node03", "node04"], rows
    for row in rows.values():
        assert row["state"] == "idle" and row["usable"] and row["reason"] is None and row["action"] == "", row
        assert row["gpus"] == {"count": 8, "types": {"h100": 8}} and row["gpus_allocated"] == 0, row
        assert row["cpus"] > 0 and row["cpus_allocated"] == 0 and row["memory_bytes"] > 0, row
        assert sorted(row["partitions"]) == ["high", "main"] and row["runs"] == [] and row["suspicion"] == 0, row
    lines = text(controller).splitlines()
    assert len(lines) == 4 and lines[3].startswith("as of ") and lines[1].split()[:3] == ["idle", "4", "32/32"] and lines[1].endswith("node[01-04]"), lines
    assert list(nodes(controller, "node[02-03]")) == ["node02", "node03"]
    assert controller.call("nodes", "node05").returncode == 3


def a_run_is_shown_on_its_nodes(cluster, controller):
    path = cluster.work / "waits.yaml"
    path.write_text(WAITING_RUN)
    done = controller.call("submit", path, "-o", "json")
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)["id"]

    def on_two():
        rows = nodes(controller)
        return [name for name in sorted(rows) if rows[name]["runs"] == [run] and rows[name]["gpus_allocated"] == 4]
    wait("the job runs", lambda: "RUNNING" in cluster.output("squeue", "-h", "-o", "%T"))
    ask_anew(controller)
    wait("two nodes have the run", lambda: len(on_two()) == 2, every=1)
    names = on_two()
    row = nodes(controller)[names[0]]
    assert row["state"] in ("mixed", "allocated") and row["usable"] and row["cpus_allocated"] > 0, row
    line = next(line for line in text(controller).splitlines() if run in line)
    assert line.split()[1:3] == ["2", "8/16"], line
    assert controller.call("cancel", run).returncode == 0
    cluster.output("scancel", "--user", cluster.user)  # a TERM would wait for the end of `setup`
    wait("the job is gone", lambda: not cluster.output("squeue", "-h"))
    ask_anew(controller)
    wait("nobody is on the nodes", lambda: all(not row["runs"] and row["gpus_allocated"] == 0
                                               for row in nodes(controller).values()), every=1)


def a_drained_node_says_why(cluster, controller):
    cluster.output("scontrol", "update", "nodename=node03", "state=drain", f"reason={HOSTILE}")
    wait_state(cluster, "node03", "DRAIN")
    ask_anew(controller)
    row = nodes(controller)["node03"]
    assert row["state"] == "drained" and not row["usable"] and "state=resume" in row["action"], row
    assert row["reason"].startswith("bad \x1b[31mState=IDLE NodeName=evil") and "worse" in row["reason"], row
    assert sorted(nodes(controller)) == ["node01", "node02", "node03", "node04"], "a reason is not a node"
    shown = text(controller)
    assert "\x1b" not in shown and "\\x1b[31m" in shown, shown
    line = next(line for line in shown.splitlines() if line.startswith("node03"))
    assert "drained" in line and "nodename=node03 state=resume" in line, line
    assert "24/32" in shown and "node[01-02,04]" in shown, shown
    cluster.output("scontrol", "update", "nodename=node03", "state=resume")


def events_of(controller, node):
    """Kinds and words of what `regatta events` tells of a node, oldest first.

    Without its silences: a slurmd on a busy machine may be late with an answer."""
    done = controller.call("events", "--kind", "node", "--node", node, "-o", "json")
    assert done.returncode == 0, done.stderr
    told = [(event["kind"], event["words"] or "") for event in json.loads(done.stdout)["events"]]
    return [(kind, words) for kind, words in told if kind != "node.not_responding" and "not responding, still" not in words]


def what_happens_to_a_node_is_an_event(cluster, controller):
    """Drained with its reason and who, drained otherwise while no controller ran, and resumed; each told once."""
    assert nodes(controller)["node04"]["usable"]
    cluster.output("scontrol", "update", "nodename=node04", "state=drain", "reason=xid 79, card 3")
    who = cluster.output("scontrol", "show", "node", "node04").split("Reason=")[1].split("\n")[0]
    told = wait("the drain is told", lambda: events_of(controller, "node04"), every=1)
    assert told == [("node.drained", who)] and who.startswith("xid 79, card 3 ["), (told, who)
    line = controller.call("events", "--node", "node04").stdout
    assert "node.drained" in line and "on node04" in line and "xid 79, card 3" in line, line
    controller.kill()
    cluster.output("scontrol", "update", "nodename=node04", "state=drain", "reason=new card")
    controller.start()
    told = wait("the other reason is told", lambda: len(found := events_of(controller, "node04")) > 1 and found, every=1)
    assert len(told) == 2 and told[1][0] == "node.drained" and told[1][1].startswith("new card ["), told
    cluster.output("scontrol", "update", "nodename=node04", "state=resume")
    ask_anew(controller)
    told = wait("that it is back is told", lambda: len(found := events_of(controller, "node04")) > 2 and found, every=1)
    assert len(told) == 3 and told[2][0] == "node.resumed" and re.fullmatch("after .+ (drained|not responding)", told[2][1]), told


def a_lost_node_says_what_to_do(cluster, controller):
    cluster.kill("node02")
    wait_state(cluster, "node02", "DOWN")
    ask_anew(controller)
    row = nodes(controller)["node02"]
    assert row["state"] == "down" and not row["usable"] and "ot responding" in row["reason"] and "slurmd" in row["action"], row
    line = next(line for line in text(controller).splitlines() if line.startswith("node02"))
    assert "down" in line and "slurmd" in line, line
    cluster.start("node02")
    wait_state(cluster, "node02", "IDLE")
    ask_anew(controller)
    assert nodes(controller)["node02"]["usable"]


def a_silent_slurm_leaves_what_was_known(cluster, controller):
    before = nodes(controller)
    with cluster.paused("slurmctld"):
        done = controller.call("nodes", "-o", "json")
        assert done.returncode == 0 and list(before) == [n["name"] for n in json.loads(done.stdout)["nodes"]], done


def explained(controller, run):
    """`regatta explain` as JSON and as text."""
    done = controller.call("explain", run, "-o", "json"), controller.call("explain", run)
    assert all(one.returncode == 0 for one in done), done
    return json.loads(done[0].stdout), done[1].stdout


def submit_later(cluster, controller, name):
    """A run whose job waits for an hour."""
    path = cluster.work / f"{name}.yaml"
    path.write_text(WAITING_RUN.replace("waits", name).replace("setup: sleep 600", "options: [--begin=now+1hour]"))
    done = controller.call("submit", path, "-o", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["id"]


def answer_of_nodes(controller):
    return json.loads(controller.call("nodes", "-o", "json").stdout)


def nodes_tell_the_silence(controller):
    """The last that was known, with the time of it and why there is nothing newer."""
    def silent():
        answer = answer_of_nodes(controller)
        return answer["trouble"] and answer["age_seconds"] > 60 and answer
    answer = wait("nodes tell the silence", silent, 180, 2)
    done = controller.call("nodes")
    at = datetime.datetime.fromisoformat(answer["taken_at"].replace("Z", "+00:00")).astimezone().strftime("%H:%M:%S")
    # Why: what the question asked last has come to, which may be another than a moment ago.
    assert re.fullmatch(rf"regatta: Slurm has not answered since {at} \([^()]+\): [a-z]+ [^\n]+\n", done.stderr), (done.stderr, answer)
    lines = done.stdout.splitlines()
    late = any(node["state"] != "idle" for node in answer["nodes"])  # a slurmd, when it was asked last
    assert done.returncode == 0 and (late or len(lines) == 2 and lines[1].split()[:2] == ["idle", "4"]), done


def all_is_known_again(controller, run, begin):
    """Of jobs and of nodes, soon after Slurm is back, for somebody who looks."""
    wait("jobs are known", lambda: explained(controller, run)[0]["slurm"]["trouble"] is None, 60, 0.5)
    wait("nodes are known", lambda: (answer := answer_of_nodes(controller))["trouble"] is None and answer["age_seconds"] < 60, 60, 0.5)
    seconds = time.monotonic() - begin
    print(f"all is known {seconds:.1f} s after Slurm was back", flush=True)
    assert seconds < HEARD_SECONDS, seconds


def a_silent_slurm_is_told_and_heard_again_at_once(cluster, controller):
    """What is known is shown with its age, a cancellation waits visibly, and nobody is blind when Slurm is back."""
    run = submit_later(cluster, controller, "silent")
    other = submit_later(cluster, controller, "other")
    all_idle(controller)
    told, text = wait("its wait is known", lambda: (e := explained(controller, run))[0]["waiting"] and e[0]["launches"] and e, every=1)
    assert told["slurm"]["trouble"] is None and told["slurm"]["age_seconds"] < 60, told
    assert "  slurm   answered " in text, text
    with cluster.paused("slurmctld"):
        told, text = wait("the silence is told", lambda: (e := explained(controller, run))[0]["slurm"]["trouble"] and e, every=2)
        assert "Slurm has not answered since " in text and "not known until Slurm answers" in told["next"], (told, text)
        before = told["slurm"]["answered_at"]
        assert controller.call("cancel", run).returncode == 0

        def waits():
            told, text = explained(controller, run)
            return told["state"] == "stopping" and told["slurm"]["cancel_waits_since"] and (told, text)
        told, text = wait("the cancellation waits", waits, every=1)
        assert told["state"] == "stopping" and "has not been told" in told["summary"] and "cancel  waits since" in text, (told, text)
        # The longer it lasts, the less often it would be asked with a pause that doubles.
        wait("a minute is over", lambda: explained(controller, run)[0]["slurm"]["age_seconds"] > 75, every=10)
        assert explained(controller, run)[0]["slurm"]["answered_at"] == before
        nodes_tell_the_silence(controller)
    begin = time.monotonic()
    wait("it is cancelled", lambda: explained(controller, run)[0]["state"] == "cancelled", HEARD_SECONDS, 0.5)
    print(f"it is cancelled after {time.monotonic() - begin:.1f} s", flush=True)
    all_is_known_again(controller, other, begin)


def nobody_looks_and_all_is_heard_at_once(cluster):
    """In a long silence Slurm is asked as often as at its begin, and when it is back about everything at once."""
    commands = Recorded(cluster.work / "bin")
    controller = Controller(cluster, "unseen", commands.path)
    try:
        run = submit_later(cluster, controller, "unseen")

        def contact():  # unlike `explain`, `show` lets nothing be asked
            return json.loads(controller.call("show", run, "-o", "json").stdout)["slurm"]
        wait("Slurm has answered", lambda: (found := contact()) and found["answered_at"], every=1)
        for name in QUESTIONS:
            wait(f"{name} was answered", lambda: any(name in words for _, words in commands.answered()), every=1)
        with cluster.paused("slurmctld"):
            paused = time.time()
            time.sleep(150)  # what is tested: with pauses that double, the next questions would come minutes later
            asked = [at for at, _ in commands.asked(paused)]
            late = [later - earlier for earlier, later in zip(asked, asked[1:] + [time.time()]) if later - earlier > 40]
            assert len(asked) >= 4 and not late, (asked, late)
            assert contact()["trouble"], contact()
        back = time.time()

        def heard(name):
            return min((at - back for at, words in commands.answered(back) if name in words), default=None)
        for name in QUESTIONS:
            seconds = wait(f"{name} is answered", lambda: heard(name), HEARD_SECONDS, 0.5)
            print(f"{name} was answered {seconds:.1f} s after slurmctld was back", flush=True)
        wait("that is told", lambda: contact()["trouble"] is None, 60, 0.5)
        assert controller.call("cancel", run).returncode == 0
        assert controller.wait_over(run)[0] == "cancelled"
    finally:
        controller.kill()
        print(controller.told()[-2000:], flush=True)


def a_coming_reservation_is_shown(cluster, controller):
    cluster.output("scontrol", "create", "reservation", "reservationname=m1", "starttime=now+1hour", "duration=60",
                   "nodes=node[01-02]", "flags=maint", f"users={cluster.user}")
    try:
        ask_anew(controller)
        # The last of five questions of a controller that has just started: not asked anew meanwhile.
        first = wait("it is shown", lambda: json.loads(controller.call("nodes", "-o", "json").stdout)["reservations"], 180, 2)[0]
        assert (first["name"], first["nodes"], first["maintenance"], first["seconds"]) == ("m1", "node[01-02]", True, 3600), first
        line = next(line for line in text(controller).splitlines() if line.startswith("m1 "))
        assert "1 h" in line and line.endswith("maintenance"), line
    finally:
        cluster.output("scontrol", "delete", "reservationname=m1")
    ask_anew(controller)


def a_silent_munge_is_told(cluster, controller):
    """Slurm's commands hang as they do without slurmctld; what waits stays as it was."""
    run = submit_later(cluster, controller, "munge")
    all_idle(controller)
    wait("its job is known", lambda: (e := explained(controller, run)[0])["waiting"] and e["launches"], every=1)
    with cluster.paused("munged"):
        told, text = wait("the silence is told", lambda: (e := explained(controller, run))[0]["slurm"]["trouble"] and e, every=2)
        assert told["state"] == "queued" and "Slurm has not answered since " in text, (told, text)
        nodes_tell_the_silence(controller)
    all_is_known_again(controller, run, time.monotonic())
    assert controller.call("cancel", run).returncode == 0
    assert controller.wait_over(run)[0] == "cancelled"
    launches = json.loads(controller.call("explain", run, "-o", "json").stdout)["launches"]
    assert len(launches) == 1 and launches[0]["job"], "and no second job"


def an_allocation_is_probed_in_one_step(cluster, controller):
    """`regatta topo --srun`: a capture of every node, merged; with what Slurm says of the same nodes."""
    done = controller.call("topo", "--srun=--nodes=3", server=False)
    assert done.returncode == 0, done.stderr
    assert "3 nodes node[01-03]" in done.stdout and "NUMA domain" in done.stdout, done.stdout
    wait("the step's nodes are done with it", lambda: "COMPLETING" not in cluster.output("scontrol", "show", "node", "-o"))
    files = []
    for name, words in {"nodes": ("node", "-o"), "switches": ("topology",)}.items():
        files.append(cluster.work / name)
        files[-1].write_text(cluster.output("scontrol", "show", *words))
    done = controller.call("topo", *files, server=False)
    assert done.returncode == 0, done.stderr
    assert "fabric:slurm" in done.stdout and "node[01-04]" in done.stdout, done.stdout
    done = controller.call("topo", *files, "-o", "slurm", server=False)
    assert "SwitchName=leaf1 Nodes=node[01-02]" in done.stdout, done.stdout
    done = controller.call("topo", "--srun=--nodes=99", "--srun=--immediate=2", server=False)
    assert done.returncode != 0 and done.stderr.count("\n") == 1 and "srun --nodes=99" in done.stderr, done.stderr


CASES = [all_are_usable, an_allocation_is_probed_in_one_step, a_run_is_shown_on_its_nodes, a_drained_node_says_why,
         what_happens_to_a_node_is_an_event, a_lost_node_says_what_to_do, a_coming_reservation_is_shown, a_silent_slurm_leaves_what_was_known]
# They wait more than they work: each on a cluster of its own, beside the others.
SILENCES = [a_silent_slurm_is_told_and_heard_again_at_once, a_silent_munge_is_told]
UNSEEN = [nobody_looks_and_all_is_heard_at_once]


def with_a_controller(cases, *options, chosen):
    with Cluster("--no-rest", *options) as cluster, contextlib.ExitStack() as at_the_end:
        controller = Controller(cluster)
        at_the_end.callback(controller.kill)
        for case in chosen:
            cases.run(case, cluster, controller)
        print(controller.told()[-3000:], flush=True)


def without(cases, *options, case):
    with Cluster("--no-rest", *options) as cluster:
        cases.run(case, cluster)


def main():
    need_slurm()
    cases = Cases("slurm_nodes")

    def chosen(some):
        return [case for case in some if not sys.argv[1:] or case.__name__ in sys.argv[1:]]
    parts = [functools.partial(with_a_controller, cases, chosen=chosen(CASES))] if chosen(CASES) else []
    parts += [functools.partial(with_a_controller, cases, "--no-accounting", chosen=[case]) for case in chosen(SILENCES)]
    parts += [functools.partial(without, cases, "--no-accounting", case=case) for case in chosen(UNSEEN)]
    side_by_side(*parts)
    cases.finish()


if __name__ == "__main__":
    main()
