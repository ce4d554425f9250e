package rig

import (
	"fmt"
	"os"
	"time"
)

// Patience returns the bound for a test's waits: PODSTREAM_PATIENCE on a machine that is so slow that it is set, and
// otherwise normal. It panics if that is no duration.
func Patience(normal time.Duration) time.Duration {
	text := os.Getenv("PODSTREAM_PATIENCE")
	if text == "" {
		return normal
	}
	patience, err := time.ParseDuration(text)
	if err != nil {
		panic(fmt.Sprintf("PODSTREAM_PATIENCE: %v", err))
	}
	return patience
}

// Poll calls check until it returns nil, and returns its last error if that takes longer than limit. It is for what
// can't be awaited as an event.
func Poll(limit time.Duration, check func() error) error {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return err
		}
	}
}
