#!/usr/bin/env python3
"""Planted differences in speed: runs that differ in one thing, compared by the programs themselves.

    planted_test.py BUILD [CASE…]

Each plant is trained beside the same plain run, and `regatta compare` must name the part that got slower (or faster) and the
fact that made it so; what it says must add up. Pairs of equal runs have no cause that a fact stands behind.
"""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from served import NO_DEFAULTS, conclude, make_data, run_cases, serve_here, server_of  # noqa: E402

PLAIN = {
    "model": {"preset": "tiny", "layers": 2, "hidden": 128, "heads": 2, "feed_forward": 512, "max_positions": 64, "dropout": 0,
              "attention_dropout": 0},
    "data": {"max_length": 16}, "batch": {"size": 8}, "threads": 1, "steps": 1000,
    "evaluate": {"every": 1000, "samples": 32}, "checkpoint": {"every": 1000, "keep_last": 1}, "statistics": {"every": 0},
}
# What changes; the environment's variables; the part, and the key of the evidence.
PLANTS = {
    "one_thread_more": ({"threads": 2}, {}, "compute", "numerics threads"),
    "plain_instructions": ({}, {"REGATTA_ISA": "baseline"}, "compute", "numerics instruction_set"),
    "longer_samples": ({"data": {"max_length": 64}}, {}, "compute", "configuration data max_length"),
    "portable": ({"determinism": "portable"}, {}, "compute", "numerics determinism level"),
    "larger_model": ({"model": {"layers": 4}}, {}, "compute", "model fingerprint"),
    "micro_batches": ({"batch": {"size": 8, "micro": 1}}, {}, "compute", "configuration batch micro"),
    "evaluations": ({"evaluate": {"every": 2}}, {}, "evaluation", "configuration evaluate every"),
    "checkpoints": ({"checkpoint": {"every": 2, "async": False}}, {}, "checkpoints", "configuration checkpoint every"),
    "statistics": ({"statistics": {"every": 2}}, {}, "statistics", "configuration statistics every"),
    "small_batch": ({"batch": {"size": 2}}, {}, "optimizer", "configuration batch size"),
    "two_ranks": ({"ranks": 2, "batch": {"size": 2}}, {}, "communication", "fabric ranks"),
}
PAIRS = 20
RANKS = (1, 2, 4)


def merged(plain, changes):
    out = dict(plain)
    for key, value in changes.items():
        out[key] = merged(out.get(key, {}), value) if isinstance(value, dict) else value
    return out


class Lab:
    """Runs of the trainer, which a controller adopts when all are trained."""

    def __init__(self, build, folder):
        self.build, self.folder, self.runs = build, folder, folder / "controller" / "runs"
        self.trainer, self.regatta = build / "trainer" / "regatta-train", build / "orchestrator" / "regatta"
        self.data = make_data(folder, self.trainer)
        self.runs.mkdir(parents=True, mode=0o700)
        (folder / "controller").chmod(0o700)

    def train(self, run, changes, variables=None):
        path = self.folder / f"{run}.json"
        path.write_text(json.dumps(merged(merged(PLAIN, changes), {"name": run, "data": {"path": str(self.data)}})))
        ranks = changes.get("ranks", 1)
        launch = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", str(ranks)] if ranks > 1 else []
        done = subprocess.run([*launch, self.trainer, "run", path, "--directory", self.runs / f"{run}-00abcd"], capture_output=True,
                              text=True, timeout=200, env={**os.environ, **(variables or {})})
        assert done.returncode == 0, done.stderr[-2000:]

    def __enter__(self):
        self.process = serve_here(self.build, self.folder / "controller")
        self.environment = {**os.environ, **NO_DEFAULTS, "REGATTA_SERVER": server_of(self.folder / "controller")}
        return self

    def __exit__(self, *error):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)

    def compare(self, a, b):
        """What is told of two runs as JSON and as text."""
        for _ in range(600):
            shown = [subprocess.run([self.regatta, "compare", f"{a}-00abcd", f"{b}-00abcd", *more], capture_output=True, text=True,
                                    timeout=60, env=self.environment) for more in ([], ["-o", "json"])]
            if all(each.returncode == 0 for each in shown):
                return json.loads(shown[1].stdout)["speed"], shown[0].stdout
            time.sleep(0.1)  # not adopted yet
        raise AssertionError(shown[1].stderr)


