#!/usr/bin/env bash
# Installs what Podstream's tests need of the machine: a container runtime, CNI plugins and ip; with the argument "node" also Node
# and npm, for the example in JavaScript. Does nothing, at once, where it is all there. Installs by itself only on Debian and Ubuntu as root; elsewhere it says what is needed and fails.
set -euo pipefail

has_cni() {
	local dir
	for dir in /usr/lib/cni /opt/cni/bin /usr/libexec/cni; do # as in test/devnode/config.go
		if [[ -x $dir/ptp && -x $dir/host-local && -x $dir/loopback ]]; then
			return 0
		fi
	done
	return 1
}

packages=()
if ! command -v containerd >/dev/null || ! command -v ctr >/dev/null || ! command -v containerd-shim-runc-v2 >/dev/null; then
	packages+=(containerd)
fi
command -v runc >/dev/null || packages+=(runc)
has_cni || packages+=(containernetworking-plugins)
command -v ip >/dev/null || packages+=(iproute2)
if [[ ${1:-} == node ]] && ! { command -v node && command -v npm; } >/dev/null; then
	packages+=(nodejs npm)
fi

if [[ ${#packages[@]} -eq 0 ]]; then
	exit 0
fi

if ! command -v apt-get >/dev/null || [[ $EUID -ne 0 ]]; then
	cat >&2 <<-END
		deps: missing, by the names of Debian's packages: ${packages[*]}
		deps: on Debian or Ubuntu run this as root (sudo $0); elsewhere install containerd 1.6 or later with ctr and
		deps: containerd-shim-runc-v2, runc, the CNI plugins ptp, host-local and loopback in /opt/cni/bin, and iproute2.
		deps: Without them, RUNTIME=sim make run and the unit tests work all the same.
	END
	exit 1
fi

echo "deps: installing ${packages[*]}"
export DEBIAN_FRONTEND=noninteractive
install=(apt-get install --yes --quiet --no-install-recommends "${packages[@]}")
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The package lists may be missing or old: then once more with new ones.
if ! "${install[@]}" >"$log" 2>&1 && ! { apt-get update --quiet && "${install[@]}"; } >"$log" 2>&1; then
	cat "$log" >&2
	echo "deps: apt-get failed" >&2
	exit 1
fi
echo "deps: done"
