// Package conformance runs Kubernetes' own tests of a node against a Podstream node: upstream's [NodeConformance]
// specs, some of storage, and with -focus and -except any others of test/e2e/common/node, test/e2e/common/storage,
// test/e2e/node and test/e2e/storage.
// The specs are a program, test/cluster/programs/conformance; this package has their cluster, the images of their
// pods, and the result of each spec, as a subtest: passed, failed, or skipped with the reason. `make
// test-conformance` builds and runs all of it.
//
// Specs whose requirements can't be met here are in the table unfits, with the reason. Any other spec that fails is a
// failure. With -kubelet=PATH the node is a kubelet, which separates Podstream's faults from the machine's.
//
// With -node the specs are those of upstream's test/e2e_node that can run against a node from outside. They expect systemd
// to restart the agent and the runtime: manager_test.go stands in for it.
//
// With -storage the place has what specs of CSI drivers need: the images of their sidecars, from which pods reach the API
// server. storage_test.go has them. TestDriverManifest then runs upstream's manifests of a CSI driver, in mounts of its own.
//
// With -results=DIR the result of each spec is kept, by package results: a run does what the results lack, a failed spec
// is a result like any other, and the program results/table compares both agents. docs/conformance.md describes it.
//
// The images are built here, under the names that the specs pull, and containerd pulls them from a registry on
// loopback: agnhost with Kubernetes' program of that name, and others from Debian's busybox. images_test.go has
// the replacements.
package conformance
