#!/usr/bin/env python3
"""Runs on several datasets with weights: what is drawn, on how many ranks, after a kill, evaluated, exported and refused.

    mixtures_test.py BUILD      a build folder with regatta and regatta-train

Sentences of one dataset have 5 pieces, of the other 11, so that the tokens of a step with one sample, as the journal
tells them, are a sample's length and tell its dataset. The last line is `N passed, N failed, N skipped`.
"""
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))
from served import NO_DEFAULTS, Skipped, conclude, run_cases, serve_here, server_of  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "release"
TRAINER, REGATTA = BUILD / "trainer" / "regatta-train", BUILD / "orchestrator" / "regatta"
ENVIRONMENT = {**os.environ, **NO_DEFAULTS, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
WORDS = {"boats": (5, "boat river wind sail oar crew race lake shore storm".split()),
         "bread": (11, "bread oven flour salt yeast dough crust baker knife table".split())}
CLOSE = 1e-5
BLOCK = 64  # after so many samples each dataset has given its share (docs/formats/run_file.md)
MODEL = "model: {layers: 1, hidden: 32, heads: 2, feed_forward: 64, max_positions: 128}\n"
RUN = """name: mixed
{model}data: {{{data}, max_length: 128, short_fraction: 0}}
batch: {{size: {batch}}}
optimizer: {{learning_rate: {rate}, schedule: constant}}
threads: 1
seed: {seed}
steps: {steps}
evaluate: {{every: {every}, samples: {samples}}}
checkpoint: {{every: {every}}}
{more}
"""
USUAL = {"model": MODEL, "rate": 0.001, "batch": 1, "seed": 1, "steps": 512, "every": 256, "samples": 64, "more": ""}


def call(*words, program=TRAINER, code=0):
    """Its stdout, and the lines of stderr that are not only information."""
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, timeout=120, env=ENVIRONMENT)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout, [line for line in done.stderr.splitlines() if " info " not in line]


