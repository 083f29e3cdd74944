#!/usr/bin/env python3
"""Runs that are extended, changed and forked: real HTTP, the real command line, controller and trainer, killed on the way.

    extend_test.py BUILD      a build folder with regatta and regatta-train

The last line is `N passed, N failed, N skipped`.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))
from served import NO_DEFAULTS, OverSocket, make_data, serve_here, server_of  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "release"
REGATTA = BUILD / "orchestrator" / "regatta"
OVER = ("succeeded", "failed", "stopped", "cancelled")
RUN = """name: {name}
model: {{preset: tiny, layers: 1, hidden: 32, heads: 2, feed_forward: 64, max_positions: 64}}
data: {{path: {data}, max_length: 48}}
batch: {{size: 8}}
optimizer: {{learning_rate: 0.003, schedule: constant}}
threads: 1
steps: {steps}
evaluate: {{every: 10, samples: 16}}
checkpoint: {{every: 10, keep_last: 9}}
{more}
"""


class World:
    def __init__(self, folder):
        self.folder, self.data = folder, folder / "controller"
        self.corpus = make_data(folder, BUILD / "trainer" / "regatta-train")
        self.start()

    def start(self):
        self.process = serve_here(BUILD, self.data)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(120)

    def ask(self, method, path, body=None, key=None):
        """(status, JSON)"""
        connection = OverSocket(self.data / "controller.sock")
        try:
            connection.request(method, "/api/v1" + path, None if body is None else json.dumps(body),
                               {"Idempotency-Key": key} if key else {})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def call(self, *words):
        return subprocess.run([REGATTA, *map(str, words), "--server", server_of(self.data)], capture_output=True, text=True,
                              timeout=120, env={**os.environ, **NO_DEFAULTS})

    def submit(self, name, steps, more=""):
        path = self.folder / f"{name}.yaml"
        path.write_text(RUN.format(name=name, data=self.corpus, steps=steps, more=more))
        done = self.call("submit", path)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def show(self, run):
        return self.ask("GET", f"/runs/{run}")[1]

    def wait_over(self, run):
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            shown = self.show(run)
            if shown["state"] in OVER:
                return shown
            time.sleep(0.1)
        raise AssertionError(f"{run} does not end: {shown['state_text']}")

    def finished(self, name, steps, more=""):
        run = self.submit(name, steps, more)
        shown = self.wait_over(run)
        assert shown["state"] == "succeeded", shown
        return run

    def losses(self, run):
        """Of every step of every attempt, by step; none twice."""
        found = {}
        for journal in sorted((self.data / "runs" / run).glob("attempts/*/journal.jsonl")):
            for line in journal.read_text().splitlines():
                record = json.loads(line)
                if record["type"] == "step":
                    assert record["step"] not in found, f"step {record['step']} twice"
                    found[record["step"]] = record["loss"]
        return found


def an_extended_run_is_the_unbroken_one(world):
    whole = world.finished("whole", 40)
    run = world.finished("extended", 20)
    done = world.call("extend", run, "--steps", 40)
    assert done.returncode == 0 and done.stdout.startswith(run), done.stderr
    shown = world.wait_over(run)
    assert (shown["state"], shown["step"], shown["steps"], shown["attempts"]) == ("succeeded", 40, 40, 2), shown
    assert world.losses(run) == world.losses(whole)
    status, charts = world.ask("GET", f"/metrics?runs={run}&series=loss")
    assert status == 200 and charts["runs"][0]["steps"]["rows"] == 40, "one curve"
    assert world.show(run)["changed_at"]


def a_target_is_judged_anew(world):
    run = world.finished("target", 20, "target: {value: 0.0001}")
    shown = world.show(run)
    assert shown["target_reached"] and shown["step"] < 20, shown
    status, problem = world.ask("POST", f"/runs/{run}/extend", {"steps": 30})
    assert status == 409 and "has met this target already" in problem["detail"], problem
    status, _ = world.ask("POST", f"/runs/{run}/extend", {"target": 0.999})
    assert status == 202
    shown = world.wait_over(run)
    assert not shown["target_reached"] and shown["step"] == 20, shown
    status, shown = world.ask("POST", f"/runs/{run}/change", {"target": 0.0001})
    assert status == 202
    deadline = time.monotonic() + 30  # the loop may just be writing down what the run was
    while not shown["target_reached"]:
        assert time.monotonic() < deadline, shown
        time.sleep(0.1)
        shown = world.show(run)
    status, account = world.ask("GET", f"/runs/{run}/time_to_accuracy")
    assert account["target"] == 0.0001 and account["time_to_accuracy_seconds"] == shown["time_to_accuracy_seconds"]


def fewer_steps_are_for_the_next_attempt(world):
    run = world.submit("fewer", 100000)
    deadline = time.monotonic() + 60
    while world.show(run)["state"] != "running":
        assert time.monotonic() < deadline, world.show(run)
        time.sleep(0.05)
    done = world.call("change", run, "--steps", 90000)
    assert done.returncode == 0, done.stderr
    assert "began with 100000 steps and goes on to them; `regatta requeue " in done.stderr, done.stderr
    assert done.stderr.endswith("` makes it end at 90000\n"), done.stderr
    again = world.call("change", run, "--steps", 80000)
    assert "goes on to the steps that it began with; `regatta requeue " in again.stderr, again.stderr
    assert world.call("cancel", run).returncode == 0
    world.wait_over(run)


def a_fork_repeats_its_parent(world):
    parent = world.finished("parent", 40)
    done = world.call("fork", f"{parent}@20", "--name", "child")
    assert done.returncode == 0, done.stderr
    child = done.stdout.strip()
    shown = world.wait_over(child)
    assert shown["state"] == "succeeded" and shown["name"] == "child", shown
    assert shown["forked_from"] == parent and shown["forked_checkpoint"].startswith("step-0000000020-")
    expected = {step: loss for step, loss in world.losses(parent).items() if step > 20}
    assert world.losses(child) == expected
    assert f"{shown['forked_checkpoint']} of {parent}" in world.call("show", child).stdout
    # It needs its parent for nothing.
    assert world.call("rm", parent, "--yes").returncode == 0
    assert world.call("ckpt", "verify", child, "20").returncode == 0
    status, _ = world.ask("POST", f"/runs/{child}/extend", {"steps": 50})
    assert status == 202
    assert world.wait_over(child)["step"] == 50


def a_key_does_it_once(world):
    run = world.finished("keys", 10)
    for _ in range(2):
        status, forked = world.ask("POST", f"/runs/{run}/fork", {"changes": {"steps": 20}}, "fork")
        assert status in (200, 201), forked
    assert len(world.ask("GET", "/runs?name=keys")[1]["runs"]) == 2
    status, _ = world.ask("POST", f"/runs/{run}/fork", {"changes": {"steps": 21}}, "fork")
    assert status == 409
    answers = [world.ask("POST", f"/runs/{run}/extend", {"steps": 20}, "more")[0] for _ in range(3)]
    assert answers == [202, 200, 200], answers
    assert world.wait_over(run)["step"] == 20
    assert world.ask("POST", f"/runs/{run}/extend", {"steps": 20}, "more")[0] == 200, "after it is done"
    assert world.ask("POST", f"/runs/{run}/extend", {"steps": 30}, "more")[0] == 409
    assert world.ask("POST", f"/runs/{run}/extend", {"steps": 20})[0] == 409


def a_change_of_a_run_under_way(world):
    run = world.submit("changed", 10**6)
    deadline = time.monotonic() + 60
    while world.show(run)["step"] < 20 and time.monotonic() < deadline:
        time.sleep(0.1)
    status, problem = world.ask("POST", f"/runs/{run}/change", {"steps": 5})
    assert status == 409 and "steps; give more" in problem["detail"], problem
    assert world.ask("POST", f"/runs/{run}/change", {"seed": 5})[0] == 422
    done = world.call("change", run, "--steps", 2 * 10**6, "--keep-last", 2, "--time-limit", 30)
    assert done.returncode == 0, done.stderr
    assert "goes on as it began" in done.stderr, done.stderr
    assert "the time limit has no effect here" in done.stderr, "no job has it"
    config = json.loads((world.data / "runs" / run / "run.json").read_text())
    assert config["steps"] == 2 * 10**6 and config["slurm"]["time_limit"], config
    (event,) = world.ask("GET", f"/events?run={run}&kind=run.changed")[1]["events"]
    assert "steps from 1000000 to 2000000" in event["words"] and event["by"].startswith("uid "), event
    world.call("cancel", run)
    assert world.wait_over(run)["state"] == "cancelled"


def whole_checkpoints(world, run):
    """By step why each is kept, of those in the run's directory."""
    rows = world.ask("GET", f"/runs/{run}/checkpoints")[1]["checkpoints"]
    folder = world.data / "runs" / run / "checkpoints"
    return {row["step"]: row["kept_because"] for row in rows
            if row.get("condition") == "valid" and (folder / row["name"] / "manifest.json").exists()}


