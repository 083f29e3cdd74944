#!/usr/bin/env python3
"""The examples, typed as their READMEs have them: they work, and do what they promise.

    tests/examples_test.py [EXAMPLE…]     all of them, or these and what they begin with

The commands are the indented blocks of examples/*/README.md, run by bash in a copy of the folder, with the programs of
build/release. Two things are added to them: a wait until a controller that was started answers and has said where, and for root the
option without which it refuses to start. The last line is `N passed, N failed, N skipped`.
"""
import collections
import csv
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import string
import subprocess
import sys
import tempfile
import time
import unittest

from served import NO_DEFAULTS

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
MOST_LINES = 40
TIMEOUT = 600  # seconds of one example, on a busy machine
COLOURS = "red blue green white black yellow brown grey".split()
CARGOES = "salt timber herring wool coal grain copper slate".split()

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background has it ignored


def commands_of(readme):
    """The lines of the indented blocks; one that ends with a backslash goes on in the next."""
    lines, carried = [], ""
    for line in readme.splitlines():
        if not line.startswith("    "):
            continue
        carried += line.strip()
        if carried.endswith("\\"):
            carried = carried[:-1]
            continue
        lines.append(carried)
        carried = ""
    return lines


def script_of(commands):
    """What bash runs: before each command its number on a line of its own, in stdout and in stderr."""
    script = ["set -eu"]
    for number, command in enumerate(commands):
        script.append(f"printf '\\n\\036%d\\n' {number}; printf '\\n\\036%d\\n' {number} >&2")
        serves = command.startswith("regatta serve ")
        if serves and os.geteuid() == 0:
            command = command.replace("regatta serve ", "regatta serve --allow-privileged ", 1)
        if serves:  # it may say where it is reached behind its first answers, among the output of what comes next
            command = command.removesuffix("&") + "> served.txt &"
        script.append(command)
        if serves:
            script.append("for _ in $(seq 300); do if regatta version -o json 2>/dev/null | grep -q runs_directory && "
                          "[ -s served.txt ]; then break; fi; sleep 0.1; done; cat served.txt")
    return "\n".join(script) + "\n"


def parts_of(output):
    """What each command wrote, by its number."""
    return {int(number): text.strip() for number, text in re.findall(r"^\x1e(\d+)\n([^\x1e]*)", output, re.M)}


class Typed:
    """What came of an example's commands."""

    def __init__(self, commands, code, stdout, stderr):
        self.commands, self.code = commands, code
        self.outputs, self.errors = parts_of(stdout), parts_of(stderr)

    def why(self):
        last = max(self.outputs, default=0)
        return (f"exit code {self.code} at '{self.commands[last]}':\n{self.outputs.get(last, '')[-1500:]}\n"
                f"{self.errors.get(last, '')[-1500:]}")

    def outputs_of(self, beginning):
        """In the README's order, of all commands that begin so."""
        found = [self.outputs.get(number, "") for number, command in enumerate(self.commands) if command.startswith(beginning)]
        assert found, f"the README has no command '{beginning}'"
        return found


