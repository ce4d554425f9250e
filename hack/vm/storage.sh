#!/usr/bin/env bash
# Runs the tests of volumes of test/systemd in a guest of its own: a server of NFS whose packets are dropped, and the guest
# killed and booted with a CSI driver's volume. Usage: hack/vm/storage.sh [RUN], where RUN is go test's -run: only these
# tests, and no boot.
set -euo pipefail
cd "$(dirname "$0")/../.."
# A machine that loses its power needs a journal.
export GUEST=${GUEST:-storage} JOURNAL=1
share=$PWD/.run/vm/share-$GUEST
stage() { printf 'storage: %s (%d s so far)\n' "$1" "$SECONDS"; }

stage "building the daemons, the CSI driver and tests"
rm -rf "$share"
mkdir -p "$share/bin"
export CGO_ENABLED=0 GOFLAGS="-trimpath -ldflags=-s ${GOFLAGS:-}"
go build -o "$share/bin/" ./cmd/podconfigd ./cmd/podexecd ./cmd/podctl ./test/csidriver/csidriverd ./test/sample
go test -c -o "$share/systemd.test" ./test/systemd
cp -r deploy "$share/deploy"
# The file system of the daemons' stores, and of the driver's volumes.
truncate -s 192M "$share/stores.img"
mke2fs -q -F -t ext4 "$share/stores.img"

trap 'hack/vm/guest.sh down; rm -rf "$share"' EXIT
stage "booting the guest"
unset TMPDIR # User-Mode Linux would look for it in its own root.
hack/vm/guest.sh up "$share"
run() { hack/vm/guest.sh sh "TMPDIR=/var/tmp /podstream/systemd.test -test.v -test.timeout=30m -test.run '$1'"; }

if [[ $# -gt 0 ]]; then
	run "$1"
	stage "all passed"
	exit
fi
stage "a server of NFS that doesn't answer"
run '^TestNFS'
stage "the guest is killed, and boots with a volume that was attached"
run '^TestBeforeKill$'
hack/vm/guest.sh kill
hack/vm/guest.sh boot
run '^TestAfterKill$'
stage "all passed"
