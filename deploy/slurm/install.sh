#!/usr/bin/env bash
# Installs the Debian packages that cluster.sh needs, without letting any of their services start.
#   deploy/slurm/install.sh            installs what is missing and says which
#   deploy/slurm/install.sh --check    only tells: exit code 1 when something is missing
# With everything present it needs neither network nor root.
set -eu

packages=(munge slurmctld slurmd slurm-client slurm-wlm-basic-plugins slurmrestd
  slurm-wlm-jwt-plugin slurmdbd slurm-wlm-mysql-plugin mariadb-server libopenmpi-dev openmpi-bin
  curl)
policy=/usr/sbin/policy-rc.d
set_aside=$policy.before-regatta

fail() {
  echo "deploy/slurm/install.sh: $1" >&2
  exit "${2:-1}"
}

check=no
case "${1:-}" in
  '') ;;
  --check) check=yes ;;
  --help | -h) sed -n '2,5s/^# \{0,1\}//p' "$0" && exit 0 ;;
  *) fail "unknown word '$1'; use --check or nothing" 2 ;;
esac
command -v dpkg-query >/dev/null ||
  fail "this is not a Debian or Ubuntu machine; install these yourself: ${packages[*]}"
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}\n' "$package" 2>/dev/null | grep -q '^install ok installed$' ||
    missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0
[ "$check" = no ] || fail "missing: ${missing[*]}"
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null ||
    fail "needs root to install ${missing[*]}; install them, or sudo, and run again"
  exec sudo -- "$(realpath -- "$0")"
fi

# One at a time: a second one would take the first one's policy for the machine's own.
exec 9>/run/lock/regatta-slurm-install.lock
flock -w 600 9 || fail "another install.sh has been at work for ten minutes; try again after it"

# While the packages are set up, policy-rc.d answers 101, "do not start services"; afterwards the
# machine's own one, or none, is back. One that was set aside by a killed run comes back as well.
ours=no
restore_policy() {
  if [ -e "$set_aside" ] || [ -L "$set_aside" ]; then
    mv -f -- "$set_aside" "$policy"
  elif [ "$ours" = yes ] || grep -qs regatta-slurm-install "$policy"; then
    rm -f -- "$policy"
  fi
}
log=$(mktemp)
trap 'restore_policy; rm -f "$log"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
restore_policy
if [ -e "$policy" ] || [ -L "$policy" ]; then mv -- "$policy" "$set_aside"; fi
ours=yes
printf '#!/bin/sh\n# regatta-slurm-install: temporary\nexit 101\n' >"$policy"
chmod 755 "$policy"

echo "installing with apt-get: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
for attempt in 1 2 3; do
  # The lock is not handed on: what apt-get leaves running must not hold it.
  if { apt-get update && apt-get install -y --no-install-recommends "${missing[@]}"; } \
    >"$log" 2>&1 </dev/null 9>&-; then
    exit 0
  fi
  echo "apt-get failed (try $attempt of 3)" >&2
  [ "$attempt" = 3 ] || sleep $((attempt * 5))
done
tail -n 20 "$log" >&2
fail "apt-get could not install the packages named above; see its last lines"
