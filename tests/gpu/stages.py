#!/usr/bin/env python3
"""Runs stages of tests and measurements on a machine with a GPU.

    tests/gpu.sh first       on a machine that has run nothing yet: preflight, attention, BERT-large, then the tests
    tests/gpu.sh [STAGE…]    tests kernels step ablation peer sanitizer interop; without any: all of these, in that order

Each stage is a process of its own with a time limit and leaves gpu-<stage>.json in the output
directory, renewed after every part, so that a stage that is cut off keeps what it has. A stage that
fails does not stop the others; the exit code is 1 if any failed. What time does not allow is noted and
is no failure. What cannot run is skipped, loudly; REQUIRE=peer,sanitizer,interop turns that into a failure.
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import benches  # noqa: E402
import first  # noqa: E402
import goals  # noqa: E402
import gtest_runs  # noqa: E402
import machine  # noqa: E402
from parts import GRACE, LEAST, Report, Skip, Stage, end_all, end_group, launch  # noqa: E402

STAGES = ["first", "tests", "kernels", "step", "ablation", "peer", "sanitizer", "interop"]
LIMIT = 540  # seconds of one stage
PATIENCE = 60  # that one test may take without a word


def stage_tests(stage):
    if not stage.on_gpu:
        raise Skip("the tests of this stage are the GPU's; ctest runs the CPU's")
    gtest_runs.run_all(stage, "cuda_ops_test", 4)
    gtest_runs.run_all(stage, "cuda_model_test", 1)
    tuner_is_loaded(stage)


def plan_of_one_rank():
    """A plan.tuner (topology/tuner/plan_file.h) for the only communicator that one GPU can have."""
    data = bytearray(b"RGTTUNER" + struct.pack("<IIQIIII", 1, 1, 0, 1, 1, 0, 0)
                     + struct.pack("<QQddBBBBHH", 256, 2**64 - 1, 0, 0, 4, 1, 2, 0, 0, 0))
    checksum = 0xCBF29CE484222325
    for byte in data:
        checksum = (checksum ^ byte) * 0x100000001B3 % 2**64
    struct.pack_into("<Q", data, 16, checksum)
    return bytes(data)


def tuner_is_loaded(stage):
    """NCCL loads the tuner plug-in, and the plug-in its plan: it says so in NCCL's log. That NCCL obeys it needs
    two GPUs: one rank chooses nothing."""
    if stage.remaining() < LEAST:
        stage.report.note("NCCL's tuner plug-in was not tried, out of time")
        return
    with tempfile.TemporaryDirectory(prefix="regatta-tuner-") as work:
        plan, log = pathlib.Path(work) / "plan.tuner", pathlib.Path(work) / "nccl.log"
        plan.write_bytes(plan_of_one_rank())
        environment = dict(machine.program_environment(stage.bundle), REGATTA_TUNER="on", REGATTA_TUNER_FILE=str(plan),
                           NCCL_TUNER_PLUGIN=str(stage.bundle / "bin" / "libnccl-tuner-regatta.so"),
                           NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT,TUNING", NCCL_DEBUG_FILE=str(log))
        for name in ("NCCL_ALGO", "NCCL_PROTO"):
            environment.pop(name, None)
        code, out, err = stage.run([stage.program("cuda_model_test"), "--gtest_color=no", "--gtest_filter=NcclOnOneGpu.*"], 120, environment)
        text = log.read_text(errors="replace") if log.exists() else ""
    lines = [line for line in text.splitlines() if "regatta" in line]
    stage.report.add({"name": "tuner plug-in", "exit_code": code, "log": lines[:20]})
    if "SKIPPED" in out:
        stage.report.note("SKIPPED: NCCL's tuner plug-in, without NCCL")
    elif code != 0 or not any("regatta: 1 ranges for 1 ranks on 1 nodes" in line for line in lines):
        stage.report.fail(f"NCCL did not load the tuner plug-in: exit code {code}, {lines or (text + out + err)[-300:]}")
    else:
        print(f"   tuner plug-in: {lines[-1].strip()}", flush=True)


def stage_first(stage):
    if not stage.on_gpu:
        raise Skip("this stage is the GPU's; --check walks it without one")
    first.run(stage, tuner_is_loaded)


def stage_kernels(stage):
    benches.measure_kernels(stage, benches.kernel_cases(benches.attention_ways(stage)) if stage.on_gpu else [
        ("tiny", ["--dtype", "float32", "--samples", "4", "--repetitions", "2", "--batch-seconds", "0.0005",
                  "--product-side", "128", "--copy-bytes", "65536"])])


def stage_step(stage):
    benches.measure_steps(stage, benches.step_cases(benches.attention_ways(stage)) if stage.on_gpu else [
        ("tiny", ["--dtype", "float32", "--samples", "4", "--steps", "2", "--warmup", "1"])])


def stage_ablation(stage):
    """One rank: what needs several says so in its row. Few samples, since attention by formula is slow."""
    if stage.on_gpu:
        model, more = "large", ["--dtype", "bfloat16", "--gelu", "tanh", "--samples", "32", "--steps", "3", "--rounds", "3"]
    else:
        model, more = "tiny", ["--samples", "2", "--steps", "1", "--rounds", "1"]
    more = ["--ranks", "1", *more]
    result, table = stage.measure(f"{model} {' '.join(more)}", benches.bench(stage, "ablation", model, more), LIMIT)
    if result:
        print(table, flush=True)
        stage.report.data["ratios"] = {f"{row['group']}: {row['name']}": row.get("ratio", row.get("skipped")) for row in result["rows"]}
        stage.report.save()


def stage_peer(stage):
    if machine.package("torch") == "absent":
        raise Skip("this machine's Python has no PyTorch")
    import peer_cases
    cases = peer_cases.gpu_cases() if stage.on_gpu else peer_cases.cpu_cases()
    stage.report.data["handicaps"] = peer_cases.HANDICAPS
    best, best_autocast = {}, {}
    for case in cases:
        arguments = [sys.executable, str(HERE / "peer.py"), "--lengths", str(stage.lengths), "--device", stage.options.device, *case]
        if stage.remaining() < 20:
            stage.report.note(f"not measured, out of time: {' '.join(case)}")
            continue
        record = len(stage.report.data["failures"])
        result, _ = stage.measure(" ".join(case), arguments, 150, dict(os.environ))
        if case[0] != "check":
            del stage.report.data["failures"][record:]  # a peer that does not run is a finding, kept in its result
        if result and "samples_per_second" in result:
            rate, model = result["samples_per_second"], result["model"]
            for kept in (best, best_autocast) if result["precision"] != "pure" else (best,):
                if rate > kept.get(model, {}).get("samples_per_second", 0):
                    kept[model] = {"samples_per_second": rate, "case": " ".join(case)}
            print(f"   {' '.join(case)}: {rate:.1f} samples/s", flush=True)
        elif result:
            print(f"   {' '.join(case)}: {json.dumps(result)[:400]}", flush=True)
    stage.report.data.update(best=best, best_with_float32_weights=best_autocast)
    stage.report.save()
    if not best:
        stage.report.fail("no configuration of the peer ran")


RACY = ("ttention", "LayerNorm", "Embedding", "Entropy", "Sum", "AdamW", "Lamb")  # operations with barriers


def sanitizer_runs(stage):
    """(name, tool, seconds, tests): the seconds of all fit into the stage's."""
    runs = [("memcheck", "memcheck", 170, "*/bfloat16untuned:*/float32"),
            ("racecheck", "racecheck", 150, ":".join(f"*{family}*/bfloat16untuned" for family in RACY))]
    if stage.has_wgmma():
        runs += [("memcheck of wgmma", "memcheck", 90, "*ttention*/bfloat16wgmma"), ("synccheck of wgmma", "synccheck", 90, "*ttention*/bfloat16wgmma")]
    return runs


