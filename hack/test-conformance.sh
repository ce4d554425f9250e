#!/usr/bin/env bash
# Runs Kubernetes' own tests of a node against a Podstream node in a whole cluster, all of which it builds first. The first build takes many
# minutes, the specs half an hour. Usage: hack/test-conformance.sh [FLAG...], the flags being go test's and those of
# test/cluster/conformance: -focus=REGEXP and -except=REGEXP choose the specs, -out=DIR keeps the logs.
set -euo pipefail
cd "$(dirname "$0")/.."

hack/build-cluster.sh
hack/build-conformance.sh
hack/deps.sh
hack/deps.sh containerd-2
cd test/cluster
go test -count=1 -timeout=5h -v ./conformance "$@"
