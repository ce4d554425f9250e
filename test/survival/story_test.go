package survival

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// story builds a history. Times are in seconds after its start, and each pod has one container, "main".
type story struct{ History }

func at(seconds float64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(1_000_000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

func newStory(policy v1.RestartPolicy, c Container) *story {
	c.Name = "main"
	return &story{History{Plans: map[string]Plan{"u": {UID: "u", Name: "pod", Policy: policy, Grace: 8 * time.Second, Containers: []Container{c}}}}}
}

func (s *story) did(seconds float64, kind Kind) *story {
	pod := "u"
	if strings.Contains(string(kind), " ") { // a daemon
		pod = ""
	}
	s.Deeds = append(s.Deeds, Deed{At: at(seconds), Kind: kind, Pod: pod})
	return s
}

// ran adds a run of u. Zero means that the run had no SIGTERM, or no end.
func (s *story) ran(start, term, end float64, code int) *story {
	s.Runs = append(s.Runs, Run{UID: "u", Container: "main", ID: fmt.Sprint(len(s.Runs)), Start: at(start), Term: at(term), End: at(end), Code: code})
	return s
}

// looks adds a look at which this many containers of u run, in one sandbox. If no container runs, there is no
// sandbox. Without a phase, the look isn't quiet.
func (s *story) looks(seconds float64, containers int, phase v1.PodPhase) *story {
	look := Look{At: at(seconds), Until: at(seconds), Quiet: phase != "", Phases: map[string]v1.PodPhase{"u": phase}}
	for i := range containers {
		look.Containers = append(look.Containers, CRIContainer{ID: fmt.Sprint("c", i), UID: "u", Name: "main", Running: true})
	}
	if phase != gone {
		look.Sandboxes = []Sandbox{{ID: "s", UID: "u", Ready: containers > 0}}
	}
	s.Looks = append(s.Looks, look)
	return s
}

// unready has the sandboxes of the last look not ready.
func (s *story) unready() *story {
	look := &s.Looks[len(s.Looks)-1]
	for i := range look.Sandboxes {
		look.Sandboxes[i].Ready = false
	}
	return s
}

// gone is the phase of a pod that doesn't exist.
const gone = v1.PodPhase("gone")

// traced adds a trace to the last look.
func (s *story) traced(t Trace) *story {
	look := &s.Looks[len(s.Looks)-1]
	look.Traces = append(look.Traces, t)
	return s
}

func (s *story) showed(seconds float64, ready bool, since float64) *story {
	s.Statuses = append(s.Statuses, Status{At: at(seconds), UID: "u", Ready: ready, Since: at(since)})
	return s
}

func (s *story) whole() *story { s.Whole = true; return s }

var (
	always, onFailure, never = v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever
	stays, ends              = Container{}, Container{Fate: Ends}
	slow                     = Container{Takes: 6 * time.Second}
	stubborn                 = Container{Takes: -1}
	sidecar                  = Container{Takes: 6 * time.Second, Sidecar: true}
)
