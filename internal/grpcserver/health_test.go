package grpcserver

import (
	"fmt"
	"maps"
	"testing"

	"google.golang.org/grpc"
)

// Health has the parts of SetHealth, and the daemon as a whole.
func TestHealthOfParts(t *testing.T) {
	s := New(Config{Register: func(grpc.ServiceRegistrar) {}})
	s.SetHealth("store", true)
	s.SetHealth("runtime", false)
	if got, want := s.Health(), map[string]bool{"": true, "store": true, "runtime": false}; !maps.Equal(got, want) {
		t.Errorf("health is %v; want %v", got, want)
	}
	s.RemoveHealth("runtime")
	if got, want := s.Health(), map[string]bool{"": true, "store": true}; !maps.Equal(got, want) {
		t.Errorf("health without the runtime is %v; want %v", got, want)
	}
}

// A daemon may have more parts than the health service lists.
func TestHealthOfManyParts(t *testing.T) {
	s := New(Config{Register: func(grpc.ServiceRegistrar) {}})
	for i := range 300 {
		s.SetHealth(fmt.Sprint(i), i != 7)
	}
	got := s.Health()
	if len(got) != 301 || !got[""] || got["7"] || !got["299"] {
		t.Errorf("health has %d parts, %v for the whole, %v for a bad part, %v for a good one", len(got), got[""], got["7"], got["299"])
	}
	s.health.Shutdown()
	if s.Health()[""] {
		t.Error("the daemon as a whole is healthy after its health service was shut down")
	}
}
