#!/bin/bash -p
# Made by Regatta. Options go to sbatch by argument: none are read from here.
set -u
umask 077
if ((BASH_VERSINFO[0] < 4)); then
  echo "regatta: bash $BASH_VERSION is too old; install bash 4 or newer on the nodes"
  exit 21
fi

# Of the environment only this stays: what a program needs to start, and what Slurm sets.
for name in $(compgen -e); do
  case $name in
    PATH | HOME | USER | LOGNAME | SHELL | LANG | LC_* | TZ | TMPDIR | PWD | HOSTNAME) ;;
    SLURM_EXPORT_ENV | SLURM_CPU_BIND* | SLURM_MPI_TYPE) unset -v "$name" ;;
    SLURM_* | SLURMD_* | SPANK_*) ;;
    KRB5CCNAME | CUDA_VISIBLE_DEVICES | ROCR_VISIBLE_DEVICES | GPU_DEVICE_ORDINAL) ;;
    ZE_AFFINITY_MASK) ;;
    *) unset -v "$name" 2>/dev/null ;;
  esac
done
export PATH=${PATH:-/usr/local/bin:/usr/bin:/bin}
[[ -n ${HOME:-} ]] || { unset -v HOME; HOME=~; export HOME; }

before_setup() {
  trap 'echo "regatta: slurm.setup left the script with $?; it must not exit"
    echo "regatta: returns 20"; exit 20' EXIT
  set +u
}
after_setup() {
  local code=$1
  set +euvx
  set -u
  shopt -u expand_aliases failglob nocasematch nullglob
  unalias -a
  IFS=$' \t\n'
  trap - EXIT TERM INT USR1 USR2 HUP CHLD ERR DEBUG RETURN
  if ((code != 0)); then
    echo "regatta: the last command of slurm.setup returned $code; correct it, or end with true"
    echo "regatta: returns 20"
    exit 20
  fi
}

# Example of a job: batch_script() puts the job's own values in the place of these lines.
token=0123456789abcdef
run_name=example
run_directory=/runs/example
trainer=/opt/regatta/bin/regatta-train
slurm_directory=
script=/runs/example/submit/0123456789abcdef.sh
requeue=yes
ranks_per_node=8
pause_seconds=30
farewell_seconds=60
environment=()
step_options=()
sbatch_options=(--parsable)
# End of the example.

# Slurm holds a job at its fifth requeue.
most_restarts=4
# Requests to a slurmctld that does not answer.
most_tries=8
# For Slurm to end a job that was requeued.
rest_seconds=300
# For the stacks of all ranks; those wait 45 s.
dump_seconds=40

verdict=none
step=
interrupted=
terminated=
# The file where the ranks say their last word, when it was there, and when srun was given up.
last_word=
heard=
left_behind=

say() { printf 'regatta: %s\n' "$*"; }
# The only way to end with 0.
finish() {
  verdict=$1
  exit "$1"
}
give_up() {
  say "$2"
  finish "$1"
}
# Errors of bash itself end the script, too, and not with success. squeue shows no exit codes, so
# this one is told here.
check_verdict() {
  local code=$1
  if ((code == 0)) && [[ $verdict != 0 ]]; then code=70; fi
  say "returns $code"
  exit "$code"
}

# A request to stop reaches the ranks as USR1: on TERM srun would kill them.
forward() {
  interrupted=yes
  [[ $1 != USR1 ]] || terminated=yes
  [[ -z $step ]] || kill -s "$1" "$step" 2>/dev/null
}
# Returns what process $1 returns. A signal that comes just before bash blocks in `wait` is handled
# only after it, so that comes last. Nothing ever comes from pipe 8: reading it is a clock.
await() {
  local status looks=0 seconds=0.02
  step=$1
  [[ -z $terminated ]] || kill -s USR1 "$step" 2>/dev/null
  while kill -0 "$step" 2>/dev/null; do
    read -rt "$seconds" -u 8
    (($? > 128)) || break
    ((++looks < 50)) || seconds=0.5
    [[ -z $last_word || ! -e $last_word ]] || leave_behind "$step"
  done
  # A trapped signal interrupts `wait`, which then is asked again: bash keeps the answer.
  while :; do
    interrupted=
    wait "$1"
    status=$?
    [[ -n $interrupted ]] || break
  done
  step=
  return "$status"
}
# srun (22.05) may wait for ever for a step whose end it could not tell a slurmctld that was away.
leave_behind() {
  [[ -n $heard ]] || heard=$SECONDS
  ((SECONDS - heard >= farewell_seconds)) || return
  if [[ -z $left_behind ]]; then
    say "srun has not seen for $farewell_seconds s that the ranks have ended; it is ended"
    left_behind=yes
    kill -s TERM "$1" 2>/dev/null
  elif ((SECONDS - heard >= 2 * farewell_seconds)); then
    kill -s KILL "$1" 2>/dev/null
  fi
}
pause() {
  sleep "$1" &
  await $!
}

