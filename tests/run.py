#!/usr/bin/env python3
"""Runs the project's tests in stages, each with a time budget that is printed and kept.

    tests/run.sh            install, build, tidy, format, shellcheck, clang-tidy of what changed, unit, a tenth of
                            the slow repetitions and of the planted faults, chaos, web, demo, examples
    tests/run.sh --all      clang-tidy of the whole product, slow and planted faults in full, and what measures how fast
                            this machine is, which must be quiet for it, the CUDA plug-in, sanitizers (one of them without oneDNN), longer fuzzing, benchmarks
    tests/run.sh --stage unit --stage web     only these

A stage that takes more than its budget is named at the end; one that takes four times as long is
stopped and fails, but for the build, which only fails when nothing moves for so long. Without --all, the
few that failed get a second try by themselves, as a test that needs time fails on a machine that stands
still for a moment; what passed only then is named at the end. With --all it has failed. Results stay
in build/test-results/. The last line is `N passed, N failed, N skipped`.
"""
import argparse
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree

from served import NO_DEFAULTS

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "build" / "test-results"
HARD_LIMIT = 4
CORES = os.cpu_count() or 1
SECOND_TRIES = 12  # more failures than these are no accident


class Totals:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.failures, self.skips, self.again, self.stages = [], [], [], []
        self.tries = 1

    def add(self, name, outcome, why=""):
        if outcome == "passed":
            self.passed += 1
        elif outcome == "skipped":
            self.skipped += 1
            self.skips.append(f"{name}: {why}" if why else name)
        else:
            self.failed += 1
            self.failures.append(f"{name}: {why}" if why else name)


