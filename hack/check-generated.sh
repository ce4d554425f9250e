#!/usr/bin/env bash
# Fails if the code generated from the protos differs from the committed code. Works on a copy, so it changes nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
web=internal/podctl/web/proto
mkdir -p "$work/$web"
cp -r proto buf.yaml buf.gen.yaml buf.gen.web.yaml "$work"
cp -r "$web/." "$work/$web"
find "$work/proto" "$work/$web" \( -name '*.pb.go' -o -name '*.connect.go' \) -delete
(cd "$work" && PATH="$OLDPWD/.tools:$PATH" "$OLDPWD/.tools/buf" generate)
(cd "$work" && PATH="$OLDPWD/.tools:$PATH" "$OLDPWD/.tools/buf" generate --template buf.gen.web.yaml)
for dir in proto "$web"; do
	if ! diff -r "$dir" "$work/$dir"; then
		echo "check-generated: the generated code differs from the protos: run make generate" >&2
		exit 1
	fi
done
