#!/usr/bin/env bash
# Builds the packages podstream and podstream-kubelet into dist/, as .deb and .rpm, with an SBOM of each program and SHA256SUMS.
# Usage: hack/packages.sh [ARCHITECTURE...], of amd64 and arm64; both by default. Two builds of one commit give the same bytes.
# PACKAGE_VERSION and SOURCE_DATE_EPOCH replace the version and the time, which are the commit's.
set -euo pipefail
cd "$(dirname "$0")/.."

[[ $# -gt 0 ]] || set -- amd64 arm64
export TZ=UTC LC_ALL=C
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
if [[ -z ${PACKAGE_VERSION:-} ]]; then
	if tag=$(git describe --tags --match 'v[0-9]*' 2>/dev/null); then
		PACKAGE_VERSION=$(sed 's/^v//; s/-/+/; s/-/./g' <<<"$tag")
	else
		# Before the first release: in the order of the commits' times.
		PACKAGE_VERSION=0.0.0+git$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S).$(git rev-parse --short=10 HEAD)
	fi
fi
bin=$PWD/.tools
module=tools/packages
want=$(cat "$module/go.mod" "$module/go.sum" <(go env GOVERSION) | sha256sum)
mkdir -p "$bin"
for package in $(sed -n '/^tool (/,/^)/s/^\t//p' "$module/go.mod"); do
	name=$(sed -E 's#/v[0-9]+$##; s#.*/##' <<<"$package")
	[[ -x $bin/$name && $(cat "$bin/$name.stamp" 2>/dev/null) == "$want" ]] && continue
	echo "packages: building $name"
	CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -mod=readonly" go -C "$module" build -trimpath -o "$bin/$name" "$package"
	echo "$want" >"$bin/$name.stamp"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p dist

# binaries ARCHITECTURE DIRECTORY
binaries() {
	GOARCH=$1 CGO_ENABLED=0 go build -trimpath -buildvcs=false -tags grpcnotrace \
		-ldflags "-s -w -X github.com/podstream/podstream/internal/daemon/process.version=$PACKAGE_VERSION" -o "$2/" \
		./cmd/podconfigd ./cmd/podexecd ./cmd/podctl ./cmd/kubelet
}
binaries "$(go env GOHOSTARCH)" "$work/host"
KUBELET_VERSION=$("$work/host/kubelet" --version | sed -E 's/^Kubernetes v([0-9.]+).*/\1/')

# man NAME SECTION ONE-LINE [SUBCOMMAND...]: a page from the program's help.
man() {
	local name=$1 section=$2 what=$3 dir=$work/man/man$2
	shift 3
	mkdir -p "$dir"
	hack/manpage.sh "$work/host/$name" "$section" "$what" "$@" | "$bin/go-md2man" >"$dir/$(IFS=-; echo "$name${*:+-}$*").$section"
}
man podconfigd 8 "the pods that a node should run"
man podexecd 8 "runs the pods of a node"
man podctl 1 "shows the pods of a node and their sources"
for command in $("$work/host/podctl" --help | awk '/^Available Commands:/ { on = 1; next } /^$/ { on = 0 } on && $1 != "help" && $1 != "completion" { print $1 }'); do
	man podctl 1 "$("$work/host/podctl" --help | awk -v c="$command" '$1 == c { sub(/^ *[^ ]+ +/, ""); print; exit }')" "$command"
done
man kubelet 8 "takes the kubelet's command line, and runs podconfigd and podexecd"
find "$work/man" -type f -exec gzip -9n {} +

# documents STAGE PACKAGE PROGRAM...: the licence, and the SBOM of each program.
documents() {
	local stage=$1 package=$2 program doc=$1/usr/share/doc/$2
	shift 2
	mkdir -p "$doc"
	cat deploy/packages/copyright LICENSE | install -m 0644 /dev/stdin "$doc/copyright"
	for program in "$@"; do
		"$bin/cyclonedx-gomod" bin -json -noserial -notimestamp -version "v$PACKAGE_VERSION" -output "$doc/$program.cdx.json" "$work/bin-$arch/$program" 2>"$work/sbom.log" ||
			{ cat "$work/sbom.log" >&2; return 1; }
		install -m 0644 "$doc/$program.cdx.json" "dist/${program}_${PACKAGE_VERSION}_$arch.cdx.json"
	done
}

for arch in "$@"; do
	stage=$work/$arch
	binaries "$arch" "$work/bin-$arch"
	install -D -t "$stage/usr/bin" "$work/bin-$arch"/{podconfigd,podexecd,podctl}
	for unit in deploy/systemd/*; do
		sed 's#/usr/local/bin/#/usr/bin/#' "$unit" | install -D -m 0644 /dev/stdin "$stage/usr/lib/systemd/system/$(basename "$unit")"
	done
	install -D -m 0644 deploy/podstream.sysusers.conf "$stage/usr/lib/sysusers.d/podstream.conf"
	install -D -m 0644 deploy/podstream.tmpfiles.conf "$stage/usr/lib/tmpfiles.d/podstream.conf"
	mkdir -p "$stage/usr/share/man"
	cp -r "$work/man/man1" "$stage/usr/share/man/"
	install -D -m 0644 -t "$stage/usr/share/man/man8" "$work"/man/man8/pod*
	"$work/host/podctl" completion bash | install -D -m 0644 /dev/stdin "$stage/usr/share/bash-completion/completions/podctl"
	"$work/host/podctl" completion zsh | install -D -m 0644 /dev/stdin "$stage/usr/share/zsh/vendor-completions/_podctl"
	"$work/host/podctl" completion fish | install -D -m 0644 /dev/stdin "$stage/usr/share/fish/vendor_completions.d/podctl.fish"
	documents "$stage" podstream podconfigd podexecd podctl
	gzip -9n <CHANGELOG.md | install -D -m 0644 /dev/stdin "$stage/usr/share/doc/podstream/changelog.gz"
	install -D -m 0644 -t "$stage/usr/share/doc/podstream" README.md docs/*.md

	install -D -t "$stage-kubelet/usr/bin" "$work/bin-$arch/kubelet"
	install -D -m 0644 -t "$stage-kubelet/usr/lib/systemd/system" deploy/packages/kubelet.service
	install -D -m 0644 -t "$stage-kubelet/usr/share/man/man8" "$work"/man/man8/kubelet*
	documents "$stage-kubelet" podstream-kubelet kubelet
	gzip -9n <CHANGELOG.md | install -D -m 0644 /dev/stdin "$stage-kubelet/usr/share/doc/podstream-kubelet/changelog.gz"
	find "$stage" "$stage-kubelet" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +

	for package in podstream podstream-kubelet; do
		# nfpm replaces variables in some fields only.
		sed "s#\${GOARCH}#$arch#; s#\${STAGE}#$stage#; s#\${PACKAGE_VERSION}#$PACKAGE_VERSION#; s#\${KUBELET_VERSION}#$KUBELET_VERSION#" \
			"deploy/packages/$package.yaml" >"$work/nfpm.yaml"
		for packager in deb rpm; do
			"$bin/nfpm" package --config "$work/nfpm.yaml" --packager "$packager" --target dist/
		done
	done
done
(cd dist && sha256sum -- *.deb *.rpm *.json >SHA256SUMS)
