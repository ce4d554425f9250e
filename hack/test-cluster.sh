#!/usr/bin/env bash
# Tests against a real Kubernetes, which it builds first: podconfigd's source api, on a current etcd and on an old one, and a node in a whole
# cluster, on containerd 1.7 and 2. Usage: hack/test-cluster.sh [FLAG...], the flags being go test's; -short leaves out what takes ten minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

hack/build-cluster.sh
hack/old-etcd.sh
hack/deps.sh
hack/deps.sh containerd-1.7
hack/deps.sh containerd-2
tools=$PWD/.tools
cd test/cluster
failed=0
for etcd in etcd old-etcd; do
	go test -count=1 -timeout=30m -v . -etcd="$tools/$etcd" "$@" || failed=1
done
for version in 1.7 2; do
	go test -count=1 -timeout=60m -v ./usage -containerd="$version" "$@" || failed=1
done
exit $failed
