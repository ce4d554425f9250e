// Package csisanity runs the sanity suite of csi-test against the driver of test/csidriver: `make test-csi-sanity`.
// testdata/skips.txt has the specs that csi-test skips, with the reasons.
//
// It is a module of its own, so that Ginkgo isn't a dependency of Podstream.
package csisanity