def records(run, kind):
    """Whole ones, of all attempts in their order."""
    paths = sorted(run.glob("attempts/*/journal.jsonl"), key=lambda path: int(path.parent.name.split("-")[0]))
    lines = [line for path in paths for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return [record for record in map(json.loads, lines) if record["type"] == kind]


def tokens_of(run):
    return [record["tokens"] for record in records(run, "step")]


def dataset_of(length):
    """By the length of a sample: [CLS], two [SEP], and sentences of 5 or of 11 pieces; at most 8 sentences."""
    sentences, left = divmod(length - 3, 5)
    if left == 0 and 2 <= sentences <= 8:
        return "boats"
    sentences, left = divmod(length - 3, 11)
    assert left == 0 and 2 <= sentences <= 8, length
    return "bread"


class World:
    def __init__(self, folder):
        self.folder = folder
        chance = random.Random(1)
        for name, (length, words) in WORDS.items():
            documents = ["\n".join(" ".join(chance.choice(words) for _ in range(length)) for _ in range(4)) for _ in range(160)]
            (folder / f"{name}.txt").write_text("\n\n".join(documents) + "\n")
        files = [folder / f"{name}.txt" for name in WORDS]
        call("prepare", *files, "-o", folder / "both", "--train-vocab", 256)
        for name, file in zip(WORDS, files):
            call("prepare", file, "-o", folder / name, "--vocab", folder / "both" / "vocab.txt", "--held-out", 0.2)
        self.mixed = self.train("mixed", self.file("mixed"))

    def mixture(self, *weights):
        parts = ", ".join(f"{{path: {self.folder / name}, weight: {weight}}}" for name, weight in zip(WORDS, weights))
        return f"mixture: [{parts}]"

    def file(self, name, data=None, **other):
        path = self.folder / f"{name}.yaml"
        path.write_text(RUN.format(**{"data": data or self.mixture(3, 1), **USUAL, **other}))
        return path

    def train(self, name, *words):
        call("run", "--directory", self.folder / name, *words)
        return self.folder / name


def weights_say_how_often_a_dataset_is_drawn(world):
    order = [dataset_of(tokens) for tokens in tokens_of(world.mixed)]
    boats = [0]
    for name in order:
        boats.append(boats[-1] + (name == "boats"))
    assert len(order) == 512 and boats[BLOCK::BLOCK] == [48 * block for block in range(1, 9)], boats[BLOCK::BLOCK]
    behind = [count - 0.75 * number for number, count in enumerate(boats)]
    assert max(behind) <= 16.5 and min(behind) >= -16.5, behind
    assert len({tuple(order[at:at + BLOCK]) for at in range(0, 512, BLOCK)}) == 8, "each block has an order of its own"
    # Only ratios count; another seed is another order with the same shares.
    same = world.train("ratios", world.file("ratios", world.mixture(0.75, 0.25)))
    assert tokens_of(same) == tokens_of(world.mixed)
    other = [dataset_of(tokens) for tokens in tokens_of(world.train("seed", world.file("seed", seed=2)))]
    assert other != order and other.count("boats") == 384
    even = [dataset_of(tokens) for tokens in tokens_of(world.train("even", world.file("even", world.mixture(1, 1))))]
    assert even.count("boats") == even.count("bread") == 256


def samples_of_a_dataset_come_in_its_own_order(world):
    alone = tokens_of(world.train("alone", world.file("alone", f"path: {world.folder / 'boats'}", steps=384)))
    assert [tokens for tokens in tokens_of(world.mixed) if dataset_of(tokens) == "boats"] == alone
    one = f"mixture: [{{path: {world.folder / 'boats'}, weight: 7}}]"  # a list of one is no mixture
    assert tokens_of(world.train("one", world.file("one", one, steps=384))) == alone


def several_ranks_draw_the_same_samples(world):
    """And a step of four samples has those of four steps of one."""
    single = tokens_of(world.mixed)
    runs = [world.train("four", world.file("four", batch=4, steps=128))]
    assert tokens_of(runs[0]) == [sum(single[at:at + 4]) for at in range(0, 512, 4)]
    needs_ranks()
    runs.append(world.train("four-two", world.file("four-two", batch=4, steps=128), "--ranks", 2))
    same_steps(records(runs[1], "step"), runs[0])
    assert len(records(runs[1], "step")) == 128 and records(runs[1], "start")[0]["ranks"] == 2


def needs_ranks():
    if not (BUILD / "trainer" / "libregatta-mpi.so").exists() or shutil.which("mpirun") is None:
        raise Skipped("several ranks need MPI and its plug-in")


def same_steps(found, whole):
    """Each the same samples as in the whole run, and its loss but for the order of sums."""
    expected = {record["step"]: record for record in records(whole, "step")}
    for record in found:
        other = expected[record["step"]]
        assert (record["tokens"], record["masked"]) == (other["tokens"], other["masked"]), (record, other)
        assert abs(record["loss"] - other["loss"]) < CLOSE, (record, other)


def a_killed_run_goes_on_in_the_same_order(world):
    """kill -9 of one rank alone, then of what started two, with which they end, then to the end on three."""
    needs_ranks()
    model = MODEL.replace("layers: 1", "layers: 4").replace("hidden: 32", "hidden: 64")
    values = {"model": model, "rate": 0.0001, "batch": 6, "steps": 300, "every": 25}
    whole = world.train("unbroken", world.file("unbroken", **values))
    run, file = world.folder / "killed", world.file("killed", **values)
    for ranks in (1, 2):
        process = subprocess.Popen([TRAINER, "run", "--directory", run, file, "--ranks", str(ranks)], stderr=subprocess.DEVNULL,
                                   env=ENVIRONMENT)
        last = max((record["step"] for record in records(run, "step")), default=0)
        deadline = time.monotonic() + 60
        while max((record["step"] for record in records(run, "step")), default=0) < last + 60:
            assert process.poll() is None and time.monotonic() < deadline, (process.returncode, ranks)
            time.sleep(0.02)
        start = records(run, "start")[-1]
        assert start["ranks"] == ranks
        os.kill(start["process"], signal.SIGKILL)
        assert process.wait(60) == -signal.SIGKILL, (process.returncode, ranks)
    world.train("killed", "--ranks", 3)
    starts, found = records(run, "start"), records(run, "step")
    assert [record["ranks"] for record in starts] == [1, 2, 3] and {record["step"] for record in found} == set(range(1, 301))
    assert all(record["step"] < 300 for record in found[:-1]), "killed before its end"
    same_steps(found, whole)


def evaluation_is_of_all_datasets_by_their_weights(world):
    """Its figures are those of the first 48 held-out samples of the one and the first 16 of the other."""
    def judged(samples, *words):
        # What is evaluated changes nothing of the model.
        run = world.folder / f"judged-{samples}"
        if not run.exists():
            world.train(run.name, world.file(run.name, samples=samples))
            same_steps(records(run, "step"), world.mixed)
        return json.loads(call("eval", run, "--json", *words)[0])

    whole = judged(64)
    last = records(world.mixed, "eval")[-1]
    assert whole["samples"] == 64 and all(whole[key] == last[key] for key in ("mlm_accuracy", "mlm_loss", "nsp_accuracy")), last
    boats, bread = (judged(samples, "--dataset", world.folder / name) for name, samples in (("boats", 48), ("bread", 16)))
    assert (boats["samples"], bread["samples"]) == (48, 16)
    assert abs(48 * boats["nsp_accuracy"] + 16 * bread["nsp_accuracy"] - 64 * whole["nsp_accuracy"]) < 1e-9, (boats, bread, whole)
    # Of hidden words the share of each dataset is not told; loss and accuracy must agree about it.
    share = (whole["mlm_loss"] - bread["mlm_loss"]) / (boats["mlm_loss"] - bread["mlm_loss"])
    expected = share * boats["mlm_accuracy"] + (1 - share) * bread["mlm_accuracy"]
    assert 0 < share < 1 and abs(expected - whole["mlm_accuracy"]) < CLOSE, (share, expected, whole)
    # All: as far as the boats last, of which a block takes 48.
    held_out, everything = judged(0, "--dataset", world.folder / "boats")["samples"], judged(0)["samples"]
    assert BLOCK * (held_out // 48) <= everything < BLOCK * (held_out // 48 + 1), (held_out, everything)


def an_export_goes_on_in_the_same_order(world):
    checkpoint = next((world.mixed / "checkpoints").glob("step-0000000256-*"))
    model = world.folder / "model"
    call("export", "--checkpoint", checkpoint, "--output", model, "--with-optimizer")
    assert (model / "vocab.txt").read_bytes() == (world.folder / "both" / "vocab.txt").read_bytes()
    call("fill", model, "the boat [MASK] river wind")
    run = world.train("on", world.file("on", more=f"from: {{path: {model}, optimizer: true}}"))
    assert [record["step"] for record in records(run, "step")] == list(range(257, 513))
    same_steps(records(run, "step"), world.mixed)


def faults(world):
    """Name, lines of `data` or more, what the trainer says, what a controller says (None: the same)."""
    place = world.folder
    boats, bread, absent, task, other, cased = (place / name for name in "boats bread absent labelled other cased".split())
    labels = place / "labels.tsv"
    labels.write_text("sentence\tlabel\n" + "".join(f"boat {word}\tgood\nbread {word}\tbad\n" for word in WORDS["bread"][1]))
    call("prepare", "--task", "classification", labels, labels, "--vocab", place / "both", "-o", task)
    call("prepare", place / "bread.txt", "-o", other, "--train-vocab", 256)
    call("prepare", place / "bread.txt", "-o", cased, "--vocab", place / "both" / "vocab.txt", "--cased")
    found = {}

    def two(second, weight=1):
        return f"data: [{{path: {boats}, weight: 3}}, {{path: {second}, weight: {weight}}}]"
    found["missing"] = two(absent), f"{absent} is not a dataset (no dataset.json)", f"no dataset in {absent} that this"
    found["vocabulary"] = two(other), f"{other} has another vocabulary (", f"data.mixture[1].path: {other} has a vocabulary of "
    found["case"] = two(cased), f"{cased} is cased, {boats} is in lower case", f"data.mixture[1].path: {cased} is cased, "
    for weight in (0, -1, "1.0e+7", ".inf", ".nan", "many"):
        found[f"weight {weight}"] = two(bread, weight), "data[1].weight: ", None
    found["weight of a mapping"] = "data: {" + world.mixture(1, 0) + "}", "data.mixture[1].weight: is 0; use more than 0", None
    found["task dataset"] = two(task), f"{task} is a dataset of a task", f"{task} is a dataset for classification"
    found["twice"] = two(boats), f"data[1].path: '{boats}' is also the dataset of [0]", None
    found["twice, spelled otherwise"] = two(f"{bread}/../boats/"), "data[1].path: ", None
    found["no path"] = "data: [{weight: 3}, {path: x}]", "data[0].path: missing", None
    found["empty"] = "data: []", "data: the list is empty", None
    found["beside a path"] = f"data: {{path: {boats}, {world.mixture(3, 1)}}}", "data.path: stands beside data.mixture", None
    found["of a task"] = f"task: classification\n{two(bread)}", "data: names several datasets, and task classification", None
    return found


def what_is_wrong_is_told_in_one_line(world):
    controller = serve_here(BUILD, world.folder / "controller")
    submit = ("submit", "--server", server_of(world.folder / "controller"), "--dry-run")
    try:
        for name, (data, expected, of_controller) in faults(world).items():
            file = world.folder / "wrong.yaml"
            file.write_text(f"name: wrong\n{MODEL}{data}\n")
            told = {"dry run": call("run", "--dry-run", file, code=20)[1]}
            run = world.folder / "wrong"
            told["run"] = call("run", "--directory", run, file, code=20)[1]
            assert not run.exists() or not records(run, "step") and not list((run / "checkpoints").iterdir()), name
            shutil.rmtree(run, ignore_errors=True)
            shown, lines = call(*submit, file, program=REGATTA, code=7)
            told["submit"] = [line for line in shown.splitlines() if line.startswith("dataset ")] + lines
            for who, lines in told.items():
                wanted = of_controller if who == "submit" and of_controller else expected
                assert len(lines) == 1 and wanted in lines[0] and "\\n" not in lines[0], (name, who, lines)
        shown, _ = call("ls", "--server", server_of(world.folder / "controller"), "-o", "json", program=REGATTA)
        assert "wrong" not in shown, shown
    finally:
        controller.send_signal(signal.SIGTERM)
        controller.wait(60)


def each_dataset_is_verified_and_stays_what_it_was(world):
    place = world.folder / "own"
    for name in ("boats", "bread"):
        assert call("verify-data", world.folder / name)[0].startswith("ok\n")
        shutil.copytree(world.folder / name, place / name)
    data = f"mixture: [{{path: {place / 'boats'}, weight: 3}}, {{path: {place / 'bread'}}}]"
    run = world.train("own-run", world.file("own-run", data, steps=8, every=8))
    # The second dataset with other text: the run's checkpoints are of other data.
    (world.folder / "more.txt").write_text((world.folder / "bread.txt").read_text() + "\nknife table\nsalt oven\n")
    call("prepare", world.folder / "more.txt", "-o", place / "bread", "--vocab", world.folder / "both" / "vocab.txt", "--force")
    _, lines = call("run", "--directory", run, world.file("own-run", data, steps=16, every=8), code=20)
    assert len(lines) == 1 and "of another data set" in lines[0] and len(records(run, "step")) == 8, lines
    largest = max((path for path in (place / "bread").iterdir()), key=lambda path: path.stat().st_size)
    bytes_ = bytearray(largest.read_bytes())
    bytes_[len(bytes_) // 2] ^= 1
    largest.write_bytes(bytes_)
    _, lines = call("verify-data", place / "bread", code=7)
    assert len(lines) == 1 and str(place / "bread") in lines[0] and largest.name in lines[0], lines
    assert call("verify-data", place / "boats")[0].startswith("ok\n")


CASES = [weights_say_how_often_a_dataset_is_drawn, samples_of_a_dataset_come_in_its_own_order,
         several_ranks_draw_the_same_samples, a_killed_run_goes_on_in_the_same_order,
         evaluation_is_of_all_datasets_by_their_weights, an_export_goes_on_in_the_same_order,
         what_is_wrong_is_told_in_one_line, each_dataset_is_verified_and_stays_what_it_was]


def main():
    with tempfile.TemporaryDirectory(prefix="regatta-mixtures-") as name:
        return conclude(run_cases("mixtures", CASES, World(pathlib.Path(name))))


if __name__ == "__main__":
    sys.exit(main())
