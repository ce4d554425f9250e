package actions

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// TestAny: each kind of action counts by itself. A pod that is being killed and has nothing running needs no action.
func TestAny(t *testing.T) {
	runs := &observed.Pod{Containers: []observed.Container{{Name: "a", State: observed.Running}}}
	for name, tc := range map[string]struct {
		do   Actions
		has  *observed.Pod
		want bool
	}{
		"nothing":                          {Actions{}, runs, false},
		"a kill of a pod that runs":        {Actions{KillPod: true}, runs, true},
		"a kill of a pod that has ended":   {Actions{KillPod: true}, &observed.Pod{}, false},
		"a new sandbox":                    {Actions{CreateSandbox: true}, &observed.Pod{}, true},
		"a new sandbox for a pod that ran": {Actions{CreateSandbox: true}, runs, true},
		"a container to kill":              {Actions{Kill: []Kill{{}}}, runs, true},
		"a container to remove":            {Actions{Remove: []observed.Container{{}}}, runs, true},
		"a container to start":             {Actions{Start: []Start{{Container: &v1.Container{}}}}, runs, true},
	} {
		if got := tc.do.Any(tc.has); got != tc.want {
			t.Errorf("%s: Any reports %v; want %v", name, got, tc.want)
		}
	}
}
