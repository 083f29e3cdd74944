#!/usr/bin/env python3
"""Tests the harness of tests/gpu.sh where there is no GPU.

    tests/gpu.sh --check [TRAINER [FAULTS PREFLIGHT]]
        TRAINER: a regatta-train to measure with, on the CPU; FAULTS, PREFLIGHT: fault_program.cc and preflight.cc on
        an emulated GPU

The last line is `N passed, N failed, N skipped`.
"""
import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
import tokenize

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import benches  # noqa: E402
import goals  # noqa: E402
import interop  # noqa: E402
import machine  # noqa: E402
import pack  # noqa: E402
import peer_cases  # noqa: E402
import stages  # noqa: E402
from stand_ins import CASES, GPU, MODEL, OPS, ROOT, STEP, WORK, Skipped, case, check, fake_bundle, fresh, gpu, gtest, result, script  # noqa: E402


@case
def shell_and_python_syntax():
    subprocess.run(["bash", "-n", str(GPU)], check=True, timeout=30)
    check(os.access(GPU, os.X_OK), "tests/gpu.sh is not executable")
    scripts = sorted(HERE.glob("*.py"))
    check(len(scripts) >= 8, f"only {len(scripts)} scripts")
    for path in scripts:
        with tokenize.open(path) as file:
            compile(file.read(), str(path), "exec")


@case
def bad_arguments_are_refused():
    for arguments, word in ((["nonsense"], "nonsense"), (["--limit", "0", "tests"], "--limit"), (["--device", "tpu"], "tpu"),
                            (["--patience", "0", "tests"], "--patience"), (["--bundle", WORK / "nowhere", "tests"], "nowhere"), (["--pack", "--jobs", "many"], "many")):
        code, text = gpu(*arguments)
        check(code == 2, f"{arguments}: exit code {code}")
        check(word in text, f"{arguments}: {text}")


@case
def help_names_every_stage():
    code, text = gpu("--help")
    check(code == 0, f"exit code {code}")
    for stage in ("first", "tests", "kernels", "step", "ablation", "peer", "sanitizer", "interop"):
        check(stage in text, f"no {stage} in the help")


@case
def a_passing_stage_leaves_its_result():
    bundle, output = fake_bundle("passing", {"cuda_ops_test": gtest(OPS), "cuda_model_test": MODEL}), WORK / "passing-out"
    code, text = gpu("tests", "--bundle", bundle, "--output", output)
    check(code == 0, text)
    data = result(output, "tests")
    check(data["outcome"] == "passed" and data["commit"] == "0123abc", f"{data}")
    check(data["command"].startswith("tests/gpu.sh tests --bundle"), data["command"])
    for key in ("gpu", "driver", "nvcc", "cublasLt", "torch", "transformers"):
        check(data["machine"].get(key), f"no {key} in {data['machine']}")
    check([entry["passed"] for entry in data["results"][:2]] == [2, 2], f"{data['results']}")
    check(data["results"][2]["name"] == "tuner plug-in" and len(data["results"][2]["log"]) == 1, f"{data['results']}")
    check(data["not_built_yet"] == [], f"{data}")
    check(json.loads((output / "gpu-summary.json").read_text())["outcomes"] == {"tests": "passed"}, "the summary")


@case
def a_tuner_that_is_not_loaded_is_a_failure():
    silent = MODEL.replace("nccl'", "pass'")
    bundle, output = fake_bundle("untuned", {"cuda_ops_test": gtest(OPS), "cuda_model_test": silent}), WORK / "untuned-out"
    code, text = gpu("tests", "--bundle", bundle, "--output", output)
    check(code == 1 and "did not load the tuner plug-in" in text, text)
    corpus = ROOT / "tests" / "fuzz" / "corpus" / "tuner_file" / "one_rank.tuner"  # which tuner_test reads
    check(stages.plan_of_one_rank() == corpus.read_bytes(), "the plan of one rank is not what tuner_test reads")


