#!/usr/bin/env bash
# Builds the page and the programs of the release preset, and tells how far it is.
set -eu
cd "$(dirname "$0")/.."
echo "the page"
web/build.sh
echo "the programs"
cmake --preset release >build-configure.log 2>&1 || {
  cat build-configure.log >&2
  rm -f build-configure.log
  exit 1
}
rm -f build-configure.log
exec deploy/told_build.py cmake --build --preset release "$@"
