#!/usr/bin/env python3
"""Fine-tuning steps of `regatta-train run` beside PyTorch's, on the same lengths of SQuAD's windows; one JSON on stdout.

    tests/bench/fine_tuning_step.py SQUAD_FILE VOCAB [--models mini,small] [--rounds 3] [--steps 20] [--batch 16]

A run of question answering, not `regatta-train bench step`, which has the heads of pre-training only. Seconds of a step
are those from its record in the journal to the next. The peer (fine_tuning_peer.py) trains on samples of the lengths
that the run has, in float32 as the run does. Its configurations are tried in the first round, and the fastest goes on;
bfloat16 is told and does not count. Only tokens of samples count, no padding.

PyTorch is that of --python (Debian: python3-torch). Debian's falls back on a BLAS that is some twenty to thirty times slower,
so OpenBLAS is looked for, and if it is not installed, fetched once with apt-get into build/peer. Its threads wait
actively: beside other work PyTorch is many times slower unless PEER_ENVIRONMENT is {"OMP_WAIT_POLICY": "passive"}
(a JSON object of further variables for PyTorch).
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PEER = ROOT / "tests" / "bench" / "fine_tuning_peer.py"
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build" / "release"))
TRAINER = BUILD / "trainer" / "regatta-train"
FEATURES = BUILD / "tests" / "bench" / "features_bench"
PRESETS = {"tiny": (2, 128), "mini": (4, 256), "small": (4, 512), "medium": (8, 512), "base": (12, 768)}
COUNTED = ("padded", "grouped", "encoder")
SEED = 1
RUN = """task: question-answering
model: {{preset: {model}, max_positions: 384, dropout: {dropout}, attention_dropout: {dropout}}}
data: {{path: data, max_length: 384}}
optimizer: {{learning_rate: 0.0001}}
batch: {{size: {batch}}}
steps: {steps}
threads: {threads}
evaluate: {{every: {steps}, samples: 1}}
checkpoint: {{every: {steps}}}
statistics: {{every: 0}}
seed: {seed}
"""


def openblas():
    """The directory of an OpenBLAS whose threads are OpenMP's, as PyTorch's are."""
    tail = "lib/x86_64-linux-gnu/openblas-openmp"
    fetched = ROOT / "build" / "peer"
    for place in (pathlib.Path("/usr") / tail, fetched / "usr" / tail):
        if (place / "libblas.so.3").exists():
            return place
    fetched.mkdir(parents=True, exist_ok=True)
    download = ["apt-get", "download", "libopenblas0-openmp"]
    if subprocess.run(download, cwd=fetched, stdout=sys.stderr).returncode != 0:
        sys.exit("OpenBLAS is neither there nor to be had; install libopenblas0-openmp")
    (package,) = fetched.glob("libopenblas0-openmp_*.deb")
    subprocess.run(["dpkg-deb", "-x", package, fetched], check=True)
    return fetched / "usr" / tail


def peer_environment():
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OPENBLAS_", "OMP_"))}
    environment["LD_LIBRARY_PATH"] = str(openblas())
    # OpenBLAS takes processors that are younger than it for the oldest there are.
    flags = pathlib.Path("/proc/cpuinfo").read_text()
    for flag, core in (("avx512_bf16", "Cooperlake"), ("avx512f", "SkylakeX"), ("avx2", "Haswell")):
        if flag in flags:
            environment["OPENBLAS_CORETYPE"] = core
            break
    # Else each step maps its memory anew, a tenth to a fifth of its time.
    environment.update(MALLOC_MMAP_THRESHOLD_=str(1 << 32), MALLOC_TRIM_THRESHOLD_=str(1 << 34))
    return environment | json.loads(os.environ.get("PEER_ENVIRONMENT", "{}"))


def run_peer(options, model, lengths, configuration):
    layers, hidden = PRESETS[model]
    steps = [lengths[i:i + options.batch] for i in range(0, len(lengths), options.batch)]
    spec = {"layers": layers, "hidden": hidden, "heads": hidden // 64, "feed_forward": 4 * hidden, "vocabulary": 30522,
            "positions": 384, "dropout": options.dropout, "threads": options.threads, "warmup": options.warmup,
            "steps": steps, "configuration": configuration}
    done = subprocess.run([options.python, PEER], input=json.dumps(spec), env=peer_environment(), text=True,
                          stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def run_trainer(options, model, lengths, work, number):
    run_file = work / "run.yaml"
    run_file.write_text(RUN.format(model=model, dropout=options.dropout, batch=options.batch, threads=options.threads,
                                   steps=options.warmup + options.steps, seed=SEED))
    directory = work / f"{model}-{number}"
    done = subprocess.run([TRAINER, "run", "--directory", directory, run_file], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
    (journal,) = directory.glob("attempts/*/journal.jsonl")
    records = [json.loads(line) for line in journal.read_text().splitlines()]
    steps = [record for record in records if record["type"] == "step"]
    for i, step in enumerate(steps):
        expected = sum(lengths[i * options.batch:(i + 1) * options.batch])
        assert step["tokens"] == expected, f"step {i + 1} has {step['tokens']} tokens, its lengths say {expected}"
    counted = steps[options.warmup:]
    tokens = sum(step["tokens"] for step in counted)
    seconds = counted[-1]["seconds"] - steps[options.warmup - 1]["seconds"]
    sums = {key: sum(step[key] for step in counted)
            for key in ("step_seconds", "forward_seconds", "backward_seconds", "optimizer_seconds")}
    return {"tokens": tokens, "seconds": seconds, "tokens_per_second": tokens / seconds} | sums


def measure(options, model, lengths, work):
    ours, theirs = [], []
    tried = {}
    for number in range(options.rounds):  # in turn, so that both see the same machine
        ours.append(run_trainer(options, model, lengths, work, number))
        if number == 0:
            tried = {name: run_peer(options, model, lengths, name) for name in (*COUNTED, "bfloat16")}
            best = max(COUNTED, key=lambda name: tried[name]["tokens_per_second"])
            theirs.append(tried[best])
        else:
            theirs.append(run_peer(options, model, lengths, best))
        print(f"{model}, round {number + 1}: {ours[-1]['tokens_per_second']:.0f} tokens/s, "
              f"PyTorch {best} {theirs[-1]['tokens_per_second']:.0f}", file=sys.stderr)
    ratios = [one["tokens_per_second"] / other["tokens_per_second"] for one, other in zip(ours, theirs)]
    layers, hidden = PRESETS[model]
    return {"model": model, "layers": layers, "hidden": hidden,
            "regatta": max(ours, key=lambda one: one["tokens_per_second"]),
            "peer": max(theirs, key=lambda one: one["tokens_per_second"]),
            "peer_tokens_per_second_in_first_round":
                {name: result["tokens_per_second"] for name, result in tried.items()},
            "ratio": statistics.median(ratios), "ratios": ratios,
            # As if its padding cost nothing, which over more samples than these is nearly so.
            "ratio_per_padded_token": statistics.median(ratios) * (1 - theirs[0]["padded_share"])}


def prepare(options, work):
    # The trainer judges before and after; one question suffices.
    article = json.loads(options.squad.read_text())["data"][0]
    paragraph = dict(article["paragraphs"][0])
    paragraph["qas"] = [dict(paragraph["qas"][0], id="the only one")]
    evaluation = work / "evaluation.json"
    evaluation.write_text(json.dumps({"version": "1.1", "data": [{"title": "", "paragraphs": [paragraph]}]}))
    subprocess.run([TRAINER, "prepare", "--task", "question-answering", options.squad, evaluation, "--vocab", options.vocab,
                    "--output", work / "data"], stdout=sys.stderr, check=True)
    count = options.batch * (options.warmup + options.steps)
    done = subprocess.run([FEATURES, "lengths", options.squad, options.vocab, str(SEED), str(count)],
                          stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def parsed_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("squad", type=pathlib.Path, help="questions in SQuAD's format")
    parser.add_argument("vocab", type=pathlib.Path, help="vocab.txt of 30,522 pieces")
    parser.add_argument("--models", default="mini,small", help=", ".join(PRESETS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20, help="that count")
    parser.add_argument("--warmup", type=int, default=4, help="that do not")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--python", default="/usr/bin/python3", help="that has PyTorch")
    return parser.parse_args()


def main():
    options = parsed_options()
    for file in (options.squad, options.vocab, TRAINER, FEATURES):
        if not file.exists():
            sys.exit(f"{file} is not there; name an existing one, or build the targets regatta-train and features_bench")
    if subprocess.run([options.python, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode != 0:
        sys.exit(f"{options.python} has no PyTorch; install python3-torch, or name another with --python")
    with tempfile.TemporaryDirectory(prefix="regatta-fine-tuning-") as folder:
        work = pathlib.Path(folder)
        lengths = prepare(options, work)
        results = [measure(options, model, lengths, work) for model in options.models.split(",")]
    print(json.dumps({
        "benchmark": "fine-tuning step", "task": "question-answering", "lengths": options.squad.name, "max_length": 384,
        "mean_length": statistics.mean(lengths), "samples_per_step": options.batch, "steps": options.steps,
        "rounds": options.rounds, "threads": options.threads, "dropout": options.dropout, "dtype": "float32",
        "speed": "best round", "ratios": "tokens of samples, median of rounds", "results": results}, indent=2))


if __name__ == "__main__":
    main()