def a_change_of_retention_counts(world):
    """For the next collection, and for the next attempt, which removes checkpoints while it trains."""
    run = world.finished("retention", 40)
    assert sorted(whole_checkpoints(world, run)) == [10, 20, 30, 40]
    done = world.call("change", run, "--keep-last", 2)
    assert done.returncode == 0, done.stderr
    status, collected = world.ask("POST", f"/runs/{run}/checkpoints/gc")
    assert status == 200 and collected["policy"]["keep_last"] == 2, collected
    kept = whole_checkpoints(world, run)
    best = {step for step, reasons in kept.items() if any(reason.startswith("best") for reason in reasons)}
    assert set(kept) == {30, 40} | best, kept
    assert {row["step"] for row in collected["removed"]} == {10, 20, 30, 40} - set(kept), collected

    assert world.call("change", run, "--keep-last", 1).returncode == 0
    assert set(whole_checkpoints(world, run)) == set(kept), "nothing goes until somebody collects"
    assert world.ask("POST", f"/runs/{run}/extend", {"steps": 70})[0] == 202
    shown = world.wait_over(run)
    assert (shown["state"], shown["step"]) == ("succeeded", 70), shown
    kept = whole_checkpoints(world, run)
    best = {step for step, reasons in kept.items() if any(reason.startswith("best") for reason in reasons)}
    assert set(kept) == {70} | best, kept