@case
def a_failing_stage_is_reported_and_the_next_one_runs():
    ops = gtest({**OPS, "Gpu/Ops.Last/bfloat16": "fail values differ: 1 and 2"})
    bundle = fake_bundle("failing", {"cuda_ops_test": ops, "cuda_model_test": MODEL, "regatta-train": STEP})
    output = WORK / "failing-out"
    code, text = gpu("tests", "step", "--bundle", bundle, "--output", output)
    check(code == 1, f"exit code {code}: {text}")
    data = result(output, "tests")
    check(data["outcome"] == "failed", data["outcome"])
    ops = data["results"][0]
    check((ops["passed"], ops["failed"]) == (1, 1), f"{ops}")
    check("values differ" in ops["failures"][0]["message"], f"{ops}")
    check(result(output, "step")["outcome"] == "passed", text)
    check(result(output, "step")["best_samples_per_second"] == {"large": 1000.0, "base": 3000.0}, "rates")
    check("FAILED tests" in text, text)


@case
def the_summary_sets_both_sides_beside_each_other():
    output = fresh("summary")
    peer = {"outcome": "passed", "best": {"large": {"samples_per_second": 500.0, "case": "pure"}},
            "best_with_float32_weights": {"large": {"samples_per_second": 400.0, "case": "autocast"}, "mini": {"samples_per_second": 1.0, "case": "x"}}}
    step = {"outcome": "passed", "best_samples_per_second": {"large": 1000.0, "base": 3000.0}}
    stages.summarize({"step": step, "peer": peer}, stages.parse(["--output", str(output), "--bundle", str(output)]))
    data = json.loads((output / "gpu-summary.json").read_text())["samples_per_second"]
    check(set(data) == {"large"}, f"{data}")
    for name, stage in (("step", step), ("peer", peer)):
        (output / f"gpu-{name}.json").write_text(json.dumps(stage))
    code, text = gpu("--summarize", "--output", output)
    check(code == 0 and "2.50" in text, text)
    check((data["large"]["best"]["ratio"], data["large"]["best_with_float32_weights"]["ratio"]) == (2.0, 2.5), f"{data}")


# What the stages of one call could leave.
def all_results(samples_per_second, idle):
    def bench(ways, share):
        attention = [{"name": f"attention.{way}", "flop": flop, "seconds": 1.0} for way, flop in zip(("forward", "backward"), ways)]
        rows = [{"name": name, "percent_of_ceiling": share} for name in ("layer_norm.forward", "layer_norm.backward", "update.lamb", "update.adamw")]
        return {"model": "large", "dtype": "bfloat16", "samples": 96, "dropout": 0.1, "attention": "automatic", "kernels": attention + rows}
    step = {"model": "large", "dtype": "bfloat16", "optimizer": "lamb", "samples_per_step": 96, "dropout": 0.1, "attention": "automatic",
            "graphs": True, "samples_per_second": samples_per_second, "idle_share": idle}
    peer = {"benchmark": "peer", "model": "large", "implementation": "plain", "precision": "autocast", "compile": True}
    torch = {"benchmark": "peer attention", "model": "large", "cases": [{"dropout": 0.1, "both_tflop_per_second": 200.0},
                                                                       {"dropout": 0.0, "both_tflop_per_second": 900.0}]}
    stages_of = {"step": [step, {**step, "dropout": 0.0, "samples_per_second": 9e9}, {**step, "optimizer": "adamw", "samples_per_second": 8e9}],
                 "kernels": [bench((2e14, 3e14), 81.0), bench((1e14, 2e14), 70.0)],
                 "peer": [{**peer, "mode": "padded", "samples_per_second": 400.0}, {**peer, "mode": "bucketed", "samples_per_second": 7e9}, torch]}
    return {stage: {"outcome": "passed", "results": [{"result": result} for result in results]} for stage, results in stages_of.items()}


