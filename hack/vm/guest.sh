#!/usr/bin/env bash
# Boots the guest of `make vm`, and runs commands in it as root. Usage:
#   hack/vm/guest.sh up [SHARE]   boots a guest; its disk is a new copy. SHARE, a directory, is copied to /podstream.
#   hack/vm/guest.sh sh COMMAND   runs COMMAND in the guest; exits as it does
#   hack/vm/guest.sh boot         boots the guest again with its disk as it is, after a reboot or poweroff
#   hack/vm/guest.sh kill         ends the guest as a loss of power does; its disk stays, for boot. JOURNAL=1 for up is needed.
#   hack/vm/guest.sh down         ends the guest
#   hack/vm/guest.sh smoke        up, checks what the tests need, down
# KERNEL=uml (the default) is User-Mode Linux: it boots in 10 s and runs at native speed, with one processor, and without
# cpuset, hugetlb, PSI, AppArmor and NAT. KERNEL=qemu emulates a machine that has these: it boots in two minutes.
# GUEST names the guest, so that several can run: each has a network namespace, podstream-GUEST, and .run/vm/GUEST.
set -euo pipefail
cd "$(dirname "$0")/../.."
vm=$PWD/.tools/vm
kernel=${KERNEL:-uml}
guest=${GUEST:-$kernel}
dir=$PWD/.run/vm/$guest
netns=podstream-$guest
address=10.0.2.15

fail() { printf 'vm: %s\n' "$@" >&2; exit 1; }
[[ $EUID -eq 0 ]] || fail "a guest needs root"

# check fails if this machine can't run a guest, and installs missing programs on Debian.
check() {
	[[ $(uname -s) == Linux && $(uname -m) == x86_64 ]] || fail "a guest needs Linux on x86_64"
	[[ -c /dev/net/tun ]] || fail "a guest needs /dev/net/tun (modprobe tun; of a container: --device=/dev/net/tun)"
	local need=()
	command -v ip >/dev/null || need+=(iproute2)
	command -v ssh >/dev/null || need+=(openssh-client)
	command -v mke2fs >/dev/null || need+=(e2fsprogs)
	[[ $kernel != qemu ]] || command -v qemu-system-x86_64 >/dev/null || need+=(qemu-system-x86)
	if ((${#need[@]})); then
		command -v apt-get >/dev/null || fail "a guest needs, by the names of Debian's packages: ${need[*]}"
		echo "vm: installing ${need[*]}"
		local install=(apt-get install --yes --quiet --no-install-recommends "${need[@]}")
		"${install[@]}" >/dev/null 2>&1 || { apt-get update --quiet >/dev/null && "${install[@]}" >/dev/null; } || fail "apt-get failed"
	fi
}

remote() {
	ip netns exec "$netns" ssh -F none -i "$dir/key" -o LogLevel=ERROR -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
		-o ConnectTimeout="${CONNECT_TIMEOUT:-30}" -o ServerAliveInterval=5 -o ServerAliveCountMax=12 "root@$address" "$@"
}

# started prints when a process started, in ticks since the machine's boot; nothing, if there is none.
started() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 20; }

# record notes the guest's process, and when it started: after a reboot, another process may have its number.
record() { printf '%s %s %s\n' "$1" "$(started "$1")" "$(</proc/sys/kernel/random/boot_id)" >"$dir/pid"; }

# running sets pid to the guest's process, if it runs.
running() {
	local start boot
	[[ -f $dir/pid ]] && read -r pid start boot <"$dir/pid" && [[ $boot == "$(</proc/sys/kernel/random/boot_id)" ]] &&
		[[ -n $start && $(started "$pid") == "$start" ]]
}

network() {
	ip netns add "$netns" || fail "a guest needs a network namespace: CAP_SYS_ADMIN"
	ip -n "$netns" link set lo up
	ip -n "$netns" tuntap add dev tap0 mode tap
	ip -n "$netns" address add 10.0.2.2/24 dev tap0
	ip -n "$netns" link set tap0 up
}

# start_uml runs the kernel as processes in a root, a mount namespace and the guest's network namespace. One of them runs
# at a time, and each system call in the guest switches between two: on one CPU of the host, tests take two thirds of the time.
start_uml() {
	# shellcheck disable=SC2016
	setsid ip netns exec "$netns" unshare --mount --propagation private bash -c '
		dir=$1 memory=$2
		uml=$dir/uml
		mount --bind "$uml" "$uml"
		mount -t tmpfs -o mode=1777,size="$memory" none "$uml/tmp"
		mount -t proc proc "$uml/proc"
		mount -t tmpfs -o mode=755 none "$uml/dev"
		mkdir "$uml/dev/net" "$uml/dev/shm"
		mount -t tmpfs -o mode=1777,size="$memory" none "$uml/dev/shm"
		for device in null zero random urandom tty net/tun; do
			touch "$uml/dev/$device"
			mount --bind "/dev/$device" "$uml/dev/$device"
		done
		mount --bind "$dir" "$uml/disks"
		exec taskset --cpu-list "$(awk "{ print \$39 }" /proc/self/stat)" env -i PATH=/ TMPDIR=/tmp /usr/sbin/chroot "$uml" /linux mem="$memory" root=/dev/ubda rw ubd0=/disks/disk.img ubd1=/disks/swap.img ubd2r=/disks/share.img \
			con0=null,fd:1 con1=null,null ssl=null umid=podstream uml_dir=/tmp/ vec0:transport=tap,ifname=tap0,depth=128,gro=1
	' start_uml "$dir" "${MEMORY:-3072M}" >"$dir/console.log" 2>&1 </dev/null &
	record $!
	disown
}

start_qemu() {
	# Of what TCG offers, these slow it down or confuse the guest's kernel.
	setsid ip netns exec "$netns" qemu-system-x86_64 -accel tcg,thread=multi,tb-size=1024 \
		-cpu max,-cx16,-la57,-smap,-smep,-pku -smp 2 -m "${MEMORY:-3072M}" \
		-nodefaults -no-user-config -display none -machine q35,vmport=off -kernel "$dir/vmlinuz" \
		-append "root=/dev/nvme0n1 rw console=ttyS0 net.ifnames=0 mitigations=off tsc=reliable nokaslr panic=-1 lsm=apparmor psi=1" \
		-drive if=none,id=disk,file="$dir/disk.img",format=raw,cache=unsafe -device nvme,drive=disk,serial=root \
		-drive if=none,id=swap,file="$dir/swap.img",format=raw -device virtio-blk-pci,drive=swap \
		-drive if=none,id=share,file="$dir/share.img",format=raw,readonly=on -device virtio-blk-pci,drive=share \
		-netdev tap,id=net,ifname=tap0,script=no,downscript=no -device virtio-net-pci,netdev=net -device virtio-rng-pci \
		-serial file:"$dir/console.log" >"$dir/qemu.log" 2>&1 </dev/null &
	record $!
	disown
}

# await returns when the guest answers.
await() {
	local limit=$((SECONDS + 60))
	[[ $kernel == uml ]] || limit=$((SECONDS + 400))
	until CONNECT_TIMEOUT=2 remote true 2>/dev/null; do
		running || { tail -n 60 "$dir/console.log" >&2; fail "the guest has ended; its console ends as above"; }
		((SECONDS < limit)) || { tail -n 60 "$dir/console.log" >&2; fail "the guest does not answer; its console ends as above"; }
		sleep 0.2
	done
}

boot() {
	running && fail "the guest $guest runs already (process $pid); hack/vm/guest.sh down ends it"
	case $kernel in
	uml) start_uml ;;
	qemu) start_qemu ;;
	*) fail "KERNEL is uml or qemu" ;;
	esac
	await
	# By its device: the kernel of User-Mode Linux has been seen to find a partition on this disk, where there is none, and
	# then the label is the partition's too.
	local device=LABEL=podstream
	[[ $kernel != uml ]] || device=/dev/ubdc
	remote "mkdir -p /podstream && mount -o ro $device /podstream"
}

