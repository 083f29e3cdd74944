#!/bin/sh
# Builds the page into web/dist. Installs the locked packages first when they are missing or older
# than the lockfile; with them in place it needs no network.
set -eu
cd "$(dirname "$0")"

if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
  echo "web/build.sh: node and npm (18 or newer) are needed: apt-get install nodejs npm" >&2
  exit 1
fi
# npm ci empties node_modules, so an own stamp says which lockfile it was filled from.
stamp=node_modules/.regatta-lock
if ! cmp -s package-lock.json "$stamp"; then
  npm ci --no-audit --no-fund --ignore-scripts --no-progress --no-update-notifier
  cp package-lock.json "$stamp"
fi
exec node build.mjs
