# Runs a program in the network and mount namespaces that it was started in: the kubelet writes to fixed directories, to
# sysctls and to iptables, and none of that may reach the machine. What the agents find of the machine is made here too.
# Usage: sh -c isolate.sh sh NODE_IP FACTS CGROUP PROGRAM [ARG...], FACTS being words: cgroup2, swap, hugepages.
set -e
ip=$1 facts=" $2 " cgroup=$3
shift 3
has() { case $facts in *" $1 "*) ;; *) return 1 ;; esac; }

if [ -z "${SHARED:-}" ]; then
	ip link set lo up
	ip address replace "$ip/24" dev lo
else
	# Only mounts below the agent's directory reach the containers.
	while read -r _ _ _ _ at _; do
		[ "$at" = "$SHARED" ] || mount --make-private "$at" 2>/dev/null || true
	done </proc/self/mountinfo
fi
mkdir -p /var/log/containers /var/lib/kubelet
mount -t tmpfs tmpfs /var/log/containers
mount -t tmpfs tmpfs /var/lib/kubelet
fake=/var/lib/kubelet/fake
mkdir "$fake"

# The kubelet refuses to start if it can't set its sysctls, so it finds them set.
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
	kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
	file=$fake/$(basename "${setting%=*}")
	echo "${setting#*=}" >"$file"
	[ ! -e "/proc/sys/${setting%=*}" ] || mount --bind "$file" "/proc/sys/${setting%=*}"
done

# The kubelet refuses to start on User-Mode Linux, whose processor has no frequency.
if ! grep -q '^cpu MHz' /proc/cpuinfo; then
	sed 's/^processor.*/&\ncpu MHz\t\t: 1000.000/' /proc/cpuinfo >"$fake/cpuinfo"
	mount --bind "$fake/cpuinfo" /proc/cpuinfo
fi

# Every node with a simulated runtime has AppArmor.
if [ -z "${SHARED:-}" ]; then
	mount -t tmpfs tmpfs /sys/kernel/security
	mkdir /sys/kernel/security/apparmor
	: >/sys/kernel/security/apparmor/profiles
	mount -t tmpfs tmpfs /sys/module
	mkdir -p /sys/module/apparmor/parameters
	echo Y >/sys/module/apparmor/parameters/enabled
fi

if has swap; then
	sed 's/^SwapTotal:.*/SwapTotal:        4194304 kB/; s/^SwapFree:.*/SwapFree:         4194304 kB/' /proc/meminfo >"$fake/meminfo"
	mount --bind "$fake/meminfo" /proc/meminfo
fi
for size in /sys/kernel/mm/hugepages/hugepages-*; do
	[ -d "$size" ] || continue
	pages=0
	! has hugepages || pages=64
	[ "$pages$(basename "$size")" != 64hugepages-1048576kB ] || pages=2
	echo $pages >"$fake/$(basename "$size")"
	mount --bind "$fake/$(basename "$size")" "$size/nr_hugepages"
done
if has cgroup2 && [ -d /sys/fs/cgroup/unified ]; then
	# The program is in a cgroup that shows a swap controller.
	mkdir -p "/sys/fs/cgroup/unified$cgroup"
	echo $$ >"/sys/fs/cgroup/unified$cgroup/cgroup.procs"
	mount --bind /sys/fs/cgroup/unified /sys/fs/cgroup
	if has swap; then
		mount -t tmpfs tmpfs "/sys/fs/cgroup$cgroup"
		echo max >"/sys/fs/cgroup$cgroup/memory.swap.max"
	fi
fi
exec "$@"
