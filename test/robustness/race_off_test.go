//go:build !race

package robustness

// defaultOperations is the number of operations in `make test`.
const defaultOperations = 100_000
