#!/usr/bin/env python3
"""Sweeps by the programs themselves: a controller, its command line, and runs that train.

    sweep_process_test.py BUILD [CASE…]

The ASHA case plays 27 trials on 4 slots twice: once undisturbed, once with a controller that is killed (-9) 10 times at
moments that a seed gives, and compares. Objectives are the trainer's, which are the same bits for the same run.
"""
import atexit
import csv
import io
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from served import NO_DEFAULTS, conclude, make_data, run_cases, server_of  # noqa: E402

KILLS = 10
RUN = """name: {name}
data: {{path: data, max_length: 48}}
model: {{preset: tiny, layers: 1, hidden: 32, heads: 2, feed_forward: 64, max_positions: 64}}
batch: {{size: 8}}
threads: 1
steps: 90
evaluate: {{every: 1000, samples: 64}}
checkpoint: {{every: 1000, keep_last: 1}}
statistics: {{every: 0}}
{more}
"""
ASHA = """
target: {metric: mlm_loss, value: 0.01}
sweep:
  method: asha
  trials: 27
  concurrency: 4
  seed: 3
  objective: {direction: minimize}
  budget: {min: 5, max: 45, factor: 3}
  parameters:
    optimizer.learning_rate: {kind: log_uniform, low: 1.0e-6, high: 3.0e-2}
    optimizer.name: {kind: choice, values: [adamw, lamb]}
    optimizer.beta2: {kind: uniform, low: 0.9, high: 0.999, when: {optimizer.name: [adamw]}}
"""
GRID = """
sweep:
  method: grid
  concurrency: 2
  objective: {direction: maximize}
  budget: {max: 4}
  parameters:
    seed: {kind: choice, values: [1, 2, 3]}
"""


class Controller:
    """`regatta serve`, which may be killed and started again."""

    def __init__(self, build, home):
        self.build, self.home = build, home
        self.regatta = build / "orchestrator" / "regatta"
        self.process = None
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [self.regatta, "serve", "--allow-privileged", "--port", "0", "--data", self.home / "state", "--scheduler", "local",
             "--parallel", "4", "--trainer", self.build / "trainer" / "regatta-train"],
            stdout=subprocess.PIPE, stderr=open(self.home / "serve.log", "a"), text=True, env={**os.environ, **NO_DEFAULTS})
        atexit.register(self.process.kill)  # of a case that failed, too
        self.process.stdout.readline()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)

    def ask(self, *words, code=0):
        """stdout of a command."""
        for _ in range(100):
            done = subprocess.run([self.regatta, *words, "--server", server_of(self.home / "state")], capture_output=True,
                                  text=True, timeout=120, cwd=self.home)
            if "are still being read; try again in a moment" not in done.stderr:
                break
            time.sleep(0.1)  # it has just started
        assert done.returncode == code, f"{words}: {done.returncode}: {done.stdout[-500:]} {done.stderr[-1000:]}"
        return done.stdout if code == 0 else done.stderr

    def sweep(self, name):
        return json.loads(self.ask("sweep", "show", name, "-o", "json"))

    def until_over(self, name, seconds=400, every=lambda: None):
        deadline = time.monotonic() + seconds
        while True:
            sweep = self.sweep(name)
            if sweep["state"] != "running":
                return sweep
            assert time.monotonic() < deadline, f"{name} is not over after {seconds} s: {sweep['counts']}"
            every()
            time.sleep(0.3)


def place(build):
    home = pathlib.Path(tempfile.mkdtemp(prefix="sweep-"))
    make_data(home, build / "trainer" / "regatta-train")
    return home


def write(home, name, text, more=""):
    (home / f"{name}.yaml").write_text(RUN.format(name=name, more=more) + text)
    return f"{name}.yaml"


