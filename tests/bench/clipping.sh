#!/usr/bin/env bash
# Does it matter where the gradient is clipped? Trains the demo's model on the demo's prose, on two
# ranks, once for each way of clipping and each seed; one JSON on stdout.
#   tests/bench/clipping.sh [STEPS [SEEDS]]
# BUILD names the build directory (default build/release). The norm is half of the usual 1.0, so that
# clipping is at work in most steps.
set -eu
cd "$(dirname "$0")/../.."
steps=${1:-600}
seeds=${2:-3}
build=${BUILD:-build/release}
trainer=$build/trainer/regatta-train
work=build/bench-clipping
mkdir -p "$work"
if [ ! -e "$work/dataset/dataset.json" ]; then
  deploy/corpus.py "$work/corpus" >&2
  "$trainer" prepare "$work/corpus" --output "$work/dataset" --train-vocab 4000 --force >&2
fi
rm -rf "$work/runs"
mkdir "$work/runs"
for seed in $(seq "$seeds"); do
  for mode in none global bucket rank; do
    python3 - deploy/demo.yaml "$mode" "$seed" "$steps" >"$work/runs/$mode-$seed.yaml" <<'PY'
import re, sys
text = open(sys.argv[1]).read()
mode, seed, steps = sys.argv[2:]
text = text.replace("path: dataset", "path: ../dataset").replace("mode: global\n  norm: 1.0", f"mode: {mode}\n  norm: 0.5")
text = re.sub(r"^steps: .*$", f"steps: {steps}", text, flags=re.M)
text = text.replace("warmup_steps: 200", f"warmup_steps: {int(steps) // 5}")
text = re.sub(r"^seed: .*$", f"seed: {seed}", text, flags=re.M)
text = re.sub(r"^target:\n(  .*\n)+", "", text, flags=re.M)
print(text + "ranks: 2\nbuckets: {by: bytes, bytes: 262144}\n")
PY
    "$trainer" run --directory "$work/runs/$mode-$seed" "$work/runs/$mode-$seed.yaml" >&2
  done
done
python3 - "$work/runs" "$steps" "$seeds" <<'PY'
import glob, json, statistics, sys
runs, steps, seeds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
ways = []
for mode in ("none", "global", "bucket", "rank"):
    losses, accuracies, clipped = [], [], 0
    for seed in range(1, seeds + 1):
        (path,) = glob.glob(f"{runs}/{mode}-{seed}/attempts/*/journal.jsonl")
        records = [json.loads(line) for line in open(path)]
        last = [r for r in records if r["type"] == "eval"][-1]
        losses.append(last["mlm_loss"])
        accuracies.append(last["mlm_accuracy"])
        clipped += sum(r["type"] == "step" and r["gradient_norm"] > 0.5 for r in records)
    ways.append({"clip": mode, "mlm_loss": statistics.mean(losses), "mlm_loss_deviation": statistics.pstdev(losses),
                 "mlm_accuracy": statistics.mean(accuracies), "steps_above_norm_after_reduction": clipped / (steps * seeds)})
print(json.dumps({"benchmark": "clipping", "model": "tiny", "ranks": 2, "norm": 0.5, "steps": steps, "seeds": seeds,
                  "ways": ways}, indent=2))
PY