find_program() { type -P "$1" || printf '%s' "$1"; }
find_programs() {
  [[ -z $slurm_directory ]] || PATH=$slurm_directory:$PATH
  srun=$(type -P srun) || give_up 21 "no srun in PATH ($PATH); add Slurm's directory in slurm.setup"
  squeue=$(find_program squeue)
  scontrol=$(find_program scontrol)
  sbatch=$(find_program sbatch)
}

# Run by every node: what it sees of the file $1, which the job has just written, and of the trainer
# $2. A network file system may need some seconds.
# shellcheck disable=SC2016 # the nodes' shell expands it
proof='PATH=${PATH:+$PATH:}/usr/local/bin:/usr/bin:/bin
trap "" USR2
tries=0
until [ -r "$1" ] || [ "$tries" -ge 10 ]; do sleep 1; tries=$((tries + 1)); done
nonce=absent
{ read -r nonce < "$1"; } 2>/dev/null || nonce=absent
if command -v sha256sum > /dev/null 2>&1; then
  digest=$(sha256sum < "$2" 2>/dev/null)
else
  digest=$(cksum < "$2" 2>/dev/null)
fi
digest=${digest%% *}
[ -x "$2" ] || digest=absent
printf "regatta-node %s %s %s\n" "${SLURMD_NODENAME:-$(uname -n)}" "$nonce" "${digest:-absent}"'

prove_nodes() {
  local nonce file=$run_directory/submit/$attempt.nonce report=$run_directory/submit/$attempt.nodes
  read -r nonce < /proc/sys/kernel/random/uuid || nonce=$RANDOM-$RANDOM-$RANDOM-$$
  { printf '%s\n' "$nonce" > "$file" && : > "$report"; } ||
    give_up 21 "cannot write to $run_directory/submit on node ${SLURMD_NODENAME:-?}"
  launch "$srun" --mpi=none --nodes="$nodes" --ntasks="$nodes" --ntasks-per-node=1 \
    ${step_options[@]+"${step_options[@]}"} /bin/sh -c "$proof" regatta-proof "$file" "$trainer" \
    > "$report" 2>> "$log" < /dev/null &
  await $!
  local code=$?
  rm -f "$file"
  [[ -z $terminated ]] || give_up 143 "stopped before the trainer was started"
  local mark node seen digest first='' known='' answers=0
  while read -r mark node seen digest; do
    [[ $mark = regatta-node && -n $digest ]] || continue
    answers=$((answers + 1))
    [[ $seen = "$nonce" ]] || give_up 21 "node $node does not see the run directory $run_directory"
    [[ $digest != absent ]] || give_up 21 "node $node cannot read and run $trainer"
    [[ -n $known ]] || { known=$digest first=$node; }
    [[ $digest = "$known" ]] ||
      give_up 21 "node $node has another $trainer than node $first ($digest, not $known)"
  done < "$report"
  if ((answers != nodes)); then
    say "$answers of $nodes nodes answered (srun returned $code)"
    conclude 22
  fi
}