def run(arguments, limit, environment=None, quiet_log=None):
    """The exit code; 124 when the limit ended it. With a log, the output goes there and its end is shown on failure."""
    env = {**os.environ, **NO_DEFAULTS, **(environment or {})}
    out = open(quiet_log, "wb") if quiet_log else None
    process = subprocess.Popen(arguments, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=out,
                               stderr=subprocess.STDOUT if out else None, start_new_session=True)
    try:
        code = process.wait(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        code = 124
    except BaseException:  # Ctrl-C, or a signal that ends this program: nothing is left behind
        os.killpg(process.pid, signal.SIGTERM)
        raise
    if out:
        out.close()
        if code != 0:
            sys.stdout.write(pathlib.Path(quiet_log).read_text(errors="replace")[-6000:])
    return code


def ctest(totals, stage, build, limit, arguments, environment=None, jobs=CORES):
    """Runs ctest and counts its cases from the JUnit file, those that passed at a second try by themselves, too."""
    begin = time.monotonic()
    outcomes = ctest_once(stage, build, limit, arguments, environment, jobs)
    failed = [name for name, (outcome, _) in outcomes.items() if outcome == "failed"]
    if totals.tries > 1 and 0 < len(failed) <= SECOND_TRIES and name_of_report(stage).exists():
        print(f"   {len(failed)} failed, and get a second try by themselves", flush=True)
        left = max(60, limit - (time.monotonic() - begin))
        second = ctest_once(f"{stage}-again", build, left, ["--rerun-failed", *arguments], environment, 1)
        for name in failed:
            if second.get(name, ("failed", ""))[0] == "passed":
                totals.again.append(f"{stage}: {name}: {outcomes[name][1]}")
                outcomes[name] = ("passed", "")
    for name, (outcome, why) in outcomes.items():
        totals.add(f"{stage}: {name}" if name != stage else stage, outcome, why)


def name_of_report(stage):
    return RESULTS / f"{stage}.xml"


def ctest_once(stage, build, limit, arguments, environment, jobs):
    """What became of each case: {name: (outcome, why)}; the stage itself has failed where there is no case."""
    report = name_of_report(stage)
    report.unlink(missing_ok=True)
    run(["ctest", "--test-dir", str(build), "--output-on-failure", "-j", str(jobs), "--output-junit",
         str(report), *arguments], limit, environment, RESULTS / f"{stage}.log")
    if not report.exists():
        return {stage: ("failed", f"ctest left no report; see {RESULTS / (stage + '.log')}")}
    outcomes = {}
    for case in xml.etree.ElementTree.parse(report).getroot().findall(".//testcase"):
        status = case.get("status")
        # Where a parameter has no name of its own, ctest has its bytes behind that of the case.
        name = re.sub(r"\s+# GetParam\(\) = .*", "", case.get("name"))
        if status == "run":
            outcomes[name] = ("passed", "")
        elif status in ("notrun", "disabled") or case.find("skipped") is not None:
            output = case.findtext("system-out") or ""
            reason = re.search(r"needs [^\n]*", output) or re.search(r"Skipped[^\n]*", output)
            outcomes[name] = ("skipped", reason[0] if reason else "")
        else:
            failure = case.find("failure")
            message = failure.get("message", "") if failure is not None else ""
            outcomes[name] = ("failed", ("" if message == "Failed" else message) + why_failed(case.findtext("system-out") or ""))
    return outcomes or {stage: ("failed", "no test was found")}


# What a case of googletest, of tests/slurm, of unittest, of the chaos run and ctest's own limit say of a failure.
REASON = re.compile(r"^.*: Failure\n(?:.+\n){0,4}|^failed  .*|^\w*Error\b.*|^FAULT at .*|^\S*(?:Sanitizer|runtime error):.*|^(?:not ok|✖) .*", re.M)


def why_failed(output):
    """The first lines that tell why, short enough to stand at the end, where whoever sees only that looks for them."""
    found = [text.strip().replace("\n", "\n    ")[:700] for text in REASON.findall(output)]
    return "".join(f"\n    {text}" for text in found[:5])


def counted(totals, stage, arguments, limit, environment=None, again=None):
    """Runs a script whose last line is `N passed, N failed, N skipped`, a second time where few failed: with the
    argument `again`, where there is one, which is for only those that failed and counts them alone."""
    log = RESULTS / f"{stage}.log"
    code, text, found = counted_once(log, arguments, limit, environment)
    if totals.tries > 1 and found and 0 < found[1] <= SECOND_TRIES:
        print(f"   {found[1]} failed, and the stage gets a second try", flush=True)
        first = f"{stage}: {found[1]} failed{why_failed(text)}"
        log.rename(RESULTS / f"{stage}-first.log")
        before = found if again else (0, 0, 0)
        code, text, found = counted_once(log, arguments + ([again] if again else []), limit, environment)
        if found:
            found = (before[0] + found[0], found[1], before[2] + found[2])
        if found and not found[1] and code == 0:
            totals.again.append(first)
    if not found:
        totals.add(stage, "failed", f"no summary line; exit code {code}; see {log}")
        return
    passed, failed, skipped = found
    totals.passed += passed
    totals.skipped += skipped
    totals.failed += failed
    if failed:
        totals.failures.append(f"{stage}: {failed} failed; see {log}{why_failed(text)}")
    if skipped:
        totals.skips.append(f"{stage}: {skipped}")
    if code != 0 and not failed:
        totals.add(stage, "failed", f"exit code {code}; see {log}")


def counted_once(log, arguments, limit, environment):
    """The exit code, the output, and (passed, failed, skipped) where it says them."""
    code = run(arguments, limit, environment, log)
    text = log.read_text(errors="replace")
    found = re.findall(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", text, re.M)
    return code, text, tuple(map(int, found[-1])) if found else None


def single(totals, stage, arguments, limit, environment=None):
    """A stage that is one pass or fail."""
    code = run(arguments, limit, environment, RESULTS / f"{stage}.log")
    totals.add(stage, "passed" if code == 0 else "failed", "" if code == 0 else f"exit code {code}; see {RESULTS / (stage + '.log')}")
    return code == 0


FINDING = re.compile(r"^(?:\S[^:\n]*:\d+:\d+: (?:fatal )?error: |error: |mend with: ).*", re.M)
NOTHING_CHECKED = 77  # of tests/lint.py


def lint(totals, stage, limit, options, arguments=()):
    """A check of tests/lint.py: one pass or fail with its first findings, and a skip for each thing that it left out."""
    log = RESULTS / f"{stage}.log"
    everything = ["--all"] if options.all else []
    code = run([sys.executable, "tests/lint.py", stage, *everything, *arguments], limit, None, log)
    text = log.read_text(errors="replace")
    for reason in re.findall(r"^skipped: (.*)$", text, re.M):
        totals.add(stage, "skipped", reason)
    if code == 0:
        totals.add(stage, "passed")
    elif code != NOTHING_CHECKED:
        shown = "".join(f"\n    {line[:300]}" for line in FINDING.findall(text)[:8])
        totals.add(stage, "failed", f"exit code {code}; see {log}{shown}")


def build(totals, limit, command=("deploy/build.sh",), every=120):
    """Whatever a machine needs for it: told when it is longer than planned, and given up only when nothing moves."""
    log, begin = RESULTS / "build.log", time.monotonic()
    with open(log, "wb") as out:
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                   start_new_session=True)
    told = moved = begin
    size = 0
    while process.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=min(5, every))
        now = time.monotonic()
        if log.stat().st_size != size:
            size, moved = log.stat().st_size, now
        if now - moved > limit:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        if now - max(told, begin + limit / HARD_LIMIT) > every:
            told = now
            last = (log.read_text(errors="replace").splitlines() or ["nothing said yet"])[-1]
            print(f"   over its budget, goes on: {last}", flush=True)
    code = process.wait()
    if code != 0:
        sys.stdout.write(log.read_text(errors="replace")[-6000:])
    totals.add("build", "passed" if code == 0 else "failed", "" if code == 0 else f"exit code {code}; see {log}")


