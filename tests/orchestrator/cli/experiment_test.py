#!/usr/bin/env python3
"""An experiment of layouts on 2 CPU ranks: its runs one after another, its table, and a client that is killed.

    experiment_test.py BUILD      a build folder with regatta and regatta-train

The table is compared with figures that this program computes from the runs' journals. The last line is
`N passed, N failed, N skipped`.
"""
import datetime
import json
import pathlib
import signal
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))
from served import Served, conclude, run_cases  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "release"
OVER = ("succeeded", "failed", "stopped", "cancelled")
RUN = """name: tiny
model: {{layers: 2, hidden: 64, heads: 2, feed_forward: 128, max_positions: 64}}
data: {{path: data, max_length: 48}}
batch: {{size: 8, micro: 2}}
optimizer: {{learning_rate: 0.001}}
steps: {steps}
evaluate: {{every: 10, samples: 32}}
statistics: {{every: 1, peak_tflops: 0.05}}
watchdog: {{seconds: 600}}
threads: 1
experiment:
  layouts:
  - {{data: 2}}
  - {{pipeline: 2, name: two-stages}}
  seeds: {seeds}
"""


class World(Served):
    def __init__(self, folder):
        super().__init__(BUILD, folder)

    def file(self, name="layouts.yaml", steps=24, seeds="[1, 2]", change=lambda text: text):
        path = self.folder / name
        path.write_text(change(RUN.format(steps=steps, seeds=seeds)))
        return path

    def runs_of(self, experiment):
        """In the order in which they were made."""
        runs = self.ask("GET", f"/runs?tag=experiment-{experiment}&full=true&order=ascending")["runs"]
        return [self.ask("GET", "/runs/" + run["id"]) for run in runs]


