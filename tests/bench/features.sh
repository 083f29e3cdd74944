#!/usr/bin/env bash
# Labelled windows of SQuAD's questions beside npm's `tokenizers`, in the same run; one JSON on stdout.
#   tests/bench/features.sh VOCAB_DIRECTORY FILE…
# VOCAB_DIRECTORY holds vocab.txt and the same vocabulary as tokenizer.json. Each FILE, in SQuAD's format,
# is taken COPIES times (default 11: the dev set is then as large as the training set). ROUNDS (default 3),
# THREADS (default 2) and BUILD, the build directory (default build/release), are variables. The peer is
# installed once, into build/peer.
set -eu
if [ $# -lt 2 ]; then
  echo "usage: tests/bench/features.sh VOCAB_DIRECTORY FILE…" >&2
  exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
vocabulary=$(realpath "$1")
shift
bench=${BUILD:-$root/build/release}/tests/bench/features_bench
peer=$root/build/peer
# shellcheck source=/dev/null
. "$here/peer.sh"
need_files features_bench "$vocabulary/vocab.txt" "$vocabulary/tokenizer.json" "$bench" "$@"
install_peer "$peer"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 - "$work" "${COPIES:-11}" "$@" <<'PY'
import json, pathlib, sys
work, copies, *files = sys.argv[1:]
for path in map(pathlib.Path, files):
    whole = json.loads(path.read_text())
    articles = []
    for copy in range(int(copies)):
        for article in json.loads(json.dumps(whole["data"])):
            for question in (question for paragraph in article["paragraphs"] for question in paragraph["qas"]):
                question["id"] += f"-{copy}"
            articles.append(article)
    (pathlib.Path(work) / path.name).write_text(json.dumps({"version": whole.get("version", "1.1"), "data": articles}))
PY
node "$here/features_peer.mjs" compare "$peer" "$bench" "$vocabulary" "${ROUNDS:-3}" "${THREADS:-2}" "$work"/*
