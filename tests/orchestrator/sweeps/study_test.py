#!/usr/bin/env python3
"""examples/adam-vs-lamb/study.py on a tiny model: ended in its middle and typed again, its tables are those of the journals.

    study_test.py BUILD
"""
import json
import os
import pathlib
import shutil
import signal
import statistics
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))
from served import Follower, Served, Skipped, conclude, run_cases  # noqa: E402

TARGET = 0.05
# What makes the shipped sweep.yaml small; all of it has to be there.
SMALL = {"  preset: tiny                # 2 layers of 128\n": "  layers: 1\n  hidden: 32\n  heads: 2\n  feed_forward: 64\n",
         "every: 25 ": "every: 1 ", "samples: 512": "samples: 64", "trials: 18": "trials: 3",
         "min: 3200, max: 28800, factor: 3": "min: 576, max: 1728, factor: 3"}


def small_study(folder):
    """The shipped one with a model, a budget and a number of trials that take seconds."""
    copy = folder / "study"
    shutil.copytree(ROOT / "examples" / "adam-vs-lamb", copy)
    text = (copy / "sweep.yaml").read_text()
    for before, after in SMALL.items():
        assert before in text, before
        text = text.replace(before, after)
    (copy / "sweep.yaml").write_text(text)
    (copy / "data").symlink_to(folder / "data")
    return copy


def of_journal(directory, batch):
    """The best accuracy, and the samples after which TARGET was met first."""
    values = []
    for journal in sorted((directory / "attempts").glob("*/journal.jsonl")):
        records = map(json.loads, journal.read_text().splitlines())
        values += [(each["step"] * batch, each["mlm_accuracy"]) for each in records if each["type"] == "eval"]
    return max(value for _, value in values), min((samples for samples, value in values if value >= TARGET), default=None)


def the_tables_are_those_of_the_journals(build, folder):
    if not shutil.which("mpirun"):
        raise Skipped("needs mpirun")
    served = Served(build, folder)
    try:
        study = small_study(folder)
        output = study / "study.json"
        command = [sys.executable, study / "study.py", "--batches", "16,64", "--seeds", "1,2", "--clip-batches", "16", "--target",
                   str(TARGET), "--output", output]
        environment = {**served.environment, "PATH": f"{build / 'orchestrator'}:{os.environ['PATH']}"}
        first = Follower(command, env=environment)
        first.until("the first cell is searched", lambda: "adamw, 16: 0" in first.errors, 200)
        first.end(signal.SIGKILL)
        assert not output.exists()
        runs_before = {each["id"] for each in served.ask("GET", "/runs?limit=1000")["runs"]}
        second = Follower(command, env=environment)
        assert second.end(seconds=300) == 0, second.errors
        told = json.loads(output.read_text())
        runs = {each["id"] for each in served.ask("GET", "/runs?limit=1000")["runs"]}
        searched = 4 * 3
        assert runs_before < runs and len(runs) == searched + 4 * 2 + 4 * 2, len(runs)  # none twice
        assert [(each["optimizer"], each["batch"]) for each in told["cells"]] == [
            ("adamw", 16), ("lamb", 16), ("adamw", 64), ("lamb", 64)]
        assert [each["clip"] for each in told["clips"]] == ["none", "global", "bucket", "rank"]
        assert told["samples"] == 1728 and told["seconds"] > 0, told
        for row in told["cells"] + told["clips"]:
            assert [each["state"] for each in row["seeds"]] == ["succeeded"] * 2, row
            for seed, each in enumerate(row["seeds"], 1):
                directory = served.data / "runs" / each["run"]
                config = json.loads((directory / "run.json").read_text())
                assert config["seed"] == seed and config["batch"]["size"] == row["batch"], config
                assert each["samples"] == 1728
                best, reached = of_journal(directory, row["batch"])
                assert (each["best"], each["samples_to_target"]) == (best, reached), (each, best, reached)
                clip = row.get("clip") or row["values"]["clip.mode"]
                assert config["clip"]["mode"] == clip and config["optimizer"]["name"] == row["optimizer"], config
        best = {row["optimizer"]: statistics.mean(each["best"] for each in row["seeds"])
                for row in told["cells"] if row["batch"] == 16}
        assert best[told["clips"][0]["optimizer"]] == max(best.values()), best
        row = told["cells"][0]["seeds"]
        mean, deviation = statistics.mean(each["best"] for each in row), statistics.stdev(each["best"] for each in row)
        assert f"| adamw, 16 | {mean:.4f} ± {deviation:.4f} |" in second.output, second.output
    finally:
        served.close()


CASES = [the_tables_are_those_of_the_journals]


def main(build):
    with tempfile.TemporaryDirectory(prefix="regatta-study-") as folder:
        return conclude(run_cases("study", CASES, pathlib.Path(build).resolve(), pathlib.Path(folder)))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
