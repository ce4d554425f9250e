package view

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Config says what a consumer asked for, and what its role lets it see. The zero value is incremental and sees everything.
type Config struct {
	// Mode is how changes are put into ops. Unspecified means incremental.
	Mode podconfigv1.NotificationMode
	// Filter selects pods. Nil selects all.
	Filter *podconfigv1.PodFilter
	// Nodes and Sources are the scope of the caller's role, whatever it filters by. Empty: all of them.
	Nodes, Sources []string
	// Redacted is set if the caller gets pods without what may be secret in them. Ops come of whole pods nevertheless.
	Redacted bool
}

// View is what one consumer sees.
type View struct {
	mode     podconfigv1.NotificationMode
	redacted bool
	hash     string
	// A pod must be in all of them, and match the selector.
	sources, nodes, namespaces, names set
	selector                          labels.Selector
	// scope are the nodes of the role's scope alone.
	scope set
}

// New returns the View. An error names the field of the request that can't be understood.
func New(cfg Config) (*View, error) {
	mode := cfg.Mode
	if mode == podconfigv1.NotificationMode_NOTIFICATION_MODE_UNSPECIFIED {
		mode = podconfigv1.NotificationMode_NOTIFICATION_MODE_INCREMENTAL
	}
	if _, ok := podconfigv1.NotificationMode_name[int32(mode)]; !ok {
		return nil, fmt.Errorf("mode: %d isn't known", mode)
	}
	selector, err := labels.Parse(cfg.Filter.GetLabelSelector())
	if err != nil {
		return nil, fmt.Errorf("filter.label_selector: %w", err)
	}
	v := &View{
		mode: mode, redacted: cfg.Redacted, selector: selector,
		sources:    newSet(cfg.Sources).and(newSet(cfg.Filter.GetSources())),
		nodes:      newSet(cfg.Nodes).and(newSet(cfg.Filter.GetNodes())),
		namespaces: newSet(cfg.Filter.GetNamespaces()),
		names:      newSet(cfg.Filter.GetNames()),
	}
	v.scope = newSet(cfg.Nodes)
	v.hash = cfg.hash(mode, selector)
	return v, nil
}

// hash is of all that decides which ops a consumer gets. What isn't asked for doesn't count, so that cursors outlive a version
// that learns to ask for more.
func (cfg Config) hash(mode podconfigv1.NotificationMode, selector labels.Selector) string {
	h := sha256.New()
	fmt.Fprint(h, mode)
	field := func(name string, values []string) {
		if values = slices.Sorted(maps.Keys(newSet(values))); len(values) > 0 {
			fmt.Fprintf(h, "\n%s=%q", name, values)
		}
	}
	var wanted []string
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		wanted = append(wanted, r.String())
	}
	field("sources", cfg.Filter.GetSources())
	field("nodes", cfg.Filter.GetNodes())
	field("namespaces", cfg.Filter.GetNamespaces())
	field("names", cfg.Filter.GetNames())
	field("labels", wanted)
	field("scope.sources", cfg.Sources)
	field("scope.nodes", cfg.Nodes)
	if cfg.Redacted {
		field("redacted", []string{"true"})
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Hash is 16 hex digits for cursors: equal for equal views, whatever the order of a filter's entries and how often each is said.
func (v *View) Hash() string { return v.hash }

// Mode is never unspecified.
func (v *View) Mode() podconfigv1.NotificationMode { return v.mode }

// Redacted is as in Config.
func (v *View) Redacted() bool { return v.redacted }

// Digests are those that the consumer gets of the pod, and so the only ones to compare with what it says it has: whoever gets
// redacted pods could test guesses of a secret against the others. Both are empty if the pod can't be redacted: then nothing is
// equal to it.
func (v *View) Digests(p *revision.Pod) (spec, status string) {
	if !v.redacted {
		return p.SpecDigest, p.StatusDigest
	}
	r, err := p.Redacted()
	if err != nil {
		return "", ""
	}
	return r.SpecDigest, r.StatusDigest
}

// Everything tells whether the consumer gets each revision as it is: incremental, without filter or scope.
func (v *View) Everything() bool {
	return !v.Snapshots() && v.Fixed() && v.sources == nil && v.namespaces == nil && v.names == nil
}

// Snapshots tells whether pods that come and go are told by a SET.
func (v *View) Snapshots() bool {
	return v.mode != podconfigv1.NotificationMode_NOTIFICATION_MODE_INCREMENTAL
}

// Fixed tells whether a pod never comes into the view or leaves it as long as it lives: neither labels nor nodes matter, and all
// else that a filter asks for stays the same under one UID and source.
func (v *View) Fixed() bool { return v.nodes == nil && v.selector.Empty() }

// Sees tells whether pods of the source may be in the view.
func (v *View) Sees(source string) bool { return v.sources.has(source) }

// MayMatch tells whether the view may hold a pod of which no more is known than this. An empty name: not even its name is known.
func (v *View) MayMatch(source, namespace, name string) bool {
	return v.Sees(source) && (name == "" || v.namespaces.has(namespace) && v.names.has(name))
}

// InScope tells whether the caller may know of the pod at all, as far as its node goes. A pod is bound to one node for good, so what
// is on another node now was never told.
func (v *View) InScope(p *revision.Pod) bool { return v.scope.has(p.Object.Spec.NodeName) }

// Matches tells whether the consumer sees this version of the pod.
func (v *View) Matches(p *revision.Pod) bool {
	return v.sources.has(p.Source) && v.nodes.has(p.Object.Spec.NodeName) && v.namespaces.has(p.Object.Namespace) &&
		v.names.has(p.Object.Name) && v.selector.Matches(labels.Set(p.Object.Labels))
}

// Pods are those that match, in the same order: all itself if they all do.
func (v *View) Pods(all []*revision.Pod) []*revision.Pod {
	return matching(all, v.Matches)
}

// Sources are those that the consumer may know of: those of its scope that its filter asks for.
func (v *View) Sources(s history.Sources) history.Sources {
	return matching(s, func(src history.Source) bool { return v.Sees(src.Name) })
}

// matching copies all only if something has to be left out.
func matching[S ~[]E, E any](all S, match func(E) bool) S {
	out := slices.IndexFunc(all, func(e E) bool { return !match(e) })
	if out < 0 {
		return all
	}
	left := slices.Clone(all[:out])
	for _, e := range all[out+1:] {
		if match(e) {
			left = append(left, e)
		}
	}
	return left
}

// set is a set of wanted values; nil wants all.
type set map[string]bool

func newSet(values []string) set {
	if len(values) == 0 {
		return nil
	}
	s := set{}
	for _, v := range values {
		s[v] = true
	}
	return s
}

func (s set) has(value string) bool { return s == nil || s[value] }

// and wants what both want.
func (s set) and(other set) set {
	switch {
	case s == nil:
		return other
	case other == nil:
		return s
	}
	both := set{}
	for v := range s {
		if other[v] {
			both[v] = true
		}
	}
	return both
}
