#!/usr/bin/env bash
# Builds the page and the programs of the release preset.
set -eu
cd "$(dirname "$0")/.."
web/build.sh
cmake --preset release >build-configure.log 2>&1 || {
  cat build-configure.log >&2
  rm -f build-configure.log
  exit 1
}
rm -f build-configure.log
cmake --build --preset release "$@"
