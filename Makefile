# Podstream's make targets. `make` alone lists them.

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

DAEMONS  := podconfigd podexecd
BINARIES := $(DAEMONS) podctl kubelet
BINDIR   := bin
# The packages of `go test`: all by default. PKG=./internal/manifest narrows each of the test targets.
PKG      ?= ./...
# For `make test` and `make race`: CI sets "hack/retest.sh go test".
GOTEST   ?= go test
# For `make run`: empty for a private containerd, sim for a simulated one, or the path of a CRI socket.
RUNTIME  ?=
# For `make bench`: a regular expression and a count.
BENCH    ?= .
COUNT    ?= 1
# For `make bench-pods`: 1 measures a kubelet too, whose first build takes many minutes.
KUBELET  ?=
# For `make fuzz`: seconds in all.
FUZZTIME ?= 300
# For `make robustness`: the total time.
ROBUSTNESS_TIME ?= 10m
# The version of the binaries; in a source tree without git, the version that Go records.
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null)
# -s -w: without the symbol table and DWARF. Panics still show functions and lines.
LDFLAGS  := -s -w -X github.com/podstream/podstream/internal/daemon/process.version=$(VERSION)
# Without x/net/trace, gRPC links no templates: those may call any method by its name, so that the linker keeps all.
BUILDTAGS := grpcnotrace
# podctl serves HTTP/1.1 on loopback, and asks API servers by golang.org/x/net/http2: net/http's own HTTP/2 would make it 0.5 MB larger.
PODCTLTAGS := $(BUILDTAGS),nethttpomithttp2
# Functions of podctl begin at multiples of 16 bytes, as on arm64, instead of 32: that saves 0.2 MB of padding on amd64.
PODCTLLDFLAGS := $(LDFLAGS) -funcalign=16
# For `make tools`: the names of the tools; empty means all.
TOOLS    ?=
# For `make images`: the images are podstream/NAME:$(TAG).
TAG      ?= dev

export RUNTIME
# A go of the version of go.mod, also on a machine without Go.
export PATH := $(CURDIR)/hack/bin:$(PATH)

##@ Use

.PHONY: help
help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build podconfigd, podexecd, podctl and the kubelet's launcher into bin/, static
	@mkdir -p $(BINDIR)
	$(if $(filter-out podctl,$(BINARIES)),CGO_ENABLED=0 go build -trimpath -tags $(BUILDTAGS) -ldflags '$(LDFLAGS)' -o $(BINDIR)/ $(patsubst %,./cmd/%,$(filter-out podctl,$(BINARIES))))
	$(if $(filter podctl,$(BINARIES)),CGO_ENABLED=0 go build -trimpath -tags $(PODCTLTAGS) -ldflags '$(PODCTLLDFLAGS)' -o $(BINDIR)/ ./cmd/podctl)

.PHONY: run
run: build deps ## Run a node here, with a sample pod, until Ctrl-C (RUNTIME=sim: simulated; =/path.sock: yours)
	@CGO_ENABLED=0 go build -trimpath -o bin/ ./test/devnode/run ./test/sample && mv -f bin/run bin/devnode
	@[[ "$$RUNTIME" != sim ]] || go build -trimpath -o bin/ ./internal/simruntime/simruntimed
	@exec bin/devnode

.PHONY: images
images: build ## Build the container images podstream/podconfigd and podstream/podexecd with docker (TAG=dev)
	@for daemon in $(DAEMONS); do \
		docker build --file build/Dockerfile --build-arg DAEMON=$$daemon --build-arg VERSION=$(VERSION) \
			--build-arg REVISION="$$(git rev-parse HEAD 2>/dev/null)" --build-arg CREATED="$$(git log -1 --format=%cI 2>/dev/null)" --tag podstream/$$daemon:$(TAG) bin; \
	done

# ARCHS="amd64" builds for one only.
.PHONY: packages
packages: ## Build deb and rpm packages for amd64 and arm64 into dist/, with SBOMs and SHA256SUMS (ARCHS="amd64 arm64")
	@hack/packages.sh $(ARCHS)

