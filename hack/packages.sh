#!/usr/bin/env bash
# Builds packages into dist/, with an SBOM of each program and SHA256SUMS: podstream and podstream-kubelet, deb and rpm. Two runs
# on one commit give the same bytes. Usage: hack/packages.sh [ARCH...], default: amd64 arm64. PACKAGE_VERSION overrides the
# version, DIST the directory; KEEP_SCRIPTS is a directory that gets the packages' scripts, for tests.
set -euo pipefail
cd "$(dirname "$0")/.."
[[ $# -gt 0 ]] || set -- amd64 arm64
dist=${DIST:-dist}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
umask 022

# A version that dpkg and rpm sort alike: of the tag, or before any, of the commit's time.
version() {
	local tag
	if tag=$(git describe --tags --match 'v[0-9]*' 2>/dev/null); then
		tag=${tag#v}
		tag=${tag//-rc/~rc}
		echo "${tag//-/+}"
	else
		echo "0.0~git$(date --utc --date="@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S).$(git rev-parse --short=12 HEAD)"
	fi
}
version=${PACKAGE_VERSION:-$(version)}
[[ $version =~ ^[0-9][A-Za-z0-9.+~]*$ ]] || { echo "packages: $version is no version of a package" >&2; exit 1; }
# The kubelet's version: that of k8s.io/kubelet, with 1 for 0.
kubelet=1.$(go list -m -f '{{.Version}}' k8s.io/kubelet | cut -d . -f 2-)

TOOLS_MODULE=tools/packages hack/tools.sh nfpm cyclonedx-gomod
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$dist"
rm -f "$dist"/*.deb "$dist"/*.rpm "$dist"/*.cdx.json "$dist/SHA256SUMS"

# The pages are made by programs of this machine.
native=$(go env GOHOSTARCH)
programs=(podconfigd podexecd podctl kubelet)
for arch in $(printf '%s\n' "$@" "$native" | sort -u); do
	GOOS=linux GOARCH=$arch GOFLAGS="${GOFLAGS:-} -buildvcs=false" make --no-print-directory build BINDIR="$work/$arch" VERSION="$version"
done

# fill replaces @NAME@ and so on in a template: a word by the variable of that name.
fill() {
	local text name
	text=$(<"$1")
	for name in FUNCTIONS PREPARE HAND_OVER BEFORE_START AFTER_RESTART PURGE UNITS NAME ARCH VERSION MTIME DESCRIPTION STAGE CONTENTS RELATIONS SCRIPTS; do
		text=${text//"@$name@"/"${!name-}"}
	done
	printf '%s\n' "$text"
}

stage_docs() { # NAME PROGRAM...
	local name=$1 doc=$stage/usr/share/doc/$1 program
	shift
	mkdir -p "$doc"
	cp deploy/packages/copyright "$doc/"
	printf '%s (%s) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- Podstream maintainers <maintainers@podstream.invalid>  %s\n' \
		"$name" "$version" "$(date --utc --date="@$SOURCE_DATE_EPOCH" -R)" | gzip -9n >"$doc/changelog.Debian.gz"
	install -D -m 0644 deploy/packages/lintian-overrides "$stage/usr/share/lintian/overrides/$name"
	sed -i "s/@NAME@/$name/" "$stage/usr/share/lintian/overrides/$name"
	gzip -9n <CHANGELOG.md >"$doc/changelog.gz"
	for program in "$@"; do
		.tools/cyclonedx-gomod bin -json -noserial -notimestamp -std -version "$version" -output "$doc/$program.cdx.json" "$work/$ARCH/$program"
		cp "$doc/$program.cdx.json" "$dist/${program}_${version}_$ARCH.cdx.json"
	done
}

stage_podstream() {
	mkdir -p "$stage"/usr/bin "$stage"/usr/lib/{systemd/system,sysusers.d,tmpfiles.d}
	install -m 0755 "$work/$ARCH"/{podconfigd,podexecd,podctl} "$stage/usr/bin/"
	for unit in deploy/systemd/*; do
		sed 's|/usr/local/bin/|/usr/bin/|' "$unit" >"$stage/usr/lib/systemd/system/${unit##*/}"
	done
	install -m 0644 deploy/podstream.sysusers.conf "$stage/usr/lib/sysusers.d/podstream.conf"
	install -m 0644 deploy/podstream.tmpfiles.conf "$stage/usr/lib/tmpfiles.d/podstream.conf"
	hack/manual.sh "$work/$native" "$stage" podconfigd podexecd podctl
	stage_docs podstream podconfigd podexecd podctl
	install -m 0644 deploy/packages/README.Debian docs/{install,operate,configuration,flags,security,troubleshoot,kubelet}.md \
		deploy/rbac.yaml deploy/gateway-rbac.yaml "$stage/usr/share/doc/podstream/"
}

stage_podstream_kubelet() {
	local unit
	mkdir -p "$stage"/usr/bin "$stage"/usr/lib/systemd/system
	install -m 0755 "$work/$ARCH/kubelet" "$stage/usr/bin/"
	install -m 0644 deploy/packages/units/kubelet.service "$stage/usr/lib/systemd/system/"
	install -D -m 0644 deploy/packages/units/kubelet.service.conf "$stage/usr/lib/systemd/system/kubelet.service.d/50-podstream.conf"
	for unit in podconfigd.service podconfigd.socket podexecd.service podexecd.socket; do
		install -D -m 0644 "deploy/packages/units/beside-kubelet.${unit##*.}.conf" "$stage/usr/lib/systemd/system/$unit.d/50-kubelet.conf"
	done
	hack/manual.sh "$work/$native" "$stage" kubelet
	stage_docs podstream-kubelet kubelet
}

# pack makes the packages of NAME from its stage, in each format.
pack() {
	local format script
	FUNCTIONS=$(fill deploy/packages/functions.sh)
	find "$stage" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
	for format in deb rpm; do
		SCRIPTS=
		if [[ $format == rpm ]]; then mark_docs; fi
		mkdir -p "$work/scripts"
		for script in deploy/packages/$format/*; do
			fill "$script" >"$work/scripts/${script##*/}"
			if [[ -n ${KEEP_SCRIPTS:-} ]]; then install -D -m 0644 "$work/scripts/${script##*/}" "$KEEP_SCRIPTS/$NAME/$format/${script##*/}"; fi
			case ${script##*/} in
			preinst) SCRIPTS+="  preinstall: $work/scripts/preinst"$'\n' ;;
			postinst | post) SCRIPTS+="  postinstall: $work/scripts/${script##*/}"$'\n' ;;
			prerm | preun) SCRIPTS+="  preremove: $work/scripts/${script##*/}"$'\n' ;;
			postrm | postun) SCRIPTS+="  postremove: $work/scripts/${script##*/}"$'\n' ;;
			esac
		done
		case $format$NAME in
		debpodstream) RELATIONS=$'depends: ["systemd | systemd-standalone-sysusers", "systemd | systemd-standalone-tmpfiles"]\nrecommends: [containerd | cri-o, iptables, mount, e2fsprogs]\nsuggests: [podstream-kubelet, nfs-common, open-iscsi]' ;;
		rpmpodstream) RELATIONS=$'license: Apache-2.0\ndepends: [systemd]\nrecommends: [util-linux, e2fsprogs]\nsuggests: [nfs-utils, iscsi-initiator-utils]' ;;
		debpodstream-kubelet) RELATIONS="depends: [podstream]"$'\n'"provides: [\"kubelet (= $kubelet)\"]"$'\nconflicts: [kubelet]\nreplaces: [kubelet]' ;;
		# No Obsoletes: an update of the machine would replace every kubelet.
		rpmpodstream-kubelet) RELATIONS="license: Apache-2.0"$'\n'"depends: [podstream]"$'\n'"provides: [\"kubelet = $kubelet\"]"$'\nconflicts: [kubelet]' ;;
		esac
		fill deploy/packages/nfpm.yaml >"$work/nfpm.yaml"
		.tools/nfpm package --config "$work/nfpm.yaml" --packager $format --target "$dist/" >/dev/null
	done
	rm -rf "$stage" "$work/scripts" "$work/docs"
}

