#!/usr/bin/env bash
# The tokenizer's speed beside npm's `tokenizers`, in the same run; one JSON on stdout.
#   tests/bench/tokenizer.sh TEXT VOCAB_DIRECTORY [ROUNDS [BYTES]]
# VOCAB_DIRECTORY holds vocab.txt and the same vocabulary as tokenizer.json. BYTES: of the text, from
# its start. BUILD names the build directory (default build/release). The peer is installed once, into
# build/peer.
set -eu
if [ $# -lt 2 ]; then
  echo "usage: tests/bench/tokenizer.sh TEXT VOCAB_DIRECTORY [ROUNDS [BYTES]]" >&2
  exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
text=$(realpath "$1")
vocabulary=$(realpath "$2")
rounds=${3:-3}
bytes=${4:-6000000}
version=0.23.2
bench=${BUILD:-$root/build/release}/tests/bench/tokenizer_bench
peer=$root/build/peer
for file in "$text" "$vocabulary/vocab.txt" "$vocabulary/tokenizer.json" "$bench"; do
  if [ ! -e "$file" ]; then
    echo "$file is not there; name an existing one, or build the target tokenizer_bench" >&2
    exit 1
  fi
done
if ! grep -qs "\"version\": \"$version\"" "$peer/node_modules/tokenizers/package.json"; then
  mkdir -p "$peer"
  printf '{"private": true, "dependencies": {"tokenizers": "%s"}}\n' "$version" >"$peer/package.json"
  npm --prefix "$peer" install --no-audit --no-fund --loglevel=error >&2
fi
exec node "$here/tokenizer_peer.mjs" compare "$peer" "$bench" "$text" "$vocabulary" "$rounds" "$bytes"
