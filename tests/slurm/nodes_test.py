#!/usr/bin/env python3
"""`regatta nodes` on a real Slurm: what is free, what is wrong, who runs where, and what asking costs.

    tests/slurm/nodes_test.py [CASE...]
"""
import contextlib
import json
import sys
import time

from cluster import Cases, Cluster, need_slurm, wait
from controller import Controller

HOSTILE = "bad \x1b[31mState=IDLE NodeName=evil\nNodeName=worse State=IDLE | \u2603 <b>"
# The run's job stays in `setup`: its nodes are allocated, and nothing is computed.
WAITING_RUN = """name: waits
data: {path: /nowhere}
steps: 10
ranks: 2
slurm: {nodes: 2, ranks_per_node: 1, gpus_per_rank: 4, time_limit: 10, setup: sleep 600}
"""


def nodes(controller, *names):
    """Rows of `regatta nodes -o json` by name."""
    done = controller.call("nodes", *names, "-o", "json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["scheduler"] == "slurm_cli" and answer["age_seconds"] <= 60, answer
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


def all_are_usable(cluster, controller):
    rows = nodes(controller)
    assert sorted(rows) == ["node01", "node02", "node03", "node04"], rows
    for row in rows.values():
        assert row["state"] == "idle" and row["usable"] and row["reason"] is None and row["action"] == "", row
        assert row["gpus"] == {"count": 8, "types": {"h100": 8}} and row["gpus_allocated"] == 0, row
        assert row["cpus"] > 0 and row["cpus_allocated"] == 0 and row["memory_bytes"] > 0, row
        assert sorted(row["partitions"]) == ["high", "main"] and row["runs"] == [] and row["suspicion"] == 0, row
    lines = text(controller).splitlines()
    assert len(lines) == 2 and lines[1].split()[:3] == ["idle", "4", "32/32"] and lines[1].endswith("node[01-04]"), lines
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
    assert sorted(nodes(controller)) == ["node01", "node02", "node03", "node04"], "a reason is no node"
    shown = text(controller)
    assert "\x1b" not in shown and "\\x1b[31m" in shown, shown
    line = next(line for line in shown.splitlines() if line.startswith("node03"))
    assert "drained" in line and "nodename=node03 state=resume" in line, line
    assert "24/32" in shown and "node[01-02,04]" in shown, shown
    cluster.output("scontrol", "update", "nodename=node03", "state=resume")


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


def a_silent_slurm_is_told_and_heard_again_at_once(cluster, controller):
    """What is known is shown with its age, a cancellation waits visibly, and nobody is blind when Slurm is back."""
    path = cluster.work / "silent.yaml"
    path.write_text(WAITING_RUN.replace("waits", "silent").replace("setup: sleep 600", "options: [--begin=now+1hour]"))
    run = json.loads(controller.call("submit", path, "-o", "json").stdout)["id"]
    assert len(nodes(controller)) == 4
    told, text = wait("its wait is known", lambda: (e := explained(controller, run))[0]["waiting"] and e[0]["launches"] and e, 60, 1)
    assert told["slurm"]["trouble"] is None and told["slurm"]["age_seconds"] < 60, told
    assert "  slurm   answered " in text, text
    with cluster.paused("slurmctld"):
        told, text = wait("the silence is told", lambda: (e := explained(controller, run))[0]["slurm"]["trouble"] and e, 90, 2)
        assert "Slurm has not answered since " in text and "not known until Slurm answers" in told["next"], (told, text)
        before = told["slurm"]["answered_at"]
        assert controller.call("cancel", run).returncode == 0

        def waits():
            told, text = explained(controller, run)
            return told["slurm"]["cancel_waits_since"] and (told, text)
        told, text = wait("the cancellation waits", waits, 30, 1)
        assert told["state"] == "stopping" and "has not been told" in told["summary"] and "cancel  waits since" in text, (told, text)
        done = controller.call("nodes")
        assert "ago: " in done.stderr or "Slurm has not answered since" in done.stderr, done
        # The longer it lasts, the less often it would be asked with a pause that doubles.
        wait("a minute is over", lambda: explained(controller, run)[0]["slurm"]["age_seconds"] > 75, 120, 10)
        assert explained(controller, run)[0]["slurm"]["answered_at"] == before
    begin = time.monotonic()
    told, text = wait("it is cancelled", lambda: (e := explained(controller, run))[0]["state"] == "cancelled" and e, 60, 0.5)
    print(f"it is cancelled after {time.monotonic() - begin:.1f} s", flush=True)
    wait("nodes are known", lambda: json.loads(controller.call("nodes", "-o", "json").stdout)["trouble"] is None, 60, 0.5)
    print(f"all is known {time.monotonic() - begin:.1f} s after slurmctld was back", flush=True)
    assert time.monotonic() - begin < 15
    assert not cluster.output("squeue", "-h"), "the job is cancelled"


def a_coming_reservation_is_shown(cluster, controller):
    cluster.output("scontrol", "create", "reservation", "reservationname=m1", "starttime=now+1hour", "duration=60",
                   "nodes=node[01-02]", "flags=maint", f"users={cluster.user}")
    def shown():
        ask_anew(controller)
        return json.loads(controller.call("nodes", "-o", "json").stdout)["reservations"]
    first = wait("it is shown", shown, 400, 2)[0]
    assert (first["name"], first["nodes"], first["maintenance"], first["seconds"]) == ("m1", "node[01-02]", True, 3600), first
    line = next(line for line in text(controller).splitlines() if line.startswith("m1 "))
    assert "1 h" in line and line.endswith("maintenance"), line
    cluster.output("scontrol", "delete", "reservationname=m1")


def a_silent_munge_is_told(cluster, controller):
    """Slurm's commands hang as they do without slurmctld; what waits stays as it was."""
    path = cluster.work / "munge.yaml"
    path.write_text(WAITING_RUN.replace("waits", "munge").replace("setup: sleep 600", "options: [--begin=now+1hour]"))
    run = json.loads(controller.call("submit", path, "-o", "json").stdout)["id"]
    wait("its job is known", lambda: (e := explained(controller, run)[0])["waiting"] and e["launches"], 60, 1)
    with cluster.paused("munged"):
        told, text = wait("the silence is told", lambda: (e := explained(controller, run))[0]["slurm"]["trouble"] and e, 120, 2)
        assert told["state"] == "queued" and "Slurm has not answered since " in text, (told, text)
    wait("Slurm is heard again", lambda: explained(controller, run)[0]["slurm"]["trouble"] is None, 60, 1)
    assert controller.call("cancel", run).returncode == 0
    assert controller.wait_over(run)[0] == "cancelled"
    assert json.loads(controller.call("explain", run, "-o", "json").stdout)["launches"][0]["job"], "and no second job"


def an_allocation_is_probed_in_one_step(cluster, controller):
    """`regatta topo --srun`: a capture of every node, merged; with what Slurm says of the same nodes."""
    done = controller.call("topo", "--srun=--nodes=3", server=False)
    assert done.returncode == 0, done.stderr
    assert "3 nodes node[01-03]" in done.stdout and "NUMA domain" in done.stdout, done.stdout
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


CASES = [a_coming_reservation_is_shown, all_are_usable, an_allocation_is_probed_in_one_step, a_run_is_shown_on_its_nodes, a_drained_node_says_why, a_lost_node_says_what_to_do,
         a_silent_slurm_leaves_what_was_known, a_silent_slurm_is_told_and_heard_again_at_once, a_silent_munge_is_told]


def main():
    need_slurm()
    chosen = [case for case in CASES if not sys.argv[1:] or case.__name__ in sys.argv[1:]]
    cases = Cases("slurm_nodes")
    with Cluster("--no-rest") as cluster, contextlib.ExitStack() as at_the_end:
        controller = Controller(cluster)
        at_the_end.callback(controller.kill)
        for case in chosen:
            cases.run(case, cluster, controller)
        print((cluster.work / "serve.log").read_text()[-3000:])
    cases.finish()


if __name__ == "__main__":
    main()
