//go:build race

package robustness

// defaultOperations is what a run under the race detector has time for.
const defaultOperations = 10_000
