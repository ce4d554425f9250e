package podexecd

import (
	"testing"

	"github.com/podstream/podstream/internal/execconfig"
)

// What the node's owner says of throttling reaches the containers.
func TestMemoryThrottlingFactorIsPassedOn(t *testing.T) {
	settings := &execconfig.Settings{Node: execconfig.Node{MemoryThrottlingFactor: 0.5}}
	if got := new(facts).forCRI(&Options{settings: settings}).MemoryThrottlingFactor; got != 0.5 {
		t.Errorf("%v, want 0.5", got)
	}
}
