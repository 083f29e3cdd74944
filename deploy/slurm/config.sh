# The files that Slurm reads. Sourced by cluster.sh, which checks every value that lands in them.
# shellcheck shell=bash disable=SC2154

# A range as Slurm writes it: "01-04", or "01" alone.
range() {
  if [ "$1" = "$2" ]; then echo "$1"; else echo "[$1-$2]"; fi
}

numbers() { range "$(printf %02d "$1")" "$(printf %02d "$2")"; }

write_hosts() {
  { echo "127.0.0.1 localhost $(hostname)" && node_names | sed 's/^/127.0.0.1 /'; } \
    >"$directory/hosts"
}

write_config() {
  (
    umask 077
    head -c 128 /dev/urandom >"$directory/munge.key"
    head -c 32 /dev/urandom >"$directory/jwt.key"
  )
  write_hooks
  write_gpus
  write_topology
  # The tree is no barrier: ranks leave MPI_Init while others are still in it, and those crash.
  echo PMIxCollFence=ring >"$directory/mpi.conf"
  {
    slurm_conf
    if [ "$accounting" = yes ]; then accounting_conf; else no_accounting_conf; fi
    nodes_conf
  } >"$directory/slurm.conf"
  local line
  for line in "${own_lines[@]}"; do override "$line"; done
}

# Timers are short so that tests of failures do not wait: a silent node is down after 10 s
# (SlurmdTimeout), TERM becomes KILL after 5 s (KillWait), a requeued job starts again after 10 s
# (cred_expire, two minutes by default). config_overrides lets a small machine claim big nodes.
# TmpFS must differ per node: Slurm's PMIx plug-in keeps a directory per step there. The two
# NoInAddrAny keep every port, srun's too, on 127.0.0.1.
slurm_conf() {
  cat <<CONF
ClusterName=regatta
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$port
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$directory/run/munge.sock,cred_expire=10
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=$directory/jwt.key
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation=$directory/state
SlurmdSpoolDir=$directory/spool/%n
SlurmctldPidFile=$directory/run/slurmctld.pid
SlurmdPidFile=$directory/run/%n.pid
SlurmctldLogFile=$directory/log/slurmctld.log
SlurmdLogFile=$directory/log/%n.log
TmpFS=$directory/tmp/%n
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=pmix
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=5
SlurmdParameters=config_overrides
SlurmctldParameters=preempt_send_user_signal
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=1000
TopologyPlugin=topology/tree
ReturnToService=2
JobRequeue=1
SlurmctldTimeout=30
SlurmdTimeout=10
KillWait=5
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
Prolog=$directory/hooks/prolog
Epilog=$directory/hooks/epilog
TaskProlog=$directory/hooks/task-prolog
CONF
}

# A finished job leaves squeue after a minute, as on a real cluster, and is found in sacct then.
accounting_conf() {
  cat <<CONF
MinJobAge=60
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort=$((port + 1))
AccountingStoragePass=socket=$directory/run/munge.sock
AccountingStoreFlags=job_comment
CONF
  [ "$gpus" -eq 0 ] || echo AccountingStorageTRES=gres/gpu
}

no_accounting_conf() {
  cat <<CONF
MinJobAge=600
JobCompType=jobcomp/filetxt
JobCompLoc=$directory/log/jobcomp.txt
CONF
}

nodes_conf() {
  local gres='' host_name='' ports
  ports=$(range $((port + 10)) $((port + 9 + nodes)))
  if [ "$gpus" -gt 0 ]; then
    echo GresTypes=gpu
    gres=" Gres=gpu:h100:$gpus"
  fi
  # Where a node has no name of its own, slurmd would not find itself by that name.
  [ "$namespaces" = yes ] || host_name=' NodeHostname=localhost'
  cat <<CONF
NodeName=node$(numbers 1 "$nodes")$host_name NodeAddr=127.0.0.1 Port=$ports Sockets=1 \\
  CoresPerSocket=$cpus ThreadsPerCore=1 RealMemory=256000$gres State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 \\
  PreemptMode=REQUEUE GraceTime=5
PartitionName=high Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
CONF
}

