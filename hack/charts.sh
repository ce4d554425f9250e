#!/usr/bin/env bash
# Checks the dashboard and the rules in deploy, and makes what they are checked with. Usage: hack/charts.sh COMMAND
#   check    promtool checks the rules and runs their unit tests, and every query is evaluated on the recorded node
#   record   records a node again, into test/charts/testdata; needs root
#   compare  runs the same pods with Podstream and with the kubelet, and prints every query's value on both; needs root
# The first check builds promtool, the first recording the kubelet, kube-apiserver and etcd; that takes many minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

# promtool builds the version that test/charts/go.mod pins, without Prometheus' service discovery.
promtool() {
	local bin=$PWD/.tools want
	want=$(cat test/charts/go.mod test/charts/go.sum <(go env GOVERSION) | sha256sum)
	if [[ -x $bin/promtool && -f $bin/promtool.stamp && $(<"$bin/promtool.stamp") == "$want" ]]; then
		return
	fi
	echo "charts: building promtool"
	mkdir -p "$bin"
	go -C test/charts build -mod=readonly -trimpath -tags=remove_all_sd -o "$bin/promtool.new" github.com/prometheus/prometheus/cmd/promtool
	mv "$bin/promtool.new" "$bin/promtool"
	echo "$want" >"$bin/promtool.stamp"
}

# record FILE AGENTS [FLAG...]
record() {
	local out=$1 agents=$2
	shift 2
	hack/build-cluster.sh kubelet kube-apiserver etcd
	hack/deps.sh
	hack/deps.sh containerd-2
	programs=$(mktemp -d)
	trap 'rm -rf "$programs"' EXIT
	go build -trimpath -o "$programs/" ./cmd/podconfigd ./cmd/podexecd ./test/chartrecord
	"$programs/chartrecord" -bin "$programs" -out "$out" -agents "$agents" "$@"
}

case ${1:-} in
check)
	promtool
	.tools/promtool check rules deploy/prometheus/podstream.rules.yaml
	.tools/promtool test rules deploy/prometheus/podstream.rules.test.yaml
	go -C test/charts test -count=1 ./...
	;;
record) record test/charts/testdata/node.jsonl.gz podstream ;;
compare)
	both=$(mktemp)
	record "$both" podstream,kubelet
	status=0
	go -C test/charts test -count=1 -v -run=TestCompare . -recording="$both" || status=$?
	rm -f "$both"
	exit $status
	;;
*)
	sed -n '2,6s/^# //p' "$0" >&2
	exit 2
	;;
esac
