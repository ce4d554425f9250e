#!/usr/bin/env bash
# Runs the tests of iSCSI volumes on a kernel of their own, with the kernel's target (LIO) and open-iscsi. Usage:
#   hack/vm/iscsi.sh [RUN]   RUN is go test's -run; the default is ^TestKernel
#   hack/vm/iscsi.sh build   makes .tools/iscsi only
# User-Mode Linux has no target, and a machine for tests may have no modules: this boots Debian 13's cloud kernel in qemu,
# with a root in memory, hack/vm/iscsi-init.sh as its first process, and nothing else. It needs root, and Debian's mirror
# only for what is missing. PACKAGE is the package whose tests run; a test that is skipped there is a failure.
# LIMIT is the time limit in seconds; ACCEL=kvm uses KVM, where it runs ordinary kernels. The console's output stays in
# .run/vm/iscsi/console.log.
set -euo pipefail
cd "$(dirname "$0")/../.."
package=${PACKAGE:-internal/execsvc/setup/storage/iscsi}
limit=${LIMIT:-1800}
tools=$PWD/.tools/iscsi
dir=$PWD/.run/vm/${GUEST:-iscsi}

fail() { printf 'iscsi: %s\n' "$@" >&2; exit 1; }
stage() { printf 'iscsi: %s (%d s so far)\n' "$1" "$SECONDS"; }
[[ $EUID -eq 0 ]] || fail "the guest needs root"
[[ $(uname -s) == Linux && $(uname -m) == x86_64 ]] || fail "the guest needs Linux on x86_64"

# What the guest consists of. The packages' dependencies are unpacked too.
packages=(base-files bash coreutils dash e2fsprogs fdisk findutils grep iproute2 kmod linux-image-cloud-amd64 mount multipath-tools nftables
	open-iscsi procps sed udev util-linux xfsprogs)
modules=(configfs target_core_mod target_core_file target_core_iblock iscsi_target_mod iscsi_tcp sd_mod loop dm-mod
	dm-multipath dm-round-robin dm-service-time dummy xfs nf_tables nft_compat crc32c-intel crc32c_generic)
built() { [[ -f $tools/inputs && $(<"$tools/inputs") == "$inputs" ]]; }

