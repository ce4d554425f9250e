#!/usr/bin/env bash
# Runs Podstream's merge and the kubelet's own on the same sets, alternately, and prints medians and ratios. Usage:
# hack/bench-merge.sh [TURNS]. The first run builds parts of k8s.io/kubernetes, which takes some minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

turns=${1:-3}
lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
for ((i = 0; i < turns; i++)); do
	go test -run='^$' -bench='^BenchmarkMerge$' -benchtime=0.5s ./test/bench >>"$lines"
	hack/differential.sh bench -benchtime=0.5s >>"$lines"
done

# A benchmark's line is its name, the runs, and pairs of value and unit.
awk '
	function keep(key, value) { values[key] = values[key] " " value }
	function median(key,    list, n, i, j, t) {
		n = split(values[key], list, " ")
		for (i = 2; i <= n; i++) for (j = i; j > 1 && list[j-1] + 0 > list[j] + 0; j--) { t = list[j]; list[j] = list[j-1]; list[j-1] = t }
		return list[int((n + 1) / 2)]
	}
	{ pods = $1; sub(/.*pods=/, "", pods); sub(/-[0-9]+$/, "", pods) }
	/^BenchmarkMerge\// { for (i = 3; i < NF; i += 2) { unit = $(i+1); if (sub(/^µs\//, "", unit)) keep(unit pods, $i) } }
	/^BenchmarkUpstreamMerge\// { keep(($1 ~ /decoded/ ? "decoded" : "shared") pods, $3 / 1000) }
	END {
		print "One change among N pods of three containers; microseconds, medians."
		print "Upstream compares all pods: shared with the set before (as from an informer), or decoded again (as from a file or URL)."
		format = "%6s %9s %9s %14s %14s %18s %18s %12s %12s\n"
		printf format, "pods", "merge", "digests", "commit+fsync", "commit", "upstream shared", "upstream decoded", "x shared", "x decoded"
		split("10 100 1000", counts, " ")
		for (i = 1; i <= 3; i++) {
			n = counts[i]
			printf format, n, median("merge" n), median("digest" n), median("commit-fsync" n), median("commit-nosync" n),
				sprintf("%.0f", median("shared" n)), sprintf("%.0f", median("decoded" n)),
				sprintf("%.0f", median("shared" n) / median("merge" n)), sprintf("%.0f", median("decoded" n) / median("merge" n))
		}
	}' "$lines"