class Work:
    """A folder like the checkout, with examples that were typed in it, each once."""

    def __init__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="regatta-examples-"))
        (self.path / "examples").mkdir()
        for name in ("build", "topology"):
            (self.path / name).symlink_to(ROOT / name)
        shutil.copy(EXAMPLES / "make_data.py", self.path / "examples")
        self.typed = {}

    def example(self, name):
        return self.path / "examples" / name

    def type(self, name):
        if name in self.typed:
            return self.typed[name]
        self.example(name).mkdir()
        for file in ("README.md", "run.yaml"):
            shutil.copy(EXAMPLES / name / file, self.example(name))
        commands = commands_of((EXAMPLES / name / "README.md").read_text())
        environment = {key: value for key, value in os.environ.items() if not key.startswith("REGATTA_")}
        environment.update(NO_DEFAULTS, XDG_STATE_HOME=str(self.path / "state"), LC_ALL="C.UTF-8")
        start = time.monotonic()
        with open(self.path / f"{name}.out", "wb") as out, open(self.path / f"{name}.err", "wb") as err:
            process = subprocess.Popen(["bash", "-c", script_of(commands)], cwd=self.example(name), env=environment,
                                       stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
            try:
                code = process.wait(timeout=TIMEOUT)
            except subprocess.TimeoutExpired:
                code = 124
            finally:
                self.end()
                process.wait()
        read = [(self.path / f"{name}.{end}").read_text(errors="replace") for end in ("out", "err")]
        self.typed[name] = Typed(commands, code, *read)
        print(f"{name}: {time.monotonic() - start:.0f} s", flush=True)
        return self.typed[name]

    def processes(self):
        """Those at work in this folder, which nobody else knows: of their own sessions, too."""
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                here = os.readlink(entry / "cwd")
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if here == str(self.path) or here.startswith(f"{self.path}/") or f"{self.path}/".encode() in command:
                found.append(int(entry.name))
        return [pid for pid in found if pid != os.getpid()]

    def end(self):
        """Gives what still runs 20 s to end by itself, and then ends it."""
        for number, seconds in ((signal.SIGTERM, 20), (signal.SIGKILL, 5)):
            deadline = time.monotonic() + seconds
            for pid in self.processes():
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass
            while self.processes() and time.monotonic() < deadline:
                time.sleep(0.1)

    def close(self):
        self.end()
        shutil.rmtree(self.path, ignore_errors=True)


def journal(run):
    """All records of all attempts of a run directory."""
    records = []
    for path in sorted(pathlib.Path(run).glob("attempts/*/journal.jsonl")):
        records += [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return records


def normalised(answer):
    """As SQuAD's scoring has it: lower case, no punctuation, no articles, single spaces."""
    plain = "".join(character for character in answer.lower() if character not in string.punctuation)
    return [word for word in plain.split() if word not in ("a", "an", "the")]


def answer_f1(predicted, expected):
    """Of the words of both, as multisets."""
    one, other = normalised(predicted), normalised(expected)
    common = sum((collections.Counter(one) & collections.Counter(other)).values())
    return 2 * common / (len(one) + len(other)) if common else 0.0


def told(result):
    """Prints the last line of a test of ours; its exit code."""
    failed, skipped = len(result.failures) + len(result.errors), len(result.skipped)
    print(f"{result.testsRun - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


class Examples(unittest.TestCase):
    """By name: pretrain is what others begin with, and is typed first."""

    def typed(self, name, after=()):
        for other in after:
            if WORK.type(other).code != 0:
                self.fail(f"it begins with {other}, which failed")
        typed = WORK.type(name)
        self.assertEqual(typed.code, 0, typed.why())
        return typed

    def evaluations(self, run, from_nothing=True):
        """The records of a run whose target was met, and which ended well, and its evaluations."""
        records = journal(run)
        found = [record for record in records if record["type"] == "eval"]
        self.assertGreater(len(found), 1)
        self.assertTrue(any(record["target_met"] for record in found), f"the target was not met: {found[-1]}")
        self.assertEqual(found[0]["step"], 0)
        if from_nothing:
            self.assertFalse(found[0]["target_met"], "met before training")
        self.assertIn([r for r in records if r["type"] == "end"][-1]["reason"], ("target", "steps"))
        self.assertTrue(list(pathlib.Path(run).glob("checkpoints/step-*/manifest.json")), "no checkpoint")
        return records, found

    def test_readmes_are_short_and_show_commands(self):
        for name in NAMES:
            text = (EXAMPLES / name / "README.md").read_text()
            self.assertLessEqual(len(text.splitlines()), MOST_LINES, name)
            self.assertGreater(len(commands_of(text)), 1, name)
            for command in commands_of(text):
                shlex.split(command)  # no quote is left open

    def test_the_data_are_the_same_ones_everywhere(self):
        """Twice the same, no text in two parts, and every answer where it is said to be."""
        with tempfile.TemporaryDirectory() as folder:
            made = []
            for _ in range(2):
                for kind in ("register", "log", "questions", "remarks"):
                    subprocess.run([sys.executable, EXAMPLES / "make_data.py", kind], cwd=folder, check=True, timeout=60)
                made.append({path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()})
            self.assertEqual(*made)
            parts = [json.loads(made[0][name])["data"][0]["paragraphs"] for name in ("train.json", "dev.json")]
            asked = [question for part in parts for paragraph in part for question in paragraph["qas"]]
            self.assertEqual((len(parts[0]), len(parts[1]), len(asked)), (60, 15, 450))
            self.assertEqual(len({paragraph["context"] for part in parts for paragraph in part}), 75)
            for part in parts:
                for paragraph in part:
                    for question in paragraph["qas"]:
                        answer = question["answers"][0]
                        self.assertTrue(paragraph["context"][answer["answer_start"]:].startswith(answer["text"]), question)
            rows = [made[0][name].decode().splitlines()[1:] for name in ("train.tsv", "dev.tsv")]
            self.assertEqual((len(rows[0]), len(rows[1]), len({*rows[0], *rows[1]})), (240, 60, 300))

    def test_pretrain(self):
        typed = self.typed("pretrain")
        records, found = self.evaluations(WORK.example("pretrain") / "run")
        start = next(record for record in records if record["type"] == "start")
        self.assertAlmostEqual(start["target"], 2 * start["baseline"], places=9)
        self.assertGreaterEqual(found[-1]["mlm_accuracy"], start["target"])
        told = float(typed.outputs_of("regatta-train baseline")[0])
        self.assertAlmostEqual(told, start["baseline"], places=5)
        words = typed.outputs_of("regatta-train fill")[0].lower()
        self.assertTrue(any(colour in words for colour in COLOURS), f"no colour: {words}")

    def test_continue(self):
        typed = self.typed("continue", ["pretrain"])
        folder = WORK.example("continue")
        _, found = self.evaluations(folder / "run", from_nothing=False)
        self.assertEqual(found[-1]["step"], 800)
        self.assertGreater(found[-1]["mlm_accuracy"], found[0]["mlm_accuracy"])
        first = [r for r in journal(WORK.example("pretrain") / "run") if r["type"] == "eval"][0]
        self.assertGreater(found[0]["mlm_accuracy"], first["mlm_accuracy"], "it does not begin with what was learned")
        words = typed.outputs_of("regatta-train fill")[0].lower()
        self.assertTrue(any(cargo in words for cargo in CARGOES), f"no cargo: {words}")
        for name in ("model", "model-log"):
            self.assertEqual(json.loads((folder / name / "config.json").read_text())["architectures"], ["BertForPreTraining"])
            self.assertTrue((folder / name / "model.safetensors").is_file())

    def test_squad(self):
        typed = self.typed("squad", ["pretrain"])
        folder = WORK.example("squad")
        runs = list((folder / "runs").glob("squad-*"))
        self.assertEqual(len(runs), 1, runs)
        _, found = self.evaluations(runs[0])
        self.assertGreaterEqual(found[-1]["metrics"]["f1"], 0.9)
        predictions = json.loads((folder / "predictions" / "predictions.json").read_text())
        scores = []
        for paragraph in json.loads((folder / "dev.json").read_text())["data"][0]["paragraphs"]:
            for question in paragraph["qas"]:
                scores.append(answer_f1(predictions.pop(question["id"]), question["answers"][0]["text"]))
        self.assertFalse(predictions, "predictions that nobody asked for")
        self.assertAlmostEqual(sum(scores) / len(scores), found[-1]["metrics"]["f1"], places=6)
        best = json.loads((folder / "predictions" / "nbest_predictions.json").read_text())
        self.assertEqual(len(best), len(scores))
        for told, expected in zip(typed.outputs_of("regatta-train answer"), ("1911", "timber"), strict=True):
            self.assertIn(expected, told)

    def test_classify(self):
        self.typed("classify", ["pretrain"])
        folder = WORK.example("classify")
        _, found = self.evaluations(folder / "run")
        with open(folder / "dev.tsv", newline="", encoding="utf-8") as given:
            expected = [row["label"] for row in csv.DictReader(given, delimiter="\t")]
        with open(folder / "predictions" / "predictions.tsv", newline="", encoding="utf-8") as made:
            rows = list(csv.DictReader(made, delimiter="\t"))
        self.assertEqual([row["index"] for row in rows], [str(number) for number in range(60)])
        right = sum(row["prediction"] == label for row, label in zip(rows, expected, strict=True)) / len(expected)
        self.assertGreaterEqual(right, 0.9)
        self.assertAlmostEqual(right, found[-1]["metrics"]["accuracy"], places=6)
        for row in rows:
            self.assertAlmostEqual(float(row["good"]) + float(row["bad"]), 1, places=3)
        config = json.loads((folder / "model" / "config.json").read_text())
        self.assertEqual((config["architectures"], sorted(config["id2label"].values())),
                         (["BertForSequenceClassification"], ["bad", "good"]))

    def test_four_nodes(self):
        typed = self.typed("four-nodes")
        folder = WORK.example("four-nodes")
        whole = json.loads((folder / "whole.json").read_text())
        self.assertEqual((whole["ranks"], whole["slurm"]["nodes"], whole["model"]["layers"]), (32, "4", 12))
        told = typed.outputs_of("regatta plan")[0]
        self.assertIn("32 ranks on 4 nodes of 8 NVIDIA H200", told)
        plan = json.loads((folder / "plan" / "plan.json").read_text())
        self.assertEqual(plan["ranks"], 32)
        self.assertRegex(told, r"32 ranks on 4 nodes like \S+: GPU 0 with \S+, .*GPU 7 with \S+")


    def test_parallel(self):
        typed = self.typed("parallel")
        folder = WORK.example("parallel")
        runs = sorted(path.name for path in (folder / "runs").glob("parallel-*"))
        self.assertEqual(len(runs), 4, runs)
        dry, whole = typed.outputs_of("regatta experiment parallel")
        self.assertEqual(len(dry.splitlines()), 5, dry)
        for told in (whole, (folder / "table.md").read_text()):
            self.assertIn("agree between layouts", told)
            self.assertIn("116.27", told)
            self.assertNotIn("failed", told)


NAMES = ["pretrain", "continue", "squad", "classify", "four-nodes", "parallel"]
WORK = None


def main():
    global WORK
    for program in ("trainer/regatta-train", "orchestrator/regatta"):
        if not (ROOT / "build" / "release" / program).exists():
            print(f"failed  examples: build/release/{program} is missing; build first\n0 passed, 1 failed, 0 skipped")
            return 1
    wanted = sys.argv[1:]
    if not set(wanted) <= set(NAMES):
        sys.exit(f"tests/examples_test.py: there are {', '.join(NAMES)}")
    loaded = unittest.defaultTestLoader.loadTestsFromTestCase(Examples)
    ours = [case for case in loaded if not wanted or case.id().split(".test_")[-1].replace("_", "-") in wanted]
    WORK = Work()
    try:
        result = unittest.TextTestRunner(verbosity=2).run(unittest.TestSuite(ours))
    finally:
        WORK.close()
    return told(result)


if __name__ == "__main__":
    sys.exit(main())
