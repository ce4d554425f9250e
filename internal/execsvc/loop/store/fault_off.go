//go:build !failpoints

package store

func faulty(s State) State { return s }
