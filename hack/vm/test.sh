#!/usr/bin/env bash
# Runs Podstream's tests in the guest, on its containerd 2, systemd and cgroup v2. Usage: hack/vm/test.sh [short]
# The test programs are built outside. With "short" it runs only what differs most from a machine with cgroup v1.
set -euo pipefail
cd "$(dirname "$0")/../.."
share=$PWD/.run/vm/share
stage() { printf 'vm: %s (%d s so far)\n' "$1" "$SECONDS"; }

# The packages that look at the machine: its cgroups, mounts, disks and processes.
units=(
	internal/doctor internal/openfile internal/sources/file
	internal/execsvc/machine/nodeinfo internal/execsvc/machine/nodefs
	internal/execsvc/reclaim/{diskusage,localstorage,eviction}
	internal/execsvc/serve/stats internal/execsvc/serve/stats/kernel
	internal/execsvc/setup/{cgroup,volume,volume/subpath,userns,podsetup}
)
# What of the tests with containers runs: package, and go test's -run. The guest has one containerd.
ends=("test/world:." "test/lifecycle:.")
[[ ${1:-} != short ]] || ends=("test/world:Resources|Identity|Volumes" "test/lifecycle:Restart|Evict|Probe")

stage "building the test programs"
rm -rf "$share"
mkdir -p "$share"/{bin,tests,src}
cp go.mod "$share/src/"
export CGO_ENABLED=0 GOFLAGS="-trimpath -ldflags=-s ${GOFLAGS:-}"
go build -o "$share/bin/" ./cmd/podconfigd ./cmd/podexecd ./cmd/podctl ./internal/simruntime/simruntimed ./test/injectd ./test/sample \
	./test/world/guest
for package in "${units[@]}" "${ends[@]%%:*}"; do
	mkdir -p "$share/src/$package"
	[[ ! -d $package/testdata ]] || cp -r "$package/testdata" "$share/src/$package/"
	go test -c -o "$share/tests/${package//\//-}.test" "./$package"
done

trap 'hack/vm/guest.sh down; rm -rf "$share"' EXIT
stage "booting the guest"
hack/vm/guest.sh up "$share"

failed=()
run() { # PACKAGE FLAG...: runs a package's tests in its directory
	local package=$1
	shift
	stage "$package"
	hack/vm/guest.sh sh "cd /podstream/src/$package && PODSTREAM_BIN_DIR=/podstream/bin PODSTREAM_REQUIRE_RUNTIME=1 TMPDIR=/var/tmp \
		/podstream/tests/${package//\//-}.test -test.timeout=20m $*" || failed+=("$package")
}
for package in "${units[@]}"; do
	run "$package"
done
for row in "${ends[@]}"; do
	run "${row%%:*}" -test.run="'${row#*:}'" "-test.skip='/containerd-1.7\$'"
done
[[ ${1:-} == short ]] || hack/vm/systemd.sh || failed+=(test/systemd)
if ((${#failed[@]})); then
	echo "vm: failed in the guest: ${failed[*]}" >&2
	exit 1
fi
stage "all passed in the guest"
