# Ctrl-C for scripts that have something to clear away. Sourced by demo.sh and slurm/cluster.sh.
# shellcheck shell=bash

# run_aside shell|group COMMAND...: runs it and exits with its code.
#
# Ctrl-C ends every process of the terminal's foreground, and a command that it ends looks like one
# that failed; and bash drops a trapped INT that comes just as it has waited for a command. So what
# works does so in a process group of its own, and by TERM either its shell alone is told, which
# finds it in $interrupted, or all that is in the group.
run_aside() {
  local whom=$1 worker='' told='' code=0
  shift
  tell() {
    told=$1
    [ -n "$worker" ] || return 0
    local process=$worker
    [ "$whom" = shell ] || process=-$worker
    kill -s TERM -- "$process" 2>/dev/null || true
  }
  trap 'tell INT' INT
  trap 'tell TERM' TERM HUP
  set -m
  (
    set +m
    # shellcheck disable=SC2034
    trap 'interrupted=143' TERM HUP
    "$@"
  ) &
  worker=$!
  set +m
  [ -z "$told" ] || tell "$told"
  # `wait` returns when a signal comes, too; asked again, it still knows the answer.
  while kill -0 "$worker" 2>/dev/null; do wait "$worker" || true; done
  wait "$worker" || code=$?
  # What failed after it was told to end did so for that, with whatever code.
  [ "$code" -eq 0 ] || case "$told" in INT) code=130 ;; TERM) code=143 ;; esac
  exit "$code"
}
