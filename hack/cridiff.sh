#!/usr/bin/env bash
# Compares the requests that the kubelet and podexecd send to the runtime for the same pods, and what the pods' processes find. Usage:
# hack/cridiff.sh [FLAG...], the flags being go test's and -random.seed=N, -random.pods=N. Needs root. The first run builds the kubelet,
# kube-apiserver and etcd, which takes many minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

hack/build-cluster.sh kubelet kube-apiserver etcd
hack/deps.sh
hack/deps.sh containerd-2
programs=$(mktemp -d)
trap 'rm -rf "$programs"' EXIT
go build -o "$programs/" ./cmd/podconfigd ./cmd/podexecd ./internal/simruntime/simruntimed
CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o "$programs/" ./test/sample
ln -s "$PWD"/.tools/{kubelet,kube-apiserver,etcd} "$programs/"
CRIDIFF_PROGRAMS=$programs go test -count=1 -timeout=30m -tags=kubelet -v ./test/cridiff "$@"
