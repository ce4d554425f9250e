#!/usr/bin/env bash
# Compares Podstream with the kubelet: its merge on random sequences, its reading of manifests on mutated pods, its
# records of image pulls on random sequences, and its choice of SELinux contexts for random volumes. It also checks the
# list of the kubelet's metrics against the kubelet's source.
# Usage: hack/differential.sh [test|pulls|selinux|bench] [FLAG...], the flags being go test's.
#
#   test    SEQUENCES=1000 random sequences and PODS=200000 mutated pods; SEED=N repeats those of a run
#   pulls   PULLS=2000 random sequences of image pulls; SEED=N repeats those of a run
#   selinux CASES=20000 random volumes; SEED=N repeats those of a run
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
		-rapid.nofailfile -rapid.checks="${SEQUENCES:-1000}" -rapid.seed="${SEED:-0}" -pods="${PODS:-200000}" -pods.seed="${SEED:-0}"
	;;
pulls)
	exec go test -count=1 -timeout=60m -v "$@" ./pulls -pulls="${PULLS:-2000}" -pulls.seed="${SEED:-0}"
	;;
selinux)
	exec go test -count=1 -timeout=60m -v "$@" ./selinux -cases="${CASES:-20000}" -cases.seed="${SEED:-0}"
	;;
bench)
	exec go test -run='^$' -bench=. -benchmem "$@" .
	;;
*)
	echo "usage: hack/differential.sh [test|pulls|selinux|bench] [FLAG...]" >&2
	exit 2
	;;
esac
