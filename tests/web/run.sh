#!/bin/sh
# Tests of the page: types, pure parts, the page in a headless Chromium, and, when REGATTA_BINARY
# names a built `regatta`, the page as the controller serves it. Builds web/dist first.
# With --again only what failed in the run before: its figures are of these alone.
set -u
here=$(cd "$(dirname "$0")" && pwd)
web=$here/../../web
mkdir -p "$here/out"
passed=0
failed=0
skipped=0

tap=$here/out/tests.tap
client=$here/out/client.failed
again=
# Where a run died before its summary, all of it is to be run again.
if [ "${1:-}" = --again ] && grep -q '^# fail ' "$tap"; then
  again=$here/out/again.txt
  # Their names, as expressions that match nothing else.
  sed -n 's/^not ok [0-9]* - \(.*\)$/\1/p' "$tap" | sed 's/\\#/#/g; s/[][\.*^$+?(){}|/]/\\&/g; s/.*/^&$/' >"$again"
fi

if "$web/build.sh"; then
  passed=$((passed + 1))
else
  echo "web: the page does not build" >&2
  echo "0 passed, 1 failed, 0 skipped"
  exit 1
fi
if (cd "$web" && node_modules/.bin/tsc --noEmit); then
  passed=$((passed + 1))
else
  echo "web: the type check failed" >&2
  failed=$((failed + 1))
fi

set --
wanted=0
if [ -n "$again" ]; then
  passed=0
  while IFS= read -r pattern; do
    set -- "$@" "--test-name-pattern=$pattern"
    wanted=$((wanted + 1))
  done <"$again"
fi
status=0
if [ -z "$again" ] || [ "$wanted" -gt 0 ]; then
  rm -f "$tap"
  node --test --test-concurrency=2 "$@" \
    --test-reporter=spec --test-reporter-destination=stdout \
    --test-reporter=tap --test-reporter-destination="$tap" "$here"/*.test.mjs
  status=$?
fi
figure() {
  value=$(sed -n "s/^# $1 \([0-9]*\)$/\1/p" "$tap" 2>/dev/null | tail -n 1)
  echo "${value:-0}"
}
if [ -z "$again" ] || [ "$wanted" -gt 0 ]; then
  tried=$(($(figure pass) + $(figure fail) + $(figure cancelled)))
  passed=$((passed + $(figure pass)))
  failed=$((failed + $(figure fail) + $(figure cancelled)))
  # What was not found again has not passed.
  if [ "$wanted" -gt "$tried" ]; then failed=$((failed + wanted - tried)); fi
  # Those that the patterns leave out are called skipped.
  if [ -z "$again" ]; then skipped=$((skipped + $(figure skipped))); fi
fi
# A runner that died before its summary is a failure as well.
if [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then failed=1; fi

# The API's document, as an off-the-shelf generator and a program of its own use it.
if [ -n "$again" ] && [ ! -e "$client" ]; then
  : # it had passed
elif [ -n "${REGATTA_BINARY:-}" ]; then
  rm -f "$client"
  if told=$(python3 "$here/client_test.py" "$(dirname "$(dirname "$REGATTA_BINARY")")"); then
    passed=$((passed + 3))
  else
    failed=$((failed + 1))
    touch "$client"
  fi
  echo "$told"
else
  echo "SKIPPED: client: REGATTA_BINARY does not name a built regatta"
  skipped=$((skipped + 3))
fi

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
