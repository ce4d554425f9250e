#!/usr/bin/env bash
# Builds the disk of the guest that `make test-vm` runs tests in: Debian 13 with systemd, containerd 2 and runc, the
# kernel of User-Mode Linux, and with KERNEL=qemu one for qemu too. Result: .tools/vm with disk.img, uml, key and versions.
# It needs root, and Debian's package mirror only for what is missing; with all of it present it does nothing and needs
# no network.
#
# What is pinned: Debian 13, with its User-Mode Linux (6.12; the 7.2 of sid has panicked in the tests), and containerd by
# its Go module (hack/deps.sh). runc comes from Debian sid, where a version is replaced within weeks: it has a floor here,
# and .tools/vm/versions lists what was taken with its checksum. A new version that doesn't work fails in
# `hack/vm/guest.sh smoke`. hack/vm/xstate.c makes User-Mode Linux 6.12 run on processors with AMX.
set -euo pipefail
cd "$(dirname "$0")/../.."
vm=$PWD/.tools/vm
runc_floor=1.2

inputs=$(find hack/vm/image.sh hack/vm/xstate.c hack/vm/root -type f -print0 | sort -z | xargs -0 cat | sha256sum)
qemu=
[[ ${KERNEL:-uml} != qemu ]] || qemu=1
built() { [[ -f $vm/inputs && $(<"$vm/inputs") == "$inputs" ]] && [[ -z $qemu || -f $vm/vmlinuz ]]; }
if built; then exit 0; fi
fail() { printf 'vm: %s\n' "$@" >&2; exit 1; }
[[ $EUID -eq 0 ]] || fail "building the guest's disk needs root"
command -v apt-get >/dev/null || fail "the guest is built from Debian's packages, with apt-get: this is neither Debian nor Ubuntu"

# One build at a time; another one may be the wanted one.
mkdir -p .tools
exec 9>"$vm.lock"
flock --nonblock 9 || { echo "vm: waiting for another build of the guest's disk"; flock 9; }
if built; then exit 0; fi

