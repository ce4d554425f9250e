#!/usr/bin/env bash
# Compares Podstream's merge with upstream's. Usage: hack/differential.sh [test|bench] [FLAG...], the flags being go test's.
#
#   test    random sequences to both, SEQUENCES=1000 of them; SEED=N repeats the ones of a run
#   bench   upstream's merge alone, as standard Go benchmark lines
#
# The first run builds parts of k8s.io/kubernetes, which takes some minutes.
set -euo pipefail
cd "$(dirname "$0")/../test/differential"

mode=${1:-test}
shift || true
case $mode in
test)
	exec go test -count=1 -timeout=60m -v "$@" . \
		-rapid.nofailfile -rapid.checks="${SEQUENCES:-1000}" -rapid.seed="${SEED:-0}"
	;;
bench)
	exec go test -run='^$' -bench=. -benchmem "$@" .
	;;
*)
	echo "usage: hack/differential.sh [test|bench] [FLAG...]" >&2
	exit 2
	;;
esac
