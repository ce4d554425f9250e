#!/usr/bin/env bash
# Builds the page of `podctl web` from internal/podctl/web/ui into internal/podctl/web/assets, with the packages of the
# lockfile, none of whose scripts run. With the argument "check" it changes nothing, and fails if the checked-in files
# aren't those of a build, or the page is larger than 300 KB.
set -euo pipefail
cd "$(dirname "$0")/.."

web=internal/podctl/web
ui=$web/ui
limit=300000 # bytes, each file by gzip -9

if ! { command -v node && command -v npm; } >/dev/null; then
	echo "web-assets: node 20 or later and npm are needed" >&2
	exit 1
fi
hack/tools.sh buf
stamp=$ui/node_modules/.podstream-stamp
sum=$(sha256sum "$ui/package-lock.json")
if [[ ! -f $stamp || $(<"$stamp") != "$sum" ]]; then
	(cd "$ui" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
	echo "$sum" >"$stamp"
fi

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
mkdir "$out/assets"
(cd "$ui" && ../../../../.tools/buf generate --template buf.gen.yaml --output "$out")
if [[ ${1:-} == check ]]; then
	diff -r "$ui/gen" "$out/gen" || { echo "web-assets: $ui/gen is not generated from the protos: make web-assets" >&2; exit 1; }
else
	rm -rf "$ui/gen"
	cp -r "$out/gen" "$ui/gen"
fi
(cd "$ui" && node_modules/.bin/tsc --noEmit -p . && node build.mjs "$out/assets")

# Files of more than 4 KB are checked in by gzip only: podctl is smaller, and serves them to browsers as they are. Another
# version of gzip may write other bytes, so the contents are compared.
for file in "$out/assets"/*; do
	(($(stat -c %s "$file") <= 4096)) || gzip -9n "$file"
done

# The Go files in the directory embed it.
built() { (cd "$1" && find . -maxdepth 1 -type f ! -name '*.go' ! -name placeholder.html -printf '%f\n' | LC_ALL=C sort); }
plain() { if [[ $1 == *.gz ]]; then gzip -dc "$1"; else cat "$1"; fi; }
if [[ ${1:-} == check ]]; then
	if ! diff <(built "$web/assets") <(built "$out/assets"); then
		echo "web-assets: $web/assets has other files than a build: make web-assets" >&2
		exit 1
	fi
	for name in $(built "$out/assets"); do
		cmp <(plain "$web/assets/$name") <(plain "$out/assets/$name") || { echo "web-assets: $name differs: make web-assets, and commit" >&2; exit 1; }
	done
else
	mkdir -p "$web/assets"
	built "$web/assets" | sed "s|^|$web/assets/|" | xargs -r rm -f
	cp "$out/assets"/* "$web/assets/"
fi

total=0
for name in $(built "$out/assets"); do
	size=$(plain "$out/assets/$name" | gzip -9nc | wc -c)
	# The licences aren't loaded with the page.
	[[ $name == licenses.txt.gz ]] || total=$((total + size))
	printf 'web-assets: %7d bytes by gzip  %s\n' "$size" "$name"
done
printf 'web-assets: %7d bytes by gzip in all, of at most %d\n' "$total" "$limit"
if ((total > limit)); then
	echo "web-assets: the page is too large" >&2
	exit 1
fi
