#!/usr/bin/env bash
# A throw-away Slurm of several nodes on this machine, in a directory of its own, as root or not.
#   deploy/slurm/cluster.sh up [options]        start it; afterwards: . DIR/env
#   deploy/slurm/cluster.sh down [--keep-logs]  end all its processes, remove all it made
#   deploy/slurm/cluster.sh status [-o json]    what runs; exit code 3 when nothing does
#   deploy/slurm/cluster.sh kill|start NAME     a node as if its plug was pulled, or a daemon
#   deploy/slurm/cluster.sh pause|resume NAME   SIGSTOP and SIGCONT
# All take --directory DIR (default /tmp/regatta-slurm-UID). NAME is node01, ..., slurmctld,
# slurmdbd, mariadbd, munged, slurmrestd-local or slurmrestd-jwt. Options of up:
#   --nodes N         virtual nodes, 1 to 64 (default 4)
#   --cpus N          cores that a node claims (default 32)
#   --gpus N          fake GPUs of a node, 0 to 16 (default 8)
#   --port P          first of the ports P to P+9+N on 127.0.0.1 (default: some free ones)
#   --no-accounting   without MariaDB and slurmdbd
#   --no-rest         without slurmrestd
#   --no-namespaces   nodes that share hostname, /dev/shm and process tree
#   --conf KEY=VALUE  a line of slurm.conf, in place of the usual one (repeatable)
#   --timeout S       how long to wait for any one daemon (default 120)
# shellcheck disable=SC2034,SC2317  # the files sourced below use the variables and functions
set -euo pipefail
program=deploy/slurm/cluster.sh
here=$(cd "$(dirname "$0")" && pwd)
export LC_ALL=C PATH=$PATH:/usr/sbin:/sbin
# A job's or another cluster's settings would lead the commands below elsewhere.
# shellcheck disable=SC2086
unset ${!SLURM@} ${!SBATCH_@} ${!SQUEUE_@} ${!SINFO_@} ${!MYSQL_@}

nodes=4 cpus=32 gpus=8 port='' accounting=yes rest=yes namespaces=yes rest_api='' patience=120
own_lines=()
directory=/tmp/regatta-slurm-$(id -u)
format=text keep_logs=no interrupted='' port_file=''

fail() {
  echo "$program: $1" >&2
  exit "${2:-1}"
}
for part in process nodes config daemons status; do
  # shellcheck source=/dev/null
  . "$here/$part.sh"
done

# number OPTION VALUE LOWEST HIGHEST
number() {
  if ! [[ $2 =~ ^[0-9]{1,6}$ ]] || [ $((10#$2)) -lt "$3" ] || [ $((10#$2)) -gt "$4" ]; then
    fail "$1 wants a number from $3 to $4, not '$2'" 2
  fi
  echo $((10#$2))
}

usage() { sed -n '2,/^# shellcheck/{/^# shellcheck/!s/^# \{0,1\}//p}' "$0"; }

# take OPTION VALUE: an option with a value.
take() {
  case "$1" in
    --directory) directory=$2 ;;
    --nodes) nodes=$(number "$1" "$2" 1 64) ;;
    --cpus) cpus=$(number "$1" "$2" 1 256) ;;
    --gpus) gpus=$(number "$1" "$2" 0 16) ;;
    --port) port=$(number "$1" "$2" 1024 65000) ;;
    --timeout) patience=$(number "$1" "$2" 1 3600) ;;
    --conf)
      [[ $2 =~ ^[A-Za-z]+=[[:print:]]*$ ]] || fail "--conf wants KEY=VALUE on one line, not '$2'" 2
      own_lines+=("$2")
      ;;
    -o)
      [ "$2" = json ] || fail "-o wants json, not '$2'" 2
      format=json
      ;;
  esac
}

parse() {
  while [ $# -gt 0 ]; do
    case "$1" in
      --directory | --nodes | --cpus | --gpus | --port | --timeout | --conf | -o)
        [ $# -ge 2 ] || fail "$1 needs a value" 2
        take "$1" "$2"
        shift
        ;;
      --no-accounting) accounting=no ;;
      --no-rest) rest=no ;;
      --no-namespaces) namespaces=no ;;
      --keep-logs) keep_logs=yes ;;
      -*) fail "unknown option '$1'; see --help" 2 ;;
      *)
        [ -z "$name" ] || fail "one name at a time, not '$name' and '$1'" 2
        name=$1
        ;;
    esac
    shift
  done
}

# Slurm's files know no quoting, unix sockets have short paths, and nodes get their own /dev/shm.
check_directory() {
  [ -n "$directory" ] || fail "--directory needs a value" 2
  directory=$(realpath -m -- "$directory")
  [[ $directory =~ ^[A-Za-z0-9_./+-]+$ ]] ||
    fail "Slurm's files cannot hold '$directory': use only letters, digits and _ . / + -" 2
  [ ${#directory} -le 80 ] || fail "$directory is too long for a unix socket (limit 80)" 2
  case "$directory/" in
    /dev/shm/* | /proc/*) fail "$directory is not visible inside the nodes; use another one" 2 ;;
    //) fail "the root directory is no place for a cluster" 2 ;;
  esac
}

# lock SECONDS: waits for another cluster.sh that works on the same cluster, which may be one that
# removes the very file.
lock() {
  local waited
  exec 9>"$directory/lock"
  flock -w "$1" 9 || fail "another $program is at work in $directory"
  waited=$(stat -L -c %i "/proc/$BASHPID/fd/9")
  [ "$(stat -c %i "$directory/lock" 2>/dev/null)" = "$waited" ] ||
    fail "another $program has just removed $directory; try again"
}

# What up made. Logs come last, so that they can be kept.
remove_contents() {
  local entry
  for entry in processes settings env slurm.conf slurmdbd.conf gres.conf topology.conf mpi.conf \
    hosts munge.key jwt.key run state spool tmp dev rest mysql hooks; do
    rm -rf -- "${directory:?}/$entry"
  done
  [ "$keep_logs" = yes ] || rm -rf -- "${directory:?}/log"
}

remove_directory() {
  remove_contents
  rm -f -- "$directory/lock"
  rmdir -- "$directory" 2>/dev/null || true
}

load_settings() {
  [ -O "$directory/settings" ] || return 1
  # shellcheck source=/dev/null
  . "$directory/settings"
  export SLURM_CONF=$directory/slurm.conf
}

save_settings() {
  local key
  for key in nodes cpus gpus port accounting rest namespaces rest_api isolation_sentence user; do
    printf '%s=%q\n' "$key" "${!key}"
  done >"$directory/settings"
}

main() {
  command=${1:-} name=''
  case "$command" in
    up | down | status | kill | start | pause | resume) shift ;;
    --help | -h | help) usage && exit 0 ;;
    '') fail "say up, down, status, kill, start, pause or resume; see --help" 2 ;;
    *) fail "unknown command '$command'; see --help" 2 ;;
  esac
  case " $* " in *' --help '* | *' -h '*) usage && exit 0 ;; esac
  parse "$@"
  check_directory
  case "$command" in
    kill | start | pause | resume) [ -n "$name" ] || fail "$command needs a name" 2 ;;
    *) [ -z "$name" ] || fail "$command takes no name: '$name'" 2 ;;
  esac
  run_aside shell "${command}_cluster"
}

# shellcheck source=/dev/null
. "$here/../aside.sh"
# shellcheck source=/dev/null
. "$here/commands.sh"
main "$@"
