#!/bin/bash
# The first process of the guest of hack/vm/iscsi.sh: it starts what a node with open-iscsi has, and runs the tests.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
end() {
	echo "iscsi: the tests ended with $1"
	sync
	echo b >/proc/sysrq-trigger
	sleep 60
}
trap 'end 200' EXIT # a first process that ends is a panic

mount -t proc -o nosuid,nodev,noexec proc /proc
mount -t sysfs -o nosuid,nodev,noexec sysfs /sys
mount -t devtmpfs -o mode=755 dev /dev
exec </dev/null >/dev/ttyS0 2>&1
mkdir -p /dev/pts /dev/shm
mount -t devpts -o mode=620,gid=5 devpts /dev/pts
mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t tmpfs -o mode=755 run /run
mkdir -p /run/lock
mount -t tmpfs -o mode=1777 tmp /tmp
mount -t tmpfs var /var/lib
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /etc/target /var/target
for module in configfs target_core_mod target_core_file iscsi_target_mod iscsi_tcp sd_mod loop dm_mod dm_multipath nf_tables; do
	modprobe "$module" || echo "iscsi: no module $module"
done
mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config

echo guest >/proc/sys/kernel/hostname
ip link set lo up
ip address add 127.0.0.2/8 dev lo
mkdir -p /var/lib/iscsi/{nodes,ifaces} # as open-iscsi makes them
sed -i 's/^iscsid.startup = .*/iscsid.startup = \/usr\/sbin\/iscsid/' /etc/iscsi/iscsid.conf

/usr/lib/systemd/systemd-udevd --daemon
udevadm trigger --type=subsystems --action=add
udevadm trigger --type=devices --action=add
udevadm settle --timeout=30
iscsid
read -r up _ </proc/uptime
echo "iscsi: $(uname -r) has booted, after $up s"

limit=$(</podstream/limit)
cd /podstream || exit
PODSTREAM_ISCSI_GUEST=1 TMPDIR=/tmp timeout --kill-after=10 "$limit" ./test -test.v -test.count=1 -test.timeout="$((limit - 5))s" \
	-test.run="$(</podstream/run)" >/dev/hvc0 2>&1
code=$?
trap - EXIT
end "$code"
