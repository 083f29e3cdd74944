#!/usr/bin/env bash
# Installs what is missing, builds, runs the tests. `tests/run.sh --help` tells the stages.
set -eu
cd "$(dirname "$0")/.."
command -v python3 >/dev/null || deploy/install.sh test
exec python3 tests/run.py "$@"