@case
def goals_are_judged_by_the_results():
    lines = {line["goal"]: line for line in goals.goals(all_results(1050.0, 0.015))}
    expected = {"samples/s, 96 a step, LAMB": (1050, 2), "samples/s to the peer's best padded": (2.625, 2), "samples/s, 256 a step, LAMB": (None, 0),
                "attention forward and backward, TFLOP/s": (250, 2), "attention to torch's variable-length one": (1.25, 1),
                "LayerNorm, % of the copy's bandwidth": (81, 1), "optimizer, % of the copy's bandwidth": (81, 0),
                "GPU idle between steps, % (less is better)": (1.5, 1)}
    found = {goal: (line["measured"], line["reached"]) for goal, line in lines.items()}
    check(found == expected, f"{found}")
    slow = {line["goal"]: line["reached"] for line in goals.goals(all_results(700.0, 0.05))}
    check(slow["samples/s, 96 a step, LAMB"] == 0 and slow["GPU idle between steps, % (less is better)"] == 0, f"{slow}")
    nothing = goals.goals({})
    check(all(line["measured"] is None and line["reached"] == 0 for line in nothing), f"{nothing}")
    check(goals.text_of(nothing[0]) == "samples/s, 96 a step, LAMB: not measured (asked 850, 1000, 1100)", goals.text_of(nothing[0]))
    check("reached 2 of 3" in goals.text_of(lines["samples/s, 96 a step, LAMB"]), f"{lines}")


@case
def a_missing_program_fails_its_stage():
    bundle, output = fake_bundle("missing", {}), WORK / "missing-out"
    code, text = gpu("step", "--bundle", bundle, "--output", output)
    check(code == 1 and "not in the bundle" in text, text)


@case
def output_that_is_no_json_fails():
    bundle, output = fake_bundle("garbled", {"regatta-train": "echo nonsense"}), WORK / "garbled-out"
    code, text = gpu("step", "--bundle", bundle, "--output", output)
    check(code == 1 and "no JSON" in text, text)
    check(all("error" in entry for entry in result(output, "step")["results"]), "errors are kept")


@case
def a_program_that_hangs_is_ended():
    marker = WORK / "pid"
    hang = f"case $* in *--help*) exit 0;; esac; echo $$ >{marker}; sleep 300 & wait"
    bundle, output = fake_bundle("hang", {"regatta-train": hang}), WORK / "hang-out"
    begin = time.monotonic()
    code, text = gpu("step", "--bundle", bundle, "--output", output, "--limit", "12", "--part-limit", "2")
    check(code == 1, text)
    check(time.monotonic() - begin < 60, "it took long")
    check("time limit" in json.dumps(result(output, "step")["results"]), text)
    check(not pathlib.Path(f"/proc/{int(marker.read_text())}").exists(), "it still runs")


# A runner whose stages are made up.
FAKE_STAGES = """
import os, pathlib, subprocess, sys, time
sys.path.insert(0, {here!r})
import stages
def stage_slow(stage):
    stage.report.add({{"name": "first part"}})
    child = stages.launch(["sleep", "300"])
    pathlib.Path({marker!r}).write_text(str(child.pid))
    time.sleep(300)
def stage_absent(stage):
    raise stages.Skip("no such tool")
def stage_broken(stage):
    raise ValueError("a surprise")
def stage_dies(stage):
    os._exit(7)
def stage_good(stage):
    stage.report.add({{"name": "all"}})
for name in ("slow", "absent", "broken", "dies", "good"):
    setattr(stages, "stage_" + name, globals()["stage_" + name])
stages.STAGES = ["slow", "absent", "broken", "dies", "good"]
sys.exit(stages.main())
"""


def fake_runner(marker):
    path = WORK / f"runner-{marker.name}.py"
    path.write_text(FAKE_STAGES.format(here=str(HERE), marker=str(marker)))
    return [sys.executable, str(path)]


@case
def a_stage_that_sleeps_is_cut_off_and_keeps_what_it_has():
    marker, output, bundle = WORK / "child", WORK / "slow-out", fake_bundle("slow", {})
    code, text = gpu("slow", "good", "--bundle", bundle, "--output", output, "--limit", "10", program=fake_runner(marker))
    check(code == 1, text)
    data = result(output, "slow")
    check(data["outcome"] == "timed out", f"{data}")
    check(data["results"] == [{"name": "first part"}], f"{data['results']}")
    check(data["seconds"] < 60, f"{data['seconds']} s")
    check(result(output, "good")["outcome"] == "passed", text)
    check(not pathlib.Path(f"/proc/{int(marker.read_text())}/exe").exists(), "its child still runs")