def adds_up(speed):
    """The parts of each run are its seconds, and their differences the difference."""
    for side in (0, 1):
        parts = sum(each["seconds_per_sample"][side] for each in speed["parts"])
        assert abs(parts - speed["seconds_per_sample"][side]) <= 1e-9 * parts, speed
        attempt = speed["attempts"][side]
        assert abs(speed["seconds_per_sample"][side] * attempt["samples_per_second"] - 1) < 1e-9, speed
    assert abs(sum(each["difference"] for each in speed["parts"]) - speed["difference"]) < 1e-12, speed
    compute = next(each for each in speed["parts"] if each["part"] == "compute")
    assert abs(speed["more_work"] + speed["slower"] - compute["difference"]) < 1e-12, speed


def of_journal(runs, run, speed, side):
    """Samples per second anew from the journal: of the steps told, from the first one's begin to the last one's end."""
    (path,) = (runs / f"{run}-00abcd" / "attempts").glob("*/journal.jsonl")
    steps = [each for each in map(json.loads, path.read_text().splitlines()) if each["type"] == "step"]
    told = speed["attempts"][side]
    counted = [each for each in steps if told["first_step"] <= each["step"] <= told["last_step"]]
    seconds = counted[-1]["seconds"] - counted[0]["seconds"] + counted[0]["step_seconds"]
    return sum(each["samples"] for each in counted) / seconds


def plants_are_named(build, folder):
    lab = Lab(build, folder)
    lab.train("plain", {})
    for name, (changes, variables, _, _) in PLANTS.items():
        lab.train(name, changes, variables)
    wrong = []
    with lab:
        for name, (_, _, part, key) in PLANTS.items():
            speed, text = lab.compare("plain", name)
            adds_up(speed)
            for side, run in ((0, "plain"), (1, name)):
                rate, told = of_journal(lab.runs, run, speed, side), speed["attempts"][side]["samples_per_second"]
                assert abs(rate / told - 1) < 0.02, (run, rate, told)
            named = [cause for cause in speed["causes"] if cause["part"] == part]
            keys = [fact["key"] for cause in named for fact in cause["evidence"]]
            print(f"{name}: {[(each['part'], each['what']) for each in speed['causes']]}", flush=True)
            if key not in keys:
                wrong.append((name, part, key, text))
            elif named[0]["what"] not in text:
                wrong.append((name, "not in the text", text))
    assert len(wrong) <= 1, wrong


