#!/usr/bin/env bash
# Tests against a real Kubernetes, which it builds first: podconfigd's source api, on a current etcd and on an old one, and a node in a whole
# cluster, on containerd 1.7 and 2. Usage: hack/test-cluster.sh [FLAG...], the flags being go test's; -short leaves out what takes ten minutes.
# CONTAINERD=2 or CONTAINERD=1.7 runs only the tests of a node, on that version.
set -euo pipefail
cd "$(dirname "$0")/.."

hack/build-cluster.sh kube-apiserver kube-controller-manager kube-scheduler kubectl etcd kubelet
hack/deps.sh
read -ra versions <<<"${CONTAINERD:-1.7 2}"
for version in "${versions[@]}"; do
	hack/deps.sh "containerd-$version"
done
etcds=()
if [[ -z ${CONTAINERD:-} ]]; then
	hack/old-etcd.sh
	etcds=(etcd old-etcd)
fi
tools=$PWD/.tools
cd test/cluster
failed=0
go test -count=1 ./conformance/results || failed=1
go test -count=1 -v ./flags || failed=1
for etcd in "${etcds[@]}"; do
	go test -count=1 -timeout=30m -v . -etcd="$tools/$etcd" "$@" || failed=1
done
for version in "${versions[@]}"; do
	go test -count=1 -timeout=60m -v ./usage -containerd="$version" "$@" || failed=1
done
exit $failed
