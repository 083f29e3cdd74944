#!/usr/bin/env python3
"""The demo, run for real: it reaches its target, the page shows it, and its controls do not reach it.

    tests/demo_test.py [--all]     --all adds the control runs and an interrupted demo

The last line is `N passed, N failed, N skipped`.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "release"
TRAINER = BUILD / "trainer" / "regatta-train"
results = {"passed": 0, "failed": 0, "skipped": 0}


def case(function):
    start = time.monotonic()
    try:
        outcome = function() or "passed"
        why = ""
    except Exception as error:  # every failure is counted, and the next case runs
        outcome, why = "failed", f": {error}"
    results[outcome] += 1
    print(f"{outcome}  demo.{function.__name__}  {time.monotonic() - start:.0f} s{why}", flush=True)


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def demo_command(directory, port, *more):
    return [ROOT / "deploy" / "demo.sh", "--no-wait", "--directory", directory, "--port", str(port), *more]


def run_demo(directory, *more, timeout=1500):
    done = subprocess.run(demo_command(directory, free_port(), *more), capture_output=True, text=True, timeout=timeout,
                          stdin=subprocess.DEVNULL, env=dict(os.environ, REGATTA_SKIP_BUILD="1"), start_new_session=True)
    return done.returncode, done.stdout + done.stderr


def journal(directory):
    """All records of all attempts of the only run below the directory."""
    records = []
    for path in sorted(pathlib.Path(directory).glob("runs/*/attempts/*/journal.jsonl")):
        lines = path.read_text().splitlines(keepends=True)
        records += [json.loads(line) for line in lines if line.endswith("\n")]
    return records


def processes_with(text):
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if text.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            pass
    return [pid for pid in found if pid != os.getpid()]


WORK = pathlib.Path(tempfile.mkdtemp(prefix="regatta-demo-"))


def target():
    """From text to a met target; time to accuracy, throughput and checkpoint are told; nothing is left running."""
    code, text = run_demo(WORK / "one")
    check(code == 0, f"exit code {code}:\n{text[-3000:]}")
    check(re.search(r"dashboard: http://127\.0\.0\.1:\d+/#ticket=[0-9a-f]{32,}/runs/demo-", text), "no link to the dashboard")
    check(f"regatta open --server unix:{WORK}/one/store/controller.sock" in text, "it is not said how to get another link")
    for words in ("target", "time to accuracy", "samples/s", "checkpoint"):
        check(words in text.lower(), f"the summary does not tell '{words}':\n{text[-1500:]}")
    records = journal(WORK / "one")
    start = next(r for r in records if r["type"] == "start")
    check(abs(start["target"] - 2 * start["baseline"]) < 1e-9, "the target is twice the constant guess")
    evaluations = [r for r in records if r["type"] == "eval"]
    check(evaluations[-1]["target_met"] and evaluations[-1]["mlm_accuracy"] >= start["target"], "target not met")
    check(evaluations[0]["step"] == 0 and not evaluations[0]["target_met"], "weights of step 0 met the target")
    check(not processes_with(str(WORK / "one")), "something is left running")
    print(text[-900:])


def shuffled_labels():
    """A run that can learn nothing but label frequencies never gets there in the steps the real one took."""
    steps = max(r["step"] for r in journal(WORK / "one") if r["type"] == "step")
    run_file = WORK / "shuffled.yaml"
    text = (ROOT / "deploy" / "demo.yaml").read_text()
    text = re.sub(r"^steps: \d+", f"steps: {steps}", text, flags=re.M)
    run_file.write_text(text + "shuffle_labels: true\n")
    (WORK / "two").mkdir()
    shutil.copytree(WORK / "one" / "dataset", WORK / "two" / "dataset")
    code, text = run_demo(WORK / "two", "--run-file", run_file)
    check(code != 0, "the run with shuffled labels reached the target")
    evaluations = [r for r in journal(WORK / "two") if r["type"] == "eval"]
    check(len(evaluations) > 2 and not any(r["target_met"] for r in evaluations), "an evaluation met the target")
    check(max(r["step"] for r in evaluations) == steps, "the control run did not run to its end")


def interrupt():
    """Ctrl-C during training: exit code 130, a checkpoint, nothing left running."""
    (WORK / "three").mkdir()
    shutil.copytree(WORK / "one" / "dataset", WORK / "three" / "dataset")
    process = subprocess.Popen(demo_command(WORK / "three", free_port()), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               stdin=subprocess.DEVNULL, env=dict(os.environ, REGATTA_SKIP_BUILD="1"), start_new_session=True)
    deadline = time.monotonic() + 300
    while not any(r["type"] == "step" and r["step"] > 20 for r in journal(WORK / "three")):
        check(time.monotonic() < deadline and process.poll() is None, "training did not start")
        time.sleep(0.3)
    interrupted = time.time()
    os.killpg(process.pid, signal.SIGINT)
    code = process.wait(timeout=180)
    check(code == 130, f"exit code {code}, expected 130")
    end = [r for r in journal(WORK / "three") if r["type"] == "end"]
    check(end and end[-1]["reason"] == "stopped", "the attempt was not stopped in order")
    check(end[-1]["utc_seconds"] - interrupted < 30, "stopping took more than 30 s")
    check(list((WORK / "three").glob("runs/*/checkpoints/*/manifest.json")), "no checkpoint was written")
    deadline = time.monotonic() + 60
    while processes_with(str(WORK / "three")) and time.monotonic() < deadline:
        time.sleep(0.2)
    check(not processes_with(str(WORK / "three")), "something is left running")


def interrupt_while_submitting():
    """Ctrl-C at the moment the run appears, when the demo does not know its id yet."""
    (WORK / "five").mkdir()
    shutil.copytree(WORK / "one" / "dataset", WORK / "five" / "dataset")
    for repetition in range(8):
        before = set(WORK.glob("five/runs/*/run.json"))
        process = subprocess.Popen(demo_command(WORK / "five", free_port()), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   stdin=subprocess.DEVNULL, env=dict(os.environ, REGATTA_SKIP_BUILD="1"), start_new_session=True)
        deadline = time.monotonic() + 180
        while set(WORK.glob("five/runs/*/run.json")) == before:
            check(time.monotonic() < deadline and process.poll() is None, "no run was submitted")
            time.sleep(0.002)
        time.sleep(0.002 * repetition)
        os.killpg(process.pid, signal.SIGINT)
        code = process.wait(timeout=180)
        check(code == 130, f"repetition {repetition}: exit code {code}, expected 130")
        deadline = time.monotonic() + 60
        while processes_with(str(WORK / "five")) and time.monotonic() < deadline:
            time.sleep(0.2)
        check(not processes_with(str(WORK / "five")), "something is left running")


def own_corpus():
    """--corpus takes any text; a corpus that is none is refused in one line."""
    text = WORK / "own.txt"
    text.write_bytes(b"\0\1\2binary")
    code, output = run_demo(WORK / "four", "--corpus", text)
    check(code != 0 and "own.txt" in output, f"a binary corpus was not refused: {output[-500:]}")
    check(not (WORK / "four" / "dataset").exists(), "a dataset was left half-made")


def options():
    """Unknown options and missing values are refused before anything happens."""
    for arguments in (["--nonsense"], ["--port"], ["--corpus", "/does-not-exist"]):
        done = subprocess.run([ROOT / "deploy" / "demo.sh", *arguments], capture_output=True, text=True)
        check(done.returncode != 0 and done.stderr.startswith("deploy/demo.sh:") and not done.stdout,
              f"{arguments}: {done.stdout}{done.stderr}")


def main():
    # A shell's background jobs ignore Ctrl-C, and so would every child: a shell cannot trap it again.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    check(TRAINER.exists(), f"{TRAINER} is missing; build first")
    cases = [options, target, interrupt, interrupt_while_submitting, own_corpus] + ([shuffled_labels] if "--all" in sys.argv else [])
    for function in cases:
        case(function)
    shutil.rmtree(WORK, ignore_errors=True)
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**results))
    return 1 if results["failed"] else 0


sys.exit(main())