def asha_survives_kills(build):
    home = place(build)
    controller = Controller(build, home)
    calm = controller.ask("sweep", "submit", write(home, "calm", ASHA)).strip()
    undisturbed = controller.until_over(calm)
    dice, kills = random.Random(11), 0
    hit = controller.ask("sweep", "submit", write(home, "hit", ASHA), "--idempotency-key", "once").strip()
    # Spread over what the undisturbed one took.
    seconds = 10
    while kills < KILLS:
        time.sleep(dice.uniform(0.1, 2 * seconds / KILLS))
        controller.kill()
        kills += 1
        controller.start()
        if kills == 3:  # a client that got no answer asks again
            again = controller.ask("sweep", "submit", "hit.yaml", "--idempotency-key", "once").strip()
            assert again == hit, f"{again} is a second sweep"
    disturbed = controller.until_over(hit)
    for sweep in (undisturbed, disturbed):
        assert sweep["state"] == "done", sweep["state"]
        assert sweep["counts"]["tried"] == 27 and sweep["counts"]["failed"] == 0, sweep["counts"]
        assert len({trial["run"] for trial in sweep["trials"]}) == 27
    runs = json.loads(controller.ask("ls", "--tag", f"sweep-{hit}", "--limit", "1000", "-o", "json"))["runs"]
    assert len(runs) == 27, f"{len(runs)} runs of 27 trials"
    for a, b in zip(undisturbed["trials"], disturbed["trials"]):
        assert a["values"] == b["values"], (a["values"], b["values"])
        known = {each["budget"]: each["objective"] for each in a["reports"]}
        for each in b["reports"]:  # who gets to a rung early depends on who was there, what he reaches does not
            assert known.get(each["budget"], each["objective"]) == each["objective"], (a["number"], a["reports"], b["reports"])
    # The best third of a rung's whole field goes on in any order of events, so these are the same.
    ranking = [[trial["number"] for trial in sorted((t for t in sweep["trials"] if t["rank"]), key=lambda t: t["rank"])][:1]
               for sweep in (undisturbed, disturbed)]
    first = {each["number"]: each["reports"][0]["objective"] for each in undisturbed["trials"]}
    assert first == {each["number"]: each["reports"][0]["objective"] for each in disturbed["trials"]}
    best = sorted(first, key=lambda number: first[number])[:9]
    for sweep in (undisturbed, disturbed):
        went_on = {trial["number"] for trial in sweep["trials"] if len(trial["reports"]) > 1}
        assert set(best) <= went_on, f"{sorted(set(best) - went_on)} were not promoted"
    assert ranking[0] == ranking[1], ranking
    controller.end()
    kept = list((home / "state" / "runs" / ".sweeps").iterdir())
    assert sorted(path.name for path in kept) == sorted([f"{calm}.json", f"{hit}.json"]), kept
    print(f"{kills} kills; best {undisturbed['best']['objective']:.4f} and {disturbed['best']['objective']:.4f}")


