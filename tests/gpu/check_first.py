"""Cases of check.py: the stage `first` and the runner of its tests against stand-ins that fault, hang and take their time."""
import functools
import json
import pathlib
import threading

import benches
import first
import goals
import stages
from check_runs import program_of
from stand_ins import MODEL, STEP, WORK, case, check, fake_bundle, fresh, gpu, gtest, result, script

WAYS = ("float32", "bfloat16", "bfloat16wgmma", "float16wgmma")
ATTENTION = ("AttentionMatchesItsFormula", "AttentionOfBertLargeAt512Tokens")
WALKING = threading.Lock()
OTHERS = ("GemmMatchesPlainLoops", "LayerNormIsExact")
PREFLIGHT = """form() { echo '{"check": "wgmma", "form": "form '$1'", "wgmma_wrong": '${2:-0}', "mma_wrong": 0, "of": 4096}'; }
case "$1 $2" in
  "device ") echo '{"check": "device", "description": "a GPU"}' ;;
  "product ") echo '{"check": "product", "wrong": 0, "of": 4}' ;;
  "wgmma ") for i in 0 1 2 3 4 5 6 7 8 9 10 11; do form $i; done ;;
  wgmma*) form $2 ;;
esac"""
NCU = """echo '==PROF== Profiling'
echo '"ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"'
echo '"0","x","GPU Speed Of Light Throughput","Duration","us","412.30"'
case "$*" in *--clock-control\\ none*) ;; *) exit 9 ;; esac"""


def tests(changes=None):
    """{test: what it does} of cuda_ops_test: all pass but for `changes`."""
    names = [f"Gpu/DeviceOps.{test}/{way}" for test in (*OTHERS, *ATTENTION) for way in WAYS]
    return {name: (changes or {}).get(name.split(".")[1], "pass") for name in names}


def walk(name, changes=None, model=MODEL, preflight=PREFLIGHT, trainer=STEP, arguments=()):
    """(exit code, output, gpu-first.json, the filters that each process was given in turn) of the stage."""
    bundle = fake_bundle(name, {"cuda_ops_test": gtest(tests(changes)), "cuda_model_test": model, "gpu_preflight": preflight,
                                "regatta-train": trainer})
    output, tools, log = WORK / f"{name}-out", fresh(f"{name}-tools"), WORK / f"{name}-log"
    script(tools / "ncu", NCU)
    code, text = gpu("first", "--bundle", bundle, "--output", output, "--patience", "5", *arguments,
                     environment={"PATH": f"{tools}:/usr/bin:/bin", "STAND_IN_LOG": str(log)})
    return code, text, result(output, "first"), [line.split(" ", 1)[1] for line in log.read_text().splitlines()] if log.exists() else []


def plain_walk():
    """The walk in which nothing goes wrong, once for all cases that look at it."""
    with WALKING:
        return uneventful()


@functools.cache
def uneventful():
    caches = f'echo "$REGATTA_CACHE_DIR" >> {WORK / "caches"}; touch "$REGATTA_CACHE_DIR/products.txt"\n'
    return walk("first", trainer=caches + STEP)


def named(data, name):
    found = [entry for entry in data["results"] if entry["name"] == name]
    check(len(found) == 1, f"{len(found)} results are named {name}: {[entry['name'] for entry in data['results']]}")
    return found[0]