# Seconds of what squeue prints: [days-][hours:]minutes:seconds, or a word where there is no limit.
seconds_of() {
  [[ $1 =~ ^(([0-9]{1,6})-)?(([0-9]{1,6}):)?([0-9]{1,6}):([0-9]{1,6})$ ]] || return 1
  local days=${BASH_REMATCH[2]:-0} hours=${BASH_REMATCH[4]:-0}
  echo $((((10#$days * 24 + 10#$hours) * 60 + 10#${BASH_REMATCH[5]}) * 60 + 10#${BASH_REMATCH[6]}))
}
remaining_seconds() {
  local text
  text=$("$squeue" -h -j "$job" -o %L 2>> "$log") || return 1
  read -r text _ <<< "$text"
  seconds_of "$text"
}

# The run's variables are exported in a subshell right before it becomes the program, so that no
# name can touch this script. As arguments of env they would be in every user's ps for a moment.
launch() {
  ((${#environment[@]} == 0)) || export -- "${environment[@]}"
  exec "$@" 8>&-
}

# Ranks that end in order return 0, and rank 0 leaves what they mean in a file: of ranks that return
# anything else, --kill-on-bad-exit would end the later ones with a signal, and srun return that.
# No rank returns 1: that is srun itself, for instance when slurmctld has just forgotten the job.
verdict_of_step() {
  local code=$1 said=
  [[ ! -e $exit_file ]] || read -r said < "$exit_file"
  rm -f "$exit_file"
  if [[ $said =~ ^[0-9]{1,3}$ && ($said != 0 || -n $left_behind) ]]; then
    code=$said
  elif ((code <= 1)) && [[ $said != 0 ]]; then
    say "the ranks left no exit code; srun ended with $code"
    code=22
  fi
  return "$code"
}

# What the ranks of all nodes stand in; of a node that is gone, nothing. The step asks for no
# memory: the ranks have it all.
dump_stacks() {
  (
    unset -v SLURM_MEM_PER_CPU SLURM_MEM_PER_GPU SLURM_MEM_PER_NODE
    launch timeout -k 2 "$dump_seconds" "$srun" --overlap --mpi=none --nodes="$nodes" \
      --ntasks="$nodes" --ntasks-per-node=1 ${step_options[@]+"${step_options[@]}"} \
      "$trainer" stacks --directory "$run_directory"
  ) >> "$run_directory/submit/$attempt.stacks"
}
# Beside the step: ranks that wait for one that hangs ask for stacks with the file $1, until it is
# gone.
answer_requests() {
  trap '' USR2
  while :; do
    read -rt 1 -u 8
    (($? > 128)) || return
    [[ -e $1 ]] || continue
    dump_stacks
    rm -f "$1"
  done
}

# On a node that went down the PMIx plug-in leaves a socket named by job and step, and a step of
# that name cannot start there again. Numbers begin anew with each start of a job, so some are used
# up.
use_up_steps() {
  local i
  for ((i = 0; i < restarts; i++)); do
    (launch "$srun" --mpi=none --nodes=1 --ntasks=1 true) >> "$log" 2>&1 < /dev/null
  done
}

run_trainer() {
  local exit_file=$run_directory/submit/$attempt.exit request=$run_directory/submit/$attempt.dump
  local ranks=$((nodes * ranks_per_node)) asked remaining
  local -a command=("$trainer" run --directory "$run_directory" --ranks "$ranks")
  use_up_steps
  printf -v asked '%(%s)T' -1
  if remaining=$(remaining_seconds); then
    # A moment, not a time: starting the step may take minutes of it.
    command+=(--deadline-utc $((asked + remaining)))
  fi
  [[ -z $terminated ]] || give_up 143 "stopped before the trainer was started"
  if [[ $("$srun" --mpi=list 2>&1) == *pmix* ]]; then
    rm -f "$exit_file" "$request"
    # Slurm's tree, its own choice for fences without data, lets ranks leave MPI_Init while others
    # are still in it (22.05): those crash at the first message. The ring does not.
    SLURM_PMIX_FENCE=${SLURM_PMIX_FENCE:-ring} REGATTA_EXIT_FILE=$exit_file \
      REGATTA_DUMP_REQUEST=$request launch "$srun" --mpi=pmix --kill-on-bad-exit=1 \
      --nodes="$nodes" --ntasks="$ranks" --ntasks-per-node="$ranks_per_node" \
      ${step_options[@]+"${step_options[@]}"} "${command[@]}" >> "$log" 2>&1 < /dev/null &
    local ranks_step=$! code
    last_word=$exit_file
    answer_requests "$request" > /dev/null 2>> "$log" < /dev/null &
    local answering=$!
    await "$ranks_step"
    code=$?
    last_word=
    { kill "$answering" && wait "$answering"; } 2> /dev/null
    rm -f "$request"
    verdict_of_step "$code"
  elif [[ "${step_options[*]-}" == *--container* ]]; then
    give_up 21 "srun has no pmix plug-in here, and a container needs it"
  else
    say "srun has no pmix plug-in here; the trainer starts its ranks with mpirun"
    launch "${command[@]}" >> "$log" 2>&1 < /dev/null &
    await $!
  fi
}

# Runs a request; while slurmctld cannot be reached, again.
ask() {
  local tries=1 text
  until text=$("$@" 2>&1); do
    say "$(basename "$1") $2: $text"
    case $text in
      *onnect* | *imed\ out* | *ontact* | *ommunicat*) ;;
      *) return 1 ;;
    esac
    ((tries < most_tries)) && [[ -z $terminated ]] || return 1
    tries=$((tries + 1))
    pause "$pause_seconds"
  done
}
preempted() {
  local text
  text=$("$scontrol" show job "$job" 2>/dev/null) || return 1
  [[ $text =~ [[:space:]]PreemptTime=([^[:space:]]+) ]] || return 1
  case ${BASH_REMATCH[1]} in None | N/A | Unknown) return 1 ;; esac
}

# Starts the run again without anybody's help; returns where that is not possible.
requeue_self() {
  [[ $requeue = yes ]] || return 0
  if ((restarts >= most_restarts)); then
    say "restarted $restarts times; Slurm would hold the job at the fifth"
    return 0
  fi
  local before=$terminated
  if ! ask "$scontrol" requeue "$job"; then
    # Slurm ends a requeued job with all its processes, sometimes before the request has returned.
    [[ -z $before && -n $terminated ]] || return 0
  fi
  say "requeued; waiting for Slurm to end this start"
  pause "$rest_seconds"
  finish "$1"
}
# A job that begins when this one has ended, other than with success.
submit_successor() {
  local text
  local -a kept=(PATH="$PATH" HOME="$HOME")
  for name in USER LOGNAME SHELL LANG TZ KRB5CCNAME SLURM_CONF; do
    [[ -z ${!name:-} ]] || kept+=("$name=${!name}")
  done
  if text=$(env -i "${kept[@]}" "$sbatch" "${sbatch_options[@]}" \
    "--dependency=afternotok:$job" "$script" 2>&1); then
    say "successor $text"
  else
    say "sbatch: $text"
  fi
}

# Then it would need as much the next time.
ran_out_of_memory() {
  local told='oom.kill event|exceeded (job |step )?memory limit|: out of memory'
  grep -q -i -E "^(slurmstepd|srun).*($told)|std::bad_alloc" "$log" 2>/dev/null || return 1
  say "it used more memory than it may"
}

# What the step returned decides; what a signal ended is 128 and more.
conclude() {
  local code=$1
  say "step ended with $code"
  case $code in
    0) : > "$ended" || say "cannot write $ended" ;;
    22) ran_out_of_memory || requeue_self 22 ;;
    25)
      requeue_self 25
      submit_successor
      ;;
    *)
      # Preemption: Slurm ends the steps, and leaves a job alone whose script then ends by itself.
      if ((code == 24 || code >= 128)) && [[ -z $terminated ]] && preempted; then
        say "preempted"
        requeue_self "$code"
      fi
      ;;
  esac
  finish "$code"
}

