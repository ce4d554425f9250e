//go:build race

package robustness

// defaultOperations is the number of operations that the race detector leaves time for.
const defaultOperations = 10_000
