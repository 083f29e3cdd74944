#!/usr/bin/env bash
# Tests and measures on a machine with an NVIDIA GPU.
#   tests/gpu.sh --pack            here, with the CUDA Toolkit: builds and bundles into .gpu/
#   tests/gpu.sh first             there, with .gpu/, before anything else: 9 minutes
#   tests/gpu.sh [STAGE…]          there: tests kernels step ablation peer sanitizer interop
#   tests/gpu.sh --check           anywhere: tests this harness itself
# `tests/gpu.sh --help` tells the options; tests/gpu/README.md what each stage measures.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
export PYTHONDONTWRITEBYTECODE=1
case "${1:-}" in
  --pack) shift; exec python3 "$here/gpu/pack.py" "$@" ;;
  --check) shift; exec python3 "$here/gpu/check.py" "$@" ;;
  *) exec python3 "$here/gpu/stages.py" "$@" ;;
esac