def install(totals, limit, options):
    """Slurm's packages, too, where its stage is to follow; what cannot be installed is a skip, as its tests will be."""
    single(totals, "install", ["deploy/install.sh", "all" if options.all else "test"], limit)
    if not is_wanted("slurm", True, options):
        return
    log = RESULTS / "install-slurm.log"
    if run(["deploy/slurm/install.sh"], limit, None, log) == 0:
        totals.add("install: slurm", "passed")
    else:
        lines = log.read_text(errors="replace").split("\n")
        needed = "slurm" in os.environ.get("REQUIRE", "").split(",")
        totals.add("install: slurm", "failed" if needed else "skipped", "needs slurm: " + (lines[-2] if len(lines) > 1 else f"see {log}"))


def variant_build(stage):
    """The command that builds some test programs another way, in build/<stage>."""
    options = {"tsan": "-DWITH_ONEDNN=OFF"}.get(stage, "")  # the built-in products, which asan leaves out
    return (f"cmake --preset {stage} -DWITH_TESTS=ON {options} && "
            f"cmake --build build/{stage} --target {' '.join(VARIANTS[stage])}")


def variant(totals, stage, limit, environment):
    """Builds it and runs its unit tests."""
    if single(totals, f"{stage}-build", ["sh", "-c", variant_build(stage)], limit):
        ctest(totals, stage, ROOT / "build" / stage, limit, ["-L", "^unit$", "-R", f"^({'|'.join(VARIANTS[stage])})[.]",
                                                             "-E", f"[.]({'|'.join(FIGURES)})"], environment)


FUZZ_BUILD = "cmake --preset fuzz && cmake --build --preset fuzz"  # in build/asan


def cuda_build():
    """None without the CUDA Toolkit."""
    nvcc = shutil.which("nvcc") or next((str(p) for p in [pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "bin" / "nvcc"]
                                         if p.exists()), None)
    targets = "regatta-train regatta-cuda regatta_cuda_kernels_100a cuda_ops_test cuda_model_test gpu_preflight"
    return nvcc and (f"export CUDACXX='{nvcc}' && cmake --preset cuda -DWITH_PAGE=OFF -DWITH_TESTS=ON && "
                     f"cmake --build --preset cuda --target {targets}")


def fuzz(totals, limit):
    if not single(totals, "fuzz-build", ["sh", "-c", FUZZ_BUILD], limit):
        return
    seconds = os.environ.get("REGATTA_FUZZ_SECONDS", "60")
    targets = [target for target in sorted((ROOT / "build" / "asan" / "tests" / "fuzz").glob("fuzz_*"))
               if target.is_file() and os.access(target, os.X_OK)]

    def one(target):
        corpus = ROOT / "build" / "fuzz" / "corpus" / target.name
        corpus.mkdir(parents=True, exist_ok=True)
        single(totals, target.name, [str(target), f"-max_total_time={seconds}", "-rss_limit_mb=3000",
                                     f"-artifact_prefix={RESULTS}/{target.name}-", str(corpus),
                                     str(ROOT / "tests" / "fuzz" / "corpus" / target.name.removeprefix("fuzz_"))], limit)
    with concurrent.futures.ThreadPoolExecutor(CORES) as pool:
        list(pool.map(one, targets))