def the_commands_tell_of_it(build):
    home = place(build)
    damaged = home / "state" / "runs" / ".sweeps" / "bad-000001.json"
    for folder in reversed(damaged.parents[:3]):
        folder.mkdir(mode=0o700)
    damaged.write_text("{")
    controller = Controller(build, home)
    listed = subprocess.run([controller.regatta, "sweep", "ls", "--server", server_of(home / "state")], capture_output=True, text=True)
    assert "no sweeps" in listed.stderr and f"{damaged} is left out: " in listed.stderr and listed.returncode == 0, listed
    file = write(home, "seeds", GRID)
    dry = json.loads(controller.ask("sweep", "submit", file, "--dry-run", "-o", "json"))
    assert dry["id"] is None and len(dry["trials"]) == 2 and dry["counts"]["planned"] == 3, dry
    assert json.loads(controller.ask("sweep", "ls", "-o", "json"))["total"] == 0
    told = controller.ask("sweep", "submit", file, "--wait")
    sweep_id = told.splitlines()[0]
    assert "3 of 3 trials: 0 running, 0 paused, 3 finished, 0 failed" in told, told
    sweep = controller.sweep("seeds")
    assert sweep["id"] == sweep_id and sweep["state"] == "done"
    # What the ranking says is what the runs' own evaluations say.
    values = {}
    for trial in sweep["trials"]:
        run = json.loads(controller.ask("show", trial["run"], "-o", "json"))
        assert run["step"] == 4 and run["state"] == "succeeded" and run["config"]["seed"] == trial["values"]["seed"]
        assert run["value"] == trial["objective"], (run["value"], trial["objective"])
        values[trial["number"]] = run["value"]
    best = max(values, key=lambda number: (values[number], -number))
    assert sweep["best"]["trial"] == best, (values, sweep["best"])
    rows = list(csv.DictReader(io.StringIO(controller.ask("sweep", "show", sweep_id, "-o", "csv"))))
    assert [row["rank"] for row in rows] == ["1", "2", "3"] and {row["state"] for row in rows} == {"finished"}
    by_rank = [trial["run"] for trial in sorted(sweep["trials"], key=lambda trial: trial["rank"])]
    assert [row["run"] for row in rows] == by_rank, rows
    assert controller.ask("sweep", "show", sweep_id, "-o", "name").split() == by_rank
    listed = list(csv.DictReader(io.StringIO(controller.ask("sweep", "ls", "-o", "csv"))))
    assert len(listed) == 1 and not [cell for cell in listed[0].values() if "{" in cell or "[" in cell], listed
    assert listed[0]["best.run"] == sweep["best"]["run"] and listed[0]["counts.finished"] == "3", listed
    assert float(listed[0]["best.objective"]) == sweep["best"]["objective"], listed
    assert controller.ask("sweep", "best", sweep_id, "-o", "name").strip() == sweep["best"]["run"]
    assert f"trial {best}, run {sweep['best']['run']}: mlm_accuracy" in controller.ask("sweep", "best", sweep_id)
    assert sweep_id in controller.ask("sweep", "ls")
    assert controller.ask("sweep", "ls", "-o", "name").strip() == sweep_id
    assert controller.ask("sweep", "ls", "--state", "running", "-o", "csv").count("\n") == 1
    assert "is over" in controller.ask("sweep", "stop", sweep_id)
    gone = sweep["best"]["run"]
    controller.ask("rm", "--yes", gone)
    assert f"run {gone} (removed): mlm_accuracy" in controller.ask("sweep", "best", sweep_id)
    assert f"{gone} (removed)" in controller.ask("sweep", "show", sweep_id)
    said = subprocess.run([controller.regatta, "sweep", "best", sweep_id, "-o", "name", "--server", server_of(home / "state")],
                          capture_output=True, text=True)
    assert said.stdout.strip() == gone and f"run {gone} was removed" in said.stderr, said
    events = controller.ask("events", "--kind", "sweep", "-o", "json")
    assert "sweep.submitted" in events and "sweep.done" in events, events
    assert "its runs stay" in controller.ask("sweep", "rm", sweep_id)
    assert "no sweep 'seeds'" in controller.ask("sweep", "show", "seeds", code=3)
    assert len(json.loads(controller.ask("ls", "-o", "json"))["runs"]) == 2
    controller.end()


def a_result_is_of_the_rung_that_it_names(build):
    """Trials that learn nothing have one objective at every rung; the one that is told is the furthest."""
    home = place(build)
    controller = Controller(build, home)
    text = ASHA.replace("trials: 27", "trials: 4").replace("concurrency: 4", "concurrency: 2").replace(
        "{min: 5, max: 45, factor: 3}", "{min: 2, max: 8, factor: 2}").replace("low: 1.0e-6, high: 3.0e-2", "low: 1.0e-30, high: 1.0e-29")
    name = controller.ask("sweep", "submit", write(home, "flat", text)).strip()
    sweep = controller.until_over(name)
    several = 0
    for trial in sweep["trials"]:
        assert trial["budget"] == trial["goal"] == max(each["budget"] for each in trial["reports"]), trial
        several += len(trial["reports"]) > 1 and len({each["objective"] for each in trial["reports"]}) == 1
    assert several > 0, "no trial had one objective at two rungs"
    assert sweep["best"]["budget"] == 8, sweep["best"]
    assert "after 8 steps" in controller.ask("sweep", "best", name)
    controller.end()


