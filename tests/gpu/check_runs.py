"""Cases of check.py: the runner of tests against programs that fault, crash and hang, and what of a stage its time allows."""
import pathlib
import sys

import benches
import gtest_runs
import stages
from parts import GRACE
from stand_ins import MODEL, OPS, STEP, WORK, Skipped, case, check, fake_bundle, fresh, gpu, gtest, result


@case
def a_fault_or_a_crash_costs_one_test():
    for does, words in (("abort", "ended by exit code -6"), ("fault copying ", "left the GPU unusable")):
        bundle, output = fake_bundle(does.split()[0], {"cuda_ops_test": gtest({"Ops.Bad/bfloat16": does, **OPS}), "cuda_model_test": MODEL}), WORK / f"{does[:5]}-out"
        code, text = gpu("tests", "--bundle", bundle, "--output", output)
        ops = result(output, "tests")["results"][0]
        check(code == 1 and (ops["passed"], ops["failed"], ops["not_run"]) == (2, 1, 0), f"{ops} {text}")
        check(ops["failures"][0]["test"] == "Ops.Bad/bfloat16" and ops["failures"][0]["message"].startswith(words), f"{ops}")


@case
def timings_are_kept_where_they_are_asked_for():
    kept = fresh("kept")
    bundle = fake_bundle("cache-kept", {"regatta-train": f'touch "$REGATTA_CACHE_DIR/products.txt"\n{STEP}'})
    code, text = gpu("step", "--device", "cpu", "--bundle", bundle, "--output", WORK / "cache-kept-out", environment={"REGATTA_CACHE_DIR": str(kept)})
    check(code == 0 and (kept / "products.txt").exists(), text)


@case
def hangs_without_end_are_given_up():
    many = {f"Gpu/DeviceOps.Attention{number}/bfloat16wgmma": "hang" for number in range(5)}
    bundle, output = fake_bundle("stuck-more", {"cuda_ops_test": gtest(many), "cuda_model_test": MODEL}), WORK / "stuck-more-out"
    code, text = gpu("tests", "--bundle", bundle, "--output", output, "--patience", "3")
    ops = result(output, "tests")["results"][0]
    check(code == 1 and (ops["failed"], ops["not_run"]) == (gtest_runs.HANGS, 5 - gtest_runs.HANGS), f"{ops}")


@case
def the_stage_step_fits_its_limit():
    class Hopper:
        @staticmethod
        def has_wgmma():
            return True
    cases = benches.step_cases(benches.attention_ways(Hopper))
    check(len({(model, " ".join(case)) for model, case in cases}) == len(cases), "a case is listed twice")
    check(benches.steps_in(benches.step_case(steps=30)) == 5 + 60 + 30 + 6 + 30, "steps of bench_step.cc")
    check(benches.slow_seconds("large", benches.step_case()) == 10 + (5 + 20 + 10 + 2 + 30) * 96 / 425, "seconds")
    planned = sum(benches.slow_seconds(model, case) for model, case in cases)
    check(planned <= stages.LIMIT - GRACE, f"{planned:.0f} s of {stages.LIMIT - GRACE}")
    check(all(benches.slow_seconds(model, case) < 90 for model, case in cases), "a case is longer than its own limit")


@case
def the_sanitizers_fit_their_limit():
    class Hopper:
        @staticmethod
        def has_wgmma():
            return True
    planned = sum(limit for _, _, limit, _ in stages.sanitizer_runs(Hopper))
    check(planned <= stages.LIMIT - GRACE, f"{planned} s")


def program_of(number, what):
    if len(sys.argv) <= number:
        raise Skipped(f"no {what} was named")
    return pathlib.Path(sys.argv[number]).resolve()


@case
def faults_of_real_tests_on_an_emulated_gpu():
    faults = program_of(2, "program of faults")
    bundle, output = fake_bundle("emulated", {"cuda_model_test": MODEL}), WORK / "emulated-out"
    (bundle / "bin" / "cuda_ops_test").symlink_to(faults)
    code, text = gpu("tests", "--bundle", bundle, "--output", output)
    ops = result(output, "tests")["results"][0]
    check(code == 1 and (ops["passed"], ops["failed"], ops["not_run"]) == (3, 3, 0), f"{ops} {text}")
    messages = {failure["test"]: failure["message"] for failure in ops["failures"]}
    for test, error in (("Faults.Unseen", "cudaErrorIllegalAddress"), ("Faults.Thrown", "cudaErrorLaunchFailure")):
        check(messages[test].startswith("left the GPU unusable") and "GPU fault: " in messages[test]
              and error in messages[test], f"{messages}")
    check("no fault" in messages["Faults.Ordinary"] and "unusable" not in messages["Faults.Ordinary"], f"{messages}")
