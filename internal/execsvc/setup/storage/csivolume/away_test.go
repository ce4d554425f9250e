package csivolume

import (
	"errors"
	"fmt"
	"testing"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
)

// TestIsAway: a driver is away if the last call wasn't made for that reason, and the driver still isn't registered.
func TestIsAway(t *testing.T) {
	n := newBench(t)
	_, err := n.cfg.Drivers.Get("other.example.com")
	if err == nil {
		t.Fatal("the driver is registered")
	}
	last := &storage.Error{Outcome: storage.NotSent, Err: fmt.Errorf("wrapped: %w", err)}
	for name, tc := range map[string]struct {
		driver string
		last   error
		want   bool
	}{
		"it is away":             {"other.example.com", last, true},
		"it is back":             {driverName, last, false},
		"it failed otherwise":    {"other.example.com", errors.New("no"), false},
		"it hasn't been tried":   {"other.example.com", nil, false},
		"it is there and failed": {driverName, errors.New("no"), false},
	} {
		if got := n.IsAway(tc.driver, tc.last); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
