	# Podconfigd's store comes again from the sources. rm follows no symbolic link, and leaves other file systems.
	# Podexecd's directory stays while it, or --kubelet-dir, holds a pod's: the pod may run, and is known by the IDs that
	# stand there.
	state=/var/lib/podstream
	if [ -d "$state" ] && [ ! -L "$state" ]; then
		if [ -n "$(find "$state/podexecd/pods" /var/lib/kubelet/pods -mindepth 1 -maxdepth 1 2>/dev/null)" ] ||
			grep -q " $state/podexecd/" /proc/self/mountinfo; then
			echo "podstream: pods may still run: $state stays; remove it when they are gone (docs/install.md)" >&2
		else
			rm -rf --one-file-system "$state/podconfigd" "$state/podexecd" || true
			rmdir --ignore-fail-on-non-empty "$state" 2>/dev/null || true
		fi
	fi
