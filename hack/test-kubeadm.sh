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
programs=(kubeadm kubectl kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet etcd coredns)
hack/build-cluster.sh "${programs[@]}"
make --no-print-directory build
CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o bin/ ./test/sample

# What the kernel keeps when the test's process is killed: the nodes' files, and their cgroups.
PODSTREAM_KUBEADM_DIR=$(mktemp -d /tmp/podstream-kubeadm.XXXXXX)
export PODSTREAM_KUBEADM_DIR
# The agents set the machine's own settings, as on any node.
settings=(vm.overcommit_memory vm.panic_on_oom kernel.panic kernel.panic_on_oops kernel.keys.root_maxkeys kernel.keys.root_maxbytes)
declare -A before
for name in "${settings[@]}"; do before[$name]=$(<"/proc/sys/${name//.//}"); done
clean() {
	set +e
	local cgroup name
	for name in "${settings[@]}"; do echo "${before[$name]}" >"/proc/sys/${name//.//}"; done
	for cgroup in /sys/fs/cgroup/*/"$(basename "$PODSTREAM_KUBEADM_DIR")"-*; do
		# The processes of a node that was killed end soon.
		for _ in {1..50}; do
			[[ -d $cgroup ]] || break
			find "$cgroup" -depth -type d -exec rmdir {} + 2>/dev/null
			[[ ! -d $cgroup ]] || sleep 0.2
		done
	done
	rm -rf "$PODSTREAM_KUBEADM_DIR"
}
trap clean EXIT
cd test/cluster
go test -count=1 -timeout=40m -v ./kubeadm "$@"
