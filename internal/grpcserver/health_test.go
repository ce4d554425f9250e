package grpcserver

import (
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
}
