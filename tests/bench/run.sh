#!/usr/bin/env bash
# Measures what the README quotes and leaves JSON in build/bench (or the directory named):
#   tests/bench/run.sh [--all] [OUTPUT_DIRECTORY]      --all: the API's loads for longer, some 15 minutes more
set -eu
cd "$(dirname "$0")/../.."
api=()
if [ "${1:-}" = --all ]; then
  api=(--all)
  shift
fi
out=${1:-build/bench}
mkdir -p "$out"
lengths=tests/data/lengths_wikipedia_512.csv
step() { # model samples steps
  echo "bench step --model $1"
  build/release/trainer/regatta-train bench step --model "$1" --lengths "$lengths" \
    --samples "$2" --steps "$3" >"$out/step-$1.json"
}
step tiny 32 10
step mini 16 6
step small 16 4
step base 8 4
balance() { # ranks samples per rank
  echo "bench balance --ranks $1 --batch $(($1 * $2))"
  build/release/trainer/regatta-train bench balance --ranks "$1" --batch "$(($1 * $2))" \
    --lengths "$lengths" >"$out/balance-$1x$2.json" 2>/dev/null
}
balance 8 56
balance 1024 16
echo "bench input"
build/release/trainer/regatta-train bench input --lengths "$lengths" --max-length 128 >"$out/input.json" 2>/dev/null
ranks() { # file benchmark options…: rank 0 tells
  file=$1
  shift
  echo "bench $*"
  build/release/trainer/regatta-train bench "$@" --lengths "$lengths" >"$out/$file.json"
}
echo "bench checkpoint"
build/release/trainer/regatta-train bench checkpoint --directory "$out" --lengths "$lengths" \
  >"$out/checkpoint.json"
if command -v "${REGATTA_MPIRUN:-mpirun}" >/dev/null; then
  ranks overlap overlap
  ranks ablation-cpu-2ranks ablation --model mini --ranks 2 --samples 8 --steps 2 --rounds 3 \
    --link-gbps 1 --link-latency-us 50
  echo "bench plan"
  for ranks in 2 4; do
    build/release/trainer/regatta-train bench plan --ranks "$ranks" --samples "$((2 * ranks))" \
      --lengths "$lengths" >"$out/plan-$ranks.json"
  done
  python3 -c 'import json, sys; json.dump([json.load(open(p)) for p in sys.argv[1:]], sys.stdout, indent=2)' \
    "$out/plan-2.json" "$out/plan-4.json" >"$out/plan-cpu.json"
  rm "$out/plan-2.json" "$out/plan-4.json"
else
  echo "skipped: overlap, ablation and plan need Open MPI"
fi
echo "controller: freshness with 1,000 running runs, start with 100,000 old ones"
build/release/tests/bench/controller_bench >"$out/controller.json"
tests/bench/start.py >"$out/start.json"
echo "topology of 1,024 nodes"
build/release/tests/bench/topology_bench >"$out/topology.json"
echo "requests beside 100,000 runs"
build/release/tests/bench/store_bench >"$out/store.json"
echo "api: load on a real controller with 100,000 runs, 1,000 of them running, and 10,000 nodes"
build/release/tests/bench/api_bench "${api[@]}" >"$out/api.json"
echo "simulate --study mlperf"
build/release/orchestrator/regatta simulate --study mlperf -o json >"$out/simulate-mlperf.json"
if [ -d ../shared/topologies/nccl-tests ]; then
  echo "plans judged by measurements of other machines"
  build/release/tests/bench/plan_bench >"$out/plan-judged.json"
else
  echo "skipped: judging plans needs the public logs in ../shared"
fi
shared=../shared/data
if [ -f "$shared/corpus/wiki_en_docs.txt" ]; then
  echo "tokenizer beside npm's tokenizers"
  tests/bench/tokenizer.sh "$shared/corpus/wiki_en_docs.txt" \
    "$shared/vocab/bert-base-uncased" >"$out/tokenizer.json"
else
  echo "skipped: the tokenizer benchmark needs the public data in ../shared"
fi
if [ -f "$shared/squad/dev-v1.1.reconstructed.json" ]; then
  questions=$shared/squad/dev-v1.1.reconstructed.json
  if command -v npm >/dev/null; then
    echo "features of SQuAD beside npm's tokenizers"
    tests/bench/features.sh "$shared/vocab/bert-base-uncased" "$questions" \
      "$shared/squad/dev-v2.0.reconstructed.json" >"$out/features.json"
  else
    echo "skipped: features of SQuAD are measured beside npm's tokenizers, and there is no npm"
  fi
  if /usr/bin/python3 -c 'import torch' 2>/dev/null; then
    echo "fine-tuning step beside PyTorch"
    tests/bench/fine_tuning_step.py "$questions" "$shared/vocab/bert-base-uncased/vocab.txt" \
      >"$out/fine-tuning-step.json"
  else
    echo "skipped: fine-tuning steps are measured beside PyTorch; install python3-torch"
  fi
  echo "prepare: JSON Lines beside text"
  tests/bench/prepare_formats.py "$shared/corpus/wiki_en_docs.txt" \
    "$shared/vocab/bert-base-uncased/vocab.txt" >"$out/prepare-formats.json"
else
  echo "skipped: benchmarks of fine-tuning and formats need the public data in ../shared"
fi
echo "demo: time to accuracy"
rm -rf build/bench-demo
REGATTA_SKIP_BUILD=1 deploy/demo.sh --no-wait --directory build/bench-demo --port "${PORT:-7899}" >/dev/null
python3 - build/bench-demo >"$out/demo.json" <<'PY'
import glob, json, sys
(path,) = glob.glob(sys.argv[1] + "/runs/*/attempts/*/journal.jsonl")
records = [json.loads(line) for line in open(path)]
start = next(r for r in records if r["type"] == "start")
steps = [r for r in records if r["type"] == "step"]
met = next(r for r in records if r["type"] == "eval" and r["target_met"])
begin = steps[0]["seconds"] - steps[0]["step_seconds"]
print(json.dumps({
    "benchmark": "demo", "metric": start["metric"], "baseline": start["baseline"], "target": start["target"],
    "value": met["mlm_accuracy"], "step": met["step"], "batch_size": start["batch_size"],
    "time_to_accuracy_seconds": met["seconds"] - begin,
    "tokens_per_second": sum(r["tokens"] for r in steps) / sum(r["step_seconds"] for r in steps),
}, indent=2))
PY