def stage_sanitizer(stage):
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not stage.on_gpu or not os.access(tool, os.X_OK):
        raise Skip("compute-sanitizer is not on this machine" if stage.on_gpu else "there is no GPU to check")
    program = stage.program("cuda_ops_test")
    for name, kind, limit, tests in sanitizer_runs(stage):
        code, out, err = stage.run([tool, "--tool", kind, "--error-exitcode", "9", "--print-limit", "20", program,
                                    f"--gtest_filter={tests}", "--gtest_color=no"], limit)
        finished = len(re.findall(r"^\[ +OK \]", out, re.M))
        summary = re.findall(r"=+ (?:ERROR|RACECHECK) SUMMARY: .*", out + err)
        findings = re.findall(r"^=+ (?!COMPUTE-SANITIZER|ERROR SUMMARY|RACECHECK SUMMARY).+", out + err, re.M)[:60]
        stage.report.add({"name": name, "exit_code": code, "tests_finished": finished, "summary": summary, "findings": findings})
        print(f"   {name}: {finished} tests, {summary or 'no summary'}", flush=True)
        if code is None:
            stage.report.note(f"{name} ran into its time limit after {finished} tests without a summary")
        if (code not in (0, None)) or finished == 0:
            stage.report.fail(f"{name}: exit code {code}, {finished} tests; {(summary or [(out + err)[-300:]])[0]}")


