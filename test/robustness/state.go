package robustness

import (
	"slices"
	"time"
)

// Pod is one version of a pod in the oracle. It never changes.
type Pod struct {
	UID, Namespace, Name     string
	Source, Origin           string
	SpecDigest, StatusDigest string
	// Seen is the read time of the source that first had the pod.
	Seen time.Time
	// Stale is set if its source hasn't delivered a set since the daemon started.
	Stale            bool
	Deleting, Mirror bool
	Node             string
	Labels           map[string]string
	// Changed is the revision of the version. If a pod is no longer stale, or is in another origin, that is no
	// new version.
	Changed uint64
}

// continues reports whether p is a later version of the pod old, which has the same UID. With another source or
// name it is another pod.
func (p *Pod) continues(old *Pod) bool {
	return old.Source == p.Source && old.Name == p.Name && old.Namespace == p.Namespace
}

// same reports whether consumers see no difference between the two versions, except perhaps that one is stale.
func (p *Pod) same(old *Pod) bool {
	return p.continues(old) && p.SpecDigest == old.SpecDigest && p.StatusDigest == old.StatusDigest
}

// State is the expected state at one revision. It never changes.
type State struct {
	// Pods are the served pods, by UID.
	Pods map[string]*Pod
	// Sources are the configured sources, in order of priority.
	Sources []SourceState
	// Complete are the sources, configured or not, all of whose pods have been known at some time with this
	// store.
	Complete map[string]bool
}

// SourceState is the expected state of one source.
type SourceState struct {
	Name  string
	Ready bool
}

// Ready reports whether the source is ready.
func (s *State) Ready(source string) bool {
	return slices.Contains(s.Sources, SourceState{Name: source, Ready: true})
}

// configured reports whether the source is configured.
func (s *State) configured(source string) bool {
	return slices.ContainsFunc(s.Sources, func(src SourceState) bool { return src.Name == source })
}

// settled reports whether a missing pod of that source is gone for good: the source is ready; or it is no
// longer configured, and all others are ready.
func (s *State) settled(source string) bool {
	all := true
	for _, src := range s.Sources {
		if src.Name == source {
			return src.Ready
		}
		all = all && src.Ready
	}
	return all
}
