# The first process of a node. Arguments: the directory of its files, its name, and that of the test's tools.
set -euo pipefail
dir=$1 name=$2 tools=$3
mount --make-rprivate /
for lower in etc var opt usr; do
	mkdir -p "$dir/$lower/upper" "$dir/$lower/work"
	mount -t overlay overlay -o "lowerdir=/$lower,upperdir=$dir/$lower/upper,workdir=$dir/$lower/work" "/$lower"
done
mount -t tmpfs tmpfs /run
# The upper directory of an overlay can't be on an overlay.
for data in containerd kubelet etcd; do
	mkdir -p "$dir/$data" "/var/lib/$data"
	mount --bind "$dir/$data" "/var/lib/$data"
done
mount --make-rshared /
hostname "$name"
ip link set lo up
echo 1 >/proc/sys/net/ipv4/ip_forward
echo "127.0.0.1 localhost" >/etc/hosts
echo "nameserver 192.0.2.53" >/etc/resolv.conf
rm -rf /etc/kubernetes /etc/cni/net.d /opt/cni
mkdir -p /etc/containerd /etc/cni/net.d /opt/cni /run/containerd
for plugins in /usr/lib/cni /usr/libexec/cni; do
	[[ ! -d $plugins ]] || ln -sfn "$plugins" /opt/cni/bin
done
for tool in kubeadm kubectl; do
	install -m 0755 "$tools/$tool" /usr/bin/
done
install -m 0755 "$tools/containerd-2/"* /usr/local/bin/
echo ready
# Bash reaps the processes that lose their parents. The end of the test closes the input, and so ends the node.
while read -r _; do :; done
