#!/usr/bin/env bash
# Unpacks the etcd of Debian's package into .tools/old-etcd: an API server on it can't serve a WatchList, so
# test/cluster uses it for that case. The package isn't installed, because that would start etcd as a service, now and
# at each boot.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ -x .tools/old-etcd ]]; then
	exit 0
fi
if ! command -v apt-get >/dev/null; then
	echo "old-etcd: this is neither Debian nor Ubuntu: put an etcd older than 3.4.31 into .tools/old-etcd" >&2
	exit 1
fi

echo "old-etcd: unpacking Debian's etcd-server"
mkdir -p .tools
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
# The package lists may be missing or old: retry once with new ones, which requires root.
if ! apt-get download etcd-server >log 2>&1 && ! { apt-get update --quiet && apt-get download etcd-server; } >log 2>&1; then
	cat log >&2
	echo "old-etcd: apt-get failed" >&2
	exit 1
fi
dpkg-deb --extract etcd-server_*.deb .
cd "$OLDPWD"
mv "$dir/usr/bin/etcd" .tools/old-etcd
