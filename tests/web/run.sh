#!/bin/sh
# Tests of the page: types, pure parts, the page in a headless Chromium, and, when REGATTA_BINARY
# names a built `regatta`, the page as the controller serves it. Builds web/dist first.
set -u
here=$(cd "$(dirname "$0")" && pwd)
web=$here/../../web
mkdir -p "$here/out"
passed=0
failed=0
skipped=0

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

tap=$here/out/tests.tap
rm -f "$tap"
node --test --test-concurrency=2 \
  --test-reporter=spec --test-reporter-destination=stdout \
  --test-reporter=tap --test-reporter-destination="$tap" "$here"/*.test.mjs
status=$?
figure() {
  value=$(sed -n "s/^# $1 \([0-9]*\)$/\1/p" "$tap" 2>/dev/null | tail -n 1)
  echo "${value:-0}"
}
passed=$((passed + $(figure pass)))
failed=$((failed + $(figure fail) + $(figure cancelled)))
skipped=$((skipped + $(figure skipped)))
# A runner that died before its summary is a failure as well.
if [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then failed=1; fi

# The API's document, as an off-the-shelf generator and a program of its own use it.
if [ -n "${REGATTA_BINARY:-}" ]; then
  if client=$(python3 "$here/client_test.py" "$(dirname "$(dirname "$REGATTA_BINARY")")"); then
    passed=$((passed + 3))
  else
    failed=$((failed + 1))
  fi
  echo "$client"
else
  echo "SKIPPED: client: REGATTA_BINARY does not name a built regatta"
  skipped=$((skipped + 3))
fi

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
