package rig

import "time"

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
