#!/usr/bin/env bash
# Runs test/cridiff in a guest of its own: the kubelet and podexecd on the guest's containerd 2, with systemd's slices and
# cgroup v2. Usage: hack/vm/cridiff.sh [FLAG...], the flags being those of the test's program, for example
# -test.run=TestInside, or -test.run=TestRandomPods -random.seed=N -random.pods=N. Without flags: all pods with real
# containers, golden pods of nodes with cgroup v2, and some random pods. The first run builds the kubelet, which takes
# many minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."
export GUEST=${GUEST:-cridiff}
share=$PWD/.run/vm/share-$GUEST
stage() { printf 'cridiff: %s (%d s so far)\n' "$1" "$SECONDS"; }
(($#)) || set -- -test.run='^TestInside$|^TestRandomPods$|^TestGoldenPods$/^node=v2' -random.pods=15

hack/build-cluster.sh kubelet
stage "building the daemons and tests"
rm -rf "$share"
src=$share/src/test/cridiff golden=internal/execsvc/pod/criconfig/testdata
mkdir -p "$share/bin" "$src" "$share/src/${golden%/*}"
cp go.mod "$share/src/"
cp -r "$golden" "$share/src/$golden"
ln .tools/kubelet "$share/bin/" 2>/dev/null || cp .tools/kubelet "$share/bin/"
export CGO_ENABLED=0 GOFLAGS="-trimpath -ldflags=-s ${GOFLAGS:-}"
go build -o "$share/bin/" ./cmd/podconfigd ./cmd/podexecd ./internal/simruntime/simruntimed ./test/sample
go test -c -tags=kubelet -o "$share/cridiff.test" ./test/cridiff

trap 'hack/vm/guest.sh down; rm -rf "$share"' EXIT
stage "booting the guest"
unset TMPDIR # User-Mode Linux would look for it in its own root.
hack/vm/guest.sh up "$share"
stage "the comparison"
# User-Mode Linux maps each page of a process by itself, and the machine limits the mappings of a process to 65,530.
flags=$(printf ' %q' -test.v -test.timeout=30m -machine.runtime=unix:///run/containerd/containerd.sock -machine.ip=10.0.2.15 "$@")
hack/vm/guest.sh sh "cd /podstream/src/test/cridiff &&
	GOMEMLIMIT=160MiB CRIDIFF_PROGRAMS=/podstream/bin TMPDIR=/var/tmp /podstream/cridiff.test $flags" </dev/null
stage "passed"
