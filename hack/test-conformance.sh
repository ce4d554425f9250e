#!/usr/bin/env bash
# Runs Kubernetes' own tests of a node against a node in a whole cluster, all of which it builds first. The first build takes many
# minutes, the specs half an hour. Usage: hack/test-conformance.sh [FLAG...], the flags being go test's and those of
# test/cluster/conformance: -focus=REGEXP and -except=REGEXP choose the specs, -out=DIR keeps the logs.
#
# With AGENT=podstream or AGENT=kubelet it runs all specs of [NodeConformance] and of [Conformance], the slow ones too, on containerd 2
# (CONTAINERD=1.7: on that), keeps the result of each spec in RESULTS=.run/conformance, by agent, commit and runtime, and goes on where
# the last run stopped. Specs on which the agents differ run three times on both. `hack/test-conformance.sh table` prints both agents'
# results; docs/conformance.md explains them.
#
# `hack/test-conformance.sh -node [FLAG...]` does the same with specs of Kubernetes' test/e2e_node, about eviction, restarts and the OOM
# killer. Their results are kept in RESULTS=.run/conformance-node.
#
# `hack/test-conformance.sh -storage [FLAG...]`, or FOCUS=storage, does the same with specs of Kubernetes' test/e2e/storage: those of
# conformance, the CSI mock driver, local volumes, and the volumes nfs, local, hostPath and emptyDir. Their results are kept in
# RESULTS=.run/conformance-storage.
set -euo pipefail
cd "$(dirname "$0")/.."

results=${RESULTS:-$PWD/.run/conformance}
focus='\[(Node)?Conformance\]' except='\[Feature:OffByDefault\]'
suite=() parts=()
[[ ${FOCUS:-} != storage || ${1:-} == -storage || ${1:-} == table ]] || set -- -storage "$@"
if [[ ${1:-} == -storage ]]; then
	shift
	results=${RESULTS:-$PWD/.run/conformance-storage}
	focus='\[sig-storage\] .*(\[(Node)?Conformance\]|CSI Mock |\[Driver: (nfs|local|hostPath|hostPathSymlink|emptydir)\])'
	focus+='|\[sig-storage\] (CSI Mock |PersistentVolumes-local |HostPathType |EmptyDir |HostPath )'
	suite=(-storage -focus="$focus" -except="$except")
	parts=(storage)
elif [[ ${1:-} == -node ]]; then
	shift
	results=${RESULTS:-$PWD/.run/conformance-node}
	focus='OOMKiller \[LinuxOnly\]|\[sig-node\] CriticalPod|LocalStorageCapacityIsolationEviction|MirrorPodWithGracePeriod|\[sig-node\] Restart '
	focus+='|Unknown Pods|Containers Lifecycle when (A node|The kubelet restarts)|MirrorPod \[Serial\] when kubelet restarts'
	focus+='|Pods status phase should be pending'
	except=
	suite=(-node -focus="$focus" -except="$except")
fi
specs=$(GOFLAGS=-mod=readonly go -C test/cluster/programs list -m -f '{{.Version}}' k8s.io/kubernetes)
# What the daemons are built from. Only a commit that changes it makes the results of podstream old.
product=(cmd internal client proto go.mod go.sum)

# table RUNTIME [FLAG...]: the flags are those of test/cluster/conformance/results/table.
table() {
	go -C test/cluster run ./conformance/results/table -results="$results" -runtime="$1" -specs="$specs" "${@:2}"
}

if [[ ${1:-} == table ]]; then
	results=$(realpath "$results")
	failed=0 found=
	for runtime in "$results"/*/*/; do
		runtime=$(basename "$runtime")
		[[ -d $results/kubelet/$runtime || -d $results/podstream/$runtime ]] && [[ $found != *"|$runtime|"* ]] || continue
		found+="|$runtime|"
		table "$runtime" "${@:2}" || failed=1
	done
	[[ -n $found ]] || { echo "test-conformance: $results has no results" >&2; exit 1; }
	exit $failed
fi

flags=("${suite[@]}")
case ${AGENT:-} in
'') ;;
podstream)
	if [[ -n $(git status --porcelain -- "${product[@]}") ]]; then
		echo "test-conformance: commit the changes of ${product[*]} first: results are kept by commit" >&2
		exit 2
	fi
	flags+=(-label="$(git log -1 --abbrev=12 --format=%h -- "${product[@]}")")
	;;
kubelet) flags+=(-label="$specs" -kubelet="$PWD/.tools/kubelet") ;;
*) echo "test-conformance: AGENT is podstream or kubelet" >&2; exit 2 ;;
esac

hack/build-cluster.sh
hack/build-conformance.sh "${parts[@]}"
[[ ${#parts[@]} == 0 ]] || hack/build-cluster.sh crictl
hack/deps.sh
hack/deps.sh "containerd-${CONTAINERD:-2}"
[[ ${AGENT:-} != kubelet ]] || hack/build-cluster.sh kubelet
timeout=5h
flags+=(-containerd="${CONTAINERD:-2}")
if [[ -n ${AGENT:-} ]]; then
	mkdir -p "$results"
	timeout=0 # the run can be stopped, and goes on
	flags+=(-results="$(realpath "$results")" -specs="$specs" -focus="$focus" -except="$except")
fi
cd test/cluster
go test -count=1 -skip='^TestKept$' ./conformance/results # a run may be about to change the kept results
go test -count=1 -timeout=$timeout -v ./conformance "${flags[@]}" "$@"