@case
def skips_are_loud_and_can_be_refused():
    output, bundle = WORK / "skip-out", fake_bundle("skip", {})
    arguments = ["absent", "--bundle", bundle, "--output", output]
    code, text = gpu(*arguments, program=fake_runner(WORK / "unused"))
    check(code == 0 and "SKIPPED absent: SKIPPED: no such tool" in text, text)
    check(result(output, "absent")["outcome"] == "skipped", text)
    code, text = gpu(*arguments, program=fake_runner(WORK / "unused"), environment={"REQUIRE": "gpu,absent"})
    check(code == 1 and result(output, "absent")["outcome"] == "failed", text)


@case
def surprises_fail_only_their_stage():
    output, bundle = WORK / "broken-out", fake_bundle("broken", {})
    code, text = gpu("broken", "dies", "good", "--bundle", bundle, "--output", output, program=fake_runner(WORK / "unmarked"))
    check(code == 1, text)
    check([result(output, stage)["outcome"] for stage in ("broken", "dies", "good")] == ["failed", "failed", "passed"], text)
    check("a surprise" in text, text)


# A compute-sanitizer that runs what it is given and then reports `errors`.
def sanitizer(errors):
    return f"""
echo '========= COMPUTE-SANITIZER'
for a in "$@"; do case $a in */cuda_ops_test) program=$a;; esac; done
"$program"
[ {errors} = 0 ] || echo '========= Invalid __global__ write of size 4 bytes'
echo '========= ERROR SUMMARY: {errors} errors'
[ {errors} = 0 ] || exit 9
"""


@case
def findings_of_the_sanitizer_fail():
    for errors, wanted in ((0, "passed"), (2, "failed")):
        bundle = fake_bundle(f"sanitizer{errors}", {"cuda_ops_test": gtest(OPS)})
        output, tools = WORK / f"sanitizer{errors}-out", fresh(f"tools{errors}")
        script(tools / "compute-sanitizer", sanitizer(errors))
        code, text = gpu("sanitizer", "--bundle", bundle, "--output", output,
                         environment={"PATH": f"{tools}:{os.environ['PATH']}"})
        data = result(output, "sanitizer")
        check(data["outcome"] == wanted and code == (errors > 0), text)
        names = ["memcheck", "racecheck", "memcheck of wgmma", "synccheck of wgmma"]
        check([(entry["name"], entry["tests_finished"]) for entry in data["results"]] == [(name, 2) for name in names], f"{data['results']}")
        check(("Invalid __global__ write" in json.dumps(data)) == (errors > 0), f"{data['results']}")


@case
def every_case_of_the_peer_is_understood():
    cases = peer_cases.gpu_cases() + peer_cases.cpu_cases()
    check(len({" ".join(entry) for entry in cases}) == len(cases), "a case is listed twice")
    for entry in cases:
        options = peer_cases.parse(["--lengths", "x", *entry])
        check(options.samples > 0 and options.steps > 0, f"{entry}")


@case
def libraries_of_a_bundle():
    text = """\tlinux-vdso.so.1 (0x00007f)
\tlibzstd.so.1 => /lib/x86_64-linux-gnu/libzstd.so.1 (0x00007f)
\tlibcublasLt.so.13 => not found
\tlibstdc++.so.6 => /lib/x86_64-linux-gnu/libstdc++.so.6 (0x00007f)
\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f)
\t/lib64/ld-linux-x86-64.so.2 (0x00007f)
"""
    check(pack.needed_libraries(text) == {"libzstd.so.1": "/lib/x86_64-linux-gnu/libzstd.so.1"}, f"{pack.needed_libraries(text)}")
    check(pack.needed_libraries("\tstatically linked\n") == {}, "a static program needs nothing")
    try:
        pack.needed_libraries("\tlibfmt.so.9 => not found\n")
    except RuntimeError as error:
        check("libfmt.so.9" in str(error), str(error))
    else:
        raise AssertionError("a library that is not there was accepted")


@case
def made_up_text_has_documents():
    training, held_out = pack.split_text(pack.made_up_text(50_000))
    check(training.count("\n\n") > 10 * 0.9 and held_out.strip(), "documents")
    check(pack.made_up_text(20_000) == pack.made_up_text(20_000), "the same text every time")


