#!/usr/bin/env python3
"""`regatta advise`: on machines that are described, by short runs on 2 CPU ranks, and what it refuses.

    advise_test.py BUILD      a build folder with regatta and regatta-train

Figures are compared with formulas and journals that this program reads by itself, and steps with those of `regatta simulate`.
The last line is `N passed, N failed, N skipped`.
"""
import csv
import io
import json
import math
import pathlib
import signal
import statistics
import sys
import tempfile
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))
from served import Served, conclude, run_cases  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "release"
CLUSTER = ROOT / "topology" / "examples" / "dgx-h100.yaml"
LARGE = """name: large
model: {preset: large}
data: {path: nowhere, max_length: 512}
device: cuda
dtype: bfloat16
batch: {size: 512}
steps: 5000
evaluate: {every: 100, samples: 10000}
target: {metric: mlm_accuracy, value: 0.72}
"""
TINY = """name: tiny
model: {layers: 2, hidden: 64, heads: 2, feed_forward: 128, max_positions: 64}
data: {path: data, max_length: 48}
batch: {size: 16}
optimizer: {learning_rate: 0.001}
steps: 200
evaluate: {every: 20, samples: 32}
statistics: {every: 4, peak_tflops: 0.05}
watchdog: {seconds: 600}
threads: 1
"""


class World(Served):
    def __init__(self, folder):
        super().__init__(BUILD, folder)

    def file(self, name, text):
        (self.folder / name).write_text(text)
        return self.folder / name

    def told(self, *words):
        done = self.call(*words)
        assert done.returncode == 0, (words, done.stderr)
        return json.loads(done.stdout)

    def advise(self, *words):
        large = self.file("large.yaml", LARGE)
        return self.told("advise", large, "--cluster", CLUSTER, "--vocabulary", "30522", *words, "-o", "json")