def cuda(totals, limit):
    """The real plug-in for every architecture, loaded by the real program; it needs the CUDA Toolkit."""
    command = cuda_build()
    if command is None:
        totals.add("cuda", "skipped", "needs the CUDA Toolkit (nvcc)")
        return
    if not single(totals, "cuda", ["sh", "-c", command], limit):
        return
    trainer = ROOT / "build" / "cuda" / "trainer" / "regatta-train"
    done = subprocess.run([trainer, "bench", "step", "--device", "cuda", "--dtype", "bfloat16", "--samples", "2", "--steps", "1"],
                          cwd=ROOT, capture_output=True, text=True, timeout=120)
    trained = done.returncode == 0 and "tokens_per_second" in done.stdout
    refused = done.returncode != 0 and re.fullmatch(r"regatta-train: [^\n]*(driver|GPU)[^\n]*\n", done.stderr) is not None
    totals.add("cuda: the plug-in trains, or says in one line what is missing", "passed" if trained or refused else "failed",
               "" if trained or refused else done.stderr[-500:])


RELEASE = ROOT / "build" / "release"
NUMERIC = ["model_test", "cpu_device_test", "checkpoint_writer_test", "checkpoint_keeper_test"]
PARSING = ["base_test", "base_process_test", "plan_test", "contract_test", "checkpoint_test", "checkpoint_faults_test",
           "checkpoint_tensorflow_test", "base_socket_test", "samples_test", "ranks_test", "thread_ranks_test",
           "data_tokenizer_test", "data_prepare_test", "orchestrator_test", "orchestrator_store_test", "orchestrator_slurm_test", "orchestrator_frozen_test", "graph_test",
           "hostlist_test", "ibnetdiscover_test", "fabric_shape_test", "slurm_topology_test", "rank_file_test",
           "smi_topo_test", "nccl_xml_test", "paths_test", "cluster_file_test", "doctor_test", "read_any_test", "probe_test",
           "plan_store_test", "tuner_test", "tuner_plugin_test", "orchestrator_plan_test", "orchestrator_planner_test",
           "orchestrator_simulation_test", "tuner_agreement_test"]
THREADED = ["base_test", "data_prepare_test", "model_test", "cpu_device_test", "orchestrator_test", "orchestrator_store_test",
            "base_socket_test", "ranks_test", "thread_ranks_test", "checkpoint_writer_test", "orchestrator_ckpt_test",
            "tuner_agreement_test", "samples_test", "input_loop_test"]
# Cases that compute figures for minutes with code that shorter ones run, too, or read the sources.
FIGURES = ["JudgedPlans[.]", "MlperfStudy[.]", "SamplerRecipeOfWikipedia[.]", "GeneralFunctions[.]", "Tune[.]HoldsForAny",
           "Planner[.]PlansEveryExample", "PlanCommand[.](ReckonsAStep|EveryForm)", "PlanDecisions[.]WhatSaves", "NoiseScale[.]IntervalsHold"]
