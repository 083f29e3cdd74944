#!/usr/bin/env python3
"""Runs stages of tests and measurements on a machine with a GPU.

    tests/gpu.sh [STAGE…]    tests kernels step ablation peer sanitizer interop; without any: all, in that order

Each stage is a process of its own with a time limit and leaves gpu-<stage>.json in the output
directory, renewed after every part, so that a stage that is cut off keeps what it has. A stage that
fails does not stop the others; the exit code is 1 if any failed. What cannot run is skipped, loudly;
REQUIRE=peer,sanitizer,interop turns that into a failure.
"""
import argparse
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
import goals  # noqa: E402
import machine  # noqa: E402

STAGES = ["tests", "kernels", "step", "ablation", "peer", "sanitizer", "interop"]
LIMIT = 540  # seconds of one stage
GRACE = 15  # that a stage leaves between its last part and its limit
RUNNING = set()  # processes of this process's stage


class Skip(Exception):
    """A stage that cannot run here, and why."""


class Report:
    """A stage's JSON; every change is on disk at once, whole."""

    def __init__(self, path, head):
        self.path, self.data = pathlib.Path(path), head
        self.save()

    def save(self):
        scratch = self.path.with_suffix(".tmp")
        scratch.write_text(json.dumps(self.data, indent=1) + "\n")
        scratch.replace(self.path)

    def add(self, result):
        self.data["results"].append(result)
        self.save()

    def note(self, text):
        print(f"   {text}", flush=True)
        self.data["notes"].append(text)
        self.save()

    def fail(self, what):
        print(f"   FAILED: {what}", flush=True)
        self.data["failures"].append(what)
        self.save()


class Stage:
    """What a stage's parts share."""

    def __init__(self, options, report):
        self.options, self.report = options, report
        self.bundle = pathlib.Path(options.bundle)
        self.on_gpu = options.device == "cuda"
        self.deadline = time.monotonic() + options.limit - min(GRACE, options.limit / 2)
        self.lengths = self.bundle / "data" / "lengths_wikipedia_512.csv"

    def remaining(self):
        return self.deadline - time.monotonic()

    def program(self, name):
        path = self.bundle / "bin" / name
        if not os.access(path, os.X_OK):
            raise FileNotFoundError(f"{path} is not in the bundle; make one with tests/gpu.sh --pack")
        return str(path)

    def run(self, arguments, limit, environment=None):
        """(exit code or None when the limit ended it, stdout, stderr); ends all that it started."""
        limit = min(limit, self.remaining())
        if limit <= 0:
            return None, "", "no time was left"
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = launch(arguments, stdout=out, stderr=err, env=environment or machine.program_environment(self.bundle))
            try:
                code = process.wait(timeout=limit)
            except subprocess.TimeoutExpired:
                code = None
            end_group(process)
            out.seek(0)
            err.seek(0)
            return code, out.read().decode(errors="replace"), err.read().decode(errors="replace")

    def measure(self, name, arguments, limit, environment=None):
        """Runs a program that prints one JSON, and keeps it with its command."""
        start = time.monotonic()
        code, out, err = self.run(arguments, limit, environment)
        record = {"name": name, "command": shlex.join(map(str, arguments)), "seconds": round(time.monotonic() - start, 1)}
        try:
            if code == 0:
                record["result"] = json.loads(out)
        except json.JSONDecodeError as error:
            code = f"0, but its output is no JSON ({error})"
        if "result" not in record:
            why = "ran into its time limit" if code is None else f"exit code {code}"
            record["error"] = f"{why}: {err.strip()[-1500:]}"
            last = (err.strip().splitlines() or [""])[-1]
            self.report.fail(f"{name}: {why}: {last[-300:]}")
        self.report.add(record)
        return record.get("result"), err


def end_group(process):
    """Ends what is left of a process that was started with its own session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
    RUNNING.discard(process)


def launch(arguments, **more):
    """A process with a session of its own, which ends with this one if that is asked to end."""
    process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, start_new_session=True, **more)
    RUNNING.add(process)
    return process


def end_all(*_):
    for process in list(RUNNING):
        end_group(process)
    os._exit(143)


def has_wgmma(stage):
    """Warpgroup products are compute capability 9.0's alone."""
    return stage.report.data["machine"].get("compute_capability") in ("9.0", "")


def gtest(stage, name, shards):
    """Runs a GoogleTest program in shards side by side; a crash costs one test, not the rest."""
    crashed, outcome = ([] if has_wgmma(stage) else ["*wgmma*"]), {"passed": {}, "failed": {}, "skipped": {}}
    for _ in range(4):
        codes = run_shards(stage, name, shards, crashed, outcome)
        lost = [where for code, where in codes if code not in (0, 1)]
        if not lost:
            break
        for code, where in codes:
            if code not in (0, 1):
                crashed.append(where)
                outcome["failed"][where] = f"ended by {'its time limit' if code is None else f'exit code {code}'}"
        if stage.remaining() < 30 or any(code is None for code, _ in codes):
            break
    counts = {key: len(value) for key, value in outcome.items()}
    failures = [{"test": test, "message": text} for test, text in sorted(outcome["failed"].items())][:60]
    stage.report.add({"name": name, **counts, "failures": failures, "skips": outcome["skipped"]})
    print(f"   {name}: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped", flush=True)
    for failure in failures[:10]:
        print(f"     {failure['test']}: {failure['message'].strip()[:400]}", flush=True)
    if counts["failed"] or not counts["passed"]:
        stage.report.fail(f"{name}: {counts['failed']} failed, {counts['passed']} passed")


