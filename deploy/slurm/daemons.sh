# The daemons beside the nodes. Each start_ function returns when the daemon answers. Sourced by
# cluster.sh.
# shellcheck shell=bash disable=SC2154

start_munged() {
  spawn munged munged --foreground --key-file="$directory/munge.key" \
    --socket="$directory/run/munge.sock" --pid-file="$directory/run/munged.pid" \
    --log-file="$directory/log/munged.log" --seed-file="$directory/run/munge.seed"
  wait_for munged timeout 5 munge -S "$directory/run/munge.sock" -n
}

# MariaDB listens on a socket in a directory that only its user enters, so root needs no password.
start_mariadbd() {
  local data=$directory/mysql
  if [ ! -d "$data" ]; then
    mkdir -m 700 "$data"
    timeout -k 5 "$patience" mariadb-install-db --no-defaults --user="$user" \
      --datadir="$data" --tmpdir="$data" --innodb-log-file-size=10M --skip-test-db \
      --auth-root-authentication-method=normal \
      >"$directory/log/mariadb-install.out" 2>&1 </dev/null 8>&- 9>&- ||
      fail_with_log mariadb-install "mariadb-install-db failed"
    check_interrupted
  fi
  spawn mariadbd mariadbd --no-defaults --user="$user" --datadir="$data" --tmpdir="$data" \
    --socket="$data/mysql.sock" --pid-file="$data/mysql.pid" --skip-networking \
    --performance-schema=OFF --innodb-buffer-pool-size=32M --innodb-log-file-size=10M \
    --innodb-flush-log-at-trx-commit=2 --innodb-lock-wait-timeout=900
  wait_for mariadbd timeout 5 mariadb-admin --no-defaults -u root -S "$data/mysql.sock" ping
}

# slurmdbd reaches a MariaDB without network through MYSQL_UNIX_PORT and StorageHost=localhost.
start_slurmdbd() {
  spawn slurmdbd env "MYSQL_UNIX_PORT=$directory/mysql/mysql.sock" slurmdbd -D
  wait_for slurmdbd timeout 5 sacctmgr -n show cluster
}

controller_answers() { timeout 5 scontrol ping 2>/dev/null | grep -q 'UP$'; }

start_slurmctld() {
  spawn slurmctld slurmctld -D
  wait_for slurmctld controller_answers
}

# slurmrestd refuses to run as root; nobody is as good.
as_rest_user() {
  if [ "$(id -u)" -eq 0 ]; then
    setpriv --reuid=nobody --regid="$(id -g nobody)" --clear-groups -- "$@"
  else
    "$@"
  fi
}

# The newest interface that is there: v0.0.38 in Slurm 22.05.
find_rest_api() {
  rest_api=$(as_rest_user timeout 10 slurmrestd -s list 2>&1 |
    sed -n 's|.*openapi/\(v0\.0\.[0-9]*\).*|\1|p' | sort -V | tail -n 1)
  [ -n "$rest_api" ] || fail "slurmrestd offers no openapi/v0.0.N; use --no-rest"
}

rest_answers() { timeout 5 curl -sf -o /dev/null "$@"; }

rest_tcp_answers() {
  local token
  token=$(timeout 5 scontrol token lifespan=60) || return 1
  rest_answers -H "X-SLURM-USER-NAME: $user" -H "X-SLURM-USER-TOKEN: ${token#SLURM_JWT=}" \
    "http://127.0.0.1:$((port + 2))/slurm/$rest_api/ping"
}

# Two of them: with SLURM_JWT in the environment tokens work and the socket's authentication does
# not; without it, the other way round.
start_slurmrestd_local() {
  rm -f "$directory/rest/slurmrestd.sock"
  spawn_rest slurmrestd-local rest_auth/local "unix:$directory/rest/slurmrestd.sock"
  wait_for slurmrestd-local rest_answers --unix-socket "$directory/rest/slurmrestd.sock" \
    http://localhost/openapi/v3
}

start_slurmrestd_jwt() {
  SLURM_JWT=daemon spawn_rest slurmrestd-jwt rest_auth/jwt "127.0.0.1:$((port + 2))"
  wait_for slurmrestd-jwt rest_tcp_answers
}

spawn_rest() {  # NAME AUTHENTICATION ADDRESS
  local plugins=openapi/$rest_api
  local -a become=()
  [ "$accounting" = no ] || plugins+=,openapi/db$rest_api
  [ "$(id -u)" -ne 0 ] ||
    become=(setpriv --reuid=nobody "--regid=$(id -g nobody)" --clear-groups --)
  spawn "$1" "${become[@]}" slurmrestd -s "$plugins" -a "$2" "$3"
}