install_missing() {
	local need=()
	command -v qemu-system-x86_64 >/dev/null || need+=(qemu-system-x86)
	command -v cpio >/dev/null || need+=(cpio)
	command -v depmod >/dev/null || need+=(kmod)
	command -v xz >/dev/null || need+=(xz-utils)
	[[ -r /usr/share/keyrings/debian-archive-keyring.gpg ]] || need+=(debian-archive-keyring)
	((${#need[@]})) || return 0
	command -v apt-get >/dev/null || fail "the guest needs, by the names of Debian's packages: ${need[*]}"
	echo "iscsi: installing ${need[*]}"
	local install=(apt-get install --yes --quiet --no-install-recommends "${need[@]}")
	"${install[@]}" >/dev/null 2>&1 || { apt-get update --quiet >/dev/null && "${install[@]}" >/dev/null; } || fail "apt-get failed"
}

build() {
	mkdir -p .tools
	exec 9>"$tools.lock"
	flock 9 # one build at a time
	if built; then return; fi
	stage "unpacking the kernel and the programs of Debian 13"
	rm -rf "$tools.new"
	trap 'rm -rf "$tools.new"' EXIT
	hack/unpack-deb.sh --with-dependencies trixie .tools/iscsi.new/root "${packages[@]}"
	local root=$tools.new/root version kept module path
	version=$(basename "$root"/usr/lib/modules/*)
	mv "$root/boot/vmlinuz-$version" "$tools.new/vmlinuz"
	# The modules and their dependencies, unpacked: an emulated processor is slow at that.
	kept=$tools.new/modules
	depmod -b "$root" "$version"
	for module in "${modules[@]}"; do
		# modules.dep has paths of files, whose names have - or _ for either.
		path=$(grep -E "/${module//[-_]/[-_]}\.ko\.xz:" "$root/usr/lib/modules/$version/modules.dep" || true)
		if [[ -z $path ]]; then
			grep -qE "/${module//[-_]/[-_]}\.ko\$" "$root/usr/lib/modules/$version/modules.builtin" || fail "Debian's kernel $version has no module $module"
			continue
		fi
		for path in ${path//:/ }; do
			[[ ! -f $kept/${path%.xz} ]] || continue
			mkdir -p "$kept/${path%/*}"
			xz --decompress --stdout "$root/usr/lib/modules/$version/$path" >"$kept/${path%.xz}"
		done
	done
	cp "$root/usr/lib/modules/$version"/modules.{order,builtin,builtin.modinfo} "$kept/"
	rm -rf "$root/usr/lib/modules"
	mkdir -p "$root/usr/lib/modules"
	mv "$kept" "$root/usr/lib/modules/$version"
	depmod -b "$root" "$version"
	# What no test uses, so that the guest boots sooner.
	rm -rf "$root"/{boot,usr/share/{doc,man,locale,info,perl*,python*,icons,i18n,lintian,bash-completion,zoneinfo}} \
		"$root"/usr/lib/{python*,systemd/{system,user,boot},udev/hwdb.d,kernel} \
		"$root"/usr/lib/x86_64-linux-gnu/{perl*,gconv,systemd/tests} "$root"/usr/bin/{perl*,python*}
	install -d "$root"/{dev,proc,sys,run,tmp,root,mnt}
	ln -sfn /run "$root/var/run"
	ldconfig -r "$root" # of this machine: the format is the same
	# The ids and names that udev's rules and nft look for.
	printf 'root:x:0:0:root:/root:/bin/bash\n' >"$root/etc/passwd"
	printf '%s\n' root:x:0: tty:x:5: disk:x:6: kmem:x:15: dialout:x:20: cdrom:x:24: tape:x:26: video:x:44: audio:x:29: \
		lp:x:7: input:x:101: render:x:102: kvm:x:103: sgx:x:104: clock:x:105: users:x:100: >"$root/etc/group"
	printf '127.0.0.1 localhost\n' >"$root/etc/hosts"
	echo 'InitiatorName=iqn.2026-11.example:guest' >"$root/etc/iscsi/initiatorname.iscsi"
	chmod 600 "$root/etc/iscsi/initiatorname.iscsi"
	echo "kernel $version" >"$tools.new/versions"
	(cd "$root" && find . -print0 | sort -z | cpio --null --create --format=newc --owner=0:0 --quiet) >"$tools.new/root.cpio"
	rm -rf "$root"
	echo "$inputs" >"$tools.new/inputs"
	rm -rf "$tools"
	mv "$tools.new" "$tools"
	trap - EXIT
}

inputs=$({ printf '%s ' "${packages[@]}" "${modules[@]}" && declare -f build; } | sha256sum)
install_missing
built || build
exec 9>&- # qemu would keep the lock
[[ ${1:-} != build ]] || exit 0
run=${1:-^TestKernel}

stage "building the test program of $package"
rm -rf "$dir"
mkdir -p "$dir/add/podstream"
CGO_ENABLED=0 go test -c -tags iscsiguest -trimpath -ldflags=-s -o "$dir/add/podstream/test" "./$package"
[[ -x $dir/add/podstream/test ]] || fail "$package has no tests"
[[ ! -d $package/testdata ]] || cp -r "$package/testdata" "$dir/add/podstream/"
install -m 755 hack/vm/iscsi-init.sh "$dir/add/init"
printf '%s\n' "$run" >"$dir/add/podstream/run"
printf '%s\n' "$limit" >"$dir/add/podstream/limit"
# The kernel unpacks one archive after the other.
(cd "$dir/add" && find . -print0 | cpio --null --create --format=newc --owner=0:0 --quiet) | cat "$tools/root.cpio" - >"$dir/initrd"
rm -rf "$dir/add"

stage "booting the guest"
accel=${ACCEL:-tcg}
cpu=host
# Of what TCG offers, these slow it down or confuse the guest's kernel, as in hack/vm/guest.sh.
[[ $accel != tcg ]] || accel=tcg,thread=multi,tb-size=512 cpu=max,-cx16,-la57,-smap,-smep,-pku
trap 'rm -f "$dir/initrd"' EXIT
code=0
timeout --kill-after=10 "$((limit + 60))" qemu-system-x86_64 -accel "$accel" -cpu "$cpu" -smp 2 -m "${MEMORY:-1536M}" \
	-nodefaults -no-user-config -display none -no-reboot -machine q35,vmport=off -kernel "$tools/vmlinuz" -initrd "$dir/initrd" \
	-append "console=ttyS0 quiet loglevel=4 rdinit=/init net.ifnames=0 mitigations=off tsc=reliable nokaslr panic=-1" \
	-device virtio-rng-pci -serial file:"$dir/console.log" \
	-device virtio-serial-pci -chardev stdio,id=out,signal=off -device virtconsole,chardev=out </dev/null | tee "$dir/output.log" || code=${PIPESTATUS[0]}

# The guest's first process writes what the test program ended with, to the console.
result=$(sed -n 's/^iscsi: the tests ended with \([0-9]*\)\r\{0,1\}$/\1/p' "$dir/console.log")
if [[ -z $result ]]; then
	tail -n 60 "$dir/console.log" >&2
	((code != 124 && code != 137)) || fail "the guest has not ended after $((limit + 60)) s; its console ends as above"
	fail "the guest has ended without a result (qemu: $code); its console ends as above"
fi
passed=$(grep -cE '^--- PASS' "$dir/output.log" || true)
if ((result)); then
	tail -n 30 "$dir/console.log" >&2
	fail "the tests ended with $result; the kernel's messages end as above, all are in $dir/console.log"
fi
((passed)) || fail "no test has run: $run"
skipped=$(grep -E '^ *--- SKIP' "$dir/output.log" || true)
[[ -z $skipped ]] || fail "skipped in the guest:" "$skipped"
stage "$passed tests passed"