def killed_at_any_moment_it_is_old_or_new(world):
    """kill -9 while a request is under way: afterwards the run is as it was, or goes on as it was asked to."""
    run = world.finished("killed", 10)
    steps = 10
    for delay in (0, 0.001, 0.002, 0.004, 0.008, 0.016, 0.05):
        asker = subprocess.Popen([REGATTA, "extend", run, "--steps", str(steps + 5), "--server", server_of(world.data)],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **NO_DEFAULTS})
        time.sleep(0.01 + delay)
        world.kill()
        answered = asker.wait(60) == 0
        asker.communicate()
        world.start()
        shown = world.wait_over(run)
        assert shown["state"] == "succeeded", shown
        config = json.loads((world.data / "runs" / run / "run.json").read_text())
        assert config["steps"] == shown["steps"] == shown["step"], shown
        assert shown["step"] in ((steps + 5,) if answered else (steps, steps + 5)), (answered, shown["step"], steps)
        steps = shown["step"]
    assert sorted(world.losses(run)) == list(range(1, steps + 1))


CASES = [an_extended_run_is_the_unbroken_one, a_target_is_judged_anew, a_fork_repeats_its_parent, a_key_does_it_once,
         a_change_of_a_run_under_way, fewer_steps_are_for_the_next_attempt, a_change_of_retention_counts, killed_at_any_moment_it_is_old_or_new]


def main():
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        world = World(pathlib.Path(folder))
        try:
            for case in CASES:
                try:
                    case(world)
                    print(f"PASS {case.__name__}", flush=True)
                    passed += 1
                except Exception:  # pylint: disable=broad-except
                    traceback.print_exc()
                    print(f"FAIL {case.__name__}", flush=True)
                    failed += 1
        finally:
            world.process.send_signal(signal.SIGTERM)
            world.process.wait(120)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