def stage_interop(stage):
    for name in ("torch", "transformers", "safetensors"):
        if machine.package(name) == "absent":
            raise Skip(f"this machine's Python has no {name}")
    with tempfile.TemporaryDirectory(prefix="regatta-interop-") as work:
        # One that learns, in the GPU's type; one short, with the other activation.
        for gelu, steps in (("erf", 300 if stage.on_gpu else 6), ("tanh", 6)):
            interop_run(stage, pathlib.Path(work) / gelu, gelu, steps)


def interop_run(stage, work, gelu, steps):
    work.mkdir()
    run_file = {"name": "interop", "model": {"preset": "mini", "max_positions": 128, "gelu": gelu},
                "data": {"path": str(stage.bundle / "data" / "dataset")}, "batch": {"size": 64}, "steps": steps,
                "device": stage.options.device, "dtype": "bfloat16" if stage.on_gpu else "float32",
                "evaluate": {"every": steps, "samples": 512}}
    path = work / "run.json"
    path.write_text(json.dumps(run_file))
    trainer = stage.program("regatta-train")
    code, out, err = stage.run([trainer, "run", "--directory", work / "run", path], 200)
    if code != 0:
        stage.report.fail(f"the run with {gelu} ended with {code}: {(out + err)[-600:]}")
        return
    result, _ = stage.measure(f"transformers, gelu {gelu}", [sys.executable, HERE / "interop.py", trainer, work / "run", stage.bundle / "data"],
                              200, dict(os.environ))
    if result:
        print(f"   {json.dumps(result)}", flush=True)
        for problem in result["problems"]:
            stage.report.fail(f"gelu {gelu}: {problem}")


def run_inside(options):
    """The process of one stage."""
    name = options.inside
    signal.signal(signal.SIGTERM, end_all)
    head = {"stage": name, "outcome": "cut off", "commit": manifest(options.bundle).get("commit", "unknown"),
            "date": machine.now(), "command": os.environ.get("REGATTA_GPU_COMMAND", shlex.join(sys.argv)),
            "device": options.device, "machine": machine.facts(options.bundle) if name in STAGES else {},
            "results": [], "notes": [], "failures": [], "not_built_yet": []}
    report = Report(options.result, head)
    body = globals().get(f"stage_{name}")
    try:
        body(Stage(options, report))
        report.data["outcome"] = "failed" if report.data["failures"] else "passed"
    except Skip as skip:
        required = name in os.environ.get("REQUIRE", "").split(",")
        report.data["outcome"] = "failed" if required else "skipped"
        report.note(f"SKIPPED: {skip}")
    except Exception as error:  # one stage's trouble is its own
        report.fail(f"{type(error).__name__}: {error}")
        report.data["outcome"] = "failed"
    report.data["gpu_state_after"] = machine.gpu_state()
    report.save()
    return 0


def manifest(bundle):
    try:
        return json.loads((pathlib.Path(bundle) / "manifest.json").read_text())
    except (OSError, json.JSONDecodeError):
        return {}


def run_stage(name, options):
    """Runs a stage in its own process and returns its outcome."""
    result = pathlib.Path(options.output) / f"gpu-{name}.json"
    result.unlink(missing_ok=True)
    command = [sys.executable, os.path.abspath(sys.argv[0]), "--inside", name, "--result", str(result),
               "--bundle", str(options.bundle), "--device", options.device, "--limit", str(options.limit), "--filter", options.filter,
               "--patience", str(options.patience), "--part-limit", str(options.part_limit)]
    start = time.monotonic()
    process = launch(command, env=dict(os.environ, REGATTA_GPU_COMMAND=shlex.join(["tests/gpu.sh", *sys.argv[1:]])))
    code = None
    try:
        code = process.wait(timeout=options.limit)
    except subprocess.TimeoutExpired:
        pass
    finally:  # also when this process is interrupted
        process.terminate()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            pass
        end_group(process)
    try:
        data = json.loads(result.read_text())
    except (OSError, json.JSONDecodeError):
        data = {"stage": name, "outcome": "failed", "failures": [], "results": []}
    if code is None:
        data["outcome"] = "timed out"
        data["failures"] = data.get("failures", []) + [f"ended at its limit of {options.limit} s"]
    elif code != 0 or data["outcome"] == "cut off":
        data["outcome"] = "failed"
        data["failures"] = data.get("failures", []) + [f"the stage's process ended with {code}"]
    data["seconds"] = round(time.monotonic() - start, 1)
    result.write_text(json.dumps(data, indent=1) + "\n")
    return data


def earlier(options):
    """Results that are in the output directory already."""
    found = {}
    for name in STAGES:
        try:
            found[name] = json.loads((pathlib.Path(options.output) / f"gpu-{name}.json").read_text())
        except (OSError, json.JSONDecodeError):
            pass
    return found


