#!/usr/bin/env bash
# Unpacks packages of Debian into a directory, without installing them:
#   hack/unpack-deb.sh [--with-dependencies] SUITE DIRECTORY PACKAGE...
# apt fetches them and checks Debian's signatures, with its own sources, lists and cache, so that the machine's are
# not changed. Does nothing if the directory exists.
set -euo pipefail
fetch=(download)
if [[ $1 == --with-dependencies ]]; then
	fetch=(install --download-only --yes --no-install-recommends)
	shift
fi
suite=$1 dest=$2
shift 2

if [[ -d $dest ]]; then
	exit 0
fi
keys=/usr/share/keyrings/debian-archive-keyring.gpg
if ! command -v apt-get >/dev/null || [[ ! -r $keys ]]; then
	echo "unpack-deb: $* of Debian ($suite) needs apt-get and $keys (package debian-archive-keyring)" >&2
	exit 1
fi
# The machine's mirror for Debian, if its package lists name one.
mirror=$(apt-get indextargets --format '$(ORIGIN)/$(LABEL) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
	awk '$1 == "Debian/Debian" && !found { found = 1; print $2 }') || true
mirror=${mirror:-http://deb.debian.org/debian}

echo "unpack-deb: unpacking $* of Debian ($suite) from $mirror" >&2
mkdir -p "$(dirname "$dest")"
dir=$(mktemp -d "$PWD/$dest.XXXXXX")
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir"/state/lists/partial "$dir"/cache/archives/partial
echo "deb [signed-by=$keys] $mirror $suite main" >"$dir/sources.list"
options=(
	-o Dir::Etc::sourcelist="$dir/sources.list" -o Dir::Etc::sourceparts=- -o Dir::Etc::preferences=- -o Dir::Etc::preferencesparts=-
	-o Dir::State="$dir/state" -o Dir::State::status=/dev/null -o Dir::Cache="$dir/cache"
	-o Acquire::Languages=none -o APT::Sandbox::User=root -o APT::Update::Error-Mode=any --quiet
)
if ! { apt-get "${options[@]}" update && cd "$dir" && apt-get "${options[@]}" "${fetch[@]}" "$@"; } >"$dir/log" 2>&1; then
	cat "$dir/log" >&2
	echo "unpack-deb: cannot fetch $* of Debian ($suite) for the architecture $(dpkg --print-architecture)" >&2
	exit 1
fi
for deb in "$dir"/*.deb "$dir"/cache/archives/*.deb; do
	[[ -e $deb ]] || continue
	dpkg-deb --extract "$deb" "$dir/root"
done
cd - >/dev/null
mv "$dir/root" "$dest"
