# shellcheck shell=bash
# For bench scripts to source: npm's `tokenizers` beside which they measure.
version=0.23.2

need_files() { # target file…
  local target=$1 file
  shift
  for file in "$@"; do
    if [ ! -e "$file" ]; then
      echo "$file is not there; name an existing one, or build the target $target" >&2
      exit 1
    fi
  done
}

install_peer() { # directory
  local peer=$1
  if grep -qs "\"version\": \"$version\"" "$peer/node_modules/tokenizers/package.json"; then
    return
  fi
  mkdir -p "$peer"
  printf '{"private": true, "dependencies": {"tokenizers": "%s"}}\n' "$version" >"$peer/package.json"
  npm --prefix "$peer" install --no-audit --no-fund --loglevel=error >&2
}