# A count alone is not believed: each GPU needs a character device with a path of its own, or jobs
# get no CUDA_VISIBLE_DEVICES. Links to /dev/null are that without root.
write_gpus() {
  local i
  [ "$gpus" -gt 0 ] || return 0
  for ((i = 0; i < gpus; i++)); do
    ln -s /dev/null "$directory/dev/nvidia$i"
  done
  cat >"$directory/gres.conf" <<CONF
AutoDetect=off
NodeName=node$(numbers 1 "$nodes") Name=gpu Type=h100 \\
  File=$directory/dev/nvidia$(range 0 $((gpus - 1)))
CONF
}

# The first half of the nodes on one leaf switch, the others on a second, a spine above.
write_topology() {
  local half=$(((nodes + 1) / 2))
  {
    echo "SwitchName=leaf1 Nodes=node$(numbers 1 "$half")"
    if [ "$nodes" -gt 1 ]; then
      echo "SwitchName=leaf2 Nodes=node$(numbers $((half + 1)) "$nodes")"
      echo "SwitchName=spine Switches=leaf[1-2]"
    fi
  } >"$directory/topology.conf"
}

# Hooks start with almost no environment. A test that wants a failing prolog writes its own file.
# task-prolog is the site's MPI configuration: every task gets it, whatever environment the job
# asked for. Open MPI would otherwise leave out loopback, the only network here.
write_hooks() {
  local hook
  : >"$directory/log/hooks.log"
  for hook in prolog epilog; do
    cat >"$directory/hooks/$hook" <<HOOK
#!/bin/sh
echo "\$(/bin/date +%s) $hook \$SLURMD_NODENAME \$SLURM_JOB_ID" >>$directory/log/hooks.log
HOOK
  done
  {
    echo '#!/bin/sh'
    mpi_settings | sed 's/.*/echo export &/'
  } >"$directory/hooks/task-prolog"
  chmod 755 "$directory"/hooks/*
}

mpi_settings() {
  if [ "$namespaces" = yes ]; then
    echo OMPI_MCA_btl=self,vader,tcp
  else
    echo OMPI_MCA_btl=self,tcp  # ranks of different nodes would meet in one /dev/shm
  fi
  echo OMPI_MCA_btl_tcp_if_include=lo
  echo OMPI_MCA_oob_tcp_if_include=lo
  if [ "$(id -u)" -eq 0 ]; then
    echo OMPI_ALLOW_RUN_AS_ROOT=1
    echo OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
}

# --conf KEY=VALUE replaces the line of that key; nodes and partitions are added.
override() {
  local key=${1%%=*}
  case "$key" in
    NodeName | PartitionName) ;;
    *) sed -i "/^$key=/Id" "$directory/slurm.conf" ;;
  esac
  printf '%s\n' "$1" >>"$directory/slurm.conf"
}

write_slurmdbd_conf() {
  (umask 077 && cat >"$directory/slurmdbd.conf") <<CONF
AuthType=auth/munge
AuthInfo=socket=$directory/run/munge.sock
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=$directory/jwt.key
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=$((port + 1))
CommunicationParameters=NoInAddrAny
SlurmUser=$user
LogFile=$directory/log/slurmdbd.log
PidFile=$directory/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct_db
CONF
}

write_env() {
  {
    echo "# . this file to use the cluster in $directory"
    echo "export SLURM_CONF=$directory/slurm.conf"
    mpi_settings | sed 's/^/export /'
    if [ "$rest" = yes ]; then
      echo "export REGATTA_SLURM_REST_SOCKET=$directory/rest/slurmrestd.sock"
      echo "export REGATTA_SLURM_REST_URL=http://127.0.0.1:$((port + 2))"
      echo "export REGATTA_SLURM_REST_API=$rest_api"
      echo "export REGATTA_SLURM_REST_TOKEN_COMMAND='scontrol token lifespan=3600'"
    fi
  } >"$directory/env"
}
