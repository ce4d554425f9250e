package robustness

import (
	"slices"
	"time"

	"github.com/podstream/podstream/internal/manifest"
)

// EventKind is the kind of a TruthEvent.
type EventKind int

// The kinds.
const (
	// Stored: a pod was created, or has another version.
	Stored EventKind = iota
	// Deleted: a pod is gone.
	Deleted
	// Unrelated: an object that isn't a pod changed.
	Unrelated
	// Restored: the cluster's history went back to an earlier state, with its resource version.
	Restored
	// Replaced: the address is now that of another cluster, without pods.
	Replaced
)

// TruthEvent is one change at the address of an API server.
type TruthEvent struct {
	Kind EventKind
	At   time.Time
	// Version is the resource version after a Stored, Deleted, Unrelated or Replaced event. It is more than the last one,
	// except after Replaced.
	Version uint64
	// Pod is what a Stored event stores. No two versions of a pod have the same digests.
	Pod *manifest.Pod
	// UID is the pod of a Deleted event.
	UID string
	// To is the moment to which a Restored event goes back, in the same cluster.
	To int
	// Cluster is the cluster of a Replaced event. No two have the same.
	Cluster string
}

// Truth is the log of an API server. Its moments are numbered: moment n is the state after n events. A later moment is a
// later state, also if the cluster's history went back in between, and its resource version with it.
type Truth struct{ moments []truthMoment }

// truthMoment is one state of the API server. It never changes.
type truthMoment struct {
	kind    EventKind
	at      time.Time
	cluster string
	version uint64
	// pods are by UID.
	pods map[string]*manifest.Pod
	// settled is the last moment, not later than this one, whose event was about pods.
	settled int
}

// NewTruth returns the log of an API server without pods.
func NewTruth(cluster string) *Truth {
	return &Truth{moments: []truthMoment{{kind: Replaced, cluster: cluster, version: 1, pods: map[string]*manifest.Pod{}}}}
}

// Now returns the last moment.
func (t *Truth) Now() int { return len(t.moments) - 1 }

// Append adds an event.
func (t *Truth) Append(e TruthEvent) {
	last := t.moments[t.Now()]
	next := truthMoment{kind: e.Kind, at: e.At, cluster: last.cluster, version: e.Version, settled: len(t.moments)}
	switch e.Kind {
	case Stored, Deleted:
		next.pods = make(map[string]*manifest.Pod, len(last.pods)+1)
		for uid, p := range last.pods {
			if uid != e.UID {
				next.pods[uid] = p
			}
		}
		if e.Kind == Stored {
			next.pods[string(e.Pod.UID)] = e.Pod
		}
	case Unrelated:
		next.pods, next.settled = last.pods, last.settled
	case Restored:
		next.pods, next.version = t.moments[e.To].pods, t.moments[e.To].version
	case Replaced:
		next.pods, next.cluster = map[string]*manifest.Pod{}, e.Cluster
	}
	t.moments = append(t.moments, next)
}

// Reached returns the last moment up to a resource version of the one cluster.
func (t *Truth) Reached(version uint64) int {
	after, _ := slices.BinarySearchFunc(t.moments, version, func(m truthMoment, v uint64) int {
		if m.version <= v {
			return -1
		}
		return 1
	})
	return max(0, after-1)
}

// Pods returns the pods at a moment, by UID. The map must not be changed.
func (t *Truth) Pods(moment int) map[string]*manifest.Pod { return t.moments[moment].pods }

// Version returns the resource version at a moment.
func (t *Truth) Version(moment int) uint64 { return t.moments[moment].version }

// Cluster returns the cluster at a moment.
func (t *Truth) Cluster(moment int) string { return t.moments[moment].cluster }

// Settled returns the last moment, not later than the given one, whose event was about pods: the pods are the same.
func (t *Truth) Settled(moment int) int { return t.moments[moment].settled }

// Broken reports whether the history went back, or the cluster was replaced, after one moment and not after the other: no
// watch leads from one to the other.
func (t *Truth) Broken(after, to int) bool {
	for _, m := range t.moments[after+1 : to+1] {
		if m.kind == Restored || m.kind == Replaced {
			return true
		}
	}
	return false
}

// before returns the moment of a time.
func (t *Truth) before(at time.Time) int {
	moment := 0
	for n, m := range t.moments {
		if !m.at.After(at) {
			moment = n
		}
	}
	return moment
}

// had reports whether the pod had that version at one of the moments.
func (t *Truth) had(uid, spec, status string, from, to int) bool {
	for n := from; n <= to; n++ {
		if p := t.moments[n].pods[uid]; p != nil && p.SpecDigest == spec && p.StatusDigest == status {
			return true
		}
	}
	return false
}

// lacked reports whether there was no pod with that UID at one of the moments.
func (t *Truth) lacked(uid string, from, to int) bool {
	for n := from; n <= to; n++ {
		if t.moments[n].pods[uid] == nil {
			return true
		}
	}
	return false
}
