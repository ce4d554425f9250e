#!/usr/bin/env bash
# Installs what Podstream's tests need of the machine: a container runtime, CNI plugins, ip and iptables; with the argument "node" also Node
# and npm, for the example in JavaScript. With the argument "containerd-1.7" it installs nothing, but unpacks a second containerd
# into .tools/containerd-1.7. Does nothing, at once, where it is all there. Installs by itself only on Debian and Ubuntu as root;
# elsewhere it says what is needed and fails.
set -euo pipefail
cd "$(dirname "$0")/.."

# containerd 1.7 is the first to send container events over CRI; that of Debian 12 is older. Debian 13's runs on Debian 12 too,
# beside its runc. apt fetches it and checks Debian's signatures, with sources, lists and cache of its own: the machine's stay.
containerd17() (
	dest=$PWD/.tools/containerd-1.7
	keys=/usr/share/keyrings/debian-archive-keyring.gpg
	if [[ -x $dest/containerd ]]; then
		exit 0
	fi
	if ! command -v apt-get >/dev/null || [[ ! -r $keys ]]; then
		cat >&2 <<-END
			deps: containerd 1.7 is taken from Debian 13, which needs apt-get and $keys
			deps: (package debian-archive-keyring). Elsewhere put containerd, ctr and containerd-shim-runc-v2 into $dest.
		END
		exit 1
	fi
	# The mirror that the machine uses for Debian, if it has package lists by which to know it.
	mirror=$(apt-get indextargets --format '$(ORIGIN)/$(LABEL) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
		awk '$1 == "Debian/Debian" && !found { found = 1; print $2 }') || true
	mirror=${mirror:-http://deb.debian.org/debian}

	echo "deps: unpacking the containerd of Debian 13 from $mirror"
	mkdir -p .tools
	dir=$(mktemp -d "$dest.XXXXXX")
	trap 'rm -rf "$dir"' EXIT
	cd "$dir"
	mkdir -p state/lists/partial cache/archives/partial bin
	echo "deb [signed-by=$keys] $mirror trixie main" >sources.list
	options=(
		-o Dir::Etc::sourcelist="$dir/sources.list" -o Dir::Etc::sourceparts=- -o Dir::Etc::preferences=- -o Dir::Etc::preferencesparts=-
		-o Dir::State="$dir/state" -o Dir::State::status=/dev/null -o Dir::Cache="$dir/cache"
		-o Acquire::Languages=none -o APT::Sandbox::User=root -o APT::Update::Error-Mode=any --quiet
	)
	if ! { apt-get "${options[@]}" update && apt-get "${options[@]}" download containerd; } >log 2>&1; then
		cat log >&2
		echo "deps: can't fetch Debian 13's containerd for the architecture $(dpkg --print-architecture)" >&2
		exit 1
	fi
	dpkg-deb --extract containerd_*.deb root
	mv root/usr/bin/{containerd,ctr,containerd-shim-runc-v2} bin/
	if ! bin/containerd --version | grep -q ' 1\.7\.'; then
		echo "deps: Debian 13's containerd doesn't run here, or isn't 1.7" >&2
		exit 1
	fi
	rm -rf "$dest"
	mv bin "$dest"
	echo "deps: done"
)

if [[ ${1:-} == containerd-1.7 ]]; then
	containerd17
	exit
fi

has_cni() {
	local dir
	for dir in /usr/lib/cni /opt/cni/bin /usr/libexec/cni; do # as in test/devnode/config.go
		if [[ -x $dir/ptp && -x $dir/host-local && -x $dir/loopback && -x $dir/tuning && -x $dir/portmap ]]; then
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
{ command -v iptables && command -v ip6tables; } >/dev/null || packages+=(iptables)
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
# The package lists may be missing or old: then once more with new ones.
if ! "${install[@]}" >"$log" 2>&1 && ! { apt-get update --quiet && "${install[@]}"; } >"$log" 2>&1; then
	cat "$log" >&2
	echo "deps: apt-get failed" >&2
	exit 1
fi
echo "deps: done"
