"""Programs that stand for those of a bundle where there is no GPU, and what the cases of check.py share."""
import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
GPU = ROOT / "tests" / "gpu.sh"
WORK = pathlib.Path(tempfile.mkdtemp(prefix="regatta-gpu-check-"))
CASES = []


class Skipped(Exception):
    pass


def case(function):
    CASES.append(function)
    return function


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def fresh(name):
    path = WORK / name
    path.mkdir(parents=True)
    return path


def script(path, text):
    """A program; a shell script unless it says what it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if text.startswith("#!") else "#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def fake_bundle(name, programs):
    """A bundle whose programs are scripts."""
    bundle = fresh(name)
    for program, text in programs.items():
        script(bundle / "bin" / program, text)
    (bundle / "lib").mkdir()
    (bundle / "data").mkdir()
    shutil.copy(ROOT / "tests" / "data" / "lengths_wikipedia_512.csv", bundle / "data")
    (bundle / "manifest.json").write_text('{"commit": "0123abc"}')
    return bundle


def gpu(*arguments, program=None, environment=None):
    """(exit code, output) of tests/gpu.sh."""
    done = subprocess.run([*(program or [str(GPU)]), *map(str, arguments)], capture_output=True, text=True, timeout=120,
                          stdin=subprocess.DEVNULL, env=dict(os.environ, **{"OUT": "", "REQUIRE": "", **(environment or {})}))
    return done.returncode, done.stdout + done.stderr


def result(output, stage):
    return json.loads((output / f"gpu-{stage}.json").read_text())


GTEST = """#!{python}
# A GoogleTest program: its tests in their order, and what each does.
import fnmatch, os, signal, sys, time
tests = {tests!r}
log = os.environ.get("STAND_IN_LOG")
patterns = next((word.split("=", 1)[1] for word in sys.argv if word.startswith("--gtest_filter=")), "*").split("-")
chosen = [name for name in tests if any(fnmatch.fnmatchcase(name, one) for one in patterns[0].split(":"))
          and not any(fnmatch.fnmatchcase(name, one) for one in "".join(patterns[1:]).split(":"))]
if "--gtest_list_tests" in sys.argv:
    for name in chosen:
        suite, test = name.split(".", 1)
        print(suite + ".\\n  " + test + "  # GetParam() = 8-byte object <00-00>")
    sys.exit(0)
if log:
    with open(log, "a") as file:
        file.write(str(os.getpid()) + " " + ":".join(chosen) + "\\n")
failed = 0
for name in chosen:
    print("[ RUN      ]", name, flush=True)
    does, words = (tests[name] + " ").split(" ", 1)
    if does == "abort":
        print("a promise was broken", flush=True)
        os.kill(os.getpid(), signal.SIGABRT)
    if does == "fault":
        print("GPU fault: " + words + "failed: an illegal memory access was encountered", flush=True)
        os._exit(86)
    if does == "hang":
        time.sleep(300)
    if does == "sleep":
        time.sleep(float(words))
    if does == "nccl" and "NCCL_DEBUG_FILE" in os.environ:
        with open(os.environ["NCCL_DEBUG_FILE"], "w") as file:
            file.write("n:1:2 [0] NCCL INFO regatta: 1 ranges for 1 ranks on 1 nodes\\n")
    if does == "fail":
        failed = 1
        print(words + "\\n[  FAILED  ] " + name + ", where GetParam() = x (1 ms)", flush=True)
    else:
        print(("[  SKIPPED ] " if does == "skip" else "[       OK ] ") + name + " (1 ms)", flush=True)
sys.exit(failed)
"""


def gtest(tests):
    """`tests`: {name: pass, fail TEXT, skip, abort, fault, hang, sleep SECONDS, or nccl}."""
    return GTEST.format(python=sys.executable, tests=tests)


def passing(*names):
    return gtest({name: "pass" for name in names})


OPS = {"Gpu/Ops.Good/float32": "pass", "Gpu/Ops.Last/bfloat16": "pass"}
MODEL = gtest({"CudaTraining.Learns": "pass", "NcclOnOneGpu.CollectivesOfOneRankAreTheIdentity": "nccl"})
STEP = """case "$*" in
  *"bench kernels"*) echo 'a table' >&2; echo '{"benchmark": "kernels", "step_seconds_by_kernels": 0.1, "kernels":
    [{"name": "attention.forward", "tflop_per_second": 1}, {"name": "attention.backward", "tflop_per_second": 1}]}' ;;
  *large*) echo '{"benchmark": "step", "samples_per_second": 1000.0, "gflop_per_second": 400000.0}' ;;
  *) echo '{"benchmark": "step", "samples_per_second": 3000.0, "gflop_per_second": 300000.0}' ;;
esac"""
