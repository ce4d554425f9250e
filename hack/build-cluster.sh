#!/usr/bin/env bash
# Builds the programs that test/cluster runs into .tools/, a cluster's control plane with its etcd and kubectl, in the versions that
# test/cluster/programs/go.mod pins. They are built again only after that file, its go.sum or the Go version changed. The first time
# this compiles some 3,000 packages, which takes many minutes on two cores. Usage: hack/build-cluster.sh [NAME...], of etcd,
# coredns, crictl and programs of k8s.io/kubernetes, such as kubelet; default: all that a cluster needs.
set -euo pipefail
cd "$(dirname "$0")/.."

bin=$PWD/.tools
module=test/cluster/programs
mkdir -p "$bin"
export GOFLAGS="${GOFLAGS:-} -mod=readonly" CGO_ENABLED=0

# build NAME MODULE PACKAGE [LDFLAG...]
build() {
	local name=$1 module=$2 package=$3 stamp=$bin/$1.stamp want
	shift 3
	want=$(cat "$module/go.mod" "$module/go.sum" <(go env GOVERSION) | sha256sum)
	if [[ -x $bin/$name && -f $stamp && $(<"$stamp") == "$want" ]]; then
		return
	fi
	echo "build-cluster: building $name"
	go -C "$module" build -trimpath -ldflags="-s -w $*" -o "$bin/$name.new" "$package"
	mv "$bin/$name.new" "$bin/$name"
	echo "$want" >"$stamp"
}

# Without the flag, Kubernetes' programs have no version.
version=$(go -C "$module" list -m -f '{{.Version}}' k8s.io/kubernetes)
names=(kube-apiserver kube-controller-manager kube-scheduler kubectl etcd)
[[ $# == 0 ]] || names=("$@")
for name in "${names[@]}"; do
	case $name in
	etcd) build etcd "$module" go.etcd.io/etcd/server/v3 ;;
	coredns) build coredns "$module/coredns" . ;;
	crictl) build crictl "$module/crictl" sigs.k8s.io/cri-tools/cmd/crictl ;;
	*) build "$name" "$module" "k8s.io/kubernetes/cmd/$name" -X "k8s.io/component-base/version.gitVersion=$version" ;;
	esac
done