def trainer_bundle(name):
    if len(sys.argv) < 2:
        raise Skipped("no trainer was named")
    bundle = fake_bundle(name, {})
    (bundle / "bin").mkdir()
    os.symlink(pathlib.Path(sys.argv[1]).resolve(), bundle / "bin" / "regatta-train")
    return bundle


@case
def the_trainer_on_the_cpu():
    bundle, output = trainer_bundle("trainer"), WORK / "trainer-out"
    code, text = gpu("kernels", "step", "ablation", "--device", "cpu", "--bundle", bundle, "--output", output)
    check(code == 0, text[-3000:])
    (kernels,) = result(output, "kernels")["results"]
    names = {entry["name"] for entry in kernels["result"]["kernels"]}
    check({"qkv.forward", "attention.backward", "update.lamb"} <= names, f"{names}")
    check("qkv.forward" in text, "the table is shown")
    (step,) = result(output, "step")["results"]
    check(step["result"]["samples_per_second"] > 0, f"{step}")
    ablation = result(output, "ablation")
    check(ablation["ratios"]["everything: everything"] == 1 and ablation["ratios"]["off: unpadding"] > 0, f"{ablation['ratios']}")
    check(ablation["ratios"]["off: graphs"] == "GPU only" and ablation["ratios"]["added: balance"] == "needs several ranks", "skipped rows say why")
    check("without fused kernels" in text, "the table is shown")


@case
def interop_reads_the_ids_that_prepare_writes():
    trainer = trainer_bundle("ids") / "bin" / "regatta-train"
    work = fresh("ids-work")
    (work / "text").write_text(pack.made_up_text(20_000))
    interop.run_trainer(trainer, "prepare", work / "text", "--output", work / "data", "--train-vocab", "300", "--threads", "1")
    pieces = (work / "data" / "vocab.txt").read_text(encoding="utf-8").splitlines()
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    lines = [line for line in interop.lines_of((work / "text").read_text()) if line.isascii() and "\t" not in line]
    check(len(lines) > 20, f"{len(lines)} lines")
    expected = {tuple(interop.pieces_of(line, vocabulary)) for line in lines}
    found = interop.prepared_ids(trainer, lines, work / "data" / "vocab.txt", False, work)
    check(found == expected, f"{len(found ^ expected)} of {len(expected)} lines: {sorted(found ^ expected)[:2]}")
    hard = interop.prepared_ids(trainer, interop.HARD_LINES, work / "data" / "vocab.txt", False, fresh("ids-hard"))
    check(len(hard) > 5, f"{len(hard)} hard lines")


@case
def the_peer_on_the_cpu():
    if not machine.output_of([sys.executable, "-c", "import torch; print(torch.__version__)"], 120):
        raise Skipped("needs a PyTorch that this Python can import")
    bundle, output = fake_bundle("peer", {}), WORK / "peer-out"
    code, text = gpu("peer", "--device", "cpu", "--bundle", bundle, "--output", output)
    check(code == 0, text[-3000:])
    data = result(output, "peer")
    check(data["best"]["tiny"]["samples_per_second"] > 0 and data["handicaps"], f"{data['best']}")
    losses = data["results"][0]["result"]["losses"]
    check({"padded", "longest", "bucketed", "packed"} <= set(losses), f"{losses}")


import check_runs  # noqa: E402,F401  its cases come behind these
import check_first  # noqa: E402,F401


def outcome_of(function):
    """(passed, failed or skipped; the line that tells it)."""
    begin, why = time.monotonic(), ""
    try:
        function()
        outcome = "passed"
    except Skipped as skip:
        outcome, why = "skipped", f": {skip}"
    except Exception as error:  # every failure is counted, and the next case runs
        outcome, why = "failed", f": {type(error).__name__}: {error}"
    return outcome, f"{outcome}  gpu.{function.__name__}  {time.monotonic() - begin:.1f} s{why}"


def main():
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    try:
        # Many wait for a time to pass, so several stand side by side; each has directories of its own.
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for outcome, line in pool.map(outcome_of, CASES):
                counts[outcome] += 1
                print(line, flush=True)
    finally:
        shutil.rmtree(WORK, ignore_errors=True)
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
