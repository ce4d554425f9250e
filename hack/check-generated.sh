#!/usr/bin/env bash
# Fails if the code generated from the protos differs from the committed code. Works on a copy, so it changes nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r proto buf.yaml buf.gen.yaml "$work"
find "$work/proto" -name '*.pb.go' -delete
(cd "$work" && PATH="$OLDPWD/.tools:$PATH" "$OLDPWD/.tools/buf" generate)
if ! diff -r proto "$work/proto"; then
	echo "check-generated: the generated code differs from the protos: run make generate" >&2
	exit 1
fi
