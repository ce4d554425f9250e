#!/usr/bin/env bash
# Runs TestPackages of test/systemd in a guest of its own: the Debian packages are installed, upgraded, downgraded, removed and
# purged by apt-get and dpkg, beside pods that run.
set -euo pipefail
cd "$(dirname "$0")/../.."
export GUEST=packages
share=$PWD/.run/vm/share-packages
stage() { printf 'packages: %s (%d s so far)\n' "$1" "$SECONDS"; }

stage "building the packages and tests"
rm -rf "$share"
mkdir -p "$share"/{bin,packages/old,packages/new,dummy/DEBIAN,deploy}
cp -r deploy/systemd "$share/deploy/systemd"
for version in old:1.0 new:1.1; do
	PACKAGE_VERSION=${version#*:} DIST=$share/packages/${version%:*} KEEP_SCRIPTS=$share/packages/scripts hack/packages.sh amd64
done
# A version before podconfigd had a system user: its user was 65532, and its units know nothing of another one.
former=$share/former
dpkg-deb --raw-extract "$share"/packages/old/podstream_1.0_amd64.deb "$former"
sed -i 's/^Version: .*/Version: 0.9/' "$former/DEBIAN/control"
sed -i 's/_podconfigd/65532/' "$former"/usr/lib/systemd/system/podconfigd.*
sed -i '/^[Zzf] /d; s/_podconfigd/65532/g' "$former/usr/lib/tmpfiles.d/podstream.conf"
sed -i 's/^u _podconfigd -/u podconfigd 65532/' "$former/usr/lib/sysusers.d/podstream.conf"
mkdir "$share/packages/former"
dpkg-deb --root-owner-group --build "$former" "$share/packages/former/podstream_0.9_amd64.deb" >/dev/null
rm -rf "$former"
rm -f "$share"/packages/*/*.{rpm,cdx.json}
# As kubeadm's package does.
printf '%s\n' 'Package: needs-kubelet' 'Version: 1' 'Architecture: all' 'Maintainer: Podstream <root@localhost>' \
	'Depends: kubelet (>= 1.36)' 'Description: depends on the kubelet' >"$share/dummy/DEBIAN/control"
dpkg-deb --root-owner-group --build "$share/dummy" "$share/packages/needs-kubelet.deb" >/dev/null
export CGO_ENABLED=0 GOFLAGS="-trimpath -ldflags=-s ${GOFLAGS:-}"
go build -o "$share/bin/" ./test/sample
go test -c -o "$share/systemd.test" ./test/systemd

trap 'hack/vm/guest.sh down; rm -rf "$share"' EXIT
stage "booting the guest"
unset TMPDIR # User-Mode Linux would look for it in its own root.
hack/vm/guest.sh up "$share"
stage "the packages"
hack/vm/guest.sh sh "TMPDIR=/var/tmp /podstream/systemd.test -test.v -test.timeout=15m -test.run '^TestPackages$'"
stage "all passed"
