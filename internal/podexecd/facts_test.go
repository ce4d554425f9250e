package podexecd

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podstream/podstream/internal/execconfig"
	"github.com/podstream/podstream/internal/execsvc/machine/nodeinfo"
)

// What the node's owner says of throttling reaches the containers.
func TestMemoryThrottlingFactorIsPassedOn(t *testing.T) {
	settings := &execconfig.Settings{Node: execconfig.Node{MemoryThrottlingFactor: 0.5}}
	if got := new(facts).forCRI(&Options{settings: settings}).MemoryThrottlingFactor; got != 0.5 {
		t.Errorf("%v, want 0.5", got)
	}
}

// A container without a limit is throttled by what all pods may use, in which, as with the kubelet, eviction keeps some
// free.
func TestMemoryForPodsIncludesWhatEvictionKeepsFree(t *testing.T) {
	memory := func(quantity string) v1.ResourceList {
		return v1.ResourceList{v1.ResourceMemory: resource.MustParse(quantity)}
	}
	known := &facts{info: nodeinfo.Info{Capacity: memory("4Gi"), Bound: memory("3Gi"), Allocatable: memory("2Gi")}}
	if got := known.forCRI(&Options{settings: &execconfig.Settings{}}).MemoryForPods; got != 3<<30 {
		t.Errorf("%d, want 3Gi", got)
	}
}
