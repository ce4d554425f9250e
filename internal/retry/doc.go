// Package retry repeats an attempt, such as to follow a stream, with a pause after each failure.
//
// It owns the loop: the order of attempt, classification and pause, and how the end of a context ends each of them.
// The caller owns the rest. It decides which errors are final, how long to wait (with a wait.Backoff, which it resets
// when an attempt has come far enough), and what is logged. The relay source and podctl use it.
//
// The package starts no goroutine, logs nothing, and holds no state.
package retry