@case
def first_asks_the_most_telling_things_first():
    code, text, data, _ = plain_walk()
    check(code == 0 and data["outcome"] == "passed" and data["notes"] == [], text)
    names = [entry["name"].split(" --")[0] for entry in data["results"]]
    check(names == ["preflight: libraries", "preflight: device", "preflight: product", "preflight: wgmma", "attention",
                    "attention: bfloat16wgmma", "attention: float16wgmma", "kernels large", "step large", "kernels large", "step large",
                    "ncu: forward", "ncu: backward", "cuda_model_test", "cuda_ops_test", "tuner plug-in"], f"{names}")
    check([named(data, f"kernels large {' '.join(benches.kernel_case(way))}")["result"]["benchmark"] for way in ("automatic", "wgmma")]
          == ["kernels"] * 2, f"{names}")
    check(named(data, "ncu: forward")["metrics"] == {"GPU Speed Of Light Throughput: Duration [us]": "412.30"}, f"{data['results']}")
    counts = [named(data, name)["passed"] for name in ("attention", "attention: bfloat16wgmma", "attention: float16wgmma", "cuda_ops_test", "cuda_model_test")]
    check(counts == [4, 2, 2, 8, 2], f"{counts}")
    check(data["best_samples_per_second"] == {"large": 1000.0}, f"{data['best_samples_per_second']}")
    summary = json.loads((WORK / "first-out" / "gpu-summary.json").read_text())
    check(summary["outcomes"] == {"first": "passed"}, f"{summary}")


@case
def warpgroup_products_have_processes_of_their_own_and_come_last():
    *_, processes = plain_walk()
    mixed = [names for names in processes if "wgmma" in names and any("wgmma" not in name for name in names.split(":"))]
    check(mixed == [] and any("wgmma" in names for names in processes), f"{processes}")
    both = [names for names in processes if "bfloat16wgmma" in names and "float16wgmma" in names.replace("bfloat16wgmma", "")]
    check(both == [], f"both types in one process: {both}")
    ways = [names for names in processes if "Attention" in names]
    check(sorted(len(names.split(":")) for names in ways) == [2] * len(WAYS), f"attention is not one process for each way: {ways}")
    others = ["wgmma" in names for names in processes if "Gemm" in names or "LayerNorm" in names]
    check(others == sorted(others) and len(others) > 2, f"warpgroup products are not the last: {processes}")


@case
def a_fault_costs_one_test_and_is_told_as_that():
    words = "copying "
    code, text, data, processes = walk("faults", {"AttentionOfBertLargeAt512Tokens/bfloat16wgmma": f"fault {words}", "LayerNormIsExact/float32": f"fault {words}",
                                       "GemmMatchesPlainLoops/bfloat16": "fail values differ"})
    check(code == 1 and data["outcome"] == "failed", text)
    way, ops = named(data, "attention: bfloat16wgmma"), named(data, "cuda_ops_test")
    check((way["passed"], way["failed"], way["not_run"]) == (1, 1, 0), f"{way}")
    check((ops["passed"], ops["failed"], ops["not_run"]) == (6, 2, 0), f"{ops}")
    messages = {failure["test"].split(".")[1]: failure["message"] for failure in way["failures"] + ops["failures"]}
    check("left the GPU unusable" in messages["LayerNormIsExact/float32"] and "illegal memory access" in messages["LayerNormIsExact/float32"], f"{messages}")
    check(messages["GemmMatchesPlainLoops/bfloat16"].strip() == "values differ", f"{messages}")
    check(any("warpgroup products were not measured" in note for note in data["notes"]), f"{data['notes']}")
    measured = [entry["name"] for entry in data["results"] if entry.get("result") and entry["name"].startswith(("kernels", "step"))]
    check(len(measured) == 2 and all("automatic" in name for name in measured), f"{measured}")


@case
def a_wrong_warpgroup_product_is_still_measured():
    code, text, data, _ = walk("wrong", {"AttentionMatchesItsFormula/float16wgmma": "fail values differ"}, preflight=PREFLIGHT.replace("form $i;", "form $i $i;"))
    check(code == 1, text)
    check(sum("sums of wgmma" in failure for failure in data["failures"]) == 11, f"{data['failures']}")
    check(any("--attention wgmma" in entry["name"] and "result" in entry for entry in data["results"]), text)


