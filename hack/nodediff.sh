#!/usr/bin/env bash
# Compares what the kubelet and podexecd make of a node with the same configuration: invalid values here, and the rest in a
# guest of its own: cgroups, the Node object, events, refusals to start. Usage: hack/nodediff.sh [FLAG...], the flags being
# those of the test's program in the guest, for example -test.run=TestNode/defaults. Needs root. With KERNEL=qemu it plays
# the cases that User-Mode Linux can't, which takes half an hour. The first run builds the kubelet, kube-apiserver and etcd,
# which takes many minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
export GUEST=${GUEST:-nodediff} KERNEL=${KERNEL:-uml}
share=$PWD/.run/vm/share-$GUEST
stage() { printf 'nodediff: %s (%d s so far)\n' "$1" "$SECONDS"; }
run=TestNode
[[ $KERNEL == uml ]] || run=TestReserved

hack/build-cluster.sh kubelet kube-apiserver etcd
stage "building the daemons and tests"
rm -rf "$share"
mkdir -p "$share/bin"
trap 'rm -rf "$share"' EXIT
for program in kubelet kube-apiserver etcd; do
	ln ".tools/$program" "$share/bin/" 2>/dev/null || cp ".tools/$program" "$share/bin/"
done
export CGO_ENABLED=0 GOFLAGS="-trimpath -ldflags=-s ${GOFLAGS:-}"
go build -o "$share/bin/" ./cmd/podconfigd ./cmd/podexecd ./test/sample
go test -c -tags=kubelet -o "$share/nodediff.test" ./test/nodediff

if (($# == 0)); then
	stage "invalid values"
	"$share/nodediff.test" -test.v -test.run=TestValues -programs="$share/bin"
	set -- -test.run="^$run\$"
fi
trap 'hack/vm/guest.sh down; rm -rf "$share"' EXIT
stage "booting the guest"
unset TMPDIR # User-Mode Linux would look for it in its own root.
hack/vm/guest.sh up "$share"
# The kubelet refuses to start on User-Mode Linux, whose processor has no frequency.
hack/vm/guest.sh sh 'grep -q "^cpu MHz" /proc/cpuinfo ||
	{ sed "s/^processor.*/&\ncpu MHz\t\t: 1000.000/" /proc/cpuinfo >/run/cpuinfo && mount --bind /run/cpuinfo /proc/cpuinfo; }'
stage "the comparison"
flags=$(printf ' %q' -test.v -test.timeout=90m -programs=/podstream/bin "$@")
hack/vm/guest.sh sh "cd /var/tmp && GOMEMLIMIT=160MiB TMPDIR=/var/tmp /podstream/nodediff.test $flags" </dev/null
stage "passed"
