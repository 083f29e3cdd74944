"""The stage `first`: what a machine with a GPU that has run nothing yet is asked, the most telling first. Every part is in
gpu-first.json as it ends. Time is kept for the measurements: a fault or a hang before them cannot use it up."""
import csv
import glob
import io
import json
import os
import re
import shutil
import subprocess

import benches
import gtest_runs
import machine

# Seconds at the most.
LOAD, FORMS, FORM, ATTENTION, WGMMA, KERNELS, STEP, PROFILE = 60, 40, 15, 120, 80, 60, 70, 50
MEASURING = 2 * (KERNELS + STEP)  # kept for the measurements until they begin
FORM_COUNT = 12  # of gpu_preflight's (tests/trainer/cuda/wgmma_probe.cu)
ATTENTION_TESTS = "Attention"
# Forward, and backward (trainer/cuda/attention_*_wgmma.cu*).
WGMMA_KERNELS = {"forward": "^forward_wgmma_kernel", "backward": "^wgmma_kernel"}


def run(stage, also):
    """`also(stage)`: what the other tests end with."""
    if not preflight(stage):
        stage.report.note("the preflight failed, so nothing else was tried")
        return
    names = {program: gtest_runs.names_of(stage, program) for program in ("cuda_model_test", "cuda_ops_test")}
    wgmma = stage.has_wgmma() and wgmma_forms(stage)
    done = attention(stage, names["cuda_ops_test"], wgmma)
    for way in ["automatic", *(["wgmma"] if wgmma and done["wgmma"] else [])]:
        benches.measure_kernels(stage, [("large", benches.kernel_case(way))], KERNELS)
        case = benches.step_case("--optimizer", "lamb", "--attention", way, steps=benches.STEADY)
        benches.measure_steps(stage, [("large", case)], STEP)
    if wgmma and done["wgmma"]:
        profile(stage)
    elif stage.has_wgmma():
        stage.report.note("warpgroup products were not measured: they hang, or leave the GPU unusable")
    names["cuda_ops_test"] = [name for name in names["cuda_ops_test"] if name not in done["tests"]]
    # The whole model, then the table of operations, whose warpgroup products come last.
    gtest_runs.run_all(stage, "cuda_model_test", 1, names["cuda_model_test"])
    gtest_runs.run_all(stage, "cuda_ops_test", 4, names["cuda_ops_test"])
    also(stage)


# ---------------------------------------------------------------- preflight


def preflight(stage):
    """Whether programs and plug-ins load, and one product is right."""
    good = libraries(stage)
    for check in ("device", "product"):
        code, lines, said = probe(stage, [check], LOAD)
        stage.report.add({"name": f"preflight: {check}", "exit_code": code, "result": lines[0] if lines else None})
        if code == 0 and lines:
            print(f"   {check}: {json.dumps(lines[0])}", flush=True)
            continue
        stage.report.fail(f"preflight: {check}: {how(code)}: {said[-300:]}")
        return False
    return good


def libraries(stage):
    """What the loader finds for each program and plug-in, by ldd and so without running it."""
    missing = {}
    files = sorted(path for path in (stage.bundle / "bin").iterdir() if path.is_file())
    for path in files:
        done = subprocess.run(["ldd", str(path)], capture_output=True, text=True, timeout=30, env=machine.program_environment(stage.bundle))
        found = [line.strip() for line in (done.stdout + done.stderr).splitlines() if "not found" in line]
        if found:
            missing[path.name] = found
    stage.report.add({"name": "preflight: libraries", "result": {"files": [path.name for path in files], "missing": missing}})
    for name, lines in missing.items():
        stage.report.fail(f"preflight: {name} does not load here: {'; '.join(lines)[:300]}")
    return not missing


def probe(stage, arguments, limit):
    """(exit code, the JSON lines, the last other line) of gpu_preflight."""
    code, out, err = stage.run([stage.program("gpu_preflight"), *arguments], limit)
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return code, lines, (err.strip().splitlines() or [""])[-1]


def how(code):
    if code is None:
        return "no end within its limit"
    return "left the GPU unusable" if code == gtest_runs.FAULT else f"exit code {code}"