keys=/usr/share/keyrings/debian-archive-keyring.gpg
need=()
[[ -r $keys ]] || need+=(debian-archive-keyring)
command -v mmdebstrap >/dev/null || need+=(mmdebstrap)
command -v mke2fs >/dev/null || need+=(e2fsprogs)
command -v ssh >/dev/null || need+=(openssh-client)
cc -E -include dlfcn.h -x c /dev/null >/dev/null 2>&1 || need+=(gcc libc6-dev)
if ((${#need[@]})); then
	echo "vm: installing ${need[*]}"
	install=(apt-get install --yes --quiet --no-install-recommends "${need[@]}")
	"${install[@]}" >/dev/null 2>&1 || { apt-get update --quiet >/dev/null && "${install[@]}" >/dev/null; } || fail "apt-get failed"
fi
hack/deps.sh containerd-2

echo "vm: building the guest's disk"
rm -rf "$vm.new"
mkdir -p "$vm.new"
trap 'wait; rm -rf "$vm.new"' EXIT
hack/unpack-deb.sh sid .tools/vm.new/runc runc &
unpacking=$!
mirror=$(apt-get indextargets --format '$(ORIGIN)/$(LABEL) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
	awk '$1 == "Debian/Debian" && !found { found = 1; print $2 }') || true
mirror=${mirror:-http://deb.debian.org/debian}
packages=systemd,systemd-sysv,dbus,libpam-systemd,udev,kmod,openssh-server,netbase,procps,util-linux,ca-certificates
packages+=,iproute2,iptables,containernetworking-plugins,libseccomp2,apparmor
# For volumes: mkfs.ext4; mount.nfs, and a server of NFS, which only hack/vm/storage.sh starts.
packages+=,nfs-common,nfs-kernel-server,e2fsprogs
# The kernels are unpacked, not installed: installing one would build an initial RAM disk.
kernels=user-mode-linux
[[ -z $qemu ]] || kernels+=' $(apt-cache depends linux-image-cloud-amd64 | sed -n "s/.*Depends: \(linux-image-[0-9].*\)/\1/p" | sed -n 1p)'
if ! mmdebstrap --mode=root --variant=minbase --include="$packages" --dpkgopt=force-unsafe-io \
	--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
	--dpkgopt='path-exclude=/usr/share/locale/*' \
	--customize-hook="chroot \"\$1\" sh -c 'cd /tmp && apt-get download -qq $kernels'" \
	--customize-hook='mkdir "$1/../kernel" && mv "$1"/tmp/*.deb "$1/../kernel/"' \
	trixie "$vm.new/root" "deb [signed-by=$keys] $mirror trixie main" >"$vm.new/log" 2>&1; then
	tail -n 30 "$vm.new/log" >&2
	fail "mmdebstrap failed: the guest needs Debian's mirror, $mirror"
fi
wait "$unpacking"
root=$vm.new/root
for deb in "$vm.new"/kernel/*.deb; do
	dpkg-deb --extract "$deb" "$vm.new/kernel/root"
done

# Modules: without those for hardware that a guest doesn't have.
mkdir -p "$root/usr/lib/modules"
for modules in "$vm.new"/kernel/root/usr/lib/{uml/,}modules/*; do
	[[ -d $modules ]] || continue
	cp -a "$modules" "$root/usr/lib/modules/"
	version=$(basename "$modules")
	rm -rf "$root/usr/lib/modules/$version/kernel"/{sound,drivers/{usb,media,staging,iio,hid,input,infiniband}}
	chroot "$root" depmod "$version"
done

cp -a "$vm.new/runc/usr/." "$root/usr/"
install -m 755 .tools/containerd-2/{containerd,containerd-shim-runc-v2,ctr} "$root/usr/bin/"
cp -a hack/vm/root/. "$root/"
ssh-keygen -q -t ed25519 -N '' -C podstream-vm -f "$vm.new/key"
install -D -m 600 "$vm.new/key.pub" "$root/root/.ssh/authorized_keys"
echo guest >"$root/etc/hostname"
printf '127.0.0.1 localhost guest\n::1 localhost\n' >"$root/etc/hosts"
: >"$root/etc/machine-id"
echo '/dev/root / ext4 rw,noatime 0 0' >"$root/etc/fstab"
ln -sf /usr/lib/systemd/system/multi-user.target "$root/etc/systemd/system/default.target"
for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service \
	fstrim.timer systemd-timesyncd.service systemd-networkd-wait-online.service \
	nfs-server.service nfs-client.target nfs-blkmap.service rpcbind.service rpcbind.socket; do
	ln -sf /dev/null "$root/etc/systemd/system/$unit"
done
wants=$root/etc/systemd/system/multi-user.target.wants
mkdir -p "$wants"
for unit in systemd-networkd ssh; do
	ln -sf "/usr/lib/systemd/system/$unit.service" "$wants/$unit.service"
done
ln -sf ../containerd.service "$wants/containerd.service"

# What the guest consists of, for a report of a failure.
{
	dpkg-query --admindir="$root/var/lib/dpkg" --show systemd containernetworking-plugins
	.tools/containerd-2/containerd --version
	chroot "$root" runc --version | sed -n 1p
	for modules in "$root"/usr/lib/modules/*; do echo "kernel $(basename "$modules")"; done
	(cd "$vm.new" && sha256sum runc/usr/bin/runc kernel/*.deb)
} >"$vm.new/versions"
version=$(chroot "$root" runc --version | awk 'NR == 1 { print $3 }')
[[ $(printf '%s\n' "$runc_floor" "$version" | sort -V | sed -n 1p) == "$runc_floor" ]] ||
	fail "runc of Debian sid is $version; at least $runc_floor is needed"

# UML is a program that needs a newer C library than Debian 12 has: it runs in a root of its own, with the guest's.
uml=$vm.new/uml
mkdir -p "$uml"/{dev,etc,proc,tmp,disks,lib64,lib/x86_64-linux-gnu}
cp "$vm.new/kernel/root/usr/bin/linux.uml" "$uml/linux"
cp -L "$root/lib64/ld-linux-x86-64.so.2" "$uml/lib64/"
cp -L "$root/lib/x86_64-linux-gnu/libc.so.6" "$uml/lib/x86_64-linux-gnu/"
cc -O2 -Wall -Wextra -shared -fPIC -nostartfiles -o "$uml/lib/xstate.so" hack/vm/xstate.c
echo /lib/xstate.so >"$uml/etc/ld.so.preload"
[[ -z $qemu ]] || cp "$vm.new"/kernel/root/boot/vmlinuz-* "$vm.new/vmlinuz"
truncate -s 4G "$vm.new/disk.img"
mke2fs -q -F -t ext4 -L root -O ^has_journal -d "$root" "$vm.new/disk.img"
rm -rf "$vm.new"/{root,kernel,runc,log}
echo "$inputs" >"$vm.new/inputs"
rm -rf "$vm"
mv "$vm.new" "$vm"
echo "vm: built in $SECONDS s"
