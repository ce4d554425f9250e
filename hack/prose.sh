#!/usr/bin/env bash
# Finds words that CONTRIBUTING.md's section "Prose" replaces, in all tracked prose and code. Usage: hack/prose.sh [PATH...]
# A line that must keep such a word, because it quotes something, contains "prose:ok".
set -euo pipefail
cd "$(dirname "$0")/.."
# Each row: an extended regular expression, and what to write in its place.
words=(
	'\btells? whether\b|reports whether; determine whether'
	'\b(?-i:a)new\b|again' # HeldObjects.Anew is part of the client's API
	'\bwhoever\b|the caller, the client, the user, ...: name it'
	'\bwhosoever\b|name it'
	'(?<![.":])\bnobody\b(?!["":])|no caller, no pod, no consumer, ...: name it'
	'\bsomebody\b|another process, a user, ...: name it'
	'\banybody\b|any caller, a consumer, ...: name it'
	'\beverybody\b|all callers, all consumers, ...: name them'
	'\b(earlier|next|former|previous) (life|lives)\b|before the restart; after the restart'
	'\bbegins? a life\b|starts'
	'\bno news\b|no change'
	'\bhas its turn\b|is next; runs'
	'\bwho (has|knows|asks|is|wants|reads|writes|calls)\b|the caller, the user, ...: name it'
)
found=0
for row in "${words[@]}"; do
	pattern=${row%|*} instead=${row##*|}
	while IFS= read -r line; do
		printf '%s\n\tinstead: %s\n' "$line" "$instead"
		found=$((found + 1))
	done < <(git grep -nIiP "$pattern" -- "${@:-.}" ':!*.pb.go' ':!hack/prose.sh' ':!**/testdata/**' ':!CHANGELOG.md' | grep -v 'prose:ok' || true)
done
if ((found)); then
	echo "$found lines to rewrite: see CONTRIBUTING.md, Prose" >&2
	exit 1
fi
