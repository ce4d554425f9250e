package merge

import (
	"fmt"
	"time"

	"github.com/podstream/podstream/internal/manifest"
)

// SourceState is the state of a source as ListSources returns it.
type SourceState struct {
	Source
	Ready         bool
	ReadyRevision uint64
	// LastRead is zero before the first reading.
	LastRead time.Time
	// LastHeard is when the place that the pods come from last answered. Zero: never.
	LastHeard time.Time
	// LastErr is why the whole source can't be read. Unready is why it isn't ready although it could be read.
	LastErr, Unready error
	// Digest is that of the artifact that the pods are from, manifest.Set.Digest. Empty: there is none.
	Digest string
	// Pods is the number of served pods of the source.
	Pods     int
	Findings []Finding
}

// Finding is a manifest.Finding with its origin and the pods that are kept.
type Finding struct {
	manifest.Finding
	Origin string
	Kept   []*manifest.Pod
	// Conflict is set if the Severity is manifest.Conflict. The Message names the pod that is served.
	Conflict Conflict
}

// Conflict is a pod that waits for another pod's name or UID.
type Conflict struct {
	Waits, Winner Offer
	// SameUID is set if the two pods have one UID. Otherwise they have one name.
	SameUID bool
}

// Offer is a pod with the source and the origin that offer it.
type Offer struct {
	Source, Origin string
	Pod            *manifest.Pod
}

// Sources is the state of every source, in order of priority.
func (m *Merger) Sources() []SourceState {
	counts := map[string]int{}
	for _, p := range m.served {
		counts[p.Source]++
	}
	out := make([]SourceState, 0, len(m.sources))
	for _, s := range m.sources {
		if s.former {
			continue
		}
		out = append(out, SourceState{
			Source: s.Source, Ready: s.ready, ReadyRevision: s.readyRevision, LastRead: s.lastRead, LastHeard: s.lastHeard,
			LastErr: s.lastErr, Unready: s.unready(), Digest: s.digest, Pods: counts[s.Name], Findings: s.findings(),
		})
	}
	return out
}

// unready returns why the source isn't ready although it could be read.
func (s *source) unready() error {
	o := s.unknown()
	switch {
	case o == nil || s.ready:
		return nil
	case o.given.Unready:
		return fmt.Errorf("not ready: %s; pods left from before aren't removed until it is", o.given.Name)
	default:
		return fmt.Errorf("not ready: %s can't be used, and the pods that it had before podconfigd started aren't known; "+
			"pods left from before aren't removed until it is mended or gone", o.given.Name)
	}
}

func (s *source) findings() []Finding {
	var out []Finding
	for _, o := range s.origins {
		kept := o.kept
		for _, f := range o.given.Findings {
			finding := Finding{Finding: f, Origin: o.given.Name}
			if f.Severity == manifest.Error {
				for _, k := range kept {
					finding.Kept = append(finding.Kept, k.pod)
				}
				// The kept pods stand in one finding only.
				kept = nil
			}
			out = append(out, finding)
		}
	}
	for _, c := range s.conflicts {
		conflict := c.public()
		out = append(out, Finding{Origin: conflict.Waits.Origin, Conflict: conflict, Finding: manifest.Finding{
			Severity: manifest.Conflict, Document: conflict.Waits.Pod.Document, Field: conflict.field(), Message: conflict.Message(true),
		}})
	}
	return out
}

func (c Conflict) field() string {
	if c.SameUID {
		return "metadata.uid"
	}
	return "metadata.name"
}

// Message describes the conflict. It names the served pod only if winner is set, as some callers may not see that
// pod.
func (c Conflict) Message(winner bool) string {
	what, where := "pod "+c.Waits.Pod.Namespace+"/"+c.Waits.Pod.Name, "elsewhere"
	if c.SameUID {
		what = "the uid of " + what
	}
	if winner {
		where = "by source " + c.Winner.Source + " in " + c.Winner.Origin
	}
	return what + " is defined " + where + " already, which has precedence; this one waits until that is gone"
}
