#!/usr/bin/env bash
# Unpacks a packaged Go of 1.21 or later into .tools/go, on Debian: that of Debian 13, or 1.23 of Debian 12's
# backports. Installs nothing, and replaces nothing. Usage: hack/go.sh [OLDER], the path of a go that is too old.
# hack/bin/go calls it.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ -n ${1:-} ]]; then
	echo "go: $1 is $(cd / && "$1" version | awk '{print $3}'), and only go1.21 and later can fetch the version of go.mod" >&2
fi
codename=$(. /etc/os-release 2>/dev/null && echo "${VERSION_CODENAME:-}") || true
case $codename in
bookworm) suite=bookworm-backports packages=(golang-1.23-go golang-1.23-src) ;;
*) suite=trixie packages=(golang-1.24-go golang-1.24-src) ;;
esac
if ! hack/unpack-deb.sh "$suite" .tools/go-root "${packages[@]}"; then
	echo "go: install Go $(sed -n 's/^go //p' go.mod) or later from https://go.dev/dl, or Debian's ${packages[0]} from $suite" >&2
	exit 1
fi
version=${packages[0]#golang-}
ln -sfn "go-root/usr/lib/go-${version%-go}" .tools/go
