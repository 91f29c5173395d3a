#!/usr/bin/env bash
# Installs the servers that foldlog is compared with, where they are missing and root on Debian can.
# What cannot be had is left out of the comparison, which says so; nothing here makes it fail.
set -euo pipefail

wanted=()
if [[ -z ${FOLDLOG_BENCH_POSTGRES:-} ]] && ! compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null &&
  ! command -v postgres >/dev/null; then
  wanted+=(postgresql)
fi
if [[ -z ${FOLDLOG_BENCH_REDIS:-} ]] && ! command -v redis-server >/dev/null; then
  wanted+=(redis-server)
fi
[[ ${#wanted[@]} -gt 0 ]] || exit 0
if [[ $(id -u) != 0 || ! -e /etc/debian_version ]]; then
  echo "Not installed here, and so not compared: ${wanted[*]}"
  exit 0
fi

echo "Installing ${wanted[*]}"
export DEBIAN_FRONTEND=noninteractive
export RUNLEVEL=1 # the packages then start no service of their own
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for package in "${wanted[@]}"; do
  {
    timeout 300 apt-get -qq update &&
      timeout 600 apt-get -qq install --yes --no-install-recommends "$package"
  } >"$log" 2>&1 || {
    echo "$package could not be installed:"
    tail -n 5 "$log"
  }
done