def what_cannot_be_is_said_at_once(build):
    home = place(build)
    controller = Controller(build, home)
    for text, why in [
        (GRID.replace("maximize", "minimize"), "mlm_accuracy is better the higher it is"),
        (GRID.replace("seed: {", "sed: {"), "did you mean 'seed'?"),
        (GRID.replace("seed: {kind: choice, values: [1, 2, 3]}", "model.heads: {kind: choice, values: [2, 3]}"), "model.heads 3"),
        (GRID.replace("objective: {direction: maximize}", "objective: {kind: time_to_accuracy}"), "add a target"),
        ("", "sweep: missing"),
    ]:
        said = controller.ask("sweep", "submit", write(home, "bad", text), code=7)
        assert why in said and said.count("\n") == 1, said
    # A dataset that is not there: a dry run says NO, as that of a run does, and a submission warns.
    lost = GRID.replace("seed: {kind: choice, values: [1, 2, 3]}", "data.path: {kind: choice, values: [data, lost]}")
    file = write(home, "lost", lost)
    dry = subprocess.run([controller.regatta, "sweep", "submit", file, "--dry-run", "--server", server_of(home / "state")],
                         capture_output=True, text=True, cwd=home)
    assert dry.returncode == 7 and "NO  no dataset in " + str(home / "lost") in dry.stdout, dry
    assert "ok  " in dry.stdout, dry
    told = subprocess.run([controller.regatta, "sweep", "submit", file, "--wait", "--server", server_of(home / "state")],
                          capture_output=True, text=True, cwd=home, timeout=120)
    assert f"warning: no dataset in {home / 'lost'}" in told.stderr, told
    # Values that are paths are of the file's folder.
    trials = controller.sweep("lost")["trials"]
    assert [trial["values"]["data.path"] for trial in trials] == [str(home / "data"), str(home / "lost")], trials
    assert trials[0]["state"] == "finished" and trials[1]["state"] == "failed", trials
    controller.ask("sweep", "rm", "lost")
    for trial in trials:
        controller.ask("rm", "--yes", trial["run"])
    said = controller.ask("submit", write(home, "bad", GRID), code=7)
    assert "regatta sweep submit" in said, said
    assert json.loads(controller.ask("sweep", "ls", "-o", "json"))["total"] == 0
    assert json.loads(controller.ask("ls", "-o", "json"))["runs"] == []
    controller.end()


def a_stop_ends_its_runs(build):
    home = place(build)
    controller = Controller(build, home)
    long = GRID.replace("{max: 4}", "{max: 100000}").replace("concurrency: 2", "concurrency: 6").replace("[1, 2, 3]", "[1, 2, 3, 4, 5, 6]")
    name = controller.ask("sweep", "submit", write(home, "long", long)).strip()
    deadline = time.monotonic() + 60
    while sorted(str(trial["run_state"]) for trial in controller.sweep(name)["trials"]) != ["queued"] * 2 + ["running"] * 4:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    told = controller.ask("sweep", "show", name)  # of four places (--parallel)
    assert "6 of 6 trials: 4 running, 2 queued, 0 paused" in told, told
    assert "stops" in controller.ask("sweep", "stop", name)
    sweep = controller.until_over(name, 120)
    assert sweep["state"] == "stopped" and sweep["counts"]["tried"] == 6, sweep["counts"]
    for trial in sweep["trials"]:
        assert trial["run_state"] in ("cancelled", "succeeded"), trial
        assert trial["reason"] == "the sweep was stopped", trial
    controller.end()


CASES = [what_cannot_be_is_said_at_once, the_commands_tell_of_it, a_result_is_of_the_rung_that_it_names, a_stop_ends_its_runs, asha_survives_kills]

if __name__ == "__main__":
    chosen = [case for case in CASES if not sys.argv[2:] or case.__name__ in sys.argv[2:]]
    sys.exit(conclude(run_cases("sweeps", chosen, pathlib.Path(sys.argv[1]).resolve())))
