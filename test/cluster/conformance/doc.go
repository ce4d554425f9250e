// Package conformance runs Kubernetes' own tests of a node against a Podstream node: the specs that upstream calls [NodeConformance], and with
// -focus and -except any others of test/e2e/common/node, test/e2e/common/storage and test/e2e/node. They are a program,
// test/cluster/programs/conformance; here is the cluster that they run against, the images that their pods have, and what came of each spec,
// as a subtest: passed, failed, or skipped with the reason. `make test-conformance` builds it all and runs it.
//
// What specs need and can't have here stands in the table unfit, with the reason. Any other spec that fails is a failure. With -kubelet=PATH
// the node is a kubelet, which tells a fault of Podstream's from one of the machine's.
//
// The images are made here, under the names that the specs pull them by, and containerd gets them from a registry on loopback: agnhost with
// Kubernetes' program of that name, and others of Debian's busybox. See images_test.go for what stands in for what.
package conformance
