#!/usr/bin/env bash
# Tests podconfigd's source api against a real kube-apiserver, on a current etcd and on an old one; it provides them first. Usage:
# hack/test-cluster.sh [FLAG...], the flags being go test's, or -absence=10m for a longer outage than 20 s.
set -euo pipefail
cd "$(dirname "$0")/.."

hack/build-apiserver.sh
hack/old-etcd.sh
tools=$PWD/.tools
cd test/cluster
failed=0
for etcd in etcd old-etcd; do
	go test -count=1 -timeout=30m -v . -etcd="$tools/$etcd" "$@" || failed=1
done
exit $failed
