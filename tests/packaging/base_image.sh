#!/usr/bin/env bash
# Makes a stand-in for Docker's image python:3.14-slim, where it cannot be pulled: Debian unstable, whose
# Python is 3.14, with the package index and the certificates that this machine uses. Needs root, a Docker
# engine and debootstrap, and takes 40 seconds.
set -euo pipefail
version=3.14
image=python:$version-slim

docker image inspect "$image" >/dev/null 2>&1 && exit
docker pull --quiet "$image" 2>/dev/null && exit
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
debootstrap --variant=minbase --include="ca-certificates,python$version-venv" sid "$root" >/dev/null
ln -s "/usr/bin/python$version" "$root/usr/local/bin/python"
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
[[ ! -e /etc/pip.conf ]] || cp -L /etc/pip.conf "$root/etc/"
tar --directory "$root" --create . | docker import - "$image"