def run_shards(stage, name, shards, without, outcome):
    """Runs what `without` does not name; (exit code, test that was running) of each shard."""
    running = []
    for shard in range(shards):
        environment = dict(machine.program_environment(stage.bundle), GTEST_TOTAL_SHARDS=str(shards),
                           GTEST_SHARD_INDEX=str(shard))
        arguments = [stage.program(name), "--gtest_color=no", f"--gtest_filter={stage.options.filter}-{':'.join(without)}"]
        out = tempfile.TemporaryFile()
        running.append((launch(arguments, stdout=out, stderr=subprocess.STDOUT, env=environment), out))
    codes = []
    for process, out in running:
        try:
            code = process.wait(timeout=max(0.1, stage.remaining()))
        except subprocess.TimeoutExpired:
            code = None
        end_group(process)
        out.seek(0)
        codes.append((code, parse_gtest(out.read().decode(errors="replace"), outcome)))
        out.close()
    return codes


def parse_gtest(text, outcome):
    """Files each finished test under its outcome; returns the test that was running at the end."""
    current, lines = "", []
    for line in text.splitlines():
        mark = re.match(r"\[ *(RUN|OK|FAILED|SKIPPED) *\] ([^\s,(]+)", line)
        if not mark:
            lines.append(line)
        elif mark[1] == "RUN":
            current, lines = mark[2], []
        elif mark[2] == current:
            key = {"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}[mark[1]]
            outcome[key][current] = "" if key == "passed" else "\n".join(lines)[-2000:]
            current = ""
    return current or "before the first test"


def stage_tests(stage):
    if not stage.on_gpu:
        raise Skip("the tests of this stage are the GPU's; ctest runs the CPU's")
    gtest(stage, "cuda_ops_test", 4)
    gtest(stage, "cuda_model_test", 1)
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


def bench(stage, kind, model, more):
    return [stage.program("regatta-train"), "bench", kind, "--device", stage.options.device, "--model", model,
            "--lengths", str(stage.lengths), *more]


def stage_kernels(stage):
    help_text = stage.run([stage.program("regatta-train"), "bench", "kernels", "--help"], 20)[1]
    gelu = ["--gelu", "tanh"] if "--gelu" in help_text else []
    if stage.on_gpu:
        cases = [(model, ["--dtype", "bfloat16", "--samples", "96", "--attention", attention, *gelu])
                 for model in ("large", "base") for attention in attention_ways(stage)]
        cases.append(("large", ["--dtype", "float16", "--samples", "96", *gelu]))
        cases.append(("large", ["--dtype", "bfloat16", "--samples", "56", *gelu]))
    else:
        cases = [("tiny", ["--dtype", "float32", "--samples", "4", "--repetitions", "2", "--batch-seconds", "0.0005",
                           "--product-side", "128", "--copy-bytes", "65536"])]
    shown = set()
    for model, more in cases:
        result, table = stage.measure(f"{model} {' '.join(more)}", bench(stage, "kernels", model, more), 120)
        if result and model not in shown:
            print(table, flush=True)
        elif result:
            print(f"   {model} {' '.join(more)}: {brief(result)}", flush=True)
        shown.add(model)


def brief(result):
    """Attention and the sum of all: what differs between variants."""
    rates = {entry["name"]: entry.get("tflop_per_second", 0) for entry in result["kernels"]}
    return (f"attention {rates['attention.forward']:.1f} forward, {rates['attention.backward']:.1f} TFLOP/s backward; "
            f"{1000 * result['step_seconds_by_kernels']:.2f} ms a step")


def stage_step(stage):
    help_text = stage.run([stage.program("regatta-train"), "bench", "step", "--help"], 20)[1]
    if stage.on_gpu:
        cases = step_cases(["--gelu", "tanh"] if "--gelu" in help_text else [], attention_ways(stage))
    else:
        cases = [("tiny", ["--dtype", "float32", "--samples", "4", "--steps", "2", "--warmup", "1"])]
    best = {}
    for model, more in cases:
        result, _ = stage.measure(f"{model} {' '.join(more)}", bench(stage, "step", model, more), 90)
        if result:
            rate = result["samples_per_second"]
            if "--dropout" not in more:  # without dropout the work is less
                best[model] = max(best.get(model, 0), rate)
            idle = f", idle {100 * result['idle_share']:.2f} %" if "idle_share" in result else ""
            print(f"   {model} {' '.join(more)}: {rate:.1f} samples/s, {result['gflop_per_second'] / 1000:.1f} TFLOP/s{idle}", flush=True)
    stage.report.data["best_samples_per_second"] = best
    stage.report.save()


def attention_ways(stage):
    return ["automatic", *(["wgmma"] if has_wgmma(stage) else []), "streamed", "resident", "grouped"]


def step_cases(gelu, ways):
    """The first of each model is the one that README and comparison quote; the rest vary one thing."""
    plain = ["--dtype", "bfloat16", "--steps", "30", "--warmup", "5", "--optimizer", "lamb", *gelu]
    large = ["--samples", "96", *plain]
    cases = [("large", large), ("base", large), ("large", ["--samples", "256", *plain]), ("large", ["--samples", "56", *plain])]
    if gelu:
        cases.append(("large", [word if word != "tanh" else "erf" for word in large]))
    cases += [("large", [*large, "--attention", way]) for way in ways[1:]]
    cases += [("large", [*large, *more]) for more in (
        ["--no-graphs"], ["--dropout", "0"], ["--token-bucket", "1"])]
    cases.append(("large", ["--samples", "96", "--dtype", "bfloat16", "--steps", "30", "--warmup", "5", *gelu]))  # AdamW, as the peer's
    cases += [("large", ["--dtype", dtype, "--samples", "96", "--steps", "15", "--warmup", "4", *gelu]) for dtype in ("float16", "tf32")]
    cases += [("base", ["--samples", "256", *plain]), ("base", [*large, "--attention", "grouped"]), ("base", [*large, "--no-graphs"])]
    return cases


def stage_ablation(stage):
    """One rank: what needs several says so in its row. Few samples, since attention by formula is slow."""
    if stage.on_gpu:
        model, more = "large", ["--dtype", "bfloat16", "--gelu", "tanh", "--samples", "32", "--steps", "3", "--rounds", "3"]
    else:
        model, more = "tiny", ["--samples", "2", "--steps", "1", "--rounds", "1"]
    more = ["--ranks", "1", *more]
    result, table = stage.measure(f"{model} {' '.join(more)}", bench(stage, "ablation", model, more), LIMIT)
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


def stage_sanitizer(stage):
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not stage.on_gpu or not os.access(tool, os.X_OK):
        raise Skip("compute-sanitizer is not on this machine" if stage.on_gpu else "there is no GPU to check")
    program = stage.program("cuda_ops_test")
    for kind, limit, names in (("memcheck", 240, "*/bfloat16untuned:*/float32"),
                               ("racecheck", 240, ":".join(f"*{family}*/bfloat16untuned" for family in RACY))):
        code, out, err = stage.run([tool, "--tool", kind, "--error-exitcode", "9", "--print-limit", "20", program,
                                    f"--gtest_filter={names}", "--gtest_color=no"], limit)
        finished = len(re.findall(r"^\[ +OK \]", out, re.M))
        summary = re.findall(r"=+ (?:ERROR|RACECHECK) SUMMARY: .*", out + err)
        findings = re.findall(r"^=+ (?!COMPUTE-SANITIZER|ERROR SUMMARY|RACECHECK SUMMARY).+", out + err, re.M)[:60]
        stage.report.add({"name": kind, "exit_code": code, "tests_finished": finished, "summary": summary, "findings": findings})
        print(f"   {kind}: {finished} tests, {summary or 'no summary'}", flush=True)
        if code is None:
            stage.report.note(f"{kind} ran into its time limit after {finished} tests without a summary")
        if (code not in (0, None)) or finished == 0:
            stage.report.fail(f"{kind}: exit code {code}, {finished} tests; {(summary or [(out + err)[-300:]])[0]}")


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
               "--bundle", str(options.bundle), "--device", options.device, "--limit", str(options.limit), "--filter", options.filter]
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
    ours = outcomes.get("step", {}).get("best_samples_per_second", {})
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
    parser.add_argument("--filter", default="*", help="GoogleTest filter of the stage tests")
    parser.add_argument("--summarize", action="store_true", help="run nothing; only set the results in --output beside each other")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    parser.add_argument("--result", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    unknown = [stage for stage in options.stages if stage not in STAGES]
    if unknown:
        parser.error(f"no stage {', '.join(unknown)}; there are {', '.join(STAGES)}")
    if options.limit <= 0:
        parser.error("--limit is a number of seconds above 0")
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
    outcomes = {}
    for name in options.stages or STAGES:
        print(f"== {name} (limit {options.limit:g} s)", flush=True)
        outcomes[name] = run_stage(name, options)
        print(f"   {outcomes[name]['outcome']} in {outcomes[name]['seconds']} s", flush=True)
        summarize(outcomes, options)
    bad = [name for name, data in outcomes.items() if data["outcome"] not in ("passed", "skipped")]
    for name, data in outcomes.items():
        for failure in data.get("failures", []):
            print(f"FAILED {name}: {failure[:160]}")
        if data["outcome"] == "skipped":
            print(f"SKIPPED {name}: {'; '.join(data['notes'])}")
    print(f"{len(outcomes) - len(bad)} of {len(outcomes)} stages did not fail; results in {options.output}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