# mark_docs prepares the stage for an rpm: Debian's files leave it, and documentation is marked as such (dnf's tsflags=nodocs).
mark_docs() {
	local file
	rm -rf "$stage/usr/share/lintian" "$stage/usr/share/doc/$NAME"/{README.Debian,changelog.Debian.gz}
	mkdir -p "$work/docs"
	mv "$stage"/usr/share/{doc,man} "$work/docs/"
	while read -r file; do
		CONTENTS+=$'\n'"- {src: $work/docs/$file, dst: /usr/share/$file, type: doc, file_info: {mode: 0644}}"
	done < <(cd "$work/docs" && find . -type f -printf '%P\n' | sort)
}

VERSION=$version MTIME=$(date --utc --date="@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
for ARCH in "$@"; do
	stage=$work/stage STAGE=$work/stage
	NAME=podstream UNITS="podconfigd.socket podconfigd.service podexecd.socket podexecd.service"
	DESCRIPTION=$'Kubernetes node agent as two daemons\n  podconfigd reads pod manifests and serves them as a gRPC stream; podexecd runs\n  the pods of the stream on containerd or CRI-O. podctl shows both.'
	CONTENTS='- {src: deploy/packages/etc/podconfigd.env, dst: /etc/podstream/podconfigd.env, type: config|noreplace, file_info: {mode: 0644}}
- {src: deploy/packages/etc/podexecd.env, dst: /etc/podstream/podexecd.env, type: config|noreplace, file_info: {mode: 0644}}
- {dst: /etc/podstream/manifests, type: dir, file_info: {mode: 0755}}'
	# shellcheck disable=SC2034
	PREPARE='systemd-sysusers podstream.conf
	# It refuses paths that another user than root could replace; a machine without a writable /run is no reason to fail.
	systemd-tmpfiles --create podstream.conf || echo "podstream: systemd-tmpfiles could not make all directories" >&2
	for file in /etc/systemd/system/podconfigd.service /etc/systemd/system/podexecd.service; do
		if [ -e "$file" ]; then echo "podstream: $file takes precedence over the package'"'"'s unit" >&2; fi
	done' HAND_OVER=$(<deploy/packages/hand-over.sh) BEFORE_START=: PURGE=$(<deploy/packages/purge.sh)
	# shellcheck disable=SC2034
	AFTER_RESTART='# With podstream-kubelet the daemons are children of kubelet.service.
	if [ -e /usr/lib/systemd/system/podexecd.service.d/50-kubelet.conf ]; then invoke try-restart kubelet.service; fi'
	stage_podstream
	pack
	NAME=podstream-kubelet UNITS=kubelet.service
	DESCRIPTION=$'Podstream with the command line of the kubelet\n  kubelet takes a kubelet'"'"$'s flags and configuration, and runs podconfigd and\n  podexecd with them. It takes the place of the package kubelet.'
	# shellcheck disable=SC2034
	CONTENTS= PREPARE=: HAND_OVER=: PURGE=: AFTER_RESTART=: BEFORE_START='# Only if kubelet.service starts instead.
			if systemctl is-enabled --quiet kubelet.service 2>/dev/null && allowed start kubelet.service; then
				for unit in podexecd.socket podexecd.service podconfigd.socket podconfigd.service; do
					if active "$unit"; then invoke stop "$unit"; fi
				done
			fi'
	stage_podstream_kubelet
	pack
done
(cd "$dist" && sha256sum -- *.deb *.rpm *.cdx.json >SHA256SUMS)
echo "packages: $dist has $(ls "$dist" | wc -l) files of version $version"