@case
def a_hang_costs_its_patience():
    code, text, data, _ = walk("hangs", {"AttentionMatchesItsFormula/float32": "hang", "GemmMatchesPlainLoops/float16wgmma": "hang"})
    check(code == 1, text)
    plain, ops = named(data, "attention"), named(data, "cuda_ops_test")
    check((plain["passed"], plain["failed"], plain["not_run"]) == (3, 1, 0), f"{plain}")
    check(plain["failures"][0]["message"].startswith("no end within 5 s"), f"{plain}")
    check((ops["passed"], ops["failed"], ops["not_run"]) == (7, 1, 0), f"{ops}")
    check(any("--attention wgmma" in entry["name"] and "result" in entry for entry in data["results"]), "a way that did not hang was not measured")


# An attention test takes longer than the stage, which keeps half of its time for what follows; so does one of the model.
@case
def out_of_time_is_a_note_and_no_failure():
    slow = gtest({"CudaTraining.First": "pass", "CudaTraining.Second": "sleep 60", "CudaTraining.Third": "pass"})
    code, text, data, _ = walk("late", {"AttentionMatchesItsFormula/float32": "sleep 60"}, model=slow, arguments=["--limit", "45", "--patience", "60"])
    check(code == 0 and data["outcome"] == "passed" and data["failures"] == [], text)
    plain, model, ops = named(data, "attention"), named(data, "cuda_model_test"), named(data, "cuda_ops_test")
    check((plain["passed"], plain["failed"], plain["not_run"]) == (2, 0, 2), f"{plain}")
    check(len([entry for entry in data["results"] if entry["name"].startswith(("kernels", "step")) and "result" in entry]) == 4, "no time was kept")
    check((model["passed"], model["failed"], model["not_run"], model["left"]) == (1, 0, 2, ["CudaTraining.Second", "CudaTraining.Third"]), f"{model}")
    check((ops["passed"], ops["not_run"]) == (0, 10), f"{ops}")
    told = {note.split(":")[0] for note in data["notes"]}
    check({"attention", "cuda_model_test", "cuda_ops_test"} <= told and all("out of time" in note for note in data["notes"]), f"{data['notes']}")
    check(data["seconds"] < 45, f"{data['seconds']} s")


@case
def a_measurement_is_cut_off_by_the_stages_end_and_not_by_its_own():
    code, text, data, _ = walk("cut", trainer=f"case $* in *'bench step'*) sleep 60;; esac\n{STEP}", arguments=["--limit", "36"])
    check(code == 0 and any("cut off, out of time" in note for note in data["notes"]), text)
    check(any("not measured, out of time" in note for note in data["notes"]), f"{data['notes']}")
    code, text, data, _ = walk("own", trainer=f"case $* in *'bench step'*) sleep 60;; esac\n{STEP}", arguments=["--part-limit", "2"])
    check(code == 1 and sum("time limit" in failure for failure in data["failures"]) == 2, text)
    check(named(data, "cuda_ops_test")["passed"] == 8, text)


@case
def a_preflight_that_fails_ends_the_stage():
    refuses = PREFLIGHT.replace('"product ") ', '"product ") echo "gpu_preflight: copying failed" >&2; exit 86; ')
    code, text, data, processes = walk("unfit", preflight=refuses)
    check(code == 1 and processes == [], text)
    check(data["failures"] == ["preflight: product: left the GPU unusable: gpu_preflight: copying failed"], f"{data['failures']}")
    check(data["notes"] == ["the preflight failed, so nothing else was tried"], f"{data['notes']}")


@case
def a_library_that_is_missing_is_named():
    bundle = fake_bundle("unlinked", {"gpu_preflight": PREFLIGHT})
    output, tools = WORK / "unlinked-out", fresh("unlinked-tools")
    script(tools / "ldd", "echo '\\tlibm.so.6 => /lib/libm.so.6 (0x1)'; echo '\\tlibcublasLt.so.13 => not found'")
    code, text = gpu("first", "--bundle", bundle, "--output", output, environment={"PATH": f"{tools}:/usr/bin:/bin"})
    failures = result(output, "first")["failures"]
    check(code == 1 and failures == ["preflight: gpu_preflight does not load here: libcublasLt.so.13 => not found"], f"{failures} {text}")


