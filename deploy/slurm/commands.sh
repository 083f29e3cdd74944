# What cluster.sh's commands do. Sourced by cluster.sh.
# shellcheck shell=bash disable=SC2154,SC2034

need_programs() {
  local missing=() command wanted=(munged munge slurmctld slurmd scontrol sinfo unshare flock)
  [ "$accounting" = no ] || wanted+=(mariadbd mariadb-install-db slurmdbd sacctmgr)
  [ "$rest" = no ] || wanted+=(slurmrestd curl)
  for command in "${wanted[@]}"; do
    command -v "$command" >/dev/null || missing+=("$command")
  done
  [ ${#missing[@]} -eq 0 ] || fail "missing: ${missing[*]}; run deploy/slurm/install.sh"
}

up_cluster() {
  local node
  need_programs
  user=$(id -un 2>/dev/null) || fail "user $(id -u) has no name; Slurm needs one"
  enter_directory
  keep_logs=no
  trap abandon EXIT
  choose_ports
  mkdir -p "$directory"/{run,log,state,spool,tmp,dev,rest,hooks}
  chmod 755 "$directory" "$directory"/{run,log,spool,tmp}
  chmod 1777 "$directory/rest"
  : >"$directory/processes"
  probe_namespaces
  save_settings
  write_config
  export SLURM_CONF=$directory/slurm.conf
  start_munged
  if [ "$accounting" = yes ]; then
    write_slurmdbd_conf
    start_mariadbd
    start_slurmdbd
    timeout "$patience" sacctmgr -i add cluster regatta >"$directory/log/sacctmgr.out" 2>&1 ||
      fail_with_log sacctmgr "sacctmgr could not add the cluster"
  fi
  start_slurmctld
  start_all_nodes
  if [ "$rest" = yes ]; then
    find_rest_api
    start_slurmrestd_local
    start_slurmrestd_jwt
    save_settings
  fi
  write_env
  check_interrupted
  trap - EXIT
  release_port
  echo "$nodes nodes idle after $SECONDS s; $isolation_sentence"
  echo "to use them: . $directory/env"
}

start_all_nodes() {
  local node
  for node in $(node_names); do start_node "$node"; done
  # shellcheck disable=SC2317
  idle_or_one_gone() {
    for node in $(node_names); do is_running "$node" || return 0; done
    all_nodes_idle
  }
  subject="the nodes" wait_for slurmctld idle_or_one_gone
  for node in $(node_names); do
    is_running "$node" || fail_with_log "$node" "$node ended while it was starting"
  done
}

# A new or empty directory of our own, or one where a cluster has ended without `down`.
enter_directory() {
  local others
  if [ -e "$directory" ]; then
    [ -d "$directory" ] || fail "$directory is not a directory"
    [ -O "$directory" ] || fail "$directory belongs to another user; use --directory"
  else
    mkdir -p -- "$directory" 2>/dev/null || fail "cannot make $directory"
  fi
  [ -w "$directory" ] || fail "cannot write to $directory"
  # Kept logs of an earlier cluster may be there.
  if [ ! -e "$directory/settings" ]; then
    others=$(find "$directory" -mindepth 1 -maxdepth 1 ! -name lock -printf '%f ')
    [ -z "$others" ] || { [ "$others" = 'log ' ] && [ -e "$directory/log/hooks.log" ]; } ||
      fail "$directory is not empty and holds no cluster; use another --directory"
  fi
  lock 1
  ! any_running ||
    fail "a cluster runs in $directory; end it with: $program down --directory $directory"
  remove_contents
}

ports() {
  echo "$port"
  [ "$accounting" = no ] || echo $((port + 1))
  [ "$rest" = no ] || echo $((port + 2))
  seq $((port + 10)) $((port + 9 + nodes))
}

choose_ports() {
  local taken hundred
  if [ -n "$port" ]; then
    taken=$(first_taken_port)
    [ -z "$taken" ] || fail "port $taken on this machine is in use; choose another --port"
    return 0
  fi
  # Below the ports that the kernel hands out.
  for hundred in $(shuf -i 100-299); do
    port=${hundred}00
    reserve_port || continue
    [ -n "$(first_taken_port)" ] || return 0
    release_port
  done
  fail "found no free ports from 10000 to 29999; choose some with --port"
}

# Until the daemons listen, a locked file keeps others who start at the same time from choosing the
# same. Whoever has the lock may remove the file, so it counts only while it is there.
reserve_port() {
  local file=/tmp/.regatta-slurm-port-$port
  { exec 8>>"$file"; } 2>/dev/null || { exec 8<"$file"; } 2>/dev/null || return 1
  if flock -n 8 &&
    [ "$(stat -L -c %i "/proc/$BASHPID/fd/8")" = "$(stat -c %i "$file" 2>/dev/null)" ]; then
    port_file=$file
    return 0
  fi
  exec 8>&-
  return 1
}

# What another user's start has left behind stays: without its lock it counts for nobody.
release_port() {
  [ -z "$port_file" ] || rm -f "$port_file" 2>/dev/null || true
  port_file=
  exec 8>&-
}

first_taken_port() {
  awk 'NR == FNR { wanted[sprintf("%04X", $1)] = $1; next }
       $4 == "0A" && sub(/.*:/, "", $2) && $2 in wanted { print wanted[$2]; exit }' \
    <(ports) /proc/net/tcp /proc/net/tcp6 2>/dev/null
}

probe_namespaces() {
  write_hosts
  isolation_sentence="every node has its own hostname, /dev/shm and process tree"
  [ "$namespaces" = no ] || namespaces_work || {
    namespaces=no
    echo "$program: namespaces do not work here ($(tail -n 1 "$directory/log/namespaces.out"))" >&2
  }
  [ "$namespaces" = yes ] ||
    isolation_sentence="nodes share hostname and /dev/shm: MPI over tcp, at most one rank per node"
}

# Ends a cluster that did not come up, whatever the reason, and leaves nothing.
abandon() {
  trap '' INT TERM HUP
  set +e
  stop_processes
  remove_directory
  release_port
}

stop_processes() {
  local names name failed=0
  mapfile -t names < <(recorded_names)
  for name in "${names[@]}"; do send_kill "$name"; done
  for name in "${names[@]}"; do
    kill_process "$name" || failed=1
  done
  return $failed
}

down_cluster() {
  enter_existing down || {
    echo "no cluster in $directory"
    return 0
  }
  trap '' INT TERM HUP
  cancel_jobs
  stop_processes || fail "not everything ended; see $directory/processes"
  remove_directory
}

# Asks jobs to end, so that they can save, and leave no files in /tmp; waits a little longer than
# Slurm does before it kills them.
cancel_jobs() {
  local jobs end=$((SECONDS + 8))
  [[ $(process_state slurmctld) = running* ]] || return 0
  jobs=$(timeout 5 squeue -h -o %A 2>/dev/null | sort -u) && [ -n "$jobs" ] || return 0
  timeout 5 xargs scancel -Q <<<"$jobs" >/dev/null 2>&1 || true
  while [ $SECONDS -lt $end ] && [ -n "$(timeout 5 squeue -h -o %A 2>/dev/null)" ]; do
    sleep 0.1
  done
}

# Fails when there is no cluster in the directory.
enter_existing() {
  [ -e "$directory/settings" ] || return 1
  [ -O "$directory/settings" ] || fail "$directory belongs to another user"
  [ "$1" = status ] || lock 120
  load_settings
}

need_cluster() {
  enter_existing "$command" || fail "no cluster in $directory; start one with: $program up"
}

status_cluster() {
  enter_existing status || {
    if [ "$format" = json ]; then
      echo "{\"directory\": \"$directory\", \"state\": \"down\"}"
    else
      echo "no cluster in $directory"
    fi
    exit 3
  }
  if [ "$format" = json ]; then status_as_json; else status_for_people; fi
  any_running || exit 3
}

need_name() {
  recorded_names | grep -qxF -- "$name" ||
    fail "there is no '$name' in this cluster; there are: $(recorded_names | tr '\n' ' ')"
}

kill_cluster() {
  need_cluster
  need_name
  is_running "$name" || fail "$name is not running"
  kill_process "$name"
}

start_cluster() {
  need_cluster
  need_name
  ! is_running "$name" || fail "$name is running"
  case "$name" in
    node*)
      start_node "$name"
      wait_for "$name" node_is_known "$name"
      ;;
    munged)
      rm -f "$directory"/run/munge.sock*
      start_munged
      ;;
    *) "start_${name//-/_}" ;;
  esac
}

pause_cluster() { send STOP; }

resume_cluster() { send CONT; }

send() {
  local pid
  need_cluster
  need_name
  find_process "$name" || fail "$name is not running"
  pid=$found_pid
  ! is_node "$name" || pid=$(first_process_of_node "$pid")
  kill "-$1" "$pid" || fail "cannot signal $name (process $pid)"
}
