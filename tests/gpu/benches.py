"""What `regatta-train bench` is asked on a GPU: cases, the time they take at the least, and what is kept of them."""
STEADY = 30  # measured steps of what README and comparison quote
VARIANT = 10  # of a case that varies one thing
WARMUP = 5
SAMPLES = 96
# By which a stage's time is planned: half of what goals.py asks for at first, and what a process does before its steps
# (start, first weights, products timed, graphs recorded).
SLOW_SAMPLES_PER_SECOND = {"large": 425, "base": 1300}
SLOW_TYPES = {"tf32": 0.4}  # of that rate
START_SECONDS = 10


def bench(stage, kind, model, more):
    return [stage.program("regatta-train"), "bench", kind, "--device", stage.options.device, "--model", model,
            "--lengths", str(stage.lengths), *more]


def attention_ways(stage):
    return ["automatic", *(["wgmma"] if stage.has_wgmma() else []), "streamed", "resident", "grouped"]


def kernel_case(attention, dtype="bfloat16", samples=SAMPLES):
    return ["--dtype", dtype, "--samples", str(samples), "--attention", attention, "--gelu", "tanh"]


def step_case(*more, samples=SAMPLES, dtype="bfloat16", steps=VARIANT, gelu="tanh"):
    return ["--samples", str(samples), "--dtype", dtype, "--steps", str(steps), "--warmup", str(WARMUP), "--gelu", gelu, *more]


def kernel_cases(ways):
    cases = [(model, kernel_case(way)) for model in ("large", "base") for way in ways]
    return cases + [("large", kernel_case("automatic", dtype="float16")), ("large", kernel_case("automatic", samples=56))]


def step_cases(ways):
    """The first of each model is the one that README and comparison quote; the rest vary one thing."""
    lamb = ("--optimizer", "lamb")
    cases = [("large", step_case(*lamb, steps=STEADY)), ("base", step_case(*lamb, steps=STEADY)),
             ("large", step_case(*lamb, samples=256)), ("large", step_case(*lamb, samples=56))]
    cases += [("large", step_case(*lamb, "--attention", way)) for way in ways[1:]]
    cases += [("large", step_case(*lamb, *more)) for more in (["--no-graphs"], ["--dropout", "0"], ["--token-bucket", "1"])]
    cases += [("large", step_case(*lamb, gelu="erf")), ("large", step_case())]  # AdamW, as the peer's
    cases += [("large", step_case(dtype=dtype)) for dtype in ("float16", "tf32")]
    return cases + [("base", step_case(*lamb, samples=256)), ("base", step_case(*lamb, "--attention", "grouped")),
                    ("base", step_case(*lamb, "--no-graphs"))]


def value_of(case, option):
    return case[case.index(option) + 1]


def steps_in(case):
    """All that bench_step.cc runs: warming up, twice for timing and recording, measured, by phases, three rounds of idle."""
    steps = int(value_of(case, "--steps"))
    return int(value_of(case, "--warmup")) + 3 * steps + max(1, steps // 5) + 6 * min(steps, 5)


def slow_seconds(model, case):
    rate = SLOW_SAMPLES_PER_SECOND[model] * SLOW_TYPES.get(value_of(case, "--dtype"), 1)
    return START_SECONDS + steps_in(case) * int(value_of(case, "--samples")) / rate


def measure_kernels(stage, cases, limit=120):
    shown = set()
    for model, more in cases:
        result, table = stage.measure(f"kernels {model} {' '.join(more)}", bench(stage, "kernels", model, more), limit)
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


def measure_steps(stage, cases, limit=90):
    best = stage.report.data.setdefault("best_samples_per_second", {})
    for model, more in cases:
        result, _ = stage.measure(f"step {model} {' '.join(more)}", bench(stage, "step", model, more), limit)
        if result:
            rate = result["samples_per_second"]
            if "--dropout" not in more:  # without dropout the work is less
                best[model] = max(best.get(model, 0), rate)
            idle = f", idle {100 * result['idle_share']:.2f} %" if "idle_share" in result else ""
            print(f"   {model} {' '.join(more)}: {rate:.1f} samples/s, {result['gflop_per_second'] / 1000:.1f} TFLOP/s{idle}", flush=True)
    stage.report.save()
