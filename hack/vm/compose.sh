#!/usr/bin/env bash
# Runs TestCompose of test/systemd in a guest of its own: docker-compose.yml as it is, with Debian's Docker, Compose 2
# and Compose 1 (of Debian 12), on the guest's containerd. It fetches these packages into .tools/vm-docker and
# .tools/vm-compose-v1 once.
set -euo pipefail
cd "$(dirname "$0")/../.."
export GUEST=compose
share=$PWD/.run/vm/share-compose
stage() { printf 'compose: %s (%d s so far)\n' "$1" "$SECONDS"; }

hack/unpack-deb.sh trixie .tools/vm-docker docker.io docker-cli docker-compose
hack/unpack-deb.sh --with-dependencies bookworm .tools/vm-compose-v1 docker-compose
stage "building the daemons and tests"
rm -rf "$share"
mkdir -p "$share"/{bin,composed}
export CGO_ENABLED=0 GOFLAGS="-trimpath -ldflags=-s ${GOFLAGS:-}"
go build -o "$share/bin/" ./cmd/podconfigd ./cmd/podexecd ./cmd/podctl ./test/sample
go test -c -o "$share/systemd.test" ./test/systemd
cp -r deploy "$share/deploy"
cp docker-compose.yml build/Dockerfile "$share/composed/"
ln "$share"/bin/podconfigd "$share"/bin/podexecd "$share/composed/"
cp -r .tools/vm-docker "$share/docker"
cp -r .tools/vm-compose-v1 "$share/compose-v1"
mkdir -p "$share"/compose-v1/{dev,run,podstream}
truncate -s 192M "$share/stores.img"
mke2fs -q -F -t ext4 -O ^has_journal "$share/stores.img"

trap 'hack/vm/guest.sh down; rm -rf "$share"' EXIT
stage "booting the guest"
unset TMPDIR # User-Mode Linux would look for it in its own root.
hack/vm/guest.sh up "$share"
hack/vm/guest.sh sh 'set -e
	cp -a /podstream/docker/usr/. /usr/
	for dir in dev run podstream; do mount --bind "/$dir" "/podstream/compose-v1/$dir"; done'
stage "docker-compose.yml"
hack/vm/guest.sh sh "TMPDIR=/var/tmp /podstream/systemd.test -test.v -test.timeout=20m -test.run '^TestCompose$'"
stage "all passed"
