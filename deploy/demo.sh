#!/usr/bin/env bash
# From a clone to a trained model on a live page, on this machine:
#   deploy/demo.sh [--corpus FILE_OR_DIRECTORY] [--directory DIR] [--port N] [--no-wait] [--slurm]
# --slurm: through a throw-away Slurm of two nodes, a rank on each. Ctrl-C stops all it started.
set -eu
source_root=$(cd "$(dirname "$0")/.." && pwd)
directory=$source_root/demo
corpus=
port=7878
wait_at_end=yes
slurm=no
run_file=$source_root/deploy/demo.yaml
build=$source_root/build/release

usage() { sed -n '2,4s/^# \{0,1\}//p' "$0"; }
fail() {
  echo "deploy/demo.sh: $1" >&2
  exit "${2:-1}"
}
words=("$@")
while [ $# -gt 0 ]; do
  case "$1" in
    --corpus | --directory | --port | --run-file)
      [ $# -ge 2 ] || fail "$1 needs a value" 2
      case "$1" in
        --corpus) corpus=$(realpath -e -- "$2" 2>/dev/null) || fail "there is no $2" ;;
        --directory) mkdir -p -- "$2" && directory=$(realpath -- "$2") ;;
        --port) port=$2 ;;
        --run-file) run_file=$(realpath -e -- "$2" 2>/dev/null) || fail "there is no $2" ;;
      esac
      shift
      ;;
    --no-wait) wait_at_end=no ;;
    --slurm) slurm=yes ;;
    --help | -h)
      usage
      exit 0
      ;;
    *) fail "unknown option '$1'; see --help" 2 ;;
  esac
  shift
done
# What works is this script once more, aside, which clears away what it has started.
if [ -z "${REGATTA_DEMO_WORKS:-}" ]; then
  # shellcheck source=/dev/null
  . "$source_root/deploy/aside.sh"
  export REGATTA_DEMO_WORKS=yes
  run_aside group "$source_root/deploy/demo.sh" ${words[@]+"${words[@]}"}
fi

cd "$source_root"

echo "== packages"
deploy/install.sh
[ "$slurm" = no ] || deploy/slurm/install.sh
echo "== build"
targets=(regatta regatta-train)
[ "$slurm" = no ] || targets+=(regatta-mpi)
controller=
run=
cluster=
# What lasts runs like this: bash forgets a signal that comes as it forks for a command and then
# waits for that command, which has not been told; its `wait` hears every one.
attended() {
  "$@" &
  wait $!
}
cleanup() {
  trap '' INT TERM
  local each
  for each in $(jobs -p); do
    [ "$each" = "$controller" ] && continue
    # Again and again: one that has been forked and is not yet what it is to be does not hear it.
    # (`wait` for one that is known to have ended can last until the controller ends, too.)
    while kill "$each" 2>/dev/null; do sleep 0.1; done
  done
  if [ -n "$run" ]; then "$build/orchestrator/regatta" cancel "$run" >/dev/null 2>&1 || true; fi
  if [ -n "$controller" ]; then
    # The controller leaves attempts alone when it ends, so the run is given time to stop first.
    for _ in $(seq 100); do
      [ -z "$run" ] && break
      state=$("$build/orchestrator/regatta" show "$run" -o json 2>/dev/null |
        python3 -c 'import json,sys; print(json.load(sys.stdin)["state"])' 2>/dev/null || echo gone)
      case "$state" in queued | starting | running | stopping) sleep 0.2 ;; *) break ;; esac
    done
    kill "$controller" 2>/dev/null || true
    wait "$controller" 2>/dev/null || true
  fi
  if [ -n "$cluster" ]; then
    if deploy/slurm/cluster.sh down --directory "$cluster/slurm" >/dev/null; then
      rm -rf -- "$cluster"
    fi
  fi
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
if [ -z "${REGATTA_SKIP_BUILD:-}" ]; then attended deploy/build.sh --target "${targets[@]}"; fi

echo "== data"
mkdir -p "$directory"
if [ ! -e "$directory/dataset/dataset.json" ] || [ -n "$corpus" ]; then
  if [ -z "$corpus" ]; then
    deploy/corpus.py "$directory/corpus"
    corpus=$directory/corpus
  fi
  "$build/trainer/regatta-train" prepare "$corpus" --output "$directory/dataset" \
    --train-vocab 4000 --force
fi

scheduler=auto
if [ "$slurm" = yes ]; then
  # Not below the demo's directory: munge wants parents that all may enter, and Slurm's files and
  # sockets bear short paths of plain letters only.
  cluster=$(mktemp -d /tmp/regatta-demo-XXXXXX)
  chmod 755 "$cluster"
  echo "== slurm in $cluster"
  deploy/slurm/cluster.sh up --directory "$cluster/slurm" --nodes 2 --no-rest
  # shellcheck source=/dev/null
  . "$cluster/slurm/env"
  scheduler=slurm_cli
fi

echo "== controller"
privileged=()
[ "$(id -u)" -ne 0 ] || privileged=(--allow-privileged)
# In a session of its own, so that Ctrl-C does not reach it before the run has been cancelled.
setsid "$build/orchestrator/regatta" serve --port "$port" --data "$directory/store" \
  --runs "$directory/runs" --trainer "$build/trainer/regatta-train" --scheduler "$scheduler" \
  "${privileged[@]}" \
  >>"$directory/controller.log" 2>&1 &
controller=$!
export REGATTA_SERVER=unix:$directory/store/controller.sock
for _ in $(seq 100); do
  "$build/orchestrator/regatta" version -o json 2>/dev/null | grep -q runs_directory && break
  kill -0 "$controller" 2>/dev/null || {
    controller=
    fail "the controller did not start: $(tail -n 1 "$directory/controller.log")"
  }
  sleep 0.1
done

echo "== run"
sed "s|^  path: dataset\$|  path: $directory/dataset|" "$run_file" >"$directory/run.yaml"
if [ "$slurm" = yes ]; then
  # Both nodes are this machine.
  printf 'threads: %d\nranks: 2\nslurm: {nodes: 2, ranks_per_node: 1, time_limit: 120}\n' \
    $((($(nproc) + 1) / 2)) >>"$directory/run.yaml"
fi
# Ctrl-C while the run is being submitted waits until its id is known: it could not be cancelled
# otherwise. A single command says it: each that follows would be one that Ctrl-C could end.
interrupted=
trap 'interrupted=130' INT
trap 'interrupted=143' TERM
run=$(trap '' INT TERM && "$build/orchestrator/regatta" submit "$directory/run.yaml")
trap 'exit 130' INT
trap 'exit 143' TERM
[ -z "$interrupted" ] || exit "$interrupted"
echo "dashboard: $("$build/orchestrator/regatta" open "$run")"
echo "for another link: $build/orchestrator/regatta open --server $REGATTA_SERVER"
attended "$build/orchestrator/regatta" watch "$run" || true
summary=$("$build/orchestrator/regatta" show "$run" -o json)
run=

status=0
python3 - "$summary" <<'PY' || status=$?
import json, sys
run = json.loads(sys.argv[1])
sys.exit(0 if run["target_reached"] and run["state"] == "succeeded" else 1)
PY
if [ "$status" -ne 0 ]; then
  echo "the target was not reached"
elif [ "$wait_at_end" = yes ]; then
  echo "the page stays up until Ctrl-C"
  wait "$controller" || true
fi
exit "$status"