an_earlier_start_ended() {
  local file said
  for file in "$run_directory/submit/$token"-*.exit; do
    said=
    [[ ! -e $file ]] || read -r said < "$file"
    [[ $said != 0 ]] || return 0
  done
  return 1
}

main() {
  trap 'check_verdict $?' EXIT
  trap 'forward USR1' TERM
  trap 'forward USR2' USR2
  exec 8<> <(:)
  job=${SLURM_JOB_ID:-}
  [[ -n $job ]] || give_up 21 "SLURM_JOB_ID is not set; this script is for sbatch"
  nodes=${SLURM_JOB_NUM_NODES:-${SLURM_NNODES:-1}}
  restarts=${SLURM_RESTART_COUNT:-0}
  attempt=$token-$job-$restarts
  log=$run_directory/submit/$attempt.log
  ended=$run_directory/submit/$token.ended
  # A slurmctld that was killed may not know of an end, and starts the job again; perhaps while srun
  # still waits to tell it of the end that rank 0 has left in a file.
  if [[ -e $ended ]] || an_earlier_start_ended; then
    say "job $job has done its work in an earlier start"
    finish 0
  fi
  find_programs
  say "run $run_name, job $job, restart $restarts, $nodes nodes (${SLURM_JOB_NODELIST:-?})"
  mapfile -t exported < <(compgen -e)
  say "exported:" "${exported[@]}" ${environment[@]+"${environment[@]%%=*}"}
  prove_nodes
  run_trainer
  conclude $?
}
# One line, read whole: nothing of this file is needed once main runs.
main; exit
