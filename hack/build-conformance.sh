#!/usr/bin/env bash
# Builds what test/cluster/conformance runs besides a cluster into .tools/: Kubernetes' tests of a node as two programs, the ginkgo command
# that runs them in parallel, and the programs of their images, all in the versions that test/cluster/programs/go.mod pins. They are built again
# only after that file, its go.sum, the program's source or the Go version changed. With the argument storage it builds the sidecars of
# CSI drivers too, in the versions of test/cluster/programs/sidecars/go.mod. Installs curl, nc, busybox-static and
# bash-static, which the images have too, on Debian and Ubuntu as root.
set -euo pipefail
cd "$(dirname "$0")/.."

bin=$PWD/.tools
module=test/cluster/programs
mkdir -p "$bin"
export GOFLAGS="${GOFLAGS:-} -mod=readonly" CGO_ENABLED=0
want=$(cat "$module"/go.{mod,sum} "$module"/{conformance,mockplugin,registrar}/*.go <(go env GOVERSION) | sha256sum)

# build NAME COMMAND...: COMMAND is the go command that builds it.
build() {
	local name=$1 stamp=$bin/$1.stamp
	shift
	if [[ -x $bin/$name && -f $stamp && $(<"$stamp") == "$want" ]]; then
		return
	fi
	echo "build-conformance: building $name"
	go -C "$module" "${@:1:$#-1}" -trimpath -ldflags="-s -w" -o "$bin/$name.new" "${@: -1}"
	mv "$bin/$name.new" "$bin/$name"
	echo "$want" >"$stamp"
}

build conformance.test test -c ./conformance
build e2e_node.test test -c k8s.io/kubernetes/test/e2e_node
build ginkgo build github.com/onsi/ginkgo/v2/ginkgo
for name in agnhost nonewprivs; do
	build $name build k8s.io/kubernetes/test/images/$name
done
if [[ ${1:-} == storage ]]; then
	build hostpathplugin build ./mockplugin
	build csi-node-driver-registrar build ./registrar
	module+=/sidecars
	want=$(cat "$module"/go.{mod,sum} <(go env GOVERSION) | sha256sum)
	for package in external-attacher/v4 external-provisioner/v6 external-resizer/v2; do
		name=csi-${package#external-}
		build "${name%/*}" build "github.com/kubernetes-csi/$package/cmd/${name%/*}"
	done
fi

packages=()
[[ -x /usr/bin/curl ]] || packages+=(curl)
[[ -x /bin/busybox ]] && ! ldd /bin/busybox >/dev/null 2>&1 || packages+=(busybox-static)
[[ -x /bin/nc.openbsd ]] || packages+=(netcat-openbsd)
[[ -x /bin/bash-static ]] || packages+=(bash-static)
if [[ ${#packages[@]} -gt 0 ]]; then
	if ! command -v apt-get >/dev/null || [[ $EUID -ne 0 ]]; then
		echo "build-conformance: missing, by the names of Debian's packages: ${packages[*]}" >&2
		exit 1
	fi
	echo "build-conformance: installing ${packages[*]}"
	export DEBIAN_FRONTEND=noninteractive
	install=(apt-get install --yes --quiet --no-install-recommends "${packages[@]}")
	"${install[@]}" >/dev/null 2>&1 || { apt-get update --quiet >/dev/null && "${install[@]}" >/dev/null; }
fi
