// Package conformance is Kubernetes' own end-to-end tests of a node, as a test program: test/e2e/common/node,
// test/e2e/common/storage, test/e2e/node and test/e2e/storage, in the version of the control plane. It has no tests of Podstream.
// test/cluster/conformance runs it.
//
// It takes the flags of Kubernetes' e2e.test. hack/build-conformance.sh builds it, and the ginkgo command that runs
// its specs in parallel.
package conformance
