#!/usr/bin/env bash
# Runs every fuzz target. Usage: hack/fuzz.sh SECONDS, the total time, divided equally.
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

# run DIR NAME fuzzes one target.
run() {
	# No minimizing: it would take a minute by itself after each interesting input.
	go test -run='^$' -fuzz="^$2\$" -fuzztime="${each}s" -fuzzminimizetime=1x "$1"
}

# Before Go 1.27 the end of the time can be reported as a failure (golang/go#75804): this error, and no input. Such a
# target must succeed in one of three attempts.
output=$(mktemp)
trap 'rm -f "$output"' EXIT
for target in "${targets[@]}"; do
	read -r dir name <<<"$target"
	for attempt in 1 2 3; do
		echo "fuzz: $name in $dir for $each s"
		if run "$dir" "$name" 2>&1 | tee "$output"; then
			break
		elif [[ $attempt -eq 3 ]] || ! grep -A1 "^--- FAIL: $name " "$output" | grep -x '    context deadline exceeded' >/dev/null || grep -q 'Failing input' "$output"; then
			exit 1
		fi
	done
done