##@ Test

.PHONY: test-packages
test-packages: ## Check the packages' contents, and that two builds give the same bytes
	@hack/packages-check.sh twice

# Go would reuse a cached result although the daemons changed: it doesn't detect that test/e2e builds them. Hence
# -count=1. -vet=off, because `make lint` vets.
.PHONY: test
test: test-deps ## Run all tests: unit, scenario and end to end, on a containerd of their own (PKG=./...)
	PODSTREAM_REQUIRE_RUNTIME=1 PODSTREAM_REQUIRE_NODE=1 $(GOTEST) -vet=off -count=1 $(PKG)
ifeq ($(PKG),./...)
	go test -vet=off -count=1 -tags failpoints -run='Fault|TestNothing|TestUnknown|TestEnvironment' \
		./internal/failpoint ./internal/podctl/web ./test/robustness ./test/survival
endif

# The race detector sees the test's process, and the daemons that test/rig builds: test/lifecycle and test/e2e run all of
# their code, on one containerd. These packages and tests are left out, because they only drive processes without the
# race detector, as `make test` does too: devnode, hazards, injectd, survival, world, TestProcess and TestRelayChain.
# layout reads files. bench, TestG8StalledCatchups, TestG8UnderAttack, TestHogs and TestSmallTextOfManyPods measure time and memory,
# which the race detector multiplies. TestRollout has the timers of 1,000 clients in one bubble, on which Go's runtime crashes with
# the race detector. The last four parse large texts in one goroutine.
unraced := /test/(bench|devnode|hazards|injectd|layout|podbench|survival|world)(/|$$)
unraced-tests := ^(TestProcess|TestRelayChain|TestG8StalledCatchups|TestG8UnderAttack|TestHogs|TestSmallTextOfManyPods|TestRollout|TestNearTheLimits|TestLargestDocuments|TestMarksOutsideTextHideNothing|TestValueBombs)$$

.PHONY: race
race: test-deps ## Run the tests with the race detector, except those that it can't see into
	PODSTREAM_REQUIRE_RUNTIME=1 PODSTREAM_REQUIRE_NODE=1 $(GOTEST) -race -vet=off -count=1 -skip='$(unraced-tests)' \
		$$(go list $(PKG) | grep -Ev '$(unraced)')

# WEB is for `go test`: -short for four views, in less than a minute; -shots=DIR for the screenshots of the documentation, which
# takes a minute more. The binaries are those of `make build`.
WEB ?=
.PHONY: test-web
test-web: build check-web-assets ## Test the page of podctl web in Chromium, on real daemons, the simulated runtime and containerd, in six minutes (WEB=-short)
ifeq (,$(filter -short,$(WEB)))
	@hack/deps.sh
	@hack/deps.sh containerd-2
endif
	cd test/web && PODSTREAM_BIN_DIR=$(CURDIR)/$(BINDIR) PODSTREAM_REQUIRE_RUNTIME=1 $(subst hack/,$(CURDIR)/hack/,$(GOTEST)) -vet=off -count=1 \
		-timeout=20m -v $(filter -short,$(WEB)) ./... $(filter-out -short,$(WEB))

.PHONY: test-csi-sanity
test-csi-sanity: ## Run the sanity suite of csi-test against the CSI driver of the tests; needs root, loop devices and ext4
	cd test/csisanity && PODSTREAM_REQUIRE_RUNTIME=1 go test -vet=off -count=1 -v ./... -ginkgo.no-color -ginkgo.succinct

.PHONY: bench
bench: deps ## Run the benchmarks (BENCH=regexp COUNT=1); compare two runs with benchstat
	go test -run='^$$' -bench='$(BENCH)' -benchmem -timeout=60m -count=$(COUNT) $(PKG)
ifeq ($(BENCH) $(PKG),. ./...)
	@hack/bench-merge.sh
endif