def moment(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def journal_of(run):
    paths = list((pathlib.Path(run["directory"]) / "attempts").glob("*/journal.jsonl"))
    assert len(paths) == 1, paths
    return [json.loads(line) for line in paths[0].read_text().splitlines()]


def weighted(steps, key):
    told = [step for step in steps if step.get(key) is not None]
    return sum(step[key] * step["step_seconds"] for step in told) / sum(step["step_seconds"] for step in told) if told else None


def bubble(steps, key):
    """All waiting over all computing: a step's ratio times what it was divided by, over the sum of that."""
    told = [(step[key], step["step_seconds"] / (1 + step.get("bubble", step[key]))) for step in steps if step.get(key) is not None]
    return sum(ratio * computing for ratio, computing in told) / sum(computing for _, computing in told) if told else None


def figures_of(run):
    """As docs/metrics.md defines them."""
    records = journal_of(run)
    steps = [record for record in records if record["type"] == "step"]
    losses = {record["step"]: record["mlm_loss"] for record in records if record["type"] == "eval"}
    seconds = sum(step["step_seconds"] for step in steps)
    noise = [step for step in steps if step.get("efficiency") is not None][-1]
    rate = sum(step["samples"] for step in steps) / seconds
    return {"run_seconds": steps[-1]["seconds"] - (steps[0]["seconds"] - steps[0]["step_seconds"]), "samples_per_second": rate,
            "tokens_per_second": sum(step["tokens"] for step in steps) / seconds, "validation_loss": losses[max(losses)],
            "utilisation": weighted(steps, "utilisation"), "mfu": weighted(steps, "mfu"),
            "noise_scale": noise.get("noise_scale"), "efficiency": noise["efficiency"], "goodput": rate * noise["efficiency"],
            "bubble": bubble(steps, "bubble"), "bubble_predicted": bubble(steps, "bubble_predicted")}


def near(one, other, relative=1e-9):
    return one == other if one is None or other is None else abs(one - other) <= relative * max(abs(one), abs(other), 1e-12)


def a_killed_client_goes_on_and_makes_no_run_twice(world):
    words = ("experiment", "parallel", world.file(), "--id", "first", "-o", "json")
    client = world.begin(*words)
    client.until("two runs", lambda: len(world.runs_of("first")) == 2, 200)
    assert client.end(signal.SIGKILL) == -signal.SIGKILL
    deadline = time.monotonic() + 200
    while not all(run["state"] in OVER for run in world.runs_of("first")):
        assert time.monotonic() < deadline, "the run that was under way does not end"
        time.sleep(0.2)
    before = [run["id"] for run in world.runs_of("first")]
    assert len(before) == 2, "nobody submits the next one"
    done = world.call(*words)
    assert done.returncode == 0, done.stderr
    runs = world.runs_of("first")
    assert [run["id"] for run in runs][:2] == before and len(runs) == 4, runs
    assert len({(run["config"]["seed"], run["config"].get("parallel", {}).get("pipeline", 1)) for run in runs}) == 4, runs
    for earlier, later in zip(runs, runs[1:]):
        assert moment(earlier["ended_at"]) <= moment(later["created_at"]), "they were at once"
    first = [run["config"].get("parallel", {}).get("pipeline", 1) for run in runs]
    assert first[:2] == first[3:1:-1], f"of two seeds the second has the layouts the other way round: {first}"
    assert json.loads(done.stdout) == json.loads(world.call("experiment", "show", "first", "-o", "json").stdout)
    assert json.loads(done.stdout) == world.ask("GET", "/experiments/first")


def the_table_is_what_the_journals_say(world):
    table = json.loads(world.call("experiment", "show", "first", "-o", "json").stdout)
    runs = world.runs_of("first")
    assert [layout["name"] for layout in table["layouts"]] == ["data2", "two-stages"], table
    assert table["runs_planned"] == 4 and table["loss_samples"] == 24 * 8 and table["notes"] == [], table
    for layout in table["layouts"]:
        stages = layout["pipeline"]
        own = [figures_of(run) for run in runs if run["config"].get("parallel", {}).get("pipeline", 1) == stages]
        assert layout["ranks"] == 2 and layout["succeeded"] == 2 == len(own) and layout["failed"] == [], layout
        for key, told in layout["figures"].items():
            values = [figures[key] for figures in own if figures[key] is not None]
            if not values:
                assert told is None, (key, told)
                continue
            # The store's axis of time is of UTC seconds, whose doubles are 0.2 µs apart.
            least = 1e-4 if key == "run_seconds" else 1e-6
            assert told["runs"] == len(values) and near(told["mean"], statistics.fmean(values), least), (key, told, values)
            deviation = statistics.stdev(values) if len(values) > 1 else None
            assert near(told["deviation"], deviation, 1e-3 if key == "run_seconds" else 1e-6), (key, told, values)
        for key in ("run_seconds", "samples_per_second", "tokens_per_second", "validation_loss", "utilisation", "mfu", "efficiency",
                    "goodput"):
            assert layout["figures"][key]["mean"] > 0, (key, layout)
        assert (layout["figures"]["bubble"] is not None) == (stages > 1) == (layout["figures"]["bubble_predicted"] is not None), layout


def it_goes_on_with_no_other_list_of_layouts(world):
    before = world.ask("GET", "/runs?archived=all&total=true")["total"]
    table = world.ask("GET", "/experiments/first")
    for old, new, why in (("{data: 2}", "{data: 2, name: foo}", "layout data2 is called foo here"),
                          ("{data: 2}", "{data: 1, name: data2}", "layout data2 was data2 and is data1 here"),
                          ("  - {data: 2}\n", "", "layout data2 is not here"),
                          ("[1, 2]", "[3, 2]", "seed 1 is not here"),
                          ("seeds: [1, 2]", "seeds: [3, 1, 2]\nseed: 9", "")):
        file = world.file("list.yaml", change=lambda text: text.replace(old, new))
        if not why:  # what is not of the list: told when the first run that is there is compared
            file.write_text(file.read_text().replace("0.001", "0.002"))
            why = "optimizer.learning_rate is 0.001 there and 0.002 here"
        done = world.call("experiment", "parallel", file, "--id", "first")
        assert done.returncode == 5 and why in done.stderr and "give another --id" in done.stderr, (new, done)
    assert world.ask("GET", "/runs?archived=all&total=true")["total"] == before
    assert world.ask("GET", "/experiments/first") == table


def it_is_listed_with_its_progress(world):
    told, = (row for row in world.ask("GET", "/experiments")["experiments"] if row["id"] == "first")
    runs = world.runs_of("first")
    assert (told["planned"], told["runs"], told["finished"], told["states"]) == (4, 4, 4, {"succeeded": 4}), told
    assert (told["name"], told["layouts"]) == ("tiny", ["data2", "two-stages"]), told
    assert told["begun"] == runs[0]["created_at"] and told["changed"] == max(run["ended_at"] for run in runs), told


def layouts_train_the_same(world):
    table = json.loads(world.call("experiment", "show", "first", "-o", "json").stdout)
    losses = {}
    for run in table["runs"]:
        losses.setdefault(run["seed"], []).append(run["figures"]["validation_loss"])
    assert set(losses) == {1, 2}, losses
    for seed, (one, other) in losses.items():
        assert near(one, other, 1e-4), (seed, one, other)
    assert not near(*[values[0] for values in losses.values()], 1e-4), "seeds make a difference that layouts do not"
    assert near(table["agreement"]["loss_difference"], max(abs(one - other) for one, other in losses.values()), 1e-6), table
    assert table["agreement"]["noise_scale"] is True, table["agreement"]


def text_and_markdown_say_the_same(world):
    text, markdown = (world.call("experiment", "show", "first", "-o", form) for form in ("text", "markdown"))
    assert text.returncode == markdown.returncode == 0, (text.stderr, markdown.stderr)
    yaml = world.call("experiment", "show", "first", "-o", "yaml").stdout.splitlines()
    assert yaml[0] == '"experiment": "first"' and '"runs_planned": 4' in yaml, yaml[:9]
    rows = [line.strip("|").split("|") for line in markdown.stdout.splitlines() if line.startswith("| ")]
    assert len(rows) > 15, markdown.stdout
    lines = [" ".join(line.split()) for line in text.stdout.splitlines()]
    for row in rows:
        assert " ".join(" ".join(row).split()) in lines, (row, text.stdout)
    for shown in (text.stdout, markdown.stdout):
        assert "agree between layouts" in shown and "docs/metrics.md" in shown and "116.27" in shown, shown


def a_run_that_does_not_succeed_is_named_and_left_out(world):
    file = world.file("long.yaml", steps=100000, seeds="[5]", change=lambda text: text.replace("name: tiny", "name: long"))
    client = world.begin("experiment", "parallel", file, "--id", "second")
    for count in (1, 2):
        client.until("a run that trains", lambda: len(runs := world.runs_of("second")) == count and runs[-1]["step"] > 0, 200)
        world.ask("POST", f"/runs/{world.runs_of('second')[-1]['id']}/cancel")
    assert client.end(seconds=200) == 1, client.errors
    runs = world.runs_of("second")
    assert [run["state"] for run in runs] == ["cancelled", "cancelled"], runs
    table = json.loads(world.call("experiment", "show", "second", "-o", "json").stdout)
    assert sorted(sum((layout["failed"] for layout in table["layouts"]), [])) == sorted(run["id"] for run in runs), table
    for layout in table["layouts"]:
        assert layout["succeeded"] == 0 and set(layout["figures"].values()) == {None}, layout
    for run in runs:
        assert f"Left out: {run['id']} (" in client.output and f"{run['id']} cancelled" in client.errors, (client.output, client.errors)
    assert table["agreement"]["noise_scale"] is None, table
    again = world.call("experiment", "parallel", file, "--id", "second")
    assert again.returncode == 1 and len(world.runs_of("second")) == 2, again
    for run in runs:
        assert f"`regatta resume {run['id']}` tries it again, after `regatta rm {run['id']}`" in again.stderr, again.stderr


def an_interrupted_client_says_how_to_go_on(world):
    file = world.file("other.yaml", steps=100000, seeds="[6]", change=lambda text: text.replace("name: tiny", "name: other"))
    client = world.begin("experiment", "parallel", file, "--id", "third")
    client.until("a run", lambda: len(world.runs_of("third")) == 1 and "run 1 of 2" in client.errors, 200)
    assert client.end(signal.SIGINT) == 130, client.errors
    run = world.runs_of("third")[0]
    assert run["state"] not in OVER, "it goes on"
    assert f"detached; {run['id']} goes on; `regatta experiment parallel --id third {file}`" in client.errors, client.errors
    world.ask("POST", f"/runs/{run['id']}/cancel")
    changed = world.file("other.yaml", steps=50, seeds="[6]", change=lambda text: text.replace("name: tiny", "name: other"))
    done = world.call("experiment", "parallel", changed, "--id", "third")
    assert done.returncode == 5 and "was made of another file: steps is 100000 there and 50 here; go on" in done.stderr, done
    assert len(world.runs_of("third")) == 1


def a_dry_run_shows_the_order_and_makes_nothing(world):
    before = world.ask("GET", "/runs?archived=all&total=true")["total"]
    done = world.call("experiment", "parallel", world.file("dry.yaml", seeds="[1, 2, 3]"), "--dry-run", "-o", "json")
    assert done.returncode == 0, done
    preview = json.loads(done.stdout)
    assert [run["run"] for run in preview["runs"]] == [1, 2, 3, 4, 5, 6] and len(preview["layouts"]) == 2, preview
    assert [run["seed"] for run in preview["runs"]] == [1, 1, 2, 2, 3, 3], preview
    assert "tiny-two-stages-s3" in world.call("experiment", "parallel", world.folder / "dry.yaml", "--dry-run").stdout
    assert world.ask("GET", "/runs?archived=all&total=true")["total"] == before


def bad_input_is_one_clear_line(world):
    def changed(old, new):
        return world.file("bad.yaml", change=lambda text: text.replace(old, new))

    cases = [(("parallel", changed("pipeline: 2", "pipeline: 3")), 7, "experiment.layouts[1].pipeline: is 3, and the model has 2 layers"),
             (("show", "nobody"), 3, "no run has the tag experiment-nobody"),
             (("show", "a b"), 2, "the id is 'a b'"),
             (("parallel", world.folder), 7, "is a directory; name a file"),
             (("parallel", world.file(), "--dry-run", "-o", "markdown"), 2, "use -o text, json or yaml"),
             (("parallel", world.file(), "--id", "a/b"), 2, "--id is 'a/b'"), (("parallel", world.file(), "--id", ".."), 2, "--id is '..'"),
             (("show", "."), 2, "the id is '.'"), (("parallel", world.file(), "--id", ""), 2, "--id is ''")]
    for words, code, message in cases:
        if message.startswith("experiment."):
            changed("pipeline: 2", "pipeline: 3")
        done = world.call("experiment", *words)
        assert done.returncode == code and message in done.stderr and done.stderr.count("\n") == 1, (words, done)
    plain = world.call("submit", world.file())
    assert plain.returncode == 7 and "start them with `regatta experiment parallel`" in plain.stderr, plain
    for words in (("submit", world.folder), ("sweep", "submit", world.folder)):
        done = world.call(*words)
        assert done.returncode == 7 and done.stderr.endswith(" is a directory; name a file\n"), done


def a_submission_that_waits_says_once_what_came_of_it(world):
    file = world.folder / "one.yaml"
    file.write_text(RUN[:RUN.index("experiment:")].format(steps=20))
    done = world.call("submit", file, "--wait", "-o", "json")
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)
    assert (run["state"], run["step"]) == ("succeeded", 20) and world.ask("GET", "/runs/" + run["id"])["ended_at"] == run["ended_at"], run
    done = world.call("submit", file, "--wait", "-o", "name")
    assert done.returncode == 0 and done.stdout.count("\n") == 1 and world.ask("GET", "/runs/" + done.stdout.strip())["step"] == 20, done


def main():
    with tempfile.TemporaryDirectory() as folder:
        world = World(pathlib.Path(folder))
        try:
            results = run_cases("experiment", [
                bad_input_is_one_clear_line, a_dry_run_shows_the_order_and_makes_nothing,
                a_killed_client_goes_on_and_makes_no_run_twice, the_table_is_what_the_journals_say, it_is_listed_with_its_progress,
                it_goes_on_with_no_other_list_of_layouts, a_submission_that_waits_says_once_what_came_of_it, layouts_train_the_same,
                text_and_markdown_say_the_same, a_run_that_does_not_succeed_is_named_and_left_out,
                an_interrupted_client_says_how_to_go_on], world)
        finally:
            world.close()
    return conclude(results)


if __name__ == "__main__":
    sys.exit(main())
