#!/usr/bin/env bash
# Builds the packages for amd64, and checks what they contain. Usage: hack/packages-check.sh [twice]; twice builds them once more,
# and compares the bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "packages-check: $1" >&2; exit 1; }
DIST=$work/1 hack/packages.sh amd64 >/dev/null
if [[ ${1:-} == twice ]]; then
	DIST=$work/2 hack/packages.sh amd64 >/dev/null
	diff -r "$work/1" "$work/2" || fail "two builds differ"
fi
(cd "$work/1" && sha256sum --check --quiet SHA256SUMS)

deb=$(echo "$work"/1/podstream_*.deb) kubelet=$(echo "$work"/1/podstream-kubelet_*.deb)
dpkg-deb --contents "$deb" >"$work/contents"
for path in usr/bin/{podconfigd,podexecd,podctl} usr/lib/systemd/system/{podconfigd,podexecd}.{service,socket} \
	usr/lib/sysusers.d/podstream.conf usr/lib/tmpfiles.d/podstream.conf etc/podstream/{podconfigd,podexecd}.env etc/podstream/manifests/ \
	usr/share/man/man8/{podconfigd,podexecd}.8.gz usr/share/man/man1/podctl{,-pods}.1.gz usr/share/doc/podstream/{copyright,podexecd.cdx.json} \
	usr/share/bash-completion/completions/{podctl,podexecd} usr/share/zsh/vendor-completions/_{podctl,podexecd} \
	usr/share/fish/vendor_completions.d/{podctl,podexecd}.fish; do
	grep -q " root/root .* \./$path\$" "$work/contents" || fail "podstream has no $path of root's"
done
dpkg-deb --contents "$kubelet" >"$work/contents"
for path in usr/bin/kubelet usr/lib/systemd/system/{kubelet.service,kubelet.service.d/50-podstream.conf} \
	usr/lib/systemd/system/{podconfigd,podexecd}.{service,socket}.d/50-kubelet.conf; do
	grep -q " root/root .* \./$path\$" "$work/contents" || fail "podstream-kubelet has no $path of root's"
done
[[ $(dpkg-deb --field "$kubelet" Provides) =~ ^kubelet\ \(=\ 1\.[0-9]+\.[0-9]+ && $(dpkg-deb --field "$kubelet" Conflicts) == kubelet &&
	$(dpkg-deb --field "$kubelet" Replaces) == kubelet ]] || fail "podstream-kubelet doesn't take the kubelet's place"
for package in "$deb" "$kubelet"; do
	rm -rf "$work/control"
	dpkg-deb --control "$package" "$work/control"
	for script in "$work"/control/{preinst,postinst,prerm,postrm}; do
		sh -n "$script"
		! grep -n '@[A-Z]' "$script" || fail "$script isn't filled in"
	done
done
dpkg-deb --fsys-tarfile "$deb" | tar --extract --to-stdout ./usr/lib/systemd/system/podexecd.service | grep -q '^ExecStart=/usr/bin/podexecd ' ||
	fail "podexecd.service starts another program"
echo "packages-check: passed"