def journal_of(run):
    (path,) = (pathlib.Path(run["directory"]) / "attempts").glob("*/journal.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def near(one, other, relative=1e-6):
    return abs(one - other) <= relative * max(abs(one), abs(other))


def rows_are_the_formulas_of_simulated_steps(world):
    noise, samples = 1500, 3e6
    told = world.advise("--nodes", "1..8", "--batches", "128..8192", "--noise-scale", noise, "--noise-low", 1000, "--noise-high", 2500,
                        "--samples-to-target", samples)
    assert [(row["nodes"], row["batch"]) for row in told["rows"]] == [
        (nodes, batch) for nodes in (1, 2, 4, 8) for batch in (128, 256, 512, 1024, 2048, 4096, 8192)], told["rows"]
    for row in told["rows"]:
        every = max(1, math.floor(100 * 512 / row["batch"] + 0.5))
        needed = {scale: samples * (scale + row["batch"]) / (scale + 512) for scale in (noise, 1000, 2500)}
        steps = math.ceil(needed[noise] / row["batch"] - 1e-9)
        seconds = steps * row["step_seconds"]["value"] + steps / every * row["evaluation_seconds"]
        assert near(row["samples"]["value"], needed[noise]) and row["steps"] == steps, row
        assert near(row["samples"]["low"], min(needed.values())) and near(row["samples"]["high"], max(needed.values())), row
        assert near(row["seconds"]["value"], seconds) and near(row["gpu_hours"]["value"], seconds * row["ranks"] / 3600), row
        assert near(row["efficiency"], (noise + 1) / (noise + row["batch"])) and row["ranks"] == 8 * row["nodes"], row
        assert row["step_seconds"]["low"] <= row["step_seconds"]["value"] <= row["step_seconds"]["high"], row
        beaten = any(other["seconds"]["value"] <= row["seconds"]["value"] and other["gpu_hours"]["value"] < row["gpu_hours"]["value"] or
                     other["seconds"]["value"] < row["seconds"]["value"] and other["gpu_hours"]["value"] <= row["gpu_hours"]["value"]
                     for other in told["rows"])
        assert row["on_front"] == (not beaten), row
    best = {name: told["rows"][told["best"][name]["row"]] for name in ("tta", "gpu-hours", "goodput")}
    assert best["tta"]["seconds"]["value"] == min(row["seconds"]["value"] for row in told["rows"])
    assert best["gpu-hours"]["gpu_hours"]["value"] == min(row["gpu_hours"]["value"] for row in told["rows"])
    assert best["goodput"]["goodput"]["value"] == max(row["goodput"]["value"] for row in told["rows"])


def steps_are_those_of_simulate(world):
    told = world.advise("--nodes", "2", "--batches", "1024", "--noise-scale", "1500")
    simulated = world.told("simulate", world.folder / "large.yaml", "--cluster", CLUSTER, "--vocabulary", "30522", "--nodes", "2",
                           "--samples-per-rank", "64", "--steps", "50", "-o", "json")
    (row,) = told["rows"]
    assert near(row["step_seconds"]["value"], simulated["runs"][0]["step"]["seconds"], 1e-9), (row, simulated["runs"][0])


def every_form_has_the_same_figures(world):
    words = ("advise", world.file("large.yaml", LARGE), "--cluster", CLUSTER, "--vocabulary", "30522", "--nodes", "1,2,3", "--batches",
             "256,1024", "--noise-scale", "1500")
    told = world.told(*words, "-o", "json")
    rows = list(csv.DictReader(io.StringIO(world.call(*words, "-o", "csv").stdout)))
    assert len(rows) == len(told["rows"]) == 6
    for one, other in zip(rows, told["rows"]):
        assert near(float(one["seconds"]), other["seconds"]["value"]) and near(float(one["gpu_hours_high"]), other["gpu_hours"]["high"])
    picture = xml.etree.ElementTree.fromstring(world.call(*words, "-o", "svg").stdout)
    assert len(list(picture.iter("{http://www.w3.org/2000/svg}circle"))) == 6
    text, markdown = (world.call(*words, "-o", form).stdout for form in ("text", "markdown"))
    best = told["rows"][told["best"]["tta"]["row"]]
    for shown in (text, markdown):
        assert f"Soonest: {best['nodes']} node" in shown and f"batch {best['batch']:,}" in shown, shown
        assert "noise scale 1,500 samples" in shown and "assumed: those of the run file's steps" in shown, shown


def short_runs_tell_steps_and_noise(world):
    file = world.file("tiny.yaml", TINY)
    words = ("advise", file, "--probe", "--ranks", "1,2", "--batches", "8,16,32", "--probe-steps", "32", "--id", "one")
    told = world.told(*words, "-o", "json")
    runs = [world.ask("GET", "/runs/" + run["id"]) for run in world.ask("GET", "/runs?tag=probe-one")["runs"]]
    assert sorted((run["config"]["ranks"], run["config"]["batch"]["size"]) for run in runs) == [(1, 8), (1, 32), (2, 8), (2, 32)], runs
    assert len(told["rows"]) == 6, told["rows"]
    medians, widths = {}, {}
    for run in runs:
        steps = [record for record in journal_of(run) if record["type"] == "step"]
        assert len(steps) == 32 and run["config"]["optimizer"]["decay_steps"] == 200, run["config"]
        looks = [step["step"] for step in steps if step["statistics_seconds"] > 0.1 * step["step_seconds"]]
        plain = [step["step_seconds"] for step in steps if step["step"] % 2]
        assert all(step % 2 == 0 for step in looks) and looks, looks
        medians[run["config"]["ranks"], run["config"]["batch"]["size"]] = statistics.median(plain[max(3, len(plain) // 5):])
        last = [step for step in steps if step.get("noise_scale_low")][-1]
        if last.get("noise_scale") and last.get("noise_scale_high"):
            widths[last["noise_scale_high"] / last["noise_scale_low"]] = last["noise_scale"]
    for row in told["rows"]:
        low, high = medians[row["ranks"], 8], medians[row["ranks"], 32]
        slope = (high - low) / 24
        if slope > 0 and low - 8 * slope >= 0:
            assert near(row["step_seconds"]["value"], low + slope * (row["batch"] - 8), 1e-5), (row, medians)
    if widths:
        assert near(told["noise_scale"]["value"], widths[min(widths)], 1e-5), (told["noise_scale"], widths)
    again = world.told(*words, "-o", "json")
    assert again == told and len(world.ask("GET", "/runs?tag=probe-one")["runs"]) == 4, "nothing is made twice"


def an_earlier_run_tells_noise_and_samples(world):
    text = TINY.replace("steps: 200", "steps: 400") + "target: {metric: mlm_loss, value: 3.6}\n"
    name = world.call("submit", world.file("pilot.yaml", text), "--wait", "-o", "name").stdout.split()[0]
    run = world.ask("GET", "/runs/" + name)
    records = journal_of(run)
    met = next((record for record in records if record["type"] == "eval" and record["target_met"]), None)
    assert met and met["step"] > 0, [record for record in records if record["type"] == "eval"]
    words = ("advise", world.folder / "pilot.yaml", "--probe", "--ranks", "1", "--batches", "16,32", "--probe-steps", "24", "--id", "two",
             "--run", name)
    noise = [record for record in records if record["type"] == "step" and record.get("noise_scale")]
    if not noise:
        done = world.call(*words)
        assert done.returncode == 0 or done.returncode == 7 and name in done.stderr, done
        words += ("--noise-scale", "40")
    told = world.told(*words, "-o", "json")
    assert told["target"]["samples"] == met["step"] * 16 and told["target"]["batch"] == 16 and name in told["target"]["from"], (
        told["target"], told["notes"])
    if noise:
        assert near(told["noise_scale"]["value"], noise[-1]["noise_scale"]) and name in told["noise_scale"]["from"], told["noise_scale"]
    other = world.file("other.yaml", text.replace("hidden: 64", "hidden: 128"))
    done = world.call("advise", other, "--probe", "--run", name)
    assert done.returncode == 7 and "trained another model" in done.stderr and done.stderr.count("\n") == 1, done


def an_extended_run_tells_when_it_met_this_target(world):
    """Its own target is another by then, and what it met first is not what the run file asks for."""
    text = TINY.replace("steps: 200", "steps: 400").replace("every: 20", "every: 2") + "target: {metric: mlm_loss, value: %s}\n"
    name = world.call("submit", world.file("far.yaml", text % 4.1), "--wait", "-o", "name").stdout.split()[0]
    first = world.ask("GET", "/runs/" + name)
    done = world.call("extend", name, "--target", "3.6", "--steps", "800")
    assert done.returncode == 0, done
    world.call("watch", name)
    values = [(row["step"], row["value"]) for row in world.ask("GET", f"/runs/{name}/history?limit=10000&since=0")["rows"]
              if row["type"] == "evaluation" and not row["abandoned"]]
    for target in (4.1, 3.9, 3.6):
        met = next(step for step, value in values if value <= target)
        told = world.told("advise", world.file("far.yaml", text % target), "--probe", "--ranks", "1", "--batches", "16", "--probe-steps", "24",
                          "--id", "far", "--run", name, "--noise-scale", "40", "-o", "json")
        assert told["target"]["samples"] == met * 16, (target, told["target"], values)
    assert first["step"] < met, (first["step"], values)
    changed = world.file("far.yaml", (text % 3.6).replace("max_length: 48", "max_length: 32").replace("0.001", "0.002"))
    told = world.told("advise", changed, "--probe", "--ranks", "1", "--batches", "16", "--probe-steps", "24", "--run", name, "--noise-scale",
                      "40", "-o", "json")
    assert "assumed" in told["target"]["from"] and any("differs from the run file in data, optimizer" in note for note in told["notes"]), told


def the_first_probe_that_fails_is_the_last(world):
    file = world.file("bad.yaml", TINY.replace("path: data", "path: nowhere"))
    done = world.call("advise", file, "--probe", "--ranks", "1,2", "--batches", "8,16", "--probe-steps", "24", "--id", "bad")
    (run,) = world.ask("GET", "/runs?tag=probe-bad")["runs"]
    assert done.returncode == 7 and done.stdout == "", done
    assert f"no probe succeeded; mend what `regatta show {run['id']}` tells" in done.stderr and "probe bad: 4 runs" in done.stderr, done


def rows_that_stages_cannot_have_are_left_out(world):
    staged = world.file("staged.yaml", LARGE.replace("{size: 512}", "{size: 512, micro: 16}") + "parallel: {pipeline: 2}\n")
    told = world.told("advise", staged, "--cluster", CLUSTER, "--vocabulary", "30522", "--nodes", "1,2", "--batches", "32..2048",
                      "--noise-scale", "1500", "-o", "json")
    assert 0 < len(told["rows"]) < 14 and any(" left out, the first: " in note for note in told["notes"]), told["notes"]


def an_interrupted_probe_says_how_to_go_on(world):
    file = world.file("slow.yaml", TINY.replace("name: tiny", "name: slow"))
    client = world.begin("advise", file, "--probe", "--probe-steps", "100000", "--id", "three")
    client.until("a run", lambda: "run 1 of" in client.errors, 200)
    assert client.end(signal.SIGINT) == 130, client.errors
    (run,) = world.ask("GET", "/runs?tag=probe-three")["runs"]
    assert f"detached; {run['id']} goes on; the same command with --id three goes on" in client.errors, client.errors
    world.call("cancel", run["id"])


def bad_input_is_one_clear_line(world):
    large, tiny = world.file("large.yaml", LARGE), world.file("tiny.yaml", TINY)
    cluster = ("--cluster", CLUSTER, "--vocabulary", "30522")
    cases = [((large,), 2, "needs machines"),
             ((large, *cluster, "--probe"), 2, "give one of them"),
             ((large, *cluster), 7, "the gradient's noise scale is not known; name an earlier run with --run, or give --noise-scale"),
             ((large, *cluster, "--noise-scale", "10", "--nodes", "0"), 2, "--nodes is '0'"),
             ((large, *cluster, "--noise-scale", "10", "--nodes", "8..2"), 2, "counts down"),
             ((large, *cluster, "--noise-scale", "10", "--nodes", "1.."), 2, "--nodes is '1..'"),
             ((large, *cluster, "--noise-scale", "10", "--batches", "4"), 7, "8 ranks with a batch of 4: there are fewer samples than ranks"),
             ((large, *cluster, "--noise-scale", "0"), 2, "--noise-scale"),
             ((large, *cluster, "--noise-low", "3"), 2, "which is missing"),
             ((large, *cluster, "--noise-scale", "10", "--noise-low", "30"), 2, "--noise-low is above"),
             ((large, *cluster, "--noise-scale", "10", "--noise-high", "3"), 2, "--noise-high is below"),
             ((large, *cluster, "--noise-scale", "10", "--ranks", "2"), 2, "--ranks, --probe-steps and --id are of --probe"),
             ((tiny, "--probe", "--nodes", "2"), 2, "are of --cluster; --probe measures"),
             ((tiny, "--probe", "--ranks", "64", "--batches", "8"), 7, "there is nothing to probe: 64 ranks, batch 8 is left out"),
             ((tiny, "--probe", "--server", f"unix:{world.folder}/nobody"), 6, "nobody"),
             ((large, *cluster, "--run", "nobody"), 3, "nobody"),
             ((world.file("grows.yaml", LARGE.replace("{size: 512}", "{size: 512, growth: square_root, max_size: 4096}")), *cluster,
               "--noise-scale", "10"), 7, "batch.growth: advice compares batches that stay as they are"),
             ((tiny, "--probe", "--id", "a/b"), 2, "--id is 'a/b'"), ((tiny, "--probe", "--id", ""), 2, "--id is ''")]
    for words, code, message in cases:
        done = world.call("advise", *words)
        assert done.returncode == code and message in done.stderr and done.stdout == "", (words, done)
        assert code == 2 or done.stderr.count("\n") == 1, (words, done.stderr)


def main():
    with tempfile.TemporaryDirectory() as folder:
        world = World(pathlib.Path(folder))
        try:
            results = run_cases("advise", [
                bad_input_is_one_clear_line, rows_are_the_formulas_of_simulated_steps, steps_are_those_of_simulate,
                every_form_has_the_same_figures, short_runs_tell_steps_and_noise, an_earlier_run_tells_noise_and_samples,
                an_extended_run_tells_when_it_met_this_target, the_first_probe_that_fails_is_the_last,
                rows_that_stages_cannot_have_are_left_out,
                an_interrupted_probe_says_how_to_go_on], world)
        finally:
            world.close()
    return conclude(results)


if __name__ == "__main__":
    sys.exit(main())