@case
def forms_that_a_fault_hides_are_tried_alone():
    faults = PREFLIGHT.replace("for i in 0 1 2 3", "form 0; form 1; echo lost >&2; exit 86; for i in 3")
    faults = faults.replace("wgmma*) form $2", "wgmma*) [ $2 != 2 ] || { echo lost >&2; exit 86; }; form $2")
    code, text, data, processes = walk("forms", preflight=faults)
    forms = named(data, "preflight: wgmma")["result"]
    check(code == 1 and sorted(map(int, forms)) == list(range(first.FORM_COUNT)), f"{forms}")
    check([number for number, form in forms.items() if "error" in form] == ["2"], f"{forms}")
    check(data["failures"] == ["preflight: wgmma form 2: left the GPU unusable: lost"], f"{data['failures']}")
    check(not any(entry["name"].startswith("attention: ") for entry in data["results"]), "warpgroup products were not left to the end")


@case
def timings_are_shared_by_all_programs_of_a_call():
    code, text, *_ = plain_walk()
    places = set((WORK / "caches").read_text().splitlines())
    check(code == 0 and len(places) == 1 and not pathlib.Path(places.pop()).exists(), text)


@case
def what_first_measures_counts_for_the_goals():
    step = {"benchmark": "step", "model": "large", "dtype": "bfloat16", "optimizer": "lamb", "samples_per_step": 96, "dropout": 0.1,
            "attention": "wgmma", "graphs": True, "samples_per_second": 900.0, "idle_share": 0.01}
    parts = [{"name": "preflight: product", "result": None}, {"name": "preflight: libraries", "result": {"files": []}}, {"name": "attention", "passed": 3},
             {"name": "step", "result": step}]
    outcomes = {"first": {"outcome": "passed", "results": parts, "best_samples_per_second": {"large": 900.0}}}
    lines = {line["goal"]: line["measured"] for line in goals.goals(outcomes)}
    check(lines["samples/s, 96 a step, LAMB"] == 900 and lines["GPU idle between steps, % (less is better)"] == 1, f"{lines}")
    outcomes["step"] = {"outcome": "passed", "results": [{"result": {**step, "samples_per_second": 800.0}}], "best_samples_per_second": {"large": 800.0, "base": 7.0}}
    check(goals.goals(outcomes)[0]["measured"] == 900, "the better of both stages counts")
    outcomes["peer"] = {"outcome": "passed", "results": [], "best": {model: {"samples_per_second": 100.0, "case": "x"} for model in ("large", "base")}}
    output = fresh("first-goals")
    stages.summarize(outcomes, stages.parse(["--output", str(output), "--bundle", str(output)]))
    summary = json.loads((output / "gpu-summary.json").read_text())["samples_per_second"]
    check({model: entry["best"]["ratio"] for model, entry in summary.items()} == {"large": 9.0, "base": 0.07}, f"{summary}")


@case
def the_preflight_on_an_emulated_gpu():
    preflight = program_of(3, "preflight")
    bundle, output = fake_bundle("emulated-preflight", {"cuda_ops_test": gtest(tests()), "cuda_model_test": MODEL, "regatta-train": STEP}), WORK / "emulated-preflight-out"
    (bundle / "bin" / "gpu_preflight").symlink_to(preflight)
    code, text = gpu("first", "--bundle", bundle, "--output", output)
    data = result(output, "first")
    check(code == 0, text)
    check("Emulated GPU" in named(data, "preflight: device")["result"]["description"], f"{data['results']}")
    check(named(data, "preflight: product")["result"] == {"check": "product", "wrong": 0, "of": 192 * 128}, f"{data['results']}")
    forms = named(data, "preflight: wgmma")["result"]
    check(len(forms) == first.FORM_COUNT and all(form["wgmma_wrong"] == form["mma_wrong"] == 0 and form["of"] == 4 * 64 * 64 for form in forms.values()), f"{forms}")
    check(len({form["form"] for form in forms.values()}) == first.FORM_COUNT, f"{forms}")
