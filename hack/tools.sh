#!/usr/bin/env bash
# Builds development tools into .tools/, in the versions that tools/go.mod pins. Usage: hack/tools.sh [NAME...], all
# without names. TOOLS_MODULE is another module with tools: tools/packages. A tool is built again only after tools/go.mod, tools/go.sum or the Go version changed.
set -euo pipefail
cd "$(dirname "$0")/.."

bin=$PWD/.tools
module=${TOOLS_MODULE:-tools}
mkdir -p "$bin"
want=$(cat "$module/go.mod" "$module/go.sum" <(go env GOVERSION) | sha256sum)

if [[ $# -eq 0 ]]; then
	set -- buf protoc-gen-go protoc-gen-go-grpc protoc-gen-connect-go grpcurl golangci-lint
fi
packages=
for name in "$@"; do
	stamp=$bin/$name.stamp
	if [[ -x $bin/$name && -f $stamp && $(<"$stamp") == "$want" ]]; then
		continue
	fi
	# From the file: `go list tool` would download the modules of all tools.
	packages=${packages:-$(sed -n '/^tool (/,/^)/s/^\t//p' "$module/go.mod")}
	package=$(grep -E "(^|/)$name\$" <<<"$packages") || {
		echo "tools: $module/go.mod has no tool named $name" >&2
		exit 1
	}
	echo "tools: building $name"
	GOBIN=$bin GOFLAGS="${GOFLAGS:-} -mod=readonly" go -C "$module" install -trimpath "$package"
	echo "$want" >"$stamp"
done