def summarize(outcomes, options):
    """One JSON over all stages of this call and of those before with the same output directory: the ratio to the
    best peer, and what was reached of what one H200 should (goals.py)."""
    outcomes = {**earlier(options), **outcomes}
    summary = {"date": machine.now(), "commit": manifest(options.bundle).get("commit", "unknown"),
               "outcomes": {name: data["outcome"] for name, data in outcomes.items()}, "samples_per_second": {}}
    ours = {}
    for name in ("first", "step"):
        for model, rate in outcomes.get(name, {}).get("best_samples_per_second", {}).items():
            ours[model] = max(ours.get(model, 0), rate)
    peer = outcomes.get("peer", {})
    for kind in ("best", "best_with_float32_weights"):
        for model, best in peer.get(kind, {}).items():
            if model in ours:
                summary["samples_per_second"].setdefault(model, {"regatta": ours[model]})[kind] = {
                    **best, "ratio": ours[model] / best["samples_per_second"]}
    summary["goals"] = goals.goals(outcomes)
    (pathlib.Path(options.output) / "gpu-summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    for model, entry in summary["samples_per_second"].items():
        for kind in ("best", "best_with_float32_weights"):
            if kind in entry:
                peer = entry[kind]
                print(f"{model}: regatta {entry['regatta']:.1f} samples/s, peer ({kind}) {peer['samples_per_second']:.1f}: "
                      f"{peer['ratio']:.2f} ({peer['case']})")
    for line in summary["goals"]:
        if line["measured"] is not None or options.summarize:
            print(goals.text_of(line))


def parse(arguments):
    root = HERE.parent.parent
    beside = root if (root / "manifest.json").exists() else root / ".gpu"
    parser = argparse.ArgumentParser(prog="tests/gpu.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=", ".join(STAGES))
    parser.add_argument("--output", default=os.environ.get("OUT") or str(root / "build" / "gpu-results"), help="directory of the results (default: $OUT or build/gpu-results)")
    parser.add_argument("--bundle", default=str(beside), help="what --pack made (default: .gpu)")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: a dry run with small sizes")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds of one stage (default %(default)s)")
    parser.add_argument("--patience", type=float, default=PATIENCE, help="seconds that one test may take without a word (default %(default)s)")
    parser.add_argument("--part-limit", type=float, default=LIMIT, help="seconds of one measurement at most (default: its own limit)")
    parser.add_argument("--filter", default="*", help="GoogleTest filter of the stage tests")
    parser.add_argument("--summarize", action="store_true", help="run nothing; only set the results in --output beside each other")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    parser.add_argument("--result", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    unknown = [stage for stage in options.stages if stage not in STAGES]
    if unknown:
        parser.error(f"no stage {', '.join(unknown)}; there are {', '.join(STAGES)}")
    if min(options.limit, options.patience, options.part_limit) <= 0:
        parser.error("--limit, --patience and --part-limit are numbers of seconds above 0")
    return options


def main(arguments=None):
    options = parse(sys.argv[1:] if arguments is None else arguments)
    if options.inside:
        return run_inside(options)
    if options.summarize:
        summarize({}, options)
        return 0
    if not pathlib.Path(options.bundle).is_dir():
        print(f"tests/gpu.sh: there is no bundle {options.bundle}; make one with tests/gpu.sh --pack", file=sys.stderr)
        return 2
    pathlib.Path(options.output).mkdir(parents=True, exist_ok=True)
    with products_directory():
        outcomes = run_stages(options)
    bad = [name for name, data in outcomes.items() if data["outcome"] not in ("passed", "skipped")]
    for name, data in outcomes.items():
        for failure in data.get("failures", []):
            print(f"FAILED {name}: {failure[:160]}")
        if data["outcome"] == "skipped":
            print(f"SKIPPED {name}: {'; '.join(data['notes'])}")
    print(f"{len(outcomes) - len(bad)} of {len(outcomes)} stages did not fail; results in {options.output}")
    return 1 if bad else 0


@contextlib.contextmanager
def products_directory():
    """One place for the products' timings, so that each is made once and not by every process: REGATTA_CACHE_DIR, else a
    temporary one."""
    if os.environ.get("REGATTA_CACHE_DIR"):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="regatta-products-", ignore_cleanup_errors=True) as directory:
        os.environ["REGATTA_CACHE_DIR"] = directory
        yield


def run_stages(options):
    outcomes = {}
    for name in options.stages or STAGES[1:]:
        print(f"== {name} (limit {options.limit:g} s)", flush=True)
        outcomes[name] = run_stage(name, options)
        print(f"   {outcomes[name]['outcome']} in {outcomes[name]['seconds']} s", flush=True)
        summarize(outcomes, options)
    return outcomes


if __name__ == "__main__":
    sys.exit(main())
