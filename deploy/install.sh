#!/usr/bin/env bash
# Installs the system packages that are missing and says which; with everything present it needs
# neither network nor root.
#   deploy/install.sh         what building and running need
#   deploy/install.sh test    and what tests/run.sh needs
#   deploy/install.sh all     and what tests/run.sh --all needs
set -eu

packages=(g++ cmake ninja-build ccache pkg-config python3 libopenmpi-dev openmpi-bin
  libcurl4-openssl-dev libcpp-httplib-dev nlohmann-json3-dev libspdlog-dev libgtest-dev libgmock-dev
  libsqlite3-dev libdnnl-dev libcli11-dev libyaml-cpp-dev libpugixml-dev libxxhash-dev libzstd-dev
  libsnappy-dev libre2-dev zlib1g-dev perl-doc)
tested=(chromium elfutils python3-jsonschema zsh fish groff-base libboost-context-dev git clang-format-14 clang-tidy-14 shellcheck)
what=${1:-run}
case "$what" in
  run) ;;
  test) packages+=("${tested[@]}") ;;
  all) packages+=("${tested[@]}" clang libclang-rt-14-dev) ;;
  *)
    echo "deploy/install.sh: unknown word '$what'; use run, test or all" >&2
    exit 2
    ;;
esac
command -v node >/dev/null && command -v npm >/dev/null || packages+=(nodejs npm)

if ! command -v dpkg-query >/dev/null; then
  echo "deploy/install.sh: this is not a Debian or Ubuntu machine; install these yourself: ${packages[*]}" >&2
  exit 1
fi

# A package whose name differs between releases counts as present if any of its names is installed.
installed() { dpkg-query -W -f '${Status}\n' "$@" 2>/dev/null | grep -q '^install ok installed$'; }
missing=()
for package in "${packages[@]}"; do
  case "$package" in
    g++ | cmake | git | python3 | pkg-config | shellcheck)
      command -v "$package" >/dev/null || missing+=("$package")
      ;;
    chromium)
      command -v chromium >/dev/null || command -v chromium-browser >/dev/null || missing+=(chromium)
      ;;
    clang) command -v clang++ >/dev/null || missing+=(clang) ;;
    libclang-rt-14-dev)  # the sanitizer runtime of the clang that is there
      version=$(clang++ -dumpversion 2>/dev/null | cut -d. -f1)
      version=${version:-14}
      installed "libclang-rt-$version-dev" || missing+=("libclang-rt-$version-dev")
      ;;
    *) installed "$package" || missing+=("$package") ;;
  esac
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "deploy/install.sh: needs root to install ${missing[*]}; install them, or sudo, and run again" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "installing with apt-get: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for attempt in 1 2 3; do
  if { "${as_root[@]}" apt-get update && "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 </dev/null; then
    exit 0
  fi
  echo "apt-get failed (try $attempt of 3)" >&2
  sleep $((attempt * 5))
done
tail -n 20 "$log" >&2
echo "deploy/install.sh: apt-get could not install the packages named above; see its last lines" >&2
exit 1
