// Package mergetest makes the sets that podconfigd's tests merge: from a short notation for scenarios, and at random
// for properties.
//
// Only tests import it. It keeps nothing, runs no goroutines, and doesn't call manifest.Parse: its pods are made as
// values, so a test of the merge is not a test of the manifest decoder. Digests are the real ones.
package mergetest
