#!/usr/bin/env python3
"""Planted differences in learning: runs that differ in one thing, whose first step apart is taken again.

    planted_learning_test.py BUILD [CASE…]

`regatta compare A B --replay` must find the first step whose loss or gradient differs, as the journals have it, and name what was
planted, by a replay of B's step that then is A's. Of equal runs it names nothing.
"""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from planted_test import Lab, main, merged  # noqa: E402

STEPS = int(os.environ.get("REGATTA_PLANTED_STEPS", "24"))  # docs/why-different.md has a table of 200
PLAIN = {
    "model": {"preset": "tiny", "layers": 2, "hidden": 64, "heads": 2, "feed_forward": 128, "max_positions": 64, "dropout": 0.1,
              "attention_dropout": 0.1},
    "data": {"max_length": 32}, "batch": {"size": 8}, "threads": 1, "steps": STEPS,
    "evaluate": {"every": 1000, "samples": 32}, "checkpoint": {"every": STEPS // 4, "keep_last": 4}, "statistics": {"every": 0},
}
# What changes; the environment's variables; the part of the step in which they differ first, the cause's kind and name.
PLANTS = {
    "seed": ({"seed": 2}, {}, "weights", "random numbers", "another seed"),
    "fewer_pieces": ({"data": {"path": "fewer"}}, {}, "weights", "tokenisation", "another vocabulary"),
    "order_of_pieces": ({"data": {"path": "order"}}, {}, "tokens", "tokenisation", "another vocabulary"),
    "token": ({"data": {"path": "token"}}, {}, "tokens", "data", "other texts"),
    "length": ({"data": {"max_length": 24}}, {}, "samples", "data order", "other settings of samples"),
    "batch": ({"batch": {"size": 16}}, {}, "samples", "data order", "another batch"),
    "masks": ({"data": {"mask_fraction": 0.2}}, {}, "masks", "masks", "other masks"),
    "dropout": ({"model": {"dropout": 0.2}}, {}, "dropout", "dropout", "another dropout"),
    "gelu": ({"model": {"gelu": "tanh"}}, {}, "activations", "kernels", "another GELU"),
    "instructions": ({}, {"REGATTA_ISA": "baseline"}, "activations", "kernels", "another instruction set"),
    "avx2": ({}, {"REGATTA_ISA": "avx2"}, "activations", "kernels", "another instruction set"),
    "micro": ({"batch": {"micro": 4}}, {}, "gradients", "kernels", "another micro-batch"),
    "library": ({}, {"DNNL_MAX_CPU_ISA": "SSE41"}, "gradients", "library", "another setting of a library"),
    "optimizer": ({"optimizer": {"name": "lamb"}}, {}, "update", "optimizer", "another optimizer"),
    "rate": ({"optimizer": {"warmup_steps": 10}}, {}, "update", "optimizer", "another optimizer"),
    "clipping": ({"clip": {"norm": 0.01}}, {}, "update", "optimizer", "another clipping"),
    "schedule": ({"steps": STEPS * 3 // 2}, {}, "update", "optimizer", "another end of the learning rate's schedule"),
    "weights": ({"from": f"plain@{STEPS // 4}"}, {}, "weights", "initial weights", "other weights to begin with"),
    "ranks": ({"ranks": 2}, {}, "gradients", "world size", "another number of ranks"),
}
CHECKPOINTS = ({"from": f"plain@{STEPS // 4}"}, {"from": f"plain@{STEPS // 2}"}, "weights", "initial weights",
               "other weights to begin with")
# On a GPU that the CPU plays, which multiplies in 16 bits: against a run of this device in float32.
HALF = {name: ({"device": "cuda", "dtype": name}, {}, "activations", "precision", "another precision") for name in ("float16", "bfloat16")}
ON_GPU = {"device": "cuda", "steps": 4, "statistics": {"every": 0, "peak_tflops": 1}}
PAIRS = 20
MOST_WRONG = 1


class Learning(Lab):
    """Runs that learn, on data sets that differ."""

    def __init__(self, build, folder):
        super().__init__(build, folder)
        text = (folder / "corpus.txt").read_text()
        pieces = (self.data / "vocab.txt").read_text().splitlines()
        self.prepare_with("fewer", text, [piece for piece in pieces if piece != "wind"])
        swapped = {"wind": "sail", "sail": "wind"}
        self.prepare_with("order", text, [swapped.get(piece, piece) for piece in pieces])
        words = text.split(" ")
        place = next(i for i, word in enumerate(words) if i > 400 and word == "wind")
        words[place] = "sail"
        self.prepare("token", " ".join(words), "--vocab", str(self.data / "vocab.txt"))

    def prepare(self, name, text, *options):
        source = self.folder / f"{name}.txt"
        source.write_text(text)
        subprocess.run([self.trainer, "prepare", source, "-o", self.folder / name, *options], check=True, capture_output=True,
                       timeout=120)

    def prepare_with(self, name, text, pieces):
        path = self.folder / f"{name}-vocab.txt"
        path.write_text("\n".join(pieces) + "\n")
        self.prepare(name, text, "--vocab", path)

    def learn(self, run, changes, variables=None):
        changes = json.loads(json.dumps(changes))
        if "path" in changes.get("data", {}):
            changes["data"]["path"] = str(self.folder / changes["data"]["path"])
        if "from" in changes:
            of, step = changes["from"].split("@")
            (found,) = (self.runs / f"{of}-00abcd" / "checkpoints").glob(f"step-*{int(step):04d}-*")
            changes["from"] = str(found)
        path = self.folder / f"{run}.json"
        path.write_text(json.dumps(merged(merged(PLAIN, {"name": run, "data": {"path": str(self.data)}}), changes)))
        ranks = changes.get("ranks", 1)
        launch = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", str(ranks)] if ranks > 1 else []
        done = subprocess.run([*launch, self.trainer, "run", path, "--directory", self.runs / f"{run}-00abcd"], capture_output=True,
                              text=True, timeout=200, env={**os.environ, **(variables or {})})
        assert done.returncode == 0, done.stderr[-2000:]

    def compared(self, a, b):
        """What is told of two runs with replays, as JSON and as text."""
        command = [self.regatta, "compare", f"{a}-00abcd", f"{b}-00abcd", "--replay"]
        for _ in range(100):
            shown = subprocess.run([*command, "-o", "json"], capture_output=True, text=True, timeout=400, env=self.environment)
            if shown.returncode == 0:
                learning = json.loads(shown.stdout)["learning"]
                text = subprocess.run(command, capture_output=True, text=True, timeout=400, env=self.environment)
                assert text.returncode == 0, text.stderr
                return learning, text.stdout
            assert shown.returncode == 3, shown.stderr  # not adopted yet
            time.sleep(0.2)
        raise AssertionError(shown.stderr)

    def steps(self, run):
        (path,) = (self.runs / f"{run}-00abcd" / "attempts").glob("*/journal.jsonl")
        steps = [each for each in map(json.loads, path.read_text().splitlines()) if each["type"] == "step"]
        return {each["step"]: (each["loss"], each["gradient_norm"]) for each in steps}


def first_apart(one, other):
    """Anew from the journals: the first common step whose loss or gradient norm is another."""
    return next((step for step in sorted(one) if step in other and one[step] != other[step]), None)


def is_wrong(lab, a, b, expected):
    part, kind, what = expected
    learning, text = lab.compared(a, b)
    apart = first_apart(lab.steps(a), lab.steps(b))
    assert learning["other_bits"]["step"] == apart, (a, b, apart, learning)
    assert f"other bits from step {apart} on" in text, text
    replay = learning["replay"]
    first = replay["parts"][0]["part"] if replay["parts"] else None
    named = [(cause["kind"], cause["what"]) for cause in replay["causes"]]
    beyond = learning["beyond_rounding"]
    print(f"{b}: step {apart}, beyond rounding {beyond and beyond['step']}, at the end {learning['last']['loss'][1]:.6f}, {learning['last']['relative']:.2g} apart; "
          f"{first}: {replay['parts'][0]['what'] if first else ''}; {named} with {len(replay['replays'])} replays; "
          f"{replay['unknown']}; alone {learning['causes'][0]['what'] if learning['causes'] else None}", flush=True)
    if named != [(kind, what)] or first != part or what not in text:
        return (b, named, first, replay)
    return None


def plants_are_named(build, folder):
    lab = Learning(build, folder)
    lab.learn("plain", {})
    for name, (changes, variables, *_) in PLANTS.items():
        lab.learn(name, changes, variables)
    lab.learn("early", CHECKPOINTS[0])
    lab.learn("late", CHECKPOINTS[1])
    plugin = build / "tests" / "trainer" / "cuda" / "plugin"
    halves = HALF if (plugin / "libregatta-cuda.so").exists() else {}
    if halves:
        emulated = {"REGATTA_PLUGIN_DIR": str(plugin)}
        lab.learn("single", ON_GPU, emulated)
        for name, (changes, *_) in halves.items():
            lab.learn(name, merged(ON_GPU, changes), emulated)
    else:
        print("SKIPPED: float16 and bfloat16, without the emulated GPU (libboost-context-dev)", flush=True)
    with lab:
        wrong = [is_wrong(lab, "plain", name, expected) for name, (_, _, *expected) in PLANTS.items()]
        wrong.append(is_wrong(lab, "early", "late", CHECKPOINTS[2:]))
        wrong += [is_wrong(lab, "single", name, expected) for name, (_, _, *expected) in halves.items()]
    wrong = [each for each in wrong if each]
    assert len(wrong) <= MOST_WRONG, wrong


def nothing_is_named_of_equal_runs(build, folder):
    lab = Learning(build, folder)
    pairs = max(2, PAIRS * int(os.environ.get("REGATTA_REPETITIONS", "100")) // 100)
    for number in range(pairs + 1):
        lab.learn(f"equal-{number}", {"threads": 1 + number % 2})
    with lab:
        for number in range(pairs):
            learning, text = lab.compared(f"equal-{number}", f"equal-{number + 1}")
            assert learning["equal"] and not learning["causes"] and "replay" not in learning, learning
            assert text.endswith("equal in every bit of loss and gradient norm\n"), text


def replays_of(directory):
    """The processes that take steps of this run again."""
    found = []
    for process in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if words[1:3] == [b"debug", b"probe"] and str(directory).encode() in words:
                found.append(int(process.name))
    return found


def a_replay_ends_with_its_compare(build, folder):
    """Which is killed, or told to end, while a long step is taken again."""
    lab = Learning(build, folder)
    lab.learn("plain", {})
    lab.learn("other", {"seed": 2})
    directory = lab.runs / "plain-00abcd"
    config = json.loads((directory / "run.json").read_text())
    with lab:
        lab.compared("plain", "other")
        (directory / "run.json").write_text(json.dumps(merged(config, {"batch": {"size": 1 << 18}})))
        for number in (signal.SIGKILL, signal.SIGINT, signal.SIGTERM):
            asked = subprocess.Popen([lab.regatta, "compare", "plain-00abcd", "other-00abcd", "--replay"], env=lab.environment,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            wait_for(lambda: replays_of(directory), "a replay begins")
            time.sleep(0.5)
            assert replays_of(directory), "the step is too short for this test"
            asked.send_signal(number)
            asked.wait(20)
            wait_for(lambda: not replays_of(directory), f"the replay ends with {number.name}")


def wait_for(holds, what, seconds=60):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)


CASES = [plants_are_named, nothing_is_named_of_equal_runs, a_replay_ends_with_its_compare]


if __name__ == "__main__":
    sys.exit(main(CASES))
