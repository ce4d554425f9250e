#!/usr/bin/env bash
# Runs test/systemd in a guest of its own: both daemons as the units of deploy/systemd, and a boot of the guest with
# them. Usage: hack/vm/systemd.sh [RUN], where RUN is go test's -run: only these tests, and no boot.
set -euo pipefail
cd "$(dirname "$0")/../.."
export GUEST=${GUEST:-systemd}
share=$PWD/.run/vm/share-$GUEST
stage() { printf 'systemd: %s (%d s so far)\n' "$1" "$SECONDS"; }

stage "building the daemons and tests"
rm -rf "$share"
mkdir -p "$share"/{bin,faults}
export CGO_ENABLED=0 GOFLAGS="-trimpath -ldflags=-s ${GOFLAGS:-}"
go build -o "$share/bin/" ./cmd/podconfigd ./cmd/podexecd ./cmd/podctl ./cmd/kubelet ./internal/simruntime/simruntimed ./test/sample
go build -tags failpoints -o "$share/faults/" ./cmd/podconfigd ./cmd/podexecd
go test -c -tags failpoints -o "$share/systemd.test" ./test/systemd
cp -r deploy "$share/deploy"
# The file system of the daemons' stores, which a test freezes.
truncate -s 192M "$share/stores.img"
mke2fs -q -F -t ext4 -O ^has_journal "$share/stores.img"

trap 'hack/vm/guest.sh down; rm -rf "$share"' EXIT
stage "booting the guest"
unset TMPDIR # User-Mode Linux would look for it in its own root.
hack/vm/guest.sh up "$share"
run() { hack/vm/guest.sh sh "TMPDIR=/var/tmp /podstream/systemd.test -test.v -test.timeout=30m -test.run '$1'"; }

stage "the units"
run "${1:-^Test(Units|Doctor|Pods|Slices|Volume|Callers|KernelSettings|SwapOn|OwnLimits|ReservedCgroups|Placement|Faults|NoReason|Shutdown|SystemOOM|Kubelet)}"
if [[ $# -gt 0 ]]; then
	stage "all passed"
	exit
fi
# reboot shuts the guest down as an administrator does, and boots it again.
reboot() {
	hack/vm/guest.sh sh 'systemctl poweroff' || true
	read -r pid _ <".run/vm/$GUEST/pid"
	while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
	hack/vm/guest.sh boot
}
stage "a graceful shutdown, and the boot after it"
run '^TestBeforeShutdown$'
reboot
run '^TestAfterShutdown$'
stage "an immediate shutdown; a boot with the API server away, a broken manifest, and containerd late"
run '^TestBefore(Boot|Poweroff)$'
reboot
run '^TestAfter(Boot|Poweroff)$'
stage "all passed"
