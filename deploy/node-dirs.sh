#!/bin/sh
# Makes the directories that the daemons use, with their owners. Run it as root, on the node. With systemd it also has
# them made at each boot, as /run is empty then; without systemd, run it again at boot.
#
# podconfigd's user is _podconfigd (podstream.sysusers.conf), if the node has it, or else the number 60943.
set -eu
conf=$(dirname "$0")/podstream.tmpfiles.conf
owner=60943 group=60943
if id -u _podconfigd >/dev/null 2>&1; then
	owner=$(id -u _podconfigd) group=$(id -g _podconfigd)
	echo "node-dirs: podconfigd's user is _podconfigd; docker-compose.yml needs PODSTREAM_USER=$owner:$group"
fi
lines=$(sed "s/_podconfigd _podconfigd\$/$owner $group/; s/_podconfigd\$/$group/" "$conf")

if [ -d /run/systemd/system ]; then
	printf '%s\n' "$lines" >/etc/tmpfiles.d/podstream.conf
	chmod 0644 /etc/tmpfiles.d/podstream.conf
	systemd-tmpfiles --create /etc/tmpfiles.d/podstream.conf
else
	printf '%s\n' "$lines" | while read -r type path mode user group; do
		case $type in
		d) install -d -m "$mode" -o "$user" -g "$group" "$path" ;;
		# A lock that a daemon holds stays.
		f) [ -e "$path" ] || install -m "$mode" -o "$user" -g "$group" /dev/null "$path" ;;
		esac
	done
fi

# podexecd's --kubelet-dir. podexecd makes it with this mode too; a kubelet's keeps its own mode.
[ -d /var/lib/kubelet ] || install -d -m 0750 -o 0 -g 0 /var/lib/kubelet

# podexecd mounts volumes in its container, and the pods must see them: this needs a shared mount. With systemd all
# mounts are shared, without it none. Pods of an earlier version have their volumes in podexecd's --root-dir.
for volumes in /var/lib/kubelet /var/lib/podstream/podexecd; do
	case $(findmnt --noheadings --output PROPAGATION --target "$volumes") in
	*shared*) ;;
	*)
		mount --rbind "$volumes" "$volumes"
		mount --make-rshared "$volumes"
		;;
	esac
done
