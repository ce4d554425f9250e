package robustness

import (
	"slices"
	"time"
)

// Pod is one version of a pod as the oracle has it. It never changes.
type Pod struct {
	UID, Namespace, Name     string
	Source, Origin           string
	SpecDigest, StatusDigest string
	// Seen is when its source was read that had the pod first.
	Seen time.Time
	// Stale is set if its source hasn't spoken since the daemon started.
	Stale            bool
	Deleting, Mirror bool
	Node             string
	Labels           map[string]string
	// Changed is the revision that the version is of. That a pod is no longer stale, or in another origin, is no new
	// version.
	Changed uint64
}

// continues reports whether p is a later version of the pod old, which has the same UID: with another source or name
// it is another pod.
func (p *Pod) continues(old *Pod) bool {
	return old.Source == p.Source && old.Name == p.Name && old.Namespace == p.Namespace
}

// same reports whether consumers see no difference between the two versions but, perhaps, that one is stale.
func (p *Pod) same(old *Pod) bool {
	return p.continues(old) && p.SpecDigest == old.SpecDigest && p.StatusDigest == old.StatusDigest
}

// State is what should be true at one revision. It never changes.
type State struct {
	// Pods are those that are served, by UID.
	Pods map[string]*Pod
	// Sources are the configured ones, in order of priority.
	Sources []SourceState
	// Complete are the sources, configured or not, all of whose pods have been known at some time of this store.
	Complete map[string]bool
}

// SourceState is what should be true of one source.
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

// settled reports whether a pod of that source that isn't there is gone for good: the source is ready; or it is
// configured no longer, and all others are ready.
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
