package status

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// facts are found once for each status, because each container of the pod asks for them: a pod may have thousands.
type facts struct {
	// newest has the newest container of each name.
	newest map[string]*observed.Container
	// triggered is set if a container has ended in a way that restarts all. restarting is set if all containers are
	// restarting: by such an end, or by one before.
	triggered, restarting bool
	// initialized is set if a main container was created, which proves that the init containers have succeeded. While
	// all containers restart it proves nothing.
	initialized bool
}

func factsOf(in *Input) facts {
	f := facts{newest: make(map[string]*observed.Container, len(in.Runtime.Containers))}
	for i := range in.Runtime.Containers {
		c := &in.Runtime.Containers[i]
		if f.newest[c.Name] == nil {
			f.newest[c.Name] = c
		}
	}
	if mayRestartAll(in.Pod) {
		before := condition(in.Previous.Conditions, v1.AllContainersRestarting)
		f.triggered = triggersRestart(in)
		f.restarting = f.triggered || before != nil && before.Status == v1.ConditionTrue
	}
	f.initialized = !f.restarting && slices.ContainsFunc(in.Pod.Spec.Containers, func(c v1.Container) bool {
		made := f.newest[c.Name]
		return made != nil && made.State != observed.Unknown
	})
	return f
}

// latest returns the newest container of that name, or nil.
func (f *facts) latest(name string) *observed.Container { return f.newest[name] }
