#!/usr/bin/env bash
# hack/retest.sh go test FLAG... PACKAGE...: runs the command. If tests of at most three packages fail, it runs these packages
# once more, alone, and succeeds if they pass. CI uses it: its machines stop for seconds at times. It lists these tests as
# FLAKY; each is a fault to mend. A test that hangs counts as failed. A data race, a panic, or a package that doesn't build fails
# at once. The last lines name the tests that failed or hung.
set -euo pipefail

flags=()
while (($#)) && [[ $1 != ./* && $1 != github.com/* ]]; do
	flags+=("$1")
	shift
done
output=$(mktemp)
trap 'rm -f "$output"' EXIT

# failed_tests prints the names of the tests that failed or hung in the output, with commas.
failed_tests() {
	{
		sed -nE 's/^ *--- FAIL: ([^ ]+) .*/\1/p' "$output"
		# After "running tests:", time-outs list the tests that run: "		TestX (10m0s)".
		sed -nE 's/^\t\t(Test[^ ]+) \([0-9hms.]+\)$/\1 (hangs)/p' "$output"
	} | sort -u | paste -sd,
}

status=0
"${flags[@]}" "$@" 2>&1 | tee "$output" || status=$?
((status)) || exit 0
mapfile -t failed < <(awk -F'\t' '$1 == "FAIL" && NF == 3 { print $2 }' "$output")
tests=$(failed_tests)
if grep -E '^panic: ' "$output" | grep -qv '^panic: test timed out after ' || [[ -z $tests ]] ||
	grep -qE '^(WARNING: DATA RACE|fatal error: |FAIL.*\[.* failed\])' "$output" ||
	((${#failed[@]} == 0 || ${#failed[@]} > 3)); then
	printf '\nretest: failed: %s\n' "${tests:-no test; see above}"
	exit "$status"
fi
printf '\nretest: %s failed. Once more, alone: %s\n' "$tests" "${failed[*]}"
status=0
"${flags[@]}" -p=1 "${failed[@]}" 2>&1 | tee "$output" || status=$?
if ((status)); then
	again=$(failed_tests)
	printf '\nretest: failed the second time: %s; the first time: %s\n' "${again:-no test; see above}" "$tests"
	exit "$status"
fi
printf 'retest: FLAKY, passed the second time: %s\n' "$tests"
