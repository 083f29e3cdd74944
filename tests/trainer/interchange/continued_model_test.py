#!/usr/bin/env python3
"""Training goes on elsewhere from an exported model, or from a checkpoint, as if it had never been broken off.

    continued_model_test.py BUILD      a build folder with regatta-train

Of each task one run is trained without a break. What goes on from its twelfth step must have its losses to within
1e-5, also where the first run and its dataset are gone. The last line is `N passed, N failed, N skipped`.
"""
import csv
import json
import math
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))
from served import Skipped, conclude, run_cases  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "release"
TRAINER = BUILD / "trainer" / "regatta-train"
HALF, STEPS, EXAMPLES = 12, 24, 240
CLOSE = 1e-5
TASKS = {"pretraining": ("BertForPreTraining", "mlm_loss"), "classification": ("BertForSequenceClassification", "loss"),
         "question-answering": ("BertForQuestionAnswering", "loss")}
RUN = """name: {task}
task: {task}
model: {{layers: {layers}, hidden: {hidden}, heads: {heads}, feed_forward: {feed_forward}, max_positions: {positions},
  gelu: {gelu}, dropout: {dropout}, attention_dropout: {dropout}}}
data: {{path: {data}, max_length: 64}}
batch: {{size: {batch}, micro: {micro}}}
optimizer: {{learning_rate: 0.003, warmup_steps: 4, decay_steps: 30}}
threads: {threads}
steps: {steps}
evaluate: {{every: 12}}
checkpoint: {{every: 12}}
"""
USUAL = {"layers": 2, "hidden": 64, "heads": 2, "feed_forward": 128, "positions": 64, "gelu": "erf", "dropout": 0.1, "batch": 8,
         "micro": 0, "threads": 1, "steps": STEPS}