.PHONY: bench-pods
bench-pods: deps ## Compare pods through the daemons with bare CRI calls, and a kubelet (KUBELET=1), and measure 100 idle ones
	@hack/deps.sh containerd-1.7
	@hack/deps.sh containerd-2
	@$(if $(KUBELET),hack/build-cluster.sh kubelet)
	go test -run='^$$' -bench=. -timeout=60m -count=$(COUNT) ./test/podbench $(if $(KUBELET),-kubelet=$(CURDIR)/.tools/kubelet)

.PHONY: robustness
robustness: test-deps ## Check the stream's eleven promises, and that pods survive, under random load and kill -9, for ROBUSTNESS_TIME=10m
	ROBUSTNESS_TIME=$(ROBUSTNESS_TIME) go test -count=1 -timeout=0 -run='TestSimulation|TestGateways|TestProcess|TestRelayChain' -v ./test/robustness
	ROBUSTNESS_TIME=$(ROBUSTNESS_TIME) PODSTREAM_REQUIRE_RUNTIME=1 go test -count=1 -timeout=0 -v ./test/survival
	ROBUSTNESS_TIME=$(ROBUSTNESS_TIME) PODSTREAM_REQUIRE_RUNTIME=1 go test -count=1 -timeout=0 -tags failpoints -run=Faults -v ./test/survival
	PODSTREAM_SKEW=1 PODSTREAM_REQUIRE_RUNTIME=1 go test -count=1 -v ./test/skew
	PODSTREAM_ATTACK_FULL=1 PODSTREAM_REQUIRE_RUNTIME=1 go test -count=1 -timeout=20m -run=TestG8UnderAttack -v ./test/e2e

# The previous version is that of test/skew/previous, built from the clone's history.
.PHONY: test-skew
test-skew: test-deps ## Upgrade and downgrade the daemons one by one, from and to the previous version, on containerd
	PODSTREAM_SKEW=1 PODSTREAM_REQUIRE_RUNTIME=1 go test -count=1 -v ./test/skew

.PHONY: fuzz
fuzz: ## Run every fuzz target, FUZZTIME=300 seconds in all
	@hack/fuzz.sh $(FUZZTIME)

# CONTAINERD=2, or 1.7, leaves out all but the node, and runs it on that version.
.PHONY: test-cluster
test-cluster: ## Test against a real Kubernetes: the source api, and a node in a cluster; the first build takes minutes
	@hack/test-cluster.sh

.PHONY: test-side-by-side
test-side-by-side: ## Run the commands of docs/podctl.md beside kubectl's, crictl's and podman's, on one node; the first build takes minutes
	@hack/build-cluster.sh etcd kube-apiserver kubectl crictl
	@hack/deps.sh
	@hack/deps.sh containerd-2
	@hack/deps.sh podman
	cd test/cluster && go test -count=1 -v -timeout=15m ./sidebyside

# The numbers of nodes, the pods of each, and the changes in a second.
FLEET ?= -fleet-nodes=300,1000 -fleet-pods=5 -fleet-rate=100 -fleet-time=15s

.PHONY: bench-fleet
bench-fleet: ## Measure gateways of 300 and 1000 nodes against a real API server (FLEET="-fleet-nodes=3000 …"); the first build takes minutes
	hack/build-cluster.sh etcd kube-apiserver
	cd test/cluster && go test -count=1 -v -timeout=60m -run 'TestFleet(Changes|Failover|Rollout)|TestManyObjects' . -fleet-objects=5000 $(FLEET)

.PHONY: test-kubeadm
test-kubeadm: ## Have kubeadm make, upgrade and remove a cluster of two nodes on this machine (AGENT=kubelet: the kubelet's nodes)
	@hack/test-kubeadm.sh

.PHONY: test-conformance
test-conformance: ## Run Kubernetes' own node conformance tests in a cluster, half an hour (AGENT=kubelet|podstream: compare them; FOCUS=storage: the storage ones)
	@hack/test-conformance.sh

.PHONY: vm
vm: ## Build the guest of test-vm in .tools/vm: Debian 13 with systemd, cgroup v2 and containerd 2
	@hack/vm/image.sh

.PHONY: test-vm
test-vm: ## Run the tests of pods and of the machine in that guest: User-Mode Linux, or with KERNEL=qemu a whole machine
	@hack/vm/test.sh

