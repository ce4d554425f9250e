#!/usr/bin/env bash
# Installs what `make run` needs on the machine: a container runtime, CNI plugins, ip and iptables. If the machine's
# containerd is older than 1.7, it also puts a containerd 1.7 into .tools, which takes seconds. With the argument "test"
# it installs what the tests need too: containerd 1.7 and 2 in .tools; Node and npm, for the example in JavaScript; a D-Bus daemon; busybox. With
# the argument "containerd-1.7" or "containerd-2" it installs nothing, but puts a containerd of that version into
# .tools/containerd-1.7 or .tools/containerd-2. With the argument "web" it installs only what `make test-web` needs: Node,
# npm and Chromium. With the argument "podman" it installs only podman, for `make test-side-by-side`. Does nothing if everything is present. Installs only on Debian and Ubuntu
# as root; elsewhere it prints the requirements and fails.
set -euo pipefail
cd "$(dirname "$0")/.."

# containerd 1.7 is the first version that sends container events over CRI. Debian 12 has an older one, and Debian
# 13's runs on Debian 12 with its runc.
containerd17() {
	if [[ -x .tools/containerd-1.7/containerd ]]; then
		return
	fi
	rm -rf .tools/containerd-1.7
	if ! hack/unpack-deb.sh trixie .tools/containerd-root containerd; then
		echo "deps: put containerd 1.7, ctr and containerd-shim-runc-v2 into $PWD/.tools/containerd-1.7" >&2
		exit 1
	fi
	if ! .tools/containerd-root/usr/bin/containerd --version | grep ' 1\.7\.' >/dev/null; then
		echo "deps: the containerd of Debian 13 does not run here, or is not 1.7" >&2
		exit 1
	fi
	ln -sfn containerd-root/usr/bin .tools/containerd-1.7
}

# containerd2 is built from its Go module: a version of it lasts, while Debian's newer packages are replaced.
containerd2_version=v2.4.2
containerd2() {
	local dir=.tools/containerd-2 module=github.com/containerd/containerd/v2
	if [[ -x $dir/ctr && $(cat $dir/version 2>/dev/null) == "$containerd2_version" ]]; then
		return
	fi
	echo "deps: building containerd $containerd2_version"
	rm -rf "$dir"
	local install=(env CGO_ENABLED=0 GOBIN="$PWD/$dir" GOFLAGS= go install -trimpath '-ldflags=-s -w'
		-tags 'no_btrfs no_zfs no_devmapper no_aufs'
		$module/cmd/{containerd,containerd-shim-runc-v2,ctr}@"$containerd2_version")
	# With the modules in Go's cache no network is needed; by itself, go install asks the proxy for the version.
	GOPROXY=file://$(go env GOMODCACHE)/cache/download "${install[@]}" 2>/dev/null || "${install[@]}"
	echo "$containerd2_version" >"$dir/version"
}

case ${1:-} in
containerd-1.7) containerd17; exit ;;
containerd-2) containerd2; exit ;;
esac

has_cni() {
	local dir
	for dir in /usr/lib/cni /opt/cni/bin /usr/libexec/cni; do # as in test/devnode/config.go
		if [[ -x $dir/ptp && -x $dir/host-local && -x $dir/loopback && -x $dir/tuning && -x $dir/portmap ]]; then
			return 0
		fi
	done
	return 1
}

has_node() { command -v node && command -v npm; } >/dev/null
has_chromium() { command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null

packages=()
if [[ ${1:-} == web ]]; then
	has_node || packages+=(nodejs npm)
	has_chromium || packages+=(chromium fonts-dejavu-core)
elif [[ ${1:-} == podman ]]; then
	command -v podman >/dev/null || packages+=(podman)
else
	if ! command -v containerd >/dev/null || ! command -v ctr >/dev/null || ! command -v containerd-shim-runc-v2 >/dev/null; then
		packages+=(containerd)
	fi
	command -v runc >/dev/null || packages+=(runc)
	has_cni || packages+=(containernetworking-plugins)
	command -v ip >/dev/null || packages+=(iproute2)
	{ command -v iptables && command -v ip6tables; } >/dev/null || packages+=(iptables)
fi
if [[ ${1:-} == test ]]; then
	has_node || packages+=(nodejs npm)
	command -v dbus-daemon >/dev/null || packages+=(dbus-daemon)
	command -v busybox >/dev/null || packages+=(busybox)
fi

# older reports whether the machine's containerd is older than 1.7.
older() {
	local version
	version=$(containerd --version | awk '{ print $3 }') # for example 1.6.20~ds1, or v2.1.4
	[[ $(printf '1.7\n%s\n' "${version#v}" | sort -V | sed -n 1p) != 1.7 ]]
}

# finish puts the containerds into .tools.
finish() {
	if [[ ${1:-} == test ]]; then
		containerd17
		containerd2
	elif [[ ${1:-} != web && ${1:-} != podman ]] && older; then
		containerd17
	fi
}

if [[ ${#packages[@]} -eq 0 ]]; then
	finish "$@"
	exit 0
fi

if ! command -v apt-get >/dev/null || [[ $EUID -ne 0 ]]; then
	cat >&2 <<-END
		deps: missing, by the names of Debian's packages: ${packages[*]}
		deps: on Debian or Ubuntu run this as root (sudo $0); elsewhere install containerd 1.7 or later with ctr and
		deps: containerd-shim-runc-v2, runc, the CNI plugins ptp, host-local, loopback, tuning and portmap in /opt/cni/bin,
		deps: iproute2 and iptables.
		deps: Without them, RUNTIME=sim make run and the unit tests work all the same.
	END
	exit 1
fi

echo "deps: installing ${packages[*]}"
export DEBIAN_FRONTEND=noninteractive
install=(apt-get install --yes --quiet --no-install-recommends "${packages[@]}")
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The package lists may be missing or old: retry once with new ones.
if ! "${install[@]}" >"$log" 2>&1 && ! { apt-get update --quiet && "${install[@]}"; } >"$log" 2>&1; then
	cat "$log" >&2
	echo "deps: apt-get failed" >&2
	exit 1
fi
finish "$@"
echo "deps: done"
