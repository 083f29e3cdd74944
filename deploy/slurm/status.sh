# What runs, for people and as JSON. Sourced by cluster.sh.
# shellcheck shell=bash disable=SC2154

# Prints "running", "paused" or "gone", and the pid.
process_state() {
  local pid=0
  if find_process "$1"; then
    pid=$found_pid
    ! is_node "$1" || pid=$(first_process_of_node "$pid")
  fi
  if ! look_at "$pid"; then
    echo "gone 0"
  elif [ "$seen_state" = T ]; then
    echo "paused $pid"
  else
    echo "running $pid"
  fi
}

# "up" with everything running, "partly" with something gone or paused, "down" with nothing.
overall_state() {
  local name state up=0 other=0
  for name in $(recorded_names); do
    state=$(process_state "$name")
    case "$state" in running*) up=$((up + 1)) ;; *) other=$((other + 1)) ;; esac
    case "$state" in paused*) up=$((up + 1)) ;; esac
  done
  if [ $up -eq 0 ]; then echo down; elif [ $other -eq 0 ]; then echo up; else echo partly; fi
}

# "NAME STATE" per node as slurmctld sees it; nothing while it does not answer.
slurm_states() {
  [[ $(process_state slurmctld) != running* ]] ||
    timeout 5 sinfo -h -N -p main -o '%N %T' 2>/dev/null || true
}

status_for_people() {
  local name state seen
  echo "cluster in $directory: $(overall_state)"
  echo "  to use it: . $directory/env"
  echo "  ports $port-$((port + 9 + nodes)); $isolation_sentence"
  seen=$(slurm_states)
  for name in $(recorded_names); do
    state=$(process_state "$name")
    printf '  %-17s %-8s %-8s %s\n' "$name" "${state% *}" "${state#* }" \
      "$(awk -v n="$name" '$1 == n { print $2 }' <<<"$seen")"
  done
}

# No value here can hold a character that JSON would escape: cluster.sh lets none in.
status_as_json() {
  local name state seen separator='' rest_json=null
  if [ "$rest" = yes ]; then
    rest_json="{\"socket\": \"$directory/rest/slurmrestd.sock\", \"api\": \"$rest_api\", "
    rest_json+="\"url\": \"http://127.0.0.1:$((port + 2))\"}"
  fi
  seen=$(slurm_states)
  printf '{"directory": "%s", "state": "%s", "port": %d, "slurm_conf": "%s", ' \
    "$directory" "$(overall_state)" "$port" "$directory/slurm.conf"
  printf '"namespaces": %s, "accounting": %s, "rest": %s, "processes": [' \
    "$(truth "$namespaces")" "$(truth "$accounting")" "$rest_json"
  for name in $(recorded_names); do
    state=$(process_state "$name")
    printf '%s{"name": "%s", "state": "%s", "pid": %d, "node_state": %s}' "$separator" "$name" \
      "${state% *}" "${state#* }" "$(node_state_json "$name" "$seen")"
    separator=', '
  done
  echo ']}'
}

node_state_json() {
  local state
  state=$(awk -v n="$1" '$1 == n { print $2 }' <<<"$2")
  if [ -n "$state" ]; then echo "\"$state\""; else echo null; fi
}

truth() { if [ "$1" = yes ]; then echo true; else echo false; fi; }