# SEQUENCES is the number of sequences of sets for both merges, PODS the number of mutated pods for both readers of
# manifests. SEED repeats a run, which prints it.
.PHONY: differential
differential: ## Compare merge, manifests, image pulls and SELinux contexts with the kubelet's (SEQUENCES=1000 PODS=200000 PULLS=2000 SEED=0); slow first build
	@hack/differential.sh test
	@hack/differential.sh pulls
	@hack/differential.sh selinux

.PHONY: differential-cri
differential-cri: ## Compare the requests to the runtime, and files, with the kubelet's; needs root; the first build takes minutes
	@hack/cridiff.sh

# With KERNEL=qemu it plays the cases that need cpusets.
.PHONY: differential-node
differential-node: ## Compare the node with the kubelet's, in the guest of test-vm: cgroups, events, conditions, refusals; needs root
	@hack/nodediff.sh

.PHONY: charts
charts: ## Check the dashboard and the rules in deploy with promtool and on a recorded node; the first build takes minutes
	@hack/charts.sh check

.PHONY: charts-record
charts-record: ## Record the node that `make charts` uses again; needs root
	@hack/charts.sh record

.PHONY: charts-compare
charts-compare: ## Print each query of the charts on a Podstream node and on a kubelet node; needs root
	@hack/charts.sh compare

##@ Change

.PHONY: lint
lint: fmt-check vet prose golangci-lint buf-lint buf-breaking check-generated ## Run all linters and check that generated code is up to date

.PHONY: generate
generate: ## Generate Go from the protos, and docs/flags.md from the programs
	@hack/tools.sh buf protoc-gen-go protoc-gen-go-grpc protoc-gen-connect-go
	PATH="$(CURDIR)/.tools:$$PATH" .tools/buf generate
	PATH="$(CURDIR)/.tools:$$PATH" .tools/buf generate --template buf.gen.web.yaml
	@hack/flags.sh

.PHONY: web-assets
web-assets: ## Build the page of podctl web into internal/podctl/web/assets, with Node and npm
	@hack/web-assets.sh

.PHONY: check-web-assets
check-web-assets: ## Check that the page's checked-in files are those of a build, and its size
	@hack/deps.sh web
	@hack/web-assets.sh check

.PHONY: check-generated
check-generated: ## Check that the generated code matches the protos, and docs/flags.md the programs
	@hack/tools.sh buf protoc-gen-go protoc-gen-go-grpc protoc-gen-connect-go
	@hack/check-generated.sh
	@hack/flags.sh check

.PHONY: tools
tools: ## Build the pinned tools into .tools/: buf, protoc-gen-go*, grpcurl, golangci-lint (TOOLS="buf grpcurl": only these)
	@hack/tools.sh $(TOOLS)

.PHONY: deps
deps: ## Install what `make run` needs, on Debian and Ubuntu: containerd, runc, CNI plugins, ip, iptables
	@[[ "$$RUNTIME" == sim ]] || hack/deps.sh

.PHONY: test-deps
test-deps:
	@hack/deps.sh test

.PHONY: clean
clean: ## Remove the build results: bin/, dist/ and .tools/
	rm -rf bin dist .tools

# The parts of lint.

.PHONY: fmt-check
fmt-check:
	@unformatted=$$(git ls-files --cached --others --exclude-standard -- '*.go' | xargs gofmt -l); \
	if [[ -n "$$unformatted" ]]; then echo "not in gofmt's form:"; echo "$$unformatted"; exit 1; fi

.PHONY: vet
vet:
	go vet ./...

.PHONY: prose
prose: ## Find words that CONTRIBUTING.md's section "Prose" replaces
	@hack/prose.sh

.PHONY: golangci-lint
golangci-lint:
	@hack/tools.sh golangci-lint
	.tools/golangci-lint run ./...

.PHONY: buf-lint
buf-lint:
	@hack/tools.sh buf
	.tools/buf lint

.PHONY: buf-breaking
buf-breaking:
	@hack/tools.sh buf
	@hack/buf-breaking.sh
