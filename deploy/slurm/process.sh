# Processes of one cluster: started in sessions of their own, written down, ended by what was
# written down. Sourced by cluster.sh.
#
# $directory/processes has a line "NAME PID TICKS" per process, the newest of a name last. TICKS is
# the start time of the process (field 22 of /proc/PID/stat): a pid that was given to another
# process since has other ticks, and is never signalled.
# shellcheck shell=bash disable=SC2154

# What look_at and find_process found.
# shellcheck disable=SC2034
seen_state='' seen_ticks='' found_pid=''

# State and start ticks of a process; fails when there is none. A zombie counts as none: the first
# process of a container may reap late.
look_at() {
  local stat
  local -a field
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  read -ra field <<<"${stat##*) }"
  case "${field[0]}" in Z | X) return 1 ;; esac
  seen_state=${field[0]} seen_ticks=${field[19]}
}

# The newest process of this name if it still is that process.
find_process() {
  local name pid ticks found_ticks=''
  found_pid=''
  [ -e "$directory/processes" ] || return 1
  while read -r name pid ticks; do
    [ "$name" = "$1" ] && found_pid=$pid && found_ticks=$ticks
  done <"$directory/processes"
  [ -n "$found_pid" ] && look_at "$found_pid" && [ "$seen_ticks" = "$found_ticks" ]
}

is_running() { find_process "$1"; }

any_running() {
  local name
  for name in $(recorded_names); do
    is_running "$name" && return 0
  done
  return 1
}

# Every name once, oldest first.
recorded_names() {
  [ ! -e "$directory/processes" ] || awk '!seen[$1]++ { print $1 }' "$directory/processes"
}

# spawn NAME COMMAND...: output goes to log/NAME.out. A session of its own keeps the end of the
# terminal away; descriptors 8 and 9, the locks, are not handed on.
spawn() {
  local name=$1
  shift
  (cd "$directory" && exec setsid "$@") >>"$directory/log/$name.out" 2>&1 </dev/null 8>&- 9>&- &
  look_at "$!" || seen_ticks=0
  echo "$name $! $seen_ticks" >>"$directory/processes"
  # The shell need not tell how it ended, and may have done so already.
  disown 2>/dev/null || true
}

check_interrupted() {
  [ -z "$interrupted" ] || exit "$interrupted"
}

# fail_with_log NAME MESSAGE
fail_with_log() {
  check_interrupted
  local log
  for log in "$directory/log/$1.log" "$directory/log/$1.out"; do
    if [ -s "$log" ]; then
      echo "the last lines of $log:" >&2
      tail -n 15 "$log" | sed 's/^/  /' >&2
      break
    fi
  done
  fail "$2"
}

# wait_for NAME COMMAND...: until the command succeeds. NAME is the process it depends on; $subject
# names what is awaited if that is something else.
wait_for() {
  local name=$1 end=$((SECONDS + patience))
  shift
  until "$@" >/dev/null 2>&1; do
    check_interrupted
    is_running "$name" || fail_with_log "$name" "$name ended while it was starting"
    [ $SECONDS -lt $end ] ||
      fail_with_log "$name" "${subject:-$name} did not get ready in $patience s"
    sleep 0.05
  done
  check_interrupted
}

# Nothing of a throw-away cluster deserves an orderly stop, and KILL also ends what is paused.
send_kill() {
  local pid
  find_process "$1" || return 0
  pid=$found_pid
  is_node "$1" && pid=$(first_process_of_node "$pid")
  kill -KILL "$pid" 2>/dev/null || true
}

# Returns when the process is gone.
kill_process() {
  local end=$((SECONDS + patience))
  send_kill "$1"
  while is_running "$1"; do
    if [ $SECONDS -ge $end ]; then
      echo "$program: $1 (process $found_pid) does not end" >&2
      return 1
    fi
    sleep 0.02
  done
  is_node "$1" && [ "$namespaces" = no ] && kill_orphaned_steps "$1"
  return 0
}
