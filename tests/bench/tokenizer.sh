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
bench=${BUILD:-$root/build/release}/tests/bench/tokenizer_bench
peer=$root/build/peer
# shellcheck source=/dev/null
. "$here/peer.sh"
need_files tokenizer_bench "$text" "$vocabulary/vocab.txt" "$vocabulary/tokenizer.json" "$bench"
install_peer "$peer"
exec node "$here/tokenizer_peer.mjs" compare "$peer" "$bench" "$text" "$vocabulary" "$rounds" "$bytes"