up() {
	local share=${1:-}
	check
	hack/vm/image.sh
	running && fail "the guest $guest runs already (process $pid); hack/vm/guest.sh down ends it"
	ip netns delete "$netns" 2>/dev/null || true
	rm -rf "$dir"
	mkdir -p "$dir/empty"
	# A copy of all that belongs together: the next build replaces .tools/vm, also while this guest runs.
	local parts=("$vm"/{disk.img,key,uml})
	[[ $kernel != qemu ]] || parts+=("$vm/vmlinuz")
	flock --shared "$vm.lock" cp -a --sparse=always "${parts[@]}" "$dir/"
	[[ -z ${JOURNAL:-} ]] || tune2fs -O has_journal "$dir/disk.img" >/dev/null
	truncate -s 512M "$dir/swap.img"
	mkswap -q -L swap "$dir/swap.img"
	share=${share:-$dir/empty}
	truncate -s "$(($(du -sm "$share" | cut -f1) * 5 / 4 + 32))M" "$dir/share.img"
	mke2fs -q -F -t ext4 -L podstream -O ^has_journal -d "$share" "$dir/share.img"
	network
	boot
}

end() {
	running || return 0
	kill -KILL "$pid" 2>/dev/null || true
	while running; do sleep 0.05; done
}

down() {
	end
	ip netns delete "$netns" 2>/dev/null || true
	rm -rf "$dir"
}

smoke() {
	trap down EXIT
	up
	remote 'set -e
		state=$(systemctl is-system-running --wait) || { echo "systemd is $state"; systemctl --failed --no-legend; exit 1; }
		for controller in cpu io memory pids; do
			grep -qw "$controller" /sys/fs/cgroup/cgroup.controllers || { echo "cgroup v2 has no controller $controller"; exit 1; }
		done
		ctr version >/dev/null || { echo "containerd does not answer"; journalctl -u containerd -n 20; exit 1; }
		runc --version >/dev/null || { echo "runc does not run"; exit 1; }
		unshare --user --map-root-user true || { echo "the kernel has no user namespaces"; exit 1; }
		uname -r; systemctl --version | sed -n 1p; ctr version | sed -n "2p"; runc --version | sed -n 1p'
}

case ${1:-} in
up | sh | boot | kill | down | smoke)
	command=$1
	shift
	case $command in
	sh) remote "$*" ;;
	kill) end ;;
	*) "$command" "$@" ;;
	esac
	;;
*) sed -n '2,13s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
