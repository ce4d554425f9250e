#!/usr/bin/env bash
# Tests both daemons with kubeadm: a cluster of two nodes, in namespaces of this machine. It builds Kubernetes' programs, etcd and CoreDNS
# first, which takes many minutes the first time. Usage: hack/test-kubeadm.sh [FLAG...], the flags being go test's. AGENT=kubelet runs the
# nodes with the kubelet itself. Needs root.
set -euo pipefail
cd "$(dirname "$0")/.."

if ((EUID != 0)); then
	echo "test-kubeadm: needs root, for namespaces" >&2
	exit 1
fi
hack/deps.sh
hack/deps.sh containerd-2
programs=(kubeadm kubectl kube-apiserver kube-controller-manager kube-scheduler kube-proxy etcd coredns)
[[ ${AGENT:-} != kubelet ]] || programs+=(kubelet)
hack/build-cluster.sh "${programs[@]}"
make --no-print-directory build
CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o bin/ ./test/sample

# What the kernel keeps when the test's process is killed: the nodes' files, and their cgroups.
PODSTREAM_KUBEADM_DIR=$(mktemp -d /tmp/podstream-kubeadm.XXXXXX)
export PODSTREAM_KUBEADM_DIR
clean() {
	local cgroup
	for cgroup in /sys/fs/cgroup/*/"$(basename "$PODSTREAM_KUBEADM_DIR")"-*; do
		[[ ! -d $cgroup ]] || find "$cgroup" -depth -type d -exec rmdir {} +
	done
	rm -rf "$PODSTREAM_KUBEADM_DIR"
}
trap clean EXIT
cd test/cluster
go test -count=1 -timeout=40m -v ./kubeadm "$@"