def nothing_is_named_where_nothing_differs(build, folder):
    lab = Lab(build, folder)
    pairs = max(2, PAIRS * int(os.environ.get("REGATTA_REPETITIONS", "100")) // 100)
    for number in range(pairs + 1):
        lab.train(f"equal-{number}", {})
    with lab:
        for number in range(pairs):
            speed, text = lab.compare(f"equal-{number}", f"equal-{number + 1}")
            adds_up(speed)
            facts = [fact for cause in speed["causes"] for fact in cause["evidence"] if " " in fact["key"]]
            state = ("training ", "attempt ")  # what the machine did meanwhile may differ
            assert all(fact["key"].startswith(state) for fact in facts), text


def by_the_calendar(runs, run, told):
    """Seconds of a sample by the records' UTC, which no part is reckoned from."""
    (path,) = (runs / f"{run}-00abcd" / "attempts").glob("*/journal.jsonl")
    steps = [each for each in map(json.loads, path.read_text().splitlines()) if each["type"] == "step"]
    counted = [each for each in steps if told["first_step"] <= each["step"] <= told["last_step"]]
    seconds = counted[-1]["utc_seconds"] - counted[0]["utc_seconds"] + counted[0]["step_seconds"]
    return seconds / sum(each["samples"] for each in counted)


def parts_explain_the_difference_on_any_number_of_ranks(build, folder):
    """Of runs that differ in much at once: the parts that have a name are the measured difference, within 5 % of it."""
    lab = Lab(build, folder)
    differs = {"model": {"layers": 4, "dropout": 0.1}, "data": {"max_length": 64}, "steps": 200,
               "evaluate": {"every": 10, "samples": 32}, "checkpoint": {"every": 20, "async": False}}
    for ranks in RANKS:
        lab.train(f"few-{ranks}", {"ranks": ranks})
        lab.train(f"much-{ranks}", merged(differs, {"ranks": ranks}))
    with lab:
        for ranks in RANKS:
            speed, _ = lab.compare(f"few-{ranks}", f"much-{ranks}")
            adds_up(speed)
            few, much = (by_the_calendar(lab.runs, f"{run}-{ranks}", told)
                         for run, told in zip(("few", "much"), speed["attempts"]))
            measured = much - few
            named = sum(each["difference"] for each in speed["parts"] if each["part"] != "other")
            print(f"{ranks} ranks: {1e3 * measured:.3f} ms of a sample more, {1e3 * named:.3f} ms of it in "
                  f"{[(each['part'], round(1e3 * each['difference'], 3)) for each in speed['parts']]}", flush=True)
            assert measured > few / 2, (few, much)
            assert abs(named - measured) <= 0.05 * measured, (named, measured)


# What a machine does to a run, and no fact of its environment tells beforehand.
SAVING = {"checkpoint": {"every": 20, "async": False, "keep_last": 1}}
LATENCY = 0.003  # seconds of a sum
MACHINE = {
    ("saving", "slow_disk"): ("checkpoints", "a slower disk for checkpoints"),
    ("near", "far"): ("communication", "a slower link between ranks"),
    ("alone", "beside"): ("compute", "others that used the same processors"),
}


@contextlib.contextmanager
def neighbours():
    """Two that do nothing but compute, on each processor."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        yield
    finally:
        for each in busy:
            each.kill()
            each.wait()


def train_over_link(lab, run, latency):
    """Two ranks whose gradients go over a link that is made slow: the same run in a directory of its own."""
    directory = lab.runs / f"{run}-00abcd"
    for name in ("attempts", "checkpoints", "epoch"):
        (directory / name).mkdir(parents=True, mode=0o700)
    config = json.loads((lab.runs / "two-00abcd" / "run.json").read_text())
    (directory / "run.json").write_text(json.dumps({**config, "name": run}))
    done = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", "2",
                           lab.build / "tests" / "trainer" / "run" / "slow_link_run", directory, "2", str(latency), "1e12"],
                          capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-2000:]


def disks_links_and_neighbours_are_named(build, folder):
    lab = Lab(build, folder)
    lab.train("saving", SAVING)
    lab.train("slow_disk", SAVING, {"LD_PRELOAD": str(build / "tests" / "orchestrator" / "compare" / "libslow_disk.so")})
    lab.train("two", {"ranks": 2, "steps": 200})
    train_over_link(lab, "near", 0)
    train_over_link(lab, "far", LATENCY)
    lab.train("alone", {"steps": 1500})
    with neighbours():
        lab.train("beside", {"steps": 1500})
    with lab:
        for (a, b), (part, what) in MACHINE.items():
            speed, text = lab.compare(a, b)
            adds_up(speed)
            print(f"{b}: {[(each['part'], each['what']) for each in speed['causes']]}", flush=True)
            named = {each["part"]: each["what"] for each in speed["causes"]}
            assert named.get(part) == what and speed["causes"][0]["what"] == what, text
            assert what in text, text


CASES = [plants_are_named, disks_links_and_neighbours_are_named, nothing_is_named_where_nothing_differs, parts_explain_the_difference_on_any_number_of_ranks]


def main(cases):
    build = pathlib.Path(sys.argv[1]).resolve()
    wanted = [case for case in cases if len(sys.argv) < 3 or case.__name__ in sys.argv[2:]]
    results = {}
    for case in wanted:
        with tempfile.TemporaryDirectory(prefix="planted-") as folder:
            for outcome, count in run_cases("compare", [case], build, pathlib.Path(folder)).items():
                results[outcome] = results.get(outcome, 0) + count
    return conclude(results)


if __name__ == "__main__":
    sys.exit(main(CASES))
