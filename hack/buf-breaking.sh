#!/usr/bin/env bash
# Compares the protos with those of the last release, or of the main branch if there is no release: a .v1 service only
# grows.
set -euo pipefail
cd "$(dirname "$0")/.."

base=$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null || true)
if [[ -z $base ]]; then
	for ref in origin/main main; do
		if git rev-parse --quiet --verify "$ref^{commit}" >/dev/null; then
			base=$ref
			break
		fi
	done
fi
if [[ -z $base ]] || ! git cat-file -e "$base:proto" 2>/dev/null; then
	echo "buf breaking: skipped, for there is neither a release tag nor a main branch with protos to compare with"
	exit 0
fi
echo "buf breaking: against $base"
# Read from git here: buf's own way needs a clone that isn't shallow.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git archive "$base" proto buf.yaml | tar -x -C "$work"
# Only this module: podweb.v1 is private to one build of podctl.
.tools/buf breaking proto --against "$work/proto"
