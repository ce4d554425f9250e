# An older version of podconfigd.service has another user: after a downgrade the store and the lock must be that user's. A
	# newer one's files are given by its own systemd-tmpfiles. systemd-tmpfiles follows no link.
	user=$(sed -n 's/^User=//p' /usr/lib/systemd/system/podconfigd.service 2>/dev/null || true)
	group=$(sed -n 's/^Group=//p' /usr/lib/systemd/system/podconfigd.service 2>/dev/null || true)
	if [ -n "$user" ] && [ -n "$group" ] && [ "$user" != _podconfigd ]; then
		printf 'Z %s - %s %s\nz %s - %s %s\n' /var/lib/podstream/podconfigd "$user" "$group" '/run/podstream/podconfigd.sock*' "$user" "$group" |
			systemd-tmpfiles --create - || true
	fi
