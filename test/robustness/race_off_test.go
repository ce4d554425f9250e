//go:build !race

package robustness

// defaultOperations is what `make test` promises.
const defaultOperations = 100_000