VARIANTS = {"asan": PARSING + NUMERIC, "tsan": sorted({*THREADED, *NUMERIC})}
# name, budget in seconds, part of the default run, what it does
STAGES = [
    ("install", 300, True, install),
    ("build", 1200, True, lambda t, limit, o: build(t, limit)),
    ("tidy", 20, True, lambda t, limit, o: (single(t, "tidy", [sys.executable, "tests/tidy.py"], limit),
                                            counted(t, "tidy.rules", [sys.executable, "tests/tidy_test.py"], limit))),
    ("format", 20, True, lambda t, limit, o: lint(t, "format", limit, o)),
    ("shellcheck", 10, True, lambda t, limit, o: lint(t, "shellcheck", limit, o)),
    ("clang-tidy", 90, True, lambda t, limit, o: lint(t, "clang-tidy", limit, o)),
    ("unit", 900, True, lambda t, limit, o: ctest(t, "unit", RELEASE, limit, ["-L", "^unit$"], None, CORES + 1)),  # a quarter waits
    ("slow", 600, True, lambda t, limit, o: ctest(t, "slow", RELEASE, limit, ["-L", "^slow$"],
                                                  {"REGATTA_REPETITIONS": "100" if o.all else "10"})),
    ("measured", 600, False, lambda t, limit, o: ctest(t, "measured", RELEASE, limit, ["-L", "^measured$"],
                                                       {"REGATTA_REPETITIONS": "100"}, 1)),
    ("slurm", 480, True, lambda t, limit, o: ctest(t, "slurm", RELEASE, limit, ["-L", "^slurm$"],
                                                {"REGATTA_REPETITIONS": "100" if o.all else "10"}, 4)),  # they wait more than they work
    ("chaos", 100, True, lambda t, limit, o: ctest(t, "chaos", RELEASE, limit, ["-L", "^chaos$"],
                                                {"REGATTA_REPETITIONS": "100" if o.all else "10"}, 1)),
    ("web", 660, True, lambda t, limit, o: counted(t, "web", ["tests/web/run.sh"], limit, {
        "REGATTA_BINARY": str(RELEASE / "orchestrator" / "regatta"), "REGATTA_REPETITIONS": "100" if o.all else "10"}, "--again")),
    ("demo", 220, True, lambda t, limit, o: counted(t, "demo", [sys.executable, "tests/demo_test.py"] + (["--all"] if o.all else []), limit)),
    ("examples", 240, True, lambda t, limit, o: counted(t, "examples", [sys.executable, "tests/examples_test.py"], limit)),
    ("mutants", 120, True, lambda t, limit, o: counted(t, "mutants", [sys.executable, "tests/mutants/mutants.py"] + (["--all"] if o.all else []), limit)),
    ("cuda", 900, False, lambda t, limit, o: cuda(t, limit)),
    ("asan", 2700, False, lambda t, limit, o: variant(t, "asan", limit, {"REGATTA_SANITIZED": "1"})),
    ("tsan", 2400, False, lambda t, limit, o: variant(t, "tsan", limit, {
        "TSAN_OPTIONS": f"halt_on_error=1 second_deadlock_stack=1 suppressions={ROOT}/tests/tsan.supp", "REGATTA_SANITIZED": "1"})),
    ("fuzz", 900, False, lambda t, limit, o: fuzz(t, limit)),
    ("bench", 2700, False, lambda t, limit, o: single(t, "bench", ["tests/bench/run.sh"], limit)),  # its --all is for figures that are quoted
]
FULL = {"clang-tidy": 8, "slow": 6, "slurm": 2, "chaos": 8, "demo": 3, "mutants": 8}  # times its budget that a stage has with --all


def is_wanted(name, default, options):
    return name in options.stage if options.stage else (default or options.all)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="everything, in full")
    parser.add_argument("--stage", action="append", choices=[s[0] for s in STAGES], help="only this stage; repeatable")
    options = parser.parse_args()
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as a job in the background has it: tests of Ctrl-C would inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    RESULTS.mkdir(parents=True, exist_ok=True)
    totals = Totals()
    totals.tries = 1 if options.all else 2
    for name, budget, default, body in STAGES:
        if not is_wanted(name, default, options):
            continue
        budget *= FULL.get(name, 1) if options.all else 1
        print(f"== {name} (budget {budget} s)", flush=True)
        before, start = totals.failed, time.monotonic()
        body(totals, budget * HARD_LIMIT, options)
        seconds = time.monotonic() - start
        totals.stages.append((name, seconds, budget))
        print(f"   {'ok' if totals.failed == before else 'FAILED'} in {seconds:.0f} s", flush=True)
        if name in ("install", "build") and totals.failed:
            break
    report(totals)
    left_out = [name for name, _, default, _ in STAGES if not is_wanted(name, default, options)]
    if left_out and not options.stage:
        print(f"not run: {', '.join(left_out)}; --all runs them")
    print(f"{totals.passed} passed, {totals.failed} failed, {totals.skipped} skipped")
    return 1 if totals.failed else 0


def report(totals):
    print("\nstage      seconds  budget")
    for name, seconds, budget in totals.stages:
        print(f"{name:10} {seconds:7.0f} {budget:7d}{'  over budget' if seconds > budget else ''}")
    for title, entries in (("skipped", totals.skips), ("passed at the second try", totals.again), ("FAILED", totals.failures)):
        for entry in entries:
            print(f"{title}: {entry}")
    (RESULTS / "stages.json").write_text(json.dumps(
        [{"stage": n, "seconds": round(s, 1), "budget": b} for n, s, b in totals.stages], indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
