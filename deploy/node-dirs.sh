#!/bin/sh
# Makes the directories that docker-compose.yml mounts, with the owners that the daemons need. Run it as root, on the
# node. With systemd it also has them made at each boot, as /run is empty then; without systemd, run it again at boot.
set -eu
conf=$(dirname "$0")/podstream.tmpfiles.conf

if [ -d /run/systemd/system ]; then
	install -m 0644 "$conf" /etc/tmpfiles.d/podstream.conf
	systemd-tmpfiles --create /etc/tmpfiles.d/podstream.conf
else
	grep '^d ' "$conf" | while read -r _ path mode user group; do
		install -d -m "$mode" -o "$user" -g "$group" "$path"
	done
fi

# podexecd mounts volumes in its container, and the pods must see them: this needs a shared mount. With systemd all
# mounts are shared, without it none.
volumes=/var/lib/podstream/podexecd
case $(findmnt --noheadings --output PROPAGATION --target "$volumes") in
*shared*) ;;
*)
	mount --bind "$volumes" "$volumes"
	mount --make-shared "$volumes"
	;;
esac
