#!/usr/bin/env bash
# Measures what the README quotes and leaves JSON in build/bench (or the directory named):
#   tests/bench/run.sh [OUTPUT_DIRECTORY]
set -eu
cd "$(dirname "$0")/../.."
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
shared=../shared/data
if [ -f "$shared/corpus/wiki_en_docs.txt" ]; then
  echo "tokenizer beside npm's tokenizers"
  tests/bench/tokenizer.sh "$shared/corpus/wiki_en_docs.txt" \
    "$shared/vocab/bert-base-uncased" >"$out/tokenizer.json"
else
  echo "skipped: the tokenizer benchmark needs the public data in ../shared"
fi
