#!/usr/bin/env bash
# hack/retest.sh go test FLAG... PACKAGE...: runs the command. If tests of at most three packages fail, it runs these packages
# once more, alone, and succeeds if they pass. CI uses it: its machines stop for seconds at times. It lists these tests as
# FLAKY; each is a fault to mend. A data race, a panic, a time-out, or a package that doesn't build fails at once.
set -euo pipefail

flags=()
while (($#)) && [[ $1 != ./* && $1 != github.com/* ]]; do
	flags+=("$1")
	shift
done
output=$(mktemp)
trap 'rm -f "$output"' EXIT

status=0
"${flags[@]}" "$@" 2>&1 | tee "$output" || status=$?
((status)) || exit 0
mapfile -t failed < <(awk -F'\t' '$1 == "FAIL" && NF == 3 { print $2 }' "$output")
tests=$(sed -nE 's/^ *--- FAIL: ([^ ]+) .*/\1/p' "$output" | sort -u | paste -sd' ')
if grep -qE '^(WARNING: DATA RACE|panic: |fatal error: |FAIL.*\[.* failed\])' "$output" || [[ -z $tests ]] ||
	((${#failed[@]} == 0 || ${#failed[@]} > 3)); then
	exit "$status"
fi
printf '\nretest: %s failed. Once more, alone: %s\n' "$tests" "${failed[*]}"
"${flags[@]}" -p=1 "${failed[@]}"
printf 'retest: FLAKY, passed the second time: %s\n' "$tests"
