#!/usr/bin/env bash
# Runs every fuzz target for a while. Usage: hack/fuzz.sh SECONDS, in all, shared out evenly.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:?usage: hack/fuzz.sh SECONDS}
targets=()
while read -r file name; do
	targets+=("$(dirname "$file") $name")
done < <(grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' -- . | sed 's/:func / /' | sort)

if [[ ${#targets[@]} -eq 0 ]]; then
	echo "fuzz: there are no targets"
	exit 0
fi
each=$((seconds / ${#targets[@]}))
[[ $each -ge 1 ]] || each=1
for target in "${targets[@]}"; do
	read -r dir name <<<"$target"
	echo "fuzz: $name in $dir for $each s"
	# No minimizing: it would take a minute by itself once something was found that is of interest.
	go test -run='^$' -fuzz="^$name\$" -fuzztime="${each}s" -fuzzminimizetime=1x "$dir"
done
