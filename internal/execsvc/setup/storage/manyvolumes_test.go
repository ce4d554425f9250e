package storage

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
)

// TestOnePodOfManyVolumes: a pod that has as many volumes as the node may have gets no more, and keeps no other pod from having one.
func TestOnePodOfManyVolumes(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, func(c *Config) { c.MaxVolumes = fewVolumes })
		var claims []string
		for i := range fewVolumes {
			claims = append(claims, fmt.Sprint("h", i))
		}
		n.mustSetUp(pod("greedy", claims...))
		n.mustSetUp(pod("modest", "m"))
		if err := n.setUp(pod("greedy", append(claims, "more")...)); !errors.Is(err, ErrTooMany) {
			t.Errorf("error %v, want ErrTooMany", err)
		}
		n.mustTearDown("greedy")
		n.mustTearDown("modest")
		n.empty()
	})
}
