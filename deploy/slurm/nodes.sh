# The virtual nodes: one slurmd each. Sourced by cluster.sh.
#
# With namespaces (hostname, mounts, process tree) a node has its own name, its own /dev/shm and its
# own processes, which end with it, as if the plug was pulled. All nodes listen on 127.0.0.1; their
# /etc/hosts sends every node name there, because Slurm's daemons bind what the own name resolves
# to.
# shellcheck shell=bash disable=SC2154

is_node() { [[ $1 =~ ^node[0-9][0-9]$ ]]; }

node_names() { seq -f 'node%02g' "$nodes"; }

# The arguments of unshare(1); as an ordinary user inside a user namespace that keeps the identity.
isolation=(--uts --mount --pid --fork --kill-child --mount-proc)
[ "$EUID" -eq 0 ] || isolation=(--user --map-current-user --keep-caps "${isolation[@]}")

# What makes a node of the namespaces; $1 its name, $2 the hosts file, $3 the machine's own hostname
# namespace. Outside namespaces it would rename the machine, so it looks where it is.
# shellcheck disable=SC2016  # the shell inside expands it
node_setup='inside=$(readlink /proc/self/ns/uts)
[ -n "$3" ] && [ "$inside" != "$3" ] || { echo "still in the namespaces of the machine" >&2; exit 1; }
hostname "$1"; mount --bind "$2" /etc/hosts; mount -t tmpfs -o mode=1777 tmpfs /dev/shm'
machine_namespace=$(readlink /proc/self/ns/uts 2>/dev/null) || machine_namespace=''

# Containers and hardened kernels forbid this in many ways, so it is tried.
namespaces_work() {
  timeout 10 unshare "${isolation[@]}" sh -ec "$node_setup; [ \"\$(hostname)\" = \"\$1\" ]" \
    sh node00 "$directory/hosts" "$machine_namespace" >"$directory/log/namespaces.out" 2>&1 </dev/null
}

start_node() {
  local node=$1
  mkdir -p "$directory/spool/$node" "$directory/tmp/$node"
  chmod 1777 "$directory/tmp/$node"
  if [ "$namespaces" = yes ]; then
    spawn "$node" unshare "${isolation[@]}" sh -ec "$node_setup; exec slurmd -D -N \"\$1\"" \
      sh "$node" "$directory/hosts" "$machine_namespace"
  else
    spawn "$node" slurmd -D -N "$node"
  fi
}

# The process whose end ends the node: the first one of its process tree. unshare(1), which is the
# recorded one, ends after it, when all of the node's processes are gone.
first_process_of_node() {
  local child=''
  [ "$namespaces" = no ] || { read -r child _ <"/proc/$1/task/$1/children"; } 2>/dev/null || true
  echo "${child:-$1}"
}

# Without a process tree of their own, steps outlive their slurmd. A slurmstepd keeps the log of its
# node open; what it started descends from it.
kill_orphaned_steps() {
  local process descriptor
  for process in /proc/[0-9]*; do
    case "$(readlink "$process/exe" 2>/dev/null)" in */slurmstepd*) ;; *) continue ;; esac
    for descriptor in "$process"/fd/*; do
      if [ "$(readlink "$descriptor" 2>/dev/null)" = "$directory/log/$1.log" ]; then
        kill_tree "${process#/proc/}"
        break
      fi
    done
  done
}

kill_tree() {
  local child children=''
  kill -STOP "$1" 2>/dev/null || return 0
  { read -r children <"/proc/$1/task/$1/children"; } 2>/dev/null || true
  for child in $children; do kill_tree "$child"; done
  kill -KILL "$1" 2>/dev/null || true
}

idle_nodes() { timeout 5 sinfo -h -N -p main -t idle -o %N 2>/dev/null | sort -u | wc -l; }

all_nodes_idle() { [ "$(idle_nodes)" -eq "$nodes" ]; }

node_is_known() {  # it answers slurmctld again
  case "$(timeout 5 sinfo -h -n "$1" -p main -o %t 2>/dev/null)" in
    '' | *'*' | down | unk*) return 1 ;;
  esac
}