def call(*words, code=0):
    """What it wrote to stderr, without what is only information."""
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run([TRAINER, *map(str, words)], capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == code, (words, done.returncode, done.stderr)
    return [line for line in done.stderr.splitlines() if " info " not in line]


def records(run, kind):
    lines = [line for path in sorted(run.glob("attempts/*/journal.jsonl")) for line in path.read_text().splitlines()]
    return [record for record in map(json.loads, lines) if record["type"] == kind]


def losses(run):
    return {record["step"]: record["loss"] for record in records(run, "step")}


def furthest(some, others):
    return max(abs(loss - others[step]) for step, loss in some.items())


class World:
    """Datasets of all tasks, and of each a run of 24 steps that was never broken off."""

    def __init__(self, folder):
        self.folder = folder
        for kind in ("register", "log", "remarks", "questions"):
            subprocess.run([sys.executable, ROOT / "examples" / "make_data.py", kind], cwd=folder, check=True, timeout=60)
        self.data = {task: folder / f"data-{task}" for task in TASKS}
        text = self.data["pretraining"]
        call("prepare", folder / "register.txt", "-o", text, "--train-vocab", 800)
        for task, kind in (("classification", "tsv"), ("question-answering", "json")):
            files = (folder / f"train.{kind}", folder / f"dev.{kind}")
            call("prepare", "--task", task, *files, "--vocab", text, "-o", self.data[task])
        self.whole = {task: self.train(f"whole-{task}", self.file(f"whole-{task}", task)) for task in TASKS}
        self.exports = {task: folder / f"export-{task}" for task in TASKS}
        for task, export in self.exports.items():
            call("export", "--checkpoint", self.half(task), "--output", export, "--with-optimizer")

    def half(self, task):
        return next((self.whole[task] / "checkpoints").glob(f"step-{HALF:010}-*"))

    def file(self, name, task, start=None, optimizer=True, **other):
        values = {"data": self.data[task], **USUAL, **other}
        text = RUN.format(task=task, **values) + ("questions: {max_question: 24}\n" if task == "question-answering" else "")
        if start is not None:
            text += f"from: {{path: {start}, optimizer: {json.dumps(optimizer)}}}\n"
        path = self.folder / f"{name}.yaml"
        path.write_text(text)
        return path

    def train(self, name, *words):
        call("run", "--directory", self.folder / name, *words)
        return self.folder / name

    def go_on(self, name, task, start, *words, **other):
        """The run that began with `start`, moments and all; its losses are those of the steps after HALF."""
        run = self.train(name, self.file(name, task, start, **other), *words)
        assert list(losses(run)) == list(range(HALF + 1, STEPS + 1)), list(losses(run))
        assert records(run, "eval")[0]["step"] == HALF
        return run


def exports_and_checkpoints_go_on_as_if_unbroken(world):
    for task, (_, loss) in TASKS.items():
        unbroken, evaluated = losses(world.whole[task]), records(world.whole[task], "eval")
        assert list(unbroken) == list(range(1, STEPS + 1)) and [record["step"] for record in evaluated] == [0, HALF, STEPS]
        for kind, start in (("export", world.exports[task]), ("checkpoint", world.half(task))):
            run = world.go_on(f"from-{kind}-{task}", task, start)
            assert furthest(losses(run), unbroken) < CLOSE, (task, kind, losses(run), unbroken)
            for mine, theirs in zip(records(run, "eval"), evaluated[1:], strict=True):
                a, b = (record["metrics"][loss] if task != "pretraining" else record[loss] for record in (mine, theirs))
                assert abs(a - b) < CLOSE, (task, kind, mine, theirs)
            for mine, theirs in zip(records(run, "step"), records(world.whole[task], "step")[HALF:], strict=True):
                assert all(mine[key] == theirs[key] for key in ("learning_rate", "samples", "tokens", "masked")), (mine, theirs)
            # Linear to 0 at step 30 from 4 steps of warm-up: the rate, too, is that of the run's step.
            rates = [record["learning_rate"] for record in records(run, "step")]
            expected = [0.003 * (30 - step + 1) / 26 for step in range(HALF + 1, STEPS + 1)]
            assert all(math.isclose(a, b, rel_tol=1e-6) for a, b in zip(rates, expected, strict=True)), (rates, expected)


def what_import_made_goes_on_as_if_unbroken(world):
    for task in TASKS:
        run = world.folder / f"imported-{task}"
        call("import", "--from", world.exports[task], "--run", world.file(f"imported-{task}", task), "--directory", run,
             "--with-optimizer")
        call("run", "--directory", run)
        assert list(losses(run)) == list(range(HALF + 1, STEPS + 1))
        assert furthest(losses(run), losses(world.whole[task])) < CLOSE, task


def another_way_of_computing_is_close(world):
    """Micro-batches and two threads, as on another machine; and two ranks."""
    unbroken = losses(world.whole["pretraining"])
    run = world.go_on("micro", "pretraining", world.exports["pretraining"], micro=3, threads=2)
    assert furthest(losses(run), unbroken) < CLOSE, (losses(run), unbroken)
    if not (BUILD / "trainer" / "libregatta-mpi.so").exists() or shutil.which("mpirun") is None:
        raise Skipped("two ranks need MPI and its plug-in")
    run = world.go_on("ranks", "pretraining", world.exports["pretraining"], "--ranks", 2)
    assert furthest(losses(run), unbroken) < CLOSE, (losses(run), unbroken)


def where_the_first_run_is_gone_an_export_is_enough(world):
    """Its dataset was copied. Once the new run has a checkpoint, it needs the export no more either."""
    there = world.folder / "elsewhere"
    shutil.copytree(world.data["pretraining"], there / "data")
    shutil.copytree(world.exports["pretraining"], there / "model")
    hidden = [(path, path.with_name(path.name + "-away"))
              for path in (world.whole["pretraining"], world.data["pretraining"], world.exports["pretraining"])]
    for path, away in hidden:
        path.rename(away)
    try:
        file = world.file("moved", "pretraining", there / "model", data=there / "data", steps=18)
        run = world.train("moved", file)
        shutil.rmtree(there / "model")
        world.train("moved", world.file("moved", "pretraining", there / "model", data=there / "data"))
    finally:
        for path, away in hidden:
            away.rename(path)
    assert list(losses(run)) == list(range(HALF + 1, STEPS + 1)), losses(run)
    assert furthest(losses(run), losses(world.whole["pretraining"])) < CLOSE


def moments_and_step_are_what_keeps_the_losses(world):
    """Without the one or the other they would not be close: the limit tells one from the other."""
    unbroken = losses(world.whole["pretraining"])
    for what in ("moments", "step"):
        model = world.folder / f"without-{what}"
        shutil.copytree(world.exports["pretraining"], model)
        file = model / "optimizer.safetensors"
        bytes_ = file.read_bytes()
        length = struct.unpack("<Q", bytes_[:8])[0]
        header = json.loads(bytes_[8:8 + length])
        values = bytes_[8 + length:]
        if what == "moments":
            values = bytes(len(values))
        else:
            assert header["__metadata__"]["step"] == str(HALF), header["__metadata__"]
            header["__metadata__"]["step"] = str(HALF - 1)
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        file.write_bytes(struct.pack("<Q", len(text)) + text + values)
        run = world.train(f"run-without-{what}", world.file(f"run-without-{what}", "pretraining", model))
        assert furthest({step: loss for step, loss in losses(run).items() if step > HALF}, unbroken) > 100 * CLOSE, what


def weights_alone_begin_at_nothing(world):
    for task, (model, loss) in TASKS.items():
        assert json.loads((world.exports[task] / "config.json").read_text())["architectures"] == [model]
        told = subprocess.check_output([TRAINER, "eval", world.half(task), "--json"], timeout=60)
        expected = json.loads(told)[loss]
        run = world.train(f"weights-{task}", world.file(f"weights-{task}", task, world.exports[task], optimizer=False))
        assert list(losses(run)) == list(range(1, STEPS + 1))
        first = records(run, "eval")[0]
        found = first[loss] if task == "pretraining" else first["metrics"][loss]
        assert first["step"] == 0 and abs(found - expected) < CLOSE, (first, expected)
        assert furthest({step: losses(run)[step] for step in (13, 24)}, losses(world.whole[task])) > 100 * CLOSE, task


def the_first_loss_is_that_of_the_predicted_probabilities(world):
    """A step with all training examples and no dropout: the mean of -ln p of each one's label, as `predict` tells p."""
    task = "classification"
    call("predict", world.exports[task], world.folder / "train.tsv", "--output", world.folder / "predicted")
    with open(world.folder / "train.tsv", newline="", encoding="utf-8") as given:
        labels = [row["label"] for row in csv.DictReader(given, delimiter="\t")]
    with open(world.folder / "predicted" / "predictions.tsv", newline="", encoding="utf-8") as made:
        rows = list(csv.DictReader(made, delimiter="\t"))
    assert len(labels) == EXAMPLES
    expected = sum(-math.log(float(row[label])) for row, label in zip(rows, labels, strict=True)) / EXAMPLES
    whole = {"batch": EXAMPLES, "dropout": 0, "steps": 1}
    run = world.train("first", world.file("first", task, world.exports[task], optimizer=False, **whole))
    assert abs(losses(run)[1] - expected) < CLOSE, (losses(run), expected)


def what_does_not_fit_is_told_in_one_line(world):
    """All differences at once, by what is asked first, by `import` and by the run itself."""
    task, export = "pretraining", world.exports["pretraining"]
    fewer, others = world.folder / "fewer", world.folder / "others"
    call("prepare", world.folder / "register.txt", "-o", fewer, "--train-vocab", 300)
    call("prepare", world.folder / "log.txt", "-o", others, "--train-vocab", 300)
    vocabularies = [(folder / "vocab.txt").read_text(encoding="utf-8").splitlines() for folder in (export, fewer, others)]
    assert vocabularies[0][:300] == vocabularies[1] != vocabularies[2]
    at = next(line for line in range(300) if vocabularies[0][line] != vocabularies[2][line])
    number = f"vocab.txt has {len(vocabularies[0])} pieces, the dataset 300"
    piece = f"vocab.txt: line {at + 1} is '{vocabularies[0][at]}', in the dataset it is '{vocabularies[2][at]}'"
    sizes = {"layers": (3, "num_hidden_layers is 2"), "hidden": (32, "hidden_size is 64"),
             "heads": (4, "num_attention_heads is 2"), "feed_forward": (64, "intermediate_size is 128")}
    cases = {key: ({key: value}, [f"{key} is {value}, {theirs}"]) for key, (value, theirs) in sizes.items()}
    cases |= {"positions": ({"positions": 96}, ["max_positions is 96, max_position_embeddings is 64"]),
              "activation": ({"gelu": "tanh"}, ["gelu is tanh, hidden_act means erf"]),
              "fewer-pieces": ({"data": fewer}, [number]), "other-pieces": ({"data": others}, [piece])}
    cases["everything"] = ({key: value for name in (*sizes, "positions", "activation", "other-pieces")
                            for key, value in cases[name][0].items()},
                           [part for name in (*sizes, "positions", "activation", "other-pieces") for part in cases[name][1]])
    for name, (other, expected) in cases.items():
        run, starting = world.folder / f"unfit-{name}", world.file(f"unfit-{name}", task, export, **other)
        told = [call("run", "--dry-run", starting, code=20),
                call("import", "--from", export, "--run", world.file(f"unfit-import-{name}", task, **other), "--directory", run,
                     "--with-optimizer", code=7)]
        assert not run.exists() and not list(world.folder.glob(f"{run.name}.*[!l]")), f"{name}: something was left"
        told.append(call("run", "--directory", run, starting, code=20))
        for lines in told:
            assert len(lines) == 1 and lines[0].count(" is ") == " ".join(expected).count(" is "), (name, lines)
            assert all(part in lines[0] for part in expected), (name, lines)
        ended = records(run, "end")
        assert [(record["reason"], record["step"], record["exit_code"]) for record in ended] == [("failed", 0, 20)], ended
        assert told[-1][0].endswith(ended[0]["message"]) and not losses(run) and not list((run / "checkpoints").iterdir())


def moments_of_another_task_are_refused(world):
    for task in ("classification", "question-answering"):
        file = world.file(f"other-{task}", task, world.exports["pretraining"])
        lines = call("run", "--dry-run", file, code=20)
        assert len(lines) == 1 and "the moments are of pretraining, the task is " + task in lines[0], lines
    bare = world.folder / "bare"
    call("export", "--checkpoint", world.half("pretraining"), "--output", bare)
    lines = call("run", "--dry-run", world.file("bare", "pretraining", bare), code=20)
    assert len(lines) == 1 and "from.optimizer" in lines[0], lines


def moments_behind_the_last_step_are_refused(world):
    """There is nothing to train, so no checkpoint would come of it."""
    for name, start in (("export", world.exports["pretraining"]), ("run", world.whole["pretraining"])):
        done = STEPS if name == "run" else HALF
        run = world.folder / f"over-{name}"
        lines = call("run", "--directory", run, world.file(f"over-{name}", "pretraining", start, steps=done), code=20)
        assert len(lines) == 1 and f"has done {done} steps, the run file asks for {done}; raise steps" in lines[0], lines


CASES = [exports_and_checkpoints_go_on_as_if_unbroken, what_import_made_goes_on_as_if_unbroken,
         another_way_of_computing_is_close, where_the_first_run_is_gone_an_export_is_enough,
         moments_and_step_are_what_keeps_the_losses, weights_alone_begin_at_nothing,
         the_first_loss_is_that_of_the_predicted_probabilities, what_does_not_fit_is_told_in_one_line,
         moments_of_another_task_are_refused, moments_behind_the_last_step_are_refused]


def main():
    with tempfile.TemporaryDirectory(prefix="regatta-continued-") as name:
        return conclude(run_cases("continued_model", CASES, World(pathlib.Path(name))))


if __name__ == "__main__":
    sys.exit(main())
