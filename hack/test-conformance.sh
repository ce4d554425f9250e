#!/usr/bin/env bash
# Runs Kubernetes' own tests of a node against a node in a whole cluster, all of which it builds first. The first build takes many
# minutes, the specs half an hour. Usage: hack/test-conformance.sh [FLAG...], the flags being go test's and those of
# test/cluster/conformance: -focus=REGEXP and -except=REGEXP choose the specs, -out=DIR keeps the logs.
# With AGENT=podstream or AGENT=kubelet it runs the slow specs too, on containerd 2 (CONTAINERD=1.7: on that), and keeps the result of
# each spec in RESULTS=.run/conformance, by agent, commit and runtime: the next run goes on where this one stopped. A spec on which
# the agents differ runs three times on both. hack/test-conformance.sh table prints both agents' results on that runtime.
set -euo pipefail
cd "$(dirname "$0")/.."

results=${RESULTS:-$PWD/.run/conformance}
mkdir -p "$results"
results=$(realpath "$results")
if [[ ${1:-} == table ]]; then
	cd test/cluster
	for runtime in "$results"/podstream/*/; do
		[[ -d $runtime ]] || { echo "test-conformance: $results has no results of podstream" >&2; exit 1; }
		go run ./conformance/results/table -results="$results" -runtime="$(basename "$runtime")" "${@:2}"
	done
	exit
fi

hack/build-cluster.sh
hack/build-conformance.sh
hack/deps.sh
hack/deps.sh containerd-2
flags=()
case ${AGENT:-} in
'') ;;
podstream) flags=(-label="$(git describe --always --dirty --abbrev=12 --exclude='*')") ;;
kubelet)
	hack/build-cluster.sh kubelet
	flags=(-label="$(go -C test/cluster/programs list -mod=readonly -m -f '{{.Version}}' k8s.io/kubernetes)" -kubelet="$PWD/.tools/kubelet")
	;;
*) echo "test-conformance: AGENT is podstream or kubelet" >&2; exit 2 ;;
esac
if [[ -n ${AGENT:-} ]]; then
	hack/deps.sh "containerd-${CONTAINERD:-2}"
	flags+=(-containerd="${CONTAINERD:-2}" -results="$results" -except='\[Disruptive\]|\[Feature:OffByDefault\]')
fi
cd test/cluster
go test -count=1 -timeout="$([[ -n ${AGENT:-} ]] && echo 0 || echo 5h)" -v ./conformance "${flags[@]}" "$@"