def wgmma_forms(stage):
    """One warpgroup product of each form beside mma.sync. Where one process does not get through, each form has its own.
    Whether the instructions can be used at all: a wrong sum is for the tests to explain."""
    code, lines, said = probe(stage, ["wgmma"], FORMS)
    usable, forms = code in (0, 1), {str(number): line for number, line in enumerate(lines)}
    if not usable:
        hangs = 0
        for number in range(len(lines), FORM_COUNT):
            code, lines, said = probe(stage, ["wgmma", str(number)], FORM)
            forms[str(number)] = lines[0] if lines else {"error": f"{how(code)}: {said[-200:]}"}
            hangs += code is None
            if hangs == gtest_runs.HANGS:
                break
    stage.report.add({"name": "preflight: wgmma", "result": forms})
    for number, form in forms.items():
        if "error" in form:
            stage.report.fail(f"preflight: wgmma form {number}: {form['error']}")
        elif form.get("wgmma_wrong") or form.get("mma_wrong"):
            stage.report.fail(f"preflight: {form['form']}: {form['wgmma_wrong']} sums of wgmma and {form['mma_wrong']} of mma.sync are wrong, of {form['of']}")
    if usable and not stage.report.data["failures"]:
        print(f"   wgmma: {len(forms)} forms agree with mma.sync", flush=True)
    return usable


# ---------------------------------------------------------------- tests


def attention(stage, names, wgmma):
    """The attention cases of the table of operations, each way in a process of its own; warpgroup products after the others
    and one type after the other. Returns the tests that were run, and whether warpgroup products can be measured."""
    ways = gtest_runs.by_way([name for name in names if ATTENTION_TESTS in name])
    plain = [names for way, names in ways.items() if not gtest_runs.is_wgmma(way)]
    outcome = gtest_runs.Outcome()
    gtest_runs.run_side_by_side(stage, "cuda_ops_test", plain, outcome, stage.until(ATTENTION, MEASURING + WGMMA))
    gtest_runs.report_tests(stage, "attention", outcome)
    tests, usable = {name for names in plain for name in names if outcome.knows(name)}, wgmma
    for way, names in ways.items():
        if not gtest_runs.is_wgmma(way) or not wgmma:
            continue
        outcome = gtest_runs.Outcome()
        gtest_runs.run_list(stage, "cuda_ops_test", names, outcome, stage.until(WGMMA, MEASURING))
        gtest_runs.report_tests(stage, f"attention: {way}", outcome)
        tests |= {name for name in names if outcome.knows(name)}
        usable = usable and not any(re.search("no end within|GPU unusable|exit code", text) for text in outcome.failed.values())
    return {"tests": tests, "wgmma": usable}


# ---------------------------------------------------------------- profile


def profiler():
    places = [shutil.which("ncu"), "/usr/local/cuda/bin/ncu", *sorted(glob.glob("/opt/nvidia/nsight-compute/*/ncu"), reverse=True)]
    return next((place for place in places if place and os.access(place, os.X_OK)), None)


def profile(stage):
    """One launch of each of the two warpgroup kernels in a step of BERT-large, by Nsight Compute, with the clocks as they are."""
    tool = profiler()
    if tool is None:
        stage.report.note("not profiled: there is no ncu on this machine")
        return
    sections = ["SpeedOfLight", "LaunchStats", "Occupancy", "SchedulerStats", "WarpStateStats", "MemoryWorkloadAnalysis", "ComputeWorkloadAnalysis"]
    for name, kernel in WGMMA_KERNELS.items():
        if stage.remaining() < PROFILE / 2:
            stage.report.note(f"not profiled, out of time: {name}")
            continue
        command = [tool, "--clock-control", "none", "--kernel-name", f"regex:{kernel}", "--launch-skip", "2", "--launch-count", "1",
                   "--kill", "yes", "--csv", "--page", "details", *(word for section in sections for word in ("--section", section)),
                   *benches.bench(stage, "step", "large", ["--samples", "96", "--dtype", "bfloat16", "--gelu", "tanh", "--attention", "wgmma",
                                                           "--steps", "1", "--warmup", "1", "--no-graphs"])]
        code, out, err = stage.run(command, PROFILE)
        metrics = metrics_of(out)
        stage.report.add({"name": f"ncu: {name}", "kernel": kernel, "exit_code": code, "metrics": metrics})
        if metrics:
            print(f"   ncu, {name}: {len(metrics)} metrics", flush=True)
        else:
            stage.report.note(f"not profiled: {name}: {how(code)}: {((out + err).strip().splitlines() or [''])[-1][-200:]}")


def metrics_of(text):
    """{section: metric [unit]: value} of ncu's table, whose lines are the only ones in quotes."""
    rows = csv.DictReader(io.StringIO("\n".join(line for line in text.splitlines() if line.startswith('"'))))
    return {f"{row['Section Name']}: {row['Metric Name']}" + (f" [{row['Metric Unit']}]" if row.get("Metric Unit") else ""): row["Metric Value"]
            for row in rows if row.get("Metric Name") and row.get("Metric Value")}
